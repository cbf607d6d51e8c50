# GNU General Public License v3.0 or later (see LICENSE)
"""What a plan needs: clusters, time, disk."""

from __future__ import annotations

from typing import Any

import pytest
from support.plan_site import GIB, MACHINE, codes, make_plan, make_site, problems_of, setting

from ansible_collections.pgsizing.bench.plugins.module_utils import plan_estimate


def test_variants_that_share_a_cluster_and_those_that_do_not() -> None:
    plan = make_plan(
        profile="none",
        variants={"a": {}, "b": {"initdb": {"data_checksums": "yes"}}, "c": {"scale": 20}, "d": {"gucs": {"work_mem": "1MB"}}},
    )
    assert plan["variants"][1]["postgres"]["initdb"] == {"data_checksums": True}
    clusters = plan_estimate.clusters(plan)
    assert [c["name"] for c in clusters] == [
        plan_estimate.cluster_name(plan["variants"][0]),
        plan_estimate.cluster_name(plan["variants"][1]),
    ]
    assert [d["parameters"]["scale"] for d in clusters[0]["datasets"]] == [10, 20]


@pytest.mark.parametrize(("free_gib", "reset"), [(40, "template"), (26, "rebuild")])
def test_a_data_set_without_room_for_its_copy_is_built_anew(free_gib: int, reset: str) -> None:
    # about 14.4 GB of data at scale 1000, once with and once without the copy, beside 8 GB of WAL
    site = make_site({"disk_free_bytes": free_gib * GIB})
    plan = make_plan(site, scale=1000, profile="none", gucs={"max_wal_size": "8GB"})
    assert plan["reset"] == reset
    assert plan["estimate"]["disk_bytes"] <= free_gib * GIB
    assert ("reset_rebuild" in [f["code"] for f in plan["findings"]]) is (reset == "rebuild")
    assert make_plan(site, scale=10, profile="none")["reset"] == "template"


def test_a_host_of_the_inventory_does_without_the_copy_too() -> None:
    inventory = {"given": True, "local_only": False, "groups": {"pgsizing_server": ["db1"]}}
    site = make_site(inventory=inventory, seen={"db1": {**MACHINE, "disk_free_bytes": 26 * GIB}})
    plan = make_plan(site, scale=1000, profile="none", gucs={"max_wal_size": "8GB"})
    assert (plan["where"]["provider"], plan["reset"]) == ("inventory", "rebuild")
    unseen = make_site({"disk_free_bytes": GIB}, inventory=inventory, seen={"db1": {"unseen": "no answer"}})
    assert make_plan(unseen, scale=1000, profile="none")["reset"] == "template"


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"scale": 500}, "lower scale or data_scale"),
        ({"workload": "tprocc", "warehouses": 500}, "lower warehouses, database_size or data_scale"),
        ({"workload": "tprocc", "database_size": "50GB"}, "lower warehouses, database_size or data_scale"),
        ({"scale": 500, "reset": "template"}, "lower scale or data_scale, or do without the copy it is reset from: reset=rebuild"),
    ],
)
def test_a_refused_disk_names_need_and_free_and_the_inputs_of_the_workload(given: dict[str, Any], advice: str) -> None:
    problem = next(p for p in problems_of(make_site(machine={"disk_free_bytes": GIB}), **given) if p.startswith("disk: "))
    assert problem.endswith(f"in /var/lib/pgsizing, 1GB are free; {advice}")


def test_a_dump_that_does_not_fit_is_to_be_smaller() -> None:
    dump = {"path": "/x.dump", "format": "custom", "bytes": GIB, "sha256": "ab" * 32, "jobs": 1}
    problems = problems_of(make_site({"disk_free_bytes": GIB}, dump=dump), scripts=[{"name": "a", "sql": "SELECT 1;"}])
    assert next(p for p in problems if p.startswith("disk: ")).endswith("1GB are free; take a smaller dataset")


# volumes that are made for the run -------------------------------------------------------------------------------------

