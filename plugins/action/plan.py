# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""PLAN: read the inputs, build the experiment, refuse what cannot be done; the documentation is the module's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from ansible_collections.pgsizing.bench.plugins.module_utils import plan as planning
from ansible_collections.pgsizing.bench.plugins.module_utils.detached import controller_identity
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import INPUTS, coerce_all, near_misses
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_text import plan_text
from ansible_collections.pgsizing.bench.plugins.plugin_utils import site as sites
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import EXPERIMENT_SCHEMA, Store, StoreError
from ansible_collections.pgsizing.bench.plugins.plugin_utils.workload_action import inline_script

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
            }
        )
        args = to_plain(args)
        given, ignored = self._inputs(args["inputs"])
        if given.get("resume"):
            return {**result, **self._resume(given)}
        site = sites.site(
            sizes=args["sizes"],
            profiles={"none": {}, **args["profiles"]},
            inventory=self._inventory(task_vars or {}),
            port=coerce_all({"postgres_port": given.get("postgres_port")}, INPUTS)[0].get(
                "postgres_port", planning.DEFAULTS["postgres_port"]
            ),
            bin_dirs=tuple(args["bin_dirs"]),
            base_dir=args["base_dir"],
        )
        if given.get("scripts"):
            given["scripts"] = self._scripts(given["scripts"])
        plan, problems = planning.build(given, site)
        if problems:
            raise AnsibleActionFail(
                f"nothing was changed; {len(problems)} reason(s) why this cannot be planned:\n" + "\n".join(f"  * {p}" for p in problems)
            )
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
            "environment": {"controller": {k: v for k, v in site.machine.items() if k != "locales"}, "datasets": {}},
            "journal": {"trials": {t["id"]: {"state": "planned", "attempt": 1} for t in plan["trials"]}, "stages": {}, "end": None},
        }
        self._display.display("\n".join(plan_text(experiment, site.machine)))
        if ignored:
            self._display.v(f"not inputs of pgsizing, ignored: {', '.join(ignored)}")
        if self._task.check_mode:
            return {**result, "changed": False, "plan": plan}
        results_dir = Path(given.get("results_dir") or planning.DEFAULTS["results_dir"]).absolute()
        try:
            store = Store.create(results_dir, experiment)
        except (StoreError, OSError) as error:
            raise AnsibleActionFail(f"results_dir: {error}") from error
        return {**result, "changed": True, **self._facts(store, experiment)}

    def _inputs(self, configured: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the inputs (``plan_*`` of the role, overridden by short names from the command line) and what was ignored."""
        parameters = {name for workload in sites.WORKLOADS.values() for name in workload.OPTIONS}
        known = set(INPUTS) | parameters
        extra = to_plain(load_extra_vars(self._loader))
        wrong = near_misses(
            extra, known, [*_names(configured.get("allow_vars")), *_names(extra.get("allow_vars")), *(f"plan_{name}" for name in known)]
        )
        if wrong:
            raise AnsibleActionFail(
                "nothing was changed; unknown input: "
                + "; ".join(f"{name!r} (did you mean {near!r}?)" for name, near in sorted(wrong.items()))
                + '. A variable of your own with such a name is let through by -e \'{"allow_vars": ["NAME"]}\''
            )
        unknown = sorted(set(configured) - known)
        if unknown:
            raise AnsibleActionFail(f"plan: no such input: {', '.join(unknown)}")
        given = {name: value for name, value in configured.items() if value not in (None, "", [], {})}
        given |= {name: value for name, value in extra.items() if name in known}
        return given, sorted(name for name in extra if name not in known and not name.startswith("plan_"))

    def _inventory(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        """Say which groups there are, whether the user gave an inventory, and whether it names this machine only."""
        groups = {k: list(v) for k, v in to_plain(task_vars.get("groups") or {}).items() if k not in ("all", "ungrouped")}
        own = str(sites.ROOT / "inventories" / "local")
        sources = [str(s) for s in context.CLIARGS.get("inventory") or []]
        given = [s for s in sources if s != "/etc/ansible/hosts" and str(Path(s).resolve()) != str(Path(own).resolve())]
        hosts = set(to_plain((task_vars.get("groups") or {}).get("all", [])))
        return {"given": bool(given), "groups": {k: v for k, v in groups.items() if v}, "local_only": hosts <= {"localhost", "127.0.0.1"}}

    def _scripts(self, scripts: Any) -> Any:
        values, problems = coerce_all({"scripts": scripts}, {"scripts": {"type": "list"}})
        if problems:
            raise AnsibleActionFail("; ".join(problems))
        return [inline_script(s, lambda name: self._find_needle("files", name)) if isinstance(s, dict) else s for s in values["scripts"]]

    def _resume(self, given: dict[str, Any]) -> dict[str, Any]:
        """Take up an experiment where it ended: nothing is planned again."""
        others = sorted(set(given) - {"resume", "results_dir", "allow_vars"})
        results_dir = Path(given.get("results_dir") or planning.DEFAULTS["results_dir"]).absolute()
        folder = results_dir / Path(str(given["resume"])).name
        if not (folder / "experiment.json").is_file():
            found = ", ".join(
                sorted((p.parent.name for p in results_dir.glob("*/experiment.json") if p.parent.name != "latest"), reverse=True)[:5]
            )
            raise AnsibleActionFail(f"resume: no experiment {given['resume']!r} in {results_dir}; the last are: {found or 'none'}")
        store = Store(folder)
        experiment = store.experiment
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
            "workload": plan["workload"],
            "reset": plan["reset"],
            "trials": [i for i, t in experiment["journal"]["trials"].items() if t["state"] != "finished"],
            "target": plan["target"],
            "clusters": planning.clusters(plan),
            "keep": plan["keep"],
            "port": plan["port"],
            "source": plan["postgres_source"],
            "engine": plan["engine"],
            "share_host": plan["share_host"],
            "login": plan["login"],
            # The worker's parent is the process whose end ends the lease on the host.
            "controller": controller_identity(os.getppid()),
        }
        return {"ansible_facts": {"pgsizing_experiment": fact}, "pgsizing_experiment": fact, "plan": plan}


def _names(value: Any) -> list[str]:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else list(value or [])
