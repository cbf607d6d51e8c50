# GNU General Public License v3.0 or later (see LICENSE)
"""The report of an experiment: ``report.html`` (one file, opens offline), ``report.md`` and ``trials.csv``.

All three come from the artifacts alone, at any time: of a run in progress, interrupted, or with every trial failed.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES, SEVERITIES, term
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import dump_json, to_plain
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_text import duration
from ansible_collections.pgsizing.bench.plugins.module_utils.report_markdown import markdown, repeat_command
from ansible_collections.pgsizing.bench.plugins.module_utils.report_tables import actual, facts, latencies, settings, statements
from ansible_collections.pgsizing.bench.plugins.module_utils.summary import (
    ALL_LATENCIES,
    USED,
    comparison_text,
    figure,
    metrics_text,
    percentile_name,
    share_text,
    summarise,
)
from ansible_collections.pgsizing.bench.plugins.module_utils.units import human_size
from ansible_collections.pgsizing.bench.plugins.plugin_utils import report_charts as charts
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store, write_atomic

TEMPLATES = Path(__file__).parent / "templates"
TRIAL_COLUMNS = ("experiment_id", "trial_id", "variant", "repeat", "position", "state", "verdict", "metric", "value", "unit", "better")
COUNTS = ("processed", "failed", "failed_pct", "serialization_failures", "deadlock_failures", "retried", "skipped", "late")


def build(experiment_dir: Path) -> dict[str, Path]:
    """Write the report files into ``experiment_dir`` and return their paths under ``html``, ``markdown`` and ``csv``.

    ``StoreError`` when there is no readable experiment. A damaged ``series.csv`` costs its chart, not the report.
    """
    store = Store(experiment_dir)
    experiment, trials = store.experiment, store.trials()
    summary = summarise(experiment, trials)
    paths = {"html": store.directory / "report.html", "markdown": store.directory / "report.md", "csv": store.directory / "trials.csv"}
    write_atomic(paths["csv"], trials_csv(experiment, trials))
    write_atomic(paths["markdown"], markdown(summary, experiment, trials))
    write_atomic(paths["html"], page(experiment, trials, summary, store.directory, plotly_js()))
    return paths


def plotly_js() -> str | None:
    """Return the chart library as text, ``None`` when the Python package plotly is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        return None
    return get_plotlyjs()


# trials.csv --------------------------------------------------------------------------------------------------------


def trials_csv(experiment: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> str:
    """Return one row per planned trial, run or not, as CSV: identity, verdict, headline, metrics, latencies [ms], counts, codes."""
    by_id = {t["trial_id"]: t for t in trials}
    journal = experiment["journal"]["trials"]
    metrics = sorted({name for t in trials for name in t["metrics"]})
    rows = []
    for planned in experiment["plan"]["trials"]:
        trial = by_id.get(planned["id"], {})
        headline, latency, counts = (trial.get(k) or {} for k in ("headline", "latency", "counts"))
        row = {"experiment_id": experiment["experiment_id"], "trial_id": planned["id"], **planned, **headline}
        row |= {"state": journal.get(planned["id"], {}).get("state", "planned"), "verdict": trial.get("verdict")}
        row |= {f"metric_{name}": (trial.get("metrics") or {}).get(name, {}).get("value") for name in metrics}
        row |= {f"latency_{key}_ms": latency.get(key) for key in ALL_LATENCIES}
        row |= {name: counts.get(name) for name in COUNTS}
        row |= {"findings": " ".join(dict.fromkeys(f["code"] for f in trial.get("findings") or []))}
        rows.append(row)
    columns = [*TRIAL_COLUMNS, *(f"metric_{n}" for n in metrics), *(f"latency_{k}_ms" for k in ALL_LATENCIES), *COUNTS, "findings"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# report.html -------------------------------------------------------------------------------------------------------


def page(
    experiment: Mapping[str, Any], trials: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], directory: Path, plotly: str | None
) -> str:
    """Return the HTML page. ``plotly`` is the chart library; without it the page holds everything but the charts."""
    plan = experiment["plan"]
    names = [v["name"] for v in plan["variants"]]
    rate = _rate(trials, plan["headline"])
    series, problems = _series(trials, directory, rate)
    figures = _figures(trials, summary, names, series, rate)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        figure=figure,
        term=term,
        size=human_size,
        duration=duration,
        time=_time,
        link=_link,
        text=_text,
        comparison=comparison_text,
        json=dump_json,
        metrics=metrics_text,
        share=share_text,
    )
    return environment.get_template("report.html.j2").render(
        experiment=experiment,
        plan=plan,
        trials=[_trial(t) for t in trials],
        summary=summary,
        names=names,
        compared={c["variant"]: c for c in summary["comparisons"]},
        answers=answers(summary),
        order={name: number for number, name in enumerate(names)},
        latencies=latencies(trials, names),
        statements=statements(trials, names),
        latency_keys=[(k, percentile_name(k)) for k in ALL_LATENCIES],
        closed_loop=any(f["code"] == "closed_loop" for t in trials for f in t["findings"]),
        findings=_findings(summary),
        settings=settings(plan["variants"], trials),
        hosts=_hosts(trials),
        actual=actual(trials, experiment),
        command=repeat_command(experiment),
        files=sorted(
            p.name for p in directory.iterdir() if p.is_file() and not p.name.startswith((".", "report.html")) and p.name != "lock"
        ),
        problems=problems,
        steps={trial_id: step for trial_id, (_, step, _) in series.items()},
        opened=_opened(trials, names),
        drawn=set(figures) if plotly else set(),
        figures=Markup(_for_script(figures)) if plotly else None,
        plotly=Markup(plotly) if plotly else None,
        style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        script=Markup((TEMPLATES / "report.js").read_text(encoding="utf-8")),
    )


