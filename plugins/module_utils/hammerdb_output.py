# GNU General Public License v3.0 or later (see LICENSE)
"""What HammerDB's command line prints for TPROC-C on PostgreSQL, from 3.x to 6.x, as data.

Lines are known by their words, never by their place or by the version in the banner. A figure that is not printed is
``None``. Our own scripts put the clock (``@<epoch seconds> ``) before each line; without it the times are ``None``.

Sources: the tags v4.5, v4.12, v5.0 and v6.0 of HammerDB, and captures of 4.12 and 6.0 (tests/fixtures/hammerdb).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.pgbench_output import clean, decimal, number, unfolded

#: Transaction types by their name in the time profile and in the database.
TRANSACTIONS = ("neword", "payment", "delivery", "slev", "ostat")

#: From this version on the standard deviation of the time profile is in milliseconds, before it is in clock clicks (us).
SD_IN_MS = (6, 0)

#: At most this many error texts are kept; the count beside them is of all.
KEEP_ERRORS = 50

# versions and times ----------------------------------------------------------------------------------------------------


def parse_version(text: str) -> str | None:
    """Return ``4.12`` from the banner ``HammerDB CLI v4.12`` or from ``v4.12``; ``None`` when there is no version."""
    found = re.search(r"(?:HammerDB CLI |^\s*)v?(\d+(?:\.\d+)+)", text, re.MULTILINE)
    return found[1] if found else None


def version_tuple(version: str | None) -> tuple[int, ...]:
    """Return ``(4, 12)`` for ``4.12``: 4.12 is newer than 4.9. Empty for an unknown version."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", str(version or ""))
    return tuple(int(part) for part in found[1].split(".")) if found else ()


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = re.compile(
    r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) +(?P<day>\d+) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d) (?P<zone>\S+) (?P<year>\d{4})"
)


def parse_clock(text: str) -> float | None:
    """Return the epoch of ``Mon Nov 30 09:34:20 UTC 2026``. ``None`` for a zone that is not UTC: its name does not say its offset."""
    found = _CLOCK.search(text)
    if not found or found["zone"] not in ("UTC", "GMT") or found["month"] not in _MONTHS:
        return None
    return _epoch(found["year"], _MONTHS.index(found["month"]) + 1, *(found[k] for k in ("day", "h", "m", "s")))


def _epoch(*parts: str | int) -> float | None:
    """Return the epoch of year, month, day, hour, minute and second in UTC; ``None`` where the calendar has no such time."""
    year, month, day, hour, minute, second = map(int, parts)
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


# bounds of a run -------------------------------------------------------------------------------------------------------

#: A header at the start of a line, or behind what a runner puts before each line; never a quotation of one.
_HEADER = re.compile(r"""^(?:@[\d.]+ )?(?:(?:[^\n"']*[ \t\]>|:])?(?:(?i:Hammerdb Log @ )|HammerDB CLI v)[^\n]*|== [^\n]*)$""", re.MULTILINE)


def runs(text: str) -> list[dict[str, Any]]:
    """Cut a text that several runs wrote at their own headers: ``[{header, at, text}]``.

    A header is HammerDB's log header, the banner of its command line, or a line ``== …`` that a loop of runs printed. What stands
    before the first header belongs to no run and is the one with ``header: None``, when it is not blank.
    """
    text = _without_prefix(unfolded(text))
    marks = [*_HEADER.finditer(text)]
    edges = [m.start() for m in marks] + [len(text)]
    parts: list[dict[str, Any]] = []
    if text[: edges[0]].strip():
        parts.append({"header": None, "at": None, "text": text[: edges[0]]})
    for mark, end in zip(marks, edges[1:]):
        header = mark.group().strip()
        parts.append({"header": header, "at": parse_clock(header), "text": text[mark.start() : end]})
    return parts


# the result line -------------------------------------------------------------------------------------------------------

