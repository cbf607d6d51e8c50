# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""The workload tprocc by HammerDB; the documentation is the module's."""

from __future__ import annotations

import shlex
from typing import Any, ClassVar

from ansible.errors import AnsibleActionFail

from ansible_collections.pgsizing.bench.plugins.module_utils.hammerdb_output import parse_version
from ansible_collections.pgsizing.bench.plugins.module_utils.hammerdb_script import connection_problems
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import hammerdb
from ansible_collections.pgsizing.bench.plugins.plugin_utils.workload_action import WorkloadAction


class ActionModule(WorkloadAction):
    """HammerDB runs from its own folder, and is told how to connect by a script instead of by arguments."""

    workload = hammerdb
    program = "hammerdbcli"
    own_options: ClassVar[dict[str, dict[str, Any]]] = {"home": {"type": "path"}}

    def _target(self) -> dict[str, Any]:
        home = self.args["home"]
        if self.args["phase"] == "check":
            return super()._target()
        if not home:
            raise AnsibleActionFail("home: the folder of HammerDB on the driver; only phase: check does without")
        driver, lines = self._ask_driver(f"cd {shlex.quote(home)} && ./hammerdbcli --version </dev/null 2>&1 | head -n 5")
        said, version = " ".join(lines), parse_version("\n".join(lines))
        if not version:
            raise AnsibleActionFail(
                f"HammerDB does not run in {home} on the driver: {said}; install it with the role hammerdb, or give its home"
            )
        return {**driver, "version": version, "said": said}

    def _steps(self, parameters: dict[str, Any], version: str) -> list[dict[str, Any]]:
        args = self.args
        connection = {
            "host": args["login_unix_socket"] or args["login_host"],
            "port": args["login_port"],
            "user": args["login_user"],
            "dbname": args["login_db"],
            "home": args["home"],
            "ssl_mode": args["ssl_mode"],
            "psql": f"{args['bin_dir']}/psql" if args["bin_dir"] else "psql",
        }
        problems = connection_problems(connection)
        if problems:
            raise AnsibleActionFail("; ".join(problems))
        plan = hammerdb.load_steps if args["phase"] == "load" else hammerdb.run_steps
        return plan(parameters, version, connection)

    def _check(self, full: bool = False) -> dict[str, Any]:
        self._rows = super()._check(full)
        return self._rows

    def _measurement(self, done: list[dict[str, Any]]) -> dict[str, Any]:
        measurement = super()._measurement(done)
        if self.args["phase"] == "run":
            note = hammerdb.not_vacuumed(self._rows.get("rows") or {})
            measurement["findings"] += [note] if note else []
        return measurement
