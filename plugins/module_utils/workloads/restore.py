# GNU General Public License v3.0 or later (see LICENSE)
"""The data set from a dump of the user: ``pg_restore`` (custom, directory, tar) or ``psql`` (plain).

The part of the contract of ``workloads/pgbench.py`` that a load needs; it is measured by another workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding

WORKLOAD = "restore"
LOAD_GENERATOR = "pg_restore"
ROLE = "restore"
LOAD_CONTINUES = False
RATE_UNIT = "tps"

OPTIONS: dict[str, dict[str, Any]] = {
    "dump": {"type": "path", "required": True},
    "format": {"type": "str", "choices": ["custom", "directory", "tar", "plain"], "required": True},
    "jobs": {"type": "int", "default": 2},
}
#: Formats that more than one job can read.
PARALLEL = ("custom", "directory")
#: A restore is ended after this: how long one takes nobody knows.
GRACE_S = 24 * 3600.0

#: Line of ``pg_restore --verbose`` when the data of one table begins.
_TABLE = re.compile(r'^pg_restore: processing data for table "', re.MULTILINE)
_ERROR = re.compile(r"^(?:pg_restore: error: |psql:.*?: (?:ERROR|FATAL): |psql: error: |dump: )(.*)", re.MULTILINE)


def complete(params: Mapping[str, Any], cores: int | None = None) -> dict[str, Any]:
    """Return ``params`` with every default filled in."""
    return {name: params.get(name) if params.get(name) is not None else spec.get("default") for name, spec in OPTIONS.items()}


def validate(params: Mapping[str, Any]) -> list[str]:
    """Return every reason why these parameters cannot be."""
    return [] if params["jobs"] >= 1 else [f"jobs: {params['jobs']} is too small; the least is 1"]


def unsupported(params: Mapping[str, Any], version: str) -> list[str]:
    """Return what this version of the programs cannot do."""
    return []


def load_steps(params: Mapping[str, Any], version: str, connection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the one step that restores the dump. ``connection``: ``{host, port, user, dbname}``."""
    options = [f"--{name}={connection[key]}" for name, key in (("host", "host"), ("port", "port"), ("username", "user")) if connection[key]]
    options.append("--no-password")
    if params["format"] == "plain":
        argv = ["psql", *options, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null", "--file=-"]
    else:
        argv = ["pg_restore", *options, "--no-owner", "--no-privileges", "--exit-on-error", "--verbose"]
        argv += [f"--jobs={params['jobs']}"] if params["format"] in PARALLEL and params["jobs"] > 1 else []
    argv.append(f"--dbname={connection['dbname']}")
    if params["format"] != "plain":
        argv.append(params["dump"])
    # psql has no option that leaves out owners and privileges: the job reads a plain dump for it.
    stdin = {"stdin_dump": params["dump"]} if params["format"] == "plain" else {}
    about: dict[str, Any] = {"version": version, "files": {}, "log_prefix": None, "planned_s": None, "grace_s": GRACE_S}
    return [{"name": "load", "argv": argv, **about, **stdin}]


def run_steps(params: Mapping[str, Any], version: str, connection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A dump is restored, never run."""
    raise ValueError("restore only loads: phase=load")


def needs_dataset(params: Mapping[str, Any]) -> bool:
    """Nothing has to be there before."""
    return False


def tables_done(text: str) -> int:
    """Return at how many more tables new output of ``pg_restore --verbose`` has come."""
    return len(_TABLE.findall(text))


def progress(text: str) -> dict[str, Any] | None:
    """The number of tables is known to the action only."""
    return None


def check_sql(params: Mapping[str, Any], full: bool = False) -> str:
    """Return one statement with one row for ``check``."""
    return (
        "SELECT count(*) AS tables FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'"
    )


def check(rows: Sequence[Mapping[str, Any]], params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return findings on what was restored."""
    return [] if rows[0]["tables"] else [finding("dataset_failed", "the dump was restored, but it holds no table")]


def sound(row: Mapping[str, Any]) -> str:
    """Return what a full ``check`` without findings has shown."""
    return f"{row['tables']} tables are there; what lies in them nobody knows"


def result(params: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], digest: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the measurement of the load: ``load_seconds``, and what the program said when it failed."""
    step = steps[-1]
    job = step["job"]
    findings = []
    if job.get("rc") != 0:
        said = _ERROR.findall(step["stderr"])
        lines = [line for line in step["stderr"].splitlines() if line.strip()]
        ended = "it was ended at its deadline" if job.get("stopped") == "deadline" else f"it ended with status {job.get('rc')}"
        why = "; ".join(said[:3]) or (lines[-1] if lines else ended)
        findings.append(finding("dataset_failed", f"the dump {params['dump']} could not be restored: {why}", rc=job.get("rc")))
    seconds = job.get("elapsed_s")
    program = "psql" if params["format"] == "plain" else "pg_restore"
    return {
        "workload": WORKLOAD,
        "load_generator": {"name": program, "version": step["version"], "server_version": None, "generation": None},
        "conditions": dict(params),
        "counts": {},
        "steps": [
            {
                "name": step["name"],
                "state": "failed" if findings else "finished",
                "started": job.get("started"),
                "ended": job.get("ended"),
                "elapsed_s": seconds,
                "rc": job.get("rc"),
                "metrics": {},
                "argv": step["argv"],
            }
        ],
        "metrics": {} if findings else {"load_seconds": {"value": seconds, "unit": "s", "better": "lower"}},
        "latency": None,
        "series": None,
        "findings": findings,
        "raw": [],
        "client": None,
    }