_RESULT = re.compile(r"TEST RESULT\s*:\s*System achieved\s+(?P<figures>.+)")
#: All of a figure: its thousands may stand apart, and what follows other digits is but the end of one.
_FIGURE = r"(?<![^\s:])(?<!\d\s)(?P<figure>-?(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+|\d[\d.,'\u2019]*))\s+"
_NOPM = re.compile(_FIGURE + r"NOPM\b")
_TPM = re.compile(_FIGURE + r"(?!\d|NOPM\b)(?:(?P<database>\S(?:(?!NOPM\b).)*?)\s+)?TPM\b")
#: ``270.400`` is either of two numbers, a thousand times apart.
_EITHER = re.compile(r"-?\d{1,3}\.\d{3}")


def parse_result(line: str) -> dict[str, Any] | None:
    """Return ``{nopm, tpm, database}`` of a result line in either order; ``None`` when the line holds no result.

    The figures are told apart by the unit word beside each, since 3.x and ``first_result TPM`` print them the other way round.
    """
    found = _RESULT.search(line)
    if not found or '"' in line[: found.start()]:  # a quotation of it in the list of a job
        return None
    nopm, tpm = _NOPM.search(found["figures"]), _TPM.search(found["figures"])
    return {
        "nopm": _figure(nopm["figure"]) if nopm else None,
        "tpm": _figure(tpm["figure"]) if tpm else None,
        "database": tpm["database"] if tpm else None,
    }


def _figure(text: str) -> float | int | None:
    value = None if _EITHER.fullmatch(text) else number(text.lstrip("-"))
    return -value if value is not None and text.startswith("-") else value


# the console of one run ------------------------------------------------------------------------------------------------

_LINE = re.compile(r"^(?:@(?P<at>\d{9,}(?:\.\d+)?) )?(?P<text>.*)$")
_USER = re.compile(r"Vuser (?P<number>\d+):(?P<said>.*)$")
#: A line of the console as a runner lists it in JSON; in the list of a job the users are not named.
_QUOTED = re.compile(r"""\s*"((?:Vuser \d+:|Error in Virtual User \d+:).*?)",?\s*""")
_USER_ERROR = re.compile(r"Error in Virtual User (?P<number>\d+): ?(?P<said>.*)$")
_STATE = re.compile(r"(?P<number>\d+) = (?P<state>WAIT IDLE|RUNNING|FINISH SUCCESS|FINISH FAILED)$")
_COUNTER = re.compile(r"(?P<tpm>\d+) (?P<database>.+?) tpm(?: @ (?P<clock>.+))?$")
_FAILED_CALL = re.compile(r"(?P<what>New Order|Payment|Order Status|Delivery|Stock Level) Procedure Error set RAISEERROR")
_STATES = {"WAIT IDLE": "idle", "RUNNING": "running", "FINISH SUCCESS": "success", "FINISH FAILED": "failed"}
_CALLS = {"New Order": "neword", "Payment": "payment", "Order Status": "ostat", "Delivery": "delivery", "Stock Level": "slev"}
#: Lines that go on with the text of an error: libpq and the server write several.
_MORE = re.compile(
    r"\s|connection to server|could not|Is the server|FATAL:|ERROR:|DETAIL:|HINT:|CONTEXT:|PL/pgSQL|SQL statement|can't |couldn't "
)
#: What the driver without a timer prints for each transaction.
_TEST_DRIVER = ("new order", "payment", "delivery", "stock level", "order status")
_SECTION = re.compile(r"^(?:@[\d.]+ )?=== (?P<name>.*)$", re.MULTILINE)

_EVENTS = (
    ("ramp_up", re.compile(r"Beginning rampup time of (?P<minutes>[\d.]+) minutes")),
    ("window_start", re.compile(r"Rampup complete, Taking start (?:Transaction Count|DRITA snapshot)")),
    ("window", re.compile(r"Timing test period of (?P<minutes>[\d.]+) in minutes")),
    ("window_end", re.compile(r"Test complete, Taking end (?:Transaction Count|DRITA snapshot)")),
)


def sections(text: str) -> dict[str, str]:
    """Return the texts that stand under the lines ``=== <name>``, by name; what stands before the first one is named ``""``."""
    text = unfolded(text)
    marks = [*_SECTION.finditer(text)]
    edges = [m.start() for m in marks] + [len(text)]
    result = {"": text[: edges[0]]}
    for mark, end in zip(marks, edges[1:]):
        result[mark["name"].strip()] = text[mark.end() : end].lstrip("\r\n")
    return result


