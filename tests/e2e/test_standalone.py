# GNU General Public License v3.0 or later (see LICENSE)
"""``pgsizing.bench.pgbench`` alone, in a user's own playbook, against a user's own server with a password."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import running_cluster, sql
from support.e2e import Place, Run

PASSWORD = 'tr0ub4dor&3:\\ and "more"'
ACTION = "pgsizing.bench.pgbench"


class Server(dict[str, Any]):
    """A user's server: ``cluster.json``, with a role ``bench`` that needs its password over TCP."""

    @property
    def login(self) -> dict[str, Any]:
        return {"login_host": "127.0.0.1", "login_port": self["port"], "login_user": "bench", "login_password": "{{ bench_password }}"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="pgs-") as home, running_cluster(Path(home) / "own") as cluster:
        quoted = PASSWORD.replace("'", "''")
        sql(cluster, f"SET standard_conforming_strings = on; CREATE ROLE bench LOGIN CREATEDB PASSWORD '{quoted}'")
        sql(cluster, "CREATE DATABASE bench OWNER bench")
        hba = Path(cluster["data_dir"]) / "pg_hba.conf"
        hba.write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        sql(cluster, "SELECT pg_reload_conf()")
        yield Server(cluster)


def play(place: Place, folder: Path, tasks: list[dict[str, Any]], *options: str) -> tuple[Run, dict[str, Any]]:
    """Run tasks in a playbook of a user; return the run and what each task registered, by its name."""
    folder.mkdir(exist_ok=True)
    named = [{"name": name, "register": f"r{k}", "ignore_errors": True, **task} for k, task in enumerate(tasks) for name in [str(k)]]
    out = folder / "results.json"
    registered = ", ".join(f"r{k}" for k in range(len(tasks)))
    keep = {"ansible.builtin.copy": {"content": "{{ [" + registered + "] | to_json }}", "dest": str(out)}, "check_mode": False}
    playbook = folder / "own.yml"
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [*named, keep]}]))
    secret = folder / "secret.json"
    secret.write_text(json.dumps({"bench_password": PASSWORD}))
    run = place.run(f"@{secret}", "-vvvv", *options, playbook=str(playbook))
    secret.unlink()
    return run, json.loads(out.read_text())


