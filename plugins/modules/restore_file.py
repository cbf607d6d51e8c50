#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""What a host was before: one file on the host, a section for each role, written before the change it tells of."""

from __future__ import annotations

DOCUMENTATION = r"""
module: restore_file
short_description: Remember what a host was before
version_added: 0.1.0
description:
  - Keeps C(restore.json) in O(base_dir), which tells any later teardown what to put back.
  - What is remembered stays; a value that is there already is what the host was before the first change. Lists grow.
options:
  base_dir:
    description: Folder of ours on the host. It is made when it is missing.
    type: path
    required: true
  section:
    description: Whose part of the file it is.
    type: str
    required: true
  before:
    description: What to remember. Without it the section is only read.
    type: dict
  state:
    description: V(absent) takes the section out, once all is put back.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    support: full
    description: Writes nothing.
author: pgsizing contributors (@pgsizing)
"""

EXAMPLES = r"""
- name: Remember a kernel setting
  pgsizing.bench.restore_file:
    base_dir: /var/lib/pgsizing
    section: kernel
    before:
      files: {/proc/sys/vm/swappiness: "60"}
"""

RETURN = r"""
before:
  description: The section as it stands now, empty when there is none.
  returned: always
  type: dict
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import read_json, write_json


def merged(old: Any, new: Any) -> Any:
    """Return ``old`` completed by ``new``: dicts by key, lists by what they lack; any other value of ``old`` stays."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{k: merged(old[k], v) if k in old else v for k, v in new.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return old + [item for item in new if item not in old]
    return old


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "base_dir": {"type": "path", "required": True},
            "section": {"type": "str", "required": True},
            "before": {"type": "dict"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    path, section = Path(module.params["base_dir"], "restore.json"), module.params["section"]
    content = read_json(path) or {}
    after = dict(content)
    if module.params["state"] == "absent":
        after.pop(section, None)
    elif module.params["before"]:
        after[section] = merged(content.get(section, {}), module.params["before"])
    changed = after != content
    if changed and not module.check_mode:
        if after:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, after)
            path.chmod(0o644)
        else:
            path.unlink()
    module.exit_json(changed=changed, before=after.get(section, {}))


if __name__ == "__main__":
    main()