_PREFIX = re.compile(r'^(?P<prefix>[^\n"]*?)(?:@[\d.]+ )?(?:Vuser \d+:|Error in Virtual User \d+:|Timestamp \d+ @ )', re.MULTILINE)


def _without_prefix(text: str) -> str:
    """Take off what a runner put before each line, such as its host: most lines begin with what can have no other beginning."""
    shapes = Counter(re.sub(r"\d+", "0", found["prefix"]) for found in _PREFIX.finditer(text))
    shape, count = shapes.most_common(1)[0] if shapes else ("", 0)
    if not shape.strip() or 2 * count <= sum(shapes.values()):
        return text
    return re.sub("^" + re.escape(shape).replace("0", r"\d+"), "", text, flags=re.MULTILINE)


def parse_run(text: str) -> dict[str, Any]:
    """Parse the console output, or the log file, of one run. For a text of several runs see ``runs``.

    ``{version, server_version, job_id, results: [{nopm, tpm, database, vuser, at}], configured, users: {n: {state, running_at, errors}},
    errors: [{vuser, text}], error_count, refusals, failed_calls: {type: n}, begun, ramp_up_s, duration_s, events: {name: epoch},
    warehouses: {n: count}, samples: [{at, tpm}], complete, overran, vacuum, switched, test_driver,
    profile: {asked, written, problem, reported}}``. ``state`` is ``idle``, ``running``, ``success`` or ``failed``; user 1 is the monitor.
    ``begun`` counts ramp-ups, or headers of a kind (see ``runs``): with more than one the text is not of one run.
    """
    run = _new_run()
    main = _without_prefix(sections(text)[""])
    for at, line in _lines(main):
        _read_line(run, at, line)
    headers = [found.group().lower() for found in _HEADER.finditer(main)]
    run["begun"] = max(run["begun"], *(sum(kind in header for header in headers) for kind in ("hammerdb log @", "hammerdb cli v", "== ")))
    run["version"] = parse_version(main) if "HammerDB CLI" in main else None
    run["test_driver"] = not run["results"] and sum(run.pop("_test_lines").values()) >= 2 and run["duration_s"] is None
    return run


def _new_run() -> dict[str, Any]:
    return {
        "version": None,
        "server_version": None,
        "job_id": None,
        "results": [],
        "configured": None,
        "users": {},
        "errors": [],
        "error_count": 0,
        "refusals": [],
        "failed_calls": {},
        "begun": 0,
        "ramp_up_s": None,
        "duration_s": None,
        "events": {},
        "warehouses": {},
        "samples": [],
        "complete": False,
        "overran": False,
        "vacuum": None,
        "switched": None,
        "profile": {"asked": False, "written": None, "problem": None, "reported": None},
        "_test_lines": Counter(),
    }


def _lines(text: str) -> Iterator[tuple[float | None, str]]:
    """Yield ``(epoch or None, text)``, an error with all its lines as one.

    A line ``Timestamp n @ <clock>`` of the log file gives its time to the next one.
    """
    stamp: float | None = None
    error: tuple[float | None, str] | None = None
    for raw in text.splitlines():
        plain = clean(raw.replace("\r", ""))
        quoted = _QUOTED.fullmatch(plain)
        found = _LINE.match(quoted[1].replace('\\"', '"') if quoted else plain)
        assert found
        line = found["text"].strip()
        if error and line and not found["at"] and _MORE.match(found["text"]):
            error = (error[0], f"{error[1]} {line}")
            continue
        if error:
            yield error
            error = None
        if line.startswith("Timestamp "):
            stamp = parse_clock(line)
        elif line:
            one = (float(found["at"]) if found["at"] else stamp), line
            stamp = None
            if line.startswith(("Error", "While loading")):
                error = one
            else:
                yield one
    if error:
        yield error


