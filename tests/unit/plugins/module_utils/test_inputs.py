# GNU General Public License v3.0 or later (see LICENSE)
"""Inputs: text of the command line becomes values, and every mistake is told with the right form."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import (
    COMMAND_LINE_ONLY,
    INPUTS,
    coerce,
    coerce_all,
    near_misses,
    nearest,
    weak_secret,
)
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench

KNOWN = set(INPUTS) | set(pgbench.OPTIONS)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sise", "size"),
        ("SIZE", "size"),
        ("sizes", "size"),
        ("client", "clients"),
        ("repeat", "repeats"),
        ("login_passwd", "login_password"),
        ("postgres_versions", "postgres_version"),
        ("plan_sise", "plan_size"),
        ("plan_client", "plan_clients"),
        ("site", "size"),  # a known false positive: allow_vars lets it through
        ("side", "size"),
    ],
)
def test_near_miss(given: str, meant: str) -> None:
    assert near_misses([given], KNOWN) == {given: meant}


@pytest.mark.parametrize(
    "name",
    [
        "size",
        "clients",
        "plan_size",
        "plan_name",
        "ansible_user",
        "ansible_sise",
        "env",
        "release",
        "host",
        "user",
        "corp_ticket",
        "our_site",
    ],
)
def test_names_of_others_and_of_ours_pass(name: str) -> None:
    assert near_misses([name], KNOWN) == {}


def test_allowed_names_pass() -> None:
    assert near_misses(["site", "sise"], KNOWN, allowed=["site"]) == {"sise": "size"}


def test_inputs_are_told_apart() -> None:
    """No name of ours is taken for a near miss of another when it is one itself, and every spec is of a known type."""
    assert near_misses(KNOWN, KNOWN) == {}
    assert set(COMMAND_LINE_ONLY) <= set(INPUTS)
    assert {spec["type"] for spec in INPUTS.values()} <= {"str", "int", "float", "bool", "list", "dict"}


def test_nearest_knows_nothing_like_it() -> None:
    assert nearest("hostname", KNOWN) is None


@pytest.mark.parametrize(
    ("value", "spec", "result"),
    [
        ("8", {"type": "int"}, 8),
        (" 8 ", {"type": "int"}, 8),
        ("-1", {"type": "int"}, -1),
        ("8.0", {"type": "int"}, 8),
        ("1e3", {"type": "int"}, 1000),
        (2.0, {"type": "int"}, 2),
        (2**53 + 1, {"type": "int"}, 2**53 + 1),  # never through a float
        (str(2**53 + 1), {"type": "int"}, 2**53 + 1),
        ("0.5", {"type": "float"}, 0.5),
        (1, {"type": "float"}, 1.0),
        ("yes", {"type": "bool"}, True),
        ("False", {"type": "bool"}, False),
        (0, {"type": "bool"}, False),
        ("on", {"type": "bool"}, True),
        (15, {"type": "str"}, "15"),
        (" warm ", {"type": "str", "choices": ["warm", "cold"]}, "warm"),
        ("a, b,,c", {"type": "list"}, ["a", "b", "c"]),
        ('["a, b"]', {"type": "list"}, ["a, b"]),
        ("[a, b]", {"type": "list", "elements": "str"}, ["a", "b"]),  # a shell took the quotes away
        ("[1, 2]", {"type": "list", "elements": "str"}, ["1", "2"]),
        (("a",), {"type": "list"}, ["a"]),
        (7, {"type": "list", "elements": "int"}, [7]),
        ('{"a": {"b": 1}}', {"type": "dict"}, {"a": {"b": 1}}),
        ({"a": 1}, {"type": "dict"}, {"a": 1}),
        ({"any": ["thing"]}, {"type": "raw"}, {"any": ["thing"]}),
    ],
)
def test_coerce(value: Any, spec: dict[str, Any], result: Any) -> None:
    read = coerce("x", value, spec)
    assert read == result
    assert type(read) is type(result)


@pytest.mark.parametrize(
    ("name", "value", "spec", "message"),
    [
        ("clients", "many", {"type": "int"}, "clients: 'many' is not a whole number, such as clients=4"),
        ("clients", 2.5, {"type": "int"}, "clients: 2.5 is not a whole number, such as clients=4"),
        ("clients", True, {"type": "int"}, "clients: True is not a whole number, such as clients=4"),
        ("clients", "1,200", {"type": "int"}, "clients: '1,200' is not a whole number, such as clients=4"),
        ("clients", "nan", {"type": "int"}, "clients: 'nan' is not a whole number, such as clients=4"),
        ("clients", "inf", {"type": "int"}, "clients: 'inf' is not a whole number, such as clients=4"),
        ("clients", None, {"type": "int"}, "clients: None is not a whole number, such as clients=4"),
        ("variants: a: clients", "x", {"type": "int"}, "variants: a: clients: 'x' is not a whole number, such as clients=4"),
        ("time_scale", "half", {"type": "float"}, "time_scale: 'half' is not a number, such as time_scale=0.5"),
        ("time_scale", "nan", {"type": "float"}, "time_scale: 'nan' is not a number, such as time_scale=0.5"),
        ("time_scale", "0,5", {"type": "float"}, "time_scale: '0,5' is not a number, such as time_scale=0.5"),
        ("time_scale", 0, INPUTS["time_scale"], "time_scale: 0 must be greater than 0"),
        ("repeats", 0, INPUTS["repeats"], "repeats: 0 is too small; the least is 1"),
        ("postgres_port", 70000, INPUTS["postgres_port"], "postgres_port: 70000 is too large; the most is 65535"),
        ("share_host", "perhaps", {"type": "bool"}, "share_host: 'perhaps' is neither true nor false, such as share_host=true"),
        ("cache", "colt", INPUTS["cache"], "cache: 'colt' is not one of as_is, warm, cold; did you mean 'cold'?"),
        ("cache", "hot", INPUTS["cache"], "cache: 'hot' is not one of as_is, warm, cold"),
        ("cache", ["warm", "cold"], INPUTS["cache"], "cache: ['warm', 'cold'] is not text; give one, such as cache=TEXT"),
        ("gucs", "shared_buffers=1GB", {"type": "dict"}, "is not a mapping; give it as JSON: -e '{\"gucs\": {...}}'"),
        ("gucs", "[1]", {"type": "dict"}, "gucs: '[1]' is not a mapping"),
        ("only_variants", {"a": 1}, {"type": "list"}, "is a mapping where a list is wanted, such as only_variants: [a, b]"),
        ("sizes", ["x"], {"type": "list", "elements": "int"}, "sizes[0]: 'x' is not a whole number, such as sizes=4"),
    ],
)
def test_a_mistake_is_told_with_the_right_form(name: str, value: Any, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        coerce(name, value, spec)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "str", "secret": True, "choices": ["other"]},
        {"type": "int", "secret": True},
        {"type": "dict", "secret": True},
    ],
)
def test_a_secret_is_never_shown(spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:
        coerce("login_password", "hunter2!", spec)
    assert "hunter2!" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    _values, problems = coerce_all({"login_password": {"a": "hunter2!"}}, INPUTS)
    assert problems == ["login_password: this value is not text; give one, such as login_password=TEXT"]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    values, problems = coerce_all(
        {"clients": "x", "scale": "20", "duratoin": 5, "protocol": "fast", "seed": None, "rate": "", "builtin": "  "},
        pgbench.OPTIONS,
        "a: ",
    )
    assert values == {"scale": 20}
    assert problems == [
        "a: clients: 'x' is not a whole number, such as clients=4",
        "a: duratoin: no such parameter; did you mean 'duration'?",
        "a: protocol: 'fast' is not one of simple, extended, prepared",
    ]


@pytest.mark.parametrize("value", [[1, "2", 4.0], "[1, 2, 4]", ["1", 2, "4"]])
def test_a_list_for_an_axis_stays_a_list(value: Any) -> None:
    assert coerce_all({"clients": value}, {"clients": {"type": "int", "axis": True}}) == ({"clients": [1, 2, 4]}, [])
    _values, problems = coerce_all({"clients": value}, {"clients": {"type": "int"}})
    assert problems[0].endswith("is not a whole number, such as clients=4")


def test_one_wrong_value_of_an_axis() -> None:
    _values, problems = coerce_all({"clients": [1, "two"]}, {"clients": {"type": "int", "axis": True}})
    assert problems == ["clients: 'two' is not a whole number, such as clients=4"]


def test_C034_sizes_of_an_axis_need_no_unit_but_settings_keep_theirs_as_text() -> None:
    """Values of settings are texts or numbers as given: their units are read by the settings' own rules, not here."""
    given = {"gucs": {"shared_buffers": "8GB", "work_mem": 4096, "autovacuum": False}}
    assert coerce_all(given, INPUTS) == (given, [])


@pytest.mark.parametrize(
    ("secret", "weak"),
    [("postgres", True), ("PASSWORD", True), ("HammerDB", True), ("x7!", True), ("17960556", True), ("correct horse", False)],
)
def test_C074_short_and_common_secrets_are_weak(secret: str, weak: bool) -> None:
    assert weak_secret(secret) is weak
