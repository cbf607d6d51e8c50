# GNU General Public License v3.0 or later (see LICENSE)
"""The figures of ``make speed``: ratios, targets, table, and what counts as a side that did not run."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

import ratios
import speed
import toolkit

from ansible_collections.pgsizing.bench.plugins.module_utils.percentiles import _LINE
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench

CAPTURES = ROOT / "tests/fixtures/pgbench/captures"
CLUSTER = {"bin_dir": "/bin", "socket_dir": "/run/x", "port": 5433, "user": "u"}
AT_LEAST, AT_MOST, BETWEEN = ratios.Target(at_least=0.98), ratios.Target(at_most=6), ratios.Target(at_least=0.9, at_most=1.2)


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
        (BETWEEN, 0.9, 1.2, True),
        (BETWEEN, 0.89, 1.0, False),
        (BETWEEN, 1.0, 1.21, False),
    ],
)
def test_target(target: ratios.Target, low: float, high: float, reached: bool) -> None:
    assert target.reached(low, high) is reached


def test_a_figure_is_the_geometric_mean_of_the_ratios_of_pairs() -> None:
    found = ratios.figure("x", "s", [2.0, 9.0, 4.0], [1.0, 3.0, 1.0])
    assert math.isclose(found.ratio, (2 * 3 * 4) ** (1 / 3))
    assert found.n == 3
    assert found.ci_low is not None and found.ci_high is not None
    assert found.ci_low < found.ratio < found.ci_high
    assert (found.target, found.reached) == (None, None)


def test_what_disturbs_both_sides_of_a_pair_does_not_widen_the_interval() -> None:
    found = ratios.figure("x", "tps", [99.0, 990.0, 9.9], [100.0, 1000.0, 10.0], AT_LEAST)
    assert found.ci_low == pytest.approx(0.99) and found.ci_high == pytest.approx(0.99)
    assert found.reached is True


@pytest.mark.parametrize(("value", "reached"), [(6.0, True), (6.5, False)])
def test_a_single_pair_has_no_interval_and_is_judged_by_itself(value: float, reached: bool) -> None:
    found = ratios.figure("x", "s", [value], [1.0], AT_MOST)
    assert (found.ratio, found.n, found.ci_low, found.ci_high, found.reached) == (value, 1, None, None, reached)


def planning(monkeypatch: pytest.MonkeyPatch, printed: str) -> list[list[str]]:
    """Have plans print this, in 2 s, then 3 s."""
    asked: list[list[str]] = []

    def play(arguments: list[str], output: Path) -> ratios.Cost:
        asked.append(arguments)
        output.write_text(printed, "utf-8")
        return ratios.Cost(1.0 + len(asked), 1.0, 1)

    monkeypatch.setattr(toolkit, "play", play)
    return asked


def test_a_plan_is_timed_against_five_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = planning(monkeypatch, "PLAN x\n server r5n.8xlarge\n shared_buffers = 64GB\n budget_usd = 50\n")
    (found,) = toolkit.plan(tmp_path, quick=True)
    assert (found.values, found.base, found.target) == ([2.0, 3.0], [5.0, 5.0], "CI <= 1")
    assert "size=xl" in asked[0] and "--check" in asked[0]
    assert speed.BENCHMARKS["plan"] is toolkit.plan


def test_a_plan_that_is_not_printed_is_no_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planning(monkeypatch, "PLAN x\n server r5n.8xlarge\n budget_usd = 50\n")
    with pytest.raises(ratios.SideFailed, match="the plan does not show shared_buffers = "):
        toolkit.plan(tmp_path, quick=True)


@pytest.mark.parametrize(
    ("values", "base"),
    [([], []), ([1.0], []), ([1.0, 2.0], [1.0]), ([0.0], [1.0]), ([1.0], [0.0]), ([-1.0, 1.0], [1.0, 1.0])],
)
def test_a_side_without_figures_is_an_error(values: list[float], base: list[float]) -> None:
    with pytest.raises(ratios.SideFailed, match="no figure"):
        ratios.figure("x", "s", values, base)


def test_table() -> None:
    figures = [
        ratios.figure("tps, ours / theirs", "tps", [99.0, 99.0], [100.0, 100.0], AT_LEAST),
        ratios.figure("wall", "s", [30.0], [60.0]),
        ratios.figure("CPU", "s", [7.0, 7.0], [1.0, 1.0], AT_MOST),
    ]
    assert ratios.table(figures).splitlines() == [
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
        assert [toolkit.parse_tps(report)] == [float(printed[0])]
    else:
        with pytest.raises(ratios.SideFailed, match="no tps"):
            toolkit.parse_tps(report)


def test_the_toolkit_is_given_all_that_the_bare_side_is_given() -> None:
    asked = {
        "scale": toolkit.SCALE,
        "clients": toolkit.CLIENTS,
        "threads": toolkit.THREADS,
        "duration": 8,
        "ramp_up": 0,
        "seed": toolkit.SEED,
    }
    connection = {"host": "/run/x", "port": 5433, "user": "u", "dbname": toolkit.DATABASE}
    (measured,) = pgbench.run_steps(asked, "15.1", connection)
    ours = ["/bin/pgbench", *measured["argv"][1:]]
    assert toolkit.missing_words(toolkit.bare_argv(CLUSTER, 8), ours) == []
    assert toolkit.missing_words(toolkit.bare_argv(CLUSTER, 9), ours) == ["9"]


def test_the_log_is_one_of_pgbench_and_its_sum_is_known(tmp_path: Path) -> None:
    log = tmp_path / "log"
    total = toolkit.write_log(log, 1000)
    lines = log.read_bytes().splitlines()
    assert all(_LINE.fullmatch(line) for line in lines)
    assert len(lines) == 1000
    assert sum(int(line.split()[2]) for line in lines) == total
    assert toolkit.write_log(tmp_path / "again", 1000) == total


def test_both_passes_over_a_log_are_checked(tmp_path: Path) -> None:
    total = toolkit.write_log(tmp_path / "log", 1000)
    assert toolkit.digest_pass(tmp_path / "log", 1000, total, tmp_path).peak_bytes > 1e6
    assert toolkit.mawk_pass(tmp_path / "log", total, tmp_path).wall_s > 0
    with pytest.raises(ratios.SideFailed, match="1000 of 1001 lines"):
        toolkit.digest_pass(tmp_path / "log", 1001, total, tmp_path)
    with pytest.raises(ratios.SideFailed, match="instead of"):
        toolkit.mawk_pass(tmp_path / "log", 2 * total, tmp_path)


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(ratios.SideFailed, match=r"status 3:\nout\nbad"):
        ratios.run(["sh", "-c", "echo out; echo bad >&2; exit 3"], tmp_path / "output")


INTERRUPTED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import ratios
from pathlib import Path
signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    ratios.run(["sh", "-c", f"echo $$; kill -TERM {os.getpid()}; exec sleep 1000"], Path(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted", signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


def test_an_interrupt_ends_the_command_that_runs(tmp_path: Path) -> None:
    """In a process of its own, which has one thread as the benchmarks have."""
    words = [sys.executable, "-c", INTERRUPTED, str(ROOT / "benchmarks"), str(tmp_path / "output")]
    assert subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout == "interrupted set()\n"
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
    assert toolkit.trial_costs(experiment(tmp_path)) == [(15.0 - 9.5, 9.5)]


@pytest.mark.parametrize("changes", [{"verdict": "failed"}, {"verdict": "aborted"}, {"timing": {}}, {"timing": {"measured_s": None}}])
def test_a_trial_that_was_not_measured_is_an_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ratios.SideFailed, match="01-base-r1"):
        toolkit.trial_costs(experiment(tmp_path, **changes))


class Benchmarks:
    """Stand in for the benchmarks and remember where they worked."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails
        self.work: list[Path] = []

    def __call__(self, work: Path, quick: bool) -> list[ratios.Figure]:
        assert work.is_dir()
        self.work.append(work)
        if self.fails:
            raise ratios.SideFailed("mawk is not there")
        return [ratios.figure("x", "s", [7.0], [1.0], AT_MOST)]


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


def test_what_is_not_here_is_left_out_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], handler: None
) -> None:
    monkeypatch.delenv("HAMMERDB_HOME", raising=False)
    assert speed.main(["--only", "calibration"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "calibration: left out, HAMMERDB_HOME names no HammerDB"


def test_quick_judges_nothing_and_only_runs_what_was_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], handler: None
) -> None:
    good, other = Benchmarks(False), Benchmarks(False)
    monkeypatch.setattr(speed, "BENCHMARKS", {"other": other, "good": good})
    assert speed.main(["--quick", "--only", "good"]) == 0
    assert (len(good.work), len(other.work)) == (1, 0)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["x", "7.000", "none", "1", "CI", "<=", "6", "-", "7", "/", "1", "s"]
