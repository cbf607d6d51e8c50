#!/usr/bin/env python3
# GNU General Public License v3.0 or later (see LICENSE)
"""Our own speed as ratios: both sides in one run, interleaved, with a confidence interval. See ``benchmarks/README.md``.

Everything runs in a temporary directory, on servers and ports of its own, and is stopped and removed at the end. Figures are printed,
never enforced: the exit status is 1 only when a side did not run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests")]

from support.cluster import running_cluster, sql

from ansible_collections.pgsizing.bench.plugins.module_utils import stats
from ansible_collections.pgsizing.bench.plugins.module_utils.detached import (
    WANTED,
    clean_environment,
    run_state,
    stop_runs,
    unblock_signals,
)

PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
SEED = 20
#: What a child may take to end after it was asked to.
PATIENCE_S = 60.0


class SideFailed(Exception):
    """One side of a comparison did not run, so there is no figure."""


# Figures


class Target(NamedTuple):
    """Where a figure should be: the interval reaches ``at_least``, or all of it lies at or below ``at_most``."""

    at_least: float | None = None
    at_most: float | None = None

    def reached(self, low: float, high: float) -> bool:
        return high >= self.at_least if self.at_least is not None else high <= (self.at_most if self.at_most is not None else math.inf)

    def __str__(self) -> str:
        return f"CI reaches {self.at_least:g}" if self.at_least is not None else f"CI <= {self.at_most:g}"


@dataclass
class Figure:
    """One ratio with both its sides, as it is printed and written."""

    what: str
    unit: str
    values: list[float]
    base: list[float]
    n: int
    ratio: float
    ci_low: float | None
    ci_high: float | None
    ci_method: str
    target: str | None
    reached: bool | None


def figure(what: str, unit: str, values: Sequence[float], base: Sequence[float], target: Target | None = None) -> Figure:
    """Return the geometric mean of the pairwise ratios ``values`` / ``base`` with its 95 % interval (none for a single pair).

    ``SideFailed`` when a side has no value, a value of zero or below, or not as many as the other.
    """
    if not values or len(values) != len(base) or min(*values, *base) <= 0:
        raise SideFailed(f"{what}: a side has no figure ({len(values)} and {len(base)} values)")
    found = stats.summary([value / other for value, other in zip(values, base, strict=True)])
    ratio, low, high = found["location"], found["ci_low"], found["ci_high"]
    reached = target.reached(ratio if low is None else low, ratio if high is None else high) if target else None
    return Figure(
        what=what,
        unit=unit,
        values=[*values],
        base=[*base],
        n=found["n"],
        ratio=ratio,
        ci_low=low,
        ci_high=high,
        ci_method=found["ci_method"],
        target=str(target) if target else None,
        reached=reached,
    )


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as an aligned table; the last column shows the medians of both sides."""
    rows = [("what", "ratio", "95 % CI", "n", "target", "reached", "medians of the sides")]
    for f in figures:
        interval = "none" if f.ci_low is None or f.ci_high is None else f"{f.ci_low:.3f} to {f.ci_high:.3f}"
        reached = "-" if f.reached is None else "yes" if f.reached else "no"
        sides = f"{median(f.values):.4g} / {median(f.base):.4g} {f.unit}"
        rows.append((f.what, f"{f.ratio:.3f}", interval, str(f.n), f.target or "-", reached, sides))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


# Processes


