#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Exact latency percentiles from the per-transaction logs of pgbench, on the host that has them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: digest
short_description: Compute exact latency percentiles from pgbench logs
version_added: 0.1.0
description:
  - Reads the per-transaction logs (C(pgbench -l)) of all threads of a run, and computes exact percentiles for the run and for each
    of its scripts. Percentiles are nearest rank over all threads together.
  - Memory is bounded, whatever the size of the logs.
  - Failed and skipped transactions are counted and are no latencies.
options:
  logs:
    description: The log files, or the prefix that pgbench was given (C(--log-prefix)), which stands for the files of all its threads.
    type: list
    elements: path
    required: true
  lag:
    description: Whether each line has the schedule lag, as with C(pgbench --rate).
    type: bool
    default: false
  retries:
    description: Whether each line has the number of retries, as with C(pgbench --max-tries) other than 1.
    type: bool
    default: false
  scripts:
    description: Number of scripts of the run. A higher script number in the log is reported as a problem.
    type: int
  sampling_rate:
    description: Share of the transactions that was logged, as given to C(pgbench --sampling-rate).
    type: float
    default: 1.0
  out:
    description:
      - File to write the distribution to without loss, by gzip. One line C(script latency_us transactions) for each distinct latency.
      - Beside it, with C(.seconds.csv) added to its name, transactions by the second of their end are written.
    type: path
attributes:
  check_mode:
    support: full
    description: Reads, and writes no file.
author: pgsizing contributors (@pgsizing)
"""

EXAMPLES = r"""
- name: Percentiles of a run of three scripts
  pgsizing.bench.digest:
    logs: [/var/lib/pgsizing/jobs/base-1/pgbench_log]
    scripts: 3
    out: /var/lib/pgsizing/jobs/base-1/latencies.gz
  register: latencies
"""

RETURN = r"""
digest:
  description: What the logs hold.
  returned: always
  type: dict
  contains:
    n: {description: Transactions with a latency., type: int}
    lines: {description: Lines of all logs. C(n), C(failed), C(skipped) and what C(problems) names add up to it., type: int}
    failed: {description: Failed transactions., type: int}
    failures: {description: "The same by the word in the log, C(failed), C(serialization), C(deadlock) and C(other).", type: dict}
    skipped: {description: Transactions that were skipped as too late to start., type: int}
    sampling: {description: Share of the transactions that was logged., type: float}
    overall:
      description: Figures of all scripts together, in ms. None where there is no transaction.
      type: dict
      sample: {"n": 3, "min": 1.7, "p50": 3.1, "p90": 8.2, "p95": 8.2, "p99": 8.2, "p99_9": 8.2, "max": 8.2, "average": 4.3, "stddev": 2.8}
    scripts: {description: "The same for each script by its number from 0, with its C(failed) and C(skipped).", type: dict}
    out: {description: Path of the distribution., type: str}
    series:
      description: Path of a CSV file with C(ts), C(transactions), C(not_processed) for each second, and C(script_N), the transactions of
        each script where there are several.
      type: str
    problems: {description: What is wrong with the logs., type: list, elements: str}
