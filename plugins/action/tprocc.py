# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""The workload TPROC-C by the built-in driver; the documentation is the module's."""

from __future__ import annotations

from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import tprocc
from ansible_collections.pgsizing.bench.plugins.plugin_utils.workload_action import WorkloadAction


class ActionModule(WorkloadAction):
    """Everything is in the pure workload module and the base class."""

    workload = tprocc
    program = "pgbench"
