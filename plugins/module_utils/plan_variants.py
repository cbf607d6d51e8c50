# GNU General Public License v3.0 or later (see LICENSE)
"""The variants of an experiment: parameters, data set, cluster and settings of each, and how a scaled run shrinks them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import guc, profiles, units
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import INPUTS, coerce_all, nearest
from ansible_collections.pgsizing.bench.plugins.module_utils.local_profile import local_profile
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import canonical_json
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_place import DEFAULTS, Site
from ansible_collections.pgsizing.bench.plugins.module_utils.units import format_size, human_size

MIB = 2**20

#: What an existing server cannot have: it is measured as it is.
MANAGED_ONLY = ("gucs", "profile", "initdb", "postgres_version", "cache")
EPAS_MAJORS = ("13", "14", "15", "16", "17")

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

#: How much larger a database is than its dump: a guess for the estimate; most formats are compressed, and indexes are not in them.
EMPTY_DATABASE_BYTES = 8 * MIB
DUMP_GROWS = {"custom": 8, "directory": 8, "tar": 2, "plain": 2}
#: The most a per-transaction log may take; beyond it a sample is logged.
LOG_BYTES = 2 * 2**30

#: Memory and WAL settings of a recipe that ``data_scale`` shrinks, with the floor of each.
SCALED_GUCS = {
    "shared_buffers": 16 * MIB,
    "effective_cache_size": 16 * MIB,
    "maintenance_work_mem": 4 * MIB,
    "max_wal_size": 64 * MIB,
    "min_wal_size": 32 * MIB,
}
#: Which input a setting comes from, by the first word of its origin.
ORIGINS = {"profile": "profile", "gucs": "gucs", "variant": "variants"}
SCALED_WINDOW_LEAST_S = 10.0


def variants(inputs: dict[str, Any], parameters: dict[str, Any], workload: ModuleType, problems: list[str]) -> dict[str, dict[str, Any]]:
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
        if str(name) in variants:
            problems.append(f"variants: {name}: stands there twice, as a number and as a text")
        variants[str(name)] = difference
    axes = [(source, k) for source in (inputs, parameters) for k, v in source.items() if isinstance(v, list) and _is_axis(k, workload)]
    for source, key in axes:
        values = source.pop(key)
        if not values:
            problems.append(f"{key}: an empty list")
            continue
        if len({canonical_json(v) for v in values}) < len(values):
            problems.append(f"{key}: {values!r} holds a value twice; repeats are asked for with repeats=N")
        axis = [(f" {key}={value}", {key: value}) for value in values]
        variants = {
            (name + suffix).strip(): {**difference, **own}
            for name, difference in variants.items()
            for suffix, own in ([("", {})] if key in difference else axis)  # a variant that says the value itself is no axis
        }
    return {name or "base": difference for name, difference in variants.items()}


def _is_axis(name: str, workload: ModuleType) -> bool:
    spec = INPUTS.get(name) or workload.OPTIONS.get(name) or {}
    return bool(spec.get("axis")) or (name in workload.OPTIONS and spec.get("type") not in ("list", "dict", "raw"))


def wanted(variants: dict[str, dict[str, Any]], wanted: list[str] | None, problems: list[str]) -> dict[str, dict[str, Any]]:
    if not wanted:
        return variants
    for name in wanted:
        if name not in variants:
            problems.append(f"only_variants: no variant {name!r}; there are {', '.join(variants)}")
    return {name: difference for name, difference in variants.items() if name in wanted}


def variant(
    name: str,
    difference: Mapping[str, Any],
    inputs: Mapping[str, Any],
    parameters: Mapping[str, Any],
    published: Mapping[str, Any],
    size: Mapping[str, Any],
    workload: ModuleType,
    site: Site,
    listed: set[str],
    problems: list[str],
    findings: list[dict[str, Any]],
    scaling: list[dict[str, Any]],
) -> dict[str, Any] | None:
    label = f"variant {name}: " if inputs.get("variants") else ""
    options = workload.OPTIONS
    own = {k: v for k, v in difference.items() if k in options}
    values = {k: s.get("default") for k, s in options.items()}
    values |= exclusive(published, {**parameters, **own}, workload) | exclusive(parameters, own, workload) | own
    cores = None if site.machine.get("remote") else site.machine.get("driver_cores") or site.machine["cores"]
    values = workload.complete(values, cores=cores)
    values = _scaled_parameters(values, inputs, workload, site.machine, scaling)
    unfit = [f"{label}{p}" for p in workload.validate(values)]

    major = _major(difference.get("postgres_version") or inputs.get("postgres_version"), inputs["engine"], site, label, problems)
    initdb, wrong = coerce_all({**inputs.get("initdb", {}), **difference.get("initdb", {})}, INITDB_KEYS, where=f"{label}initdb: ")
    problems += [*unfit, *wrong]
    locales = site.machine.get("locales")
    if inputs["target"] == "managed" and initdb.get("locale") and locales is not None and not guc.has_locale(initdb["locale"], locales):
        problems.append(f"{label}initdb: locale: the host has no locale {initdb['locale']!r}; it has {', '.join(locales) or 'C only'}")
    if unfit or major is None:
        return None
    settings: list[dict[str, Any]] = []
    if inputs["target"] == "managed":
        settings = _settings(label, difference, inputs, size, major, initdb, site, problems, findings)
        settings = _scaled_settings(
            settings, inputs, site.catalogue("postgres", major), listed, initdb.get("wal_segsize", 16) * MIB, scaling
        )
    else:
        problems += changes_server(difference, label)
    pgbench = site.machine.get("pgbench", {}).get(major)
    if pgbench and hasattr(workload, "unsupported"):
        problems += [f"{label}{p}" for p in workload.unsupported(values, pgbench)]
    sampling = workload.sampling_for(values, workload.guess_tps(values, site.machine["cores"]), LOG_BYTES)
    if sampling < 1 and not values.get("sampling_rate"):
        values["sampling_rate"] = sampling
        text = f"{label}the per-transaction log would be larger than {human_size(LOG_BYTES)}: a share of {sampling} of it is written"
        note = finding("sampled_log", text, sampling_rate=sampling)
        findings += [note] if note not in findings else []
    data = _dataset(values, workload, site, label, problems)
    return {
        "name": name,
        "base": False,
        "size": size["name"],
        "differs": dict(difference),
        "parameters": values,
        "cache": difference.get("cache", inputs["cache"]),
        "postgres": {"version": major, "initdb": initdb},
        "settings": settings,
        "dataset": data,
    }


def exclusive(recipe: Mapping[str, Any], asked: Mapping[str, Any], workload: ModuleType) -> dict[str, Any]:
    """Drop what the recipe says of a choice that the user made otherwise: ``duration`` given, ``transactions`` not wanted."""
    dropped = {other for group in workload.EXCLUSIVE for name in group if name in asked for other in group if other != name}
    return {k: v for k, v in recipe.items() if k not in dropped}


def changes_server(asked: Mapping[str, Any], label: str) -> list[str]:
    """Return why an existing server cannot have what is asked: it is measured as it is (DESIGN 4.2)."""
    names = [name for name in MANAGED_ONLY if asked.get(name) and asked[name] != DEFAULTS.get(name)]
    return [f"{label}target=existing changes nothing on the server; leave out {', '.join(names)}"] if names else []


def _dataset(values: Mapping[str, Any], workload: ModuleType, site: Site, label: str, problems: list[str]) -> dict[str, Any]:
    """Return the data set of a variant, ``{fingerprint, parameters, bytes, dump}``: the workload's own, or the user's dump."""
    if site.dump is None:
        data = workload.dataset(values)
        return {"fingerprint": data["fingerprint"], "parameters": data["parameters"], "bytes": workload.dataset_bytes(values), "dump": None}
    if workload.WORKLOAD != "pgbench" or workload.needs_dataset(values):
        problems.append(
            f"{label}dataset: a dump of your own is measured by scripts of your own: "
            """-e '{"workload": "pgbench", "scripts": [{"file": "checkout.sql", "weight": 7}]}'"""
        )
    dump = dict(site.dump)
    return {
        "fingerprint": dump["sha256"][:12],
        "parameters": {"dump_sha256": dump["sha256"]},
        "bytes": EMPTY_DATABASE_BYTES + DUMP_GROWS[dump["format"]] * dump["bytes"],
        "dump": dump,
    }


def _major(asked: Any, engine: str, site: Site, label: str, problems: list[str]) -> str | None:
    majors = tuple(m for m in site.majors if engine != "epas" or m in EPAS_MAJORS)
    if not asked:
        return site.machine["postgres_major"] if site.machine["postgres_major"] in majors else majors[-1]
    major = str(asked).split(".")[0]
    if major not in majors:
        problems.append(f"{label}postgres_version: {asked!r} is not one of {', '.join(majors)}")
        return None
    if str(asked) != major:
        problems.append(
            f"{label}postgres_version: {asked!r}: give the major version, {major}; the packages decide which minor release it is"
        )
    return major


def _profile(
    name: str, size: Mapping[str, Any], major: str, site: Site, label: str, problems: list[str], findings: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows ``{name, value, reason}`` of a profile that are to be set."""
    if name == "local":
        machine = site.machine
        if not machine["memory_bytes"]:
            host = f"instance type {size['instance_type']}" if size["instance_type"] else "the hosts of the inventory"
            problems.append(f"{label}profile local is computed from cores and memory, and nothing is known of {host}; choose profile=none")
            return []
        return local_profile(machine["cores"], machine["memory_bytes"], machine["disk_free_bytes"], int(major))
    if name in site.profiles:
        rows, wrong = profiles.rows(site.profiles, name, size["name"])
        problems += [f"{label}{p}" for p in wrong]
        findings += [f for f in profiles.findings_of(site.profiles, name, size["name"], rows) if f not in findings]
        return [row for row in rows if not row["left_out"]]
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
    # EPAS is the community server of the same major with settings of its own, which resolve() lets pass.
    catalogue = site.catalogue("postgres", major)
    profile = difference.get("profile") or inputs.get("profile") or size["profile"]
    rows = _profile(profile, size, major, site, label, problems, findings)
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
        seconds = workload.run_seconds({**values, "ramp_up": 0}, machine["cores"])
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
    catalogue: Mapping[str, Any],
    listed: set[str],
    wal_segment_size: int,
    scaling: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Scale the memory and WAL settings that the recipe lists with the data, and ``checkpoint_timeout`` with the time.

    What the user says of memory stays: ``listed`` holds the inputs that still have the recipe's value.
    """
    result = []
    for setting in settings:
        name, text = setting["name"], setting["text"]
        of_recipe = ORIGINS.get(setting["origin"].partition(" ")[0]) in listed
        if name in SCALED_GUCS and of_recipe and inputs["data_scale"] != 1 and setting["bytes"]:
            floor = max(SCALED_GUCS[name], 2 * wal_segment_size if name.endswith("_wal_size") else 0)
            most = int(catalogue["settings"][name]["max_val"]) * (units.unit_size(catalogue["settings"][name]["unit"]) or 1)
            size = min(max(floor, int(setting["bytes"] * inputs["data_scale"])), most)
            text = format_size(size // 8192 * 8192 if size < MIB else size // MIB * MIB)
        elif name == "checkpoint_timeout" and inputs["time_scale"] != 1:
            entry = catalogue["settings"][name]
            seconds = round(setting["value"] * inputs["time_scale"])
            text = f"{min(max(int(entry['min_val']), seconds), int(entry['max_val']))}s"
        parsed = guc.parse_value(catalogue["settings"][name], text) if text != setting["text"] else setting
        if parsed["text"] != setting["text"]:
            row = {"name": name, "from": setting["text"], "to": parsed["text"]}
            scaling += [row] if row not in scaling else []
            setting = {**setting, **parsed, "reason": f"{setting['text']} scaled"}
        result.append(setting)
    return result
