# GNU General Public License v3.0 or later (see LICENSE)
"""From progress events to one line of text: stage, trial k of n, elapsed of planned, rate, latency, about how long yet.

An event is one JSON object of ``progress.jsonl``: ``{at, stage, trial, k, n, step, elapsed_s, planned_s, percent,
rate, unit, latency_ms, message}``; every key but ``at`` may be missing or null. Times are epoch seconds, durations seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

#: A rate older than this many seconds is not the current rate any more and is left out.
FRESH_S = 5.0

#: Actions that may name the experiment: a fact that a remote host returns must not choose where the controller writes.
NAMED_BY = ("pgsizing.bench.plan", "ansible.builtin.set_fact")

#: Parts that a narrow terminal goes without, in this order.
LEAVE_OUT = ("message", "id", "stage", "latency")

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def experiment_of(result: Mapping[str, Any]) -> dict[str, str] | None:
    """Return ``{id, dir}`` of the experiment that a task result (or its facts) names under ``pgsizing_experiment``, else ``None``.

    Believe it only from an action in ``NAMED_BY``.
    """
    for place in (result, result.get("ansible_facts")):
        found = place.get("pgsizing_experiment") if isinstance(place, Mapping) else None
        if isinstance(found, Mapping) and found.get("id") and found.get("dir"):
            return {"id": str(found["id"]), "dir": str(found["dir"])}
    return None


def parse_events(data: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """Return the events of ``data`` and what follows its last line end: the start of a line not yet complete.

    A line that is no event (no JSON object, no ``at``) is passed over: the line is a view, the artifact is the truth.
    """
    *lines, rest = data.split(b"\n")
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and _number(event.get("at")) is not None:
            events.append(event)
    return events, rest


def clock(seconds: float) -> str:
    """Return a duration as ``0:42``, ``12:05`` or ``1:02:03``."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def about(seconds: float) -> str:
    """Return a guessed duration in the roundness it deserves: ``about 40 s``, ``about 3 min``, ``about 2 h 10 min``."""
    if seconds < 90:
        return f"about {max(10, round(seconds, -1)):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"about {minutes} min"
    hours, minutes = divmod(round(minutes / 10) * 10, 60)
    return f"about {hours} h {minutes} min" if minutes else f"about {hours} h"


def figure(value: float) -> str:
    """Return a figure with the digits a reader can use: ``0.31``, ``12.4``, ``1813``."""
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


class Progress:
    """What has been seen of one experiment. ``estimate_s`` is the plan's estimate for all of it, ``None`` when unknown.

    The time left is the estimate minus the time spent until one trial is done; from then on, the pace of the trials
    done in this run. It is worded as a guess because it is one.
    """

    def __init__(self, estimate_s: float | None = None) -> None:
        self.estimate_s = estimate_s
        self.event: dict[str, Any] | None = None
        self._began: float | None = None  # the first event of this run
        self._starts: dict[str, float] = {}  # trials of this run in their order: a resumed run begins in the middle
        self._place: dict[str, tuple[float, float]] = {}  # k and n of a trial, once an event has said so

    def feed(self, event: dict[str, Any]) -> None:
        """Take the next event in. A trial's k and n stand until another trial begins: not every event repeats them."""
        at, trial = float(event["at"]), event.get("trial")
        self._began = at if self._began is None else self._began
        if trial:
            self._starts.setdefault(str(trial), at)
            k, n = _number(event.get("k")), _number(event.get("n"))
            if k is not None and n:
                self._place[str(trial)] = (k, n)
        self.event = event

    def left_s(self, now: float) -> float | None:
        """Return the guessed seconds to the end of the last trial; negative when later than guessed, ``None`` when unknown."""
        if self.event is None or self._began is None:
            return None
        starts = list(self._starts.values())
        k, n = self._place.get(next(reversed(self._starts), ""), (None, None))
        if starts and not self.event.get("trial") and k == n:
            return None  # the trials are over
        if len(starts) > 1 and k and n:
            pace = (starts[-1] - starts[0]) / (len(starts) - 1)
            left = pace * (n - k + 1) - (now - starts[-1])
        elif self.estimate_s:
            share = (n - k + 1) / n if k and n else 1.0
            left = self.estimate_s * share - (now - self._began)
        else:
            return None
        planned = _number(self.event.get("planned_s"))
        return left if planned is None else max(left, planned - self._elapsed(now))

    def _elapsed(self, now: float) -> float:
        """Seconds in the present step: the event's own figure, gone on since it was written."""
        event = self.event or {}
        return (_number(event.get("elapsed_s")) or 0.0) + max(0.0, now - float(event["at"]))

    def text(self, now: float, width: int | None = None) -> str:
        """Return the line, without line end or control characters; empty before the first event.

        What does not fit into ``width`` characters is left out part by part, the least useful first.
        """
        if self.event is None:
            return ""
        parts = {name: _UNPRINTABLE.sub(" ", str(part)) for name, part in self._parts(self.event, now).items() if part}
        for name in ("", *LEAVE_OUT):
            parts.pop(name, None)
            text = " · ".join(parts.values())
            if width is None or len(text) <= width:
                return text
        return text[:width]

    def _parts(self, event: dict[str, Any], now: float) -> dict[str, Any]:
        """Return the parts of the line in their order; empty ones are not shown."""
        parts: dict[str, Any] = {"stage": event.get("stage")}
        trial = event.get("trial")
        if trial in self._place:
            parts["trial"] = "trial {:.0f}/{:.0f}".format(*self._place[trial])
        parts["id"] = trial
        step, planned = event.get("step") or "", _number(event.get("planned_s"))
        if planned:
            parts["step"] = f"{step} {clock(self._elapsed(now))}/{clock(planned)}".lstrip()
        elif step:
            parts["step"] = f"{step} {clock(self._elapsed(now))}"
        percent = _number(event.get("percent"))
        parts["percent"] = percent is not None and f"{percent:.0f} %"
        rate, latency = _number(event.get("rate")), _number(event.get("latency_ms"))
        if now - float(event["at"]) <= FRESH_S:
            parts["rate"] = rate is not None and f"{figure(rate)} {event.get('unit') or ''}".rstrip()
            parts["latency"] = latency is not None and f"{figure(latency)} ms"
        parts["message"] = event.get("message")
        left = self.left_s(now)
        if left is not None:
            parts["left"] = f"{about(left)} left" if left > 0 else "longer than estimated"
        return parts


def _number(value: Any) -> float | None:
    """Return ``value`` as a float when it is a number, else ``None``."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
