# GNU General Public License v3.0 or later (see LICENSE)
"""The workload ``tprocc`` by HammerDB's command line: its scripts, and the measurement from what it printed and what was counted.

The contract is that of ``workloads/pgbench.py``. ``connection`` has three more keys: ``home`` (HammerDB's folder), ``ssl_mode`` and
``psql`` (the program). One job is ramp-up and window; the clock of its lines cuts them into the steps ``ramp_up`` and ``measured``.

HammerDB's exit status and its word prove nothing. A build is checked by a statement of our own over every row; a run needs one result
line and the end of every virtual user; beside the run psql counts orders and transactions, which must agree with the result.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ansible_collections.pgsizing.bench.plugins.module_utils import hammerdb_output as output
from ansible_collections.pgsizing.bench.plugins.module_utils import hammerdb_script as script
from ansible_collections.pgsizing.bench.plugins.module_utils import tprocc_data
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES, finding
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import canonical_json
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import tprocc

if TYPE_CHECKING:
    from typing import TypeGuard  # newer than the targets' Python

WORKLOAD = tprocc.WORKLOAD
LOAD_GENERATOR = "hammerdb"
ROLE = "hammerdb"
HEADLINE = tprocc.HEADLINE
RATE_UNIT = "tps"

OPTIONS: dict[str, dict[str, Any]] = {
    # the data set
    "warehouses": tprocc.OPTIONS["warehouses"],
    "database_size": tprocc.OPTIONS["database_size"],
    "partition": {"type": "bool", "default": False},
    "storedprocs": {"type": "bool", "default": True},
    "load_sessions": tprocc.OPTIONS["load_sessions"],
    # the load
    "clients": tprocc.OPTIONS["clients"],
    "duration": tprocc.OPTIONS["duration"],
    "ramp_up": {"type": "int", "default": 24, "unit": "s"},
    "all_warehouses": tprocc.OPTIONS["all_warehouses"],
    "user_delay": {"type": "int"},
    "time_profile": {"type": "bool", "default": False},
}
EXCLUSIVE = tprocc.EXCLUSIVE
DATA_PARAMETERS = tprocc.DATA_PARAMETERS
MONITORS = 1  # the first virtual user keeps the time and counts
LOAD_CONTINUES = False  # HammerDB builds into an empty database only

#: HammerDB counts time in sleeps of this many seconds.
TICK_S = 6
#: Milliseconds between the starts of two virtual users, unless they would not all be there by the middle of the ramp-up.
USER_DELAY_MS = 500
#: What the users may take to end after the window: their last transactions, and sending their timings.
MARGIN_S, PROFILE_MARGIN_S = 60.0, 300.0
#: CPU-seconds of client and server to build a warehouse, measured with 4.12; 84 % of it is string work in Tcl.
LOAD_CPU_S, LOAD_AROUND_S = 27.0, 20.0
#: Rows of orders that the counting beside a run reads at most each second.
COUNT_ROWS_PER_S = 10_000
#: Clocks of driver and server that differ by less than this are taken for one: a psql may need as long to connect.
SKEW_S = 2.0
#: 4.10 brought checkschema; up to it the order counter is one off after any run.
CHECKSCHEMA_FROM, COUNTER_FIXED_IN, JOB_SUMMARY_FROM = (4, 10), (4, 11), (4, 12)
CHECK_BOUND_S = 6 * 3600.0


# parameters ----------------------------------------------------------------------------------------------------------


def complete(params: Mapping[str, Any], cores: int | None = None) -> dict[str, Any]:
    """Return ``params`` with every default filled in, the data set's as for the built-in driver."""
    values = {name: params.get(name) for name in OPTIONS}
    values = {name: OPTIONS[name].get("default") if value is None else value for name, value in values.items()}
    same = tprocc.complete({k: values[k] for k in ("warehouses", "database_size", "load_sessions")}, cores)
    values |= {k: same[k] for k in ("warehouses", "database_size", "load_sessions")}
    clients, ramp_up = values["clients"], values["ramp_up"]
    if values["user_delay"] is None and _is_whole(clients, 1) and _is_whole(ramp_up, 0):
        values["user_delay"] = max(1, min(USER_DELAY_MS, 500 * ramp_up // clients))
    return values


def _is_whole(value: Any, least: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def validate(params: Mapping[str, Any]) -> list[str]:
    """Return everything that cannot be, each with what would be right."""
    p = {**dict.fromkeys(OPTIONS), **params}
    problems = []
    if p["database_size"] is not None:
        problems += [text for text in tprocc.validate({**tprocc.complete({}), **p}) if text.startswith(("warehouses", "database_size"))]
    for name, least in (("warehouses", 1), ("load_sessions", 1), ("clients", 1), ("duration", 1), ("ramp_up", 0), ("user_delay", 1)):
        if p[name] is not None and not _is_whole(p[name], least):
            problems.append(f"{name}: {p[name]!r} is not a whole number of {least} or more")
    if _is_whole(p["load_sessions"], 1025):
        problems.append(f"load_sessions: HammerDB builds with up to 1024 virtual users, not {p['load_sessions']}")
    return problems


def unsupported(params: Mapping[str, Any], version: str) -> list[str]:
    """Return what is asked for and this HammerDB lacks. At the plan it is not known yet: other programs' versions say nothing."""
    here = output.parse_version(version)
    return [f"HammerDB {here} is too old; 4.0 or later is needed"] if here and output.version_tuple(here) < (4, 0) else []


def needs_dataset(params: Mapping[str, Any]) -> bool:
    """Return ``True``: no run without the tables."""
    return True


def ticks(seconds: int) -> tuple[str, int]:
    """Return a length that HammerDB can wait for: the minutes as it is told, and the seconds they are, ``seconds`` or up to some more.

    It adds up sleeps of 6 s until they *equal* the minutes times 60,000, so that 4.1 minutes (245,999.99… ms) never end.
    """
    count = math.ceil(seconds / TICK_S)
    while float(f"{count / 10:g}") * 60000 != count * 1000 * TICK_S:
        count += 1
    return f"{count / 10:g}", count * TICK_S


# commands ------------------------------------------------------------------------------------------------------------


def load_steps(params: Mapping[str, Any], version: str, connection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps ``load``, ``verify`` (every row, by a statement of our own) and ``checkschema`` (HammerDB's own, from 4.10 on)."""
    p = complete(params)
    seconds = load_seconds(p)
    bound = max(600.0, 20 * seconds)
    settings = {
        "pg_count_ware": p["warehouses"],
        "pg_num_vu": min(p["load_sessions"] or 1, p["warehouses"]),
        "pg_storedprocs": p["storedprocs"],
        "pg_partition": p["partition"],
    }
    text = script.build_script(connection, connection["ssl_mode"], settings, p["warehouses"], bound)
    load = _hammerdb("load", script.BUILD_NAME, text, version, connection, planned_s=seconds, grace_s=bound)
    verify = _verify("verify", "full", version, connection, planned_s=1.0 + p["warehouses"], grace_s=CHECK_BOUND_S)
    last = [check_step(p, version, connection)] if output.version_tuple(output.parse_version(version)) >= CHECKSCHEMA_FROM else []
    return [load, verify, *last]


def check_step(params: Mapping[str, Any], version: str, connection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step in which HammerDB checks a schema."""
    p = complete(params)
    settings = {"pg_count_ware": p["warehouses"], "pg_storedprocs": p["storedprocs"]}
    text = script.check_script(connection, connection["ssl_mode"], settings, CHECK_BOUND_S)
    planned = 5.0 + p["warehouses"]
    return _hammerdb("checkschema", script.CHECK_NAME, text, version, connection, planned_s=planned, grace_s=CHECK_BOUND_S)


def run_steps(params: Mapping[str, Any], version: str, connection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps ``measured`` (with the ramp-up in it) and ``after`` (consistency)."""
    p = complete(params)
    (ramp_up, ramp_up_s), (duration, duration_s) = ticks(p["ramp_up"]), ticks(p["duration"])
    settings = {
        "pg_count_ware": p["warehouses"],
        "pg_storedprocs": p["storedprocs"],
        "pg_driver": "timed",
        "pg_total_iterations": 10**9,
        "pg_raiseerror": True,
        "pg_keyandthink": False,
        "pg_vacuum": False,
        "pg_rampup": ramp_up,
        "pg_duration": duration,
        "pg_allwarehouse": p["all_warehouses"],
        "pg_timeprofile": p["time_profile"],
    }
    planned = float(ramp_up_s + duration_s)
    margin = PROFILE_MARGIN_S if p["time_profile"] else MARGIN_S
    text = script.run_script(
        connection,
        connection["ssl_mode"],
        settings,
        clients=p["clients"],
        delay_ms=p["user_delay"],
        planned_s=planned,
        margin_s=margin,
    )
    step = _hammerdb("measured", script.RUN_NAME, text, version, connection, planned_s=planned, grace_s=margin + 120.0)
    step["argv"] += script.counts_argv(connection["psql"], connection)
    step["files"][script.COUNTS_NAME] = script.counts_script(math.ceil(10 * p["warehouses"] / COUNT_ROWS_PER_S))
    return [step, _verify("after", "sample", version, connection, planned_s=1.0, grace_s=600.0)]


def _hammerdb(name: str, file: str, text: str, version: str, connection: Mapping[str, Any], **known: Any) -> dict[str, Any]:
    files = {script.LAUNCHER_NAME: script.LAUNCHER.lstrip(), file: text}
    return _step(name, ["sh", script.LAUNCHER_NAME, connection["home"], file], version, files=files, **known)


def _verify(name: str, depth: str, version: str, connection: Mapping[str, Any], **known: Any) -> dict[str, Any]:
    file = f"{name}.sql"
    argv = [connection["psql"], "--no-psqlrc", "--no-password", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
    argv += [f"--{key}={connection[key]}" for key in ("host", "port") if connection.get(key)]
    argv += [f"--username={connection['user']}", f"--dbname={connection['dbname']}", f"--file={file}"]
    text = f"SELECT row_to_json(c) FROM ({tprocc_data.statement(depth)}) AS c;\n"
    return _step(name, argv, version, files={file: text}, **known)


def _step(name: str, argv: list[str], version: str, **known: Any) -> dict[str, Any]:
    return {"name": name, "argv": argv, "env": {}, "files": {}, "log_prefix": None, "planned_s": None, "version": version, **known}


def log_layout(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return nothing: HammerDB keeps no log of transactions."""
    return {}


def sampling_for(params: Mapping[str, Any], tps_guess: float, limit_bytes: float) -> float:
    """Return 1: there is no log that could grow too large."""
    return 1.0


# the data set --------------------------------------------------------------------------------------------------------


def dataset(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{parameters, fingerprint}``: what the built data depends on. The built-in loader's data set is another one."""
    p = complete(params)
    parameters = {k: p[k] for k in ("warehouses", "partition", "storedprocs")}
    text = canonical_json({"workload": WORKLOAD, "load_generator": LOAD_GENERATOR, **parameters})
    return {"parameters": parameters, "fingerprint": hashlib.sha256(text.encode()).hexdigest()[:12]}


def dataset_bytes(params: Mapping[str, Any]) -> int:
    """Return about how large the database is when just built."""
    return tprocc.dataset_bytes({"warehouses": complete(params)["warehouses"]})


def load_seconds(params: Mapping[str, Any]) -> float:
    """Return about how long HammerDB builds: an estimate for planning, see ``LOAD_CPU_S``."""
    p = complete(params)
    return LOAD_AROUND_S + LOAD_CPU_S * p["warehouses"] / min(p["load_sessions"] or 1, p["warehouses"])


def guess_tps(params: Mapping[str, Any], cores: int) -> float:
    """Return a rate for estimates."""
    return tprocc.guess_tps(params, cores)


def run_seconds(params: Mapping[str, Any], cores: int) -> float:
    """Return how long ramp-up and measured window take."""
    p = complete(params)
    return float(ticks(p["ramp_up"])[1] + ticks(p["duration"])[1])


def check_sql(params: Mapping[str, Any], full: bool = False) -> str:
    """Return one statement with one row for ``check``; ``full`` reads the whole database, else next to nothing is read."""
    dead = (
        "SELECT coalesce(sum(n_dead_tup), 0) AS dead, coalesce(sum(n_live_tup), 0) AS live,"
        " extract(epoch FROM max(greatest(last_vacuum, last_autovacuum))) AS vacuumed"
        " FROM pg_stat_user_tables WHERE relname IN ('order_line', 'orders', 'stock', 'customer', 'district', 'warehouse', 'new_order')"
    )
    return f"SELECT c.*, row_to_json(d) AS rows FROM ({tprocc_data.statement('full' if full else 'before')}) AS c, ({dead}) AS d"


def check(rows: Sequence[Mapping[str, Any]], params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return findings where the data set, whoever built it, is not the one that ``params`` ask for, or not consistent.

    Which HammerDB ran on data of HammerDB is not known here, and up to 4.10 its runs leave every order counter one off.
    """
    asked = params.get("warehouses") or params.get("database_size")
    return _data_findings(rows[0], complete(params) if asked else None, one_off=not rows[0].get("built"))


def sound(row: Mapping[str, Any]) -> str:
    """Return what a full ``check`` without findings has shown."""
    return tprocc_data.sound(row, left_out=("2", "10"))


def _data_findings(row: Mapping[str, Any], p: Mapping[str, Any] | None, one_off: bool = False) -> list[dict[str, Any]]:
    """The conditions are those of the built-in driver, without the one of order counters that are ``one_off``.

    Which kind of routines there must be is HammerDB's own option.
    """
    row = {k: json.loads(v) if isinstance(v, str) and k in ("routines", "built", "violations") else v for k, v in row.items()}
    kinds, built = row.get("routines") or {}, row.get("built") or {}
    if one_off:
        row["violations"] = {name: n for name, n in row["violations"].items() if name != "2"}
    wanted = "p" if (p or {}).get("storedprocs", True) else "f"
    other = sorted(name for name, kind in kinds.items() if kind != wanted)
    asked = {"warehouses": p["warehouses"], "mode": built.get("mode"), "partitions": built.get("partitions")} if p else None
    findings = tprocc_data.check({**row, "routines": dict.fromkeys(kinds, "p")}, asked)
    if other and p:
        are, call = ("functions", "procedures") if wanted == "p" else ("procedures", "functions")
        text = (
            f"{', '.join(other)} are {are}, and with storedprocs={str(wanted == 'p').lower()} HammerDB calls {call}: "
            "every virtual user would fail; "
            f"build the schema anew or run with storedprocs={str(wanted != 'p').lower()}"
        )
        findings.append(finding("dataset_failed", text, routines=kinds))
    return findings


def not_vacuumed(rows: Mapping[str, Any], since: float | None = None) -> dict[str, Any] | None:
    """Return the note that a data set carries dead rows of earlier runs, or ``None``.

    ``rows``: ``{dead, live, vacuumed}`` (``vacuumed``: epoch, or text, of the last vacuum in *this* database, ``None`` for never).
    ``since``: the end of the run after which a vacuum was due. Before 6.0 HammerDB's own vacuum at the end ran in another database.
    """
    dead, live, vacuumed = int(rows.get("dead") or 0), int(rows.get("live") or 0), rows.get("vacuumed")
    late = vacuumed is None or (since is not None and isinstance(vacuumed, (int, float)) and vacuumed < since)
    share = dead / (dead + live) if dead + live else 0.0
    if share <= (RULES["not_vacuumed"].threshold or 0) or (since is not None and not late):
        return None
    text = f"{dead:,} dead rows of earlier runs ({100 * share:.0f} %) were there, not vacuumed in this database since"
    return finding("not_vacuumed", f"{text}: the run is no independent repeat", dead=dead, live=live, last_vacuum=vacuumed)


# results -------------------------------------------------------------------------------------------------------------


def progress(text: str) -> dict[str, Any] | None:
    """Return ``{rate, latency_ms, elapsed_s, percent}`` from new output, for the live line; ``None`` when it holds nothing new."""
    percents = re.findall(r"^progress (\d{1,3}(?:\.\d+)?)$", text, re.MULTILINE)
    if percents:
        return {"rate": None, "latency_ms": None, "elapsed_s": None, "percent": float(percents[-1])}
    tpm = output.last_counter(text)
    return {"rate": tpm / 60, "latency_ms": None, "elapsed_s": None, "percent": None} if tpm is not None else None


def result(params: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], digest: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the measurement of the steps that ran, those of ``load_steps`` or ``run_steps`` with ``job``, ``stdout`` and ``stderr``."""
    p = complete(params)
    by_name = {step["name"]: step for step in steps}
    measured = by_name.get("measured")
    return _run_result(p, measured, by_name.get("after")) if measured else _load_result(p, steps, by_name)


def _run_result(p: Mapping[str, Any], step: Mapping[str, Any], after: Mapping[str, Any] | None) -> dict[str, Any]:
    run = output.parse_run(step.get("stderr") or "")
    files = output.sections(step.get("stdout") or "")
    counts = _counts(files.get("file counts", ""))
    version = run["version"] or output.parse_version(step.get("version") or "")
    window = _window(run)
    one = run["results"][0] if len(run["results"]) == 1 and run["begun"] < 2 and not run["refusals"] else None
    procs, profile_findings = _profile(p, run, files, step, version)
    counted = _counted(counts, window)
    samples = _samples(counts, window) or _counter_samples(run, window)
    findings = _run_findings(p, run, step)
    if one:
        findings += profile_findings + _window_findings(p, run, one, counted)
    if one and ((one["tpm"] or 0) < 0 or (counted and counted["tpm"] is None)):
        text = "the server's counters of transactions fell during the run: they were reset, and there is no TPM"
        findings.append(finding("inconsistent", text, tpm=one["tpm"]))
        one = {**one, "tpm": None}
    if not p["storedprocs"]:
        text = (
            "HammerDB's functions get customer names as literal text: payments by name change another row; not comparable with procedures"
        )
        findings.append(finding("functions_mode", text))
    checked = _json(after)
    if checked:
        findings += _data_findings(checked, p, one_off=bool(version) and output.version_tuple(version) < COUNTER_FIXED_IN)
    measured_s = output.window_s(run)
    return {
        "workload": WORKLOAD,
        "load_generator": _load_generator(step, run, version),
        "conditions": {
            "clients": len(output.workers(run)["success"]) or run["configured"] if one else None,
            "clients_configured": run["configured"],
            "warehouses": p["warehouses"],
            "all_warehouses": p["all_warehouses"],
            "storedprocs": run["switched"]["storedprocs"] if run["switched"] else p["storedprocs"],
            "user_delay_ms": p["user_delay"],
            "time_profile": p["time_profile"],
            "loop": "closed",
            "ramp_up_s": run["ramp_up_s"],
            "duration_s": run["duration_s"],
            "window_s": measured_s,
            "tpm_basis": "commits and rollbacks of every database of the server",
            "counted": counted,
            "transaction_counter": {"interval_s": script.COUNTER_S, "samples": _counter(run, window)},
            "dataset": dataset(p)["parameters"],
        },
        "counts": _call_counts(p, run, one, counted),
        "steps": _steps(step, run, after, one),
        "metrics": _metrics(one),
        "latency": _latency(procs, p),
        "progress": samples,
        "progress_columns": [{"name": "nopm", "unit": "1/min"}, {"name": "tpm", "unit": "1/min"}],
        "series": None,
        "window": {"from": window[0], "to": window[1]} if window else {"from": step["job"].get("started"), "to": step["job"].get("ended")},
        "findings": findings,
        "raw": [],
        "client": _client([step]),
    }


def _metrics(one: Mapping[str, Any] | None) -> dict[str, Any]:
    figures = {name: one[name] for name in ("nopm", "tpm") if one[name] is not None} if one else {}
    return {name: {"value": value, "unit": "1/min", "better": "higher"} for name, value in figures.items()}


def _load_generator(step: Mapping[str, Any], run: Mapping[str, Any], version: str | None) -> dict[str, Any]:
    database = run["results"][0]["database"] if run["results"] else "PostgreSQL"
    server = str(run["server_version"] or "").split(" ")[0] or None
    return {"name": LOAD_GENERATOR, "version": version, "server_version": server, "generation": None, "database": database}


def _window(run: Mapping[str, Any]) -> tuple[float, float] | None:
    start, end = run["events"].get("window_start"), run["events"].get("window_end")
    return (start, end) if start is not None and end is not None and end > start else None


def _steps(
    step: Mapping[str, Any], run: Mapping[str, Any], after: Mapping[str, Any] | None, one: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """Cut the job at the clock of its lines; without them it is one step."""
    job, window = step["job"], _window(run)
    kept = {"state": job.get("state"), "rc": job.get("rc")}
    begin = run["events"].get("ramp_up")
    parts: list[tuple[str, float, float, dict[str, Any]]] = []
    if window and begin is not None and window[0] > begin + 1:
        parts.append(("ramp_up", begin, window[0], {}))
    if window:
        parts.append(("measured", *window, _metrics(one)))
    rows = [
        {"name": name, **kept, "started": at, "ended": to, "elapsed_s": round(to - at, 3), "metrics": metrics, "argv": step["argv"]}
        for name, at, to, metrics in parts
    ]
    others = [after] if window else [step, after]
    return rows + [_step_result(other) for other in others if other]


def _step_result(step: Mapping[str, Any]) -> dict[str, Any]:
    kept = {k: step["job"].get(k) for k in ("state", "started", "ended", "elapsed_s", "rc")}
    return {"name": step["name"], **kept, "metrics": {}, "argv": step["argv"]}


def _client(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """CPU of the jobs from their start to their end: HammerDB's start and its ramp-up are in it."""
    usage = [step["job"].get("rusage") or {} for step in steps]
    known = [u for u in usage if u.get("user_s") is not None]
    return {
        "cpu_user_s": sum(u["user_s"] for u in known) if known else None,
        "cpu_system_s": sum(u["system_s"] for u in known) if known else None,
        "wall_s": sum(step["job"].get("elapsed_s") or 0 for step in steps),
        "max_rss_bytes": max((u.get("max_rss_bytes") or 0 for u in usage), default=0) or None,
    }


def _call_counts(
    p: Mapping[str, Any], run: Mapping[str, Any], one: Mapping[str, Any] | None, counted: Mapping[str, Any] | None
) -> dict[str, Any]:
    minutes = (run["duration_s"] or 0) / 60
    return {
        "processed": round(one["tpm"] * minutes) if one and one["tpm"] is not None else None,
        "planned": None,
        "failed": sum(run["failed_calls"].values()) if one else None,
        "failed_pct": None,
        "serialization_failures": None,
        "deadlock_failures": counted["deadlocks"] if counted else None,
        "retried": None,
        "retries": None,
        "skipped": None,
        "late": None,
    }


# what was counted beside the run -------------------------------------------------------------------------------------


def _counts(text: str) -> list[dict[str, float]]:
    """Read the rows ``epoch orders commits rollbacks deadlocks``; the first line is the driver's clock as psql was started."""
    lines = text.splitlines()
    read = [[output.number(word) for word in line.split()] for line in lines]
    rows = [
        {name: float(value) for name, value in zip(("at", "orders", "commits", "rollbacks", "deadlocks"), values) if value is not None}
        for values in read
        if len(values) == 5 and None not in values
    ]
    if rows and len(read[0]) == 1 and read[0][0] is not None:
        skew = rows[0]["at"] - read[0][0]
        if abs(skew) > SKEW_S:
            rows = [{**row, "at": row["at"] - skew} for row in rows]
    return rows


def _counted(counts: Sequence[Mapping[str, float]], window: tuple[float, float] | None) -> dict[str, Any] | None:
    """Return ``{nopm, tpm, deadlocks}`` of this database over the window by the clock; ``None`` when it was not counted.

    ``tpm`` and ``deadlocks`` are ``None`` when somebody reset the statistics meanwhile.
    """
    if not window:
        return None
    both = [{"at": row["at"], "orders": row["commits"] + row["rollbacks"]} for row in counts]
    nopm, tpm = output.counted_nopm(counts, *window), output.counted_nopm(both, *window)
    inside = [row for row in counts if window[0] <= row["at"] <= window[1]]
    if nopm is None or tpm is None or not inside:
        return None
    if any(b["commits"] + b["rollbacks"] < a["commits"] + a["rollbacks"] for a, b in zip(inside, inside[1:])):
        return {"nopm": nopm, "tpm": None, "deadlocks": None}
    return {"nopm": nopm, "tpm": tpm, "deadlocks": int(inside[-1]["deadlocks"] - inside[0]["deadlocks"])}


def _samples(counts: Sequence[Mapping[str, float]], window: tuple[float, float] | None) -> list[dict[str, Any]]:
    """Return the progress samples of the window: rates between two counts, by the second from its start."""
    if not window:
        return []
    pairs = [(a, b) for a, b in zip(counts, counts[1:]) if a["at"] >= window[0] - 0.5 and b["at"] <= window[1] + 0.5 and b["at"] > a["at"]]
    return [
        _sample(
            b["at"] - window[0],
            b["at"] - a["at"],
            b["commits"] + b["rollbacks"] - a["commits"] - a["rollbacks"],
            60 * (b["orders"] - a["orders"]) / (b["at"] - a["at"]),
        )
        for a, b in pairs
        if b["commits"] + b["rollbacks"] >= a["commits"] + a["rollbacks"]
    ]


def _counter(run: Mapping[str, Any], window: tuple[float, float] | None) -> list[dict[str, Any]]:
    """Return HammerDB's transaction counter within the window: it goes on before and after."""
    known = [s for s in run["samples"] if s["at"] is not None]
    inside = [s for s in known if window and window[0] + script.COUNTER_S <= s["at"] <= window[1] + 1]
    return [{"elapsed_s": round(s["at"] - (window or (0.0,))[0], 3), "tpm": s["tpm"]} for s in inside]


def _counter_samples(run: Mapping[str, Any], window: tuple[float, float] | None) -> list[dict[str, Any]]:
    """Return progress samples from the transaction counter, where nothing was counted beside the run."""
    return [_sample(s["elapsed_s"], script.COUNTER_S, s["tpm"] * script.COUNTER_S / 60, None) for s in _counter(run, window)]


def _sample(elapsed: float, interval: float, transactions: float, nopm: float | None) -> dict[str, Any]:
    rate = transactions / interval
    return {
        "elapsed_s": round(elapsed, 3),
        "ts": None,
        "interval_s": round(interval, 3),
        "tps": round(rate, 3),
        "latency_ms": None,
        "stddev_ms": None,
        "failed": None,
        "lag_ms": None,
        "skipped": None,
        "retried": None,
        "retries": None,
        "nopm": None if nopm is None else round(nopm, 1),
        "tpm": round(60 * rate, 1),
    }


# the time profile ----------------------------------------------------------------------------------------------------


def _profile(
    p: Mapping[str, Any], run: Mapping[str, Any], files: Mapping[str, str], step: Mapping[str, Any], version: str | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the rows of the time profile by transaction type, each call counted once, and what is to be said of it."""
    if not p["time_profile"]:
        return {}, []
    texts = [text for name, text in files.items() if "hdbxtprofile" in name]
    started = step["job"].get("started") or 0.0
    reports = [r for text in texts for r in output.parse_profile(text, version) if r["at"] is None or r["at"] >= started - 1]
    summary, users = (reports[-1]["summary"], reports[-1]["users"]) if reports else (_job_timing(run, step, version), {})
    why = run["profile"]["problem"]
    if not summary:
        monitor = (run["users"].get(1) or {}).get("errors") or []
        why = why or (monitor[0] if monitor else "it wrote none")
        return {}, [finding("profile_missing", f"no latencies: the time profile was asked for and is not there: {why}")]
    rows, kind = output.corrected(summary, users)
    found = []
    if why:
        found.append(finding("profile_missing", f"the time profile is incomplete: {why}"))
    if kind == "doubled":
        text = f"HammerDB {version} counted each call twice in the summary of its time profile: calls and totals are halved here"
        found.append(finding("profile_doubled", text, calls={name: [row["calls"], rows[name]["calls"]] for name, row in summary.items()}))
    elif kind:
        found.append(finding("profile_missing", "no latencies: summary and users of the time profile contradict each other"))
        return {}, found
    if run["ramp_up_s"]:
        found.append(
            finding(
                "profile_ramp_up", "latencies are of all calls, those of the ramp-up and after the window too: HammerDB does not part them"
            )
        )
    return rows, found


def _job_timing(run: Mapping[str, Any], step: Mapping[str, Any], version: str | None) -> dict[str, Any]:
    """Return the summary from the job store, of this run's own job only. Up to 4.11 it is not a summary but the last user's row."""
    if output.version_tuple(version) < JOB_SUMMARY_FROM:
        return {}
    texts = output.sections(step.get("stderr") or "")
    timing = output.parse_timing(texts.get(f"jobs {run['job_id']} timing", ""), version)
    return dict(timing["procs"]) if timing else {}


_LATENCY = (("min", "min_ms"), ("p50", "p50_ms"), ("p95", "p95_ms"), ("p99", "p99_ms"), ("max", "max_ms"), ("n", "calls"))


def _latency(procs: Mapping[str, Mapping[str, Any]], p: Mapping[str, Any]) -> dict[str, Any]:
    """Latencies by transaction type, in ms; of all types together HammerDB keeps no percentiles."""
    rows = [
        {
            "name": name,
            "weight": tprocc.MIX.get(name),
            "transactions": row["calls"],
            "tps": 1000 * row["calls"] / row["elapsed_ms"] if row["calls"] and row["elapsed_ms"] else None,
            "average": row["avg_ms"],
            "stddev": row["sd_ms"],
            **{key: row[source] for key, source in _LATENCY},
            "p90": None,
            "p99_9": None,
        }
        for name, row in sorted(procs.items(), key=lambda item: [*tprocc.MIX].index(item[0]) if item[0] in tprocc.MIX else 99)
    ]
    calls = sum(row["n"] or 0 for row in rows)
    total = sum(row["total_ms"] or 0 for row in procs.values())
    return {
        "unit": "ms",
        "average": total / calls if calls else None,
        "stddev": None,
        "basis": None,
        **dict.fromkeys(("p50", "p90", "p95", "p99", "p99_9")),
        "min": min((row["min"] for row in rows if row["min"] is not None), default=None),
        "max": max((row["max"] for row in rows if row["max"] is not None), default=None),
        "n": calls or None,
        "source": "report",
        "sampling": 1.0,
        "scripts": rows,
        "statements": [],
    }


# findings ------------------------------------------------------------------------------------------------------------

_TOO_MANY = re.compile(r"too many (?:clients|connections)|connection slots are reserved|no more connections allowed", re.IGNORECASE)
_LOST = re.compile(
    r"server closed the connection|terminating connection|connection to server was lost|no connection to the server"
    r"|shutting down|recovery mode",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(
    r"could not connect|connection to server .*failed|Connection refused|timeout expired|could not translate host|starting up"
    r"|shutting down|recovery mode|not (?:yet )?accepting connections",
    re.IGNORECASE,
)
#: The server is there and does not want us.
_REFUSED = re.compile(
    r"authentication failed|pg_hba\.conf|no password supplied|permission denied for database"
    r"|(?:database|role|user) \"[^\"]*\" does not exist",
    re.IGNORECASE,
)
_ROUTINE = re.compile(
    r"(?:function|procedure) (?:neword|payment|ostat|delivery|slev)\S*\(?.* does not exist|is not a procedure|is a procedure"
)
_TABLE = re.compile(r"relation \"(?:\w+\.)?(?:warehouse|district|customer|history|new_order|orders|order_line|item|stock)\" does not exist")


def _run_findings(p: Mapping[str, Any], run: Mapping[str, Any], step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How the run ended: by the job, the result lines, and the state of every virtual user."""
    job, results = step["job"], run["results"]
    first = run["errors"][0]["text"] if run["errors"] else (run["refusals"] or [None])[0]
    why = f": {first}" if first else ""
    ended = output.workers(run, p["clients"])
    evidence = {"rc": job.get("rc"), "first_error": first, "failed_users": ended["failed"], "errors": run["error_count"]}
    if job.get("stopped"):
        code, by = ("deadline_exceeded", "at its deadline") if job["stopped"] == "deadline" else ("interrupted", "on request")
        return [finding(code, f"the run was ended {by}{why}", **evidence)]
    if job.get("state") == "lost":
        return [finding("run_aborted", "the job was lost with its machine or supervisor; what it wrote until then is kept", **evidence)]
    if len(results) > 1:
        text = f"{len(results)} results within the bounds of one run; none of them is taken"
        return [finding("no_result", text, results=_figures(results))]
    if results and run["begun"] > 1:
        text = f"{run['begun']} runs within the bounds of one, and one result: whose it is nobody can tell, and it is not taken"
        return [finding("no_result", text, results=_figures(results))]
    if results and run["refusals"]:
        text = f"virtual users of an earlier run were still there, so the result may be theirs and is not taken: {run['refusals'][0]}"
        return [finding("no_result", text, results=_figures(results))]
    if not results:
        return [_no_result(p, run, step, why, evidence)]
    return _end_findings(run, ended, p["clients"], why, evidence)


def _figures(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{k: r[k] for k in ("nopm", "tpm")} for r in results]


def _no_result(p: Mapping[str, Any], run: Mapping[str, Any], step: Mapping[str, Any], why: str, evidence: dict[str, Any]) -> dict[str, Any]:
    said = " ".join(e["text"] for e in run["errors"])
    if step["job"].get("rc") == script.WRONG_DRIVER:
        return finding("load_generator_failed", f"HammerDB cannot work with this database driver{why}", **evidence)
    if _TOO_MANY.search(said):
        return finding("too_many_clients", f"the server refused connections of {p['clients']} virtual users{why}", **evidence)
    if _ROUTINE.search(said):
        text = f"the routines of the schema are not the ones that storedprocs={str(p['storedprocs']).lower()} calls{why}"
        return finding("dataset_failed", text, **evidence)
    if _TABLE.search(said):
        return finding("dataset_failed", f"the database holds no TPROC-C schema; is it the right one?{why}", **evidence)
    if _REFUSED.search(said):
        return finding("load_generator_failed", f"the server refused the connection{why}", **evidence)
    if _LOST.search(said) and run["duration_s"] is not None:
        return finding("server_lost", f"the connections were lost during the run{why}", **evidence)
    if _UNREACHABLE.search(said):
        return finding("server_unreachable", f"no connection to the server{why}", **evidence)
    if run["test_driver"]:
        return finding("no_result", "test driver output, not a timed run: there is no result in it", **evidence)
    if why:
        return finding("load_generator_failed", f"HammerDB gave no result{why}", **evidence)
    said = output.last_words(step.get("stderr") or "")
    return finding("no_result", f"HammerDB ended with status {step['job'].get('rc')} and printed no result{said}", **evidence)


def _end_findings(
    run: Mapping[str, Any], ended: Mapping[str, Sequence[int]], clients: int, why: str, evidence: dict[str, Any]
) -> list[dict[str, Any]]:
    """A result stands there. It is worth something only when every worker ended well; the monitor may fail after it."""
    found = []
    lost = [n for n in ended["failed"] if any(_LOST.search(e) for e in run["users"][n]["errors"])]
    if len(lost) == clients:
        found.append(finding("server_lost", f"all {clients} virtual users lost their connection{why}", **evidence))
    elif ended["failed"]:
        text = f"virtual users {', '.join(map(str, ended['failed']))} failed, so the result is not that of {clients}{why}"
        found.append(finding("clients_aborted", text, **evidence))
    states = [user["state"] for user in run["users"].values()]
    unknown = ", ".join(map(str, ended["unknown"]))
    if run["overran"] and ended["unknown"] and {"success", "failed"} & set(states):
        text = f"virtual users {unknown} hung: they had not ended long after the others, so the result is not that of {clients}"
        found.append(finding("clients_aborted", text, **evidence, unknown_users=list(ended["unknown"])))
    elif run["overran"]:
        who = f"{len(ended['unknown'])} virtual users" if ended["unknown"] else "the monitor"
        text = f"{who} had not ended when HammerDB's script went on; the result itself is complete"
        if not ended["unknown"] and (run["users"].get(1) or {}).get("state") in ("success", "failed"):
            text = "the virtual users ended later than HammerDB waits for them; the result itself is complete"
        found.append(finding("shutdown_overran", text, users=list(ended["unknown"])))
    elif run["configured"] not in (None, clients):
        text = f"HammerDB ran {run['configured']} virtual users, not the {clients} that were asked for"
        found.append(finding("clients_aborted", text, **evidence, configured=run["configured"]))
    elif ended["unknown"] and any(states):
        text = f"nothing says how virtual users {unknown} ended"
        found.append(finding("clients_aborted", text, **evidence, unknown_users=list(ended["unknown"])))
    elif ended["unknown"]:
        found.append(finding("ends_unknown", "the output does not say how the virtual users ended", users=list(ended["unknown"])))
    monitor = run["users"].get(1) or {}
    if monitor.get("state") == "failed":
        text = (monitor["errors"] or ["no reason given"])[0]
        found.append(finding("monitor_failed", f"the monitor failed after the result, which costs the time profile: {text}"))
    return found


def _window_findings(
    p: Mapping[str, Any], run: Mapping[str, Any], one: Mapping[str, Any], counted: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """What the clock and our own counting say of the result."""
    found = []
    window, asked = output.window_s(run), run["duration_s"]
    limit = RULES["window_longer"].threshold or 0
    if window and asked and window > (1 + limit) * asked:
        text = (
            f"the window lasted {window:.1f} s by the clock and HammerDB divided by {asked:g} s: "
            f"NOPM and TPM are {100 * (window / asked - 1):.1f} % too high"
        )
        found.append(finding("window_longer", text, window_s=window, divided_by_s=asked))
    late = output.late_share(run, p["clients"])
    if late is not None and late > (RULES["clients_late"].threshold or 0):
        text = f"virtual users started in the window: {100 * late:.1f} % of it is missing; give more ramp_up or a smaller user_delay"
        found.append(finding("clients_late", text, share=late, user_delay_ms=p["user_delay"]))
    if not counted:
        found.append(finding("not_checked", "orders were not counted beside the run, so nothing confirms NOPM"))
    elif window and asked and one["nopm"]:
        ratio = counted["nopm"] * window / (one["nopm"] * asked)
        tolerance = max(RULES["nopm_unconfirmed"].threshold or 0, 1 / window)
        if abs(ratio - 1) > tolerance:
            text = (
                f"{counted['nopm']:,.0f} new orders a minute were counted in this database over the window, HammerDB says {one['nopm']:,}"
            )
            found.append(finding("nopm_unconfirmed", text, counted=counted["nopm"], reported=one["nopm"], ratio=ratio))
    return found


# the load ------------------------------------------------------------------------------------------------------------


def _load_result(p: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], by_name: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    load = by_name.get("load") or steps[0]
    build = output.parse_build(load.get("stderr") or "")
    findings = _load_findings(p, by_name, build)
    elapsed = load["job"].get("elapsed_s")
    return {
        "workload": WORKLOAD,
        "load_generator": {"name": LOAD_GENERATOR, "version": build["version"], "server_version": None, "generation": None},
        "conditions": {
            **{k: p[k] for k in ("warehouses", "partition", "storedprocs", "load_sessions")},
            "dataset": dataset(p)["parameters"],
        },
        "counts": {},
        "steps": [_step_result(step) for step in steps],
        "metrics": {"load_seconds": {"value": elapsed, "unit": "s", "better": "lower"}} if not findings and elapsed is not None else {},
        "latency": {"scripts": [], "statements": []},
        "progress": [],
        "series": None,
        "findings": findings,
        "raw": [],
        "client": _client([load]),
    }


def _load_findings(p: Mapping[str, Any], by_name: Mapping[str, Mapping[str, Any]], build: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A build is complete when nothing failed, and the rows themselves say so."""
    load, verify, last = (by_name.get(name) for name in ("load", "verify", "checkschema"))
    job = (load or {}).get("job") or {}
    if job.get("stopped"):
        code, by = ("deadline_exceeded", "at its deadline") if job["stopped"] == "deadline" else ("interrupted", "on request")
        return [finding(code, f"the build was ended {by}", rc=job.get("rc"))]
    if build["reason"] or job.get("rc") != 0:
        why = build["reason"] or f"HammerDB's script ended with status {job.get('rc')}"
        return [finding("dataset_failed", f"the data set could not be built: {why}", rc=job.get("rc"), claimed=build["claimed"])]
    row = _json(verify)
    if row is None:
        said = str((verify or {}).get("stderr") or "").strip() or "it gave no answer"
        return [finding("dataset_failed", f"HammerDB says that the schema is complete, and the check of its rows failed: {said}")]
    found = _data_findings(row, p)
    if last and not found:
        checked = output.parse_check(last.get("stderr") or "")
        if not checked["passed"]:
            found.append(finding("dataset_failed", f"HammerDB's own checkschema does not accept the schema: {checked['reason']}"))
    return found


def _json(step: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not step or step["job"].get("rc") != 0:
        return None
    line = next((text for text in str(step.get("stdout") or "").splitlines() if text.startswith("{")), None)
    return tprocc_data.answer(line) if line else None


# comparing -----------------------------------------------------------------------------------------------------------


def tpm_incomparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return why TPM of two results must not be compared, ``None`` when it may be. NOPM may be compared always.

    ``one`` and ``other``: ``{name, database, version, storedprocs}``, of HammerDB on PostgreSQL where name and database are not said.
    What counts as a transaction is the driver's and its routines' choice.
    """
    databases = [str(r.get("database") or "PostgreSQL") for r in (one, other)]
    if databases[0].lower() != databases[1].lower():
        return f"TPM counts what each database calls a transaction: {databases[0]} and {databases[1]} differ; compare NOPM"
    drivers = [str(r.get("name") or LOAD_GENERATOR) for r in (one, other)]
    if drivers[0].lower() != drivers[1].lower():
        return f"TPM counts what each driver commits: {drivers[0]} and {drivers[1]} differ; compare NOPM"
    majors = [output.version_tuple(r.get("version"))[:1] for r in (one, other)]
    if majors[0] != majors[1] or not majors[0]:
        versions = [r.get("version") or "of an unknown version" for r in (one, other)]
        return f"where the driver commits may differ between {drivers[0]} {versions[0]} and {drivers[1]} {versions[1]}; compare NOPM"
    modes = [r.get("storedprocs") for r in (one, other)]
    if None in modes and modes[0] is not modes[1]:
        return "whether both ran procedures is not known, and functions commit elsewhere; compare NOPM"
    if modes[0] != modes[1]:
        return "one ran procedures, the other functions or client statements, which commit elsewhere; compare NOPM"
    return None
