# GNU General Public License v3.0 or later (see LICENSE)
"""The one writer of artifacts: an experiment's folder, its journal and its trials (DESIGN 4.5).

Every write is atomic (temporary file + rename). The plan inside ``experiment.json`` is written once; afterwards only
``environment`` and ``journal`` change.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import worst
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import dump_json

EXPERIMENT_SCHEMA = "pgsizing/experiment/1"
TRIAL_SCHEMA = "pgsizing/trial/1"
SCHEMAS = Path(__file__).parents[2] / "schemas"

#: States of a trial in the journal. ``unknown``: its controller was lost; it is collected or run again on resume.
TRIAL_STATES = ("planned", "running", "finished", "interrupted", "unknown")


class StoreError(Exception):
    """An artifact is missing, not JSON, or does not match its schema. The message names the file."""


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Write ``text`` to ``path`` so that a reader sees the old or the new content, never half of it.

    Bytes that a program's output could not be decoded from (Ansible keeps them as surrogates) are written as they were.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """Return the JSON content of ``path``; ``StoreError`` when it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StoreError(f"{path}: no such file") from error
    except ValueError as error:
        raise StoreError(f"{path}: not JSON: {error}") from error


def validate(document: dict[str, Any], kind: str) -> None:
    """Check ``document`` against ``schemas/<kind>.schema.json``; ``StoreError`` names the first mismatch.

    Without the jsonschema package (an installed collection on a bare controller) nothing is checked: the schemas are
    a promise to readers, and the tests hold every artifact to it.
    """
    try:
        import jsonschema
    except ImportError:
        return
    schema = read_json(SCHEMAS / f"{kind}.schema.json")
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(document))
    if error is not None:
        raise StoreError(f"{kind}.json: {error.json_path}: {error.message[:300]}")


class Store:
    """The folder of one experiment."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory).resolve()  # of results/latest: its name is the id by which jobs are found again
        self.experiment_file = self.directory / "experiment.json"

    @classmethod
    def create(cls, results_dir: Path, experiment: dict[str, Any]) -> Store:
        """Write a new experiment and point ``results/latest`` at it. ``StoreError`` when its folder exists."""
        store = cls(results_dir / experiment["experiment_id"])
        validate(experiment, "experiment")
        try:
            store.directory.mkdir(parents=True)
        except FileExistsError as error:
            raise StoreError(f"{store.directory} exists already") from error
        write_atomic(store.experiment_file, dump_json(experiment))
        store._point_latest(results_dir)
        return store

    def _point_latest(self, results_dir: Path) -> None:
        link = results_dir / f".latest.{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(self.directory.name)
        link.replace(results_dir / "latest")

    @property
    def experiment(self) -> dict[str, Any]:
        """The experiment as it is on disk."""
        return read_json(self.experiment_file)

    def is_controlled(self) -> bool:
        """Return whether a controller of the experiment lives: its callback ``artifacts`` locks the file ``lock``."""
        try:
            with open(self.directory / "lock", "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.directory / ".write.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def update(self, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Apply ``change`` to the experiment under a lock and write it back."""
        with self._locked():
            experiment = self.experiment
            change(experiment)
            write_atomic(self.experiment_file, dump_json(experiment))
        return experiment

    def trial_dir(self, trial_id: str) -> Path:
        """The folder of one trial (it may not exist yet)."""
        return self.directory / "trials" / trial_id

    def trial_state(self, trial_id: str, state: str, **fields: Any) -> None:
        """Set the journal entry of one trial. ``ValueError`` for an unknown state, ``KeyError`` for an unknown trial."""
        if state not in TRIAL_STATES:
            raise ValueError(f"unknown trial state {state!r}")

        def change(experiment: dict[str, Any]) -> None:
            entry = experiment["journal"]["trials"][trial_id]
            entry.update(state=state, **fields)
            entry["started" if state == "running" else "ended"] = time.time()

        self.update(change)

    def trial_mark(self, trial_id: str, step: str) -> None:
        """Note in the journal that a step of a running trial starts now. ``KeyError`` for an unknown trial."""

        def change(experiment: dict[str, Any]) -> None:
            experiment["journal"]["trials"][trial_id].setdefault("marks", {})[step] = time.time()

        self.update(change)

    def stage(self, stage: str, state: str, message: str | None = None) -> None:
        """Note in the journal that a stage started, finished or failed."""

        def change(experiment: dict[str, Any]) -> None:
            entry = experiment["journal"]["stages"].setdefault(stage, {})
            entry.update(state=state, at=time.time(), message=message)

        self.update(change)

    def end(self, state: str, cause: str | None = None) -> None:
        """Write the end record: ``finished``, ``failed`` or ``interrupted``. A running trial becomes interrupted or unknown."""

        def change(experiment: dict[str, Any]) -> None:
            journal = experiment["journal"]
            journal["end"] = {"state": state, "at": time.time(), "cause": cause}
            for entry in journal["trials"].values():
                if entry["state"] == "running":
                    entry["state"] = "interrupted" if state == "interrupted" else "unknown"

        self.update(change)

    def reopen(self) -> None:
        """Take the end record back: the experiment goes on."""

        def change(experiment: dict[str, Any]) -> None:
            experiment["journal"]["end"] = None
            experiment["journal"].setdefault("resumed", []).append(time.time())

        self.update(change)

    def write_trial(self, trial: dict[str, Any]) -> Path:
        """Write ``trial.json`` and close its journal entry; return the file's path."""
        validate(trial, "trial")
        path = self.trial_dir(trial["trial_id"]) / "trial.json"
        write_atomic(path, dump_json(trial))
        self.trial_state(
            trial["trial_id"],
            "finished",
            verdict=trial["verdict"],
            path=str(path.relative_to(self.directory)),
            headline=trial["headline"],
            message=(worst(trial["findings"]) or {}).get("message"),
        )
        return path

    def trials(self) -> list[dict[str, Any]]:
        """Every trial that has been written, in the order of the plan."""
        order = [t["id"] for t in self.experiment["plan"]["trials"]]
        return [read_json(p) for i in order if (p := self.trial_dir(i) / "trial.json").is_file()]

    def progress(self, **event: Any) -> None:
        """Append one event for the live line: one ``write`` of one line, so that readers never see half of it."""
        with open(self.directory / "progress.jsonl", "a", encoding="utf-8") as stream:
            stream.write(dump_json({"at": time.time(), **event}, indent=None))
