# GNU General Public License v3.0 or later (see LICENSE)
"""The data set from a dump: commands by format, progress, and what a dump that does not restore says."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import restore

CONNECTION = {"host": "db1", "port": 5432, "user": "bench", "dbname": "app"}


def steps(**params: Any) -> list[dict[str, Any]]:
    return restore.load_steps(restore.complete({"dump": "/d/app.dump", **params}), "pg_restore (PostgreSQL) 15.14", CONNECTION)


@pytest.mark.parametrize(("kind", "jobs"), [("custom", True), ("directory", True), ("tar", False)])
def test_commands(kind: str, jobs: bool) -> None:
    argv = steps(format=kind, jobs=8)[0]["argv"]
    assert argv[0] == "pg_restore"
    assert argv[-2:] == ["--dbname=app", "/d/app.dump"]
    assert {"--no-owner", "--no-privileges", "--exit-on-error", "--no-password"} <= set(argv)
    assert {"--host=db1", "--port=5432", "--username=bench"} <= set(argv)
    assert ("--jobs=8" in argv) is jobs


def test_a_plain_dump_stops_at_the_first_error() -> None:
    [step] = steps(format="plain")
    assert step["argv"][0] == "psql"
    assert {"--set=ON_ERROR_STOP=1", "--file=-", "--no-psqlrc"} <= set(step["argv"])
    assert step["stdin_dump"] == "/d/app.dump"


def test_progress_counts_tables() -> None:
    lines = ('creating TABLE "public.a"', 'processing data for table "public.a"', "finished item 1 TABLE DATA a")
    text = "".join(f"pg_restore: {line}\n" for line in lines)
    assert restore.tables_done(text) == 1


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("pg_restore: error: could not read from input file: end of file\n", "could not read from input file: end of file"),
        (
            'pg_restore: error: could not execute query: ERROR:  extension "postgis" is not available\nDETAIL:  Could not open\n',
            'extension "postgis" is not available',
        ),
        ('psql:/d/app.sql:12: ERROR:  syntax error at or near "FOO"\n', 'syntax error at or near "FOO"'),
        ("pg_restore: error: unsupported version (1.16) in file header\n", "unsupported version (1.16)"),
        ("dump: line 9: it ends within the data of a table: it is cut short\n", "line 9: it ends within the data of a table"),
        ("", "it ended with status 1"),
    ],
)
def test_a_dump_that_does_not_restore(stderr: str, said: str) -> None:
    step = {**steps(format="custom")[0], "stdout": "", "stderr": stderr, "job": {"rc": 1, "elapsed_s": 0.2}}
    [found] = restore.result(restore.complete({"dump": "/d/app.dump", "format": "custom"}), [step])["findings"]
    assert found["code"] == "dataset_failed"
    assert said in found["message"]


def test_what_was_measured() -> None:
    step = {**steps(format="custom")[0], "stdout": "", "stderr": "", "job": {"rc": 0, "elapsed_s": 12.5, "started": 1.0, "ended": 13.5}}
    measurement = restore.result(restore.complete({"dump": "/d/app.dump", "format": "custom"}), [step])
    assert measurement["findings"] == []
    assert measurement["metrics"]["load_seconds"] == {"value": 12.5, "unit": "s", "better": "lower"}


def test_a_dump_without_tables() -> None:
    assert [f["code"] for f in restore.check([{"tables": 0}], {})] == ["dataset_failed"]
    assert restore.check([{"tables": 3}], {}) == []
