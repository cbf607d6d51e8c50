# GNU General Public License v3.0 or later (see LICENSE)
"""The action report: table, files, and what the exit status should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import actions, sample_experiment

from ansible_collections.pgsizing.bench.plugins.action import report
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store

TRIALS = ("01-base-r1", "02-big-r1")


def make(tmp_path: Path, require: str = "measured", **troubles: str) -> Store:
    folder = sample_experiment.make(tmp_path, repeats=1, seconds=20, troubles={t.replace("_", "-")[1:]: v for t, v in troubles.items()})
    store = Store(folder)
    store.update(lambda e: e["plan"].update(require=require))
    return store


def run(store: Store, check: bool = False) -> tuple[dict[str, Any], str]:
    action = actions.make_action(report, check, experiment_dir=str(store.directory))
    return action.run(task_vars={}), actions.displayed(action)


def test_files_and_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(tmp_path)
    monkeypatch.chdir(tmp_path)
    result, printed = run(store)
    assert result["changed"] is True
    assert result["complaint"] == ""
    assert {name: Path(path).name for name, path in result["files"].items()} == {
        "html": "report.html",
        "markdown": "report.md",
        "csv": "trials.csv",
    }
    assert all(Path(path).stat().st_size > 0 for path in result["files"].values())
    assert "base" in printed
    assert "big" in printed
    assert f"html: {store.directory.name}/report.html" in printed  # relative to where the user stands
    assert result["summary"]


def test_check_mode_prints_and_writes_nothing(tmp_path: Path) -> None:
    store = make(tmp_path)
    result, printed = run(store, check=True)
    assert result["changed"] is False
    assert "base" in printed
    assert not (store.directory / "report.html").exists()


@pytest.mark.parametrize(
    ("verdict", "require", "complaint"),
    [
        ("suspect", "measured", ""),
        ("suspect", "valid", "trial 02-big-r1 is suspect"),
        ("invalid", "measured", "trial 02-big-r1 is invalid"),
        ("aborted", "measured", "trial 02-big-r1 is aborted"),
        ("failed", "measured", "trial 02-big-r1 is failed"),
        ("missing", "measured", "trial 02-big-r1 was not measured (planned)"),
        ("missing", "valid", "trial 02-big-r1 was not measured (planned)"),
    ],
)
def test_why_a_run_should_fail(verdict: str, require: str, complaint: str, tmp_path: Path) -> None:
    result, _printed = run(make(tmp_path, require, _02_big_r1=verdict))
    assert result["complaint"] == complaint


def test_a_stage_that_failed_is_the_first_reason(tmp_path: Path) -> None:
    store = make(tmp_path, _01_base_r1="missing", _02_big_r1="missing")
    store.stage("prepare", "failed", "Make the cluster: no space left on device")
    result, _printed = run(store)
    reasons = result["complaint"].split("; ")
    assert reasons[0] == "prepare: Make the cluster: no space left on device"
    assert reasons[1:] == [f"trial {t} was not measured (planned)" for t in TRIALS]
    assert Path(result["files"]["html"]).is_file()  # on nothing measured, too
