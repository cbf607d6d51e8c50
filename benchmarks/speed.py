#!/usr/bin/env python3
# GNU General Public License v3.0 or later (see LICENSE)
"""Our own speed as ratios: both sides in one run, interleaved, with a confidence interval. See ``benchmarks/README.md``.

Everything runs in a temporary directory, on servers and ports of its own, and is stopped and removed at the end. Figures are printed,
never enforced: the exit status is 1 only when a side did not run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import hammerdb
import toolkit
import tprocc
from ratios import Figure, NotHere, say, table

BENCHMARKS: dict[str, Callable[[Path, bool], list[Figure]]] = {
    "tps": toolkit.tps,
    "percentiles": toolkit.percentiles,
    "plan": toolkit.plan,
    "harness": toolkit.harness,
    "ssh": toolkit.ssh,
    "build": tprocc.build,
    "flat": tprocc.flat,
    "latency": tprocc.latency,
    "calibration": hammerdb.calibration,
}


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
    failed: list[str] = []
    left_out: list[str] = []
    # The test cluster opens the folders above it up to /tmp, and socket paths are short there.
    work = Path(tempfile.mkdtemp(prefix="pgsizing-speed-", dir="/tmp"))
    work.chmod(0o755)  # servers run as users of their own
    try:
        for name in options.only or BENCHMARKS:
            (work / name).mkdir()
            try:
                figures += BENCHMARKS[name](work / name, options.quick)
            except NotHere as reason:
                left_out.append(f"{name}: left out, {reason}")
            except Exception as error:  # whatever it is, the figures of the others are not lost
                failed.append(name)
                say(f"{name} did not run: {type(error).__name__}: {error}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if options.quick:
        for each in figures:
            each.reached = None
    facts = {"cores": os.cpu_count(), "load_average": load, "elapsed_s": time.monotonic() - begin, "quick": options.quick, "failed": failed}
    print("{cores} cores, load average {load_average:.1f} before, {elapsed_s:.0f} s, quick: {quick}".format_map(facts))
    print(table(figures))
    for line in (*left_out, *(f"{name}: did not run" for name in failed)):
        print(line)
    if options.json:
        options.json.write_text(json.dumps({**facts, "figures": [*map(asdict, figures)]}, indent=1, allow_nan=False) + "\n", "utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