def _read_line(run: dict[str, Any], at: float | None, line: str) -> None:
    result = parse_result(line)
    user = _USER.search(line)
    if user and '"' in line[: user.start()]:
        user = None
    vuser, said = (int(user["number"]), user["said"].strip()) if user else (None, line)
    if result:
        run["results"].append({**result, "vuser": vuser, "at": at})
    elif error := _USER_ERROR.search(line):
        _add_error(run, int(error["number"]), error["said"].strip())
    elif user and vuser is not None:
        _read_user(run, vuser, said, at)
    elif counter := _COUNTER.match(line):
        run["samples"].append({"at": parse_clock(counter["clock"] or "") or at, "tpm": int(counter["tpm"])})
    elif state := _STATE.match(line):
        _set_state(run, int(state["number"]), _STATES[state["state"]])
    elif found := re.search(r"jobid=(?P<id>[0-9A-F]{16,})", line):
        run["job_id"] = found["id"]
    elif line == "ALL VIRTUAL USERS COMPLETE":
        run["complete"] = True
    elif "Virtual Users remain running in background" in line:
        run["overran"] = True
    elif re.match(r"(?:Error: )?Virtual Users exist, destroy|Error: Cannot \w+ .*Virtual Users", line):
        run["refusals"].append(line)
    elif line.startswith(("Error:", "Failed to ", "While loading")):
        _add_error(run, None, re.sub(r"^Error: ?", "", line))
    else:
        _read_driver(run, line)


def _read_user(run: dict[str, Any], vuser: int, said: str, at: float | None) -> None:
    """Read what one virtual user said."""
    user = _user(run, vuser)
    if said == "RUNNING":
        _set_state(run, vuser, "running")
        user["running_at"] = user["running_at"] or at
    elif said in ("FINISHED SUCCESS", "FINISHED FAILED"):
        _set_state(run, vuser, said.rpartition(" ")[2].lower())
    elif said.startswith("DBVersion:"):
        run["server_version"] = None if said.endswith(":NULL") else said.partition(":")[2]
    elif found := re.match(r"(\d+) (?:Active )?Virtual Users configured", said):
        run["configured"] = int(found[1])
    elif found := re.match(r"Assigned (\d+) WIDs|(VU \d+) : Assigning WID", said):
        run["warehouses"][vuser] = int(found[1]) if found[1] else run["warehouses"].get(vuser, 0) + 1
    elif found := _FAILED_CALL.search(said):
        name = _CALLS[found["what"]]
        run["failed_calls"][name] = run["failed_calls"].get(name, 0) + 1
    elif said.startswith("Checkpoint and Vacuum"):
        run["vacuum"] = "complete" if said.endswith("Complete") else "started"
    elif found := re.search(r"Auto-switching pg_storedprocs to (true|false)", said):
        run["switched"] = {"storedprocs": found[1] == "true"}
    elif not _read_event(run, said, at) and not _read_profile(run, said):
        _read_driver(run, said)


def _read_event(run: dict[str, Any], said: str, at: float | None) -> bool:
    for name, pattern in _EVENTS:
        found = pattern.search(said)
        if found:
            run["begun"] += name == "ramp_up"
            if name != "window":
                run["events"][name] = at
            minutes = number(found.groupdict().get("minutes") or "")
            if minutes is not None:
                run["ramp_up_s" if name == "ramp_up" else "duration_s"] = round(60 * minutes, 3)
            return True
    return False


def _read_profile(run: dict[str, Any], said: str) -> bool:
    profile = run["profile"]
    if said.startswith("Initializing xtprof"):
        profile["asked"] = True
    elif found := re.match(r"Writing timing data to (\S+)", said):
        profile.update(asked=True, written=found[1])
    elif said.startswith(("ERROR:Timing", "WARNING:Timing")):
        profile.update(asked=True, problem=said.partition(":")[2].strip())
    elif found := re.match(r"(\d+) out of (\d+) Virtual Users reported", said):
        profile.update(asked=True, reported=[int(found[1]), int(found[2])])
    else:
        return False
    return True


def _read_driver(run: dict[str, Any], said: str) -> None:
    if said in _TEST_DRIVER:
        run["_test_lines"][said] += 1


def _user(run: dict[str, Any], vuser: int) -> dict[str, Any]:
    user: dict[str, Any] = run["users"].setdefault(vuser, {"state": None, "running_at": None, "errors": []})
    return user


