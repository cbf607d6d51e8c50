# GNU General Public License v3.0 or later (see LICENSE)
"""PLAN: validated inputs to one experiment, with every reason why it cannot be done.

Pure: what is known of machines, catalogues and recipes comes in as data; nothing is read, nothing is changed.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from ansible_collections.pgsizing.bench.plugins.module_utils import guc, stats
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import INPUTS, coerce_all, nearest
from ansible_collections.pgsizing.bench.plugins.module_utils.local_profile import local_profile
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import canonical_json
from ansible_collections.pgsizing.bench.plugins.module_utils.units import format_size, human_size

MIB = 2**20

#: What holds when neither the user nor a recipe says anything.
DEFAULTS: dict[str, Any] = {
    "size": "local",
    "workload": "pgbench",
    "engine": "postgres",
    "target": "managed",
    "postgres_source": "distro",
    "postgres_port": 55432,
    "cache": "as_is",
    "time_scale": 1.0,
    "data_scale": 1.0,
    "keep": "data",
    "require": "measured",
    "results_dir": "results",
    "server_group": "pgsizing_server",
    "driver_group": "pgsizing_driver",
}
ALPHA = 0.05
DEFAULT_REPEATS = {False: 3, True: 5}  # without and with a comparison (DESIGN 4.7)

#: A variant may change these besides the workload's own parameters.
VARIANT_KEYS: dict[str, dict[str, Any]] = {
    "gucs": {"type": "dict"},
    "profile": INPUTS["profile"],
    "initdb": INPUTS["initdb"],
    "postgres_version": {"type": "str"},
    "cache": INPUTS["cache"],
}
INITDB_KEYS: dict[str, dict[str, Any]] = {
    "data_checksums": {"type": "bool"},
    "wal_segsize": {"type": "int", "choices": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]},
    "locale": {"type": "str"},
    "encoding": {"type": "str"},
    "auth": {"type": "str", "choices": ["scram-sha-256", "md5", "trust"]},
}

#: Memory and WAL settings of a recipe that ``data_scale`` shrinks, with the floor of each.
SCALED_GUCS = {
    "shared_buffers": 16 * MIB,
    "effective_cache_size": 16 * MIB,
    "maintenance_work_mem": 4 * MIB,
    "max_wal_size": 64 * MIB,
    "min_wal_size": 32 * MIB,
}
CHECKPOINT_TIMEOUT_LEAST = 30
SCALED_WINDOW_LEAST_S = 10.0

#: What a plan keeps of the published run that it reproduces.
PUBLISHED_KEYS = ("id", "title", "source", "conditions", "figures", "contradictions")

#: Estimates of what surrounds a measured window, from runs on 2 cores: they plan, they never judge.
RESTART_S = 3.0
SETTLE_S = 3.0
COLLECT_S = 4.0
PREPARE_S = 20.0
COPY_BYTES_PER_S = 150 * MIB
#: The most a per-transaction log may take; beyond it a sample is logged.
LOG_BYTES = 2 * 2**30
#: Connections the toolkit itself holds: the observer's and one for checks.
OWN_CONNECTIONS = 2


class Site(NamedTuple):
    """What PLAN knows of the place: data that ships or was read from the controller, never from a user's input."""

    sizes: Mapping[str, Any]
    profiles: Mapping[str, Any]
    recipes: Mapping[str, Any]
    workloads: Mapping[str, ModuleType]
    catalogue: Callable[[str, str], Mapping[str, Any]]  # (engine, major); KeyError when there is none
    majors: tuple[str, ...]  # majors with a catalogue
    machine: Mapping[str, Any]  # of the controller: see plugin_utils/machine.py
    inventory: Mapping[str, Any]  # {given, groups: {name: [hosts]}, local_only}
    now: float


