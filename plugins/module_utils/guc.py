# GNU General Public License v3.0 or later (see LICENSE)
"""Settings of PostgreSQL: read, translated between versions, checked, written and compared.

*Catalogue*: ``{"engine", "major", "settings": {name: entry}, "elsewhere": {name: [majors]}}`` as
``plugin_utils/catalogue.py`` loads it. *Entry*: a row of ``pg_settings`` (``name, vartype, unit, context, min_val, max_val,
enumvals, boot_val``) and, from the catalogue, ``spellings``, ``build`` and ``library`` (see ``tools/catalogues.py``); rows of
a live server serve as well. *Setting*: what an experiment holds of a setting::

    {name, raw, text, unit, value, bytes, context, origin, reason, replaces}

``raw`` as it was given, ``text`` for the configuration file with its unit, ``value`` in units of ``unit`` (number), bool or
text, ``bytes`` for sizes, ``replaces`` the older or newer name that was asked for. *Problem*: a sentence that refuses.

Values and units that changed: release notes of PostgreSQL 9.5 to 18.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import guc_names as names
from ansible_collections.pgsizing.bench.plugins.module_utils import units
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES, finding
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, KIB, MIB, human_size

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)*")

#: Bytes or numbers that hold where nobody set them (13 to 18; shared_buffers as initdb writes it).
DEFAULTS = {
    "shared_buffers": 128 * MIB,
    "effective_cache_size": 4 * GIB,
    "work_mem": 4 * MIB,
    "max_wal_size": GIB,
    "wal_keep_size": 0,
    "max_connections": 100,
    "superuser_reserved_connections": 3,
    "reserved_connections": 0,
}


# --- one value -----------------------------------------------------------------------------------------------------

_QUOTED = re.compile(r"\s*'((?:[^'\\]|''|\\.)*)'\s*(?:#.*)?", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unquoted(raw: Any) -> Any:
    """Return the value that ``raw`` means where it is quoted as in a configuration file: ``'24GB'  # a quarter`` is ``24GB``.

    Anything else is returned as it is. Quoting: ``GUC_scanstr`` of ``guc-file.l``.
    """
    found = _QUOTED.fullmatch(raw) if isinstance(raw, str) else None
    return re.sub(r"''|\\([0-7]{1,3}|.)", _unescaped, found[1], flags=re.DOTALL) if found else raw


def _unescaped(found: re.Match[str]) -> str:
    char = found[1]
    if char is None:
        return "'"
    return chr(int(char, 8) % 256) if char[0] in "01234567" else _ESCAPES.get(char, char)


def parse_value(entry: Mapping[str, Any], raw: Any) -> dict[str, Any]:
    """Read ``raw`` (text, or a YAML bool, number or list) as PostgreSQL reads a value of ``entry``.

    Quotes and a comment around a number, bool or enum, as a configuration file has them, are no part of it; a text is
    taken as it is (see :func:`unquoted`). Returns ``{raw, text, value, unit, bytes}``; ``ValueError`` with a sentence for the
    user where the server would refuse.
    """
    value: Any
    vartype = entry["vartype"]
    unit = entry.get("unit")
    text = _text(raw) if vartype == "string" else _plain(raw)
    size = None
    if vartype == "bool":
        value = _parse_bool(text)
        text = "on" if value else "off"
    elif vartype == "enum":
        value = text = _parse_enum(entry, text)
    elif vartype in ("integer", "real"):
        if isinstance(raw, bool):
            raise ValueError(f"takes a number, not {text}")
        value = _parse_number(entry, text)
        text = units.from_base(value, unit)
        one = units.unit_size(unit) if unit else None
        size = int(value * one) if one and value >= 0 else None
    else:
        if isinstance(raw, bool) and entry.get("name") != "log_connections":  # a bool up to 17
            raise ValueError(f"takes a text: write it in quotes, not as the YAML value {text}")
        if "\0" in text:
            raise ValueError("must not contain a zero byte")
        value = text
    return {"raw": raw, "text": text, "value": value, "unit": unit, "bytes": size}


def equal(entry: Mapping[str, Any], a: Any, b: Any) -> bool:
    """Whether the values ``a`` (asked for) and ``b`` (of the server) of ``entry`` mean the same.

    Numbers are compared in base units (reals to the six digits that the server prints), bools and enums by meaning, texts
    verbatim except for those that the server rewrites (DateStyle, time zones, client_encoding, …). Never raises.
    """
    try:
        first, second = (parse_value(entry, x)["value"] for x in (a, b))
    except ValueError:
        return str(a) == str(b)
    if entry["vartype"] == "real":
        return math.isclose(first, second, rel_tol=1e-5)
    rewritten = _REWRITTEN.get(str(entry.get("name")).lower())
    return bool(rewritten(unquoted(first), second)) if rewritten else bool(second in (first, unquoted(first)))


def _same_in_catalog(asked: str, actual: str) -> bool:
    """A session shows ``english`` with its schema."""
    return asked.removeprefix("pg_catalog.") == actual.removeprefix("pg_catalog.")


def _same_datestyle(asked: str, actual: str) -> bool:
    orders = {"us": "mdy", "noneuro": "mdy", "noneuropean": "mdy", "euro": "dmy", "european": "dmy"}
    wanted = {orders.get(word, word) for word in _items(asked.lower())}
    return wanted <= set(_items(actual.lower()))


def _same_word(asked: str, actual: str) -> bool:
    return re.sub(r"[^a-z0-9+]", "", asked.lower()) == re.sub(r"[^a-z0-9+]", "", actual.lower())


_REWRITTEN = {
    "datestyle": _same_datestyle,
    "timezone": _same_word,
    "log_timezone": _same_word,
    "client_encoding": _same_word,
    "default_text_search_config": _same_in_catalog,
}


def _text(raw: Any) -> str:
    if raw is None:
        raise ValueError("has no value")
    if isinstance(raw, bool):
        return "on" if raw else "off"
    if isinstance(raw, (list, tuple)):
        return ", ".join(_text(item) for item in raw)
    if isinstance(raw, dict):
        raise ValueError("takes one value, not a mapping")
    return str(raw)


def _plain(raw: Any) -> str:
    """The text of a number, bool or enum without the quotes and the comment of a configuration file."""
    text = _text(raw)
    return str(unquoted(text)) if "'" in text else re.sub(r"\s*#.*", "", text)


def _items(text: str) -> list[str]:
    return [item.strip().strip('"') for item in text.split(",") if item.strip()]


def _parse_bool(text: str) -> bool:
    # The server takes every unambiguous beginning of the words.
    word = text.lower()
    for full, value in (("true", True), ("false", False), ("yes", True), ("no", False)):
        if word and full.startswith(word):
            return value
    if word in ("on", "1"):
        return True
    if word in ("of", "off", "0"):
        return False
    raise ValueError(f"{text!r} is not on or off")


def _parse_enum(entry: Mapping[str, Any], text: str) -> str:
    word = text.lower()
    spellings = entry.get("spellings") or {}
    known = [*(entry.get("enumvals") or ()), *(entry.get("build") or ())]
    found = next((value for value in known if value.lower() == word), None)
    if found is None and word not in spellings:
        raise ValueError(f"{text!r} is not one of {', '.join(known)}")
    return str(spellings.get(word, found))


def _parse_number(entry: Mapping[str, Any], text: str) -> float:
    unit = entry.get("unit")
    value = units.to_base(text, unit, integer=entry["vartype"] == "integer")
    low, high = (float(entry[key]) if entry.get(key) is not None else None for key in ("min_val", "max_val"))
    if (low is not None and value < low) or (high is not None and value > high):
        size = units.unit_size(unit) if unit else None
        bounds = [
            human_size(bound * size) if size and bound > 0 else units.from_base(bound, unit) for bound in (low, high) if bound is not None
        ]
        shown = units.from_base(value, unit)
        raise ValueError(f"{text}{'' if shown == text else f' ({shown})'} is outside {' .. '.join(bounds)}")
    return value


def _is_bare(entry: Mapping[str, Any], raw: Any, value: Any) -> bool:
    """Whether ``raw`` is an amount without unit of a setting that has one; 0 and negative values are switches."""
    if not entry.get("unit") or entry["vartype"] not in ("integer", "real") or value <= 0:
        return False
    return not (units.split if entry["vartype"] == "integer" else units.split_real)(_plain(raw))[1]


# --- from what was asked for to the settings of this version -----------------------------------------------------


def resolve(
    asked: Mapping[str, Any],
    catalogue: Mapping[str, Any],
    *,
    engine: str = "postgres",
    origin: str,
    reasons: Mapping[str, str] | None = None,
    strict: bool = True,
    wal_segment_size: int = 16 * MIB,
    locales: Iterable[str] | None = None,
    loaded: Iterable[str] = (),
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Turn ``asked`` (name -> raw value) into settings of the catalogue's version; returns settings, findings, problems.

    ``origin`` says who asks (stored in each setting), ``reasons`` why (name -> sentence). With ``strict`` (a user asks) what
    cannot be had is a problem; without (a profile, a published run) settings of another engine or version, of the toolkit
    and display texts are dropped with a finding. Unknown names and wrong values are problems in both. ``locales``: of the
    host (``locale -a``), ``None`` when unknown; ``loaded``: libraries that other layers of the configuration load.
    """
    resolver = _Resolver(catalogue, engine, origin, reasons or {}, strict, wal_segment_size, locales, loaded)
    for name, raw in asked.items():
        resolver.take(name, raw)
    resolver.check_libraries()
    return list(resolver.settings.values()), resolver.findings, resolver.problems


