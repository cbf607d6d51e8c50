# GNU General Public License v3.0 or later (see LICENSE)
"""The toolkit as ratios: its pgbench against a bare one, its percentiles against ``mawk``, what it takes beside a measurement."""

from __future__ import annotations

import json
import math
import os
import random
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ratios import ROOT, Cost, Figure, NotHere, SideFailed, Target, figure, play, run, say
from support.cluster import running_cluster, sql

from ansible_collections.pgsizing.bench.plugins.module_utils import stats
from ansible_collections.pgsizing.bench.plugins.module_utils.detached import clean_environment, run_state, stop_runs

SEED = 20

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

BED = str(ROOT / "tests/testbed/testbed.sh")
#: What a trial is there for, by its names in trial.json.
ACCOUNTED = ("reset_s", "restart_s", "settle_s", "ramp_up_s", "measured_s")


def harness(work: Path, quick: bool) -> list[Figure]:
    """Run a small experiment on an unprepared machine, then again on what the first run has prepared."""
    repeats, duration, again = (1, 2, 1) if quick else (3, 5, 3)
    here = on_this_machine(work)
    wall: list[float] = []
    trials: list[list[tuple[float, float]]] = []
    try:
        for number in range(1 + again):
            took, costs = experiment(work / f"run-{number}", here, repeats, duration)
            wall.append(took)
            trials.append(costs)
            say(f"harness: run {number + 1} of {1 + again} took {took:.0f} s")
    finally:
        play(["playbooks/teardown.yml", *here], work / "teardown.log")
    overheads, accounted = zip(*(trial for run_trials in trials for trial in run_trials), strict=True)
    first, prepared = wall[0], wall[1:]
    inside = [sum(accounted for _, accounted in run_trials) for run_trials in trials[1:]]
    beside = [total - part for total, part in zip(prepared, inside, strict=True)]
    return [
        figure("a trial: harness / window, reset, restart, settling", "s", overheads, accounted),
        figure("a prepared run: all but those / those", "s", beside, inside),
        figure("wall, a prepared run / the first run", "s", prepared, [first] * again),
    ]


#: What planning a size may take, Ansible's own start included.
PLAN_S = 5.0


def plan(work: Path, quick: bool) -> list[Figure]:
    """Plan the largest size on paper; ``SideFailed`` when the plan is not printed."""
    walls = []
    for number in range(2 if quick else 7):
        log = work / f"plan-{number}.log"
        walls.append(play(["benchmark.yml", "-e", "size=xl", "-e", f"results_dir={work / 'results'}", "--check"], log).wall_s)
        printed = log.read_text("utf-8")
        missing = [word for word in ("PLAN ", "r5n.8xlarge", "shared_buffers = ", "budget_usd = ") if word not in printed]
        if missing:
            raise SideFailed(f"the plan does not show {', '.join(missing)}:\n{printed[-2000:]}")
    return [figure(f"wall, --check of size=xl / {PLAN_S:g} s", "s", walls, [PLAN_S] * len(walls), Target(at_most=1))]


def ssh(work: Path, quick: bool) -> list[Figure]:
    """Run the same experiment on this machine and on the two hosts of the test-bed; ``NotHere`` where that cannot be raised."""
    repeats, duration, pairs = (1, 2, 1) if quick else (3, 5, 2)
    why = subprocess.run([BED, "check"], capture_output=True, text=True, check=False)
    if why.returncode:
        raise NotHere(why.stderr.strip())
    sides = {"ssh": ["-i", "inventories/testbed"], "local": on_this_machine(work)}
    found: dict[str, list[float]] = {side: [] for side in sides}
    subprocess.run([BED, "up"], stdout=subprocess.DEVNULL, check=True)
    try:
        for side, where in sides.items():
            experiment(work / f"{side}-first", where, 1, duration)
            say(f"ssh: {side} is prepared")
        for side, pair in stats.order([*sides], pairs):
            _wall, costs = experiment(work / f"{side}-{pair}", sides[side], repeats, duration)
            found[side].append(sum(overhead for overhead, _ in costs) / repeats)
            say(f"ssh: pair {pair} of {pairs}, {side} {found[side][-1]:.1f} s a trial")
    finally:
        play(["playbooks/teardown.yml", *sides["local"]], work / "teardown.log")
        subprocess.run([BED, "down"], check=True)
    return [figure("harness of a trial, over ssh / here", "s", found["ssh"], found["local"], Target(at_most=2))]


def on_this_machine(work: Path) -> list[str]:
    """Return the options that send a run to a base directory and a port of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return ["-e", f"postgres_base_dir={work / 'base'}", "-e", f"postgres_port={free.getsockname()[1]}"]


def experiment(folder: Path, where: Sequence[str], repeats: int, duration: int) -> tuple[float, list[tuple[float, float]]]:
    """Run a small experiment; return its wall seconds and the costs of each trial. ``SideFailed`` when a trial is missing."""
    log = folder.with_suffix(".log")
    size = ["workload=pgbench", f"duration={duration}", "ramp_up=0", f"repeats={repeats}", f"results_dir={folder}"]
    wall = play(["benchmark.yml", *where, *(word for option in size for word in ("-e", option))], log).wall_s
    costs = trial_costs(folder / "latest")
    if len(costs) != repeats:
        raise SideFailed(f"{len(costs)} of {repeats} trials were measured:\n{log.read_text('utf-8')[-2000:]}")
    return wall, costs


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
