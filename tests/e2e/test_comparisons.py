# GNU General Public License v3.0 or later (see LICENSE)
"""Variants against each other, a gate for CI, and a published run beside the measured one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.e2e import SHORT, Place, Run, codes

from ansible_collections.pgsizing.bench.plugins.module_utils.summary import figure

BIG = {"shared_buffers": "64MB", "work_mem": "8MB", "checkpoint_timeout": "7min"}
#: The second asks for a rate that no machine reaches: its trial is suspect.
VARIANTS = {"base": {}, "big": {"gucs": BIG, "rate": 1000000}}
#: Variables of somebody else's inventory.
FOREIGN = {"size": "huge", "target": "existing", "seed": 99, "clients": 77, "repeats": 9, "workload": "tprocc"}


@pytest.fixture(scope="module")
def compared(place: Place, first_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The second run of the place: two variants as a gate, under a foreign inventory."""
    inventory = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {"localhost": {"ansible_connection": "local"}}, "vars": FOREIGN}}))
    gate = {"variants": VARIANTS, "gucs": {"shared_buffers": "32MB"}, "require": "valid"}
    return place.run(*SHORT, gate, f"--inventory={inventory}", rc=None)


def trial(run: Run, variant: str) -> dict[str, Any]:
    return next(t for t in run.trials.values() if t["variant"] == variant)


def test_the_data_set_of_the_first_run_is_used_again(compared: Run, first_run: Run) -> None:
    now, before = (run.experiment["environment"]["datasets"] for run in (compared, first_run))
    assert [{**v, "reused": True} for v in before.values()] == list(now.values())
    assert not any(v["reused"] for v in before.values())
    assert not (compared.directory / "datasets").exists()
    assert not any("no_reset" in codes(t) for t in compared.trials.values())


def test_variables_of_a_foreign_inventory_change_nothing(compared: Run) -> None:
    plan = compared.experiment["plan"]
    assert (plan["size"], plan["target"], plan["workload"], plan["repeats"]) == ("local", "managed", "pgbench", 1)
    assert {(v["parameters"]["seed"], v["parameters"]["clients"]) for v in plan["variants"]} == {(20, 2)}


def test_settings_are_really_in_effect_in_each_trial(compared: Run) -> None:
    def live(variant: str) -> dict[str, str]:
        return {s["name"]: s["text"] for s in trial(compared, variant)["environment"]["postgres"]["non_default_settings"]}

    assert {k: live("base")[k] for k in ("shared_buffers", "checkpoint_timeout")} == {
        "shared_buffers": "32MB",
        "checkpoint_timeout": "15min",
    }
    assert {k: live("big")[k] for k in BIG} == BIG
    assert trial(compared, "big")["comparison_key"]["settings"] != trial(compared, "base")["comparison_key"]["settings"]
    assert not any("settings_not_in_effect" in codes(t) for t in compared.trials.values())


def test_settings_that_differ_stand_in_the_report(compared: Run) -> None:
    report = (compared.directory / "report.md").read_text()
    assert "| shared_buffers |" in report
    for text in ("32MB", "64MB", "too few repeats"):
        assert text in report, text


def test_a_suspect_trial_fails_the_gate_after_the_report(compared: Run) -> None:
    big = trial(compared, "big")
    assert big["verdict"] == "suspect"
    assert "rate_missed" in codes(big, "suspect")
    assert f"trial {big['trial_id']} is suspect" in compared.words
    assert compared.journal["end"]["state"] == "failed"
    assert {t["state"] for t in compared.journal["trials"].values()} == {"finished"}
    assert (compared.directory / "report.html").exists()


def test_a_published_run_stands_beside_the_measured_one(prepared: Place) -> None:
    run = prepared.run("reproduce=pgbench-shared-buffers-2023", "data_scale=0.02", "time_scale=0.2", "repeats=1")
    plan = run.experiment["plan"]
    assert {v["name"]: v["parameters"]["scale"] for v in plan["variants"]} == {"128MB": 1, "1GB": 1}
    assert {(v["parameters"]["clients"], v["parameters"]["threads"], v["parameters"]["protocol"]) for v in plan["variants"]} == {
        (10, 2, "simple")
    }
    report = " ".join((run.directory / "report.md").read_text().split())
    for value in ("132.559344", "75.438", "209.944478", "47.632", "30.29"):
        assert value in report, f"published {value}"
    for variant in ("128MB", "1GB"):
        measured = trial(run, variant)
        assert measured["counts"]["processed"] == 10 * plan["variants"][0]["parameters"]["transactions"]
        for value in (measured["metrics"]["tps"]["value"], measured["latency"]["average"]):
            assert f"| {figure(value)} |" in report, value
    loaded = next(iter(run.experiment["environment"]["datasets"].values()))["load_seconds"]
    assert f"| {loaded:.4g} |" in report
    assert "shape only" in report
    for deviation in ("2GB in the prose, 1GB in the file", "TCP to 127.0.0.1 with TLS 1.3", "Unix socket, no TLS", "scale (scaled)"):
        assert deviation in report, deviation
