# GNU General Public License v3.0 or later (see LICENSE)
from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils.progress_line import (
    Progress,
    about,
    clock,
    experiment_of,
    figure,
    parse_events,
)


def event(at: float, **more: Any) -> dict[str, Any]:
    return {"at": at, "stage": "measure", "trial": "01-base-r1", "k": 1, "n": 4, "step": "run", **more}


def fed(*events: dict[str, Any], estimate_s: float | None = None) -> Progress:
    progress = Progress(estimate_s)
    for one in events:
        progress.feed(one)
    return progress


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (-3, "0:00"), (42.9, "0:42"), (725, "12:05"), (3723, "1:02:03"), (360000, "100:00:00")]
)
def test_clock(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "about 10 s"), (44, "about 40 s"), (89, "about 90 s"), (90, "about 2 min"), (200, "about 3 min"), (3500, "about 58 min"),
     (3599, "about 1 h"), (7800, "about 2 h 10 min"), (86400, "about 24 h")],
)  # fmt: skip
def test_a_guess_is_worded_as_one(seconds, text):
    assert about(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(0.314, "0.31"), (12.44, "12.4"), (812.46, "812"), (18134.2, "18134"), (0, "0.00")])
def test_figure(value, text):
    assert figure(value) == text


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ({"pgsizing_experiment": {"id": "a", "dir": "/r/a"}}, {"id": "a", "dir": "/r/a"}),
        ({"ansible_facts": {"pgsizing_experiment": {"id": "a", "dir": "/r/a", "more": 1}}}, {"id": "a", "dir": "/r/a"}),
        ({}, None),
        ({"ansible_facts": None}, None),
        ({"pgsizing_experiment": {"id": "a"}}, None),
        ({"pgsizing_experiment": "a"}, None),
    ],
)
def test_experiment_of_a_result(result, found):
    assert experiment_of(result) == found


def test_events_are_read_line_by_line_and_half_a_line_waits():
    whole = json.dumps({"at": 1.5, "stage": "é"}, ensure_ascii=False).encode() + b"\n"
    for cut in range(len(whole)):
        events, rest = parse_events(whole + whole[:cut])
        assert [e["stage"] for e in events] == ["é"]
        assert rest == whole[:cut]


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[1]", b'{"stage": "no time"}', b'{"at": "soon"}', b'{"at": true}', b"\xff\xfe"])
def test_a_line_that_is_no_event_is_passed_over(line):
    assert parse_events(line + b"\n") == ([], b"")


def test_the_whole_line():
    progress = fed(event(100, elapsed_s=42, planned_s=60, rate=812.4, unit="tps", latency_ms=12.31), estimate_s=400)
    assert progress.text(101) == "measure · trial 1/4 · 01-base-r1 · run 0:43/1:00 · 812 tps · 12.3 ms · about 7 min left"


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (78, "measure · trial 1/4 · run 0:43/1:00 · 812 tps · 12.3 ms · about 7 min left"),
        (70, "trial 1/4 · run 0:43/1:00 · 812 tps · 12.3 ms · about 7 min left"),
        (60, "trial 1/4 · run 0:43/1:00 · 812 tps · about 7 min left"),
        (20, "trial 1/4 · run 0:43"),
    ],
)
def test_a_narrow_terminal_sees_what_matters(width, text):
    progress = fed(event(100, elapsed_s=42, planned_s=60, rate=812.4, unit="tps", latency_ms=12.31, message="x"), estimate_s=400)
    assert progress.text(101, width) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"trial": None, "stage": "prepare", "step": "install", "message": "postgresql-15"}, "prepare · install 0:02 · postgresql-15"),
        ({"step": None, "message": "x\x1b[31m\nred"}, "measure · trial 1/4 · 01-base-r1 · x [31m red"),
        ({"planned_s": 60, "elapsed_s": None, "step": None}, "measure · trial 1/4 · 01-base-r1 · 0:02/1:00"),
        ({"rate": "many", "latency_ms": None}, "measure · trial 1/4 · 01-base-r1 · run 0:02"),
    ],
)  # fmt: skip
def test_what_is_missing_is_left_out(fields, text):
    assert fed(event(100) | fields).text(102) == text


def test_nothing_before_the_first_event():
    assert fed().text(100) == ""
    assert fed(estimate_s=60).left_s(100) is None


def test_an_old_rate_is_not_the_current_one():
    progress = fed(event(100, rate=812.4, unit="tps", latency_ms=12.31))
    assert "812" in progress.text(104)
    assert "812" not in progress.text(106)
    assert " ms" not in progress.text(106)


def second(at: float, **more: Any) -> dict[str, Any]:
    return event(at, trial="02-big-r1", k=2) | more


def without_place(at: float, **more: Any) -> dict[str, Any]:
    return event(at, k=None, n=None) | more


@pytest.mark.parametrize(
    ("events", "estimate_s", "now", "left_s"),
    [
        ([event(0)], None, 5, None),  # nothing to guess from
        ([event(0)], 400, 5, 395),  # the plan's estimate minus the time spent
        ([without_place(0, trial=None)], 400, 30, 370),  # also before the trials
        ([event(0), second(50)], 400, 60, 140),  # from the first trial done on, its pace: three of 50 s, 10 s of them spent
        ([event(0), second(50), without_place(60, trial="02-big-r1")], 400, 60, 140),  # an event need not repeat k and n
        ([event(0), second(50), without_place(60, trial=None)], 400, 60, 140),  # nor name the trial
        ([event(0), second(50), event(130, trial="03", k=3)], 400, 130, 130),  # (50 + 80) / 2 a trial, two to do
        ([event(0, k=3)], 400, 0, 200),  # a resumed run has half the trials to do
        ([event(0, trial="x", k=1), second(70, k=3)], 400, 80, 130),  # and need not run all between
        ([event(0, planned_s=90, elapsed_s=10)], 60, 5, 75),  # never less than the present step still takes
        ([event(0)], 60, 100, -40),  # later than guessed
        ([event(0, k=4), without_place(60, trial=None, stage="report")], 400, 61, None),  # the trials are over
    ],
)
def test_time_left(events, estimate_s, now, left_s):
    assert fed(*events, estimate_s=estimate_s).left_s(now) == (left_s if left_s is None else pytest.approx(left_s))


def test_place_and_percent():
    progress = fed(event(0), without_place(10, elapsed_s=3, percent=42.4, rate=7, unit="1/s"))
    assert progress.text(10) == "measure · trial 1/4 · 01-base-r1 · run 0:03 · 42 % · 7.00 1/s"


def test_later_than_guessed_is_said_so():
    assert fed(event(0), estimate_s=60).text(100).endswith("longer than estimated")
