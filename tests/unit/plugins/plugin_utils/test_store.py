# GNU General Public License v3.0 or later (see LICENSE)
"""The one writer of artifacts: atomic, journalled, held to the schemas."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from support import sample_experiment
from support.plan_site import make_experiment

from ansible_collections.pgsizing.bench.plugins.plugin_utils import store as stores
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store, StoreError, read_json, validate, write_atomic


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "results", make_experiment(repeats=2, login_password="hunter2!", target="managed"))


def sample_trial(tmp_path: Path, store: Store, trial_id: str) -> dict[str, Any]:
    """A trial of the made-up experiment, renamed into ``store``."""
    folder = sample_experiment.make(tmp_path / "sample", variants=["base"], repeats=1, seconds=20)
    trial = read_json(next(folder.glob("trials/*/trial.json")))
    return {**trial, "experiment_id": store.directory.name, "trial_id": trial_id}


# writing -----------------------------------------------------------------------------------------------------------------


def test_a_write_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "x.json"
    write_atomic(path, "old")
    with pytest.raises(TypeError):
        write_atomic(path, 1)
    monkeypatch.setattr(os, "fsync", lambda _fd: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["x.json"]  # no temporary file is left


def test_mode_and_bytes_that_were_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x"
    raw = b"caf\xe9\r\n"
    write_atomic(path, raw.decode("utf-8", "surrogateescape"), mode=0o600)
    assert path.read_bytes() == raw
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("content", "message"), [(None, "no such file"), (b"{", "not JSON"), (b"\xff{}", "not JSON")])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError, match=f"{path}: {message}"):
        read_json(path)


def test_a_document_that_breaks_its_schema_is_refused() -> None:
    experiment = make_experiment()
    validate(experiment, "experiment")
    experiment["plan"]["trials"] = []
    with pytest.raises(StoreError, match=r"experiment.json: \$.plan.trials: "):
        validate(experiment, "experiment")


# an experiment -----------------------------------------------------------------------------------------------------------


def test_create(store: Store, tmp_path: Path) -> None:
    latest = tmp_path / "results" / "latest"
    assert latest.is_symlink()
    assert latest.resolve() == store.directory
    assert str(latest.readlink()) == store.directory.name  # the folder may be moved as a whole
    assert store.experiment["journal"]["end"] is None
    with pytest.raises(StoreError, match="exists already"):
        Store.create(tmp_path / "results", store.experiment)


def test_a_store_by_its_link_knows_its_name(store: Store, tmp_path: Path) -> None:
    assert Store(tmp_path / "results" / "latest").directory.name == store.experiment["experiment_id"]


def test_C073_no_secret_in_the_experiment(store: Store) -> None:
    assert "hunter2!" not in "".join(p.read_text() for p in store.directory.rglob("*") if p.is_file())
    assert store.experiment["plan"]["inputs"]["login_password"] == "given, not recorded"


def test_the_life_of_a_trial(store: Store, tmp_path: Path) -> None:
    store.trial_state("01-base-r1", "running", attempt=1)
    started = store.experiment["journal"]["trials"]["01-base-r1"]["started"]
    store.trial_mark("01-base-r1", "reset")
    store.trial_mark("01-base-r1", "measure")
    entry = store.experiment["journal"]["trials"]["01-base-r1"]
    assert entry["started"] == started  # a mark is no start
    assert list(entry["marks"]) == ["reset", "measure"]
    trial = sample_trial(tmp_path, store, "01-base-r1")
    path = store.write_trial(trial)
    assert json.loads(path.read_text()) == trial
    entry = store.experiment["journal"]["trials"]["01-base-r1"]
    assert (entry["state"], entry["verdict"], entry["path"]) == ("finished", trial["verdict"], "trials/01-base-r1/trial.json")
    assert entry["headline"] == trial["headline"]
    assert entry["ended"] >= entry["started"]
    assert [t["trial_id"] for t in store.trials()] == ["01-base-r1"]


def test_trials_come_in_the_order_of_the_plan(store: Store, tmp_path: Path) -> None:
    for trial_id in ("02-base-r2", "01-base-r1"):
        store.write_trial(sample_trial(tmp_path, store, trial_id))
    assert [t["trial_id"] for t in store.trials()] == ["01-base-r1", "02-base-r2"]


def test_a_trial_that_breaks_its_schema_is_not_written(store: Store, tmp_path: Path) -> None:
    trial = sample_trial(tmp_path, store, "01-base-r1") | {"verdict": "splendid"}
    with pytest.raises(StoreError, match=r"trial.json: \$.verdict"):
        store.write_trial(trial)
    assert store.trials() == []
    assert store.experiment["journal"]["trials"]["01-base-r1"]["state"] == "planned"


def test_unknown_states_and_trials(store: Store) -> None:
    with pytest.raises(ValueError, match="unknown trial state 'done'"):
        store.trial_state("01-base-r1", "done")
    with pytest.raises(KeyError):
        store.trial_state("99-base-r1", "running")
    with pytest.raises(KeyError):
        store.trial_mark("99-base-r1", "reset")


@pytest.mark.parametrize(("end", "state"), [("interrupted", "interrupted"), ("failed", "unknown"), ("finished", "unknown")])
def test_the_end_record_leaves_no_trial_running(store: Store, end: str, state: str) -> None:
    store.trial_state("01-base-r1", "running")
    store.end(end, "SIGINT")
    journal = store.experiment["journal"]
    assert journal["end"]["state"] == end
    assert journal["end"]["cause"] == "SIGINT"
    assert [t["state"] for t in journal["trials"].values()] == [state, "planned"]
    store.reopen()
    journal = store.experiment["journal"]
    assert journal["end"] is None
    assert len(journal["resumed"]) == 1
    validate(store.experiment, "experiment")


def test_stages(store: Store) -> None:
    store.stage("prepare", "started")
    store.stage("prepare", "failed", "no disk")
    stage = store.experiment["journal"]["stages"]["prepare"]
    assert (stage["state"], stage["message"]) == ("failed", "no disk")


def test_the_plan_is_never_changed(store: Store) -> None:
    plan = store.experiment["plan"]
    store.trial_state("01-base-r1", "running")
    store.stage("prepare", "started")
    store.end("finished")
    assert store.experiment["plan"] == plan


def test_writers_do_not_lose_each_others_changes(store: Store) -> None:
    def add(name: str) -> None:
        for number in range(10):
            key = f"{name}{number}"
            store.update(lambda e, key=key: e["environment"]["datasets"].update({key: 1}))

    threads = [threading.Thread(target=add, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.experiment["environment"]["datasets"]) == 30


def test_progress_is_one_line_an_event(store: Store) -> None:
    store.progress(stage="measure", rate=float("nan"), message="a\nb")
    store.progress(stage="report")
    lines = (store.directory / "progress.jsonl").read_text().splitlines()
    events = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [e["stage"] for e in events] == ["measure", "report"]
    assert events[0]["rate"] is None
    assert events[0]["at"] > 0


def test_a_living_controller_is_seen_by_its_lock(store: Store) -> None:
    assert not store.is_controlled()
    with open(store.directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert store.is_controlled()
    assert not store.is_controlled()


def test_without_jsonschema_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jsonschema", None)
    stores.validate({}, "trial")
    monkeypatch.undo()
    with pytest.raises(StoreError):
        stores.validate({}, "trial")
