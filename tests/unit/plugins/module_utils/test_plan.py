# GNU General Public License v3.0 or later (see LICENSE)
"""PLAN: variants, order, scaling, where it runs, and every reason for a refusal with the right form."""

from __future__ import annotations

from typing import Any

import pytest
from support import shipped
from support.plan_site import GIB, MACHINE, NOW, make_plan, make_site, problems_of

from ansible_collections.pgsizing.bench.plugins.module_utils import plan as planning
from ansible_collections.pgsizing.bench.plugins.module_utils.plan import NOT_YET
from ansible_collections.pgsizing.bench.plugins.plugin_utils import site as sites

SEED = "pgbench-shared-buffers-2023"
HOSTS = {"given": True, "local_only": False}


def names(plan: dict[str, Any]) -> list[str]:
    return [v["name"] for v in plan["variants"]]


def setting(plan: dict[str, Any], name: str, variant: int = 0) -> dict[str, Any]:
    return next(s for s in plan["variants"][variant]["settings"] if s["name"] == name)


def codes(plan: dict[str, Any]) -> list[str]:
    return [f["code"] for f in plan["findings"]]


# defaults --------------------------------------------------------------------------------------------------------------


def test_nothing_given() -> None:
    plan, problems = planning.build({}, make_site())
    assert problems == []
    assert (plan["size"], plan["workload"], plan["repeats"], plan["cache"], plan["reset"]) == ("local", "tprocc", 3, "as_is", "template")
    assert (plan["load_generator"], plan["role"], plan["headline"]) == ("builtin", "tprocc", "nopm")
    assert names(plan) == ["base"]
    assert plan["variants"][0]["base"] is True
    assert plan["variants"][0]["postgres"] == {"version": "15", "initdb": {}}
    assert plan["variants"][0]["parameters"]["threads"] == 4  # one for each client, up to the cores
    assert [t["id"] for t in plan["trials"]] == ["01-base-r1", "02-base-r2", "03-base-r3"]
    assert plan["comparisons"]["count"] == 0
    assert plan["published"] is None
    assert plan["deviations"] == []
    assert setting(plan, "shared_buffers")["text"] == "4GB"  # the local profile: a quarter of the memory
    assert setting(plan, "shared_buffers")["origin"] == "profile local"
    assert plan["inputs"] == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scale": 50}, "scale: tprocc has no such parameter; pgbench has: -e workload=pgbench"),
        ({"workload": "pgbench", "warehouses": 4}, "warehouses: pgbench has no such parameter; tprocc has: -e workload=tprocc"),
    ],
)
def test_a_parameter_of_another_workload(given: dict[str, Any], said: str) -> None:
    assert planning.build(given, make_site())[1] == [said]


def test_experiment_ids_sort_by_time() -> None:
    first, second = planning.experiment_id(NOW, "Local pgbench!"), planning.experiment_id(NOW + 1, "a")
    assert first == "20260921T141320Z-local-pgbench"
    assert first < second
    assert planning.experiment_id(NOW, "ä/..") == "20260921T141320Z-x"


def test_settings_come_in_layers_and_say_what_they_replace() -> None:
    variants = {"base": {}, "big": {"gucs": {"work_mem": "64MB"}}}
    plan = make_plan(profile="none", gucs={"work_mem": "8MB", "random_page_cost": 1.1}, variants=variants)
    assert setting(plan, "work_mem")["origin"] == "gucs"
    assert (setting(plan, "work_mem", 1)["origin"], setting(plan, "work_mem", 1)["replaces"]) == ("variant big", "8MB")
    assert setting(plan, "random_page_cost", 1)["value"] == 1.1


# variants --------------------------------------------------------------------------------------------------------------


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
    assert len(planning.clusters(plan)) == 2


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


def test_variants_that_share_a_cluster_and_those_that_do_not() -> None:
    plan = make_plan(
        profile="none",
        variants={"a": {}, "b": {"initdb": {"data_checksums": "yes"}}, "c": {"scale": 20}, "d": {"gucs": {"work_mem": "1MB"}}},
    )
    assert plan["variants"][1]["postgres"]["initdb"] == {"data_checksums": True}
    clusters = planning.clusters(plan)
    assert [c["name"] for c in clusters] == [planning.cluster_name(plan["variants"][0]), planning.cluster_name(plan["variants"][1])]
    assert [d["parameters"]["scale"] for d in clusters[0]["datasets"]] == [10, 20]


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
        ({"a": {"profile": "lokal"}}, "variant a: profile: no profile 'lokal'; did you mean 'local'?"),
    ],
)
def test_mistakes_in_variants(variants: dict[str, Any], problem: str) -> None:
    assert problem in problems_of(variants=variants)


