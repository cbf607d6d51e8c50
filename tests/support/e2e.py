# GNU General Public License v3.0 or later (see LICENSE)
"""Real ``ansible-playbook`` runs in a place of their own on this machine, and what they leave behind."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.modules import wait_for

REPOSITORY = Path(__file__).parents[2]
#: A whole run, on a machine that is busy with other things too.
PATIENCE_S = 300.0
#: The least that still is a measurement.
SHORT = ("workload=pgbench", "duration=3", "ramp_up=0", "clients=2", "scale=1", "repeats=1")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def target(link: Path) -> str:
    """Return where a link of /proc points to, nothing when it is gone."""
    with suppress(OSError):
        return str(link.readlink())
    return ""


class Place:
    """Base directory, port and results of its own. The path is short: socket names are limited; servers may read it."""

    patience_s = PATIENCE_S

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="pgs-", dir="/tmp"))
        self.root.chmod(0o755)
        self.base_dir, self.results, self.port = self.root / "b", self.root / "results", free_port()
        self.environment = environment or {}
        self._runs = 0

    def own_options(self) -> dict[str, Any]:
        """What sends a run to this place."""
        return {"postgres_base_dir": str(self.base_dir), "postgres_port": self.port, "results_dir": str(self.results)}

    def start(self, *options: str | dict[str, Any], playbook: str = "benchmark.yml", cwd: Path = REPOSITORY) -> Run:
        """Start a playbook. ``name=value`` and dicts become ``-e``, words with a dash go to the command line as they are."""
        words = [str(Path(sys.executable).with_name("ansible-playbook")), playbook]
        for option in (self.own_options(), *options):
            text = option if isinstance(option, str) else json.dumps(option)
            words += [text] if text.startswith("-") else ["-e", text]
        self._runs += 1
        return Run(self, words, cwd, self.root / f"run-{self._runs}.out")

    def run(self, *options: str | dict[str, Any], rc: int | None = 0, **where: Any) -> Run:
        """Run a playbook to its end; its exit status must be ``rc`` (``None``: anything but 0)."""
        run = self.start(*options, **where)
        ended = run.end()
        assert ended == rc if rc is not None else ended != 0, run.output
        return run

    def leftovers(self) -> list[str]:
        """Return the processes that have anything to do with the base directory: command line, working folder or an open file."""
        mine, found = str(self.root), []
        for process in Path("/proc").glob("[0-9]*"):
            command = ""
            with suppress(OSError):  # gone, or another user's
                command = (process / "cmdline").read_text("utf-8", "replace").replace("\0", " ").strip()
                links = [process / "cwd", *(process / "fd").iterdir()]
                if mine in command or any(mine in place for place in map(target, links)):
                    found.append(f"{process.name}: {command}")
        return found

    def quiet(self) -> None:
        """Wait until nothing of ours runs."""
        try:
            wait_for(lambda: not self.leftovers(), seconds=60)
        except AssertionError:
            raise AssertionError(f"still running: {self.leftovers()}") from None

    def snapshot(self) -> dict[str, tuple[int, int]]:
        """Return ``{path: (size, mtime)}`` of everything in the place but the outputs of the runs."""
        return {
            str(path.relative_to(self.root)): (path.lstat().st_size, path.lstat().st_mtime_ns)
            for path in self.root.rglob("*")
            if not (path.parent == self.root and path.name.startswith("run-"))
        }

    def remove(self) -> None:
        self.quiet()
        shutil.rmtree(self.root)


class Run:
    """A started ``ansible-playbook``: process group of its own, output in a file."""

    def __init__(self, place: Place, words: list[str], cwd: Path, out: Path) -> None:
        self.place, self._out = place, out
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PGSIZING_", "PG"))}
        with open(out, "wb") as stream:
            self.process = subprocess.Popen(
                words,
                cwd=cwd,
                env=clean | {"ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"} | place.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._out.read_text("utf-8", "replace")

    @property
    def words(self) -> str:
        """The output without its line breaks."""
        return " ".join(self.output.split())

    @property
    def id(self) -> str | None:
        """Id of the experiment that was planned or taken up."""
        found = re.search(r"^(?:PLAN|resume) (\d{8}T\d{6}Z-[^\s:]+)", self.output, re.MULTILINE)
        return found.group(1) if found else None

    @property
    def directory(self) -> Path:
        assert self.id, self.output
        return self.place.results / self.id

    @property
    def experiment(self) -> dict[str, Any]:
        return read(self.directory / "experiment.json")

    @property
    def journal(self) -> dict[str, Any]:
        return self.experiment["journal"]

    @property
    def trials(self) -> dict[str, dict[str, Any]]:
        """Every ``trial.json`` by its id, in the order of the plan."""
        if not self.id:
            return {}
        found = {path.parent.name: path for path in (self.directory / "trials").glob("*/trial.json")}
        return {t["id"]: read(found[t["id"]]) for t in self.experiment["plan"]["trials"] if t["id"] in found}

    def progress(self) -> list[dict[str, Any]]:
        """The events of ``progress.jsonl`` so far."""
        path = self.directory / "progress.jsonl" if self.id else None
        return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []

    def wait(self, condition: Callable[[], Any]) -> Any:
        """Wait for a condition while the run goes on."""

        def holds() -> Any:
            value = condition()
            assert value or self.process.poll() is None, f"the run ended before: {self.output}"
            return value

        return wait_for(holds, self.place.patience_s)

    def wait_step(self, step: str, trial: str | None = None) -> dict[str, Any]:
        """Wait for the first event of a step, of one trial if named."""
        return self.wait(lambda: next((e for e in self.progress() if e.get("step") == step and trial in (None, e.get("trial"))), None))

    def signal(self, number: int) -> None:
        """Signal the process alone, as ``kill`` does."""
        self.process.send_signal(number)

    def control_c(self) -> None:
        """Signal the whole process group, as a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        return self.process.wait(self.place.patience_s)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def codes(trial: dict[str, Any], severity: str | None = None) -> set[str]:
    """Return the codes of the findings of a trial, of one severity if named."""
    return {f["code"] for f in trial["findings"] if severity in (None, f["severity"])}


def place() -> Iterator[Place]:
    """A place for a fixture: made, given, and removed once nothing runs in it."""
    here = Place()
    yield here
    here.remove()
