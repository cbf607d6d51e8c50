# GNU General Public License v3.0 or later (see LICENSE)
"""The figures of ``make speed``: ratios, targets, table, and what counts as a side that did not run."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

import speed

from ansible_collections.pgsizing.bench.plugins.module_utils.percentiles import _LINE
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench

CAPTURES = ROOT / "tests/fixtures/pgbench/captures"
CLUSTER = {"bin_dir": "/bin", "socket_dir": "/run/x", "port": 5433, "user": "u"}
AT_LEAST, AT_MOST = speed.Target(at_least=0.98), speed.Target(at_most=6)


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("target", "low", "high", "reached"),
    [
        (AT_LEAST, 0.90, 0.98, True),
        (AT_LEAST, 0.90, 0.979, False),
        (AT_LEAST, 1.01, 1.02, True),
        (AT_MOST, 5.0, 6.0, True),
        (AT_MOST, 5.0, 6.1, False),
        (AT_MOST, 7.0, 8.0, False),
    ],
)
def test_target(target: speed.Target, low: float, high: float, reached: bool) -> None:
    assert target.reached(low, high) is reached


def test_a_figure_is_the_geometric_mean_of_the_ratios_of_pairs() -> None:
    found = speed.figure("x", "s", [2.0, 9.0, 4.0], [1.0, 3.0, 1.0])
    assert math.isclose(found.ratio, (2 * 3 * 4) ** (1 / 3))
    assert found.n == 3
    assert found.ci_low is not None and found.ci_high is not None
    assert found.ci_low < found.ratio < found.ci_high
    assert (found.target, found.reached) == (None, None)


def test_what_disturbs_both_sides_of_a_pair_does_not_widen_the_interval() -> None:
    found = speed.figure("x", "tps", [99.0, 990.0, 9.9], [100.0, 1000.0, 10.0], AT_LEAST)
    assert found.ci_low == pytest.approx(0.99) and found.ci_high == pytest.approx(0.99)
    assert found.reached is True


@pytest.mark.parametrize(("value", "reached"), [(6.0, True), (6.5, False)])
def test_a_single_pair_has_no_interval_and_is_judged_by_itself(value: float, reached: bool) -> None:
    found = speed.figure("x", "s", [value], [1.0], AT_MOST)
    assert (found.ratio, found.n, found.ci_low, found.ci_high, found.reached) == (value, 1, None, None, reached)


@pytest.mark.parametrize(
    ("values", "base"),
    [([], []), ([1.0], []), ([1.0, 2.0], [1.0]), ([0.0], [1.0]), ([1.0], [0.0]), ([-1.0, 1.0], [1.0, 1.0])],
)
def test_a_side_without_figures_is_an_error(values: list[float], base: list[float]) -> None:
    with pytest.raises(speed.SideFailed, match="no figure"):
        speed.figure("x", "s", values, base)


def test_table() -> None:
    figures = [
        speed.figure("tps, ours / theirs", "tps", [99.0, 99.0], [100.0, 100.0], AT_LEAST),
        speed.figure("wall", "s", [30.0], [60.0]),
        speed.figure("CPU", "s", [7.0, 7.0], [1.0, 1.0], AT_MOST),
    ]
    assert speed.table(figures).splitlines() == [
        "what                ratio  95 % CI         n  target           reached  medians of the sides",
        "tps, ours / theirs  0.990  0.990 to 0.990  2  CI reaches 0.98  yes      99 / 100 tps",
        "wall                0.500  none            1  -                -        30 / 60 s",
        "CPU                 7.000  7.000 to 7.000  2  CI <= 6          no       7 / 1 s",
    ]


@pytest.mark.parametrize("capture", ["pgbench15_run_T5_P1_r.txt", "pgbench17_run_T3_connect_C.txt", "pgbench15_err_nodb.txt"])
def test_tps_of_a_report_without_one_is_an_error(capture: str) -> None:
    report = (CAPTURES / capture).read_text("utf-8")
    printed = [line.split()[2] for line in report.splitlines() if line.startswith("tps = ") and "without initial" in line]
    if printed:
        assert [speed.parse_tps(report)] == [float(printed[0])]
    else:
        with pytest.raises(speed.SideFailed, match="no tps"):
            speed.parse_tps(report)


def test_the_toolkit_is_given_all_that_the_bare_side_is_given() -> None:
    asked = {"scale": speed.SCALE, "clients": speed.CLIENTS, "threads": speed.THREADS, "duration": 8, "ramp_up": 0, "seed": speed.SEED}
    connection = {"host": "/run/x", "port": 5433, "user": "u", "dbname": speed.DATABASE}
    (measured,) = pgbench.run_steps(asked, "15.1", connection)
    toolkit = ["/bin/pgbench", *measured["argv"][1:]]
    assert speed.missing_words(speed.bare_argv(CLUSTER, 8), toolkit) == []
    assert speed.missing_words(speed.bare_argv(CLUSTER, 9), toolkit) == ["9"]


def test_the_log_is_one_of_pgbench_and_its_sum_is_known(tmp_path: Path) -> None:
    log = tmp_path / "log"
    total = speed.write_log(log, 1000)
    lines = log.read_bytes().splitlines()
    assert all(_LINE.fullmatch(line) for line in lines)
    assert len(lines) == 1000
    assert sum(int(line.split()[2]) for line in lines) == total
    assert speed.write_log(tmp_path / "again", 1000) == total


def test_both_passes_over_a_log_are_checked(tmp_path: Path) -> None:
    total = speed.write_log(tmp_path / "log", 1000)
    assert speed.digest_pass(tmp_path / "log", 1000, total, tmp_path).peak_bytes > 1e6
    assert speed.mawk_pass(tmp_path / "log", total, tmp_path).wall_s > 0
    with pytest.raises(speed.SideFailed, match="1000 of 1001 lines"):
        speed.digest_pass(tmp_path / "log", 1001, total, tmp_path)
    with pytest.raises(speed.SideFailed, match="instead of"):
        speed.mawk_pass(tmp_path / "log", 2 * total, tmp_path)


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(speed.SideFailed, match=r"status 3:\nout\nbad"):
        speed.run(["sh", "-c", "echo out; echo bad >&2; exit 3"], tmp_path / "output")


def test_an_interrupt_ends_the_command_that_runs(tmp_path: Path, handler: None) -> None:
    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    with pytest.raises(KeyboardInterrupt):
        speed.run(["sh", "-c", f"echo $$; kill -TERM {os.getpid()}; exec sleep 1000"], tmp_path / "output")
    pid = int((tmp_path / "output").read_text("ascii"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def experiment(folder: Path, **changes: Any) -> Path:
    """Write what ``harness`` reads of an experiment with one trial."""
    timing = {"reset_s": 1.0, "restart_s": 2.0, "settle_s": 1.5, "measure_s": 6.5, "measured_s": 5.0, "collect_s": 3.0, "total_s": 14.0}
    trial = {"trial_id": "01-base-r1", "verdict": "valid", "findings": [], "timing": timing, **changes}
    (folder / "trials/01-base-r1").mkdir(parents=True)
    (folder / "trials/01-base-r1/trial.json").write_text(json.dumps(trial), "utf-8")
    events = [
        {"at": 90.0, "stage": "prepare"},
        {"at": 100.0, "trial": "01-base-r1", "step": "begin"},
        {"at": 105.0, "trial": "01-base-r1", "step": "measure"},
        {"at": 115.0, "trial": "01-base-r1", "step": "recorded"},
    ]
    (folder / "progress.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    return folder


def test_overhead_of_a_trial_is_what_is_not_window_reset_restart_or_settling(tmp_path: Path) -> None:
    assert speed.trial_costs(experiment(tmp_path)) == [(15.0 - 9.5, 9.5)]


@pytest.mark.parametrize("changes", [{"verdict": "failed"}, {"verdict": "aborted"}, {"timing": {}}, {"timing": {"measured_s": None}}])
def test_a_trial_that_was_not_measured_is_an_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(speed.SideFailed, match="01-base-r1"):
        speed.trial_costs(experiment(tmp_path, **changes))


class Benchmarks:
    """Stand in for the benchmarks and remember where they worked."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails
        self.work: list[Path] = []

    def __call__(self, work: Path, quick: bool) -> list[speed.Figure]:
        assert work.is_dir()
        self.work.append(work)
        if self.fails:
            raise speed.SideFailed("mawk is not there")
        return [speed.figure("x", "s", [7.0], [1.0], AT_MOST)]


