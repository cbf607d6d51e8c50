# GNU General Public License v3.0 or later (see LICENSE)
"""Two real hosts, driver and server apart: measured as a user would, put back, and everything that can happen on the way."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.e2e import REPOSITORY, Run, codes, read
from support.modules import wait_for
from support.testbed import BED, HOSTS, INVENTORY, SHORT, Bed, RemotePlace, raised


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    yield from raised()


@pytest.fixture(scope="session")
def before(bed: Bed) -> dict[str, dict[str, str]]:
    """What both hosts were before anything of ours ran."""
    return {host: bed.state(host) for host in HOSTS}


@pytest.fixture(scope="session")
def remote(bed: Bed, before: dict[str, dict[str, str]]) -> Iterator[RemotePlace]:
    """Results of their own; the hosts are put back at the end, and are then as they were."""
    here = RemotePlace()
    yield here
    here.run(INVENTORY, playbook="playbooks/teardown.yml")
    for host, was in before.items():
        now = bed.state(host)
        assert {what: set(now[what].splitlines()) ^ set(was[what].splitlines()) for what in was} == {what: set() for what in was}
    here.remove()


@pytest.fixture(scope="session")
def watched(remote: RemotePlace, bed: Bed) -> tuple[Run, dict[str, str]]:
    """The first run, packages, cluster, data set, one trial, and the processes that were seen on each host while it ran."""
    with bed.watched() as seen:
        run = remote.run(INVENTORY, *SHORT, "-vvv")
    return run, seen


@pytest.fixture(scope="session")
def measured(watched: tuple[Run, dict[str, str]]) -> Run:
    """The first run."""
    return watched[0]


def password(bed: Bed) -> str:
    return bed.on("db", "cut -d: -f5 /var/lib/pgsizing/clusters/*/pgpass").split()[0]


def test_C080_both_hosts_are_described_and_observed(measured: Run) -> None:
    [trial] = measured.trials.values()
    environment = trial["environment"]
    assert environment["server"]["hostname"] == "db"
    assert environment["driver"]["hostname"] == "driver"
    assert environment["server"]["machine_id"] != environment["driver"]["machine_id"]
    assert environment["driver_observation"]["cpu"]["cores"] >= 1
    assert (measured.directory / "trials" / trial["trial_id"] / environment["driver_observation"]["samples"]).is_file()
    assert "driver_on_server" not in codes(trial)
    assert trial["verdict"] in ("valid", "suspect")


def test_C073_the_password_is_in_a_file_on_the_server_and_nowhere_else(watched: tuple[Run, dict[str, str]], bed: Bed) -> None:
    measured, seen = watched
    secret = password(bed)
    assert bed.on("db", "stat -c %a /var/lib/pgsizing/clusters/*/pgpass").split() == ["600"]
    assert secret not in measured.output
    assert [p for p in measured.directory.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()] == []
    assert "initdb" in seen["db"]
    assert "pgbench" in seen["driver"]
    assert [host for host in HOSTS if secret in seen[host]] == []
    assert bed.on("driver", f"grep -rl {secret} /var/lib/pgsizing /root /tmp 2>/dev/null; true") == ""


def test_the_server_lets_in_the_driver_alone(measured: Run, bed: Bed) -> None:
    rules = bed.on("db", "grep '^host' /var/lib/pgsizing/clusters/*/data/pg_hba.conf").splitlines()
    assert [rule.split()[1:4] for rule in rules] == [
        ["all", "all", "127.0.0.1/32"],
        ["all", "all", "::1/128"],
        ["all", "pgsizing", f"{bed.addresses['driver']}/32"],
    ]
    assert measured.experiment["plan"]["where"]["driver"] == ["driver"]


def upgrades(bed: Bed, host: str) -> str:
    """Whether the host would begin to upgrade itself."""
    return bed.on(host, "systemctl is-active apt-daily-upgrade.timer; true").strip()


def test_nothing_runs_afterwards(measured: Run, bed: Bed) -> None:
    assert measured.journal["end"]["state"] == "finished"
    assert all(bed.idle(host) for host in HOSTS)
    assert [upgrades(bed, host) for host in HOSTS] == ["active", "active"]


def test_a_second_preparation_changes_nothing(measured: Run, remote: RemotePlace, tmp_path: Path) -> None:
    playbook = tmp_path / "prepare.yml"
    plays = [{"import_playbook": f"{REPOSITORY}/playbooks/{name}.yml"} for name in ("plan", "prepare")]
    playbook.write_text(json.dumps(plays))
    first = remote.run(INVENTORY, *SHORT, playbook=str(playbook))
    second = remote.run(INVENTORY, f"resume={first.id}", playbook=str(playbook))
    recap = [line.split() for line in second.output.splitlines() if line.startswith(("db ", "driver "))]
    assert [[word for word in line if word.startswith(("changed", "failed"))] for line in recap] == [["changed=0", "failed=0"]] * 2
    remote.run(INVENTORY, f"experiment_id={first.id}", playbook="playbooks/release.yml")


def start(remote: RemotePlace, *options: str) -> Run:
    """Start a run and wait until it measures."""
    run = remote.start(INVENTORY, *SHORT, "duration=20", *options)
    run.wait_step("measured")
    return run


def lease(bed: Bed, host: str) -> dict[str, object]:
    return json.loads(bed.on(host, "cat /var/lib/pgsizing/lease.json"))


def test_an_interrupt_frees_both_hosts(measured: Run, remote: RemotePlace, bed: Bed) -> None:
    run = start(remote)
    meanwhile = [upgrades(bed, host) for host in HOSTS]
    run.control_c()
    assert run.end() == 99
    assert meanwhile == ["inactive", "inactive"]
    assert "the hosts are free" in run.output
    assert all(bed.idle(host) for host in HOSTS)
    assert [lease(bed, host)["cause"] for host in HOSTS] == ["released", "released"]
    assert run.journal["end"]["state"] == "interrupted"


def test_a_killed_controller_and_its_run_collected(measured: Run, remote: RemotePlace) -> None:
    run = start(remote)
    run.signal(signal.SIGKILL)
    run.end()
    taken_up = remote.run(INVENTORY, f"resume={run.id}")
    [trial] = taken_up.trials.values()
    assert trial["verdict"] in ("valid", "suspect")
    assert taken_up.journal["trials"][trial["trial_id"]]["attempt"] == 1


def kill(bed: Bed, host: str, what: str) -> None:
    bed.on(host, f"kill -9 $(pgrep -o -x {what})")


def cut_network(bed: Bed) -> None:
    """For 20 seconds nothing goes from here to the driver."""
    for change in ("-I", "-D"):
        subprocess.run(["iptables", "-w", change, "OUTPUT", "-d", bed.addresses["driver"], "-j", "DROP"], check=True)
        if change == "-I":
            with pytest.raises(AssertionError):  # nothing is to come true: the cut lasts
                wait_for(lambda: False, 20)


#: What happens to the trial of a variant while it is measured, and what it is then.
FAULTS: dict[str, tuple[Callable[[Bed], object], tuple[str, ...]]] = {
    "driver-rebooted": (lambda bed: bed.podman("restart", "--time", "1", "tb-driver"), ("failed", "aborted")),
    "server-rebooted": (lambda bed: bed.podman("restart", "--time", "1", "tb-db"), ("failed", "aborted")),
    "postmaster-killed": (lambda bed: kill(bed, "db", "postgres"), ("aborted",)),
    "generator-killed": (lambda bed: kill(bed, "driver", "pgbench"), ("aborted",)),
    "connections-killed": (lambda bed: bed.on("driver", "pkill -x sshd -P $(pgrep -o -x sshd)", check=False), ("valid", "suspect")),
    "network-cut": (cut_network, ("valid", "suspect")),
}
CODES = {"postmaster-killed": "server_lost", "generator-killed": "run_aborted"}


@pytest.fixture(scope="session")
def troubled(measured: Run, remote: RemotePlace, bed: Bed) -> Run:
    """One experiment in which every trial but one meets its own trouble; loads last longer than their troubles."""
    variants = {"calm": {"duration": 3}, **{name: {"duration": 28 if name == "network-cut" else 10} for name in FAULTS}}
    run = remote.start(INVENTORY, *SHORT, {"variants": variants})
    run.wait(lambda: run.id and (run.directory / "experiment.json").exists())
    for planned in run.experiment["plan"]["trials"]:
        if planned["variant"] in FAULTS:
            run.wait_step("measured", planned["id"])
            FAULTS[planned["variant"]][0](bed)
    assert run.end() != 0, run.output
    return run


@pytest.mark.parametrize("what", ["calm", *FAULTS])
def test_each_trouble_has_its_verdict_and_touches_no_other_trial(what: str, troubled: Run) -> None:
    """What does not touch the load does not touch the trial."""
    trial = next(t for t in troubled.trials.values() if t["variant"] == what)
    assert trial["verdict"] in (FAULTS[what][1] if what in FAULTS else ("valid", "suspect")), trial["findings"]
    assert what not in CODES or CODES[what] in codes(trial)


def test_every_trial_is_reported_after_troubles(troubled: Run) -> None:
    report = (troubled.directory / "report.md").read_text()
    assert [what for what in ("calm", *FAULTS) if what not in report] == []
    assert troubled.journal["end"]["state"] == "failed"
    assert len(troubled.trials) == 1 + len(FAULTS)


def test_a_foreign_server_is_refused_with_port_and_clients(measured: Run, remote: RemotePlace, bed: Bed) -> None:
    server = "/usr/lib/postgresql/15/bin"
    bed.on(
        "db",
        f"cd / && runuser -u postgres -- {server}/initdb -D /tmp/foreign -A trust >/dev/null && runuser -u postgres -- {server}/pg_ctl "
        "-D /tmp/foreign -o '-p 5444 -k /tmp' -l /tmp/foreign.log -w start >/dev/null",
    )
    try:
        run = remote.run(INVENTORY, *SHORT, rc=2)
        assert "a PostgreSQL server runs on db on port 5444 (0 clients, data directory /tmp/foreign)" in run.words
        assert "-e share_host=true" in run.words
        assert remote.run(INVENTORY, *SHORT, "share_host=true").trials
    finally:
        bed.on("db", f"cd / && runuser -u postgres -- {server}/pg_ctl -D /tmp/foreign -m immediate stop; rm -rf /tmp/foreign*")


def test_edb_names_sudo_with_password_bastion_and_own_group_vars(measured: Run, remote: RemotePlace, bed: Bed, tmp_path: Path) -> None:
    secret = "correct horse battery"
    for host in HOSTS:
        bed.on(
            host,
            f"useradd -m -s /bin/bash ops && echo 'ops:{secret}' | chpasswd && usermod -aG sudo ops && "
            "install -d -o ops -m 700 /home/ops/.ssh && install -o ops -m 600 /root/.ssh/authorized_keys /home/ops/.ssh/",
        )
    config = "Host *\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
    (tmp_path / "ssh_config").write_text(f"{config}IdentityFile {BED}/key\n")  # the bastion reads it too
    ssh = f"-F {tmp_path}/ssh_config"
    jump = f"{ssh} -o ProxyJump=root@{bed.addresses['driver']}"
    inventory = {
        "primary": {
            "hosts": {
                "pgsql1.internal": {
                    "ansible_host": bed.addresses["db"],
                    "private_ip": bed.addresses["db"],
                    "hammerdb_server_private_ip": bed.addresses["driver"],
                    "ansible_ssh_common_args": jump,
                }
            }
        },
        "hammerdbserver": {"hosts": {"hammerdb1.internal": {"ansible_host": bed.addresses["driver"], "ansible_ssh_common_args": ssh}}},
    }
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory))
    (tmp_path / "group_vars").mkdir()
    variables = {
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": str(BED / "key"),
        "size": "huge",
        "target": "existing",
        "plan_clients": 3,
    }
    rights = {"ansible_become": True, "ansible_become_password": secret}
    for group in ("primary", "hammerdbserver"):
        (tmp_path / f"group_vars/{group}.yml").write_text(json.dumps(variables | rights))
    (tmp_path / "group_vars/all.yml").write_text(json.dumps({"size": "huge", "target": "existing", "plan_clients": 3}))
    groups = ("server_group=primary", "driver_group=hammerdbserver")
    short = [option for option in SHORT if not option.startswith("clients")]
    try:
        wrong = remote.run(f"--inventory={tmp_path}", *groups, *short, {"ansible_become_password": "wrong"}, rc=None)
        assert "sudo" in wrong.words.lower()
        with bed.watched() as seen:
            run = remote.run(f"--inventory={tmp_path}", *groups, *short, "-vvv")
        assert all("sudo" in seen[host] for host in HOSTS)
        assert [host for host in HOSTS if secret in seen[host]] == []
        [trial] = run.trials.values()
        assert trial["conditions"]["clients"] == 3
        assert run.experiment["plan"]["size"] == "local"
        assert secret not in run.output
        assert [p for p in run.directory.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()] == []
        lost = remote.run(f"--inventory={tmp_path}", "--check", rc=2)
        assert "its groups are: hammerdbserver, primary" in lost.words
    finally:
        for host in HOSTS:
            bed.on(host, "userdel -rf ops 2>/dev/null; groupdel ops 2>/dev/null; rm -rf /home/ops; true")


def volume(bed: Bed, size: str, *names: str) -> None:
    """Loop files of the server that stand for volumes, as /dev/disk/by-id/tb-<name>."""
    for name in names:
        make = f"truncate -s {size} /srv/{name}.img; ln -sf $(losetup -f --show /srv/{name}.img) /dev/disk/by-id/tb-{name}"
        bed.on("db", f"mkdir -p /dev/disk/by-id; {make}")


def loose(bed: Bed, *names: str) -> None:
    for name in names:
        bed.on("db", f"losetup -d $(readlink -f /dev/disk/by-id/tb-{name}); rm -f /srv/{name}.img", check=False)
    bed.on("db", "rm -rf /dev/disk")


def test_a_dump_two_scripts_volumes_and_the_kernel(measured: Run, remote: RemotePlace, bed: Bed, tmp_path: Path) -> None:
    dump = tmp_path / "app.sql"
    dump.write_text(
        "CREATE TABLE orders(id bigserial primary key, customer int, amount numeric);\nALTER TABLE orders OWNER TO app;\n"
        "INSERT INTO orders(customer, amount) SELECT i % 200, i FROM generate_series(1, 20000) i;\n"
    )
    (tmp_path / "checkout.sql").write_text("\\set c random(1, 200)\nINSERT INTO orders(customer, amount) VALUES (:c, 1.5);\n")
    (tmp_path / "look.sql").write_text("\\set c random(1, 200)\nSELECT sum(amount) FROM orders WHERE customer = :c;\n")
    swappiness = bed.on("db", "cat /proc/sys/vm/swappiness")
    volume(bed, "1G", "data", "wal")
    options = {
        "workload": "pgbench",
        "dataset": {"dump": str(dump)},
        "scripts": [{"file": str(tmp_path / "checkout.sql"), "weight": 7}, {"file": str(tmp_path / "look.sql"), "weight": 3}],
        "variants": {"base": {}, "async": {"gucs": {"synchronous_commit": "off"}}},
        "gucs": {"shared_buffers": "64MB", "max_wal_size": "256MB", "min_wal_size": "80MB"},
        "storage": {"data": {"devices": ["/dev/disk/by-id/tb-data"]}, "wal": {"devices": ["/dev/disk/by-id/tb-wal"]}},
        "kernel": {"swappiness": 10, "huge_pages": "auto"},
        "share_host": True,
        "duration": 4,
        "ramp_up": 0,
        "clients": 2,
        "repeats": 3,
        "keep": "nothing",
    }
    try:
        run = remote.run(INVENTORY, options)
        assert [t["variant"] for t in run.trials.values()].count("async") == 3
        for trial in run.trials.values():
            assert [s["name"] for s in trial["latency"]["scripts"]] == ["checkout.sql", "look.sql"]
            # They are reserved; on the kernel that the bed shares, servers of other tests may take them before ours does.
            assert trial["environment"]["server"]["huge_pages"]["total"] > 0
        assert bed.on("db", "cat /proc/sys/vm/swappiness") == swappiness
        assert bed.on("db", "blkid -p /dev/disk/by-id/tb-data /dev/disk/by-id/tb-wal; true") == ""
        assert "pgsizing" not in bed.on("db", "cat /proc/self/mounts")
    finally:
        bed.on(
            "db", "for d in data wal; do losetup -d $(readlink -f /dev/disk/by-id/tb-$d); done; rm -rf /srv/*.img /dev/disk", check=False
        )


def restart(bed: Bed, swappiness: str) -> None:
    """Restart the server; its kernel is this machine's, which a restart would give its own settings back."""
    bed.podman("restart", "--time", "1", "tb-db")
    bed.on_again("db")
    bed.on("db", f"echo {swappiness} > /proc/sys/vm/swappiness")


