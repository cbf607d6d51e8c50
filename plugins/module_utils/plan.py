# GNU General Public License v3.0 or later (see LICENSE)
"""PLAN: validated inputs to one experiment, with every reason why it cannot be done.

Pure: what is known of machines, catalogues and recipes comes in as data; nothing is read, nothing is changed.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from ansible_collections.pgsizing.bench.plugins.module_utils import guc, hardware, host_inputs, profiles, stats
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import INPUTS, coerce_all, nearest
from ansible_collections.pgsizing.bench.plugins.module_utils.local_profile import local_profile
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import canonical_json
from ansible_collections.pgsizing.bench.plugins.module_utils.units import format_size, human_size

MIB = 2**20

#: What holds when neither the user nor a recipe says anything.
DEFAULTS: dict[str, Any] = {
    "size": "local",
    "workload": "tprocc",
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
    "budget_usd": hardware.DEFAULT_BUDGET_USD,
    "server_group": "pgsizing_server",
    "driver_group": "pgsizing_driver",
}
#: What an existing server cannot have: it is measured as it is.
MANAGED_ONLY = ("gucs", "profile", "initdb", "postgres_version", "cache")

#: Inputs that this version does not act upon yet, with the value (``None``: any). Each later part shortens the list.
NOT_YET = (
    ("pgio_conf", None, "PGIO is"),
    ("postgres_source", "source", "building from source is"),
)

ALPHA = 0.05
EPAS_MAJORS = ("13", "14", "15", "16", "17")
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
#: Which input a setting comes from, by the first word of its origin.
ORIGINS = {"profile": "profile", "gucs": "gucs", "variant": "variants"}
SCALED_WINDOW_LEAST_S = 10.0

#: How much larger a database is than its dump: a guess for the estimate; most formats are compressed, and indexes are not in them.
EMPTY_DATABASE_BYTES = 8 * MIB
DUMP_GROWS = {"custom": 8, "directory": 8, "tar": 2, "plain": 2}
#: Bytes of a dump that are restored in a second: a guess for the estimate.
RESTORE_BYTES_PER_S = 10 * MIB

#: What a plan keeps of the published run that it reproduces.
PUBLISHED_KEYS = ("id", "title", "source", "conditions", "figures", "contradictions")

#: Inputs that do not change what is measured.
NO_DEVIATION = {
    *("reproduce", "results_dir", "keep", "resume", "require", "time_scale", "data_scale", "allow_vars", "share_host", "postgres_port"),
    *("only_variants", "provider", "server_group", "driver_group", "budget_usd", "accept_unknown_cost"),
    *("login_host", "login_port", "login_user", "login_password", "login_db", "login_unix_socket"),
}
#: Inputs that a condition of the published run already tells of.
SAID_BY = {"repeats": "repeats", "cache": "start", "reset": "start", "postgres_version": "server_version"}

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
    workloads: Mapping[str, ModuleType]  # by name: the module that runs a workload when no load generator is named
    catalogue: Callable[[str, str], Mapping[str, Any]]  # (engine, major); KeyError when there is none
    majors: tuple[str, ...]  # majors with a catalogue
    machine: Mapping[str, Any]  # of the controller: see modules/machine.py
    inventory: Mapping[str, Any]  # {given, groups: {name: [hosts]}, local_only}
    now: float
    instances: Mapping[str, Any] = {}  # facts by instance type
    prices: Callable[[str], Mapping[str, Any] | None] = lambda _region: None  # by region
    regions: tuple[str, ...] = ()  # with a price file
    spec: Mapping[str, Any] | None = None  # {name, document} of the input "spec"
    generators: Mapping[tuple[str, str], ModuleType] = {}  # other modules, by workload and load generator
    dump: Mapping[str, Any] | None = None  # {path, format, bytes, sha256, jobs} of the input "dataset"
    seen: Mapping[str, Mapping[str, Any]] = {}  # hosts of the inventory that were looked at: facts as of the controller, or {unseen: why}


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
    explicit, wrong = coerce_all({k: v for k, v in given.items() if k in INPUTS}, INPUTS)
    problems += wrong
    inputs = {**DEFAULTS, **{k: v for k, v in recipe.items() if k in INPUTS}, **explicit}
    findings: list[dict[str, Any]] = []
    named = bool(explicit.get("size") or recipe.get("size"))
    sizes = hardware.sizes(
        inputs["size"],
        site.sizes,
        profile=inputs.get("profile"),
        spec_file=site.spec,
        named=named,
        problems=problems,
        findings=findings,
    )
    workload_name = str(given.get("workload") or recipe.get("workload") or _workload_of(sizes, site, findings) or DEFAULTS["workload"])
    if workload_name not in site.workloads:
        near = nearest(workload_name, site.workloads)
        problems.append(
            f"workload: {workload_name!r} is not one of {', '.join(site.workloads)}" + (f"; did you mean {near!r}?" if near else "")
        )
        return {}, problems
    workload = site.generators.get((workload_name, str(inputs.get("load_generator")))) or site.workloads[workload_name]
    problems += _refused_inputs(inputs, explicit, workload, site)
    storage, wrong = host_inputs.storage(inputs.get("storage") or {})
    kernel, wrong_kernel = host_inputs.kernel(inputs.get("kernel") or {})
    problems += [*wrong, *wrong_kernel]

    parameters_given = {k: v for k, v in given.items() if k not in INPUTS}
    problems += _of_another_workload(parameters_given, workload_name, workload, site)
    asked, wrong = _parameters({k: v for k, v in parameters_given.items() if k in workload.OPTIONS or not _knowing(k, site)}, workload)
    problems += wrong
    recipe_parameters, wrong = _parameters({k: v for k, v in recipe.items() if k not in INPUTS}, workload)
    parameters = {**_exclusive(recipe_parameters, asked, workload), **asked}
    problems += wrong

    if not sizes:
        return {}, problems
    where = _where(inputs, explicit, sizes, site, problems)
    if site.spec and where["provider"] != "aws":
        text = f"spec {site.spec['name']}: not used, since no machine is bought: {where['reason']}"
        findings.append(finding("spec_ignored", text, provider=where["provider"]))
    where["driver_on_server"] = _driver_on_server(where, inputs)
    here = machine_of(where, site)
    findings += _not_reached(where, site)
    machines = {name: hardware.stand_in(size, site.instances) if where["provider"] == "aws" else here for name, size in sizes.items()}
    listed = {name for name in recipe if name not in explicit}  # what the recipe still says

    scaling: list[dict[str, Any]] = []
    variants = []
    only = next(iter(sizes))
    for name, difference in _wanted(_variants(inputs, parameters, workload, problems), inputs.get("only_variants"), problems).items():
        size = sizes[difference.get("size", only)]
        own, wrong = _parameters_of(size, workload_name, workload)
        problems += wrong
        place = site._replace(machine=machines[size["name"]])
        variant = _variant(name, difference, inputs, parameters, own, size, workload, place, listed, problems, findings, scaling)
        variants += [variant] if variant else []
    if not variants:
        return {}, _unique(problems)
    variants[0]["base"] = True
    repeats = inputs.get("repeats") or DEFAULT_REPEATS[len(variants) > 1]
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
        "size": "+".join(sizes),
        "workload": workload_name,
        "load_generator": workload.LOAD_GENERATOR,
        "role": workload.ROLE,
        "load_continues": workload.LOAD_CONTINUES,
        "headline": workload.HEADLINE,
        "target": inputs["target"],
        "engine": inputs["engine"],
        "postgres_source": inputs["postgres_source"],
        "port": inputs["postgres_port"],
        "login": {k: inputs.get(f"login_{k}") for k in ("host", "port", "user", "db", "unix_socket")},
        "variants": variants,
        "repeats": repeats,
        "cache": inputs["cache"],
        "reset": inputs.get("reset") or "template",
        "keep": inputs["keep"],
        "require": inputs["require"],
        "share_host": inputs.get("share_host", False),
        "storage": storage,
        "storage_wipe": inputs.get("storage_wipe", []),
        "kernel": kernel,
        "trials": trials,
        "scaling": scaling,
        "comparisons": {"count": comparisons, "alpha": ALPHA, "repeats_needed": needed},
        "published": {k: published.get(k) for k in PUBLISHED_KEYS} if published else None,
        "deviations": [],
        "findings": findings,
        "hardware": [],
        "cost": None,
        "refused": [],
        "cannot_run": _cannot_run(where, inputs),
    }
    plan["estimate"] = _estimate(plan, workload, machines)
    if not inputs.get("reset") and where["provider"] == "local" and plan["estimate"]["disk_bytes"] > here["disk_free_bytes"]:
        plan["reset"] = "rebuild"
        plan["estimate"] = _estimate(plan, workload, machines)
        text = "the disk does not hold the data set and a copy to put it back from: it is built anew before each trial"
        findings.append(finding("reset_rebuild", text, disk_free_bytes=here["disk_free_bytes"]))
    plan["deadline_s"] = 900 + 3 * plan["estimate"]["seconds"]
    plan["deviations"] = _deviations(plan, published, machines[variants[0]["size"]])
    problems += [*_refusals(plan, here), *host_inputs.refusals(plan, here)]
    _lint(plan, here)
    if where["provider"] == "aws":
        problems += hardware.check(
            plan,
            sizes,
            site.instances,
            prices=site.prices,
            regions=site.regions,
            region=where["region"],
            budget_usd=inputs["budget_usd"],
            accept_unknown_cost=inputs.get("accept_unknown_cost", False),
            today=datetime.date(*time.gmtime(site.now)[:3]),
        )
    return plan, _unique(problems)


def _cannot_run(where: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[str]:
    """Return what this version plans but cannot do yet."""
    reasons = []
    if where["provider"] == "aws":
        reasons.append(
            "provisioning on AWS is not part of this version: such a size can be planned with --check; size=local measures this machine"
        )
    if inputs["engine"] == "epas" and inputs["target"] == "managed":
        reasons.append(
            "installing EPAS is not part of this version: engine=epas can be planned with --check, or measured with target=existing"
        )
    return reasons


def _workload_of(sizes: Mapping[str, Mapping[str, Any]], site: Site, findings: list[dict[str, Any]]) -> str | None:
    """Return the workload that the sizes were published for, when all say the same one and it can be run."""
    names = {(size.get("workload") or {}).get("workload") for size in sizes.values()}
    name = names.pop() if len(names) == 1 else None
    if name and name not in site.workloads:
        text = f"size {', '.join(sizes)} was published for {name}, which this version cannot run: {DEFAULTS['workload']} is planned instead"
        findings.append(finding("other_workload", text, published=name))
        return None
    return name


def _parameters_of(size: Mapping[str, Any], workload_name: str, workload: ModuleType) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters that a size was published with, for the workload it was published for."""
    given = dict(size["workload"] or {})
    if given.pop("workload", None) != workload_name:
        return {}, []
    return coerce_all(given, workload.OPTIONS, where=f"size {size['name']}: workload: ")