@pytest.mark.parametrize(("fails", "status"), [(True, 1), (False, 0)])
def test_status_is_that_of_the_sides_and_never_of_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], handler: None, fails: bool, status: int
) -> None:
    good, other = Benchmarks(False), Benchmarks(fails)
    monkeypatch.setattr(speed, "BENCHMARKS", {"other": other, "good": good})
    assert speed.main(["--json", str(tmp_path / "out.json")]) == status
    printed = capsys.readouterr()
    assert "7.000" in printed.out
    assert ("other: did not run" in printed.out) is fails
    assert ("mawk is not there" in printed.err) is fails
    written = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert written["failed"] == ["other"] * fails
    assert written["figures"][-1]["values"] == [7.0]
    assert written["figures"][-1]["reached"] is False
    assert not any(work.exists() for work in [*good.work, *other.work])


def test_quick_judges_nothing_and_only_runs_what_was_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], handler: None
) -> None:
    good, other = Benchmarks(False), Benchmarks(False)
    monkeypatch.setattr(speed, "BENCHMARKS", {"other": other, "good": good})
    assert speed.main(["--quick", "--only", "good"]) == 0
    assert (len(good.work), len(other.work)) == (1, 0)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["x", "7.000", "none", "1", "CI", "<=", "6", "-", "7", "/", "1", "s"]
