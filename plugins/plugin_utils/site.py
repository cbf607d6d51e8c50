# GNU General Public License v3.0 or later (see LICENSE)
"""Gather what PLAN needs to know from the files that ship and from the controller."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.pgsizing.bench.plugins.module_utils.plan import Site
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue
from ansible_collections.pgsizing.bench.plugins.plugin_utils.machine import machine

ROOT = Path(__file__).parents[2]

#: Every workload that can be planned, by its name.
WORKLOADS = {pgbench.WORKLOAD: pgbench}


def recipes() -> dict[str, dict[str, Any]]:
    """Return every published run that has a recipe, by id."""
    found = {}
    for path in sorted((ROOT / "published").glob("*.yml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        if document.get("recipe"):
            found[path.stem] = document
    return found


def site(
    *,
    sizes: Mapping[str, Any],
    profiles: Mapping[str, Any],
    inventory: Mapping[str, Any],
    port: int,
    bin_dirs: tuple[str, ...] = (),
    base_dir: str = "",
) -> Site:
    """Return the ``Site`` of this controller, now."""
    majors = catalogue.majors("postgres")
    return Site(
        sizes=sizes,
        profiles=profiles,
        recipes=recipes(),
        workloads=WORKLOADS,
        catalogue=catalogue.load,
        majors=majors,
        machine=machine(port, majors, bin_dirs, base_dir),
        inventory=inventory,
        now=time.time(),
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
