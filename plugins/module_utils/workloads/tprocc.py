# GNU General Public License v3.0 or later (see LICENSE)
"""The workload ``tprocc`` by the built-in driver: pgbench runs scripts that call HammerDB's routines by their names.

The contract is that of ``workloads/pgbench.py``, which does the most of it. Beyond it a step may have ``shipped``: files of the
role ``tprocc`` that its run directory needs, ``{name there: name in the role's files}``.

New orders are counted by ``d_next_o_id`` and transactions by the database's own counters, both read before and after the window;
the window's length is pgbench's own: transactions by transactions per second.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import pgbench_output, stats, tprocc_data
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import RULES, finding
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import canonical_json
from ansible_collections.pgsizing.bench.plugins.module_utils.units import parse_size
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench

WORKLOAD = "tprocc"
LOAD_GENERATOR = "builtin"
ROLE = "tprocc"
HEADLINE = "nopm"
RATE_UNIT = "tps"

OPTIONS: dict[str, dict[str, Any]] = {
    # the data set
    "warehouses": {"type": "int"},
    "database_size": {"type": "str"},
    "mode": {"type": "str", "choices": ["hammerdb"], "default": "hammerdb"},
    "partitions": {"type": "int", "default": 0},
    "load_sessions": {"type": "int"},
    # the load
    "clients": {"type": "int", "default": 4},
    "threads": {"type": "int"},
    "duration": {"type": "int", "default": 30, "unit": "s"},
    "ramp_up": {"type": "int", "default": 15, "unit": "s"},
    "all_warehouses": {"type": "bool", "default": False},
    "protocol": {"type": "str", "choices": ["simple", "extended", "prepared"], "default": "simple"},
    "seed": {"type": "int", "default": 20},
    "sampling_rate": {"type": "float"},
}
EXCLUSIVE = (("warehouses", "database_size"),)
DATA_PARAMETERS = ("warehouses",)
MONITORS = 0
LOAD_CONTINUES = True

DEFAULT_WAREHOUSES = 10
#: The transactions by their weights in 23, in the order of their numbers in the log.
MIX = {"neword": 10, "payment": 10, "delivery": 1, "slev": 1, "ostat": 1}

#: Bytes of a database just built, measured on PostgreSQL 15: what each warehouse takes, and what there is once (catalogue, items).
WAREHOUSE_BYTES = 101_000_000
FIXED_BYTES = 26_000_000
#: CPU seconds to build a warehouse, and seconds around it: they plan, they never judge.
LOAD_CPU_S = 2.5
LOAD_AROUND_S = 6.0
GUESS_TPS_PER_CORE = 1000.0
#: Changes when the same parameters make other data: what an earlier version built is then not taken for it.
REVISION = 2

#: Of the ramp-up: as many seconds at least are needed to see whether the rate has come to rest.
STEADY_LEAST_S = 12
#: What is read before and after the window; none of them can fall.
COUNTERS = ("next_o_ids", "commits", "rollbacks", "deadlocks")
#: Share by which order numbers and calls may differ.
ORDERS_OFF = 0.001


# parameters ------------------------------------------------------------------------------------------------------------


def complete(params: Mapping[str, Any], cores: int | None = None) -> dict[str, Any]:
    """Return ``params`` with every default filled in; a ``database_size`` becomes warehouses.

    A size that cannot be read stays for ``validate``.
    """
    values = {name: params.get(name) for name in OPTIONS}
    values = {name: OPTIONS[name].get("default") if value is None else value for name, value in values.items()}
    size = _bytes(values["database_size"])
    if size and values["warehouses"] is None:
        values["warehouses"], values["database_size"] = max(1, round((size - FIXED_BYTES) / WAREHOUSE_BYTES)), None
    if values["warehouses"] is None and values["database_size"] is None:
        values["warehouses"] = DEFAULT_WAREHOUSES
    values["load_sessions"] = values["load_sessions"] or cores
    values["threads"] = pgbench.complete({"clients": values["clients"], "threads": values["threads"]}, cores)["threads"]
    return values


def _bytes(text: Any) -> int | None:
    try:
        return parse_size(str(text)) if text else None
    except ValueError:
        return None


def validate(params: Mapping[str, Any]) -> list[str]:
    """Return everything that cannot be, each with what would be right."""
    p = {**dict.fromkeys(OPTIONS), **params}
    problems = []
    if p["database_size"] is not None:
        if p["warehouses"] is not None:
            problems.append("warehouses and database_size exclude each other: the size decides how many warehouses there are")
        else:
            problems.append(f"database_size: {p['database_size']!r} is not a size such as 120GB")
    for name, least in (("warehouses", 1), ("partitions", 0), ("load_sessions", 1)):
        if p[name] is not None and not (isinstance(p[name], int) and not isinstance(p[name], bool) and p[name] >= least):
            problems.append(f"{name}: {p[name]!r} is not a whole number of {least} or more")
    if p["mode"] not in OPTIONS["mode"]["choices"]:
        problems.append(f"mode: {p['mode']!r} is not one of {', '.join(OPTIONS['mode']['choices'])}")
    if not problems and p["partitions"] and p["partitions"] > p["warehouses"]:
        problems.append(f"partitions={p['partitions']} is more than there are warehouses ({p['warehouses']}), by which they are cut")
    return problems + pgbench.validate(_pgbench(p))


def unsupported(params: Mapping[str, Any], version: str) -> list[str]:
    """Return what is asked for and this pgbench lacks."""
    here = pgbench_output.parse_version(version) or {"version": version}
    return [] if pgbench.version_num(version) >= 110000 else [f"tprocc needs pgbench 11 or later; this is {here['version']}"]


def _pgbench(p: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the run as those of the workload pgbench; its scale is the number of warehouses."""
    same = {k: p[k] for k in ("clients", "threads", "duration", "ramp_up", "protocol", "seed", "sampling_rate")}
    scripts = [{"name": name, "sql": "SELECT 1;", "weight": weight} for name, weight in MIX.items()]
    return {**same, "scripts": scripts, "scale": p["warehouses"], "vacuum": "none", "max_tries": 1}


