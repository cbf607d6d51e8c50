# GNU General Public License v3.0 or later (see LICENSE)
"""Verdicts: what a trial's measurement and observation say about how far its figures can be trusted.

One small function per rule. A rule returns one finding or ``None``, and calls ``need`` for what it must have observed:
what is missing becomes a ``not_checked`` note, never silence. Severities and thresholds stand in ``findings.RULES``;
``docs/verdicts.md`` explains each rule.

Context of a trial (keys may be missing or ``None``; shapes of measurement, progress and observation as in ``schemas/trial.schema.json``):
``{workload, headline, parameters, measurement, progress, series, observation, driver_observation, driver_on_server, one_kernel,
settings, checkpoint_timeout_s, cores, instance_type, reset, target, reproduces, storage}``. ``series``: rows of ``series.csv``.
``one_kernel``: server and driver count the same CPUs. ``settings``: ``{name: value in base unit}``. ``instance_type``: of the server, where
its firmware says. ``reproduces``: a published run, unscaled. ``storage``: ``{provisioned_iops, instance_max_iops,
instance_baseline_iops, balance_min}`` of a cloud volume.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from ansible_collections.pgsizing.bench.plugins.module_utils import preflight, stats
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES, finding, term
from ansible_collections.pgsizing.bench.plugins.module_utils.units import MIB

Finding = dict[str, Any]
Context = dict[str, Any]
Rule = Callable[[Context], "Finding | None"]

#: One CPU-second per second and thread is all a thread can use; from this share on it is the limit.
THREAD_FULL = 0.9
#: Below this share of its CPU the server had room for more.
SERVER_ROOM = 0.8
#: A gap means something only where this many transactions were to be expected in it.
EXPECTED_LEAST = 20
#: Samples of a series below which no drift is looked for.
SAMPLES_LEAST = 12
#: Seconds for which the rate is at least a multiple of what it was before, or after.
MULTIPLE_LASTS_S = 5.0
#: Seconds that starting a load generator and its last transactions may take.
OVERRUN_LEAST_S = 5.0
#: Chance of a drift of this kind in a series without one.
DRIFT_P = 0.0005
#: HammerDB's PostgreSQL driver draws a new order in 10 of 23 cases.
TPM_PER_NOPM = 2.3
#: Commits per minute that other connections may add to TPM: it counts every database of the server, our observer's too.
FOREIGN_TPM = 240.0
#: What one client of a pgbench thread may wait for its turn between two transactions, per client of that thread.
TURN_MS = 0.05
WAL_SEGMENT = 16 * MIB


class NotObserved(Exception):
    """A rule lacks what it must have observed; the argument names it."""


def need(value: Any, what: str) -> Any:
    """Return ``value``; ``NotObserved`` when it is missing."""
    if value is None:
        raise NotObserved(what)
    return value


#: The rules in the order in which their findings are listed, by code.
CHECKS: dict[str, Rule] = {}


def rule(check: Rule) -> Rule:
    """Register a rule under its own name, which is its code."""
    CHECKS[check.__name__] = check
    return check


def judge(trial: Context) -> list[Finding]:
    """Return the findings of all rules on one trial.

    The measurement's own findings are not repeated: a rule whose code is there already stays silent. What several
    rules miss for the same reason is one ``not_checked`` note: ``evidence: {missing, rules}``.
    """
    known = {f["code"] for f in _measurement(trial).get("findings") or []}
    found: list[Finding] = []
    missing: dict[str, list[str]] = {}
    for code, check in CHECKS.items():
        if code in known:
            continue
        try:
            result = check(trial)
        except NotObserved as reason:
            missing.setdefault(str(reason), []).append(code)
        else:
            found += [result] if result else []
    found += [
        finding("not_checked", f"not checked (needs {what}): {', '.join(rules)}", missing=what, rules=rules)
        for what, rules in missing.items()
    ]
    return found


# What the rules read -----------------------------------------------------------------------------------------------


def _measurement(trial: Context) -> dict[str, Any]:
    return trial.get("measurement") or {}


def _parameter(trial: Context, name: str) -> Any:
    """Return what the program reported of a parameter, else what the plan asked for."""
    reported = (_measurement(trial).get("conditions") or {}).get(name)
    return (trial.get("parameters") or {}).get(name) if reported is None else reported


def _metric(trial: Context, name: str) -> float | None:
    value = ((_measurement(trial).get("metrics") or {}).get(name) or {}).get("value")
    return value if value is None or math.isfinite(value) else None


def _headline(trial: Context) -> tuple[str | None, float | None]:
    """Return name and value of the headline metric: the named one, else the first."""
    metrics = _measurement(trial).get("metrics") or {}
    name = trial.get("headline") or next(iter(metrics), None)
    return name, _metric(trial, name) if name else None


def _latency(trial: Context) -> dict[str, Any]:
    return _measurement(trial).get("latency") or {}


def _counts(trial: Context) -> dict[str, Any]:
    return _measurement(trial).get("counts") or {}


def _over(trial: Context) -> bool:
    """Did the measurement itself say that it ended early or never was? Then its length and absence are explained."""
    return any(f["severity"] in ("aborted", "failed") for f in _measurement(trial).get("findings") or [])


def _postgres(trial: Context) -> dict[str, Any]:
    observation = need(trial.get("observation"), "an observation of the server")
    return need(observation.get("postgres"), "an observation of PostgreSQL")


def _cpu(observation: dict[str, Any] | None, what: str) -> dict[str, Any]:
    return need(need(observation, what).get("cpu"), what)


def _setting(trial: Context, name: str) -> Any:
    return need(trial.get("settings"), "the settings of the server").get(name)


def _is_off(value: Any) -> bool:
    return value is False or str(value).lower() in ("off", "false", "no", "0")


def _measured_elapsed(trial: Context) -> float | None:
    """Return the length of the measured step in seconds as it really was, from the clock of the job."""
    steps = [s for s in _measurement(trial).get("steps") or [] if s.get("elapsed_s") is not None]
    named = [s for s in steps if s.get("name") in ("measured", "run")]
    return (named or steps)[-1]["elapsed_s"] if steps else None


def _duration(trial: Context) -> float | None:
    """Return the asked-for length of the measured window in seconds; ``None`` when a number of transactions was asked for."""
    if (trial.get("parameters") or {}).get("transactions"):
        return None
    return _parameter(trial, "duration") or _parameter(trial, "duration_s")


class Sample(NamedTuple):
    """One progress report: seconds from the start to its end, its length, and the rate in it."""

    end: float
    interval: float
    rate: float


def _is_finite(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def _samples(trial: Context, least: int = 1) -> list[Sample]:
    """Return the progress samples in time order. ``NotObserved`` without any, or with fewer than ``least``."""
    rows = [s for s in trial.get("progress") or [] if _is_finite(s.get("tps")) and _is_finite(s.get("elapsed_s"))]
    if not rows:
        raise NotObserved("progress samples")
    if len(rows) < least:
        raise NotObserved(f"{least} or more progress samples")
    result, before = [], 0.0
    for row in sorted(rows, key=lambda r: r["elapsed_s"]):
        given = row.get("interval_s")
        interval = given if given and _is_finite(given) else row["elapsed_s"] - before
        result.append(Sample(row["elapsed_s"], interval, row["tps"]))
        before = row["elapsed_s"]
    return result


def _window(trial: Context) -> float:
    """Return the length of the measured window in seconds. ``NotObserved`` when nothing tells."""
    length = _measured_elapsed(trial) or _duration(trial)
    if length is None:
        length = _samples(trial)[-1].end
    return length


def _checkpoint_timeout(trial: Context) -> float | None:
    return trial.get("checkpoint_timeout_s") or (trial.get("settings") or {}).get("checkpoint_timeout")


def _writes(trial: Context) -> bool:
    """Does the trial write? Only when WAL was counted and stayed under one segment is the answer no."""
    postgres = (trial.get("observation") or {}).get("postgres") or {}
    return postgres.get("wal_bytes") is None or postgres["wal_bytes"] >= WAL_SEGMENT


def _script_names(trial: Context) -> set[str]:
    """Return the names of pgbench's builtin scripts that ran; a custom script has another name or none."""
    conditions, parameters = _measurement(trial).get("conditions") or {}, trial.get("parameters") or {}
    given = [conditions.get("builtin"), conditions.get("transaction_type")]
    for script in [*(_latency(trial).get("scripts") or []), *_listed(conditions.get("scripts")), *_listed(parameters.get("scripts"))]:
        given += [script.get("builtin"), script.get("name")] if isinstance(script, dict) else [script]
    names = set()
    for name in filter(None, given):
        plain = re.sub(r"[^a-z]", "", str(name).split("@")[0].lower())
        for builtin, marks in {"tpcb-like": "tpcb", "simple-update": "simpleupdate", "select-only": "selectonly"}.items():
            if marks in plain:
                names.add(builtin)
    workload = trial.get("workload") or parameters.get("workload")
    if not any(given) and workload == "pgbench":
        names.add("tpcb-like")  # what pgbench runs when nothing is said
    return names


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