def _refused_inputs(inputs: Mapping[str, Any], explicit: Mapping[str, Any], workload: ModuleType, site: Site) -> list[str]:
    """Return which inputs cannot be acted upon: none that was given is ever ignored."""
    problems = [
        f"{name}={inputs[name]}: {what} not part of this version"
        for name, value, what in NOT_YET
        if inputs.get(name) and value in (None, inputs[name])
    ]
    generator = inputs.get("load_generator")
    if generator and generator != workload.LOAD_GENERATOR:
        others = [name for runs, name in site.generators if runs == workload.WORKLOAD]
        there = " and ".join([workload.LOAD_GENERATOR, *others])
        problems.append(f"load_generator: {generator!r} does not run {workload.WORKLOAD}; there is {there}")
    if inputs["target"] == "existing":
        return problems + _changes_server(explicit, "")
    server = [name for name in ("login_host", "login_unix_socket") if explicit.get(name)]
    if server and "target" not in explicit:
        problems.append(f"{server[0]} is given, but not target: a server of your own is measured with -e target=existing")
    return problems


def _changes_server(asked: Mapping[str, Any], label: str) -> list[str]:
    """Return why an existing server cannot have what is asked: it is measured as it is (DESIGN 4.2)."""
    names = [name for name in MANAGED_ONLY if asked.get(name) and asked[name] != DEFAULTS.get(name)]
    return [f"{label}target=existing changes nothing on the server; leave out {', '.join(names)}"] if names else []


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


