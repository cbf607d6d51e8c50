# GNU General Public License v3.0 or later (see LICENSE)
"""Profiles: named, complete sets of settings, chosen by size, each row with what is known of it.

A *profile* is a plain mapping ``{setting: value}``, or ``{description, source, notes, confidence: {size: low}, settings: {setting: value},
rows: {setting: {reason, note, wrong, engine, left_out}}}``; see the header of ``roles/plan/defaults/main/profiles.yml``. A value that is a
mapping holds one value for each size. A *row* is ``{name, value, reason, note, wrong, engine, left_out}``: ``wrong`` says what
is wrong with the value, ``engine`` which engine alone knows it, ``left_out`` why it is not set at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import guc
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import nearest

PROFILE_KEYS = ("description", "source", "confidence", "notes", "settings", "rows")
ROW_KEYS = ("reason", "note", "wrong", "engine", "left_out")
#: The profile that says what the published one should have been.
INTENDED = "as_intended"

_ABOUT = {
    "memory_shared_buffers": "shared_buffers",
    "memory_effective_cache_size": "effective_cache_size",
    "memory_cache_below_buffers": "effective_cache_size",
    "memory_work_mem_clients": "work_mem",
    "memory_work_mem_connections": "work_mem",
    "memory_huge_pages": "huge_pages",
    "wal_disk": "max_wal_size",
}


def rows(profiles: Mapping[str, Any], name: str, size: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of profile ``name`` for a size, and everything wrong with the profile itself."""
    profile = profiles[name]
    where = f"profile {name}: "
    if profile is None:
        return [], []
    if not isinstance(profile, Mapping):
        return [], [f"{where}{profile!r} is not a mapping, such as {{shared_buffers: 8GB}}"]
    remarks: Mapping[str, Any] = {}
    settings, problems = profile, []
    if isinstance(profile.get("settings"), Mapping):
        problems += [_unknown(where, key, PROFILE_KEYS) for key in profile if key not in PROFILE_KEYS]
        settings, remarks = profile["settings"], profile.get("rows") or {}
        problems += [f"{where}rows: {key}: not among its settings" for key in remarks if key not in settings]
    result = []
    elsewhere: dict[str, str] = {}
    for setting, given in settings.items():
        remark = remarks.get(setting) or {}
        problems += [_unknown(f"{where}rows: {setting}: ", key, ROW_KEYS) for key in remark if key not in ROW_KEYS]
        value = given
        if isinstance(given, Mapping):
            if size not in given:
                elsewhere[str(setting)] = ", ".join(map(str, given))
                continue
            value = given[size]
        said = {key: _of_size(remark.get(key), size) for key in ROW_KEYS}
        result.append({"name": str(setting), "value": value, **said, "reason": said["reason"] or f"profile {name}"})
    if elsewhere:
        problems.append(
            f"{where}made for {', '.join(dict.fromkeys(elsewhere.values()))}; for size {size} it has no {', '.join(elsewhere)}: "
            "take profile local (computed for any machine), or one of your own"
        )
    return result, problems


def _of_size(remark: Any, size: str) -> Any:
    return remark.get(size) if isinstance(remark, Mapping) else remark


def _unknown(where: str, key: Any, known: Any) -> str:
    near = nearest(str(key), known)
    return f"{where}{key}: no such key; " + (f"did you mean {near!r}?" if near else f"there are {', '.join(known)}")


