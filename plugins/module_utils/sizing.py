# GNU General Public License v3.0 or later (see LICENSE)
"""Which size do I need? From measured points only: a size is promised what it, or a smaller one, was shown to do.

*Point*: one measured figure with what it holds for::

    {size, kind: "published"|"own", instance_type, place, vcpus, memory_bytes, nopm, n, cv, database_bytes, iops_used,
     iops_provisioned, source, doubts: [sentence]}

``instance_type``: of the machine it was measured on, ``None`` where that is a host of the user's own; ``place`` says where an own
one was measured (``local``, ``inventory``, ``existing``, ``aws``). What was measured under the name of a size and on another machine
than the size's is no point of that size.

A point *covers* a machine and a working set when the machine is of the same family and no smaller (vCPU, memory) and keeps
no smaller share of the working set in memory than the point's machine kept of its database. A size is *shown* to do what a covering
point did when its volumes and its instance also sustain the I/O of it. ``docs/sizing.md`` explains.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import cost, preflight
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import Spec, coerce_all
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, KIB, MIB, UnitError, human_size, parse_size

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
#: The least that PostgreSQL reads or writes at once: a block.
BLOCK = 8 * KIB
#: The data volume is never planned fuller than this.
FULLEST = 0.8
#: Where an own result was measured, as people say it.
PLACES = {"local": "this machine", "inventory": "of the inventory", "existing": "target=existing"}
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
            machine = conditions.get("machine")
            used = next((f["value"] for f in figures if f["size"] == size and f["metric"] == "iops_used"), None)
            found.append(
                {
                    "size": size,
                    "kind": "published",
                    "instance_type": machine.get(size) if isinstance(machine, Mapping) else None,
                    "place": None,
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
    """Return the points of the user's own experiments ``(experiment.json, [trial.json])``: the newest of each size and place, in order.

    Only valid trials of the first variant of a size count, of unscaled runs whose headline is ``nopm``.
    """
    found: dict[tuple[str, str | None, str], dict[str, Any]] = {}
    for experiment, trials in sorted(results, key=lambda r: r[0]["created"]):
        plan = experiment["plan"]
        if plan["headline"] != "nopm" or plan["scaling"]:
            continue
        first: dict[str, Mapping[str, Any]] = {}
        for variant in plan["variants"]:
            first.setdefault(variant["size"], variant)
        for variant in first.values():
            valid = [t for t in trials if t["variant"] == variant["name"] and t["verdict"] == "valid" and t["headline"]["value"]]
            if valid:
                point = _own_point(experiment["experiment_id"], plan, variant, valid)
                key = (point["size"], point["instance_type"], point["place"])
                found.pop(key, None)  # so that the order is that of the newest
                found[key] = point
    return list(found.values())


def _own_point(
    experiment_id: str, plan: Mapping[str, Any], variant: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    values = [t["headline"]["value"] for t in trials]
    server = trials[-1]["environment"]["server"] or {}
    used = [rate for t in trials if (rate := _observed_iops(t)) is not None]
    place = plan["where"]["provider"]
    # Hardware is planned for machines from AWS only: on any other host a size is but a name.
    bought = {size["name"]: size["instance_type"] for size in plan["hardware"]} if place == "aws" else {}
    return {
        "size": variant["size"],
        "kind": "own",
        "instance_type": server.get("instance_type") or bought.get(variant["size"]),
        "place": place,
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
    """Fill in what points leave out: vCPU, memory, and the instance type of a published one from its size. A point of another
    machine than its size's goes by the name of that machine. Points that nothing is known of are dropped.
    """
    result = []
    for point in points:
        of_size = (sizes.get(point["size"]) or {}).get("instance_type") or ""
        name = point.get("instance_type") or (of_size if point["kind"] == "published" else "")
        if of_size and name != of_size:
            if not name:
                continue
            point = {**point, "size": name}
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
    points = list(points)
    known = complete(points, sizes, instances)
    # What the user measured on such a machine replaces what others published of it; the newest is the last.
    own = {p["size"]: p for p in known if p["kind"] == "own"}
    known = [*own.values(), *(p for p in known if p["kind"] != "own" and p["size"] not in own)]
    candidates = [
        _candidate(size, facts, need, known, sizes, prices, region) for size in sizes.values() if (facts := _facts(size, known, instances))
    ]
    candidates.sort(key=_price)
    fit = [c for c in candidates if not c["cannot"]]
    shown = [c for c in fit if (c["promised_nopm"] or 0) >= need["nopm"]]
    hoped = [c for c in fit if (c["nopm"] or 0) >= need["nopm"]]
    enough = shown or hoped
    unfit = [c for c in candidates if c["cannot"] and (c["nopm"] or 0) >= need["nopm"]]
    less = sorted((c for c in candidates if c not in enough and c not in unfit and c["nopm"]), key=lambda c: -c["nopm"])
    told = enough[:3] or [c for c in less if not c["cannot"]][:1]
    return {
        "need": dict(need),
        "region": region,
        "recommended": enough[0]["size"] if enough else None,
        "evidence": "shown" if shown else "extrapolated" if hoped else None,
        "sizes": enough[:3],
        "not_enough": less,
        "unfit": unfit,
        "unmeasured": [c["size"] for c in candidates if not c["nopm"] and not c["promised_nopm"]],
        "prices": {"date": (prices or {}).get("date"), "source": (prices or {}).get("source")},
        "uncertainty": [*_uncertainty(need, told, region), *_elsewhere(points, sizes)],
    }


def _elsewhere(points: Iterable[Mapping[str, Any]], sizes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say which own results bear the name of a size and are of another machine, and why they do not count for it."""
    lines = []
    for point in points:
        wanted = (sizes.get(point["size"]) or {}).get("instance_type")
        if point["kind"] != "own" or not wanted or point["instance_type"] == wanted:
            continue
        if point["instance_type"]:
            where, so = f"on {point['instance_type']}", "they are figures of that machine"
        else:
            known = [f"{point['vcpus']} vCPU" if point["vcpus"] else "", human_size(point["memory_bytes"]) if point["memory_bytes"] else ""]
            told = ", ".join([PLACES.get(point["place"], point["place"]), *filter(None, known)])
            where = f"on a host of your own ({told})"
            so = "they have neither its figure nor its price. Under size=local, which names no instance, they would be among the answers"
        lines.append(
            f"{point['size']}: your own {point['nopm']:,.0f} NOPM ({point['source']}) were measured {where}, "
            f"not on the {wanted} that the size is: {so}"
        )
    return lines


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
    sizes: Mapping[str, Mapping[str, Any]],
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
    offer, lean = (_server(size, need, iops["provide"], least=least) for least in (True, False))
    of_basis = sizes.get(basis["size"]) if basis and basis is not direct else None
    cannot, remarks = _storage(offer, facts, need, iops, of_basis)
    month = cost.hourly(offer, prices, region)
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
        "volumes": offer["volumes"],
        "cannot": cannot,
        "remarks": remarks,
        "cost": month,
        "cost_lean": cost.hourly(lean, prices, region),
        "lean_iops": {role: volume["iops"] for role, volume in preflight.database_volumes(lean).items() if volume["iops"]},
        **cost.derived(month["usd_per_hour"] if size["instance_type"] else None, nopm=need["nopm"]),
    }