class Cost(NamedTuple):
    """What a child took, with its own children as far as it waited for them; the peak is that of the largest of them."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def in_own_session() -> None:
    """Prepare a child before its exec: as in a terminal of its own, where only we interrupt it.

    The scheduler may share CPU out by session; the toolkit's job has one of its own, so has every command on the other side.
    """
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in what a script starts in the background
    unblock_signals()


def run(argv: Sequence[str], output: Path, **options: Any) -> Cost:
    """Run a command to its end, standard output in ``output``; ``SideFailed`` with what it said when its status is not 0."""
    errors = output.with_name(output.name + ".err")
    with open(output, "wb") as out, open(errors, "wb") as err:
        begin = time.monotonic()
        # Interrupts wait until there is a child to end.
        signal.pthread_sigmask(signal.SIG_BLOCK, WANTED)
        try:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=in_own_session, **options)
        except OSError:
            unblock_signals()
            raise
        try:
            unblock_signals()
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.send_signal(signal.SIGINT)  # ansible-playbook ends its workers on this one only
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        wall = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        said = "\n".join(path.read_text("utf-8", "replace")[-2000:].strip() for path in (output, errors))
        raise SideFailed(f"{Path(argv[0]).name} ended with status {process.returncode}:\n{said.strip()}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def play(arguments: Sequence[str], output: Path) -> Cost:
    """Run ``ansible-playbook`` as a user of the checkout does: in its root, with its ``ansible.cfg``."""
    kept = {name: value for name, value in clean_environment({}).items() if not name.startswith(("ANSIBLE_", "PGSIZING_"))}
    return run([PLAYBOOK, *arguments], output, cwd=ROOT, env={**kept, "ANSIBLE_NOCOLOR": "1"})


def say(text: str) -> None:
    """Tell on standard error how far it is."""
    print(text, file=sys.stderr, flush=True)


# Transactions per second: the toolkit with observation on, and pgbench alone

SCALE, CLIENTS, THREADS = 10, 4, 2
TEMPLATE, DATABASE = "speed_template", "speed"
#: Without waits for a disk and without background work the CPU is the limit: what we take of it shows, and the noise is least.
SETTINGS = "shared_buffers = 256MB\nmax_wal_size = 8GB\ncheckpoint_timeout = 1h\nautovacuum = off\n"
_TPS = re.compile(r"^tps = ([\d.]+) \(without initial connection time\)$", re.MULTILINE)


def tps(work: Path, quick: bool) -> list[Figure]:
    """Run both sides in the order A B B A, each from the same start."""
    pairs, duration = (2, 3) if quick else (10, 6)
    found: dict[str, list[float]] = {"toolkit": [], "bare": []}
    observer: list[float] = []
    with running_cluster(work / "cluster", SETTINGS) as cluster:
        sql(cluster, f"CREATE DATABASE {TEMPLATE}")
        run([*client(cluster), "-i", "-s", str(SCALE), "-q", TEMPLATE], work / "load", env=clean_environment({"LC_ALL": "C"}))
        for side, pair in stats.order(["toolkit", "bare"], pairs):
            bring_to_start(cluster, work)
            if side == "toolkit":
                value, cost = toolkit_run(cluster, work / f"toolkit-{pair}", duration)
                observer.append(cost)
            else:
                run(bare_argv(cluster, duration), work / "bare", env=clean_environment({"LC_ALL": "C"}))
                value = parse_tps((work / "bare").read_text("utf-8"))
            found[side].append(value)
            say(f"tps: pair {pair} of {pairs}, {side} {value:.0f}")
    return [
        figure("tps, toolkit with observation / bare pgbench", "tps", found["toolkit"], found["bare"], Target(at_least=0.98)),
        figure("CPU of the observer / one core", "core", observer, [1.0] * len(observer), Target(at_most=0.02)),
    ]


def client(cluster: dict[str, Any]) -> list[str]:
    """Return the beginning of every pgbench command."""
    return [f"{cluster['bin_dir']}/pgbench", "-h", cluster["socket_dir"], "-p", str(cluster["port"]), "-U", cluster["user"]]


def bare_argv(cluster: dict[str, Any], duration: int) -> list[str]:
    """Return the command of the bare side: what was asked for, and nothing that the toolkit adds by itself."""
    load = ["-M", "simple", "-c", str(CLIENTS), "-j", str(THREADS), "-b", "tpcb-like@1", f"--random-seed={SEED}", "-T", str(duration)]
    return [*client(cluster), *load, DATABASE]


def missing_words(bare: Sequence[str], toolkit: Sequence[str]) -> list[str]:
    """Return what the bare command asks for and the toolkit's does not: the sides would not do the same."""
    return sorted((Counter(bare) - Counter(toolkit)).elements())


