# GNU General Public License v3.0 or later (see LICENSE)
"""``target=existing``: a server that we only connect to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import running_cluster, sql
from support.e2e import SHORT, Place, Run, codes

PASSWORD = "correct-horse-battery"
SETTINGS = "SELECT md5(string_agg(name || setting || source, '' ORDER BY name)) FROM pg_settings WHERE name <> 'application_name'"


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="pgs-") as home, running_cluster(Path(home) / "theirs", "max_connections = 50\n") as cluster:
        sql(cluster, f"CREATE ROLE bench LOGIN CREATEDB PASSWORD '{PASSWORD}'")
        sql(cluster, "GRANT pg_monitor TO bench")
        sql(cluster, "CREATE DATABASE theirs")
        (Path(cluster["data_dir"]) / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        sql(cluster, "SELECT pg_reload_conf()")
        yield cluster


def options(server: dict[str, Any], password: str = PASSWORD) -> list[str]:
    login = {"host": "127.0.0.1", "port": server["port"], "user": "bench", "password": password}
    return [*SHORT, "target=existing", *(f"login_{k}={v}" for k, v in login.items())]


@pytest.fixture(scope="module")
def run(place: Place, server: dict[str, Any]) -> Run:
    before = (sql(server, SETTINGS), sql(server, "SELECT pg_postmaster_start_time()"))
    run = place.run(*options(server), "repeats=2", "-v")
    assert (sql(server, SETTINGS), sql(server, "SELECT pg_postmaster_start_time()")) == before
    return run


def test_it_is_measured_without_restart_and_says_so(run: Run) -> None:
    for trial in run.trials.values():
        assert trial["verdict"] in ("valid", "suspect")
        assert "no_restart" in codes(trial)
        assert trial["comparison_key"]["restart"] is False
        assert trial["environment"]["postgres"]["version"].startswith(trial["load_generator"]["server_version"])
        assert {"max_connections", "shared_buffers"} <= {s["name"] for s in trial["environment"]["postgres"]["non_default_settings"]}
        assert trial["environment"]["observation"]["postgres"]["xact_commit"] > trial["counts"]["processed"]


def test_only_a_database_of_our_own_is_made_and_it_is_marked(run: Run, server: dict[str, Any]) -> None:
    marks = dict(
        row.split("|", 1)
        for row in sql(server, "SELECT datname, coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database").splitlines()
    )
    ours = {name: mark for name, mark in marks.items() if name.startswith("pgsizing")}
    assert ours and all(mark.startswith("pgsizing") for mark in ours.values())
    assert set(marks) - set(ours) == {"postgres", "template0", "template1", "theirs"}


def test_the_password_is_nowhere(run: Run) -> None:
    assert PASSWORD not in run.output
    place = run.place
    assert [p for p in (*place.results.rglob("*"), *place.base_dir.rglob("*")) if p.is_file() and PASSWORD.encode() in p.read_bytes()] == []


def test_a_foreign_database_of_our_name_is_refused_and_left_alone(place: Place, server: dict[str, Any], run: Run) -> None:
    sql(server, "COMMENT ON DATABASE pgsizing_run IS NULL")
    sql(server, "CREATE TABLE precious (x int)", "pgsizing_run")
    refused = place.run(*options(server), rc=None)
    assert "database pgsizing_run exists on the server and was not made by pgsizing" in refused.words
    assert sql(server, "SELECT count(*) FROM pg_class WHERE relname = 'precious'", "pgsizing_run") == "1"
    assert refused.journal["end"]["state"] == "failed"
    place.quiet()


def test_a_wrong_password_is_said_and_nothing_is_left(place: Place, server: dict[str, Any]) -> None:
    refused = place.run(*options(server, "wrong-horse-battery"), rc=None)
    assert 'password authentication failed for user "bench"' in refused.words
    assert refused.trials == {} or all(t["verdict"] == "failed" for t in refused.trials.values())
    assert "wrong-horse-battery" not in refused.output
    assert not (place.base_dir / "existing.pgpass").exists()


def test_settings_cannot_be_asked_for(place: Place, server: dict[str, Any]) -> None:
    refused = place.run(*options(server), {"gucs": {"work_mem": "8MB"}}, rc=None)
    assert "target=existing" in refused.words and "gucs" in refused.words
