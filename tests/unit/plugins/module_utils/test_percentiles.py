# GNU General Public License v3.0 or later (see LICENSE)
"""Percentiles of per-transaction logs, against a brute-force sort."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils.percentiles import (
    PERCENTILES,
    Summary,
    Tally,
    count_seconds,
    merge,
    problems,
    rank,
)

C013 = b"""\
0 1 serialization 0 1796030202 118927
1 1 8164 0 1796030202 118936
0 2 1698 0 1796030202 120646
2 3 failed 0 1796030202 128648
3 2 skipped 0 1796030202 139632 0
3 3 3127 0 1796030202 142770
"""


def digest(blocks: list[bytes], columns: int = 6) -> tuple[dict[str, Any], Tally]:
    """Return the figures of all blocks, taken out after each so that there are as many runs."""
    tally, runs = Tally(columns), []
    for block in blocks:
        tally.add(block)
        runs.append(list(tally.entries()))
        tally.forget()
    summary = Summary(sum(tally.counts().values()))
    for latency, _, count in merge(runs):
        summary.add(latency, count)
    return summary.result(), tally


def brute_force(values: list[int]) -> dict[str, Any]:
    ordered = sorted(values)
    n = len(ordered)
    found = {"n": n, "min": ordered[0], "max": ordered[-1], "average": statistics.fmean(values), "stddev": statistics.pstdev(values)}
    for name, (numerator, denominator) in PERCENTILES.items():
        found[name] = ordered[max(1, math.ceil(n * numerator / denominator)) - 1]
    return {name: value if name == "n" else value / 1000 for name, value in found.items()}


@pytest.mark.parametrize("columns", [6, 7])
def test_c013_words_are_counted_and_are_no_latencies(columns: int) -> None:
    figures, tally = digest([C013], columns)
    assert (figures["n"], figures["p50"], figures["min"], figures["max"]) == (3, 3.127, 1.698, 8.164)
    assert tally.words == {("serialization", 0): 1, ("failed", 0): 1, ("skipped", 0): 1}
    assert tally.lines == 6
    assert tally.unprocessed_seconds == {1796030202: 3}
    (problem,) = problems(tally)
    assert problem.startswith({6: "1 lines have 7 columns instead of 6", 7: "5 lines have 6 columns instead of 7"}[columns])


def test_c013_the_options_in_force_decide_the_columns() -> None:
    both = b"0 1 2500 1 1796030202 118927 15 2\n1 1 failed 1 1796030203 18936 7 9\n"
    figures, tally = digest([both], 8)
    assert (figures["n"], figures["p50"], tally.words) == (1, 2.5, {("failed", 1): 1})
    assert problems(tally) == []
    assert tally.seconds == {1796030202: 1, 1796030203: 1}


def test_c013_percentiles_are_those_of_all_threads_together() -> None:
    quick = b"".join(b"0 %d %d 0 1796030202 5\n" % (i, 100) for i in range(97))
    slow = b"1 1 90000 0 1796030202 5\n1 2 80000 0 1796030202 5\n1 3 70000 0 1796030202 5\n"
    figures, _ = digest([quick, slow])
    assert (figures["p50"], figures["p95"], figures["p99"], figures["max"]) == (0.1, 0.1, 80.0, 90.0)


@pytest.mark.parametrize(
    ("n", "fraction", "expected"),
    [(3, (50, 100), 2), (4, (50, 100), 2), (1, (999, 1000), 1), (1000, (999, 1000), 999), (1001, (999, 1000), 1000), (100, (99, 100), 99)],
)
def test_the_nearest_rank(n: int, fraction: tuple[int, int], expected: int) -> None:
    assert rank(n, fraction) == expected


@pytest.mark.parametrize("n", [1, 2, 3, 10, 999, 1000, 1001, 5000])
@pytest.mark.parametrize("scripts", [1, 3])
def test_figures_equal_a_brute_force_sort(n: int, scripts: int) -> None:
    generator = random.Random(n * scripts)
    values = [round(generator.lognormvariate(6.5, 1.2)) for _ in range(n)]
    lines = [b"%d %d %d %d 17960302%02d %d\n" % (i % 4, i, value, i % scripts, i % 60, i % 1000) for i, value in enumerate(values)]
    size = max(1, n // 5)
    figures, tally = digest([b"".join(lines[i : i + size]) for i in range(0, n, size)])
    assert figures == pytest.approx(brute_force(values), rel=1e-12)
    assert {name: figures[name] for name in PERCENTILES} == {name: brute_force(values)[name] for name in PERCENTILES}
    assert (tally.lines, problems(tally)) == (n, [])


def test_runs_keep_the_scripts_apart() -> None:
    tally = Tally(6)
    tally.add(b"0 1 100 0 1796030202 5\n0 2 100 1 1796030202 5\n0 3 100 1 1796030202 5\n")
    first = list(tally.entries())
    tally.forget()
    tally.add(b"0 1 100 1 1796030202 5\n0 2 50 1 1796030202 5\n")
    assert list(merge([first, tally.entries()])) == [(50, 1, 1), (100, 0, 1), (100, 1, 3)]
    assert tally.counts() == {0: 1, 1: 4}


@pytest.mark.parametrize("latency", [0, 1, 1023, 1024, 2**23 - 1, 2**23, 2**23 + 5, 10**10])
def test_a_latency_of_any_size_is_kept_to_the_microsecond(latency: int) -> None:
    figures, tally = digest([b"0 1 %d 0 1796030202 5\n0 2 7 0 1796030202 5\n0 3 %d 0 1796030202 5\n" % (latency, latency)])
    assert (figures["max"], figures["min"]) == (max(7, latency) / 1000, min(7, latency) / 1000)
    assert figures["p50"] == latency / 1000
    assert tally.bytes() == 0


def test_a_block_with_words_among_its_times_is_counted_as_line_by_line() -> None:
    generator = random.Random(3)
    outcomes = ["failed", "skipped", "serialization", "deadlock", *(str(generator.randrange(9_000_000)) for _ in range(20))]
    lines = [f"0 1 {generator.choice(outcomes)} {generator.randrange(3)} 179603020{i % 10} 5\n".encode() for i in range(2000)]
    at_once, one_by_one = Tally(6), Tally(6)
    at_once.add(b"".join(lines))
    one_by_one._add_lines(b"".join(lines))
    for tally in (at_once, one_by_one):
        assert (tally.lines, sum(tally.counts().values()) + sum(tally.words.values())) == (2000, 2000)
    assert list(at_once.entries()) == list(one_by_one.entries())
    assert (at_once.words, at_once.seconds) == (one_by_one.words, one_by_one.seconds)
    assert at_once.unprocessed_seconds == one_by_one.unprocessed_seconds


GOOD = b"0 1 100 0 1796030202 5\n"


@pytest.mark.parametrize(
    ("bad", "unreadable"),
    [
        (b"\n", 1),
        (b"0 1 100 0 1796030202\n", 1),  # a field too few
        (b"0 1 100 0 1796030202\n0 2 200 0 1796030202 5 7\n", 1),  # the fields even out
        (b"0 1 10" + GOOD, 1),  # the rest of a line that could not be written, and the next
        (b"0 1 1e3 0 1796030202 5\n", 1),
        (b"0 1 -5 0 1796030202 5\n", 1),
        (b"0 1 late 0 1796030202 5\n", 1),
        (b"1796030202 590 384354 5000000 100 9000 0 0 0 0 0 0 0 0 0\n", 1),  # an aggregated log, 15 columns
        (b"1796030202 590 384354 5000000 100 9000\n", 1),  # an aggregated log of old, 6 columns
        (b"pgbench: error: client 1 aborted in command 3\n", 1),
    ],
)
def test_a_line_out_of_shape_is_left_out_and_told(bad: bytes, unreadable: int) -> None:
    figures, tally = digest([GOOD * 3 + bad + GOOD * 3])
    assert tally.unreadable == unreadable
    assert figures["n"] == 6 + (bad.count(b"\n") - unreadable)
    assert f"{unreadable} lines are no lines of a per-transaction log" in problems(tally)[-1]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([], {}),
        ([b"1796030202"] * 3, {b"1796030202": 3}),
        ([b"1796030202", b"1796030203", b"1796030202"], {b"1796030202": 2, b"1796030203": 1}),
        ([b"1796030203", b"1796030202"], {b"1796030203": 1, b"1796030202": 1}),
        ([b"1796030202", b"1796030204"], {b"1796030202": 1, b"1796030204": 1}),
        ([b"1796030202", b"5"], {b"1796030202": 1, b"5": 1}),
        ([b"x", b"5"], {b"x": 1, b"5": 1}),
    ],
)
def test_seconds_are_counted_in_whatever_order(seconds: list[bytes], expected: dict[bytes, int]) -> None:
    assert count_seconds(seconds) == expected


def test_no_transaction_has_no_figures() -> None:
    figures, tally = digest([b"3 2 skipped 0 1796030202 139632 0\n"], 7)
    assert figures["n"] == 0
    assert {value for name, value in figures.items() if name != "n"} == {None}
    assert (tally.words, tally.lines) == ({("skipped", 0): 1}, 1)


def test_a_summary_that_was_not_given_all_its_values_refuses() -> None:
    summary = Summary(2)
    summary.add(5, 1)
    with pytest.raises(ValueError, match="1 transactions were given instead of 2"):
        summary.result()


def test_c013_other_failures_of_19_are_failures() -> None:
    tally = Tally(6)
    tally.add(b"0 1 other 0 1796030202 118927\n1 1 8164 0 1796030202 118936\n")
    assert (tally.count("other"), tally.counts(), tally.unreadable) == (1, {0: 1}, 0)