def needs_dataset(params: Mapping[str, Any]) -> bool:
    """Return ``True``: no run without the tables."""
    return True


# commands -----------------------------------------------------------------------------------------------------------------


def load_steps(params: Mapping[str, Any], version: str, connection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps that build the data set, or go on with a build that was interrupted."""
    p = complete(params)
    sessions = p["load_sessions"] or 1
    seconds = load_seconds(p)
    known = {"version": version, "grace_s": max(600.0, pgbench.SLOWEST_LOAD * seconds)}

    def work(stage: str, share: float) -> dict[str, Any]:
        name = f"{stage}.sql"
        argv = ["pgbench", *_login(connection), "-n", "-c", str(sessions), "-j", str(sessions), "-t", "1", "-f", name, connection["dbname"]]
        return _step(stage, argv, files={name: f"CALL tprocc_build.work('{stage}');\n"}, planned_s=share * seconds, **known)

    def psql(name: str, file: str, *shipped: str) -> dict[str, Any]:
        variables = [f"--set={k}={p[k]}" for k in ("mode", "warehouses", "partitions")]
        return _step(
            name, _psql(connection, *variables, f"--file={file}"), shipped={f: f for f in (file, *shipped)}, planned_s=1.0, **known
        )

    vacuum = ["vacuumdb", *_login(connection), "--no-password", f"--jobs={sessions}", "--freeze", "--analyze", connection["dbname"]]
    return [
        psql("schema", "schema.sql", "load.sql", "routines.sql"),
        work("rows", 0.6),
        work("indexes", 0.2),
        psql("finish", "finish.sql"),
        _step("statistics", vacuum, planned_s=0.1 * seconds, **known),
    ]


def run_steps(params: Mapping[str, Any], version: str, connection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps ``ramp_up``, ``before`` (counters), ``measured``, and ``after`` (counters and consistency)."""
    p = complete(params)
    steps = pgbench.run_steps(_pgbench(p), version, connection)
    for step in steps:
        step["argv"][1:1] = ["-D", f"clients={p['clients']}", "-D", f"all_warehouses={int(p['all_warehouses'])}"]
        step["shipped"] = {name: f"{name.partition('_')[2]}.pgbench" for name in step["files"]}
        step["files"] = {}
    counters = {"version": version, "planned_s": 1.0}
    before = _step("before", _psql(connection, "--file=snapshot.sql"), shipped={"snapshot.sql": "snapshot.sql"}, **counters)
    after = _step(
        "after",
        _psql(connection, "--file=snapshot.sql", "--file=check.sql"),
        shipped=before["shipped"],
        files={"check.sql": f"SET jit = off;\nSELECT row_to_json(c) FROM ({tprocc_data.statement('sample')}) AS c;\n"},
        **counters,
    )
    return [*steps[:-1], before, steps[-1], after]


def _step(name: str, argv: list[str], **known: Any) -> dict[str, Any]:
    step: dict[str, Any] = {"name": name, "argv": argv, "env": {}, "files": {}, "shipped": {}, "log_prefix": None, "planned_s": None}
    return {**step, "grace_s": pgbench.GRACE_S, **known}


def _login(connection: Mapping[str, Any]) -> list[str]:
    options = (("-h", "host"), ("-p", "port"), ("-U", "user"))
    return [word for option, key in options if connection.get(key) for word in (option, str(connection[key]))]


def _psql(connection: Mapping[str, Any], *options: str) -> list[str]:
    fixed = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--no-password", "--set=ON_ERROR_STOP=1"]
    return ["psql", *_login(connection), *fixed, *options, connection["dbname"]]


def log_layout(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the per-transaction log reads, as the options of the module ``digest``."""
    return pgbench.log_layout(_pgbench(complete(params)))


def sampling_for(params: Mapping[str, Any], tps_guess: float, limit_bytes: float) -> float:
    """Return the share of the transactions that is logged within ``limit_bytes``."""
    return pgbench.sampling_for(_pgbench(complete(params)), tps_guess, limit_bytes)


# the data set ---------------------------------------------------------------------------------------------------------------


def dataset(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{parameters, fingerprint}``: what the built data depends on, and 12 hex digits that equal data sets share."""
    p = complete(params)
    parameters = {**{k: p[k] for k in ("mode", "warehouses", "partitions")}, "revision": REVISION}
    text = canonical_json({"workload": WORKLOAD, **parameters})
    return {"parameters": parameters, "fingerprint": hashlib.sha256(text.encode()).hexdigest()[:12]}


def dataset_bytes(params: Mapping[str, Any]) -> int:
    """Return about how large the database is when just built."""
    return FIXED_BYTES + WAREHOUSE_BYTES * complete(params)["warehouses"]


def load_seconds(params: Mapping[str, Any]) -> float:
    """Return about how long the build takes: an estimate for planning."""
    p = complete(params)
    return LOAD_AROUND_S + LOAD_CPU_S * p["warehouses"] / (p["load_sessions"] or 1)


def guess_tps(params: Mapping[str, Any], cores: int) -> float:
    """Return a rate for estimates."""
    return GUESS_TPS_PER_CORE * max(1, cores)


def run_seconds(params: Mapping[str, Any], cores: int) -> float:
    """Return how long ramp-up and measured window take."""
    p = complete(params)
    return float(p["ramp_up"] + p["duration"])


def check_sql(params: Mapping[str, Any], full: bool = False) -> str:
    """Return one statement with one row for ``check``; ``full`` reads the whole database, else next to nothing is read."""
    return tprocc_data.statement("full" if full else "before")


def check(rows: Sequence[Mapping[str, Any]], params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return findings where the data set is not the one that ``params`` ask for, or not consistent."""
    asked = params.get("warehouses") or params.get("database_size")
    return tprocc_data.check(rows[0], dataset(params)["parameters"] if asked else None)


def sound(row: Mapping[str, Any]) -> str:
    """Return what a full ``check`` without findings has shown."""
    return tprocc_data.sound(row)


# results --------------------------------------------------------------------------------------------------------------------

_PIECES = re.compile(r"\b(rows|indexes): (\d+) of (\d+) done")


def progress(text: str) -> dict[str, Any] | None:
    """Return ``{rate, latency_ms, elapsed_s, percent}`` from new output, for the live line; ``None`` when it holds nothing new."""
    pieces = _PIECES.findall(text)
    if pieces:
        _stage, done, of = pieces[-1]
        return {"rate": None, "latency_ms": None, "elapsed_s": None, "percent": 100 * int(done) / max(1, int(of))}
    return pgbench.progress(text)


def result(params: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], digest: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the measurement of the steps that ran, those of ``load_steps`` or ``run_steps`` with ``job``, ``stdout`` and ``stderr``.

    Shape and meaning are those of the workload pgbench; ``metrics`` has ``nopm`` and ``tpm``, and ``progress`` ``nopm`` by the second.
    """
    p = complete(params)
    by_name = {step["name"]: step for step in steps}
    if "schema" in by_name:
        return _load_result(p, steps)
    by_pgbench = [step for step in steps if step["name"] in ("ramp_up", "measured")]
    measurement = pgbench.result(_pgbench(p), by_pgbench or steps, digest)
    measurement["workload"] = WORKLOAD
    measurement["load_generator"]["name"] = LOAD_GENERATOR
    measurement["load_generator"]["program"] = "pgbench"
    measurement["steps"] = [_step_result(step, measurement) for step in steps]
    measurement["conditions"] |= {
        "scripts": [{"name": name, "weight": weight} for name, weight in MIX.items()],
        "scale": None,
        **{k: p[k] for k in ("warehouses", "mode", "all_warehouses")},
        "dataset": dataset(p)["parameters"],
    }
    measurement["findings"] += _snapshot_findings(by_name) + _steady(by_name.get("ramp_up"))
    window = _window(measurement)
    before, after = _snapshot(by_name.get("before")), _snapshot(by_name.get("after"))
    if before and after and window:
        _count(measurement, before, after, window, digest)
    checked = _json(by_name.get("after"), 1)
    if checked:
        measurement["findings"] += tprocc_data.check(checked)
    elif after:
        measurement["findings"].append(finding("not_checked", "the data were not checked after the run: there is no whole answer"))
    _per_second(measurement, digest, by_name.get("measured"))
    return measurement


def _load_result(p: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    last = steps[-1]
    measurement = pgbench.result(_pgbench(p), [{**last, "name": "load"}], None)
    elapsed = [step["job"].get("elapsed_s") for step in steps]
    complete_ = last["name"] == "statistics" and last["job"].get("rc") == 0 and None not in elapsed
    resumed = "resumed" in str(steps[0]["stdout"])  # what the first part took is not known: no figure
    usage = [step["job"].get("rusage") or {} for step in steps]
    measurement |= {
        "workload": WORKLOAD,
        "metrics": {"load_seconds": {"value": sum(elapsed), "unit": "s", "better": "lower"}} if complete_ and not resumed else {},
        "steps": [_step_result(step, {}) for step in steps],
        "findings": [] if complete_ else [_load_finding(last)],
        "client": {
            "cpu_user_s": sum(u.get("user_s") or 0 for u in usage),
            "cpu_system_s": sum(u.get("system_s") or 0 for u in usage),
            "wall_s": sum(e or 0 for e in elapsed),
            "max_rss_bytes": max((u.get("max_rss_bytes") or 0 for u in usage), default=0) or None,
        },
    }
    measurement["load_generator"] |= {"name": LOAD_GENERATOR, "program": "pgbench"}
    measurement["conditions"] = {
        **{k: p[k] for k in ("warehouses", "mode", "partitions", "load_sessions")},
        "resumed": resumed,
        "dataset": dataset(p)["parameters"],
    }
    return measurement


def _load_finding(step: Mapping[str, Any]) -> dict[str, Any]:
    rc, why = step["job"].get("rc"), _first_error(step)
    if step["job"].get("stopped") == "request":
        return finding("interrupted", f"the build was ended in step {step['name']}; the same command goes on with it", step=step["name"])
    text = f"the data set could not be built: step {step['name']} ended with status {rc}: {why}"
    return finding("dataset_failed", text, step=step["name"], rc=rc, first_error=why)


def _first_error(step: Mapping[str, Any]) -> str:
    lines = [line for line in str(step.get("stderr") or "").splitlines() if line.strip() and "NOTICE" not in line]
    errors = [line for line in lines if re.search(r"\b(error|fatal)\b", line, re.IGNORECASE)]
    return (errors or lines or ["it said nothing"])[0]


def _step_result(step: Mapping[str, Any], measurement: Mapping[str, Any]) -> dict[str, Any]:
    metrics = dict(measurement.get("metrics") or {}) if step["name"] == "measured" else {}
    kept = {k: step["job"].get(k) for k in ("state", "started", "ended", "elapsed_s", "rc")}
    return {"name": step["name"], **kept, "metrics": metrics, "argv": step["argv"]}


def _json(step: Mapping[str, Any] | None, line: int) -> dict[str, Any] | None:
    """Return the JSON object in a line of a step's output; ``None`` when the step did not end well."""
    if not step or step["job"].get("rc") != 0:
        return None
    lines = [text for text in str(step["stdout"]).splitlines() if text.startswith("{")]
    return tprocc_data.answer(lines[line]) if len(lines) > line else None


def _snapshot(step: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the counters of a step; ``None`` when one is missing: an empty table has no order number, and a full disk cuts lines off."""
    counters = _json(step, 0)
    return counters if counters and all(isinstance(counters.get(name), int) for name in COUNTERS) else None


def _snapshot_findings(by_name: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    failed = [step for name in ("before", "after") if (step := by_name.get(name)) and not _snapshot(step)]
    return [
        finding(
            "no_result",
            f"the counters could not be read in step {step['name']}, so there is no NOPM: "
            + (_first_error(step) if step["job"].get("rc") != 0 else "its answer lacks some"),
            step=step["name"],
        )
        for step in failed
    ]


def _window(measurement: Mapping[str, Any]) -> float | None:
    """Return the length of the measured window in seconds by pgbench's clock, which starts when all clients are connected."""
    tps, processed = (measurement["metrics"].get("tps") or {}).get("value"), measurement["counts"]["processed"]
    return processed / tps if tps and processed else None


def _count(
    measurement: dict[str, Any], before: Mapping[str, Any], after: Mapping[str, Any], window: float, digest: Mapping[str, Any] | None
) -> None:
    """Add ``nopm`` and ``tpm`` over the window, and what the counters say beside them."""
    grown = {name: after[name] - before[name] for name in COUNTERS}
    fell = [name for name, n in grown.items() if n < 0]
    orders, commits, rollbacks, deadlocks = (None if name in fell else n for name, n in grown.items())
    figures = {name: n for name, n in (("nopm", orders), ("tpm", commits)) if n is not None}
    rates = {name: {"value": 60 * n / window, "unit": "1/min", "better": "higher"} for name, n in figures.items()}
    measurement["metrics"] = {**rates, **measurement["metrics"]}
    if fell:
        text = f"{', '.join(fell)} fell during the window: what they count was reset or replaced, and nothing is made of it"
        measurement["findings"].append(finding("inconsistent", text, fell=fell))
    measurement["conditions"] |= {
        "window_s": window,
        "new_orders": orders,
        "commits": commits,
        "rollbacks": rollbacks,
        "deadlocks": deadlocks,
        "database_bytes": before["database_bytes"],
        "database_bytes_after": after["database_bytes"],
    }
    # Of each script only the log tells the count: threads of pgbench add to its report without a lock.
    of_log = ((digest or {}).get("scripts") or {}).get("0") or {}
    called = of_log.get("n") if (digest or {}).get("sampling") == 1 else None
    if called is not None and orders is not None and abs(orders - called) > max(1, ORDERS_OFF * called):
        text = f"{orders} order numbers were taken in the window, {called} new orders were called: something else works on this database"
        measurement["findings"].append(finding("inconsistent", text, new_orders=orders, called=called))


def _steady(step: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Has the rate come to rest by the end of the ramp-up? Its last quarter against the one before."""
    if not step:
        return []
    rates = [
        s["tps"] for s in pgbench_output.parse_progress(f"{step.get('stdout') or ''}\n{step.get('stderr') or ''}") if s["tps"] is not None
    ]
    quarter = len(rates) // 4
    if len(rates) < STEADY_LEAST_S:
        return []
    earlier, last = stats.mean(rates[-2 * quarter : -quarter]), stats.mean(rates[-quarter:])
    change = (last - earlier) / earlier if earlier else 0.0
    if abs(change) <= (RULES["ramp_up_unsteady"].threshold or 0):
        return []
    text = f"the rate still moved at the end of the ramp-up: {100 * change:+.0f} % from its third to its last quarter; give more ramp_up"
    return [finding("ramp_up_unsteady", text, change=change, earlier=earlier, last=last)]


def _per_second(measurement: dict[str, Any], digest: Mapping[str, Any] | None, step: Mapping[str, Any] | None) -> None:
    """Add new orders and transactions of each whole second, from the log, to the progress samples as rates by the minute."""
    started = ((step or {}).get("job") or {}).get("started")
    seconds = (digest or {}).get("seconds") or []
    if started is None or not seconds:
        return
    share = (digest or {}).get("sampling") or 1.0
    by_second = {round(int(row["ts"]) + 1 - started): row for row in seconds[1:-1]}  # the first and the last second are parts
    for sample in measurement["progress"]:
        row = by_second.get(round(sample["elapsed_s"]))
        sample["nopm"] = 60 * int(row["script_0"]) / share if row else None
        sample["tpm"] = 60 * int(row["transactions"]) / share if row else None
    measurement["progress_columns"] = [{"name": "nopm", "unit": "1/min"}, {"name": "tpm", "unit": "1/min"}]
