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


def login(server: dict[str, Any], password: str = PASSWORD, **secret: Path) -> list[str]:
    given = {"host": "127.0.0.1", "port": server["port"], "user": "bench", **(secret or {"password": password})}
    return [f"login_{k}={v}" for k, v in given.items()]


def options(server: dict[str, Any], password: str = PASSWORD, **secret: Path) -> list[str]:
    return [*SHORT, "target=existing", *login(server, password, **secret)]


def of_our_name(server: dict[str, Any]) -> list[str]:
    return sql(server, "SELECT datname FROM pg_database WHERE datname LIKE 'pgsizing%' ORDER BY 1").splitlines()


@pytest.fixture(scope="module")
def run(place: Place, server: dict[str, Any]) -> Run:
    before = (sql(server, SETTINGS), sql(server, "SELECT pg_postmaster_start_time()"))
    run = place.run(*options(server), "-v")
    assert (sql(server, SETTINGS), sql(server, "SELECT pg_postmaster_start_time()")) == before
    return run


def test_it_is_measured_without_restart_and_says_so(run: Run) -> None:
    (trial,) = run.trials.values()
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


def test_c073_the_password_from_a_file(place: Place, server: dict[str, Any], tmp_path: Path) -> None:
    passfile = tmp_path / "my.pgpass"
    passfile.write_text(f"127.0.0.1:{server['port']}:*:bench:{PASSWORD}\n")
    passfile.chmod(0o640)
    refused = place.run(*options(server, passfile=passfile), rc=None)
    assert "can be read by others" in refused.words and not refused.trials
    passfile.chmod(0o600)
    run = place.run(*options(server, passfile=passfile))
    (trial,) = run.trials.values()
    assert trial["verdict"] in ("valid", "suspect")
    assert passfile.read_text().endswith(f"{PASSWORD}\n")  # it is the user's, and stays
    test_the_password_is_nowhere(run)


def test_keep_nothing_drops_what_we_made_and_nothing_else(place: Place, server: dict[str, Any], run: Run) -> None:
    sql(server, "CREATE DATABASE pgsizing_notes OWNER bench")
    sql(server, "CREATE DATABASE pgsizing_other")
    sql(server, "COMMENT ON DATABASE pgsizing_other IS 'pgsizing run pgbench'")  # of an experiment of another role
    again = place.run(*options(server), "keep=nothing")
    assert next(trial["verdict"] for trial in again.trials.values()) in ("valid", "suspect")
    assert of_our_name(server) == ["pgsizing_notes", "pgsizing_other"]
    assert not (place.base_dir / "existing.pgpass").exists()


def test_a_foreign_database_of_our_name_is_refused_and_left_alone(place: Place, server: dict[str, Any], run: Run) -> None:
    sql(server, "CREATE DATABASE pgsizing_run OWNER bench")
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


def test_c007_more_clients_than_the_server_lets_in_are_refused_before_anything_is_made(fresh: Place, server: dict[str, Any]) -> None:
    """50 connections, 3 of them for superusers; and a limit of the role's own."""
    before = of_our_name(server)
    sql(server, "ALTER ROLE bench CONNECTION LIMIT 40")
    try:
        refused = fresh.run(*options(server), "clients=47", rc=None)
    finally:
        sql(server, "ALTER ROLE bench CONNECTION LIMIT -1")
    assert "The plan needs 48 connections, our own among them" in refused.words
    assert "max_connections = 50, of which 3 are reserved for others than bench; that role may have 40" in refused.words
    assert of_our_name(server) == before


def test_settings_cannot_be_asked_for(place: Place, server: dict[str, Any]) -> None:
    refused = place.run(*options(server), {"gucs": {"work_mem": "8MB"}}, rc=None)
    assert "target=existing" in refused.words and "gucs" in refused.words


def test_teardown_drops_them_too(fresh: Place, server: dict[str, Any]) -> None:
    sql(server, "CREATE DATABASE pgsizing_left OWNER bench")
    sql(server, "COMMENT ON DATABASE pgsizing_left IS 'pgsizing building'")
    run = fresh.run(*login(server), playbook="playbooks/teardown.yml")
    assert "pgsizing_left" not in of_our_name(server)
    assert PASSWORD not in run.output
    assert not list(Path(tempfile.gettempdir()).glob("pgsizing-*/existing.pgpass"))


def test_teardown_takes_a_password_file_too(fresh: Place, server: dict[str, Any], tmp_path: Path) -> None:
    passfile = tmp_path / "my.pgpass"
    passfile.write_text(f"*:*:*:bench:{PASSWORD}\n")
    passfile.chmod(0o600)
    sql(server, "CREATE DATABASE pgsizing_left OWNER bench")
    sql(server, "COMMENT ON DATABASE pgsizing_left IS 'pgsizing building'")
    fresh.run(*login(server, passfile=passfile), playbook="playbooks/teardown.yml")
    assert "pgsizing_left" not in of_our_name(server) and passfile.exists()
