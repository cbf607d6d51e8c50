# GNU General Public License v3.0 or later (see LICENSE)
"""The built-in driver of TPROC-C as ratios: the build against COPY, the run with latencies against without."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from ratios import Figure, SideFailed, Target, figure, say
from support import tprocc as driver
from support.cluster import running_cluster, sql
from toolkit import parse_tps

from ansible_collections.pgsizing.bench.plugins.module_utils import stats
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import tprocc

WAREHOUSES, SESSIONS = 4, 2
SETTINGS = "shared_buffers = 1GB\nmax_wal_size = 8GB\ncheckpoint_timeout = 15min\nmax_connections = 100\nfsync = on\nautovacuum = off\n"
TABLES = ("order_line", "stock", "customer", "orders", "history", "new_order")
OWNERS = dict(zip(TABLES, ("ol_w_id", "s_w_id", "c_w_id", "o_w_id", "h_w_id", "no_w_id"), strict=True))


class Cost(NamedTuple):
    """Wall seconds, and CPU seconds of the programs and of the server's ended processes."""

    wall_s: float
    cpu_s: float


def server_cpu(cluster: dict[str, Any]) -> float:
    """Return the CPU seconds of all processes of the server that have ended: sessions and their parallel workers."""
    pid = Path(cluster["data_dir"], "postmaster.pid").read_text().split()[0]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / 100


def timed(cluster: dict[str, Any], steps: list[dict[str, Any]], folder: Path) -> Cost:
    """Run steps; ``SideFailed`` when one does not end well."""
    begin, cpu = time.monotonic(), server_cpu(cluster)
    done = driver.run(steps, cluster, folder)
    wall = time.monotonic() - begin
    if done[-1]["job"]["rc"] != 0:
        raise SideFailed(f"{done[-1]['name']}: {done[-1]['stderr'][-2000:]}")
    time.sleep(0.2)  # sessions that end are still being waited for
    programs = sum(s["job"]["rusage"]["user_s"] + s["job"]["rusage"]["system_s"] for s in done)
    return Cost(wall, programs + server_cpu(cluster) - cpu)


def fresh(cluster: dict[str, Any], database: str, template: str = "") -> dict[str, Any]:
    """Make a database, empty or a copy, with nothing left to write from before; return how to connect to it."""
    sql(cluster, f"DROP DATABASE IF EXISTS {database}")
    sql(cluster, f"CREATE DATABASE {database}" + (f" TEMPLATE {template} STRATEGY file_copy" if template else ""))
    sql(cluster, "CHECKPOINT")
    return driver.connection(cluster, database)


def build(work: Path, quick: bool) -> list[Figure]:
    """Build the same data set by our loader, and by COPY of its rows from files with the same indexes after it."""
    pairs = 1 if quick else 4
    cost: dict[str, list[Cost]] = {"ours": [], "copy": []}
    with running_cluster(work / "cluster", SETTINGS) as cluster:
        params = tprocc.complete({"warehouses": WAREHOUSES, "load_sessions": SESSIONS}, cores=SESSIONS)
        files = export(cluster, params, work)
        for side, pair in stats.order(["ours", "copy"], pairs):
            steps = tprocc.load_steps(params, driver.VERSION, fresh(cluster, side))
            folder = work / f"{side}-{pair}"
            if side == "ours":
                done = timed(cluster, steps[:-1], folder)
            else:
                driver.run(steps[:1], cluster, folder)
                done = copy(cluster, files, steps[2:4], folder)
            cost[side].append(done)
            say(f"build: pair {pair} of {pairs}, {side} {done.wall_s:.1f} s wall, {done.cpu_s:.1f} s CPU")
        problems = [f["message"] for side in cost for f in driver.check(cluster, side, warehouses=WAREHOUSES)]
        if problems:
            raise SideFailed(f"a side did not build the data set: {problems}")
    ours, floor = cost["ours"], cost["copy"]
    return [
        figure("CPU, build / COPY floor", "s", [c.cpu_s for c in ours], [c.cpu_s for c in floor], Target(at_most=1.2)),
        figure("wall, build / COPY floor", "s", [c.wall_s for c in ours], [c.wall_s for c in floor], Target(at_most=1.2)),
    ]