def test_an_axis_without_values_or_with_one_twice() -> None:
    assert problems_of(clients=[]) == ["clients: an empty list"]
    assert problems_of(clients=[4, "4"]) == ["clients: [4, 4] holds a value twice; repeats are asked for with repeats=N"]


# repeats ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variants", "repeats", "needed"), [(2, 4, 4), (2, 3, 4), (18, 6, 6), (18, 5, 6)])
def test_repeats_needed_are_told(variants: int, repeats: int, needed: int) -> None:
    plan = make_plan(clients=list(range(1, variants + 1)), repeats=repeats)
    assert plan["comparisons"] == {"count": variants - 1, "alpha": 0.05, "repeats_needed": needed}
    assert ("too_few_repeats" in codes(plan)) is (repeats < needed)


# published runs --------------------------------------------------------------------------------------------------------


def test_the_recipe_sets_the_rest() -> None:
    plan = make_plan(reproduce=SEED)
    parameters = plan["variants"][0]["parameters"]
    assert {k: parameters[k] for k in ("scale", "clients", "threads", "transactions", "duration", "protocol")} == {
        "scale": 50,
        "clients": 10,
        "threads": 2,
        "transactions": 1000,
        "duration": None,
        "protocol": "simple",
    }
    assert names(plan) == ["128MB", "1GB"]
    assert plan["repeats"] == 5
    assert plan["reproduce"] == plan["published"]["id"] == SEED
    assert "shape_only" not in codes(plan)


def test_C050_the_recipe_takes_1GB_and_lists_the_contradiction() -> None:
    plan = make_plan(reproduce=SEED)
    assert setting(plan, "shared_buffers", 1)["text"] == "1GB"
    row = next(d for d in plan["deviations"] if d["what"] == "shared_buffers after the change")
    assert row == {"what": "shared_buffers after the change", "published": "2GB in the prose, 1GB in the file and in SHOW", "here": "1GB"}
    gain = next(d for d in plan["deviations"] if d["what"] == "attribution of the gain")
    assert "warm cache" in gain["here"]


def test_C095_the_order_of_the_published_run_is_a_deviation() -> None:
    plan = make_plan(reproduce=SEED)
    here = {d["what"]: d["here"] for d in plan["deviations"]}
    assert "A B B A" in here["repeats"]
    assert here["start"].startswith("each trial from the same state: reset template, restart")
    assert here["connection"] == "Unix socket, no TLS"
    assert [t["variant"] for t in plan["trials"]][:4] == ["128MB", "1GB", "1GB", "128MB"]
    assert plan["comparisons"]["repeats_needed"] == 4


def test_explicit_inputs_win_and_become_deviations() -> None:
    plan = make_plan(reproduce=SEED, duration=30, clients=10, repeats=4, gucs={"work_mem": "8MB"}, keep="nothing", postgres_port=55433)
    assert plan["variants"][0]["parameters"]["transactions"] is None
    rows = {d["what"]: (d["published"], d["here"]) for d in plan["deviations"]}
    assert rows["duration"] == ("not stated", 30)
    assert rows["gucs"] == ("not stated", {"work_mem": "8MB"})
    assert "clients" not in rows  # as published
    assert rows["repeats"][1] == "4 per variant, in A B B A order"  # told by the condition, once
    assert not {"keep", "postgres_port"} & set(rows)


def test_no_secret_among_the_deviations() -> None:
    plan, _problems = planning.build(
        {"reproduce": SEED, "login_password": "hunter2!", "target": "existing", "login_host": "db"}, make_site()
    )
    assert "hunter2!" not in str(plan)
    assert plan["inputs"]["login_password"] == "given, not recorded"
    assert "login_password" not in {d["what"] for d in plan["deviations"]}


def test_an_unknown_published_run() -> None:
    problems = problems_of(reproduce="pgbench-shared-buffer-2023")
    assert problems[0].startswith("reproduce: no published run 'pgbench-shared-buffer-2023'; there are ")
    assert problems[0].endswith(f"did you mean {SEED!r}?")