def _opened(trials: Sequence[Mapping[str, Any]], names: Sequence[str]) -> set[str]:
    """Return the trials whose charts are shown at once: the first used one of the first two variants."""
    used = [t for t in trials if t["verdict"] in USED]
    firsts = (next((t["trial_id"] for t in used if t["variant"] == name), None) for name in names[:2])
    return {trial_id for trial_id in firsts if trial_id}


def _for_script(value: Any) -> str:
    """Return ``value`` as JSON that no text in it can end: ``<`` never appears inside the script element."""
    return json.dumps(to_plain(value), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def answers(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the answer in plain words: one ``{text, strong, rest, kind, verdicts}`` per comparison, or one for a single variant.

    ``kind`` is ``better``, ``worse`` or ``open``: nothing is claimed that the statistics do not show. ``verdicts`` are the
    verdicts behind the answer that are not ``valid``, by variant.
    """
    head, rows = summary["headline"], {row["variant"]: row for row in summary["rows"]}
    if summary["comparisons"]:
        shown_first = sorted(summary["comparisons"], key=lambda c: c["conclusion"] not in ("faster", "slower"))
        said = [(_comparison_answer(c, term(head["metric"])), (c["base"], c["variant"])) for c in shown_first]
    else:
        said = [(_single_answer(row, head), (name, name)) for name, row in rows.items()]
    for answer, names in said:
        why = [f["message"] for n in names for f in summary["findings_by_variant"][n] if f["severity"] not in ("note", "suspect")]
        if answer["strong"].startswith("no") and why:
            answer["rest"] += f": {why[0]}"
    return [
        {**answer, "verdicts": {n: rows[n]["verdict"] for n in names if rows[n]["verdict"] not in (None, "valid")}}
        for answer, names in said
    ]


def _single_answer(row: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, str]:
    if not row["n_valid"]:
        return {"text": f"{row['variant']}: ", "strong": "no usable figure", "rest": f" (recorded trials: {row['n']})", "kind": "open"}
    rest = f", {'median of ' + str(row['n_valid']) + ' trials' if row['n_valid'] > 1 else 'one trial'}; {row['spread_text']}"
    if row["ci_low"] is not None:
        rest += f"; 95 % CI {figure(row['ci_low'])} to {figure(row['ci_high'])}"
    return {"text": f"{row['variant']}: ", "strong": f"{figure(row['median'])} {term(head['metric'])}", "rest": rest, "kind": "open"}


def _comparison_answer(c: Mapping[str, Any], metric: str) -> dict[str, str]:
    counts = f"{c['n']} and {c['n_base']} usable trials"
    if c["ratio"] is None:
        why = c["reason"] or counts
        return {"text": f"{c['variant']} against {c['base']}: ", "strong": "nothing to compare", "rest": f" ({why})", "kind": "open"}
    interval = f"95 % CI {c['ci_low']:.2f} to {c['ci_high']:.2f}" if c["ci_low"] is not None else "no CI"
    conclusion = f": {c['conclusion']}"
    if c["conclusion"] == "too few repeats":
        conclusion = f", but {counts} are too few to show a difference; it takes {c['repeats_needed']} each"
    kind = {"faster": "better", "slower": "worse"}.get(c["conclusion"], "open")
    return {
        "text": f"{c['variant']} {'measured' if kind == 'open' else 'is'} ",
        "strong": f"{c['ratio']:.2f}\N{MULTIPLICATION SIGN} {c['base']}",
        "rest": f" ({interval}) in {metric}{conclusion}",
        "kind": kind,
    }


def _rate(trials: Sequence[Mapping[str, Any]], headline: str) -> charts.Rate:
    """Return the rate to draw: the headline where the series holds it, else transactions."""
    units = {c["name"]: c["unit"] for t in trials if t.get("series") for c in t["series"]["columns"]}
    if headline in units:
        return charts.Rate(headline, term(headline), units[headline])
    return charts.Rate("tps", "rate", units.get("tps") or "1/s")


def _series(
    trials: Sequence[Mapping[str, Any]], directory: Path, rate: charts.Rate
) -> tuple[dict[str, tuple[float, float, charts.Series]], list[str]]:
    """Return each trial's series by its id, and what could not be read."""
    series, problems = {}, []
    for trial in trials:
        path = (trial.get("series") or {}).get("path")
        if path:
            try:
                series[trial["trial_id"]] = charts.read_series(directory / "trials" / trial["trial_id"] / path, rate.column)
            except (OSError, ValueError, KeyError, StopIteration) as error:
                problems.append(f"{trial['trial_id']}: {path} cannot be read: {error}")
    return series, problems


def _figures(
    trials: Sequence[Mapping[str, Any]],
    summary: Mapping[str, Any],
    names: Sequence[str],
    series: Mapping[str, tuple[float, float, charts.Series]],
    rate: charts.Rate,
) -> dict[str, Any]:
    """Return the figures of the page by the id of the element they are drawn in."""
    figures = {
        "dots": charts.dots(summary),
        "ratios": charts.ratios(summary),
        "overlay": charts.overlay(trials, series, names, rate),
        "percentiles": charts.percentiles(trials, names),
    }
    figures |= {f"trial-{trial_id}": charts.trial(*content, rate) for trial_id, content in series.items()}
    return {name: figure_ for name, figure_ in figures.items() if figure_}


def _trial(trial: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trial for the page: missing parts as empty ones, and its facts in a few words."""
    latency, counts = trial.get("latency") or {}, trial.get("counts") or {}
    return {
        **trial,
        "counts": {k: counts.get(k) for k in COUNTS},
        "latency": {k: latency.get(k) for k in ALL_LATENCIES},
        "facts": facts(trial),
    }


def _findings(summary: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return findings grouped by severity, worst first; one that several variants share is listed once."""
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for place, found in [("plan", summary["findings"]), *summary["findings_by_variant"].items()]:
        for f in found:
            row = merged.setdefault(
                (f["code"], f["message"]), {**f, "meaning": RULES[f["code"]].meaning if f["code"] in RULES else "", "where": []}
            )
            row["where"].append((place, f.get("trials") or []))
    groups = [(severity, [f for f in merged.values() if f["severity"] == severity]) for severity in reversed(SEVERITIES)]
    return [(severity, found) for severity, found in groups if found]


def _hosts(trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the hosts of the first trial that knows them: ``{roles, facts: [(name, text)], all}``; one entry when they are the same."""
    environment: Mapping[str, Any] = next(
        (t["environment"] for t in trials if t["environment"].get("server") or t["environment"].get("driver")), {}
    )
    server, driver = environment.get("server"), environment.get("driver")
    if server and (server == driver or not driver):
        entries = [("server and load generator" if driver else "server", server)]
    else:
        entries = [(role, host) for role, host in (("server", server), ("load generator", driver)) if host]
    return [{"role": role, "facts": list(_host_facts(host)), "all": host} for role, host in entries]


def _host_facts(host: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    yield "host", _text(host.get("hostname"))
    shape = [(host.get("cores"), "cores"), (host.get("sockets"), "socket(s)"), (host.get("numa_nodes"), "NUMA node(s)")]
    yield "CPU", "; ".join([_text(host.get("cpu_model")), ", ".join(f"{n} {what}" for n, what in shape if n is not None)])
    if host.get("memory_bytes"):
        yield "memory", f"{human_size(host['memory_bytes'])}; swap {human_size(host.get('swap_bytes') or 0)}"
    yield "system", f"{_text(host.get('os'))}, kernel {_text(host.get('kernel'))}, {_text(host.get('architecture'))}"
    yield "virtualization", host.get("virtualization") or "none seen"
    huge = host.get("huge_pages") or {}
    yield "huge pages", f"{_text(huge.get('total'))} reserved, {_text(huge.get('free'))} free; transparent: {_text(host.get('thp'))}"
    for use, fs in (host.get("filesystems") or {}).items():
        if isinstance(fs, Mapping):
            yield f"file system ({use})", f"{_text(fs.get('fstype'))} on {_text(fs.get('device'))}, {_text(fs.get('options'))}"


def _time(epoch: float | None) -> str:
    return "-" if epoch is None else datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _link(path: str) -> str:
    """Return a relative path as a link's target."""
    return quote(path)


def _text(value: Any) -> str:
    """Return any value as text for a cell; ``-`` when missing."""
    return "-" if value is None else value if isinstance(value, str) else json.dumps(to_plain(value), ensure_ascii=False)
