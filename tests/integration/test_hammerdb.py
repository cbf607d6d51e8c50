# GNU General Public License v3.0 or later (see LICENSE)
"""``pgsizing.bench.hammerdb`` and the role ``hammerdb`` on a real server, with a stand-in that replays real captured output.

HammerDB itself cannot be downloaded everywhere: ``test_hammerdb_real.py`` runs the same with the real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from support import hammerdb_standin
from support import tprocc as driver
from support.cluster import running_cluster, sql
from support.modules import wait_for

ROOT = Path(__file__).parents[2]
PASSWORD = "tr0ub4dor&3 and more"
ACTION = "pgsizing.bench.hammerdb"
#: The captured result, and the shortest run that still has a window: the stand-in has four users, as the capture.
NOPM, TPM = 27220, 62165
SHORT = {"warehouses": 1, "clients": 4, "duration": 6, "ramp_up": 0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A server with the role ``bench``, who needs a password over TCP, and a data set of one warehouse in the database ``built``."""
    settings = "shared_buffers = 128MB\nautovacuum = off\nsynchronous_commit = off\nmax_wal_size = 4GB\nlog_statement = ddl\n"
    with tempfile.TemporaryDirectory(prefix="pgs-") as home, running_cluster(Path(home) / "hdb", settings) as here:
        hba = Path(here["data_dir"]) / "pg_hba.conf"
        hba.write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        sql(here, "SELECT pg_reload_conf()")
        sql(here, f"SET password_encryption = 'scram-sha-256'; CREATE ROLE bench LOGIN CREATEDB PASSWORD '{PASSWORD}'")
        sql(here, "CREATE DATABASE built OWNER bench")
        driver.load({**here, "user": "bench"}, "built", tmp_path_factory.mktemp("load"), warehouses=1, load_sessions=2)
        yield here


