# GNU General Public License v3.0 or later (see LICENSE)
"""The inputs ``storage`` and ``kernel``: what is to be done to a server's devices and kernel before it is measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import coerce_all, nearest
from ansible_collections.pgsizing.bench.plugins.module_utils.units import human_size

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
#: The part of a device that its file system leaves to files: ext4, the default, takes inode tables and keeps 5 % back for root.
USABLE = {"ext4": 0.93, "xfs": 0.98}
#: Writing back in the background has to begin before writers are held up.
BELOW = (("dirty_background_bytes", "dirty_bytes"), ("dirty_background_ratio", "dirty_ratio"))


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
        options = volume.get("mkfs_options")
        if isinstance(options, str):  # as in a shell: commas belong to an option
            volume = {**volume, "mkfs_options": options.split()}
        volumes[role], wrong = coerce_all(volume, VOLUME, where=f"storage: {role}: ")
        problems += wrong
        problems += [
            f"storage: {role}: mkfs_options: {option!r}: give {' and '.join(map(repr, option.split()))} as items of their own"
            for option in volumes[role].get("mkfs_options") or []
            if option.startswith("-") and " " in option
        ]
        devices = volumes[role].get("devices") or []
        if not devices:
            problems.append(f"storage: {role}: devices: name at least one, in /dev/disk/by-id")
        problems += [
            f"storage: {role}: {device}: give the stable name, in /dev/disk/by-id: the kernel's may move to another device"
            for device in devices
            if not re.fullmatch(r"/dev/disk/by-id/(?!\.{1,2}$)[^/\s]+", device)
        ]
    if "wal" in given and "data" not in given:
        problems.append("storage: wal on a volume of its own needs one for data too")
    named = [device for volume in volumes.values() for device in volume.get("devices") or []]
    problems += [f"storage: {device} is named twice" for device in sorted({d for d in named if named.count(d) > 1})]
    return volumes, problems


def with_volumes(machine: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts of the server with the bytes that each of its ``volumes`` (of :func:`storage`) will hold, by role.

    ``None`` where the size of a device is not known. Their devices are made anew, or are ours already and hold what is used again, so that
    the whole size counts. ``disk_free_bytes`` is then that of the volume of the WAL, as far as it is known.
    """
    sizes = {role: _volume_bytes(machine.get("devices") or {}, volume) for role, volume in volumes.items()}
    log = sizes.get("wal" if "wal" in sizes else "data")
    return {**machine, "volumes": sizes, **({"disk_free_bytes": log} if log is not None else {})}


def _volume_bytes(devices: Mapping[str, int], volume: Mapping[str, Any]) -> int | None:
    sizes = [devices.get(name.rpartition("/")[2]) for name in volume.get("devices") or []]
    known = [size for size in sizes if size is not None]
    return int(sum(known) * USABLE[volume.get("fstype") or "ext4"]) if known and len(known) == len(sizes) else None


def kernel(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of the input ``kernel`` and everything wrong with it."""
    values, problems = coerce_all(given, KERNEL, where="kernel: ")
    pages = values.get("huge_pages")
    if pages is not None and pages != "auto" and not re.fullmatch(r"[0-9]+", pages):
        del values["huge_pages"]
        problems.append(f"kernel: huge_pages: {pages!r} is neither a number of pages nor auto, which asks the server")
    problems += [f"kernel: {one} and {other} exclude each other" for one, other in EXCLUSIVE if one in values and other in values]
    problems += [
        f"kernel: {early}={values[early]} is not below {late}={values[late]}: the kernel would silently take half of {late}"
        for early, late in BELOW
        if early in values and late in values and values[early] >= values[late]
    ]
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
    pages, page, memory = plan["kernel"].get("huge_pages"), machine.get("huge_page_bytes"), machine.get("memory_bytes")
    if str(pages).isdecimal() and page and memory and int(pages) * page >= memory:
        problems.append(f"kernel: huge_pages: {pages} of {human_size(page)} are not to be had of {human_size(memory)} of memory")
    return problems
