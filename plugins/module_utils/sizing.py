# GNU General Public License v3.0 or later (see LICENSE)
"""Which size do I need? From measured points only: a size is promised what it, or a smaller one, was shown to do.

*Point*: one measured figure with what it holds for::

    {size, kind: "published"|"own", instance_type, vcpus, memory_bytes, nopm, n, cv, database_bytes, iops_used,
     iops_provisioned, source, doubts: [sentence]}

A point *covers* a machine and a working set when the machine is of the same family and no smaller (vCPU, memory) and keeps
no smaller share of the working set in memory than the point's machine kept of its database. ``docs/sizing.md`` explains.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import cost, preflight
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import Spec, coerce_all
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, UnitError, human_size, parse_size

INPUTS: Spec = {
    "need_nopm": {"type": "float", "above": 0},
    "database_size": {"type": "raw"},
    "working_set": {"type": "raw"},
    "region": {"type": "str"},
    "results_dir": {"type": "str"},
    "allow_vars": {"type": "list", "elements": "str"},
}
#: IOPS to provide for one that was used: the published figures do not say whether they are means or peaks, and checkpoints come in bursts.
IOPS_MARGIN = 2.0
IOPS_STEP = 500
#: The data volume is never planned fuller than this.
FULLEST = 0.8
#: Coefficient of variation of a public series of six identical runs of this load generator: a lead below it shows nothing.
USUAL_CV = 0.24


def read_need(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return ``{nopm, database_bytes, working_set_bytes, region, results_dir}`` and everything wrong with ``given``."""
    values, problems = coerce_all({k: v for k, v in given.items() if k in INPUTS}, INPUTS)
    failed = {problem.split(":")[0] for problem in problems}
    for name, example in (("need_nopm", "200000"), ("database_size", "300GB")):
        if name not in values and name not in failed:
            problems.append(f"{name}: not given, such as -e {name}={example}")
    need: dict[str, Any] = {"nopm": values.get("need_nopm"), "region": values.get("region"), "results_dir": values.get("results_dir")}
    for name, key in (("database_size", "database_bytes"), ("working_set", "working_set_bytes")):
        need[key] = None
        if name in values:
            try:
                need[key] = parse_size(str(values[name]))
                if not need[key]:
                    problems.append(f"{name}: {values[name]} is nothing")
            except UnitError as error:
                problems.append(f"{name}: {error}")
    if need["database_bytes"] and need["working_set_bytes"] and need["working_set_bytes"] > need["database_bytes"]:
        sizes = human_size(need["working_set_bytes"]), human_size(need["database_bytes"])
        problems.append(f"working_set: {sizes[0]} is more than the whole database, database_size = {sizes[1]}")
    return need, problems


# points --------------------------------------------------------------------------------------------------------------------