def parse_tps(report: str) -> float:
    """Return what pgbench reports without the time of the connections; ``SideFailed`` when it reports nothing."""
    match = _TPS.search(report)
    if not match:
        raise SideFailed(f"pgbench reported no tps:\n{report[-2000:]}")
    return float(match[1])


def bring_to_start(cluster: dict[str, Any], work: Path) -> None:
    """Put the data set back, restart the server and read the data set into its cache: the same steps before each side."""
    sql(cluster, f"DROP DATABASE IF EXISTS {DATABASE}")
    sql(cluster, f"CREATE DATABASE {DATABASE} TEMPLATE {TEMPLATE}")
    restart = ["restart", "-D", cluster["data_dir"], "-l", cluster["log"], "-m", "fast", "-w"]
    run([*cluster["run_prefix"], f"{cluster['bin_dir']}/pg_ctl", *restart], work / "restart", cwd="/")
    sql(cluster, "CREATE EXTENSION pg_prewarm", DATABASE)
    sql(cluster, "SELECT count(pg_prewarm(oid)) FROM pg_class WHERE relkind IN ('r', 'i') AND pg_relation_filenode(oid) > 0", DATABASE)
    sql(cluster, "CHECKPOINT")


def toolkit_run(cluster: dict[str, Any], work: Path, duration: int) -> tuple[float, float]:
    """Return tps and the observer's share of one core, of a run through the actions; ``SideFailed`` when something of it is missing."""
    work.mkdir()
    jobs, result = work / "jobs", work / "result.json"
    variables = {
        "speed_cluster": cluster,
        "speed_database": DATABASE,
        "speed_jobs_dir": str(jobs),
        "speed_result": str(result),
        "speed_scale": SCALE,
        "speed_clients": CLIENTS,
        "speed_threads": THREADS,
        "speed_duration": duration,
        "speed_seed": SEED,
    }
    (work / "variables.json").write_text(json.dumps(variables), "utf-8")
    try:
        play(["benchmarks/observed_pgbench.yml", "-e", f"@{work / 'variables.json'}"], work / "playbook.log")
    finally:
        stop_runs([job.parent for job in jobs.glob("*/job.json") if run_state(job.parent) == "running"])
    found = json.loads(result.read_text("utf-8"))
    measurement, observation = found["measurement"], found["observation"]
    lost = missing_words(bare_argv(cluster, duration), next(s["argv"] for s in measurement["steps"] if s["name"] == "measured"))
    if lost:
        raise SideFailed(f"the toolkit's pgbench was not given {' '.join(lost)}")
    if not measurement["latency"]["n"] or observation["n"] < duration - 2 or not observation["postgres"] or observation["problems"]:
        raise SideFailed(f"the run was not observed or has no percentiles: {observation['problems']} {measurement['findings']}")
    return measurement["metrics"]["tps"]["value"], observation["cost"]["core_fraction"]


# Percentiles of a log: the module digest, and one pass of mawk over a column

_DIGEST = """
import json, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.pgsizing.bench.plugins.modules import digest
with patch_module_args(json.loads(sys.argv[1])):
    digest.main()
"""
MEMORY_MB = 200.0


