# GNU General Public License v3.0 or later (see LICENSE)
"""A place to plan for: a made-up machine, the shipped catalogues and published runs, and experiments built from them."""

from __future__ import annotations

from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import plan as planning
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_place import Site
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue
from ansible_collections.pgsizing.bench.plugins.plugin_utils import site as sites
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import EXPERIMENT_SCHEMA

GIB = 2**30
#: The published run that has a recipe.
SEED = "pgbench-shared-buffers-2023"
NOW = 1_790_000_000.0  # 2026-09-21 14:13:20 UTC
MACHINE: dict[str, Any] = {
    "base_dir": "/var/lib/pgsizing",
    "root": True,
    "cores": 4,
    "memory_bytes": 16 * GIB,
    "huge_pages_free": 0,
    "huge_page_bytes": 2 * 2**20,
    "disk_free_bytes": 100 * GIB,
    "os": "Debian GNU/Linux 12 (bookworm)",
    "virtualization": None,
    "installed_majors": ["15"],
    "server_versions": {"15": "15.14"},
    "pgbench": {"15": "pgbench (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"},
    "postgres_major": "15",
    "can_install": True,
    "locales": ["C", "C.utf8", "POSIX"],
    "port_owner": None,
}
NOTHING_GIVEN: dict[str, Any] = {"given": False, "groups": {}, "local_only": True}


def make_site(machine: dict[str, Any] | None = None, inventory: dict[str, Any] | None = None, **more: Any) -> Site:
    """Return a ``Site``; ``machine`` and ``inventory`` change what is made up, ``more`` replaces fields."""
    made_up: dict[str, Any] = {
        "sizes": {"local": {"description": "This machine", "profile": "local"}},
        "profiles": {"none": {}},
        "recipes": {name: run for name, run in sites.published().items() if run.get("recipe")},
        "workloads": sites.WORKLOADS,
        "catalogue": catalogue.load,
        "majors": catalogue.majors("postgres"),
        "machine": {**MACHINE, **(machine or {})},
        "inventory": {**NOTHING_GIVEN, **(inventory or {})},
        "now": NOW,
    }
    return Site(**{**made_up, **more})


def _of_pgbench(given: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs with the workload ``pgbench``, unless they say it themselves or name a run or a size that does."""
    return given if {"workload", "reproduce", "size"} & set(given) else {"workload": "pgbench", **given}


def make_plan(site: Site | None = None, **given: Any) -> dict[str, Any]:
    """Return the plan of these inputs, which must be without problems."""
    plan, problems = planning.build(_of_pgbench(given), site or make_site())
    assert problems == []
    return plan


def problems_of(site: Site | None = None, **given: Any) -> list[str]:
    """Return why these inputs cannot be planned."""
    return planning.build(_of_pgbench(given), site or make_site())[1]


def names(plan: dict[str, Any]) -> list[str]:
    """Return the names of the variants."""
    return [v["name"] for v in plan["variants"]]


def setting(plan: dict[str, Any], name: str, variant: int = 0) -> dict[str, Any]:
    """Return one setting of a variant."""
    return next(s for s in plan["variants"][variant]["settings"] if s["name"] == name)


def codes(plan: dict[str, Any]) -> list[str]:
    """Return the codes of the findings."""
    return [f["code"] for f in plan["findings"]]


def make_experiment(site: Site | None = None, **given: Any) -> dict[str, Any]:
    """Return an experiment as the action writes it."""
    plan = make_plan(site, **given)
    return {
        "schema": EXPERIMENT_SCHEMA,
        "experiment_id": planning.experiment_id(NOW, "local-pgbench"),
        "created": NOW,
        "collection": {"version": "0.1.0", "git_commit": None},
        "plan": plan,
        "environment": {"controller": {k: v for k, v in MACHINE.items() if k != "locales"}, "datasets": {}},
        "journal": {"trials": {t["id"]: {"state": "planned", "attempt": 1} for t in plan["trials"]}, "stages": {}, "end": None},
    }
