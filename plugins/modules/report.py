#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``report``; everything happens on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Report on an experiment
version_added: 0.1.0
description:
  - Prints a table of the variants with verdict and spread, and writes C(report.html), C(report.md) and C(trials.csv).
  - Works at any time, on what has been measured so far.
options:
  experiment_dir:
    description: Folder of the experiment on the controller.
    type: path
    required: true
author:
  - The pgsizing contributors
attributes:
  check_mode:
    description: Prints the table and writes nothing.
    support: full
"""

EXAMPLES = r"""
- name: Report again
  pgsizing.bench.report:
    experiment_dir: results/latest
"""

RETURN = r"""
files:
  description: Paths of the written files by kind.
  returned: when not in check mode
  type: dict
summary:
  description: Figures of every variant, and comparisons with the base.
  returned: when not in check mode
  type: dict
complaint:
  description: Why the run should end with an error, empty when it should not.
  returned: when not in check mode
  type: str
"""