def published_points(published: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the points of published runs (``published/*.yml`` by id) whose figures name a size."""
    found = []
    for document in published.values():
        conditions, recipe = document.get("conditions") or {}, document.get("recipe") or {}
        figures = [f for f in document.get("figures") or () if f.get("size")]
        for figure in figures:
            if figure["metric"] != "nopm":
                continue
            size = figure["size"]
            used = next((f["value"] for f in figures if f["size"] == size and f["metric"] == "iops_used"), None)
            found.append(
                {
                    "size": size,
                    "kind": "published",
                    "instance_type": figure.get("instance_type"),
                    "vcpus": None,
                    "memory_bytes": None,
                    "nopm": figure["value"],
                    "n": 1,
                    "cv": None,
                    "database_bytes": _bytes(conditions.get("database_size") or recipe.get("database_size")),
                    "iops_used": used,
                    "iops_provisioned": (conditions.get("iops_provisioned") or {}).get(size),
                    "source": document["title"],
                    "doubts": [
                        f"{c['what']}: {c['says']}; taken: {c['taken']}"
                        for c in document.get("contradictions") or ()
                        if size in ([c["size"]] if isinstance(c.get("size"), str) else c.get("size") or ())
                    ],
                }
            )
    return found


def _bytes(text: Any) -> int | None:
    try:
        return parse_size(text)
    except UnitError:
        return None


def own_points(results: Iterable[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]]) -> list[dict[str, Any]]:
    """Return the points of the user's own experiments ``(experiment.json, [trial.json])``: the newest of each size.

    Only valid trials of the first variant of a size count, of unscaled runs whose headline is ``nopm``.
    """
    found: dict[str, dict[str, Any]] = {}
    for experiment, trials in sorted(results, key=lambda r: r[0]["created"]):
        plan = experiment["plan"]
        if plan["headline"] != "nopm" or plan["scaling"]:
            continue
        first: dict[str, Mapping[str, Any]] = {}
        for variant in plan["variants"]:
            first.setdefault(variant["size"], variant)
        for size, variant in first.items():
            valid = [t for t in trials if t["variant"] == variant["name"] and t["verdict"] == "valid" and t["headline"]["value"]]
            if valid:
                found[size] = _own_point(experiment["experiment_id"], size, variant, valid)
    return list(found.values())


def _own_point(experiment_id: str, size: str, variant: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = [t["headline"]["value"] for t in trials]
    server = trials[-1]["environment"]["server"] or {}
    used = [rate for t in trials if (rate := _observed_iops(t)) is not None]
    return {
        "size": size,
        "kind": "own",
        "instance_type": server.get("instance_type"),
        "vcpus": server.get("cores"),
        "memory_bytes": server.get("memory_bytes"),
        "nopm": statistics.median(values),
        "n": len(values),
        "cv": statistics.stdev(values) / statistics.mean(values) if len(values) > 1 else None,
        "database_bytes": variant["dataset"]["bytes"],
        "iops_used": statistics.median(used) if used else None,
        "iops_provisioned": None,
        "source": experiment_id,
        "doubts": [],
    }


def _observed_iops(trial: Mapping[str, Any]) -> float | None:
    """Mean I/O per second of the data and WAL devices while the trial was measured."""
    disk = ((trial["environment"].get("observation") or {}).get("disk") or {}).values()
    rates = [d[key] for d in disk if isinstance(d, Mapping) for key in ("reads_per_s", "writes_per_s") if d.get(key) is not None]
    return sum(rates) if rates else None


def complete(
    points: Iterable[Mapping[str, Any]], sizes: Mapping[str, Mapping[str, Any]], instances: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Fill in what points leave out and their size says: instance type, vCPU, memory. Points that nothing is known of are dropped."""
    result = []
    for point in points:
        name = point.get("instance_type") or (sizes.get(point["size"]) or {}).get("instance_type") or ""
        facts = instances.get(name) or {}
        full = {
            **point,
            "instance_type": name,
            "vcpus": point.get("vcpus") or facts.get("vcpus"),
            "memory_bytes": point.get("memory_bytes") or facts.get("memory_bytes"),
        }
        if full["vcpus"] and full["memory_bytes"] and full["nopm"]:
            result.append(full)
    return result


# the answer --------------------------------------------------------------------------------------------------------------------


def recommend(
    need: Mapping[str, Any],
    *,
    points: Iterable[Mapping[str, Any]],
    sizes: Mapping[str, Mapping[str, Any]],
    instances: Mapping[str, Any],
    prices: Mapping[str, Any] | None,
    region: str,
) -> dict[str, Any]:
    """Return the cheapest size that is shown to do ``need`` (of :func:`read_need`), and the next two.

    ``sizes`` are those of :func:`spec.read_size`. Where none is shown, the cheapest whose own figure would do it, measured on
    a smaller database, with ``evidence`` = ``extrapolated``; else ``recommended`` is ``None``.
    """
    known = complete(points, sizes, instances)
    own = {p["size"] for p in known if p["kind"] == "own"}
    # What was measured on the user's own system replaces what others published of the same size.
    known = [p for p in known if p["kind"] == "own" or p["size"] not in own]
    candidates = [
        _candidate(size, facts, need, known, prices, region) for size in sizes.values() if (facts := _facts(size, known, instances))
    ]
    candidates.sort(key=_price)
    shown = [c for c in candidates if (c["promised_nopm"] or 0) >= need["nopm"]]
    hoped = [c for c in candidates if (c["nopm"] or 0) >= need["nopm"]]
    enough = shown or hoped
    less = sorted((c for c in candidates if c not in enough and c["nopm"]), key=lambda c: -c["nopm"])
    return {
        "need": dict(need),
        "region": region,
        "recommended": enough[0]["size"] if enough else None,
        "evidence": "shown" if shown else "extrapolated" if hoped else None,
        "sizes": enough[:3],
        "not_enough": less,
        "unmeasured": [c["size"] for c in candidates if not c["nopm"] and not c["promised_nopm"]],
        "prices": {"date": (prices or {}).get("date"), "source": (prices or {}).get("source")},
        "uncertainty": _uncertainty(need, enough[:3] or less[:1], region),
    }


def _facts(size: Mapping[str, Any], points: Sequence[Mapping[str, Any]], instances: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return vCPU and memory of a size: of its instance type, else of the machine it was measured on."""
    return instances.get(size["instance_type"]) or next((p for p in points if p["size"] == size["name"]), None)


def _price(candidate: Mapping[str, Any]) -> tuple[bool, float, int]:
    month = candidate["cost"]["usd_per_month"]
    return month is None, month or 0.0, candidate["vcpus"]


def _working_set(need: Mapping[str, Any]) -> int:
    return int(need["working_set_bytes"] or need["database_bytes"])


def uncached(memory_bytes: float, data_bytes: float) -> float:
    """Return the share of the data that does not fit in memory: an upper bound of what a uniform access reads from disk."""
    return max(0.0, 1 - memory_bytes / data_bytes)


def _family(instance_type: str | None) -> str:
    return (instance_type or "").split(".")[0]


def covers(point: Mapping[str, Any], size: Mapping[str, Any], facts: Mapping[str, Any], working_set: float) -> bool:
    """Whether the point shows something for the size: its machine was no better in any respect for this working set."""
    family = _family(size["instance_type"])
    return (
        (point["size"] == size["name"] or (family != "" and _family(point["instance_type"]) == family))
        and point["vcpus"] <= facts["vcpus"]
        and point["memory_bytes"] <= facts["memory_bytes"]
        and _point_uncached(point) >= uncached(facts["memory_bytes"], working_set)
    )


def _point_uncached(point: Mapping[str, Any]) -> float:
    return uncached(point["memory_bytes"], point["database_bytes"]) if point["database_bytes"] else 0.0


def _candidate(
    size: Mapping[str, Any],
    facts: Mapping[str, Any],
    need: Mapping[str, Any],
    points: Sequence[Mapping[str, Any]],
    prices: Mapping[str, Any] | None,
    region: str,
) -> dict[str, Any]:
    working_set = _working_set(need)
    direct = next((p for p in points if p["size"] == size["name"]), None)
    covering = [p for p in points if covers(p, size, facts, working_set)]
    # A figure of this very size stands for itself; a neighbour's greater one proves nothing against it.
    basis = direct if direct in covering else max(covering, key=lambda p: p["nopm"], default=None)
    figure = direct or basis
    iops = _iops(size, facts, need, direct, points)
    measured = _basis(direct)
    month = cost.hourly(_server(size, need, iops["provide"], least=True), prices, region)
    return {
        "size": size["name"],
        "instance_type": size["instance_type"],
        "vcpus": facts["vcpus"],
        "cores": facts.get("cores"),
        "memory_bytes": facts["memory_bytes"],
        "nopm": figure["nopm"] if figure else None,
        "measured": measured,
        "promised_nopm": basis["nopm"] if basis else None,
        "promised_by": measured if basis is direct else _basis(basis),
        "headroom": basis["nopm"] / need["nopm"] - 1 if basis else None,
        "figure_headroom": figure["nopm"] / need["nopm"] - 1 if figure else None,
        "uncached": uncached(facts["memory_bytes"], working_set),
        "iops": iops,
        "data_volume": _data_volume(size, need),
        "cost": month,
        "cost_lean": cost.hourly(_server(size, need, iops["provide"], least=False), prices, region),
        **cost.derived(month["usd_per_hour"], nopm=need["nopm"]),
    }


def _basis(point: Mapping[str, Any] | None) -> dict[str, Any] | None:
    keys = ("size", "kind", "nopm", "n", "cv", "database_bytes", "source", "doubts")
    return {**{k: point.get(k) for k in keys}, "uncached": _point_uncached(point)} if point else None


def _iops(
    size: Mapping[str, Any],
    facts: Mapping[str, Any],
    need: Mapping[str, Any],
    direct: Mapping[str, Any] | None,
    points: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the IOPS that were used, and those to provide, by the I/O per new order that points show.

    A point whose machine kept less of its data in memory bounds it; beyond all points it grows with the uncached share.
    """
    limits = preflight.limits(size, facts) if size["volumes"] else None
    here = uncached(facts["memory_bytes"], _working_set(need))
    rates = sorted((_point_uncached(p), p["iops_used"] / (p["nopm"] / 60), p["size"]) for p in points if p.get("iops_used"))
    worse = [r for r in rates if r[0] >= here]
    per_order = beyond = of = None
    if direct and direct.get("iops_used") and _point_uncached(direct) >= here:
        per_order, of = direct["iops_used"] / (direct["nopm"] / 60), size["name"]
        beyond = False
    elif worse:
        per_order, of = max(r[1] for r in worse if r[0] == worse[0][0]), worse[0][2]
        beyond = False
    elif rates:
        share, rate, of = rates[-1]
        # At the most every access reads from disk; the writes in the rate grow along, which errs on the safe side.
        per_order = rate * (here / share if share else 1.0)
        beyond = True
    expected = per_order * need["nopm"] / 60 if per_order else None
    provide = math.ceil(expected * IOPS_MARGIN / IOPS_STEP) * IOPS_STEP if expected else None
    return {
        "used": direct.get("iops_used") if direct else None,
        "provisioned_then": direct.get("iops_provisioned") if direct else None,
        "provisioned": limits["provisioned_iops"] if limits else None,
        "sustained_by_instance": limits["baseline_iops"] if limits else None,
        "per_new_order": per_order,
        "per_new_order_of": of,
        "beyond_points": beyond,
        "expected": expected,
        "provide": provide,
    }


def _server(size: Mapping[str, Any], need: Mapping[str, Any], provide: int | None, *, least: bool) -> dict[str, Any]:
    """Return the server as one would buy it: no driver, room for the database, the IOPS to provide on data and WAL volume each
    (the published runs do not say on which of them the used ones fell). With ``least`` no volume gets less than it was measured with.
    """
    volumes = {role: dict(volume) for role, volume in size["volumes"].items()}
    data = _data_volume(size, need)
    for role, volume in volumes.items():
        if data and role == data["role"]:
            volume["bytes"] = data["bytes"]
        if role != "root" and volume["iops"] and provide:
            volume["iops"] = max(provide, volume["iops"]) if least else provide
    return {**size, "volumes": volumes, "driver": None}


def _data_volume(size: Mapping[str, Any], need: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the size of the data volume to buy, never smaller than it was measured with."""
    role = "data" if "data" in size["volumes"] else "root"
    if role not in size["volumes"]:
        return None
    measured = size["volumes"][role]["bytes"]
    full = math.ceil(need["database_bytes"] / FULLEST / GIB / 10) * 10 * GIB
    return {"role": role, "bytes": max(measured, full), "measured_bytes": measured}


def _uncertainty(need: Mapping[str, Any], answer: Sequence[Mapping[str, Any]], region: str) -> list[str]:
    """Return what the answer rests on and how far it goes beyond that, as sentences."""
    lines = []
    if any(c["cost"]["usd_per_month"] is None for c in answer):
        lines.append(f"not every price is known in {region}: sizes without one come last, by vCPU, and none is called the cheapest of them")
    lines += [line for candidate in answer for line in _doubts(need, candidate)]
    bases = [b for c in answer for b in (c["measured"], c["promised_by"]) if b]
    single = dict.fromkeys(b["size"] for b in bases if b["n"] == 1)
    if single:
        lines.append(f"{', '.join(single)}: one run each, so their spread is not known")
    doubted: dict[str, list[str]] = {}
    for size, doubt in dict.fromkeys((b["size"], doubt) for b in bases for doubt in b["doubts"]):
        doubted.setdefault(doubt, []).append(size)
    lines += [f"{', '.join(names)}: {doubt}" for doubt, names in doubted.items()]
    if any(b["kind"] == "published" for b in bases):
        lines.append(
            "the published runs do not state their working set: it is taken as their whole database. If it was smaller, they kept "
            "more of it in memory than assumed here, and a database that is hot as a whole does less and reads more"
        )
    lines.append("NOPM are new orders of TPROC-C: as far as your workload differs from it, so will your figures")
    return list(dict.fromkeys(lines))


def _doubts(need: Mapping[str, Any], candidate: Mapping[str, Any]) -> list[str]:
    lines = []
    name, direct, by = candidate["size"], candidate["measured"], candidate["promised_by"]
    working_set = _working_set(need)
    if direct and direct is not by and candidate["uncached"] > direct["uncached"]:
        said = "your working set of" if need["working_set_bytes"] else "your database (no working_set is given) of"
        shown = f"shown for such a share: {by['nopm']:,.0f} NOPM, by {by['size']}" if by else "nothing is shown for such a share"
        lines.append(
            f"{name}: {direct['nopm']:,.0f} NOPM were measured on {human_size(direct['database_bytes'])}; {said} {human_size(working_set)} "
            f"is {working_set / direct['database_bytes']:.1f} times that, and {candidate['uncached']:.0%} of it does not fit in memory "
            f"({direct['uncached']:.0%} there); {shown}"
        )
    if by and not direct:
        lines.append(f"{name}: never measured; promised is what the smaller {by['size']} shows, no more")
    if candidate["iops"]["beyond_points"]:
        lines.append(f"{name}: no run had so little of its data in memory; its IOPS are extrapolated with the share that does not fit")
    lead = candidate["headroom"] if by else candidate["figure_headroom"]
    if lead is not None and 0 <= lead < USUAL_CV:
        lines.append(f"{name}: {lead:.0%} headroom is within what identical runs of this load generator may differ ({USUAL_CV:.0%})")
    return lines