# scaling ---------------------------------------------------------------------------------------------------------------


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


# where it runs ---------------------------------------------------------------------------------------------------------


def where(**given: Any) -> dict[str, Any]:
    inventory = given.pop("inventory", None)
    return make_plan(make_site(inventory=inventory), profile="none", **given)["where"]


def test_this_machine() -> None:
    assert where() == {
        "provider": "local",
        "server": ["localhost"],
        "driver": ["localhost"],
        "reason": "size local: this machine",
        "driver_on_server": True,
    }


def test_a_host_of_the_group() -> None:
    found = where(inventory={**HOSTS, "groups": {"pgsizing_server": ["db1", "db2"]}})
    assert (found["provider"], found["server"], found["driver"]) == ("inventory", ["db1"], ["db1"])
    assert found["reason"].startswith("db1, the first of 2 hosts in group pgsizing_server of the inventory")
    assert where(inventory={**HOSTS, "groups": {"primary": ["p1"]}}, server_group="primary")["server"] == ["p1"]
    assert where(inventory={**HOSTS, "groups": {"pgsizing_server": ["db1"]}}, provider="local")["provider"] == "local"


def test_an_inventory_without_the_group_never_buys_machines() -> None:
    inventory = {**HOSTS, "groups": {"primary": ["p1"], "web": ["w1"]}}
    problems = problems_of(make_site(inventory=inventory))
    assert problems == [
        "the inventory has no host in group pgsizing_server; its groups are: primary, web. "
        "Name one with -e server_group=GROUP, or measure this machine with -e provider=local"
    ]
    assert where(inventory=inventory, size="local")["provider"] == "local"  # said explicitly
    assert where(inventory={"given": True, "local_only": True, "groups": {}})["provider"] == "local"
    asked = problems_of(make_site(inventory=inventory), provider="inventory")
    assert asked == ["provider=inventory: the inventory has no host in group pgsizing_server; its groups are: primary, web"]


def test_a_driver_of_its_own_and_a_host_in_both_groups() -> None:
    groups = {"pgsizing_server": ["a"], "pgsizing_driver": ["b"]}
    found = where(inventory={**HOSTS, "groups": groups})
    assert (found["server"], found["driver"], found["driver_on_server"]) == (["a"], ["b"], False)
    groups = {"pgsizing_server": ["a"], "pgsizing_driver": ["a", "b"]}
    problems = problems_of(make_site(inventory={**HOSTS, "groups": groups}), profile="none")
    assert problems == ["a: in both pgsizing_server and pgsizing_driver; a host is one of the two, or leave the driver group out"]


def test_nothing_of_this_machine_is_said_of_another() -> None:
    site = make_site(inventory={**HOSTS, "groups": {"pgsizing_server": ["db1"]}}, machine={"disk_free_bytes": 1, "port_owner": "x (pid 1)"})
    plan = make_plan(site, reproduce=SEED, clients=64)
    assert plan["variants"][0]["parameters"]["threads"] == 2  # the recipe's
    assert make_plan(site, profile="none")["variants"][0]["parameters"]["threads"] is None  # left to the driver
    assert not {"operating system", "machine"} & {d["what"] for d in plan["deviations"]}
    assert problems_of(site) == [
        "profile local is computed from cores and memory, and nothing is known of the hosts of the inventory; choose profile=none"
    ]


@pytest.mark.parametrize(
    ("login", "shared"),
    [
        ({"login_host": "db1"}, False),
        ({"login_host": "localhost"}, True),
        ({"login_host": "::1"}, True),
        ({"login_unix_socket": "/run/postgresql"}, True),
        ({"login_unix_socket": "/run/postgresql", "login_host": "db1"}, True),
    ],
)
def test_an_existing_server(login: dict[str, str], shared: bool) -> None:
    plan = make_plan(target="existing", **login)
    assert plan["where"]["provider"] == "existing"
    assert plan["where"]["driver_on_server"] is shared
    assert plan["reset"] == "template"
    assert plan["variants"][0]["settings"] == []
    assert plan["login"]["host"] == login.get("login_host")


