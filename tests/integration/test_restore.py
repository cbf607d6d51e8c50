# GNU General Public License v3.0 or later (see LICENSE)
"""Dumps by the real ``pg_dump``, restored by the action on a server that lacks the roles of the dump; and dumps that do not restore."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from support.actions import make_action
from support.cluster import running_cluster, sql

from ansible_collections.pgsizing.bench.plugins.action import restore
from ansible_collections.pgsizing.bench.plugins.plugin_utils.dumps import describe

ROWS = 3000
#: Owned by one role, granted to another, and full of text that looks like statements on both.
SOURCE = rf"""
CREATE ROLE "the owner"; CREATE ROLE reader; CREATE SCHEMA sales AUTHORIZATION "the owner"; SET ROLE "the owner";
CREATE TABLE sales.orders (id bigint PRIMARY KEY, note text);
INSERT INTO sales.orders SELECT i, E'GRANT ALL ON t TO x;\nALTER TABLE t OWNER TO x;' FROM generate_series(1, {ROWS}) i;
INSERT INTO sales.orders VALUES (0, E'\\.\n\\connect x\n$$ ''" /* --');
CREATE TABLE sales.lines (id bigserial, order_id bigint REFERENCES sales.orders);
INSERT INTO sales.lines (order_id) SELECT id FROM sales.orders;
CREATE TABLE sales.empty ("a;""b" int DEFAULT 1); COMMENT ON TABLE sales.empty IS E'one;\nREVOKE ALL ON t FROM x;';
CREATE FUNCTION sales.f() RETURNS text LANGUAGE plpgsql AS $_$
BEGIN
GRANT SELECT ON nothing TO nobody;
ALTER TABLE nothing OWNER TO nobody;
RETURN $$it's$$;
END $_$;
CREATE VIEW sales.v AS SELECT count(*) AS orders FROM sales.orders;
ALTER DEFAULT PRIVILEGES IN SCHEMA sales GRANT SELECT ON TABLES TO reader;
GRANT USAGE ON SCHEMA sales TO reader; GRANT SELECT ON sales.orders TO reader; REVOKE ALL ON FUNCTION sales.f() FROM PUBLIC;
"""
FORMATS = ["custom", "directory", "tar", "plain", "plain --inserts --use-set-session-authorization"]


def pg_dump(cluster: dict[str, Any], place: Path, options: str) -> None:
    kind, *more = options.split()
    where = ["-h", cluster["socket_dir"], "-p", str(cluster["port"]), "-U", cluster["user"], "-d", "source"]
    subprocess.run([f"{cluster['bin_dir']}/pg_dump", *where, f"--format={kind}", *more, f"--file={place}"], check=True)


@pytest.fixture(scope="module")
def dumps() -> Iterator[dict[str, Any]]:
    """A dump of each format, and the server, on which neither the database nor its roles are any more: ``{cluster, options: path}``."""
    with tempfile.TemporaryDirectory(prefix="pgs-") as home, running_cluster(Path(home) / "restore") as cluster:
        sql(cluster, "CREATE DATABASE source")
        sql(cluster, SOURCE, "source")
        folder = Path(home) / "dumps"
        folder.mkdir()
        made = {options: folder / f"{k}.dump" for k, options in enumerate(FORMATS)}
        for options, place in made.items():
            pg_dump(cluster, place, options)
        sql(cluster, "DROP DATABASE source")
        sql(cluster, 'DROP ROLE "the owner", reader')
        yield {"cluster": cluster, **made}


@pytest.fixture
def restored(dumps: dict[str, Any], tmp_path: Path) -> Iterator[Any]:
    """Restore a dump into an empty database; the progress of the load lies in ``tmp_path``."""
    cluster = dumps["cluster"]
    sql(cluster, "CREATE DATABASE target")

    def act(path: Path, **args: Any) -> dict[str, Any]:
        login = {"login_unix_socket": cluster["socket_dir"], "login_port": cluster["port"], "login_user": cluster["user"]}
        place = {"work_dir": str(tmp_path / "jobs"), "experiment_dir": str(tmp_path), "trial_id": "load", "bin_dir": cluster["bin_dir"]}
        action = make_action(restore, phase="load", dump=str(path), login_db="target", **login, **place, **args)
        return dict(action.run(task_vars={}))

    yield act
    sql(cluster, "DROP DATABASE target WITH (FORCE)")


def percents(folder: Path) -> list[int | None]:
    return [json.loads(line)["percent"] for line in (folder / "progress.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("options", FORMATS)
def test_a_dump_is_restored_without_the_roles_it_names(options: str, dumps: dict[str, Any], restored: Any, tmp_path: Path) -> None:
    described = describe(dumps[options])
    result = restored(dumps[options], format=described["format"], jobs=2)
    assert described["format"] == options.split()[0]
    assert result["verdict"] == "valid"
    assert result["measurement"]["metrics"]["load_seconds"]["value"] > 0

    def ask(query: str) -> str:
        return sql(dumps["cluster"], query, "target")

    assert ask("SELECT orders FROM sales.v") == str(ROWS + 1)
    assert ask("SELECT note FROM sales.orders WHERE id = 0") == "\\.\n\\connect x\n$$ '\" /* --"
    assert ask("SELECT DISTINCT note FROM sales.orders WHERE id > 0") == "GRANT ALL ON t TO x;\nALTER TABLE t OWNER TO x;"
    assert ask("SELECT count(*) FROM sales.lines") == str(ROWS + 1)
    assert ask("SELECT obj_description('sales.empty'::regclass)") == "one;\nREVOKE ALL ON t FROM x;"
    assert "ALTER TABLE nothing OWNER TO nobody;\n" in ask("SELECT prosrc FROM pg_proc WHERE proname = 'f'")
    assert ask("SELECT DISTINCT relowner::regrole, relacl FROM pg_class WHERE relnamespace = 'sales'::regnamespace") == "pgsizing|"
    assert ask("SELECT proacl IS NULL, (SELECT count(*) FROM pg_default_acl) FROM pg_proc WHERE proname = 'f'") == "t|0"
    assert percents(tmp_path)[-1] == (None if options.startswith("plain") else 100)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("custom", "could not read from input file: end of file"),
        ("directory", "could not read from input file"),
        ("plain", "it ends within the data of a table: it is cut short"),
    ],
)
def test_a_dump_that_is_cut_short_does_not_restore(options: str, said: str, dumps: dict[str, Any], restored: Any, tmp_path: Path) -> None:
    half = tmp_path / "half"
    if options == "directory":
        shutil.copytree(dumps[options], half)
        cut = half / "toc.dat"
    else:
        cut = Path(shutil.copy(dumps[options], half))
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    with pytest.raises(AnsibleActionFail, match="could not be restored") as failed:
        restored(half, format=options.split()[0])
    [found] = failed.value.result["measurement"]["findings"]
    assert (found["code"], found["severity"]) == ("dataset_failed", "failed")
    assert said in found["message"]


def test_the_line_of_an_error_is_that_of_the_dump(dumps: dict[str, Any], restored: Any, tmp_path: Path) -> None:
    place = tmp_path / "own.sql"
    place.write_text("CREATE TABLE t (a int);\nGRANT SELECT\n ON t TO nobody;\nINSERT INTO t VALUES ('one');\n")
    with pytest.raises(AnsibleActionFail, match="invalid input syntax") as failed:
        restored(place, format="plain")
    raw = tmp_path / "datasets/load/raw/load.stderr"
    assert "psql:<stdin>:4: ERROR:" in raw.read_text()
    assert "invalid input syntax" in failed.value.result["measurement"]["findings"][0]["message"]