# Results -----------------------------------------------------------------------------------------------------------


@rule
def no_result(trial: Context) -> Finding | None:
    """The headline figure is missing and nothing explains why."""
    name, value = _headline(trial)
    if value is not None or _over(trial):
        return None
    return finding("no_result", f"the load generator gave no figure for {term(name) if name else 'any metric'}", metric=name)


@rule
def zero_result(trial: Context) -> Finding | None:
    """A headline of zero is a failure to do the work, not a measurement."""
    name, value = _headline(trial)
    if value is None or value > 0:
        return None
    hint = ""
    if name == "nopm" and (_metric(trial, "tpm") or 0) > 0:
        hint = ": something else commits or rolls back; wrong database, altered schema or item count, or missing functions?"
    others = {other: _metric(trial, other) for other in _measurement(trial).get("metrics") or {} if other != name}
    return finding("zero_result", f"{term(name)} is {value:g}{hint}", metric=name, value=value, other_metrics=others)


@rule
def wrong_scale(trial: Context) -> Finding | None:
    """The data set measured is not the one that was planned."""
    asked, found = (trial.get("parameters") or {}).get("scale"), (_measurement(trial).get("conditions") or {}).get("scale")
    if asked is None or found is None or asked == found or not _script_names(trial):  # custom scripts: pgbench prints what -s said
        return None
    return finding("wrong_scale", f"scale {asked} was asked for, the data set has scale {found}", asked=asked, found=found)


@rule
def failed_transactions(trial: Context) -> Finding | None:
    """Failed transactions over the limit: the rate of the others says nothing about clean runs."""
    counts = _counts(trial)
    share, failed, processed = counts.get("failed_pct"), counts.get("failed"), counts.get("processed")
    if share is None and failed is not None and processed is not None and failed + processed > 0:
        share = 100 * failed / (failed + processed)
    limit = RULES["failed_transactions"].threshold
    if share is None or limit is None or share <= limit:
        return None
    return finding(
        "failed_transactions",
        f"{share:.2f} % of the transactions failed, more than {limit:g} %: not to be ranked against clean runs",
        failed_pct=share,
        failed=failed,
        processed=processed,
        limit_pct=limit,
    )