@pytest.mark.parametrize(("free_gib", "reset"), [(40, "template"), (26, "rebuild")])
def test_a_data_set_without_room_for_its_copy_is_built_anew(free_gib: int, reset: str) -> None:
    # about 14.4 GB of data at scale 1000, once with and once without the copy, beside 8 GB of WAL
    site = make_site({"disk_free_bytes": free_gib * GIB})
    plan = make_plan(site, scale=1000, profile="none", gucs={"max_wal_size": "8GB"})
    assert plan["reset"] == reset
    assert plan["estimate"]["disk_bytes"] <= free_gib * GIB
    assert ("reset_rebuild" in [f["code"] for f in plan["findings"]]) is (reset == "rebuild")
    assert make_plan(site, scale=10, profile="none")["reset"] == "template"


# refusals --------------------------------------------------------------------------------------------------------------


def test_every_reason_at_once() -> None:
    problems = problems_of(
        clients="many",
        repeats=0,
        cache="hot",
        gucs={"shared_bufers": "1GB", "work_mem": "2XB"},
        variants={"a": {}, "b": {"gucs": {"max_connections": 0}}},
        pgio_conf="pgio.conf",
        profile="lokal",
    )
    starts = (
        "repeats: 0 is too small",
        "cache: 'hot' is not one of",
        "pgio_conf=pgio.conf: PGIO is not part of this version",
        "clients: 'many' is not a whole number",
        "variant a: profile: no profile 'lokal'",
        "variant a: shared_bufers",
        "variant a: work_mem",
        "variant b: max_connections",
    )
    for start in starts:
        assert any(p.startswith(start) for p in problems), (start, problems)
    assert len(problems) == len(set(problems))


@pytest.mark.parametrize(
    ("given", "machine", "problem"),
    [
        ({"workload": "pgbnch"}, {}, "workload: 'pgbnch' is not one of pgbench"),
        ({"workload": "pgbnch"}, {}, "did you mean 'pgbench'?"),
        ({"size": "lokal"}, {}, "size: 'lokal' is not one of local; did you mean 'local'?"),
        ({"gucs": {"shared_bufers": "1GB"}}, {}, "shared_bufers: PostgreSQL 15 has no such setting; did you mean shared_buffers?"),
        (
            {"gucs": {"shared_buffers": "20GB"}},
            {},
            "variant base: shared_buffers = 20GB is larger than the memory, 16GB",
        ),
        (
            {"clients": 196},
            {},
            "variant base: 196 clients + 3 reserved + 2 of our own connections are more than max_connections = 200; "
            "set max_connections to 201 or more, or lower clients",
        ),
        (
            {"scale": 20000},
            {},
            "lower scale or data_scale",
        ),
        (
            {"postgres_version": "17"},
            {"can_install": False},
            "variant base: no PostgreSQL 17 binaries on this machine (there are: 15) "
            "and no way to install them: run as root, or set postgres_bin_dirs to where they are",
        ),
        ({}, {"port_owner": "postgres (pid 4711)"}, "port 55432 is in use by postgres (pid 4711); choose another with -e postgres_port=N"),
        ({"transactions": 5, "duration": 5}, {}, "transactions=5 and duration=5 exclude each other"),
        ({"max_tries": 3}, {"pgbench": {"15": "pgbench (PostgreSQL) 14.2"}}, "max_tries needs pgbench 15; this is 14.2"),
        (
            {"postgres_version": "15.4"},
            {},
            "postgres_version: '15.4': give the major version, 15; the packages decide which minor release it is",
        ),
        ({"cache": "cold"}, {}, "cache=cold drops the page cache of the whole host; allow it with -e share_host=true"),
        (
            {"cache": "cold", "share_host": True},
            {"root": False},
            "cache=cold drops the page cache, which needs root; run as root, or choose cache=warm or cache=as_is",
        ),
        ({"variants": {"a": {}, "b": {"cache": "cold"}}}, {}, "cache=cold drops the page cache of the whole host"),
        ({"load_generator": "hammerdb"}, {}, "load_generator: 'hammerdb' does not run pgbench; there is pgbench"),
        ({"login_host": "db1"}, {}, "login_host is given, but not target: a server of your own is measured with -e target=existing"),
        ({"target": "existing"}, {}, "target=existing needs login_host (or login_unix_socket): the server to connect to"),
        (
            {"target": "existing", "login_host": "db1", "gucs": {"work_mem": "1MB"}, "cache": "warm", "postgres_version": "15"},
            {},
            "target=existing changes nothing on the server; leave out gucs, postgres_version, cache",
        ),
        (
            {"target": "existing", "login_host": "db1", "variants": {"a": {}, "b": {"gucs": {"work_mem": "1MB"}}}},
            {},
            "variant b: target=existing changes nothing on the server; leave out gucs",
        ),
    ],
)
def test_refusals(given: dict[str, Any], machine: dict[str, Any], problem: str) -> None:
    problems = problems_of(make_site(machine=machine), **given)
    assert any(problem in p for p in problems), problems


