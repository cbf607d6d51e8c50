# GNU General Public License v3.0 or later (see LICENSE)
"""The formula of the profile ``local``: valid in every version, fitting for every machine, a reason for each value."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import guc
from ansible_collections.pgsizing.bench.plugins.module_utils.local_profile import local_profile
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, MIB, TIB
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue

MACHINES = [(1, 2 * GIB, 5 * GIB), (2, 4 * GIB, 20 * GIB), (2, 25112345600, 79 * GIB), (8, 64 * GIB, 500 * GIB), (96, 768 * GIB, 10 * TIB)]


def resolved(rows: list[dict[str, Any]], major: str) -> dict[str, dict[str, Any]]:
    settings, findings, problems = guc.resolve(
        {row["name"]: row["value"] for row in rows},
        catalogue.load("postgres", major),
        origin="profile local",
        reasons={row["name"]: row["reason"] for row in rows},
        strict=True,
    )
    assert (findings, problems) == ([], [])
    return {setting["name"]: setting for setting in settings}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("major", catalogue.majors("postgres"))
@pytest.mark.parametrize("storage", ["ssd", "hdd"])
def test_fits_every_version_and_machine(machine: tuple[int, int, int], major: str, storage: str) -> None:
    cores, memory, disk = machine
    settings = resolved(local_profile(cores, memory, disk, int(major), storage), major)
    assert guc.conflicts(settings, memory_bytes=memory) == []
    assert guc.lint(settings, memory_bytes=memory, clients=4 * cores, disk_free_bytes=disk, dataset_bytes=GIB) == []
    assert all(setting["reason"] for setting in settings.values())


def test_values_of_a_machine() -> None:
    values = {row["name"]: row["value"] for row in local_profile(8, 64 * GIB, 500 * GIB, 16)}
    assert values["shared_buffers"] == "16GB"
    assert values["effective_cache_size"] == "48GB"
    assert values["work_mem"] == "81MB"
    assert values["maintenance_work_mem"] == "1GB"
    assert values["max_wal_size"] == "16GB"
    assert values["min_wal_size"] == "4GB"
    assert values["max_parallel_workers_per_gather"] == 4
    assert values["lc_messages"] == "C"


def test_wal_is_bounded_by_the_disk() -> None:
    values = {row["name"]: row["value"] for row in local_profile(2, 4 * GIB, 10 * GIB, 16)}
    assert values["max_wal_size"] == "2GB"


def test_safety_is_not_traded_for_speed() -> None:
    names = {row["name"] for row in local_profile(4, 16 * GIB, 100 * GIB, 16)}
    assert not names & {"fsync", "full_page_writes", "synchronous_commit", "autovacuum", "wal_level"}


def test_spinning_disks_keep_the_planner_costs() -> None:
    names = {row["name"] for row in local_profile(4, 16 * GIB, 100 * GIB, 16, "hdd")}
    assert not names & {"random_page_cost", "effective_io_concurrency"}


def test_c040_memory_stays_in_mebibytes() -> None:
    values = {row["name"]: row["value"] for row in local_profile(4, 31495 * MIB, 100 * GIB, 16)}
    assert values["shared_buffers"] == f"{31495 // 4}MB"
    assert values["effective_cache_size"] == f"{31495 * 3 // 4}MB"
