# GNU General Public License v3.0 or later (see LICENSE)
"""PLAN: order of trials, published runs, and every reason for a refusal with the right form."""

from __future__ import annotations

from typing import Any

import pytest
from support import shipped
from support.plan_site import GIB, MACHINE, NOW, SEED, codes, make_plan, make_site, names, problems_of, setting

from ansible_collections.pgsizing.bench.plugins.module_utils import plan as planning
from ansible_collections.pgsizing.bench.plugins.module_utils.plan import NOT_YET
from ansible_collections.pgsizing.bench.plugins.plugin_utils import site as sites

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


@pytest.mark.parametrize(
    ("size", "said"),
    [("medium", "r5n.2xlarge"), ("local", "r5n.xlarge (small), r5n.2xlarge (medium), r5n.4xlarge (large), r5n.8xlarge (xl)")],
)
def test_a_condition_that_differs_by_size_is_that_of_the_size(size: str, said: str) -> None:
    sizes = {**shipped.SIZES, "local": {"profile": "local"}}
    site = make_site(sizes=sizes, instances=shipped.FACTS["instances"], generators=sites.GENERATORS)
    given = {"reproduce": "edb-aws-tshirt-2021", "size": size, "profile": "local", "provider": "local"}
    plan, _problems = planning.build(given, site)
    assert next(d["published"] for d in plan["deviations"] if d["what"] == "machine") == said


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


def test_a_published_run_without_a_recipe_of_its_own() -> None:
    said = problems_of(make_site(recipes=sites.published()), reproduce="graviton2-2021")
    assert said == [
        "reproduce: graviton2-2021 has no recipe of its own; "
        "give the inputs of one of its parts (pgio, pgbench) as published/graviton2-2021.yml lists them"
    ]


@pytest.mark.parametrize(("page", "told"), [(2 * 2**20, True), (512 * 2**20, False)])
def test_free_huge_pages_have_the_size_of_the_machine(page: int, told: bool) -> None:
    site = make_site({"huge_pages_free": 10, "huge_page_bytes": page})
    assert ("memory_huge_pages" in codes(make_plan(site, gucs={"huge_pages": "on"}))) is told  # for shared_buffers of 4 GB


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
            {"clients": 197},
            {},
            "variant base: 197 clients + 3 reserved + 1 of our own connections are more than max_connections = 200; "
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
        ({"size": []}, {}, "size: an empty list"),
        ({"reproduce": SEED, "workload": "tprocc"}, {}, f"workload: {SEED} is a run of pgbench, not of tprocc: leave workload out"),
        ({"builtin": "select-only@²"}, {}, "weight '²' is not a whole number of 0 or more"),
        ({"kernel": {"huge_pages": "1GB"}}, {}, "kernel: huge_pages: '1GB' is neither a number of pages nor auto"),
        ({"kernel": {"huge_pages": "²"}}, {}, "huge_pages: '²' is neither a number of pages nor auto"),
        ({"clients": "8,16"}, {}, "clients: '8,16' is not a whole number, such as clients=4; several are given as a list: clients=[8,16]"),
        ({"duration": "5min"}, {}, "duration: '5min' is not a whole number, such as duration=4; it counts s: duration=300"),
        ({"ramp_up": "1m"}, {}, "ramp_up: '1m' is not a whole number, such as ramp_up=4; it counts s, without the unit"),
        ({"latency_limit": "0.2s"}, {}, "it counts ms: latency_limit=200"),
        ({"workload": "tprocc", "duration": "1h"}, {}, "it counts s: duration=3600"),
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
        ({"initdb": {"locale": "en_US.UTF-8"}}, {}, "initdb: locale: the host has no locale 'en_US.UTF-8'; it has C, C.utf8, POSIX"),
        ({"load_generator": "hammerdb"}, {}, "load_generator: 'hammerdb' does not run pgbench; there is pgbench"),
        ({"login_host": "db1"}, {}, "login_host is given, but not target: a server of your own is measured with -e target=existing"),
        (
            {"target": "existing", "login_host": "db1", "login_password": "hunter2!", "login_passfile": "/home/bench/.pgpass"},
            {},
            "login_password and login_passfile exclude each other",
        ),
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
        {"clients": 196},
        {"clients": 199, "gucs": {"superuser_reserved_connections": 0}, "repeats": 1},
        {"cache": "cold", "share_host": True},
        {"load_generator": "pgbench"},
        {"initdb": {"locale": "C.UTF-8"}},
        {"target": "existing", "login_host": "db1", "cache": "as_is"},
        {"target": "managed", "login_host": "db1"},  # said explicitly: the login is another run's
        {"postgres_version": "17", "profile": "none"},  # can be installed
    ],
)
def test_not_refused(given: dict[str, Any]) -> None:
    make_plan(**given)


