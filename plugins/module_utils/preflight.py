# GNU General Public License v3.0 or later (see LICENSE)
"""Can this size be had, does it hold the plan, and what will it really deliver? Checked on paper, before money is spent.

Volume rules: EBS user guide (provisioned-iops, general-purpose, hdd-vols). Limits of instances: ``roles/plan/files/instances.json``.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.pgsizing.bench.plugins.module_utils import guc, hammerdb_release
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES, finding
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import nearest
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, KIB, MIB, TIB, human_size

#: Small instances hold their maximum EBS rate for at least this long in 24 hours (AWS compute blog; ``EBSIOBalance%``).
BURST_S = 30 * 60.0


class VolumeType(NamedTuple):
    """Bounds of a volume type. ``iops`` is ``None`` where the parameter does not exist, ``throughput`` likewise (MiB/s).

    ``before`` holds the narrower bounds that hold where the change of ``since`` has not arrived: ``{key: greatest}``.
    """

    bytes: tuple[int, int]
    iops: tuple[int, int] | None
    per_gib: int | None
    throughput: tuple[int, int] | None
    most_throughput: int
    required: bool = False
    bootable: bool = True
    since: str | None = None
    before: Mapping[str, int] = {}


VOLUME_TYPES = {
    # every io2 volume is Block Express since the date (before, and in China: 64,000 IOPS, 500 per GiB, 16 TiB, 1,000 MiB/s)
    "io2": VolumeType(
        (4 * GIB, 64 * TIB),
        (100, 256_000),
        1000,
        None,
        4000,
        required=True,
        since="2025-04-30",
        before={"iops": 64_000, "per_gib": 500, "bytes": 16 * TIB},
    ),
    "io1": VolumeType((4 * GIB, 16 * TIB), (100, 64_000), 50, None, 1000, required=True),
    "gp3": VolumeType(
        (GIB, 64 * TIB),
        (3000, 80_000),
        500,
        (125, 2000),
        2000,
        since="2025-09",
        before={"iops": 16_000, "throughput": 1000, "bytes": 16 * TIB},
    ),
    "gp2": VolumeType((GIB, 16 * TIB), None, None, None, 250),
    "st1": VolumeType((125 * GIB, 16 * TIB), None, None, None, 500, bootable=False),
    "sc1": VolumeType((125 * GIB, 16 * TIB), None, None, None, 250, bootable=False),
    "standard": VolumeType((GIB, TIB), None, None, None, 90),
}
GP2_BURST_IOPS = 3000
GP2_CREDITS = 5_400_000  # of a full balance
#: Drives that turn: about what one does, so that nothing better is promised.
_DISK_IOPS = {"st1": 500, "sc1": 250, "standard": 100}


#: Percent of each vCPU that burstable instances have when their CPU credits are gone (EC2 user guide, burstable-credits-baseline-concepts).
_CREDIT_BASELINES = {"nano": 5, "micro": 10, "small": 20, "medium": 20, "large": 30, "xlarge": 40, "2xlarge": 40}
_CREDIT_BASELINES_T2 = {"xlarge": 22.5, "2xlarge": 17}


def credit_baseline(instance_type: str) -> float | None:
    """Return the share of each vCPU that a burstable instance has without credits; ``None`` for other types and unknown ones."""
    found = re.fullmatch(r"(t\d)\w*\.(\w+)", instance_type, re.IGNORECASE)
    if not found:
        return None
    family, size = found.group(1).lower(), found.group(2).lower()
    percent = (_CREDIT_BASELINES_T2 if family == "t2" else {}).get(size, _CREDIT_BASELINES.get(size))
    return None if percent is None else percent / 100


def burstable(instance_type: str, where: str = "") -> dict[str, Any]:
    """Return the finding on an instance type that works on CPU credits; ``where`` is put before the message."""
    share = credit_baseline(instance_type)
    falls = f", {100 * share:g} % of each vCPU" if share else ""
    text = (
        f"{where}{instance_type} works on CPU credits: when they run out the rate falls to the baseline{falls}, and the mean is no capacity"
    )
    if not instance_type.lower().startswith("t2"):  # the default of t2 is standard
        text += "; in unlimited mode, its default, it does not fall, and CPU above the baseline is billed beyond the price of the instance"
    return finding("burstable_instance", text, instance_type=instance_type, baseline=share)


def volume_iops(volume: Mapping[str, Any]) -> tuple[int, int]:
    """Return the sustained and the burst IOPS of a volume by itself."""
    kind, gib = volume["type"], volume["bytes"] // GIB
    if kind == "gp2":
        base = min(16_000, max(100, 3 * gib))
        return base, max(base, GP2_BURST_IOPS)
    if kind in _DISK_IOPS:
        return _DISK_IOPS[kind], _DISK_IOPS[kind]
    given = volume.get("iops") or (3000 if kind == "gp3" else 0)
    return given, given


def volume_bytes_per_s(volume: Mapping[str, Any]) -> int:
    """Return the most bytes per second that a volume by itself moves; an I/O of io1, io2 and gp2 carries up to 256 KiB."""
    kind, gib = volume["type"], volume["bytes"] // GIB
    if kind == "gp3":
        return (volume.get("throughput") or 125) * MIB
    if kind == "gp2":
        return (128 if gib <= 170 else 250) * MIB
    most = VOLUME_TYPES[kind].most_throughput * MIB
    return most if kind in _DISK_IOPS else min(most, volume_iops(volume)[0] * 256 * KIB)


def limits(size: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what volumes and instance give together: sustained by the instance's baseline, burst by its maximum.

    ``{provisioned_iops, baseline_iops, maximum_iops, sustained_iops, burst_iops, burst_s}`` and the same of bytes per second
    (``provisioned_bytes_per_s`` ...). Instance figures are ``None`` without ``facts``, ``burst_s`` where there is no burst. The root
    volume counts only where the data lies on it.
    """
    volumes = list(database_volumes(size).values())
    sustained, burst = (sum(volume_iops(v)[i] for v in volumes) for i in (0, 1))
    rate = sum(volume_bytes_per_s(v) for v in volumes)
    ebs = (facts or {}).get("ebs") or {}
    bounds = [(ebs.get(f"baseline_{what}"), ebs.get(f"maximum_{what}")) for what in ("iops", "bytes_per_s")]
    (iops, most_iops), (bytes_per_s, most_bytes_per_s) = bounds
    return {
        "provisioned_iops": sustained,
        "baseline_iops": iops,
        "maximum_iops": most_iops,
        "sustained_iops": _least(sustained, iops),
        "burst_iops": _least(burst, most_iops),
        "provisioned_bytes_per_s": rate,
        "baseline_bytes_per_s": bytes_per_s,
        "maximum_bytes_per_s": most_bytes_per_s,
        "sustained_bytes_per_s": _least(rate, bytes_per_s),
        "burst_bytes_per_s": _least(rate, most_bytes_per_s),
        "burst_s": BURST_S if any(low and high and high > low for low, high in bounds) else None,
    }


