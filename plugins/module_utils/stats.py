# GNU General Public License v3.0 or later (see LICENSE)
"""Statistics of repeats and of series: location with confidence interval, rank tests, comparisons, order of trials.

Standard library only. Every random choice is seeded: the same values give the same figures. The location of a sample
is its geometric mean (rates and latencies are positive and their errors are relative), so that the interval of a
variant and the ratio of two variants speak of the same thing at every n. See ``docs/statistics.md``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import mul
from statistics import NormalDist, median
from typing import Any

ALPHA = 0.05
#: From this n on intervals come from the bootstrap, below it from the t distribution (DESIGN 4.7).
BOOTSTRAP_N = 10
RESAMPLES = 9999
#: Up to this many values in both samples together the rank test is exact.
EXACT_N = 40
NORMAL = NormalDist()


def _exp(power: float) -> float:
    """Return e to ``power``, at most the largest number there is: the bound of an interval may lie beyond it."""
    return math.exp(min(power, 709.0))


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean. ``ZeroDivisionError`` without values."""
    return math.fsum(values) / len(values)


def stdev(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1). ``ZeroDivisionError`` below two values."""
    centre = mean(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))


def cv(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation (sample standard deviation / mean); ``None`` below two values or at mean 0."""
    if len(values) < 2 or mean(values) == 0:
        return None
    return stdev(values) / abs(mean(values))


# Student's t -------------------------------------------------------------------------------------------------------


def _beta_regularised(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) by its continued fraction (modified Lentz)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast only below this point
        return 1.0 - _beta_regularised(1.0 - x, b, a)
    tiny = 1e-300
    front = _exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1) or tiny)
    fraction = d
    for m in range(1, 20000):
        for term in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1.0 / (1.0 + term * d or tiny)
            c = 1.0 + term / c or tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return front * fraction


def t_tail(t: float, df: float) -> float:
    """Return P(T > |t|) of Student's t with ``df`` degrees of freedom (fractions allowed)."""
    if df > 1e5:  # Abramowitz and Stegun 26.7.8, good to 1/df squared; the gamma functions lose digits up there
        return 0.5 * math.erfc(abs(t) * (1 - 1 / (4 * df)) / math.sqrt(1 + t * t / (2 * df)) / math.sqrt(2))
    square = t * t
    if square < df:  # the complement keeps its digits here
        return 0.5 - 0.5 * _beta_regularised(square / (df + square), 0.5, df / 2)
    return 0.5 * _beta_regularised(df / (df + square), df / 2, 0.5)


@lru_cache(maxsize=256)
def t_quantile(p: float, df: float) -> float:
    """Return the ``p`` quantile of Student's t with ``df`` degrees of freedom. ``ValueError`` outside 0 < p < 1, df > 0."""
    if not (0 < p < 1 and df > 0):
        raise ValueError(f"no t quantile for p={p}, df={df}")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    tail = 1 - p
    low, high = 0.0, 1.0
    while t_tail(high, df) > tail:
        low, high = high, high * 2
    while True:  # bisection down to neighbouring floats: slow and without surprises
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if t_tail(middle, df) > tail:
            low = middle
        else:
            high = middle


# Location and its interval -----------------------------------------------------------------------------------------


