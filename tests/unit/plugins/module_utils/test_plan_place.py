# GNU General Public License v3.0 or later (see LICENSE)
"""Where an experiment runs: this machine, hosts of an inventory, an existing server."""

from __future__ import annotations

from typing import Any

import pytest
from support.plan_site import SEED, make_plan, make_site, problems_of

HOSTS = {"given": True, "local_only": False}


def where(**given: Any) -> dict[str, Any]:
    inventory = given.pop("inventory", None)
    return make_plan(make_site(inventory=inventory), profile="none", **given)["where"]


def test_this_machine() -> None:
    assert where() == {
        "provider": "local",
        "server": ["localhost"],
        "driver": ["localhost"],
        "reason": "size local: this machine",
        "driver_on_server": True,
    }


def test_a_host_of_the_group() -> None:
    found = where(inventory={**HOSTS, "groups": {"pgsizing_server": ["db1", "db2"]}})
    assert (found["provider"], found["server"], found["driver"]) == ("inventory", ["db1"], ["db1"])
    assert found["reason"].startswith("db1, the first of 2 hosts in group pgsizing_server of the inventory")
    assert where(inventory={**HOSTS, "groups": {"primary": ["p1"]}}, server_group="primary")["server"] == ["p1"]
    assert where(inventory={**HOSTS, "groups": {"pgsizing_server": ["db1"]}}, provider="local")["provider"] == "local"


SIZES = {name: {"instance_type": kind, "profile": "none"} for name, kind in (("small", "r5n.xlarge"), ("medium", "r5n.2xlarge"))}


@pytest.mark.parametrize(
    ("inventory", "given", "machine"),
    [
        ({**HOSTS, "groups": {"pgsizing_server": ["db1"]}}, {}, "db1 of the inventory"),
        ({**HOSTS, "groups": {"pgsizing_server": ["db1", "db2"]}}, {}, "db1 of the inventory"),  # the first is measured
        (None, {"provider": "local"}, "this machine"),
        (None, {"target": "existing", "login_host": "db1"}, "the server db1"),
    ],
)
def test_one_machine_is_one_size(inventory: Any, given: dict[str, Any], machine: str) -> None:
    site = make_site(inventory=inventory, sizes=SIZES)
    said = problems_of(site, size=["small", "medium"], **given)
    assert said == [f"size: small, medium need machines of their own; {machine} can be one size: name one, such as -e size=small"]
    make_plan(site, size="small", **given)


def test_an_inventory_without_the_group_never_buys_machines() -> None:
    inventory = {**HOSTS, "groups": {"primary": ["p1"], "web": ["w1"]}}
    problems = problems_of(make_site(inventory=inventory))
    assert problems == [
        "the inventory has no host in group pgsizing_server; its groups are: primary, web. "
        "Name one with -e server_group=GROUP, or measure this machine with -e provider=local"
    ]
    assert where(inventory=inventory, size="local")["provider"] == "local"  # said explicitly
    assert where(inventory={"given": True, "local_only": True, "groups": {}})["provider"] == "local"
    asked = problems_of(make_site(inventory=inventory), provider="inventory")
    assert asked == ["provider=inventory: the inventory has no host in group pgsizing_server; its groups are: primary, web"]


def test_a_driver_of_its_own_and_a_host_in_both_groups() -> None:
    groups = {"pgsizing_server": ["a"], "pgsizing_driver": ["b"]}
    found = where(inventory={**HOSTS, "groups": groups})
    assert (found["server"], found["driver"], found["driver_on_server"]) == (["a"], ["b"], False)
    groups = {"pgsizing_server": ["a"], "pgsizing_driver": ["a", "b"]}
    problems = problems_of(make_site(inventory={**HOSTS, "groups": groups}), profile="none")
    assert problems == ["a: in both pgsizing_server and pgsizing_driver; a host is one of the two, or leave the driver group out"]


def test_nothing_of_this_machine_is_said_of_another() -> None:
    site = make_site(inventory={**HOSTS, "groups": {"pgsizing_server": ["db1"]}}, machine={"disk_free_bytes": 1, "port_owner": "x (pid 1)"})
    plan = make_plan(site, reproduce=SEED, clients=64)
    assert plan["variants"][0]["parameters"]["threads"] == 2  # the recipe's
    assert make_plan(site, profile="none")["variants"][0]["parameters"]["threads"] is None  # left to the driver
    assert not {"operating system", "machine"} & {d["what"] for d in plan["deviations"]}
    assert problems_of(site) == [
        "profile local is computed from cores and memory, and nothing is known of the hosts of the inventory; choose profile=none"
    ]


@pytest.mark.parametrize(
    ("login", "shared"),
    [
        ({"login_host": "db1"}, False),
        ({"login_host": "localhost"}, True),
        ({"login_host": "::1"}, True),
        ({"login_host": "Localhost"}, True),
        ({"login_host": "127.0.1.1"}, True),
        ({"login_host": "10.0.0.5"}, False),
        ({"login_unix_socket": "/run/postgresql"}, True),
        ({"login_unix_socket": "/run/postgresql", "login_host": "db1"}, True),
    ],
)
def test_an_existing_server(login: dict[str, str], shared: bool) -> None:
    plan = make_plan(target="existing", **login)
    assert plan["where"]["provider"] == "existing"
    assert plan["where"]["driver_on_server"] is shared
    assert plan["reset"] == "template"
    assert plan["variants"][0]["settings"] == []
    assert plan["login"]["host"] == login.get("login_host")
