# GNU General Public License v3.0 or later (see LICENSE)
"""``ansible-playbook benchmark.yml`` as a user starts it: plan, artifacts, figures, and the second run."""

from __future__ import annotations

import gzip
import math
import re

import pytest
from support.e2e import SHORT, Place, Run, rows

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import is_locked
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import validate

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


def test_check_mode_prints_the_plan_and_changes_nothing(fresh: Place) -> None:
    run = fresh.run(*SHORT, "--check")
    assert "PLAN 2" in run.output
    assert "shared_buffers = " in run.output
    assert fresh.snapshot() == {}


def test_every_artifact_is_there_and_matches_its_schema(first_run: Run) -> None:
    experiment, trials = first_run.experiment, first_run.trials
    validate(experiment, "experiment")
    for trial in trials.values():
        validate(trial, "trial")
    assert [t["verdict"] in ("valid", "suspect") for t in trials.values()] == [True, True]
    assert {name: t["state"] for name, t in experiment["journal"]["trials"].items()} == dict.fromkeys(trials, "finished")
    assert experiment["journal"]["end"]["state"] == "finished"
    for name in ("report.html", "report.md", "trials.csv", "progress.jsonl", "events.jsonl"):
        assert (first_run.directory / name).stat().st_size > 0, name
    for name, trial in trials.items():
        folder = first_run.directory / "trials" / name
        assert all((folder / raw["path"]).stat().st_size == raw["bytes"] for raw in trial["raw"])
        series = rows(folder / trial["series"]["path"])
        assert list(series[0]) == [column["name"] for column in trial["series"]["columns"]]
        assert {"tps", "cpu_user", "data_writes_per_s", "wal_bytes_per_s"} <= {k for row in series for k, v in row.items() if v}


def test_figures_are_what_pgbench_printed_to_the_last_digit(first_run: Run) -> None:
    report = (first_run.directory / "report.md").read_text()
    table = {row["trial_id"]: row for row in rows(first_run.directory / "trials.csv")}
    for name, trial in first_run.trials.items():
        printed = (first_run.directory / "trials" / name / "raw" / "measured.stdout").read_text()

        def said(what: str, text: str = printed) -> str:
            found = re.search(rf"^{what} = ([\d.]+)", text, re.MULTILINE)
            assert found, text
            return found.group(1)

        assert repr(trial["metrics"]["tps"]["value"]) == said("tps").rstrip("0")
        assert trial["headline"]["value"] == trial["metrics"]["tps"]["value"] == float(table[name]["metric_tps"])
        assert trial["latency"]["average"] == float(said("latency average"))
        assert trial["latency"]["stddev"] == float(said("latency stddev"))
        processed = re.search(r"actually processed: (\d+)", printed)
        assert processed and trial["counts"]["processed"] == int(processed.group(1)) == trial["latency"]["n"]
    assert first_run.experiment["experiment_id"] in report


def test_percentiles_are_those_of_a_sorted_log(first_run: Run) -> None:
    for name, trial in first_run.trials.items():
        times: list[int] = []
        for log in (first_run.directory / "trials" / name / "raw").glob("pgbench_log.*"):
            with gzip.open(log, "rt") if log.suffix == ".gz" else open(log) as stream:
                times += [int(line.split()[2]) for line in stream]
        times.sort()
        wanted = {key: times[math.ceil(share * len(times)) - 1] / 1000 for key, share in PERCENTILES.items()}
        wanted |= {"min": times[0] / 1000, "max": times[-1] / 1000, "n": len(times)}
        assert {key: trial["latency"][key] for key in wanted} == pytest.approx(wanted, abs=1e-9)
        assert {key: trial["latency"]["scripts"][0][key] for key in wanted} == {key: trial["latency"][key] for key in wanted}


def test_the_data_that_a_run_left_are_held_against_themselves(prepared: Place) -> None:
    checked = prepared.run(playbook="playbooks/check_data.yml")
    assert "localhost: pgsizing_run: scale 1: the numbers of branches and tellers and the last account fit each other" in checked.words


def test_nothing_runs_afterwards(first_run: Run) -> None:
    first_run.place.quiet()
    assert not is_locked(first_run.place.base_dir / "host.lock")
    assert not list(first_run.place.base_dir.glob("clusters/*/data/postmaster.pid"))


def test_no_secret_of_the_private_cluster_in_the_artifacts(first_run: Run) -> None:
    passfile = next(first_run.place.base_dir.glob("clusters/*/pgpass"))
    assert passfile.stat().st_mode & 0o777 == 0o600
    password = passfile.read_text().strip().rpartition(":")[2]
    assert password not in first_run.output
    holds = [
        str(p) for p in first_run.place.root.rglob("*") if p.is_file() and p != passfile and password in p.read_bytes().decode("latin-1")
    ]
    assert holds == []
