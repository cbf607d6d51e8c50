# GNU General Public License v3.0 or later (see LICENSE)
"""From an experiment and its trials to the answer: rows, comparisons, published beside measured; as data and as text.

Only valid and suspect trials feed a statistic. The others are counted and listed, never averaged, never ranked.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import comparison, stats
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import SEVERITIES, VERDICTS, term
from ansible_collections.pgsizing.bench.plugins.module_utils.repeats import judge_cache, judge_repeats, judge_start
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import hammerdb

USED = ("valid", "suspect")
LATENCIES = ("average", "p50", "p95", "p99", "max")
PERCENTILES = ("p50", "p90", "p95", "p99", "p99_9", "max")
#: The two sides of a comparison.
SIDES = ("variant", "base")
ALL_LATENCIES = ("average", "stddev", "min", *PERCENTILES)
#: What a workload calls its scripts.
SCRIPTS = {"tprocc": "transaction"}
#: Metrics that count something else with another load generator: what says so.
INCOMPARABLE = {"tpm": hammerdb.tpm_incomparable}
UNITS = {"latency": "ms", "load_seconds": "s", "build_seconds": "s"}


def summarise(experiment: dict[str, Any], trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of an experiment as it stands; trials may be missing.

    ``{experiment_id, headline: {metric, unit, better, base}, script (what the workload calls one), scaled, rows, scripts, comparisons,
    repeat_findings, published, findings, findings_by_variant, differences, deviations, missing, environment}``:

    rows: one per variant, ``{variant, base, n, n_valid, verdict (worst), verdicts: {verdict: count}, values, trials, median, mean,
    location, location_name, min, max, cv, ci_low, ci_high, ci_method, spread_text, latency: {average, p50, p95, p99, max}
    (medians, ms), metrics, failed_pct, cost}``; ``n`` trials were recorded, ``n_valid`` of them are used. ``metrics``: the others than the
    headline by name, ``{unit, n, median, spread_text}``.
    comparisons: as ``stats.compare_all``, with ``reason`` why two variants are ``not comparable`` (else ``None``) and ``differs``, the
    names of what was asked for differently.
    repeat_findings: ``{variant: findings}``. findings: those of the plan.
    published: ``{variant, metric, unit, published, measured_median, n, spread_text, verdict, ratio, note, published_to_base,
    measured_to_base}``; ``verdict`` is ``None`` where no trial stands behind the figure (a load).
    scripts: by variant and script, where a variant has several: ``{variant, script, n, share (of the transactions), latency}``, medians
    over the used trials. differences: ``{name, values: {variant: text}}``. missing: planned trials without result.
    """
    plan = experiment["plan"]
    variants = plan["variants"]
    base = next((v["name"] for v in variants if v.get("base")), variants[0]["name"])
    by_variant = {v["name"]: [t for t in trials if t["variant"] == v["name"]] for v in variants}
    headline = _headline(plan, trials) | {"base": base}
    repeat_findings = {name: judge_repeats([_repeat(t) for t in own], headline["better"]) for name, own in by_variant.items()}
    planned = {v["name"]: v for v in variants}
    for name, own in by_variant.items():
        sides = [_repeat(t) for t in own], [_repeat(t) for t in by_variant[base]]
        repeat_findings[name] += judge_start(*sides) if name != base else []
        repeat_findings[name] += judge_cache(*sides) if name != base and _same_cache(planned[name], planned[base]) else []
        repeat_findings[name] += comparison.conditions(_used(own))
    rows = [_row(name, name == base, own, repeat_findings[name]) for name, own in by_variant.items()]
    alpha = (plan.get("comparisons") or {}).get("alpha", stats.ALPHA)
    comparisons = [
        {"differs": comparison.apart(*(planned[c[k]].get("differs") or {} for k in reversed(SIDES)))}
        | _refused(c, comparison.incomparable(*(_used(by_variant[c[k]]) for k in SIDES), *(planned[c[k]] for k in SIDES)))
        for c in stats.compare_all({row["variant"]: row["values"] for row in rows}, base, headline["better"], alpha)
    ]
    scaled = bool(plan.get("scaling"))
    recorded = {t["trial_id"] for t in trials}
    journal = experiment.get("journal") or {}
    return {
        "experiment_id": experiment["experiment_id"],
        "headline": headline,
        "script": SCRIPTS.get(plan["workload"], "script"),
        "scaled": scaled,
        "end": journal.get("end"),
        "rows": rows,
        "scripts": [row for name, own in by_variant.items() for row in _scripts(name, own)],
        "comparisons": comparisons,
        "alpha": alpha,
        "repeat_findings": {name: found for name, found in repeat_findings.items() if found},
        "published": _published(experiment, by_variant, rows, base, scaled, {c["variant"]: c["reason"] for c in comparisons}),
        "findings": plan.get("findings") or [],
        "findings_by_variant": {name: _findings(own, repeat_findings[name]) for name, own in by_variant.items()},
        "differences": _differences(variants),
        "deviations": plan.get("deviations") or [],
        "missing": [
            {**{k: t[k] for k in ("id", "variant", "repeat")}, **_journal_entry(journal, t["id"])}
            for t in plan.get("trials") or []
            if t["id"] not in recorded
        ],
        "environment": next((t["environment"] for t in trials if t.get("environment")), None),
    }


