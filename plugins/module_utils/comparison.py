# GNU General Public License v3.0 or later (see LICENSE)
"""Which results may be compared: those whose comparison keys agree, apart from what the plan itself makes differ.

A *key* is ``comparison_key`` of ``trial.json``: what was asked for and what was found of server, load generator and machine. A fact that
is not known (``None``) contradicts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding

#: Facts that the plan alone decides: two variants differ in them where somebody asked for it.
PLANNED = ("parameters", "dataset", "cache", "initdb")
#: Of two figures of one fact this much is the same: a kernel keeps a little more or less of the memory after a restart.
ALIKE = 0.01
#: Settings that are named in a message, at the most.
NAMED = 5


def differing(trials: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return ``{fact: its values, in order}`` for the facts of the keys on which trials disagree; ``machine.cores`` for nested ones."""
    found: dict[str, list[Any]] = {}
    for trial in trials:
        for name, value in _facts(trial.get("comparison_key") or {}).items():
            values = found.setdefault(name, [])
            if value is not None and not any(_alike(value, known) for known in values):
                values.append(value)
    return {name: values for name, values in found.items() if len(values) > 1}


def _facts(key: Mapping[str, Any]) -> dict[str, Any]:
    machine = {f"machine.{name}": value for name, value in (key.get("machine") or {}).items()}
    generator = key.get("load_generator")
    # Its version may be unknown where its name is known.
    parts = dict(zip(("load_generator", "load_generator.version"), generator, strict=False)) if isinstance(generator, list) else {}
    return {**{k: v for k, v in key.items() if k not in ("machine", "load_generator")}, **parts, **machine}


def _alike(one: Any, other: Any) -> bool:
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (one, other))
    return math.isclose(one, other, rel_tol=ALIKE) if numbers else one == other


def apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values differ, or that one of two mappings lacks; those of ``one`` first."""
    return [key for key in {**one, **other} if one.get(key) != other.get(key)]


def may_differ(variant: Mapping[str, Any], base: Mapping[str, Any]) -> set[str]:
    """Return the facts in which a variant of the plan differs from another one because it was asked to, or as a consequence of that."""
    names = set(PLANNED)
    servers = [v.get("postgres") or {} for v in (variant, base)]
    if _asked_apart(variant, base) or servers[0] != servers[1]:
        names |= {"settings", "autovacuum", "huge_pages"}
    if servers[0].get("version") != servers[1].get("version"):
        names |= {"server_version", "load_generator.version"}  # client programs come with the server
    if variant.get("size") != base.get("size"):
        names |= {"machine", "driver_on_server", "huge_pages"}
    return names


def _asked_apart(variant: Mapping[str, Any], base: Mapping[str, Any]) -> set[str]:
    """Return the names of the settings that the plan gives two variants differently."""
    return set(apart(*({s["name"]: s["text"] for s in v.get("settings") or []} for v in (variant, base))))


def conditions(trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the finding on repeats of one variant that were not measured under the same conditions; none when they were."""
    unlike = differing(trials)
    if not unlike:
        return []
    text = f"the repeats were not measured under the same conditions: {_texts(unlike, trials)}"
    return [finding("conditions_differ", text, facts=unlike)]


def incomparable(
    trials: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]], variant: Mapping[str, Any], of_base: Mapping[str, Any]
) -> str | None:
    """Return why the used trials of a variant must not be ranked against those of the base; ``None`` when they may.

    ``variant`` and ``of_base`` are those of the plan.
    """
    if not trials or not base:
        return None
    allowed = may_differ(variant, of_base)
    unlike = {k: v for k, v in differing([*base, *trials]).items() if k not in allowed and k.partition(".")[0] not in allowed}
    if unlike:
        return f"not measured under the same conditions: {_texts(unlike, [*base, *trials])}"
    names = [name for name in _settings([*base, *trials]) if name not in _asked_apart(variant, of_base)]
    if names and variant.get("postgres") == of_base.get("postgres"):
        return f"not measured under the same conditions: settings that nobody asked to differ ({_listed(names)})"
    missed = [_missed(side) for side in (trials, base)]
    for own, (other, plan) in zip(missed, ((base, of_base), (trials, variant)), strict=True):
        if own and not _missed(other) and _has_rate(other, plan):
            return f"{own}, which the other one held"
    return None


def _missed(trials: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the message of the first trial that did not reach its rate."""
    found = (f["message"] for t in trials for f in t.get("findings") or [] if f["code"] == "rate_missed")
    return next(found, "").partition(";")[0] or None


def _has_rate(trials: Sequence[Mapping[str, Any]], variant: Mapping[str, Any]) -> bool:
    groups = [group for t in trials for group in (t.get("metrics"), *(s.get("metrics") for s in t.get("steps") or []))]
    targets = [m.get("target") for group in groups for m in (group or {}).values() if isinstance(m, Mapping)]
    return bool((variant.get("parameters") or {}).get("rate")) or any(targets)


def _texts(unlike: Mapping[str, Sequence[Any]], trials: Iterable[Mapping[str, Any]]) -> str:
    parts = []
    for name, values in unlike.items():
        if name == "settings":  # in the key there is but a fingerprint of all
            names = _settings(trials)
            parts.append("settings" + (f" ({_listed(names)})" if names else ""))
        elif name in PLANNED:
            parts.append(name)
        else:
            parts.append(f"{name.replace('_', ' ').replace('.', ' ')} {' and '.join(map(str, values))}")
    return ", ".join(parts)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if names[NAMED:] else "")


def _settings(trials: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the settings in which trials disagree."""
    postgres = [(t.get("environment") or {}).get("postgres") or {} for t in trials]
    read = [{s["name"]: s.get("setting") for s in p["non_default_settings"]} for p in postgres if p.get("non_default_settings")]
    names = dict.fromkeys(name for one in read for name in one)
    return [name for name in names if any(one.get(name) != read[0].get(name) for one in read)]
