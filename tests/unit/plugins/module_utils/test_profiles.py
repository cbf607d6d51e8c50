# GNU General Public License v3.0 or later (see LICENSE)
"""Profiles: rows by size, what is left out, and the explanation of every row."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import profiles
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue

PROFILES: dict[str, Any] = {
    "none": None,
    "mine": {"shared_buffers": "8GB", "max_wal_size": {"small": "1GB", "big": "2GB"}},
    "printed": {
        "description": "made up",
        "source": "nowhere",
        "confidence": {"big": "low"},
        "notes": ["a note"],
        "settings": {
            "shared_buffers": "24GB",
            "effective_cache_size": "4GB",
            "work_mem": {"small": "26MB", "big": "439MB"},
            "wal_keep_segments": 10,
            "db_dialect": "redwood",
            "primary_slot_name": "primary1",
            "random_page_cost": 1.1,
            "wal_log_hints": "on",
        },
        "rows": {
            "shared_buffers": {"reason": "a role says so", "note": {"small": "most of it"}},
            "work_mem": {"reason": "a formula", "wrong": {"big": "too much"}},
            "wal_keep_segments": {"wrong": "removed in 13"},
            "primary_slot_name": {"left_out": "no standby"},
        },
    },
    "as_intended": {
        "settings": {
            "shared_buffers": "24GB",
            "effective_cache_size": "28GB",
            "work_mem": "64MB",
            "wal_keep_segments": 10,
            "random_page_cost": 1.1,
        },
        "rows": {"work_mem": {"reason": "a constant"}, "wal_keep_segments": {"left_out": "no standby"}},
    },
}


def explained(name: str = "printed", size: str = "small", engine: str = "postgres", **more: Any) -> dict[str, dict[str, Any]]:
    arguments = {"memory_bytes": 32 * GIB, "clients": 96, **more}
    answer, problems = profiles.explain(PROFILES, name, size, catalogue.load("postgres", "15"), engine=engine, **arguments)
    assert problems == []
    return {row["name"]: row for row in answer["rows"]}


@pytest.mark.parametrize(("size", "wal"), [("small", "1GB"), ("big", "2GB")])
def test_a_plain_mapping_is_a_profile_and_may_differ_by_size(size: str, wal: str) -> None:
    found, problems = profiles.rows(PROFILES, "mine", size)
    assert problems == []
    assert [(row["name"], row["value"], row["reason"]) for row in found] == [
        ("shared_buffers", "8GB", "profile mine"),
        ("max_wal_size", wal, "profile mine"),
    ]


def test_a_profile_for_other_sizes_says_so() -> None:
    _found, problems = profiles.rows(PROFILES, "mine", "huge")
    assert problems == [
        "profile mine: made for small, big; for size huge it has no max_wal_size: "
        "take profile local (computed for any machine), or one of your own"
    ]


def test_remarks_hold_for_every_size_or_for_one() -> None:
    by_name = {row["name"]: row for row in profiles.rows(PROFILES, "printed", "big")[0]}
    assert by_name["work_mem"]["wrong"] == "too much"
    assert by_name["shared_buffers"]["note"] is None
    assert by_name["wal_keep_segments"]["wrong"] == "removed in 13"


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ("32GB", "profile x: '32GB' is not a mapping"),
        ({"settings": {}, "row": {}}, "profile x: row: no such key; did you mean 'rows'?"),
        ({"settings": {"work_mem": "1MB"}, "rows": {"work_men": {}}}, "profile x: rows: work_men: not among its settings"),
        ({"settings": {"work_mem": "1MB"}, "rows": {"work_mem": {"wrng": ""}}}, "rows: work_mem: wrng: no such key; did you mean 'wrong'?"),
    ],
)
def test_a_typo_in_a_profile_is_named(profile: Any, said: str) -> None:
    _found, problems = profiles.rows({"x": profile}, "x", "small")
    assert len(problems) == 1 and said in problems[0]


def test_the_empty_profile_has_no_rows() -> None:
    assert profiles.rows(PROFILES, "none", "small") == ([], [])


def test_the_plan_says_what_is_left_out_and_what_is_doubtful() -> None:
    found, _problems = profiles.rows(PROFILES, "printed", "big")
    said = profiles.findings_of(PROFILES, "printed", "big", found)
    assert [f["code"] for f in said] == ["profile_left_out", "profile_doubtful"]
    assert said[0]["message"] == "profile printed leaves out primary_slot_name (no standby)"
    assert profiles.findings_of(PROFILES, "mine", "small", profiles.rows(PROFILES, "mine", "small")[0]) == []


def test_every_row_is_explained_also_those_that_are_not_set() -> None:
    rows = explained()
    assert list(rows) == list(PROFILES["printed"]["settings"])
    assert {name: row["not_set"] for name, row in rows.items() if row["not_set"]} == {
        "db_dialect": "exists in EPAS only",
        "primary_slot_name": "no standby",
    }
    assert rows["db_dialect"]["text"] == "redwood"


def test_a_translated_row_names_what_it_became() -> None:
    row = explained()["wal_keep_segments"]
    assert (row["became"], row["text"], row["wrong"]) == ("wal_keep_size", "160MB", ["removed in 13"])
    assert row["instead"] == {"text": "not set", "reason": "no standby"}


def test_what_as_intended_does_instead() -> None:
    rows = explained()
    assert rows["work_mem"]["instead"] == {"text": "64MB", "reason": "a constant"}
    assert rows["shared_buffers"]["instead"] is None  # the same
    assert rows["primary_slot_name"]["instead"] is None  # set by neither
    assert rows["wal_log_hints"]["instead"] == {"text": "the server's default", "reason": "not in as_intended"}
    assert all(row["instead"] is None for row in explained("as_intended").values())


def test_what_is_wrong_on_this_hardware_is_computed_where_the_data_says_nothing() -> None:
    rows = explained()
    assert rows["shared_buffers"]["wrong"] == ["shared_buffers = 24GB is 75% of 32GB of memory"]
    assert "is more than effective_cache_size = 4GB" in rows["effective_cache_size"]["wrong"][0]
    assert explained(memory_bytes=256 * GIB)["shared_buffers"]["wrong"] == []
    assert explained(memory_bytes=None)["shared_buffers"]["wrong"] == []


def test_on_epas_its_settings_are_set() -> None:
    assert explained(engine="epas")["db_dialect"]["not_set"] is None


def test_a_profile_for_a_size_that_as_intended_does_not_know_is_explained_alone() -> None:
    known = {"as_intended": {"settings": {"work_mem": {"small": "1MB"}}}, "mine": {"work_mem": "2MB"}}
    answer, problems = profiles.explain(
        known, "mine", "own", catalogue.load("postgres", "15"), engine="postgres", memory_bytes=None, clients=1
    )
    assert problems == []
    assert answer["rows"][0]["instead"] is None


def test_a_wrong_setting_is_a_problem_with_the_name_of_the_profile() -> None:
    known = {"mine": {"shared_bufers": "2MB", "work_mem": "2 melons"}}
    _answer, problems = profiles.explain(
        known, "mine", "x", catalogue.load("postgres", "15"), engine="postgres", memory_bytes=None, clients=1
    )
    assert len(problems) == 2
    assert problems[0].startswith("profile mine: shared_bufers: ") and "did you mean shared_buffers?" in problems[0]
