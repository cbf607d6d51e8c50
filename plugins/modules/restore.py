#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``restore``; the programs run on the target."""

from __future__ import annotations

DOCUMENTATION = r"""
module: restore
short_description: Build a data set from a dump of your own
version_added: 0.1.0
description:
  - Restores a dump of pg_dump into an empty database, by C(pg_restore) or, when it is plain, by C(psql), and stops at the first error.
  - Owners and privileges of the dump are left out, since its users need not exist.
  - A plain dump has to be of one database, without commands of psql; one by C(pg_dumpall) or C(pg_dump --create) is refused.
  - The program runs detached on the driver (the target of the task). A lost connection does not end it.
options:
  dump:
    description: The dump, on the driver.
    type: path
    required: true
  format:
    description: Its format, as C(pg_dump --format) names it.
    type: str
    choices: [custom, directory, tar, plain]
    required: true
  jobs:
    description: How many jobs restore it. Only of formats V(custom) and V(directory); others take one.
    type: int
    default: 2
extends_documentation_fragment:
  - pgsizing.bench.connection
author:
  - The pgsizing contributors
attributes:
  check_mode:
    description: Returns the commands that would run.
    support: full
"""

EXAMPLES = r"""
- name: Restore
  pgsizing.bench.restore:
    login_host: db1
    login_user: bench
    login_password: "{{ bench_password }}"
    login_db: bench
    phase: load
    dump: /srv/app.dump
    format: custom
    jobs: 8
"""

RETURN = r"""
measurement:
  description: What was measured, which is how long it took. Shaped as that of every workload.
  returned: success
  type: dict
  sample:
    metrics: {load_seconds: {value: 132.559344, unit: s, better: lower}}
"""
