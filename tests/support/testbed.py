# GNU General Public License v3.0 or later (see LICENSE)
"""The two-host test-bed for tests: raised once, and what can happen to its hosts."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.e2e import REPOSITORY, Place
from support.modules import wait_for

BED = REPOSITORY / ".cache/testbed"
SCRIPT = REPOSITORY / "tests/testbed/testbed.sh"
HOSTS = ("db", "driver")
SSH = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
INVENTORY = "--inventory=inventories/testbed"
#: The least that still is a measurement, on two hosts.
SHORT = ("workload=pgbench", "duration=5", "ramp_up=0", "clients=2", "scale=1", "repeats=1")
#: Looks at all processes until its standard input ends, then prints what it has seen, each once.
WATCH = """
import glob, select, sys
seen = set()
while not select.select([sys.stdin], [], [], 0.02)[0]:
    for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
        try:
            seen.add(open(path, "rb").read())
        except OSError:
            pass
print("\\n".join(text.replace(b"\\0", b" ").decode("utf-8", "replace") for text in sorted(seen)))
"""


class Bed:
    """The raised test-bed. Addresses by host."""

    def __init__(self) -> None:
        net = (BED / "net").read_text().strip()
        self.addresses = {"db": f"{net}.11", "driver": f"{net}.12"}

    def _ssh(self, host: str, command: str) -> list[str]:
        return ["ssh", "-i", str(BED / "key"), *SSH, "-o", "ConnectTimeout=5", f"root@{self.addresses[host]}", command]

    def on(self, host: str, command: str, check: bool = True) -> str:
        """Run a command as root on a host; return what it printed."""
        done = subprocess.run(self._ssh(host, command), capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0 or not check, f"{host}: {command}: {done.stderr}"
        return done.stdout

    def on_again(self, host: str) -> None:
        """Wait until a restarted host answers."""
        wait_for(lambda: subprocess.run(self._ssh(host, "true"), capture_output=True, timeout=60, check=False).returncode == 0, 60)

    def podman(self, *words: str) -> str:
        """Do something to the hosts from outside, as a power button would."""
        environment = {"CONTAINERS_CONF": str(BED / "containers.conf"), "CONTAINERS_STORAGE_CONF": str(BED / "storage.conf")}
        done = subprocess.run(
            ["podman", "--log-level=error", *words], env=os.environ | environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def state(self, host: str) -> dict[str, str]:
        """What of a host a run may change, and a teardown has to put back."""
        looks = {
            "packages": "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' | sort",
            "sources": "cat /etc/apt/sources.list; ls /etc/apt/sources.list.d /etc/apt/keyrings",
            # Debian's packages leave the users that they make: those two are the distribution's, not ours.
            "users": "getent passwd | grep -v ^postgres:; getent group | grep -vE '^(postgres|ssl-cert):'",
            "kernel": "sysctl -a 2>/dev/null | grep -E '^vm\\.(swappiness|dirty|overcommit|nr_huge|zone)'; "
            "cat /sys/kernel/mm/transparent_hugepage/enabled",
            "mounts": "awk '{ print $1, $2, $3 }' /proc/self/mounts | sort",
            "units": "ls /run/systemd/system",
            "ours": "ls -A /var/lib/pgsizing 2>/dev/null; true",
            "configuration": "find /etc/postgresql-common /etc/postgresql -type f 2>/dev/null | sort",
        }
        return {name: self.on(host, command) for name, command in looks.items()}

    @contextmanager
    def watched(self) -> Iterator[dict[str, str]]:
        """Collect command lines and environments of all processes of each host; once the block has ended they are in the dict."""
        watches = {
            host: subprocess.Popen(
                self._ssh(host, f"python3 -c {shlex.quote(WATCH)}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for host in HOSTS
        }
        seen: dict[str, str] = {}
        try:
            yield seen
        finally:
            for host, watch in watches.items():
                seen[host] = watch.communicate(timeout=60)[0]

    def idle(self, host: str) -> bool:
        """Whether nothing of ours runs on a host."""
        return not self.on(host, "pgrep -x 'postgres|pgbench'; true").strip()


def raised() -> Iterator[Bed]:
    """Raise the test-bed for a fixture, and remove it; skip where it cannot be."""
    why = subprocess.run([str(SCRIPT), "check"], capture_output=True, text=True, check=False)
    if why.returncode == 3:
        pytest.skip(why.stderr.strip())
    subprocess.run([str(SCRIPT), "up"], check=True)
    yield Bed()
    subprocess.run([str(SCRIPT), "down"], check=True)
    assert sorted(p.name for p in BED.iterdir()) == ["key", "key.pub", "rootfs"]


class RemotePlace(Place):
    """Results here, everything else on the hosts of the test-bed: base directory and port are the defaults there."""

    patience_s = 900.0  # packages are installed on fresh hosts

    def own_options(self) -> dict[str, object]:
        return {"results_dir": str(self.results)}
