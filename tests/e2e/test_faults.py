# GNU General Public License v3.0 or later (see LICENSE)
"""Trouble in mid-run: one experiment in which every trial but one meets its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cluster import sql
from support.e2e import SHORT, Place, Run, codes, read, rows
from support.modules import wait_for

#: Three transactions in ten fail as a serialization failure does.
FAILING = "DO $$ BEGIN IF random() < 0.3 THEN RAISE EXCEPTION USING ERRCODE = 'serialization_failure'; END IF; END $$;"
VARIANTS = {
    "calm": {},
    "server-killed": {"duration": 5},
    "pgbench-killed": {"duration": 5},
    "backend-ended": {"duration": 5},
    "crowded": {"duration": 5},
    "failing": {"scripts": [{"sql": FAILING}]},
    "unstartable": {"gucs": {"huge_pages": "on", "huge_page_size": "1GB"}},
}


def kill_server(place: Place, _run_dir: Path) -> None:
    (pid_file,) = place.base_dir.glob("clusters/*/data/postmaster.pid")
    os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)


def kill_pgbench(_place: Place, run_dir: Path) -> None:
    os.kill(read(run_dir / "started.json")["pid"], signal.SIGKILL)


def end_backend(place: Place, _run_dir: Path) -> None:
    cluster = read(next(place.base_dir.glob("clusters/*/cluster.json")))
    query = (
        "SELECT count(pg_terminate_backend(pid)) FROM (SELECT min(pid) AS pid FROM pg_stat_activity WHERE application_name = 'pgbench') a"
    )
    assert sql(cluster, query) == "1"


def crowd(_place: Place, _run_dir: Path) -> None:
    busy = [subprocess.Popen(["timeout", "4", "sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
    assert [process.wait() for process in busy] == [124] * len(busy)


FAULTS: dict[str, Callable[[Place, Path], None]] = {
    "server-killed": kill_server,
    "pgbench-killed": kill_pgbench,
    "backend-ended": end_backend,
    "crowded": crowd,
}


@pytest.fixture(scope="module")
def troubled(place: Place, first_run: Run) -> Run:
    """The experiment, after all its troubles."""
    run = place.start(*SHORT, {"variants": VARIANTS})
    run.wait(lambda: run.id and (run.directory / "experiment.json").exists())
    for planned in run.experiment["plan"]["trials"]:
        fault = FAULTS.get(planned["variant"])
        if fault:
            run_dir = place.base_dir / "jobs" / f"{run.id}.{planned['id']}.1.measured"
            run.wait(lambda d=run_dir: (d / "stderr").exists() and "progress:" in (d / "stderr").read_text())
            fault(place, run_dir)
            wait_for((run_dir / "result.json").exists)
    assert run.end() != 0, run.output
    return run


def trial(run: Run, variant: str) -> dict[str, Any]:
    return next(t for t in run.trials.values() if t["variant"] == variant)


@pytest.mark.parametrize(
    ("variant", "verdict", "code", "said"),
    [
        ("server-killed", "aborted", "server_lost", "all 2 clients lost their connection"),
        ("pgbench-killed", "aborted", "run_aborted", "killed by signal 9"),
        ("backend-ended", "aborted", "clients_aborted", "1 of 2 clients stopped before the end"),
        ("failing", "invalid", "failed_transactions", "% of the transactions failed"),
        ("unstartable", "failed", "setup_failed", "did not start"),
    ],
)
def test_each_trouble_has_its_verdict(troubled: Run, variant: str, verdict: str, code: str, said: str) -> None:
    found = trial(troubled, variant)
    assert found["verdict"] == verdict, found["findings"]
    assert code in codes(found, verdict)
    assert said in next(f["message"] for f in found["findings"] if f["code"] == code)
    assert f"trial {found['trial_id']} is {verdict}" in troubled.words


def test_the_calm_trial_does_not_suffer(troubled: Run) -> None:
    assert trial(troubled, "calm")["verdict"] in ("valid", "suspect")
    assert f"trial {trial(troubled, 'calm')['trial_id']} is" not in troubled.words


def test_other_work_on_the_machine_makes_a_trial_suspect(troubled: Run) -> None:
    found = next(f for f in trial(troubled, "crowded")["findings"] if f["code"] == "other_load")
    assert (found["severity"], found["evidence"]["host"]) == ("suspect", "server")
    assert 0.15 < found["evidence"]["share"] < 1


def test_a_share_of_failed_transactions_is_the_real_one(troubled: Run) -> None:
    counts = trial(troubled, "failing")["counts"]
    assert counts["failed_pct"] == pytest.approx(30, abs=5)
    assert counts["failed"] == counts["serialization_failures"]


@pytest.mark.parametrize("variant", FAULTS)
def test_partial_results_are_kept(troubled: Run, variant: str) -> None:
    found = trial(troubled, variant)
    folder = troubled.directory / "trials" / found["trial_id"]
    assert "progress:" in (folder / "raw" / "measured.stderr").read_text()
    assert [row for row in rows(folder / "series.csv") if row["tps"]]
    assert found["environment"]["server"]["cores"]
    if variant != "server-killed":
        assert found["environment"]["observation"]["postgres"]["xact_commit"] > 0


def test_the_reason_why_a_server_did_not_start_is_its_own_words(troubled: Run) -> None:
    message = next(f["message"] for f in trial(troubled, "unstartable")["findings"] if f["code"] == "setup_failed")
    assert "huge" in message.lower()
    assert "FATAL" in message


def test_every_trial_stands_in_the_report(troubled: Run) -> None:
    report = (troubled.directory / "report.md").read_text()
    assert {t["state"] for t in troubled.journal["trials"].values()} == {"finished"}
    assert troubled.journal["end"]["state"] == "failed"
    for name in VARIANTS:
        assert f"| {name}" in report
    for wrong in ("aborted", "invalid", "failed"):
        assert wrong in report


def test_nothing_is_left_running(troubled: Run) -> None:
    troubled.place.quiet()
    assert not list(troubled.place.base_dir.glob("clusters/*/data/postmaster.pid"))
    assert read(troubled.place.base_dir / "lease.json")["cause"] == "released"
