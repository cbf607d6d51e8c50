# GNU General Public License v3.0 or later (see LICENSE)
"""Instance facts and prices that ship: shape, provenance, and the figures that decisions rest on."""

from __future__ import annotations

import datetime
import json
from typing import Any

import jsonschema
import pytest
from support.shipped import FACTS, PRICES, REPOSITORY

from ansible_collections.pgsizing.bench.plugins.module_utils import aws_facts
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB

KNOWN_OR_NULL = {"type": ["integer", "null"], "minimum": 1}
HEAD = {
    "date": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"},
    "source": {"type": "string", "minLength": 20},
    "notes": {"type": "array", "items": {"type": "string"}},
}
INSTANCE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "vcpus": {"type": "integer", "minimum": 1},
        "cores": KNOWN_OR_NULL,
        "memory_bytes": {"type": "integer", "minimum": 2**28},
        "architecture": {"enum": ["x86_64", "arm64"]},
        "burstable": {"type": ["boolean", "null"]},
        "ebs": {
            "type": "object",
            "additionalProperties": False,
            "properties": dict.fromkeys(
                ("baseline_iops", "maximum_iops", "baseline_bytes_per_s", "maximum_bytes_per_s"),
                KNOWN_OR_NULL,
            ),
        },
        "instance_store": {
            "oneOf": [
                {"type": "null"},
                {
                    "type": "object",
                    "required": ["count", "bytes", "nvme"],
                    "additionalProperties": False,
                    "properties": {"count": {"type": "integer"}, "bytes": {"type": "integer"}, "nvme": {"type": "boolean"}},
                },
            ]
        },
        "network_baseline_gbps": {"type": ["number", "null"]},
        "notes": {"type": "array", "items": {"type": "string"}},
    },
}
INSTANCE["required"] = list(INSTANCE["properties"])
INSTANCE["properties"]["ebs"]["required"] = list(INSTANCE["properties"]["ebs"]["properties"])
PRICE = {"type": "number", "exclusiveMinimum": 0}


def _volume(**more: Any) -> dict[str, Any]:
    rates = {"gb_month": PRICE, **more}
    return {"type": "object", "required": list(rates), "additionalProperties": False, "properties": rates}


TIER = {"type": "object", "required": ["up_to", "iops_month"], "properties": {"up_to": {"type": ["integer", "null"]}, "iops_month": PRICE}}
VOLUMES = {
    "gp2": _volume(),
    "gp3": _volume(iops_month=PRICE, mbps_month=PRICE, iops_included={"const": 3000}, mbps_included={"const": 125}),
    "io1": _volume(iops_month=PRICE),
    "io2": _volume(iops_tiers={"type": "array", "items": TIER, "minItems": 3}),
    "st1": _volume(),
    "sc1": _volume(),
}


def _document(schema: str, **properties: Any) -> dict[str, Any]:
    every = {"schema": {"const": schema}, **HEAD, **properties}
    return {"type": "object", "required": list(every), "additionalProperties": False, "properties": every}


def test_schema_of_the_facts() -> None:
    jsonschema.validate(FACTS, _document(aws_facts.FACTS_SCHEMA, instances={"type": "object", "additionalProperties": INSTANCE}))


@pytest.mark.parametrize("region", PRICES)
def test_schema_of_the_prices(region: str) -> None:
    schema = _document(
        aws_facts.PRICES_SCHEMA,
        region={"const": region},
        currency={"const": "USD"},
        instances={"type": "object", "additionalProperties": PRICE},
        volumes={"type": "object", "required": list(VOLUMES), "additionalProperties": False, "properties": VOLUMES},
    )
    jsonschema.validate(PRICES[region], schema)


def test_regions() -> None:
    assert {"us-east-1", "eu-west-1"} <= set(PRICES)


@pytest.mark.parametrize("path", ["instances.json", *(f"prices/{region}.json" for region in PRICES)])
def test_files_are_written_as_the_refresh_writes_them(path: str) -> None:
    text = (REPOSITORY / "roles/plan/files" / path).read_text(encoding="utf-8")
    assert aws_facts.to_text(json.loads(text)) == text


def test_dates_are_dates_of_the_past() -> None:
    for document in (FACTS, *PRICES.values()):
        assert datetime.date(2026, 1, 1) < datetime.date.fromisoformat(document["date"]) <= datetime.date.today()


