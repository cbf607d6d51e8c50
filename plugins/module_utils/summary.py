# GNU General Public License v3.0 or later (see LICENSE)
"""From an experiment and its trials to the answer: rows, comparisons, published beside measured; as data and as text.

Only valid and suspect trials feed a statistic. The others are counted and listed, never averaged, never ranked.
"""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import stats
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import SEVERITIES, VERDICTS
from ansible_collections.pgsizing.bench.plugins.module_utils.verdict import judge_repeats

USED = ("valid", "suspect")
LATENCIES = ("average", "p50", "p95", "p99", "max")
UNITS = {"latency": "ms", "load_seconds": "s", "build_seconds": "s"}


def summarise(experiment: dict[str, Any], trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of an experiment as it stands; trials may be missing.

    ``{experiment_id, headline: {metric, unit, better, base}, scaled, rows, comparisons, repeat_findings, published, findings,
    findings_by_variant, differences, deviations, missing, environment}``:

    rows: one per variant, ``{variant, base, n, n_valid, verdict (worst), verdicts: {verdict: count}, values, trials, median, mean,
    location, location_name, min, max, cv, ci_low, ci_high, ci_method, spread_text, latency: {average, p50, p95, p99, max}
    (medians, ms), failed_pct, cost}``; ``n`` trials were recorded, ``n_valid`` of them are used.
    comparisons: as ``stats.compare_all``. repeat_findings: ``{variant: findings}``. findings: those of the plan.
    published: ``{variant, metric, unit, published, measured_median, n, spread_text, verdict, ratio, note, published_to_base,
    measured_to_base}``; ``verdict`` is ``None`` where no trial stands behind the figure (a load).
    differences: ``{name, values: {variant: text}}``. missing: planned trials without result.
    """
    plan = experiment["plan"]
    variants = plan["variants"]
    base = next((v["name"] for v in variants if v.get("base")), variants[0]["name"])
    by_variant = {v["name"]: [t for t in trials if t["variant"] == v["name"]] for v in variants}
    headline = _headline(plan, trials) | {"base": base}
    repeat_findings = {name: judge_repeats([_repeat(t) for t in own], headline["better"]) for name, own in by_variant.items()}
    rows = [_row(name, name == base, own, repeat_findings[name]) for name, own in by_variant.items()]
    alpha = (plan.get("comparisons") or {}).get("alpha", stats.ALPHA)
    comparisons = stats.compare_all({row["variant"]: row["values"] for row in rows}, base, headline["better"], alpha)
    scaled = bool(plan.get("scaling"))
    recorded = {t["trial_id"] for t in trials}
    journal = experiment.get("journal") or {}
    return {
        "experiment_id": experiment["experiment_id"],
        "headline": headline,
        "scaled": scaled,
        "end": journal.get("end"),
        "rows": rows,
        "comparisons": comparisons,
        "alpha": alpha,
        "repeat_findings": {name: found for name, found in repeat_findings.items() if found},
        "published": _published(experiment, by_variant, rows, base, scaled),
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


def _repeat(trial: dict[str, Any]) -> dict[str, Any]:
    observation = (trial.get("environment") or {}).get("observation") or {}
    return {
        **{k: trial.get(k) for k in ("trial_id", "repeat", "position", "verdict")},
        "value": _value(trial),
        "blks_read": (observation.get("postgres") or {}).get("blks_read"),
    }


def _row(name: str, base: bool, trials: Sequence[dict[str, Any]], repeat_findings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    used = [t for t in trials if _value(t) is not None]
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
        "latency": {k: _median((t.get("latency") or {}).get(k) for t in used) for k in LATENCIES},
        "failed_pct": _median((t.get("counts") or {}).get("failed_pct") for t in used),
        "cost": next((t["cost"] for t in used if t.get("cost")), None),
    }


def _verdict_of(finding: dict[str, Any]) -> str:
    return VERDICTS[SEVERITIES.index(finding["severity"])]


def _median(values: Iterable[float | None]) -> float | None:
    present = [v for v in values if v is not None]
    return float(median(present)) if present else None


def _findings(trials: Sequence[dict[str, Any]], repeat_findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the findings of a variant, worst first, each once with the trials that have it; ``message`` is the first one's."""
    merged: dict[str, dict[str, Any]] = {}
    for finding, trial_id in [*((f, None) for f in repeat_findings), *((f, t["trial_id"]) for t in trials for f in t["findings"])]:
        key = finding["code"] if finding["code"] != "not_checked" else finding["message"]
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
    experiment: dict[str, Any], by_variant: dict[str, list[dict[str, Any]]], rows: Sequence[dict[str, Any]], base: str, scaled: bool
) -> list[dict[str, Any]]:
    figures = (experiment["plan"].get("published") or {}).get("figures") or []
    verdicts = {row["variant"]: row["verdict"] for row in rows}
    result = []
    for figure in figures:
        metric, variant = _metric(figure), figure.get("variant") or base
        sample, notes = _sample(experiment, by_variant, variant, metric)
        judged = bool(sample) and not notes
        of_base = _sample(experiment, by_variant, base, metric)[0]
        measured, measured_base = _median(sample), _median(of_base)
        published_base = next((f["value"] for f in figures if _metric(f) == metric and (f.get("variant") or base) == base), None)
        other = variant != base
        ratio = measured / figure["value"] if measured is not None and figure["value"] and not scaled else None
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
                "measured_to_base": measured / measured_base if other and measured is not None and measured_base else None,
            }
        )
    return result


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


