# GNU General Public License v3.0 or later (see LICENSE)
"""The shipped catalogues of settings (``tools/catalogues.py`` makes them). Controller only: reads files of the collection."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "roles/plan/files/catalogues"


def majors(engine: str) -> tuple[str, ...]:
    """Return the major versions of ``engine`` that have a catalogue, ascending."""
    return tuple(sorted((path.stem.rpartition("-")[2] for path in FOLDER.glob(f"{engine}-*.json")), key=int))


@functools.cache
def load(engine: str, major: str) -> dict[str, Any]:
    """Return the catalogue of a version; do not change it. ``KeyError`` for a version that has none.

    ``{engine, major, server_version, origin, date, settings: {name: entry}, elsewhere: {name: [majors]}}``; entries carry
    their ``name``; ``elsewhere`` has the settings of the engine's other versions that this one lacks, in lower case.
    """
    if major not in majors(engine):
        raise KeyError(f"{engine} {major}")
    catalogue = _read(engine, major)
    elsewhere: dict[str, list[int]] = {}
    for other in majors(engine):
        for name in _read(engine, other)["settings"].keys() - catalogue["settings"].keys():
            elsewhere.setdefault(name.lower(), []).append(int(other))
    settings = {name: {"name": name, **entry} for name, entry in catalogue["settings"].items()}
    return {**catalogue, "settings": settings, "elsewhere": elsewhere}


@functools.cache
def _read(engine: str, major: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{engine}-{major}.json").read_text(encoding="utf-8")))
