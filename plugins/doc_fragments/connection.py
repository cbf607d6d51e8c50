# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Options that every workload action shares."""

from __future__ import annotations


class ModuleDocFragment:
    """Connection options with the names of community.postgresql, and where a run belongs."""

    DOCUMENTATION = r"""
options:
  login_host:
    description: Host of the server, as the driver sees it. Without it and O(login_unix_socket) the client library's default.
    type: str
  login_port:
    description: Port of the server.
    type: int
    default: 5432
  login_user:
    description: Role to connect as.
    type: str
    default: postgres
  login_password:
    description: Its password. It travels in a file of mode 0600 that is removed when the program ends.
    type: str
  login_db:
    description: Database to measure.
    type: str
    default: postgres
  login_unix_socket:
    description: Directory of the server's Unix socket; wins over O(login_host).
    type: path
  login_passfile:
    description: A libpq password file on the driver, instead of O(login_password).
    type: path
  ssl_mode:
    description: How TLS is negotiated.
    type: str
    choices: [allow, disable, prefer, require, verify-ca, verify-full]
    default: prefer
  phase:
    description: Build the data set (V(load)), measure (V(run)), collect a run whose controller was lost (V(collect)), or check the data
      set and fail when it is not complete and consistent (V(check)).
    type: str
    choices: [load, run, collect, check]
    default: run
  bin_dir:
    description: Folder of the client programs on the driver. Without it, they are looked for on the path.
    type: path
  work_dir:
    description: Folder on the driver for what the programs write. Default C(/var/lib/pgsizing/jobs) for root,
      C(~/.local/state/pgsizing/jobs) for others.
    type: path
  deadline:
    description: Seconds after which a step is ended. Default the planned length and a margin.
    type: float
  experiment_dir:
    description: Folder of an experiment on the controller. Raw files, progress and journal go there.
    type: path
  trial_id:
    description: Which trial of the experiment this is. It names the job, so that a lost run can be collected.
    type: str
"""