def experiment_id(now: float, name: str) -> str:
    """Return a sortable id: UTC time and a short name."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{_slug(name)}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:40] or "x"


def build(given: Mapping[str, Any], site: Site) -> tuple[dict[str, Any], list[str]]:
    """Return the plan and the list of everything that forbids it. With problems the plan may be incomplete."""
    problems: list[str] = []
    published = _published_run(given, site, problems)
    recipe = published.get("recipe", {})
    workload_name = str(given.get("workload") or recipe.get("workload") or DEFAULTS["workload"])
    if workload_name not in site.workloads:
        near = nearest(workload_name, site.workloads)
        problems.append(
            f"workload: {workload_name!r} is not one of {', '.join(site.workloads)}" + (f"; did you mean {near!r}?" if near else "")
        )
        return {}, problems
    workload = site.workloads[workload_name]

    explicit, wrong = coerce_all({k: v for k, v in given.items() if k in INPUTS}, INPUTS)
    problems += wrong
    asked, wrong = _parameters({k: v for k, v in given.items() if k not in INPUTS}, workload)
    problems += wrong
    inputs = {**DEFAULTS, **{k: v for k, v in recipe.items() if k in INPUTS}, **explicit}
    recipe_parameters, wrong = _parameters({k: v for k, v in recipe.items() if k not in INPUTS}, workload)
    parameters = {**_exclusive(recipe_parameters, asked, workload), **asked}
    problems += wrong

    size = site.sizes.get(inputs["size"]) if isinstance(inputs["size"], str) else None
    if size is None:
        near = nearest(str(inputs["size"]), site.sizes)
        problems.append(f"size: {inputs['size']!r} is not one of {', '.join(site.sizes)}" + (f"; did you mean {near!r}?" if near else ""))
        return {}, problems
    where = _where(inputs, explicit, size, site, problems)

    scaling: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []
    variants = []
    for name, difference in _variants(inputs, parameters, workload, problems).items():
        variant = _variant(name, difference, inputs, parameters, size, workload, site, bool(recipe), problems, findings, scaling)
        variants += [variant] if variant else []
    if inputs.get("only_variants"):
        variants = _only(variants, inputs["only_variants"], problems)
    if not variants:
        return {}, _unique(problems)
    variants[0]["base"] = True
    repeats = inputs.get("repeats") or DEFAULT_REPEATS[len(variants) > 1]
    reset = inputs.get("reset") or ("template" if inputs["target"] == "managed" else "rebuild")
    order = stats.order([v["name"] for v in variants], repeats, seed=0)
    trials = [
        {"id": f"{k:02d}-{_slug(variant)}-r{repeat}", "variant": variant, "repeat": repeat, "position": k}
        for k, (variant, repeat) in enumerate(order, 1)
    ]
    comparisons = len(variants) - 1
    needed = stats.repeats_needed(comparisons, ALPHA) if comparisons else 1
    if comparisons and repeats < needed:
        findings.append(
            finding(
                "too_few_repeats",
                f"{repeats} repeats cannot show a difference at alpha {ALPHA} for {comparisons} comparison(s); {needed} can",
                repeats=repeats,
                needed=needed,
            )
        )
    if scaling:
        findings.append(
            finding("shape_only", "scaled run: compare its variants with each other, never with a published figure", scaled=scaling)
        )
    plan = {
        "inputs": {k: ("given, not recorded" if INPUTS.get(k, {}).get("secret") else v) for k, v in {**explicit, **asked}.items()},
        "reproduce": published.get("id"),
        "where": where,
        "size": inputs["size"],
        "workload": workload_name,
        "load_generator": inputs.get("load_generator") or workload.LOAD_GENERATOR,
        "headline": workload.HEADLINE,
        "target": inputs["target"],
        "engine": inputs["engine"],
        "postgres_source": inputs["postgres_source"],
        "port": inputs["postgres_port"],
        "login": {k: inputs.get(f"login_{k}") for k in ("host", "port", "user", "db", "unix_socket")},
        "variants": variants,
        "repeats": repeats,
        "cache": inputs["cache"],
        "reset": reset,
        "keep": inputs["keep"],
        "require": inputs["require"],
        "share_host": inputs.get("share_host", False),
        "trials": trials,
        "scaling": scaling,
        "comparisons": {"count": comparisons, "alpha": ALPHA, "repeats_needed": needed},
        "published": {k: published.get(k) for k in PUBLISHED_KEYS} if published else None,
        "deviations": [],
        "findings": findings,
    }
    plan["estimate"] = _estimate(plan, workload, site.machine)
    plan["deadline_s"] = 900 + 3 * plan["estimate"]["seconds"]
    plan["deviations"] = _deviations(plan, published, site.machine)
    problems += _refusals(plan, site.machine)
    _lint(plan, site.machine)
    return plan, _unique(problems)


def _unique(items: list[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _published_run(given: Mapping[str, Any], site: Site, problems: list[str]) -> dict[str, Any]:
    name = given.get("reproduce")
    if not name:
        return {}
    if name not in site.recipes:
        near = nearest(str(name), site.recipes)
        problems.append(
            f"reproduce: no published run {name!r}; there are {', '.join(site.recipes) or 'none'}"
            + (f"; did you mean {near!r}?" if near else "")
        )
        return {}
    return {**site.recipes[str(name)], "id": name}


def _parameters(given: Mapping[str, Any], workload: ModuleType) -> tuple[dict[str, Any], list[str]]:
    axes = {k: {**s, "axis": s.get("type") not in ("list", "dict", "raw")} for k, s in workload.OPTIONS.items()}
    return coerce_all(given, axes)


def _exclusive(recipe: Mapping[str, Any], asked: Mapping[str, Any], workload: ModuleType) -> dict[str, Any]:
    """Drop what the recipe says of a choice that the user made otherwise: ``duration`` given, ``transactions`` not wanted."""
    dropped = {other for group in workload.EXCLUSIVE for name in group if name in asked for other in group if other != name}
    return {k: v for k, v in recipe.items() if k not in dropped}


# where it runs ---------------------------------------------------------------------------------------------------------


def _where(
    inputs: Mapping[str, Any], explicit: Mapping[str, Any], size: Mapping[str, Any], site: Site, problems: list[str]
) -> dict[str, Any]:
    """Decide once where the experiment runs (DESIGN 4.1). A user's inventory without the group never buys machines."""
    inventory, group, provider = site.inventory, inputs["server_group"], inputs.get("provider")
    hosts = inventory["groups"].get(group, [])
    drivers = inventory["groups"].get(inputs["driver_group"], []) or hosts
    if inputs["target"] == "existing":
        if not (inputs.get("login_host") or inputs.get("login_unix_socket")):
            problems.append("target=existing needs login_host (or login_unix_socket): the server to connect to")
        server = inputs.get("login_host") or inputs.get("login_unix_socket")
        return {
            "provider": "existing",
            "server": ["localhost"],
            "driver": ["localhost"],
            "reason": f"target=existing: {server}, driven from here",
        }
    if provider in (None, "inventory") and hosts:
        both = sorted(set(hosts) & set(drivers))
        if drivers != hosts and both:
            problems.append(
                f"{', '.join(both)}: in both {group} and {inputs['driver_group']}; a host is one of the two, or leave the driver group out"
            )
        return {"provider": "inventory", "server": hosts[:1], "driver": drivers[:1], "reason": f"group {group} of the inventory"}
    groups = ", ".join(sorted(inventory["groups"])) or "none"
    if provider == "inventory":
        problems.append(f"provider=inventory: the inventory has no host in group {group}; its groups are: {groups}")
    elif provider != "local" and explicit.get("size") != "local" and inventory["given"] and not inventory["local_only"]:
        problems.append(
            f"the inventory has no host in group {group}; its groups are: {groups}. "
            "Name one with -e server_group=GROUP, or measure this machine with -e provider=local"
        )
    elif provider == "aws" or (size.get("instance_type") and provider != "local"):
        problems.append(f"size {inputs['size']}: provisioning on AWS is not part of this version; measure this machine with size=local")
    return {"provider": "local", "server": ["localhost"], "driver": ["localhost"], "reason": f"size {inputs['size']}: this machine"}