def _error(samples: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return the standard error of a sum or difference of means, its degrees of freedom (Welch), and the plug-in error."""
    parts = [(stdev(s) ** 2 / len(s), len(s)) for s in samples]
    square = math.fsum(part for part, _ in parts)
    below = math.fsum(part**2 / (n - 1) for part, n in parts)
    plug_in = math.fsum(part * (n - 1) / n for part, n in parts)
    return math.sqrt(square), square**2 / below if below else 1.0, math.sqrt(plug_in)


def _bootstrap(samples: Sequence[Sequence[float]], level: float, seed: int) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of the first sample, less the mean of a second one.

    The percentiles are moved out as far as the t distribution is wider than the normal one (Hesterberg 2015,
    Am. Stat. 69:4, "expanded percentile"): the plain ones cover only 90 % instead of 95 % at n = 10.
    """
    error, df, plug_in = _error(samples)
    if plug_in == 0:
        centre = mean(samples[0]) - sum(mean(s) for s in samples[1:])
        return centre, centre
    rng = random.Random(seed)
    draws = []
    for _ in range(RESAMPLES):
        first, *rest = (sum(rng.choices(s, k=len(s))) / len(s) for s in samples)
        draws.append(first - sum(rest))
    draws.sort()
    share = NORMAL.cdf(-t_quantile(0.5 + level / 2, df) * error / plug_in)
    place = max(0, round(share * (RESAMPLES + 1)) - 1)
    return draws[place], draws[-1 - place]


def _checked(values: Sequence[float | None]) -> list[float]:
    """Return the values that are there. ``ValueError`` for NaN or infinity: they would spoil every figure silently."""
    present = [float(v) for v in values if v is not None]
    if not all(math.isfinite(v) for v in present):
        raise ValueError("statistics need finite values")
    return present


def summary(values: Sequence[float | None], level: float = 0.95, seed: int = 0) -> dict[str, Any]:
    """Return the figures of one sample; missing (``None``) values are left out, NaN and infinity raise ``ValueError``.

    ``{n, median, mean, location, location_name, min, max, cv, ci_low, ci_high, ci_method, spread_text}`` in the unit of
    the values; ``cv`` is a fraction. The interval is that of ``location``: the geometric mean, or the mean when
    a value is zero or below (``ci_method`` says so). Figures that n does not allow are ``None``.
    """
    data = _checked(values)
    n = len(data)
    result: dict[str, Any] = dict.fromkeys(("median", "mean", "location", "location_name", "min", "max", "cv", "ci_low", "ci_high"))
    if n == 0:
        return {"n": 0, **result, "ci_method": "none (n=0)", "spread_text": "spread: none (n=0)"}
    positive = min(data) > 0
    logs = [math.log(v) for v in data] if positive else data
    back: Callable[[float], float] = _exp if positive else float
    result |= {"median": float(median(data)), "mean": mean(data), "min": min(data), "max": max(data), "cv": cv(data)}
    result |= {"location": back(mean(logs)), "location_name": "geometric mean" if positive else "mean"}
    if n == 1:
        return {"n": 1, **result, "location": data[0], "ci_method": "none (n=1)", "spread_text": "spread: none (n=1)"}
    if n < BOOTSTRAP_N:
        error, df, _ = _error([logs])
        half = t_quantile(0.5 + level / 2, df) * error
        low, high = mean(logs) - half, mean(logs) + half
        method = "t interval on logs" if positive else "t interval (values of zero or below: no logs)"
    else:
        low, high = _bootstrap([logs], level, seed)
        method = "bootstrap on logs" if positive else "bootstrap (values of zero or below: no logs)"
    spread = f"CV {100 * result['cv']:.1f} %" if result["cv"] is not None else "CV undefined (mean 0)"
    return {"n": n, **result, "ci_low": back(low), "ci_high": back(high), "ci_method": method, "spread_text": spread}


def ratio(values: Sequence[float | None], base: Sequence[float | None], level: float = 0.95, seed: int = 0) -> dict[str, Any]:
    """Return ``{ratio, ci_low, ci_high, ci_method}`` of ``values`` to ``base``: geometric means, Welch's t on their logs.

    From ``BOOTSTRAP_N`` values on both sides the interval comes from the bootstrap. Where logs do not exist the ratio is
    that of the means, without interval. ``None`` where a figure cannot be had.
    """
    a, b = _checked(values), _checked(base)
    result: dict[str, Any] = {"ratio": None, "ci_low": None, "ci_high": None}
    if not a or not b:
        return {**result, "ci_method": "none (no values)"}
    if min(a) <= 0 or min(b) <= 0:
        result["ratio"] = mean(a) / mean(b) if mean(b) else None
        return {**result, "ci_method": "none (values of zero or below: ratio of means)"}
    log_a, log_b = [math.log(v) for v in a], [math.log(v) for v in b]
    difference = mean(log_a) - mean(log_b)
    result["ratio"] = _exp(difference)
    if min(len(a), len(b)) < 2:
        return {**result, "ci_method": "none (n=1)"}
    if min(len(a), len(b)) < BOOTSTRAP_N:
        error, df, _ = _error([log_a, log_b])
        half = t_quantile(0.5 + level / 2, df) * error
        low, high, method = difference - half, difference + half, "Welch t interval on logs"
    else:
        low, high = _bootstrap([log_a, log_b], level, seed)
        method = "bootstrap on logs"
    return {**result, "ci_low": _exp(low), "ci_high": _exp(high), "ci_method": method}


# Rank tests --------------------------------------------------------------------------------------------------------


def ranks(values: Sequence[float]) -> list[float]:
    """Return the ranks from 1; equal values share the mean of their ranks."""
    result = [0.0] * len(values)
    position = 0
    for _, same in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        group = list(same)
        for index in group:
            result[index] = position + (len(group) + 1) / 2
        position += len(group)
    return result


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> dict[str, float]:
    """Return ``{u, p}`` of the two-sided Mann-Whitney test; ``u`` counts the pairs in which ``a`` is larger (ties half).

    Exact up to ``EXACT_N`` values, ties included (the distribution of the rank sum over all divisions of the pooled
    ranks; p is twice the smaller tail); above that the normal approximation with tie and continuity correction.
    ``ValueError`` when a sample is empty.
    """
    n_a, n_b = len(a), len(b)
    if not n_a or not n_b:
        raise ValueError("the rank test needs values on both sides")
    n = n_a + n_b
    pooled = ranks([*a, *b])
    u = math.fsum(pooled[:n_a]) - n_a * (n_a + 1) / 2
    if n <= EXACT_N:
        doubled = [round(2 * r) for r in pooled]  # midranks are halves
        k = min(n_a, n_b)
        observed = sum(doubled[:n_a] if n_a <= n_b else doubled[n_a:])
        ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(k)]
        for rank in doubled:
            for size in range(k - 1, -1, -1):
                larger = ways[size + 1]
                for total, count in ways[size].items():
                    larger[total + rank] = larger.get(total + rank, 0) + count
        low = sum(count for total, count in ways[k].items() if total <= observed)
        high = sum(count for total, count in ways[k].items() if total >= observed)
        return {"u": u, "p": min(1.0, 2 * min(low, high) / math.comb(n, k))}
    ties = sum(c**3 - c for c in (len(list(g)) for _, g in groupby(sorted(pooled))))
    sigma = math.sqrt(n_a * n_b / 12 * (n + 1 - ties / (n * (n - 1))))
    z = (abs(u - n_a * n_b / 2) - 0.5) / sigma if sigma else 0.0
    return {"u": u, "p": min(1.0, math.erfc(z / math.sqrt(2)))}


