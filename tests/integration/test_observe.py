# GNU General Public License v3.0 or later (see LICENSE)
"""The module observe beside a real server under load."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import running_cluster, sql
from support.modules import ROOT, run_module, wait_for

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import start_ticks

SETTINGS = "shared_preload_libraries = 'pg_stat_statements'\nlog_checkpoints = on\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="observe-") as folder, running_cluster(Path(folder) / "c", SETTINGS) as found:
        sql(found, "CREATE EXTENSION pg_stat_statements")
        pgbench(found, "-i", "-q")
        yield found


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


@pytest.fixture(params=["psycopg", "psql"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """With psql, the module's Python has no driver."""
    if request.param == "psycopg":
        pytest.importorskip("psycopg")
        return {}
    for name in ("psycopg", "psycopg2"):
        (tmp_path / f"{name}.py").write_text("raise ImportError")
    return {"PYTHONPATH": f"{tmp_path}:{ROOT}/collections"}


def pgbench(cluster: dict[str, Any], *options: str) -> int:
    """Run pgbench and return the transactions it processed."""
    done = subprocess.run(
        [
            f"{cluster['bin_dir']}/pgbench",
            "-h",
            cluster["socket_dir"],
            "-p",
            str(cluster["port"]),
            "-U",
            cluster["user"],
            *options,
            "postgres",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    found = re.search(r"actually processed: (\d+)", done.stdout)
    return int(found.group(1)) if found else 0


def start(jobs: Path, cluster: dict[str, Any] | None, **options: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"id": "o1", "dir": jobs, "deadline": 60, "interval": 0.25}
    if cluster:
        postgres = {name: cluster[name] for name in ("socket_dir", "port", "user", "bin_dir")}
        given.update(data_directory=cluster["data_dir"], server_log=cluster["log"], postgres={**postgres, "dbname": "postgres"})
    return run_module("observe", **{**given, **options})


def stop(jobs: Path, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = run_module("observe", id="o1", dir=jobs, state="stopped", **options)["observation"]
    return result


def samples(jobs: Path) -> list[dict[str, Any]]:
    path = jobs / "o1" / "samples.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def sampler(jobs: Path) -> int:
    return int(json.loads((jobs / "o1" / "started.json").read_text())["supervisor_pid"])


def backend(cluster: dict[str, Any]) -> int:
    return int(sql(cluster, "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgsizing_observe'"))


def test_a_load_is_seen_as_it_was(cluster: dict[str, Any], jobs: Path, environment: dict[str, str]) -> None:
    started = start(jobs, cluster, environment=environment)
    assert started["changed"]
    begin = time.time()
    transactions = pgbench(cluster, "-n", "-c", "2", "-T", "3")
    end = time.time()
    sql(cluster, "CHECKPOINT")
    seen = stop(jobs, window={"from": begin, "to": end}, environment=environment)

    assert seen["problems"] == []
    postgres = seen["postgres"]
    # the server counts ours and those of the checkpoint too, and none twice
    assert transactions <= postgres["xact_commit"] <= transactions + 40
    assert postgres["wal_bytes"] > 100 * transactions
    assert postgres["version"] == sql(cluster, "SHOW server_version")
    assert (postgres["restarted"], postgres["lost_at"]) == (False, None)
    assert postgres["start_time_before"] == postgres["start_time_after"]
    assert sum(wait["share"] for wait in postgres["wait_events"]) == pytest.approx(1)
    assert postgres["backends_max"] == 2
    assert postgres["autovacuum_off"] == []
    assert seen["clock_steps"] == []
    assert 0.2 < seen["cpu"]["busy_mean"] <= seen["cpu"]["busy_max"] <= 1
    assert 0.1 < seen["cpu"]["server"] < seen["cpu"]["busy_mean"]
    assert sum(seen["cpu"][name] for name in ("user", "system", "iowait", "steal", "idle")) == pytest.approx(1)
    assert seen["disk"]["wal"] == "same as data"
    assert seen["disk"]["data"]["device"] == started["host"]["filesystems"]["data"]["disk"]
    assert seen["memory"]["available_min_bytes"] > 0
    assert seen["huge_pages_in_use"] is False

    # what it costs: no timing, only that it is known and sane
    assert seen["cost"]["server_backend_cpu_s"] is not None
    assert 0 < seen["cost"]["core_fraction"] < 0.10

    with open(seen["samples"], encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [column["name"] for column in seen["columns"]]
    assert max(float(row["commits_per_s"]) for row in rows) > 0
    assert "CHECKPOINT" not in Path(seen["server_log"]).read_text().upper().partition("CHECKPOINT STARTING")[0]
    assert "checkpoint starting: immediate force wait" in Path(seen["server_log"]).read_text()
    for name in ("statements_before", "statements_after"):
        assert Path(seen[name]).read_text().startswith("userid,dbid,")
    assert "UPDATE pgbench_accounts" in Path(seen["statements_after"]).read_text()
    assert "pgsizing_observe" not in Path(seen["statements_after"]).read_text()
    assert start_ticks(sampler(jobs)) is None


def test_a_second_start_attaches_and_a_second_stop_reads(cluster: dict[str, Any], jobs: Path) -> None:
    start(jobs, cluster)
    pid = sampler(jobs)
    again = start(jobs, cluster)
    assert not again["changed"]
    assert again["host"]["cores"] == os.cpu_count()
    assert sampler(jobs) == pid
    wait_for(lambda: len(samples(jobs)) > 2)
    first = run_module("observe", id="o1", dir=jobs, state="stopped")
    second = run_module("observe", id="o1", dir=jobs, state="stopped")
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["observation"] == second["observation"]


def test_a_server_that_is_killed_is_an_observation(jobs: Path, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="observe-") as folder, running_cluster(Path(folder) / "c") as cluster:
        start(jobs, cluster)
        wait_for(lambda: len(samples(jobs)) > 2)
        os.kill(int(Path(cluster["data_dir"], "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        wait_for(lambda: [sample for sample in samples(jobs) if sample["pg"] is None])
        more = len(samples(jobs)) + 2
        wait_for(lambda: len(samples(jobs)) > more)  # the host is sampled on
        seen = stop(jobs)
    assert seen["postgres"]["lost_at"] is not None
    assert (seen["postgres"]["restarted"], seen["postgres"]["start_time_after"]) == (None, None)
    assert seen["postgres"]["backends_max"] == 0
    assert "the connection was lost" in " ".join(seen["problems"])
    assert "the server was not there at the end" in " ".join(seen["problems"])


def test_a_restart_of_the_server_is_noticed(cluster: dict[str, Any], jobs: Path) -> None:
    start(jobs, cluster)
    prefix, bin_dir, data = cluster["run_prefix"], cluster["bin_dir"], cluster["data_dir"]
    with open(os.devnull, "r+b") as null:
        argv = [*prefix, f"{bin_dir}/pg_ctl", "restart", "-D", data, "-l", cluster["log"], "-w", "-m", "fast"]
        subprocess.run(argv, check=True, stdin=null, stdout=null, stderr=null)
    wait_for(lambda: [sample for sample in samples(jobs) if sample["pg"] is None])
    seen = stop(jobs)
    assert seen["postgres"]["restarted"] is True
    assert seen["postgres"]["start_time_after"] > seen["postgres"]["start_time_before"]
    assert seen["postgres"]["lost_at"] is not None


def test_a_server_that_hangs_does_not_stop_the_sampling_of_the_host(
    cluster: dict[str, Any], jobs: Path, environment: dict[str, str]
) -> None:
    start(jobs, cluster, environment=environment)
    wait_for(lambda: len(samples(jobs)) > 2)
    pid = backend(cluster)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: sum(1 for sample in samples(jobs) if sample["pg"] is None) >= 3)
        seen = stop(jobs, environment=environment)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "no answer within" in " ".join(seen["problems"])
    assert seen["postgres"]["restarted"] is False


def test_a_killed_sampler_leaves_what_it_has_seen(cluster: dict[str, Any], jobs: Path) -> None:
    start(jobs, cluster)
    wait_for(lambda: len(samples(jobs)) > 3)
    os.kill(sampler(jobs), signal.SIGKILL)
    wait_for(lambda: start_ticks(sampler(jobs)) is None)
    seen = stop(jobs)
    assert seen["problems"] == ["the sampler was killed"]
    assert seen["n"] >= 2
    assert seen["cost"] is None
    assert seen["postgres"]["backends_max"] is not None


def test_the_sampler_ends_at_its_deadline(cluster: dict[str, Any], jobs: Path) -> None:
    start(jobs, cluster, deadline=0.6)
    wait_for((jobs / "o1" / "result.json").exists)
    wait_for(lambda: start_ticks(sampler(jobs)) is None)
    assert json.loads((jobs / "o1" / "result.json").read_text())["stopped"] == "deadline"
    assert stop(jobs)["n"] >= 1


def test_tables_without_autovacuum_are_seen(cluster: dict[str, Any], jobs: Path, environment: dict[str, str]) -> None:
    sql(cluster, "ALTER TABLE pgbench_history SET (autovacuum_enabled = off)")
    try:
        start(jobs, cluster, environment=environment)
        wait_for(lambda: len(samples(jobs)) > 1)
        assert stop(jobs, environment=environment)["postgres"]["autovacuum_off"] == ["pgbench_history"]
    finally:
        sql(cluster, "ALTER TABLE pgbench_history RESET (autovacuum_enabled)")


def test_a_host_without_server(jobs: Path) -> None:
    host = start(jobs, None)["host"]
    assert host["memory_bytes"] > 0
    assert host["filesystems"] == {}
    wait_for(lambda: len(samples(jobs)) > 2)
    seen = stop(jobs)
    assert (seen["postgres"], seen["disk"], seen["server_log"], seen["statements_before"]) == (None, None, None, None)
    assert seen["cost"]["server_backend_cpu_s"] is None
    assert seen["cpu"]["cores"] == os.cpu_count()


def test_a_server_that_is_not_there_fails_the_start(cluster: dict[str, Any], jobs: Path, environment: dict[str, str]) -> None:
    nowhere = start(jobs, {**cluster, "port": 1}, fails=True, environment=environment)
    assert "could not be started" in nowhere["msg"]
    assert ".s.PGSQL.1" in nowhere["msg"]
    assert run_module("observe", id="o1", dir=jobs, state="stopped", fails=True)["msg"].startswith("there is no observation")


def test_a_server_log_that_was_rotated_is_a_problem_and_not_an_error(cluster: dict[str, Any], jobs: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("before\n")
    start(jobs, cluster, server_log=log)
    log.rename(tmp_path / "old.log")
    log.write_text("after\n")
    seen = stop(jobs)
    assert Path(seen["server_log"]).read_text() == "after\n"
    assert "rotated" in " ".join(seen["problems"])


def test_the_keeper_of_a_host_finds_it_as_an_observer(jobs: Path) -> None:
    start(jobs, None, experiment="e1")
    job = json.loads((jobs / "o1" / "job.json").read_text())
    assert (job["experiment"], job["load"]) == ("e1", False)
    stop(jobs)


def test_check_mode_starts_and_stops_nothing(cluster: dict[str, Any], jobs: Path) -> None:
    predicted = start(jobs, cluster, check=True)
    assert predicted["changed"]
    assert predicted["host"]["filesystems"]["data"]["total_bytes"] > 0
    assert not jobs.exists()
    start(jobs, None)
    assert run_module("observe", id="o1", dir=jobs, state="stopped", check=True)["changed"]
    assert start_ticks(sampler(jobs)) is not None
    stop(jobs)