# variants --------------------------------------------------------------------------------------------------------------


def _variants(inputs: dict[str, Any], parameters: dict[str, Any], workload: ModuleType, problems: list[str]) -> dict[str, dict[str, Any]]:
    """Return ``{name: difference}``: the named variants times every axis (a list given for one parameter).

    Axes are taken out of ``inputs`` and ``parameters``.
    """
    named = inputs.get("variants") or {"": {}}
    allowed = {**VARIANT_KEYS, **{k: {**s, "axis": False} for k, s in workload.OPTIONS.items()}}
    variants: dict[str, dict[str, Any]] = {}
    for name, raw in named.items():
        if raw is not None and not isinstance(raw, dict):
            problems.append(f"variants: {name}: {raw!r} is not a mapping, such as {{gucs: {{shared_buffers: 1GB}}}}")
            continue
        difference, wrong = coerce_all(raw or {}, allowed, where=f"variants: {name}: ")
        problems += wrong
        variants[str(name)] = difference
    axes = [(source, k) for source in (inputs, parameters) for k, v in source.items() if isinstance(v, list) and _is_axis(k, workload)]
    for source, key in axes:
        values = source.pop(key)
        if not values:
            problems.append(f"{key}: an empty list")
            continue
        if len({canonical_json(v) for v in values}) < len(values):
            problems.append(f"{key}: {values!r} holds a value twice; repeats are asked for with repeats=N")
        variants = {
            f"{name} {key}={value}".strip(): {**difference, key: difference.get(key, value)}
            for name, difference in variants.items()
            for value in values
        }
    return {name or "base": difference for name, difference in variants.items()}