def _knowing(name: str, site: Site) -> list[str]:
    return [workload for workload, module in site.workloads.items() if name in module.OPTIONS]


def _of_another_workload(given: Mapping[str, Any], name: str, workload: ModuleType, site: Site) -> list[str]:
    """Return which parameters belong to other workloads than the one that is planned, with how to have that one."""
    given = {k: v for k, v in given.items() if v is not None and v != ""}
    wrong = {parameter: _knowing(parameter, site) for parameter in given if parameter not in workload.OPTIONS}
    return [
        f"{parameter}: {name} has no such parameter; {knows[0]} has: -e workload={knows[0]}" for parameter, knows in wrong.items() if knows
    ]


def _parameters(given: Mapping[str, Any], workload: ModuleType) -> tuple[dict[str, Any], list[str]]:
    axes = {k: {**s, "axis": s.get("type") not in ("list", "dict", "raw")} for k, s in workload.OPTIONS.items()}
    return coerce_all(given, axes)


def _exclusive(recipe: Mapping[str, Any], asked: Mapping[str, Any], workload: ModuleType) -> dict[str, Any]:
    """Drop what the recipe says of a choice that the user made otherwise: ``duration`` given, ``transactions`` not wanted."""
    dropped = {other for group in workload.EXCLUSIVE for name in group if name in asked for other in group if other != name}
    return {k: v for k, v in recipe.items() if k not in dropped}


