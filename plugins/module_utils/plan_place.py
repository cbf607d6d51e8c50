# GNU General Public License v3.0 or later (see LICENSE)
"""What PLAN knows of the place, what holds when nobody says anything, and where an experiment runs."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from ansible_collections.pgsizing.bench.plugins.module_utils import hardware
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding

#: What holds when neither the user nor a recipe says anything.
DEFAULTS: dict[str, Any] = {
    "size": "local",
    "workload": "tprocc",
    "engine": "postgres",
    "target": "managed",
    "postgres_source": "distro",
    "postgres_port": 55432,
    "cache": "as_is",
    "time_scale": 1.0,
    "data_scale": 1.0,
    "keep": "data",
    "require": "measured",
    "results_dir": "results",
    "budget_usd": hardware.DEFAULT_BUDGET_USD,
    "server_group": "pgsizing_server",
    "driver_group": "pgsizing_driver",
}


class Site(NamedTuple):
    """What PLAN knows of the place: data that ships or was read from the controller, never from a user's input."""

    sizes: Mapping[str, Any]
    profiles: Mapping[str, Any]
    recipes: Mapping[str, Any]
    workloads: Mapping[str, ModuleType]  # by name: the module that runs a workload when no load generator is named
    catalogue: Callable[[str, str], Mapping[str, Any]]  # (engine, major); KeyError when there is none
    majors: tuple[str, ...]  # majors with a catalogue
    machine: Mapping[str, Any]  # of the controller: see modules/machine.py
    inventory: Mapping[str, Any]  # {given, groups: {name: [hosts]}, local_only}
    now: float
    instances: Mapping[str, Any] = {}  # facts by instance type
    prices: Callable[[str], Mapping[str, Any] | None] = lambda _region: None  # by region
    regions: tuple[str, ...] = ()  # with a price file
    spec: Mapping[str, Any] | None = None  # {name, document} of the input "spec"
    generators: Mapping[tuple[str, str], ModuleType] = {}  # other modules, by workload and load generator
    dump: Mapping[str, Any] | None = None  # {path, format, bytes, sha256, jobs} of the input "dataset"
    hammerdb: Mapping[str, str] = {}  # where it comes from, {version, home, archive, url}; empty values where nobody says
    seen: Mapping[str, Mapping[str, Any]] = {}  # hosts of the inventory that were looked at: facts as of the controller, or {unseen: why}


def where(
    inputs: Mapping[str, Any], explicit: Mapping[str, Any], sizes: Mapping[str, Mapping[str, Any]], site: Site, problems: list[str]
) -> dict[str, Any]:
    """Decide once where the experiment runs (DESIGN 4.1). A user's inventory without the group never buys machines."""
    inventory, group, provider = site.inventory, inputs["server_group"], inputs.get("provider")
    groups = ", ".join(sorted(inventory["groups"])) or "none"
    if inputs["target"] == "existing":
        if not (inputs.get("login_host") or inputs.get("login_unix_socket")):
            problems.append("target=existing needs login_host (or login_unix_socket): the server to connect to")
        server = inputs.get("login_host") or inputs.get("login_unix_socket")
        problems += _one_size(sizes, f"the server {server}")
        return {
            "provider": "existing",
            "server": ["localhost"],
            "driver": ["localhost"],
            "reason": f"target=existing: {server}, driven from here",
        }
    hosts = inventory_hosts(inputs, inventory)
    if hosts:
        servers, drivers = (inventory["groups"].get(inputs[key], []) for key in ("server_group", "driver_group"))
        both = sorted(set(servers) & set(drivers))
        if explicit.get("driver_group") and not drivers:
            problems.append(f"driver_group: the inventory has no host in group {inputs['driver_group']}; its groups are: {groups}")
        elif both and drivers != servers:
            problems.append(
                f"{', '.join(both)}: in both {group} and {inputs['driver_group']}; a host is one of the two, or leave the driver group out"
            )
        server, driver = (
            f"{name}, the first of {len(found)} hosts in group {key}" if len(found) > 1 else f"{name} in group {key}"
            for name, found, key in ((hosts[0], servers, group), (hosts[1], drivers, inputs["driver_group"]))
        )
        problems += _one_size(sizes, f"{hosts[0]} of the inventory")
        reason = f"{server} of the inventory, " + (f"driven from {driver}" if hosts[1] != hosts[0] else "driven from there too")
        return {"provider": "inventory", "server": hosts[:1], "driver": hosts[1:], "reason": reason}
    if provider == "inventory":
        problems.append(f"provider=inventory: the inventory has no host in group {group}; its groups are: {groups}")
    elif provider != "local" and explicit.get("size") != "local" and inventory["given"] and not inventory["local_only"]:
        problems.append(
            f"the inventory has no host in group {group}; its groups are: {groups}. "
            "Name one with -e server_group=GROUP, or measure this machine with -e provider=local"
        )
    elif provider == "aws" and not all(size["instance_type"] for size in sizes.values()):
        problems.append(f"provider=aws: size {', '.join(sizes)} names no instance_type; choose one that does, such as size=small")
    elif provider != "local" and all(size["instance_type"] for size in sizes.values()):
        region = inputs.get("region") or hardware.DEFAULT_REGION
        bought = ", ".join(f"size {name}: {size['instance_type']}" for name, size in sizes.items())
        return {
            "provider": "aws",
            "region": region,
            "server": [f"pgsizing-{name}-server" for name in sizes],
            "driver": [f"pgsizing-{name}-{'driver' if size['driver'] else 'server'}" for name, size in sizes.items()],
            "reason": f"{bought} in {region}, to be bought from AWS",
        }
    else:
        problems += _one_size(sizes, "this machine")
    return {
        "provider": "local",
        "server": ["localhost"],
        "driver": ["localhost"],
        "reason": f"size {', '.join(sizes)}: this machine",
    }


