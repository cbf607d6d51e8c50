# GNU General Public License v3.0 or later (see LICENSE)
"""Statistics against scipy as the independent implementation, and the promises of DESIGN 4.7."""

from __future__ import annotations

import math
import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from ansible_collections.pgsizing.bench.plugins.module_utils import stats


def for_all(*strategies, examples=60):
    """Draw examples, the same ones in every run, without a time limit for each."""
    return lambda test: settings(deadline=None, derandomize=True, database=None, max_examples=examples)(given(*strategies)(test))


positive = st.floats(min_value=1e-3, max_value=1e6)
few_values = st.integers(min_value=0, max_value=6).map(float)  # many ties


@for_all(st.lists(positive, min_size=2, max_size=40))
def test_location_and_spread(values):
    assert stats.mean(values) == pytest.approx(numpy.mean(values), rel=1e-12)
    assert stats.stdev(values) == pytest.approx(numpy.std(values, ddof=1), rel=1e-9, abs=1e-12)
    assert stats.cv(values) == pytest.approx(scipy_stats.variation(values, ddof=1), rel=1e-9, abs=1e-12)
    assert stats.summary(values)["median"] == numpy.median(values)


@for_all(st.floats(min_value=1e-4, max_value=1 - 1e-4), st.floats(min_value=0.5, max_value=1e6))
def test_t_quantile(p, df):
    assert stats.t_quantile(p, df) == pytest.approx(scipy_stats.t.ppf(p, df), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("df", [1, 1.5, 2, 3, 4.7, 8, 30, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("t", [0.0, 1e-6, 0.1, 1.0, 2.776, 12.7, 100.0])
def test_t_tail(t, df):
    assert stats.t_tail(t, df) == pytest.approx(scipy_stats.t.sf(t, df), rel=1e-8, abs=1e-15)


@pytest.mark.parametrize(("p", "df"), [(0, 3), (1, 3), (0.5, 0), (0.5, -1)])
def test_t_quantile_refuses(p, df):
    with pytest.raises(ValueError, match="no t quantile"):
        stats.t_quantile(p, df)


@for_all(st.lists(positive, min_size=2, max_size=9))
def test_interval_below_ten_is_t_on_logs(values):
    found = stats.summary(values)
    logs = numpy.log(values)
    low, high = numpy.exp(
        scipy_stats.t.interval(0.95, len(values) - 1, loc=logs.mean(), scale=max(scipy_stats.sem(logs), 1e-300))  # equal values: no width
    )
    assert found["ci_method"] == "t interval on logs"
    assert (found["ci_low"], found["ci_high"]) == (pytest.approx(low, rel=1e-7), pytest.approx(high, rel=1e-7))
    assert found["location"] == pytest.approx(scipy_stats.gmean(values), rel=1e-9)


@pytest.mark.parametrize("n", [10, 12, 30])
def test_interval_from_ten_is_a_bootstrap(n):
    values = numpy.random.default_rng(n).lognormal(7, 0.1, n)
    found = stats.summary(list(values))
    independent = scipy_stats.bootstrap((numpy.log(values),), numpy.mean, n_resamples=9999, rng=1, method="percentile").confidence_interval
    assert found["ci_method"] == "bootstrap on logs"
    # Ours is wider by a known factor: the t quantile and n - 1 in place of the normal one and n.
    wider = scipy_stats.t.ppf(0.975, n - 1) / scipy_stats.norm.ppf(0.975) * math.sqrt(n / (n - 1))
    width = math.log(found["ci_high"] / found["ci_low"])
    assert width == pytest.approx(wider * (independent.high - independent.low), rel=0.06)
    assert found == stats.summary(list(values))  # seeded


@pytest.mark.parametrize("n", [3, 5, 10, 15])
def test_intervals_cover_the_truth(n, monkeypatch):
    monkeypatch.setattr(stats, "RESAMPLES", 999)
    rng = random.Random(n)
    hits = 0
    for _ in range(400):
        found = stats.summary([rng.lognormvariate(5, 0.2) for _ in range(n)])
        hits += found["ci_low"] <= math.exp(5) <= found["ci_high"]
    assert 0.92 <= hits / 400 <= 0.98


def test_a_single_value_has_no_spread():
    found = stats.summary([132.559344])
    assert (found["n"], found["median"], found["location"]) == (1, 132.559344, 132.559344)
    assert (found["cv"], found["ci_low"], found["ci_high"]) == (None, None, None)
    assert (found["spread_text"], found["ci_method"]) == ("spread: none (n=1)", "none (n=1)")


def test_no_value_and_missing_values():
    assert stats.summary([])["median"] is None
    assert stats.summary([None, 5.0, None])["n"] == 1
    with pytest.raises(ValueError, match="finite"):
        stats.summary([1.0, math.nan])


@pytest.mark.parametrize("values", [[0.0, 1.0, 2.0], [-1.0, 1.0, 3.0]])
def test_no_logs_of_zero_or_below(values):
    found = stats.summary(values)
    low, high = scipy_stats.t.interval(0.95, 2, loc=numpy.mean(values), scale=scipy_stats.sem(values))
    assert (found["ci_low"], found["ci_high"]) == (pytest.approx(low), pytest.approx(high))
    assert found["ci_method"] == "t interval (values of zero or below: no logs)"
    assert found["location_name"] == "mean"


def test_mean_zero_has_no_cv():
    assert stats.summary([0.0, 0.0])["spread_text"] == "CV undefined (mean 0)"


def test_equal_values_have_an_interval_of_no_width():
    assert stats.summary([7.0] * 4)["ci_low"] == pytest.approx(7.0)
    assert stats.summary([7.0] * 12)["ci_high"] == pytest.approx(7.0)


def test_c017_repetitions_disagree():
    found = stats.summary([31900, 43800, 43100])
    assert (found["n"], found["median"], found["min"], found["max"]) == (3, 43100, 31900, 43800)
    assert found["spread_text"] == "CV 16.9 %"
    assert found["mean"] == pytest.approx(39600)


# rank tests ----------------------------------------------------------------------------------------------------------


@for_all(st.lists(few_values, min_size=1, max_size=30))
def test_ranks(values):
    assert stats.ranks(values) == list(scipy_stats.rankdata(values))


@for_all(st.lists(positive, min_size=1, max_size=8, unique=True), st.lists(positive, min_size=1, max_size=8, unique=True))
def test_mann_whitney_exact(a, b):
    if set(a) & set(b):
        return
    expected = scipy_stats.mannwhitneyu(a, b, method="exact")
    found = stats.mann_whitney(a, b)
    assert found["u"] == expected.statistic
    assert found["p"] == pytest.approx(expected.pvalue, rel=1e-9)


@for_all(st.lists(few_values, min_size=2, max_size=5), st.lists(few_values, min_size=2, max_size=5), examples=40)
def test_mann_whitney_exact_with_ties(a, b):
    def u_statistic(x, y, axis=-1):
        return scipy_stats.mannwhitneyu(x, y, axis=axis, method="asymptotic").statistic

    expected = scipy_stats.permutation_test((a, b), u_statistic, n_resamples=numpy.inf, vectorized=True)
    assert stats.mann_whitney(a, b)["p"] == pytest.approx(expected.pvalue, rel=1e-9)


@for_all(st.lists(few_values, min_size=21, max_size=30), st.lists(few_values, min_size=21, max_size=30))
def test_mann_whitney_large(a, b):
    if len(set(a + b)) == 1:
        assert stats.mann_whitney(a, b)["p"] == 1.0
        return
    expected = scipy_stats.mannwhitneyu(a, b, method="asymptotic", use_continuity=True)
    assert stats.mann_whitney(a, b)["p"] == pytest.approx(expected.pvalue, rel=1e-9)


def test_mann_whitney_needs_values():
    with pytest.raises(ValueError, match="both sides"):
        stats.mann_whitney([], [1.0])


@for_all(st.lists(positive, min_size=2, max_size=9, unique=True))
def test_kendall(values):
    expected = scipy_stats.kendalltau(range(len(values)), values, method="exact")
    found = stats.kendall(values)
    assert found["p"] == pytest.approx(expected.pvalue, rel=1e-9)
    assert found["s"] / (len(values) * (len(values) - 1) / 2) == pytest.approx(expected.statistic, abs=1e-9)


@for_all(st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=20))
def test_holm(p_values):
    adjusted = stats.holm(p_values)
    m = len(p_values)
    for p, a in zip(p_values, adjusted, strict=True):
        # by definition: the largest of (m - rank + 1) p over all p up to this one
        smaller = sorted(q for q in p_values if q <= p)
        assert a == pytest.approx(min(1.0, max((m - k) * q for k, q in enumerate(smaller))))


def test_holm_example():
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_smallest_p_is_attained():
    for n_a, n_b in ((3, 3), (4, 4), (5, 3), (6, 6)):
        p = stats.mann_whitney(list(range(n_a)), list(range(100, 100 + n_b)))["p"]
        assert p == pytest.approx(stats.smallest_p(n_a, n_b))
    assert stats.smallest_p(0, 5) == 1.0


@pytest.mark.parametrize(("comparisons", "needed"), [(0, 1), (1, 4), (2, 5), (3, 5), (6, 5), (7, 6), (17, 6), (23, 6), (24, 7)])
def test_repeats_needed(comparisons, needed):
    assert stats.repeats_needed(comparisons) == needed


# ratio and comparison ------------------------------------------------------------------------------------------------


@for_all(st.lists(positive, min_size=2, max_size=9), st.lists(positive, min_size=2, max_size=9))
def test_ratio_is_welch_on_logs(a, b):
    found = stats.ratio(a, b)
    log_a, log_b = numpy.log(a), numpy.log(b)
    assert found["ratio"] == pytest.approx(math.exp(log_a.mean() - log_b.mean()), rel=1e-9)
    if log_a.std() + log_b.std() > 1e-3:
        interval = scipy_stats.ttest_ind(log_a, log_b, equal_var=False).confidence_interval(0.95)
        assert math.log(found["ci_low"]) == pytest.approx(interval.low, rel=1e-6, abs=1e-7)
        assert math.log(found["ci_high"]) == pytest.approx(interval.high, rel=1e-6, abs=1e-7)


def test_ratio_by_bootstrap():
    rng = random.Random(3)
    a, b = [rng.lognormvariate(0.1, 0.1) for _ in range(20)], [rng.lognormvariate(0, 0.1) for _ in range(20)]
    found = stats.ratio(a, b)
    interval = scipy_stats.ttest_ind(numpy.log(a), numpy.log(b), equal_var=False).confidence_interval(0.95)
    assert found["ci_method"] == "bootstrap on logs"
    assert found["ci_low"] == pytest.approx(math.exp(interval.low), rel=0.01)
    assert found["ci_high"] == pytest.approx(math.exp(interval.high), rel=0.01)


@pytest.mark.parametrize(
    ("a", "b", "expected", "method"),
    [
        ([2.0], [1.0], 2.0, "none (n=1)"),
        ([0.0, 2.0], [1.0, 1.0], 1.0, "none (values of zero or below: ratio of means)"),
        ([1.0, 2.0], [0.0, 0.0], None, "none (values of zero or below: ratio of means)"),
        ([], [1.0], None, "none (no values)"),
    ],
)
def test_ratio_without_interval(a, b, expected, method):
    assert stats.ratio(a, b) == {"ratio": expected, "ci_low": None, "ci_high": None, "ci_method": method}


BASE = [100.0, 101.0, 99.0, 100.5, 99.5]


@pytest.mark.parametrize(
    ("other", "better", "conclusion"),
    [
        ([120.0, 121.0, 119.0, 118.0, 122.0], "higher", "faster"),
        ([120.0, 121.0, 119.0, 118.0, 122.0], "lower", "slower"),
        ([80.0, 81.0, 79.0, 82.0, 78.0], "higher", "slower"),
        ([80.0, 81.0, 79.0, 82.0, 78.0], "lower", "faster"),
        ([100.2, 99.8, 101.5, 98.0, 100.1], "higher", "no difference shown"),
        ([120.0, 121.0], "higher", "too few repeats"),
        ([], "higher", "too few repeats"),
        # ranks say larger, the mean says smaller: nothing that could be named
        ([101.5, 102.0, 102.5, 101.2, 101.1, 102.2, 0.001], "higher", "no difference shown"),
    ],
)
def test_conclusions(other, better, conclusion):
    (found,) = stats.compare_all({"a": BASE, "b": other}, "a", better)
    assert (found["variant"], found["base"], found["conclusion"], found["repeats_needed"]) == ("b", "a", conclusion, 4)


def test_comparisons_share_their_alpha():
    values = {"base": BASE, **{f"v{i}": [v * 1.2 for v in BASE] for i in range(7)}}
    found = stats.compare_all(values, "base")
    assert {c["conclusion"] for c in found} == {"too few repeats"}
    assert {c["repeats_needed"] for c in found} == {6}
    found = stats.compare_all({name: values[name] for name in ("base", "v0", "v1")}, "base")
    assert {c["conclusion"] for c in found} == {"faster"}
    assert found[0]["p_adjusted"] == pytest.approx(2 * found[0]["p"])


def test_false_conclusions_stay_under_alpha():
    rng = random.Random(4)
    wrong = 0
    for _ in range(300):
        values = {name: [rng.gauss(100, 10) for _ in range(5)] for name in "abc"}
        wrong += any(c["conclusion"] in ("faster", "slower") for c in stats.compare_all(values, "a"))
    assert wrong / 300 <= 0.05


def test_better_is_checked():
    with pytest.raises(ValueError, match="better"):
        stats.compare_all({"a": BASE}, "a", better="up")


def test_c095_one_run_each_is_no_evidence():
    (found,) = stats.compare_all({"128MB": [132.559344], "1GB": [209.944478]}, "128MB")
    assert found["conclusion"] == "too few repeats"
    assert found["ratio"] == pytest.approx(1.5838, abs=1e-4)
    assert (found["ci_low"], found["repeats_needed"]) == (None, 4)


# series and order ----------------------------------------------------------------------------------------------------


def test_trend_without_memory_is_spearman():
    rng = random.Random(1)
    values = [i + rng.gauss(0, 20) for i in range(60)]
    found = stats.trend(values)
    assert found["rho"] == pytest.approx(scipy_stats.spearmanr(range(60), values).statistic)
    assert found["p"] < 1e-6


def test_trend_counts_a_series_with_memory_as_shorter():
    rng = random.Random(2)
    series, value = [], 0.0
    for _ in range(100):
        value = 0.8 * value + rng.gauss(0, 1)
        series.append(value)
    assert stats.trend(series)["n_effective"] < 40
    rng.shuffle(series)
    assert stats.trend(series)["n_effective"] > 70


@pytest.mark.parametrize(("values", "p"), [([5.0] * 20, 1.0), ([1.0, 2.0], 1.0), ([float(i) for i in range(20)], 0.0)])
def test_trend_at_its_ends(values, p):
    assert stats.trend(values)["p"] == p


def test_step():
    found = stats.step([10.0] * 22 + [4.0] * 38, 5)
    assert found == {"index": 22, "before": 10.0, "after": 4.0, "separation": 1.0}
    assert stats.step([1.0] * 5, 3) is None


@for_all(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True), st.integers(1, 9), st.integers(0, 5))
def test_order_holds_every_trial_once_in_mirrored_blocks(variants, repeats, seed):
    trials = stats.order(variants, repeats, seed)
    assert sorted(trials) == sorted((v, r) for v in variants for r in range(1, repeats + 1))
    assert trials == stats.order(variants, repeats, seed)
    k = len(variants)
    for start in range(0, len(trials) - 2 * k + 1, 2 * k):
        block = [v for v, _ in trials[start : start + 2 * k]]
        assert block == block[::-1]


def test_order_of_two_is_a_b_b_a():
    assert "".join(v for v, _ in stats.order(["A", "B"], 5)) == "ABBAABBAAB"
    assert [r for _, r in stats.order(["A", "B"], 3)] == [1, 1, 2, 2, 3, 3]


def test_order_of_more_depends_on_the_seed():
    names = list("abcdef")
    assert len({tuple(stats.order(names, 2, seed)) for seed in range(5)}) == 5


def test_an_interval_beyond_all_numbers_ends_at_the_largest() -> None:
    assert math.isfinite(stats.summary([1e-300, 1.0])["ci_high"])
    assert math.isfinite(stats.ratio([1e-300, 1e300], [1.0, 1e300])["ci_high"])
