# GNU General Public License v3.0 or later (see LICENSE)
"""The plan as text: what will run, where, with which settings and why."""

from __future__ import annotations

from typing import Any

import pytest
from support.plan_site import MACHINE, make_experiment, make_site

from ansible_collections.pgsizing.bench.plugins.module_utils.plan_text import WIDTH, duration, plan_text


def text(**given: Any) -> str:
    return "\n".join(plan_text(make_experiment(**given), MACHINE))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (47.6, "48 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (3599.7, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_duration(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_an_ordinary_plan() -> None:
    lines = text().splitlines()
    assert lines[:3] == [
        "PLAN 20260921T141320Z-local-pgbench",
        "  where      size local: this machine",
        "             4 cores, 16GB memory, 100GB free in /var/lib/pgsizing",
    ]
    assert "  trials     3 = 1 variant(s) x 3 repeat(s): base base base" in lines
    assert "  each from  reset template, restart, cache as_is" in lines
    buffers = next(line for line in lines if line.startswith("    shared_buffers = 4GB"))
    assert "a quarter of 16GB of memory" in buffers
    assert not any(line.startswith(("  scaled", "  deviations")) for line in lines)


def test_each_value_has_its_reason_or_origin_and_what_it_replaces() -> None:
    shown = text(profile="none", gucs={"work_mem": "8MB"}, variants={"a": {}, "b": {"gucs": {"work_mem": "16MB"}}})
    assert "    work_mem = 8MB " in shown
    assert " gucs" in shown
    assert "    work_mem = 16MB (replaces 8MB) " in shown
    assert " variant b" in shown


def test_settings_that_all_variants_share_are_shown_once() -> None:
    shown = text(profile="none", gucs={"random_page_cost": 1.1}, variants={"a": {}, "b": {"gucs": {"work_mem": "16MB"}}})
    assert shown.count("random_page_cost") == 1
    assert "settings of every variant" in shown


def test_zero_is_a_value_and_a_cache_of_its_own_is_told() -> None:
    shown = text(max_tries=0, latency_limit=100, variants={"a": {}, "b": {"cache": "warm"}})
    assert shown.count("max_tries 0") == 2
    assert shown.count("cache warm") == 1


def test_every_scaled_value_and_deviation_is_printed() -> None:
    shown = text(reproduce="pgbench-shared-buffers-2023", data_scale=0.2, time_scale=0.2)
    for line in (
        "    scale: 50 -> 10",
        "    shared_buffers: 1GB -> 204MB",
        "    server version: published PostgreSQL 15.1; here PostgreSQL 15.14",
        "    shared_buffers after the change: published 2GB in the prose, 1GB in the file and in SHOW; here 1GB",
        "    note shape_only: scaled run: compare its variants with each other, never with a published figure",
    ):
        assert line in shown.splitlines()


def test_nothing_is_claimed_of_an_existing_server() -> None:
    shown = text(target="existing", login_host="db1", login_password="hunter2!")
    assert "  where      target=existing: db1, driven from here" in shown
    assert "no restart, caches as they are" in shown
    assert "the server as it is, data set" in shown
    assert "PostgreSQL 15" not in shown
    assert "hunter2!" not in shown


def test_scripts_are_named_not_printed() -> None:
    shown = text(scripts=[{"sql": "SELECT 42;", "name": "answer.sql", "weight": 3}, {"builtin": "select-only"}])
    assert "[answer.sql, select-only]" in shown
    assert "SELECT 42" not in shown


def test_the_same_note_of_several_variants_is_printed_once() -> None:
    assert text(builtin="select-only", duration=72000, repeats=1, clients=[4, 8]).count("sampled_log") == 1


def test_lines_fit_a_terminal() -> None:
    shown = text(clients=list(range(1, 30)), profile="none", repeats=1)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert " ..." in shown  # twelve of 29 trials


def test_a_host_of_an_inventory() -> None:
    site = make_site(inventory={"given": True, "groups": {"pgsizing_server": ["db1"]}, "local_only": False})
    lines = plan_text(make_experiment(site, profile="none"), {**MACHINE, "remote": True})
    assert lines[1].startswith("  where      db1 in group pgsizing_server of the inventory")
    assert "4 cores" not in lines[2]
