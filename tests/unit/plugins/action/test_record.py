# GNU General Public License v3.0 or later (see LICENSE)
"""The action record: what roles and playbooks write into an experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from support import actions
from support.plan_site import make_experiment

from ansible_collections.pgsizing.bench.plugins.action import record
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store

TRIAL = "01-base-r1"
MEASURED: dict[str, Any] = {
    "load_generator": {"name": "pgbench", "version": "15.14"},
    "metrics": {"tps": {"value": 812.5, "unit": "1/s", "better": "higher"}},
    "findings": [],
    "steps": [{"name": "ramp_up", "elapsed_s": 5.1}, {"name": "measured", "elapsed_s": 20.2}],
    "raw": [],
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "results", make_experiment(variants={"base": {}, "big": {"clients": 8}}, repeats=1))


def write(store: Store, event: str, check: bool = False, **args: Any) -> dict[str, Any]:
    action = actions.make_action(record, check, experiment_dir=str(store.directory), event=event, **args)
    result = action.run(task_vars={})
    result["printed"] = actions.displayed(action)
    return result


def journal(store: Store) -> dict[str, Any]:
    return store.experiment["journal"]["trials"][TRIAL]


def events(store: Store) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (store.directory / "progress.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("event", "args", "missing"),
    [
        ("stage", {}, "stage and state"),
        ("stage", {"stage": "prepare"}, "state"),
        ("begin", {}, "trial_id"),
        ("mark", {"trial_id": TRIAL}, "stage"),
        ("dataset", {"cluster": "15-x"}, "fingerprint and measurement"),
        ("fetch", {"trial_id": TRIAL}, "observation"),
        ("finish", {}, "trial_id"),
        ("fail", {}, "trial_id"),
    ],
)
def test_what_an_event_cannot_do_without(event: str, args: dict[str, Any], missing: str, store: Store) -> None:
    with pytest.raises(AnsibleActionFail, match=f"event {event} needs {missing}$"):
        write(store, event, **args)


def test_check_mode_writes_nothing(store: Store) -> None:
    before = store.experiment
    assert write(store, "begin", check=True, trial_id=TRIAL)["changed"] is False
    assert store.experiment == before


def test_stages(store: Store) -> None:
    write(store, "stage", stage="prepare", state="started")
    write(store, "stage", stage="prepare", state="failed", message="Make the cluster", failure={"msg": "no space left on device"})
    assert store.experiment["journal"]["stages"]["prepare"]["message"] == "Make the cluster: no space left on device"
    assert [e["message"] for e in events(store)] == ["started", "Make the cluster: no space left on device"]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (
            {"msg": "non-zero return code", "stderr": "psql: error: FATAL: no such database\n", "rc": 2},
            "psql: error: FATAL: no such database",
        ),
        ({"msg": "One or more items failed", "results": [{"msg": "ok"}, {"failed": True, "msg": "not ours"}]}, "not ours"),
        ({"msg": "Unsupported parameters", "stderr": " "}, "Unsupported parameters"),
        ({"censored": "the output has been hidden"}, "the output has been hidden"),
        ({"rc": 1}, "failed"),
    ],
)
def test_what_a_failed_task_said(failure: dict[str, Any], reason: str, store: Store) -> None:
    write(store, "stage", stage="prepare", state="failed", message="A task", failure=failure)
    assert store.experiment["journal"]["stages"]["prepare"]["message"] == f"A task: {reason}"
    write(store, "stage", stage="prepare", state="failed", message="", failure=failure)
    assert store.experiment["journal"]["stages"]["prepare"]["message"] == f"a task: {reason}"


def test_begin_opens_a_trial_and_says_what_it_is(store: Store) -> None:
    opened = write(store, "begin", trial_id="02-big-r1")
    assert opened["variant"]["name"] == "big"
    assert opened["variant"]["parameters"]["clients"] == 8
    assert opened["cluster"].startswith("15-")
    assert (opened["attempt"], opened["lost"]) == (1, False)
    plan = store.experiment["plan"]
    assert opened["observe_seconds"] == plan["deadline_s"]
    assert opened["lease_seconds"] == 900 + 3 * plan["estimate"]["seconds"] / 2  # of two trials
    assert events(store)[-1] | {"at": 0} == {"at": 0, "stage": "measure", "trial": "02-big-r1", "k": 2, "n": 2, "step": "begin"}


def test_an_unknown_trial(store: Store) -> None:
    with pytest.raises(KeyError):
        write(store, "begin", trial_id="99-nosuch-r1")


def test_marks_become_the_timing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000, 2000))
    now = next(clock)
    monkeypatch.setattr("time.time", lambda: float(now))
    write(store, "begin", trial_id=TRIAL)
    for step, at in (("reset", 1001), ("restart", 1003), ("settle", 1007), ("measure", 1010), ("collect", 1040)):
        now = at
        write(store, "mark", trial_id=TRIAL, stage=step)
    now = 1042
    write(store, "finish", trial_id=TRIAL, measurement=MEASURED)
    timing = store.trials()[0]["timing"]
    assert {k: timing[k] for k in ("reset_s", "restart_s", "settle_s", "measure_s", "collect_s", "total_s")} == {
        "reset_s": 2,
        "restart_s": 4,
        "settle_s": 3,
        "measure_s": 30,
        "collect_s": 2,
        "total_s": 41,
    }
    assert (timing["ramp_up_s"], timing["measured_s"]) == (5.1, 20.2)
    assert journal(store)["started"] == 1000


def test_finish_writes_the_trial_and_prints_one_line(store: Store) -> None:
    write(store, "begin", trial_id=TRIAL)
    result = write(store, "finish", trial_id=TRIAL, measurement=MEASURED)
    assert result["printed"].startswith(f"trial {TRIAL}: tps 812.5 1/s, {result['verdict']}")
    assert result["headline"]["value"] == 812.5
    assert result["ansible_facts"]["pgsizing_results"] == [
        {
            "trial_id": TRIAL,
            "variant": "base",
            "headline": result["headline"],
            "verdict": result["verdict"],
            "path": str(store.trial_dir(TRIAL)),
        }
    ]
    assert journal(store)["state"] == "finished"


def test_the_observers_files_are_fetched_and_named_relative_to_the_trial(store: Store, tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text("ts,interval_s,cpu_user\n")
    observation = {
        "samples": str(tmp_path / "samples.csv"),
        "server_log": "/nosuch/server.log",
        "statements_before": None,
        "columns": [],
        "problems": [],
    }
    write(store, "begin", trial_id=TRIAL)
    write(store, "finish", trial_id=TRIAL, measurement=MEASURED, observation=observation)
    trial = store.trials()[0]
    assert trial["environment"]["observation"]["samples"] == "raw/samples.csv"
    assert trial["environment"]["observation"]["server_log"] is None
    assert [r["path"] for r in trial["raw"]] == ["raw/samples.csv"]
    assert any(f["code"] == "not_checked" and "/nosuch/server.log could not be fetched" in f["message"] for f in trial["findings"])


def test_the_drivers_observation_is_fetched_apart_and_tells_what_is_missing(store: Store, tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text("ts,interval_s,cpu_user\n")
    seen = {"samples": str(tmp_path / "samples.csv"), "server_log": "/nosuch/log", "columns": [], "problems": ["no sar"]}
    write(store, "begin", trial_id=TRIAL)
    fetched = write(store, "fetch", trial_id=TRIAL, observation=seen)["observation"]
    assert (fetched["samples"], fetched["server_log"]) == ("driver/samples.csv", None)
    assert (store.trial_dir(TRIAL) / "driver/samples.csv").is_file()
    assert fetched["problems"][0] == "no sar"
    assert fetched["problems"][1].startswith("/nosuch/log could not be fetched: ")
    write(store, "finish", trial_id=TRIAL, measurement=MEASURED, driver_observation=fetched)
    assert store.trials()[0]["environment"]["driver_observation"] == fetched


def test_a_failed_trial_is_an_entry_with_one_reason(store: Store) -> None:
    write(store, "begin", trial_id=TRIAL)
    result = write(store, "fail", trial_id=TRIAL, message="Restart", failure={"msg": "x", "stderr": "FATAL: could not map shared memory"})
    assert result["verdict"] == "failed"
    assert result["printed"] == f"trial {TRIAL}: no figure, failed: Restart: FATAL: could not map shared memory"
    assert [f["code"] for f in store.trials()[0]["findings"]] == ["setup_failed"]
    assert journal(store)["message"] == "Restart: FATAL: could not map shared memory"


def test_a_failed_trial_that_measured_something_keeps_its_own_reason(store: Store) -> None:
    left = {**MEASURED, "metrics": {}, "findings": [finding("too_many_clients", "the server refused client 97")]}
    write(store, "begin", trial_id=TRIAL)
    result = write(store, "fail", trial_id=TRIAL, message="Run pgbench", failure={"msg": "x"}, measurement=left)
    assert [f["code"] for f in store.trials()[0]["findings"]] == ["too_many_clients"]
    assert "the server refused client 97" in result["printed"]


def test_data_sets_are_kept_in_the_environment(store: Store) -> None:
    write(store, "dataset", cluster="15-0a1b2c3d", fingerprint="5a3b1e", measurement={"load_seconds": 12.5, "reused": False})
    assert store.experiment["environment"]["datasets"] == {"15-0a1b2c3d/5a3b1e": {"load_seconds": 12.5, "reused": False}}


@pytest.mark.parametrize(
    ("args", "state", "cause"),
    [
        ({}, "finished", None),
        ({"state": "finished", "message": ""}, "finished", None),
        ({"state": "failed", "message": "trial x is invalid"}, "failed", "trial x is invalid"),
    ],
)
def test_the_end(args: dict[str, Any], state: str, cause: str | None, store: Store) -> None:
    write(store, "end", **args)
    assert {k: store.experiment["journal"]["end"][k] for k in ("state", "cause")} == {"state": state, "cause": cause}


# a trial that is run again -------------------------------------------------------------------------------------------------


def test_an_interrupted_attempt_is_set_aside(store: Store) -> None:
    write(store, "begin", trial_id=TRIAL)
    write(store, "mark", trial_id=TRIAL, stage="measure")
    (store.trial_dir(TRIAL) / "raw").mkdir(parents=True)
    store.trial_state(TRIAL, "interrupted")
    opened = write(store, "begin", trial_id=TRIAL)
    assert (opened["attempt"], opened["lost"]) == (2, False)
    assert (store.directory / f"trials/{TRIAL}.attempt-1/raw").is_dir()
    assert not store.trial_dir(TRIAL).exists()
    assert journal(store)["marks"] == {}
    assert store.trials() == []


@pytest.mark.parametrize("state", ["running", "unknown"])
def test_a_run_whose_controller_was_lost_may_be_collected(state: str, store: Store) -> None:
    write(store, "begin", trial_id=TRIAL)
    write(store, "mark", trial_id=TRIAL, stage="measure")
    store.trial_state(TRIAL, state)
    opened = write(store, "begin", trial_id=TRIAL)
    assert (opened["attempt"], opened["lost"]) == (1, True)
    assert "measure" in journal(store)["marks"]
    again = write(store, "begin", trial_id=TRIAL, retry=True)  # there was nothing to collect
    assert (again["attempt"], again["lost"]) == (2, False)
    assert journal(store)["marks"] == {}


def test_one_that_was_lost_before_its_load_is_run_again(store: Store) -> None:
    write(store, "begin", trial_id=TRIAL)
    write(store, "mark", trial_id=TRIAL, stage="restart")
    opened = write(store, "begin", trial_id=TRIAL)
    assert (opened["attempt"], opened["lost"]) == (2, False)


def test_a_collected_run_has_the_hosts_and_settings_of_its_start_and_says_what_it_is(store: Store) -> None:
    settings = {"findings": [], "non_default": [], "server_version": "15.20"}
    write(store, "begin", trial_id=TRIAL)
    write(store, "mark", trial_id=TRIAL, stage="measure", hosts={"server": {"cores": 4}, "driver": {"cores": 8}}, settings=settings)
    write(store, "begin", trial_id=TRIAL)
    write(store, "finish", trial_id=TRIAL, measurement=MEASURED)
    (trial,) = store.trials()
    assert "resumed" in [f["code"] for f in trial["findings"]]
    assert (trial["environment"]["server"], trial["environment"]["driver"]) == ({"cores": 4}, {"cores": 8})
    assert trial["environment"]["postgres"]["version"] == trial["comparison_key"]["server_version"] == "15.20"
