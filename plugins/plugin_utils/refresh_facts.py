# GNU General Public License v3.0 or later (see LICENSE)
"""Ask AWS for instance facts and prices. Credentials and endpoints are found as boto3 finds them; nothing is changed there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

try:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    boto3 = None

#: The Price List API answers in few regions, and for all of them in each.
PRICE_LIST_REGION = "us-east-1"
#: DescribeInstanceTypes takes this many values in a filter.
FILTER_VALUES = 200
PLAIN_LINUX = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
VOLUME_FAMILIES = ("Storage", "System Operation", "Provisioned Throughput")


class RefreshError(Exception):
    """AWS could not be asked, or refused. The message names the question."""


def instance_types(names: Sequence[str], region: str) -> list[dict[str, Any]]:
    """Return ``InstanceTypes`` of DescribeInstanceTypes for those of ``names`` that ``region`` offers."""
    client = _client("ec2", region)
    found: list[dict[str, Any]] = []
    for start in range(0, len(names), FILTER_VALUES):
        wanted = {"Name": "instance-type", "Values": list(names[start : start + FILTER_VALUES])}
        found += _pages(client, "describe_instance_types", "InstanceTypes", f"EC2 DescribeInstanceTypes in {region}", Filters=[wanted])
    return found


def price_list(region: str) -> Iterator[str]:
    """Yield the Price List entries (JSON texts) of EC2 on Linux and of EBS volumes in ``region``."""
    client = _client("pricing", PRICE_LIST_REGION)
    for asked in (PLAIN_LINUX, *({"productFamily": family} for family in VOLUME_FAMILIES)):
        filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in {"regionCode": region, **asked}.items()]
        question = f"Price List GetProducts for {region}"
        yield from _pages(client, "get_products", "PriceList", question, ServiceCode="AmazonEC2", Filters=filters)


def _client(service: str, region: str) -> Any:
    if boto3 is None:
        raise RefreshError("boto3 is not installed in the Python that runs ansible-playbook: pip install boto3")
    try:
        return boto3.client(service, region_name=region, config=Config(connect_timeout=10, retries={"mode": "standard"}))
    except (BotoCoreError, ValueError) as error:
        raise RefreshError(f"{service} in {region}: {error}") from error


def _pages(client: Any, operation: str, key: str, question: str, **arguments: Any) -> Iterator[Any]:
    try:
        for page in client.get_paginator(operation).paginate(**arguments):
            yield from page[key]
    except (BotoCoreError, ClientError) as error:
        raise RefreshError(f"{question}: {error}") from error