@pytest.fixture
def database(cluster: dict[str, Any]) -> Iterator[str]:
    """A copy of the data set to work on."""
    sql(cluster, "CREATE DATABASE work OWNER bench TEMPLATE built STRATEGY file_copy")
    yield "work"
    wait_for(lambda: sql(cluster, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'work'") == "0")
    sql(cluster, "DROP DATABASE work")


@pytest.fixture
def home(cluster: dict[str, Any], tmp_path: Path) -> Path:
    return hammerdb_standin.install(tmp_path / "HammerDB-4.12", psql=f"{cluster['bin_dir']}/psql")


def playbook(folder: Path, tasks: list[dict[str, Any]], **variables: Any) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run tasks on this machine, each whatever became of the one before; return the run and what each one registered."""
    named = [{"name": str(k), "register": f"r{k}", "ignore_errors": True, **task} for k, task in enumerate(tasks)]
    out, place = folder / "results.json", folder / "own.yml"
    keep = {
        "ansible.builtin.copy": {"content": "{{ [" + ", ".join(f"r{k}" for k in range(len(tasks))) + "] | to_json }}", "dest": str(out)}
    }
    place.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [*named, keep]}]))
    run = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            str(place),
            "-vvvv",
            "-e",
            json.dumps({"bench_password": PASSWORD, **variables}),
        ],
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PG"))},
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_HOME": str(folder / ".ansible"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
        },
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return run, json.loads(out.read_text()) if out.exists() else []


def options(cluster: dict[str, Any], home: Path | None, database: str, folder: Path, **more: Any) -> dict[str, Any]:
    login = {"login_host": "127.0.0.1", "login_port": cluster["port"], "login_user": "bench", "login_password": "{{ bench_password }}"}
    login |= {"home": str(home)} if home else {}
    return {**login, "login_db": database, "bin_dir": cluster["bin_dir"], "work_dir": str(folder / "work"), **more}


def act(cluster: dict[str, Any], home: Path | None, database: str, folder: Path, **more: Any) -> dict[str, Any]:
    """Run the action once; return what it registered."""
    run, results = playbook(folder, [{ACTION: options(cluster, home, database, folder, **more)}])
    assert results, run.stdout + run.stderr
    return dict(results[0])


def codes(result: dict[str, Any]) -> list[str]:
    return [f["code"] for f in result["measurement"]["findings"]]


def seen_processes(over: threading.Event, found: set[str]) -> None:
    """Collect command lines and environments that hold the password."""
    while not over.wait(0.05):
        for process in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    text = (process / name).read_bytes()
                except OSError:
                    continue
                if PASSWORD.encode() in text and b"bench_password" not in text:
                    found.add(text.decode("utf-8", "replace"))


# a run -------------------------------------------------------------------------------------------------------------------


def test_run(cluster: dict[str, Any], home: Path, database: str, tmp_path: Path) -> None:
    """The captured figures in the shape of every workload, confirmed by what was counted beside them; nothing secret is left anywhere."""
    found: set[str] = set()
    over = threading.Event()
    watcher = threading.Thread(target=seen_processes, args=(over, found))
    watcher.start()
    try:
        result = act(cluster, home, database, tmp_path, **{**SHORT, "duration": 12, "ramp_up": 6}, time_profile=True)
    finally:
        over.set()
        watcher.join()
    m = result["measurement"]
    assert (result["verdict"], m["metrics"]["nopm"]["value"], m["metrics"]["tpm"]["value"]) == ("valid", NOPM, TPM)
    assert m["load_generator"] == {
        "name": "hammerdb",
        "version": "4.12",
        "server_version": "15.20",
        "generation": None,
        "database": "PostgreSQL",
    }
    assert [(s["name"], s["rc"]) for s in m["steps"]] == [("ramp_up", 0), ("measured", 0), ("after", 0)]
    assert m["steps"][0]["elapsed_s"] == pytest.approx(6, abs=1)
    assert m["conditions"]["window_s"] == pytest.approx(12, rel=0.02)
    assert m["conditions"]["counted"]["nopm"] == pytest.approx(NOPM, rel=1 / 12)
    assert len(m["progress"]) >= 8
    assert [row["n"] for row in m["latency"]["scripts"]] == [35477, 35344, 3528, 3467, 3592]  # each call once
    assert {"profile_doubled", "profile_ramp_up", "ramp_up_short"} <= set(codes(result))
    assert m["window"]["to"] - m["window"]["from"] == pytest.approx(m["conditions"]["window_s"], abs=0.01)
    assert m["client"]["cpu_user_s"] > 0
    # what is left
    assert found == set()
    for path in (p for p in (tmp_path / "work").rglob("*") if p.is_file()):
        assert PASSWORD.encode() not in path.read_bytes(), path
    [job] = (tmp_path / "work").glob("*.measured")
    assert {p.name for p in job.iterdir()} == {"job.json", "started.json", "result.json", "stdout", "stderr", "lock"}
    assert "PASSWORD" not in Path(cluster["log"]).read_text().replace(f"PASSWORD '{PASSWORD}'", "")


WORTH: dict[str, tuple[dict[str, Any], str, str]] = {
    "other orders than it says": ({"orders": 0.5}, "suspect", "nopm_unconfirmed"),
    "a worker failed": (
        {"inject": "{Test complete} {{Error in Virtual User 3: ERROR:  deadlock} {Vuser 3:FINISHED FAILED}}"},
        "aborted",
        "clients_aborted",
    ),
    "it hangs": ({"hang": "Test complete"}, "aborted", "deadline_exceeded"),
}


def test_results_that_are_worth_less(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    tasks = []
    for name, (conf, _verdict, _code) in WORTH.items():
        home = hammerdb_standin.install(tmp_path / name, psql=f"{cluster['bin_dir']}/psql", **conf)
        tasks.append({ACTION: options(cluster, home, database, tmp_path, **SHORT, deadline=15)})
    run, results = playbook(tmp_path, tasks)
    assert [(r["verdict"], code in codes(r)) for r, (_c, _v, code) in zip(results, WORTH.values(), strict=True)] == [
        (verdict, True) for _conf, verdict, _code in WORTH.values()
    ], run.stdout
    assert [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in readable(p)] == []


def readable(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


FAILS: dict[str, tuple[dict[str, Any], str]] = {
    "another driver": ({"driver": "other"}, "is not the one HammerDB brings"),
    "no libpq": ({"driver": "none"}, "libpq.so.5: cannot open shared object file"),
    "too many connections": (
        {"inject": "{Beginning rampup} {{Error in Virtual User 1: FATAL:  sorry, too many clients already} {Vuser 1:FINISHED FAILED}}"},
        "refused connections of 4 virtual users",
    ),
    "routines are missing": (
        {
            "inject": "{Beginning rampup} {{Error in Virtual User 2: ERROR:  function neword(integer) does not exist}"
            + "".join(f" {{Vuser {n}:FINISHED FAILED}}" for n in range(2, 6))
            + "}"
        },
        "not the ones that storedprocs=true calls",
    ),
}


def test_no_result(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    """Nothing was measured, and nobody waited for it: the script ends itself."""
    tasks = []
    for name, (conf, _said) in FAILS.items():
        home = hammerdb_standin.install(tmp_path / name, psql=f"{cluster['bin_dir']}/psql", **conf)
        tasks.append({ACTION: options(cluster, home, database, tmp_path, **{**SHORT, "duration": 60})})
    run, results = playbook(tmp_path, tasks)
    assert [bool(r.get("failed")) for r in results] == [True] * len(FAILS), run.stdout
    for result, (_conf, said) in zip(results, FAILS.values(), strict=True):
        assert said in result["msg"]
    jobs = [json.loads(path.read_text()) for path in (tmp_path / "work").glob("*.measured/result.json")]
    assert [job["elapsed_s"] < 12 for job in jobs] == [True] * len(FAILS)


def test_data_set_is_looked_at_first(cluster: dict[str, Any], home: Path, tmp_path: Path) -> None:
    """What was found is said; nothing runs on another data set than the one that was asked for."""
    tasks = [
        {ACTION: {**options(cluster, home, "built", tmp_path, **SHORT), **change}}
        for change in (
            {"warehouses": 3},
            {"storedprocs": False},
            {"login_db": "postgres"},
            {"login_db": "no such"},
            {"home": str(tmp_path)},
        )
    ]
    run, results = playbook(tmp_path, tasks)
    assert [bool(r.get("failed")) for r in results] == [True] * 5, run.stdout
    for result, text in zip(
        results,
        ("not the one asked for", "are procedures", "no data set to measure", "login_db: HammerDB cannot take", "does not run in"),
        strict=True,
    ):
        assert text in result["msg"]
    assert list((tmp_path / "work").glob("*.measured")) == []


def test_check_mode_shows_the_commands(cluster: dict[str, Any], home: Path, tmp_path: Path) -> None:
    _run, [result] = playbook(tmp_path, [{ACTION: options(cluster, home, "built", tmp_path, **SHORT), "check_mode": True}])
    assert next(c[:2] for c in result["commands"]) == ["sh", "hammerdb.sh"]
    assert not (tmp_path / "work").exists()


# a build -----------------------------------------------------------------------------------------------------------------


def test_load(cluster: dict[str, Any], home: Path, tmp_path: Path) -> None:
    """The stand-in makes the rows that it says it made: every check accepts them, and no password was set."""
    sql(cluster, "CREATE DATABASE made OWNER bench")
    hammerdb_standin.install(home, psql=f"{cluster['bin_dir']}/psql", builder=ROOT / "roles/tprocc/files")
    result = act(cluster, home, "made", tmp_path, phase="load", warehouses=1)
    m = result["measurement"]
    assert (result["verdict"], m["findings"], m["metrics"]["load_seconds"]["unit"]) == ("valid", [], "s")
    assert [(s["name"], s["rc"]) for s in m["steps"]] == [("load", 0), ("verify", 0), ("checkschema", 0)]
    assert sql(cluster, "SELECT count(*) FROM stock", "made") == "100000"
    assert act(cluster, None, "made", tmp_path, phase="check")["verdict"] == "valid"  # asks by psql, needs no HammerDB
    assert "ALTER USER" not in Path(cluster["log"]).read_text() and "ALTER ROLE" not in Path(cluster["log"]).read_text()


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "it made nothing": ({}, "says that the schema is complete, and the check of its rows failed"),
    "a dead worker, for whom it waits": (
        {"inject": "{Vuser 2:Loading Stock} {{Vuser 2:FINISHED FAILED}}", "hang": "Vuser 2:Loading Stock"},
        "virtual user 2 failed",
    ),
    "workers gave up and call it a success": (
        {"inject": "{Vuser 2:Loading Stock} {{Vuser 2:Monitor failed to notify ready state}}"},
        "monitor never became ready",
    ),
}


def test_loads_that_are_not_what_they_say(cluster: dict[str, Any], tmp_path: Path) -> None:
    sql(cluster, "CREATE DATABASE empty OWNER bench")
    tasks = []
    for name, (conf, _said) in LIES.items():
        home = hammerdb_standin.install(tmp_path / name, psql=f"{cluster['bin_dir']}/psql", **conf)
        tasks.append({ACTION: options(cluster, home, "empty", tmp_path, phase="load", warehouses=2)})
    _run, results = playbook(tmp_path, tasks)
    for result, (_conf, said) in zip(results, LIES.values(), strict=True):
        assert result["failed"] and said in result["msg"]


# the role ----------------------------------------------------------------------------------------------------------------


def archive(folder: Path, version: str = "4.12") -> tuple[Path, str]:
    """Make a release archive of the stand-in; return it and its SHA-256."""
    home = hammerdb_standin.install(folder / "made" / f"HammerDB-{version}", version=version)
    path = folder / f"HammerDB-{version}-Linux.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(home, home.name)
    return path, sha256(path.read_bytes()).hexdigest()


def role(folder: Path, *tries: dict[str, Any]) -> list[dict[str, Any]]:
    """Include the role once for each set of variables; return ``{failed, task, msg}`` of each."""
    blocks: list[dict[str, Any]] = [
        {
            "block": [
                {
                    "ansible.builtin.include_role": {"name": "pgsizing.bench.hammerdb"},
                    "vars": {"hammerdb_dir": str(folder / "opt"), **variables},
                }
            ],
            "rescue": [
                {
                    "ansible.builtin.set_fact": {
                        f"failed{k}": {"task": "{{ ansible_failed_task.name }}", "msg": "{{ ansible_failed_result.msg | default('') }}"}
                    }
                }
            ],
        }
        for k, variables in enumerate(tries)
    ]
    out = folder / "role.json"
    keep = {
        "ansible.builtin.copy": {
            "content": "{{ [" + ", ".join(f"failed{k} | default({{}})" for k in range(len(tries))) + "] | to_json }}",
            "dest": str(out),
        }
    }
    place = folder / "role.yml"
    place.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [*blocks, keep]}]))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), str(place)],
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_HOME": str(folder / ".ansible"),
            "LC_ALL": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return list(json.loads(out.read_text()))


def test_install(tmp_path: Path) -> None:
    """From an archive, from an address; only with the checksum that was given, and only the version that was named."""
    path, checksum = archive(tmp_path)
    wrong = checksum[::-1]
    install = {"hammerdb_phase": "install"}
    failures = role(
        tmp_path,
        {**install, "hammerdb_url": f"file://{path}"},
        {**install, "hammerdb_url": f"file://{path}", "hammerdb_sha256": wrong},
        {**install, "hammerdb_archive": str(path), "hammerdb_sha256": wrong},
        {**install, "hammerdb_archive": str(path), "hammerdb_sha256": checksum, "hammerdb_version": "5.0"},
        {**install, "hammerdb_url": f"file://{path}", "hammerdb_sha256": checksum},
        {**install, "hammerdb_url": "file:///nowhere", "hammerdb_sha256": checksum},  # it stands already: nothing is fetched
    )
    assert [f.get("task") for f in failures] == [
        "Take no archive from the net that nobody vouches for",
        "Download the archive",
        "Refuse another archive than the one that was named",
        "Ask it which version it is",
        None,
        None,
    ]
    assert (
        "give the SHA-256" in failures[0]["msg"] and "checksum" in failures[1]["msg"].lower() and "was not unpacked" in failures[2]["msg"]
    )
    assert sorted(p.name for p in (tmp_path / "opt").iterdir() if p.is_dir()) == ["HammerDB-4.12", "HammerDB-5.0"]
    assert (tmp_path / "opt/HammerDB-4.12/.pgsizing").read_text() == f"4.12 {checksum}\n"
    assert not (tmp_path / "opt/HammerDB-5.0/.pgsizing").exists()


def test_role_runs_what_it_installed(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    path, checksum = archive(tmp_path)
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:*:{PASSWORD}\n")
    passfile.chmod(0o600)
    login = {
        "login_host": "127.0.0.1",
        "login_port": cluster["port"],
        "login_user": "bench",
        "login_passfile": str(passfile),
        "login_db": database,
    }
    variables = {
        "hammerdb_archive": str(path),
        "hammerdb_sha256": checksum,
        "hammerdb_parameters": SHORT,
        "hammerdb_login": login,
        "hammerdb_bin_dir": cluster["bin_dir"],
        "hammerdb_work_dir": str(tmp_path / "work"),
    }
    assert role(tmp_path, variables) == [{}]
    assert "27220 NOPM" in next((tmp_path / "work").glob("*.measured/stderr")).read_text()
