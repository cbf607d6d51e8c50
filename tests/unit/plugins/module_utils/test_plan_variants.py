# GNU General Public License v3.0 or later (see LICENSE)
"""The variants of a plan: what differs, settings in layers, and scaled runs."""

from __future__ import annotations

from typing import Any

import pytest
from support.plan_site import SEED, codes, make_plan, make_site, names, problems_of, setting

from ansible_collections.pgsizing.bench.plugins.module_utils import plan as planning
from ansible_collections.pgsizing.bench.plugins.module_utils import plan_estimate


def test_settings_come_in_layers_and_say_what_they_replace() -> None:
    variants = {"base": {}, "big": {"gucs": {"work_mem": "64MB"}}}
    plan = make_plan(profile="none", gucs={"work_mem": "8MB", "random_page_cost": 1.1}, variants=variants)
    assert setting(plan, "work_mem")["origin"] == "gucs"
    assert (setting(plan, "work_mem", 1)["origin"], setting(plan, "work_mem", 1)["replaces"]) == ("variant big", "8MB")
    assert setting(plan, "random_page_cost", 1)["value"] == 1.1


def test_the_first_variant_is_the_base_and_the_order_is_abba() -> None:
    plan = make_plan(variants={"a": {}, "b": {"clients": 8}}, repeats=4)
    assert [(v["name"], v["base"]) for v in plan["variants"]] == [("a", True), ("b", False)]
    assert [t["variant"] for t in plan["trials"]] == list("abbaabba")
    assert [t["repeat"] for t in plan["trials"]] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [t["position"] for t in plan["trials"]] == list(range(1, 9))


def test_an_odd_last_repeat_is_half_a_block() -> None:
    plan = make_plan(variants={"a": {}, "b": {"clients": 8}})
    assert plan["repeats"] == 5
    assert [t["variant"] for t in plan["trials"]] == list("abbaabbaab")


def test_more_variants_are_shuffled_forward_then_reversed_and_the_same_each_time() -> None:
    given: dict[str, Any] = {"clients": [1, 2, 3, 4], "repeats": 4}
    order = [t["variant"] for t in make_plan(**given)["trials"]]
    assert order[4:8] == order[3::-1]
    assert order[12:16] == order[11:7:-1]
    assert order == [t["variant"] for t in make_plan(**given)["trials"]]


def test_a_list_is_a_variant_axis() -> None:
    plan = make_plan(clients=[1, 4], protocol=["simple", "prepared"])
    assert names(plan) == [
        "clients=1 protocol=simple",
        "clients=1 protocol=prepared",
        "clients=4 protocol=simple",
        "clients=4 protocol=prepared",
    ]
    assert [v["parameters"]["clients"] for v in plan["variants"]] == [1, 1, 4, 4]
    assert plan["variants"][3]["differs"] == {"clients": 4, "protocol": "prepared"}
    assert plan["inputs"] == {"workload": "pgbench", "clients": [1, 4], "protocol": ["simple", "prepared"]}
    assert plan["comparisons"]["count"] == 3


def test_server_versions_are_an_axis() -> None:
    plan = make_plan(postgres_version=["15", 16], profile="none")
    assert [v["postgres"]["version"] for v in plan["variants"]] == ["15", "16"]
    assert len(plan_estimate.clusters(plan)) == 2


def test_named_variants_are_multiplied_by_an_axis_unless_they_say_the_value_themselves() -> None:
    plan = make_plan(variants={"a": {"clients": 2}, "b": {}}, clients=[1, 4])
    assert [(v["name"], v["parameters"]["clients"]) for v in plan["variants"]] == [("a", 2), ("b clients=1", 1), ("b clients=4", 4)]


def test_only_variants() -> None:
    given: dict[str, Any] = {"variants": {"a": {}, "b": {"clients": 8}, "c": {"protocol": "nonsense"}}}
    plan, problems = planning.build({**given, "only_variants": "b"}, make_site())
    assert names(plan) == ["b"]
    assert plan["variants"][0]["base"] is True
    assert plan["repeats"] == 3
    assert problems == ["variants: c: protocol: 'nonsense' is not one of simple, extended, prepared"]
    given["variants"].pop("c")
    assert problems_of(**given, only_variants=["b", "d"]) == ["only_variants: no variant 'd'; there are a, b"]
    assert problems_of(**given, only_variants=["d"]) == ["only_variants: no variant 'd'; there are a, b"]


def test_what_a_variant_says_replaces_its_opposite() -> None:
    plan = make_plan(transactions=100, variants={"a": {}, "b": {"duration": 5}})
    assert [(v["parameters"]["transactions"], v["parameters"]["duration"]) for v in plan["variants"]] == [(100, None), (None, 5)]


@pytest.mark.parametrize(
    ("variants", "problem"),
    [
        ({"a": {"clints": 4}}, "variants: a: clints: no such parameter; did you mean 'clients'?"),
        ({"a": "big"}, "variants: a: 'big' is not a mapping, such as {gucs: {shared_buffers: 1GB}}"),
        ({"a": {"clients": [1, 2]}}, "variants: a: clients: [1, 2] is not a whole number, such as clients=4"),
        ({"a": {"scale": 0}}, "variant a: scale: 0 is not a whole number of 1 or more"),
        ({"a": {"initdb": {"checksums": True}}}, "variant a: initdb: checksums: no such parameter; did you mean 'data_checksums'?"),
        (
            {"a": {"initdb": {"wal_segsize": 3}}},
            "variant a: initdb: wal_segsize: 3 is not one of 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024",
        ),
        ({"a": {"postgres_version": 9}}, "variant a: postgres_version: '9' is not one of 13, 14, 15, 16, 17, 18"),
        ({"a": {"postgres_version": "9.6"}}, "variant a: postgres_version: '9.6' is not one of 13, 14, 15, 16, 17, 18"),
        ({1: {}, "1": {"clients": 8}}, "variants: 1: stands there twice, as a number and as a text"),
        ({"a": {"profile": "lokal"}}, "variant a: profile: no profile 'lokal'; did you mean 'local'?"),
    ],
)
def test_mistakes_in_variants(variants: dict[str, Any], problem: str) -> None:
    assert problem in problems_of(variants=variants)


