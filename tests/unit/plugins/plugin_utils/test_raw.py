# GNU General Public License v3.0 or later (see LICENSE)
"""Raw files: fetched, described, never held in memory."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from support import actions

from ansible_collections.pgsizing.bench.plugins.plugin_utils import raw
from ansible_collections.pgsizing.bench.plugins.plugin_utils.raw import COMPRESS_BYTES, describe, fetch, write_table


class Connection:
    """A connection to this machine."""

    @staticmethod
    def fetch_file(source: str, target: str) -> None:
        shutil.copy(source, target)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trial/raw").mkdir(parents=True)
    return tmp_path / "trial/raw"


def test_describe(folder: Path) -> None:
    (folder / "x").write_bytes(b"abc")
    assert describe(folder / "x", folder.parent) == {"path": "raw/x", "bytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}


@pytest.mark.parametrize(
    ("name", "size", "compress", "kept_as"),
    [
        ("a.log", COMPRESS_BYTES - 1, True, "a.log"),
        ("a.log", COMPRESS_BYTES, True, "a.log.gz"),
        ("a.log", COMPRESS_BYTES, False, "a.log"),
        ("a.gz", COMPRESS_BYTES, True, "a.gz"),
    ],
)
def test_fetch(name: str, size: int, compress: bool, kept_as: str, folder: Path, tmp_path: Path) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    (tmp_path / name).write_bytes(content)
    described = fetch(Connection, str(tmp_path / name), folder, compress=compress)
    assert [p.name for p in folder.iterdir()] == [kept_as]
    kept = folder / kept_as
    assert (gzip.decompress(kept.read_bytes()) if kept_as != name else kept.read_bytes()) == content
    assert described == describe(kept, folder.parent)


def test_C071_a_large_file_is_never_in_memory(folder: Path, tmp_path: Path) -> None:
    with open(tmp_path / "big.log", "wb") as big:
        big.truncate(200 * 2**20)
    tracemalloc.start()
    described = fetch(Connection, str(tmp_path / "big.log"), folder)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert described["path"] == "raw/big.log.gz"
    assert peak < 50 * 2**20


class Action:
    """An action whose task becomes another user, on this machine."""

    _connection = SimpleNamespace(become=object())
    _low_level_execute_command = staticmethod(actions.shell)


def test_with_become_files_are_read_as_that_user(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "PIECE_BYTES", 100)
    content = bytes(range(256)) * 3
    (tmp_path / "it's.log").write_bytes(content)
    assert raw.source(SimpleNamespace(_connection=SimpleNamespace(become=None))).become is None  # type: ignore[arg-type]
    reader = raw.source(Action())  # type: ignore[arg-type]
    fetch(reader, str(tmp_path / "it's.log"), folder)
    assert (folder / "it's.log").read_bytes() == content
    with pytest.raises(AnsibleActionFail, match="No such file"):
        fetch(reader, str(tmp_path / "nosuch"), folder)


def test_write_table(folder: Path) -> None:
    rows = [{"a": 1, "b": None}, {"a": 0.1, "c": "x, y"}]
    assert write_table(folder / "t.csv", rows, folder.parent) == {"path": "raw/t.csv", "columns": ["a", "b", "c"]}
    assert (folder / "t.csv").read_text() == 'a,b,c\n1,,\n0.1,,"x, y"\n'