def _is_axis(name: str, workload: ModuleType) -> bool:
    spec = INPUTS.get(name) or workload.OPTIONS.get(name) or {}
    return bool(spec.get("axis")) or (name in workload.OPTIONS and spec.get("type") not in ("list", "dict", "raw"))


def _only(variants: list[dict[str, Any]], wanted: list[str], problems: list[str]) -> list[dict[str, Any]]:
    names = [v["name"] for v in variants]
    for name in wanted:
        if name not in names:
            problems.append(f"only_variants: no variant {name!r}; there are {', '.join(names)}")
    return [v for v in variants if v["name"] in wanted]


def _variant(
    name: str,
    difference: Mapping[str, Any],
    inputs: Mapping[str, Any],
    parameters: Mapping[str, Any],
    size: Mapping[str, Any],
    workload: ModuleType,
    site: Site,
    reproducing: bool,
    problems: list[str],
    findings: list[dict[str, Any]],
    scaling: list[dict[str, Any]],
) -> dict[str, Any] | None:
    label = f"variant {name}: " if inputs.get("variants") else ""
    options = workload.OPTIONS
    own = {k: v for k, v in difference.items() if k in options}
    values = {k: s.get("default") for k, s in options.items()} | _exclusive(parameters, own, workload) | own
    values = workload.complete(values, cores=site.machine["cores"])
    values = _scaled_parameters(values, inputs, workload, site.machine, scaling)
    unfit = [f"{label}{p}" for p in workload.validate(values)]

    major = _major(difference.get("postgres_version") or inputs.get("postgres_version"), site, label, problems)
    initdb, wrong = coerce_all({**inputs.get("initdb", {}), **difference.get("initdb", {})}, INITDB_KEYS, where=f"{label}initdb: ")
    problems += [*unfit, *wrong]
    if unfit or major is None:
        return None
    settings: list[dict[str, Any]] = []
    if inputs["target"] == "managed":
        settings = _settings(label, difference, inputs, size, major, initdb, site, problems, findings)
        settings = _scaled_settings(settings, inputs, major, site, reproducing, scaling)
    pgbench = site.machine.get("pgbench", {}).get(major)
    if pgbench and hasattr(workload, "unsupported"):
        problems += [f"{label}{p}" for p in workload.unsupported(values, pgbench)]
    sampling = workload.sampling_for(values, workload.guess_tps(values, site.machine["cores"]), LOG_BYTES)
    if sampling < 1 and not values.get("sampling_rate"):
        values["sampling_rate"] = sampling
        text = f"{label}the per-transaction log would be larger than {human_size(LOG_BYTES)}: a share of {sampling} of it is written"
        findings.append(finding("sampled_log", text, sampling_rate=sampling))
    data = workload.dataset(values)
    return {
        "name": name,
        "base": False,
        "differs": dict(difference),
        "parameters": values,
        "cache": difference.get("cache", inputs["cache"]),
        "postgres": {"version": major, "initdb": initdb},
        "settings": settings,
        "dataset": {"fingerprint": data["fingerprint"], "parameters": data["parameters"], "bytes": workload.dataset_bytes(values)},
    }


def _major(asked: Any, site: Site, label: str, problems: list[str]) -> str | None:
    if not asked:
        return site.machine["postgres_major"] if site.machine["postgres_major"] in site.majors else site.majors[-1]
    major = str(asked).split(".")[0]
    if major not in site.majors:
        problems.append(f"{label}postgres_version: {asked!r} is not one of {', '.join(site.majors)}")
        return None
    return major