def _interval(row: dict[str, Any]) -> str:
    return "-" if row["ci_low"] is None else f"{figure(row['ci_low'])} to {figure(row['ci_high'])}"


def _count(row: dict[str, Any]) -> str:
    return str(row["n"]) if row["n"] == row["n_valid"] else f"{row['n_valid']} of {row['n']}"


def _verdicts(row: dict[str, Any]) -> str:
    """The worst verdict, with the count of each when they differ; a rate is not shown without its share of failures."""
    if row["verdict"] is None:
        return "not run"
    text = row["verdict"]
    if len(row["verdicts"]) > 1 or list(row["verdicts"]) != [row["verdict"]]:
        text += " (" + ", ".join(f"{n} {v}" for v, n in row["verdicts"].items()) + ")"
    return text + (f", {row['failed_pct']:.2f} % failed" if row["failed_pct"] else "")


def _unit(unit: str | None) -> str:
    return f" [{unit}]" if unit else ""


def comparison_text(comparison: dict[str, Any]) -> str:
    """Return one comparison in plain words."""
    c = comparison
    start = f"{c['variant']} against {c['base']}: "
    if c["ratio"] is None:
        return f"{start}{c['conclusion']}: {c['n']} and {c['n_base']} usable trials"
    interval = f" (95 % CI {c['ci_low']:.3f} to {c['ci_high']:.3f})" if c["ci_low"] is not None else " (no CI)"
    if c["conclusion"] == "too few repeats":
        return (
            f"{start}{c['ratio']:.3f} times{interval}, too few repeats: {c['n']} and {c['n_base']}, {c['repeats_needed']} each are needed"
        )
    adjusted = f", adjusted {c['p_adjusted']:.3g}" if c["p_adjusted"] != c["p"] else ""
    return f"{start}{c['ratio']:.3f} times{interval}, {c['conclusion']} (p = {c['p']:.3g}{adjusted})"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _published_figure(row: dict[str, Any]) -> str:
    return f"{row['published']:,}"  # to its last digit


def _missing_text(trial: dict[str, Any]) -> str:
    return f"{trial['id']}: {trial['state']}" + (f": {trial['message']}" if trial["message"] else "")


