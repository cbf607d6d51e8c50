# GNU General Public License v3.0 or later (see LICENSE)
"""The answers of ``size`` and ``explain`` as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.sizing import by_whom
from ansible_collections.pgsizing.bench.plugins.module_utils.units import human_size

WIDTH = 110
#: Volumes as people say them.
ROLES = {"data": "data", "wal": "WAL", "root": "the root volume"}


def size_text(answer: Mapping[str, Any]) -> list[str]:
    """Return the lines of the answer of :func:`sizing.recommend`."""
    need, prices = answer["need"], answer["prices"]
    working_set = human_size(need["working_set_bytes"]) if need["working_set_bytes"] else "not given"
    lines = [
        f"SIZE for {need['nopm']:,.0f} NOPM on a database of {human_size(need['database_bytes'])}, working set {working_set}",
        f"  prices     {answer['region']}, " + (f"of {prices['date']}" if prices["date"] else "not known: no price file for this region"),
    ]
    if answer["recommended"] is None:
        best = next((c for c in answer["not_enough"] if not c["cannot"]), None)
        lines += ["", "  no size is known to do it" + (f"; the most is {best['nopm']:,.0f} NOPM, by {best['size']}" if best else "")]
        if answer["unmeasured"]:
            lines.append(f"  never measured, nothing is promised of them: {', '.join(answer['unmeasured'])}")
    for place, candidate in enumerate(answer["sizes"]):
        lines += ["", *_candidate(candidate, answer["evidence"], place == 0)]
    if answer["sizes"] and answer["not_enough"]:
        less = ", ".join(f"{c['size']} ({c['nopm']:,.0f})" for c in answer["not_enough"])
        lines += ["", f"  not enough: {less}"]
    if answer["unfit"]:
        lines += ["", "  cannot do it as described"]
        lines += [line for c in answer["unfit"] for text in c["cannot"] for line in _wrapped(f"- {text}", "    ")]
    lines += ["", "  how sure is this"]
    lines += [line for sentence in answer["uncertainty"] for line in _wrapped(f"- {sentence}", "    ")]
    if answer["recommended"]:
        lines += ["", f"  measure it before you buy it: ansible-playbook benchmark.yml -e size={answer['recommended']} --check"]
    return lines


def _candidate(c: Mapping[str, Any], evidence: str, first: bool) -> list[str]:
    cores = f" ({c['cores']} cores)" if c["cores"] else ""
    mark = "" if not first else "   <- recommended" if evidence == "shown" else "   <- the cheapest that may do it: not shown"
    lines = [
        f"  {c['size']}: {c['instance_type'] or 'own machine'}, {c['vcpus']} vCPU{cores}, {human_size(c['memory_bytes'])} memory{mark}"
    ]
    lines += _wrapped(f"NOPM     {_promise(c)}", "    ", 9)
    if c["iops"]["provide"]:
        lines += _wrapped(f"IOPS     {_iops(c)}", "    ", 9)
    if c["data_volume"] and c["data_volume"]["bytes"] != c["data_volume"]["measured_bytes"]:
        data = c["data_volume"]
        was = human_size(data["measured_bytes"])
        lines.append(f"    disk     {human_size(data['bytes'])} for the data instead of {was}, to be no fuller than 80 %")
    rented = _cost(c["cost"]) if c["instance_type"] else "nothing is rented; what your own machine costs is not known here"
    lines.append(f"    a month  {rented}")
    if c["usd_per_million_new_orders"] is not None:
        lines.append(f"             {c['usd_per_million_new_orders']:.2f} USD for a million new orders, at your rate around the clock")
    lean = c["cost_lean"]["usd_per_month"]
    if lean is not None and lean < c["cost"]["usd_per_month"]:
        each = set(c["lean_iops"].values())
        told = f"{each.pop():,} IOPS on each volume" if len(each) == 1 else _each(c["lean_iops"])
        lines.append(f"             {lean:,.2f} USD with {told}; it was not measured so")
    return lines


def _promise(c: Mapping[str, Any]) -> str:
    direct, by = c["measured"], c["promised_by"]
    parts = []
    if direct:
        runs = f"{direct['n']} run{'s' if direct['n'] > 1 else ''}" + (f", CV {direct['cv']:.1%}" if direct["cv"] is not None else "")
        kind = "your own" if direct["kind"] == "own" else "published"
        parts.append(f"{direct['nopm']:,.0f} measured ({kind}, {runs}, {human_size(direct['database_bytes'])})")
    if by and (not direct or by["size"] != direct["size"]):
        parts.append(f"{by['nopm']:,.0f} shown for your case, by {by_whom(c)}")
    if not by:
        parts.append("nothing shown for your case")
    headroom = c["headroom"] if by and c["headroom"] >= 0 else None
    if headroom is not None:
        parts.append(f"headroom {headroom:.0%}")
    elif c["figure_headroom"] is not None:
        parts.append(f"headroom {c['figure_headroom']:.0%} if the larger data cost nothing")
    return "; ".join(parts)


def _iops(c: Mapping[str, Any]) -> str:
    iops = c["iops"]
    parts = []
    if iops["used"]:
        then = f" of {iops['provisioned_then']:,} provisioned" if iops["provisioned_then"] else ""
        parts.append(f"{iops['used']:,.0f} used{then} when it was measured")
    of = "" if iops["per_new_order_of"] == c["size"] else f", as {iops['per_new_order_of']} read and wrote"
    parts.append(f"{iops['expected']:,.0f} at your rate ({iops['per_new_order']:.2f} for a new order{of})")
    if not iops["on"]:
        return "; ".join([*parts, "none can be provisioned for its volumes"])
    roles = [ROLES.get(role, role) for role in iops["on"]]
    text = f"provide {iops['provide']:,} on {' and '.join(roles)}{' each' if len(roles) > 1 else ''}"
    limit = iops["sustained_by_instance"]
    if limit and iops["provide"] > limit:
        text += f", more than the {limit:,} that the instance sustains"
    return "; ".join([*parts, text])


def _each(iops: Mapping[str, int]) -> str:
    return ", ".join(f"{amount:,} IOPS on {ROLES.get(role, role)}" for role, amount in iops.items())


def _cost(cost: Mapping[str, Any]) -> str:
    kinds = [f"{kind} {usd:,.2f}" for kind, usd in cost["by_kind"].items() if usd]
    return f"{_total(cost)} = {' + '.join(kinds)}" if kinds else _total(cost)


def _total(cost: Mapping[str, Any]) -> str:
    if cost["usd_per_month"] is None:
        return f"not known: no price for {', '.join(cost['unknown'])}"
    return f"{cost['usd_per_month']:,.2f} USD"


def explain_text(answer: Mapping[str, Any], machine: str) -> list[str]:
    """Return the lines of the answer of :func:`profiles.explain`; ``machine`` says what the size is."""
    engine = "EPAS" if answer["engine"] == "epas" else "PostgreSQL"
    lines = [f"PROFILE {answer['profile']} for size {answer['size']} ({machine}), {engine} {answer['version']}"]
    about = [answer["description"], answer["source"], *(answer["notes"] or ())]
    lines += [line for text in about if text for line in _wrapped(text, "  ")]
    for title, rows in (
        ("set", [r for r in answer["rows"] if not r["not_set"]]),
        ("not set", [r for r in answer["rows"] if r["not_set"]]),
    ):
        if rows:
            lines += ["", f"  {title} ({len(rows)})"]
        for row in rows:
            lines += _row(row)
    doubts = [f["message"] for f in answer["findings"] if f["code"] == "profile_doubtful"]
    lines += [line for text in doubts for line in ["", *_wrapped(text, "  ")]]
    return lines


def _row(row: Mapping[str, Any]) -> list[str]:
    name = f"{row['name']} (now {row['became']})" if row["became"] else row["name"]
    instead = row["instead"]
    said = [
        ("why", row["reason"]),
        ("note", row["note"]),
        ("not set", row["not_set"]),
        *(("wrong", text) for text in row["wrong"]),
        ("instead", f"as_intended: {instead['text']} ({instead['reason']})" if instead else None),
    ]
    lines = _wrapped(f"{name} = {row['text']}", "    ")
    for label, text in said:
        if text:
            lines += _wrapped(f"{label:<9}{text}", "        ", 9)
    return lines


def _wrapped(text: str, indent: str, hang: int = 2) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + " " * hang, break_long_words=False, break_on_hyphens=False
    )
