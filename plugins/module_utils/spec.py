# GNU General Public License v3.0 or later (see LICENSE)
"""Hardware as data: size entries in YAML and edb-deployment specification files become one shape.

*Entry*, as a user writes it: ``{description, instance_type, volumes: {data: {type, size: 500GB, iops}}, driver:
{instance_type, volumes}, profile}``; ``docs/sizes.md`` lists the keys. *Size*, as everything else reads it: every key of
``SIZE_KEYS`` is there (``None`` where not said), every machine has a root volume, and a volume is ``{type, bytes, iops,
throughput, encrypted}`` (``throughput`` in MiB/s). A size without ``instance_type`` describes no hardware: it is for hosts
that stand already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import Spec, coerce, coerce_all, nearest
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, UnitError, parse_size

SIZE_KEYS: Spec = {
    "description": {"type": "str"},
    "instance_type": {"type": "str"},
    "volumes": {"type": "dict"},
    "driver": {"type": "dict"},
    "profile": {"type": "str"},
    "workload": {"type": "dict"},
    "source": {"type": "raw"},
    "notes": {"type": "raw"},
}
DRIVER_KEYS: Spec = {"instance_type": {"type": "str"}, "volumes": {"type": "dict"}}
VOLUME_KEYS: Spec = {
    "type": {"type": "str"},
    "size": {"type": "raw"},
    "iops": {"type": "int", "min": 1},
    "throughput": {"type": "int", "min": 1},
    "encrypted": {"type": "bool"},
}
#: Volumes by what lies on them; ``/pgdata``, ``/pgwal`` and ``/pgtblspc1`` to ``3`` of edb-deployment, in its order.
VOLUMES = ("root", "data", "wal", "tblspc1", "tblspc2", "tblspc3")
#: The volume that every machine starts from, where the entry does not say.
ROOT = {"type": "gp3", "bytes": 20 * GIB, "iops": None, "throughput": None, "encrypted": None}


def read_size(name: str, entry: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the size that ``entry`` describes, and everything that is wrong with it."""
    where = f"size {name}: "
    if not isinstance(entry, Mapping):
        return {}, [f"{where}{entry!r} is not a mapping, such as {{instance_type: r5n.xlarge, profile: local}}"]
    values, problems = coerce_all(entry, SIZE_KEYS, where=where)
    size = {"name": name, **dict.fromkeys(SIZE_KEYS), **values}
    size["volumes"] = _volumes(size["volumes"], where, problems)
    if size["driver"] is not None:
        driver, wrong = coerce_all(size["driver"], DRIVER_KEYS, where=f"{where}driver: ")
        problems += wrong
        size["driver"] = {"instance_type": driver.get("instance_type")}
        size["driver"]["volumes"] = _volumes(driver.get("volumes"), f"{where}driver: ", problems)
        if not driver.get("instance_type") and not wrong:
            problems.append(f"{where}driver: no instance_type is given, such as m5n.xlarge")
    if not size["instance_type"] and (size["volumes"] or size["driver"]) and "instance_type" not in entry:
        problems.append(f"{where}volumes or a driver without instance_type: say which machine the volumes belong to")
    for machine in (size, size["driver"]):
        if machine and machine["instance_type"]:
            machine["volumes"] = {"root": dict(ROOT), **machine["volumes"]}
    if not size["profile"]:
        problems.append(f"{where}no profile is given: the settings of the server; profile: local computes them from the machine")
    return size, problems


def _volumes(given: Any, where: str, problems: list[str]) -> dict[str, dict[str, Any]]:
    volumes = {}
    for role, entry in (given or {}).items():
        at = f"{where}volumes: {role}: "
        if role not in VOLUMES:
            near = nearest(str(role), VOLUMES)
            problems.append(f"{at}not one of {', '.join(VOLUMES)}" + (f"; did you mean {near!r}?" if near else ""))
        elif not isinstance(entry, Mapping):
            problems.append(f"{at}{entry!r} is not a mapping, such as {{type: gp3, size: 100GB}}")
        else:
            values, wrong = coerce_all(entry, VOLUME_KEYS, where=at)
            wrong += [f"{at}{key}: not given" for key in ("type", "size") if entry.get(key) in (None, "")]
            problems += wrong
            volume = {**dict.fromkeys(VOLUME_KEYS), **values, "bytes": None}
            size = volume.pop("size")
            if size is not None:
                try:
                    volume["bytes"] = parse_size(size)
                    if volume["bytes"] % GIB or not volume["bytes"]:
                        problems.append(f"{at}size: {size} is not a whole number of GB, which is what EBS sells")
                except UnitError as error:
                    problems.append(f"{at}size: {error}")
            volumes[str(role)] = volume
    return volumes


# --- edb-deployment specification files -----------------------------------------------------------------------------
# Keys, choices, bounds and defaults as edbdeploy/spec/{__init__,aws}.py of edb-deployment 3.15.0 has them for cloud "aws".

