# GNU General Public License v3.0 or later (see LICENSE)
"""What PLAN knows of machines that do not stand yet: the sizes that were asked for, what holds for them, what they cost."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import cost, preflight, spec
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import nearest
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import canonical_json

DEFAULT_REGION = "us-east-1"
DEFAULT_BUDGET_USD = 50.0
#: From the request to a server that can be connected to. A guess that plans and never judges.
PROVISION_S = 300.0


def sizes(
    asked: Any,
    known: Mapping[str, Any],
    *,
    profile: str | None,
    spec_file: Mapping[str, Any] | None,
    named: bool,
    problems: list[str],
    findings: list[dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Return the sizes asked for (a name or a list of names) as :func:`spec.read_size` reads them; none when one of them is wrong.

    ``profile`` is what the user asked for instead of the sizes' own; ``spec_file`` (``{name, document}``) replaces the hardware of
    the size, and stands for itself unless a size was ``named``: then with the settings that are computed for any machine.
    """
    before = len(problems)
    names = [str(name) for name in (asked if isinstance(asked, list) else [asked])]
    if not names:
        problems.append("size: an empty list")
    entries: dict[str, Any] = {}
    for name in names:
        if name in known or (spec_file and not named):
            entries[name] = known.get(name)
        else:
            near = nearest(name, known)
            hint = f"; did you mean {near!r}?" if near else ""
            if "," in name:
                hint = """; several are given as a list: -e '{"size": ["small", "medium"]}'"""
            problems.append(f"size: {name!r} is not one of {', '.join(known)}{hint}")
    if spec_file:
        entries = _of_spec(spec_file, entries, named, problems, findings)
    result = {}
    for name, entry in entries.items():
        own = {**entry, "profile": profile} if profile and isinstance(entry, Mapping) else entry
        result[name], wrong = spec.read_size(name, own)
        problems += wrong
    if len(names) > 1 and not all(size.get("instance_type") for size in result.values()):
        without = ", ".join(name for name, size in result.items() if not size.get("instance_type"))
        problems.append(f"size: a list is for sizes with machines of their own; {without} has no instance_type")
    return result if len(problems) == before else {}


def _of_spec(
    spec_file: Mapping[str, Any], entries: dict[str, Any], named: bool, problems: list[str], findings: list[dict[str, Any]]
) -> dict[str, Any]:
    entry, found, wrong = spec.parse(spec_file["document"], f"spec {spec_file['name']}")
    problems += wrong
    findings += found
    if wrong:
        return {}
    if not named:
        return {str(spec_file["name"]).rpartition("/")[2].removesuffix(".json"): {**entry, "profile": "local"}}
    if len(entries) != 1 or not all(isinstance(e, Mapping) and e.get("instance_type") for e in entries.values()):
        problems.append(
            f"spec: describes machines of one size on AWS; size {', '.join(entries)} does not: leave size out, or name such a size"
        )
        return {}
    return {name: {**base, **entry} for name, base in entries.items()}


def stand_in(size: Mapping[str, Any], instances: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands for the facts of a machine (``modules/machine.py``) until it exists."""
    facts = instances.get(size["instance_type"]) or {}
    driver = instances.get((size["driver"] or size)["instance_type"]) or {}
    volumes = size["volumes"]
    log = volumes.get("wal") or volumes.get("data") or volumes.get("root")
    return {
        "what": size["instance_type"],
        "cores": facts.get("vcpus") or 1,
        "driver_cores": driver.get("vcpus") or 1,
        "memory_bytes": facts.get("memory_bytes") or 0,
        # The volume of the WAL: the computed profile gives max_wal_size its share of this.
        "disk_free_bytes": (log or {}).get("bytes") or 0,
        "postgres_major": None,
        "installed_majors": [],
        "server_versions": {},
        "can_install": True,
        "locales": None,
    }


def check(
    plan: dict[str, Any],
    chosen: Mapping[str, Mapping[str, Any]],
    instances: Mapping[str, Any],
    *,
    prices: Callable[[str], Mapping[str, Any] | None],
    regions: Iterable[str],
    region: str,
    budget_usd: float,
    accept_unknown_cost: bool,
    today: datetime.date,
    hammerdb: Mapping[str, str],
) -> list[str]:
    """Add ``hardware``, ``cost`` and ``refused`` to a plan whose machines are to be bought, and the findings of the preflight.

    Returns what forbids the plan. ``refused`` are reasons not to start although the plan is sound: the money.
    """
    problems: list[str] = []
    found: list[dict[str, Any]] = []
    plan["hardware"] = []
    costs = []
    for name, size in chosen.items():
        variants = [v for v in plan["variants"] if v["size"] == name]
        if not variants:
            continue
        stored = {(canonical_json(v["postgres"]), v["dataset"]["fingerprint"]): v["dataset"]["bytes"] for v in variants}
        for variant in variants:
            remarks, wrong = preflight.check(
                size,
                instances,
                settings={s["name"]: s for s in variant["settings"]},
                clients=variant["parameters"].get("clients") or 1,
                dataset_bytes=sum(stored.values()),
                copy_bytes=max(stored.values()) if plan["reset"] == "template" else 0,
                seconds=plan["estimate"]["seconds"],
                load_generator=plan["load_generator"],
                hammerdb=hammerdb,
            )
            found += remarks
            problems += wrong
        costs.append(cost.hourly(size, prices(region), region))
        facts = instances.get(size["instance_type"])
        keys = ("name", "instance_type", "volumes", "driver", "source")
        plan["hardware"].append(
            {
                **{key: size[key] for key in keys},
                "facts": facts,
                "driver_facts": instances.get(size["driver"]["instance_type"]) if size["driver"] else None,
                "limits": preflight.limits(size, facts) if size["volumes"] and not problems else None,
                "cost": costs[-1],
            }
        )
        found += preflight.price_age(costs[-1], today)
    total = cost.experiment(costs, plan["estimate"]["seconds"])
    if total["unknown"]:
        hint = ""
        if prices(region) is None:
            near = nearest(region, regions)
            hint = f"; price files ship for {', '.join(regions)}" + (f"; did you mean {near}?" if near else "")
        text = f"no price is known for {', '.join(total['unknown'])}: the cost is at least {total['known_usd']:,.2f} USD{hint}"
        found.append(finding("price_unknown", text, unknown=total["unknown"]))
    plan["findings"] += [f for i, f in enumerate(found) if f not in plan["findings"] and f not in found[:i]]
    plan["cost"] = {**total, "region": region, "budget_usd": budget_usd}
    plan["refused"] = cost.over_budget(total, budget_usd, accept_unknown_cost)
    return list(dict.fromkeys(problems))