def made(trial: dict[str, Any]) -> tuple[int, str]:
    """What a trial had of the settings below: swappiness, and where the file system of the data is mounted."""
    server = trial["environment"]["server"]
    return server["sysctl"]["vm.swappiness"], server["filesystems"]["data"]["mountpoint"]


@pytest.mark.extra
def test_what_a_restart_of_the_server_undoes_is_made_again(measured: Run, remote: RemotePlace, bed: Bed) -> None:
    """Before the next trial; put back at the end is what was before the first."""
    swappiness = bed.on("db", "cat /proc/sys/vm/swappiness").strip()
    wanted = f"{int(swappiness) + 3}"
    volume(bed, "1G", "data")
    device = bed.on("db", "readlink -f /dev/disk/by-id/tb-data").strip()
    link = f"mkdir -p /dev/disk/by-id; ln -sf {device} /dev/disk/by-id/tb-data"
    unit = f"[Unit]\nBefore=ssh.service\n[Service]\nType=oneshot\nExecStart=/bin/sh -c '{link}'\n[Install]\nWantedBy=multi-user.target\n"
    bed.on("db", f"printf %s {shlex.quote(unit)} > /etc/systemd/system/tb-link.service; systemctl -q enable tb-link.service")
    options = {
        "storage": {"data": {"devices": ["/dev/disk/by-id/tb-data"]}},
        "gucs": {"max_wal_size": "256MB", "min_wal_size": "80MB"},
        "kernel": {"swappiness": int(wanted)},
        "share_host": True,
        "variants": {"before": {"duration": 10}, "after": {"duration": 4}},
    }
    try:
        run = remote.start(INVENTORY, *SHORT, options, "keep=nothing")
        run.wait(lambda: run.id and (run.directory / "experiment.json").exists())
        first, second = [planned["id"] for planned in run.experiment["plan"]["trials"]]
        run.wait_step("measured", first)
        restart(bed, swappiness)
        assert run.end() != 0
        assert run.trials[first]["verdict"] in ("failed", "aborted")
        assert run.trials[second]["verdict"] in ("valid", "suspect"), run.trials[second]["findings"]
        assert made(run.trials[second]) == (int(wanted), "/var/lib/pgsizing/clusters")
        assert ["host_restarted" in codes(run.trials[k]) for k in (first, second)] == [False, True]
        assert bed.on("db", "cat /proc/sys/vm/swappiness").strip() == swappiness
        assert bed.on("db", "blkid -p /dev/disk/by-id/tb-data; true") == ""
    finally:
        bed.on("db", f"systemctl -q disable tb-link.service; rm -f /etc/systemd/system/tb-link.service; {link}", check=False)
        loose(bed, "data")


