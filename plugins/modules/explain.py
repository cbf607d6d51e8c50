#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``explain``; everything happens on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: explain
short_description: Explain the settings of a profile
version_added: 0.1.0
description:
  - Prints every row of a profile with its reason, what is wrong with it on the hardware of a size, and what the profile
    C(as_intended) does instead. Changes nothing.
  - Short names given on the command line (C(-e size=small)) win over O(inputs).
options:
  inputs:
    description: C(size), C(profile) (default that of the size), C(engine), C(postgres_version).
    type: dict
    default: {}
  sizes:
    description: The sizes that C(size) may name.
    type: dict
    required: true
  profiles:
    description: The profiles that C(profile) may name, besides V(local) and V(none).
    type: dict
    required: true
author:
  - The pgsizing contributors
attributes:
  check_mode:
    description: Does the same; nothing is ever changed.
    support: full
"""

EXAMPLES = r"""
- name: Explain the published settings
  pgsizing.bench.explain:
    sizes: "{{ plan_sizes }}"
    profiles: "{{ plan_profiles }}"
    inputs: {size: small, profile: as_published}
"""

RETURN = r"""
answer:
  description: C(rows), each with C(name), C(text), C(not_set), C(reason), C(note), C(wrong), C(instead); and C(findings).
  returned: success
  type: dict
"""