def by_whom(candidate: Mapping[str, Any]) -> str:
    """Name the other machine that the promise of a candidate rests on: a size, or an instance type measured under another name."""
    name = str(candidate["promised_by"]["size"])
    return name if name == candidate["instance_type"] else f"the smaller {name}"


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

    A point whose machine kept less of its data in memory bounds it; beyond all points it grows with the uncached share. ``wanted``
    holds the margin; ``provide`` is no more of it than all volumes together can be given by the instance.
    """
    volumes = preflight.database_volumes(size)
    ebs = facts.get("ebs") or {}
    here = uncached(facts["memory_bytes"], _working_set(need))
    rates = sorted((_point_uncached(p), p["iops_used"] / (p["nopm"] / 60), p["size"]) for p in points if p.get("iops_used"))
    worse = [r for r in rates if r[0] >= here]
    per_order = beyond = of = None
    if direct and direct.get("iops_used") and _point_uncached(direct) >= here:
        per_order, of = direct["iops_used"] / (direct["nopm"] / 60), size["name"]
        beyond = False
    elif worse:
        _share, per_order, of = max(r for r in worse if r[0] == worse[0][0])
        beyond = False
    elif rates:
        share, rate, of = rates[-1]
        # At the most every access reads from disk; the writes in the rate grow along, which errs on the safe side.
        per_order = rate * (here / share if share else 1.0)
        beyond = True
    expected = per_order * need["nopm"] / 60 if per_order else None
    wanted = provide = _in_steps(expected * IOPS_MARGIN) if expected else None
    if expected and wanted and volumes and ebs.get("maximum_iops"):
        provide = min(wanted, max(_in_steps(expected), ebs["maximum_iops"] // len(volumes) // IOPS_STEP * IOPS_STEP))
    return {
        "used": direct.get("iops_used") if direct else None,
        "provisioned_then": direct.get("iops_provisioned") if direct else None,
        "provisioned": sum(preflight.volume_iops(v)[0] for v in volumes.values()) if volumes else None,
        "sustained_by_instance": ebs.get("baseline_iops") if volumes else None,
        "taken_by_instance": ebs.get("maximum_iops") if volumes else None,
        "per_new_order": per_order,
        "per_new_order_of": of,
        "beyond_points": beyond,
        "expected": expected,
        "wanted": wanted,
        "provide": provide,
        "on": [role for role, volume in volumes.items() if preflight.iops_bounds(volume)],
    }


def _in_steps(iops: float) -> int:
    return math.ceil(iops / IOPS_STEP) * IOPS_STEP


def _server(size: Mapping[str, Any], need: Mapping[str, Any], provide: int | None, *, least: bool) -> dict[str, Any]:
    """Return the server as one would buy it: no driver, room for the database, the IOPS to provide on data and WAL volume each
    (the published runs do not say on which of them the used ones fell), as far as a volume of this type and size can have them.
    With ``least`` no volume gets less than it was measured with.
    """
    volumes = {role: dict(volume) for role, volume in size["volumes"].items()}
    data = _data_volume(size, need)
    if data:
        volumes[data["role"]]["bytes"] = data["bytes"]
    for role in preflight.database_volumes(size):
        volume = volumes[role]
        bounds = preflight.iops_bounds(volume)
        if bounds and provide:
            measured = preflight.volume_iops(volume)[0]
            asked = min(max(provide, bounds[0]), bounds[1])
            volume["iops"] = max(asked, measured) if least else asked
            _with_throughput(volume, provide)
    return {**size, "volumes": volumes, "driver": None}


def _with_throughput(volume: dict[str, Any], iops: int) -> None:
    """Give a gp3 volume the MiB/s that ``iops`` of one block each need, and no more than the IOPS that it has allow."""
    bounds = preflight.VOLUME_TYPES[volume["type"]].throughput
    if not bounds:
        return
    wanted = max(volume["throughput"] or bounds[0], math.ceil(iops * BLOCK / MIB))
    throughput = min(wanted, bounds[1], volume["iops"] // 4)
    if volume["throughput"] or throughput > bounds[0]:
        volume["throughput"] = throughput


def _storage(
    offer: Mapping[str, Any], facts: Mapping[str, Any], need: Mapping[str, Any], iops: Mapping[str, Any], other: Mapping[str, Any] | None
) -> tuple[list[str], list[str]]:
    """Return why the offered hardware cannot be had or cannot do it, and what else there is to say of it, as sentences.

    ``other``: the size that the promise rests on, where it is another one.
    """
    problems: list[str] = []
    findings: list[dict[str, Any]] = []
    name = f"size {offer['name']}: "
    data = _data_volume(offer, need)
    for role, volume in offer["volumes"].items():
        kind = preflight.VOLUME_TYPES.get(volume["type"])
        if kind and data and role == data["role"] and volume["bytes"] > kind.bytes[1]:
            sizes = human_size(need["database_bytes"]), human_size(volume["bytes"]), human_size(kind.bytes[1])
            problems.append(
                f"{name}{role} volume: {sizes[0]} on it, no fuller than {FULLEST:.0%}, make {sizes[1]}, "
                f"and no volume of {volume['type']} is larger than {sizes[2]}"
            )
        else:
            preflight.volume_check(f"{name}{role} volume: ", role, volume, findings, problems)
    volumes = preflight.database_volumes(offer)
    if not problems and volumes:
        findings += preflight.rates(offer, facts)
        problems += [f"{name}{text}" for text in _too_slow(offer, iops, other)]
    remarks = [f["message"] for f in findings]
    if iops["provide"] and iops["provide"] < iops["wanted"]:
        remarks.append(
            f"{name}twice the IOPS of your rate, {iops['wanted']:,} on each volume, are more than {offer['instance_type']} takes together "
            f"({iops['taken_by_instance']:,}): {iops['provide']:,} on each are provided"
        )
    return [text.removeprefix("size ") for text in problems], [text.removeprefix("size ") for text in remarks]


def _too_slow(offer: Mapping[str, Any], iops: Mapping[str, Any], other: Mapping[str, Any] | None) -> list[str]:
    """Return what of the offered hardware does not sustain the I/O of the need: each volume by itself, and the instance."""
    needed, reason = iops["expected"], "at your rate"
    if needed is None:
        theirs = preflight.database_volumes(other or {"volumes": {}}).values()
        needed = min((preflight.volume_iops(v)[0] for v in theirs), default=None)
        reason = f"that a volume of {other['name']} has, whose I/O is not known" if other else ""
    if needed is None:
        return []
    wrong = [
        f"{role} volume: {volume['type']} of {human_size(volume['bytes'])} sustains {has:,} IOPS, not the {needed:,.0f} {reason}"
        for role, volume in preflight.database_volumes(offer).items()
        if (has := preflight.volume_iops(volume)[0]) < needed
    ]
    limit = iops["sustained_by_instance"]
    if limit and iops["expected"] and iops["expected"] > limit:
        wrong.append(f"{offer['instance_type']} sustains {limit:,} IOPS, not the {iops['expected']:,.0f} at your rate")
    return wrong


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
        lines.append(f"{name}: never measured; promised is what {by_whom(candidate)} shows, no more")
    lines += candidate["remarks"]
    if candidate["iops"]["beyond_points"]:
        lines.append(f"{name}: no run had so little of its data in memory; its IOPS are extrapolated with the share that does not fit")
    lead = candidate["headroom"] if by else candidate["figure_headroom"]
    if lead is not None and 0 <= lead < USUAL_CV:
        lines.append(f"{name}: {lead:.0%} headroom is within what identical runs of this load generator may differ ({USUAL_CV:.0%})")
    return lines
