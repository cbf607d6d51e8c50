# GNU General Public License v3.0 or later (see LICENSE)
"""Dumps: what they are and by what they are known."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from ansible_collections.pgsizing.bench.plugins.plugin_utils.dumps import describe


def test_formats(tmp_path: Path) -> None:
    (tmp_path / "a.dump").write_bytes(b"PGDMP\x01\x0e\x00rest")
    (tmp_path / "a.txt").write_text("--\n-- PostgreSQL database dump\n--\n-- PostgreSQL database dump complete\n--\n")
    (tmp_path / "b.sql").write_text("CREATE TABLE a();\n")
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        entry = tarfile.TarInfo("toc.dat")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"toc"))
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir/toc.dat").write_bytes(b"toc")
    (tmp_path / "dir/3001.dat.gz").write_bytes(b"data")
    kinds = {name: describe(tmp_path / name)["format"] for name in ("a.dump", "a.txt", "b.sql", "a.tar", "dir")}
    assert kinds == {"a.dump": "custom", "a.txt": "plain", "b.sql": "plain", "a.tar": "tar", "dir": "directory"}


def test_identity_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.dump").write_bytes(b"PGDMP1")
    (tmp_path / "b.dump").write_bytes(b"PGDMP1")
    described = describe(tmp_path / "a.dump")
    assert described["sha256"] == describe(tmp_path / "b.dump")["sha256"] == hashlib.sha256(b"PGDMP1").hexdigest()
    assert described["bytes"] == 6
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir/toc.dat").write_bytes(b"toc")
    before = describe(tmp_path / "dir")
    (tmp_path / "dir/1.dat").write_bytes(b"x")
    after = describe(tmp_path / "dir")
    assert before["sha256"] != after["sha256"]
    assert after["bytes"] == 4


NO_DUMPS = [
    ("a.gz", gzip.compress(b"x", mtime=0), "compressed by gzip"),
    ("a.bin", b"\x7fELF", "is no dump"),
    ("all.dump", b"--\n-- PostgreSQL database cluster dump\n--\n", "all.dump: line 2: this is a dump of a whole server by pg_dumpall"),
    ("create.sql", b"CREATE DATABASE app;\n\\connect app\n", "create.sql: line 1: CREATE DATABASE is of the whole server"),
    ("half.sql", b"--\n-- PostgreSQL database dump\n--\nCOPY", "half.sql: it ends without pg_dump's last line"),
]


@pytest.mark.parametrize(("name", "content", "said"), NO_DUMPS)
def test_what_is_no_dump(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        describe(tmp_path / name)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no toc\.dat"):
        describe(tmp_path)