def percentiles(work: Path, quick: bool) -> list[Figure]:
    """Read the same log with both; the figures are CPU time, as other work on the machine disturbs it least."""
    passes, lines = (2, 500_000) if quick else (5, 5_000_000)
    log = work / "log.1"
    say(f"percentiles: writing {lines} lines")
    total = write_log(log, lines)
    cost: dict[str, list[Cost]] = {"digest": [], "mawk": []}
    for side, number in stats.order(["digest", "mawk"], passes):
        cost[side].append(digest_pass(log, lines, total, work) if side == "digest" else mawk_pass(log, total, work))
        say(f"percentiles: pass {number} of {passes}, {side} {cost[side][-1].cpu_s:.2f} s")
    ours, theirs = cost["digest"], cost["mawk"]
    pair = "percentiles of a log / mawk sum of a column"
    peak = [c.peak_bytes / 1e6 for c in ours]
    return [
        figure(f"CPU, {pair}", "s", [c.cpu_s for c in ours], [c.cpu_s for c in theirs], Target(at_most=6)),
        figure(f"wall, {pair}", "s", [c.wall_s for c in ours], [c.wall_s for c in theirs]),
        figure("peak memory, percentiles of it / 200 MB", "MB", peak, [MEMORY_MB] * passes, Target(at_most=1)),
    ]


def write_log(path: Path, lines: int) -> int:
    """Write a per-transaction log as pgbench does, and return the sum of its latencies in µs.

    They are log-normal with median 3 ms and sigma 0.7. Logs of tpcb-like with 4 clients on 2 cores had 1 to 3.5 ms and 0.4 to 0.7.
    """
    rng = random.Random(SEED)
    total = 0
    with open(path, "w", encoding="ascii") as file:
        for first in range(0, lines, 50_000):
            times = [1 + int(rng.lognormvariate(8.0, 0.7)) for _ in range(min(50_000, lines - first))]
            total += sum(times)
            clock = enumerate(times, first)
            file.writelines(f"{i % 4} {i // 4} {t} 0 {1_700_000_000 + i // 2500} {i % 2500 * 400}\n" for i, t in clock)
    return total


def digest_pass(log: Path, lines: int, total: int, work: Path) -> Cost:
    """Run the module as a target does, in a process of its own; ``SideFailed`` when its figures are not those of the log."""
    options = json.dumps({"logs": [str(log)], "scripts": 1, "out": str(work / "latencies.gz")})
    environment = {"PYTHONPATH": str(ROOT / "collections"), "PATH": os.environ.get("PATH", os.defpath)}
    cost = run([sys.executable, "-c", _DIGEST, options], work / "digest", env=environment)
    found = json.loads((work / "digest").read_text("utf-8"))["digest"]
    if found["n"] != lines or found["problems"] or not math.isclose(found["overall"]["average"] * 1000 * lines, total, rel_tol=1e-9):
        raise SideFailed(f"digest read {found['n']} of {lines} lines: {found['problems']}")
    return cost


def mawk_pass(log: Path, total: int, work: Path) -> Cost:
    """Sum the latencies; ``SideFailed`` when the sum, which mawk prints with six digits, is another."""
    cost = run(["mawk", "{s+=$3} END {print s}", str(log)], work / "mawk")
    found = (work / "mawk").read_text("ascii").strip()
    if not math.isclose(float(found or 0), total, rel_tol=1e-5):
        raise SideFailed(f"mawk summed up {found or 'nothing'} instead of {total}")
    return cost


# What the harness takes beside the measurement

#: What a trial is there for, by its names in trial.json.
ACCOUNTED = ("reset_s", "restart_s", "settle_s", "ramp_up_s", "measured_s")


