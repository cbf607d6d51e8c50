# GNU General Public License v3.0 or later (see LICENSE)
"""The plan as text for a terminal: what will run, where, with which settings and why, for how long."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.cost import HOURS_PER_MONTH
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import term
from ansible_collections.pgsizing.bench.plugins.module_utils.units import MIB, human_size

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
    if plan["where"]["provider"] in ("local", "inventory") and not machine.get("remote"):
        lines.append(
            f"             {machine['cores']} cores, {human_size(machine['memory_bytes'])} memory, "
            f"{human_size(machine['disk_free_bytes'])} free in {machine['base_dir']}"
        )
    for size in plan["hardware"]:
        lines += _hardware(size)
    lines.append(f"  workload   {plan['workload']} by {plan['load_generator']}, headline metric {term(plan['headline'])}")
    if plan["published"]:
        lines.append(f"  reproduces {plan['published']['title']} ({plan['published']['source']})")
    count = f"{len(plan['trials'])} = {len(plan['variants'])} variant(s) x {plan['repeats']} repeat(s)"
    lines += _wrapped(f"trials     {count}: {_order(plan)}", "  ")
    start = f"restart, cache {plan['cache']}" if plan["target"] == "managed" else "no restart, caches as they are"
    lines.append(f"  each from  reset {plan['reset']}, {start}")
    if plan["comparisons"]["count"]:
        compared = plan["comparisons"]
        lines.append(f"  to show a difference at alpha {compared['alpha']}, {compared['repeats_needed']} repeats are needed at the least")
    estimate = plan["estimate"]
    lines.append(
        f"  estimate   about {duration(estimate['seconds'])}, {human_size(estimate['disk_bytes'])} of disk "
        "(first run; built data sets are reused)"
    )
    lines += [
        f"             {p['what']}: {duration(p['seconds'])}" + (f", {human_size(p['bytes'])}" if p["bytes"] else "")
        for p in estimate["parts"]
    ]
    if plan["cost"]:
        lines += _cost(plan)
    common = _common(plan["variants"])
    for variant in plan["variants"]:
        lines += ["", *_variant_text(variant, plan, common)]
    if common:
        shared = plan["variants"][0]["settings"]
        lines += ["", f"  settings{' of every variant' if len(plan['variants']) > 1 else ''}{_from(shared)}"]
        lines += _settings_text([s for s in shared if s["name"] in common])
    if plan["scaling"]:
        lines += ["", "  scaled"] + [f"    {row['name']}: {row['from']} -> {row['to']}" for row in plan["scaling"]]
    if plan["deviations"]:
        lines += ["", "  deviations from the published run"]
        lines += [
            line for d in plan["deviations"] for line in _wrapped(f"{d['what']}: published {d['published']}; here {d['here']}", "    ")
        ]
    if plan["findings"]:
        lines += ["", "  findings"]
        lines += [line for text in _findings(plan["findings"]) for line in _wrapped(text, "    ")]
    for title, reasons in (("this run would be refused", plan["refused"]), ("not part of this version", plan["cannot_run"])):
        if reasons:
            lines += ["", f"  {title}", *(line for reason in reasons for line in _wrapped(reason, "    "))]
    return lines


def _hardware(size: Mapping[str, Any]) -> list[str]:
    """What is bought for a size, and what of its IOPS can be used."""
    lines = [f"  size {size['name']}"]
    for who, machine, facts in (("server", size, size["facts"]), ("driver", size["driver"], size["driver_facts"])):
        if machine:
            known = "nothing known of this type"
            if facts:
                known = (
                    f"{facts['vcpus']} vCPU ({facts['cores']} cores), {human_size(facts['memory_bytes'])} memory, {facts['architecture']}"
                )
            lines.append(f"    {who:<8} {machine['instance_type']}: {known}")
            lines += [f"             {role}: {_volume(volume)}" for role, volume in machine["volumes"].items()]
    limits = size["limits"]
    if limits:
        shown = {
            k: "?" if limits[k] is None else f"{limits[k]:,}"
            for k in ("provisioned_iops", "baseline_iops", "maximum_iops", "sustained_iops")
        }
        lines.append(
            f"    IOPS     {shown['provisioned_iops']} provisioned; the instance sustains {shown['baseline_iops']} and takes "
            f"{shown['maximum_iops']} at most: {shown['sustained_iops']} can be relied on"
        )
        lines.append(
            f"    MiB/s    {limits['sustained_bytes_per_s'] / MIB:,.0f} sustained, {limits['burst_bytes_per_s'] / MIB:,.0f} at most"
        )
    return lines


def _volume(volume: Mapping[str, Any]) -> str:
    more = [f"{volume[key]:,} {unit}" for key, unit in (("iops", "IOPS"), ("throughput", "MiB/s")) if volume[key]]
    return ", ".join([f"{volume['type']} {human_size(volume['bytes'])}", *more])


def _cost(plan: Mapping[str, Any]) -> list[str]:
    cost, seconds = plan["cost"], plan["estimate"]["seconds"]
    lines = []
    for size in plan["hardware"]:
        hourly = size["cost"]
        if not hourly["date"]:
            continue
        kinds = " + ".join(f"{kind} {usd / HOURS_PER_MONTH:,.3f}" for kind, usd in hourly["by_kind"].items() if usd)
        known = f", without {', '.join(hourly['unknown'])}" if hourly["unknown"] else ""
        rate = f"{hourly['known_usd_per_hour']:,.3f} USD an hour{known} = {kinds}"
        lines.append(f"             size {size['name']}: {rate} (prices of {hourly['date']})")
    total = f"{cost['known_usd']:,.2f} USD" if cost["usd"] is not None else f"not known; at least {cost['known_usd']:,.2f} USD"
    head = f"  cost       about {total} for {duration(seconds)} in {cost['region']}; budget_usd = {cost['budget_usd']:g}"
    return [head, *lines]


def _from(settings: Sequence[Mapping[str, Any]]) -> str:
    """Name the profile in a heading: its settings then show their reason only."""
    origin = next((s["origin"] for s in settings if s["origin"].startswith("profile ")), None)
    return f" (from {origin} unless another origin is named)" if origin else ""


def _findings(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence for each finding; those that say the same of several settings become one, so that none hides the others."""
    by_text: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for f in findings:
        by_text.setdefault((f"{f['severity']} {f['code']}", f["message"].removeprefix(str(f["evidence"].get("name")))), []).append(f)
    texts = []
    for (head, said), found in by_text.items():
        if len(found) == 1:
            texts.append(f"{head}: {found[0]['message']}")
        else:
            texts.append(f"{head}: {', '.join(f['evidence']['name'] for f in found)}{said.replace(' was ', ' were ', 1)}")
    return texts


