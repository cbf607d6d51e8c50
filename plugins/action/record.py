# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Write what happened into the experiment: stages, trials, data sets; the documentation is the module's."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding, term, worst
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_estimate import cluster_name
from ansible_collections.pgsizing.bench.plugins.plugin_utils import trial_record
from ansible_collections.pgsizing.bench.plugins.plugin_utils.raw import fetch, source
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store

#: What each event cannot do without.
NEEDS = {
    "stage": ("stage", "state"),
    "begin": ("trial_id",),
    "mark": ("trial_id", "stage"),
    "dataset": ("cluster", "fingerprint", "measurement"),
    "fetch": ("trial_id", "observation"),
    "finish": ("trial_id",),
    "fail": ("trial_id",),
}

#: Files that an observation names, to be fetched beside the trial.
OBSERVED_FILES = ("samples", "server_log", "statements_before", "statements_after")


class ActionModule(ActionBase):
    """Thin face of ``plugin_utils/store.py`` for roles and playbooks."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Dispatch on ``event``."""
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            argument_spec={
                "experiment_dir": {"type": "path", "required": True},
                "event": {
                    "type": "str",
                    "required": True,
                    "choices": ["stage", "begin", "mark", "dataset", "fetch", "finish", "fail", "end"],
                },
                "stage": {"type": "str"},
                "state": {"type": "str", "choices": ["started", "finished", "failed"]},
                "trial_id": {"type": "str"},
                "retry": {"type": "bool", "default": False},
                "message": {"type": "str"},
                "failure": {"type": "dict"},
                "code": {"type": "str", "default": "setup_failed"},
                "cluster": {"type": "str"},
                "fingerprint": {"type": "str"},
                "measurement": {"type": "dict"},
                "observation": {"type": "dict"},
                "driver_observation": {"type": "dict"},
                "hosts": {"type": "dict"},
                "settings": {"type": "dict"},
                "findings": {"type": "list", "elements": "dict", "default": []},
            }
        )
        self.args = to_plain(args)
        if self.args["failure"]:
            self.args["message"] = f"{self.args['message'] or 'a task'}: {_reason(self.args['failure'])}"
        self.store = Store(self.args["experiment_dir"])
        if self._task.check_mode:
            return {**result, "changed": False}
        missing = [name for name in NEEDS.get(self.args["event"], ()) if not self.args[name]]
        if missing:
            raise AnsibleActionFail(f"event {self.args['event']} needs {' and '.join(missing)}")
        return {**result, "changed": False, **getattr(self, f"_{self.args['event']}")()}

    def _stage(self) -> dict[str, Any]:
        self.store.stage(self.args["stage"], self.args["state"], self.args["message"])
        self.store.progress(stage=self.args["stage"], message=self.args["message"] or self.args["state"])
        return {}

    def _begin(self) -> dict[str, Any]:
        """Open a trial; say what it is, and whether a controller was lost in its run, which may then be collected.

        ``retry`` gives a lost run up: what it left is set aside and the trial starts over as its next attempt.
        """
        trial_id = self.args["trial_id"]
        experiment = self.store.experiment
        plan, before = experiment["plan"], experiment["journal"]["trials"][trial_id]
        planned = trial_record.find(plan["trials"], "id", trial_id)
        lost = not self.args["retry"] and before["state"] in ("running", "unknown") and "measure" in before.get("marks", {})
        attempt = before["attempt"]
        if before["state"] != "planned" and not lost:
            self._set_aside(trial_id, attempt)
            attempt += 1
        self.store.trial_state(trial_id, "running", attempt=attempt, marks=before.get("marks", {}) if lost else {}, lost=lost)
        self._event(step="begin")
        variant = trial_record.find(plan["variants"], "name", planned["variant"])
        return {
            "variant": variant,
            "cluster": cluster_name(variant),
            "attempt": attempt,
            "lost": lost,
            "observe_seconds": plan["deadline_s"],
            "lease_seconds": 900 + 3 * plan["estimate"]["seconds"] / len(plan["trials"]),
        }

    def _set_aside(self, trial_id: str, attempt: int) -> None:
        """Keep what an interrupted attempt left; the trial is run again."""
        folder = self.store.trial_dir(trial_id)
        if folder.is_dir():
            folder.rename(folder.with_name(f"{trial_id}.attempt-{attempt}"))

    def _mark(self) -> dict[str, Any]:
        """Note when a step of the trial starts, and what is known by then of hosts and settings: the controller may not see the end."""
        if self.args["hosts"]:
            trial_record.start(self.store, self.args["trial_id"], self.args["hosts"], self.args["settings"] or {})
        self.store.trial_mark(self.args["trial_id"], self.args["stage"])
        self._event(step=self.args["stage"])
        return {}

    def _event(self, step: str) -> None:
        trials = [t["id"] for t in self.store.experiment["plan"]["trials"]]
        trial_id = self.args["trial_id"]
        self.store.progress(stage="measure", trial=trial_id, k=trials.index(trial_id) + 1, n=len(trials), step=step)

    def _dataset(self) -> dict[str, Any]:
        key = f"{self.args['cluster']}/{self.args['fingerprint']}"

        def change(experiment: dict[str, Any]) -> None:
            experiment["environment"]["datasets"][key] = self.args["measurement"]

        self.store.update(change)
        return {}

    def _finish(self) -> dict[str, Any]:
        findings, raw = list(self.args["findings"]), []
        observation = self.args["observation"]
        if observation:
            raw, missing = self._observed(observation, "raw")
            findings += missing
        entry = self.store.experiment["journal"]["trials"][self.args["trial_id"]]
        marks = entry.get("marks", {})
        if entry.get("lost"):
            findings.append(finding("resumed", "the controller was lost in this trial; the run went on by itself and was collected"))
        trial = trial_record.finish(
            self.store,
            self.args["trial_id"],
            self.args["measurement"],
            observation=observation,
            driver_observation=self.args["driver_observation"] or None,
            hosts=self.args["hosts"],
            settings=self.args["settings"],
            findings=findings,
            timing=_timing(marks, self.args["measurement"]),
            raw=raw,
        )
        self._event(step="recorded")
        return self._fact(trial)

    def _fetch(self) -> dict[str, Any]:
        """Fetch what was observed on the driver, the target of this task; the result completes the trial in the event ``finish``."""
        observation = self.args["observation"]
        _raw, missing = self._observed(observation, "driver")
        observation["problems"] = [*(observation.get("problems") or []), *(f["message"] for f in missing)]
        return {"observation": observation}

    def _observed(self, observation: dict[str, Any], place: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Fetch the observer's files into a folder of the trial; the observation then names them relative to the trial."""
        folder = self.store.trial_dir(self.args["trial_id"]) / place
        folder.mkdir(parents=True, exist_ok=True)
        raw, missing = [], []
        for key in OBSERVED_FILES:
            path = observation.get(key)
            if not path:
                continue
            try:
                described = fetch(source(self), path, folder, compress=key != "samples")
            except (OSError, AnsibleConnectionFailure, AnsibleActionFail) as error:
                observation[key] = None
                missing.append(finding("not_checked", f"{path} could not be fetched: {error}", file=path))
                continue
            observation[key] = described["path"]
            raw.append(described)
        return raw, missing

    def _fail(self) -> dict[str, Any]:
        """A trial without measurement: an entry in the journal, never the end of the play."""
        marks = self.store.experiment["journal"]["trials"][self.args["trial_id"]].get("marks", {})
        measurement = self.args["measurement"]
        known = {f["severity"] for f in (measurement or {}).get("findings", [])}
        findings = list(self.args["findings"])
        if not known & {"failed", "aborted"}:
            findings.append(finding(self.args["code"], self.args["message"] or "a step of the trial failed"))
        trial = trial_record.finish(
            self.store,
            self.args["trial_id"],
            measurement or {"findings": []},
            hosts=self.args["hosts"],
            settings=self.args["settings"],
            findings=findings,
            timing=_timing(marks, measurement),
        )
        return self._fact(trial)

    def _fact(self, trial: dict[str, Any]) -> dict[str, Any]:
        results = [
            {
                "trial_id": t["trial_id"],
                "variant": t["variant"],
                "headline": t["headline"],
                "verdict": t["verdict"],
                "path": str(self.store.trial_dir(t["trial_id"])),
            }
            for t in self.store.trials()
        ]
        line = _line(trial)
        self._display.display(line)
        return {"ansible_facts": {"pgsizing_results": results}, "verdict": trial["verdict"], "headline": trial["headline"]}

    def _end(self) -> dict[str, Any]:
        self.store.end(self.args["state"] or "finished", self.args["message"] or None)
        return {}


def _reason(failure: dict[str, Any]) -> str:
    """Return what a failed task said: of a program its own words, of a loop the first item that failed."""
    failed = next((item for item in failure.get("results") or [] if item.get("failed")), failure)
    return (failed.get("stderr") or "").strip() or failed.get("msg") or failed.get("censored") or "failed"


def _line(trial: dict[str, Any]) -> str:
    """One line for the terminal when a trial has ended."""
    head, deciding = trial["headline"], worst(trial["findings"])
    figure = "no figure" if head["value"] is None else f"{term(head['metric'])} {head['value']:.6g} {head['unit']}"
    return f"trial {trial['trial_id']}: {figure}, {trial['verdict']}" + (f": {deciding['message']}" if deciding else "")


def _timing(marks: dict[str, float], measurement: dict[str, Any] | None) -> dict[str, float | None]:
    """Seconds between the marks of a trial: each step lasts until the next one starts."""
    order = sorted(marks.items(), key=lambda item: item[1])
    ends = [at for _name, at in order[1:]] + [time.time()]
    timing: dict[str, float | None] = {f"{name}_s": round(end - at, 3) for (name, at), end in zip(order, ends, strict=False)}
    for step in (measurement or {}).get("steps") or []:
        timing[f"{step['name']}_s"] = step.get("elapsed_s")
    if order:
        timing["total_s"] = round(time.time() - order[0][1], 3)
    return timing
