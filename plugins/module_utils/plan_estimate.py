# GNU General Public License v3.0 or later (see LICENSE)
"""What a plan needs: clusters, time and disk; and why a machine cannot hold it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import guc, hardware
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import canonical_json
from ansible_collections.pgsizing.bench.plugins.module_utils.units import human_size

MIB = 2**20

#: Estimates of what surrounds a measured window, from runs on 2 cores: they plan, they never judge.
RESTART_S = 3.0
SETTLE_S = 3.0
COLLECT_S = 4.0
PREPARE_S = 20.0
COPY_BYTES_PER_S = 150 * MIB
#: Bytes of a dump that are restored in a second: a guess for the estimate.
RESTORE_BYTES_PER_S = 10 * MIB


def cluster_name(variant: Mapping[str, Any]) -> str:
    """Return the name of the private cluster that a variant runs on: major version and initdb options."""
    initdb = variant["postgres"]["initdb"]
    return f"{variant['postgres']['version']}-{hashlib.sha256(canonical_json(initdb).encode()).hexdigest()[:8]}"


def clusters(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the private clusters that a plan needs, each with its data sets and the variant under whose settings they are built.

    ``variants``: the settings of all, where the server is to count its huge pages.
    """
    found: dict[str, dict[str, Any]] = {}
    for variant in plan["variants"]:
        name = cluster_name(variant)
        cluster = found.setdefault(
            name, {"name": name, **variant["postgres"], "settings": variant["settings"], "datasets": [], "variants": []}
        )
        if plan["kernel"].get("huge_pages") == "auto":
            cluster["variants"].append([{k: s[k] for k in ("name", "text", "value", "bytes")} for s in variant["settings"]])
        if variant["dataset"]["fingerprint"] not in [d["fingerprint"] for d in cluster["datasets"]]:
            dump = variant["dataset"]["dump"]
            parameters = dump or variant["parameters"]
            role = "restore" if dump else plan["role"]
            cluster["datasets"].append({"fingerprint": variant["dataset"]["fingerprint"], "parameters": parameters, "role": role})
    return list(found.values())


