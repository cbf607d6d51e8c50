# GNU General Public License v3.0 or later (see LICENSE)
"""The workload ``pgbench``: its parameters, what each version can do, the commands, and the measurement.

The contract of a workload module, which the planner and the action rely on:

constants  ``WORKLOAD LOAD_GENERATOR ROLE HEADLINE RATE_UNIT OPTIONS EXCLUSIVE DATA_PARAMETERS MONITORS LOAD_CONTINUES``
plan       ``complete validate unsupported writes dataset dataset_bytes load_seconds run_seconds``
commands   ``load_steps run_steps log_layout expected_log_bytes sampling_for``
data set   ``needs_dataset check_sql check sound``
results    ``progress result``

``params`` are the values of ``OPTIONS``; after ``complete`` nothing is left to pgbench's own defaults. A *step* is
``{name, argv, env, files, log_prefix, planned_s, grace_s, version}``: the database is the last positional argument (``-d``
means debug up to 16), no secret is in it, and ``files`` are written into the run directory, where the program runs.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ansible_collections.pgsizing.bench.plugins.module_utils import pgbench_output
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding
from ansible_collections.pgsizing.bench.plugins.module_utils.pgbench_output import BUILTINS, RECONNECTING
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import canonical_json

if TYPE_CHECKING:
    from typing import TypeGuard  # newer than the targets' Python

WORKLOAD = "pgbench"
LOAD_GENERATOR = "pgbench"
ROLE = "pgbench"
HEADLINE = "tps"
RATE_UNIT = "tps"

OPTIONS: dict[str, dict[str, Any]] = {
    # the data set
    "scale": {"type": "int", "default": 10},
    "init_steps": {"type": "str"},
    "server_side": {"type": "bool", "default": False},
    "foreign_keys": {"type": "bool", "default": False},
    "unlogged": {"type": "bool", "default": False},
    "fillfactor": {"type": "int", "default": 100},
    "partitions": {"type": "int", "default": 0},
    "partition_method": {"type": "str", "choices": ["range", "hash"]},
    # the load
    "builtin": {"type": "str"},
    "scripts": {"type": "list", "elements": "dict"},
    "clients": {"type": "int", "default": 4},
    "threads": {"type": "int"},
    "transactions": {"type": "int"},
    "duration": {"type": "int", "unit": "s"},
    "ramp_up": {"type": "int", "unit": "s"},
    "protocol": {"type": "str", "choices": ["simple", "extended", "prepared"], "default": "simple"},
    "rate": {"type": "float"},
    "latency_limit": {"type": "float", "unit": "ms"},
    "max_tries": {"type": "int", "default": 1},
    "reconnect": {"type": "bool", "default": False},
    "seed": {"type": "int", "default": 20},
    "vacuum": {"type": "str", "choices": ["none", "default", "all"], "default": "default"},
    "report_per_command": {"type": "bool", "default": False},
    "sampling_rate": {"type": "float"},
}
#: Of each group one may be given: what the user says replaces what a recipe says.
EXCLUSIVE = (("transactions", "duration"), ("builtin", "scripts"))
#: Parameters that ``data_scale`` multiplies.
DATA_PARAMETERS = ("scale",)
MONITORS = 0  # connections beside those of the clients
#: Whether a load goes on with one that was interrupted; else it wants an empty database.
LOAD_CONTINUES = False

DEFAULT_DURATION_S = 20
DEFAULT_RAMP_UP_S = 5
LOG_PREFIX = "pgbench_log"
MAX_SCRIPTS = 128  # MAX_SCRIPTS in pgbench.c

#: What a step may take beyond its planned length: connections, vacuum, the last transactions.
GRACE_S = 120.0
#: A run of a number of transactions ends by its deadline when it is slower than this per second.
SLOWEST_TPS = 10.0
SLOWEST_LOAD = 20.0  # a load may take this many times its estimate


# parameters ------------------------------------------------------------------------------------------------------------


def complete(params: Mapping[str, Any], cores: int | None = None) -> dict[str, Any]:
    """Return ``params`` with every default filled in.

    20 s when neither ``transactions`` nor ``duration`` is given; 5 s of ramp-up for a duration, none for a number of
    transactions; ``min(clients, cores)`` threads where ``cores`` of the driver are known, and never more threads than
    clients (pgbench would cap them silently).
    """
    values = {name: params.get(name) for name in OPTIONS}
    values = {name: OPTIONS[name].get("default") if value is None else value for name, value in values.items()}
    if values["transactions"] is None and values["duration"] is None:
        values["duration"] = DEFAULT_DURATION_S
    if values["ramp_up"] is None:
        values["ramp_up"] = DEFAULT_RAMP_UP_S if values["transactions"] is None else 0
    threads, clients = values["threads"] if values["threads"] is not None else cores, values["clients"]
    if _is_int(threads) and _is_int(clients) and clients > 0:
        threads = min(threads, clients)
    values["threads"] = threads
    return values


def scripts(params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the scripts to run: ``{name, file, builtin, sql, weight}``, in the order of their number in the log.

    ``file`` is the name of an own script in the folder of the run, where other files lie too; ``None`` for a builtin.

    ``scripts`` holds ``{builtin|sql, name, weight}`` (a ``file`` has been read into ``sql`` by the action), ``builtin`` is the short
    form ``NAME[@WEIGHT],…``; a builtin may be shortened as pgbench allows. Without both: ``tpcb-like``.
    """
    result: list[dict[str, Any]] = []
    for item in params.get("scripts") or _short_form(params.get("builtin") or "tpcb-like"):
        index, builtin = len(result), item.get("builtin")
        weight = 1 if item.get("weight") is None else item["weight"]
        if builtin is not None:
            name = _builtin(builtin) or str(builtin)
            result.append({"name": name, "file": None, "builtin": name, "sql": None, "weight": weight})
        else:
            stem = re.sub(r"[^A-Za-z0-9._-]", "_", str(item.get("name") or item.get("file") or "script.sql").rsplit("/", 1)[-1])
            file = f"{index}_{stem}"
            name = file if stem in [script["name"] for script in result] else stem
            result.append({"name": name, "file": file, "builtin": None, "sql": item.get("sql"), "weight": weight})
    return result


