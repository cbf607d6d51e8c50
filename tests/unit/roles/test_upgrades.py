# GNU General Public License v3.0 or later (see LICENSE)
"""Which upgrades of a host's own are held and freed, with stand-ins for systemctl and cloud-init that write down what they are told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "roles/postgres/files/upgrades.sh"
#: Units that are active or may be started; apt-daily.service is at work when it is first asked for.
SYSTEMCTL = """
echo "$*" >>"$0.log"
case "$*" in
  *is-active*apt-daily.timer | *is-active*dnf-makecache.timer) exit 0 ;;
  "is-active apt-daily.service") if [ -e "$0.asked" ]; then echo inactive; else echo activating; touch "$0.asked"; fi ;;
  "is-enabled packagekit.service") echo PACKAGEKIT ;;
  *is-active*) exit 3 ;;
esac
"""


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    programs = {"systemctl": SYSTEMCTL, "sleep": 'echo "sleep $*" >>"${0%sleep}systemctl.log"', "cloud-init": "echo status: done"}
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(bin_dir: Path, *words: str) -> list[str]:
    """Run the script; return what it printed."""
    environment = {"PATH": f"{bin_dir}:/usr/bin:/bin"}
    done = subprocess.run(["sh", str(SCRIPT), *words], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def told(bin_dir: Path) -> list[str]:
    return (bin_dir / "systemctl.log").read_text().splitlines()


@pytest.mark.parametrize(("packagekit", "more"), [("static", ["packagekit.service"]), ("masked", []), ("masked-runtime", []), ("", [])])
def test_what_may_start_upgrades_is_found(bin_dir: Path, packagekit: str, more: list[str]) -> None:
    (bin_dir / "systemctl").write_text("#!/bin/sh\n" + SYSTEMCTL.replace("PACKAGEKIT", packagekit))
    assert run(bin_dir, "look") == ["apt-daily.timer", "dnf-makecache.timer", *more]


def test_C064_the_first_boot_is_waited_for(bin_dir: Path) -> None:
    (bin_dir / "cloud-init").write_text('#!/bin/sh\necho "$*" >>"$0.log"\necho "status: running"\n')
    run(bin_dir, "look")
    assert (bin_dir / "cloud-init.log").read_text().splitlines() == ["status", "status --wait"]


def test_C064_timers_are_stopped_and_masked_until_a_restart_and_a_running_upgrade_is_waited_for(bin_dir: Path) -> None:
    run(bin_dir, "hold", "apt-daily.timer", "packagekit.service")
    assert told(bin_dir) == [
        "stop apt-daily.timer",
        "--quiet --runtime mask apt-daily.timer",
        "--quiet --runtime mask packagekit.service",
        "is-active apt-daily.service",
        "sleep 2",
        "is-active apt-daily.service",
        "is-active packagekit.service",
    ]


def test_C064_they_are_let_start_again(bin_dir: Path) -> None:
    run(bin_dir, "free", "apt-daily.timer", "packagekit.service")
    assert told(bin_dir) == [
        "--quiet --runtime unmask apt-daily.timer",
        "start apt-daily.timer",
        "--quiet --runtime unmask packagekit.service",
    ]