def text_table(summary: dict[str, Any], width: int = 100) -> str:
    """Return the summary for a terminal of ``width`` columns: figures with unit, spread and verdict, then what they mean.

    Columns give way from the least important on when the terminal is narrow; the figure, its spread and its verdict stay.
    """
    head = summary["headline"]
    columns = [
        ("variant", [row["variant"] for row in summary["rows"]], "<"),
        ("n", [_count(row) for row in summary["rows"]], ">"),
        (f"{head['metric']}, median{_unit(head['unit'])}", [figure(row["median"]) for row in summary["rows"]], ">"),
        ("95 % CI", [_interval(row) for row in summary["rows"]], ">"),
        ("spread", [row["spread_text"] for row in summary["rows"]], "<"),
        ("latency avg [ms]", [figure(row["latency"]["average"]) for row in summary["rows"]], ">"),
        ("p99 [ms]", [figure(row["latency"]["p99"]) for row in summary["rows"]], ">"),
        ("verdict", [_verdicts(row) for row in summary["rows"]], "<"),
    ]
    lines = _aligned(_fitted(columns, width, ("p99 [ms]", "latency avg [ms]", "95 % CI")))
    if summary["comparisons"]:
        lines += ["", *_wrapped(map(comparison_text, summary["comparisons"]), width)]
    if summary["published"]:
        rows = summary["published"]
        lines += ["", "published and measured" + (" (scaled run: shape only)" if summary["scaled"] else "")]
        columns = [
            ("variant", [r["variant"] for r in rows], "<"),
            ("metric", [f"{r['metric']}{_unit(r['unit'])}" for r in rows], "<"),
            ("published", [_published_figure(r) for r in rows], ">"),
            ("measured", [figure(r["measured_median"]) for r in rows], ">"),
            ("ratio", [_ratio(r["ratio"]) for r in rows], ">"),
            ("spread", [r["spread_text"] for r in rows], "<"),
            ("verdict", [r["verdict"] or ("not measured" if r["measured_median"] is None else "not judged") for r in rows], "<"),
        ]
        lines += _aligned(_fitted(columns, width, ("ratio",)))
        lines += _wrapped(
            (
                f"{r['variant']} to base, {r['metric']}: published {r['published_to_base']:.3f}, measured {r['measured_to_base']:.3f}"
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
        lines += ["", *_wrapped((f"not measured: {_missing_text(t)}" for t in summary["missing"]), width)]
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


# report.md ---------------------------------------------------------------------------------------------------------


def _markdown_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    def line(cells: Iterable[Any]) -> str:
        return "| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in cells) + " |"

    return [line(titles), line("---" for _ in titles), *map(line, rows), ""]


def markdown(summary: dict[str, Any], experiment: dict[str, Any]) -> str:
    """Return ``report.md``: the same content as the HTML report, without pictures."""
    plan, head = experiment["plan"], summary["headline"]
    lines = [f"# {experiment['experiment_id']}", "", *_about(summary, plan)]
    lines += ["## Result", "", *_result_table(summary)]
    if summary["comparisons"]:
        lines += ["## Comparisons", ""]
        lines += [f"- {comparison_text(c)}" for c in summary["comparisons"]]
        lines += [
            "",
            f"Ratios are of geometric means of {head['metric']}; {head['better']} is better. Two-sided rank test, Holm's correction, ",
        ]
        lines[-1] += f"alpha = {summary['alpha']:g}. A difference that is not shown may still exist."
        lines += [""]
    if plan.get("published"):
        lines += _published_section(summary, plan["published"])
    lines += ["## Findings", ""]
    for title, found in [("plan", summary["findings"]), *summary["findings_by_variant"].items()]:
        lines += [f"### {title}", "", *(_finding_line(f) for f in found), ""] if found else []
    if summary["missing"]:
        lines += ["### not measured", "", *(f"- {_missing_text(t)}" for t in summary["missing"]), ""]
    if summary["differences"]:
        names = [row["variant"] for row in summary["rows"]]
        lines += ["## What differs between the variants", ""]
        lines += _markdown_table(["", *names], ([d["name"], *(d["values"][n] for n in names)] for d in summary["differences"]))
    lines += [*_environment(summary, plan), *_repeat_section(experiment)]
    return "\n".join(lines).rstrip() + "\n"


def _about(summary: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    where = plan.get("where") or {}
    recorded = sum(row["n"] for row in summary["rows"])
    lines = [f"{plan['workload']} by {plan.get('load_generator')}; {where.get('reason') or plan.get('size')}", ""]
    lines += [
        f"{recorded} of {recorded + len(summary['missing'])} trials recorded. Reset: {plan.get('reset')}, cache: {plan.get('cache')}.",
        "",
    ]
    if summary["end"] and summary["end"].get("state") != "finished":
        lines += [f"**{summary['end']['state']}**: {summary['end'].get('cause') or 'no cause recorded'}", ""]
    if plan.get("scaling"):
        lines += ["**Scaled run, shape only**: its variants may be compared with each other, never with a published figure.", ""]
        lines += _markdown_table(["scaled", "from", "to"], ([s["name"], s["from"], s["to"]] for s in plan["scaling"]))
    return lines


def _result_table(summary: dict[str, Any]) -> list[str]:
    head = summary["headline"]
    titles = ["variant", "n", f"{head['metric']}, median{_unit(head['unit'])}", "95 % CI", "mean", "min to max", "spread"]
    titles += [f"latency {k} [ms]" for k in LATENCIES] + ["verdict"]
    rows = [
        [
            row["variant"] + (" (base)" if row["base"] and len(summary["rows"]) > 1 else ""),
            _count(row),
            figure(row["median"]),
            _interval(row),
            figure(row["mean"]),
            f"{figure(row['min'])} to {figure(row['max'])}",
            row["spread_text"],
            *(figure(row["latency"][k]) for k in LATENCIES),
            _verdicts(row),
        ]
        for row in summary["rows"]
    ]
    methods = sorted({f"{row['location_name']}, {row['ci_method']}" for row in summary["rows"] if row["ci_low"] is not None})
    lines = _markdown_table(titles, rows)
    lines += [f"95 % CI: {'; '.join(methods)}. Latencies are medians of the trials' figures.", ""] if methods else []
    unused = [t for row in summary["rows"] for t in row["trials"] if t["verdict"] not in USED]
    if unused:
        lines += ["Not in the figures above:", ""]
        lines += _markdown_table(["trial", "verdict", "figure"], ([t["trial_id"], t["verdict"], figure(t["value"])] for t in unused))
    return lines


def _published_section(summary: dict[str, Any], published: dict[str, Any]) -> list[str]:
    lines = ["## Published and measured", "", f"{published.get('title')}: {published.get('source')}", ""]
    titles = ["variant", "metric", "published", "measured, median", "measured / published", "n", "spread", "verdict"]
    titles += ["to base, published", "to base, measured", ""]
    rows = (
        [
            r["variant"],
            f"{r['metric']}{_unit(r['unit'])}",
            _published_figure(r),
            figure(r["measured_median"]),
            _ratio(r["ratio"]),
            r["n"],
            r["spread_text"],
            r["verdict"] or "-",
            _ratio(r["published_to_base"]),
            _ratio(r["measured_to_base"]),
            r["note"] or "",
        ]
        for r in summary["published"]
    )
    lines += _markdown_table(titles, rows)
    if summary["deviations"]:
        lines += ["### Deviations", ""]
        lines += _markdown_table(["what", "published", "here"], ([d["what"], d["published"], d["here"]] for d in summary["deviations"]))
    return lines


def _finding_line(finding: dict[str, Any]) -> str:
    trials = finding.get("trials")
    return f"- {finding['severity']} `{finding['code']}`: {finding['message']}" + (f" ({', '.join(trials)})" if trials else "")


def _environment(summary: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    environment = summary["environment"] or {}
    lines = ["## Environment", ""]
    rows: list[list[Any]] = []
    for role in ("server", "driver"):
        host = environment.get(role) or {}
        rows += [[role, *fact] for fact in _facts(host)]
    postgres = environment.get("postgres") or {}
    rows += [["PostgreSQL", "version", postgres["version"]]] if postgres.get("version") else []
    rows += [["PostgreSQL", f"initdb {k}", v] for k, v in (postgres.get("initdb") or {}).items()]
    lines += _markdown_table(["", "", ""], rows) if rows else ["not recorded", ""]
    differing = {d["name"] for d in summary["differences"]}
    shared = [s for s in (plan["variants"][0].get("settings") or []) if s["name"] not in differing]
    if shared:
        lines += ["### Settings of every variant", ""]
        lines += _markdown_table(["setting", "value", "from"], ([s["name"], s["text"], s.get("reason") or s["origin"]] for s in shared))
    return lines


def _facts(value: dict[str, Any], prefix: str = "") -> list[list[Any]]:
    """Return nested facts as rows ``[name, value]``; missing ones are left out."""
    rows: list[list[Any]] = []
    for key, content in value.items():
        name = f"{prefix}{key.replace('_', ' ')}"
        if isinstance(content, dict):
            rows += _facts(content, f"{name} ")
        elif content not in (None, "", []):
            rows.append([name, content if isinstance(content, (str, int, float)) else json.dumps(content, ensure_ascii=False)])
    return rows


def _repeat_section(experiment: dict[str, Any]) -> list[str]:
    again = repeat_command(experiment)
    return ["## How to repeat it", "", f"With {again['with']}:", "", "```sh", again["command"], "```", ""]


def repeat_command(experiment: dict[str, Any]) -> dict[str, str]:
    """Return ``{with, command}``: the version that was used, and the command that asks for the same experiment."""
    collection = experiment.get("collection") or {}
    words, structured = ["ansible-playbook", "benchmark.yml"], {}
    for name, value in experiment["plan"]["inputs"].items():
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and re.fullmatch(r"[\w.:/,+-]+", str(value)):
            words += ["-e", f"{name}={value}"]
        else:
            structured[name] = value
    words += ["-e", json.dumps(structured, ensure_ascii=False)] if structured else []
    version = f"pgsizing.bench {collection.get('version')}" + (
        f", commit {collection['git_commit']}" if collection.get("git_commit") else ""
    )
    return {"with": version, "command": shlex.join(words)}
