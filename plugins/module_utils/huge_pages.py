# GNU General Public License v3.0 or later (see LICENSE)
"""How many huge pages a server needs that cannot say it itself (before PostgreSQL 15)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

MIB = 2**20
#: Buffer headers, their hash table and locks, per byte of buffers: 2.24 % on 15.18 with 24 GB, 2.2 % on 13 and 14; and 3 % to spare.
PER_BUFFER_BYTE = 1.055
#: Everything of fixed size: SLRU caches, semaphores, statistics.
FIXED = 32 * MIB
#: Lock tables, process and predicate-lock entries of one connection.
PER_CONNECTION = 40 * 1024
DEFAULTS = {"shared_buffers": 128 * MIB, "max_connections": 100, "wal_buffers": 16 * MIB}


def estimate(settings: Iterable[Mapping[str, Any]], page_bytes: int) -> int:
    """Return the number of huge pages of ``page_bytes`` for a server with these settings (``name``, ``value``, ``bytes``).

    A little more than is needed: with one page too few a server with ``huge_pages = on`` does not start.
    """
    given = {s["name"]: s.get("bytes") or s.get("value") for s in settings if s["name"] in DEFAULTS}
    have = {**DEFAULTS, **{name: int(value) for name, value in given.items() if value is not None and int(value) > 0}}
    need = have["shared_buffers"] * PER_BUFFER_BYTE + have["wal_buffers"] + have["max_connections"] * PER_CONNECTION + FIXED
    return math.ceil(need / page_bytes)
