# GNU General Public License v3.0 or later (see LICENSE)
"""What every workload action does: options, version, a plan of commands, jobs, results (DESIGN 4.3).

A workload is a pure module (``module_utils/workloads/``); its action is a subclass that names it.
"""

from __future__ import annotations

import csv
import json
import os
import secrets
import shlex
import time
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.pgsizing.bench.plugins.module_utils import verdict
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding, masked
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import verdict as verdict_of
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import connection_strings, weak_secret
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain, without_masks
from ansible_collections.pgsizing.bench.plugins.plugin_utils import trial_record
from ansible_collections.pgsizing.bench.plugins.plugin_utils.job_client import READ_BYTES, Interrupted, JobClient
from ansible_collections.pgsizing.bench.plugins.plugin_utils.raw import describe, fetch, source, write_table
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store, write_atomic

CONNECTION_SPEC: dict[str, dict[str, Any]] = {
    "login_host": {"type": "str"},
    "login_port": {"type": "int", "default": 5432},
    "login_user": {"type": "str", "default": "postgres"},
    "login_password": {"type": "str", "no_log": True},
    "login_db": {"type": "str", "default": "postgres"},
    "login_unix_socket": {"type": "path"},
    "login_passfile": {"type": "path"},
    "ssl_mode": {"type": "str", "default": "prefer", "choices": ["allow", "disable", "prefer", "require", "verify-ca", "verify-full"]},
    "phase": {"type": "str", "default": "run", "choices": ["load", "run", "collect", "check"]},
    "bin_dir": {"type": "path"},
    "work_dir": {"type": "path"},
    "deadline": {"type": "float"},
    "experiment_dir": {"type": "path"},
    "trial_id": {"type": "str"},
}
_ARGUMENT_KEYS = ("type", "default", "choices", "elements", "required", "options", "no_log", "aliases")

#: What a step gets beyond its planned length before it is ended: connections, vacuum, last transactions.
GRACE_S = 120.0
#: A check of the data set before a run is ended after this, and one that reads everything.
CHECK_S = 300.0
FULL_CHECK_S = 6 * 3600.0
ROLES = Path(__file__).parents[2] / "roles"
#: Raw files up to this size are fetched; larger ones stay on the driver, and the result says so.
FETCH_BYTES = 256 * 2**20