def _order(plan: Mapping[str, Any]) -> str:
    names = [t["variant"] for t in plan["trials"]]
    shown = " ".join(names[:12])
    return shown + (" ..." if len(names) > 12 else "")


def _common(variants: Sequence[Mapping[str, Any]]) -> set[str]:
    """Names of the settings that every variant has with the same value."""
    texts = [{s["name"]: s["text"] for s in v["settings"]} for v in variants]
    return {name for name, text in texts[0].items() if all(t.get(name) == text for t in texts)} if texts else set()


def _variant_text(variant: Mapping[str, Any], plan: Mapping[str, Any], common: set[str]) -> list[str]:
    parameters = {k: v for k, v in variant["parameters"].items() if v is not None and v is not False and v not in ([], {})}
    parameters |= {"cache": variant["cache"]} if variant["cache"] != plan["cache"] else {}
    version = variant["postgres"]
    lines = [f"  variant {variant['name']}" + (" (base)" if variant["base"] else "")]
    lines += _wrapped(", ".join(f"{k} {_short(v)}" for k, v in parameters.items()), "    ")
    initdb = "".join(f", {k} {v}" for k, v in version["initdb"].items())
    data = variant["dataset"]
    server = f"PostgreSQL {version['version']}{initdb}" if plan["target"] == "managed" else "the server as it is"
    lines.append(f"    {server}, data set {data['fingerprint']} (about {human_size(data['bytes'])})")
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
