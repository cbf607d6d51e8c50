# GNU General Public License v3.0 or later (see LICENSE)
"""Size entries and edb-deployment specifications, right and wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import spec
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB

ENTRY = {
    "description": "made up",
    "instance_type": "r5n.xlarge",
    "volumes": {"root": {"type": "gp3", "size": "50GB"}, "data": {"type": "io2", "size": "500GB", "iops": 10000}},
    "driver": {"instance_type": "m5n.xlarge", "volumes": {"root": {"type": "gp3", "size": "20GB"}}},
    "profile": "local",
}
#: The smallest published specification, as Appendix B of the T-shirt post prints it.
SMALL = {
    "postgres_server": {
        "instance_type": "r5n.xlarge",
        "volume": {"type": "gp2", "size": 50, "iops": 2500},
        "additional_volumes": {"count": 2, "type": "io2", "size": 500, "iops": 10000, "encrypted": False},
    },
    "hammerdb_server": {"instance_type": "m5n.xlarge", "volume": {"type": "gp2", "size": 100, "iops": 1000}},
}
SPECS = Path(__file__).parents[4] / "published/specs"


def changed(base: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of ``base`` with the entry at the dotted ``path`` set, or removed with ``...``."""
    result = copy.deepcopy(base)
    *parents, last = path.split(".")
    node = result
    for key in parents:
        node = node[key]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return result


def test_a_size_entry_becomes_a_size() -> None:
    size, problems = spec.read_size("mine", ENTRY)
    assert problems == []
    assert size["name"] == "mine" and size["workload"] is None
    assert size["volumes"]["data"] == {"type": "io2", "bytes": 500 * GIB, "iops": 10000, "throughput": None, "encrypted": None}
    assert size["driver"] == {
        "instance_type": "m5n.xlarge",
        "volumes": {"root": {"type": "gp3", "bytes": 20 * GIB, "iops": None, "throughput": None, "encrypted": None}},
    }


def test_every_machine_has_a_root_volume() -> None:
    size, problems = spec.read_size("mine", {"instance_type": "r8g.xlarge", "driver": {"instance_type": "m8g.xlarge"}, "profile": "local"})
    assert problems == []
    assert size["volumes"] == size["driver"]["volumes"] == {"root": spec.ROOT}


def test_a_size_for_hosts_that_stand_needs_a_profile_only() -> None:
    size, problems = spec.read_size("rack7", {"profile": "local"})
    assert (problems, size["instance_type"], size["volumes"], size["driver"]) == ([], None, {}, None)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("instance_typ", "r5n.xlarge", "size mine: instance_typ: no such parameter; did you mean 'instance_type'?"),
        ("profile", ..., "size mine: no profile is given"),
        ("instance_type", ..., "size mine: volumes or a driver without instance_type"),
        (
            "volumes.dat",
            {"type": "gp3", "size": "1GB"},
            "volumes: dat: not one of root, data, wal, tblspc1, tblspc2, tblspc3; did you mean 'data'?",
        ),
        ("volumes.data.size", 500, "volumes: data: size: 500: a size needs its unit"),
        ("volumes.data.size", "500", "volumes: data: size: '500': a size needs its unit"),
        ("volumes.data.size", "-500GB", "volumes: data: size: '-500GB': a size cannot be negative"),
        ("volumes.data.size", "500gb", "unknown unit 'gb': write 500GB"),
        ("volumes.data.size", "500MB", "volumes: data: size: 500MB is not a whole number of GB"),
        ("volumes.data.size", ..., "volumes: data: size: not given"),
        ("volumes.data.type", ..., "volumes: data: type: not given"),
        ("volumes.data.iops", -1, "volumes: data: iops: -1 is too small"),
        ("volumes.data.iops", "many", "volumes: data: iops: 'many' is not a whole number"),
        ("volumes.data.iop", 100, "volumes: data: iop: no such parameter; did you mean 'iops'?"),
        ("volumes.data", "500GB", "volumes: data: '500GB' is not a mapping"),
        ("driver.instance_type", ..., "driver: no instance_type is given"),
        ("driver.instance", "m5n.xlarge", "driver: instance: no such parameter; did you mean 'instance_type'?"),
    ],
)
def test_a_typo_in_a_size_entry_is_named(path: str, value: Any, said: str) -> None:
    _size, problems = spec.read_size("mine", changed(ENTRY, path, value))
    assert len(problems) == 1
    assert said in problems[0]


def test_everything_wrong_with_an_entry_is_said_at_once() -> None:
    entry = changed(changed(ENTRY, "volumes.data.size", "5"), "profil", "x")
    assert len(spec.read_size("mine", entry)[1]) == 2


@pytest.mark.parametrize("entry", [None, "r5n.xlarge", ["r5n.xlarge"]])
def test_an_entry_that_is_no_mapping_is_refused(entry: Any) -> None:
    assert "is not a mapping" in spec.read_size("mine", entry)[1][0]


def test_c052_a_published_specification_is_read_and_its_gp2_iops_are_a_finding() -> None:
    entry, findings, problems = spec.parse(SMALL, "small.json")
    assert problems == []
    size, wrong = spec.read_size("small", {**entry, "profile": "local"})
    assert wrong == []
    assert list(size["volumes"]) == ["root", "data", "wal"]
    assert [(v["type"], v["bytes"], v["iops"]) for v in size["volumes"].values()] == [
        ("gp2", 50 * GIB, None),
        ("io2", 500 * GIB, 10000),
        ("io2", 500 * GIB, 10000),
    ]
    assert size["driver"]["volumes"]["root"]["bytes"] == 100 * GIB
    assert [f["code"] for f in findings] == ["volume_parameter", "volume_parameter"]
    assert "postgres_server: volume: iops 2500 was dropped: not a parameter of gp2, which gives 150" in findings[0]["message"]


