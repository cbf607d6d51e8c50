# GNU General Public License v3.0 or later (see LICENSE)
"""The sizes that ship: complete, of known hardware, and the publication's specifications."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from support.shipped import FACTS, PRICES, PROFILES, SIZES, SPECS, TSHIRTS, table

from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, parse_size

VOLUME = {
    "type": "object",
    "required": ["type", "size"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["gp2", "gp3", "io1", "io2", "st1", "sc1"]},
        "size": {"type": "string"},
        "iops": {"type": "integer"},
        "throughput": {"type": "integer"},
    },
}
VOLUMES = {"type": "object", "propertyNames": {"enum": ["root", "data", "wal"]}, "additionalProperties": VOLUME}
MACHINE = {"instance_type": {"enum": list(FACTS["instances"])}, "volumes": VOLUMES}
SCHEMA = {
    "type": "object",
    "required": ["description", "profile"],
    "additionalProperties": False,
    "properties": {
        **MACHINE,
        "description": {"type": "string"},
        "driver": {"type": "object", "required": list(MACHINE), "additionalProperties": False, "properties": MACHINE},
        "profile": {"enum": ["local", *PROFILES]},
        "workload": {"type": "object", "required": ["workload"]},
        "source": {"type": "string"},
        "notes": {"type": "array", "items": {"type": "string"}},
    },
}


def test_names_and_the_size_that_needs_nothing() -> None:
    assert tuple(SIZES) == ("local", *TSHIRTS)
    assert SIZES["local"] == {"description": "This machine", "profile": "local"}


@pytest.mark.parametrize("name", SIZES)
def test_schema(name: str) -> None:
    jsonschema.validate(SIZES[name], SCHEMA)


@pytest.mark.parametrize("name", TSHIRTS)
def test_hardware_is_that_of_the_results_table(name: str) -> None:
    rows = {row[0].replace("Extra-Large", "XL").lower(): row for row in table("edb_results.md")}
    _, instance_type, _, vcpus, memory, *_ = rows[name]
    facts = FACTS["instances"][SIZES[name]["instance_type"]]
    assert SIZES[name]["instance_type"] == instance_type
    assert (facts["vcpus"], facts["memory_bytes"]) == (int(vcpus), int(memory) * GIB)
    assert facts["vcpus"] == 2 * facts["cores"]  # "CPU cores" of the table are threads


def _as_specified(volume: dict[str, Any]) -> dict[str, Any]:
    """A volume of a specification file, without the iops that gp2 does not have."""
    found = {"type": volume["type"], "size": volume["size"] * GIB}
    return found if volume["type"] == "gp2" else found | {"iops": volume["iops"]}


def _ours(volume: dict[str, Any]) -> dict[str, Any]:
    return {**volume, "size": parse_size(volume["size"])}


@pytest.mark.parametrize("name", TSHIRTS)
def test_c052_volumes_are_those_of_the_specification_without_iops_of_gp2(name: str) -> None:
    server, driver = SPECS[name]["postgres_server"], SPECS[name]["hammerdb_server"]
    size = SIZES[name]
    assert (size["instance_type"], size["driver"]["instance_type"]) == (server["instance_type"], driver["instance_type"])
    assert _ours(size["volumes"]["root"]) == _as_specified(server["volume"])
    assert server["additional_volumes"]["count"] == 2
    assert _ours(size["volumes"]["data"]) == _ours(size["volumes"]["wal"]) == _as_specified(server["additional_volumes"])
    assert _ours(size["driver"]["volumes"]["root"]) == _as_specified(driver["volume"])
    assert any("gp2" in note for note in size["notes"])


@pytest.mark.parametrize("region", PRICES)
@pytest.mark.parametrize("name", TSHIRTS)
def test_every_part_of_a_published_size_has_a_price(name: str, region: str) -> None:
    size, prices = SIZES[name], PRICES[region]
    for machine in (size, size["driver"]):
        assert prices["instances"][machine["instance_type"]] > 0
        assert all(volume["type"] in prices["volumes"] for volume in machine["volumes"].values())


@pytest.mark.parametrize("name", TSHIRTS)
def test_the_wal_volume_holds_what_the_profile_asks_for(name: str) -> None:
    asked = PROFILES[SIZES[name]["profile"]]["settings"]["max_wal_size"][name]
    assert parse_size(asked) < parse_size(SIZES[name]["volumes"]["wal"]["size"])
