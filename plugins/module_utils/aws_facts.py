# GNU General Public License v3.0 or later (see LICENSE)
"""Answers of AWS's APIs turned into the shapes of ``roles/plan/files``: instance facts and prices.

Pure. What an answer does not say is ``None`` or left out, never guessed; answers that contradict each other are refused.

*Facts*: ``{schema, date, source, notes, instances: {type: instance}}``, an *instance* as :func:`instance` returns it.
*Prices*: ``{schema, region, date, source, notes, currency, instances: {type: usd_per_hour}, volumes: {type: rates}}`` with the
rates of :func:`volumes`. A GB-month of EBS is one GiB.

Sources of the shapes: the EC2 API reference (DescribeInstanceTypes) and the Price List Query API (GetProducts, service
AmazonEC2), whose entries are JSON texts ``{product: {productFamily, attributes}, terms: {OnDemand: {...}}, publicationDate}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

FACTS_SCHEMA = "pgsizing/instances/1"
PRICES_SCHEMA = "pgsizing/prices/1"

#: Requested IOPS and MB/s that the price of a gp3 volume includes, and where the io2 tiers end: the EBS pricing page.
GP3_INCLUDED = {"iops_included": 3000, "mbps_included": 125}
IO2_TIERS = ((32000, "io2"), (64000, "io2.tier2"), (None, "io2.tier3"))

#: End of a usage type of the Price List -> (volume type, rate); the beginning is a region's prefix such as ``EU-``.
_VOLUME_USAGE = {
    "EBS:VolumeUsage.gp2": ("gp2", "gb_month"),
    "EBS:VolumeUsage.gp3": ("gp3", "gb_month"),
    "EBS:VolumeUsage.piops": ("io1", "gb_month"),
    "EBS:VolumeUsage.io2": ("io2", "gb_month"),
    "EBS:VolumeUsage.st1": ("st1", "gb_month"),
    "EBS:VolumeUsage.sc1": ("sc1", "gb_month"),
    "EBS:VolumeP-IOPS.gp3": ("gp3", "iops_month"),
    "EBS:VolumeP-IOPS.piops": ("io1", "iops_month"),
    "EBS:VolumeP-IOPS.io2": ("io2", "io2"),
    "EBS:VolumeP-IOPS.io2.tier2": ("io2", "io2.tier2"),
    "EBS:VolumeP-IOPS.io2.tier3": ("io2", "io2.tier3"),
    "EBS:VolumeP-Throughput.gp3": ("gp3", "mbps_month"),
}
#: Price units -> what the price is divided by. Throughput is listed per GiB/s and charged per MiB/s.
_UNITS = {"hrs": 1, "gb-mo": 1, "gb-month": 1, "iops-mo": 1, "mibps-mo": 1, "gibps-mo": 1024}


# instances -----------------------------------------------------------------------------------------------------------------


def instance(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of one entry of ``InstanceTypes``; ``KeyError`` where it lacks vCPUs, memory or architecture.

    ``{vcpus, cores, memory_bytes, architecture, burstable, ebs: {baseline_iops, maximum_iops, baseline_bytes_per_s,
    maximum_bytes_per_s}, instance_store: {count, bytes, nvme} | None, network_baseline_gbps, notes}``. Megabits are decimal.
    """
    processors = answer["VCpuInfo"]
    architectures = answer["ProcessorInfo"]["SupportedArchitectures"]
    ebs = answer.get("EbsInfo", {}).get("EbsOptimizedInfo", {})
    cards = [card.get("BaselineBandwidthInGbps") for card in answer.get("NetworkInfo", {}).get("NetworkCards", [])]
    return {
        "vcpus": processors["DefaultVCpus"],
        "cores": processors.get("DefaultCores"),
        "memory_bytes": answer["MemoryInfo"]["SizeInMiB"] * 2**20,
        "architecture": "arm64" if "arm64" in architectures else "x86_64" if "x86_64" in architectures else architectures[0],
        "burstable": answer.get("BurstablePerformanceSupported"),
        "ebs": {
            "baseline_iops": ebs.get("BaselineIops"),
            "maximum_iops": ebs.get("MaximumIops"),
            "baseline_bytes_per_s": _bytes_per_s(ebs.get("BaselineBandwidthInMbps")),
            "maximum_bytes_per_s": _bytes_per_s(ebs.get("MaximumBandwidthInMbps")),
        },
        "instance_store": _instance_store(answer.get("InstanceStorageInfo")),
        "network_baseline_gbps": sum(cards) if cards and None not in cards else None,
        "notes": [],
    }


def _bytes_per_s(mbps: int | None) -> int | None:
    return None if mbps is None else mbps * 125_000