def _set_state(run: dict[str, Any], vuser: int, state: str) -> None:
    """A user that failed once has failed, whatever a later iteration says."""
    user = _user(run, vuser)
    user["state"] = "failed" if user["state"] == "failed" else state


def _add_error(run: dict[str, Any], vuser: int | None, text: str) -> None:
    run["error_count"] += 1
    if len(run["errors"]) < KEEP_ERRORS:
        run["errors"].append({"vuser": vuser, "text": text})
    if vuser is not None:
        errors = _user(run, vuser)["errors"]
        if len(errors) < KEEP_ERRORS:
            errors.append(text)


def last_words(text: str) -> str:
    """Return what a run of which nothing was understood said last, to follow its message; of a trace of Tcl it is the error itself."""
    main = re.split(r"\n\s+while executing", sections(text)[""])[0]
    said = [line for _at, line in _lines(main) if not _STATE.match(line)]
    return f"; the last line was: {said[-1][:300]}" if said else ""


def last_counter(text: str) -> int | None:
    """Return the last figure of the transaction counter in new output, for the live line."""
    figures = [int(found["tpm"]) for _at, line in _lines(text) if (found := _COUNTER.match(line))]
    return figures[-1] if figures else None


# the data set's build --------------------------------------------------------------------------------------------------


def parse_build(text: str) -> dict[str, Any]:
    """Parse the console output of ``buildschema``.

    ``{version, users, errors, error_count, warehouses, workers, claimed, percent, reason}``. ``claimed`` says that HammerDB printed
    ``SCHEMA COMPLETE``: a claim, not a proof. ``reason`` is why the build cannot be complete, ``None`` when nothing speaks against it.
    """
    run = parse_run(text)
    main = sections(text)[""]
    building = re.search(r"Building (\d+) Warehouses?(?:\(s\))? with (\d+) Virtual User", main)
    percents = re.findall(r"^(?:@[\d.]+ )?progress (\d{1,3}(?:\.\d+)?)\s*$", main, re.MULTILINE)
    failed = [n for n, user in run["users"].items() if user["state"] == "failed"]
    claimed = re.search(r"\bSCHEMA COMPLETE\b", main) is not None
    said = [e["text"] for e in sorted(run["errors"], key=lambda e: e["vuser"] is None)]  # what a user says tells more than what follows
    reason = None
    if any(e["vuser"] is not None for e in run["errors"]):
        reason = said[0]
    elif failed:
        reason = f"virtual user {failed[0]} failed"
    elif "Monitor failed to notify ready state" in main:
        reason = "the monitor never became ready, so the workers gave up and called that success"
    elif said or run["refusals"]:
        reason = (said or run["refusals"])[0]
    elif not claimed:
        reason = f"the build did not say that the schema is complete{last_words(text)}"
    return {
        **{k: run[k] for k in ("version", "users", "errors", "error_count")},
        "warehouses": int(building[1]) if building else None,
        "workers": int(building[2]) if building else None,
        "claimed": claimed,
        "percent": float(percents[-1]) if percents else None,
        "reason": reason,
    }


def parse_check(text: str) -> dict[str, Any]:
    """Parse the console output of ``checkschema``: ``{passed, steps, reason}``. No exit status and no silence is a pass."""
    run = parse_run(text)
    main = sections(text)[""]
    steps = re.findall(r"Vuser 1:(Check .+)", main)
    failed = [n for n, user in run["users"].items() if user["state"] == "failed"]
    passed = "TPROC-C Schema has been checked successfully." in main and not run["errors"] and not failed
    reason = run["errors"][0]["text"] if run["errors"] else f"virtual user {failed[0]} failed" if failed else None
    return {"passed": passed, "steps": [s.strip() for s in steps], "reason": None if passed else reason or "it did not say that it passed"}


# the job store ---------------------------------------------------------------------------------------------------------


