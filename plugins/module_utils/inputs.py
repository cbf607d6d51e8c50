# GNU General Public License v3.0 or later (see LICENSE)
"""The inputs of ``benchmark.yml``: which exist, of what type, and how text from the command line becomes values.

``INPUTS`` is in the shape of an Ansible argument spec (``type``, ``choices``, ``elements``) without defaults: those are
the role ``plan``'s. Parameters of a workload are described by the workload itself, in the same shape; ``unit`` is of time.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.units import TIMES, UnitError, parse_time

Spec = Mapping[str, Mapping[str, Any]]

INPUTS: dict[str, dict[str, Any]] = {
    "size": {"type": "str", "axis": True},
    "workload": {"type": "str"},
    "reproduce": {"type": "str"},
    "variants": {"type": "dict"},
    "only_variants": {"type": "list", "elements": "str"},
    "repeats": {"type": "int", "min": 1, "max": 1000},
    "profile": {"type": "str"},
    "engine": {"type": "str", "choices": ["postgres", "epas"]},
    "postgres_version": {"type": "str", "axis": True},
    "postgres_source": {"type": "str", "choices": ["distro", "pgdg", "source"]},
    "postgres_port": {"type": "int", "min": 1024, "max": 65535},
    "initdb": {"type": "dict"},
    "target": {"type": "str", "choices": ["managed", "existing"]},
    "login_host": {"type": "str"},
    "login_port": {"type": "int", "min": 1, "max": 65535},
    "login_user": {"type": "str"},
    "login_password": {"type": "str", "secret": True},
    "login_passfile": {"type": "str"},
    "login_db": {"type": "str"},
    "login_unix_socket": {"type": "str"},
    "gucs": {"type": "dict"},
    "dataset": {"type": "dict"},
    "cache": {"type": "str", "choices": ["as_is", "warm", "cold"]},
    "reset": {"type": "str", "choices": ["template", "rebuild", "none"]},
    "load_generator": {"type": "str"},
    "spec": {"type": "str"},
    "pgio_conf": {"type": "str"},
    "time_scale": {"type": "float", "above": 0, "max": 1000},
    "data_scale": {"type": "float", "above": 0, "max": 1000},
    "region": {"type": "str"},
    "budget_usd": {"type": "float", "min": 0},
    "accept_unknown_cost": {"type": "bool"},
    "keep": {"type": "str", "choices": ["nothing", "data", "server"]},
    "provider": {"type": "str", "choices": ["local", "inventory", "aws"]},
    "allow_vars": {"type": "list", "elements": "str"},
    "share_host": {"type": "bool"},
    "storage": {"type": "dict"},
    "kernel": {"type": "dict"},
    "storage_wipe": {"type": "list", "elements": "str"},
    "server_group": {"type": "str"},
    "driver_group": {"type": "str"},
    "require": {"type": "str", "choices": ["measured", "valid"]},
    "resume": {"type": "str"},
    "results_dir": {"type": "str"},
}

#: What an inventory cannot say, because it endangers what is on the hosts (DESIGN 4.2).
COMMAND_LINE_ONLY = ("share_host", "storage_wipe")

#: Common words of eight letters or more.
_COMMON = {
    *("administrator", "benchmark", "changeme", "customer", "database", "enterprise", "enterprisedb", "hammerdb", "localhost", "password"),
    *("pgsizing", "postgres", "postgresql", "superuser", "warehouse"),
}
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


def nearest(name: Any, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` is probably meant to be, or ``None``."""
    close = difflib.get_close_matches(str(name).lower(), list(known), n=1, cutoff=0.75)
    return close[0] if close else None


def near_misses(given: Iterable[str], known: Iterable[str], allowed: Iterable[str] = ()) -> dict[str, str]:
    """Return ``{given name: name it is probably meant to be}`` for the names that are nearly ours and not ``allowed``.

    Names that resemble nothing of ours belong to somebody else and are left alone, as are ``ansible_*``. ``plan_<name>`` is
    the role's way to say the same.
    """
    known, allowed = set(known), set(allowed)
    wrong = {}
    for name in given:
        prefix = "plan_" if name.startswith("plan_") else ""
        short = name[len(prefix) :]
        if short in known or name in allowed or name.startswith("ansible_"):
            continue
        near = nearest(short, known)
        if near:
            wrong[name] = prefix + near
    return wrong


def coerce(name: str, value: Any, spec: Mapping[str, Any]) -> Any:
    """Return ``value`` as the type that ``spec`` asks for.

    Text (from ``-e name=value``) is read as that type. ``ValueError`` says what is wrong with ``name`` and what would
    be right. A secret's value never appears in the message.
    """
    kind = spec.get("type", "str")
    shown = "this value" if spec.get("secret") else repr(value)
    try:
        result = _COERCE[kind](value)
    except ValueError as error:
        short = name.rpartition(": ")[2].partition("[")[0]
        raise ValueError(f"{name}: {shown} {str(error).replace('NAME', short)}{_counted(short, value, spec)}") from None
    choices = spec.get("choices")
    if choices and result not in choices:
        near = nearest(str(result), map(str, choices))
        hint = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"{name}: {shown} is not one of {', '.join(map(str, choices))}{hint}")
    if isinstance(result, (int, float)) and not isinstance(result, bool):
        if "min" in spec and result < spec["min"]:
            raise ValueError(f"{name}: {shown} is too small; the least is {spec['min']}")
        if "max" in spec and result > spec["max"]:
            raise ValueError(f"{name}: {shown} is too large; the most is {spec['max']}")
        if "above" in spec and result <= spec["above"]:
            raise ValueError(f"{name}: {shown} must be greater than {spec['above']}")
    if kind == "list" and spec.get("elements"):
        result = [coerce(f"{name}[{i}]", item, {"type": spec["elements"]}) for i, item in enumerate(result)]
    return result