def harness(work: Path, quick: bool) -> list[Figure]:
    """Run a small experiment on an unprepared machine, then again on what the first run has prepared."""
    repeats, duration, again = (1, 2, 1) if quick else (3, 5, 3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["-e", f"postgres_base_dir={work / 'base'}"]
    wall: list[float] = []
    trials: list[list[tuple[float, float]]] = []
    try:
        for number in range(1 + again):
            results, log = work / f"results-{number}", work / f"run-{number}.log"
            size = [
                "workload=pgbench",
                f"duration={duration}",
                "ramp_up=0",
                f"repeats={repeats}",
                f"results_dir={results}",
                f"postgres_port={port}",
            ]
            wall.append(play(["benchmark.yml", *where, *(word for option in size for word in ("-e", option))], log).wall_s)
            trials.append(trial_costs(results / "latest"))
            if len(trials[-1]) != repeats:
                raise SideFailed(f"{len(trials[-1])} of {repeats} trials were measured:\n{log.read_text('utf-8')[-2000:]}")
            say(f"harness: run {number + 1} of {1 + again} took {wall[-1]:.0f} s")
    finally:
        play(["playbooks/teardown.yml", *where], work / "teardown.log")
    overheads, accounted = zip(*(trial for run_trials in trials for trial in run_trials), strict=True)
    first, prepared = wall[0], wall[1:]
    inside = [sum(accounted for _, accounted in run_trials) for run_trials in trials[1:]]
    beside = [total - part for total, part in zip(prepared, inside, strict=True)]
    return [
        figure("a trial: harness / window, reset, restart, settling", "s", overheads, accounted),
        figure("a prepared run: all but those / those", "s", beside, inside),
        figure("wall, a prepared run / the first run", "s", prepared, [first] * again),
    ]


def trial_costs(experiment: Path) -> list[tuple[float, float]]:
    """Return ``(overhead, accounted)`` seconds of each trial of an experiment; ``SideFailed`` for one that was not measured."""
    events = [json.loads(line) for line in (experiment / "progress.jsonl").read_text("utf-8").splitlines()]
    spans = trial_spans(events)
    found = []
    for path in sorted(experiment.glob("trials/*/trial.json")):
        trial = json.loads(path.read_text("utf-8"))
        if trial["verdict"] in ("aborted", "failed") or not trial["timing"].get("measured_s"):
            raise SideFailed(f"trial {trial['trial_id']} is {trial['verdict']}: {trial['findings']}")
        accounted = sum(trial["timing"].get(name) or 0.0 for name in ACCOUNTED)
        found.append((spans[trial["trial_id"]] - accounted, accounted))
    return found


def trial_spans(events: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds from the opening of each trial to its record."""
    begun: dict[str, float] = {}
    spans: dict[str, float] = {}
    for event in events:
        if event.get("step") == "begin":
            begun[event["trial"]] = event["at"]
        elif event.get("step") == "recorded":
            spans[event["trial"]] = event["at"] - begun[event["trial"]]
    return spans


# The command

BENCHMARKS: dict[str, Callable[[Path, bool], list[Figure]]] = {"tps": tps, "percentiles": percentiles, "harness": harness}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks and print their table; 1 when a side did not run."""
    parser = argparse.ArgumentParser(description="Measure our own speed, as ratios against public tools.")
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="run this one; may be repeated")
    parser.add_argument("--quick", action="store_true", help="a short look: too few and too short runs to judge by")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures with the values of both sides")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    load, begin = os.getloadavg()[0], time.monotonic()
    figures: list[Figure] = []
    failed = []
    # The test cluster opens the folders above it up to /tmp, and socket paths are short there.
    work = Path(tempfile.mkdtemp(prefix="pgsizing-speed-", dir="/tmp"))
    work.chmod(0o755)  # servers run as users of their own
    try:
        for name in options.only or BENCHMARKS:
            (work / name).mkdir()
            try:
                figures += BENCHMARKS[name](work / name, options.quick)
            except (SideFailed, OSError, subprocess.CalledProcessError) as error:
                failed.append(name)
                say(f"{name} did not run: {error}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if options.quick:
        for each in figures:
            each.reached = None
    facts = {"cores": os.cpu_count(), "load_average": load, "elapsed_s": time.monotonic() - begin, "quick": options.quick, "failed": failed}
    print("{cores} cores, load average {load_average:.1f} before, {elapsed_s:.0f} s, quick: {quick}".format_map(facts))
    print(table(figures))
    for name in failed:
        print(f"{name}: did not run")
    if options.json:
        options.json.write_text(json.dumps({**facts, "figures": [*map(asdict, figures)]}, indent=1, allow_nan=False) + "\n", "utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
