#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``record``; everything but fetching happens on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: record
short_description: Write what happened into an experiment
version_added: 0.1.0
description:
  - The one way by which roles and playbooks write into an experiment's folder.
  - A trial that has ended is judged, and C(trial.json) and C(series.csv) are written.
options:
  experiment_dir:
    description: Folder of the experiment on the controller.
    type: path
    required: true
  event:
    description:
      - V(stage) notes that a stage started, finished or failed.
      - V(begin) opens a trial and returns its variant.
      - V(mark) notes that a step of the trial starts.
      - V(dataset) notes what the load of a data set measured.
      - V(fetch) fetches the files of the observation of a driver on a host of its own, which is the target then.
      - V(finish) closes a trial with its measurement, V(fail) one without.
      - V(end) closes the experiment.
    type: str
    required: true
    choices: [stage, begin, mark, dataset, fetch, finish, fail, end]
  stage:
    description: Name of the stage, or of the trial's step.
    type: str
  state:
    description: State of the stage or of the experiment.
    type: str
    choices: [started, finished, failed]
  trial_id:
    description: Id of the trial.
    type: str
  retry:
    description: Give up the run of a controller that was lost, and start the trial over.
    type: bool
    default: false
  message:
    description: What happened, in one sentence. With O(failure), the name of the task that failed.
    type: str
  failure:
    description: The result of the task that failed (C(ansible_failed_result)); what it says completes O(message).
    type: dict
  code:
    description: Code of the finding that a failed trial gets.
    type: str
    default: setup_failed
  cluster:
    description: Name of the cluster that holds the data set.
    type: str
  fingerprint:
    description: Fingerprint of the data set.
    type: str
  measurement:
    description: Measurement of the workload action.
    type: dict
  observation:
    description: Observation of the module M(pgsizing.bench.observe). Its files are fetched.
    type: dict
  driver_observation:
    description: The same of the driver, when it is a host of its own.
    type: dict
  hosts:
    description: Descriptions of server and driver.
    type: dict
  settings:
    description: What the role C(gucs) read back from the server.
    type: dict
  findings:
    description: Further findings of the trial.
    type: list
    elements: dict
    default: []
author:
  - The pgsizing contributors
attributes:
  check_mode:
    description: Writes nothing.
    support: full
"""

EXAMPLES = r"""
- name: Open a trial
  pgsizing.bench.record:
    experiment_dir: results/20260301T120000Z-local-pgbench
    event: begin
    trial_id: 01-base-r1
  register: opened
"""

RETURN = r"""
variant:
  description: The variant of the trial that was opened.
  returned: event is V(begin)
  type: dict
cluster:
  description: The plan's name for the cluster that the trial runs on.
  returned: event is V(begin)
  type: str
attempt:
  description: Which attempt at the trial this is, from 1.
  returned: event is V(begin)
  type: int
lost:
  description: Whether a run whose controller was lost may be there to be collected.
  returned: event is V(begin)
  type: bool
verdict:
  description: Verdict of the trial.
  returned: event is V(finish) or V(fail)
  type: str
headline:
  description: Metric, value and unit of the trial's headline figure.
  returned: event is V(finish) or V(fail)
  type: dict
"""