class _Resolver:
    """One call of :func:`resolve`: what holds for all its settings, and what was found."""

    def __init__(
        self,
        catalogue: Mapping[str, Any],
        engine: str,
        origin: str,
        reasons: Mapping[str, str],
        strict: bool,
        wal_segment_size: int,
        locales: Iterable[str] | None,
        loaded: Iterable[str],
    ) -> None:
        self.catalogue = catalogue
        self.known_as = {name.lower(): name for name in catalogue["settings"]}
        self.version = f"PostgreSQL {catalogue['major']}"
        self.engine, self.origin, self.reasons, self.strict = engine, origin, reasons, strict
        self.wal_segment_size = wal_segment_size
        self.locales = None if locales is None else {_locale(name) for name in locales} | {"C", "POSIX"}
        self.loaded = {"plpgsql", *loaded}
        self.settings: dict[str, dict[str, Any]] = {}
        self.findings: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def note(self, code: str, message: str, name: str, raw: Any, **evidence: Any) -> None:
        self.findings.append(finding(code, message, name=name, raw=raw, origin=self.origin, **evidence))

    def drop(self, code: str, name: str, raw: Any, reason: str) -> None:
        """Refuse what a user asks for; drop what a profile asks for, with a finding."""
        if self.strict:
            self.problems.append(f"{name}: {reason}")
        else:
            self.note(code, f"{name} was dropped: {reason}", name, raw)

    def take(self, asked: Any, raw: Any) -> None:
        """Resolve one setting."""
        if not isinstance(asked, str) or not NAME.fullmatch(asked):
            self.problems.append(f"{asked!r} is not a name of a setting{self.hint(str(asked))}")
            return
        given = unquoted(raw)
        if isinstance(given, str) and given.strip().lower() == "(disabled)":
            # SHOW prints this for archive_command while archiving is off; as a command it would fail for ever.
            self.note("guc_cleaned", f"{asked} = (disabled) is a display text: read as not set", asked, raw)
            return
        if raw is None:
            self.drop("guc_cleaned", asked, raw, "no value is given")
            return
        try:
            name, value = self.translate(asked, given)
        except ValueError as error:
            self.problems.append(f"{asked}: {error}")
            return
        fixed = self.fixed(name.lower())
        if fixed:
            self.drop("guc_reserved", asked, raw, fixed)
        elif name.lower() in self.known_as:
            self.known(self.known_as[name.lower()], asked, raw, value)
        else:
            self.unknown(name, raw)

    def translate(self, name: str, raw: Any) -> tuple[str, Any]:
        """Return name and value as this version knows them; ``ValueError`` where the old value cannot be read."""
        key, value = name.lower(), raw
        while key not in self.known_as:
            if key in names.SEGMENTS:
                key, factor = names.SEGMENTS[key]
                value = units.format_size(int(units.to_base(_plain(value), None)) * factor * self.wal_segment_size)
            elif key in names.RENAMED:
                key = names.RENAMED[key]
            elif names.OLDER.get(key) in self.known_as:
                key = names.OLDER[key]
            else:
                break
        return (name, raw) if key == name.lower() else (key, value)

    def fixed(self, key: str) -> str | None:
        """Why nobody may set the setting, or ``None``."""
        if key in names.OURS:
            return names.OURS[key]
        if key in names.INTERNAL:
            return f"cannot be set in a configuration file: it comes from {names.INTERNAL[key]}"
        if key in self.known_as and self.catalogue["settings"][self.known_as[key]]["context"] == "internal":
            return "cannot be set: the server reports it"
        return None

    def known(self, name: str, asked: str, raw: Any, value: Any) -> None:
        """Resolve a setting that this version has."""
        entry = {"name": name, **self.catalogue["settings"][name]}
        if isinstance(value, (list, tuple)) and name.lower() not in names.LISTS:
            self.problems.append(f"{asked}: takes one value, not a list")
            return
        try:
            adapted = self.adapt(name, value)
            if adapted is None:
                return
            parsed = parse_value(entry, adapted)
        except ValueError as error:
            if not self.strict and _is_remark(entry, str(value)):
                self.note("guc_cleaned", f"{asked} = {raw} is a remark, no value: read as not set", asked, raw)
            else:
                self.problems.append(f"{asked}: {error}")
            return
        if asked.lower() != name.lower():
            message = f"{asked} = {_text(raw)} is {name} = {parsed['text']} in {self.version}"
            self.note("guc_renamed", message, asked, raw, translated=name, text=parsed["text"])
        if _is_bare(entry, adapted, parsed["value"]):
            message = f"{name} = {_plain(raw)} has no unit: read in units of {entry['unit']}, {_plain(raw)} = {parsed['text']}"
            self.note("guc_unitless", message, name, raw, unit=entry["unit"], text=parsed["text"], bytes=parsed["bytes"])
        self.put(name, {**parsed, "raw": raw}, entry["context"], asked)

    def adapt(self, name: str, value: Any) -> Any:
        """Return ``value`` without what this engine and host lack; ``None`` when nothing is left."""
        text = _text(value)
        if name == "DateStyle" and self.engine == "postgres" and names.EPAS_DATESTYLES & set(_items(text.lower())):
            self.drop("guc_engine", name, value, f"{text!r} exists in EPAS only")
            return None
        if name in names.PRELOADS:
            kept = [item for item in _items(text) if self.engine != "postgres" or not _is_of_epas(_library(item))]
            self.loaded.update(map(_library, kept))
            lost = [item for item in _items(text) if item not in kept]
            if lost:
                if self.strict:
                    self.problems.append(f"{name}: {', '.join(lost)}: in EPAS only")
                    return None
                self.note("guc_engine", f"{name} without {', '.join(lost)}: in EPAS only", name, value)
                return ", ".join(kept) or None
        if name in names.LOCALES:
            return self.locale(name, value)
        if name == "wal_compression" and text.lower() == "pglz" and self.catalogue["settings"][name]["vartype"] == "bool":
            self.note("guc_renamed", f"{name} = pglz is on in {self.version}, which has no other method", name, value, translated="on")
            return "on"
        return value

    def locale(self, name: str, value: Any) -> Any:
        """Return the locale, or C where the host lacks it; a profile's messages are English, so that the log can be read."""
        text = _text(value)
        english = self.strict or _locale(text) in ("", "C", "POSIX")
        if name == "lc_messages" and not english:
            self.note("locale_replaced", f"{name} = C instead of {text}: the server log is read in English", name, value)
            return "C"
        if self.locales is not None and text and _locale(text) not in self.locales:
            self.note("locale_replaced", f"{name} = C instead of {text}: the host has no such locale", name, value)
            return "C"
        return value

    def put(self, name: str, parsed: Mapping[str, Any], context: str | None, asked: str) -> None:
        """Keep a setting; two names of one setting must agree."""
        other = self.settings.get(name)
        if other and other["value"] != parsed["value"]:
            first = other["replaces"] or name
            self.problems.append(f"{asked} and {first} both set {name}: {parsed['text']} and {other['text']}")
            return
        self.settings[name] = {
            "name": name,
            **parsed,
            "context": context,
            "origin": self.origin,
            "reason": self.reasons.get(asked, self.reasons.get(name)),
            "replaces": asked if asked.lower() != name.lower() else None,
        }

    def unknown(self, name: str, raw: Any) -> None:
        """Say what is wrong with a name that this version does not have."""
        key = name.lower()
        if key in names.REMOVED:
            self.removed(name, raw)
        elif key in names.EPAS_NAMES or key.startswith(names.EPAS_PREFIXES):
            if self.engine == "epas":
                self.placeholder(name, raw)
            else:
                self.drop("guc_engine", name, raw, "exists in EPAS only")
        elif "." in name and not any(known.startswith(key.partition(".")[0] + ".") for known in self.known_as):
            self.placeholder(name, raw)
        elif key in self.catalogue.get("elsewhere", {}):
            majors = ", ".join(str(major) for major in self.catalogue["elsewhere"][key])
            self.drop("guc_removed", name, raw, f"exists in PostgreSQL {majors}, not in {self.catalogue['major']}")
        else:
            self.problems.append(f"{name}: {self.version} has no such setting{self.hint(name)}")

    def hint(self, name: str) -> str:
        """Name the setting that is probably meant: a misspelt one, else the shortest whose words begin as all words of the name do."""
        words = re.findall(r"[^\W_](?:[^\W_]|\.)*", name.lower())
        key = "_".join(words)
        settable = [known for known in self.known_as if not self.fixed(known)]
        near = difflib.get_close_matches(key, settable, n=1, cutoff=0.9)
        if not near and len(key) > 3:
            longer = [known for known in settable if all(any(k.startswith(w) for k in known.split("_")) for w in words)]
            near = sorted(longer, key=lambda known: (not known.startswith(key), len(known)))[:1]
        near = near or difflib.get_close_matches(key, settable, n=1, cutoff=0.75)
        return f"; did you mean {self.known_as[near[0]]}?" if near else ""

    def removed(self, name: str, raw: Any) -> None:
        version, neutral, why = names.REMOVED[name.lower()]
        text = f"removed in PostgreSQL {version}: {why}"
        # A value that stands for what this version does anyway changes nothing; any other would be measured without effect.
        if self.strict and neutral is not None and not _alike(raw, neutral):
            self.problems.append(f"{name}: {text}; only {neutral} can be had")
        else:
            self.note("guc_removed", f"{name} was dropped: {text}", name, raw)

    def placeholder(self, name: str, raw: Any) -> None:
        """Keep a setting that the catalogue cannot check."""
        try:
            text = _text(unquoted(raw))
        except ValueError as error:
            self.problems.append(f"{name}: {error}")
            return
        if "\0" in text:
            self.problems.append(f"{name}: must not contain a zero byte")
            return
        self.put(name, {"raw": raw, "text": text, "value": text, "unit": None, "bytes": None}, None, name)

    def check_libraries(self) -> None:
        """Note each dotted setting whose library nothing loads: the server accepts any dotted name, without effect."""
        for setting in self.settings.values():
            library = setting["name"].partition(".")[0]
            if "." in setting["name"] and library not in self.loaded and not (self.engine == "epas" and setting["context"] is None):
                message = f"{setting['name']} has no effect unless the library {library} is loaded: its acceptance proves nothing"
                self.note("guc_placeholder", message, setting["name"], setting["raw"])