def commands() -> set[str]:
    """Command lines and environments of all processes that we may read."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                found.add((process / name).read_text("utf-8", "replace").replace("\0", " "))
            except OSError:
                continue
    return found


def test_load_and_run_in_a_users_playbook(place: Place, server: Server, tmp_path: Path) -> None:
    """The result has the promised shape; the password is in no output, no process list, no run folder, no fact."""
    work, common = tmp_path / "work", {**server.login, "login_db": "bench", "scale": 2, "work_dir": str(tmp_path / "work")}
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            seen.update(c for c in commands() if PASSWORD in c)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run, (load, measured) = play(
            place,
            tmp_path,
            [{ACTION: {**common, "phase": "load"}}, {ACTION: {**common, "clients": 2, "transactions": 200, "report_per_command": True}}],
        )
    finally:
        over.set()
        watcher.join()
    assert load["verdict"] == "valid", load
    assert load["measurement"]["metrics"]["load_seconds"]["value"] > 0
    measurement = measured["measurement"]
    assert measured["verdict"] in ("valid", "suspect")
    assert measurement["load_generator"]["name"] == "pgbench"
    assert measurement["counts"]["processed"] == measurement["counts"]["planned"] == measurement["latency"]["n"] == 400
    assert set(measurement["metrics"]["tps"]) == {"value", "unit", "better"}
    assert [s["name"] for s in measurement["steps"]] == ["measured"]
    assert measurement["latency"]["p50"] <= measurement["latency"]["p99"] <= measurement["latency"]["max"]
    assert len(measurement["latency"]["statements"]) > 5
    printed = Path(next(r["path"] for r in measurement["raw"] if r["path"].endswith("stdout"))).read_text()
    assert f"tps = {measurement['metrics']['tps']['value']:.6f}" in printed

    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    for form in (PASSWORD, escaped, json.dumps(PASSWORD)[1:-1], json.dumps(escaped)[1:-1]):
        assert form not in run.output
        holds = [
            p for p in [*work.rglob("*"), *tmp_path.glob("*.json")] if p.is_file() and form in p.read_bytes().decode("utf-8", "replace")
        ]
        assert holds == []
    assert seen == set()


def test_what_is_wrong_with_the_server_is_said_plainly(place: Place, server: Server, tmp_path: Path) -> None:
    login = {**server.login, "work_dir": str(tmp_path / "work"), "scale": 1, "duration": 1, "ramp_up": 0}
    sql({**server}, "CREATE DATABASE empty OWNER bench")
    wrong = {**login, "login_password": "not-the-password-at-all", "login_db": "bench"}
    nobody = {**login, "login_port": place.port, "login_db": "bench"}
    run, results = play(
        place,
        tmp_path,
        [
            {ACTION: wrong},
            {ACTION: {**wrong, "phase": "load"}},
            {ACTION: {**login, "login_db": "missing"}},
            {ACTION: {**login, "login_db": "missing", "phase": "load"}},
            {ACTION: {**login, "login_db": "empty"}},
            {ACTION: nobody},
            {ACTION: {**login, "login_db": "bench", "bin_dir": "/nonexistent"}},
            {ACTION: {**login, "login_db": "bench", "duration": 5, "transactions": 5}},
        ],
    )
    said = [r["msg"] for r in results]
    assert all(r["failed"] for r in results), said
    assert "password authentication failed" in said[0]
    assert "password authentication failed" in said[1]
    assert 'database "missing" does not exist' in said[2]
    assert 'database "missing" does not exist' in said[3]
    assert "no data set to measure (phase: load builds it)" in said[4]
    assert "pgbench_branches" in said[4]
    assert "Connection refused" in said[5]
    assert "pgbench was not found on the driver (/nonexistent)" in said[6]
    assert "exclude each other" in said[7]
    assert "not-the-password-at-all" not in run.output
    assert PASSWORD not in run.output
    holds = [p for p in (tmp_path / "work").rglob("*") if p.is_file() and "not-the-password" in p.read_text("utf-8", "replace")]
    assert holds == []


def test_check_mode_runs_nothing(place: Place, server: Server, tmp_path: Path) -> None:
    _run, (result,) = play(
        place, tmp_path, [{ACTION: {**server.login, "login_db": "bench", "scale": 1, "work_dir": str(tmp_path / "work")}}], "--check"
    )
    assert result["changed"] is False
    assert result["commands"][-1][-1] == "bench"
    assert not (tmp_path / "work").exists()


def test_a_load_that_hangs_is_ended_at_its_deadline(place: Place, server: Server, tmp_path: Path) -> None:
    options = {
        **server.login,
        "login_db": "bench",
        "scripts": [{"sql": "SELECT pg_sleep(120);"}],
        "clients": 1,
        "duration": 1,
        "ramp_up": 0,
    }
    _run, (result,) = play(place, tmp_path, [{ACTION: {**options, "deadline": 3, "work_dir": str(tmp_path / "work")}}])
    assert result["verdict"] == "aborted", result
    assert "deadline_exceeded" in {f["code"] for f in result["measurement"]["findings"]}
    assert result["measurement"]["steps"][0]["elapsed_s"] < 60


def test_one_backend_terminated_is_an_aborted_measurement_not_a_failed_task(place: Place, server: Server, tmp_path: Path) -> None:
    """An own script needs no data set; its client is terminated by itself."""
    script = "SELECT CASE WHEN random() < 0.05 THEN pg_terminate_backend(pg_backend_pid()) END;"
    options = {**server.login, "login_db": "bench", "scripts": [{"sql": script}], "clients": 2, "duration": 3, "ramp_up": 0}
    _run, (result,) = play(place, tmp_path, [{ACTION: {**options, "work_dir": str(tmp_path / "work")}}])
    assert not result.get("failed"), result
    assert result["verdict"] == "aborted"
    assert {f["code"] for f in result["measurement"]["findings"]} & {"clients_aborted", "server_lost"}