# where it runs ---------------------------------------------------------------------------------------------------------


def _where(
    inputs: Mapping[str, Any], explicit: Mapping[str, Any], sizes: Mapping[str, Mapping[str, Any]], site: Site, problems: list[str]
) -> dict[str, Any]:
    """Decide once where the experiment runs (DESIGN 4.1). A user's inventory without the group never buys machines."""
    inventory, group, provider = site.inventory, inputs["server_group"], inputs.get("provider")
    groups = ", ".join(sorted(inventory["groups"])) or "none"
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
    hosts = inventory_hosts(inputs, inventory)
    if hosts:
        servers, drivers = (inventory["groups"].get(inputs[key], []) for key in ("server_group", "driver_group"))
        both = sorted(set(servers) & set(drivers))
        if explicit.get("driver_group") and not drivers:
            problems.append(f"driver_group: the inventory has no host in group {inputs['driver_group']}; its groups are: {groups}")
        elif both and drivers != servers:
            problems.append(
                f"{', '.join(both)}: in both {group} and {inputs['driver_group']}; a host is one of the two, or leave the driver group out"
            )
        server, driver = (
            f"{name}, the first of {len(found)} hosts in group {key}" if len(found) > 1 else f"{name} in group {key}"
            for name, found, key in ((hosts[0], servers, group), (hosts[1], drivers, inputs["driver_group"]))
        )
        reason = f"{server} of the inventory, " + (f"driven from {driver}" if hosts[1] != hosts[0] else "driven from there too")
        return {"provider": "inventory", "server": hosts[:1], "driver": hosts[1:], "reason": reason}
    if provider == "inventory":
        problems.append(f"provider=inventory: the inventory has no host in group {group}; its groups are: {groups}")
    elif provider != "local" and explicit.get("size") != "local" and inventory["given"] and not inventory["local_only"]:
        problems.append(
            f"the inventory has no host in group {group}; its groups are: {groups}. "
            "Name one with -e server_group=GROUP, or measure this machine with -e provider=local"
        )
    elif provider == "aws" and not all(size["instance_type"] for size in sizes.values()):
        problems.append(f"provider=aws: size {', '.join(sizes)} names no instance_type; choose one that does, such as size=small")
    elif provider != "local" and all(size["instance_type"] for size in sizes.values()):
        region = inputs.get("region") or hardware.DEFAULT_REGION
        bought = ", ".join(f"size {name}: {size['instance_type']}" for name, size in sizes.items())
        return {
            "provider": "aws",
            "region": region,
            "server": [f"pgsizing-{name}-server" for name in sizes],
            "driver": [f"pgsizing-{name}-{'driver' if size['driver'] else 'server'}" for name, size in sizes.items()],
            "reason": f"{bought} in {region}, to be bought from AWS",
        }
    elif len(sizes) > 1:
        problems.append(f"size: {', '.join(sizes)} need machines of their own; this machine can be one size")
    return {
        "provider": "local",
        "server": ["localhost"],
        "driver": ["localhost"],
        "reason": f"size {', '.join(sizes)}: this machine",
    }


