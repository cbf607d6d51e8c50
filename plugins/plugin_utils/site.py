# GNU General Public License v3.0 or later (see LICENSE)
"""Gather what PLAN needs to know from the files that ship and from the controller."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from ansible_collections.pgsizing.bench.plugins.module_utils.plan_place import Site
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import hammerdb, pgbench, tprocc
from ansible_collections.pgsizing.bench.plugins.modules.machine import machine
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue

ROOT = Path(__file__).parents[2]

FACTS = ROOT / "roles/plan/files"

#: Every workload that can be planned, by its name.
WORKLOADS = {pgbench.WORKLOAD: pgbench, tprocc.WORKLOAD: tprocc}
#: Modules of other load generators, by workload and load generator.
GENERATORS: dict[tuple[str, str], ModuleType] = {(hammerdb.WORKLOAD, hammerdb.LOAD_GENERATOR): hammerdb}


def published() -> dict[str, dict[str, Any]]:
    """Return every published run, by id."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    files = sorted((ROOT / "published").glob("*.yml"))
    return {path.stem: yaml.load(path.read_text(encoding="utf-8"), Loader=loader) for path in files}


def instances() -> dict[str, Any]:
    """Return the facts of the instance types that are known, by type."""
    return dict(json.loads((FACTS / "instances.json").read_text(encoding="utf-8"))["instances"])


def regions() -> tuple[str, ...]:
    """Return the regions that have a price file."""
    return tuple(sorted(path.stem for path in (FACTS / "prices").glob("*.json")))


def prices(region: str) -> dict[str, Any] | None:
    """Return the price file of ``region``, ``None`` when there is none."""
    return json.loads((FACTS / "prices" / f"{region}.json").read_text(encoding="utf-8")) if region in regions() else None


def role_variables() -> set[str]:
    """Return the names of the variables of this collection's roles."""
    specs = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
    return {name for spec in specs for name in spec["argument_specs"]["main"]["options"]}


def site(
    *,
    sizes: Mapping[str, Any],
    profiles: Mapping[str, Any],
    inventory: Mapping[str, Any],
    port: int,
    bin_dirs: tuple[str, ...] = (),
    base_dir: str = "",
    spec: Mapping[str, Any] | None = None,
    dump: Mapping[str, Any] | None = None,
    seen: Mapping[str, Mapping[str, Any]] | None = None,
    hammerdb: Mapping[str, str] | None = None,
) -> Site:
    """Return the ``Site`` of this controller, now."""
    majors = catalogue.majors("postgres")
    return Site(
        sizes=sizes,
        profiles=profiles,
        recipes=published(),
        workloads=WORKLOADS,
        generators=GENERATORS,
        catalogue=catalogue.load,
        majors=majors,
        machine=machine(port, majors, bin_dirs, base_dir),
        inventory=inventory,
        now=time.time(),
        instances=instances(),
        prices=prices,
        regions=regions(),
        spec=spec,
        dump=dump,
        seen=seen or {},
        hammerdb=hammerdb or {},
    )


def collection() -> dict[str, str | None]:
    """Return this collection's version and, in a checkout, its git commit (``-dirty`` when files differ from it)."""
    manifest, source = ROOT / "MANIFEST.json", ROOT / "galaxy.yml"
    if manifest.is_file():
        return {"version": json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"], "git_commit": None}
    commit = _git("rev-parse", "HEAD")
    if commit and _git("status", "--porcelain", "--untracked-files=no"):
        commit += "-dirty"
    return {"version": yaml.safe_load(source.read_text(encoding="utf-8"))["version"], "git_commit": commit}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
