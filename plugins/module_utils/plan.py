# GNU General Public License v3.0 or later (see LICENSE)
"""PLAN: validated inputs to one experiment, with every reason why it cannot be done.

Pure: what is known of machines, catalogues and recipes comes in as data; nothing is read, nothing is changed.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import (
    hardware,
    host_inputs,
    plan_estimate,
    plan_place,
    plan_variants,
    stats,
    verdict,
)
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import INPUTS, coerce_all, connection_strings, nearest
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_place import DEFAULTS, Site
from ansible_collections.pgsizing.bench.plugins.module_utils.units import human_size

#: Inputs that this version does not act upon yet, with the value (``None``: any). Each later part shortens the list.
NOT_YET = (
    ("pgio_conf", None, "PGIO is"),
    ("postgres_source", "source", "building from source is"),
)

ALPHA = 0.05
DEFAULT_REPEATS = {False: 3, True: 5}  # without and with a comparison (DESIGN 4.7)

#: What a plan keeps of the published run that it reproduces.
PUBLISHED_KEYS = ("id", "title", "source", "conditions", "figures", "contradictions")

#: Inputs that do not change what is measured.
NO_DEVIATION = {
    *("reproduce", "results_dir", "keep", "resume", "require", "time_scale", "data_scale", "allow_vars", "share_host", "postgres_port"),
    *("only_variants", "provider", "server_group", "driver_group", "budget_usd", "accept_unknown_cost"),
    *("login_host", "login_port", "login_user", "login_password", "login_passfile", "login_db", "login_unix_socket"),
}
#: Inputs that a condition of the published run already tells of.
SAID_BY = {"repeats": "repeats", "cache": "start", "reset": "start", "postgres_version": "server_version"}


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
    parameters = {**plan_variants.exclusive(recipe_parameters, asked, workload), **asked}
    if recipe.get("workload", workload_name) != workload_name:
        wrong = [f"workload: {published['id']} is a run of {recipe['workload']}, not of {workload_name}: leave workload out"]
    problems += wrong

    if not sizes:
        return {}, problems
    where = plan_place.where(inputs, explicit, sizes, site, problems)
    if site.spec and where["provider"] != "aws":
        text = f"spec {site.spec['name']}: not used, since no machine is bought: {where['reason']}"
        findings.append(finding("spec_ignored", text, provider=where["provider"]))
    where["driver_on_server"] = plan_place.driver_on_server(where, inputs)
    here = host_inputs.with_volumes(plan_place.machine_of(where, site), storage)
    findings += plan_place.not_reached(where, site)
    machines = {name: hardware.stand_in(size, site.instances) if where["provider"] == "aws" else here for name, size in sizes.items()}
    listed = {name for name in recipe if name not in explicit}  # what the recipe still says

    scaling: list[dict[str, Any]] = []
    variants = []
    only = next(iter(sizes))
    for name, difference in plan_variants.wanted(
        plan_variants.variants(inputs, parameters, workload, problems), inputs.get("only_variants"), problems
    ).items():
        size = sizes[difference.get("size", only)]
        own, wrong = _parameters_of(size, workload_name, workload)
        problems += wrong
        place = site._replace(machine=machines[size["name"]])
        variant = plan_variants.variant(
            name, difference, inputs, parameters, own, size, workload, place, listed, problems, findings, scaling
        )
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
    short = [verdict.ramp_up_short({"parameters": variant["parameters"]}) for variant in variants]
    findings += [note for i, note in enumerate(short) if note and note not in short[:i]]
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
        "login": {k: inputs.get(f"login_{k}") for k in ("host", "port", "user", "db", "unix_socket", "passfile")},
        "variants": variants,
        "connections": plan_estimate.own_connections(workload) + max(v["parameters"].get("clients") or 0 for v in variants),
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
    plan["estimate"] = plan_estimate.estimate(plan, workload, machines)
    at_hand = where["provider"] in ("local", "inventory") and not here.get("remote")
    if not inputs.get("reset") and at_hand and plan_estimate.too_full(plan, here):
        plan["reset"] = "rebuild"
        plan["estimate"] = plan_estimate.estimate(plan, workload, machines)
        text = "the disk does not hold the data set and a copy to put it back from: it is built anew before each trial"
        findings.append(finding("reset_rebuild", text, disk_free_bytes=here["volumes"].get("data", here["disk_free_bytes"])))
    plan["deadline_s"] = 900 + 3 * plan["estimate"]["seconds"]
    plan["deviations"] = _deviations(plan, published, machines[variants[0]["size"]])
    problems += [*plan_estimate.refusals(plan, workload, here), *host_inputs.refusals(plan, here)]
    plan["findings"] += plan_estimate.in_memory(plan, machines)
    plan_estimate.lint(plan, here)
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
            hammerdb=site.hammerdb,
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
    if explicit.get("login_password") and explicit.get("login_passfile"):
        problems.append("login_password and login_passfile exclude each other: give one of them")
    problems += connection_strings(inputs)
    if inputs["target"] == "existing":
        return problems + plan_variants.changes_server(explicit, "")
    server = [name for name in ("login_host", "login_unix_socket") if explicit.get(name)]
    if server and "target" not in explicit:
        problems.append(f"{server[0]} is given, but not target: a server of your own is measured with -e target=existing")
    return problems


def _unique(items: list[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _published_run(given: Mapping[str, Any], site: Site, problems: list[str]) -> dict[str, Any]:
    name = given.get("reproduce")
    if not name:
        return {}
    runs = [run for run, document in site.recipes.items() if document.get("recipe")]
    if isinstance(name, str) and name in site.recipes and name not in runs:
        parts = [part for part, of in (site.recipes[name].get("parts") or {}).items() if of.get("recipe")]
        hint = f"; give the inputs of one of its parts ({', '.join(parts)}) as published/{name}.yml lists them" if parts else ""
        problems.append(f"reproduce: {name} has no recipe of its own{hint}")
        return {}
    if not isinstance(name, str) or name not in runs:
        near = nearest(str(name), runs)
        problems.append(
            f"reproduce: no published run {name!r}; there are {', '.join(runs) or 'none'}" + (f"; did you mean {near!r}?" if near else "")
        )
        return {}
    return {**site.recipes[name], "id": name}


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
    conditions = {k: _said_of(base["size"], v) for k, v in (published.get("conditions") or {}).items()}
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


def _said_of(size: str, condition: Any) -> Any:
    """Return what a condition of a published run says of a size; of all where it says something of each and nothing of this one."""
    if not isinstance(condition, Mapping):
        return condition
    return condition.get(size) or ", ".join(f"{said} ({name})" for name, said in condition.items())


def _machine_text(machine: Mapping[str, Any]) -> str:
    size = f"{machine['cores']} cores, {human_size(machine['memory_bytes'])} memory"
    return f"{machine['what']}, {size}" if machine.get("what") else f"{size}, {machine.get('virtualization') or 'no virtualization seen'}"
