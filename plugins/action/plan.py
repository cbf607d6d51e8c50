# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""PLAN: read the inputs, build the experiment, refuse what cannot be done; the documentation is the module's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from ansible_collections.pgsizing.bench.plugins.module_utils import plan as planning
from ansible_collections.pgsizing.bench.plugins.module_utils import plan_estimate, plan_place
from ansible_collections.pgsizing.bench.plugins.module_utils.detached import controller_identity
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import (
    COMMAND_LINE_ONLY,
    INPUTS,
    coerce_all,
    nearest,
    weak_secret,
)
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_text import plan_text
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue, command_line, dumps
from ansible_collections.pgsizing.bench.plugins.plugin_utils import site as sites
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import EXPERIMENT_SCHEMA, Store, StoreError
from ansible_collections.pgsizing.bench.plugins.plugin_utils.workload_action import inline_script

DATASET: dict[str, dict[str, Any]] = {"dump": {"type": "str"}, "jobs": {"type": "int", "min": 1}}
CALLBACKS = ("pgsizing.bench.artifacts", "pgsizing.bench.progress")


class ActionModule(ActionBase):
    """Plan one experiment; write it unless in check mode."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``pgsizing_experiment`` as a fact, or fail with every reason at once."""
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            argument_spec={
                "inputs": {"type": "dict", "required": True},
                "sizes": {"type": "dict", "required": True},
                "profiles": {"type": "dict", "required": True},
                "bin_dirs": {"type": "list", "elements": "str", "default": []},
                "base_dir": {"type": "str", "default": ""},
                "look": {"type": "bool", "default": False},
                "seen": {"type": "list", "elements": "dict", "default": []},
                "hammerdb": {"type": "dict", "default": {}},
            }
        )
        args = to_plain(args)
        given, ignored, problems = self._inputs(args["inputs"])
        if given.get("resume"):
            self._refuse(problems)
            return {**result, **({"hosts": []} if args["look"] else self._resume(given))}
        inventory = self._inventory(task_vars or {})
        port = coerce_all({"postgres_port": given.get("postgres_port")}, INPUTS)[0].get(
            "postgres_port", plan_place.DEFAULTS["postgres_port"]
        )
        if args["look"]:
            hosts = plan_place.inventory_hosts({k: v for k, v in given.items() if k in INPUTS}, inventory)
            return {**result, "hosts": list(dict.fromkeys(hosts)), "port": port, "majors": list(catalogue.majors("postgres"))}
        site = sites.site(
            sizes=args["sizes"],
            profiles={"none": {}, **args["profiles"]},
            inventory=inventory,
            port=port,
            bin_dirs=tuple(args["bin_dirs"]),
            base_dir=args["base_dir"],
            spec=self._spec(given, problems),
            dump=self._dump(given, problems),
            seen={r["item"]: r.get("machine") or {"unseen": _why_not(r)} for r in args["seen"]},
            hammerdb={key: str(value) for key, value in args["hammerdb"].items()},
        )
        given |= self._with_scripts(given, problems) | self._with_passfile(given, problems)
        plan, wrong = planning.build(given, site)
        self._refuse(problems + wrong)
        if given.get("login_password"):
            self._warn_of_password(str(given["login_password"]))
        missing = [c for c in CALLBACKS if c not in C.config.get_config_value("CALLBACKS_ENABLED")]
        if missing:
            plan["findings"].append(
                finding(
                    "callback_off",
                    f"callbacks are off; to see progress: callbacks_enabled = {', '.join(CALLBACKS)} (ansible.cfg, [defaults])",
                )
            )
        name = plan["reproduce"] or f"{plan['size']}-{plan['workload']}"
        experiment = {
            "schema": EXPERIMENT_SCHEMA,
            "experiment_id": planning.experiment_id(site.now, name),
            "created": site.now,
            "collection": sites.collection(),
            "plan": plan,
            "environment": {"controller": {k: v for k, v in site.machine.items() if k not in ("locales", "devices")}, "datasets": {}},
            "journal": {"trials": {t["id"]: {"state": "planned", "attempt": 1} for t in plan["trials"]}, "stages": {}, "end": None},
        }
        self._display.display("\n".join(plan_text(experiment, plan_place.machine_of(plan["where"], site))))
        if ignored:
            self._display.v(f"not inputs of pgsizing, ignored: {', '.join(ignored)}")
        # The plan is shown before it is refused: what it would cost is what the user has to see.
        self._refuse([*plan["refused"], *([] if self._task.check_mode else plan["cannot_run"])], "run")
        if self._task.check_mode:
            return {**result, "changed": False, "plan": plan}
        try:
            store = Store.create(command_line.results_dir(given.get("results_dir")), experiment)
        except (StoreError, OSError) as error:
            raise AnsibleActionFail(f"results_dir: {error}") from error
        return {**result, "changed": True, **self._facts(store, experiment)}

    def _refuse(self, problems: list[str], verb: str = "be planned") -> None:
        if problems:
            raise AnsibleActionFail(
                f"nothing was changed; {len(problems)} reason(s) why this cannot {verb}:\n" + "\n".join(f"  * {p}" for p in problems)
            )

    def _inputs(self, configured: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
        """Return the inputs (``plan_*`` of the role, overridden by short names from the command line), what was ignored, what is wrong."""
        modules = (*sites.WORKLOADS.values(), *sites.GENERATORS.values())
        known = set(INPUTS) | {name for workload in modules for name in workload.OPTIONS}
        given, ignored, problems = command_line.inputs(self, configured, known)
        said = set(load_extra_vars(self._loader))
        problems += [
            f"{name}: counts only from the command line: -e {name}=..."
            for name in COMMAND_LINE_ONLY
            if name in given and not {name, f"plan_{name}"} & said
        ]
        for name in sorted(set(configured) - known):
            near = nearest(name, known)
            problems.append(f"plan_parameters: {name}: no such parameter" + (f"; did you mean {near!r}?" if near else ""))
        return {name: value for name, value in given.items() if name in known}, ignored, problems

    def _warn_of_password(self, password: str) -> None:
        if weak_secret(password):
            self._display.warning("login_password is short, a number or a common word: where Ansible masks it, it masks innocent text too")
        if any("login_password" in text for text in context.CLIARGS.get("extra_vars") or () if not text.startswith("@")):
            self._display.warning(
                "login_password on the command line is seen by every user of this machine; give it by -e @FILE, or give login_passfile"
            )

    def _inventory(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        """Say which groups there are, whether the user gave an inventory, and whether it names this machine only."""
        groups = {k: list(v) for k, v in to_plain(task_vars.get("groups") or {}).items() if k not in ("all", "ungrouped")}
        own = str(sites.ROOT / "inventories" / "local")
        sources = [str(s) for s in context.CLIARGS.get("inventory") or []]
        given = [s for s in sources if s != "/etc/ansible/hosts" and str(Path(s).resolve()) != str(Path(own).resolve())]
        hosts = set(to_plain((task_vars.get("groups") or {}).get("all", [])))
        return {"given": bool(given), "groups": {k: v for k, v in groups.items() if v}, "local_only": hosts <= {"localhost", "127.0.0.1"}}

    def _with_scripts(self, given: dict[str, Any], problems: list[str]) -> dict[str, Any]:
        """Return ``scripts`` and ``variants`` with the text of script files: the plan is then complete in itself."""
        spec = {"scripts": {"type": "list"}, "variants": INPUTS["variants"]}
        values, _wrong = coerce_all({name: given[name] for name in spec if name in given}, spec)
        for place in (values, *(values.get("variants") or {}).values()):
            if isinstance(place, dict) and isinstance(place.get("scripts"), list):
                place["scripts"] = [self._script(s, problems) if isinstance(s, dict) else s for s in place["scripts"]]
        return values

    def _script(self, script: dict[str, Any], problems: list[str]) -> dict[str, Any]:
        try:
            return inline_script(script, self._find_file)
        except (AnsibleError, OSError, UnicodeDecodeError) as error:
            problems.append(f"scripts: {script['file']!r} cannot be read: {str(error).splitlines()[0]}")
            return {**script, "file": None, "sql": "SELECT 1;"}  # so that the other reasons are found too

    def _spec(self, given: dict[str, Any], problems: list[str]) -> dict[str, Any] | None:
        """Return the edb-deployment specification that was given, as ``{name, document}``."""
        name = given.get("spec")
        if not name:
            return None
        try:
            return {"name": str(name), "document": json.loads(Path(self._find_file(str(name))).read_text(encoding="utf-8-sig"))}
        except (AnsibleError, OSError, ValueError) as error:
            problems.append(f"spec: {name!r} cannot be read: {str(error).splitlines()[0]}")
            return None

    def _with_passfile(self, given: dict[str, Any], problems: list[str]) -> dict[str, Any]:
        """Return the whole path of the password file; libpq would pass over one that others may read."""
        if not given.get("login_passfile"):
            return {}
        path = Path(str(given["login_passfile"])).expanduser().absolute()
        if not path.is_file():
            problems.append(f"login_passfile: there is no file {path}")
        elif path.stat().st_mode & 0o077:
            problems.append(f"login_passfile: {path} can be read by others, so libpq ignores it; chmod 600 {path}")
        return {"login_passfile": str(path)}

    def _dump(self, given: dict[str, Any], problems: list[str]) -> dict[str, Any] | None:
        """Return what the dump is that the input ``dataset`` names: ``{path, format, bytes, sha256, jobs}``."""
        values, wrong = coerce_all({"dataset": given.get("dataset")}, INPUTS)
        if "dataset" not in values:
            return None
        dataset, more = coerce_all(values["dataset"], DATASET, where="dataset: ")
        problems += [*wrong, *more]
        if not dataset.get("dump"):
            problems.append("""dataset: names no dump; -e '{"dataset": {"dump": "app.dump"}}'""")
            return None
        try:
            path = Path(dataset["dump"]).expanduser().absolute()
            return {**dumps.describe(path if path.exists() else Path(self._find_file(dataset["dump"]))), "jobs": dataset.get("jobs", 2)}
        except (AnsibleError, OSError, ValueError) as error:
            problems.append(f"dataset: dump: {str(error).splitlines()[0]}")
            return None

    def _find_file(self, name: str) -> str:
        """Return the path of a file of the user: from where the command was given, else as Ansible looks for it."""
        here = Path(name).expanduser().absolute()
        return str(here) if here.is_file() else self._find_needle("files", name)

    def _resume(self, given: dict[str, Any]) -> dict[str, Any]:
        """Take up an experiment where it ended: nothing is planned again."""
        others = sorted(set(given) - {"resume", "results_dir", "allow_vars", "login_password"})
        results_dir = command_line.results_dir(given.get("results_dir"))
        folder = results_dir / Path(str(given["resume"])).name
        if not (folder / "experiment.json").is_file():
            found = ", ".join(
                sorted((p.parent.name for p in results_dir.glob("*/experiment.json") if p.parent.name != "latest"), reverse=True)[:5]
            )
            raise AnsibleActionFail(f"resume: no experiment {given['resume']!r} in {results_dir}; the last are: {found or 'none'}")
        store = Store(folder)
        experiment = store.experiment
        if store.is_controlled():
            raise AnsibleActionFail(f"resume: experiment {experiment['experiment_id']} is running: its ansible-playbook has not ended")
        left = [i for i, t in experiment["journal"]["trials"].items() if t["state"] != "finished"]
        self._display.display(
            f"resume {experiment['experiment_id']}: {len(experiment['journal']['trials']) - len(left)} trial(s) done, {len(left)} to go"
            + (f"; ignored, the plan stands: {', '.join(others)}" if others else "")
        )
        if self._task.check_mode:
            return {"changed": False, "plan": experiment["plan"]}
        store.reopen()
        return {"changed": True, **self._facts(store, store.experiment)}

    def _facts(self, store: Store, experiment: dict[str, Any]) -> dict[str, Any]:
        plan = experiment["plan"]
        fact = {
            "id": experiment["experiment_id"],
            "dir": str(store.directory),
            "deadline": experiment["created"] + plan["deadline_s"]
            if not experiment["journal"].get("resumed")
            else plan["deadline_s"] + experiment["journal"]["resumed"][-1],
            "where": plan["where"],
            "role": plan["role"],
            "load_continues": plan["load_continues"],
            "workload": plan["workload"],
            "reset": plan["reset"],
            "trials": [i for i, t in experiment["journal"]["trials"].items() if t["state"] != "finished"],
            "target": plan["target"],
            "clusters": plan_estimate.clusters(plan),
            "connections": plan["connections"],
            "keep": plan["keep"],
            "port": plan["port"],
            "source": plan["postgres_source"],
            "engine": plan["engine"],
            "share_host": plan["share_host"],
            "storage": plan["storage"],
            "storage_wipe": plan["storage_wipe"],
            "kernel": plan["kernel"],
            "resumed": bool(experiment["journal"].get("resumed")),
            "login": plan["login"],
            # The worker's parent is the process whose end ends the lease on the host.
            "controller": controller_identity(os.getppid()),
        }
        return {"ansible_facts": {"pgsizing_experiment": fact}, "pgsizing_experiment": fact, "plan": plan}


def _why_not(result: dict[str, Any]) -> str:
    """Return why a host could not be looked at: what ssh, sudo or its Python said."""
    said = str(result.get("msg") or result.get("module_stderr") or "no answer")
    return " ".join(said.split()).removeprefix("Task failed: ")