def inventory_hosts(inputs: Mapping[str, Any], inventory: Mapping[str, Any]) -> list[str]:
    """Return the server and the driver of the inventory, the same one twice without a driver group; empty when it runs elsewhere."""
    inputs = {**DEFAULTS, **inputs}
    servers, drivers = (inventory["groups"].get(str(inputs[key])) for key in ("server_group", "driver_group"))
    if not servers or inputs["target"] == "existing" or inputs.get("provider") not in (None, "inventory"):
        return []
    return [servers[0], (drivers or servers)[0]]


def machine_of(where: Mapping[str, Any], site: Site) -> Mapping[str, Any]:
    """Return the facts of the server, with those of the driver where they matter for the load generator."""
    if where["provider"] != "inventory":
        return site.machine
    server, driver = (site.seen.get(where[role][0]) or {"unseen": ""} for role in ("server", "driver"))
    if "unseen" in server or "unseen" in driver:
        return _unseen(site.machine)
    return {**server, "driver_cores": driver["cores"], "pgbench": driver["pgbench"]}


def _not_reached(where: Mapping[str, Any], site: Site) -> list[dict[str, Any]]:
    """Return findings on hosts of the inventory that did not answer: they are planned for with guesses."""
    if where["provider"] != "inventory":
        return []
    hosts = dict.fromkeys([*where["server"], *where["driver"]])
    why = {host: site.seen[host]["unseen"] for host in hosts if site.seen.get(host, {}).get("unseen")}
    return [finding("not_checked", f"host {host} could not be looked at: {text}", host=host) for host, text in why.items()]


