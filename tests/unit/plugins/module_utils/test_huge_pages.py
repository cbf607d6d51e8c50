# GNU General Public License v3.0 or later (see LICENSE)
"""Huge pages of servers that cannot say how many they need."""

from __future__ import annotations

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils.huge_pages import MIB, estimate

GIB = 2**30


def setting(name: str, value: int, bytes_: int | None = None) -> dict[str, object]:
    return {"name": name, "value": value, "bytes": bytes_}


@pytest.mark.parametrize(
    ("shared_buffers", "needed"),
    [(24 * GIB, 12564), (128 * MIB, 71)],  # shared_memory_size_in_huge_pages of 15.18 with default max_connections
)
def test_C044_a_little_more_than_the_server_needs(shared_buffers: int, needed: int) -> None:
    guess = estimate([setting("shared_buffers", shared_buffers // 8192, shared_buffers)], 2 * MIB)
    assert needed <= guess <= needed * 1.05 + 24


def test_defaults_and_connections() -> None:
    assert estimate([], 2 * MIB) == estimate([setting("shared_buffers", 16384, 128 * MIB)], 2 * MIB)
    assert estimate([setting("max_connections", 5000)], 2 * MIB) > estimate([], 2 * MIB) + 90
    assert estimate([], 2 * MIB) > 500 * estimate([], GIB) > 0 or estimate([], GIB) == 1
