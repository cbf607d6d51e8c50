# GNU General Public License v3.0 or later (see LICENSE)
"""Answers in the shapes that AWS sends, turned into the shapes that ship; nothing is guessed, contradictions are refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import aws_facts

FIXTURES = Path(__file__).parents[3] / "fixtures/aws"
ANSWERS = {a["InstanceType"]: a for a in json.loads((FIXTURES / "describe_instance_types.json").read_text())["InstanceTypes"]}
PRICE_LIST = json.loads((FIXTURES / "price_list_eu-west-1.json").read_text())["PriceList"]
WANTED = ("r5n.xlarge", "r5n.4xlarge", "m5d.2xlarge", "m6gd.2xlarge")


def entry(usage: str) -> dict[str, Any]:
    return copy.deepcopy(next(e for e in PRICE_LIST if e["product"]["attributes"]["usagetype"] == usage))


def priced(document: dict[str, Any], usd: str) -> dict[str, Any]:
    (term,) = document["terms"]["OnDemand"].values()
    for dimension in term["priceDimensions"].values():
        dimension["pricePerUnit"] = {"USD": usd}
    return document


# instances -----------------------------------------------------------------------------------------------------------------


def test_facts_of_an_instance_with_a_burst_and_without_disks() -> None:
    assert aws_facts.instance(ANSWERS["r5n.xlarge"]) == {
        "vcpus": 4,
        "cores": 2,
        "memory_bytes": 32 * 2**30,
        "architecture": "x86_64",
        "burstable": False,
        "ebs": {
            "baseline_iops": 6000,
            "maximum_iops": 18750,
            "baseline_bytes_per_s": 1150 * 125_000,
            "maximum_bytes_per_s": 4750 * 125_000,
        },
        "instance_store": None,
        "network_baseline_gbps": 4.1,
        "notes": [],
    }


def test_facts_of_an_arm_instance_with_a_disk() -> None:
    found = aws_facts.instance(ANSWERS["m6gd.2xlarge"])
    assert (found["architecture"], found["vcpus"], found["cores"]) == ("arm64", 8, 8)
    assert found["instance_store"] == {"count": 1, "bytes": 474 * 10**9, "nvme": True}


def test_what_the_answer_does_not_say_is_unknown() -> None:
    found = aws_facts.instance(ANSWERS["t2.micro"])
    assert found["burstable"] is True
    assert set(found["ebs"].values()) == {None}
    bare = {key: ANSWERS["r5n.xlarge"][key] for key in ("InstanceType", "VCpuInfo", "MemoryInfo", "ProcessorInfo")}
    assert aws_facts.instance(bare)["network_baseline_gbps"] is None
    assert aws_facts.instance(bare)["burstable"] is None


@pytest.mark.parametrize("key", ["VCpuInfo", "MemoryInfo", "ProcessorInfo"])
def test_an_answer_without_cpu_memory_or_architecture_is_refused(key: str) -> None:
    with pytest.raises(KeyError, match=key):
        aws_facts.instance({k: v for k, v in ANSWERS["r5n.xlarge"].items() if k != key})


def test_types_that_a_region_does_not_offer_keep_their_facts_and_say_how_old_they_are() -> None:
    first, kept = aws_facts.facts(ANSWERS.values(), {}, "us-east-1", "2026-11-01")
    assert (list(first["instances"]), kept) == (["m5d.2xlarge", "m6gd.2xlarge", "r5n.xlarge", "r5n.4xlarge", "t2.micro"], [])
    second, kept = aws_facts.facts([ANSWERS["r5n.xlarge"]], first, "eu-south-2", "2026-11-30")
    assert kept == ["m5d.2xlarge", "m6gd.2xlarge", "r5n.4xlarge", "t2.micro"]
    assert second["instances"]["r5n.xlarge"]["notes"] == []
    assert second["instances"]["t2.micro"]["notes"] == ["facts of 2026-11-01: not offered in eu-south-2 on 2026-11-30"]
    third, _ = aws_facts.facts([], second, "eu-south-2", "2026-12-01")
    assert len(third["instances"]["t2.micro"]["notes"]) == 1
    assert first["instances"]["t2.micro"]["notes"] == []


# prices --------------------------------------------------------------------------------------------------------------------


def test_prices_of_a_region() -> None:
    document, missing = aws_facts.prices(map(json.dumps, PRICE_LIST), (*WANTED, "r5n.metal"), "eu-west-1", "2026-11-30")
    assert document["instances"] == {"m5d.2xlarge": 0.504, "m6gd.2xlarge": 0.4032, "r5n.xlarge": 0.334, "r5n.4xlarge": 1.336}
    assert missing == ["r5n.metal"]
    assert (document["region"], document["date"], document["currency"]) == ("eu-west-1", "2026-11-30", "USD")
    assert document["source"] == "AWS Price List API, published 2026-10-06"
    assert document["volumes"]["gp3"] == {
        "gb_month": 0.088,
        "iops_month": 0.0055,
        "mbps_month": 0.044,
        "iops_included": 3000,
        "mbps_included": 125,
    }
    assert document["volumes"]["io2"]["iops_tiers"] == [
        {"up_to": 32000, "iops_month": 0.072},
        {"up_to": 64000, "iops_month": 0.0504},
        {"up_to": None, "iops_month": 0.03528},
    ]
    assert document["volumes"]["io1"] == {"gb_month": 0.138, "iops_month": 0.072}
    assert document["volumes"]["sc1"] == {"gb_month": 0.0168}


def test_throughput_is_listed_per_gibibyte_and_per_mebibyte() -> None:
    listed = entry("EU-EBS:VolumeP-Throughput.gp3")
    (term,) = listed["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    dimension["unit"], dimension["pricePerUnit"] = "MiBps-Mo", {"USD": "0.044"}
    others = [e for e in PRICE_LIST if "Throughput" not in e["product"]["attributes"]["usagetype"]]
    assert aws_facts.volumes(aws_facts.products([*others, listed]))["gp3"]["mbps_month"] == 0.044


@pytest.mark.parametrize("usage", ["EU-EBS:VolumeP-IOPS.io2.tier2", "EU-EBS:VolumeUsage.io2"])
def test_a_volume_type_with_a_rate_missing_is_unknown(usage: str) -> None:
    rest = [e for e in PRICE_LIST if e["product"]["attributes"]["usagetype"] != usage]
    document, missing = aws_facts.prices(rest, WANTED, "eu-west-1", "2026-11-30")
    assert "io2" not in document["volumes"]
    assert missing == ["io2"]


def test_a_price_of_nothing_is_no_price() -> None:
    document, missing = aws_facts.prices([priced(entry("EU-BoxUsage:r5n.4xlarge"), "0.0000000000")], ["r5n.4xlarge"], "eu-west-1", "d")
    assert (document["instances"], missing[0]) == ({}, "r5n.4xlarge")


@pytest.mark.parametrize(
    ("usage", "says"),
    [
        ("EU-BoxUsage:r5n.4xlarge", "r5n.4xlarge: two prices an hour, 1.336 and 2.0"),
        ("EU-EBS:VolumeUsage.gp2", "EBS:VolumeUsage.gp2: two prices, 0.11 and 2.0"),
    ],
)
def test_two_prices_for_one_thing_are_refused(usage: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        aws_facts.prices([*PRICE_LIST, priced(entry(usage), "2.0")], WANTED, "eu-west-1", "2026-11-30")


def test_an_unknown_unit_is_refused() -> None:
    listed = entry("EU-EBS:VolumeUsage.gp2")
    next(iter(listed["terms"]["OnDemand"].values()))["priceDimensions"]["BBB1.JRTCKXETXF.0"]["unit"] = "TB-Mo"
    with pytest.raises(ValueError, match="unknown price unit 'TB-Mo'"):
        aws_facts.prices([listed], WANTED, "eu-west-1", "2026-11-30")


def test_order_is_by_family_and_size() -> None:
    names = ["r5n.12xlarge", "r5n.2xlarge", "r5n.metal", "r5n.large", "r5n.xlarge", "m5.8xlarge", "t3.nano", "t3.micro"]
    assert sorted(names, key=aws_facts.by_size) == [
        *("m5.8xlarge", "r5n.large", "r5n.xlarge", "r5n.2xlarge", "r5n.12xlarge", "r5n.metal", "t3.nano", "t3.micro"),
    ]


def test_text_is_json_with_a_type_a_line() -> None:
    document, _ = aws_facts.facts(ANSWERS.values(), {}, "us-east-1", "2026-11-01")
    text = aws_facts.to_text(document)
    assert json.loads(text) == document
    assert sum(line.startswith('    "') for line in text.splitlines()) == len(ANSWERS)