def parse_json(text: str) -> tuple[Any, str]:
    """Return the first JSON value in ``text`` and what stands after it; ``(None, text)`` when there is none."""
    for start in re.finditer(r"[\[{]", text):  # a line of a log may hold brackets too
        try:
            value, end = json.JSONDecoder().raw_decode(text, start.start())
        except ValueError as error:
            if getattr(error, "pos", len(text)) > start.start() + 2:
                break  # it began as JSON and was cut off: what is inside it is not the value
        else:
            return value, text[end:].strip()
    return None, text


def has_no_data(value: Any) -> bool:
    """Does this answer of ``jobs`` say that there is nothing? It is a sentence, in a list or broken into pairs of words."""
    words = json.dumps(value) if value is not None else ""
    return value is None or bool(re.search(r'Jobid has no|"Jobid": "has", "no"', words))


def parse_job_result(text: str) -> dict[str, Any] | None:
    """Return ``{job_id, nopm, tpm, database}`` of ``jobs <id> result``: a list whose length differs between 4.6 and 6.0.

    ``None`` without a result and with several: a job has one.
    """
    value, _rest = parse_json(text)
    if not isinstance(value, list) or has_no_data(value):
        return None
    results = [result for item in value if (result := parse_result(str(item)))]
    return {"job_id": str(value[0]), **results[0]} if len(results) == 1 else None


_TIMING = ("elapsed_ms", "min_ms", "avg_ms", "max_ms", "total_ms", "p99_ms", "p95_ms", "p75_ms", "p50_ms", "p25_ms", "ratio_pct")


def parse_timing(text: str, version: str | None = None) -> dict[str, Any] | None:
    """Parse the JSON of ``jobs <id> timing``: ``{procs: {neword: row, …}, trailing: bool}``; ``None`` when there is no data.

    A row holds numbers: ``calls`` and the keys of ``_TIMING`` with ``sd_ms``. Text after the JSON value is ignored, ``trailing`` says so.
    What is no transaction type has no row: an error in an object, or a total that would count every call again.
    """
    value, rest = parse_json(text)
    if not isinstance(value, dict) or has_no_data(value):
        return None
    rows = {str(name).lower(): row for name, row in value.items() if isinstance(row, Mapping)}
    procs = {name: _timing_row(row, version) for name, row in rows.items() if name in TRANSACTIONS}
    return {"procs": procs, "trailing": bool(rest)} if procs else None


