#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Documentation of the action plugin ``refresh_facts``; everything happens on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: refresh_facts
short_description: Refresh instance facts and prices from AWS
version_added: 0.1.0
description:
  - Asks EC2 (C(DescribeInstanceTypes)) and the Price List (C(GetProducts)) and writes C(instances.json) and C(prices/REGION.json).
  - Reads only. Credentials, profile and endpoints are found as boto3 finds them, in environment, configuration or instance role; the
    permissions C(ec2:DescribeInstanceTypes) and C(pricing:GetProducts) are needed.
  - A type that the region does not offer keeps its facts, with a note of their age. A price that AWS does not state is left out.
options:
  regions:
    description: Regions whose prices are asked for; instance facts come from the first.
    type: list
    elements: str
    default: [us-east-1, eu-west-1]
  instance_types:
    description: Instance types to add to those that the file holds.
    type: list
    elements: str
    default: []
  dest:
    description: Folder of the files; those that ship with the collection when not given.
    type: path
requirements:
  - boto3 on the controller
author:
  - The pgsizing contributors
attributes:
  check_mode:
    description: Asks AWS and shows what would change.
    support: full
  diff_mode:
    description: Shows the files before and after.
    support: full
"""

EXAMPLES = r"""
- name: Today's prices of two regions, and a type of our own
  pgsizing.bench.refresh_facts:
    regions: [us-east-1, eu-central-1]
    instance_types: [r8gd.4xlarge]
"""

RETURN = r"""
files:
  description: Paths of the files that AWS had an answer for.
  returned: always
  type: list
  elements: str
missing:
  description: By file, the instance and volume types that AWS had no answer for.
  returned: always
  type: dict
"""
