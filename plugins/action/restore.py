# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""A data set from a dump of the user; the documentation is the module's."""

from __future__ import annotations

import shlex
import time
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import restore
from ansible_collections.pgsizing.bench.plugins.plugin_utils.workload_action import WorkloadAction


class ActionModule(WorkloadAction):
    """The base class, and progress by tables: how many there are is in the dump's table of contents."""

    workload = restore
    program = "pg_restore"

    _tables = 0
    _done = 0

    def _run_steps(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self.args["format"] != "plain":
            program = shlex.quote(f"{self.args['bin_dir']}/pg_restore" if self.args["bin_dir"] else "pg_restore")
            counted = f"{program} --list {shlex.quote(self.args['dump'])} | grep -c ' TABLE DATA '"
            self._tables = int(self._low_level_execute_command(counted).get("stdout", "").strip() or 0)
        return super()._run_steps(steps)

    def _progress(self, step: dict[str, Any], job: dict[str, Any], text: str) -> None:
        if not self.store:
            return
        self._done += restore.tables_done(text)
        self.store.progress(
            stage="prepare",
            trial=self.args["trial_id"],
            step=step["name"],
            elapsed_s=round(time.time() - (job.get("started") or time.time()), 1),
            planned_s=None,
            rate=None,
            unit=None,
            latency_ms=None,
            percent=round(100 * self._done / self._tables) if self._tables else None,
        )
