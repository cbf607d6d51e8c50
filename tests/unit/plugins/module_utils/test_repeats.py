# GNU General Public License v3.0 or later (see LICENSE)
"""What repeats say among each other and beside those of the base; chance alone is seldom found odd."""

from __future__ import annotations

import random

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils.repeats import judge_repeats, judge_start


def repeats(values, reads=None, verdicts=None):
    return [
        {
            "trial_id": f"t{i}",
            "repeat": i,
            "position": 2 * i,
            "value": v,
            "blks_read": reads and reads[i - 1],
            "verdict": verdicts[i - 1] if verdicts else "valid",
        }
        for i, v in enumerate(values, 1)
    ]


def repeat_codes(*args, better="higher", **kwargs):
    return [f["code"] for f in judge_repeats(repeats(*args, **kwargs), better)]


def test_c017_repetitions_disagree():
    spread, cold = judge_repeats(repeats([31900, 43800, 43100]))
    assert (spread["code"], cold["code"]) == ("spread", "cold_first_run")
    assert "CV 16.9 %" in spread["message"]
    assert "is not known" in cold["message"]


def test_c017_with_cache_data_of_the_first_run():
    cold = next(f for f in judge_repeats(repeats([31900, 43800, 43100], [900000, 1200, 1100])) if f["code"] == "cold_first_run")
    assert cold["evidence"]["blks_read"] == 900000
    assert repeat_codes([31900, 43800, 43100], [1000, 1200, 1100]) == ["spread"]  # as warm as the others


def test_c031_a_fall_over_repetitions_is_carry_over():
    trend = next(f for f in judge_repeats(repeats([203e3, 188e3, 176e3, 166e3, 159e3])) if f["code"] == "trend")
    assert trend["evidence"]["change"] == pytest.approx(-0.25)
    assert trend["evidence"]["p"] == pytest.approx(2 / 120)
    assert "not independent" in trend["message"]


def test_c032_cold_and_warm_are_told_apart_by_block_reads():
    assert repeat_codes([21000, 96000], [7.9e6, 3.1e4]) == ["spread", "cold_first_run"]
    assert repeat_codes([21000, 96000]) == ["spread"]  # two values and no reads: nothing says which one is odd


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100, 101, 99, 100, 102], []),
        ([100], []),
        ([], []),
        ([100, 101, 102, 103, 104], []),  # in one direction, but by 4 %
        ([100, 120, 130, 140], ["trend"]),
        ([100, 102, 104, 106], []),
        ([140, 128, 120, 112, 107], ["trend"]),
    ],
)
def test_repeats(values, expected):
    assert repeat_codes(values) == expected


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([100, 101, 99, 75, 100], ["outlier"]),
        ([100, 101, 99, 100, 128], ["outlier"]),
        ([75, 101, 99, 100, 100], ["cold_first_run"]),
        ([100, 104, 97, 88, 101], []),  # within what the others spread
        ([100, 101, 75], ["spread"]),  # of three nobody knows which is odd
        ([100.0, 100.1, 99.9, 95.0, 100.0], []),  # far for them, and 5 % all the same
        ([0, 0, 0, 0], []),
    ],
)
def test_a_repeat_that_lies_apart_is_named(values, codes):
    assert repeat_codes(values) == codes


def test_outliers_by_chance_are_seldom():
    rng = random.Random(7)
    wrong = sum("outlier" in repeat_codes([rng.gauss(100, 12) for _ in range(5)]) for _ in range(1000))
    assert wrong / 1000 <= 0.03


def test_lower_is_better_turns_the_first_run_round():
    assert repeat_codes([50.0, 40.1, 40.0, 40.2], better="lower") == ["cold_first_run"]
    assert repeat_codes([50.0, 40.1, 40.0, 40.2], better="higher") == ["outlier"]


def test_only_usable_trials_count_as_repeats():
    assert repeat_codes([100, 101, 5, 100], verdicts=["valid", "suspect", "aborted", "valid"]) == []
    assert judge_repeats([{"value": None, "verdict": "valid"}]) == []


def test_repeats_by_chance_are_seldom_a_trend():
    rng = random.Random(31)
    for n in (4, 5, 7):
        wrong = sum("trend" in repeat_codes([rng.gauss(100, 5) for _ in range(n)]) for _ in range(500))
        assert wrong / 500 <= 0.025


@pytest.mark.parametrize(
    ("dead", "base_dead", "fires"),
    [(200, 100, True), (110, 100, False), (9, 0, False), (None, 100, False), (0, 100, True), (100, 200, True)],
)
def test_c083_bloat_at_the_start_must_be_alike(dead, base_dead, fires):
    one, other = ([{"dead": d, "live": 900, "verdict": "valid"}] * 3 for d in (dead, base_dead))
    assert [f["code"] for f in judge_start(one, other)] == (["bloat_differs"] if fires else [])
    assert judge_start([], other) == []
