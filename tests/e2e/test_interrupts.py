# GNU General Public License v3.0 or later (see LICENSE)
"""Runs that are interrupted, and taken up again: Ctrl-C in each stage, a killed controller."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from support.e2e import SHORT, Place, Run, codes, read

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import is_locked

#: One trial, with a data set that takes a moment to load, and a ramp-up.
OPTIONS = (*SHORT, "scale=8", "ramp_up=3")


def job(run: Run, step: str) -> Path | None:
    """Run folder of a job that runs and has reported progress (a load: that has started)."""
    for folder in run.place.base_dir.glob(f"jobs/{run.id}.*.{step}"):
        going = (folder / "started.json").exists() and not (folder / "result.json").exists()
        if going and (step == "load" or "progress:" in (folder / "stderr").read_text()):
            return folder
    return None


def marked(run: Run, mark: str) -> bool:
    """Whether the running trial has come to a step, and no further."""
    (trial,) = run.journal["trials"].values()
    marks = trial.get("marks", {})
    return trial["state"] == "running" and bool(marks) and max(marks, key=lambda name: marks[name]) == mark


def initdb(run: Run) -> bool:
    return any(not (folder.parent / "cluster.json").exists() for folder in run.place.base_dir.glob("clusters/*/data"))


#: Each stage, and how to see that a run is in it.
STAGES: dict[str, Callable[[Run], object]] = {
    "initdb": initdb,
    "load": lambda run: job(run, "load"),
    "reset": lambda run: marked(run, "reset"),
    "restart": lambda run: marked(run, "restart"),
    "ramp_up": lambda run: job(run, "ramp_up"),
    "measured": lambda run: job(run, "measured"),
    "collect": lambda run: marked(run, "collect"),
    "report": lambda run: "TASK [Write the report]" in run.output,
}


def assert_over(run: Run) -> None:
    """Nothing of ours runs, the host is free."""
    run.place.quiet()
    assert not is_locked(run.place.base_dir / "host.lock")
    assert not list(run.place.base_dir.glob("clusters/*/data/postmaster.pid"))


def kill_controller(run: Run) -> None:
    os.kill(run.process.pid, signal.SIGKILL)
    run.end()


def test_ctrl_c_while_planning_leaves_nothing(fresh: Place) -> None:
    """It may come a moment too late to keep the experiment from being written, and a moment too early for its end record."""
    names = ("ANSIBLE_DISPLAY_OK_HOSTS", "ANSIBLE_DISPLAY_SKIPPED_HOSTS")  # both: a task is named when it starts, not when it ends
    fresh.environment.update(dict.fromkeys(names, "1"))
    run = fresh.start(*OPTIONS)
    run.wait(lambda: "TASK [pgsizing.bench.plan : Plan the experiment]" in run.output)
    run.control_c()
    assert run.end() != 0
    fresh.quiet()
    assert not fresh.base_dir.exists()
    for experiment in fresh.results.glob("*/experiment.json"):
        journal = read(experiment)["journal"]
        assert {t["state"] for t in journal["trials"].values()} == {"planned"}
        assert (journal["end"] or {"state": "interrupted"})["state"] == "interrupted"
        assert not is_locked(experiment.with_name("lock"))


def test_an_interrupt_in_every_stage_then_resume(fresh: Place) -> None:
    """One experiment, interrupted in stage after stage and taken up again each time, ends whole and can be put back.

    While it loads, its controller is killed too and it is taken up at once: what is half done is ended and done again.
    """
    run = fresh.start(*OPTIONS)
    run.wait(lambda: run.id and (run.directory / "experiment.json").exists())
    experiment_id = run.id
    for stage, reached in STAGES.items():
        if stage == "load":
            loading = run.wait(lambda run=run: job(run, "load"))
            kill_controller(run)
            run = fresh.start(f"resume={experiment_id}")
            run.wait((loading / "result.json").exists)
        run.wait(lambda reached=reached, run=run: run.id and reached(run))
        run.control_c()
        assert run.end() != 0, f"{stage}: {run.output}"
        assert_over(run)
        end = run.journal["end"] or {}
        assert (end.get("state"), end.get("cause")) == ("interrupted", "SIGINT"), f"{stage}: {end}\n{run.output}"
        if stage != "report":
            assert f"-e resume={experiment_id}" in run.words, f"{stage}: {run.output}"
            assert run.words.count(f"-e postgres_base_dir={fresh.base_dir}") == 2  # to resume, to tear down
        if stage == "measured":
            (trial,) = run.trials.values()
            assert trial["verdict"] == "aborted"
            assert "interrupted" in codes(trial, "aborted")
            assert "progress:" in (run.directory / "trials" / trial["trial_id"] / "raw" / "measured.stderr").read_text()
        run = fresh.start(f"resume={experiment_id}")
    assert run.end() == 0, run.output
    assert_over(run)
    assert run.id == experiment_id
    (trial,) = run.trials.values()
    assert trial["verdict"] in ("valid", "suspect")
    assert run.journal["end"]["state"] == "finished"
    assert {t["state"] for t in run.journal["trials"].values()} == {"finished"}
    assert (run.directory / "report.html").exists()
    assert list((run.directory / "trials").glob("*.attempt-*"))
    fresh.run(playbook="playbooks/teardown.yml")  # of all that the interrupted runs made nothing is left
    assert not fresh.base_dir.exists()


def test_killed_controllers_lose_no_measurement(prepared: Place) -> None:
    """The first run is taken up while it still runs, the second after it has ended by itself; what is finished stays as it is.

    Two variants: to take up a run must not put other settings on the server under it.
    """
    variants = {"base": {}, "small": {"gucs": {"shared_buffers": "24MB"}}}
    run = prepared.start(*SHORT, "duration=6", {"variants": variants})
    order: list[str] = []
    for _ in range(2):
        running = run.wait(lambda run=run: job(run, "measured"))
        kill_controller(run)
        order.append(running.name.split(".")[1])
        if len(order) == 2:
            assert_over(run)
        run = prepared.start(f"resume={run.id}")
        run.wait(lambda run=run, order=order: set(order) <= set(run.trials))
        collected = run.trials[order[-1]]
        result = read(running / "result.json")
        assert (result["rc"], result["stopped"]) == (0, None)  # it ended by itself
        assert collected["verdict"] in ("valid", "suspect"), collected["findings"]
        assert "resumed" in codes(collected)
        assert f"tps = {collected['metrics']['tps']['value']:.6f}" in (running / "stdout").read_text()
    before = {name: (run.directory / "trials" / name / "trial.json").stat().st_mtime_ns for name in order}
    assert run.end() == 0, run.output
    assert_over(run)
    assert {name: (run.directory / "trials" / name / "trial.json").stat().st_mtime_ns for name in order} == before
    assert {t["attempt"] for t in run.journal["trials"].values()} == {1}
    for trial in run.trials.values():
        live = {s["name"]: s["text"] for s in trial["environment"]["postgres"]["non_default_settings"]}
        assert (live["shared_buffers"] == "24MB") is (trial["variant"] == "small")
        assert trial["environment"]["server"]["cores"]
        assert trial["environment"]["observation"]["postgres"]["xact_commit"] > trial["counts"]["processed"]