def _short_form(text: str) -> list[dict[str, Any]]:
    items = []
    for part in str(text).split(","):
        name, at, weight = part.strip().partition("@")
        items.append({"builtin": name.strip(), "weight": (int(weight) if weight.strip().isdecimal() else weight) if at else 1})
    return items


def _builtin(name: str) -> str | None:
    names = [b for b in BUILTINS if b.startswith(str(name))] if name else []
    return names[0] if len(names) == 1 else None


def writes(params: Mapping[str, Any]) -> bool:
    """Return whether the load changes the data. Only ``select-only`` is known not to: any SQL may call a function that does."""
    return any(script["builtin"] != "select-only" for script in scripts(params))


def needs_dataset(params: Mapping[str, Any]) -> bool:
    """Return whether the run needs pgbench's own tables; own scripts may not."""
    return any(script["builtin"] for script in scripts(params))


def _is_int(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


# what cannot be -----------------------------------------------------------------------------------------------------------

_AT_LEAST = {
    "scale": 1,
    "clients": 1,
    "threads": 1,
    "transactions": 1,
    "duration": 1,
    "ramp_up": 0,
    "partitions": 0,
    "max_tries": 0,
    "seed": 0,
}
_POSITIVE = {"rate": "transactions per second", "latency_limit": "milliseconds"}

#: Meta-commands and functions of scripts, and the pgbench version that brought them.
_META_COMMANDS = {
    **dict.fromkeys(("set", "sleep", "shell", "setshell"), 90600),
    **dict.fromkeys(("if", "elif", "else", "endif"), 110000),
    "gset": 120000,
    "aset": 130000,
    **dict.fromkeys(("startpipeline", "endpipeline"), 140000),
    "syncpipeline": 170000,
}
_EXPRESSIONS = (
    ("random_zipfian()", 110000, re.compile(r"\brandom_zipfian\s*\(", re.IGNORECASE)),
    ("exp(), ln(), mod() and pow()", 110000, re.compile(r"\b(?:exp|ln|mod|pow|power)\s*\(", re.IGNORECASE)),
    ("hash functions", 110000, re.compile(r"\bhash(?:_fnv1a|_murmur2)?\s*\(", re.IGNORECASE)),
    ("permute()", 140000, re.compile(r"\bpermute\s*\(", re.IGNORECASE)),
    ("CASE, comparison and bit operators", 110000, re.compile(r"\bcase\b|[|&#~<>=]", re.IGNORECASE)),
)


def validate(params: Mapping[str, Any]) -> list[str]:
    """Return everything that cannot be, each with what would be right. Empty when the run can be tried."""
    p = {**dict.fromkeys(OPTIONS), **params}
    problems = [
        f"{name}: {p[name]!r} is not a whole number of {least} or more"
        for name, least in _AT_LEAST.items()
        if p[name] is not None and not (_is_int(p[name]) and p[name] >= least)
    ]
    for name, unit in _POSITIVE.items():
        value = p[name]
        if value is not None and not (isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf):
            problems.append(f"{name}: {value!r} is not a number above 0 ({unit}); leave it out for no limit")
    for name in ("partition_method", "protocol", "vacuum"):
        if p[name] is not None and p[name] not in OPTIONS[name]["choices"]:
            problems.append(f"{name}: {p[name]!r} is not one of {', '.join(OPTIONS[name]['choices'])}")
    if p["fillfactor"] is not None and not (_is_int(p["fillfactor"]) and 10 <= p["fillfactor"] <= 100):
        problems.append(f"fillfactor: {p['fillfactor']!r} is not a whole number from 10 to 100")
    rate = p["sampling_rate"]
    if rate is not None and not (isinstance(rate, (int, float)) and not isinstance(rate, bool) and 0 < rate <= 1):
        problems.append(f"sampling_rate: {rate!r} is not a share above 0 and up to 1, such as 0.1 for every tenth transaction")
    if problems:
        return problems + _script_problems(p)
    if p["transactions"] and p["duration"]:
        problems.append(
            f"transactions={p['transactions']} and duration={p['duration']} exclude each other: "
            "give transactions (per client) for a fixed amount of work, or duration (seconds) for a fixed time"
        )
    if p["max_tries"] == 0 and not p["latency_limit"] and not p["duration"]:
        problems.append("max_tries=0 (no limit) needs a latency_limit or a duration to end; give one of them, or max_tries=10")
    if p["partition_method"] and not p["partitions"]:
        problems.append(f"partition_method={p['partition_method']} needs partitions=N with N of 1 or more")
    problems += _init_problems(p)
    return problems + _script_problems(p)


def _init_problems(p: Mapping[str, Any]) -> list[str]:
    given = p["init_steps"]
    if given is None:
        return []
    problems = []
    steps = str(given).replace(" ", "")
    unknown = sorted(set(steps) - set("dtgGvpf"))
    if unknown or not steps:
        problems.append(
            f"init_steps: {given!r} holds {', '.join(unknown) or 'no step'}; the steps are d, t, g or G, v, p, f, such as dtgvp"
        )
    elif "t" not in steps or not set("gG") & set(steps):
        problems.append(f"init_steps: {given!r} makes no data set; it needs t (tables) and g or G (rows), such as dtgvp")
    if p["server_side"] and "g" in steps:
        problems.append(f"server_side=true means step G, but init_steps={given} asks for g (client-side); leave one of the two out")
    if p["foreign_keys"] and "f" in steps and "p" not in steps:
        problems.append(f"foreign_keys need primary keys: add p before f in init_steps={given}")
    return problems


def _script_problems(p: Mapping[str, Any]) -> list[str]:
    problems = []
    if p["builtin"] and p["scripts"]:
        problems.append("builtin and scripts exclude each other: put the builtin into scripts as {builtin: NAME, weight: W}")
    listed = p["scripts"]
    if listed is not None and not (isinstance(listed, (list, tuple)) and all(isinstance(s, Mapping) for s in listed)):
        return [*problems, "scripts: give a list such as [{builtin: select-only, weight: 9}, {sql: 'SELECT 1;', weight: 1}]"]
    for i, item in enumerate(listed or []):
        kinds = [k for k in ("builtin", "file", "sql") if item.get(k) is not None]
        if len(kinds) != 1:
            problems.append(f"scripts[{i}]: has {' and '.join(kinds) or 'none'} of builtin, file, sql; give exactly one")
        unknown = sorted(set(item) - {"builtin", "file", "sql", "name", "weight"})
        if unknown:
            problems.append(f"scripts[{i}]: unknown key {', '.join(unknown)}; the keys are builtin, file, sql, name, weight")
    if problems:
        return problems
    run = scripts(p)
    if len(run) > MAX_SCRIPTS:
        problems.append(f"{len(run)} scripts; pgbench runs up to {MAX_SCRIPTS}")
    weights = [s["weight"] for s in run]
    for script in run:
        if script["builtin"] and script["builtin"] not in BUILTINS:
            problems.append(f"builtin: {script['builtin']!r} is not one of {', '.join(BUILTINS)}")
        if not (_is_int(script["weight"]) and script["weight"] >= 0):
            problems.append(f"script {script['name']}: weight {script['weight']!r} is not a whole number of 0 or more")
        if script["sql"] is not None:
            problems += _sql_problems(script, p["protocol"])
    if all(_is_int(w) for w in weights) and sum(weights) == 0:
        problems.append("the weights of the scripts add up to 0; at least one must be 1 or more")
    return problems


def _sql_problems(script: Mapping[str, Any], protocol: str | None) -> list[str]:
    problems = []
    name, used = script["name"], list(_meta_commands(script["sql"]))
    if not _without_comments(script["sql"]).strip():
        problems.append(f"script {name} holds no command")
    for command in dict.fromkeys(c for c, _argument in used):
        if command == "setrandom":
            problems.append(f"script {name}: \\setrandom was removed in 9.6; write \\set NAME random(FROM, TO)")
        elif command not in _META_COMMANDS:
            problems.append(f"script {name}: pgbench has no meta-command \\{command}")
    if protocol in (None, "simple") and any(c.endswith("pipeline") for c, _argument in used):
        problems.append(f"script {name} uses a pipeline, which the simple protocol cannot do; give protocol=extended or protocol=prepared")
    if protocol in ("extended", "prepared") and "\\;" in _without_comments(script["sql"]):
        problems.append(f"script {name} sends several statements at once (\\;), which only protocol=simple can do; end each with ; alone")
    return problems


def _without_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*", "", re.sub(r"/\*.*?\*/", "", sql, flags=re.DOTALL))


def _meta_commands(sql: str) -> Iterator[tuple[str, str]]:
    """Yield ``(command, arguments)`` of a script; ``\\gset`` and ``\\aset`` may stand behind their statement."""
    for line in _without_comments(sql).splitlines():
        found = re.match(r"\s*\\(\w+)(.*)", line)
        if found:
            yield found[1], found[2]
        for behind in re.findall(r"\S.*?\\(gset|aset)\b", line):
            yield behind, ""


def version_num(version: str) -> int:
    """Return ``version`` (``15.18``, or all of ``pgbench --version``) as a number such as 150018; ``ValueError`` when there is none."""
    parsed = pgbench_output.parse_version(version)
    if not parsed:
        raise ValueError(f"no version of pgbench: {version!r}")
    return parsed["num"]


def unsupported(params: Mapping[str, Any], version: str) -> list[str]:
    """Return what is asked for and this pgbench lacks, with the version that brought it."""
    p, num = complete(params), version_num(version)
    here = pgbench_output.parse_version(version) or {}
    if num < 90600:
        return [f"pgbench {here['version']} is too old; 9.6 or later is needed"]
    needs = [
        ("init_steps", 110000, p["init_steps"]),
        ("server_side (init step G)", 130000, p["server_side"] or "G" in str(p["init_steps"] or "")),
        ("partitions", 130000, p["partitions"]),
        ("max_tries", 150000, p["max_tries"] != 1),
    ]
    for script in scripts(p):
        if script["sql"] is None:
            continue
        used = list(_meta_commands(script["sql"]))
        needs += [(f"script {script['name']}: \\{c}", _META_COMMANDS.get(c, 0), True) for c in dict.fromkeys(c for c, _a in used)]
        expressions = " ".join(a for c, a in used if c in ("set", "if", "elif"))
        needs += [(f"script {script['name']}: {what}", since, pattern.search(expressions)) for what, since, pattern in _EXPRESSIONS]
    return [f"{what} needs pgbench {since // 10000}; this is {here['version']}" for what, since, asked in needs if asked and num < since]


# commands -----------------------------------------------------------------------------------------------------------------


def load_steps(params: Mapping[str, Any], version: str, connection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the one step that builds the data set. ``connection``: ``{host, port, user, dbname}``, each but the last may be ``None``."""
    p = complete(params)
    argv = ["pgbench", *_connection(connection), "-i", "-q", "-s", str(p["scale"]), "-F", str(p["fillfactor"])]
    if p["init_steps"] is not None or p["server_side"]:  # the default steps need no option, which 9.6 and 10 lack
        argv += ["-I", _init_steps(p)]
    if p["foreign_keys"]:
        argv.append("--foreign-keys")
    if p["unlogged"]:
        argv.append("--unlogged-tables")
    if p["partitions"]:
        argv += [f"--partitions={p['partitions']}", f"--partition-method={p['partition_method'] or 'range'}"]
    estimate = load_seconds(p)
    return [_step("load", [*argv, connection["dbname"]], version, planned_s=estimate, grace_s=max(600.0, SLOWEST_LOAD * estimate))]


def run_steps(params: Mapping[str, Any], version: str, connection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps ``ramp_up`` (the same load, unlogged, with another seed; only when asked for) and ``measured``."""
    p, num = complete(params), version_num(version)
    run = scripts(p)
    base = ["pgbench", *_connection(connection), "-M", p["protocol"], "-c", str(p["clients"]), "-P", "1"]  # 9.6 wants -M before -f
    base += ["-j", str(p["threads"])] if p["threads"] else []
    base += ["-R", _text(p["rate"])] if p["rate"] else []
    base += ["-L", _text(p["latency_limit"])] if p["latency_limit"] else []
    base += [f"--max-tries={p['max_tries']}"] if p["max_tries"] != 1 else []
    base += ["-C"] if p["reconnect"] else []
    base += ["-r"] if p["report_per_command"] else []
    base += ["--failures-detailed"] if num >= 150000 else []
    base += ["-s", str(p["scale"])] if not needs_dataset(p) else []  # with a builtin pgbench counts the branches itself
    for script in run:
        base += ["-b" if script["builtin"] else "-f", f"{script['file'] or script['name']}@{script['weight']}"]
    files = {s["file"]: s["sql"] for s in run if not s["builtin"]}
    missing = [name for name, sql in files.items() if sql is None]
    if missing:
        raise ValueError(f"the text of {', '.join(missing)} has not been read")

    vacuum = {"none": ["-n"], "all": ["-v"], "default": [] if needs_dataset(p) else ["-n"]}[p["vacuum"]]
    seed = (lambda n: [f"--random-seed={n}"]) if num >= 110000 else (lambda _n: [])
    steps = []
    if p["ramp_up"]:
        argv = [*base, *vacuum, *seed(p["seed"] + 1), "-T", str(p["ramp_up"]), connection["dbname"]]
        steps.append(_step("ramp_up", argv, version, files=files, planned_s=float(p["ramp_up"])))
        vacuum = ["-n"]
    log = ["-l", *([f"--log-prefix={LOG_PREFIX}"] if num >= 100000 else [])]
    log += [f"--sampling-rate={_text(p['sampling_rate'])}"] if (p["sampling_rate"] or 1) < 1 else []
    length = ["-t", str(p["transactions"])] if p["transactions"] else ["-T", str(p["duration"])]
    argv = [*base, *vacuum, *seed(p["seed"]), *log, *length, connection["dbname"]]
    planned = None if p["transactions"] else float(p["duration"])
    grace = GRACE_S if planned else max(3600.0, (p["transactions"] or 0) * p["clients"] / SLOWEST_TPS)
    steps.append(_step("measured", argv, version, files=files, log_prefix=LOG_PREFIX, planned_s=planned, grace_s=grace))
    return steps


def _step(name: str, argv: list[str], version: str, **known: Any) -> dict[str, Any]:
    step: dict[str, Any] = {"name": name, "argv": argv, "env": {}, "files": {}, "log_prefix": None, "planned_s": None, "grace_s": GRACE_S}
    return {**step, "version": version, **known}


def _connection(connection: Mapping[str, Any]) -> list[str]:
    options = (("-h", "host"), ("-p", "port"), ("-U", "user"))
    return [word for option, key in options if connection.get(key) for word in (option, str(connection[key]))]


def _init_steps(p: Mapping[str, Any]) -> str:
    steps = str(p["init_steps"] or "dtgvp").replace(" ", "")
    steps = steps.replace("g", "G") if p["server_side"] else steps
    return steps + "f" if p["foreign_keys"] and "f" not in steps else steps


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def log_layout(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the per-transaction log of these options reads, as the options of the module ``digest``."""
    p = complete(params)
    return {
        "lag": bool(p["rate"]),
        "retries": p["max_tries"] != 1,
        "sampling_rate": p["sampling_rate"] or 1.0,
        "scripts": len(scripts(p)),
    }


def expected_log_bytes(params: Mapping[str, Any], tps_guess: float) -> int:
    """Return about how large the per-transaction log gets when nothing is left out. ``tps_guess``: expected transactions per second.

    A line is ``client transaction time_us script epoch_s epoch_us [lag_us] [retries]``: 29 to 36 bytes in logs of 13 to 18.
    """
    p = complete(params)
    lines = p["clients"] * p["transactions"] if p["transactions"] else p["duration"] * _logged_per_second(p, tps_guess)
    line = 36 + (7 if p["rate"] else 0) + (2 if p["max_tries"] != 1 else 0)
    return math.ceil(lines * line)


def _logged_per_second(p: Mapping[str, Any], tps_guess: float) -> float:
    if not p["rate"]:
        return tps_guess
    return p["rate"] if p["latency_limit"] else min(p["rate"], tps_guess)  # skipped transactions are logged too


def sampling_for(params: Mapping[str, Any], tps_guess: float, limit_bytes: float) -> float:
    """Return the sampling rate that was asked for, else the largest of two digits that keeps the log within ``limit_bytes``."""
    if params.get("sampling_rate"):
        return params["sampling_rate"]
    share = limit_bytes / max(1, expected_log_bytes(params, tps_guess))
    if share >= 1:
        return 1.0
    digits = 1 - math.floor(math.log10(share))
    return math.floor(share * 10**digits) / 10**digits


# the data set ---------------------------------------------------------------------------------------------------------------

#: Sizes per unit of scale, measured on PostgreSQL 15 (x86-64, 8 kB pages) with ``pg_total_relation_size``: 100,000 accounts of
#: 132 bytes with their line pointer, 61 to a page at fillfactor 100, and 2,250,000 bytes of primary key; branches and tellers stay
#: under 0.1 MB at scale 10. The same server's empty database has 7.5 MB.
ACCOUNTS = 100_000
ACCOUNT_BYTES = 132
PAGE_BYTES, PAGE_USABLE = 8192, 8168
INDEX_BYTES = 2_250_000
DATABASE_BYTES = 7_500_000
#: Seconds per unit of scale, between what was measured on a quiet (0.2 to 0.4) and on a busy machine with 2 cores (0.5 to 0.9).
LOAD_S = {"client": 0.4, "server": 0.5, "foreign_keys": 0.05}
#: Transactions per second and core that estimates assume. They plan lengths and log sizes, they never judge.
GUESS_TPS_PER_CORE = {"writes": 300.0, "reads": 5000.0}


def dataset(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{parameters, fingerprint}``: what the built data depends on, and 12 hex digits that equal data sets share."""
    p = complete(params)
    parameters = {
        "scale": p["scale"],
        "init_steps": _init_steps(p),
        "fillfactor": p["fillfactor"],
        "unlogged": p["unlogged"],
        "partitions": p["partitions"],
        "partition_method": (p["partition_method"] or "range") if p["partitions"] else None,
    }
    text = canonical_json({"workload": WORKLOAD, **parameters})
    return {"parameters": parameters, "fingerprint": hashlib.sha256(text.encode()).hexdigest()[:12]}


def dataset_bytes(params: Mapping[str, Any]) -> int:
    """Return about how large the database is when just built; a run adds ``pgbench_history`` and dead rows. See ``ACCOUNT_BYTES``."""
    p = complete(params)
    free = PAGE_BYTES * (100 - p["fillfactor"]) // 100
    rows_per_page = max(1, (PAGE_USABLE - free) // ACCOUNT_BYTES)
    heap = math.ceil(ACCOUNTS / rows_per_page) * PAGE_BYTES
    index = INDEX_BYTES if "p" in _init_steps(p) else 0
    return DATABASE_BYTES + p["scale"] * (heap + index)


def load_seconds(params: Mapping[str, Any]) -> float:
    """Return about how long ``pgbench -i`` takes: an estimate for planning, see ``LOAD_S``."""
    steps = _init_steps(complete(params))
    per_scale = LOAD_S["server" if "G" in steps else "client"] + (LOAD_S["foreign_keys"] if "f" in steps else 0.0)
    return 1.0 + per_scale * complete(params)["scale"]


def guess_tps(params: Mapping[str, Any], cores: int) -> float:
    """Return a rate for estimates: see ``GUESS_TPS_PER_CORE``; an asked-for rate caps it."""
    guess = GUESS_TPS_PER_CORE["writes" if writes(params) else "reads"] * max(1, cores)
    return min(guess, params["rate"]) if params.get("rate") else guess


def run_seconds(params: Mapping[str, Any], cores: int) -> float:
    """Return how long ramp-up and measured window take; of a number of transactions an estimate (``guess_tps``)."""
    p = complete(params)
    measured = p["transactions"] * p["clients"] / guess_tps(p, cores) if p["transactions"] else p["duration"]
    return float(p["ramp_up"] + measured)


def check_sql(params: Mapping[str, Any], full: bool = False) -> str:
    """Return one statement with one row for ``check``. It is cheap: accounts are not counted, their highest number is read.

    ``full``: for workloads that can look closer.
    """
    return (
        "SELECT (SELECT count(*) FROM pgbench_branches) AS branches,"
        " (SELECT count(*) FROM pgbench_tellers) AS tellers,"
        " (SELECT max(aid) FROM pgbench_accounts) AS accounts,"
        " (SELECT count(*) FROM pg_catalog.pg_inherits WHERE inhparent = 'pgbench_accounts'::regclass) AS partitions,"
        " (SELECT relpersistence = 'u' FROM pg_catalog.pg_class WHERE oid = 'pgbench_branches'::regclass) AS unlogged,"
        " EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE contype = 'f' AND conrelid = 'pgbench_tellers'::regclass) AS foreign_keys"
    )


def check(rows: Sequence[Mapping[str, Any]], params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return findings where the data set is not the one that ``params`` ask for; without a scale it is held against itself.

    ``rows``: of ``check_sql``, values as text or typed.
    """
    if not rows:
        return [finding("dataset_failed", "the check of the data set returned no row")]
    row = rows[0]
    here = {name: int(row[name] or 0) for name in ("branches", "tellers", "accounts", "partitions")}
    here.update({name: str(row[name]).lower() in ("t", "true", "1") for name in ("unlogged", "foreign_keys")})
    if params.get("scale") is None:
        params = {"scale": here["branches"], **{k: here[k] for k in ("partitions", "unlogged", "foreign_keys")}}
    p = complete(params)
    if here["branches"] != p["scale"]:
        message = f"the data set has scale {here['branches']} (its branches), the plan asks for {p['scale']}"
        return [finding("wrong_scale", message, scale=here["branches"], asked=p["scale"])]
    steps = _init_steps(p)
    wanted = {
        "tellers": 10 * p["scale"],
        "accounts": ACCOUNTS * p["scale"],
        "partitions": p["partitions"],
        "unlogged": p["unlogged"],
        "foreign_keys": "f" in steps,
    }
    return [
        finding(
            "dataset_failed", f"the data set has {name} = {here[name]}, the plan asks for {value}", what=name, found=here[name], asked=value
        )
        for name, value in wanted.items()
        if here[name] != value
    ]


def sound(row: Mapping[str, Any]) -> str:
    """Return what a full ``check`` without findings has shown."""
    return f"scale {row['branches']}: the numbers of branches and tellers and the last account fit each other"


# results --------------------------------------------------------------------------------------------------------------------


def progress(text: str) -> dict[str, Any] | None:
    """Return ``{rate, latency_ms, elapsed_s, percent}`` from new output, for the live line; ``None`` when it holds nothing new.

    ``rate`` is in ``RATE_UNIT``: a load has none, but ``percent`` of its rows.
    """
    sample = pgbench_output.last_progress(text)
    if sample:
        return {"rate": sample["tps"], "latency_ms": sample["latency_ms"], "elapsed_s": sample["elapsed_s"], "percent": None}
    rows = pgbench_output.parse_init(text[: text.rfind("\n") + 1])["tuples"]
    return {"rate": None, "latency_ms": None, "elapsed_s": rows["elapsed_s"], "percent": rows["percent"]} if rows else None


def result(params: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], digest: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the measurement of the steps that ran: those of ``load_steps`` or ``run_steps`` with ``job``, ``stdout`` and ``stderr``.

    Every figure is pgbench's own, to the last digit; percentiles come from ``digest`` (``None`` when there is no log). The findings
    are the facts of the output; thresholds are judged elsewhere. ``counts`` and ``latency`` are empty for a load.
    """
    p = complete(params)
    parsed = {step["name"]: _parse(step, p) for step in steps}
    last = steps[-1]
    report = parsed[last["name"]]["report"]
    measured = report if last["name"] == "measured" else pgbench_output.parse_report("")
    findings = [f for step in steps for f in _step_findings(step, parsed[step["name"]], p)]
    if last["name"] == "measured":
        findings += _report_findings(measured, p, digest)
    metrics: dict[str, Any] = {}
    for name, one in parsed.items():
        metrics.update(one["metrics"] if name != "ramp_up" else {})
    return {
        "workload": WORKLOAD,
        "load_generator": _load_generator(last, report),
        "conditions": _conditions(measured, p, seeded=version_num(last.get("version") or "99") >= 110000),
        "counts": {k: measured[k] for k in _COUNTS},
        "steps": [_step_result(step, parsed[step["name"]]["metrics"]) for step in steps],
        "metrics": metrics,
        "latency": _latency(measured, p, digest),
        "progress": pgbench_output.parse_progress(_output(last)) if last["name"] == "measured" else [],
        "series": None,
        "findings": findings,
        "raw": [{"path": path, "bytes": size, "sha256": None} for path, size in _raw(steps)],
        "client": _client(last),
    }


_COUNTS = (
    "processed",
    "planned",
    "failed",
    "failed_pct",
    "serialization_failures",
    "deadlock_failures",
    "other_failures",
    "retried",
    "retries",
    "skipped",
    "late",
)


def _parse(step: Mapping[str, Any], p: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{report, init, metrics}`` of one step."""
    job = step["job"]
    output = _output(step)
    reports = pgbench_output.parse_reports(output, job.get("rc"))
    # Which of several is this run's nobody can tell: none is taken.
    report = {**(reports[0] if len(reports) == 1 else pgbench_output.parse_reports("", job.get("rc"))[0]), "several": len(reports)}
    init = pgbench_output.parse_init(output) if step["name"] == "load" else None
    metrics: dict[str, Any] = {}
    if init:
        seconds = init["seconds"] if init["seconds"] is not None else job.get("elapsed_s")  # up to 12 pgbench prints none
        if init["complete"] and seconds is not None:
            metrics["load_seconds"] = {"value": seconds, "unit": "s", "better": "lower"}
    elif p["reconnect"] and report["tps"] is not None and report["tps_including"] is not None:
        # up to 13 the "excluding" figure of -C leaves out most of the run; 14 prints only the one that counts
        report["tps"], report["tps_basis"] = report["tps_including"], RECONNECTING
    if not init and report["tps"] is not None:
        metrics["tps"] = {"value": report["tps"], "unit": "1/s", "better": "higher"}
    return {"report": report, "init": init, "metrics": metrics}


def _output(step: Mapping[str, Any]) -> str:
    return f"{step.get('stdout') or ''}\n{step.get('stderr') or ''}"


def _load_generator(step: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    asked = pgbench_output.parse_version(step.get("version") or "") or {}
    return {
        "name": LOAD_GENERATOR,
        "version": report["client_version"] or asked.get("version"),
        "package": asked.get("package"),
        "server_version": report["server_version"],
        "generation": report["generation"],
    }


_REPORTED = (
    "transaction_type",
    "clients",
    "threads",
    "duration_s",
    "transactions_per_client",
    "protocol",
    "scale",
    "partitions",
    "partition_method",
    "max_tries",
    "tps_basis",
)


def _conditions(report: Mapping[str, Any], p: Mapping[str, Any], seeded: bool) -> dict[str, Any]:
    """What the program reports of the run, and beside it the options that it does not print."""
    return {
        **{k: report[k] for k in _REPORTED},
        "scripts": [{"name": s["name"], "weight": s["weight"]} for s in scripts(p)],
        "seed": p["seed"] if seeded else None,
        "ramp_up_s": p["ramp_up"],
        "rate": p["rate"],
        "latency_limit_ms": p["latency_limit"],
        "loop": "open" if p["rate"] else "closed",
        "reconnect": p["reconnect"],
        "vacuum": p["vacuum"],
        "report_per_command": p["report_per_command"],
        "sampling_rate": p["sampling_rate"] or 1.0,
        "dataset": dataset(p)["parameters"],
    }


_PERCENTILES = ("min", "p50", "p90", "p95", "p99", "p99_9", "max", "n")


def _latency(report: Mapping[str, Any], p: Mapping[str, Any], digest: Mapping[str, Any] | None) -> dict[str, Any]:
    """Average and standard deviation as pgbench prints them; the rest from the log, per script too."""
    overall = (digest or {}).get("overall") or {}
    by_script = (digest or {}).get("scripts") or {}
    rows = []
    for script, asked in zip(report["scripts"], [*scripts(p), *[None] * len(report["scripts"])]):
        of_log = by_script.get(str(script["index"])) or {}
        rows.append(
            {
                "name": asked["name"] if asked else script["name"],
                "weight": script["weight"] if script["weight"] is not None else (asked or {}).get("weight"),
                "transactions": script["transactions"],
                "processed": script["processed"],
                "tps": script["tps"],
                "average": script["latency_average_ms"],
                "stddev": script["latency_stddev_ms"],
                **{k: of_log.get(k) for k in _PERCENTILES},
                **{
                    k: script[k]
                    for k in ("failed", "failed_pct", "serialization_failures", "deadlock_failures", "retried", "retries", "skipped")
                },
            }
        )
    return {
        "unit": "ms",
        "average": report["latency_average_ms"],
        "stddev": report["latency_stddev_ms"],
        "basis": report["latency_basis"],
        **{k: overall.get(k) for k in _PERCENTILES},
        "source": "log" if overall else "report",
        "sampling": (p["sampling_rate"] or 1.0) if overall else 1.0,
        "lag": {"average": report["lag_average_ms"], "max": report["lag_max_ms"]},
        "initial_connection": report["initial_connection_ms"],
        "average_connection": report["average_connection_ms"],
        "scripts": rows,
        "statements": report["statements"],
    }


def _step_result(step: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    job = step["job"]
    return {
        "name": step["name"],
        **{k: job.get(k) for k in ("state", "started", "ended", "elapsed_s", "rc")},
        "metrics": dict(metrics),
        "argv": step["argv"],
    }


def _client(step: Mapping[str, Any]) -> dict[str, Any]:
    usage = step["job"].get("rusage") or {}
    return {
        "cpu_user_s": usage.get("user_s"),
        "cpu_system_s": usage.get("system_s"),
        "wall_s": step["job"].get("elapsed_s"),
        "max_rss_bytes": usage.get("max_rss_bytes"),
    }


def _raw(steps: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int | None]]:
    for step in steps:
        for stream in ("stdout", "stderr"):
            if step["job"].get(stream):
                yield step["job"][stream], step["job"].get(f"{stream}_bytes")


# findings ------------------------------------------------------------------------------------------------------------------------


def _step_findings(step: Mapping[str, Any], parsed: Mapping[str, Any], p: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How the step ended: by the job's state, the exit status, and the messages whose wording is pgbench's own.

    The text of the server's errors follows its ``lc_messages``; it is quoted, never read.
    """
    name, job, report = step["name"], step["job"], parsed["report"]
    if report["several"] > 1:
        return [finding("no_result", f"{name}: {report['several']} reports of pgbench in the output of one run; none of them is taken")]
    rc, done = job.get("rc"), report["tps"] is not None or bool(parsed["init"] and parsed["init"]["complete"])
    if rc == 0 and done and not report["aborted"]:
        return []
    evidence = {"step": name, "rc": rc, "first_error": report["first_error"]}
    why = f": {report['first_error']}" if report["first_error"] else ""
    if job.get("stopped"):
        code, by = ("deadline_exceeded", "at its deadline") if job["stopped"] == "deadline" else ("interrupted", "on request")
        return [finding(code, f"{name} was ended {by}", **evidence)]
    if job.get("state") == "lost":
        return [
            finding(
                "run_aborted", f"the job of {name} was lost with its machine or supervisor; what it wrote until then is kept", **evidence
            )
        ]
    found = _connection_findings(report, p, evidence) or _abort_findings(name, report, evidence)
    if not found and rc is not None and (rc < 0 or 128 < rc < 192):
        found = [finding("run_aborted", f"{name}: pgbench was killed by signal {-rc if rc < 0 else rc - 128}", **evidence)]
    if name == "load":
        return [*found, finding("dataset_failed", f"the data set could not be built (exit status {rc}){why}", **evidence)]
    if found and name == "ramp_up" and all(f["severity"] != "failed" for f in found):
        found.append(finding("setup_failed", f"the ramp-up did not end well, nothing was measured{why}", **evidence))
    if found:
        return found
    if rc == 0:
        return [finding("no_result", f"{name}: pgbench ended with status 0 and printed no rate{why}", **evidence)]
    return [finding("load_generator_failed", f"{name}: pgbench ended with status {rc}{why}", **evidence)]


#: Why a server refuses, where it says so in English; in another language the refusal itself is all that is known.
_TOO_MANY = re.compile(r"too many (?:clients|connections)|connection slots|no more connections allowed")
_NOT_OPEN = re.compile(r"database system is |in recovery mode|not (?:yet |currently )?accepting connections")
_OTHER_REFUSAL = re.compile(
    r"authentication failed|pg_hba\.conf|does not exist|permission denied|not permitted|out of memory|could not fork"
)


def _connection_findings(report: Mapping[str, Any], p: Mapping[str, Any], evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Connections that could not be made before the run, or (up to 13) for all clients of a thread."""
    errors = [e for e in report["errors"] if e["kind"] == "connection"]
    if not errors or any(e["kind"] == "client" for e in report["errors"]):
        return []
    number = next((e["client"] for e in errors if e["client"] is not None), None)
    answered = next((e for e in errors if e["answered"]), None)
    if answered is None:
        return [finding("server_unreachable", f"no connection to the server: {report['first_error']}", **evidence)]
    # one connection stood before (the set-up's), so what is refused now is one too many
    said = " ".join([answered["text"], answered["detail"] or ""])
    if _NOT_OPEN.search(said):
        return [finding("server_unreachable", f"the server takes no connections: {answered['text']}", **evidence)]
    if not _TOO_MANY.search(said) and (_OTHER_REFUSAL.search(said) or (number is None and not report["has_report"])):
        return []
    which = f", the first to client {number}" if number is not None else ""
    message = f"the server refused connections of {p['clients']} clients{which}: {answered['text']}"
    return [finding("too_many_clients", message, **evidence, clients=p["clients"], first_failed_client=number)]


def _abort_findings(name: str, report: Mapping[str, Any], evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Clients that gave up. All of them losing their connection means the server, not one backend."""
    if not report["aborted"]:
        return []
    errors = [e for e in report["errors"] if e["kind"] == "client"]
    lost = {e["client"] for e in errors if e["lost"]}
    clients = report["clients"]
    more = {**evidence, "clients": clients, "clients_aborted": report["clients_aborted"], "connections_lost": len(lost)}
    refused = any(e["answered"] for e in report["errors"])  # with -C: the server was there when a client came back
    if clients and len(lost) > 1 and len(lost) == clients and not refused:
        return [finding("server_lost", f"{name}: all {clients} clients lost their connection: the server stopped or restarted", **more)]
    how = f"{report['clients_aborted'] or 'some'} of {clients or 'the'} clients stopped before the end"
    if clients == 1 and lost:
        how = "the one client lost its connection: the server or this backend stopped"
    return [finding("clients_aborted", f"{name}: {how}: {report['first_error'] or 'no reason given'}", **more)]


def _report_findings(report: Mapping[str, Any], p: Mapping[str, Any], digest: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    found = []
    if needs_dataset(p) and report["scale"] is not None and report["scale"] != p["scale"]:
        message = f"pgbench counted scale {report['scale']} in the data set, the plan asks for {p['scale']}"
        found.append(finding("wrong_scale", message, scale=report["scale"], asked=p["scale"]))
    expected = sum(report[k] or 0 for k in ("processed", "failed", "skipped"))
    if digest and (p["sampling_rate"] or 1) >= 1 and report["processed"] is not None and digest.get("lines", 0) < expected:
        message = f"the log holds {digest.get('lines', 0)} lines for {expected} transactions; percentiles are of the logged ones"
        found.append(finding("log_incomplete", message, lines=digest.get("lines", 0), transactions=expected))
    if report["unparsed"]:
        message = f"{report['unparsed_lines']} line(s) of the output were not understood, such as {report['unparsed'][0]!r}"
        found.append(finding("unparsed_output", message, lines=report["unparsed"][:5], count=report["unparsed_lines"]))
    return found
