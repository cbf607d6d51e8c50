# GNU General Public License v3.0 or later (see LICENSE)
"""Exact percentiles of per-transaction logs of pgbench, in bounded memory.

A log line is ``client transaction time_us script epoch_s epoch_us [lag_us] [retries]``; ``time_us`` is a word for a transaction
that was not processed (pgbench 9.6 to 18, options -l without --aggregate-interval).

The fast way looks at blocks of whole lines: split into fields, and columns taken as slices. Transactions are counted in a
histogram with a cell for each microsecond, so nothing is rounded; its pages are made as they are needed. A block whose
columns do not line up is read line by line.
"""

from __future__ import annotations

import heapq
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import compress, groupby
from typing import Any

#: What stands for the time of a transaction that failed, and of one that was never started.
FAILURES = ("failed", "serialization", "deadlock", "other")
SKIPPED = "skipped"

#: Percentiles by their names in a measurement, as fractions.
PERCENTILES = {"p50": (50, 100), "p90": (90, 100), "p95": (95, 100), "p99": (99, 100), "p99_9": (999, 1000)}

_WORDS = {word.encode() for word in (*FAILURES, SKIPPED)}

_LINE = re.compile(rb"\d+ \d+ (\d{1,18}|failed|serialization|deadlock|other|skipped) (\d{1,3}) (\d{10}) \d{1,6}((?: -?\d+)*)")

#: Cells of a page of a histogram, as a power of two, and the latency from which on single counts take less room than pages (µs).
_PAGE, _FAR = 10, 1 << 23

#: (latency in µs, script, transactions); a run is a sorted sequence of them.
Entry = tuple[int, int, int]


class Histogram:
    """How many transactions of one script took how many microseconds."""

    def __init__(self) -> None:
        self.n = 0
        self.pages: defaultdict[int, array[int]] = defaultdict(lambda: array("I", bytes(4 << _PAGE)))
        self.far: Counter[int] = Counter()

    def add(self, times: list[int]) -> None:
        """Count these latencies."""
        self.n += len(times)
        if max(times, default=0) >= _FAR:
            self.far.update(time for time in times if time >= _FAR)
            times = [time for time in times if time < _FAR]
        pages, mask = self.pages, (1 << _PAGE) - 1
        for time in times:
            pages[time >> _PAGE][time & mask] += 1

    def entries(self, script: int) -> Iterator[Entry]:
        """Give what was counted, in order."""
        for number in sorted(self.pages):
            for cell, count in enumerate(self.pages[number], number << _PAGE):
                if count:
                    yield cell, script, count
        for time in sorted(self.far):
            yield time, script, self.far[time]

    def bytes(self) -> int:
        """Return about how much memory it takes."""
        return len(self.pages) * (4 << _PAGE) + len(self.far) * 128

    def forget(self) -> None:
        """Give the memory back; ``n`` stays."""
        self.pages.clear()
        self.far.clear()


def count_seconds(seconds: list[bytes]) -> Counter[bytes]:
    """Count equal seconds. Lines come in the order of their time, so that a block mostly holds one second or two."""
    counts: Counter[bytes] = Counter()
    if seconds and seconds[0].isdigit():
        first = int(seconds[0])
        for second in (b"%d" % first, b"%d" % (first + 1)):
            counts[second] = seconds.count(second)
            if sum(counts.values()) == len(seconds):
                return counts
    return Counter(seconds)


