# GNU General Public License v3.0 or later (see LICENSE)
"""Repeats: what the trials of a variant among each other, and beside those of the base, say of how far they can be trusted.

Severities and thresholds stand in ``findings.RULES``; ``docs/verdicts.md`` explains each rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import stats
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES, finding

Finding = dict[str, Any]

#: A share of dead rows up to this is no bloat, however much larger than another one it may be.
BLOAT_LEAST = 0.01


def judge_repeats(trials: Sequence[dict[str, Any]], better: str = "higher") -> list[Finding]:
    """Return the findings on the repeats of one variant.

    ``trials``: ``{trial_id, repeat, position, value, blks_read, verdict}``, where ``blks_read`` may be ``None``. Only valid
    and suspect trials with a value count; ``better`` is ``higher`` or ``lower``.
    """
    used = [t for t in trials if t.get("value") is not None and t.get("verdict") in ("valid", "suspect")]
    used.sort(key=lambda t: (t.get("position") or 0, t.get("repeat") or 0))
    cold = _cold_first_run(used, better)
    return [f for f in (_spread(used), _trend(used), cold, None if cold else _outlier(used)) if f]


def judge_start(trials: Sequence[dict[str, Any]], base: Sequence[dict[str, Any]]) -> list[Finding]:
    """Return the finding on the state from which the trials of a variant and of the base started.

    Both hold ``{dead, live, verdict}``: rows before the run, ``None`` where they were not counted.
    """
    shares = []
    for side in (trials, base):
        known = [t for t in side if t.get("verdict") in ("valid", "suspect") and t.get("dead") is not None and t.get("live")]
        if not known:
            return []
        shares.append(median(t["dead"] / (t["dead"] + t["live"]) for t in known))
    most, limit = max(shares), RULES["bloat_differs"].threshold or 0
    if most <= BLOAT_LEAST or abs(shares[0] - shares[1]) <= limit * most:
        return []
    text = f"{100 * shares[0]:.1f} % of the rows were dead at the start, {100 * shares[1]:.1f} % with the base: they did not start alike"
    return [finding("bloat_differs", text, share=shares[0], base_share=shares[1])]


def judge_cache(trials: Sequence[dict[str, Any]], base: Sequence[dict[str, Any]]) -> list[Finding]:
    """Return the finding on what the buffer cache served to the trials of a variant and of the base, which have it of one size.

    Both hold ``{blks_read, blks_hit, verdict}``, ``None`` where they were not counted.
    """
    shares = []
    for side in (trials, base):
        known = [t for t in side if t.get("verdict") in ("valid", "suspect") and None not in (t.get("blks_read"), t.get("blks_hit"))]
        hits = [t["blks_hit"] / total for t in known if (total := t["blks_read"] + t["blks_hit"])]
        if not hits:
            return []
        shares.append(median(hits))
    if abs(shares[0] - shares[1]) <= (RULES["cache_differs"].threshold or 0):
        return []
    text = (
        f"{100 * shares[0]:.1f} % of the blocks were in shared_buffers, {100 * shares[1]:.1f} % with the base, of one size with both: "
        "not the same cache state"
    )
    return [finding("cache_differs", text, hits=shares[0], base_hits=shares[1])]


def _spread(trials: Sequence[dict[str, Any]]) -> Finding | None:
    values = [t["value"] for t in trials]
    spread = stats.cv(values)
    if spread is None or spread <= (RULES["spread"].threshold or 0):
        return None
    return finding(
        "spread",
        f"{len(values)} repeats disagree: CV {100 * spread:.1f} %, {min(values):,.1f} to {max(values):,.1f} around {median(values):,.1f}",
        cv=spread,
        n=len(values),
        median=median(values),
        min=min(values),
        max=max(values),
    )


def _trend(trials: Sequence[dict[str, Any]]) -> Finding | None:
    values = [t["value"] for t in trials]
    if len(values) < 4 or not median(values):
        return None
    test = stats.kendall(values)
    change = (values[-1] - values[0]) / median(values)
    # Four values in a row happen by chance once in twelve times: only a large change counts there.
    in_a_row = abs(test["s"]) == len(values) * (len(values) - 1) / 2
    if not ((test["p"] <= (RULES["trend"].threshold or 0) and abs(change) > 0.05) or (in_a_row and abs(change) > 0.25)):
        return None
    way = "rise" if test["s"] > 0 else "fall"
    return finding(
        "trend",
        f"the repeats {way} from one to the next ({100 * change:+.0f} %): something carries over between trials; they are not independent",
        values=values,
        s=test["s"],
        p=test["p"],
        change=change,
    )


def _outlier(trials: Sequence[dict[str, Any]]) -> Finding | None:
    """One of four or more that lies apart: what happened in it is not what the others measured."""
    if len(trials) < 4:
        return None
    usual = median(t["value"] for t in trials)
    odd = max(trials, key=lambda t: abs(t["value"] - usual))
    others = [t["value"] for t in trials if t is not odd]
    away, limit = abs(odd["value"] - median(others)), RULES["outlier"].threshold or 0
    if away <= 0.1 * abs(median(others)) or away <= limit * (max(others) - min(others)):
        return None
    span = f"{min(others):,.1f} to {max(others):,.1f}"
    return finding(
        "outlier",
        f"repeat {odd.get('repeat')} gave {odd['value']:,.1f}, the others {span}: look for what was different; it is not dropped",
        trial_id=odd.get("trial_id"),
        value=odd["value"],
        others=others,
    )


def _cold_first_run(trials: Sequence[dict[str, Any]], better: str) -> Finding | None:
    if len(trials) < 2:
        return None
    first, others = trials[0], trials[1:]
    values = [t["value"] for t in others]
    usual, worst = (median(values), min(values)) if better == "higher" else (median(values), max(values))
    behind = (worst - first["value"]) if better == "higher" else (first["value"] - worst)
    if not usual or behind <= 0.1 * abs(usual) or behind <= 3 * (max(values) - min(values)):
        return None
    reads = [t["blks_read"] for t in others if t.get("blks_read") is not None]
    known = first.get("blks_read") is not None and bool(reads)
    if known and first["blks_read"] < 2 * max(median(reads), 1):
        return None
    if not known and len(others) < 2:
        return None
    detail = "how much it read from disk is not known"
    if known:
        detail = f"it read {first['blks_read']:,} blocks, the others {median(reads):,.0f}"
    span = f"{min(values):,.1f} to {max(values):,.1f}"
    return finding(
        "cold_first_run",
        f"cold first run? Repeat {first.get('repeat')} gave {first['value']:,.1f}, the others {span}; {detail}",
        trial_id=first.get("trial_id"),
        value=first["value"],
        others=values,
        blks_read=first.get("blks_read"),
        blks_read_others=reads,
    )