def kendall(values: Sequence[float]) -> dict[str, float]:
    """Return ``{s, p}`` of the two-sided Mann-Kendall test against "no order": ``s`` = rising pairs minus falling pairs.

    The distribution is the exact one without ties; with ties that errs on the safe side.
    """
    n = len(values)
    s = sum((values[j] > values[i]) - (values[j] < values[i]) for i in range(n) for j in range(i + 1, n))
    ways = [1]  # ways[k]: orders of the first i values with k falling pairs
    for i in range(2, n + 1):
        ways = [sum(ways[max(0, k - i + 1) : k + 1]) for k in range(len(ways) + i - 1)]
    falling_at_most = (n * (n - 1) // 2 - abs(s)) // 2
    return {"s": s, "p": min(1.0, 2 * sum(ways[: falling_at_most + 1]) / math.factorial(n))}


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted for their number by Holm's step-down method, in the order given."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - step) * p_values[index]))
        adjusted[index] = running
    return adjusted


def smallest_p(n_a: int, n_b: int) -> float:
    """Return the smallest two-sided p that the exact rank test can reach with ``n_a`` and ``n_b`` values; 1.0 without values."""
    return min(1.0, 2 / math.comb(n_a + n_b, n_a)) if n_a and n_b else 1.0


def repeats_needed(comparisons: int, alpha: float = ALPHA) -> int:
    """Return the repeats per variant from which each of ``comparisons`` can become significant under Holm's correction."""
    n = 1
    while comparisons > 0 and comparisons * smallest_p(n, n) > alpha:
        n += 1
    return n


# Series ------------------------------------------------------------------------------------------------------------


def trend(values: Sequence[float]) -> dict[str, float]:
    """Return ``{rho, p, n_effective}``: Spearman's rank correlation with time, tested with the effective sample size.

    A series that remembers its past carries less information than its length says. The lag-1 autocorrelation of the
    detrended ranks, corrected for its bias in short series, gives n_effective = n (1 - r) / (1 + r) (Santer et al. 2000,
    J. Geophys. Res. 105 D6); ``p`` is 1 where that leaves nothing to test with.
    """
    n = len(values)
    if n < 4 or min(values) == max(values):
        return {"rho": 0.0, "p": 1.0, "n_effective": float(n)}
    centre = (n + 1) / 2
    y = [r - centre for r in ranks(values)]
    x = [i + 1 - centre for i in range(n)]
    xx, xy, yy = (math.fsum(map(mul, u, v)) for u, v in ((x, x), (x, y), (y, y)))
    rho = max(-1.0, min(1.0, xy / math.sqrt(xx * yy)))
    residuals = [y[i] - xy / xx * x[i] for i in range(n)]
    power = math.fsum(r * r for r in residuals)
    if power <= 1e-9 * yy:  # a straight line
        return {"rho": rho, "p": 0.0, "n_effective": float(n)}
    memory = math.fsum(map(mul, residuals, residuals[1:])) / power
    memory = min(0.999, max(0.0, memory + (1 + 4 * memory) / n))
    effective = n * (1 - memory) / (1 + memory)
    if effective <= 3:
        return {"rho": rho, "p": 1.0, "n_effective": effective}
    t = rho * math.sqrt((effective - 2) / max(1e-12, 1 - rho * rho))
    return {"rho": rho, "p": 2 * t_tail(t, effective - 2), "n_effective": effective}


def step(values: Sequence[float], shortest: int) -> dict[str, float] | None:
    """Return the best division of a series into two levels, or ``None`` when it is too short for two parts.

    ``{index, before, after, separation}``: ``index`` of the first value of the second part (least squares), the means
    of the parts, each at least ``shortest`` long, and the share of pairs across the step that agree in its direction.
    """
    n = len(values)
    if shortest < 1 or n < 2 * shortest:
        return None
    total, head = math.fsum(values), math.fsum(values[:shortest])
    best, index = -1.0, shortest
    for i in range(shortest, n - shortest + 1):
        gain = head * head / i + (total - head) ** 2 / (n - i)
        if gain > best:
            best, index = gain, i
        if i < n:
            head += values[i]
    before, after = values[:index], values[index:]
    pooled = ranks(values)
    larger = math.fsum(pooled[:index]) - index * (index + 1) / 2
    share = larger / (index * (n - index))
    return {"index": index, "before": mean(before), "after": mean(after), "separation": max(share, 1 - share)}


# Trials ------------------------------------------------------------------------------------------------------------


def order(variants: Sequence[str], repeats: int, seed: int = 0) -> list[tuple[str, int]]:
    """Return the trials as ``(variant, repeat)``, repeats counted from 1, in the order in which they are run.

    Blocks A B B A cancel a steady drift of the machine. Two variants keep their order; more are shuffled anew for each
    block (seeded), forward, then reversed. An odd last repeat is half a block.
    """
    rng = random.Random(seed)
    trials: list[tuple[str, int]] = []
    for first in range(1, repeats + 1, 2):
        block = list(variants)
        if len(block) > 2:
            rng.shuffle(block)
        trials += [(variant, first) for variant in block]
        if first < repeats:
            trials += [(variant, first + 1) for variant in reversed(block)]
    return trials


def compare_all(
    values: dict[str, Sequence[float | None]], base: str, better: str = "higher", alpha: float = ALPHA, seed: int = 0
) -> list[dict[str, Any]]:
    """Compare each variant with ``base`` by the rank test, with Holm's correction over all of them.

    ``values`` holds the headline figures of the usable trials by variant, ``better`` is ``higher`` or ``lower``.
    Returns one ``{variant, base, n, n_base, ratio, ci_low, ci_high, ci_method, p, p_adjusted, conclusion, repeats_needed}`` per variant.
    ``conclusion`` is ``faster``, ``slower`` (better or worse than the base, whichever way the metric counts),
    ``no difference shown``, or ``too few repeats`` where the smallest adjusted p that these n can reach exceeds ``alpha``.
    """
    if better not in ("higher", "lower"):
        raise ValueError(f"better is 'higher' or 'lower', not {better!r}")
    samples = {name: _checked(v) for name, v in values.items()}
    others = [name for name in samples if name != base]
    base_values = samples.get(base, [])
    tests = [mann_whitney(samples[o], base_values) if samples[o] and base_values else None for o in others]
    # An n too small for its test still counts as a comparison that was planned.
    adjusted = holm([t["p"] if t else 1.0 for t in tests])
    attainable = holm([smallest_p(len(samples[o]), len(base_values)) for o in others])
    results = []
    for i, name in enumerate(others):
        test = tests[i]
        figures = ratio(samples[name], base_values, seed=seed)
        conclusion = "no difference shown"
        if attainable[i] > alpha or test is None:
            conclusion = "too few repeats"
        elif adjusted[i] <= alpha:
            above = test["u"] > len(samples[name]) * len(base_values) / 2
            # Ranks and means that point in different directions show no difference that could be named.
            if figures["ratio"] is None or (figures["ratio"] > 1) == above:
                conclusion = "faster" if above == (better == "higher") else "slower"
        results.append(
            {
                "variant": name,
                "base": base,
                "n": len(samples[name]),
                "n_base": len(base_values),
                **figures,
                "p": test["p"] if test else None,
                "p_adjusted": adjusted[i] if test else None,
                "conclusion": conclusion,
                "repeats_needed": repeats_needed(len(others), alpha),
            }
        )
    return results
