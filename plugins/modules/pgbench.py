#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``pgbench``; the programs run on the target."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pgbench
short_description: Measure a PostgreSQL server with pgbench
version_added: 0.1.0
description:
  - Builds pgbench's data set or runs pgbench against a server, and returns the measurement with its findings and verdict.
  - The program runs detached on the driver (the target of the task). A lost connection does not end it.
  - A run that ended badly but measured something is an C(ok) result whose RV(verdict) says what it is worth. The task fails when
    nothing was measured.
options:
  scale:
    description: 'Scale factor of the data set: 100,000 accounts each.'
    type: int
    default: 10
  init_steps:
    description: 'Steps of the load, as C(pgbench -I) takes them.'
    type: str
  server_side:
    description: 'Make the rows on the server (step G).'
    type: bool
    default: false
  foreign_keys:
    description: 'Make foreign keys.'
    type: bool
    default: false
  unlogged:
    description: 'Make unlogged tables.'
    type: bool
    default: false
  fillfactor:
    description: 'Fillfactor of the tables, in percent.'
    type: int
    default: 100
  partitions:
    description: 'Number of partitions of C(pgbench_accounts).'
    type: int
    default: 0
  partition_method:
    description: 'How accounts are partitioned.'
    type: str
    choices: [range, hash]
  builtin:
    description: 'Built-in scripts with weights, such as C(select-only@9,simple-update@1).'
    type: str
  scripts:
    description: 'Scripts with weights, each C({builtin, weight}), C({file, weight}) or C({sql, name, weight}).'
    type: list
    elements: dict
  clients:
    description: 'Concurrent sessions.'
    type: int
    default: 4
  threads:
    description: 'Threads of pgbench. Default one for each client, up to the cores of the driver.'
    type: int
  transactions:
    description: 'Transactions of each client, instead of O(duration).'
    type: int
  duration:
    description: 'Seconds of the measured window. Default 20 without O(transactions).'
    type: int
  ramp_up:
    description: 'Seconds of the same load before it. Default 5 for a duration, 0 for a number of transactions.'
    type: int
  protocol:
    description: 'Query protocol.'
    type: str
    default: simple
    choices: [simple, extended, prepared]
  rate:
    description: 'Transactions per second to aim at; latency then counts from the scheduled start.'
    type: float
  latency_limit:
    description: 'Milliseconds; slower transactions are counted, with O(rate) late ones are skipped.'
    type: float
  max_tries:
    description: 'Tries of a transaction that fails by serialization or deadlock; 0 for no limit.'
    type: int
    default: 1
  reconnect:
    description: 'A new connection for each transaction.'
    type: bool
    default: false
  seed:
    description: 'Seed of the random numbers.'
    type: int
    default: 20
  vacuum:
    description: 'Vacuum before the run.'
    type: str
    default: default
    choices: [none, default, all]
  report_per_command:
    description: 'Average latency of each statement.'
    type: bool
    default: false
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
  pgsizing.bench.pgbench:
    login_host: db1
    login_user: bench
    login_password: "{{ bench_password }}"
    login_db: bench
    phase: load
    scale: 50

- name: Measure
  pgsizing.bench.pgbench:
    login_host: db1
    login_user: bench
    login_password: "{{ bench_password }}"
    login_db: bench
    scale: 50
    clients: 10
    transactions: 1000
  register: result

- name: Show
  ansible.builtin.debug:
    msg: "{{ result.measurement.metrics.tps.value }} tps, {{ result.verdict }}"
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
    metrics: {tps: {value: 132.559344, unit: 1/s, better: higher}}
verdict:
  description: What the figures are worth, V(valid), V(suspect), V(invalid) or V(aborted).
  returned: success
  type: str
found:
  description: With O(phase=collect), whether there was a run to collect.
  returned: success
  type: bool
"""
