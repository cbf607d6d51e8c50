# GNU General Public License v3.0 or later (see LICENSE)
"""The inputs ``storage`` and ``kernel``: right forms, wrong forms, and where they are refused."""

from __future__ import annotations

from typing import Any

import pytest
from support.plan_site import make_plan, make_site, problems_of

from ansible_collections.pgsizing.bench.plugins.module_utils import host_inputs

DATA = "/dev/disk/by-id/nvme-data"
WAL = "/dev/disk/by-id/nvme-wal"


def test_storage_with_everything() -> None:
    given = {
        "data": {"devices": [DATA], "fstype": "xfs", "mount_options": "noatime", "read_ahead_kb": "4096"},
        "wal": {"devices": WAL},
    }
    volumes, problems = host_inputs.storage(given)
    assert problems == []
    assert volumes["data"]["read_ahead_kb"] == 4096
    assert volumes["wal"] == {"devices": [WAL]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dat": {"devices": [DATA]}}, "did you mean 'data'?"),
        ({"data": [DATA]}, "is not a mapping"),
        ({"data": {}}, "name at least one"),
        ({"data": {"devices": ["/dev/nvme1n1"]}}, "/dev/nvme1n1: give the stable name"),
        ({"data": {"devices": ["/dev/disk/by-id/"]}}, "give the stable name"),
        ({"data": {"devices": ["/dev/disk/by-id/../../nvme1n1"]}}, "give the stable name"),
        ({"wal": {"devices": [WAL]}}, "needs one for data too"),
        ({"data": {"devices": [DATA]}, "wal": {"devices": [DATA]}}, f"{DATA} is named twice"),
        ({"data": {"devices": ["/dev/disk/by-id/."]}}, "give the stable name"),
        ({"data": {"devices": [DATA], "mkfs_options": ["-b size=4096"]}}, "give '-b' and 'size=4096' as items of their own"),
        ({"data": {"devices": [DATA], "fstype": "zfs"}}, "'zfs' is not one of ext4, xfs"),
        ({"data": {"devices": [DATA], "mountoptions": "x"}}, "did you mean 'mount_options'?"),
    ],
)
def test_storage_that_cannot_be(given: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in host_inputs.storage(given)[1]), host_inputs.storage(given)[1]


def test_options_of_mkfs_as_text_are_words() -> None:
    volumes, problems = host_inputs.storage({"data": {"devices": [DATA], "mkfs_options": "-E lazy_itable_init=0,lazy_journal_init=0"}})
    assert (volumes["data"]["mkfs_options"], problems) == (["-E", "lazy_itable_init=0,lazy_journal_init=0"], [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"swapiness": 1}, "did you mean 'swappiness'?"),
        ({"thp": "sometimes"}, "'sometimes' is not one of always, madvise, never"),
        ({"huge_pages": "many"}, "neither a number of pages nor auto"),
        ({"huge_pages": "\u00b2"}, "neither a number of pages nor auto"),
        ({"dirty_background_bytes": 2**30, "dirty_bytes": 2**28}, "would silently take half of dirty_bytes"),
        ({"dirty_background_ratio": 10, "dirty_ratio": 10}, "dirty_background_ratio=10 is not below dirty_ratio=10"),
        ({"dirty_bytes": 2**30, "dirty_ratio": 10}, "exclude each other"),
    ],
)
def test_kernel_that_cannot_be(given: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in host_inputs.kernel(given)[1])


def test_kernel_with_numbers_as_text() -> None:
    assert host_inputs.kernel({"swappiness": "1", "huge_pages": 512}) == ({"swappiness": 1, "huge_pages": "512"}, [])


def test_kernel_changes_of_a_host_we_did_not_make_need_leave() -> None:
    assert any("share_host=true" in p for p in problems_of(kernel={"swappiness": 1}))
    assert make_plan(kernel={"swappiness": 1}, share_host=True)["kernel"] == {"swappiness": 1}


def test_more_huge_pages_than_memory() -> None:
    [problem] = problems_of(kernel={"huge_pages": 8192}, share_host=True)
    assert problem == "kernel: huge_pages: 8192 of 2MB are not to be had of 16GB of memory"
    assert make_plan(kernel={"huge_pages": 8191}, share_host=True)["kernel"] == {"huge_pages": "8191"}


@pytest.mark.parametrize("pages", ["try", "\u00b2", -5, "12%"])
def test_what_is_no_number_of_huge_pages_is_said_once(pages: Any) -> None:
    [problem] = problems_of(kernel={"huge_pages": pages}, share_host=True)
    assert "neither a number of pages nor auto" in problem


def test_without_root_and_on_an_existing_server() -> None:
    storage = {"data": {"devices": [DATA]}}
    assert any("needs root" in p for p in problems_of(make_site({"root": False}), storage=storage))
    assert any("leave out storage" in p for p in problems_of(target="existing", login_host="db1", storage=storage))


def test_the_server_counts_huge_pages_for_every_variant() -> None:
    from ansible_collections.pgsizing.bench.plugins.module_utils import plan_estimate

    variants = {"a": {"gucs": {"shared_buffers": "1GB"}}, "b": {"gucs": {"shared_buffers": "2GB"}}}
    plan = make_plan(kernel={"huge_pages": "auto"}, share_host=True, variants=variants)
    [cluster] = plan_estimate.clusters(plan)
    assert [{s["name"]: s["text"] for s in v}["shared_buffers"] for v in cluster["variants"]] == ["1GB", "2GB"]
