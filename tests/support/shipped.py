# GNU General Public License v3.0 or later (see LICENSE)
"""The data files that ship, loaded; the tables of the publications as they were printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
PRINTED = REPOSITORY / "tests/fixtures/published"
TSHIRTS = ("small", "medium", "large", "xl")


def _defaults(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((REPOSITORY / f"roles/plan/defaults/main/{name}.yml").read_text(encoding="utf-8")))


SIZES: dict[str, Any] = _defaults("sizes")["plan_sizes"]
PROFILES: dict[str, Any] = _defaults("profiles")["plan_profiles"]
FACTS: dict[str, Any] = json.loads((REPOSITORY / "roles/plan/files/instances.json").read_text(encoding="utf-8"))
PRICES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((REPOSITORY / "roles/plan/files/prices").glob("*.json"))
}
SPECS: dict[str, Any] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((REPOSITORY / "published/specs").glob("*.json"))
}
RUNS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((REPOSITORY / "published").glob("*.yml"))
}


def table(name: str) -> list[list[str]]:
    """Return the rows of a printed table, cells as they stand, without head and rule."""
    lines = (PRINTED / name).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines[2:]]


def appendix_a() -> dict[str, list[str]]:
    """Return ``{setting: [default, small, medium, large, xl]}`` as printed; the last cell of a row may be empty."""
    lines = (PRINTED / "edb_appendix_a.md").read_text(encoding="utf-8").splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def repaired(cells: list[str]) -> list[str]:
    """Four values and an empty last cell: the Default is blank, and the values belong one column to the right."""
    return ["", *cells[:4]] if not cells[4] else cells