NVME = {"nvme-data": 200 * GIB, "nvme-wal": 10 * GIB, "nvme-small": 5 * GIB}


def volume(*names: str, **more: Any) -> dict[str, Any]:
    return {"devices": [f"/dev/disk/by-id/{name}" for name in names], **more}


def test_the_disk_is_that_of_the_volumes_that_are_named() -> None:
    site = make_site({"disk_free_bytes": GIB, "devices": NVME})
    given = {"scale": 1000, "storage": {"wal": volume("nvme-wal", fstype="xfs"), "data": volume("nvme-data")}}
    plan = make_plan(site, **given)
    assert plan["reset"] == "template"
    assert "wal_disk" not in [f["code"] for f in plan["findings"]]
    wal = setting(plan, "max_wal_size")
    assert wal["bytes"] == int(9.8 * GIB / 5) // 2**20 * 2**20  # a fifth of the WAL volume, not of the folder of ours
    alone = make_plan(site, scale=1000, storage={"data": volume("nvme-data")})
    assert setting(alone, "max_wal_size")["text"] == "16GB"


def test_a_volume_that_is_too_small_is_refused_by_its_name() -> None:
    site = make_site({"devices": NVME})
    small = problems_of(site, scale=1000, storage={"data": volume("nvme-small")})
    (problem,) = [p for p in small if p.startswith("disk: ")]
    assert "in the data volume (/dev/disk/by-id/nvme-small), 4.6GB are free; lower scale or data_scale" in problem
    given = {"storage": {"data": volume("nvme-data"), "wal": volume("nvme-small")}, "gucs": {"max_wal_size": "8GB"}}
    (problem,) = problems_of(site, **given)
    assert problem.endswith("8GB in the wal volume (/dev/disk/by-id/nvme-small), 4.6GB are free; lower max_wal_size")
    array = make_plan(site, scale=1000, profile="none", storage={"data": volume("nvme-small", "nvme-wal", "nvme-wal2")})
    assert [f["evidence"]["role"] for f in array["findings"] if f["code"] == "not_checked"] == ["data"]


def test_a_data_volume_without_room_for_the_copy_is_reset_by_building() -> None:
    site = make_site({"devices": {"nvme-data": 28 * GIB}})
    plan = make_plan(site, scale=1000, profile="none", gucs={"max_wal_size": "8GB"}, storage={"data": volume("nvme-data")})
    assert plan["reset"] == "rebuild"


def test_a_volume_of_unknown_size_is_said_and_no_reason_to_refuse() -> None:
    site = make_site({"disk_free_bytes": GIB})
    plan = make_plan(site, scale=1000, profile="none", storage={"data": volume("nvme-x")})
    (found,) = [f for f in plan["findings"] if f["code"] == "not_checked"]
    assert "the size of the data volume (/dev/disk/by-id/nvme-x) is not known" in found["message"]
    assert "goes by /var/lib/pgsizing" in found["message"]


def test_a_data_set_that_fits_in_memory_is_noted() -> None:
    (found,) = [f for f in make_plan(scale=100)["findings"] if f["code"] == "data_in_memory"]
    assert found["severity"] == "note"
    assert "fits in the memory of 16GB" in found["message"] and "does not fit" not in found["message"]
    assert "data_in_memory" not in codes(make_plan(scale=2000))


def test_variants_of_which_some_fit_in_memory_are_named() -> None:
    (found,) = [f for f in make_plan(scale=[100, 2000])["findings"] if f["code"] == "data_in_memory"]
    assert found["message"].startswith("the data set of scale=100 (about 1.5GB) fits")
    assert "that of scale=2000 does not fit: between them cached and uncached data are compared too" in found["message"]


def test_of_memory_that_is_not_known_nothing_is_said() -> None:
    unseen = {"groups": {"pgsizing_server": ["db1"]}, "given": True}
    assert "data_in_memory" not in codes(make_plan(make_site(inventory=unseen), scale=100, profile="none"))
    assert "data_in_memory" not in codes(make_plan(target="existing", login_host="db1", scale=100))


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
