# GNU General Public License v3.0 or later (see LICENSE)
"""Run the steps of the workload ``tprocc`` without Ansible, on a cluster of ``support.cluster``."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from support.modules import run_module

from ansible_collections.pgsizing.bench.plugins.module_utils import tprocc_data
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import tprocc

FILES = Path(__file__).parents[2] / "roles" / "tprocc" / "files"
VERSION = "pgbench (PostgreSQL) 15.20"


def connection(cluster: dict[str, Any], dbname: str) -> dict[str, Any]:
    return {"host": cluster["socket_dir"], "port": cluster["port"], "user": cluster["user"], "dbname": dbname}


def environment(cluster: dict[str, Any]) -> dict[str, str]:
    """The environment of a step: programs of the cluster first, nothing of the caller that libpq would read."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    return {**kept, "PATH": f"{cluster['bin_dir']}:{kept['PATH']}", "LC_ALL": "C"}


def start(step: dict[str, Any], cluster: dict[str, Any], folder: Path) -> subprocess.Popen[str]:
    """Start a step in a folder of its own, as its job would."""
    folder.mkdir(parents=True)
    for name, file in step.get("shipped", {}).items():
        (folder / name).write_text((FILES / file).read_text("utf-8"), "utf-8")
    for name, text in step["files"].items():
        (folder / name).write_text(text, "utf-8")
    with open(folder / "stdout", "w") as out, open(folder / "stderr", "w") as err:
        return subprocess.Popen(
            step["argv"], cwd=folder, env=environment(cluster), stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True
        )


def run(
    steps: Iterable[dict[str, Any]], cluster: dict[str, Any], folder: Path, during: Callable[[str, Path], None] | None = None
) -> list[dict[str, Any]]:
    """Run steps one after the other until one fails; return them with ``job``, ``stdout`` and ``stderr``.

    ``during`` is called with name and folder of each step while it runs.
    """
    done: list[dict[str, Any]] = []
    for step in steps:
        place = folder / step["name"]
        started = time.time()
        process = start(step, cluster, place)
        if during:
            during(step["name"], place)
        _pid, status, usage = os.wait4(process.pid, 0)
        ended = time.time()
        job = {
            "state": "finished",
            "rc": os.waitstatus_to_exitcode(status),
            "stopped": None,
            "run_dir": str(place),
            "started": started,
            "ended": ended,
            "elapsed_s": ended - started,
            "rusage": {"user_s": usage.ru_utime, "system_s": usage.ru_stime, "max_rss_bytes": usage.ru_maxrss * 1024},
        }
        process.returncode = job["rc"]
        done.append({**step, "job": job, **{name: (place / name).read_text("utf-8") for name in ("stdout", "stderr")}})
        if job["rc"] != 0:
            break
    return done


def load(cluster: dict[str, Any], dbname: str, folder: Path, **params: Any) -> dict[str, Any]:
    """Build a data set; return the measurement."""
    steps = tprocc.load_steps(params, VERSION, connection(cluster, dbname))
    return tprocc.result(params, run(steps, cluster, folder))


def measure(
    cluster: dict[str, Any], dbname: str, folder: Path, during: Callable[[str, Path], None] | None = None, **params: Any
) -> dict[str, Any]:
    """Run the load; return the measurement with what the module ``digest`` makes of the logs."""
    params = tprocc.complete(params, cores=2)
    steps = run(tprocc.run_steps(params, VERSION, connection(cluster, dbname)), cluster, folder, during)
    digest = None
    if any(folder.glob("measured/pgbench_log.*")):
        found = run_module("digest", logs=[folder / "measured/pgbench_log"], out=folder / "out.gz", **tprocc.log_layout(params))
        rows = [line.split(",") for line in Path(found["digest"]["series"]).read_text().splitlines()]
        digest = {**found["digest"], "seconds": [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]}
    return tprocc.result(params, steps, digest)


def check(cluster: dict[str, Any], dbname: str, depth: str = "full", before: str = "", **params: Any) -> list[dict[str, Any]]:
    """Return the findings on the data as they are, or as they would be after the statements ``before``, which are rolled back."""
    statement = f"BEGIN; {before}; SELECT row_to_json(c) FROM ({tprocc_data.statement(depth)}) AS c; ROLLBACK"
    where = connection(cluster, dbname)
    argv = [
        "psql",
        "-XAtq",
        "-v",
        "ON_ERROR_STOP=1",
        "-h",
        where["host"],
        "-p",
        str(where["port"]),
        "-U",
        where["user"],
        "-c",
        statement,
        dbname,
    ]
    answer = subprocess.run(argv, env=environment(cluster), check=True, capture_output=True, text=True).stdout
    row = json.loads(next(line for line in answer.splitlines() if line.startswith("{")))
    return tprocc.check([row], params)
