# GNU General Public License v3.0 or later (see LICENSE)
"""Plain builtins and strict JSON: what Ansible tags, artifacts must not."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

#: Types of Ansible whose text would be the decrypted secret.
VAULTED = ("EncryptedString", "AnsibleVaultEncryptedUnicode")
REDACTED = "<vaulted>"
#: What Ansible puts in the place of a secret: of a part of a text, of a whole value. The frame of a comment in SQL is none.
MASK = re.compile(r"(?<!\*)(?<!\s/)(?<!^/)\*{8}(?!\*|/(?:\s|$))|VALUE_SPECIFIED_IN_NO_LOG_PARAMETER")
#: Texts for people, in which a mask is right.
TEXTS = ("message", "problems", "evidence")


def to_plain(value: Any) -> Any:
    """Return ``value`` as exact ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool`` or ``None``.

    Subclasses (Ansible's tagged values) lose their class, a non-finite float becomes ``None`` (a missing figure),
    bytes are decoded, sets are sorted, what is no Unicode becomes ``?``, a vaulted value is not opened. Anything else is named
    as ``{"unsupported": <type>, "text": <str>}``, so that structure is never hidden behind ``str``; what has no text (an undefined
    variable) has ``None`` there.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value).encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(to_plain(k)): to_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((to_plain(v) for v in value), key=str)
    if type(value).__name__ in VAULTED:
        return REDACTED
    try:
        text = str(value)
    except Exception:
        return {"unsupported": type(value).__name__, "text": None}
    return {"unsupported": type(value).__name__, "text": text}


def without_masks(value: Any, name: str) -> tuple[Any, list[str]]:
    """Return plain ``value`` with ``None`` for whatever Ansible masked in it, and the names of those fields; ``name`` is its own.

    A secret that is a common word or a digit is found in innocent names and figures too. What is left there is no value.
    """
    if isinstance(value, str):
        return (None, [name]) if MASK.search(value) else (value, [])
    if isinstance(value, dict):
        read = {k: (v, []) if k in TEXTS else without_masks(v, f"{name}.{k}") for k, v in value.items()}
        return {k: kept for k, (kept, _names) in read.items()}, [n for _kept, names in read.values() for n in names]
    if isinstance(value, list):
        items = [without_masks(v, f"{name}[{k}]") for k, v in enumerate(value)]
        return [kept for kept, _names in items], [n for _kept, names in items for n in names]
    return value, []


def dump_json(value: Any, indent: int | None = 2) -> str:
    """Return ``value`` as strict JSON text with a final newline: keys keep their order, no NaN, no escapes of UTF-8."""
    return json.dumps(to_plain(value), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def canonical_json(value: Any) -> str:
    """Return the one text that equal values share: sorted keys, no blanks. For fingerprints."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