@pytest.mark.parametrize("name", ["small", "medium", "large", "xl"])
def test_the_shipped_specifications_are_read(name: str) -> None:
    document = json.loads((SPECS / f"{name}.json").read_text(encoding="utf-8"))
    entry, findings, problems = spec.parse(document, f"{name}.json")
    size, wrong = spec.read_size(name, {**entry, "profile": "local"})
    assert problems + wrong == []
    assert {f["code"] for f in findings} == {"volume_parameter"}
    assert size["volumes"]["data"]["iops"] == (30000 if name == "xl" else 10000)


@pytest.mark.parametrize(
    ("count", "roles"), [(0, ["root"]), (1, ["root", "data"]), (5, ["root", "data", "wal", "tblspc1", "tblspc2", "tblspc3"])]
)
def test_additional_volumes_are_data_wal_and_tablespaces_in_this_order(count: int, roles: list[str]) -> None:
    entry, _findings, problems = spec.parse(changed(SMALL, "postgres_server.additional_volumes.count", count))
    assert problems == []
    assert list(entry["volumes"]) == roles


def test_what_a_specification_leaves_out_has_the_defaults_of_edb_deployment() -> None:
    entry, findings, problems = spec.parse({"postgres_server": {}})
    assert problems == []
    assert entry["instance_type"] == "c5.2xlarge"
    assert entry["driver"]["instance_type"] == "m5n.xlarge"
    assert entry["volumes"]["data"] == {"type": "gp2", "size": "50GB", "encrypted": False}
    assert {f["code"] for f in findings} == {"spec_default"}


def test_iops_reach_a_gp3_volume_of_the_data_but_not_the_root() -> None:
    document = changed(SMALL, "postgres_server.additional_volumes.type", "gp3")
    document = changed(document, "postgres_server.volume.type", "gp3")
    entry, findings, _problems = spec.parse(document)
    assert entry["volumes"]["data"]["iops"] == 10000
    assert "iops" not in entry["volumes"]["root"]
    assert "edb-deployment does not pass it on" in findings[0]["message"]


def test_every_key_of_version_3_15_is_known_and_servers_that_are_not_used_are_named() -> None:
    node = {"instance_type": "c5.xlarge", "volume": {"type": "gp2", "size": 30, "iops": 250}}
    more = {"additional_volumes": {"count": 1, "type": "gp2", "size": 300, "iops": 250, "encrypted": False}}
    document = {
        **SMALL,
        "available_os": {"RockyLinux8": {"image": "Rocky-8", "ssh_user": "rocky"}},
        "dbt2": False,
        "dbt2_client": {"count": 0, **node},
        "dbt2_driver": {"count": 0, **node},
        "pem_server": node,
        "pooler_server": node,
        "bdr_server": {**node, **more},
        "bdr_witness_server": node,
        "barman_server": {**node, **more},
    }
    assert set(document) == set(spec.EDB_KEYS)
    _entry, findings, problems = spec.parse(document)
    assert problems == []
    ignored = next(f for f in findings if f["code"] == "spec_ignored")
    assert set(ignored["evidence"]["keys"]) == set(document) - {"postgres_server", "hammerdb_server"}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("postgres_servr", {}, "postgres_servr: no such key; did you mean 'postgres_server'?"),
        ("nonsense", {}, "nonsense: no such key; there are available_os"),
        ("postgres_server.volumes", {}, "postgres_server: volumes: no such key; did you mean 'volume'?"),
        ("postgres_server.volume.throughput", 1, "postgres_server: volume: throughput: no such key; there are type, size, iops"),
        ("hammerdb_server.additional_volumes", {}, "hammerdb_server: additional_volumes: no such key"),
        ("postgres_server.volume.type", "gp9", "volume: type: 'gp9' is not one of io1, io2, gp2, gp3, st1, sc1"),
        ("postgres_server.volume.size", 5, "volume: size: 5 is too small; the least is 10"),
        ("postgres_server.additional_volumes.iops", 65000, "additional_volumes: iops: 65000 is too large; the most is 64000"),
        ("postgres_server.additional_volumes.count", 6, "additional_volumes: count: 6 is too large; the most is 5"),
        ("postgres_server.additional_volumes.size", "500GB", "additional_volumes: size: '500GB' is not a whole number"),
        ("postgres_server", ..., "no postgres_server"),
        ("postgres_server", [], "postgres_server: [] is not an object"),
        ("postgres_server.volume", [], "volume: [] is not an object"),
        ("postgres_server.instance_type", "", "postgres_server: instance_type: '' is not one, such as r5n.xlarge"),
        ("hammerdb_server.instance_type", 5, "hammerdb_server: instance_type: 5 is not one"),
    ],
)
def test_a_fault_in_a_specification_is_refused(path: str, value: Any, said: str) -> None:
    _entry, _findings, problems = spec.parse(changed(SMALL, path, value), "x.json")
    assert problems
    assert said in problems[0]


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_a_file_that_is_no_specification_is_refused(document: Any) -> None:
    assert "not a specification of edb-deployment" in spec.parse(document, "x.json")[2][0]