@rule
def elapsed_short(trial: Context) -> Finding | None:
    """The window was shorter, or the transactions fewer, than asked for."""
    if _over(trial):
        return None
    limit = RULES["elapsed_short"].threshold or 0
    counts = _counts(trial)
    if counts.get("planned"):
        done = sum(counts.get(k) or 0 for k in ("processed", "failed", "skipped"))
        if done >= counts["planned"]:
            return None
        return finding("elapsed_short", f"{done} of {counts['planned']} transactions ran", done=done, planned=counts["planned"])
    asked = _duration(trial)
    if not asked:
        return None
    elapsed = _measured_elapsed(trial)
    if elapsed is None:
        last = _samples(trial)[-1]
        elapsed = min(asked, last.end + 1.5 * last.interval)  # the last progress line may be missing
    if elapsed >= limit * asked:
        return None
    return finding("elapsed_short", f"the run lasted {elapsed:.1f} s, {asked:g} s were asked for", elapsed_s=elapsed, asked_s=asked)


@rule
def overran(trial: Context) -> Finding | None:
    """A run that goes on long after its time waits for transactions that do not end: a stall that no progress report shows."""
    asked, elapsed = _duration(trial), _measured_elapsed(trial)
    if not asked or elapsed is None or _over(trial):
        return None
    elapsed -= (_latency(trial).get("initial_connection") or 0.0) / 1000
    if elapsed <= (RULES["overran"].threshold or 0) * asked or elapsed <= asked + OVERRUN_LEAST_S:
        return None
    text = f"the run took {elapsed:.1f} s, {asked:g} s were asked for: its last transactions waited, or starting took long"
    return finding("overran", text, elapsed_s=elapsed, asked_s=asked)


@rule
def inconsistent(trial: Context) -> Finding | None:
    """Little's law in a closed loop: clients = rate x time per transaction."""
    name, rate = _headline(trial)
    latency, counts, clients = _latency(trial), _counts(trial), _parameter(trial, "clients")
    if name != "tps" or not rate or not clients or not latency.get("average") or _over(trial):
        return None
    if any(_parameter(trial, p) for p in ("rate", "reconnect", "connect")):  # lag and connecting are outside the average
        return None
    if counts.get("failed"):
        if latency.get("basis") != "including failures" or not counts.get("processed"):
            return None
        rate *= (counts["processed"] + counts["failed"]) / counts["processed"]
    average = latency["average"]
    cycle = 1000 * clients / rate  # ms from one transaction of a client to its next
    tolerance = RULES["inconsistent"].threshold or 0
    turn = TURN_MS * clients / (_parameter(trial, "threads") or 1)
    # At the end of a run clients wait for the last one: up to one slow transaction, or the spread of equal shares.
    window = _measured_elapsed(trial) or _duration(trial) or 10.0
    tail = 0.25 if _counts(trial).get("planned") else min(0.5, max(latency.get("max") or 0, 2 * average) / 1000 / window)
    if average * (1 - tolerance) <= cycle and cycle * (1 - tolerance - tail) <= average + turn:
        return None
    return finding(
        "inconsistent",
        f"{clients} clients at {average:.3f} ms can make {1000 * clients / average:.1f} transactions a second, {rate:.1f} were reported",
        tps=rate,
        latency_average_ms=average,
        clients=clients,
        expected_tps=1000 * clients / average,
    )


@rule
def tpm_nopm_ratio(trial: Context) -> Finding | None:
    """HammerDB counts transactions and new orders apart; their ratio is fixed by the driver's mix."""
    tpm, nopm = _metric(trial, "tpm"), _metric(trial, "nopm")
    generator = _measurement(trial).get("load_generator") or {}
    if tpm is None or tpm < 0 or not nopm or nopm < 0 or generator.get("name") not in (None, "hammerdb", "builtin"):
        return None  # a figure of zero or below is judged by zero_result
    if str(generator.get("database") or "PostgreSQL").lower() not in ("postgresql", "postgres"):  # the ratio is per database and driver
        return None
    minutes = (_duration(trial) or 60) / 60
    chance = 3 * math.sqrt((TPM_PER_NOPM - 1) / (max(tpm, TPM_PER_NOPM * nopm) * minutes))  # three standard errors of the drawn mix
    ratio = tpm / nopm
    limit = max(RULES["tpm_nopm_ratio"].threshold or 0, chance)
    if ratio >= TPM_PER_NOPM * (1 - limit) and (tpm - FOREIGN_TPM) / nopm <= TPM_PER_NOPM * (1 + limit):
        return None
    return finding(
        "tpm_nopm_ratio",
        f"TPM/NOPM is {ratio:.4f}, {100 * (ratio / TPM_PER_NOPM - 1):+.1f} % off {TPM_PER_NOPM:.2f}: "
        f"{tpm - TPM_PER_NOPM * nopm:+,.0f} TPM are not explained by the new orders",
        ratio=ratio,
        expected=TPM_PER_NOPM,
        tpm=tpm,
        nopm=nopm,
    )


@rule
def rate_missed(trial: Context) -> Finding | None:
    """An asked-for rate that was not reached: other figures of the run belong to another load."""
    limit = RULES["rate_missed"].threshold or 0
    wanted = [("tps", _metric(trial, "tps"), _parameter(trial, "rate"))]
    metrics = [("", _measurement(trial).get("metrics") or {})]
    metrics += [(f"{s.get('name')}: ", s.get("metrics") or {}) for s in _measurement(trial).get("steps") or []]
    for step, group in metrics:
        wanted += [(step + name, m.get("value"), m.get("target")) for name, m in group.items() if isinstance(m, dict)]
    missed = []
    for name, reached, target in wanted:
        if not target or reached is None or reached >= limit * target:
            continue
        if name == "tps":  # pgbench draws its start times: the count itself varies by its root
            expected = max(1.0, target * _window(trial))
            if reached / target >= 1 - 3.3 / math.sqrt(expected):
                continue
        missed.append({"metric": name, "target": target, "reached": reached, "ratio": reached / target})
    if not missed:
        return None
    text = ", ".join(f"{m['metric']} {m['reached']:,.0f} of {m['target']:,.0f} ({100 * m['ratio']:.0f} %)" for m in missed)
    return finding("rate_missed", f"rate not sustained: {text}; no ranking against runs that held it", missed=missed)


