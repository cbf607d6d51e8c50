# GNU General Public License v3.0 or later (see LICENSE)
"""The plan as text for a terminal: what will run, where, with which settings and why, for how long."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.units import human_size


WIDTH = 110


def duration(seconds: float) -> str:
    """Return seconds as people say them: ``48 s``, ``3 min 20 s``, ``2 h 05 min``."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


def plan_text(experiment: Mapping[str, Any], machine: Mapping[str, Any]) -> list[str]:
    """Return the lines of the plan."""
    plan = experiment["plan"]
    lines = [f"PLAN {experiment['experiment_id']}", f"  where      {plan['where']['reason']}"]
    if plan["where"]["provider"] == "local":
        lines.append(
            f"             {machine['cores']} cores, {human_size(machine['memory_bytes'])} memory, {human_size(machine['disk_free_bytes'])} free in {machine['base_dir']}"
        )
    lines.append(f"  workload   {plan['workload']} by {plan['load_generator']}, headline metric {plan['headline']}")
    if plan["published"]:
        lines.append(f"  reproduces {plan['published']['title']} ({plan['published']['source']})")
    lines.append(f"  trials     {len(plan['trials'])} = {len(plan['variants'])} variant(s) x {plan['repeats']} repeat(s): {_order(plan)}")
    lines.append(f"  each from  reset {plan['reset']}, restart, cache {plan['cache']}")
    if plan["comparisons"]["count"]:
        lines.append(
            f"  to show a difference at alpha {plan['comparisons']['alpha']}, {plan['comparisons']['repeats_needed']} repeats are needed at the least"
        )
    estimate = plan["estimate"]
    lines.append(
        f"  estimate   about {duration(estimate['seconds'])}, {human_size(estimate['disk_bytes'])} of disk (first run; built data sets are reused)"
    )
    lines += [
        f"             {p['what']}: {duration(p['seconds'])}" + (f", {human_size(p['bytes'])}" if p["bytes"] else "") for p in estimate["parts"]
    ]
    common = _common(plan["variants"])
    for variant in plan["variants"]:
        lines += ["", *_variant_text(variant, common)]
    if common:
        shared = plan["variants"][0]["settings"]
        lines += ["", "  settings of every variant" if len(plan["variants"]) > 1 else "  settings"]
        lines += _settings_text([s for s in shared if s["name"] in common])
    if plan["scaling"]:
        lines += ["", "  scaled"] + [f"    {row['name']}: {row['from']} -> {row['to']}" for row in plan["scaling"]]
    if plan["deviations"]:
        lines += ["", "  deviations from the published run"]
        lines += [f"    {d['what']}: published {d['published']}; here {d['here']}" for d in plan["deviations"]]
    if plan["findings"]:
        lines += ["", "  findings"]
        lines += [line for f in plan["findings"] for line in _wrapped(f"{f['severity']} {f['code']}: {f['message']}", "    ")]
    return lines


def _order(plan: Mapping[str, Any]) -> str:
    names = [t["variant"] for t in plan["trials"]]
    shown = " ".join(names[:12])
    return shown + (" ..." if len(names) > 12 else "")


def _common(variants: Sequence[Mapping[str, Any]]) -> set[str]:
    """Names of the settings that every variant has with the same value."""
    texts = [{s["name"]: s["text"] for s in v["settings"]} for v in variants]
    return {name for name, text in texts[0].items() if all(t.get(name) == text for t in texts)} if texts else set()


def _variant_text(variant: Mapping[str, Any], common: set[str]) -> list[str]:
    parameters = {k: v for k, v in variant["parameters"].items() if v not in (None, False, [], {})}
    version = variant["postgres"]
    lines = [f"  variant {variant['name']}" + (" (base)" if variant["base"] else "")]
    lines += _wrapped(", ".join(f"{k} {_short(v)}" for k, v in parameters.items()), "    ")
    initdb = "".join(f", {k} {v}" for k, v in version["initdb"].items())
    lines.append(
        f"    PostgreSQL {version['version']}{initdb}, data set {variant['dataset']['fingerprint']} (about {human_size(variant['dataset']['bytes'])})"
    )
    return lines + _settings_text([s for s in variant["settings"] if s["name"] not in common])


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(str(v.get("name") or v.get("builtin") or v) if isinstance(v, dict) else str(v) for v in value) + "]"
    return str(value)


def _settings_text(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for s in settings:
        reason = s.get("reason") or s["origin"]
        replaces = f" (replaces {s['replaces']})" if s.get("replaces") else ""
        head = f"    {s['name']} = {s['text']}{replaces}"
        lines += textwrap.wrap(f"{head:<52} {reason}", WIDTH, subsequent_indent=" " * 53, break_long_words=False, drop_whitespace=True) or [
            head
        ]
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False)
