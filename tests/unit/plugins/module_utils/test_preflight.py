# GNU General Public License v3.0 or later (see LICENSE)
"""What a size can hold and deliver, on paper."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import preflight
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, MIB


def machine(vcpus: int, gib: int, base: int, most: int, **more: Any) -> dict[str, Any]:
    ebs = {"baseline_iops": base, "maximum_iops": most, "baseline_bytes_per_s": base * 30_000, "maximum_bytes_per_s": most * 30_000}
    common = {"architecture": "x86_64", "burstable": False, "instance_store": None}
    return {"vcpus": vcpus, "cores": vcpus // 2, "memory_bytes": gib * GIB, "ebs": ebs, **common, **more}


INSTANCES = {
    "r5n.xlarge": machine(4, 32, 6000, 18750),
    "r5n.2xlarge": machine(8, 64, 12000, 18750),
    "r5n.4xlarge": machine(16, 128, 18750, 18750),
    "r5n.8xlarge": machine(32, 256, 30000, 30000),
    "m5n.xlarge": machine(4, 16, 6000, 18750),
    "t3.xlarge": machine(4, 16, 4000, 15700, burstable=True),
    "m6gd.2xlarge": machine(8, 32, 12000, 20000, architecture="arm64", instance_store={"count": 1, "bytes": 474_000_000_000, "nvme": True}),
    "t2.large": {**machine(2, 8, 0, 0), "ebs": {"baseline_iops": None, "maximum_iops": None}},
}


def volume(kind: str, gib: int, iops: int | None = None, throughput: int | None = None) -> dict[str, Any]:
    return {"type": kind, "bytes": gib * GIB, "iops": iops, "throughput": throughput, "encrypted": None}


def size(instance_type: str = "r5n.xlarge", driver: str | None = None, **volumes: dict[str, Any]) -> dict[str, Any]:
    loader = {"instance_type": driver, "volumes": {"root": volume("gp2", 50)}} if driver else None
    return {"name": "s", "instance_type": instance_type, "volumes": volumes, "driver": loader}


def setting(gib: float) -> dict[str, Any]:
    return {"bytes": int(gib * GIB), "value": gib, "text": f"{gib}GB"}


def check(what: dict[str, Any], **more: Any) -> tuple[list[dict[str, Any]], list[str]]:
    arguments = {"settings": {}, "clients": 4, "dataset_bytes": GIB, "copy_bytes": GIB, "seconds": 3600.0, **more}
    return preflight.check(what, INSTANCES, **arguments)


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        (volume("io2", 500, 10000), None),
        (volume("io2", 256, 256_000), None),
        (volume("io2", 500), "io2 needs iops, 100 to 256000"),
        (volume("io2", 2000, 256_001), "256,001 IOPS is outside 100 .. 256,000 of io2"),
        (volume("io2", 20, 30_000), "30,000 IOPS on 20 GiB: io2 allows 1000 per GiB; 30 GiB can have them"),
        (volume("io2", 3, 100), "3GB is outside 4GB .. 64TB of io2"),
        (volume("io2", 65 * 1024, 100), "65TB is outside 4GB .. 64TB of io2"),
        (volume("io1", 100, 5001), "5,001 IOPS on 100 GiB: io1 allows 50 per GiB; 101 GiB can have them"),
        (volume("io1", 100), "io1 needs iops, 100 to 5000"),
        (volume("gp3", 10, 3000), None),
        (volume("gp3", 10, 6000), "6,000 IOPS on 10 GiB: gp3 allows 500 per GiB"),
        (volume("gp3", 100, 2000), "2,000 IOPS is outside 3,000 .. 80,000 of gp3"),
        (volume("gp3", 100, 3000, 750), None),
        (volume("gp3", 100, 3000, 1000), "throughput 1000 MiB/s needs 4,000 IOPS"),
        (volume("gp3", 100, 16000, 2001), "throughput 2001 is outside 125 .. 2000 MiB/s"),
        (volume("io2", 500, 10000, 500), "throughput is a parameter of gp3 only; leave it out for io2"),
        (volume("gp2", 50, 2500), "iops is not a parameter of gp2, which gives 150 (3 per GiB) and bursts to 3000"),
        (volume("gp2", 50, 250), "iops is not a parameter of gp2"),
        (volume("st1", 500, 250), "iops is not a parameter of st1, which gives about 500"),
        (volume("st1", 100), "100GB is outside 125GB .. 16TB of st1"),
        (volume("ip2", 100), "'ip2' is not one of io2, io1, gp3"),
    ],
)
def test_c052_c055_rules_of_volumes(disk: dict[str, Any], said: str | None) -> None:
    problems: list[str] = []
    preflight.volume_check("data volume: ", "data", disk, [], problems)
    assert len(problems) == (said is not None)
    assert said is None or problems[0].startswith(f"data volume: {said}")


def test_nothing_starts_from_a_turning_drive() -> None:
    problems: list[str] = []
    preflight.volume_check("", "root", volume("st1", 500), [], problems)
    assert problems == ["no machine starts from st1"]


@pytest.mark.parametrize(
    ("disk", "before"),
    [
        (volume("io2", 100, 50_000), {}),
        (volume("io2", 100, 60_000), {"per_gib": 500}),
        (volume("io2", 1000, 100_000), {"iops": 64_000}),
        (volume("gp3", 1000, 20_000), {"iops": 16_000}),
        (volume("gp3", 1000, 16_000, 1500), {"throughput": 1000}),
    ],
)
def test_bounds_that_came_with_a_date_are_noted(disk: dict[str, Any], before: dict[str, int]) -> None:
    findings: list[dict[str, Any]] = []
    problems: list[str] = []
    preflight.volume_check("", "data", disk, findings, problems)
    assert problems == []
    assert {k: v for f in findings for k, v in f["evidence"]["before"].items()} == before


@pytest.mark.parametrize(
    ("disk", "rates"),
    [
        (volume("io2", 500, 10000), (10000, 10000)),
        (volume("gp3", 500), (3000, 3000)),
        (volume("gp3", 500, 8000), (8000, 8000)),
        (volume("gp2", 50), (150, 3000)),
        (volume("gp2", 10), (100, 3000)),
        (volume("gp2", 2000), (6000, 6000)),
        (volume("gp2", 8000), (16000, 16000)),
        (volume("st1", 500), (500, 500)),
    ],
)
def test_what_a_volume_gives(disk: dict[str, Any], rates: tuple[int, int]) -> None:
    assert preflight.volume_iops(disk) == rates


@pytest.mark.parametrize(
    ("disk", "mib"),
    [
        (volume("io2", 500, 1000), 250),
        (volume("io2", 500, 64000), 4000),
        (volume("io1", 500, 20000), 1000),
        (volume("gp3", 500), 125),
        (volume("gp3", 500, 3000, 500), 500),
        (volume("gp2", 50), 128),
        (volume("gp2", 500), 250),
        (volume("st1", 500), 500),
    ],
)
def test_the_bytes_a_volume_moves(disk: dict[str, Any], mib: int) -> None:
    assert preflight.volume_bytes_per_s(disk) == mib * MIB


def test_sustained_is_the_baseline_and_burst_the_maximum_of_the_instance() -> None:
    io2 = volume("io2", 500, 10000)
    got = preflight.limits(size("r5n.xlarge", root=volume("gp2", 50), data=io2, wal=io2), INSTANCES["r5n.xlarge"])
    assert got["provisioned_iops"] == 20_000  # the root volume does not count
    assert (got["sustained_iops"], got["burst_iops"], got["burst_s"]) == (6000, 18750, 1800)
    assert got["sustained_bytes_per_s"] == 6000 * 30_000
    alone = preflight.limits(size("r5n.xlarge", data=volume("gp3", 500)), INSTANCES["r5n.xlarge"])
    assert (alone["sustained_iops"], alone["burst_iops"]) == (3000, 3000)
    unknown = preflight.limits(size("x", data=io2), None)
    assert (unknown["sustained_iops"], unknown["maximum_iops"], unknown["burst_s"]) == (10000, None, None)
    on_root = preflight.limits(size("r5n.xlarge", root=volume("gp2", 50)), INSTANCES["r5n.xlarge"])
    assert (on_root["sustained_iops"], on_root["burst_iops"]) == (150, 3000)


def test_instance_figures_that_are_not_known_limit_nothing_and_are_said_to_be_unknown() -> None:
    findings, problems = check(size("t2.large", data=volume("io2", 500, 10000)))
    assert problems == []
    assert [f["code"] for f in findings] == ["not_checked"]
    assert "what t2.large takes of its volumes is not known" in findings[0]["message"]


# The rows of the results table as printed, and the volumes of Appendix B (two of each).
@pytest.mark.parametrize(
    ("instance_type", "each", "volumes", "codes"),
    [
        ("r5n.xlarge", 10_000, 1, ["iops_burst"]),
        ("r5n.2xlarge", 10_000, 1, []),
        ("r5n.4xlarge", 30_000, 1, ["iops_unusable"]),
        ("r5n.8xlarge", 40_000, 1, ["iops_unusable"]),
        ("r5n.xlarge", 10_000, 2, ["iops_unusable", "iops_burst"]),
        ("r5n.2xlarge", 10_000, 2, ["iops_unusable", "iops_burst"]),
        ("r5n.4xlarge", 10_000, 2, ["iops_unusable"]),
        ("r5n.8xlarge", 30_000, 2, ["iops_unusable"]),
    ],
)
def test_c088_provisioned_iops_against_what_the_instance_takes(instance_type: str, each: int, volumes: int, codes: list[str]) -> None:
    disks = {role: volume("io2", 500, each) for role in ("data", "wal")[:volumes]}
    findings, problems = check(size(instance_type, **disks))
    assert problems == []
    assert [f["code"] for f in findings if "iops" in f["code"]] == codes


def test_c088_the_figures_are_in_the_message_and_the_evidence() -> None:
    findings, _problems = check(size("r5n.8xlarge", data=volume("io2", 500, 40_000)))
    assert findings[0]["evidence"] == {"provisioned": 40_000, "maximum": 30_000}
    assert "40,000 IOPS provisioned, r5n.8xlarge takes 30,000: 10,000 are paid for and cannot be used" in findings[0]["message"]
    findings, _problems = check(size("r5n.xlarge", data=volume("io2", 500, 10_000)), seconds=7200.0)
    assert "sustains 6,000 IOPS; more, up to 10,000, holds for 30 min a day, and the plan takes 120 min" in findings[0]["message"]


@pytest.mark.parametrize(
    ("instance_type", "disks", "codes"),
    [
        ("r5n.xlarge", [volume("gp3", 500)], []),  # 125 MiB/s of the 172 that the instance sustains
        ("r5n.xlarge", [volume("gp3", 500, 3000, 500)], ["throughput_burst"]),
        ("r5n.xlarge", [volume("gp3", 500, 4000, 1000)], ["throughput_unusable", "throughput_burst"]),
        ("r5n.4xlarge", [volume("gp3", 500, 4000, 500)], []),
        ("r5n.4xlarge", [volume("gp3", 500, 4000, 500)] * 2, ["throughput_unusable"]),
        # what io2 moves comes with its IOPS: nothing is paid for it
        ("r5n.4xlarge", [volume("io2", 500, 10_000)], []),
        ("r5n.xlarge", [volume("io2", 500, 6000)], ["throughput_burst"]),
    ],
)
def test_mib_per_s_against_what_the_instance_takes(instance_type: str, disks: list[dict[str, Any]], codes: list[str]) -> None:
    findings, problems = check(size(instance_type, **dict(zip(("data", "wal"), disks, strict=False))))
    assert problems == []
    assert [f["code"] for f in findings] == codes


def test_the_mib_per_s_are_in_the_message_and_the_evidence() -> None:
    findings, _problems = check(size("r5n.xlarge", data=volume("gp3", 500, 4000, 1000)), seconds=7200.0)
    unusable, burst = findings
    assert unusable["evidence"] == {"provisioned": 1000 * MIB, "maximum": 18750 * 30_000}
    assert "1,000 MiB/s provisioned, r5n.xlarge takes 536: 464 are paid for and cannot be used" in unusable["message"]
    assert burst["evidence"] == {"baseline": 6000 * 30_000, "maximum": 18750 * 30_000, "burst_s": 1800, "plan_s": 7200}
    assert "sustains 172 MiB/s; more, up to 536, holds for 30 min a day, and the plan takes 120 min" in burst["message"]


def test_a_burst_of_bytes_alone_is_a_burst() -> None:
    facts = machine(4, 32, 6000, 6000)
    facts["ebs"]["maximum_bytes_per_s"] *= 2
    assert preflight.limits(size(data=volume("gp3", 500)), facts)["burst_s"] == 1800


@pytest.mark.parametrize(
    ("disk", "bounds"),
    [
        (volume("io2", 500), (100, 256_000)),
        (volume("io2", 20), (100, 20_000)),
        (volume("io1", 100), (100, 5000)),
        (volume("gp3", 4), (3000, 3000)),
        (volume("gp3", 100), (3000, 50_000)),
        (volume("gp3", 1000), (3000, 80_000)),
        (volume("gp2", 1000), None),
    ],
)
def test_the_iops_that_can_be_provisioned(disk: dict[str, Any], bounds: tuple[int, int] | None) -> None:
    assert preflight.iops_bounds(disk) == bounds
    if bounds:
        for iops in bounds:
            problems: list[str] = []
            preflight.volume_check("", "data", {**disk, "iops": iops}, [], problems)
            assert problems == []


def test_data_on_gp2_lives_on_credits() -> None:
    findings, _problems = check(size("r5n.xlarge", root=volume("gp2", 50), data=volume("gp2", 100)))
    (found,) = [f for f in findings if f["code"] == "volume_burst"]
    assert found["evidence"] == {"baseline": 300, "burst": 3000, "burst_s": 2000}
    # a root volume matters only where data or WAL lie on it
    assert "data volume" in found["message"]
    findings, _problems = check(size("r5n.xlarge", root=volume("gp2", 50)))
    assert [f["code"] for f in findings] == ["volume_burst"]


@pytest.mark.parametrize(
    ("volumes", "wal", "data", "copies", "said"),
    [
        ({"data": 100, "wal": 50}, 40, 40, 2, None),
        ({"data": 100, "wal": 50}, 60, 40, 2, "the wal volume of 50GB cannot hold max_wal_size = 60GB"),
        ({"data": 100, "wal": 50}, 40, 60, 2, "the data volume of 100GB cannot hold the data set and its copy (120GB)"),
        ({"data": 100, "wal": 50}, 40, 60, 1, None),
        ({"data": 100}, 60, 30, 2, "the data volume of 100GB cannot hold the data set and its copy (60GB) and max_wal_size = 60GB"),
        ({"root": 100}, 1, 60, 2, "the root volume of 100GB cannot hold the data set and its copy (120GB) and max_wal_size = 1GB"),
    ],
)
def test_volumes_hold_data_and_wal(volumes: dict[str, int], wal: float, data: int, copies: int, said: str | None) -> None:
    disks = {role: volume("gp3", gib) for role, gib in volumes.items()}
    copy = data * GIB if copies == 2 else 0
    _findings, problems = check(size(**disks), settings={"max_wal_size": setting(wal)}, dataset_bytes=data * GIB, copy_bytes=copy)
    assert problems == ([f"size s: {said}"] if said else [])


def test_a_profile_larger_than_the_machine_is_refused() -> None:
    _findings, problems = check(size("m5n.xlarge", data=volume("gp3", 500)), settings={"shared_buffers": setting(24)})
    assert problems == ["size s: shared_buffers: 24GB is more than the machine's 16GB of memory"]


def test_memory_of_the_machine_is_linted() -> None:
    settings = {"shared_buffers": setting(24), "effective_cache_size": setting(4.25)}
    findings, problems = check(size("r5n.xlarge", data=volume("gp3", 500)), settings=settings)
    assert problems == []
    assert {f["code"] for f in findings} == {"memory_shared_buffers", "memory_cache_below_buffers"}


def test_c086_a_burstable_instance_is_noted_at_plan_time() -> None:
    findings, _problems = check(size("t3.xlarge", driver="t3.xlarge", data=volume("gp3", 500)))
    assert [f["code"] for f in findings] == ["burstable_instance", "burstable_instance", "throughput_burst"]
    assert "driver: t3.xlarge works on CPU credits" in findings[1]["message"]
    assert "falls to the baseline, 40 % of each vCPU" in findings[0]["message"]
    assert "in unlimited mode, its default" in findings[0]["message"]
    assert findings[0]["evidence"] == {"instance_type": "t3.xlarge", "baseline": 0.4}


@pytest.mark.parametrize(
    ("instance_type", "share"),
    [
        ("t3.micro", 0.1),
        ("T3a.large", 0.3),
        ("t4g.2xlarge", 0.4),
        ("t2.xlarge", 0.225),
        ("t9.metal", None),
        ("r5n.xlarge", None),
        ("", None),
    ],
)
def test_c086_what_a_burstable_instance_has_without_credits(instance_type: str, share: float | None) -> None:
    assert preflight.credit_baseline(instance_type) == share


def test_c086_the_family_tells_where_nothing_else_is_known() -> None:
    findings, _problems = check(size("t5g.xlarge", driver="trn9.large", data=volume("gp3", 500)))
    assert [f["code"] for f in findings] == ["not_checked", "burstable_instance", "not_checked"]


def test_local_disks_and_unknown_instances_are_noted() -> None:
    findings, _problems = check(size("m6gd.2xlarge", driver="m5m.xlarge", data=volume("gp3", 500)))
    assert [f["code"] for f in findings] == ["instance_store", "not_checked"]
    assert "nothing is known of instance type m5m.xlarge" in findings[1]["message"]
    assert "did you mean m5n.xlarge?" in findings[1]["message"]


@pytest.mark.parametrize(
    ("hammerdb", "said"),
    [
        ({}, "HammerDB 4.12 is built for x86-64 only; for Arm take 6.1 or later"),
        ({"version": "", "home": "", "archive": "", "url": ""}, "HammerDB 4.12 is built for x86-64 only"),
        ({"version": "6.0"}, "HammerDB 6.0 is built for x86-64 only"),
        ({"version": "six"}, "hammerdb_version: 'six' is not a version such as 4.12"),
        ({"version": "6.1"}, None),
        ({"version": "4.12", "home": "/opt/HammerDB-4.12"}, None),
        ({"archive": "/home/bench/own-build.tar.gz"}, None),
        ({"url": "https://example.org/own-build.tar.gz"}, None),
    ],
)
def test_hammerdb_needs_a_driver_that_it_is_built_for(hammerdb: dict[str, str], said: str | None) -> None:
    arm = size("r5n.xlarge", driver="m6gd.2xlarge", data=volume("gp3", 500))
    _findings, problems = check(arm, load_generator="hammerdb", hammerdb=hammerdb)
    assert len(problems) == (said is not None)
    assert said is None or problems[0].startswith(f"size s: the driver is arm64: {said}")
    assert check(arm, load_generator="pgbench", hammerdb=hammerdb)[1] == []
    assert check(size("r5n.xlarge", driver="m5n.xlarge", data=volume("gp3", 500)), load_generator="hammerdb")[1] == []


@pytest.mark.parametrize(("date", "codes"), [("2026-07-20", []), ("2026-01-01", ["price_old"]), (None, [])])
def test_old_prices_are_noted(date: str | None, codes: list[str]) -> None:
    found = preflight.price_age({"date": date, "region": "us-east-1"}, datetime.date(2026, 11, 30))
    assert [f["code"] for f in found] == codes
