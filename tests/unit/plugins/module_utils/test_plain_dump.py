# GNU General Public License v3.0 or later (see LICENSE)
"""Plain dumps without owners and privileges: only statements are left out, never data, strings or bodies of functions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import plain_dump


def lines(text: str, longest: int) -> Iterator[bytes]:
    for line in text.encode().splitlines(keepends=True):
        yield from (line[k : k + longest] for k in range(0, len(line), longest))


def clean(text: str, longest: int = 2**16) -> str:
    return b"".join(plain_dump.cleaned(lines(text, longest))).decode()


LEFT_OUT = [
    "ALTER TABLE public.orders OWNER TO app;",
    'ALTER FUNCTION public.f(a text DEFAULT \'x;y\', "B;" integer) OWNER TO "my ""app""";',
    "ALTER SCHEMA sales OWNER TO app ;",
    "alter large object 16412 owner to app;",
    "ALTER OPERATOR CLASS public.c USING btree OWNER TO app;",
    "GRANT SELECT ON TABLE public.orders TO reader;",
    "REVOKE USAGE ON SCHEMA public FROM PUBLIC;",
    "ALTER DEFAULT PRIVILEGES FOR ROLE app IN SCHEMA public GRANT SELECT ON TABLES TO reader;",
    "SET SESSION AUTHORIZATION 'app';",
    "SET SESSION AUTHORIZATION DEFAULT;",
    "RESET SESSION AUTHORIZATION;",
    'ALTER TABLE public."two\nlines" OWNER TO app;',
    "GRANT ALL\n  ON TABLE t\n  TO reader;",
    r"\restrict 2dfhgSRjaGvfkdfg9DFGdj",
    r"\unrestrict 2dfhgSRjaGvfkdfg9DFGdj",
]


@pytest.mark.parametrize("statement", LEFT_OUT)
@pytest.mark.parametrize("longest", [2**16, 200, 5])
def test_owners_privileges_and_restrictions_are_left_out(statement: str, longest: int) -> None:
    """Every line keeps its number."""
    before, after = "-- Name: orders; Owner: app\n\n", "\nSELECT 1;\n"
    assert clean(before + statement + after, longest) == before + "\n" * statement.count("\n") + after


KEPT = [
    "ALTER TABLE public.orders ADD COLUMN x text DEFAULT ' OWNER TO app';",
    'ALTER TABLE public.orders RENAME TO "x OWNER TO app";',
    "ALTER TABLE public.orders ADD COLUMN x int, OWNER TO app;",
    "CREATE TABLE t (grant_id int); -- GRANT SELECT ON t TO x;",
    "/* GRANT /* nested */ SELECT; */ SELECT 1;",
    "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $_$\nGRANT SELECT ON t TO x;\nALTER TABLE t OWNER TO x;\n\\connect y\n$_$;",
    "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS 'SELECT ''a'';\nGRANT SELECT ON t TO x;\n';",
    "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS E'SELECT \\'a;\\n\nGRANT SELECT ON t TO x;\n\\\\';",
    "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC\n SELECT 1;\n SELECT 2;\nEND;",
    "INSERT INTO t VALUES ('a\nGRANT SELECT ON t TO x;\n\\connect y\n', 'it''s');",
    "INSERT INTO t VALUES ('C:\\');\nINSERT INTO t VALUES ('x');",
    "COMMENT ON TABLE t IS 'about;\nREVOKE ALL ON t FROM x;';",
    "CREATE VIEW v AS SELECT 1 AS foo$bar$baz;",
    "COPY public.t (a, b) FROM stdin;\nGRANT SELECT ON t TO x;\n1\t\\N\n\\connect y\n'\"$$ /* --\n\\\\.\n\\.",
    "COPY public.empty (a) FROM stdin;\n\\.",
    "CREATE USER MAPPING FOR CURRENT_USER SERVER s;",
    "CREATE TABLE \"back\\slash;\" (a int);",
    "SET standard_conforming_strings = off;\nINSERT INTO t VALUES ('it\\'s;\nGRANT SELECT ON t TO x;');",
]  # fmt: skip