_EDB_TYPES = ("io1", "io2", "gp2", "gp3", "st1", "sc1")
_EDB_VOLUME: Spec = {
    "type": {"type": "str", "choices": _EDB_TYPES, "default": "gp2"},
    "size": {"type": "int", "min": 10, "max": 16000, "default": 50},
    "iops": {"type": "int", "min": 100, "max": 64000, "default": 250},
}
_EDB_MORE: Spec = {
    "count": {"type": "int", "min": 0, "max": 5, "default": 2},
    **_EDB_VOLUME,
    "encrypted": {"type": "bool", "default": False},
}
_EDB_NODE = ("instance_type", "volume")
#: Every top key with the keys below it; ``None``: a value.
EDB_KEYS: dict[str, tuple[str, ...] | None] = {
    "available_os": ("CentOS7", "RedHat7", "RedHat8", "RockyLinux8"),
    "dbt2": None,
    "dbt2_client": ("count", *_EDB_NODE),
    "dbt2_driver": ("count", *_EDB_NODE),
    "hammerdb_server": _EDB_NODE,
    "pem_server": _EDB_NODE,
    "postgres_server": (*_EDB_NODE, "additional_volumes"),
    "pooler_server": _EDB_NODE,
    "bdr_server": (*_EDB_NODE, "additional_volumes"),
    "bdr_witness_server": _EDB_NODE,
    "barman_server": (*_EDB_NODE, "additional_volumes"),
}
_EDB_USED = ("postgres_server", "hammerdb_server")
_EDB_INSTANCE = {"postgres_server": "c5.2xlarge", "hammerdb_server": "m5n.xlarge"}
#: ``iops`` always stands in the file; edb-deployment's Terraform code passes it on for these types only.
_EDB_IOPS = {"root": ("io1", "io2"), "more": ("io1", "io2", "gp3")}


def parse(document: Any, name: str = "spec") -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """Read an edb-deployment specification (its JSON, parsed); return a size entry without profile, findings and problems.

    What the file leaves out has edb-deployment's default, as a finding; so have parameters that the volume type lacks and
    servers that a benchmark of one node does not use.
    """
    where = f"{name}: "
    if not isinstance(document, Mapping):
        return {}, [], [f"{where}not a specification of edb-deployment: a JSON object with postgres_server is wanted"]
    findings: list[dict[str, Any]] = []
    problems: list[str] = []
    for key, value in document.items():
        below = EDB_KEYS.get(key)
        if key not in EDB_KEYS:
            problems.append(_unknown(where, key, EDB_KEYS))
        elif below and not isinstance(value, Mapping):
            problems.append(f"{where}{key}: {value!r} is not an object")
        elif below:
            problems += [_unknown(f"{where}{key}: ", k, below) for k in value if k not in below]
    ignored = [key for key in document if key in EDB_KEYS and key not in _EDB_USED]
    if ignored:
        text = f"{where}{', '.join(ignored)}: not used; a benchmark needs postgres_server and hammerdb_server"
        findings.append(finding("spec_ignored", text, keys=ignored))
    if problems:
        return {}, findings, problems
    if "postgres_server" not in document:
        problems.append(f"{where}no postgres_server: the machine to measure")
    machines = {key: _edb_node(key, document.get(key, {}), where, findings, problems) for key in _EDB_USED}
    return {**machines["postgres_server"], "driver": machines["hammerdb_server"], "source": name}, findings, problems


def _edb_node(key: str, node: Mapping[str, Any], where: str, findings: list[dict[str, Any]], problems: list[str]) -> dict[str, Any]:
    at = f"{where}{key}: "
    assumed: list[str] = []
    instance_type = node.get("instance_type")
    if instance_type is None:
        instance_type = _EDB_INSTANCE[key]
        assumed.append(f"instance_type {instance_type}")
    elif not isinstance(instance_type, str) or not instance_type.strip():
        problems.append(f"{at}instance_type: {instance_type!r} is not one, such as r5n.xlarge")
    volumes = {"root": _edb_volume(node.get("volume", {}), "root", f"{at}volume: ", _EDB_VOLUME, assumed, findings, problems)}
    if key == "postgres_server":
        more = node.get("additional_volumes", {})
        volume = _edb_volume(more, "more", f"{at}additional_volumes: ", _EDB_MORE, assumed, findings, problems)
        for role in VOLUMES[1 : 1 + (volume.pop("count", None) or 0)]:
            volumes[role] = dict(volume)
    if assumed:
        findings.append(finding("spec_default", f"{at}{', '.join(assumed)}: the default of edb-deployment", values=assumed))
    return {"instance_type": instance_type, "volumes": volumes}


def _edb_volume(
    given: Any, kind: str, at: str, keys: Spec, assumed: list[str], findings: list[dict[str, Any]], problems: list[str]
) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        problems.append(f"{at}{given!r} is not an object")
        return {}
    values = {}
    for key in given:
        if key not in keys:
            problems.append(_unknown(at, key, keys))
    for key, spec in keys.items():
        if given.get(key) is None:
            values[key] = spec["default"]
            if key in ("type", "size", "count"):
                assumed.append(f"{at.rsplit(': ', 2)[-2]} {key} {spec['default']}")
            continue
        try:
            values[key] = coerce(f"{at}{key}", given[key], spec)
        except ValueError as error:
            problems.append(str(error))
    if "type" in values and values["type"] not in _EDB_IOPS[kind]:
        dropped = values.pop("iops", None)
        if given.get("iops") is not None and dropped:
            reason = "edb-deployment does not pass it on" if values.get("type") == "gp3" else f"not a parameter of {values.get('type')}"
            text = f"{at}iops {dropped} was dropped: {reason}{_really(values)}"
            findings.append(finding("volume_parameter", text, type=values.get("type"), iops=dropped))
    if isinstance(values.get("size"), int):
        values["size"] = f"{values['size']}GB"
    return values


def _really(volume: Mapping[str, Any]) -> str:
    """What a gp2 volume really gives: https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html"""
    if volume.get("type") != "gp2" or not isinstance(volume.get("size"), int):
        return ""
    return f", which gives {max(100, 3 * volume['size'])} (3 per GiB) and bursts to 3000 while its credits last"


def _unknown(where: str, key: Any, known: Any) -> str:
    near = nearest(str(key), known)
    return f"{where}{key}: no such key; " + (f"did you mean {near!r}?" if near else f"there are {', '.join(known)}")