def _headline(plan: dict[str, Any], trials: Iterable[dict[str, Any]]) -> dict[str, Any]:
    known = [t["headline"] for t in trials if t.get("headline")]
    measured = next((h for h in known if h.get("value") is not None), known[0] if known else {})
    return {"metric": plan["headline"], "unit": measured.get("unit"), "better": measured.get("better") or "higher"}


def _journal_entry(journal: dict[str, Any], trial_id: str) -> dict[str, Any]:
    entry = (journal.get("trials") or {}).get(trial_id) or {}
    return {"state": entry.get("state", "planned"), "message": entry.get("message")}


def _value(trial: dict[str, Any]) -> float | None:
    """Return the headline figure of a trial that may be used."""
    return trial["headline"]["value"] if trial["verdict"] in USED else None


def _used(trials: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [t for t in trials if _value(t) is not None]


def _refused(compared: dict[str, Any], reason: str | None) -> dict[str, Any]:
    """Return a comparison without its figures where there is a reason not to make it."""
    figures = dict.fromkeys(("ratio", "ci_low", "ci_high", "p", "p_adjusted"))
    return {**compared, **({**figures, "conclusion": "not comparable"} if reason else {}), "reason": reason}


def _repeat(trial: dict[str, Any]) -> dict[str, Any]:
    postgres = ((trial.get("environment") or {}).get("observation") or {}).get("postgres") or {}
    return {
        **{k: trial.get(k) for k in ("trial_id", "repeat", "position", "verdict")},
        "value": _value(trial),
        **{k: postgres.get(k) for k in ("blks_read", "blks_hit")},
        "dead": postgres.get("dead_tuples_before"),
        "live": postgres.get("live_tuples_before"),
    }


def _same_cache(variant: dict[str, Any], base: dict[str, Any]) -> bool:
    """Were two variants to have the same blocks of the same data in a buffer cache of one size?"""
    buffers = [next((s["text"] for s in v.get("settings") or [] if s["name"] == "shared_buffers"), None) for v in (variant, base)]
    data = [(v.get("dataset") or {}).get("fingerprint") for v in (variant, base)]
    return buffers[0] == buffers[1] and data[0] == data[1] and all(variant.get(k) == base.get(k) for k in ("size", "cache"))


def _row(name: str, base: bool, trials: Sequence[dict[str, Any]], repeat_findings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    used = _used(trials)
    values = [t["headline"]["value"] for t in used]
    verdicts = [t["verdict"] for t in trials]
    worst = max((VERDICTS.index(v) for v in [*verdicts, *(_verdict_of(f) for f in repeat_findings)]), default=None)
    figures = stats.summary(values)
    figures.pop("n")
    return {
        "variant": name,
        "base": base,
        "n": len(trials),
        "n_valid": len(used),
        "verdict": None if worst is None else VERDICTS[worst],
        "verdicts": {v: verdicts.count(v) for v in VERDICTS if v in verdicts},
        "values": values,
        "trials": [{**{k: t.get(k) for k in ("trial_id", "repeat", "verdict")}, "value": t["headline"]["value"]} for t in trials],
        **figures,
        "latency": {k: median_of((t.get("latency") or {}).get(k) for t in used) for k in LATENCIES},
        "metrics": _metrics(used),
        "failed_pct": median_of((t.get("counts") or {}).get("failed_pct") for t in used),
        "cost": next((t["cost"] for t in used if t.get("cost")), None),
    }


def _metrics(used: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    result = {}
    names = dict.fromkeys(name for t in used for name in t.get("metrics") or {} if name != t["headline"]["metric"])
    for name in names:
        found = [m for t in used if (m := (t.get("metrics") or {}).get(name)) and m["value"] is not None]
        values = stats.summary([m["value"] for m in found])
        if found:
            result[name] = {"unit": found[0]["unit"], "n": len(found), **{k: values[k] for k in ("median", "spread_text")}}
    return result


def _scripts(variant: str, trials: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each script of a variant that has several (the transactions of TPROC-C), in their order."""
    parts: dict[str, list[tuple[float | None, dict[str, Any]]]] = {}
    for trial in trials:
        scripts = (trial.get("latency") or {}).get("scripts") or [] if trial["verdict"] in USED else []
        total = sum(s.get("transactions") or 0 for s in scripts)
        for script in scripts:
            parts.setdefault(script["name"], []).append(((script.get("transactions") or 0) / total if total else None, script))
    if len(parts) < 2:
        return []
    return [
        {
            "variant": variant,
            "script": name,
            "n": len(found),
            "share": median_of(share for share, _ in found),
            "latency": {k: median_of(script.get(k) for _, script in found) for k in ALL_LATENCIES},
        }
        for name, found in parts.items()
    ]


def _verdict_of(finding: dict[str, Any]) -> str:
    return VERDICTS[SEVERITIES.index(finding["severity"])]


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are there, ``None`` without any."""
    present = [v for v in values if v is not None]
    return float(median(present)) if present else None


def _findings(trials: Sequence[dict[str, Any]], repeat_findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the findings of a variant, worst first, each once with the trials that have it.

    ``message`` is the first trial's where each has one finding of the code, which differ in their figures; a code that a trial has
    more than once (settings, lines of output) stands once for each message.
    """
    several = {code for t in trials for code, n in Counter(f["code"] for f in t["findings"]).items() if n > 1} | {"not_checked"}
    merged: dict[str, dict[str, Any]] = {}
    for finding, trial_id in [*((f, None) for f in repeat_findings), *((f, t["trial_id"]) for t in trials for f in t["findings"])]:
        key = finding["message"] if finding["code"] in several else finding["code"]
        row = merged.setdefault(key, {**{k: finding[k] for k in ("code", "severity", "message")}, "trials": []})
        if trial_id and trial_id not in row["trials"]:
            row["trials"].append(trial_id)
    return sorted(merged.values(), key=lambda f: -SEVERITIES.index(f["severity"]))


def _differences(variants: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return everything planned in which the variants differ: settings, parameters, server version, initdb options, cache."""
    facts = []
    for variant in variants:
        postgres = variant.get("postgres") or {}
        facts.append(
            {s["name"]: s["text"] for s in variant.get("settings") or []}
            | {k: v for k, v in (variant.get("parameters") or {}).items() if v is not None}
            | {"server version": postgres.get("version"), "cache": variant.get("cache")}
            | {f"initdb {k}": v for k, v in (postgres.get("initdb") or {}).items()}
        )
    result = []
    for name in dict.fromkeys(name for fact in facts for name in fact):
        values = [fact.get(name) for fact in facts]
        if any(v != values[0] for v in values):
            result.append({"name": name, "values": {variants[i]["name"]: _text(v) for i, v in enumerate(values)}})
    return result


def _text(value: Any) -> str:
    if value is None:
        return "(default)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# published beside measured -----------------------------------------------------------------------------------------


def _published(
    experiment: dict[str, Any],
    by_variant: dict[str, list[dict[str, Any]]],
    rows: Sequence[dict[str, Any]],
    base: str,
    scaled: bool,
    refused: dict[str, str | None],
) -> list[dict[str, Any]]:
    figures = _figures(experiment["plan"], base)
    verdicts = {row["variant"]: row["verdict"] for row in rows}
    result = []
    for figure in figures:
        metric, variant = _metric(figure), figure["variant"]
        sample, notes = _sample(experiment, by_variant, variant, metric)
        judged = bool(sample) and not notes
        of_base = _sample(experiment, by_variant, base, metric)[0]
        measured = median_of(sample)
        published_base = next((f["value"] for f in figures if _metric(f) == metric and f["variant"] == base), None)
        other = variant != base
        ratio = measured / figure["value"] if measured is not None and figure["value"] and not scaled else None
        apart = _incomparable(metric, by_variant.get(variant, []), None, published=experiment["plan"]["published"]) if ratio else None
        apart_base = refused.get(variant)
        if other and not apart_base:
            apart_base = _incomparable(metric, by_variant.get(variant, []), by_variant.get(base, []))
        ratio = None if apart else ratio
        to_base = stats.ratio(sample, of_base)["ratio"] if other and not apart_base else None  # as the comparison of the variants has it
        notes += list(dict.fromkeys(reason for reason in (apart, apart_base) if reason))
        if measured is None:
            notes.append("not measured")
        result.append(
            {
                "variant": variant,
                "metric": metric,
                "unit": figure.get("unit") or UNITS.get(metric.split("_")[0]) or UNITS.get(metric),
                "published": figure["value"],
                "measured_median": measured,
                "n": len(sample),
                "spread_text": stats.summary(sample)["spread_text"],
                "verdict": verdicts.get(variant) if judged else None,
                "ratio": ratio,
                "note": "; ".join((["shape only"] if scaled else []) + notes) or None,
                "published_to_base": figure["value"] / published_base if other and published_base else None,
                "measured_to_base": to_base,
            }
        )
    return result


def _figures(plan: dict[str, Any], base: str) -> list[dict[str, Any]]:
    """Return the published figures, each with the planned variant that it belongs to.

    It is named in the figure, or is the one of the figure's size: a single ``size=small`` is no axis, and its variant has another
    name. Where some of the published sizes are planned, figures of the others are left out.
    """
    figures = (plan.get("published") or {}).get("figures") or []
    names = [v["name"] for v in plan["variants"]]
    planned = {v["size"] for v in plan["variants"] if v.get("size")}
    chosen = planned & {f.get("size") for f in figures}
    result = []
    for figure in figures:
        if chosen and figure.get("size") and figure["size"] not in chosen:
            continue
        name = figure.get("variant") or base
        if name not in names and figure.get("size"):
            same = [v for v in plan["variants"] if v.get("size") == figure["size"]]
            plain = [v for v in same if not set(v.get("differs") or {}) - {"size"}]
            name = next((v["name"] for v in plain or (same if len(same) == 1 else [])), name)
        result.append({**figure, "variant": name})
    return result


def _incomparable(
    metric: str, trials: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]] | None, published: dict[str, Any] | None = None
) -> str | None:
    """Return why a metric of these trials must not be set against that of others, or of a published run; ``None`` when it may."""
    check = INCOMPARABLE.get(metric)
    other: dict[str, Any] | None
    one = next((_generator(t) for t in trials if t["verdict"] in USED), None)
    if published is not None:
        said = str((published.get("conditions") or {}).get("load_generator") or "")  # such as "HammerDB 4.0"
        found = re.match(r"(?P<name>[A-Za-z]*)\W*(?:v?(?P<version>\d[\d.]*))?", said)
        other = {key: value or None for key, value in found.groupdict().items()} if found else {}
    else:
        other = next((_generator(t) for t in others or () if t["verdict"] in USED), None)
    return check(one, other) if check and one is not None and other is not None else None


def _generator(trial: dict[str, Any]) -> dict[str, Any]:
    generator, conditions = trial.get("load_generator") or {}, trial.get("conditions") or {}
    return {**{k: generator.get(k) for k in ("name", "version", "database")}, "storedprocs": conditions.get("storedprocs")}


def _metric(figure: dict[str, Any]) -> str:
    """Return the metric of a published figure under its name here: ``latency average`` is ``latency_average``."""
    return figure["metric"].strip().lower().replace(" ", "_")


def _sample(
    experiment: dict[str, Any], by_variant: dict[str, list[dict[str, Any]]], variant: str, metric: str
) -> tuple[list[float], list[str]]:
    """Return the usable values of any metric of a variant, and remarks on them. A load is measured once per data set."""
    used = [t for t in by_variant.get(variant, []) if t["verdict"] in USED]
    if metric.startswith("latency_"):
        values = [(t.get("latency") or {}).get(metric.removeprefix("latency_")) for t in used]
    else:
        values = [((t.get("metrics") or {}).get(metric) or {}).get("value") for t in used]
    sample = [float(v) for v in values if v is not None]
    if sample or metric != "load_seconds":
        return sample, []
    planned = next((v for v in experiment["plan"]["variants"] if v["name"] == variant), None)
    dataset = _dataset(experiment, planned) if planned else None
    if dataset is None or dataset.get("load_seconds") is None:
        return [], []
    return [float(dataset["load_seconds"])], ["built by an earlier experiment" if dataset.get("reused") else "built once, not judged"]


def _dataset(experiment: dict[str, Any], variant: dict[str, Any]) -> dict[str, Any] | None:
    """Return what was recorded when the variant's data set was built; keys are ``<cluster>/<fingerprint>``."""
    recorded = (experiment.get("environment") or {}).get("datasets") or {}
    fingerprint, version = (variant.get("dataset") or {}).get("fingerprint"), (variant.get("postgres") or {}).get("version")
    found = {key: data for key, data in recorded.items() if key.rpartition("/")[2] == fingerprint}
    if len(found) > 1:
        found = {key: data for key, data in found.items() if key.startswith(f"{version}-")}
    return next(iter(found.values())) if len(found) == 1 else None  # several: which one it was is not known here


# text --------------------------------------------------------------------------------------------------------------


def figure(value: float | None) -> str:
    """Return a number for people: thousands separated, four digits or more; ``-`` when missing."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    for least, digits in ((100, 1), (10, 2), (1, 3)):
        if size >= least:
            return f"{value:.{digits}f}"
    return f"{value:.4g}"


def percentile_name(key: str) -> str:
    """``p99_9`` -> ``p99.9``."""
    return key.replace("_", ".")


def interval_text(row: dict[str, Any]) -> str:
    return "-" if row["ci_low"] is None else f"{figure(row['ci_low'])} to {figure(row['ci_high'])}"


def count_text(row: dict[str, Any]) -> str:
    return str(row["n"]) if row["n"] == row["n_valid"] else f"{row['n_valid']} of {row['n']}"


def verdict_text(row: dict[str, Any]) -> str:
    """The worst verdict, with the count of each when they differ; a rate is not shown without its share of failures."""
    if row["verdict"] is None:
        return "not run"
    text = row["verdict"]
    if len(row["verdicts"]) > 1 or list(row["verdicts"]) != [row["verdict"]]:
        text += " (" + ", ".join(f"{n} {v}" for v, n in row["verdicts"].items()) + ")"
    return text + (f", {row['failed_pct']:.2f} % failed" if row["failed_pct"] else "")


def in_unit(unit: str | None) -> str:
    return f" [{unit}]" if unit else ""


def comparison_text(comparison: dict[str, Any]) -> str:
    """Return one comparison in plain words."""
    c = comparison
    start = f"{c['variant']} against {c['base']}: "
    if c["ratio"] is None:
        return f"{start}{c['conclusion']}: " + (c["reason"] or f"{c['n']} and {c['n_base']} usable trials")
    interval = f" (95 % CI {c['ci_low']:.3f} to {c['ci_high']:.3f})" if c["ci_low"] is not None else " (no CI)"
    if c["conclusion"] == "too few repeats":
        return (
            f"{start}{c['ratio']:.3f} times{interval}, too few repeats: {c['n']} and {c['n_base']}, {c['repeats_needed']} each are needed"
        )
    adjusted = f", adjusted {c['p_adjusted']:.3g}" if c["p_adjusted"] != c["p"] else ""
    # Which of them it was, a single comparison cannot tell.
    several = f"; they differ in {' and '.join(c['differs'])} at once" if len(c["differs"]) > 1 else ""
    return f"{start}{c['ratio']:.3f} times{interval}, {c['conclusion']} (p = {c['p']:.3g}{adjusted}){several}"


def metrics_text(row: dict[str, Any]) -> str:
    """Return the other metrics of a variant: medians, each with its unit and spread."""
    return "; ".join(f"{term(name)} {figure(m['median'])} {m['unit']} ({m['spread_text']})" for name, m in row["metrics"].items())


def share_text(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def ratio_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def published_text(row: dict[str, Any]) -> str:
    return f"{row['published']:,}"  # to its last digit


def missing_text(trial: dict[str, Any]) -> str:
    return f"{trial['id']}: {trial['state']}" + (f": {trial['message']}" if trial["message"] else "")


def text_table(summary: dict[str, Any], width: int = 100) -> str:
    """Return the summary for a terminal of ``width`` columns: figures with unit, spread and verdict, then what they mean.

    Columns give way from the least important on when the terminal is narrow; the figure, its spread and its verdict stay.
    """
    head = summary["headline"]
    columns = [
        ("variant", [row["variant"] for row in summary["rows"]], "<"),
        ("n", [count_text(row) for row in summary["rows"]], ">"),
        (f"{term(head['metric'])}, median{in_unit(head['unit'])}", [figure(row["median"]) for row in summary["rows"]], ">"),
        ("95 % CI", [interval_text(row) for row in summary["rows"]], ">"),
        ("spread", [row["spread_text"] for row in summary["rows"]], "<"),
        ("latency avg [ms]", [figure(row["latency"]["average"]) for row in summary["rows"]], ">"),
        ("p99 [ms]", [figure(row["latency"]["p99"]) for row in summary["rows"]], ">"),
        ("verdict", [verdict_text(row) for row in summary["rows"]], "<"),
    ]
    lines = _aligned(_fitted(columns, width, ("p99 [ms]", "latency avg [ms]", "95 % CI")))
    others = [f"{row['variant']}: {metrics_text(row)}" for row in summary["rows"] if row["metrics"]]
    lines += ["", *_wrapped(others, width)] if others else []
    if summary["scripts"] and len(summary["rows"]) <= 2:  # with more variants the report has them
        scripts = summary["scripts"]
        columns = [
            ("variant", [r["variant"] for r in scripts], "<"),
            (summary["script"], [r["script"] for r in scripts], "<"),
            ("share", [share_text(r["share"]) for r in scripts], ">"),
            *((f"{k} [ms]", [figure(r["latency"][k]) for r in scripts], ">") for k in LATENCIES),
        ]
        lines += ["", *_aligned(_fitted(columns, width, ("p50 [ms]", "share")))]
    if summary["comparisons"]:
        lines += ["", *_wrapped(map(comparison_text, summary["comparisons"]), width)]
    if summary["published"]:
        rows = summary["published"]
        lines += ["", "published and measured" + (" (scaled run: shape only)" if summary["scaled"] else "")]
        columns = [
            ("variant", [r["variant"] for r in rows], "<"),
            ("metric", [f"{term(r['metric'])}{in_unit(r['unit'])}" for r in rows], "<"),
            ("published", [published_text(r) for r in rows], ">"),
            ("measured", [figure(r["measured_median"]) for r in rows], ">"),
            ("ratio", [ratio_text(r["ratio"]) for r in rows], ">"),
            ("spread", [r["spread_text"] for r in rows], "<"),
            ("verdict", [r["verdict"] or ("not measured" if r["measured_median"] is None else "not judged") for r in rows], "<"),
        ]
        lines += _aligned(_fitted(columns, width, ("ratio",)))
        lines += _wrapped(
            (
                f"{r['variant']} to base, {term(r['metric'])}: published {r['published_to_base']:.3f}, measured {r['measured_to_base']:.3f}"
                for r in rows
                if r["published_to_base"] is not None and r["measured_to_base"] is not None
            ),
            width,
        )
    notable = [
        f"{name}: {f['severity']} {f['code']}: {f['message']}"
        for name, found in summary["findings_by_variant"].items()
        for f in found
        if f["severity"] != "note"
    ]
    lines += ["", *_wrapped(notable, width)] if notable else []
    found = [*summary["findings"], *(f for own in summary["findings_by_variant"].values() for f in own)]
    notes = dict.fromkeys(f["code"] for f in found if f["severity"] == "note")
    lines += ["", *_wrapped([f"notes: {', '.join(notes)}"], width)] if notes else []
    if summary["missing"]:
        lines += ["", *_wrapped((f"not measured: {missing_text(t)}" for t in summary["missing"]), width)]
    return "\n".join(lines)


Column = tuple[str, list[str], str]  # title, cells, alignment


def _fitted(columns: list[Column], width: int, droppable: Iterable[str]) -> list[Column]:
    """Return the columns that fit into ``width``: without some of the ``droppable`` ones, and with the names in the first one cut."""
    for title in droppable:
        if _line_width(columns) > width:
            columns = [c for c in columns if c[0] != title]
    title, names, align = columns[0]
    room = max(8, max(map(len, names)) - max(0, _line_width(columns) - width))
    return [(title, [v if len(v) <= room else v[: room - 1] + "…" for v in names], align), *columns[1:]]


def _wrapped(lines: Iterable[str], width: int) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, max(width, 20), subsequent_indent="  ", break_long_words=False)]


def _line_width(columns: Sequence[Column]) -> int:
    return sum(max(map(len, [title, *cells])) for title, cells, _ in columns) + 2 * (len(columns) - 1)


def _aligned(columns: Sequence[Column]) -> list[str]:
    widths = [max(map(len, [title, *cells])) for title, cells, _ in columns]
    lines = [[title for title, _, _ in columns], *([cells[i] for _, cells, _ in columns] for i in range(len(columns[0][1])))]
    return ["  ".join(f"{cell:{columns[i][2]}{widths[i]}}" for i, cell in enumerate(line)).rstrip() for line in lines]