def export(cluster: dict[str, Any], params: dict[str, Any], work: Path) -> dict[str, list[str]]:
    """Write the rows of a data set into one file for each table and session; return the COPY commands of each session."""
    timed(cluster, tprocc.load_steps(params, driver.VERSION, fresh(cluster, "source")), work / "source")
    folder = Path(cluster["data_dir"]).parent / "files"
    commands: dict[str, list[str]] = {}
    sql(cluster, f"COPY (SELECT 1) TO PROGRAM 'mkdir {folder}'")
    for session in range(SESSIONS):
        mine = [(t, f"SELECT * FROM {t} WHERE {OWNERS[t]} % {SESSIONS} = {session}") for t in TABLES]
        mine += [(t, f"SELECT * FROM {t}") for t in ("item", "warehouse", "district")] if session == 0 else []
        commands[str(session)] = [f"COPY {table} FROM '{folder}/{table}.{session}'" for table, _ in mine]
        for table, query in mine:
            sql(cluster, f"COPY ({query}) TO '{folder}/{table}.{session}'", "source")
    sql(cluster, "DROP DATABASE source")
    return commands


def copy(cluster: dict[str, Any], files: dict[str, list[str]], after: list[dict[str, Any]], folder: Path) -> Cost:
    """COPY by as many sessions as the other side has, then the same steps for the indexes."""
    where = driver.connection(cluster, "copy")
    login = ["-h", where["host"], "-p", str(where["port"]), "-U", where["user"], "-d", "copy", "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    scripts = {f"{session}.sql": ";\n".join(["SET synchronous_commit = off", *commands]) + ";\n" for session, commands in files.items()}
    together = " & ".join(f'psql "$@" -f {name}' for name in scripts)
    mark = "UPDATE tprocc_build.work SET done = now() WHERE stage = 'rows';\n"
    argv = ["sh", "-ec", f'{together} & wait; psql "$@" -f mark.sql', "copy", *login]
    step = {"name": "copy", "argv": argv, "shipped": {}, "files": {**scripts, "mark.sql": mark}}
    return timed(cluster, [step, *after], folder / "timed")


def flat(work: Path, quick: bool) -> list[Figure]:
    """Build ten times as many warehouses: each should take as long."""
    small, large = (2, 6) if quick else (4, 40)
    each: dict[int, Cost] = {}
    with running_cluster(work / "cluster", SETTINGS) as cluster:
        for warehouses in (small, large):
            params = tprocc.complete({"warehouses": warehouses, "load_sessions": SESSIONS}, cores=SESSIONS)
            cost = timed(cluster, tprocc.load_steps(params, driver.VERSION, fresh(cluster, "flat")), work / str(warehouses))
            each[warehouses] = Cost(cost.wall_s / warehouses, cost.cpu_s / warehouses)
            size = int(sql(cluster, "SELECT pg_database_size('flat')"))
            say(f"flat: {warehouses} warehouses in {cost.wall_s:.1f} s, {size / warehouses / 1e6:.1f} MB each")
    what = f"a warehouse, of {large} / of {small}"
    return [
        figure(f"CPU, {what}", "s", [each[large].cpu_s], [each[small].cpu_s], Target(at_most=1.1)),
        figure(f"wall, {what}", "s", [each[large].wall_s], [each[small].wall_s]),
    ]


def latency(work: Path, quick: bool) -> list[Figure]:
    """Run the load with everything that gives latencies and progress, and without."""
    pairs, duration = (2, 3) if quick else (8, 10)
    tps: dict[str, list[float]] = {"on": [], "off": []}
    with running_cluster(work / "cluster", SETTINGS) as cluster:
        params = tprocc.complete({"warehouses": WAREHOUSES, "load_sessions": SESSIONS, "ramp_up": 0, "duration": duration}, cores=SESSIONS)
        timed(cluster, tprocc.load_steps(params, driver.VERSION, fresh(cluster, "source")), work / "source")
        for side, pair in stats.order(["on", "off"], pairs):
            steps = tprocc.run_steps(params, driver.VERSION, fresh(cluster, "run", template="source"))
            measured = next(s for s in steps if s["name"] == "measured")
            if side == "off":
                words = measured["argv"]
                at = words.index("-P")
                measured["argv"] = [
                    w for n, w in enumerate(words) if n not in (at, at + 1) and w != "-l" and not w.startswith("--log-prefix")
                ]
            done = driver.run([measured], cluster, work / f"{side}-{pair}")[0]
            if done["job"]["rc"] != 0:
                raise SideFailed(done["stderr"][-2000:])
            tps[side].append(parse_tps(done["stdout"]))
            say(f"latency: pair {pair} of {pairs}, {side} {tps[side][-1]:.0f} tps")
    return [
        figure("tps, with latencies and progress / without", "tps", tps["on"], tps["off"], Target(at_least=0.97)),
    ]
