# GNU General Public License v3.0 or later (see LICENSE)
"""What a size costs, from a dated price file (``roles/plan/files/prices/``), and what a result costs.

On-demand Linux prices without tax. Not included: traffic, public IPv4 addresses, snapshots. See ``docs/cost.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, human_size

HOURS_PER_MONTH = 730
KINDS = ("compute", "storage", "iops", "throughput")


def hourly(size: Mapping[str, Any], prices: Mapping[str, Any] | None, region: str) -> dict[str, Any]:
    """Return what a size (see :mod:`spec`) costs while it stands, driver included.

    ``{usd_per_hour, usd_per_month, known_usd_per_hour, by_kind, parts: [{what, kind, usd_per_hour, usd_per_month}], unknown,
    region, date, source}``. ``usd_per_hour`` and ``usd_per_month`` are ``None`` as long as one price is unknown;
    ``known_usd_per_hour`` is the sum of the others, ``by_kind`` their USD per month.
    """
    parts: list[dict[str, Any]] = []
    unknown: list[str] = [] if prices else ["everything"]
    for what, kind, amount, price in _charges(size, prices) if prices else ():
        if price is None:
            unknown.append(what)
        else:
            month = amount * price
            parts.append({"what": what, "kind": kind, "usd_per_hour": month / HOURS_PER_MONTH, "usd_per_month": month})
    known = sum(part["usd_per_hour"] for part in parts)
    return {
        "usd_per_hour": None if unknown else known,
        "usd_per_month": None if unknown else known * HOURS_PER_MONTH,
        "known_usd_per_hour": known,
        "by_kind": {kind: sum(p["usd_per_month"] for p in parts if p["kind"] == kind) for kind in KINDS},
        "parts": parts,
        "unknown": unknown,
        "region": region,
        "date": (prices or {}).get("date"),
        "source": (prices or {}).get("source"),
    }


def _charges(size: Mapping[str, Any], prices: Mapping[str, Any]) -> Iterator[tuple[str, str, float, float | None]]:
    """Yield ``(what, kind, amount in a month, price of one or None)`` of every machine and volume."""
    for who, machine in (("server", size), ("driver", size.get("driver"))):
        if not machine or not machine.get("instance_type"):
            continue
        price = prices.get("instances", {}).get(machine["instance_type"])
        yield f"{who} {machine['instance_type']}", "compute", HOURS_PER_MONTH, price
        for role, volume in machine["volumes"].items():
            yield from _volume_charges(f"{who} {role}", volume, prices.get("volumes", {}).get(volume["type"]))


def _volume_charges(
    name: str, volume: Mapping[str, Any], price: Mapping[str, Any] | None
) -> Iterator[tuple[str, str, float, float | None]]:
    price = price or {}
    yield f"{name}: {volume['type']} {human_size(volume['bytes'])}", "storage", volume["bytes"] / GIB, price.get("gb_month")
    for key, kind, one, included, unit in (
        ("iops", "iops", "iops_month", "iops_included", "IOPS"),
        ("throughput", "throughput", "mbps_month", "mbps_included", "MiB/s"),
    ):
        amount = volume.get(key)
        if not amount:
            continue
        if price.get("iops_tiers") and key == "iops":
            yield f"{name}: {amount:,} {unit}", kind, 1, tiered(amount, price["iops_tiers"])
        elif max(0, amount - price.get(included, 0)):
            yield f"{name}: {amount:,} {unit}", kind, amount - price.get(included, 0), price.get(one)


def tiered(amount: float, tiers: Sequence[Mapping[str, Any]]) -> float:
    """Return the USD per month of ``amount`` where each tier ``{up_to, iops_month}`` prices what lies within it."""
    total = 0.0
    below = 0.0
    for tier in tiers:
        top = amount if tier["up_to"] is None else min(amount, tier["up_to"])
        total += max(0.0, top - below) * tier["iops_month"]
        below = max(below, top)
    return total


def experiment(costs: Sequence[Mapping[str, Any]], seconds: float) -> dict[str, Any]:
    """Return ``{usd, usd_per_hour, unknown}`` of the machines of ``costs`` (of :func:`hourly`) standing for ``seconds`` together."""
    unknown = [f"{what} in {cost['region']}" for cost in costs for what in cost["unknown"]]
    rate = sum(cost["known_usd_per_hour"] for cost in costs)
    return {
        "usd_per_hour": None if unknown else rate,
        "usd": None if unknown else rate * seconds / 3600,
        "known_usd": rate * seconds / 3600,
        "unknown": unknown,
    }


def derived(usd_per_hour: float | None, *, nopm: float | None = None, tps: float | None = None) -> dict[str, float | None]:
    """Return ``{usd_per_million_new_orders, nopm_per_usd_hour, tps_per_usd_hour}``; ``None`` where a figure is missing or zero."""

    def ratio(figure: float | None) -> float | None:
        return figure / usd_per_hour if figure and usd_per_hour else None

    return {
        "usd_per_million_new_orders": usd_per_hour / 60 / nopm * 1e6 if usd_per_hour is not None and nopm else None,
        "nopm_per_usd_hour": ratio(nopm),
        "tps_per_usd_hour": ratio(tps),
    }


def over_budget(cost: Mapping[str, Any], budget_usd: float, accept_unknown: bool) -> list[str]:
    """Return why nothing that costs money may start: an estimate over the budget, or a price that nobody knows."""
    problems = []
    if cost["unknown"] and not accept_unknown:
        problems.append(
            f"cost: no price is known for {', '.join(cost['unknown'])}; what the run will cost cannot be said. "
            "Go on without knowing with -e accept_unknown_cost=true, or refresh the prices (playbooks/refresh_facts.yml)"
        )
    if cost["known_usd"] > budget_usd:
        at_least = "at least " if cost["unknown"] else ""
        problems.append(
            f"budget: the estimate of {at_least}{cost['known_usd']:,.2f} USD exceeds budget_usd = {budget_usd:g}; raise it, or do less"
        )
    return problems
