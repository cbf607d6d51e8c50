# GNU General Public License v3.0 or later (see LICENSE)
"""The inputs ``storage`` and ``kernel``: what is to be done to a server's devices and kernel before it is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import coerce_all, nearest

VOLUME: dict[str, dict[str, Any]] = {
    "devices": {"type": "list", "elements": "str"},
    "fstype": {"type": "str", "choices": ["ext4", "xfs"]},
    "mkfs_options": {"type": "list", "elements": "str"},
    "mount_options": {"type": "str"},
    "read_ahead_kb": {"type": "int", "min": 0},
}
KERNEL: dict[str, dict[str, Any]] = {
    "swappiness": {"type": "int", "min": 0, "max": 200},
    "dirty_background_bytes": {"type": "int", "min": 8192},
    "dirty_bytes": {"type": "int", "min": 8192},
    "dirty_background_ratio": {"type": "int", "min": 1, "max": 100},
    "dirty_ratio": {"type": "int", "min": 1, "max": 100},
    "overcommit_memory": {"type": "int", "choices": [0, 1, 2]},
    "overcommit_ratio": {"type": "int", "min": 0},
    "zone_reclaim_mode": {"type": "int", "min": 0, "max": 7},
    "thp": {"type": "str", "choices": ["always", "madvise", "never"]},
    "thp_defrag": {"type": "str", "choices": ["always", "defer", "defer+madvise", "madvise", "never"]},
    "governor": {"type": "str"},
    "huge_pages": {"type": "str"},
}
#: The kernel holds one of each pair.
EXCLUSIVE = (("dirty_bytes", "dirty_ratio"), ("dirty_background_bytes", "dirty_background_ratio"))


def storage(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the volumes of the input ``storage`` by role (``data``, ``wal``), and everything wrong with it."""
    volumes, problems = {}, []
    for role, volume in given.items():
        if role not in ("data", "wal"):
            near = nearest(role, ("data", "wal"))
            problems.append(f"storage: {role}: there are data and wal" + (f"; did you mean {near!r}?" if near else ""))
            continue
        if not isinstance(volume, Mapping):
            problems.append(f"storage: {role}: {volume!r} is not a mapping, such as {{devices: [/dev/disk/by-id/...], fstype: xfs}}")
            continue
        volumes[role], wrong = coerce_all(volume, VOLUME, where=f"storage: {role}: ")
        problems += wrong
        devices = volumes[role].get("devices") or []
        if not devices:
            problems.append(f"storage: {role}: devices: name at least one, in /dev/disk/by-id")
        problems += [
            f"storage: {role}: {device}: give the stable name, in /dev/disk/by-id: the kernel's may move to another device"
            for device in devices
            if not device.startswith("/dev/disk/by-id/")
        ]
    if "wal" in given and "data" not in given:
        problems.append("storage: wal on a volume of its own needs one for data too")
    named = [device for volume in volumes.values() for device in volume.get("devices") or []]
    problems += [f"storage: {device} is named twice" for device in sorted({d for d in named if named.count(d) > 1})]
    return volumes, problems


def kernel(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of the input ``kernel`` and everything wrong with it."""
    values, problems = coerce_all(given, KERNEL, where="kernel: ")
    pages = values.get("huge_pages")
    if pages is not None and pages != "auto" and not pages.isdigit():
        problems.append(f"kernel: huge_pages: {pages!r} is neither a number of pages nor auto, which asks the server")
    problems += [f"kernel: {one} and {other} exclude each other" for one, other in EXCLUSIVE if one in values and other in values]
    return values, problems


def refusals(plan: Mapping[str, Any], machine: Mapping[str, Any]) -> list[str]:
    """Return why the server of this plan cannot have its devices or its kernel changed (DESIGN 4.2)."""
    asked = [name for name in ("storage", "kernel") if plan[name]]
    if not asked:
        return []
    names = " and ".join(asked)
    if plan["target"] == "existing":
        return [f"target=existing changes nothing on the server; leave out {names}"]
    problems = []
    if plan["kernel"] and not plan["share_host"] and plan["where"]["provider"] in ("local", "inventory"):
        problems.append("kernel: changes settings of the whole host, for everything that runs on it; allow it with -e share_host=true")
    if not machine.get("remote") and not machine.get("root"):
        problems.append(f"{names}: needs root on the server; run with become, or leave out")
    return problems