def findings_of(profiles: Mapping[str, Any], name: str, size: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the plan has to say of a profile: rows left out, and values that the publication may not have run with."""
    result = []
    left = [row for row in found if row["left_out"]]
    if left:
        text = "; ".join(f"{row['name']} ({row['left_out']})" for row in left)
        result.append(finding("profile_left_out", f"profile {name} leaves out {text}", names=[row["name"] for row in left]))
    profile = profiles.get(name)
    if isinstance(profile, Mapping) and isinstance(profile.get("confidence"), Mapping) and size in profile["confidence"]:
        text = f"profile {name}: whether the published run of size {size} had these values is not sure"
        result.append(finding("profile_doubtful", text, confidence=profile["confidence"][size]))
    return result


def explain(
    profiles: Mapping[str, Any],
    name: str,
    size: str,
    catalogue: Mapping[str, Any],
    *,
    engine: str,
    memory_bytes: int | None,
    clients: int,
) -> tuple[dict[str, Any], list[str]]:
    """Return every row of a profile with its reason, what is wrong with it on this hardware, and what ``as_intended`` does instead.

    ``{profile, size, engine, version, description, source, notes, rows: [{name, raw, text, became, not_set, reason, note, wrong:
    [sentence], instead: {text, reason}}], findings}``. ``text`` is the value with its unit, ``became`` the name this version uses,
    ``not_set`` why the row is not set, ``instead`` is ``None`` where ``as_intended`` does the same.
    """
    found, problems = rows(profiles, name, size)
    settings, findings, wrong = _resolve(found, catalogue, engine, name)
    problems += [f"profile {name}: {p}" for p in wrong]
    intended: dict[str, dict[str, Any]] = {}
    if name != INTENDED and INTENDED in profiles:
        others, wrong = rows(profiles, INTENDED, size)
        if wrong and not problems:
            wrong = []  # made for other sizes than this one: nothing to compare with
        else:
            theirs, their_findings, wrong = _resolve(others, catalogue, engine, INTENDED)
            intended = {row["name"]: _row(row, theirs, their_findings, catalogue) for row in others}
        problems += wrong
    if problems:
        return {}, problems
    lint = guc.lint(settings, memory_bytes=memory_bytes, clients=clients) if memory_bytes else []
    answer = []
    for row in found:
        mine = _row(row, settings, findings, catalogue)
        if not mine["wrong"] and not mine["not_set"]:
            mine["wrong"] = [f["message"] for f in lint if _ABOUT.get(f["code"]) == (mine["became"] or row["name"])]
        answer.append({**mine, "instead": _instead(mine, intended)})
    about = profiles[name] if isinstance((profiles[name] or {}).get("settings"), Mapping) else {}
    return {
        "profile": name,
        "size": size,
        "engine": engine,
        "version": catalogue["major"],
        **{key: about.get(key) for key in ("description", "source", "notes")},
        "rows": answer,
        "findings": [*findings, *findings_of(profiles, name, size, found), *lint],
    }, []


def _resolve(
    found: list[dict[str, Any]], catalogue: Mapping[str, Any], engine: str, name: str
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]], list[str]]:
    kept = [row for row in found if not row["left_out"]]
    resolved, findings, problems = guc.resolve(
        {row["name"]: row["value"] for row in kept}, catalogue, engine=engine, origin=f"profile {name}", strict=False
    )
    return {s["name"]: s for s in resolved}, findings, problems


def _row(
    row: Mapping[str, Any], settings: Mapping[str, Mapping[str, Any]], findings: list[dict[str, Any]], catalogue: Mapping[str, Any]
) -> dict[str, Any]:
    asked = row["name"].lower()
    setting = next((s for s in settings.values() if asked in (s["name"].lower(), str(s["replaces"]).lower())), None)
    said = [f for f in findings if str(f["evidence"].get("name", "")).lower() == asked and f["code"] != "guc_unitless"]
    not_set = row["left_out"]
    if setting is None and not not_set:
        not_set = "; ".join(f["message"].removeprefix(f"{row['name']} was dropped: ") for f in said) or "has no value"
    return {
        "name": row["name"],
        "raw": row["value"],
        "text": setting["text"] if setting else _shown(row, catalogue),
        "became": setting["name"] if setting and setting["name"].lower() != asked else None,
        "not_set": not_set,
        "reason": row["reason"],
        "note": row["note"],
        "wrong": [row["wrong"]] if row["wrong"] else [f["message"] for f in said if setting],
    }


def _instead(mine: Mapping[str, Any], intended: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    theirs = intended.get(mine["name"])
    if theirs is None:
        return {"text": "the server's default", "reason": f"not in {INTENDED}"} if intended and not mine["not_set"] else None
    if theirs["not_set"]:
        return None if mine["not_set"] else {"text": "not set", "reason": theirs["not_set"]}
    return None if theirs["text"] == mine["text"] else {"text": theirs["text"], "reason": theirs["reason"]}


def _shown(row: Mapping[str, Any], catalogue: Mapping[str, Any]) -> str:
    """The value of a row that is not set, with its unit where this version knows the setting."""
    entry = catalogue["settings"].get(row["name"])
    try:
        return str(guc.parse_value({"name": row["name"], **entry}, row["value"])["text"]) if entry else str(row["value"])
    except ValueError:
        return str(row["value"])