@pytest.mark.parametrize(
    "given",
    [
        {"clients": 195},
        {"clients": 197, "gucs": {"superuser_reserved_connections": 0}, "repeats": 1},
        {"cache": "cold", "share_host": True},
        {"load_generator": "pgbench"},
        {"target": "existing", "login_host": "db1", "cache": "as_is"},
        {"target": "managed", "login_host": "db1"},  # said explicitly: the login is another run's
        {"postgres_version": "17", "profile": "none"},  # can be installed
    ],
)
def test_not_refused(given: dict[str, Any]) -> None:
    make_plan(**given)


@pytest.mark.parametrize(("name", "value", "what"), NOT_YET)
def test_no_input_is_ignored(name: str, value: Any, what: str) -> None:
    given = value or "x"
    assert f"{name}={given}: {what} not part of this version" in problems_of(**{name: given})


def test_a_refused_disk_names_need_and_free() -> None:
    problem = next(p for p in problems_of(make_site(machine={"disk_free_bytes": GIB}), scale=500) if p.startswith("disk: "))
    assert problem.endswith("in /var/lib/pgsizing, 1GB are free; lower scale or data_scale")


def test_C034_numbers_without_unit_are_read_in_base_units_and_told() -> None:
    plan = make_plan(profile="none", gucs={"shared_buffers": 131072, "work_mem": 4096, "checkpoint_timeout": 900})
    assert [setting(plan, n)["text"] for n in ("shared_buffers", "work_mem", "checkpoint_timeout")] == ["1GB", "4MB", "15min"]
    assert setting(plan, "shared_buffers")["bytes"] == GIB
    assert codes(plan).count("guc_unitless") == 3


def test_C016_more_clients_than_branches_are_planned_all_the_same() -> None:
    """Contention is a finding of the run, not a reason to refuse it."""
    assert make_plan(scale=1, clients=64)["variants"][0]["parameters"]["clients"] == 64


def test_the_estimate_holds_resets_and_all_trials() -> None:
    template, none = make_plan(duration=20, ramp_up=5), make_plan(duration=20, ramp_up=5, reset="none")
    parts = {p["what"]: p["seconds"] for p in template["estimate"]["parts"]}
    assert parts["3 measured windows with ramp-up"] == 75
    assert parts["reset before each trial (template)"] > 3
    assert template["estimate"]["seconds"] > none["estimate"]["seconds"]
    assert template["estimate"]["disk_bytes"] == sum(p["bytes"] for p in template["estimate"]["parts"])
    assert template["deadline_s"] > template["estimate"]["seconds"]


def test_C068_the_deadline_is_far_behind_the_planned_end() -> None:
    plan = make_plan(duration=1800, ramp_up=300, repeats=3)
    assert plan["deadline_s"] > 3 * 3 * 2100


def test_a_log_that_would_be_too_large_is_sampled() -> None:
    plan = make_plan(builtin="select-only", duration=36000, repeats=1)
    assert 0 < plan["variants"][0]["parameters"]["sampling_rate"] < 1
    assert "sampled_log" in codes(plan)


def test_the_machine_is_not_changed_by_planning() -> None:
    before = dict(MACHINE)
    make_plan(reproduce=SEED, data_scale=0.2)
    assert before == MACHINE


@pytest.mark.parametrize("run", sorted(make_site().recipes))
def test_every_shipped_recipe_plans_or_lacks_its_workload(run: str) -> None:
    site = make_site(
        machine={"memory_bytes": 1024 * GIB, "disk_free_bytes": 10000 * GIB, "cores": 64},
        sizes=shipped.SIZES,
        profiles={"none": {}, **shipped.PROFILES},
        instances=sites.instances(),
        prices=sites.prices,
        regions=sites.regions(),
    )
    problems = problems_of(site, reproduce=run)
    assert [p for p in problems if not p.startswith(("workload: ", "load_generator: "))] == []
    assert problems == [] or run != SEED