@rule
def schedule_lag(trial: Context) -> Finding | None:
    """At a set rate, transactions that waited for a free client: more is asked for than the clients get done."""
    average, lag = _latency(trial).get("average"), (_latency(trial).get("lag") or {}).get("average")
    if not average or lag is None or lag / average <= (RULES["schedule_lag"].threshold or 0):
        return None
    return finding(
        "schedule_lag",
        f"of {average:,.1f} ms average latency {lag:,.1f} ms are waiting for a free client: too high a rate, or too few clients",
        lag_average_ms=lag,
        lag_max_ms=_latency(trial)["lag"].get("max"),
        latency_average_ms=average,
    )


@rule
def skipped_transactions(trial: Context) -> Finding | None:
    """Transactions that were never sent, being late already: the worst waits are in no percentile."""
    skipped, others = _counts(trial).get("skipped") or 0, sum(_counts(trial).get(k) or 0 for k in ("processed", "failed"))
    share = 100 * skipped / max(1, skipped + others)
    if share <= (RULES["skipped_transactions"].threshold or 0):
        return None
    text = f"{share:.2f} % of the transactions were skipped for being late: their waits are in no latency, and percentiles are too good"
    return finding("skipped_transactions", text, skipped=skipped, skipped_pct=share)


# The server's way through the window -------------------------------------------------------------------------------


@rule
def server_restarted(trial: Context) -> Finding | None:
    """Another server process, or another version, than at the start."""
    postgres = _postgres(trial)
    before, after = postgres.get("version_before"), postgres.get("version_after")
    if None not in (before, after) and before != after:
        return finding("server_restarted", f"the server went from version {before} to {after} during the run", versions=[before, after])
    starts, restarted = [postgres.get("start_time_before"), postgres.get("start_time_after")], postgres.get("restarted")
    if None not in starts:
        restarted = bool(restarted) or starts[0] != starts[1]
    if not need(restarted, "the server's start time"):
        return None
    return finding("server_restarted", "the server restarted during the run", start_times=starts)


@rule
def stall(trial: Context) -> Finding | None:
    """Seconds in which next to nothing was done."""
    samples = _samples(trial)
    share, least = 0.1, RULES["stall"].threshold or 0
    rates, intervals = [s.rate for s in samples], [s.interval for s in samples]
    usual, width = median(rates) or stats.mean(rates), median(intervals)
    if usual == 0:
        return None  # zero_result
    longest = current = (0.0, 0.0)  # seconds without work, where they begin
    for end, interval, rate in samples:
        idle = interval
        if rate >= share * usual:
            # A report that came late hides a stall in a wide interval: its work needed only part of that time.
            idle = interval - interval * rate / usual if interval > 2 * width else 0.0
            idle = idle if idle >= least else 0.0
        current = (current[0] + idle, current[1] if current[0] else end - interval) if idle else (0.0, 0.0)
        longest = max(longest, current)
    if longest[0] >= least and longest[0] * usual >= EXPECTED_LEAST:
        return finding(
            "stall",
            f"{longest[0]:.0f} s from second {longest[1]:.0f} on at less than 10 % of the usual rate of {usual:,.1f}/s",
            seconds=longest[0],
            at_s=longest[1],
            usual_rate=usual,
        )
    if least * usual < EXPECTED_LEAST:
        raise NotObserved("enough transactions a second to tell a stall from chance")
    if width > least:
        raise NotObserved(f"progress samples of {least:g} s or less")
    return None


@rule
def drift(trial: Context) -> Finding | None:
    """The rate moves through the window by more than chance: the mean is no steady figure."""
    samples = _samples(trial, SAMPLES_LEAST)
    rates = [s.rate for s in samples]
    third = len(rates) // 3
    first, last = stats.mean(rates[:third]), stats.mean(rates[-third:])
    if not first or not last or abs(last - first) / first <= (RULES["drift"].threshold or 0):
        return None
    window = samples[-1].end
    evidence = {"first_third": first, "last_third": last, "change": (last - first) / first, "window_s": window}
    change = f"{100 * evidence['change']:+.0f} % from the first to the last third"
    if _trends(rates, evidence):
        return finding("drift", f"the rate drifts: {change}", **evidence)
    # One lasting step. Parts that hold less than two checkpoint cycles differ by nature, short ones by a neighbour's noise: by some, not by
    # a multiple. That is another plan, another limit or a full cache.
    interval = window / len(rates)
    cycles = 2 * (_checkpoint_timeout(trial) or 300.0)
    for part, factor in ((cycles, 1.25), (MULTIPLE_LASTS_S, 3.0)):
        step = stats.step(rates, max(3, math.ceil(part / interval))) if interval > 0 else None
        if step and step["separation"] >= 0.95 and max(step["before"], step["after"]) > factor * min(step["before"], step["after"]):
            at = samples[int(step["index"]) - 1].end
            evidence |= {"at_s": at, "before": step["before"], "after": step["after"]}
            levels = f"from {step['before']:,.1f} to {step['after']:,.1f}/s at second {at:.0f}"
            return finding("drift", f"the rate steps {levels}: {change}", **evidence)
    return None


