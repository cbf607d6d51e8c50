# GNU General Public License v3.0 or later (see LICENSE)
"""Which processes of a server serve clients, and when a lease ends."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import controller_identity, machine_identity
from ansible_collections.pgsizing.bench.plugins.modules.lease import end_cause, is_client, stale_reason


@pytest.mark.parametrize(
    "title",
    [
        "postgres: bench bench 10.0.0.7(51234) SELECT",
        "postgres: bench bench [local] idle in transaction",
        "postgres: 15/main: postgres postgres [local] idle",
        "postgres: bench bench ::1(51234) COMMIT waiting for 1/2A3B4C5D",
        "postgres: archiver/main: bench bench [local] idle",
        "postgres: walsender replica 10.0.0.8(51234) streaming 0/3000148",
        "edb-postgres: enterprisedb edb 127.0.0.1[51234] idle",
    ],
)
def test_a_backend_of_a_client(title: str) -> None:
    assert is_client(title)


@pytest.mark.parametrize(
    "title",
    [
        "postgres: checkpointer ",
        "postgres: checkpointer performing checkpoint",
        "postgres: background writer ",
        "postgres: walwriter ",
        "postgres: 15/main: autovacuum launcher ",
        "postgres: autovacuum worker bench",
        "postgres: logical replication launcher ",
        "postgres: stats collector ",
        "postgres: logger ",
        "postgres: startup recovering 000000010000000000000003",
        "postgres: archiver last was 000000010000000000000003",
        "postgres: walsummarizer ",
        "postgres: io worker 0",
        "postgres: slotsync worker ",
        "postgres: parallel worker for PID 4711",
        "postgres: pg_cron launcher ",
        "postgres: TimescaleDB Background Worker Scheduler",
        "/usr/lib/postgresql/15/bin/postgres",
        "",
    ],
)
def test_a_process_that_serves_no_client(title: str) -> None:
    assert not is_client(title)


GONE = {"machine_id": machine_identity(), "pid": 2**22 + 1, "start_ticks": 1}


def lease(**changes: Any) -> dict[str, Any]:
    return {"experiment_id": "e1", "deadline": time.time() + 60, "controller": None, "host": machine_identity(), **changes}


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, None),
        ({"release": {"stop": False}}, "released"),
        ({"deadline": 1.0}, "deadline"),
        ({"controller": controller_identity(os.getpid())}, None),
        ({"controller": {**controller_identity(os.getpid()), "start_ticks": 1}}, "controller_lost"),
        ({"controller": GONE}, "controller_lost"),
        ({"controller": {**GONE, "machine_id": "elsewhere"}}, None),
        ({"controller": {**GONE, "start_ticks": None}}, None),
    ],
)
def test_the_cause_of_an_end(tmp_path: Path, changes: dict[str, Any], cause: str | None) -> None:
    assert end_cause(tmp_path, lease(**changes)) == cause


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"controller": controller_identity(os.getpid())}, None),
        ({"controller": GONE}, "its keeper and its controller are gone"),
        ({"deadline": 1.0}, "its keeper is gone and its deadline has passed"),
        ({"host": "before"}, "the machine was restarted"),
    ],
)
def test_when_a_lease_without_keeper_is_stale(tmp_path: Path, changes: dict[str, Any], reason: str | None) -> None:
    assert stale_reason(tmp_path, lease(**changes)) == reason