@pytest.mark.parametrize("statement", KEPT)
@pytest.mark.parametrize("longest", [2**16, 200, 5])
def test_everything_else_stays_as_it_is(statement: str, longest: int) -> None:
    """And what follows is read as statements again."""
    text = f"-- first\n{statement}\n\nGRANT SELECT ON t TO x;\nSELECT 2;\n"
    assert clean(text, longest) == text.replace("GRANT SELECT ON t TO x;\nSELECT 2;\n", "\nSELECT 2;\n")


def test_a_statement_without_an_end_is_one_at_the_end() -> None:
    assert clean("SELECT 1;\nSELECT 2") == "SELECT 1;\nSELECT 2\n"
    assert clean("SELECT 1;\nGRANT a TO b") == "SELECT 1;\n\n"


def test_a_long_statement_is_handed_on_as_it_comes() -> None:
    """Memory stays bounded: nothing is held back but what may still be left out, and a long line comes in parts."""
    value = "x''" * 2**19
    text = f"INSERT INTO t VALUES ('{value};\n{value}');\nGRANT SELECT ON t TO x;\n"
    out = list(plain_dump.cleaned(lines(text, 2**16)))
    assert b"".join(out).decode() == text.replace("GRANT SELECT ON t TO x;", "")
    assert max(map(len, out)) < plain_dump.HELD_BYTES + 2**18


HEAD = "--\n-- PostgreSQL database dump\n--\n\n"
REFUSED = [
    ("--\n-- PostgreSQL database cluster dump\n--\n", "line 2: this is a dump of a whole server by pg_dumpall: a dump of one database"),
    ("SET x = 1;\nCREATE ROLE app;\n", "line 2: CREATE ROLE is of the whole server: a dump of one database is needed"),
    ("\n\nALTER  user app\n WITH LOGIN;\n", "line 3: ALTER USER is of the whole server"),
    ("CREATE DATABASE app\n WITH TEMPLATE = template0;\n", "line 1: CREATE DATABASE is of the whole server"),
    ("DROP DATABASE app;\n", "line 1: DROP DATABASE is of the whole server"),
    ("SELECT 1;\n\\connect app\n", r"line 2: \connect leaves the database that is restored into: a dump of one database is needed"),
    ("SELECT 1 \\! id\n", r"line 1: \! is a command of psql, and pg_dump writes none: take it out of the dump"),
    ("SELECT 1;\n\\\n", "line 2: \\ is a command of psql"),
    (HEAD + "COPY t FROM stdin;\n1\n2\n", "line 8: it ends within the data of a table: it is cut short"),
    (HEAD + "INSERT INTO t VALUES ('a\n", "line 6: it ends within a string or a comment: it is cut short"),
    (HEAD + "SELECT 1;\n", "it ends without pg_dump's last line (-- PostgreSQL database dump complete): it is cut short"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_cannot_be_restored_is_refused_with_its_line(text: str, said: str) -> None:
    for longest in (2**16, 5):
        with pytest.raises(ValueError, match=re.escape(said)):
            clean(text, longest)


def test_a_whole_dump_ends_as_pg_dump_ends_it() -> None:
    text = HEAD + "SELECT 1;\n\n--\n-- PostgreSQL database dump complete\n--\n\n"
    assert clean(text) == text


def test_head_and_tail_are_enough_to_refuse_some() -> None:
    plain_dump.look((HEAD + "COPY t FROM stdin;\n1\nhalf a l").encode(), b"ine\n\\.\n-- PostgreSQL database dump complete\n--\n")
    plain_dump.look(b"CREATE TABLE by_hand();", b"CREATE TABLE by_hand();")
    with pytest.raises(ValueError, match="pg_dumpall"):
        plain_dump.look(b"--\n-- PostgreSQL database cluster dump\n--\n\nSET x", b"")
    with pytest.raises(ValueError, match="it is cut short"):
        plain_dump.look(HEAD.encode(), b"COPY t FROM stdin;\n")