def test_an_axis_without_values_or_with_one_twice() -> None:
    assert problems_of(clients=[]) == ["clients: an empty list"]
    assert problems_of(clients=[4, "4"]) == ["clients: [4, 4] holds a value twice; repeats are asked for with repeats=N"]


def test_a_log_that_would_be_too_large_is_sampled() -> None:
    plan = make_plan(builtin="select-only", duration=36000, repeats=1)
    assert 0 < plan["variants"][0]["parameters"]["sampling_rate"] < 1
    assert "sampled_log" in codes(plan)


# scaling ----------------------------------------------------------------------------------------------------------------


def test_data_scale_multiplies_the_data_set_and_the_listed_settings() -> None:
    plan = make_plan(reproduce=SEED, data_scale=0.2)
    assert [v["parameters"]["scale"] for v in plan["variants"]] == [10, 10]
    assert [setting(plan, "shared_buffers", i)["text"] for i in (0, 1)] == ["25MB", "204MB"]
    assert plan["variants"][0]["parameters"]["clients"] == 10
    assert plan["variants"][0]["parameters"]["transactions"] == 1000
    assert plan["scaling"] == [
        {"name": "scale", "from": 50, "to": 10},
        {"name": "shared_buffers", "from": "128MB", "to": "25MB"},
        {"name": "shared_buffers", "from": "1GB", "to": "204MB"},
    ]
    assert "shape_only" in codes(plan)
    assert {"what": "scale (scaled)", "published": 50, "here": 10} in plan["deviations"]


def test_scaled_settings_have_floors() -> None:
    plan = make_plan(reproduce=SEED, data_scale=0.01)
    assert [setting(plan, "shared_buffers", i)["text"] for i in (0, 1)] == ["16MB", "16MB"]
    assert plan["variants"][0]["parameters"]["scale"] == 1


def test_what_the_user_says_of_memory_is_not_scaled() -> None:
    plan = make_plan(reproduce=SEED, data_scale=0.2, gucs={"maintenance_work_mem": "256MB"})
    assert setting(plan, "maintenance_work_mem")["text"] == "256MB"
    assert setting(plan, "shared_buffers")["text"] == "25MB"
    own = make_plan(reproduce=SEED, data_scale=0.2, variants={"a": {"gucs": {"shared_buffers": "512MB"}}})
    assert setting(own, "shared_buffers")["text"] == "512MB"
    assert setting(make_plan(data_scale=0.5), "shared_buffers")["text"] == "4GB"  # a profile, not a recipe


def test_a_large_wal_segment_raises_the_floor() -> None:
    recipe = {
        "workload": "pgbench",
        "profile": "none",
        "gucs": {"min_wal_size": "1GB", "max_wal_size": "4GB"},
        "initdb": {"wal_segsize": 64},
    }
    plan = make_plan(make_site(recipes={"x": {"title": "x", "source": "x", "recipe": recipe}}), reproduce="x", data_scale=0.001)
    assert (setting(plan, "min_wal_size")["text"], setting(plan, "max_wal_size")["text"]) == ("128MB", "128MB")


@pytest.mark.parametrize(
    ("given", "duration", "ramp_up", "checkpoint"),
    [
        ({"duration": 300, "ramp_up": 60, "time_scale": 0.1}, 30, 6, "90s"),
        ({"duration": 2, "ramp_up": 1, "time_scale": 0.1}, 1, 1, "90s"),
        ({"duration": 300, "time_scale": 0.001}, 1, 1, "30s"),  # the setting's own minimum
        ({"duration": 10, "ramp_up": 0, "time_scale": 200}, 2000, 0, "1d"),  # and its maximum
    ],
)
def test_time_scale(given: dict[str, Any], duration: int, ramp_up: int, checkpoint: str) -> None:
    plan = make_plan(gucs={"checkpoint_timeout": "15min"}, **given)
    parameters = plan["variants"][0]["parameters"]
    assert (parameters["duration"], parameters["ramp_up"]) == (duration, ramp_up)
    assert setting(plan, "checkpoint_timeout")["text"] == checkpoint


def test_transactions_shrink_only_to_a_window_of_ten_seconds() -> None:
    """The estimate is 300 transactions a second and core, so 1200 here: 10 clients x 1200 transactions are ten seconds."""
    plan = make_plan(transactions=12000, clients=10, time_scale=0.5)
    assert plan["variants"][0]["parameters"]["transactions"] == 6000
    plan = make_plan(transactions=12000, clients=10, time_scale=0.001)
    assert plan["variants"][0]["parameters"]["transactions"] == 1200
    plan = make_plan(transactions=12000, clients=10, time_scale=0.001, ramp_up=1000)  # ramp-up is not part of the window
    assert plan["variants"][0]["parameters"]["transactions"] == 1200
    plan = make_plan(transactions=100, clients=10, time_scale=0.1)  # shorter than that already
    assert plan["variants"][0]["parameters"]["transactions"] == 100