def _least(*amounts: float | None) -> float:
    return min(a for a in amounts if a is not None)


def database_volumes(size: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the volumes that data and WAL lie on, by role: ``root`` only where there is no other."""
    volumes = size["volumes"]
    return {role: v for role, v in volumes.items() if role != "root"} or dict(volumes)


def iops_bounds(volume: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the least and the most IOPS that can be provisioned for a volume of this type and size; ``None`` where none can."""
    kind = VOLUME_TYPES.get(volume["type"])
    if kind is None or kind.iops is None:
        return None
    least, most = kind.iops
    return least, max(least, min(most, (kind.per_gib or most) * (volume["bytes"] // GIB)))


def check(
    size: Mapping[str, Any],
    instances: Mapping[str, Mapping[str, Any]],
    *,
    settings: Mapping[str, Mapping[str, Any]],
    clients: int,
    dataset_bytes: int,
    copy_bytes: int,
    seconds: float,
    load_generator: str | None = None,
    hammerdb: Mapping[str, str] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Check a size (of :mod:`spec`) against the plan; return findings and the problems that forbid it.

    ``instances``: facts by instance type; ``settings``: name -> setting (of :mod:`guc`); ``dataset_bytes``: of all data sets,
    ``copy_bytes``: of the one that is used beside the copy it is reset from; ``seconds``: how long the plan takes, loading included.
    ``hammerdb``: where HammerDB comes from, ``{version, home, archive, url}``; a build of the user's own is for the machine it is for.
    """
    findings: list[dict[str, Any]] = []
    problems: list[str] = []
    for who, machine in (("", size), ("driver: ", size.get("driver"))):
        if machine:
            facts = instances.get(machine["instance_type"])
            where = f"size {size['name']}: {who}"
            for role, volume in machine["volumes"].items():
                volume_check(f"{where}{role} volume: ", role, volume, findings, problems)
            _instance(where, machine["instance_type"], facts, instances, findings)
    if problems:
        return findings, problems
    facts = instances.get(size["instance_type"])
    if size["volumes"]:
        findings += rates(size, facts, seconds)
        _space(size, settings, dataset_bytes, copy_bytes, problems)
    driver = instances.get((size.get("driver") or {}).get("instance_type") or size["instance_type"])
    if driver and load_generator == "hammerdb":
        problems += [f"size {size['name']}: the driver is {driver['architecture']}: {p}" for p in _unbuilt(hammerdb or {}, driver)]
    if facts:
        problems += [f"size {size['name']}: {p}" for p in guc.conflicts(settings, memory_bytes=facts["memory_bytes"])]
        findings += guc.lint(settings, memory_bytes=facts["memory_bytes"], clients=clients)
    return findings, list(dict.fromkeys(problems))


def _unbuilt(hammerdb: Mapping[str, str], driver: Mapping[str, Any]) -> list[str]:
    """Return why HammerDB cannot be had for the driver."""
    if any(hammerdb.get(key) for key in ("home", "archive", "url")):
        return []
    try:
        wrong = hammerdb_release.unbuilt(hammerdb.get("version") or hammerdb_release.DEFAULT_VERSION, driver["architecture"])
    except ValueError as error:
        wrong = str(error)
    return [f"{wrong} (hammerdb_version), or give hammerdb_home or hammerdb_archive"] if wrong else []


def volume_check(at: str, role: str, volume: Mapping[str, Any], findings: list[dict[str, Any]], problems: list[str]) -> None:
    """Check one volume against the rules of its type; ``at`` is put before each message."""
    kind = VOLUME_TYPES.get(volume["type"])
    if kind is None:
        near = nearest(str(volume["type"]), VOLUME_TYPES)
        hint = f"; did you mean {near!r}?" if near else ""
        problems.append(f"{at}{volume['type']!r} is not one of {', '.join(VOLUME_TYPES)}{hint}")
        return
    name, size, iops, throughput = volume["type"], volume["bytes"], volume.get("iops"), volume.get("throughput")
    gib = size // GIB
    low, high = kind.bytes
    if not low <= size <= high:
        problems.append(f"{at}{human_size(size)} is outside {human_size(low)} .. {human_size(high)} of {name}")
    if kind.iops is None and iops:
        gives, burst = volume_iops({**volume, "iops": None})
        really = f"gives {gives} (3 per GiB) and bursts to {burst}" if name == "gp2" else f"gives about {gives}"
        problems.append(f"{at}iops is not a parameter of {name}, which {really}; leave it out, or take gp3 or io2 for a fixed rate")
    elif kind.iops and kind.required and not iops:
        problems.append(f"{at}{name} needs iops, {kind.iops[0]} to {min(kind.iops[1], (kind.per_gib or 0) * gib)} at this size")
    elif kind.iops and iops:
        if not kind.iops[0] <= iops <= kind.iops[1]:
            problems.append(f"{at}{iops:,} IOPS is outside {kind.iops[0]:,} .. {kind.iops[1]:,} of {name}")
        elif kind.per_gib and iops > kind.per_gib * gib and not (name == "gp3" and iops <= 3000):
            need = -(-iops // kind.per_gib)
            problems.append(f"{at}{iops:,} IOPS on {gib} GiB: {name} allows {kind.per_gib} per GiB; {need} GiB can have them")
    if throughput and kind.throughput is None:
        problems.append(f"{at}throughput is a parameter of gp3 only; leave it out for {name}")
    elif throughput and kind.throughput:
        if not kind.throughput[0] <= throughput <= kind.throughput[1]:
            problems.append(f"{at}throughput {throughput} is outside {kind.throughput[0]} .. {kind.throughput[1]} MiB/s of {name}")
        elif throughput > 125 and throughput > (iops or 3000) / 4:
            problems.append(f"{at}throughput {throughput} MiB/s needs {4 * throughput:,} IOPS: gp3 gives 1 MiB/s for every 4")
    if role == "root" and not kind.bootable:
        problems.append(f"{at}no machine starts from {name}")
    _dated(at, volume, kind, findings)


def _dated(at: str, volume: Mapping[str, Any], kind: VolumeType, findings: list[dict[str, Any]]) -> None:
    """Note what only the bounds of a certain date allow: older volumes and some regions have the narrower ones."""
    iops = volume.get("iops") or 0
    asked = {
        "bytes": volume["bytes"],
        "iops": iops,
        "throughput": volume.get("throughput") or 0,
        "per_gib": -(-iops // max(1, volume["bytes"] // GIB)),
    }
    wide = {key: most for key, most in kind.before.items() if asked[key] > most}
    if wide:
        text = ", ".join(f"{key.replace('per_gib', 'IOPS per GiB')} {human_size(m) if key == 'bytes' else m}" for key, m in wide.items())
        message = f"{at}needs the bounds that {volume['type']} has since {kind.since}; before, and where they have not arrived: {text}"
        findings.append(finding("volume_limits", message, since=kind.since, before=dict(wide)))


def _instance(where: str, name: str, facts: Mapping[str, Any] | None, known: Mapping[str, Any], findings: list[dict[str, Any]]) -> None:
    if facts is None:
        near = nearest(name, known)
        hint = f"; did you mean {near}?" if near else ""
        text = f"{where}nothing is known of instance type {name}: memory, IOPS and architecture were not checked{hint}"
        findings.append(finding("not_checked", text, instance_type=name))
    elif (facts.get("ebs") or {}).get("maximum_iops") is None:
        text = f"{where}what {name} takes of its volumes is not known: their IOPS and MiB/s were not checked against it"
        findings.append(finding("not_checked", text, instance_type=name))
    if facts.get("burstable") if facts else re.match(r"t\d", name, re.IGNORECASE):
        findings.append(burstable(name, where))
    if facts and facts.get("instance_store"):
        text = f"{where}{name} has local disks: they lose their data when it stops, and may take the device name of a volume"
        findings.append(finding("instance_store", text, **facts["instance_store"]))


def rates(size: Mapping[str, Any], facts: Mapping[str, Any] | None, seconds: float | None = None) -> list[dict[str, Any]]:
    """Return findings on what the volumes provide against what the instance takes, in IOPS and bytes per second, and on bursts.

    ``seconds``: how long the plan takes, where there is one. The volumes are those that :func:`volume_check` has nothing against.
    """
    found = limits(size, facts)
    return [*_unusable(size, found), *_bursts(size, found, seconds), *_credits(size)]


def _unusable(size: Mapping[str, Any], found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is provisioned, and paid for, above the maximum of the instance. MiB/s are provisioned for gp3 only."""
    findings = []
    name, provisioned, maximum = size["instance_type"], found["provisioned_iops"], found["maximum_iops"]
    if maximum and provisioned > maximum:
        text = (
            f"size {size['name']}: {provisioned:,} IOPS provisioned, {name} takes {maximum:,}: "
            f"{provisioned - maximum:,} are paid for and cannot be used"
        )
        findings.append(finding("iops_unusable", text, provisioned=provisioned, maximum=maximum))
    asked = sum(v["throughput"] * MIB for v in database_volumes(size).values() if v.get("throughput"))
    most = found["maximum_bytes_per_s"]
    if most and asked > most:
        text = (
            f"size {size['name']}: {asked / MIB:,.0f} MiB/s provisioned, {name} takes {most / MIB:,.0f}: "
            f"{(asked - most) / MIB:,.0f} are paid for and cannot be used"
        )
        findings.append(finding("throughput_unusable", text, provisioned=asked, maximum=most))
    return findings


def _bursts(size: Mapping[str, Any], found: Mapping[str, Any], seconds: float | None) -> list[dict[str, Any]]:
    """What of the volumes' rate the instance gives for a while only."""
    findings = []
    for code, what, unit, one in (("iops_burst", "iops", "IOPS", 1), ("throughput_burst", "bytes_per_s", "MiB/s", MIB)):
        provisioned, baseline, maximum = (found[f"{key}_{what}"] for key in ("provisioned", "baseline", "maximum"))
        if baseline and maximum and min(provisioned, maximum) > baseline:
            usable = min(provisioned, maximum)
            text = (
                f"size {size['name']}: {size['instance_type']} sustains {baseline / one:,.0f} {unit}; more, up to {usable / one:,.0f}, "
                f"holds for {BURST_S / 60:.0f} min a day" + ("" if seconds is None else f", and the plan takes {seconds / 60:.0f} min")
            )
            plan_s = {} if seconds is None else {"plan_s": round(seconds)}
            findings.append(finding(code, text, baseline=baseline, maximum=usable, burst_s=BURST_S, **plan_s))
    return findings


def _credits(size: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How long gp2 volumes under data and WAL give more than they sustain."""
    findings = []
    for role, volume in database_volumes(size).items():
        base, burst = volume_iops(volume)
        if volume["type"] == "gp2" and burst > base:
            minutes = GP2_CREDITS / (burst - base) / 60
            text = (
                f"size {size['name']}: {role} volume: gp2 sustains {base} IOPS; {burst} last {minutes:.0f} min, then the credits are gone"
            )
            findings.append(finding("volume_burst", text, baseline=base, burst=burst, burst_s=round(60 * minutes)))
    return findings


def _space(size: Mapping[str, Any], settings: Mapping[str, Mapping[str, Any]], data: int, copy: int, problems: list[str]) -> None:
    volumes = size["volumes"]
    data_role = "data" if "data" in volumes else "root"
    wal_role = "wal" if "wal" in volumes else data_role
    wal = (settings.get("max_wal_size") or {}).get("bytes") or guc.DEFAULTS["max_wal_size"]
    need = {data_role: data + copy}
    need[wal_role] = need.get(wal_role, 0) + wal
    for role, amount in need.items():
        if role in volumes and amount > volumes[role]["bytes"]:
            held = [f"max_wal_size = {human_size(wal)}"] if role == wal_role else []
            if role == data_role:
                held.insert(0, f"the data set {'and its copy ' if copy else ''}({human_size(data + copy)})")
            have = human_size(volumes[role]["bytes"])
            problems.append(f"size {size['name']}: the {role} volume of {have} cannot hold {' and '.join(held)}")


def price_age(cost: Mapping[str, Any], today: datetime.date) -> list[dict[str, Any]]:
    """Return a finding when the prices of ``cost`` (of ``cost.hourly``) are older than the table of findings allows."""
    if not cost["date"]:
        return []
    days = (today - datetime.date.fromisoformat(cost["date"])).days
    if days <= (RULES["price_old"].threshold or 0):
        return []
    text = f"prices of {cost['region']} are of {cost['date']}, {days} days old; refresh them with playbooks/refresh_facts.yml"
    return [finding("price_old", text, date=cost["date"], days=days)]
