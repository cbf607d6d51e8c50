#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``plan``; everything happens on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Plan one experiment
version_added: 0.1.0
description:
  - Validates all inputs together, builds the matrix of trials, estimates duration and disk, and refuses with every reason at once.
  - Needs no server and no credentials. Prints the plan, and writes the experiment unless in check mode.
  - Short names given on the command line (C(-e clients=8)) win over O(inputs).
options:
  inputs:
    description: Inputs by their short names. Empty values count as not given.
    type: dict
    required: true
  sizes:
    description: T-shirt sizes that the input C(size) may name.
    type: dict
    required: true
  profiles:
    description: Profiles that the input C(profile) may name, besides V(local) and V(none).
    type: dict
    required: true
  bin_dirs:
    description: Where server programs lie, as globs. Default the places of the distributions.
    type: list
    elements: str
    default: []
  base_dir:
    description: Folder of ours on the host. Default C(/var/lib/pgsizing) for root, C(~/.local/state/pgsizing) for others.
    type: str
    default: ""
  look:
    description: Plan nothing, only say which hosts of the inventory the plan has to know, for M(pgsizing.bench.machine).
    type: bool
    default: false
  seen:
    description: What M(pgsizing.bench.machine) said of them, as the results of a loop over the hosts.
    type: list
    elements: dict
    default: []
  hammerdb:
    description:
      - Where HammerDB comes from, C(version), C(home), C(archive), C(url) as the role C(hammerdb) takes them. Decides whether there is one
        for the architecture of a driver that is to be bought.
    type: dict
    default: {}
author:
  - The pgsizing contributors
attributes:
  check_mode:
    description: Prints the plan and writes nothing.
    support: full
"""

EXAMPLES = r"""
- name: Plan a comparison of two values
  pgsizing.bench.plan:
    sizes: {local: {profile: local}}
    profiles: {}
    inputs:
      clients: 8
      variants: {base: {}, big: {gucs: {shared_buffers: 1GB}}}
"""

RETURN = r"""
pgsizing_experiment:
  description: Id and folder of the experiment, and what the playbooks need of the plan. Also a fact.
  returned: when not in check mode
  type: dict
hosts:
  description: Hosts of the inventory that the plan has to know.
  returned: with O(look=true)
  type: list
  elements: str
port:
  description: Port that the private server is to have.
  returned: with O(look=true)
  type: int
majors:
  description: Major versions of PostgreSQL that can be planned for.
  returned: with O(look=true)
  type: list
  elements: str
plan:
  description: The plan, as it stands in C(experiment.json).
  returned: success
  type: dict
"""
