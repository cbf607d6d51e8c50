# GNU General Public License v3.0 or later (see LICENSE)
"""The schemas of the artifacts: valid themselves, true to what is written, and strict where a reader relies on it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support import sample_experiment
from support.plan_site import make_experiment

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import SEVERITIES, VERDICTS, finding
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import EXPERIMENT_SCHEMA, SCHEMAS, TRIAL_SCHEMA, TRIAL_STATES

FILES = {kind: json.loads((SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8")) for kind in ("experiment", "trial")}


def errors(kind: str, document: dict[str, Any]) -> list[str]:
    found = jsonschema.Draft202012Validator(FILES[kind]).iter_errors(document)
    return [f"{e.json_path}: {e.message}" for e in found]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_experiment.make(tmp_path_factory.mktemp("sample"), repeats=2, seconds=20)


@pytest.fixture
def trial(sample: Path) -> dict[str, Any]:
    return json.loads(next(sample.glob("trials/*/trial.json")).read_text())


@pytest.mark.parametrize("kind", FILES)
def test_each_is_a_schema_and_names_itself(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(FILES[kind])
    const = FILES[kind]["properties"]["schema"]["const"]
    assert const == {"experiment": EXPERIMENT_SCHEMA, "trial": TRIAL_SCHEMA}[kind]


def test_words_are_those_of_the_code() -> None:
    trial, journal = FILES["trial"]["properties"], FILES["experiment"]["properties"]["journal"]["properties"]
    assert trial["verdict"]["enum"] == list(VERDICTS)
    for schema in (trial, FILES["experiment"]["properties"]["plan"]["properties"]):
        assert schema["findings"]["items"]["properties"]["severity"]["enum"] == list(SEVERITIES)
    assert journal["trials"]["additionalProperties"]["properties"]["state"]["enum"] == list(TRIAL_STATES)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"reproduce": "pgbench-shared-buffers-2023", "data_scale": 0.2},
        {"clients": [1, 4], "repeats": 1},
        {"target": "existing", "login_host": "db1"},
    ],
)
def test_what_plan_writes(given: dict[str, Any]) -> None:
    assert errors("experiment", make_experiment(**given)) == []


def test_the_made_up_sample_has_the_shape_of_the_real_thing(sample: Path) -> None:
    assert errors("experiment", json.loads((sample / "experiment.json").read_text())) == []
    for path in sample.glob("trials/*/trial.json"):
        assert errors("trial", json.loads(path.read_text())) == [], path


@pytest.mark.parametrize("key", FILES["trial"]["required"])
def test_a_trial_lacks_nothing(key: str, trial: dict[str, Any]) -> None:
    del trial[key]
    assert errors("trial", trial) == [f"$: '{key}' is a required property"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "splendid"),
        (("repeat",), 0),
        (("headline", "value"), "812"),
        (("headline", "better"), "more"),
        (("metrics", "tps", "value"), ""),
        (("metrics", "tps", "unit"), None),
        (("counts", "failed"), "0"),
        (("latency", "unit"), "s"),
        (("findings",), [{"code": "stall", "severity": "bad", "message": "x", "evidence": {}}]),
        (("findings",), [{"code": "stall", "severity": "note", "message": "", "evidence": {}}]),
        (("raw",), [{"path": "x", "bytes": 1, "sha256": "abc"}]),
        (("series", "columns"), [{"name": "tps"}]),
        (("timing", "reset_s"), "1 s"),
        (("extra",), 1),
    ],
)
def test_what_is_no_trial(path: tuple[str, ...], value: Any, trial: dict[str, Any]) -> None:
    broken = copy.deepcopy(trial)
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert len(errors("trial", broken)) == 1


def test_C008_missing_values_are_null(trial: dict[str, Any]) -> None:
    trial["headline"] |= {"value": None, "unit": None}
    trial["metrics"] = {"tps": {"value": None, "unit": "1/s", "better": "higher"}}
    trial |= {"client": None, "series": None, "latency": None, "cost": None, "timing": {"reset_s": None}, "counts": {"failed": None}}
    assert errors("trial", trial) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.update(experiment_id="latest"), "$.experiment_id: "),
        (lambda e: e["plan"].update(variants=[]), "$.plan.variants: "),
        (lambda e: e["plan"].update(repeats=0), "$.plan.repeats: "),
        (lambda e: e["plan"].pop("deadline_s"), "$.plan: 'deadline_s' is a required property"),
        (lambda e: e["journal"].update(end={"state": "done", "at": 1, "cause": None}), "$.journal.end.state: "),
        (lambda e: e["journal"]["trials"].update(x={"state": "planned"}), "$.journal.trials.x: 'attempt' is a required property"),
        (lambda e: e["plan"]["findings"].append({"code": "x"}), "$.plan.findings[0]: "),
        (lambda e: e.update(note="x"), "$: Additional properties"),
    ],
)
def test_what_is_no_experiment(change: Any, message: str) -> None:
    experiment = make_experiment()
    experiment["plan"]["findings"] = []
    change(experiment)
    found = errors("experiment", experiment)
    assert found
    assert all(error.startswith(message) for error in found), found


def test_a_finding_is_what_the_code_makes() -> None:
    experiment = make_experiment()
    experiment["plan"]["findings"].append(finding("shape_only", "scaled", scaled=[]))
    assert errors("experiment", experiment) == []