def _instance_store(info: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not info:
        return None
    return {
        "count": sum(disk["Count"] for disk in info["Disks"]),
        "bytes": info["TotalSizeInGB"] * 10**9,
        "nvme": info.get("NvmeSupport") in ("supported", "required"),
    }


def facts(answers: Iterable[Mapping[str, Any]], old: Mapping[str, Any], region: str, date: str) -> tuple[dict[str, Any], list[str]]:
    """Return the facts document of the described types, and the types of ``old`` that were not described.

    Those keep their old facts, with a note of how old they are: not every region offers every type.
    """
    found = {answer["InstanceType"]: instance(answer) for answer in answers}
    kept = sorted(set(old.get("instances", {})) - set(found))
    for name in kept:
        notes = [note for note in old["instances"][name]["notes"] if not note.startswith("facts of ")]
        found[name] = {**old["instances"][name], "notes": [*notes, f"facts of {old['date']}: not offered in {region} on {date}"]}
    document = {
        "schema": FACTS_SCHEMA,
        "date": date,
        "source": f"EC2 DescribeInstanceTypes, region {region}",
        "notes": [],
        "instances": dict(sorted(found.items(), key=lambda item: by_size(item[0]))),
    }
    return document, kept


def by_size(name: str) -> tuple[str, float, str]:
    """Sort key: families by name, sizes from small to large (``2xlarge`` before ``12xlarge``)."""
    family, _dot, size = name.partition(".")
    number = size.partition("xlarge")[0]
    known = ("nano", "micro", "small", "medium", "large")
    order = known.index(size) - len(known) if size in known else float(number or 1) if size.endswith("xlarge") else 1e3
    return family, order, size


# prices --------------------------------------------------------------------------------------------------------------------


def products(entries: Iterable[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return Price List entries as dicts, without those of local zones and of other services."""
    parsed = [json.loads(entry) if isinstance(entry, str) else dict(entry) for entry in entries]
    return [entry for entry in parsed if _attributes(entry).get("locationType", "AWS Region") == "AWS Region"]


def _attributes(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return entry["product"].get("attributes", {})


def _rate(entry: Mapping[str, Any]) -> float | None:
    """Return the on-demand price in US dollars for one unit; ``None`` where there is none."""
    rates = set()
    for term in entry.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            price = dimension["pricePerUnit"].get("USD")
            unit = str(dimension["unit"]).lower()
            if price is not None and float(price) > 0:
                if unit not in _UNITS:
                    raise ValueError(f"{_attributes(entry).get('usagetype')}: unknown price unit {dimension['unit']!r}")
                rates.add(round(float(price) / _UNITS[unit], 9))
    if len(rates) > 1:
        raise ValueError(f"{_attributes(entry).get('usagetype')}: several on-demand prices, {', '.join(map(str, sorted(rates)))}")
    return rates.pop() if rates else None


def hourly(entries: Iterable[Mapping[str, Any]], wanted: Iterable[str]) -> dict[str, float]:
    """Return ``{type: usd_per_hour}`` on demand, Linux, shared tenancy, without licences; types without a price are left out."""
    asked = set(wanted)
    found: dict[str, float] = {}
    for entry in entries:
        attributes = _attributes(entry)
        name, rate = attributes.get("instanceType"), None
        if name in asked and _is_plain_linux(attributes):
            rate = _rate(entry)
        if rate is not None and found.setdefault(str(name), rate) != rate:
            raise ValueError(f"{name}: two prices an hour, {found[str(name)]} and {rate}")
    return dict(sorted(found.items(), key=lambda item: by_size(item[0])))


def _is_plain_linux(attributes: Mapping[str, Any]) -> bool:
    plain = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
    return all(attributes.get(key) == value for key, value in plain.items()) and "BoxUsage:" in attributes.get("usagetype", "")


def volumes(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rates of each volume type in US dollars; a type with a rate missing is left out.

    ``gp2 st1 sc1``: ``gb_month``; ``io1``: also ``iops_month``; ``gp3``: also ``mbps_month`` (MiB/s) and what is included;
    ``io2``: ``gb_month, iops_tiers: [{up_to, iops_month}]``, each tier for the IOPS above the tier before.
    """
    found: dict[str, dict[str, float]] = {}
    for entry in entries:
        usage = "EBS:" + _attributes(entry).get("usagetype", "").partition("EBS:")[2]
        rate = _rate(entry) if usage in _VOLUME_USAGE else None
        if rate is None:
            continue
        volume, key = _VOLUME_USAGE[usage]
        if found.setdefault(volume, {}).setdefault(key, rate) != rate:
            raise ValueError(f"{usage}: two prices, {found[volume][key]} and {rate}")
    result: dict[str, Any] = {}
    for volume in ("gp2", "gp3", "io1", "io2", "st1", "sc1"):
        rates = found.get(volume, {})
        needed = {key for name, key in _VOLUME_USAGE.values() if name == volume}
        if needed - set(rates):
            continue
        result[volume] = {"gb_month": rates["gb_month"]}
        if volume == "io2":
            result[volume]["iops_tiers"] = [{"up_to": up_to, "iops_month": rates[key]} for up_to, key in IO2_TIERS]
        else:
            result[volume] |= {key: rates[key] for key in ("iops_month", "mbps_month") if key in rates}
            result[volume] |= GP3_INCLUDED if volume == "gp3" else {}
    return result


def prices(entries: Iterable[str | Mapping[str, Any]], wanted: Iterable[str], region: str, date: str) -> tuple[dict[str, Any], list[str]]:
    """Return the price document of a region, and the instance and volume types for which there is no price."""
    parsed, asked = products(entries), sorted(wanted, key=by_size)
    published = max((str(entry.get("publicationDate", ""))[:10] for entry in parsed), default="")
    document = {
        "schema": PRICES_SCHEMA,
        "region": region,
        "date": date,
        "source": "AWS Price List API" + (f", published {published}" if published else ""),
        "notes": [],
        "currency": "USD",
        "instances": hourly(parsed, asked),
        "volumes": volumes(parsed),
    }
    missing = [name for name in asked if name not in document["instances"]]
    return document, missing + [name for name in ("gp2", "gp3", "io1", "io2") if name not in document["volumes"]]


# files ---------------------------------------------------------------------------------------------------------------------


def to_text(document: Mapping[str, Any]) -> str:
    """Return a document as JSON with one instance or volume type a line, so that a diff shows what changed."""
    parts = []
    for key, value in document.items():
        if key in ("instances", "volumes"):
            rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
            parts.append(f'  "{key}": {{\n{rows}\n  }}')
        elif isinstance(value, list) and value:
            parts.append(f'  "{key}": [\n' + ",\n".join(f"    {json.dumps(item)}" for item in value) + "\n  ]")
        else:
            parts.append(f'  "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"
