# GNU General Public License v3.0 or later (see LICENSE)
"""Sizes in the plan: hardware, settings, preflight, cost and what is refused, with the data that ship. Nothing runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.pgsizing.bench.plugins.module_utils import plan as planning
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_place import Site
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_text import plan_text
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import hammerdb, pgbench, tprocc
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue

ROOT = Path(__file__).parents[4]
FACTS = ROOT / "roles/plan/files"
DEFAULTS = {
    name: yaml.load((ROOT / f"roles/plan/defaults/main/{name}.yml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    for name in ("sizes", "profiles")
}
INSTANCES = json.loads((FACTS / "instances.json").read_text(encoding="utf-8"))["instances"]
REGIONS = ("eu-west-1", "us-east-1")
NOW = 1_796_040_000.0  # 30 November 2026
MACHINE = {
    "base_dir": "/var/lib/pgsizing",
    "cores": 2,
    "memory_bytes": 8 * GIB,
    "disk_free_bytes": 100 * GIB,
    "os": "Debian",
    "installed_majors": ["15"],
    "server_versions": {"15": "15.18"},
    "postgres_major": "15",
    "can_install": False,
    "root": False,
    "locales": ["C"],
    "port_owner": None,
}


def prices(region: str) -> dict[str, Any] | None:
    return json.loads((FACTS / f"prices/{region}.json").read_text(encoding="utf-8")) if region in REGIONS else None


def build(
    given: dict[str, Any],
    own_sizes: dict[str, Any] | None = None,
    own_profiles: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **more: Any,
) -> tuple[dict[str, Any], list[str]]:
    arguments = {
        "sizes": {**DEFAULTS["sizes"]["plan_sizes"], **(own_sizes or {})},
        "profiles": {"none": {}, **DEFAULTS["profiles"]["plan_profiles"], **(own_profiles or {})},
        "recipes": {},
        "workloads": {"pgbench": pgbench},
        "catalogue": catalogue.load,
        "majors": catalogue.majors("postgres"),
        "machine": MACHINE,
        "inventory": {"given": False, "groups": {}, "local_only": True},
        "now": NOW,
        "instances": INSTANCES,
        "prices": prices,
        "regions": REGIONS,
        "spec": spec,
        **more,
    }
    return planning.build({"workload": "pgbench", **given}, Site(**arguments))


def planned(given: dict[str, Any], **more: Any) -> dict[str, Any]:
    plan, problems = build(given, **more)
    assert problems == []
    return plan


def codes(plan: dict[str, Any]) -> set[str]:
    return {f["code"] for f in plan["findings"]}


def text(plan: dict[str, Any]) -> str:
    return "\n".join(plan_text({"experiment_id": "x", "plan": plan}, MACHINE))


MINE = {
    "instance_type": "m6gd.2xlarge",
    "volumes": {"root": {"type": "gp3", "size": "20GB"}, "data": {"type": "gp3", "size": "200GB", "iops": 6000, "throughput": 250}},
    "profile": "local",
}


def test_the_version_of_hammerdb_decides_about_an_arm_driver() -> None:
    more = {"workloads": {"tprocc": tprocc}, "generators": {("tprocc", "hammerdb"): hammerdb}, "own_sizes": {"mine": MINE}}
    given = {"size": "mine", "workload": "tprocc", "load_generator": "hammerdb"}
    (problem,) = build(given, **more)[1]
    assert problem.startswith("size mine: the driver is arm64: HammerDB 4.12 is built for x86-64 only")
    planned(given, **more, hammerdb={"version": "6.1"})


def test_sizes_of_which_one_keeps_the_data_in_memory() -> None:
    plan = planned({"size": ["small", "xl"], "scale": 5000})
    (found,) = [f for f in plan["findings"] if f["code"] == "data_in_memory"]
    assert found["message"].startswith("the data set of size=xl ")
    assert found["evidence"]["larger"] == ["size=small"]


# the published sizes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "server", "cores", "memory", "hourly"),
    [
        ("small", "r5n.xlarge", 4, 32, 2.509),
        ("medium", "r5n.2xlarge", 8, 64, 2.807),
        ("large", "r5n.4xlarge", 16, 128, 3.403),
        ("xl", "r5n.8xlarge", 32, 256, 8.156),
    ],
)
def test_a_published_size_is_planned_without_buying_it(size: str, server: str, cores: int, memory: int, hourly: float) -> None:
    plan = planned({"size": size})
    (bought,) = plan["hardware"]
    assert (bought["instance_type"], bought["facts"]["vcpus"], bought["facts"]["memory_bytes"]) == (server, cores, memory * GIB)
    assert bought["driver"]["instance_type"] == "m5n.xlarge"
    assert plan["where"]["provider"] == "aws" and plan["where"]["region"] == "us-east-1"
    assert plan["cost"]["usd_per_hour"] == pytest.approx(hourly, abs=0.001)
    assert plan["cost"]["usd"] == pytest.approx(hourly * plan["estimate"]["seconds"] / 3600, rel=1e-3)
    assert plan["refused"] == []
    assert any("provisioning on AWS is not part of this version" in reason for reason in plan["cannot_run"])
    assert {"iops_unusable", "profile_left_out", "guc_engine"} <= codes(plan)
    said = text(plan)
    for piece in (
        f"size {size}",
        server,
        "m5n.xlarge",
        "IOPS",
        "USD",
        "effective_cache_size",
        "profile as_intended",
        "not part of this version",
    ):
        assert piece in said


@pytest.mark.parametrize(("size", "wal"), [("small", 50), ("medium", 100), ("large", 200), ("xl", 400)])
def test_the_settings_are_those_of_the_size_with_unit_origin_and_reason(size: str, wal: int) -> None:
    settings = {s["name"]: s for s in planned({"size": size})["variants"][0]["settings"]}
    assert settings["max_wal_size"]["bytes"] == wal * GIB
    assert (settings["max_wal_size"]["text"], settings["max_wal_size"]["origin"]) == (f"{wal}GB", "profile as_intended")
    assert settings["max_wal_size"]["reason"]
    assert "primary_slot_name" not in settings and "db_dialect" not in settings


def test_what_a_setting_replaces_is_said() -> None:
    plan = planned({"size": "small", "profile": "as_published", "gucs": {"shared_buffers": "8GB"}})
    settings = {s["name"]: s for s in plan["variants"][0]["settings"]}
    assert (settings["shared_buffers"]["origin"], settings["shared_buffers"]["replaces"]) == ("gucs", "24GB")
    assert (settings["wal_keep_size"]["text"], settings["wal_keep_size"]["replaces"]) == ("160MB", "wal_keep_segments")
    assert "shared_buffers = 8GB (replaces 24GB)" in text(plan)


@pytest.mark.parametrize("size", ["large", "xl"])
def test_doubtful_published_values_are_a_finding(size: str) -> None:
    assert "profile_doubtful" in codes(planned({"size": size, "profile": "as_published"}))
    assert "profile_doubtful" not in codes(planned({"size": "small", "profile": "as_published"}))


@pytest.mark.parametrize(
    ("major", "problem"), [("13", None), ("17", None), ("18", "postgres_version: '18' is not one of 13, 14, 15, 16, 17")]
)
def test_epas_can_be_planned_with_its_own_settings(major: str, problem: str | None) -> None:
    plan, problems = build({"size": "xl", "engine": "epas", "postgres_version": major})
    assert problems == ([problem] if problem else [])
    if not problem:
        assert "db_dialect" in {s["name"] for s in plan["variants"][0]["settings"]}
        assert any("installing EPAS" in reason for reason in plan["cannot_run"])


def test_several_sizes_are_variants_on_machines_of_their_own() -> None:
    plan = planned({"size": ["small", "medium", "large", "xl"]})
    assert [v["name"] for v in plan["variants"]] == ["size=small", "size=medium", "size=large", "size=xl"]
    assert [s["name"] for s in plan["hardware"]] == ["small", "medium", "large", "xl"]
    assert plan["cost"]["usd_per_hour"] == pytest.approx(2.509 + 2.807 + 3.403 + 8.156, abs=0.003)
    effective = [next(s["text"] for s in v["settings"] if s["name"] == "effective_cache_size") for v in plan["variants"]]
    assert effective == ["4GB", "36GB", "100GB", "228GB"]


# The published window: 120 GB, 5 minutes of ramp-up and 30 minutes, three times, each from a fresh copy (150 MiB/s), after a load at
# about 20 MB/s. pgbench stands in for the load generator, which this part does not have: what counts here is the time.
PUBLISHED_RUN = {"scale": 7900, "ramp_up": 300, "duration": 1800, "clients": 96, "repeats": 3}


@pytest.mark.parametrize("size", ["small", "medium", "large", "xl"])
def test_the_default_budget_lets_each_published_size_pass(size: str) -> None:
    plan = planned({"size": size, **PUBLISHED_RUN})
    assert plan["cost"]["budget_usd"] == 50
    assert plan["refused"] == []


def test_the_default_budget_does_not_let_four_at_once_pass() -> None:
    plan = planned({"size": ["small", "medium", "large", "xl"], **PUBLISHED_RUN})
    assert len(plan["refused"]) == 1 and plan["refused"][0].startswith("budget: the estimate of ")
    assert "this run would be refused" in text(plan)
    assert planned({"size": ["small", "medium", "large", "xl"], "budget_usd": 1000, **PUBLISHED_RUN})["refused"] == []


# own sizes, own profiles, specifications -------------------------------------------------------------------------------


def test_an_own_size_is_one_entry() -> None:
    plan = planned({"size": "mine"}, own_sizes={"mine": MINE})
    assert plan["hardware"][0]["facts"]["architecture"] == "arm64"
    settings = {s["name"]: s for s in plan["variants"][0]["settings"]}
    assert settings["shared_buffers"]["text"] == "8GB"  # a quarter of the machine to buy, not of this one
    assert "instance_store" in codes(plan)
    assert plan["hardware"][0]["limits"]["sustained_iops"] == 6000
    assert plan["cost"]["usd_per_hour"] == pytest.approx(0.3616 + (20 * 0.08 + 200 * 0.08 + 3000 * 0.005 + 125 * 0.04) / 730)


def test_an_own_profile_is_one_entry() -> None:
    plan = planned({"size": "mine", "profile": "lean"}, own_sizes={"mine": MINE}, own_profiles={"lean": {"shared_buffers": "4GB"}})
    assert [(s["name"], s["text"], s["origin"]) for s in plan["variants"][0]["settings"]] == [("shared_buffers", "4GB", "profile lean")]


def test_a_specification_is_the_hardware() -> None:
    document = json.loads((ROOT / "published/specs/xl.json").read_text(encoding="utf-8"))
    plan = planned({"spec": "published/specs/xl.json"}, spec={"name": "published/specs/xl.json", "document": document})
    assert plan["hardware"][0]["instance_type"] == "r5n.8xlarge"
    assert "volume_parameter" in codes(plan)
    assert {s["origin"] for s in plan["variants"][0]["settings"]} == {"profile local"}
    both = planned({"spec": "x.json", "size": "small"}, spec={"name": "x.json", "document": document})
    assert (both["size"], both["hardware"][0]["instance_type"]) == ("small", "r5n.8xlarge")
    assert "profile as_intended" in {s["origin"] for s in both["variants"][0]["settings"]}


@pytest.mark.parametrize(
    ("document", "given", "said"),
    [
        ({"postgres_servr": {}}, {}, "spec x.json: postgres_servr: no such key; did you mean 'postgres_server'?"),
        ([], {}, "spec x.json: not a specification of edb-deployment"),
        ({"postgres_server": {}}, {"size": "local"}, "spec: describes machines of one size on AWS; size local does not"),
    ],
)
def test_a_specification_that_cannot_be_used_is_refused(document: Any, given: dict[str, Any], said: str) -> None:
    _plan, problems = build({"spec": "x.json", **given}, spec={"name": "x.json", "document": document})
    assert len(problems) == 1 and problems[0].startswith(said)


# bad input ---------------------------------------------------------------------------------------------------------------


def changed(**entry: Any) -> dict[str, Any]:
    return {"mine": {**{k: v for k, v in MINE.items() if entry.get(k) is not ...}, **{k: v for k, v in entry.items() if v is not ...}}}


DATA = MINE["volumes"]["data"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("given", "own", "said"),
    [
        ({"size": "smal"}, {}, "size: 'smal' is not one of local, small, medium, large, xl; did you mean 'small'?"),
        ({"size": "small,medium"}, {}, "several are given as a list"),
        ({"size": "mine"}, changed(profile=...), "size mine: no profile is given"),
        ({"size": "mine"}, changed(profile="locale"), "profile: no profile 'locale'; did you mean 'local'?"),
        (
            {"size": "mine"},
            changed(profile="as_intended"),
            "profile as_intended: made for small, medium, large, xl; for size mine it has no effective_cache_size",
        ),
        ({"size": "mine"}, changed(instance_tpe="x"), "size mine: instance_tpe: no such parameter; did you mean 'instance_type'?"),
        (
            {"size": "mine"},
            changed(volumes={"data": {**DATA, "size": "200"}}),
            "size mine: volumes: data: size: '200': a size needs its unit",
        ),
        ({"size": "mine"}, changed(volumes={"data": {**DATA, "size": "-1GB"}}), "size: '-1GB': a size cannot be negative"),
        (
            {"size": "mine"},
            changed(volumes={"data": {"type": "io2", "size": "10GB", "iops": 300_000}}),
            "size mine: data volume: 300,000 IOPS is outside 100 .. 256,000 of io2",
        ),
        (
            {"size": "mine"},
            changed(volumes={"data": {"type": "gp2", "size": "10GB", "iops": 250}}),
            "size mine: data volume: iops is not a parameter of gp2",
        ),
        ({"size": "mine", "scale": 20_000}, changed(), "size mine: the data volume of 200GB cannot hold the data set and its copy"),
        (
            {"size": "mine", "gucs": {"shared_buffers": "33GB"}},
            changed(),
            "size mine: shared_buffers: 33GB is more than the machine's 32GB of memory",
        ),
        ({"size": "mine"}, changed(instance_type="m9.huge"), "profile local is computed from cores and memory, and nothing is known of"),
        ({"size": ["small", "local"]}, {}, "size: a list is for sizes with machines of their own; local has no instance_type"),
        ({"size": ["small", "small"]}, {}, "holds a value twice"),
        ({"provider": "aws"}, {}, "provider=aws: size local names no instance_type"),
        ({"size": "small", "budget_usd": "-1"}, {}, "budget_usd: '-1' is too small"),
    ],
)
def test_bad_input_is_refused_with_what_would_be_right(given: dict[str, Any], own: dict[str, Any], said: str) -> None:
    _plan, problems = build(given, own_sizes=own)
    assert any(said in problem for problem in problems), problems


def test_everything_wrong_is_said_at_once() -> None:
    _plan, problems = build({"size": "mine", "repeats": "0", "clients": "x"}, own_sizes=changed(instance_tpe="x", profile="local"))
    assert len(problems) >= 3


@pytest.mark.parametrize("region", ["ap-south-1", "us-east-2"])
def test_without_a_price_the_cost_is_unknown_and_the_run_refused(region: str) -> None:
    plan = planned({"size": "small", "region": region})
    assert plan["cost"]["usd"] is None
    assert "price_unknown" in codes(plan)
    assert plan["refused"][0].startswith(f"cost: no price is known for everything in {region}")
    assert "not known; at least 0.00 USD" in text(plan)
    assert planned({"size": "small", "region": region, "accept_unknown_cost": "true"})["refused"] == []


def test_an_instance_without_a_price_is_named_and_the_rest_is_summed() -> None:
    own = changed(instance_type="x9.huge", profile="lean")
    plan = planned({"size": "mine"}, own_sizes=own, own_profiles={"lean": {"work_mem": "8MB"}})
    assert "server x9.huge in us-east-1" in plan["refused"][0]
    assert {"price_unknown", "not_checked"} <= codes(plan)
    assert plan["cost"]["known_usd"] > 0


def test_old_prices_are_a_finding() -> None:
    assert "price_old" not in codes(planned({"size": "small"}))
    assert "price_old" in codes(planned({"size": "small"}, now=NOW + 365 * 86400))


# where it runs ---------------------------------------------------------------------------------------------------------


def test_this_machine_costs_nothing_and_is_not_refused() -> None:
    plan = planned({"size": "local"})
    assert (plan["hardware"], plan["cost"], plan["refused"], plan["cannot_run"]) == ([], None, [], [])
    assert plan["where"]["provider"] == "local"


def test_a_given_inventory_never_buys_machines() -> None:
    inventory = {"given": True, "groups": {"db": ["db1"]}, "local_only": False}
    _plan, problems = build({"size": "small"}, inventory=inventory)
    assert problems and "its groups are: db" in problems[0]
    hosts = {"given": True, "groups": {"pgsizing_server": ["db1"]}, "local_only": False}
    plan = planned({"size": "small"}, inventory=hosts)
    assert (plan["where"]["provider"], plan["hardware"], plan["cost"]) == ("inventory", [], None)
    plan = planned({"size": "small", "spec": "x"}, inventory=hosts, spec={"name": "x", "document": {"postgres_server": {}}})
    assert "spec_ignored" in codes(plan)


def test_the_region_is_where_it_is_bought() -> None:
    plan = planned({"size": "small", "region": "eu-west-1"})
    assert plan["cost"]["usd_per_hour"] > planned({"size": "small"})["cost"]["usd_per_hour"]
    assert "eu-west-1" in plan["where"]["reason"]
