# GNU General Public License v3.0 or later (see LICENSE)
"""Sizes and times in and out, read exactly as PostgreSQL reads them (``parse_int``, ``parse_real`` and
``convert_to_base_unit`` of its ``guc.c``, 12 and later).

A setting counts in its *base unit* (column ``unit`` of ``pg_settings``: ``8kB``, ``kB``, ``MB``, ``B``, ``ms``, ``s``,
``min``). Sizes step by 1024: ``MB`` is 2^20 bytes. All functions raise :class:`UnitError`, whose text is for the user.
"""

from __future__ import annotations

import math
import re

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

#: Units of the user, from large to small, in bytes and in microseconds.
SIZES = {"TB": TIB, "GB": GIB, "MB": MIB, "kB": KIB, "B": 1}
TIMES = {"d": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1}

INT_MAX = 2**31 - 1

_SPACE = " \t\n\v\f\r"
# strtol() with base 0 reads hexadecimal and octal; strtod() the rest.
_INTEGER = re.compile(r"[ \t\n\v\f\r]*[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[ \t\n\v\f\r]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[ \t\n\v\f\r]*[+-]?0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?(?:[pP][+-]?[0-9]+)?")
# What people write for a unit, in lower case.
_MEANT = {
    "B": "b byte bytes",
    "kB": "k kb kib",
    "MB": "m mb mib",
    "GB": "g gb gib",
    "TB": "t tb tib",
    "us": "us usec",
    "ms": "ms msec",
    "s": "s sec secs second seconds",
    "min": "m min mins minute minutes",
    "h": "h hr hour hours",
    "d": "d day days",
}


class UnitError(ValueError):
    """A text that is no number, or a number in no valid unit."""


def unit_size(base: str) -> int | None:
    """Return the size of one base unit in bytes (``8kB`` -> 8192), or ``None`` where it is a time."""
    found = re.fullmatch(r"([0-9]*)(B|kB|MB)", base)
    return int(found.group(1) or 1) * SIZES[found.group(2)] if found else None


def split(text: str) -> tuple[float, str]:
    """Return number and unit of an integer setting's ``text``: ``1.5GB`` -> (1.5, "GB"), ``0x10`` -> (16, "")."""
    found = _INTEGER.match(text)
    rest = text[found.end() :] if found else text
    if rest[:1] in (".", "e", "E"):
        return split_real(text)
    if not found:
        raise UnitError(f"{text!r} is not a number")
    number = found.group().strip(_SPACE)
    digits = number.lstrip("+-")
    base = 16 if digits[:2].lower() == "0x" else 8 if digits[0] == "0" else 10
    value = int(number, base) if len(number) < 80 else 2**63  # nobody means that many digits
    if abs(value) >= 2**63:
        raise UnitError(f"{_short(text)} exceeds the range of an integer setting")
    return value, rest.strip(_SPACE)


def split_real(text: str) -> tuple[float, str]:
    """Return number and unit of a real setting's ``text``."""
    hexadecimal = _HEXADECIMAL.match(text)
    found = hexadecimal or _DECIMAL.match(text)
    if not found:
        raise UnitError(f"{text!r} is not a number")
    try:
        number = float.fromhex(found.group()) if hexadecimal else float(found.group())
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise UnitError(f"{_short(text)} is larger than any number can be")
    return number, text[found.end() :].strip(_SPACE)


def to_base(text: str, base: str | None, *, integer: bool = True) -> float:
    """Return the value of ``text`` in units of ``base`` (``None``: the setting has no unit).

    A fraction is rounded to the next smaller unit first (``30.1GB`` -> a whole number of MB), as PostgreSQL does, and an
    integer setting then to a whole number of base units. A number without unit is read in base units.
    """
    number, unit = split(text) if integer else split_real(text)
    if unit and base is None:
        raise UnitError(f"{text!r}: this setting takes a number without unit" if unit.isalpha() else f"{text!r} is not a number")
    value = _convert(number, unit, base, text) if unit and base else number
    if not integer:
        return value
    if abs(value) > 2 * INT_MAX or not -INT_MAX - 1 <= round(value) <= INT_MAX:
        raise UnitError(f"{text!r} exceeds the range of an integer setting")
    return round(value)


def from_base(value: float, base: str | None) -> str:
    """Return ``value`` in units of ``base`` as the shortest text that reads back as the same value.

    Zero and negative values stand without unit, as ``SHOW`` prints them: they are switches (0, -1), not amounts.
    """
    if base is None or value <= 0:
        return _number(value)
    units, one = _units(base)
    for unit, large in units.items():
        if value * one % large == 0 and _reads_back(text := f"{_number(value * one / large)}{unit}", value, base):
            return text
    text = f"{_number(value)}{base}"
    return text if base in units and _reads_back(text, value, base) else _number(value)


def parse_size(text: object) -> int:
    """Return the bytes of a user's size such as ``120GB``. The unit must be there, in the spelling of PostgreSQL."""
    return round(_strict(text, SIZES, "B", "a size", "1024MB"))


def parse_time(text: object) -> float:
    """Return the seconds of a user's time such as ``5min``. The unit must be there, in the spelling of PostgreSQL."""
    return _strict(text, TIMES, "us", "a time", "90s") / TIMES["s"]


def format_size(size: int) -> str:
    """Return ``size`` bytes as the shortest exact text: 25769803776 -> ``24GB``."""
    return from_base(size, "B")


def human_size(size: float) -> str:
    """Return ``size`` bytes rounded for a sentence: 39659241472 -> ``36.9GB``. Not for settings: it loses digits."""
    unit, large = next(((unit, large) for unit, large in SIZES.items() if abs(size) >= large), ("B", 1))
    return f"{size / large:.1f}".removesuffix(".0") + unit


def _units(base: str) -> tuple[dict[str, int], int]:
    """Return the units that go with ``base``, and the size of ``base`` in the smallest of them."""
    size = unit_size(base)
    return (SIZES, size) if size else (TIMES, TIMES[base])


def _convert(number: float, unit: str, base: str, text: str) -> float:
    """Return ``number`` of ``unit`` in units of ``base``, rounded as ``convert_to_base_unit`` does."""
    units, one = _units(base)
    if unit not in units:
        raise UnitError(_wrong_unit(text, unit, units))
    names = list(units)
    value = number * (units[unit] / one)
    if math.isinf(value):
        raise UnitError(f"{_short(text)} is larger than any number can be")
    if unit != names[-1]:
        step = units[names[names.index(unit) + 1]] / one
        value = round(value / step) * step
    return value


def _strict(text: object, units: dict[str, int], base: str, what: str, example: str) -> float:
    number, unit = split_real(text) if isinstance(text, str) else (0.0, "")
    if not isinstance(text, str) or not unit:
        raise UnitError(f"{text!r}: {what} needs its unit, for example {example} ({_listed(units)})")
    value = _convert(number, unit, base, text)
    if value < 0:
        raise UnitError(f"{text!r}: {what} cannot be negative")
    return value


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


def _wrong_unit(text: str, unit: str, units: dict[str, int]) -> str:
    number = text[: text.rindex(unit)].strip(_SPACE)
    hint = next((f": write {number}{known}" for known in units if unit.lower() in _MEANT[known].split()), "")
    return f"{text!r}: unknown unit {unit!r}{hint} (units: {_listed(units)})"


def _listed(units: dict[str, int]) -> str:
    return ", ".join(reversed(list(units))) + (", in steps of 1024" if units is SIZES else "")


def _reads_back(text: str, value: float, base: str) -> bool:
    return _convert(*split(text), base, text) == value


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