def estimate(plan: Mapping[str, Any], workload: ModuleType, machines: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Estimate seconds and bytes, resets included. Data sets that stand already are not known here: the estimate is for a first run.

    ``machines``: by size. Those that are bought stand all the time: one trial after the other is measured.
    """
    by_name = {v["name"]: v for v in plan["variants"]}
    datasets = {(v["size"], cluster_name(v), v["dataset"]["fingerprint"]): v for v in plan["variants"]}
    reset_s = window_s = around_s = 0.0
    for trial in plan["trials"]:
        variant = by_name[trial["variant"]]
        if plan["reset"] == "template":
            reset_s += 1 + variant["dataset"]["bytes"] / COPY_BYTES_PER_S
        elif plan["reset"] == "rebuild":
            reset_s += _load_seconds(variant, workload)
        window_s += workload.run_seconds(variant["parameters"], machines[variant["size"]]["cores"])
        around_s += RESTART_S + SETTLE_S + COLLECT_S
    if plan["reset"] == "rebuild":
        datasets = {}
    build_s = sum(_load_seconds(v, workload) for v in datasets.values())
    stored = sum(v["dataset"]["bytes"] for v in datasets.values())
    copy = max((v["dataset"]["bytes"] for v in plan["variants"]), default=0)
    wal = _wal_bytes(plan)
    buy = [{"what": "create machines", "seconds": hardware.PROVISION_S, "bytes": 0}] if plan["where"]["provider"] == "aws" else []
    parts = [
        *buy,
        {"what": "prepare server", "seconds": PREPARE_S, "bytes": 0},
        {"what": f"build {len(datasets)} data set(s)", "seconds": build_s, "bytes": stored},
        {"what": f"reset before each trial ({plan['reset']})", "seconds": reset_s, "bytes": copy},
        {"what": "restart, settle and collect", "seconds": around_s, "bytes": wal},
        {"what": f"{len(plan['trials'])} measured windows with ramp-up", "seconds": window_s, "bytes": 0},
    ]
    return {"seconds": sum(p["seconds"] for p in parts), "disk_bytes": sum(p["bytes"] for p in parts), "parts": parts}


def _wal_bytes(plan: Mapping[str, Any]) -> int:
    return max((_setting(v, "max_wal_size", "bytes") or 2**30 for v in plan["variants"]), default=0)


def _rooms(plan: Mapping[str, Any], machine: Mapping[str, Any]) -> list[tuple[str, str, int, int | None]]:
    """Return where a plan stores: ``(role, what it is called, bytes it needs, bytes that are free or None)``.

    That is the volumes of the input ``storage`` where they are given, else the folder of ours.
    """
    need, wal = plan["estimate"]["disk_bytes"], _wal_bytes(plan)
    if not plan["storage"]:
        return [("", machine["base_dir"], need, machine["disk_free_bytes"])]
    volumes = machine["volumes"]
    of_data = need - wal if "wal" in volumes else need
    parts = [(role, of_data if role == "data" else wal) for role in volumes]
    return [(role, f"the {role} volume ({', '.join(plan['storage'][role].get('devices') or [])})", n, volumes[role]) for role, n in parts]


def too_full(plan: Mapping[str, Any], machine: Mapping[str, Any]) -> bool:
    """Return whether the data sets do not fit where the plan puts them, as far as that place is known."""
    return any(free is not None and need > free for role, _name, need, free in _rooms(plan, machine) if role != "wal")


def not_checked(plan: Mapping[str, Any], machine: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return findings on volumes whose size is not known, so that nobody can say whether the plan fits on them."""
    return [
        finding(
            "not_checked",
            f"storage: the size of {name} is not known: whether the {human_size(need)} fit on it was not checked, and what a profile "
            f"computes from the disk goes by {machine['base_dir']}",
            role=role,
        )
        for role, name, need, free in _rooms(plan, machine)
        if free is None
    ]


def _too_full_text(plan: Mapping[str, Any], workload: ModuleType, role: str, name: str, need: int, free: int) -> str:
    """Say what does not fit where, and which inputs of the workload make it smaller."""
    if role == "wal":
        smaller = "lower max_wal_size"
    elif plan["variants"][0]["dataset"]["dump"]:
        smaller = "take a smaller dataset"
    else:
        peers = [group for group in workload.EXCLUSIVE if set(group) & set(workload.DATA_PARAMETERS)]
        inputs = dict.fromkeys([*workload.DATA_PARAMETERS, *(name for group in peers for name in group), "data_scale"])
        *most, last = inputs
        smaller = f"lower {', '.join(most)} or {last}"
    copy = "" if role == "wal" or plan["reset"] != "template" else ", or do without the copy it is reset from: reset=rebuild"
    return f"disk: the plan needs {human_size(need)} in {name}, {human_size(free)} are free; {smaller}{copy}"


def _load_seconds(variant: Mapping[str, Any], workload: ModuleType) -> float:
    dump = variant["dataset"]["dump"]
    return dump["bytes"] / RESTORE_BYTES_PER_S if dump else workload.load_seconds(variant["parameters"])


def own_connections(workload: ModuleType) -> int:
    """Return the connections beside the clients' while the load runs: the observer's, and what the load generator measures by."""
    return 1 + int(workload.MONITORS)


def refusals(plan: Mapping[str, Any], workload: ModuleType, machine: Mapping[str, Any]) -> list[str]:
    """Return every reason why the machine cannot hold the plan. Only for this machine: others are asked in PREPARE."""
    problems: list[str] = []
    if plan["target"] == "existing":
        return problems
    own = own_connections(workload)
    for variant in plan["variants"]:
        clients = variant["parameters"].get("clients") or 0
        limit = _setting(variant, "max_connections", default=100)
        reserved = _setting(variant, "superuser_reserved_connections", default=3) + _setting(variant, "reserved_connections", default=0)
        if clients + reserved + own > limit:
            problems.append(
                f"variant {variant['name']}: {clients} clients + {reserved} reserved + {own} of our own connections are more "
                f"than max_connections = {limit}; set max_connections to {clients + reserved + own} or more, or lower clients"
            )
    cold = any(variant["cache"] == "cold" for variant in plan["variants"])
    if cold and not plan["share_host"]:
        problems.append("cache=cold drops the page cache of the whole host; allow it with -e share_host=true")
    if plan["where"]["provider"] not in ("local", "inventory") or machine.get("remote"):
        return problems
    if cold and not machine.get("root"):
        problems.append("cache=cold drops the page cache, which needs root; run as root, or choose cache=warm or cache=as_is")
    problems += [
        _too_full_text(plan, workload, role, name, need, free)
        for role, name, need, free in _rooms(plan, machine)
        if free is not None and need > free
    ]
    for variant in plan["variants"]:
        buffers = _setting(variant, "shared_buffers", "bytes") or 0
        if buffers > machine["memory_bytes"]:
            problems.append(
                f"variant {variant['name']}: shared_buffers = {human_size(buffers)} is larger than the memory, "
                f"{human_size(machine['memory_bytes'])}"
            )
        major = variant["postgres"]["version"]
        if major not in machine["installed_majors"] and not machine["can_install"]:
            problems.append(
                f"variant {variant['name']}: no PostgreSQL {major} binaries on this machine "
                f"(there are: {', '.join(machine['installed_majors']) or 'none'}) and no way "
                "to install them: run as root, or set postgres_bin_dirs to where they are"
            )
    if machine.get("port_owner"):
        problems.append(f"port {plan['port']} is in use by {machine['port_owner']}; choose another with -e postgres_port=N")
    return problems


def in_memory(plan: Mapping[str, Any], machines: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the finding on data sets that fit in the memory of their machine (``machines``: by size, memory 0: unknown).

    Such a run measures memory and CPU; beside a data set that does not fit it is another kind of figure.
    """
    if plan["target"] == "existing":
        return []
    known = [(v, m) for v in plan["variants"] if (m := machines[v["size"]].get("memory_bytes"))]
    fitting = [(v, memory) for v, memory in known if v["dataset"]["bytes"] < memory]
    if not fitting:
        return []
    larger = [v["name"] for v, memory in known if v["dataset"]["bytes"] >= memory]
    which = f"the data set of {', '.join(v['name'] for v, _memory in fitting)}" if larger else "the data set"
    variant, memory = fitting[0]
    text = (
        f"{which} (about {human_size(variant['dataset']['bytes'])}) fits in the memory of {human_size(memory)}: once it is there, "
        "nothing is read from the disk, and storage shows in what is written only"
    )
    if larger:
        text += f"; that of {', '.join(larger)} does not fit: between them cached and uncached data are compared too"
    sizes = {v["name"]: v["dataset"]["bytes"] for v, _memory in fitting}
    return [finding("data_in_memory", text, bytes=sizes, memory_bytes=memory, larger=larger)]


def lint(plan: dict[str, Any], machine: Mapping[str, Any]) -> None:
    """Add what the memory lint finds in the settings of each variant to the plan's findings, and what was not checked; nothing for a
    machine that was not seen.
    """
    if plan["where"]["provider"] not in ("local", "inventory") or machine.get("remote"):
        return
    plan["findings"] += not_checked(plan, machine)
    role, _name, _need, free = max(_rooms(plan, machine), key=lambda room: room[0] == "wal")
    for variant in plan["variants"]:
        found = guc.lint(
            {s["name"]: s for s in variant["settings"]},
            memory_bytes=machine["memory_bytes"],
            clients=variant["parameters"].get("clients") or 1,
            disk_free_bytes=free,
            dataset_bytes=0 if role == "wal" else 2 * variant["dataset"]["bytes"],
            huge_pages_free=machine.get("huge_pages_free"),
            huge_page_bytes=machine.get("huge_page_bytes") or 2 * MIB,
        )
        plan["findings"] += [f for f in found if f not in plan["findings"]]


def _setting(variant: Mapping[str, Any], name: str, key: str = "value", default: Any = None) -> Any:
    return next((s[key] for s in variant["settings"] if s["name"] == name), default)