"""

import gzip
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.pgsizing.bench.plugins.module_utils.percentiles import FAILURES, SKIPPED, Entry, Summary, Tally, merge, problems

BLOCK = 1 << 17

#: Memory of the histograms beyond which they are put into temporary files (bytes).
LIMIT = 100_000_000


def log_files(given: list[str]) -> list[Path]:
    """Return the files that are meant. ValueError when there are none, or when a prefix has files of several runs."""
    files: list[Path] = []
    for name in map(Path, given):
        if name.is_file():
            files.append(name)
            continue
        threads = {path: found.group(1) for path in sorted(name.parent.glob("*")) if (found := _thread_file(name.name, path.name))}
        if not threads:
            raise ValueError(f"there is no log {name} and no file {name}.<pid>")
        if len(set(threads.values())) > 1:
            raise ValueError(f"{name} has logs of several runs, by their pids {', '.join(sorted(set(threads.values())))}")
        files += threads
    return files


def _thread_file(prefix: str, name: str) -> re.Match[str] | None:
    return re.fullmatch(re.escape(prefix) + r"\.(\d+)(?:\.\d+)?", name)


def blocks(path: Path, cut: list[str]) -> Iterator[bytes]:
    """Give the whole lines of a file in blocks; a last line without end is named in ``cut`` instead."""
    rest = b""
    with open(path, "rb", buffering=0) as file:
        while data := file.read(BLOCK):
            data = rest + data
            end = data.rfind(b"\n") + 1
            rest = data[end:]
            if end:
                yield data[:end]
    if rest:
        cut.append(f"{path.name}: the last line is cut off and was left out")


def count_all(files: list[Path], tally: Tally) -> tuple[Iterator[Entry], list[str]]:
    """Count all files; return every distinct latency of every script in order, and the problems met."""
    cut: list[str] = []
    aside: list[IO[str]] = []
    for path in files:
        for block in blocks(path, cut):
            tally.add(block)
            if tally.bytes() > LIMIT:
                aside.append(put_aside(tally))
    entries = merge([*map(entries_of, aside), tally.entries()]) if aside else tally.entries()
    return entries, cut + problems(tally)


def put_aside(tally: Tally) -> IO[str]:
    """Move what is counted into a temporary file."""
    file = tempfile.TemporaryFile("w+", encoding="ascii")  # noqa: SIM115
    file.writelines(f"{latency} {script} {count}\n" for latency, script, count in tally.entries())
    file.seek(0)
    tally.forget()
    return file


def entries_of(file: IO[str]) -> Iterator[Entry]:
    """Give the entries that were put aside into a file."""
    for line in file:
        latency, script, count = line.split()
        yield int(latency), int(script), int(count)


def summarise(tally: Tally, entries: Iterator[Entry], out: Path | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures of all and of each script, and write the distribution on the way."""
    counts = tally.counts()
    overall = Summary(sum(counts.values()))
    by_script = {script: Summary(counts.get(script, 0)) for script in tally.scripts()}
    with gzip.open(out, "wt", 6, encoding="ascii") if out else open(os.devnull, "w", encoding="ascii") as file:
        file.write("script latency_us transactions\n")
        for latency, script, count in entries:
            overall.add(latency, count)
            by_script[script].add(latency, count)
            file.write(f"{script} {latency} {count}\n")
    scripts = {
        str(script): {
            **summary.result(),
            "failed": sum(tally.count(word, script) for word in FAILURES),
            "skipped": tally.count(SKIPPED, script),
        }
        for script, summary in by_script.items()
    }
    return overall.result(), scripts


def write_series(path: Path, tally: Tally) -> None:
    """Write transactions by the second of their end."""
    with open(path, "w", encoding="ascii") as file:
        scripts = tally.scripts() if len(tally.scripts()) > 1 else []
        file.write(",".join(["ts", "transactions", "not_processed", *(f"script_{n}" for n in scripts)]) + "\n")
        for second in sorted(tally.seconds):
            other = tally.unprocessed_seconds[second]
            each = [tally.script_seconds[second, n] for n in scripts]
            file.write(",".join(map(str, [second, tally.seconds[second] - other, other, *each])) + "\n")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "logs": {"type": "list", "elements": "path", "required": True},
            "lag": {"type": "bool", "default": False},
            "retries": {"type": "bool", "default": False},
            "scripts": {"type": "int"},
            "sampling_rate": {"type": "float", "default": 1.0},
            "out": {"type": "path"},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        files = log_files(params["logs"])
    except ValueError as error:
        module.fail_json(msg=str(error))
    tally = Tally(6 + params["lag"] + params["retries"])
    entries, found = count_all(files, tally)
    out = Path(params["out"]) if params["out"] and not module.check_mode else None
    overall, scripts = summarise(tally, entries, out)
    series = out and out.with_name(f"{out.name}.seconds.csv")
    if series:
        write_series(series, tally)
    if params["scripts"] and tally.scripts()[-1:] > [params["scripts"] - 1]:
        found.append(f"the log has a script number {tally.scripts()[-1]}, but the run has {params['scripts']} scripts")
    failures = {word: tally.count(word) for word in FAILURES}
    result = {
        "n": overall["n"],
        "lines": tally.lines,
        "failed": sum(failures.values()),
        "failures": failures,
        "skipped": tally.count(SKIPPED),
        "sampling": params["sampling_rate"],
        "overall": overall,
        "scripts": scripts,
        "out": out and str(out),
        "series": series and str(series),
        "problems": found,
    }
    module.exit_json(changed=bool(params["out"]), digest=result)


if __name__ == "__main__":
    main()