def test_huge_pages_not_to_be_had(measured: Run, remote: RemotePlace, bed: Bed) -> None:
    """One page fewer than the memory is: the plan cannot refuse it, the host does."""
    pages = "cat /proc/sys/vm/nr_hugepages"
    before = bed.on("db", pages)
    most = int(
        bed.on("db", """awk '$1 == "MemTotal:" { m = $2 } $1 == "Hugepagesize:" { p = $2 } END { print int(m / p) - 1 }' /proc/meminfo""")
    )
    run = remote.run(INVENTORY, *SHORT, {"kernel": {"huge_pages": most}, "share_host": True}, rc=2)
    assert f"db could not give {most} huge pages of 2 MB, only {before.strip()}, with" in run.words
    assert bed.on("db", pages) == before
    assert not run.trials


def test_a_full_disk_is_said(measured: Run, remote: RemotePlace, bed: Bed) -> None:
    bed.on(
        "db", "mkdir -p /dev/disk/by-id; truncate -s 400M /srv/full.img; ln -sf $(losetup -f --show /srv/full.img) /dev/disk/by-id/tb-full"
    )
    storage = {"storage": {"data": {"devices": ["/dev/disk/by-id/tb-full"]}}, "gucs": {"max_wal_size": "64MB", "min_wal_size": "32MB"}}
    try:
        run = remote.start(INVENTORY, *SHORT, storage, "duration=30", "keep=nothing")
        run.wait_step("measured")
        bed.on(
            "db",
            "fallocate -l 1G /var/lib/pgsizing/clusters/fill || dd if=/dev/zero of=/var/lib/pgsizing/clusters/fill bs=1M; true",
            check=False,
        )
        assert run.end() != 0
        [trial] = run.trials.values()
        assert trial["verdict"] in ("failed", "aborted")
        said = json.dumps(trial["findings"]) + (run.directory / "trials" / trial["trial_id"] / "raw/server.log").read_text(errors="replace")
        assert "No space left on device" in said
    finally:
        loose(bed, "full")


def test_the_journal_is_read_by_its_schema(measured: Run) -> None:
    assert read(measured.directory / "experiment.json")["plan"]["where"]["provider"] == "inventory"