def _one_size(sizes: Mapping[str, Any], machine: str) -> list[str]:
    """Return why several sizes cannot be compared on one machine: they would be one figure under two names."""
    if len(sizes) < 2:
        return []
    return [
        f"size: {', '.join(sizes)} need machines of their own; {machine} can be one size: name one, such as -e size={next(iter(sizes))}"
    ]


def inventory_hosts(inputs: Mapping[str, Any], inventory: Mapping[str, Any]) -> list[str]:
    """Return the server and the driver of the inventory, the same one twice without a driver group; empty when it runs elsewhere."""
    inputs = {**DEFAULTS, **inputs}
    servers, drivers = (inventory["groups"].get(str(inputs[key])) for key in ("server_group", "driver_group"))
    if not servers or inputs["target"] == "existing" or inputs.get("provider") not in (None, "inventory"):
        return []
    return [servers[0], (drivers or servers)[0]]


def machine_of(where: Mapping[str, Any], site: Site) -> Mapping[str, Any]:
    """Return the facts of the server, with those of the driver where they matter for the load generator."""
    if where["provider"] != "inventory":
        return site.machine
    server, driver = (site.seen.get(where[role][0]) or {"unseen": ""} for role in ("server", "driver"))
    if "unseen" in server or "unseen" in driver:
        return _unseen(site.machine)
    return {**server, "driver_cores": driver["cores"], "pgbench": driver["pgbench"]}


def not_reached(where: Mapping[str, Any], site: Site) -> list[dict[str, Any]]:
    """Return findings on hosts of the inventory that did not answer: they are planned for with guesses."""
    if where["provider"] != "inventory":
        return []
    hosts = dict.fromkeys([*where["server"], *where["driver"]])
    why = {host: site.seen[host]["unseen"] for host in hosts if site.seen.get(host, {}).get("unseen")}
    return [finding("not_checked", f"host {host} could not be looked at: {text}", host=host) for host, text in why.items()]


def driver_on_server(where: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    """Return whether load generator and server share a machine; of an existing server only its address tells."""
    if where["provider"] == "existing":
        return bool(inputs.get("login_unix_socket")) or _is_loopback(inputs.get("login_host"))
    return bool(where["driver"] == where["server"])


def _is_loopback(host: str | None) -> bool:
    if host is None or host.lower() in ("localhost", "localhost.localdomain", "ip6-localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _unseen(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be said of a host of the inventory before it is asked: nothing but guesses, for the estimate."""
    return {**machine, "remote": True, "memory_bytes": 0, "pgbench": {}, "server_versions": {}, "os": None}
