# GNU General Public License v3.0 or later (see LICENSE)
"""What every benchmark here uses: ratios with their interval, and programs that are run to their end."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests")]

from ansible_collections.pgsizing.bench.plugins.module_utils import stats
from ansible_collections.pgsizing.bench.plugins.module_utils.detached import WANTED, clean_environment, unblock_signals

PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
#: What a child may take to end after it was asked to.
PATIENCE_S = 60.0


class SideFailed(Exception):
    """One side of a comparison did not run, so there is no figure."""


class NotHere(Exception):
    """What a comparison is made with is not on this machine, and need not be."""


# Figures


class Target(NamedTuple):
    """Where a figure should be: the interval reaches ``at_least``, or all of it lies at or below ``at_most``; with both, between them."""

    at_least: float | None = None
    at_most: float | None = None

    def reached(self, low: float, high: float) -> bool:
        if self.at_least is not None and self.at_most is not None:
            return low >= self.at_least and high <= self.at_most
        return high >= self.at_least if self.at_least is not None else high <= (math.inf if self.at_most is None else self.at_most)

    def __str__(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f"CI in {self.at_least:g} to {self.at_most:g}"
        return f"CI reaches {self.at_least:g}" if self.at_least is not None else f"CI <= {self.at_most:g}"


@dataclass
class Figure:
    """One ratio with both its sides, as it is printed and written."""

    what: str
    unit: str
    values: list[float]
    base: list[float]
    n: int
    ratio: float
    ci_low: float | None
    ci_high: float | None
    ci_method: str
    target: str | None
    reached: bool | None


def figure(what: str, unit: str, values: Sequence[float], base: Sequence[float], target: Target | None = None) -> Figure:
    """Return the geometric mean of the pairwise ratios ``values`` / ``base`` with its 95 % interval (none for a single pair).

    ``SideFailed`` when a side has no value, a value of zero or below, or not as many as the other.
    """
    if not values or len(values) != len(base) or min(*values, *base) <= 0:
        raise SideFailed(f"{what}: a side has no figure ({len(values)} and {len(base)} values)")
    found = stats.summary([value / other for value, other in zip(values, base, strict=True)])
    ratio, low, high = found["location"], found["ci_low"], found["ci_high"]
    reached = target.reached(ratio if low is None else low, ratio if high is None else high) if target else None
    return Figure(
        what=what,
        unit=unit,
        values=[*values],
        base=[*base],
        n=found["n"],
        ratio=ratio,
        ci_low=low,
        ci_high=high,
        ci_method=found["ci_method"],
        target=str(target) if target else None,
        reached=reached,
    )


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as an aligned table; the last column shows the medians of both sides."""
    rows = [("what", "ratio", "95 % CI", "n", "target", "reached", "medians of the sides")]
    for f in figures:
        interval = "none" if f.ci_low is None or f.ci_high is None else f"{f.ci_low:.3f} to {f.ci_high:.3f}"
        reached = "-" if f.reached is None else "yes" if f.reached else "no"
        sides = f"{median(f.values):.4g} / {median(f.base):.4g} {f.unit}"
        rows.append((f.what, f"{f.ratio:.3f}", interval, str(f.n), f.target or "-", reached, sides))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


# Processes


class Cost(NamedTuple):
    """What a child took, with its own children as far as it waited for them; the peak is that of the largest of them."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def in_own_session() -> None:
    """Prepare a child before its exec: as in a terminal of its own, where only we interrupt it.

    The scheduler may share CPU out by session; the toolkit's job has one of its own, so has every command on the other side.
    """
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in what a script starts in the background
    unblock_signals()


def run(argv: Sequence[str], output: Path, **options: Any) -> Cost:
    """Run a command to its end, standard output in ``output``; ``SideFailed`` with what it said when its status is not 0."""
    errors = output.with_name(output.name + ".err")
    with open(output, "wb") as out, open(errors, "wb") as err:
        begin = time.monotonic()
        process = None
        # Interrupts wait until there is a child to end.
        signal.pthread_sigmask(signal.SIG_BLOCK, WANTED)
        try:
            try:
                process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=in_own_session, **options)
            finally:
                unblock_signals()
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            if process:
                process.send_signal(signal.SIGINT)  # ansible-playbook ends its workers on this one only
                try:
                    process.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            raise
        wall = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        said = "\n".join(path.read_text("utf-8", "replace")[-2000:].strip() for path in (output, errors))
        raise SideFailed(f"{Path(argv[0]).name} ended with status {process.returncode}:\n{said.strip()}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def play(arguments: Sequence[str], output: Path) -> Cost:
    """Run ``ansible-playbook`` as a user of the checkout does: in its root, with its ``ansible.cfg``."""
    kept = {name: value for name, value in clean_environment({}).items() if not name.startswith(("ANSIBLE_", "PGSIZING_"))}
    return run([PLAYBOOK, *arguments], output, cwd=ROOT, env={**kept, "ANSIBLE_NOCOLOR": "1"})


def say(text: str) -> None:
    """Tell on standard error how far it is."""
    print(text, file=sys.stderr, flush=True)
