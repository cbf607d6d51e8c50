#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``tprocc``; the programs run on the target."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tprocc
short_description: Measure a PostgreSQL server with TPROC-C
version_added: 0.1.0
description:
  - Builds the TPROC-C data set or runs TPROC-C against a server, and returns the measurement with its findings and verdict. The work is
    that of HammerDB's stored procedures, the load generator is pgbench.
  - The programs run detached on the driver (the target of the task). A lost connection does not end them.
  - A build that was interrupted is taken up by the same task. A database with such tables of another origin is refused.
  - A run that ended badly but measured something is an C(ok) result whose RV(verdict) says what it is worth. The task fails when
    nothing was measured.
options:
  warehouses:
    description: 'Warehouses of the data set, about 101 MB each. Default 10 without O(database_size).'
    type: int
  database_size:
    description: 'Size of the database, such as V(120GB), instead of O(warehouses).'
    type: str
  mode:
    description: 'Whose work is done. V(hammerdb): that of the stored procedures of HammerDB.'
    type: str
    default: hammerdb
    choices: [hammerdb]
  partitions:
    description: 'Hash partitions of C(order_line) by warehouse.'
    type: int
    default: 0
  load_sessions:
    description: 'Sessions that build the data set. Default one for each core of the driver.'
    type: int
  clients:
    description: 'Virtual users: sessions that work without a pause.'
    type: int
    default: 4
  threads:
    description: 'Threads of pgbench. Default one for each client, up to the cores of the driver.'
    type: int
  duration:
    description: 'Seconds of the measured window.'
    type: int
    default: 30
  ramp_up:
    description: 'Seconds of the same load before it.'
    type: int
    default: 15
  all_warehouses:
    description: 'Whether a virtual user works on its share of all warehouses in turn, and not on one home warehouse.'
    type: bool
    default: false
  protocol:
    description: 'Query protocol. V(simple) sends text, as HammerDB does.'
    type: str
    default: simple
    choices: [simple, extended, prepared]
  seed:
    description: 'Seed of what the scripts draw. What the procedures draw is not seeded.'
    type: int
    default: 20
  sampling_rate:
    description: 'Share of transactions that are logged.'
    type: float
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
  pgsizing.bench.tprocc:
    login_host: db1
    login_user: bench
    login_password: "{{ bench_password }}"
    login_db: tpcc
    phase: load
    warehouses: 40

- name: Measure
  pgsizing.bench.tprocc:
    login_host: db1
    login_user: bench
    login_password: "{{ bench_password }}"
    login_db: tpcc
    warehouses: 40
    clients: 8
    ramp_up: 120
    duration: 300
  register: result

- name: Show
  ansible.builtin.debug:
    msg: "{{ result.measurement.metrics.nopm.value | round }} NOPM, {{ result.verdict }}"

- name: Check the data, all of them
  pgsizing.bench.tprocc:
    login_host: db1
    login_user: bench
    login_password: "{{ bench_password }}"
    login_db: tpcc
    phase: check
"""

RETURN = r"""
measurement:
  description:
    - What was measured. C(metrics) holds name, value, unit and which direction is better; C(latency) average, standard deviation and
      percentiles in ms; C(counts) transactions by outcome; C(client) CPU of the load generator; C(raw) paths of what was written.
    - A missing value is null.
  returned: success
  type: dict
  sample:
    metrics: {nopm: {value: 37223.4, unit: 1/min, better: higher}}
verdict:
  description: What the figures are worth, V(valid), V(suspect), V(invalid) or V(aborted).
  returned: success
  type: str
found:
  description: With O(phase=collect), whether there was a run to collect.
  returned: success
  type: bool
checked:
  description: With O(phase=check), the counts and the violations of each condition that were found.
  returned: success
  type: dict
"""