@rule
def unsteady_start(trial: Context) -> Finding | None:
    """The first part of the window ran at another rate than the rest: caches that filled, or a burst that ended."""
    samples = _samples(trial, SAMPLES_LEAST)
    rates = [s.rate for s in samples]
    window = samples[-1].end
    step = stats.step(rates, max(3, math.ceil(MULTIPLE_LASTS_S * len(rates) / window))) if window > 0 else None
    if not step or not step["after"] or step["separation"] < 0.95 or step["index"] > len(rates) / 3:
        return None
    change, at = step["before"] / step["after"] - 1, samples[int(step["index"]) - 1].end
    if abs(change) <= (RULES["unsteady_start"].threshold or 0):
        return None
    return finding(
        "unsteady_start",
        f"the first {at:.0f} s ran at {step['before']:,.1f}/s, the rest at {step['after']:,.1f}/s; a longer ramp_up leaves the start out",
        at_s=at,
        before=step["before"],
        after=step["after"],
    )


def _trends(rates: Sequence[float], evidence: dict[str, Any]) -> bool:
    """Is there a trend over the whole window that goes on in each part of it?

    Noise in steps (a neighbour comes and goes, a checkpoint begins) passes for a trend over the whole, not in each part.
    """
    third = len(rates) // 3
    thirds = [stats.mean(part) for part in (rates[:third], rates[third:-third], rates[-third:])]
    if min((b - a) / (thirds[2] - thirds[0]) for a, b in (thirds[:2], thirds[1:])) < 0.25:
        return False
    size = max(1, len(rates) // 20)  # blocks smooth what is shorter than a twentieth of the window
    blocks = [stats.mean(rates[i : i + size]) for i in range(0, len(rates) - size + 1, size)]
    whole = stats.trend(blocks)
    evidence |= {"rho": whole["rho"], "p": whole["p"], "n_effective": whole["n_effective"]}
    half = len(blocks) // 2
    halves = [stats.trend(part)["rho"] * whole["rho"] for part in (blocks[:half], blocks[-half:])]
    return whole["p"] < DRIFT_P and min(halves) > 0.35 * abs(whole["rho"])


@rule
def throttled(trial: Context) -> Finding | None:
    """CPU that the hypervisor gave to others, over the whole window or from some point on."""
    limit = RULES["throttled"].threshold or 0
    steal = need(_cpu(trial.get("observation"), "an observation of the server").get("steal"), "CPU steal")
    host = "server"
    driver = ((trial.get("driver_observation") or {}).get("cpu") or {}).get("steal") or 0
    if driver > steal:
        steal, host = driver, "driver"
    rows = [
        (float(r["elapsed_s"]), float(r["cpu_steal"]), float(r["tps"]))
        for r in trial.get("series") or []
        if None not in (r.get("cpu_steal"), r.get("tps")) and "" not in (r["cpu_steal"], r["tps"])
    ]
    step = stats.step([row[1] for row in rows], max(3, len(rows) // 20))
    if step and step["after"] - step["before"] > limit and step["separation"] >= 0.95:
        index, share = int(step["index"]), preflight.credit_baseline(trial.get("instance_type") or "")
        credits = f" ({trial.get('instance_type')} has {100 * share:g} % of each vCPU without CPU credits)" if share else ""
        before, after, at = stats.mean([row[2] for row in rows[:index]]), stats.mean([row[2] for row in rows[index:]]), rows[index - 1][0]
        return finding(
            "throttled",
            f"throttled at minute {at / 60:.0f}: steal rose from {100 * step['before']:.0f} to {100 * step['after']:.0f} %, "
            f"the rate went from {before:,.1f} to {after:,.1f}/s{credits}; the mean is not the capacity",
            at_s=at,
            baseline=share,
            steal_before=step["before"],
            steal_after=step["after"],
            rate_before=before,
            rate_after=after,
            ratio=after / before if before else None,
        )
    if steal < limit:
        return None
    return finding("throttled", f"the hypervisor took {100 * steal:.0f} % of the {host}'s CPU", steal=steal, host=host)


@rule
def burstable_instance(trial: Context) -> Finding | None:
    """A server on CPU credits, by the name of its instance type."""
    name = trial.get("instance_type") or ""
    return preflight.burstable(name) if preflight.credit_baseline(name) else None


@rule
def quota_reached(trial: Context) -> Finding | None:
    """A container that used up its CPU quota: the figure is that of the quota, not of the machine."""
    limit = RULES["quota_reached"].threshold or 0
    hosts = {"server": trial.get("observation"), "driver": trial.get("driver_observation")}
    shares = {host: ((seen or {}).get("cpu") or {}).get("throttled") for host, seen in hosts.items()}
    over = {host: share for host, share in shares.items() if share is not None and share > limit}
    if not over:
        return None
    texts = [f"{host} in {100 * share:.0f} % of the time" for host, share in over.items()]
    return finding(
        "quota_reached", f"the CPU quota of the container held work back: {', '.join(texts)}; it is the quota that was measured", **over
    )


@rule
def client_starved(trial: Context) -> Finding | None:
    """The load generator ran out of CPU while the server had room: the figure is a lower bound."""
    server = _cpu(trial.get("observation"), "an observation of the server")
    busy, cores = need(server.get("busy_mean"), "an observation of the server"), server.get("cores") or trial.get("cores")
    driver = ((trial.get("driver_observation") or {}).get("cpu") or {}).get("busy_mean")
    shared, used = bool(trial.get("driver_on_server")), client_cores(_measurement(trial).get("client"))
    threads = _parameter(trial, "threads") or _parameter(trial, "clients")
    threads_full = used is not None and threads and used / threads >= THREAD_FULL
    # A full CPU is no evidence on a shared machine: it is what a closed loop is for.
    host_full = not shared and driver is not None and driver > (RULES["client_starved"].threshold or 0)
    if not threads_full and not host_full:
        need(used, "the load generator's CPU time") if shared else need(driver, "an observation of the driver")
        return None
    server_share = max(0.0, busy - used / cores) if shared and used and cores else busy
    if server_share >= SERVER_ROOM:
        return None
    if threads_full:
        what, remedy = f"the load generator used {used:.2f} cores with {threads} thread(s)", "use as many threads as the driver has CPUs"
    else:
        what, remedy = f"the driver's CPU was {100 * (driver or 0):.0f} % busy", "use a larger or a second driver"
    return finding(
        "client_starved",
        f"{what} while the server used {100 * server_share:.0f} % of its CPU: the figure is a lower bound; {remedy}",
        client_cores=used,
        threads=threads,
        driver_busy=driver,
        server_busy=server_share,
    )


@rule
def other_load(trial: Context) -> Finding | None:
    """Something that is not part of the trial worked on one of its hosts."""
    one_kernel = bool(trial.get("driver_on_server") or trial.get("one_kernel"))
    # HammerDB's CPU time holds its start and its ramp-up: at the most all of it fell into the window.
    used = client_cores(_measurement(trial).get("client"), _measured_elapsed(trial))
    driver = trial.get("driver_observation") or {}
    if _has_busy(driver) and used is not None and not one_kernel and (found := _other_load("driver", driver, used)):
        return found
    cpu = _cpu(trial.get("observation"), "an observation of the server")
    need(_has_busy(trial["observation"]) or None, "an observation of the server")
    ours = need(cpu.get("server"), "the CPU time of the server's processes") * cpu["cores"]
    if one_kernel:
        ours += need(used, "the load generator's CPU time")
    return _other_load("server", trial["observation"], ours)


def _has_busy(observation: dict[str, Any]) -> bool:
    cpu = observation.get("cpu") or {}
    return bool(cpu.get("cores")) and cpu.get("busy_mean") is not None


def _other_load(host: str, observation: dict[str, Any], ours: float) -> Finding | None:
    """Judge the share of a host's CPU that was used beyond ``ours`` [cores], our observer and what the hypervisor took."""
    cpu, cost = observation["cpu"], observation.get("cost") or {}
    observer = (cost.get("cpu_s") or 0.0) / cost["wall_s"] if cost.get("wall_s") else 0.0
    share = cpu["busy_mean"] - (cpu.get("steal") or 0.0) - (ours + observer) / cpu["cores"]
    if share <= (RULES["other_load"].threshold or 0):
        return None
    text = f"other processes took {100 * share:.0f} % of the {host}'s CPU: the measurement had to do without it"
    return finding("other_load", text, host=host, share=share, busy=cpu["busy_mean"], trial_cores=ours)


def client_cores(client: dict[str, Any] | None, window_s: float | None = None) -> float | None:
    """Return the cores that the load generator used: mean over its life, or the most that it can have been over a window of it."""
    if not client or not client.get("wall_s") or client.get("cpu_user_s") is None:
        return None
    return float((client["cpu_user_s"] + (client.get("cpu_system_s") or 0)) / min(client["wall_s"], window_s or client["wall_s"]))


@rule
def balance_exhausted(trial: Context) -> Finding | None:
    """A burst balance that ran out inside the window: two kinds of machine in one figure."""
    balance = (trial.get("storage") or {}).get("balance_min")
    if balance is None or balance > (RULES["balance_exhausted"].threshold or 0):
        return None
    return finding("balance_exhausted", "a burst balance of the volume or instance reached zero inside the window", balance_min=balance)


@rule
def iops_burst(trial: Context) -> Finding | None:
    """More I/O than the instance's baseline: it holds only for a while."""
    storage, observed = trial.get("storage") or {}, _iops(trial)
    baseline, maximum = storage.get("instance_baseline_iops"), storage.get("instance_max_iops")
    if not baseline or observed is None or observed <= baseline or baseline == maximum:  # those that always have their maximum
        return None
    return finding(
        "iops_burst",
        f"{observed:,.0f} IOPS (p99) are more than the instance's baseline of {baseline:,.0f}: a burst, about 30 minutes a day",
        observed=observed,
        baseline=baseline,
    )


@rule
def iops_unusable(trial: Context) -> Finding | None:
    """Provisioned IOPS that the instance cannot drive."""
    storage = trial.get("storage") or {}
    provisioned, maximum = storage.get("provisioned_iops"), storage.get("instance_max_iops")
    if not provisioned or not maximum or provisioned <= maximum:
        return None
    return finding(
        "iops_unusable",
        f"{provisioned:,.0f} IOPS are provisioned, the instance drives at most {maximum:,.0f}: paid for, cannot be used",
        provisioned=provisioned,
        maximum=maximum,
        observed=_iops(trial),
    )


def _iops(trial: Context) -> float | None:
    disk = ((trial.get("observation") or {}).get("disk") or {}).get("data") or {}
    return disk.get("iops_p99")


@rule
def clock_set(trial: Context) -> Finding | None:
    """A clock that was set in mid-run: what is cut out of logs and samples by its time is not the window."""
    hosts = {"server": trial.get("observation"), "driver": trial.get("driver_observation")}
    steps = {host: seen["clock_steps"] for host, seen in hosts.items() if seen and seen.get("clock_steps")}
    if not steps:
        return None
    texts = [f"{host} by {step['by_s']:+,.1f} s" for host, found in steps.items() for step in found]
    return finding("clock_set", f"the wall clock was set, or the machine slept, while it was observed: {', '.join(texts)}", steps=steps)


@rule
def memory_short(trial: Context) -> Finding | None:
    """The server's host swapped or ended processes: the figure is that of a machine without memory to spare."""
    memory = need((trial.get("observation") or {}).get("memory"), "an observation of the server")
    swapped, kills = (memory.get("swap_in_bytes") or 0) + (memory.get("swap_out_bytes") or 0), memory.get("oom_kills") or 0
    if not kills and swapped <= (RULES["memory_short"].threshold or 0) * MIB:
        return None
    text = f"the server's host had too little memory: {swapped / MIB:,.0f} MiB swapped, {kills} process(es) ended by the kernel"
    return finding("memory_short", text, swap_bytes=swapped, oom_kills=kills)


# What the figure means ---------------------------------------------------------------------------------------------


@rule
def short_window(trial: Context) -> Finding | None:
    """A window of less than two checkpoint cycles leaves out what they cost."""
    if not _writes(trial):
        return None
    window, timeout = _window(trial), need(_checkpoint_timeout(trial), "checkpoint_timeout")
    cycles = RULES["short_window"].threshold or 0
    postgres = (trial.get("observation") or {}).get("postgres") or {}
    kinds = [postgres.get("checkpoints_timed"), postgres.get("checkpoints_requested")]
    checkpoints = None if kinds == [None, None] else sum(k or 0 for k in kinds)
    if window >= cycles * timeout or (checkpoints or 0) >= cycles:
        return None
    seen = "" if checkpoints is None else f", {checkpoints} checkpoint(s) in it"
    return finding(
        "short_window",
        f"burst figure, not sustained: the window of {window:.0f} s is shorter than {cycles:g} checkpoint cycles of {timeout:g} s{seen}; "
        f"measure {cycles * timeout:g} s or more",
        window_s=window,
        checkpoint_timeout_s=timeout,
        checkpoints_timed=kinds[0],
        checkpoints_requested=kinds[1],
        wal_bytes=postgres.get("wal_bytes"),
    )


@rule
def checkpoints_frequent(trial: Context) -> Finding | None:
    """Checkpoints that WAL volume asks for, one soon after the other: each makes the pages after it be written whole again."""
    postgres = _postgres(trial)
    requested, least = postgres.get("checkpoints_requested") or 0, RULES["checkpoints_frequent"].threshold or 0
    if requested < 2 or _window(trial) / requested >= least:
        return None
    apart = _window(trial) / requested
    return finding(
        "checkpoints_frequent",
        f"{requested:.0f} checkpoints were requested, one every {apart:.0f} s: max_wal_size is too small for this rate of WAL",
        checkpoints_requested=requested,
        apart_s=apart,
        wal_bytes=postgres.get("wal_bytes"),
    )


@rule
def saw_tooth(trial: Context) -> Finding | None:
    """Full minutes of very different rates: the mean hides a cycle."""
    minutes: dict[int, list[tuple[float, float]]] = {}
    samples = _samples(trial)
    for end, interval, rate in samples:
        minutes.setdefault(int((end - interval / 2) // 60), []).append((interval, rate))
    full = [m for m in minutes.values() if sum(i for i, _ in m) >= 54]
    if len(full) < 3:
        return None
    rates = [sum(i * r for i, r in m) / sum(i for i, _ in m) for m in full]
    usual = median(rates)
    swing = (max(rates) - min(rates)) / usual if usual else 0.0
    if swing <= (RULES["saw_tooth"].threshold or 0):
        return None
    return finding(
        "saw_tooth",
        f"the rate per minute swings between {min(rates):,.1f} and {max(rates):,.1f}/s around {usual:,.1f}/s",
        minimum=min(rates),
        median=usual,
        maximum=max(rates),
        swing=swing,
    )


@rule
def ramp_up_short(trial: Context) -> Finding | None:
    """Too short a ramp-up leaves cold caches in the window: a rule of the TPROC-C method, so of workloads with warehouses."""
    ramp_up, least = (trial.get("parameters") or {}).get("ramp_up"), RULES["ramp_up_short"].threshold or 0
    if ramp_up is None or ramp_up >= least or _parameter(trial, "warehouses") is None:
        return None
    return finding("ramp_up_short", f"ramp-up of {ramp_up:g} s; {least:g} s or more let caches fill", ramp_up_s=ramp_up)


@rule
def ramp_up_unfaithful(trial: Context) -> Finding | None:
    """A reproduction stands beside published figures: what its method needs is no matter of taste there."""
    short = ramp_up_short(trial) if trial.get("reproduces") else None
    return short and finding("ramp_up_unfaithful", f"reproduction, not scaled: {short['message']}", **short["evidence"])


@rule
def branch_contention(trial: Context) -> Finding | None:
    """Every tpcb-like transaction updates one branch row; clients beyond their number wait for each other."""
    clients, scale = _parameter(trial, "clients"), _parameter(trial, "scale")
    if not clients or not scale or clients <= (RULES["branch_contention"].threshold or 0) * scale:
        return None
    if "tpcb-like" not in _script_names(trial):
        return None
    return finding(
        "branch_contention",
        f"{clients} clients on {scale} branch row(s): branch-row contention, not capacity; use scale {clients} or more",
        clients=clients,
        scale=scale,
    )


@rule
def warehouse_contention(trial: Context) -> Finding | None:
    """More TPROC-C clients than warehouses wait for each other's district rows."""
    clients, warehouses = _parameter(trial, "clients"), _parameter(trial, "warehouses")
    if not clients or not warehouses or clients <= (RULES["warehouse_contention"].threshold or 0) * warehouses:
        return None
    return finding(
        "warehouse_contention",
        f"{clients} clients on {warehouses} warehouse(s): row-lock contention, not capacity; use {4 * clients} warehouses or more",
        clients=clients,
        warehouses=warehouses,
    )


@rule
def latency_outlier(trial: Context) -> Finding | None:
    """A maximum far above p99.9: in a closed loop one long wait is one line among thousands."""
    latency = _latency(trial)
    if latency.get("average") is None:
        return None
    worst, high = latency.get("max"), latency.get("p99_9")
    if worst is None or high is None:
        raise NotObserved("latencies of single transactions")
    limit = RULES["latency_outlier"].threshold or 0
    if not high or worst / high <= limit:
        return None
    return finding(
        "latency_outlier",
        f"the slowest transaction took {worst:,.1f} ms, {worst / high:.0f} times p99.9 ({high:.3f} ms): a stall hides from the percentiles",
        max_ms=worst,
        p99_9_ms=high,
        ratio=worst / high,
    )


@rule
def closed_loop(trial: Context) -> Finding | None:
    """Without a rate each client waits for its answer before it asks again."""
    if _latency(trial).get("average") is None or _parameter(trial, "rate"):
        return None
    return finding(
        "closed_loop",
        "throughput test in a closed loop: latencies leave out the wait of requests that were not sent; measure latency at a set rate",
    )


@rule
def sampled_log(trial: Context) -> Finding | None:
    """Percentiles of a sample."""
    sampling = _latency(trial).get("sampling")
    if sampling is None or sampling >= 1:
        return None
    return finding("sampled_log", f"percentiles come from {100 * sampling:g} % of the transactions", sampling=sampling)


@rule
def driver_on_server(trial: Context) -> Finding | None:
    """One machine for both: the load generator's CPU is missing to the server."""
    if not trial.get("driver_on_server"):
        return None
    return finding("driver_on_server", "load generator and server share one machine; its CPU is divided between them")


@rule
def autovacuum_active(trial: Context) -> Finding | None:
    """Autovacuum worked in the window: it may not in the next one."""
    postgres = _postgres(trial)
    workers, seconds = postgres.get("autovacuum_workers_max"), postgres.get("autovacuum_seconds")
    if not need(workers, "autovacuum workers") and not seconds:
        return None
    lasted = "" if seconds is None else f" for {seconds:.0f} s"
    seen = [step for step in postgres.get("maintenance") or [] if step["what"].startswith(("vacuum ", "analyze "))]
    tables = f": {', '.join(step['what'] for step in seen[:4])}" if seen else ""
    message = f"autovacuum worked inside the window, up to {workers} worker(s){lasted}{tables}"
    return finding("autovacuum_active", message, workers_max=workers, seconds=seconds, maintenance=seen)


def _weakened(code: str, name: str, text: str) -> None:
    """Register a note for a setting that is off."""

    def check(trial: Context) -> Finding | None:
        return finding(code, f"{name} is off: {text}", setting=name) if _is_off(_setting(trial, name)) else None

    check.__name__, check.__doc__ = code, f"{name} is off."
    rule(check)


_weakened("fsync_off", "fsync", "not production-like, a crash destroys the data")
_weakened("full_page_writes_off", "full_page_writes", "not production-like, a crash may leave torn pages, and less WAL is written")
_weakened("synchronous_commit_off", "synchronous_commit", "a crash loses the last transactions")


@rule
def autovacuum_off(trial: Context) -> Finding | None:
    """No autovacuum: switched off, for a table too, or without the counts that it goes by."""
    tables = ((trial.get("observation") or {}).get("postgres") or {}).get("autovacuum_off")
    if tables:
        text = f"autovacuum is off for {', '.join(tables[:4])}: not production-like, bloat and statistics are not kept up"
        return finding("autovacuum_off", text, setting="autovacuum_enabled", tables=tables)
    off = next((name for name in ("autovacuum", "track_counts") if _is_off(_setting(trial, name))), None)
    if off is None:
        return None
    what = "autovacuum is off" if off == "autovacuum" else "track_counts is off, and with it autovacuum"
    return finding("autovacuum_off", f"{what}: not production-like, bloat and statistics are not kept up", setting=off)


@rule
def unlogged_tables(trial: Context) -> Finding | None:
    """Tables without WAL."""
    if not _parameter(trial, "unlogged"):
        return None
    return finding("unlogged_tables", "the tables are unlogged: not production-like, a crash empties them, and they write no WAL")


@rule
def assertions_on(trial: Context) -> Finding | None:
    """A build for developers checks itself all the time."""
    value = _setting(trial, "debug_assertions")
    if value is None or _is_off(value):
        return None
    return finding("assertions_on", "the server is a build with assertions (--enable-cassert), made to find errors: it is much slower")


@rule
def huge_pages_unused(trial: Context) -> Finding | None:
    """Huge pages that were asked for and did not come."""
    asked = _setting(trial, "huge_pages")
    # ``try`` is the server's default: it asks for nothing.
    if str(asked).lower() not in ("on", "true"):
        return None
    if need((trial.get("observation") or {}).get("huge_pages_in_use"), "whether huge pages are in use"):
        return None
    return finding("huge_pages_unused", "huge_pages is on, and shared memory is in ordinary pages", huge_pages=asked)


@rule
def no_restart(trial: Context) -> Finding | None:
    """A server that we only connect to keeps its caches."""
    if trial.get("target") != "existing":
        return None
    return finding("no_restart", "the server was not restarted before the trial; its caches are as earlier work left them")


@rule
def no_reset(trial: Context) -> Finding | None:
    """The data set carries what earlier trials wrote."""
    if trial.get("reset") != "none":
        return None
    return finding("no_reset", "the data set was not put back before the trial: it carries what earlier trials wrote")
