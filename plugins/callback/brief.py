# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Ansible's own screen output, in which a failed measurement is its message."""

from __future__ import annotations

DOCUMENTATION = r"""
name: brief
type: stdout
short_description: Ansible's default output with short failures of workloads and without includes
version_added: 0.1.0
author: pgsizing contributors
description:
  - The output of P(ansible.builtin.default#callback), with two differences. Of a workload that failed it prints the message alone.
    What there is of the measurement is in the registered result and in the artifacts. Files and roles that are included are not
    named where hosts that are C(ok) are not (O(display_ok_hosts)). With C(-v) all of it is printed too.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - set as stdout in configuration (C(stdout_callback))
"""

from typing import Any

from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as Default


class CallbackModule(Default):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "pgsizing.bench.brief"

    def _dump_results(self, result: Any, *args: Any, **kwargs: Any) -> str:
        """Return the text of a result. Message and verdict together are what a failed workload returns, beside its measurement."""
        if self._display.verbosity == 0 and "msg" in result and "verdict" in result:
            result = {"msg": result["msg"]}
        return str(super()._dump_results(result, *args, **kwargs))

    def v2_runner_on_ok(self, result: Any) -> None:
        if not (isinstance(result.task, TaskInclude) and self._hides_includes()):
            super().v2_runner_on_ok(result)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if not self._hides_includes():
            super().v2_playbook_on_include(included_file)

    def _hides_includes(self) -> bool:
        return self._display.verbosity == 0 and not self.get_option("display_ok_hosts")
