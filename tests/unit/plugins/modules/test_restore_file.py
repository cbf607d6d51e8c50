# GNU General Public License v3.0 or later (see LICENSE)
"""What a host was before: the first value stays, lists grow, the last section takes the file along."""

from __future__ import annotations

import json
from pathlib import Path

from support.modules import run_module


def call(base_dir: Path, **options: object) -> dict[str, object]:
    return run_module("restore_file", base_dir=base_dir, **options)


def test_the_first_value_stays(tmp_path: Path) -> None:
    base = tmp_path / "base"
    assert call(base, section="kernel", before={"files": {"/a": "1"}, "list": ["x"]})["changed"] is True
    again = call(base, section="kernel", before={"files": {"/a": "2", "/b": "3"}, "list": ["x", "y"]})
    assert again["before"] == {"files": {"/a": "1", "/b": "3"}, "list": ["x", "y"]}
    assert call(base, section="kernel", before={"files": {"/a": "9"}})["changed"] is False
    assert (base / "restore.json").stat().st_mode & 0o777 == 0o644


def test_sections_do_not_disturb_each_other(tmp_path: Path) -> None:
    (tmp_path / "restore.json").write_text(json.dumps({"postgres": {"packages": ["p"]}}))
    call(tmp_path, section="storage", before={"mounts": ["/m"]})
    assert call(tmp_path, section="storage", state="absent")["before"] == {}
    assert json.loads((tmp_path / "restore.json").read_text()) == {"postgres": {"packages": ["p"]}}
    call(tmp_path, section="postgres", state="absent")
    assert not (tmp_path / "restore.json").exists()


def test_reading_and_check_mode_write_nothing(tmp_path: Path) -> None:
    assert call(tmp_path, section="kernel")["before"] == {}
    assert run_module("restore_file", check=True, base_dir=tmp_path, section="kernel", before={"a": 1})["changed"] is True
    assert list(tmp_path.iterdir()) == []