def test_the_virtual_user_that_keeps_the_time_is_a_connection_too() -> None:
    site, given = make_site(generators=sites.GENERATORS), {"workload": "tprocc", "load_generator": "hammerdb"}
    assert make_plan(site, clients=195, **given)["connections"] == 197
    (problem,) = problems_of(site, clients=196, **given)
    assert problem.startswith("variant base: 196 clients + 3 reserved + 2 of our own connections are more than max_connections = 200;")


@pytest.mark.parametrize("size", ["small", "medium", "large", "xl"])
def test_c007_the_published_default_profile_can_be_planned_for_every_published_size(size: str) -> None:
    site = make_site(sizes=shipped.SIZES, profiles=shipped.PROFILES, instances=shipped.FACTS["instances"])
    assert setting(make_plan(site, size=size, profile="published_default", accept_unknown_cost=True), "max_connections")["value"] == 100
    said = problems_of(site, size=size, profile="published_default", accept_unknown_cost=True, clients=97)
    assert said == [
        "variant base: 97 clients + 3 reserved + 1 of our own connections are more than max_connections = 100; "
        "set max_connections to 101 or more, or lower clients"
    ]


@pytest.mark.parametrize(("name", "value", "what"), NOT_YET)
def test_no_input_is_ignored(name: str, value: Any, what: str) -> None:
    given = value or "x"
    assert f"{name}={given}: {what} not part of this version" in problems_of(**{name: given})


def test_C034_numbers_without_unit_are_read_in_base_units_and_told() -> None:
    plan = make_plan(profile="none", gucs={"shared_buffers": 131072, "work_mem": 4096, "checkpoint_timeout": 900})
    assert [setting(plan, n)["text"] for n in ("shared_buffers", "work_mem", "checkpoint_timeout")] == ["1GB", "4MB", "15min"]
    assert setting(plan, "shared_buffers")["bytes"] == GIB
    assert codes(plan).count("guc_unitless") == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"initdb": {1: 2}}, "initdb: 1: no such parameter"),
        ({"reproduce": ["small", "xl"]}, "reproduce: no published run"),
        ({"repeats": "9" * 40}, "is too large; the most is 1000"),
        ({"reproduce": SEED, "data_scale": 1e39}, "is too large; the most is 1000"),
    ],
)
def test_what_nobody_means_is_refused_in_words(given: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in problems_of(**given)), problems_of(**given)


def test_scaled_settings_stay_within_what_the_server_takes() -> None:
    _plan, problems = planning.build({"reproduce": SEED, "data_scale": 1000, "profile": "none"}, make_site())
    assert any("shared_buffers" in p and "larger than the memory" in p for p in problems), problems


@pytest.mark.parametrize(("ramp_up", "told"), [(0, True), (119, True), (120, False)])
def test_C032_a_short_ramp_up_is_told_before_the_run(ramp_up: int, told: bool) -> None:
    plan = make_plan(workload="tprocc", ramp_up=ramp_up)
    assert ("ramp_up_short" in codes(plan)) is told
    assert "ramp_up_short" not in codes(make_plan(ramp_up=ramp_up))  # of pgbench it is no part of a method


def test_C016_more_clients_than_branches_are_planned_all_the_same() -> None:
    """Contention is a finding of the run, not a reason to refuse it."""
    assert make_plan(scale=1, clients=64)["variants"][0]["parameters"]["clients"] == 64


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