def _locale(name: str) -> str:
    """``en_US.UTF-8`` and ``en_US.utf8`` are one locale."""
    language, dot, codeset = name.partition(".")
    return language + dot + re.sub(r"[^a-z0-9]", "", codeset.lower())


def has_locale(name: str, locales: Iterable[str]) -> bool:
    """Whether a host with these locales (``locale -a``) has the one of that name."""
    return _locale(name) in {"C", "POSIX", *map(_locale, locales)}


def _is_remark(entry: Mapping[str, Any], raw: str) -> bool:
    """Whether ``raw`` is what a table says in place of a value, such as ``Varies based on size``; a wrong value is none."""
    if entry["vartype"] in ("integer", "real"):
        return not re.match(r"\s*[-+]?\.?\d", raw)
    return entry["vartype"] in ("bool", "enum") and len(raw.split()) > 1


def _library(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".so")


def _is_of_epas(library: str) -> bool:
    return library in names.EPAS_LIBRARIES or library.startswith(("dbms_", "edb_"))


def _alike(raw: Any, neutral: str) -> bool:
    try:
        return _parse_bool(_plain(raw)) == _parse_bool(neutral) if neutral in ("on", "off") else float(_plain(raw)) == float(neutral)
    except ValueError:
        return False


def import_settings(
    asked: Mapping[str, Any], major: str | float | None, *, wal_segment_size: int = 16 * MIB
) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """Translate values that were written for PostgreSQL ``major`` (9.5 and later, ``None``: unknown) so that they mean the
    same in any version: units that changed (min/max_wal_size, segments up to 9.6), values that changed meaning. Names are
    left to :func:`resolve`. Returns the new mapping, findings and problems.
    """
    known = re.search(r"\d+(?:\.\d+)?", str(major))  # also of "18beta1"; what is no version is not known
    version = float(known.group()) if known else None
    result, findings, problems = dict(asked), [], []
    for name, raw in asked.items():
        key = str(name).lower()
        try:
            if key in ("min_wal_size", "max_wal_size") and not units.split(_plain(raw))[1]:
                if units.to_base(_plain(raw), None) < 0:
                    problems.append(f"{name}: {raw} is less than nothing")
                    continue
                if version is None:
                    problems.append(f"{name} = {raw}: segments up to 9.6, MB since 10: give the unit or the version it was written for")
                    continue
                unit = wal_segment_size if version < 10 else MIB
                result[name] = units.format_size(int(units.to_base(_plain(raw), None)) * unit)
                counted = f"WAL segments of {human_size(unit)}" if version < 10 else "MB"
                message = f"{name} = {raw} has no unit: read in {counted} by PostgreSQL {major}, {raw} = {result[name]}"
                findings.append(finding("guc_unitless", message, name=name, raw=raw, text=result[name]))
            elif key == "effective_io_concurrency" and version and version < 13 and units.to_base(_plain(raw), None) > 1:
                old = int(units.to_base(_plain(raw), None))
                result[name] = min(1000, round(sum(old / n for n in range(1, old + 1))))  # the most that is allowed
                message = f"{name} = {old} of PostgreSQL {major} is {result[name]} since 13: it counts requests, not drives"
                findings.append(finding("guc_renamed", message, name=name, raw=raw, translated=result[name]))
            elif key == "password_encryption" and version and version < 14 and _plain(raw).lower() not in ("md5", "scram-sha-256"):
                if _parse_bool(_plain(raw)):
                    result[name] = "md5"
                    findings.append(finding("guc_renamed", f"{name} = {raw} is md5 since 14", name=name, raw=raw, translated="md5"))
                else:
                    del result[name]
                    findings.append(finding("guc_removed", f"{name} = {raw} was dropped: passwords are never plain", name=name, raw=raw))
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return result, findings, problems