class Tally:
    """Counts of the log lines read so far: a histogram for each script, words by (word, script), and lines by second."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.lines = 0
        self.unreadable = 0
        self.other_columns: Counter[int] = Counter()
        self.words: Counter[tuple[str, int]] = Counter()
        self.seconds: Counter[int] = Counter()
        self.unprocessed_seconds: Counter[int] = Counter()
        self.script_seconds: Counter[tuple[int, int]] = Counter()  # (second, script), processed only
        self.histograms: defaultdict[int, Histogram] = defaultdict(Histogram)

    def add(self, block: bytes) -> None:
        """Count the lines of a block, which ends at the end of a line."""
        lines, columns = block.count(b"\n"), self.columns
        fields = block.split()
        if len(fields) != lines * columns:
            return self._add_lines(block)
        # A line with a field too few and one with a field too many would even out in the number of fields, but everything between
        # them would stand in the wrong column: the column of epoch seconds tells.
        times, scripts, seconds = fields[2::columns], fields[3::columns], fields[4::columns]
        by_second, distinct = count_seconds(seconds), set(scripts)
        aligned = all(len(second) == 10 and second.isdigit() for second in by_second)
        if not aligned or not all(len(script) <= 3 and script.isdigit() for script in distinct):
            return self._add_lines(block)
        words: list[tuple[bytes, bytes, bytes]] = []
        if b"e" in block:  # as in each of the words
            processed = [time.isdigit() for time in times]
            words = list(compress(zip(times, scripts, seconds), [not done for done in processed]))
            times, scripts, seconds = (list(compress(column, processed)) for column in (times, scripts, seconds))
        try:
            latencies = list(map(int, times))
        except ValueError:
            return self._add_lines(block)
        if b"-" in block or not _WORDS.issuperset(word for word, _, _ in words):
            return self._add_lines(block)
        self.lines += lines
        for second, count in by_second.items():
            self.seconds[int(second)] += count
        for word, script, second in words:
            self.words[word.decode(), int(script)] += 1
            self.unprocessed_seconds[int(second)] += 1
        for (second, script), count in Counter(zip(seconds, scripts)).items():
            self.script_seconds[int(second), int(script)] += count
        for script in set(scripts):
            mine = latencies
            if len(distinct) > 1:
                mine = [latency for latency, of in zip(latencies, scripts) if of == script]
            self.histograms[int(script)].add(mine)
        return None

    def _add_lines(self, block: bytes) -> None:
        times: defaultdict[int, list[int]] = defaultdict(list)
        for line in block.splitlines():
            self.lines += 1
            found = _LINE.fullmatch(line)
            columns = 6 + found.group(4).count(b" ") if found else 0
            if not found or columns > 8:
                self.unreadable += 1
                continue
            if columns != self.columns:
                self.other_columns[columns] += 1
            time, script, second = found.group(1), int(found.group(2)), int(found.group(3))
            self.seconds[second] += 1
            if time.isdigit():
                times[script].append(int(time))
                self.script_seconds[second, script] += 1
            else:
                self.words[time.decode(), script] += 1
                self.unprocessed_seconds[second] += 1
        for script, latencies in times.items():
            self.histograms[script].add(latencies)

    def entries(self) -> Iterator[Entry]:
        """Give all latencies counted since the last ``forget``, in order."""
        return heapq.merge(*(histogram.entries(script) for script, histogram in self.histograms.items()))

    def bytes(self) -> int:
        """Return about how much memory the histograms take."""
        return sum(histogram.bytes() for histogram in self.histograms.values())

    def forget(self) -> None:
        """Give the memory of the histograms back; all other counts stay."""
        for histogram in self.histograms.values():
            histogram.forget()

    def counts(self) -> dict[int, int]:
        """Return the transactions with a latency of each script."""
        return {script: histogram.n for script, histogram in self.histograms.items()}

    def count(self, word: str, script: int | None = None) -> int:
        """Return the transactions that a word stands for, of one script or of all."""
        return sum(count for (found, of), count in self.words.items() if found == word and script in (None, of))

    def scripts(self) -> list[int]:
        """Return the numbers of the scripts in the log."""
        return sorted({*self.histograms, *(script for _, script in self.words)})


def merge(runs: Iterable[Iterable[Entry]]) -> Iterator[Entry]:
    """Merge sorted runs into one, adding up equal latencies of a script."""
    for (latency, script), same in groupby(heapq.merge(*runs), key=lambda entry: entry[:2]):
        yield latency, script, sum(entry[2] for entry in same)


def rank(n: int, fraction: tuple[int, int]) -> int:
    """Return the nearest rank, from 1 on, among ``n`` sorted values: the first with at least that share at or below it."""
    numerator, denominator = fraction
    return max(1, -(-n * numerator // denominator))


class Summary:
    """Exact figures of a sorted stream of latencies whose total count ``n`` is known beforehand."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._seen = self._sum = self._squares = 0
        self._first: int | None = None
        self._last = 0
        self._waiting = sorted((rank(n, fraction), name) for name, fraction in PERCENTILES.items())
        self._found: dict[str, int] = {}

    def add(self, latency: int, count: int) -> None:
        """Take ``count`` transactions of ``latency`` µs, not less than the one before."""
        self._seen += count
        self._sum += latency * count
        self._squares += latency * latency * count
        self._last = latency
        if self._first is None:
            self._first = latency
        while self._waiting and self._waiting[0][0] <= self._seen:
            self._found[self._waiting.pop(0)[1]] = latency

    def result(self) -> dict[str, Any]:
        """Return ``{n, min, p50, p90, p95, p99, p99_9, max, average, stddev}`` in ms; ``None`` for all but n without transactions."""
        n = self.n
        if self._seen != n:
            raise ValueError(f"{self._seen} transactions were given instead of {n}")
        if self._first is None:
            return {"n": 0, **dict.fromkeys(("min", *PERCENTILES, "max", "average", "stddev"))}
        return {
            "n": n,
            "min": self._first / 1000,
            **{name: self._found[name] / 1000 for name in PERCENTILES},
            "max": self._last / 1000,
            "average": self._sum / n / 1000,
            "stddev": math.sqrt(n * self._squares - self._sum * self._sum) / n / 1000,  # of the population, as pgbench has it
        }


def problems(tally: Tally) -> list[str]:
    """Return what is odd about the lines, in words."""
    found = [
        f"{count} lines have {columns} columns instead of {tally.columns}: the options given do not fit the log"
        for columns, count in sorted(tally.other_columns.items())
    ]
    if tally.unreadable:
        found.append(f"{tally.unreadable} lines are no lines of a per-transaction log and were left out")
    return found
