#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``hammerdb``; the programs run on the target."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hammerdb
short_description: Measure a PostgreSQL server with TPROC-C by HammerDB
version_added: 0.1.0
description:
  - Builds the TPROC-C data set by HammerDB, or runs HammerDB's timed driver against a server, and returns the measurement with its findings
    and verdict. The shape is that of M(pgsizing.bench.tprocc).
  - The programs run detached on the driver (the target of the task). A lost connection does not end them.
  - HammerDB's exit status and its word are not trusted. A build is checked row by row by a statement of our own and by C(checkschema). A
    run needs one result and the end of every virtual user, and C(psql) counts orders beside it.
  - No password reaches HammerDB. It connects as O(login_user), which must be there, by a password file.
  - A run that ended badly but measured something is an C(ok) result whose RV(verdict) says what it is worth. The task fails when
    nothing was measured.
options:
  home:
    description: Folder of HammerDB on the driver. The role C(hammerdb) installs it. Needed but for O(phase=check).
    type: path
  warehouses:
    description: 'Warehouses of the data set, about 98 MB each. Default 10 without O(database_size).'
    type: int
  database_size:
    description: 'Size of the database, such as V(120GB), instead of O(warehouses).'
    type: str
  partition:
    description: 'Hash partitions of C(order_line), one for 100 warehouses. HammerDB ignores it below 200 warehouses.'
    type: bool
    default: false
  storedprocs:
    description: 'Whether the routines are procedures. HammerDB''s functions do other work, see docs/hammerdb.md.'
    type: bool
    default: true
  load_sessions:
    description: 'Virtual users that build the data set. Default one for each core of the driver.'
    type: int
  clients:
    description: 'Virtual users: sessions that work without a pause.'
    type: int
    default: 4
  duration:
    description: 'Seconds of the measured window. HammerDB counts in steps of 6 s, other lengths are rounded up to one it can end.'
    type: int
    default: 30
  ramp_up:
    description: 'Seconds of the same load before it, rounded up likewise.'
    type: int
    default: 24
  all_warehouses:
    description: 'Whether a virtual user works on its share of all warehouses in turn, and not on one home warehouse.'
    type: bool
    default: false
  user_delay:
    description: 'Milliseconds between the starts of two virtual users. Default 500, or as few as have them all started by the middle of the
      ramp-up.'
    type: int
  time_profile:
    description: 'Latencies by transaction type. They cost HammerDB 20 to 50 % more CPU.'
    type: bool
    default: false
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
- name: Build the data set
  pgsizing.bench.hammerdb:
    home: /opt/HammerDB-4.12
    login_host: db1
    login_user: bench
    login_password: "{{ bench_password }}"
    login_db: bench
    phase: load
    warehouses: 40

- name: Measure
  pgsizing.bench.hammerdb:
    home: /opt/HammerDB-4.12
    login_host: db1
    login_user: bench
    login_password: "{{ bench_password }}"
    login_db: bench
    warehouses: 40
    clients: 16
    ramp_up: 120
    duration: 300
  register: result

- name: Show
  ansible.builtin.debug:
    msg: "{{ result.measurement.metrics.nopm.value }} NOPM, {{ result.verdict }}"
"""

RETURN = r"""
measurement:
  description:
    - What was measured. C(metrics) holds C(nopm) and C(tpm) as HammerDB says them; C(conditions.counted) what was counted beside the run;
      C(latency) by transaction type with O(time_profile); C(client) CPU of HammerDB; C(raw) paths of what was written.
    - A missing value is null.
  returned: success
  type: dict
  sample:
    metrics: {nopm: {value: 17284, unit: 1/min, better: higher}, tpm: {value: 39191, unit: 1/min, better: higher}}
verdict:
  description: What the figures are worth, V(valid), V(suspect), V(invalid) or V(aborted).
  returned: success
  type: str
found:
  description: With O(phase=collect), whether there was a run to collect.
  returned: success
  type: bool
checked:
  description: With O(phase=check), what the data set is.
  returned: success
  type: dict
"""