def _driver_on_server(where: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    """Return whether load generator and server share a machine; of an existing server only its address tells."""
    if where["provider"] == "existing":
        return bool(inputs.get("login_unix_socket")) or inputs.get("login_host") in (None, "localhost", "127.0.0.1", "::1")
    return bool(where["driver"] == where["server"])


def _unseen(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be said of a host of the inventory before it is asked: nothing but guesses, for the estimate."""
    return {**machine, "remote": True, "memory_bytes": 0, "pgbench": {}, "server_versions": {}, "os": None}


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


def _wanted(variants: dict[str, dict[str, Any]], wanted: list[str] | None, problems: list[str]) -> dict[str, dict[str, Any]]:
    if not wanted:
        return variants
    for name in wanted:
        if name not in variants:
            problems.append(f"only_variants: no variant {name!r}; there are {', '.join(variants)}")
    return {name: difference for name, difference in variants.items() if name in wanted}


def _variant(
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
    values |= _exclusive(published, {**parameters, **own}, workload) | _exclusive(parameters, own, workload) | own
    cores = None if site.machine.get("remote") else site.machine.get("driver_cores") or site.machine["cores"]
    values = workload.complete(values, cores=cores)
    values = _scaled_parameters(values, inputs, workload, site.machine, scaling)
    unfit = [f"{label}{p}" for p in workload.validate(values)]

    major = _major(difference.get("postgres_version") or inputs.get("postgres_version"), inputs["engine"], site, label, problems)
    initdb, wrong = coerce_all({**inputs.get("initdb", {}), **difference.get("initdb", {})}, INITDB_KEYS, where=f"{label}initdb: ")
    problems += [*unfit, *wrong]
    if unfit or major is None:
        return None
    settings: list[dict[str, Any]] = []
    if inputs["target"] == "managed":
        settings = _settings(label, difference, inputs, size, major, initdb, site, problems, findings)
        settings = _scaled_settings(
            settings, inputs, site.catalogue("postgres", major), listed, initdb.get("wal_segsize", 16) * MIB, scaling
        )
    else:
        problems += _changes_server(difference, label)
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
    if str(asked) != major:
        problems.append(
            f"{label}postgres_version: {asked!r}: give the major version, {major}; the packages decide which minor release it is"
        )
    if major not in majors:
        problems.append(f"{label}postgres_version: {asked!r} is not one of {', '.join(majors)}")
        return None
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
            size = max(floor, int(setting["bytes"] * inputs["data_scale"]))
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


# estimate, refusals, remarks ---------------------------------------------------------------------------------------------


def cluster_name(variant: Mapping[str, Any]) -> str:
    """Return the name of the private cluster that a variant runs on: major version and initdb options."""
    initdb = variant["postgres"]["initdb"]
    return f"{variant['postgres']['version']}-{hashlib.sha256(canonical_json(initdb).encode()).hexdigest()[:8]}"


def _estimate(plan: Mapping[str, Any], workload: ModuleType, machines: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
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
    wal = max((_setting(v, "max_wal_size", "bytes") or 2**30 for v in plan["variants"]), default=0)
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


def _load_seconds(variant: Mapping[str, Any], workload: ModuleType) -> float:
    dump = variant["dataset"]["dump"]
    return dump["bytes"] / RESTORE_BYTES_PER_S if dump else workload.load_seconds(variant["parameters"])


def _setting(variant: Mapping[str, Any], name: str, key: str = "value", default: Any = None) -> Any:
    return next((s[key] for s in variant["settings"] if s["name"] == name), default)


def _refusals(plan: Mapping[str, Any], machine: Mapping[str, Any]) -> list[str]:
    """Return every reason why the machine cannot hold the plan. Only for this machine: others are asked in PREPARE."""
    problems: list[str] = []
    if plan["target"] == "existing":
        return problems
    for variant in plan["variants"]:
        clients = variant["parameters"].get("clients") or 0
        limit = _setting(variant, "max_connections", default=100)
        reserved = _setting(variant, "superuser_reserved_connections", default=3) + _setting(variant, "reserved_connections", default=0)
        if clients + reserved + OWN_CONNECTIONS > limit:
            problems.append(
                f"variant {variant['name']}: {clients} clients + {reserved} reserved + {OWN_CONNECTIONS} of our own connections are more "
                f"than max_connections = {limit}; set max_connections to {clients + reserved + OWN_CONNECTIONS} or more, or lower clients"
            )
    cold = any(variant["cache"] == "cold" for variant in plan["variants"])
    if cold and not plan["share_host"]:
        problems.append("cache=cold drops the page cache of the whole host; allow it with -e share_host=true")
    if plan["where"]["provider"] not in ("local", "inventory") or machine.get("remote"):
        return problems
    if cold and not machine.get("root"):
        problems.append("cache=cold drops the page cache, which needs root; run as root, or choose cache=warm or cache=as_is")
    need, free = plan["estimate"]["disk_bytes"], machine["disk_free_bytes"]
    if need > free:
        problems.append(
            f"disk: the plan needs {human_size(need)} in {machine['base_dir']}, {human_size(free)} are free; lower scale or data_scale"
        )
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
    return _unique(problems)


def _lint(plan: dict[str, Any], machine: Mapping[str, Any]) -> None:
    if plan["where"]["provider"] not in ("local", "inventory") or machine.get("remote"):
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
        "machine": None if machine.get("remote") else _machine_text(machine),
        "driver": "on the server" if plan["where"]["driver_on_server"] else "another host",
        "connection": "Unix socket, no TLS" if plan["where"]["driver_on_server"] else "TCP, no TLS",
        "repeats": f"{plan['repeats']} per variant, in A B B A order",
        "start": f"each trial from the same state: reset {plan['reset']}, restart, cache {plan['cache']}",
    }
    if plan["target"] == "existing":
        here |= dict.fromkeys(("server_version", "operating_system", "machine", "connection"), "as the existing server has it")
    conditions = {k: v.get(base["size"]) if isinstance(v, Mapping) else v for k, v in (published.get("conditions") or {}).items()}
    rows = [
        {"what": what.replace("_", " "), "published": said, "here": here[what]}
        for what, said in conditions.items()
        if what in here and here[what] is not None and str(said) != str(here[what])
    ]
    rows += [
        {"what": name, "published": recipe.get(name, "not stated"), "here": value}
        for name, value in plan["inputs"].items()
        if name not in NO_DEVIATION and SAID_BY.get(name) not in conditions and recipe.get(name) != value
    ]
    rows += [{"what": f"{row['name']} (scaled)", "published": row["from"], "here": row["to"]} for row in plan["scaling"]]
    rows += [{"what": c["what"], "published": c["says"], "here": c["taken"]} for c in published.get("contradictions") or []]
    return rows


def _machine_text(machine: Mapping[str, Any]) -> str:
    size = f"{machine['cores']} cores, {human_size(machine['memory_bytes'])} memory"
    return f"{machine['what']}, {size}" if machine.get("what") else f"{size}, {machine.get('virtualization') or 'no virtualization seen'}"


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