def published_value(entry: Mapping[str, Any], *, show: Any = None, file: Any = None, prose: Any = None) -> tuple[Any, str | None]:
    """Return the value that a published source means, and the contradiction between its statements or ``None``.

    What the server showed counts before the configuration file, and the file before the prose.
    """
    stated = [(where, value) for where, value in (("SHOW", show), ("file", file), ("text", prose)) if value is not None]
    if not stated:
        return None, None
    value = stated[0][1]
    others = [f"{where} says {other}" for where, other in stated[1:] if not equal(entry, value, other)]
    return value, f"{entry.get('name')}: {stated[0][0]} says {value}, {', '.join(others)}; {value} is used" if others else None


# --- the configuration file and the live server -------------------------------------------------------------------


def render(settings: Iterable[Mapping[str, Any]]) -> str:
    """Return the settings as text of a configuration file, sorted by name. ``ValueError`` for a name or value that none can hold."""
    lines = ["# Written by pgsizing for each variant of an experiment; changes are lost."]
    for setting in sorted(settings, key=lambda setting: setting["name"].lower()):
        if not NAME.fullmatch(setting["name"]) or "\0" in setting["text"]:
            raise ValueError(f"{setting['name']!r} cannot stand in a configuration file")
        text = setting["text"].replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{setting['name']} = '{text}'")
    return "\n".join(lines) + "\n"


