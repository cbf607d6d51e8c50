# GNU General Public License v3.0 or later (see LICENSE)
"""Only what was measured under the same conditions is compared."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import comparison
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding

KEY: dict[str, Any] = {
    "workload": "pgbench",
    "load_generator": ["pgbench", "16.2"],
    "parameters": {"clients": 8},
    "dataset": "abc",
    "cache": "as_is",
    "reset": "template",
    "restart": True,
    "engine": "postgres",
    "server_version": "16.2",
    "initdb": {},
    "settings": "0f0f",
    "autovacuum": "on",
    "huge_pages": False,
    "machine": {"cpu_model": "Example", "cores": 8, "memory_bytes": 2**34, "architecture": "x86_64", "kernel": "6.1.0-18"},
    "driver_on_server": True,
}


def trial(findings: Any = (), **changes: Any) -> dict[str, Any]:
    """A trial with the common key. Changes: ``"machine.kernel": value``."""
    key = copy.deepcopy(KEY)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = key
        for name in parents:
            place = place[name]
        place[last] = value
    return {"comparison_key": key, "findings": list(findings), "metrics": {}, "steps": [], "environment": {}}


def variant(version: str = "16", size: str = "local", gucs: dict[str, str] | None = None, **parameters: Any) -> dict[str, Any]:
    settings = [{"name": name, "text": text} for name, text in (gucs or {}).items()]
    return {"size": size, "postgres": {"version": version, "initdb": {}}, "settings": settings, "parameters": parameters}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"server_version": None}, None),  # what is not known contradicts nothing
        ({"load_generator": ["pgbench", None]}, None),
        ({"machine.memory_bytes": 2**34 - 2**20}, None),  # after a restart of the host
        ({"server_version": "16.3"}, "server version 16.2 and 16.3"),
        ({"load_generator": ["pgbench", "16.3"]}, "load generator version 16.2 and 16.3"),
        ({"machine.kernel": "6.1.0-21"}, "machine kernel 6.1.0-18 and 6.1.0-21"),
        ({"machine.cores": 4}, "machine cores 8 and 4"),
        ({"autovacuum": "off", "settings": "1a1a"}, "settings, autovacuum on and off"),
        ({"huge_pages": True}, "huge pages False and True"),
        ({"dataset": "def"}, "dataset"),
    ],
)
def test_repeats_are_of_one_condition(changes: dict[str, Any], said: str | None) -> None:
    found = comparison.conditions([trial(), trial(), trial(**changes)])
    assert [f["severity"] for f in found] == ([] if said is None else ["suspect"])
    assert said is None or found[0]["message"] == f"the repeats were not measured under the same conditions: {said}"


def test_the_settings_that_differ_are_named() -> None:
    trials = [trial(), trial(settings="1a1a")]
    for one, value in zip(trials, ("4096", "8192"), strict=True):
        rows = [{"name": "work_mem", "setting": value}, {"name": "fsync", "setting": "on"}]
        one["environment"] = {"postgres": {"non_default_settings": rows}}
    assert comparison.conditions(trials)[0]["message"].endswith("settings (work_mem)")


def test_trials_without_a_key_contradict_nothing() -> None:
    assert comparison.conditions([{}, trial(), {"comparison_key": None}]) == []
    assert comparison.incomparable([{}], [trial()], variant(), variant()) is None


@pytest.mark.parametrize(
    ("one", "base", "changes", "refused"),
    [
        (variant(clients=16), variant(clients=8), {"parameters": {"clients": 16}}, False),
        (variant(gucs={"autovacuum": "off"}), variant(), {"settings": "1a1a", "autovacuum": "off"}, False),
        (variant("17"), variant(), {"server_version": "17.1", "load_generator": ["pgbench", "17.1"], "settings": "1a1a"}, False),
        (variant(size="xl"), variant(size="small"), {"machine.cores": 32, "machine.cpu_model": "Other"}, False),
        (variant(clients=16), variant(clients=8), {"server_version": "16.3"}, True),
        (variant(clients=16), variant(clients=8), {"settings": "1a1a", "autovacuum": "off"}, True),
        (variant(gucs={"work_mem": "8MB"}), variant(), {"settings": "1a1a", "machine.cpu_model": "Other"}, True),
        (variant("17"), variant(), {"server_version": "17.1", "machine.kernel": "6.1.0-21"}, True),
        (variant(size="xl"), variant(size="small"), {"machine.cores": 32, "server_version": "16.3"}, True),
    ],
)
def test_variants_differ_in_what_they_name_alone(one: dict[str, Any], base: dict[str, Any], changes: dict[str, Any], refused: bool) -> None:
    reason = comparison.incomparable([trial(**changes)], [trial()], one, base)
    assert (reason is not None) == refused
    assert reason is None or reason.startswith("not measured under the same conditions: ")


@pytest.mark.parametrize(
    ("live", "refused"),
    [({"work_mem": "8192"}, None), ({"work_mem": "8192", "jit": "off"}, "settings that nobody asked to differ (jit)"), ({}, None)],
)
def test_a_variant_of_one_setting_differs_in_that_alone(live: dict[str, str], refused: str | None) -> None:
    one, base = trial(settings="1a1a"), trial()
    for t, settings in ((one, live), (base, {})):
        rows = [{"name": name, "setting": value} for name, value in {"max_wal_size": "1024", **settings}.items()]
        t["environment"] = {"postgres": {"non_default_settings": rows}}
    reason = comparison.incomparable([one], [base], variant(gucs={"work_mem": "8MB"}), variant())
    assert reason == (refused and f"not measured under the same conditions: {refused}")
    assert comparison.incomparable([one], [base], variant("17", gucs={"work_mem": "8MB"}), variant()) is None  # other defaults


def test_C092_a_rate_that_was_missed_is_not_ranked_against_one_that_was_held() -> None:
    missed = trial([finding("rate_missed", "rate not sustained: tps 612 of 1,000 (61 %); no ranking")])
    rated = variant(rate=1000)
    for sides in (([missed], [trial()]), ([trial()], [missed])):
        reason = comparison.incomparable(*sides, rated, rated)
        assert reason == "rate not sustained: tps 612 of 1,000 (61 %), which the other one held"
    assert comparison.incomparable([missed], [trial()], rated, variant()) is None  # no rate was asked for there
    assert comparison.incomparable([missed], [missed], rated, rated) is None
    held = {**trial(), "steps": [{"metrics": {"inserts_per_s": {"value": 1000, "target": 1000}}}]}
    assert comparison.incomparable([missed], [held], variant(), variant()) is not None
