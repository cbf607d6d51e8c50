# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""REPORT: table on the terminal, report files, and what the exit status should be; the documentation is the module's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.pgsizing.bench.plugins.module_utils import summary
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain
from ansible_collections.pgsizing.bench.plugins.plugin_utils import report
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store

#: Verdicts that make the run fail, by what the user requires.
UNWANTED = {"measured": ("invalid", "aborted", "failed"), "valid": ("suspect", "invalid", "aborted", "failed")}


class ActionModule(ActionBase):
    """Report on an experiment as it stands."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write the report files and print the table; ``complaint`` says why the run should end with an error."""
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(argument_spec={"experiment_dir": {"type": "path", "required": True}})
        store = Store(to_plain(args)["experiment_dir"])
        experiment, trials = store.experiment, store.trials()
        summed = summary.summarise(experiment, trials)
        self._display.display("\n" + summary.text_table(summed))
        if self._task.check_mode:
            return {**result, "changed": False}
        files = {name: str(path) for name, path in report.build(store.directory).items()}
        self._display.display("\n".join(f"{name}: {_short(path)}" for name, path in files.items()))
        return {**result, "changed": True, "files": files, "summary": to_plain(summed), "complaint": _complaint(experiment, trials)}


def _short(path: str) -> str:
    """The path relative to where the user stands, when it lies below."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _complaint(experiment: dict[str, Any], trials: list[dict[str, Any]]) -> str:
    """Return why the run should fail, empty when it should not."""
    plan, journal = experiment["plan"], experiment["journal"]
    reasons = [f"{stage}: {entry['message'] or 'failed'}" for stage, entry in journal["stages"].items() if entry["state"] == "failed"]
    reasons += [f"trial {t['trial_id']} is {t['verdict']}" for t in trials if t["verdict"] in UNWANTED[plan["require"]]]
    written = {t["trial_id"] for t in trials}
    reasons += [f"trial {i} was not measured ({entry['state']})" for i, entry in journal["trials"].items() if i not in written]
    return "; ".join(reasons)