class WorkloadAction(ActionBase):
    """Base of ``pgsizing.bench.<workload>``; a subclass sets ``workload`` and ``program``."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = True

    workload: ClassVar[ModuleType]
    program: ClassVar[str]
    #: Options of the action beside connection and workload, as argument spec: where its program is.
    own_options: ClassVar[dict[str, dict[str, Any]]] = {}

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Validate, run or collect, and return the measurement. An invalid measurement is an *ok* result that says so."""
        result = super().run(tmp, task_vars)
        try:
            return {**result, **self._run(task_vars or {})}
        except AnsibleConnectionFailure as error:
            # A plain failure: an unreachable host would skip every rescue and end the chain of playbooks.
            raise AnsibleActionFail(f"no connection to the driver: {error}") from error

    def _run(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        options = {k: {a: s[a] for a in _ARGUMENT_KEYS if a in s} for k, s in self.workload.OPTIONS.items()}
        _validated, args = self.validate_argument_spec(argument_spec={**CONNECTION_SPEC, **self.own_options, **options})
        self.args = to_plain(args)
        self.store = Store(self.args["experiment_dir"]) if self.args["experiment_dir"] else None
        if self.store and not self.args["trial_id"]:
            raise AnsibleActionFail("experiment_dir needs trial_id: which trial of the experiment this is")
        if problems := connection_strings(self.args):
            raise AnsibleActionFail("; ".join(problems))
        wanted = {k: self.args[k] for k in options}
        target = self._target()
        parameters = self.workload.complete(self._inline(wanted), cores=target["cores"])
        problems = self.workload.validate(parameters)
        if not problems and target["version"] and self.args["phase"] != "check":
            problems = self.workload.unsupported(parameters, target["version"])
        if problems:
            raise AnsibleActionFail("; ".join(problems))
        if not target["version"]:
            absent = not target["said"] or "not found" in target["said"]
            what = "was not found" if absent else "does not run"
            why = "" if absent else f": {target['said']}"
            raise AnsibleActionFail(
                f"{self._program()} {what} on the driver ({self.args['bin_dir'] or 'its path'}){why}; install PostgreSQL's client programs "
                "or say where they are with bin_dir"
            )
        steps = self._steps(parameters, target["version"]) if self.args["phase"] != "check" else []
        self._look_over(steps)
        if self._task.check_mode:
            return {"changed": self.args["phase"] == "load", "commands": [s["argv"] for s in steps]}

        # A check is of what was said, or of whatever is there.
        self.parameters = parameters if steps else {k: v for k, v in wanted.items() if k in self._task.args}
        jobs_dir = self.args["work_dir"] or target["jobs_dir"]
        experiment = self.store.directory.name if self.store else None
        self.client = JobClient(self, task_vars, jobs_dir, experiment)
        self.job_prefix = self._job_prefix()
        if not steps:
            checked = self._check(full=True)
            self._display.display(f"{(task_vars or {}).get('inventory_hostname')}: {self.args['login_db']}: {self.workload.sound(checked)}")
            return {"changed": False, "found": True, "checked": checked, "verdict": "valid"}
        if self.args["phase"] == "collect" and not self._collectable(steps):
            return {"changed": False, "found": False}
        if self.args["phase"] == "run" and self.workload.needs_dataset(parameters):
            self._check()
        done = self._run_steps(steps)
        measurement = self._measurement(done)
        if self.args["phase"] == "load" and not measurement["findings"]:
            self._check()
        verdict_now = verdict_of(measurement["findings"])
        result = {"changed": True, "found": True, "measurement": measurement, "verdict": verdict_now}
        if verdict_now == "failed":
            worst = next(f for f in measurement["findings"] if f["severity"] == "failed")
            raise AnsibleActionFail(f"{self.workload.WORKLOAD}: {worst['message']}", result=result)
        return result

    # before the run ------------------------------------------------------------------------------------------------

    def _target(self) -> dict[str, Any]:
        """Return cores, jobs folder and the program's version, by one shell command on the driver."""
        program = self._program()
        path = shlex.quote(f"{self.args['bin_dir']}/{program}" if self.args["bin_dir"] else program)
        driver, lines = self._ask_driver(f"{path} --version 2>&1 || true")
        said = " ".join(lines)
        return {**driver, "version": said if said.startswith(program) else None, "said": said}

    def _program(self) -> str:
        """Return what has to be on the driver: a check asks by psql alone."""
        return "psql" if self.args["phase"] == "check" else self.program

    def _ask_driver(self, command: str) -> tuple[dict[str, Any], list[str]]:
        """Return ``{cores, jobs_dir}`` of the driver, and the lines that a shell command prints there."""
        answer = self._low_level_execute_command(
            f'nproc; if [ "$(id -u)" = 0 ]; then echo /var/lib/pgsizing; else echo "$HOME/.local/state/pgsizing"; fi; {command}'
        )
        lines = [line.strip() for line in answer.get("stdout", "").splitlines() if line.strip()]
        if len(lines) < 2 or not lines[0].isdigit():
            raise AnsibleActionFail(f"the driver did not answer: {answer.get('stderr') or answer.get('stdout')}")
        return {"cores": int(lines[0]), "jobs_dir": f"{lines[1]}/jobs"}, lines[2:] or [answer.get("stderr", "").strip()]

    def _look_over(self, steps: list[dict[str, Any]]) -> None:
        """Refuse a deadline that the steps would run into; warn of a password that masking would spread."""
        longest, deadline = max((s["planned_s"] or 0.0 for s in steps), default=0.0), self.args["deadline"]
        if deadline and deadline <= longest:
            raise AnsibleActionFail(
                f"deadline: {deadline:g} s end a step that is planned to take {longest:g} s; give more, or leave it out"
            )
        if self.args["login_password"] and weak_secret(self.args["login_password"]):
            self._display.warning("login_password is short, a number or a common word: where Ansible masks it, it masks innocent text too")

    def _inline(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters with the text of script files read from the controller."""
        scripts = parameters.get("scripts")
        if not scripts:
            return parameters
        return {**parameters, "scripts": [inline_script(s, lambda name: self._find_needle("files", name)) for s in scripts]}

    def _steps(self, parameters: dict[str, Any], version: str) -> list[dict[str, Any]]:
        args = self.args
        connection = {
            "host": args["login_unix_socket"] or args["login_host"],
            "port": args["login_port"],
            "user": args["login_user"],
            "dbname": args["login_db"],
        }
        plan = self.workload.load_steps if args["phase"] == "load" else self.workload.run_steps
        steps = plan(parameters, version, connection)
        for step in steps:
            files = ROLES / self.workload.ROLE / "files"
            shipped = {name: (files / file).read_text(encoding="utf-8") for name, file in step.get("shipped", {}).items()}
            step["files"] = {**shipped, **step["files"]}
            if args["bin_dir"]:
                step["argv"] = [f"{args['bin_dir']}/{step['argv'][0]}", *step["argv"][1:]]
        return steps

    def _job_prefix(self) -> str:
        if not self.store:
            return f"adhoc-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        if self.args["phase"] == "load":
            # A load is never taken up again: what an earlier one left half built is dropped.
            return f"{self.store.directory.name}.{self.args['trial_id']}.{secrets.token_hex(3)}"
        trial = self.store.experiment["journal"]["trials"][self.args["trial_id"]]
        return f"{self.store.directory.name}.{self.args['trial_id']}.{trial['attempt']}"

    def _environment(self) -> dict[str, str]:
        environment = {"PGSSLMODE": self.args["ssl_mode"], "PGCONNECT_TIMEOUT": "30", "LC_ALL": "C"}
        if self.args["login_passfile"]:
            environment["PGPASSFILE"] = self.args["login_passfile"]
        elif self.args["login_password"]:
            environment["PGPASSFILE"] = "pgpass"
        return environment

    def _secret_files(self) -> dict[str, str]:
        password = self.args["login_password"]
        if not password or self.args["login_passfile"]:
            return {}
        return {"pgpass": "*:*:*:*:" + password.replace("\\", "\\\\").replace(":", "\\:") + "\n"}

    # the run -------------------------------------------------------------------------------------------------------

    def _collectable(self, steps: list[dict[str, Any]]) -> bool:
        """Is the measured step's job running, or did it end by itself? Only then is the trial worth collecting."""
        state = self.client.state(f"{self.job_prefix}.{_measured(steps)['name']}")
        return state["state"] == "running" or (state["state"] == "finished" and state.get("stopped") != "request")

    def _run_steps(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        done: list[dict[str, Any]] = []
        for step in steps:
            job_id = f"{self.job_prefix}.{step['name']}"
            planned = step["planned_s"]
            deadline = self.args["deadline"] or (planned or 0.0) + step.get("grace_s", GRACE_S)
            try:
                job = self.client.start(
                    job_id,
                    step["argv"],
                    deadline,
                    stdin_dump=step.get("stdin_dump"),
                    env=self._environment(),
                    secret_files={**step.get("files", {}), **self._secret_files()} or None,
                )
                self._progress(step, job, "")
                job = self.client.follow(job, planned, lambda text, step=step, job=job: self._progress(step, job, text))
            except Interrupted as interrupt:
                self._interrupted(interrupt, job_id, done, step)
            done.append(self._output(step, job))
            if job.get("rc") != 0:
                break
        return done

    def _check(self, full: bool = False) -> dict[str, Any]:
        """Ask the data set what it is, by psql on the driver; fail before anything is timed on one that is not as asked for."""
        host = self.args["login_unix_socket"] or self.args["login_host"]
        argv = ["psql", "--no-psqlrc", "--tuples-only", "--no-align", "--no-password", f"--port={self.args['login_port']}"]
        argv += [f"--host={host}"] if host else []
        argv += [f"--username={self.args['login_user']}", f"--dbname={self.args['login_db']}"]
        argv.append(f"--command=SELECT row_to_json(c) FROM ({self.workload.check_sql(self.parameters, full)}) AS c")
        if self.args["bin_dir"]:
            argv[0] = f"{self.args['bin_dir']}/psql"
        limit = (self.args["deadline"] or FULL_CHECK_S) if full else CHECK_S
        job = self.client.start(
            f"{self.job_prefix}.check", argv, limit, load=False, env=self._environment(), secret_files=self._secret_files() or None
        )
        try:
            job = self.client.follow(job, 0.0, lambda _text: None)
        except Interrupted as interrupt:
            try:
                if interrupt.number:
                    self.client.stop(job["id"])
            finally:
                os._exit(1)
        output = {name: self.client.read(job[name]) for name in ("stdout", "stderr") if job.get(name)}
        if job.get("rc") != 0:
            said = output.get("stderr", "").strip() or f"psql ended with status {job.get('rc')}"
            raise AnsibleActionFail(f"{self.workload.WORKLOAD}: no data set to measure (phase: load builds it): {said}")
        answer = json.loads(output["stdout"])
        problems = self.workload.check([answer], self.parameters)
        if problems:
            text = f"the data set is not the one asked for: {'; '.join(f['message'] for f in problems)}"
            raise AnsibleActionFail(text, result={"findings": problems, "verdict": verdict_of(problems)})
        return dict(answer)

    def _output(self, step: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
        texts = {name: self.client.read(job[name]) if job.get(name) else "" for name in ("stdout", "stderr")}
        return {**step, "job": job, **texts}

    def _progress(self, step: dict[str, Any], job: dict[str, Any], text: str) -> None:
        if not self.store:
            return
        now = (self.workload.progress(text) if text else None) or {}
        self.store.progress(
            stage="measure" if self.args["phase"] != "load" else "prepare",
            trial=self.args["trial_id"],
            step=step["name"],
            elapsed_s=round(time.time() - (job.get("started") or time.time()), 1),
            planned_s=step["planned_s"],
            rate=now.get("rate"),
            unit=self.workload.RATE_UNIT,
            latency_ms=now.get("latency_ms"),
            percent=now.get("percent"),
        )

    def _interrupted(self, interrupt: Interrupted, job_id: str, done: list[dict[str, Any]], step: dict[str, Any]) -> None:
        """Stop the job and keep what there is; a lost controller leaves the job alone. Does not return."""
        try:
            if interrupt.number:
                job = self.client.stop(job_id)
                if self.store and self.args["phase"] != "load":
                    done.append(self._output(step, job))
                    measurement = self._measurement(done)
                    measurement["findings"].append(
                        finding("interrupted", f"interrupted by signal {interrupt.number} in step {step['name']}", step=step["name"])
                    )
                    trial_record.finish(self.store, self.args["trial_id"], measurement, state="interrupted")
        finally:
            os._exit(1)

    # after the run -------------------------------------------------------------------------------------------------

    def _measurement(self, done: list[dict[str, Any]]) -> dict[str, Any]:
        """Parse the steps, fetch the raw files, judge what can be judged from the run alone."""
        findings: list[dict[str, Any]] = []
        raw = self._save_texts(done)
        findings += self._cut_texts(done)
        digest = None
        measured = _measured(done)
        if measured.get("log_prefix") and measured["job"].get("run_dir"):
            digest, more, found = self._digest(measured)
            raw += more
            findings += found
        measurement, hidden = without_masks(to_plain(self.workload.result(self.parameters, done, digest)), "measurement")
        measurement["findings"] += findings + masked(hidden)
        measurement["raw"] = raw
        measurement["series"] = self._series(measurement)
        measurement.setdefault("window", {"from": measured["job"].get("started"), "to": measured["job"].get("ended")})
        if self.args["phase"] != "load" and not self.store:
            context = {"parameters": self.parameters, "measurement": measurement, "progress": measurement.get("progress")}
            measurement["findings"] += verdict.judge(context)
        return to_plain(measurement)

    def _raw_dir(self) -> Path | None:
        if not self.store:
            return None
        owner = self.store.directory / "datasets" / self.args["trial_id"] if self.args["phase"] == "load" else None
        folder = (owner or self.store.trial_dir(self.args["trial_id"])) / "raw"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _save_texts(self, done: list[dict[str, Any]]) -> list[dict[str, Any]]:
        folder = self._raw_dir()
        if folder is None:
            return [
                {"path": step["job"][name], "bytes": step["job"].get(f"{name}_bytes"), "sha256": None}
                for step in done
                for name in ("stdout", "stderr")
                if step["job"].get(name)
            ]
        raw = []
        for step in done:
            write_atomic(folder / f"{step['name']}.argv.json", json.dumps(step["argv"]) + "\n")
            for name in ("stdout", "stderr"):
                path = folder / f"{step['name']}.{name}"
                write_atomic(path, step[name])
                raw.append(describe(path, folder.parent))
        for name, text in {name: text for step in done for name, text in step.get("files", {}).items()}.items():
            write_atomic(folder / name, text)
            raw.append(describe(folder / name, folder.parent))
        return raw

    def _cut_texts(self, done: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Say which outputs were larger than what is read of them: their end was parsed, their beginning stays on the driver."""
        return [
            finding(
                "raw_left_on_driver", f"{size} bytes of {name} stay in {step['job'][name]} on the driver; the last {READ_BYTES} were read"
            )
            for step in done
            for name in ("stdout", "stderr")
            if (size := step["job"].get(f"{name}_bytes") or 0) > READ_BYTES
        ]

    def _digest(self, step: dict[str, Any]) -> tuple[dict[str, Any] | None, list[dict[str, Any]], list[dict[str, Any]]]:
        """Extract percentiles on the driver, then fetch the logs if they are small enough."""
        run_dir = step["job"]["run_dir"]
        listing = self._low_level_execute_command(
            f'cd {shlex.quote(run_dir)} && for f in {shlex.quote(step["log_prefix"])}.*; do [ -f "$f" ] && wc -c "$f"; done; true'
        )
        files = {name: int(size) for size, name in (line.split(None, 1) for line in listing.get("stdout", "").splitlines() if line.strip())}
        if not files:
            return None, [], [finding("log_incomplete", "no per-transaction log was written; there are no percentiles")]
        try:
            digest = self.client.module(
                "digest",
                logs=[f"{run_dir}/{name}" for name in sorted(files)],
                out=f"{run_dir}/latency_histogram.gz",
                **self.workload.log_layout(self.parameters),
            )["digest"]
        except AnsibleActionFail as error:
            return None, [], [finding("log_incomplete", f"the per-transaction log could not be read: {error}")]
        digest["seconds"] = list(csv.DictReader(self.client.read(digest["series"]).splitlines()))
        folder = self._raw_dir()
        if folder is None:
            return digest, [{"path": f"{run_dir}/{name}", "bytes": size, "sha256": None} for name, size in files.items()], []
        raw = [fetch(source(self), f"{run_dir}/latency_histogram.gz", folder)]
        if sum(files.values()) > FETCH_BYTES:
            note = finding("raw_left_on_driver", f"{sum(files.values())} bytes of log stay in {run_dir} on the driver", files=files)
            return digest, raw, [note]
        raw += [fetch(source(self), f"{run_dir}/{name}", folder) for name in sorted(files)]
        return digest, raw, []

    def _series(self, measurement: dict[str, Any]) -> dict[str, Any] | None:
        """Write the progress samples as a table beside the raw files; they are merged with the observation later."""
        folder = self._raw_dir()
        samples = measurement.get("progress")
        if folder is None or not samples:
            return None
        return write_table(folder / "progress.csv", samples, folder.parent)


def _measured(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the step that holds the window; the last one where none is named so."""
    return next((step for step in steps if step["name"] == "measured"), steps[-1])


def inline_script(script: dict[str, Any], find: Any) -> dict[str, Any]:
    """Return a custom script with the text of its ``file`` as ``sql``; ``AnsibleError`` when there is no such file."""
    if not script.get("file"):
        return script
    path = Path(find(script["file"]))
    return {**{k: v for k, v in script.items() if k != "file"}, "sql": path.read_text(encoding="utf-8"), "name": path.name}
