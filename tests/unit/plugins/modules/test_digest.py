# GNU General Public License v3.0 or later (see LICENSE)
"""The module digest on files."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest
from support.modules import run_module

from ansible_collections.pgsizing.bench.plugins.modules import digest as module


def line(latency: int | str, script: int = 0, second: int = 1796030202) -> str:
    return f"0 1 {latency} {script} {second} 118927\n"


def digest(**options: Any) -> dict[str, Any]:
    found: dict[str, Any] = run_module("digest", **options)["digest"]
    return found


def test_all_threads_of_a_prefix_are_read(tmp_path: Path) -> None:
    (tmp_path / "log.77").write_text(line(8164) + line("serialization") + line(1698, second=1796030203))
    (tmp_path / "log.77.1").write_text(line(3127, script=1) + line("skipped", script=1) + line("deadlock", second=1796030203))
    (tmp_path / "log.77.2").write_text("")
    (tmp_path / "other.77").write_text(line(1))
    found = digest(logs=[tmp_path / "log"], scripts=2, sampling_rate=0.5, out=tmp_path / "out.gz")
    assert (found["n"], found["lines"], found["failed"], found["skipped"], found["sampling"]) == (3, 6, 2, 1, 0.5)
    assert found["failures"] == {"failed": 0, "serialization": 1, "deadlock": 1, "other": 0}
    assert (found["overall"]["p50"], found["overall"]["max"]) == (3.127, 8.164)
    assert {name: (script["n"], script["failed"], script["skipped"]) for name, script in found["scripts"].items()} == {
        "0": (2, 2, 0),
        "1": (1, 0, 1),
    }
    assert found["problems"] == []
    with gzip.open(found["out"], "rt") as file:
        assert file.read() == "script latency_us transactions\n0 1698 1\n1 3127 1\n0 8164 1\n"
    assert Path(found["series"]).read_text() == "ts,transactions,not_processed,script_0,script_1\n1796030202,2,2,1,1\n1796030203,1,1,1,0\n"


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (line(5) + "0 2 81", {}, "log.7: the last line is cut off"),
        (line(5) + "0 2 8164 0 1796030202 118", {}, "log.7: the last line is cut off"),
        (line(5), {"lag": True}, "1 lines have 6 columns instead of 7"),
        (line(5, script=2), {"scripts": 2}, "script number 2, but the run has 2 scripts"),
        (line(5) + "garbage\n", {}, "1 lines are no lines"),
    ],
)
def test_what_is_wrong_with_a_log_is_told(tmp_path: Path, text: str, options: dict[str, Any], problem: str) -> None:
    (tmp_path / "log.7").write_text(text)
    found = digest(logs=[tmp_path / "log.7"], **options)
    assert (found["n"], found["overall"]["max"]) == (1, 0.005)
    assert problem in found["problems"][0]
    assert (found["out"], found["series"]) == (None, None)


def test_logs_that_are_missing_or_of_several_runs_are_refused(tmp_path: Path) -> None:
    assert "there is no log" in run_module("digest", logs=[tmp_path / "log"], fails=True)["msg"]
    for name in ("log.7", "log.7.1", "log.8"):
        (tmp_path / name).write_text(line(5))
    assert "several runs, by their pids 7, 8" in run_module("digest", logs=[tmp_path / "log"], fails=True)["msg"]


def test_check_mode_writes_no_file(tmp_path: Path) -> None:
    (tmp_path / "log.7").write_text(line(5))
    assert digest(logs=[tmp_path / "log"], out=tmp_path / "out.gz", check=True)["n"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["log.7"]


def test_runs_put_aside_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(5)
    lines = [line(generator.choice([generator.randrange(2_000_000), "failed"]), script=generator.randrange(3)) for _ in range(30_000)]
    (tmp_path / "log.7").write_text("".join(lines))

    def figures() -> tuple[Any, ...]:
        tally = module.Tally(6)
        entries, found = module.count_all([tmp_path / "log.7"], tally)
        assert found == []
        return tally.words, module.summarise(tally, entries, None)

    in_memory = figures()
    monkeypatch.setattr(module, "BLOCK", 10_000)
    monkeypatch.setattr(module, "LIMIT", 1_000_000)
    files = []
    monkeypatch.setattr(module, "put_aside", lambda tally, put=module.put_aside: files.append(put(tally)) or files[-1])
    assert figures() == in_memory
    assert len(files) > 3