@pytest.mark.parametrize("region", PRICES)
def test_every_priced_type_is_a_known_type(region: str) -> None:
    assert set(PRICES[region]["instances"]) <= set(FACTS["instances"])


def test_families() -> None:
    families = {name.partition(".")[0] for name in FACTS["instances"]}
    assert {"r5n", "m5n", "m5d", "m6gd"} <= families  # published
    assert {"r6in", "r7i", "r8i", "r8g", "m6in", "m7i", "m8i", "m6id", "m8id", "m7gd", "m8gd"} <= families  # their successors


@pytest.mark.parametrize(
    ("name", "vcpus", "cores", "gib", "architecture", "iops", "mbps", "disk_gb", "usd"),
    [
        ("r5n.xlarge", 4, 2, 32, "x86_64", (6000, 18750), (1150, 4750), None, 0.298),
        ("r5n.2xlarge", 8, 4, 64, "x86_64", (12000, 18750), (2300, 4750), None, 0.596),
        ("r5n.4xlarge", 16, 8, 128, "x86_64", (18750, 18750), (4750, 4750), None, 1.192),
        ("r5n.8xlarge", 32, 16, 256, "x86_64", (30000, 30000), (6800, 6800), None, 2.384),
        ("r5n.12xlarge", 48, 24, 384, "x86_64", (40000, 40000), (9500, 9500), None, 3.576),
        ("m5d.2xlarge", 8, 4, 32, "x86_64", (12000, 18750), (2300, 4750), 300, 0.452),
        ("m6gd.2xlarge", 8, 8, 32, "arm64", (12000, 20000), (2375, 4750), 474, 0.3616),
        ("m5n.xlarge", 4, 2, 16, "x86_64", (6000, 18750), (1150, 4750), None, 0.238),
        ("m5n.4xlarge", 16, 8, 64, "x86_64", (18750, 18750), (4750, 4750), None, 0.952),
    ],
)
def test_c088_facts_of_the_published_machines(
    name: str,
    vcpus: int,
    cores: int,
    gib: int,
    architecture: str,
    iops: tuple[int, int],
    mbps: tuple[int, int],
    disk_gb: int | None,
    usd: float,
) -> None:
    facts = FACTS["instances"][name]
    assert (facts["vcpus"], facts["cores"], facts["memory_bytes"], facts["architecture"]) == (vcpus, cores, gib * GIB, architecture)
    assert (facts["ebs"]["baseline_iops"], facts["ebs"]["maximum_iops"]) == iops
    assert (facts["ebs"]["baseline_bytes_per_s"], facts["ebs"]["maximum_bytes_per_s"]) == tuple(m * 125_000 for m in mbps)
    assert (facts["instance_store"] or {}).get("bytes") == (disk_gb and disk_gb * 10**9)
    assert PRICES["us-east-1"]["instances"][name] == usd


def test_c086_burstable_is_the_family_t_and_nothing_else() -> None:
    for name, facts in FACTS["instances"].items():
        assert facts["burstable"] is name.startswith("t"), name


@pytest.mark.parametrize(
    ("name", "published"),
    [("m5d.2xlarge", 0.504), ("m6gd.2xlarge", 0.403)],
)
def test_prices_of_eu_west_1_are_those_of_the_publication(name: str, published: float) -> None:
    assert round(PRICES["eu-west-1"]["instances"][name], 3) == published


@pytest.mark.parametrize(("gb", "iops", "usd"), [(100, 3000, 207.50), (500, 10000, 712.50), (1000, 16000, 1165.00), (1000, 32000, 2205.00)])
def test_price_of_an_io2_volume(gb: int, iops: int, usd: float) -> None:
    rates = PRICES["us-east-1"]["volumes"]["io2"]
    assert iops <= rates["iops_tiers"][0]["up_to"]
    assert gb * rates["gb_month"] + iops * rates["iops_tiers"][0]["iops_month"] == pytest.approx(usd)


@pytest.mark.parametrize("region", PRICES)
def test_io2_tiers_get_cheaper_upwards_and_the_last_is_open(region: str) -> None:
    tiers = PRICES[region]["volumes"]["io2"]["iops_tiers"]
    assert [tier["up_to"] for tier in tiers] == [32000, 64000, None]
    assert tiers[0]["iops_month"] > tiers[1]["iops_month"] > tiers[2]["iops_month"]
    assert tiers[0]["iops_month"] == PRICES[region]["volumes"]["io1"]["iops_month"]
