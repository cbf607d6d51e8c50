#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``size``; everything happens on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: size
short_description: Recommend a size for a need
version_added: 0.1.0
description:
  - Names the cheapest size that is shown to reach a rate of new orders, and the next two, from published results and your own.
  - Prints headroom, IOPS to provide against IOPS used, cost a month, and what the answer rests on. Changes nothing.
  - A size is promised what it, or a smaller one of its family, was shown to do with as little of its data in memory, and no more.
  - Short names given on the command line (C(-e need_nopm=200000)) win over O(inputs).
options:
  inputs:
    description:
      - C(need_nopm), new orders per minute; C(database_size) and C(working_set), with unit, such as V(300GB); C(region);
        C(results_dir), where your own results lie.
    type: dict
    default: {}
  sizes:
    description: The sizes to choose from.
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
- name: Which size do I need
  pgsizing.bench.size:
    sizes: "{{ plan_sizes }}"
    inputs: {need_nopm: 200000, database_size: 300GB, working_set: 80GB}
  register: r
"""

RETURN = r"""
answer:
  description:
    - C(recommended), the name of a size or null; C(evidence), V(shown) or V(extrapolated); C(sizes), at most three, each with
      C(nopm), C(promised_nopm), C(headroom), C(iops), C(volumes) as offered, C(cost); C(not_enough), the smaller ones;
      C(unfit), those whose hardware C(cannot) do it, with the reasons; C(uncertainty), sentences.
  returned: success
  type: dict
"""
