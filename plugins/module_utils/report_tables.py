# GNU General Public License v3.0 or later (see LICENSE)
"""Tables of a report, for the page and for ``report.md`` alike: from trials to rows of figures and of short texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import term
from ansible_collections.pgsizing.bench.plugins.module_utils.summary import ALL_LATENCIES, USED, figure, median_of
from ansible_collections.pgsizing.bench.plugins.module_utils.units import human_size
from ansible_collections.pgsizing.bench.plugins.module_utils.verdict import client_cores


def facts(trial: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return ``(name, text)`` of what a trial measured beside its headline, and of what explains it: CPU, waits, checkpoints, WAL."""
    return [*_measured(trial), *_observed((trial.get("environment") or {}).get("observation") or {}, trial)]


def _measured(trial: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    counts, conditions = trial.get("counts") or {}, trial.get("conditions") or {}
    for name, metric in (trial.get("metrics") or {}).items():
        if name != trial["headline"]["metric"] and metric["value"] is not None:
            yield term(name), f"{figure(metric['value'])} {metric['unit']}"
    rate = (trial.get("series") or {}).get("rate")
    if rate:
        lowest, middle, highest = (figure(rate[k]) for k in ("min", "median", "max"))
        text = f"lowest {lowest}, median {middle}, highest {highest} {rate['unit']}"
        yield f"{term(rate['name'])} of {rate['n']} intervals of {rate['interval_s']:g} s", text
    if counts.get("processed") is not None:
        named = (("failed", "failed"), ("serialization_failures", "serialization failures"), ("deadlock_failures", "deadlocks"))
        more = [*named, ("retried", "retried"), ("skipped", "skipped"), ("late", "late")]
        said = [f"{counts[key]:,} {what}" for key, what in more if counts.get(key) is not None]
        yield "transactions", ", ".join([f"{counts['processed']:,}", *said])
    lag = (trial.get("latency") or {}).get("lag") or {}
    if lag.get("average") is not None:
        yield "schedule lag", f"{figure(lag['average'])} ms on average, {figure(lag.get('max'))} ms at most (part of the latency)"
    sizes = [human_size(size) for key in ("database_bytes", "database_bytes_after") if (size := conditions.get(key)) is not None]
    if sizes:
        yield "database", f"{sizes[0]} before the run" + (f", {sizes[1]} after it" if sizes[1:] else "")
    hottest = max((trial.get("latency") or {}).get("statements") or [], key=lambda s: s.get("latency_ms") or 0, default=None)
    if hottest:
        yield "slowest statement", f"{figure(hottest['latency_ms'])} ms on average: {hottest['text']}"


def _observed(observation: Mapping[str, Any], trial: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield ``(name, text)`` of what explains a figure: where the CPU went, what the backends waited for, checkpoints, WAL."""
    cpu, postgres = observation.get("cpu") or {}, observation.get("postgres") or {}
    if cpu.get("busy_mean") is not None:
        shares = (("busy_mean", "busy"), ("iowait", "waiting for IO"), ("steal", "stolen"))
        yield "CPU of the server", ", ".join(f"{100 * (cpu.get(key) or 0):.0f} % {what}" for key, what in shares)
    if cpu.get("server") is not None:
        yield "CPU of the server's processes", f"{cpu['server'] * cpu['cores']:.2f} cores"
    waits = [f"{':'.join(filter(None, (w['type'], w['event'])))} {100 * w['share']:.0f} %" for w in (postgres.get("wait_events") or [])[:4]]
    if waits:
        yield "backends waited for", ", ".join(waits)
    disk = (observation.get("disk") or {}).get("data") or {}
    if disk.get("iops_p99") is not None:
        mean = (disk.get("reads_per_s") or 0) + (disk.get("writes_per_s") or 0)
        known = (trial.get("environment") or {}).get("storage") or {}
        limits = [(known.get("instance_baseline_iops"), "sustains"), (known.get("instance_max_iops"), "takes at most")]
        of_instance = "".join(f"; the instance {does} {iops:,}" for iops, does in limits if iops)
        yield "IOPS of the data disk", f"{figure(mean)} on average, 99 % of the time up to {figure(disk['iops_p99'])}{of_instance}"
    if postgres.get("checkpoints_timed") is not None:
        yield "checkpoints", f"{postgres['checkpoints_timed']:.0f} timed, {postgres.get('checkpoints_requested') or 0:.0f} requested"
    if postgres.get("deadlocks") is not None:
        yield "deadlocks in the database", f"{postgres['deadlocks']:,}"
    if postgres.get("wal_bytes") is not None:
        yield "WAL", human_size(postgres["wal_bytes"])
    read, hit = postgres.get("blks_read"), postgres.get("blks_hit")
    if read is not None and hit is not None and read + hit:
        yield "buffer hits", f"{100 * hit / (read + hit):.1f} % of {read + hit:,.0f} blocks"
    cores = client_cores(trial.get("client"))
    if cores is not None:
        yield "CPU of the load generator", f"{cores:.2f} cores"
    cost = observation.get("cost") or {}
    if cost.get("core_fraction") is not None:
        yield "cost of observing", f"{100 * cost['core_fraction']:.1f} % of one core"


def _used_latencies(trials: Sequence[Mapping[str, Any]], variant: str) -> list[Mapping[str, Any]]:
    return [t["latency"] for t in trials if t["variant"] == variant and t["verdict"] in USED and t.get("latency")]


def latencies(trials: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row a variant: the median over its used trials of each latency figure, in ms."""
    rows = []
    for name in names:
        used = _used_latencies(trials, name)
        values = {k: median_of(latency.get(k) for latency in used) for k in ALL_LATENCIES}
        if any(v is not None for v in values.values()):
            rows.append({"variant": name, "n": len(used), "values": values})
    return rows


def statements(trials: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row a statement, in the order of its script: by variant the median over the used trials, in ms."""
    rows: dict[tuple[Any, int], dict[str, Any]] = {}
    for name in names:
        samples: dict[tuple[Any, int], list[float | None]] = {}
        for latency in _used_latencies(trials, name):
            for number, statement in enumerate(latency.get("statements") or []):
                key = (statement.get("script"), number)
                rows.setdefault(key, {"text": statement["text"], "script": statement.get("script") or "", "values": dict.fromkeys(names)})
                samples.setdefault(key, []).append(statement.get("latency_ms"))
        for key, sample in samples.items():
            rows[key]["values"][name] = median_of(sample)
    return list(rows.values())


def settings(variants: Sequence[Mapping[str, Any]], trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return for each variant the settings asked for, with their origin, and those the server had in effect."""
    effective = {t["variant"]: (t["environment"].get("postgres") or {}).get("non_default_settings") for t in reversed(trials)}
    return [
        {
            "variant": v["name"],
            "asked": [{k: s.get(k) or "" for k in ("name", "text", "origin", "reason", "replaces")} for s in v.get("settings") or []],
            "effective": [
                {"name": s["name"], "text": s.get("text") or s.get("setting"), "source": s.get("source") or ""}
                for s in effective.get(v["name"]) or []
            ],
        }
        for v in variants
    ]


def actual(trials: Sequence[Mapping[str, Any]], experiment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the run took, to stand beside the estimate: ``{parts: [(name, seconds)], trials_s, wall_s}``, sums over the trials."""
    sums: dict[str, float] = {}
    for trial in trials:
        for key, seconds in trial["timing"].items():
            if seconds is not None:
                sums[key] = sums.get(key, 0.0) + seconds
    total = sums.pop("total_s", None)
    steps = {f"{step['name']}_s" for t in trials for step in t["steps"]}  # parts of the stage "measure"
    parts = [(key.removesuffix("_s").replace("_", " "), s) for key, s in sums.items() if key not in steps]
    parts += [(f"of which {key.removesuffix('_s').replace('_', ' ')}", s) for key, s in sums.items() if key in steps]
    ends = [e["ended"] for e in experiment["journal"]["trials"].values() if e.get("ended")]
    return {"parts": parts, "trials_s": total, "wall_s": max(ends) - experiment["created"] if ends else None}
