# GNU General Public License v3.0 or later (see LICENSE)
"""Plain builtins and strict JSON."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict, UserDict
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.vault import EncryptedString
from ansible.template import trust_as_template
from jinja2 import StrictUndefined

from ansible_collections.pgsizing.bench.plugins.module_utils.plain import REDACTED, canonical_json, dump_json, to_plain, without_masks


class Text(str):
    """A subclass, as Ansible's tagged text is one."""


class Level(enum.IntEnum):
    HIGH = 3


class Figure(float):
    pass


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (Text("a"), "a"),
        (Level.HIGH, 3),
        (Figure(2.5), 2.5),
        (math.nan, None),
        (math.inf, None),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        ("broken \udcff", "broken ?"),
        (OrderedDict(a=Text("x")), {"a": "x"}),
        (UserDict({Text("k"): (1, 2)}), {"k": [1, 2]}),
        ({1: {"b": frozenset({"y", "x"})}}, {"1": {"b": ["x", "y"]}}),
        (date(2026, 1, 2), {"unsupported": "date", "text": "2026-01-02"}),
        (Path("/x"), {"unsupported": "PosixPath", "text": "/x"}),
        (ValueError("no"), {"unsupported": "ValueError", "text": "no"}),
        ([StrictUndefined(name="x")], [{"unsupported": "StrictUndefined", "text": None}]),
    ],
)
def test_C077_to_plain(value: Any, plain: Any) -> None:
    result = to_plain(value)
    assert result == plain
    assert exact(result)


def exact(value: Any) -> bool:
    """Whether a value is of builtin types all through."""
    if type(value) is dict:
        return all(type(k) is str and exact(v) for k, v in value.items())
    if type(value) is list:
        return all(exact(v) for v in value)
    return value is None or type(value) in (str, int, float, bool)


def test_C077_tagged_values_of_ansible() -> None:
    tagged = {"a": [trust_as_template("{{ x }}"), {"b": trust_as_template("c")}]}
    assert type(tagged["a"][0]) is not str
    plain = to_plain(tagged)
    assert plain == {"a": ["{{ x }}", {"b": "c"}]}
    assert exact(plain)


def test_C077_a_vaulted_value_is_not_opened() -> None:
    assert to_plain({"password": EncryptedString(ciphertext="$ANSIBLE_VAULT;1.1;AES256\n6162")}) == {"password": REDACTED}


def test_C008_strict_json() -> None:
    text = dump_json({"tps": math.nan, "name": "größe", "deep": [{"x": -math.inf}], "n": 1.0})
    assert text == '{\n  "tps": null,\n  "name": "größe",\n  "deep": [\n    {\n      "x": null\n    }\n  ],\n  "n": 1.0\n}\n'
    assert json.loads(text, parse_constant=pytest.fail) == {"tps": None, "name": "größe", "deep": [{"x": None}], "n": 1.0}
    text.encode("utf-8")


def test_one_line() -> None:
    assert dump_json({"b": 1, "a": [1, 2]}, indent=None) == '{"b": 1, "a": [1, 2]}\n'


def test_figures_keep_every_digit() -> None:
    values = [132.559344, 0.1 + 0.2, 2**62, 1e-9]
    assert json.loads(dump_json(values)) == values


def test_equal_values_share_one_text() -> None:
    assert canonical_json({"b": 1, "a": (1, 2)}) == canonical_json({"a": [1, 2], "b": 1}) == '{"a":[1,2],"b":1}'


@pytest.mark.parametrize(
    ("value", "left", "names"),
    [
        ({"datname": "********", "owner": "bench"}, {"datname": None, "owner": "bench"}, ["x.datname"]),
        ({"file": "/srv/********/log", "size": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"}, {"file": None, "size": None}, ["x.file", "x.size"]),
        ([{"tps": 812.5}, {"tps": "********"}], [{"tps": 812.5}, {"tps": None}], ["x[1].tps"]),
        ("********", None, ["x"]),
        (None, None, []),
        # What is no mask: a comment of SQL, other numbers of asterisks, and a mask in words for people.
        ("/******** mine ********/ SELECT 1 -- *********", "/******** mine ********/ SELECT 1 -- *********", []),
        ("***", "***", []),
        (
            {"message": "postgres://b:********@db", "problems": ["********"]},
            {"message": "postgres://b:********@db", "problems": ["********"]},
            [],
        ),
    ],
)
def test_C074_a_mask_is_no_value(value: Any, left: Any, names: list[str]) -> None:
    assert without_masks(value, "x") == (left, names)
