# GNU General Public License v3.0 or later (see LICENSE)
"""The built-in driver of TPROC-C beside a real HammerDB, named by ``HAMMERDB_HOME``: build, NOPM, and CPU of a new order.

That both drive the same server to the same NOPM is what lets their results stand side by side.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from ratios import Figure, NotHere, SideFailed, Target, figure, say
from support import tprocc as driver
from support.cluster import running_cluster, sql
from tprocc import SESSIONS, SETTINGS, WAREHOUSES, Cost, fresh, server_cpu, timed

from ansible_collections.pgsizing.bench.plugins.module_utils import stats
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import hammerdb, tprocc

CLIENTS = 4
ORDERS = "SELECT sum(d_next_o_id) FROM district"


class Run(NamedTuple):
    """NOPM, and the microseconds of CPU that a new order took the client and the server."""

    nopm: float
    client_us: float
    server_us: float


def calibration(work: Path, quick: bool) -> list[Figure]:
    """Build by both, then run both on copies of the same data set; ``NotHere`` without a HammerDB."""
    home = os.environ.get("HAMMERDB_HOME")
    if not home:
        raise NotHere("HAMMERDB_HOME names no HammerDB")
    said = subprocess.run(["./hammerdbcli", "--version"], cwd=home, capture_output=True, text=True, errors="replace", check=False).stdout
    builds, pairs, duration = (1, 1, 12) if quick else (2, 5, 36)
    with running_cluster(work / "cluster", SETTINGS) as cluster:
        more = {"home": str(Path(home).resolve()), "ssl_mode": "prefer", "psql": f"{cluster['bin_dir']}/psql"}
        cost: dict[str, list[Cost]] = {"ours": [], "theirs": []}
        for side, pair in stats.order(["ours", "theirs"], builds):
            where = fresh(cluster, side)
            asked = {"warehouses": WAREHOUSES, "load_sessions": SESSIONS}
            if side == "ours":
                steps = tprocc.load_steps(asked, driver.VERSION, where)
            else:
                steps = hammerdb.load_steps(asked, said, where | more)[:1]
            cost[side].append(timed(cluster, steps, work / f"build-{side}-{pair}"))
            say(f"calibration: build {pair} of {builds}, {side} {cost[side][-1].wall_s:.1f} s wall, {cost[side][-1].cpu_s:.1f} s CPU")
            problems = [f["message"] for f in driver.check(cluster, side, warehouses=WAREHOUSES)] if side == "ours" else []
            if problems or int(sql(cluster, "SELECT count(*) FROM warehouse", side)) != WAREHOUSES:
                raise SideFailed(f"{side} did not build the data set: {problems}")
        runs: dict[str, list[Run]] = {"ours": [], "theirs": []}
        for side, pair in stats.order(["ours", "theirs"], pairs):
            where, asked = fresh(cluster, "run", template="ours"), {"warehouses": WAREHOUSES, "clients": CLIENTS, "duration": duration}
            runs[side].append(measure(cluster, side, asked, where, said, more, work / f"run-{side}-{pair}"))
            say(f"calibration: run {pair} of {pairs}, {side} {runs[side][-1].nopm:.0f} NOPM")
    ours, theirs = runs["ours"], runs["theirs"]
    return [
        figure("CPU, build / HammerDB's", "s", [c.cpu_s for c in cost["ours"]], [c.cpu_s for c in cost["theirs"]], Target(at_most=1 / 8)),
        figure(
            "wall, build / HammerDB's", "s", [c.wall_s for c in cost["ours"]], [c.wall_s for c in cost["theirs"]], Target(at_most=1 / 7)
        ),
        figure("NOPM / HammerDB's", "NOPM", [r.nopm for r in ours], [r.nopm for r in theirs], Target(at_least=0.9, at_most=1.2)),
        figure(
            "client CPU of a new order / HammerDB's",
            "us",
            [r.client_us for r in ours],
            [r.client_us for r in theirs],
            Target(at_most=1 / 3),
        ),
        figure("server CPU of a new order / HammerDB's", "us", [r.server_us for r in ours], [r.server_us for r in theirs]),
    ]


def measure(
    cluster: dict[str, Any], side: str, asked: dict[str, Any], where: dict[str, Any], version: str, more: dict[str, Any], folder: Path
) -> Run:
    """Run one side; CPU is divided by all new orders, those of the ramp-up of HammerDB included. ``SideFailed`` without NOPM."""
    workload: Any
    if side == "ours":
        workload, params = tprocc, tprocc.complete(asked | {"load_sessions": SESSIONS, "ramp_up": 6}, cores=SESSIONS)
        steps = tprocc.run_steps(params, driver.VERSION, where)
    else:
        workload, params = hammerdb, hammerdb.complete(asked | {"ramp_up": 6})
        steps = hammerdb.run_steps(params, version, where | more)
    at = next(number for number, step in enumerate(steps) if step["name"] == "measured")
    done = driver.run(steps[:at], cluster, folder)
    orders, cpu = int(sql(cluster, ORDERS, "run")), server_cpu(cluster)
    done += driver.run([steps[at]], cluster, folder)
    time.sleep(0.5)  # sessions that end are still being waited for
    orders, cpu = int(sql(cluster, ORDERS, "run")) - orders, server_cpu(cluster) - cpu
    if done[-1]["job"]["rc"] == 0:
        done += driver.run(steps[at + 1 :], cluster, folder)
    found = workload.result(params, done)
    if "nopm" not in found["metrics"] or not orders:
        raise SideFailed(f"{side}: no NOPM: {[f['message'] for f in found['findings']]}\n{done[-1]['stderr'][-2000:]}")
    usage = next(step["job"]["rusage"] for step in done if step["name"] == "measured")
    return Run(found["metrics"]["nopm"]["value"], 1e6 * (usage["user_s"] + usage["system_s"]) / orders, 1e6 * cpu / orders)
