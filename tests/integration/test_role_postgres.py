# GNU General Public License v3.0 or later (see LICENSE)
"""The role ``postgres`` on this machine, through ``ansible-playbook``: as root and as an unprivileged caller."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES

ROOT = Path(__file__).parents[2]
ROLE = ROOT / "roles" / "postgres"
UNPRIVILEGED = "nobody"
IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can run servers as another user")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Run:
    """What one ``ansible-playbook`` did: ``seen`` has one entry per role step, ``{cluster, findings}`` or ``{failed}``."""

    def __init__(self, done: subprocess.CompletedProcess[str], seen: list[dict[str, Any]]) -> None:
        self.rc, self.output, self.seen = done.returncode, done.stdout + done.stderr, seen
        recap = re.search(r"^target\s*:.* changed=(\d+)", self.output, re.MULTILINE)
        self.changed = int(recap.group(1)) if recap else None

    @property
    def cluster(self) -> dict[str, Any]:
        return self.seen[-1]["cluster"]

    @property
    def failed(self) -> str:
        return " ".join(self.seen[-1]["failed"].split())


class Host:
    """This machine as the target of plays, with a base directory and port of its own, hence a system user too."""

    def __init__(self, scratch: Path, *, root: bool) -> None:
        self.scratch, self.root = scratch, root
        self.base_dir = scratch / "b"
        self.vars: dict[str, Any] = {"postgres_base_dir": str(self.base_dir), "postgres_port": free_port()}
        if root:
            self.user = f"pgsizing-{hashlib.sha1(str(self.base_dir).encode()).hexdigest()[:8]}"
        else:
            self.user = UNPRIVILEGED if IS_ROOT else pwd.getpwuid(os.getuid()).pw_name
            self.base_dir.mkdir()
            if IS_ROOT:
                shutil.chown(self.base_dir, self.user)

    def play(self, *steps: str | dict[str, Any] | tuple[str, dict[str, Any]], check: bool = False) -> Run:
        """Run steps in one play: an entry point of the role, such an entry point with variables, or a plain task."""
        tasks: list[dict[str, Any]] = []
        for step in steps:
            if isinstance(step, dict):
                tasks.append(step)
                continue
            entry, variables = (step, {}) if isinstance(step, str) else step
            result = {"cluster": "{{ postgres_cluster | default(none) }}", "findings": "{{ postgres_findings | default([]) }}"}
            tasks.append(
                {
                    "name": "Step",
                    "block": [
                        {
                            "ansible.builtin.include_role": {"name": "pgsizing.bench.postgres", "tasks_from": entry},
                            "vars": {**self.vars, **variables},
                        },
                        {"ansible.builtin.set_fact": {"seen": "{{ seen + [one] }}"}, "vars": {"one": result}},
                    ],
                    "rescue": [
                        {
                            "ansible.builtin.set_fact": {"seen": "{{ seen + [one] }}"},
                            "vars": {"one": {"failed": "{{ ansible_failed_result.msg }}"}},
                        }
                    ],
                }
            )
        out = self.scratch / "seen.json"
        out.unlink(missing_ok=True)
        tasks.append(
            {
                "ansible.builtin.copy": {"content": "{{ seen | to_json }}", "dest": str(out), "mode": "0600"},
                "delegate_to": "localhost",
                "changed_when": False,
                "check_mode": False,
            }
        )
        playbook = self.scratch / "play.yml"
        playbook.write_text(json.dumps([{"hosts": "target", "gather_facts": False, "vars": {"seen": []}, "tasks": tasks}]))
        connection: dict[str, Any] = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
        if IS_ROOT and not self.root:
            connection |= {
                "ansible_become": True,
                "ansible_become_user": self.user,
                "ansible_become_method": "su",
                "ansible_become_flags": "-s /bin/sh",
            }
        inventory = self.scratch / "hosts.yml"
        inventory.write_text(json.dumps({"all": {"hosts": {"target": connection}}}))
        env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PG"))}
        env |= {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.timer", "ANSIBLE_NOCOLOR": "1"}
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), str(playbook), *(["--check"] if check else [])]
        done = subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        run = Run(done, json.loads(out.read_text()) if out.exists() else [])
        assert run.rc == 0, run.output
        return run

    def main(self, **variables: Any) -> Run:
        run = self.play(("main", variables))
        assert "cluster" in run.seen[0], run.seen
        return run

    def restore(self) -> dict[str, Any]:
        return json.loads((self.base_dir / "restore.json").read_text())

    def servers(self) -> list[int]:
        """Process ids of the running postmasters under the base directory."""
        pids = []
        for proc in Path("/proc").glob("[0-9]*"):
            try:
                inside = str((proc / "cwd").readlink()).startswith(f"{self.base_dir}/")
                name = (proc / "comm").read_text().strip()
                parent = int((proc / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if inside and name == "postgres":
                pids.append((int(proc.name), parent))
        return [pid for pid, parent in pids if parent not in [other for other, _ in pids]]


def sql(cluster: dict[str, Any], statement: str, *, password: bool = True) -> str:
    """Run a statement as the superuser and return what psql prints."""
    argv = [f"{cluster['bin_dir']}/psql", "-XAtw", "-h", cluster["socket_dir"], "-p", str(cluster["port"]), "-U", cluster["user"]]
    env = {"PGPASSFILE": cluster["passfile"] if password else "/nonexistent"}
    done = subprocess.run([*argv, "-d", "postgres", "-c", statement], env=env, capture_output=True, text=True, timeout=60, check=False)
    return (done.stdout + done.stderr).strip()


def write_gucs(cluster: dict[str, Any], text: str) -> None:
    Path(cluster["gucs_file"]).write_text(text)


def make_host(*, root: bool) -> Iterator[Host]:
    scratch = Path(tempfile.mkdtemp(prefix="pgr"))  # a socket path is short: not pytest's own temporary directory
    scratch.chmod(0o755)
    host = Host(scratch, root=root)
    try:
        yield host
    finally:
        run = host.play("teardown")
        left = host.servers()
        for pid in left:
            os.kill(pid, signal.SIGQUIT)
        shutil.rmtree(scratch)
    assert "failed" not in run.seen[0], run.seen
    assert left == []


@pytest.fixture
def host() -> Iterator[Host]:
    """As root where the tests run as root, else as the caller."""
    yield from make_host(root=IS_ROOT)


@pytest.fixture(params=[pytest.param(True, id="root", marks=needs_root), pytest.param(False, id="unprivileged")])
def either_host(request: pytest.FixtureRequest) -> Iterator[Host]:
    yield from make_host(root=request.param)


@pytest.fixture
def unprivileged_host() -> Iterator[Host]:
    yield from make_host(root=False)


def exists(user: str) -> bool:
    return subprocess.run(["getent", "passwd", user], capture_output=True, check=False).returncode == 0


# The life of a cluster


def test_a_cluster_is_made_without_being_started(host: Host) -> None:
    """It insists on what the host does not have yet, as a cluster of an earlier run may do."""
    made = host.main(postgres_start=False)
    assert host.servers() == []
    write_gucs(made.cluster, "huge_pages = on\nhuge_page_size = 1GB\n")
    assert host.main(postgres_start=False).changed == 0
    assert host.servers() == []


def test_life_of_a_cluster(either_host: Host) -> None:
    host = either_host

    predicted = host.play("main", check=True)
    assert predicted.cluster["port"] == host.vars["postgres_port"]
    assert not (host.base_dir / "restore.json").exists()
    assert not host.root or not host.base_dir.exists()
    assert not host.root or not exists(host.user)

    made = host.main()
    cluster = made.cluster
    assert made.seen[0]["findings"] == []
    assert cluster == predicted.cluster == json.loads((Path(cluster["data_dir"]).parent / "cluster.json").read_text())
    assert re.fullmatch(rf"{cluster['major']}-[0-9a-f]{{8}}", cluster["name"])
    assert cluster["version_num"] // 10000 == cluster["major"] == int(cluster["version"].split(".")[0])
    assert cluster["os_user"] == host.user
    assert cluster["initdb"] == {
        "auth": "scram-sha-256",
        "data_checksums": False,
        "encoding": "UTF8",
        "locale": "C.UTF-8",
        "wal_segsize": 16,
    }

    (pid,) = host.servers()  # it outlived the play
    assert Path(f"/proc/{pid}").owner() == host.user
    assert stat.S_IMODE(Path(cluster["passfile"]).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(cluster["data_dir"]).stat().st_mode) == 0o700
    assert sql(cluster, "SHOW server_version_num") == str(cluster["version_num"])
    assert "no password supplied" in sql(cluster, "SELECT 1", password=False)
    password = Path(cluster["passfile"]).read_text().strip().rsplit(":", 1)[1]
    assert len(password) == 48
    assert password not in made.output + json.dumps(made.seen)
    settings = sql(
        cluster, "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE source = 'configuration file'"
    )
    for setting in (f"cluster_name=pgsizing {cluster['name']}", "lc_messages=C", "listen_addresses=localhost", f"port={cluster['port']}"):
        assert setting in settings
    assert sql(cluster, "SELECT count(*) FROM pg_settings WHERE sourcefile LIKE '%/base.conf'") == "12"
    assert "database system is ready to accept connections" in Path(cluster["log"]).read_text()

    assert host.main().changed == 0
    assert host.servers() == [pid]

    sql(cluster, "CREATE TABLE kept (n int)")
    restarted = host.play("main", "restart", "stop", "stop", "start", "start")
    assert restarted.changed == 4  # restart is stop and start; a second stop and a second start change nothing
    assert host.servers() not in ([pid], [])

    assert host.play(("teardown", {"postgres_keep": "server"})).changed == 0
    stopped = host.play(("teardown", {"postgres_keep": "data"}), ("teardown", {"postgres_keep": "data"}))
    assert (stopped.changed, host.servers()) == (1, [])

    assert host.main().cluster == cluster
    assert sql(cluster, "SELECT count(*) FROM kept") == "0"

    host.play("teardown")
    assert host.servers() == []
    if host.root:
        assert not host.base_dir.exists()
        assert not exists(host.user)
    else:  # the empty directory was there before, and so was the user
        assert list(host.base_dir.iterdir()) == []
        assert exists(host.user)
    assert host.play("teardown").changed == 0


def test_one_server_at_a_time_and_c047_missing_locale(host: Host) -> None:
    first = host.main().cluster
    options = {"data_checksums": True, "wal_segsize": 64, "locale": "xx_XX.UTF-8", "auth": "trust"}
    run = host.main(postgres_initdb=options)
    second = run.cluster

    assert second["initdb"] == {**options, "locale": "C", "encoding": "UTF8"}
    (finding,) = run.seen[0]["findings"]
    assert (finding["code"], finding["severity"]) == ("locale_replaced", RULES["locale_replaced"].severity)
    assert finding["evidence"]["asked"] == "xx_XX.UTF-8"
    assert finding["evidence"]["used"] == "C"

    assert first["name"] != second["name"]
    assert len(host.servers()) == 1
    assert sql(second, "SELECT 1", password=False) == "1"
    shown = "SELECT current_setting('data_checksums'), current_setting('wal_segment_size'), current_setting('lc_collate')"
    assert sql(second, shown) == "on|64MB|C"

    back = host.main()
    assert back.cluster == first
    assert sql(first, "SHOW data_checksums") == "off"
    assert set(host.restore()["postgres"]["clusters"]) == {first["name"], second["name"]}


def test_a_killed_server_is_started_and_an_interrupted_initdb_made_again(host: Host) -> None:
    cluster = host.main().cluster
    (pid,) = host.servers()
    os.kill(pid, signal.SIGKILL)
    host.main()
    assert host.servers() not in ([pid], [])
    assert sql(cluster, "SELECT 1") == "1"

    host.play("stop")
    directory = Path(cluster["data_dir"]).parent
    before = Path(cluster["passfile"]).read_text()
    (directory / "cluster.json").unlink()
    (directory / "data" / "PG_VERSION").unlink()
    assert host.main().cluster == cluster
    assert Path(cluster["passfile"]).read_text() != before
    assert sql(cluster, "SELECT 1") == "1"


def test_new_ports_and_clients_and_upgraded_binaries_restart_the_server(host: Host) -> None:
    cluster = host.main().cluster
    assert sql(cluster, "SHOW listen_addresses") == "localhost"
    moved = host.main(postgres_port=free_port(), postgres_client_addresses=["192.0.2.7", "198.51.100.0/24", "2001:db8::7"]).cluster
    assert moved["port"] != cluster["port"]
    assert sql(moved, "SHOW port") == str(moved["port"])
    assert sql(moved, "SHOW listen_addresses") == "*"
    rules = (
        "SELECT user_name, address, netmask, auth_method FROM pg_hba_file_rules WHERE type = 'host' AND address NOT IN ('127.0.0.1', '::1')"
    )
    assert sql(moved, rules).splitlines() == [
        "{pgsizing}|192.0.2.7|255.255.255.255|scram-sha-256",
        "{pgsizing}|198.51.100.0|255.255.255.0|scram-sha-256",
        "{pgsizing}|2001:db8::7|ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff|scram-sha-256",
    ]

    # The same programs under a folder where `postgres --version` tells of a later minor version, as after a package upgrade.
    later = programs_of(cluster, host.scratch / "bin", f"{cluster['major']}.99")
    (pid,) = host.servers()
    run = host.main(postgres_bin_dirs=[str(later)], postgres_port=moved["port"])
    assert host.servers() != [pid]
    assert run.cluster["version_num"] == cluster["major"] * 10000 + 99
    (finding,) = run.seen[0]["findings"]
    assert (finding["code"], finding["severity"]) == ("server_upgraded", RULES["server_upgraded"].severity)
    assert finding["evidence"]["running"].split()[0] == cluster["version"]
    assert finding["evidence"]["installed"] == f"{cluster['major']}.99"


def programs_of(cluster: dict[str, Any], folder: Path, version: str) -> Path:
    """Stand-in for another version: the same programs, and a ``postgres`` that tells of ``version``."""
    folder.mkdir()
    for program in Path(cluster["bin_dir"]).iterdir():
        (folder / program.name).symlink_to(program)
    (folder / "postgres").unlink()
    (folder / "postgres").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec echo \'postgres (PostgreSQL) {version}\'\nexec {cluster["bin_dir"]}/postgres "$@"\n'
    )
    (folder / "postgres").chmod(0o755)
    return folder


def test_another_major_that_is_installed_is_left_alone(host: Host) -> None:
    cluster = host.main().cluster
    other = programs_of(cluster, host.scratch / "other", f"{cluster['major'] + 1}.3")
    both = {"postgres_bin_dirs": [str(other), cluster["bin_dir"]]}
    assert host.main(postgres_major=str(cluster["major"]), **both).cluster == cluster
    newest = host.play(("main", both), check=True).cluster
    assert (newest["major"], newest["bin_dir"]) == (cluster["major"] + 1, str(other))


# Trouble


def test_c044_a_server_that_does_not_start_says_why(host: Host) -> None:
    cluster = host.main().cluster
    write_gucs(cluster, "huge_pages = on\nshared_buffers = 4096GB\n")
    run = host.play("main", "restart")
    assert run.failed.startswith(
        f"PostgreSQL {cluster['version']} ({cluster['name']}) did not start on target. Last lines of {cluster['log']}:"
    )
    assert "could not map anonymous shared memory: Cannot allocate memory" in run.failed
    assert host.servers() == []

    write_gucs(cluster, "shared_buffers = 64MB\n")
    host.main()
    assert sql(cluster, "SHOW shared_buffers") == "64MB"


def test_port_in_use_names_the_process(host: Host) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", host.vars["postgres_port"]))
        other.listen()
        failed = host.play("main").failed
    assert failed.startswith(f"Port {host.vars['postgres_port']} on target is in use by process {os.getpid()} (")
    assert failed.endswith("choose another postgres_port.")
    assert host.servers() == []


def test_no_binaries_and_no_way_to_install(unprivileged_host: Host) -> None:
    run = unprivileged_host.play(
        ("main", {"postgres_bin_dirs": ["/nonexistent/*/bin"]}),
        ("main", {"postgres_major": "99"}),
    )
    none, not_that = (" ".join(one["failed"].split()) for one in run.seen)
    assert none.startswith(
        "No PostgreSQL server on target (looked for postgres, initdb, pg_ctl, psql and pgbench in /nonexistent/*/bin; found none),"
        f" and installing packages needs root (the caller is {unprivileged_host.user})."
    )
    assert not_that.startswith("No PostgreSQL 99 server on target")
    assert run.changed == 0


@needs_root
def test_every_refusal_in_one_message(host: Host) -> None:
    (host.base_dir / "clusters" / "15-other").mkdir(parents=True)
    (host.base_dir / "letters.txt").write_text("dear")
    variables = {
        "postgres_engine": "epas",
        "postgres_source": "source",
        "postgres_major": "9.6",
        "postgres_port": 80,
        "postgres_os_user": "root",
    }
    failed = host.play(("main", variables)).failed
    for problem in (
        "postgres_engine=epas is not supported yet: use postgres_engine=postgres",
        "postgres_source=source (a build from source) is not supported yet: use distro or pgdg",
        'postgres_major takes a major version from 13 on, such as "16" (given: "9.6")',
        "postgres_port is from 1024 to 65535 (given: 80)",
        "a PostgreSQL server cannot run as root: leave postgres_os_user empty or name another user",
        f"{host.base_dir} holds files that are not ours (letters.txt, clusters/15-other): use another postgres_base_dir",
    ):
        assert problem in failed
    run = host.play(
        ("main", {"postgres_base_dir": "/tmp/" + "d" * 80}),
        ("main", {"postgres_base_dir": "some/where"}),
        ("main", {"postgres_initdb": {"data_checksum": True}}),
    )
    long, relative, unknown = (" ".join(one["failed"].split()) for one in run.seen)
    assert "bytes, the limit is 107: use a shorter postgres_base_dir" in long
    assert "postgres_base_dir is not an absolute path (given: some/where)" in relative
    assert "data_checksum" in unknown
    assert "Supported parameters include" in unknown
    assert run.changed == 0


def test_another_user_and_packages_need_root(unprivileged_host: Host) -> None:
    failed = unprivileged_host.play(("main", {"postgres_os_user": "bin", "postgres_extra_packages": ["postgresql-15-cron"]})).failed
    assert f"postgres_os_user=bin needs root: the caller is {unprivileged_host.user}" in failed
    assert f"postgres_extra_packages needs root: the caller is {unprivileged_host.user}" in failed


def test_teardown_leaves_what_is_not_ours(host: Host) -> None:
    cluster = host.main().cluster
    letters = host.base_dir / "letters.txt"
    letters.write_text("dear")
    other = host.base_dir / "clusters" / "15-other"
    other.mkdir()
    failed = host.play("teardown").failed
    assert "holds files that are not ours (letters.txt, clusters/15-other): nothing was removed" in failed
    assert Path(cluster["data_dir"]).exists()
    assert letters.read_text() == "dear"
    letters.unlink()
    other.rmdir()

    # Other roles keep their part of the restore file until they have put it back.
    (host.base_dir / "restore.json").write_text(json.dumps({**host.restore(), "kernel": {"sysctl": {"vm.swappiness": "60"}}}))
    host.play("teardown")
    assert host.restore() == {"kernel": {"sysctl": {"vm.swappiness": "60"}}}
    assert [entry.name for entry in host.base_dir.iterdir()] == ["restore.json"]


# Neighbours


def fingerprint(*roots: str) -> str:
    """Hash of names, sizes, owners, modes and modification times below some directories, as ``ls`` would list them."""
    lines = []
    for root in roots:
        for path in sorted([Path(root), *Path(root).rglob("*")]):
            seen = path.lstat()
            lines.append(f"{path} {seen.st_mode} {seen.st_uid} {seen.st_gid} {seen.st_size} {seen.st_mtime_ns} {seen.st_ino}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def packages() -> str:
    return subprocess.run(["dpkg-query", "-W"], capture_output=True, text=True, check=True).stdout if shutil.which("dpkg-query") else ""


@needs_root
def test_a_server_that_is_not_ours_is_left_alone(host: Host) -> None:
    neighbour = f"pgn{os.getpid()}"
    subprocess.run(["useradd", "--system", "--no-create-home", neighbour], check=True)
    home = Path(tempfile.mkdtemp(prefix="pgn"))
    shutil.chown(home, neighbour)
    bin_dir = host.play("main", check=True).cluster["bin_dir"]
    port = free_port()

    def as_neighbour(*argv: str) -> str:
        return subprocess.run(["runuser", "-u", neighbour, "--", *argv], cwd="/", check=True, capture_output=True, text=True).stdout

    start = [f"{bin_dir}/pg_ctl", "start", "-D", f"{home}/main", "-l", f"{home}/log", "-w", "-o", f"-p {port} -k {home} -c autovacuum=off"]
    try:
        as_neighbour(f"{bin_dir}/initdb", "-D", f"{home}/main", "-A", "trust", "-U", "postgres", "--no-sync")
        subprocess.run(["runuser", "-u", neighbour, "--", *start], cwd="/", check=True, stdout=subprocess.DEVNULL)
        question = [f"{bin_dir}/psql", "-XAt", "-h", str(home), "-p", str(port), "-U", "postgres", "-d", "postgres", "-c"]
        facts = "SELECT pg_postmaster_start_time(), current_setting('port'), version()"
        pid = (home / "main" / "postmaster.pid").read_text().split()[0]
        before = (
            as_neighbour(*question, facts),
            pid,
            packages(),
            fingerprint("/etc/postgresql", "/etc/postgresql-common", "/var/lib/postgresql"),
        )
        files = {path: path.read_bytes() for path in (home / "main").glob("*.conf")}

        clash = host.play(("main", {"postgres_port": port})).failed
        assert f"Port {port} on target is in use by process {pid} ({bin_dir}/postgres -D {home}/main" in clash
        host.main()
        assert len(host.servers()) == 1
        host.play("restart", "teardown")
        assert not host.base_dir.exists()

        pid = (home / "main" / "postmaster.pid").read_text().split()[0]
        after = (
            as_neighbour(*question, facts),
            pid,
            packages(),
            fingerprint("/etc/postgresql", "/etc/postgresql-common", "/var/lib/postgresql"),
        )
        assert after == before
        assert {path: path.read_bytes() for path in (home / "main").glob("*.conf")} == files
    finally:
        if (home / "main" / "postmaster.pid").exists():
            as_neighbour(f"{bin_dir}/pg_ctl", "stop", "-D", f"{home}/main", "-m", "immediate", "-w")
        shutil.rmtree(home)
        subprocess.run(["userdel", neighbour], check=True)


# What cannot be run here is read


def package_tasks() -> Iterator[tuple[str, dict[str, Any]]]:
    def walk(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for task in tasks:
            yield task
            for part in ("block", "rescue", "always"):
                yield from walk(task.get(part, []))

    for file in sorted((ROLE / "tasks").glob("*.yml")):
        for task in walk(yaml.safe_load(file.read_text())):
            if "ansible.builtin.apt" in task or "ansible.builtin.dnf" in task:
                yield f"{file.name}: {task['name']}", task


@pytest.mark.parametrize(("name", "task"), list(package_tasks()), ids=lambda value: value if isinstance(value, str) else "")
def test_c064_every_package_task_waits_for_the_lock_and_tries_again(name: str, task: dict[str, Any]) -> None:
    options = task.get("ansible.builtin.apt") or task["ansible.builtin.dnf"]
    assert options["lock_timeout"] == "{{ _postgres_lock_timeout }}", name
    assert options.get("state", "present") in ("present", "absent"), f"{name}: nothing is ever upgraded"
    assert "upgrade" not in options
    register = task["register"]
    assert task["until"] == f"'lock' not in {register}.msg | default('')", name
    assert {task["retries"], task["delay"]} == {"{{ _postgres_lock_retries }}", "{{ _postgres_lock_delay }}"}, name


def test_argument_spec_agrees_with_the_defaults() -> None:
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    options = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert {name: option["default"] for name, option in options.items()} == defaults