def _timing_row(row: Mapping[str, Any], version: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {key: _json_number(row.get(key)) for key in _TIMING}
    calls = number(str(row.get("calls")))
    values["calls"] = int(calls) if calls is not None else None
    values["sd_ms"] = sd_ms(_json_number(row.get("sd")), values, version)
    return values


def _json_number(value: Any) -> float | int | None:
    """Return a figure that stands in JSON as text or as a number, with an exponent or not; never NaN or infinity."""
    text = str(value).strip()
    if re.fullmatch(r"\d+(?:\.\d*)?[eE][+-]?\d+", text):
        return float(text) if math.isfinite(float(text)) else None
    return decimal(text)


def sd_ms(sd: float | None, row: Mapping[str, Any], version: str | None = None) -> float | None:
    """Return the standard deviation in ms: the figure itself (6.0), or a thousandth of it (before: it is in microseconds).

    No sample of values between min and max with this average can deviate by more than ``sqrt((max - avg) (avg - min))``; a figure
    beyond that is no figure in ms. Without a version that decides; ``None`` when both units are impossible.
    """
    if sd is None:
        return None
    low, average, high = row.get("min_ms"), row.get("avg_ms"), row.get("max_ms")
    if low is None or average is None or high is None:
        return sd if version and version_tuple(version) >= SD_IN_MS else sd / 1000 if version else None
    limit = max(0.0, (high - average) * (average - low)) ** 0.5 * 1.01 + 0.001  # printed to 0.001 ms
    candidates = [sd, round(sd / 1000, 6)]
    if version and version_tuple(version) < SD_IN_MS:
        candidates = [round(sd / 1000, 6)]
    return next((value for value in candidates if value <= limit), None)


def parse_tcount(text: str) -> list[dict[str, Any]]:
    """Parse the transaction counter: the JSON of ``jobs <id> tcount`` or its log file. ``[{at, tpm}]`` in time order.

    Local times without a zone, as the JSON has them, are read as UTC; our runs have ``TZ=UTC``. The first sample is 0: it only
    starts the counting. Samples after the end of the test are in it too.
    """
    value, _rest = parse_json(text)
    if isinstance(value, dict) and not has_no_data(value):
        rows = next((v for k, v in value.items() if k.endswith(" tpm") and isinstance(v, Mapping)), {})
        found = [(_local_epoch(str(at)), number(str(tpm))) for at, tpm in rows.items()]
        return [{"at": at, "tpm": int(tpm)} for at, tpm in sorted((at, tpm) for at, tpm in found if at is not None and tpm is not None)]
    return [row for row in parse_run(text)["samples"] if row["at"] is not None]


def _local_epoch(text: str) -> float | None:
    found = re.match(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)$", text)
    return _epoch(*found.groups()) if found else None


# the time profile ------------------------------------------------------------------------------------------------------

_REPORT = re.compile(r"^.*Time Profile Report @ (?P<clock>.*)$", re.MULTILINE)
_BLOCK = re.compile(
    r"^>>>>> (?:VIRTUAL USER (?P<vuser>\d+)|SUMMARY OF (?P<users>\d+) ACTIVE VIRTUAL USERS)\b.*?ELAPSED TIME : (?P<ms>[\d.]+)ms"
)
_PROC = re.compile(r"^>>>>> PROC: (?P<name>\w+)")
_PAIR = re.compile(r"(?P<key>[A-Z0-9]+): (?P<value>[\d.]+)(?:ms|%)?")
_PROFILE_KEYS = {
    "MIN": "min_ms",
    "AVG": "avg_ms",
    "MAX": "max_ms",
    "TOTAL": "total_ms",
    "P99": "p99_ms",
    "P95": "p95_ms",
    "P75": "p75_ms",
    "P50": "p50_ms",
    "P25": "p25_ms",
    "RATIO": "ratio_pct",
}


def parse_profile(text: str, version: str | None = None) -> list[dict[str, Any]]:
    """Parse ``hdbxtprofile.log``, to which every run appends: ``[{at, users: {n: procs}, summary: procs, elapsed_ms}]``.

    ``procs`` is ``{neword: row, …}`` with rows as ``parse_timing`` has them. ``at`` is the report's time (UTC only).
    """
    marks = [*_REPORT.finditer(text)]
    edges = [m.start() for m in marks] + [len(text)]
    return [_profile(text[m.end() : end], parse_clock(m["clock"]), version) for m, end in zip(marks, edges[1:])]


def _profile(text: str, at: float | None, version: str | None) -> dict[str, Any]:
    report: dict[str, Any] = {"at": at, "users": {}, "summary": {}, "elapsed_ms": None}
    procs: dict[str, Any] = {}
    raw: dict[str, str] = {}
    elapsed: float | None = None
    for line in map(clean, text.splitlines()):
        if block := _BLOCK.match(line):
            elapsed = number(block["ms"])
            procs = report["users"].setdefault(int(block["vuser"]), {}) if block["vuser"] else report["summary"]
            if not block["vuser"]:
                report["elapsed_ms"] = elapsed
        elif proc := _PROC.match(line):
            raw = {"elapsed_ms": str(elapsed)} if elapsed is not None else {}
            procs[proc["name"].lower()] = _timing_row(raw, version)
        else:
            pairs = {found["key"]: found["value"] for found in _PAIR.finditer(line)}
            if pairs and procs:
                raw.update({_PROFILE_KEYS.get(key, key.lower()): value for key, value in pairs.items()})
                procs[[*procs][-1]] = _timing_row(raw, version)
    return report


def corrected(
    summary: Mapping[str, Mapping[str, Any]], users: Mapping[int, Mapping[str, Mapping[str, Any]]]
) -> tuple[dict[str, Any], str | None]:
    """Return the summary of a time profile with every call counted once, and ``None``, ``"doubled"`` or ``"inconsistent"``.

    4.6 to 5.0 append each user's calls twice while the job store is on: calls, total and ratio are double, everything else is not
    affected. The evidence is the calls of the users; without them, shares of the time that add up to more than all of it.
    """
    kind: str | None = None
    if any(_contradicts_itself(row) for row in summary.values()):
        kind = "inconsistent"
    elif users:
        counted = {name: sum(user[name]["calls"] or 0 for user in users.values() if name in user) for name in summary}
        wrong = [name for name, row in summary.items() if row["calls"] != counted[name]]
        if wrong:
            kind = "doubled" if all(row["calls"] == 2 * counted[name] for name, row in summary.items()) else "inconsistent"
    elif sum(row["ratio_pct"] or 0 for row in summary.values()) > 101:
        kind = "doubled"
    if kind != "doubled":
        return {name: dict(row) for name, row in summary.items()}, kind
    halved = ("calls", "total_ms", "ratio_pct")
    return {
        name: {**row, **{k: row[k] // 2 if k == "calls" else row[k] / 2 for k in halved if row[k] is not None}}
        for name, row in summary.items()
    }, kind


def _contradicts_itself(row: Mapping[str, Any]) -> bool:
    """Whether average x calls is not the total, or total / elapsed is not the ratio (of a summary: times its number of users).

    Figures are printed to three decimals.
    """
    average, calls, total = row.get("avg_ms"), row.get("calls"), row.get("total_ms")
    elapsed, share = row.get("elapsed_ms"), row.get("ratio_pct")
    if total is None:
        return False
    if average is not None and calls is not None and abs(average * calls - total) > 0.01 * total + 0.001 * calls:
        return True
    if not elapsed or not share:
        return False
    users = 100 * total / elapsed / share
    return bool(abs(users - max(1, round(users))) > (0.02 + 0.001 / share) * users)


# what the run is worth -------------------------------------------------------------------------------------------------


def workers(run: Mapping[str, Any], clients: int | None = None) -> dict[str, list[int]]:
    """Return the worker users by how they ended: ``{success, failed, unknown}``. User 1 is the monitor, not a worker.

    The count that the driver prints is the configured one; ``clients`` says how many there should be when it is not printed.
    """
    count = clients or run["configured"] or 0
    numbers = sorted({n for n in run["users"] if n > 1} | set(range(2, count + 2)))
    states = {n: (run["users"].get(n) or {}).get("state") for n in numbers}
    return {
        "success": [n for n in numbers if states[n] == "success"],
        "failed": [n for n in numbers if states[n] == "failed"],
        "unknown": [n for n in numbers if states[n] not in ("success", "failed")],
    }


def late_share(run: Mapping[str, Any], clients: int) -> float | None:
    """Return the share of client-seconds that the window lacks because users started after it began; ``None`` without times."""
    start, end = run["events"].get("window_start"), run["events"].get("window_end")
    if start is None or end is None or end <= start or not clients:
        return None
    starts = [user["running_at"] for n, user in run["users"].items() if n > 1 and user["running_at"] is not None]
    return sum(max(0.0, at - start) for at in starts) / (clients * (end - start))


def window_s(run: Mapping[str, Any]) -> float | None:
    """Return the length of the measured window by the clock, in seconds; HammerDB itself divides by the length that was asked for."""
    start, end = run["events"].get("window_start"), run["events"].get("window_end")
    return round(end - start, 3) if start is not None and end is not None else None


def counted_nopm(counts: Sequence[Mapping[str, float]], start: float, end: float) -> float | None:
    """Return new orders per minute from samples ``{at, orders}`` between two times, interpolated.

    The last sample may be up to its interval before the end: the rate is of what the samples cover, ``None`` below nine tenths.
    """
    if not counts or end <= start:
        return None
    begin, finish = max(start, counts[0]["at"]), min(end, counts[-1]["at"])
    if finish - begin < 0.9 * (end - start):
        return None
    first, last = _at(counts, begin), _at(counts, finish)
    return 60 * (last - first) / (finish - begin) if first is not None and last is not None else None


def _at(counts: Sequence[Mapping[str, float]], moment: float) -> float | None:
    for before, after in zip(counts, counts[1:]):
        if before["at"] <= moment <= after["at"] and after["at"] > before["at"]:
            return before["orders"] + (after["orders"] - before["orders"]) * (moment - before["at"]) / (after["at"] - before["at"])
    return None