def loaded_libraries(settings: Mapping[str, Mapping[str, Any]], column: str = "text") -> set[str]:
    """Return the libraries that the preload settings among ``settings`` (name -> setting) load."""
    return {_library(item) for name in names.PRELOADS if name in settings for item in _items(settings[name][column])}


def needs_restart(settings: Iterable[Mapping[str, Any]], catalogue: Mapping[str, Any]) -> list[str]:
    """Return the names that take effect only at a server start in the catalogue's version (not by a reload)."""
    known = catalogue["settings"]
    return sorted(s["name"] for s in settings if known.get(s["name"], {}).get("context") == "postmaster")


def check_effect(
    settings: Iterable[Mapping[str, Any]],
    rows: Iterable[Mapping[str, Any]],
    file_rows: Iterable[Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Compare the settings with ``pg_settings`` of the live server (``rows``) and ``pg_file_settings`` (``file_rows``).

    Rows need ``name, setting, unit, vartype, boot_val, source, sourcefile, pending_restart``; file rows ``name, setting,
    sourcefile, error``. Findings: ``settings_not_in_effect`` (each asked setting that is not; every setting that waits for a
    restart), ``guc_auto_conf`` (each setting in postgresql.auto.conf), ``guc_placeholder`` (dotted names nothing defines).
    """
    asked = {setting["name"]: setting for setting in settings}
    live = {row["name"]: row for row in rows}
    in_files = list(file_rows or ())
    errors = {row.get("name"): row["error"] for row in in_files if row.get("error")}  # a file that cannot be read has no name in it
    findings = []
    for name, setting in asked.items():
        found = _effect(setting, live.get(name), live, errors.get(name) or errors.get(None))
        if found:
            findings.append(found)
    for name, row in live.items():
        if _is_pending(row) and name not in asked:
            message = f"{name} waits for a restart of the server: {_shown(row)} still holds"
            findings.append(_not_in_effect(message, name, None, row))
    for name, where in sorted(_auto_conf(live.values(), in_files).items()):
        wanted = asked[name]["text"] if name in asked else None
        message = f"{name} = {where} stands in postgresql.auto.conf" + (
            f", which overrides {wanted}" if wanted else ": nobody asked for it"
        )
        findings.append(finding("guc_auto_conf", message, name=name, asked=wanted, actual=where))
    return findings


def _effect(setting: Mapping[str, Any], row: Mapping[str, Any] | None, live: Mapping[str, Any], error: str | None) -> dict[str, Any] | None:
    """The finding on one asked setting, or ``None`` where it is in effect."""
    name, text = setting["name"], setting["text"]
    if row is None:
        library = name.partition(".")[0]
        if "." in name and library not in loaded_libraries(live, "setting"):
            return finding("guc_placeholder", f"{name} has no effect on the server: nothing loaded defines it", name=name, asked=text)
        return _not_in_effect(f"{name} = {text}: the server has no such setting", name, text, None)
    if _is_pending(row):
        return _not_in_effect(f"{name} = {text} waits for a restart of the server: {_shown(row)} still holds", name, text, row)
    if equal(row, text, row["setting"]):
        return None
    if name == "archive_command" and row["setting"] == "(disabled)":
        return None  # set, and shown like this while archive_mode is off
    # -1 and 0 of some settings mean: worked out at the start, and the server shows what it worked out.
    if row.get("source") in ("override", "dynamic default") and str(setting["value"]) == row.get("boot_val"):
        return None
    if row.get("source") in ("client", "session") or (name.startswith("tcp_") and row["setting"] == "0"):
        return finding("not_checked", f"{name} = {text} could not be checked: each connection has its own value", name=name, asked=text)
    where = row.get("sourcefile") or row.get("source")
    because = f" ({error})" if error else ""
    return _not_in_effect(f"{name} = {text} is not in effect: the server has {_shown(row)}, from {where}{because}", name, text, row)


def _is_pending(row: Mapping[str, Any]) -> bool:
    """``pending_restart`` of a row, which a driver gives as a bool and psql as a letter."""
    return str(row.get("pending_restart") or "f").lower() in ("t", "true", "on", "1")


def _not_in_effect(message: str, name: str, asked: str | None, row: Mapping[str, Any] | None) -> dict[str, Any]:
    actual = _shown(row) if row else None
    return finding("settings_not_in_effect", message, name=name, asked=asked, actual=actual, source=row.get("source") if row else None)


def _shown(row: Mapping[str, Any]) -> str:
    """The value of a ``pg_settings`` row with its unit."""
    try:
        return str(parse_value({**row, "min_val": None, "max_val": None}, row["setting"])["text"])
    except ValueError:
        return str(row["setting"])


def _auto_conf(rows: Iterable[Mapping[str, Any]], file_rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    found = {row["name"]: row["setting"] for row in file_rows if row.get("name") and _is_auto_conf(row)}
    return {**found, **{row["name"]: _shown(row) for row in rows if _is_auto_conf(row)}}


def _is_auto_conf(row: Mapping[str, Any]) -> bool:
    return str(row.get("sourcefile") or "").endswith("postgresql.auto.conf")


def non_default(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the settings of a server that have another value than the built-in one: ``{name, setting, unit, text, source}``.

    Without what the session or the server itself sets, and without ports, paths and the like that the toolkit chooses. A build with
    assertions is none that anybody uses, though they are built in there.
    """
    own = ("default", "override", "dynamic default", "client", "session")
    return [
        {**{key: row.get(key) for key in ("name", "setting", "unit", "source")}, "text": _shown(row)}
        for row in sorted(rows, key=lambda row: row["name"].lower())
        if (
            row.get("source") not in own
            and row["name"] not in names.OURS
            and (row.get("boot_val") is None or not equal(row, row["boot_val"], row["setting"]))
        )
        or (row["name"], row["setting"]) == ("debug_assertions", "on")
    ]


# --- memory, disk, connections -------------------------------------------------------------------------------------


def conflicts(settings: Mapping[str, Mapping[str, Any]], *, memory_bytes: int | None = None, wal_segment_size: int = 16 * MIB) -> list[str]:
    """Return why a server with these settings (name -> setting, of all layers) would refuse to start, as problems."""
    problems = []
    buffers = _amount(settings, "shared_buffers")
    if memory_bytes is not None and buffers > memory_bytes:
        problems.append(f"shared_buffers: {human_size(buffers)} is more than the machine's {human_size(memory_bytes)} of memory")
    connections, available = _amount(settings, "max_connections"), connections_available(settings)
    if available <= 0:
        problems.append(f"max_connections: all {connections:.0f} are reserved (superuser_reserved_connections, reserved_connections)")
    if _value(settings, "wal_level", "replica") == "minimal":
        if _value(settings, "max_wal_senders", 10) > 0:
            problems.append("wal_level: minimal needs max_wal_senders = 0")
        if _value(settings, "archive_mode", "off") != "off":
            problems.append("wal_level: minimal needs archive_mode = off")
        if _value(settings, "summarize_wal", False):
            problems.append("wal_level: minimal needs summarize_wal = off")
    if _value(settings, "huge_pages", "try") == "on" and _value(settings, "shared_memory_type", "mmap") != "mmap":
        problems.append("huge_pages: on needs shared_memory_type = mmap")
    files = [name for name in ("ssl_cert_file", "ssl_key_file") if not str(_value(settings, name, "")).startswith("/")]
    if _value(settings, "ssl", False) and files:
        problems.append(f"ssl: on needs {' and '.join(files)}, with the whole path: the private cluster has no certificate")
    for name in ("min_wal_size", "max_wal_size"):
        size = settings[name]["bytes"] if name in settings else None
        if size is not None and size < 2 * wal_segment_size:
            problems.append(f"{name}: {settings[name]['text']} is less than two WAL segments ({human_size(2 * wal_segment_size)})")
    return problems


def connections_available(settings: Mapping[str, Mapping[str, Any]]) -> int:
    """Return how many connections an ordinary user can open: max_connections less those reserved."""
    reserved = _amount(settings, "superuser_reserved_connections") + _amount(settings, "reserved_connections")
    return int(_amount(settings, "max_connections") - reserved)


def huge_pages_needed(size: float, huge_page_bytes: int = 2 * MIB) -> int:
    """Return the huge pages that hold a segment of ``size`` bytes."""
    return math.ceil(size / huge_page_bytes)


def shared_memory_bytes(settings: Mapping[str, Mapping[str, Any]]) -> int:
    """Estimate the server's shared memory, from above (0 to 20 % too much on 15 to 18 from 128 MB on, 100 to 5000 connections).

    Better where the server can be asked (15 and later): ``postgres -C shared_memory_size_in_huge_pages``.
    """
    return int(_amount(settings, "shared_buffers") * 1.03 + _amount(settings, "max_connections") * 84 * KIB + 26 * MIB)


def lint(
    settings: Mapping[str, Mapping[str, Any]],
    *,
    memory_bytes: int,
    clients: int,
    disk_free_bytes: int | None = None,
    dataset_bytes: int | None = None,
    huge_pages_free: int | None = None,
    huge_page_bytes: int = 2 * MIB,
) -> list[dict[str, Any]]:
    """Return findings on settings (name -> setting, of all layers) that do not fit the machine. Missing names have the default."""
    findings = []
    buffers, cache = _amount(settings, "shared_buffers"), _amount(settings, "effective_cache_size")
    work_mem, connections = _amount(settings, "work_mem"), _amount(settings, "max_connections")
    memory = f"{human_size(memory_bytes)} of memory"

    def check(code: str, part: float, whole: float, message: str) -> None:
        limit = (RULES[code].threshold or 1) * whole
        if part > limit:
            findings.append(finding(code, message, bytes=int(part), limit_bytes=int(limit)))

    shared = f"shared_buffers = {human_size(buffers)}"
    check("memory_shared_buffers", buffers, memory_bytes, f"{shared} is {buffers / memory_bytes:.0%} of {memory}")
    check("memory_effective_cache_size", cache, memory_bytes, f"effective_cache_size = {human_size(cache)} is more than {memory}")
    message = f"{shared} is more than effective_cache_size = {human_size(cache)}: the planner is told that less is cached than it is"
    check("memory_cache_below_buffers", buffers, cache, message)
    for code, count, who in (
        ("memory_work_mem_clients", clients, "clients"),
        ("memory_work_mem_connections", connections, "max_connections"),
    ):
        total = buffers + work_mem * count
        message = f"{shared} and work_mem = {human_size(work_mem)} for {count:.0f} {who} are {human_size(total)}, more than {memory}"
        check(code, total, memory_bytes, message)
    if disk_free_bytes is not None:
        wal, name = max((_amount(settings, name), name) for name in ("max_wal_size", "wal_keep_size"))
        data = dataset_bytes or 0
        message = f"{name} = {human_size(wal)} and a data set of {human_size(data)} do not fit in {human_size(disk_free_bytes)} free"
        check("wal_disk", wal + data, disk_free_bytes, message)
    if _archives_nowhere(settings):
        message = "archive_mode is on without archive_command or archive_library: WAL is kept until the disk is full"
        findings.append(finding("wal_disk", message))
    asked = _value(settings, "huge_pages", None)
    # Pages of another size than the host's own are counted elsewhere.
    other_size = "huge_page_size" in settings and _amount(settings, "huge_page_size") not in (0, huge_page_bytes)
    if asked in ("on", "try") and huge_pages_free is not None and not other_size:
        needed = huge_pages_needed(shared_memory_bytes(settings), huge_page_bytes)
        if needed > huge_pages_free:
            effect = "the server will not start" if asked == "on" else "the server will do without"
            message = (
                f"huge_pages = {asked} needs about {needed} pages of {human_size(huge_page_bytes)}, {huge_pages_free} are free: {effect}"
            )
            findings.append(finding("memory_huge_pages", message, needed=needed, free=huge_pages_free, page_bytes=huge_page_bytes))
    return findings


def _archives_nowhere(settings: Mapping[str, Mapping[str, Any]]) -> bool:
    targets = (_value(settings, name, "") for name in ("archive_command", "archive_library"))
    return _value(settings, "archive_mode", "off") != "off" and not any(targets)


def _value(settings: Mapping[str, Mapping[str, Any]], name: str, default: Any) -> Any:
    return settings[name]["value"] if name in settings else default


def _amount(settings: Mapping[str, Mapping[str, Any]], name: str) -> float:
    """Bytes of a size, else the number; the default where nobody set it."""
    if name not in settings:
        return DEFAULTS[name]
    size = settings[name]["bytes"]
    return size if size is not None else settings[name]["value"]
