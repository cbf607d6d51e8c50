# GNU General Public License v3.0 or later (see LICENSE)
"""``report.md``: an experiment's report as text, from the same tables as the page."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import term
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_text import duration
from ansible_collections.pgsizing.bench.plugins.module_utils.report_tables import actual, facts, latencies, settings, statements
from ansible_collections.pgsizing.bench.plugins.module_utils.summary import (
    ALL_LATENCIES,
    LATENCIES,
    USED,
    comparison_text,
    count_text,
    figure,
    in_unit,
    interval_text,
    metrics_text,
    missing_text,
    percentile_name,
    published_text,
    ratio_text,
    share_text,
    verdict_text,
)


def _markdown_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    def line(cells: Iterable[Any]) -> str:
        return "| " + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in cells) + " |"

    return [line(titles), line("---" for _ in titles), *map(line, rows), ""]


def markdown(summary: dict[str, Any], experiment: dict[str, Any], trials: Sequence[dict[str, Any]]) -> str:
    """Return ``report.md``: the same content as the HTML report, without pictures."""
    plan, head = experiment["plan"], summary["headline"]
    lines = [f"# {experiment['experiment_id']}", "", *_about(summary, plan)]
    lines += ["## Result", "", *_result_table(summary)]
    if summary["comparisons"]:
        lines += ["## Comparisons", ""]
        lines += [f"- {comparison_text(c)}" for c in summary["comparisons"]]
        lines += [
            "",
            f"Ratios are of geometric means of {term(head['metric'])}; {head['better']} is better. Two-sided rank test, Holm's "
            f"correction, alpha = {summary['alpha']:g}. A difference that is not shown may still exist.",
            "",
        ]
    if plan.get("published"):
        lines += _published_section(summary, plan["published"])
    names = [row["variant"] for row in summary["rows"]]
    lines += [*_latency_section(summary, trials, names), "## Findings", ""]
    for title, found in [("plan", summary["findings"]), *summary["findings_by_variant"].items()]:
        lines += [f"### {title}", "", *(_finding_line(f) for f in found), ""] if found else []
    if summary["missing"]:
        lines += ["### not measured", "", *(f"- {missing_text(t)}" for t in summary["missing"]), ""]
    lines += _trials_section(trials, head)
    if summary["differences"]:
        lines += ["## What differs between the variants", ""]
        lines += _markdown_table(["", *names], ([d["name"], *(d["values"][n] for n in names)] for d in summary["differences"]))
    lines += [*_environment(summary, plan), *_effective(plan, trials, names)]
    lines += [*_time_section(trials, experiment), *_repeat_section(experiment)]
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
    titles = ["variant", "n", f"{term(head['metric'])}, median{in_unit(head['unit'])}", "95 % CI", "mean", "min to max", "spread"]
    titles += [f"latency {k} [ms]" for k in LATENCIES] + ["verdict"]
    rows = [
        [
            row["variant"] + (" (base)" if row["base"] and len(summary["rows"]) > 1 else ""),
            count_text(row),
            figure(row["median"]),
            interval_text(row),
            figure(row["mean"]),
            f"{figure(row['min'])} to {figure(row['max'])}",
            row["spread_text"],
            *(figure(row["latency"][k]) for k in LATENCIES),
            verdict_text(row),
        ]
        for row in summary["rows"]
    ]
    others = [f"- {row['variant']}: {metrics_text(row)}" for row in summary["rows"] if row["metrics"]]
    methods = sorted({f"{row['location_name']}, {row['ci_method']}" for row in summary["rows"] if row["ci_low"] is not None})
    lines = _markdown_table(titles, rows)
    lines += [f"95 % CI: {'; '.join(methods)}. Latencies are medians of the trials' figures.", ""] if methods else []
    lines += ["Medians of the other metrics:", "", *others, ""] if others else []
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
            f"{term(r['metric'])}{in_unit(r['unit'])}",
            published_text(r),
            figure(r["measured_median"]),
            ratio_text(r["ratio"]),
            r["n"],
            r["spread_text"],
            r["verdict"] or "-",
            ratio_text(r["published_to_base"]),
            ratio_text(r["measured_to_base"]),
            r["note"] or "",
        ]
        for r in summary["published"]
    )
    lines += _markdown_table(titles, rows)
    if summary["deviations"]:
        lines += ["### Deviations", ""]
        lines += _markdown_table(["what", "published", "here"], ([d["what"], d["published"], d["here"]] for d in summary["deviations"]))
    return lines


def _latency_section(summary: dict[str, Any], trials: Sequence[dict[str, Any]], names: Sequence[str]) -> list[str]:
    every = [f"{percentile_name(key)} [ms]" for key in ALL_LATENCIES]
    lines = []
    rows = latencies(trials, names)
    if rows:
        verdicts = {row["variant"]: verdict_text(row) for row in summary["rows"]}
        lines += ["## Latency", "", "Medians over the n used trials.", ""]
        lines += _markdown_table(
            ["variant", "n", *every, "verdict"],
            ([r["variant"], r["n"], *(figure(r["values"][k]) for k in ALL_LATENCIES), verdicts[r["variant"]]] for r in rows),
        )
    if summary["scripts"]:
        lines += [f"### By {summary['script']}", ""]
        lines += _markdown_table(
            ["variant", summary["script"], "n", "share of the transactions", *every],
            (
                [r["variant"], r["script"], r["n"], share_text(r["share"]), *(figure(r["latency"][k]) for k in ALL_LATENCIES)]
                for r in summary["scripts"]
            ),
        )
    known = statements(trials, names)
    if known:
        lines += ["### By statement", ""]
        lines += _markdown_table(
            ["statement", "script", *(f"{name}, average [ms]" for name in names)],
            ([s["text"], s["script"], *(figure(s["values"][name]) for name in names)] for s in known),
        )
    return lines


def _trials_section(trials: Sequence[dict[str, Any]], head: dict[str, Any]) -> list[str]:
    if not trials:
        return []
    titles = ["order", "trial", "verdict", f"{term(head['metric'])}{in_unit(head['unit'])}", "latency, average [ms]", "findings"]
    rows = (
        [
            t["position"],
            t["trial_id"],
            t["verdict"],
            figure(t["headline"]["value"]),
            figure((t.get("latency") or {}).get("average")),
            ", ".join(dict.fromkeys(f["code"] for f in t["findings"])),
        ]
        for t in trials
    )
    lines = ["## Trials", "", *_markdown_table(titles, rows)]
    for trial in trials:
        lines += [f"### {trial['trial_id']}: {trial['verdict']}", ""]
        lines += [f"- {name}: {text}" for name, text in facts(trial)]
        lines += [_finding_line(f) for f in trial["findings"] if f["severity"] != "note"]
        lines += [""]
    return lines


def _finding_line(finding: dict[str, Any]) -> str:
    trials = finding.get("trials")
    return f"- {finding['severity']} `{finding['code']}`: {finding['message']}" + (f" ({', '.join(trials)})" if trials else "")


def _environment(summary: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    environment = summary["environment"] or {}
    lines = ["## Environment", ""]
    rows: list[list[Any]] = []
    server, driver = environment.get("server") or {}, environment.get("driver") or {}
    hosts = {"server and driver": server} if server == driver else {"server": server, "driver": driver}
    rows += [[role, *fact] for role, host in hosts.items() for fact in _facts(host)]
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


def _effective(plan: dict[str, Any], trials: Sequence[dict[str, Any]], names: Sequence[str]) -> list[str]:
    """The settings that the server said are not at their default, of all variants beside each other."""
    known = {s["variant"]: {row["name"]: row["text"] for row in s["effective"]} for s in settings(plan["variants"], trials)}
    every = dict.fromkeys(name for own in known.values() for name in own)
    if not every:
        return []
    lines = ["### Settings in effect that are not at their default", ""]
    return lines + _markdown_table(["setting", *names], ([name, *(known[n].get(name, "") for n in names)] for name in every))


def _time_section(trials: Sequence[dict[str, Any]], experiment: dict[str, Any]) -> list[str]:
    estimate, took = experiment["plan"]["estimate"], actual(trials, experiment)
    rows = [["planned", p["what"], duration(p["seconds"])] for p in estimate["parts"]]
    rows += [["planned", "all, with building", f"about {duration(estimate['seconds'])}"]]
    rows += [["actual", name, duration(seconds)] for name, seconds in took["parts"]]
    sums = {"all trials": took["trials_s"], "from plan to the end of the last trial": took["wall_s"]}
    rows += [["actual", name, duration(seconds)] for name, seconds in sums.items() if seconds is not None]
    return ["## Planned and actual time", "", *_markdown_table(["", "", "time"], rows)]


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