def _profile(name: str, size: Mapping[str, Any], major: str, site: Site, label: str, problems: list[str]) -> list[dict[str, Any]]:
    """Return the rows ``{name, value, reason}`` of a profile."""
    if name == "local":
        machine = site.machine
        return local_profile(machine["cores"], machine["memory_bytes"], machine["disk_free_bytes"], int(major))
    if name in site.profiles:
        rows = site.profiles[name] or {}
        return [{"name": k, "value": v, "reason": f"profile {name}"} for k, v in rows.items()]
    near = nearest(name, ["local", *site.profiles])
    problems.append(
        f"{label}profile: no profile {name!r}" + (f"; did you mean {near!r}?" if near else f"; there are local, {', '.join(site.profiles)}")
    )
    return []


def _settings(
    label: str,
    difference: Mapping[str, Any],
    inputs: Mapping[str, Any],
    size: Mapping[str, Any],
    major: str,
    initdb: Mapping[str, Any],
    site: Site,
    problems: list[str],
    findings: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Profile, then ``gucs``, then the variant's own: each later one replaces the earlier and says what it replaces."""
    try:
        catalogue = site.catalogue(inputs["engine"], major)
    except KeyError:
        problems.append(f"{label}engine {inputs['engine']} {major}: no catalogue of settings ships for it")
        return []
    profile = difference.get("profile") or inputs.get("profile") or size["profile"]
    rows = _profile(profile, size, major, site, label, problems)
    layers: list[tuple[str, dict[str, Any], dict[str, str], bool]] = [
        (f"profile {profile}", {r["name"]: r["value"] for r in rows}, {r["name"]: r["reason"] for r in rows}, False),
        ("gucs", inputs.get("gucs") or {}, {}, True),
        (f"variant {label[8:-2]}" if label else "variant", difference.get("gucs") or {}, {}, True),
    ]
    merged: dict[str, dict[str, Any]] = {}
    for origin, asked, reasons, strict in layers:
        resolved, found, wrong = guc.resolve(
            asked,
            catalogue,
            engine=inputs["engine"],
            origin=origin,
            reasons=reasons,
            strict=strict,
            wal_segment_size=initdb.get("wal_segsize", 16) * MIB,
            locales=site.machine.get("locales"),
            loaded=guc.loaded_libraries(merged),
        )
        findings += [f for f in found if f not in findings]
        problems += [f"{label}{p}" for p in wrong]
        for setting in resolved:
            before = merged.get(setting["name"])
            merged[setting["name"]] = {**setting, "replaces": before["text"] if before else setting.get("replaces")}
    problems += [f"{label}{p}" for p in guc.conflicts(merged, wal_segment_size=initdb.get("wal_segsize", 16) * MIB)]
    return sorted(merged.values(), key=lambda s: s["name"])


# scaling ---------------------------------------------------------------------------------------------------------------


def _scaled_parameters(
    values: dict[str, Any], inputs: Mapping[str, Any], workload: ModuleType, machine: Mapping[str, Any], scaling: list[dict[str, Any]]
) -> dict[str, Any]:
    scaled = dict(values)
    data, duration = inputs["data_scale"], inputs["time_scale"]
    for key in workload.DATA_PARAMETERS:
        if data != 1 and scaled.get(key):
            scaled[key] = max(1, round(scaled[key] * data))
    for key in ("duration", "ramp_up"):
        if duration != 1 and scaled.get(key):
            scaled[key] = max(1, round(scaled[key] * duration))
    if duration != 1 and scaled.get("transactions"):
        seconds = workload.run_seconds(values, machine["cores"])
        least = math.ceil(values["transactions"] * min(1.0, SCALED_WINDOW_LEAST_S / seconds))
        scaled["transactions"] = max(least, round(values["transactions"] * duration))
    _note_scaling(scaling, values, scaled)
    return scaled


def _note_scaling(scaling: list[dict[str, Any]], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    for key, value in after.items():
        row = {"name": key, "from": before[key], "to": value}
        if before[key] != value and row not in scaling:
            scaling.append(row)


def _scaled_settings(
    settings: list[dict[str, Any]],
    inputs: Mapping[str, Any],
    major: str,
    site: Site,
    reproducing: bool,
    scaling: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Shrink a recipe's memory and WAL settings with the data, and ``checkpoint_timeout`` with the time."""
    if not reproducing:
        return settings
    catalogue = site.catalogue(inputs["engine"], major)
    result = []
    for setting in settings:
        name, text = setting["name"], setting["text"]
        if name in SCALED_GUCS and inputs["data_scale"] != 1 and setting["bytes"]:
            size = max(SCALED_GUCS[name], int(setting["bytes"] * inputs["data_scale"]))
            text = format_size(size // 8192 * 8192 if size < MIB else size // MIB * MIB)
        elif name == "checkpoint_timeout" and inputs["time_scale"] != 1:
            text = f"{max(CHECKPOINT_TIMEOUT_LEAST, round(setting['value'] * inputs['time_scale']))}s"
        if text != setting["text"]:
            parsed = guc.parse_value(catalogue["settings"][name], text)
            if parsed["text"] != setting["text"]:
                row = {"name": name, "from": setting["text"], "to": parsed["text"]}
                if row not in scaling:
                    scaling.append(row)
                setting = {**setting, **parsed, "reason": f"{setting['text']} scaled"}
        result.append(setting)
    return result


# estimate, refusals, remarks ---------------------------------------------------------------------------------------------


def cluster_name(variant: Mapping[str, Any]) -> str:
    """Return the name of the private cluster that a variant runs on: major version and initdb options."""
    initdb = variant["postgres"]["initdb"]
    return f"{variant['postgres']['version']}-{hashlib.sha256(canonical_json(initdb).encode()).hexdigest()[:8]}"


def _estimate(plan: Mapping[str, Any], workload: ModuleType, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Estimate seconds and bytes, resets included. Data sets that stand already are not known here: the estimate is for a first run."""
    by_name = {v["name"]: v for v in plan["variants"]}
    datasets = {(cluster_name(v), v["dataset"]["fingerprint"]): v for v in plan["variants"]}
    build_s = sum(workload.load_seconds(v["parameters"]) for v in datasets.values())
    reset_s = window_s = around_s = 0.0
    for trial in plan["trials"]:
        variant = by_name[trial["variant"]]
        if plan["reset"] == "template":
            reset_s += 1 + variant["dataset"]["bytes"] / COPY_BYTES_PER_S
        elif plan["reset"] == "rebuild":
            reset_s += workload.load_seconds(variant["parameters"])
        window_s += workload.run_seconds(variant["parameters"], machine["cores"])
        around_s += RESTART_S + SETTLE_S + COLLECT_S
    stored = sum(v["dataset"]["bytes"] for v in datasets.values())
    copy = max((v["dataset"]["bytes"] for v in plan["variants"]), default=0)
    wal = max((_setting(v, "max_wal_size", "bytes") or 2**30 for v in plan["variants"]), default=0)
    parts = [
        {"what": "prepare server", "seconds": PREPARE_S, "bytes": 0},
        {"what": f"build {len(datasets)} data set(s)", "seconds": build_s, "bytes": stored},
        {"what": f"reset before each trial ({plan['reset']})", "seconds": reset_s, "bytes": copy},
        {"what": "restart, settle and collect", "seconds": around_s, "bytes": wal},
        {"what": f"{len(plan['trials'])} measured windows with ramp-up", "seconds": window_s, "bytes": 0},
    ]
    return {"seconds": sum(p["seconds"] for p in parts), "disk_bytes": sum(p["bytes"] for p in parts), "parts": parts}


def _setting(variant: Mapping[str, Any], name: str, key: str = "value") -> Any:
    return next((s[key] for s in variant["settings"] if s["name"] == name), None)


def _refusals(plan: Mapping[str, Any], machine: Mapping[str, Any]) -> list[str]:
    """Return every reason why the machine cannot hold the plan. Only for this machine: others are asked in PREPARE."""
    problems: list[str] = []
    if plan["target"] == "existing":
        return problems
    for variant in plan["variants"]:
        clients = variant["parameters"].get("clients") or 0
        limit = _setting(variant, "max_connections") or 100
        reserved = (_setting(variant, "superuser_reserved_connections") or 3) + (_setting(variant, "reserved_connections") or 0)
        if clients + reserved + OWN_CONNECTIONS > limit:
            problems.append(
                f"variant {variant['name']}: {clients} clients + {reserved} reserved + {OWN_CONNECTIONS} of our own connections are more than "
                f"max_connections = {limit}; set max_connections to {clients + reserved + OWN_CONNECTIONS} or more, or lower clients"
            )
    if plan["where"]["provider"] != "local":
        return problems
    need, free = plan["estimate"]["disk_bytes"], machine["disk_free_bytes"]
    if need > free:
        problems.append(
            f"disk: the plan needs {human_size(need)} in {machine['base_dir']}, {human_size(free)} are free; lower scale or data_scale"
        )
    for variant in plan["variants"]:
        buffers = _setting(variant, "shared_buffers", "bytes") or 0
        if buffers > machine["memory_bytes"]:
            problems.append(
                f"variant {variant['name']}: shared_buffers = {human_size(buffers)} is larger than the memory, {human_size(machine['memory_bytes'])}"
            )
        major = variant["postgres"]["version"]
        if major not in machine["installed_majors"] and not machine["can_install"]:
            problems.append(
                f"variant {variant['name']}: no PostgreSQL {major} binaries on this machine (there are: {', '.join(machine['installed_majors']) or 'none'}) "
                "and no way to install them: run as root, or set postgres_bin_dirs to where they are"
            )
    if machine.get("port_owner"):
        problems.append(f"port {plan['port']} is in use by {machine['port_owner']}; choose another with -e postgres_port=N")
    return _unique(problems)


def _lint(plan: dict[str, Any], machine: Mapping[str, Any]) -> None:
    if plan["where"]["provider"] != "local":
        return
    for variant in plan["variants"]:
        found = guc.lint(
            {s["name"]: s for s in variant["settings"]},
            memory_bytes=machine["memory_bytes"],
            clients=variant["parameters"].get("clients") or 1,
            disk_free_bytes=machine["disk_free_bytes"],
            dataset_bytes=2 * variant["dataset"]["bytes"],
            huge_pages_free=machine.get("huge_pages_free"),
        )
        plan["findings"] += [f for f in found if f not in plan["findings"]]


# published runs ------------------------------------------------------------------------------------------------------------


def _deviations(plan: Mapping[str, Any], published: Mapping[str, Any], machine: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List what differs from the published run: its conditions against this plan's, explicit inputs, and scaling."""
    if not published:
        return []
    recipe = published["recipe"]
    base = plan["variants"][0]
    here = {
        "server_version": f"PostgreSQL {machine.get('server_versions', {}).get(base['postgres']['version'], base['postgres']['version'])}",
        "operating_system": machine.get("os"),
        "machine": f"{machine['cores']} cores, {human_size(machine['memory_bytes'])} memory, {machine.get('virtualization') or 'no virtualization seen'}",
        "driver": "on the server" if plan["where"]["driver"] == plan["where"]["server"] else "another host",
        "connection": "Unix socket, no TLS" if plan["where"]["driver"] == plan["where"]["server"] else "TCP, no TLS",
        "repeats": f"{plan['repeats']} per variant, in A B B A order",
        "start": f"each trial from the same state: reset {plan['reset']}, restart, cache {plan['cache']}",
    }
    rows = [
        {"what": what.replace("_", " "), "published": said, "here": here[what]}
        for what, said in (published.get("conditions") or {}).items()
        if what in here and here[what] is not None and str(said) != str(here[what])
    ]
    rows += [
        {"what": name, "published": recipe.get(name), "here": value}
        for name, value in plan["inputs"].items()
        if name not in ("reproduce", "results_dir", "keep", "resume", "require", "time_scale", "data_scale") and recipe.get(name) != value
    ]
    rows += [{"what": f"{row['name']} (scaled)", "published": row["from"], "here": row["to"]} for row in plan["scaling"]]
    rows += [{"what": c["what"], "published": c["says"], "here": c["taken"]} for c in published.get("contradictions") or []]
    return rows


def clusters(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the private clusters that a plan needs, each with its data sets and the variant under whose settings they are built."""
    found: dict[str, dict[str, Any]] = {}
    for variant in plan["variants"]:
        name = cluster_name(variant)
        cluster = found.setdefault(name, {"name": name, **variant["postgres"], "settings": variant["settings"], "datasets": []})
        if variant["dataset"]["fingerprint"] not in [d["fingerprint"] for d in cluster["datasets"]]:
            cluster["datasets"].append({"fingerprint": variant["dataset"]["fingerprint"], "parameters": variant["parameters"]})
    return list(found.values())