def _counted(name: str, value: Any, spec: Mapping[str, Any]) -> str:
    """Say in which unit of time a parameter counts, and what ``value`` is in it where it has a unit of its own."""
    unit = spec.get("unit")
    if not unit:
        return ""
    try:
        amount = parse_time(value) * TIMES["s"] / TIMES[unit]
    except UnitError:
        return f"; it counts {unit}, without the unit"
    return f"; it counts {unit}: {name}={amount:g}"


# Each raises ValueError with what the value is not and the right form; NAME stands for the parameter.


def _as_str(value: Any) -> str:
    if isinstance(value, (dict, list, tuple)):
        raise ValueError("is not text; give one, such as NAME=TEXT")
    return str(value).strip()


def _as_int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, bool):
        try:
            text = str(value).strip()
            return int(text) if text.lstrip("+-").isdigit() else _whole(float(text))
        except (ValueError, OverflowError):
            pass
    raise ValueError("is not a whole number, such as NAME=4")


def _whole(number: float) -> int:
    if number != int(number):
        raise ValueError(number)
    return int(number)


def _as_float(value: Any) -> float:
    if not isinstance(value, bool):
        try:
            number = float(value)
            if math.isfinite(number):
                return number
        except (TypeError, ValueError, OverflowError):
            pass
    raise ValueError("is not a number, such as NAME=0.5")


def _as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise ValueError("is neither true nor false, such as NAME=true")


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, dict):
        raise ValueError("is a mapping where a list is wanted, such as NAME: [a, b]")
    if isinstance(value, str):
        value = _maybe_list(value)
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _as_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = _from_json(value)
    if isinstance(value, dict):
        return dict(value)
    raise ValueError("""is not a mapping; give it as JSON: -e '{"NAME": {...}}'""")


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


_COERCE = {
    "str": _as_str,
    "path": _as_str,
    "int": _as_int,
    "float": _as_float,
    "bool": _as_bool,
    "list": _as_list,
    "dict": _as_dict,
    "raw": lambda value: value,
}


def coerce_all(given: Mapping[str, Any], spec: Spec, where: str = "") -> tuple[dict[str, Any], list[str]]:
    """Coerce every given value; return them with the list of everything that is wrong.

    A ``None`` or an empty text counts as not given. A list for a parameter whose spec allows an axis stays a list of
    coerced values. ``where`` is put before each name in the messages.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in given.items():
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        if name not in spec:
            near = nearest(name, spec)
            problems.append(f"{where}{name}: no such parameter" + (f"; did you mean {near!r}?" if near else ""))
            continue
        try:
            if spec[name].get("axis") and isinstance(_maybe_list(value), list):
                values[name] = [coerce(f"{where}{name}", item, spec[name]) for item in _maybe_list(value)]
            else:
                values[name] = coerce(f"{where}{name}", value, spec[name])
        except ValueError as error:
            problems.append(f"{error}{_several(name, value, spec[name])}")
    return values, problems


def _several(name: str, value: Any, spec: Mapping[str, Any]) -> str:
    """Say how several values are given where ``value`` is a text of them, ``8,16``."""
    if not spec.get("axis") or not isinstance(value, str) or "," not in value:
        return ""
    try:
        parts = [coerce(name, part, spec) for part in value.split(",")]
    except ValueError:
        return ""
    return f"; several are given as a list: {name}={json.dumps(parts, separators=(',', ':'))}"


def weak_secret(secret: str) -> bool:
    """Return whether a secret is short, a number or a common word: where Ansible masks it, it masks innocent text and figures too."""
    return len(secret) < 8 or secret.isdigit() or secret.lower() in _COMMON


def connection_strings(login: Mapping[str, Any]) -> list[str]:
    """Return why names of server and database cannot be handed to programs: libpq reads ``=`` and ``://`` as a connection string.

    It may hold a password, which would then stand in an argument list; so it is not in the texts either.
    """
    return [
        f"{name}: this is a connection string; give login_host, login_port, login_user, login_passfile and login_db by themselves"
        for name in ("login_host", "login_db")
        if "=" in str(login.get(name) or "") or "://" in str(login.get(name) or "")
    ]


def _maybe_list(value: Any) -> Any:
    """Read the text of a list, ``[1, 2]`` or ``[a,b]`` (a shell takes the quotes away); anything else is returned as it is."""
    if not (isinstance(value, str) and value.strip().startswith("[") and value.strip().endswith("]")):
        return value
    read = _from_json(value)
    return read if isinstance(read, list) else [part.strip() for part in value.strip()[1:-1].split(",") if part.strip()]
