# GNU General Public License v3.0 or later (see LICENSE)
"""HammerDB's output: every capture of 4.12 and 6.0, the forms of other versions, the named cases, and what must not be understood."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import hammerdb_output as output

CAPTURES = Path(__file__).parents[3] / "fixtures" / "hammerdb" / "captures"

#: By plain text tools from the captures: version, result, workers, ramp-up and duration, counter samples, monitor, time profile.
RUNS: dict[str, tuple[Any, ...]] = {
    "v4.12_run_vu2_sp_prof_allw": ("4.12", 17539, 39935, 2, 0, 60, 13, "success", True),
    "v4.12_run_vu4_sp_prof_allw": ("4.12", 17284, 39191, 4, 0, 60, 14, "success", True),
    "v4.12_run_vu8_sp_prof_allw": ("4.12", 19587, 44956, 8, 0, 60, 14, "success", True),
    "v4.12_run_vu4_sp_noprof_homewh": ("4.12", 18796, 42735, 4, 0, 60, 13, "success", False),
    "v4.12_run_vu4_FUNCTIONS_prof_allw": ("4.12", 23508, 53393, 4, 0, 60, 14, "success", True),
    "v4.12_run_vu4_ramp1_dur2_sp_noprof_allw": ("4.12", 25014, 57108, 4, 60, 120, 37, "success", False),
    "v4.12_run2_vu2_sp_noprof_allw": ("4.12", 18441, 41586, 2, 0, 60, 13, "success", False),
    "v4.12_run2_vu8_sp_noprof_allw": ("4.12", 27238, 62087, 8, 0, 60, 14, "success", False),
    "v6.0_on_tcl8.6_run_vu4_sp_prof_allw": ("6.0", 15199, 34575, 4, 0, 60, 14, "failed", True),
    "v6.0_on_tcl8.6_run2_vu4_sp_prof_allw": ("6.0", 25134, 57551, 4, 0, 60, 14, "success", True),
}
PROFILED = [name for name, row in RUNS.items() if row[7] == "success" and row[8]]


def console(name: str) -> str:
    return (CAPTURES / f"{name}_console.txt").read_text(encoding="utf-8")


def log(name: str, start: str) -> str:
    return next((CAPTURES / f"{name}_logs").glob(f"{start}*.log")).read_text(encoding="utf-8")


def database(name: str, what: str) -> int:
    """Return how much ``what`` grew in the database over a captured run, as psql counted it then."""
    before, after = re.findall(rf"^{what}=(\d+)", (CAPTURES / f"{name}_dbstat.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return int(after) - int(before)


def section(name: str, what: str) -> str:
    return next(text for title, text in output.sections(console(name)).items() if re.fullmatch(rf"jobs [0-9A-F]+ {what}", title))


# every capture ---------------------------------------------------------------------------------------------------------


def test_every_console_of_a_run_is_expected() -> None:
    assert {p.name.removesuffix("_console.txt") for p in CAPTURES.glob("*_run*_vu*_console.txt")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_console(name: str) -> None:
    version, nopm, tpm, clients, ramp_up, duration, samples, monitor, profiled = RUNS[name]
    run = output.parse_run(console(name))
    assert [(r["nopm"], r["tpm"], r["database"], r["vuser"]) for r in run["results"]] == [(nopm, tpm, "PostgreSQL", 1)]
    assert (run["version"], run["server_version"]) == (version, "15.20 (Debian 15.20-0+deb12u1)")
    assert (run["configured"], run["ramp_up_s"], run["duration_s"]) == (clients, ramp_up, duration)
    assert output.workers(run) == {"success": [*range(2, clients + 2)], "failed": [], "unknown": []}
    assert (run["users"][1]["state"], run["profile"]["asked"], run["complete"], len(run["samples"])) == (monitor, profiled, True, samples)
    assert (run["test_driver"], run["overran"], run["refusals"], run["failed_calls"], run["begun"]) == (False, False, [], {}, 1)
    assert [e["text"] for e in run["errors"]] == (['invalid command name "zipfs"'] if monitor == "failed" else [])
    json.dumps(run, allow_nan=False)


@pytest.mark.parametrize("name", RUNS)
def test_log_file_says_the_same_and_when(name: str) -> None:
    """The log file has no line of a user's end, and a time stamp before each line."""
    [one] = output.runs(log(name, "hammerdb_"))
    run = output.parse_run(one["text"])
    _version, nopm, tpm, _clients, _ramp_up, duration, *_rest = RUNS[name]
    assert [(r["nopm"], r["tpm"]) for r in run["results"]] == [(nopm, tpm)]
    assert output.window_s(run) == pytest.approx(duration, abs=1)
    assert run["results"][0]["at"] - one["at"] == pytest.approx(duration + run["ramp_up_s"], abs=2)


@pytest.mark.parametrize("name", RUNS)
def test_job_store_belongs_to_the_run(name: str) -> None:
    _version, nopm, tpm, *_rest = RUNS[name]
    job = output.parse_run(console(name))["job_id"]
    assert output.parse_job_result(section(name, "result")) == {"job_id": job, "nopm": nopm, "tpm": tpm, "database": "PostgreSQL"}


@pytest.mark.parametrize("name", RUNS)
def test_transaction_counter_in_three_forms(name: str) -> None:
    """The JSON of the job, the log file and the console hold the same figures; the first is 0 and starts the counting."""
    from_json, from_log = output.parse_tcount(section(name, "tcount")), output.parse_tcount(log(name, "hdbtcount"))
    assert [s["tpm"] for s in from_json] == [s["tpm"] for s in from_log] == [s["tpm"] for s in output.parse_run(console(name))["samples"]]
    assert from_json[0]["tpm"] == 0
    gaps = [b["at"] - a["at"] for a, b in pairwise(from_json)]
    assert set(gaps) <= {5.0, 6.0}
    assert all(abs(a["at"] - b["at"]) <= 1 for a, b in zip(from_json, from_log, strict=True))


@pytest.mark.parametrize("name", PROFILED)
def test_time_profile_and_job_timing_agree(name: str) -> None:
    version = RUNS[name][0]
    timing = output.parse_timing(section(name, "timing"), version)
    assert timing
    report = output.parse_profile(log(name, "hdbxtprofile"), version)[-1]
    assert {*report["summary"]} == {*timing["procs"]} == {*output.TRANSACTIONS}
    for proc, row in timing["procs"].items():
        assert {k: v for k, v in row.items() if k != "elapsed_ms"} == {
            k: v for k, v in report["summary"][proc].items() if k != "elapsed_ms"
        }
        assert row["sd_ms"] is not None and row["sd_ms"] < row["max_ms"] / 2
        assert (row["p75_ms"] is None) == (version == "4.12")


@pytest.mark.parametrize("name", PROFILED)
def test_each_call_is_counted_once(name: str) -> None:
    """4.12 doubles its summary, 6.0 does not; the evidence are the users, and the database's own count where there is one."""
    version = RUNS[name][0]
    report = output.parse_profile(log(name, "hdbxtprofile"), version)[-1]
    rows, kind = output.corrected(report["summary"], report["users"])
    assert kind == ("doubled" if version == "4.12" else None)
    assert len(report["users"]) == RUNS[name][3]
    for proc, row in rows.items():
        assert row["calls"] == sum(user[proc]["calls"] for user in report["users"].values())
        assert row["total_ms"] == pytest.approx(row["calls"] * row["avg_ms"], rel=0.001)
        assert row["p99_ms"] == report["summary"][proc]["p99_ms"]
    assert sum(row["ratio_pct"] for row in rows.values()) < 100
    if (CAPTURES / f"{name}_dbstat.txt").exists() and "FUNCTIONS" not in name:
        assert rows["neword"]["calls"] == database(name, "d_next_o_id")


@pytest.mark.parametrize("name", PROFILED)
def test_without_the_users_the_shares_of_time_tell(name: str) -> None:
    timing = output.parse_timing(section(name, "timing"), RUNS[name][0])
    assert timing and output.corrected(timing["procs"], {})[1] == ("doubled" if RUNS[name][0] == "4.12" else None)


def test_shared_profile_file_holds_reports_of_other_runs() -> None:
    """A run without a time profile left its neighbours' reports in its folder: none of them is later than its own start."""
    name = "v4.12_run_vu4_sp_noprof_homewh"
    [one] = output.runs(log(name, "hammerdb_"))
    reports = output.parse_profile(log(name, "hdbxtprofile"), "4.12")
    assert [len(r["users"]) for r in reports] == [2, 4, 8]
    assert [r for r in reports if r["at"] >= one["at"]] == []


@pytest.mark.parametrize("what", ["timing", "metrics"])
def test_no_data_is_no_figure(what: str) -> None:
    text = section("v4.12_run_vu4_sp_noprof_homewh", what)
    assert output.has_no_data(output.parse_json(text)[0])
    assert output.parse_timing(text) is None


@pytest.mark.parametrize(
    "text", ['["6B0D", "Jobid has no test result"]', '{"6B0D": {"Jobid": "has", "no": "tcount", "data": ""}}', "", "nothing", '{"a": ']
)
def test_no_result_and_no_counter(text: str) -> None:
    assert output.parse_job_result(text) is None
    assert output.parse_tcount(text) == []
    assert output.parse_timing(text) is None


# builds and checks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "claimed", "reason"),
    [
        ("v4.12_pgtclng_buildschema_4wh_2vu", False, "could not load library"),
        ("v4.12_FAILED_buildschema_debian_pgtcl_thread_race_8wh_2vu", False, "virtual user 2 failed"),
    ],
)
def test_build_that_failed(name: str, claimed: bool, reason: str) -> None:
    build = output.parse_build(console(name))
    assert (build["claimed"], build["workers"], build["version"]) == (claimed, 3, "4.12")
    assert reason in build["reason"]


def test_build_whose_workers_call_giving_up_a_success() -> None:
    text = (CAPTURES / "v4.12_FAILED_buildschema_debian_pgtcl_no_notice_handler_events.txt").read_text(encoding="utf-8")
    text = re.sub(r"^\d+\.\d+\t", "", text, flags=re.MULTILINE)
    build = output.parse_build(text)
    assert build["reason"] == 'invalid command name "pg_notice_handler"'
    assert "SCHEMA BUILD COMPLETED" in text and not build["claimed"]
    without_error = "\n".join(line for line in text.splitlines() if "Error" not in line and "FAILED" not in line)
    assert "monitor never became ready" in output.parse_build(without_error)["reason"]


def test_build_says_nothing_wrong() -> None:
    text = "Building 4 Warehouses with 3 Virtual Users, 2 active + 1 Monitor VU\n@1796055546.7 Vuser 2:FINISHED SUCCESS\nprogress 100.0\n"
    assert output.parse_build(text + "Vuser 1:BENCH SCHEMA COMPLETE\nVuser 1:FINISHED SUCCESS\n") == {
        **output.parse_build(text),
        "users": {n: {"state": "success", "running_at": None, "errors": []} for n in (1, 2)},
        "claimed": True,
        "percent": 100.0,
        "reason": None,
    }
    assert "did not say" in output.parse_build(text)["reason"]


def test_check_passes_only_by_its_own_words() -> None:
    passed = output.parse_check(console("v4.12_checkschema_after_runs"))
    assert (passed["passed"], len(passed["steps"]), passed["reason"]) == (True, 7, None)
    failed = output.parse_check(console("v4.12_pgtclng_buildschema_4wh_2vu"))
    assert not failed["passed"] and failed["reason"]
    assert output.parse_check("")["reason"] == "it did not say that it passed"
    other = output.parse_check("Vuser 1:TPROC-H Schema has been checked successfully.\n")
    assert not other["passed"]
    contrary = output.parse_check("Vuser 1:TPROC-C Schema has been checked successfully.\nVuser 1:FINISHED FAILED\n")
    assert (contrary["passed"], contrary["reason"]) == (False, "virtual user 1 failed")


# the named cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "Vuser 1:", "@1796055637.993 Vuser 1:", "2021-03-01 10:00:00 Vuser 1:", "Timestamp 1 Vuser 1:"])
@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ("622000 PostgreSQL TPM at 270400 NOPM", (270400, 622000, "PostgreSQL")),
        ("270400 NOPM from 622000 PostgreSQL TPM", (270400, 622000, "PostgreSQL")),
        ("270,400 NOPM from 622,000 EDB Postgres_Advanced 15 TPM", (270400, 622000, "EDB Postgres_Advanced 15")),
        ("622000 EDB Postgres_Advanced 15 TPM at 270400 NOPM", (270400, 622000, "EDB Postgres_Advanced 15")),
        ("13186.0 NOPM from 30634.0 PostgreSQL TPM", (13186.0, 30634.0, "PostgreSQL")),
        ("0 NOPM from 18400 PostgreSQL TPM", (0, 18400, "PostgreSQL")),
        ("-12 NOPM from 5 PostgreSQL TPM", (-12, 5, "PostgreSQL")),
        ("270400 NOPM from 622000 TPM", (270400, 622000, None)),
        ("270400 NOPM", (270400, None, None)),
        ("270 400 NOPM from 1 622 000 PostgreSQL TPM", (270400, 1622000, "PostgreSQL")),
        ("1\u202f622\u202f000 PostgreSQL TPM at 270\u00a0400 NOPM", (270400, 1622000, "PostgreSQL")),
        ("270'400 NOPM from 622'000 PostgreSQL TPM", (270400, 622000, "PostgreSQL")),
        ("270.400 NOPM from 622.000 PostgreSQL TPM", (None, None, "PostgreSQL")),  # a point of thousands or of a fraction
        ("1270 400 NOPM from 622000 PostgreSQL TPM", (None, 622000, "PostgreSQL")),
    ],
)
def test_c019_result_line_in_either_order(prefix: str, figures: str, expected: tuple[Any, ...]) -> None:
    """C019: by the unit word beside each number, never by position or by the version in the banner."""
    result = output.parse_result(f"{prefix}TEST RESULT : System achieved {figures}")
    assert result and (result["nopm"], result["tpm"], result["database"]) == expected


@pytest.mark.parametrize(
    "line", ['"TEST RESULT : System achieved 1 NOPM from 2 PostgreSQL TPM",', "TEST RESULT : failed", "System achieved 5 NOPM"]
)
def test_c019_what_is_no_result_line(line: str) -> None:
    assert output.parse_result(line) is None


SHARED_LOG = """/tmp/hammerdb.log (appended by every run)
Hammerdb Log @ Mon Mar 01 10:00:00 UTC 2021
Vuser 1:TEST RESULT : System achieved 68110 NOPM from 156700 PostgreSQL TPM
Hammerdb Log @ Mon Mar 01 11:00:00 UTC 2021
Error in Virtual User 1: FATAL:  the database system is starting up
Vuser 1:FINISHED FAILED
"""


@pytest.mark.parametrize("line", ["System achieved 1.2e6 NOPM from 3e6 PostgreSQL TPM", "System achieved nan NOPM from inf PostgreSQL TPM"])
def test_c019_part_of_a_number_is_no_number(line: str) -> None:
    assert output.parse_result(f"Vuser 1:TEST RESULT : {line}") == {"nopm": None, "tpm": None, "database": None}


@pytest.mark.parametrize(
    ("prefix", "header"), [("[bench1] out: ", "Hammerdb Log @ "), ("", "HammerDB Log @ "), ("bench1 | ", "hammerdb log @ ")]
)
def test_c022_headers_behind_the_prefix_of_a_runner(prefix: str, header: str) -> None:
    lines = [
        f"{header}Mon Mar 01 10:00:00 UTC 2021",
        "Vuser 1:TEST RESULT : System achieved 68110 NOPM from 156700 PostgreSQL TPM",
        f"{header}Mon Mar 01 11:00:00 UTC 2021",
        "Error in Virtual User 1: FATAL:  the database system is starting up",
    ]
    parts = output.runs("".join(f"{prefix}{line}\r\n" for line in lines))
    assert [[r["nopm"] for r in output.parse_run(part["text"])["results"]] for part in parts] == [[68110], []]
    assert parts[1]["at"] - parts[0]["at"] == 3600


def test_c022_shared_log_the_last_result_belongs_to_an_earlier_run() -> None:
    parts = output.runs(SHARED_LOG)
    assert [(p["header"] or "")[:24] for p in parts] == ["", "Hammerdb Log @ Mon Mar 0", "Hammerdb Log @ Mon Mar 0"]
    assert parts[2]["at"] - parts[1]["at"] == 3600
    earlier, last = (output.parse_run(p["text"]) for p in parts[1:])
    assert [r["nopm"] for r in earlier["results"]] == [68110]
    assert last["results"] == []
    assert last["users"][1] == {"state": "failed", "running_at": None, "errors": ["FATAL:  the database system is starting up"]}


def test_c022_two_results_in_one_run_stay_two() -> None:
    line = "Vuser 1:TEST RESULT : System achieved 68110 NOPM from 156700 PostgreSQL TPM\n"
    assert len(output.parse_run(2 * line)["results"]) == 2


def test_c023_a_user_failed_but_a_result_was_printed() -> None:
    run = output.parse_run(
        """Vuser 1:96 Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved 141000 NOPM from 324300 PostgreSQL TPM
Error in Virtual User 1: key "msperclick" not found
Vuser 1:FINISHED FAILED
Vuser 2:FINISHED SUCCESS
Vuser 17:FINISHED FAILED
"""
    )
    ended = output.workers(run)
    assert (ended["success"], ended["failed"], len(ended["unknown"])) == ([2], [17], 94)
    assert run["users"][1] == {"state": "failed", "running_at": None, "errors": ['key "msperclick" not found']}
    assert run["configured"] == 96


def test_c023_a_console_listed_in_json_by_a_runner() -> None:
    lines = [
        "Vuser 1:2 Active Virtual Users configured",
        "Vuser 1:TEST RESULT : System achieved 141000 NOPM from 324300 PostgreSQL TPM",
        'Error in Virtual User 1: key "msperclick" not found',
        "Vuser 1:FINISHED FAILED",
        "Vuser 2:FINISHED SUCCESS",
        "Vuser 3:FINISHED SUCCESS",
    ]
    listed = json.dumps({"stdout_lines": lines, "job": ["6B0D", "TEST RESULT : System achieved 1 NOPM from 2 PostgreSQL TPM"]}, indent=4)
    assert output.parse_run(listed) == output.parse_run("\n".join(lines))
    folded = json.dumps({"stdout": SHARED_LOG, "stdout_lines": SHARED_LOG.splitlines()}, indent=4)
    assert [[r["nopm"] for r in output.parse_run(p["text"])["results"]] for p in output.runs(folded)] == [[], [68110], []]
    one = json.dumps({"stdout": "\n".join(lines), "stdout_lines": lines})
    assert output.parse_run(one)["results"] == output.parse_run("\n".join(lines))["results"]


@pytest.mark.parametrize("prefix", ["[bench1] out: ", "2026-11-30T09:00:07.{n}Z db7 ", "hammerdb-1  | ", "> "])
@pytest.mark.parametrize("name", RUNS)
def test_c019_a_prefix_on_every_line_changes_nothing(name: str, prefix: str) -> None:
    text = output.sections(console(name))[""]
    prefixed = "".join(f"{prefix.format(n=i)}{line.strip()}\n" for i, line in enumerate(text.splitlines()))
    assert output.parse_run(prefixed) == output.parse_run(text)


@pytest.mark.parametrize("prefix", ["", "[bench1] out: "])
def test_c025_refusals_and_errors_behind_the_prefix_of_a_runner(prefix: str) -> None:
    lines = [
        "Error: Virtual Users exist, destroy with vudestroy before creating",
        "Error in Virtual User 3: Connection to database failed",
        'connection to server at "db1", port 5432 failed: FATAL:  sorry, too many clients already',
        "Vuser 3:FINISHED FAILED",
        "4 = RUNNING",
    ]
    run = output.parse_run("".join(f"{prefix}{line}\n" for line in lines))
    assert (len(run["refusals"]), run["users"][4]["state"]) == (1, "running")
    assert [e["text"].count("too many clients") for e in run["errors"]] == [1]


LOOP = """== step vu=16
Vuser 1:TEST RESULT : System achieved 13869 NOPM from 31899 PostgreSQL TPM
Vuser 1:Checkpoint and Vacuum
Virtual Users remain running in background or shutting down, retry
== step vu=32
Error: Virtual Users exist, destroy with vudestroy before changing settings
Error: Virtual Users exist, destroy with vudestroy before creating
"""


@pytest.mark.parametrize("prefix", ["", "[bench1] out: "])
def test_c025_loop_of_user_counts(prefix: str) -> None:
    first, second = (output.parse_run(p["text"]) for p in output.runs("".join(f"{prefix}{line}\n" for line in LOOP.splitlines())))
    assert ([r["nopm"] for r in first["results"]], first["overran"], first["vacuum"]) == ([13869], True, "started")
    assert (second["results"], len(second["refusals"]), second["vacuum"]) == ([], 2, None)


def test_c026_test_driver_output_is_no_timed_run() -> None:
    text = "Vuser 2:new order\nVuser 2:0.1300 BAROUGHTBAR GC 0.1100 0.1600 54554\nVuser 1:payment\n"
    run = output.parse_run(text)
    assert (run["test_driver"], run["results"]) == (True, [])
    assert not output.parse_run("Vuser 1:Beginning rampup time of 2 minutes\n")["test_driver"]


TIMING = """{ "NEWORD": { "elapsed_ms": "422832.0", "calls": "47368", "min_ms": "1.329", "avg_ms": "4.812",
    "max_ms": "232.335", "total_ms": "227939.268", "p99_ms": "18.609", "p95_ms": "10.392",
    "p50_ms": "4.063", "sd": "3967.492", "ratio_pct": "53.908" } }
NEWORD calls 47368 min 1.329 avg 4.812 ...
"""


@pytest.mark.parametrize("version", [None, "4.8", "4.12"])
def test_c029_job_timing(version: str | None) -> None:
    """C029: numbers as strings, a deviation in microseconds, and text after the JSON."""
    timing = output.parse_timing(TIMING, version)
    assert timing and timing["trailing"]
    row = timing["procs"]["neword"]
    assert (row["calls"], row["avg_ms"], row["max_ms"], row["sd_ms"]) == (47368, 4.812, 232.335, 3.967492)
    assert row["avg_ms"] * row["calls"] == pytest.approx(row["total_ms"], rel=1e-4)
    assert 100 * row["total_ms"] / row["elapsed_ms"] == pytest.approx(row["ratio_pct"], abs=0.01)
    assert all(isinstance(v, (int, float)) for v in row.values() if v is not None)


@pytest.mark.parametrize(
    ("sd", "row", "version", "expected"),
    [
        (3967.492, {"min_ms": 1.3, "avg_ms": 4.8, "max_ms": 232.3}, None, 3.967492),
        (3.596, {"min_ms": 0.661, "avg_ms": 4.302, "max_ms": 138.196}, "6.0", 3.596),
        (3.596, {"min_ms": 0.661, "avg_ms": 4.302, "max_ms": 138.196}, None, 3.596),
        (3000.0, {"min_ms": 0.5, "avg_ms": 5.0, "max_ms": 5000.0}, None, 3.0),  # a stall of 5 s: still no deviation in ms
        (100.0, {"min_ms": 0.5, "avg_ms": 5.0, "max_ms": 5000.0}, "4.12", 0.1),  # it could be ms, and the version knows better
        (4000.0, {"min_ms": 1.0, "avg_ms": 1.1, "max_ms": 1.2}, None, None),
        (0, {"min_ms": 1.0, "avg_ms": 1.0, "max_ms": 1.0}, "4.12", 0),
        (2000.0, {}, "5.0", 2.0),
        (2.0, {}, "6.1.1", 2.0),
        (2.0, {}, None, None),
        (None, {}, "6.0", None),
    ],
)
def test_c029_unit_of_the_deviation(sd: float | None, row: dict[str, Any], version: str | None, expected: float | None) -> None:
    assert output.sd_ms(sd, row, version) == expected


# other versions (reference: the differences of 4.5 to 6.0) ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("HammerDB CLI v4.5\nCopyright (C) 2003-2022 Steve Shaw\n", "4.5"),
        ("HammerDB CLI v4.12\n", "4.12"),
        ("HammerDB CLI v5.0\nCopyright \ufffd HammerDB Ltd hosted by tpc.org 2019-2025\n", "5.0"),
        ("HammerDB CLI v6.1.1\n", "6.1.1"),
        ("v6.0", "6.0"),
        ("4.12", "4.12"),
        ("bash: ./hammerdbcli: No such file or directory", None),
        ("", None),
    ],
)
def test_version(text: str, version: str | None) -> None:
    assert output.parse_version(text) == version


def test_versions_are_numbers() -> None:
    assert output.version_tuple("4.12") > output.version_tuple("4.9") > output.version_tuple("4.5")
    assert output.version_tuple(None) == ()


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("Vuser 1:DBVersion:NULL", "server_version", None),
        ("Vuser 2:VU 2 : Assigning WID=1 based on VU count 2\nVuser 2:VU 2 : Assigning WID=3 based on VU count 2", "warehouses", {2: 2}),
        ("Vuser 3:Assigned 2 WIDs = 2 4 based on VU count 2, Warehouses = 2 out of 4", "warehouses", {3: 2}),
        ("Benchmark Run (No jobid)", "job_id", None),
        ("@1796055645.4 RUN RETURNED: Benchmark Run jobid=6B0DA219661803E273132313", "job_id", "6B0DA219661803E273132313"),
        ("Vuser 1:Beginning rampup time of 0.4 minutes", "ramp_up_s", 24.0),
        ("Vuser 1:Timing test period of 0.5 in minutes", "duration_s", 30.0),
        ("Vuser 1:Beginning rampup time of 2 minutes\nVuser 1:Beginning rampup time of 2 minutes", "begun", 2),
        ("Vuser 1:64 Active Virtual Users configured", "configured", 64),
        ("Vuser 1:64 Virtual Users configured", "configured", 64),  # 2.x
        ("Vuser 1:Checkpoint and Vacuum\nVuser 1:Checkpoint and Vacuum Complete", "vacuum", "complete"),
        (
            "Vuser 1:PostgreSQL TPROC-C: functions requested, but stored procedures found. Auto-switching pg_storedprocs to true.",
            "switched",
            {"storedprocs": True},
        ),
        ("Error: Virtual Users exist, destroy with vudestroy before creating", "refusals", None),
        ("Error: Cannot check schema with Virtual Users active, destroy Virtual Users first", "refusals", None),
        ("Error:Build virtual users must be less than or equal to number of warehouses", "error_count", 1),
    ],
)
def test_line(text: str, key: str, expected: Any) -> None:
    assert output.parse_run(text)[key] == ([text] if key == "refusals" else expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Vuser 1:Writing timing data to /tmp/hdbxtprofile.log", {"asked": True, "written": "/tmp/hdbxtprofile.log"}),
        ("Vuser 1:WARNING:Timing Data Incomplete", {"asked": True, "problem": "Timing Data Incomplete"}),
        (
            "Vuser 1:ERROR:Timing Gather Timed Out before any Virtual User Reported",
            {"asked": True, "problem": "Timing Gather Timed Out before any Virtual User Reported"},
        ),
        ("Vuser 1:3 out of 4 Virtual Users reported", {"asked": True, "reported": [3, 4]}),
        ("Vuser 2:Initializing xtprof time profiler", {"asked": True}),
        ("Vuser 2:RUNNING", {}),
    ],
)
def test_what_is_said_of_the_time_profile(text: str, expected: dict[str, Any]) -> None:
    nothing = {"asked": False, "written": None, "problem": None, "reported": None}
    assert output.parse_run(text)["profile"] == {**nothing, **expected}


def test_failing_calls_are_counted() -> None:
    """With ``raiseerror false`` a failing call is one line; the run still ends in success."""
    line = "Vuser {}:{} Procedure Error set RAISEERROR for Details\n"
    text = "".join(line.format(n, what) for n, what in [(2, "Payment"), (3, "Payment"), (2, "New Order"), (4, "Stock Level")])
    assert output.parse_run(text)["failed_calls"] == {"payment": 2, "neword": 1, "slev": 1}


@pytest.mark.parametrize(
    "text",
    ['{"6B0D": {"NEWORD": {"calls": "5"}}}', '{"error": {"message": "no such job"}}', '{"TOTAL": {"calls": "5"}}', '{"NEWORD": [1, 2]}'],
)
def test_c029_what_is_no_row_of_a_transaction(text: str) -> None:
    assert output.parse_timing(text) is None


def test_c029_json_behind_a_log_line_and_cut_off() -> None:
    text = '{"NEWORD": {"calls": "100", "avg_ms": "4.812", "total_ms": "4.812E2", "sd": "NaN"}}'
    timing = output.parse_timing(f"[info] timing of the job\n{text} NEWORD calls 100")
    assert timing and timing["trailing"]
    assert [timing["procs"]["neword"][k] for k in ("calls", "total_ms", "sd_ms")] == [100, 481.2, None]
    assert output.parse_timing(text[:-1]) is None  # the object within is not the answer


def test_endless_numbers_are_damage_and_no_figures() -> None:
    figure = "9" * 5000
    run = output.parse_run(
        f"Vuser {figure}:RUNNING\n{figure} PostgreSQL tpm\nVuser 1:TEST RESULT : System achieved {figure} NOPM from 1 PostgreSQL TPM"
    )
    assert (run["users"], run["samples"], [r["nopm"] for r in run["results"]]) == ({}, [], [None])
    assert output.parse_timing('{"NEWORD": {"calls": ' + figure + "}}") is None


def test_c029_a_row_that_contradicts_itself() -> None:
    row = {"calls": 47368, "avg_ms": 4.812, "total_ms": 227939.268, "ratio_pct": 53.908}
    assert output.corrected({"neword": row}, {})[1] is None
    assert output.corrected({"neword": {**row, "total_ms": 2 * 227939.268}}, {})[1] == "inconsistent"
    assert output.corrected({"neword": {**row, "elapsed_ms": 422832.0}}, {})[1] is None
    assert output.corrected({"neword": {**row, "elapsed_ms": 4 * 422832.0, "ratio_pct": 53.908 / 16}}, {})[1] is None  # a summary of four
    assert output.corrected({"neword": {**row, "elapsed_ms": 422832.0, "ratio_pct": 35.9}}, {})[1] == "inconsistent"


def test_c029_a_decimal_comma_is_not_guessed() -> None:
    timing = output.parse_timing(TIMING.replace("4.812", "4,812").replace("47368", "47,368", 1))
    assert timing and [timing["procs"]["neword"][k] for k in ("avg_ms", "calls", "p50_ms")] == [None, 47368, 4.063]


def test_job_result_of_4_6() -> None:
    """4.6 and 4.7 have no time stamp in the list."""
    text = '["6B0D", "2 Active Virtual Users configured", "TEST RESULT : System achieved 5 NOPM from 11 PostgreSQL TPM"]'
    assert output.parse_job_result(text) == {"job_id": "6B0D", "nopm": 5, "tpm": 11, "database": "PostgreSQL"}


def test_a_job_of_several_results_has_none() -> None:
    result = '"TEST RESULT : System achieved 5 NOPM from 11 PostgreSQL TPM"'
    assert output.parse_job_result(f'["6B0D", {result}, {result}]') is None


def test_a_counter_that_cannot_be_read_is_no_zero() -> None:
    text = '{"PostgreSQL tpm": {"2026-11-30 09:00:00": "0", "2026-11-30 09:00:10": "x", "2026-13-30 09:00:20": "5"}}'
    assert output.parse_tcount(text) == [{"at": 1796029200.0, "tpm": 0}]


@pytest.mark.parametrize("minutes", ["1.2.3", ".", "9" * 400])
def test_a_damaged_length_is_none(minutes: str) -> None:
    run = output.parse_run(f"Vuser 1:Beginning rampup time of {minutes} minutes\nVuser 1:Timing test period of {minutes} in minutes\n")
    assert (run["ramp_up_s"], run["duration_s"]) == (None, None)
    assert output.parse_build(f"progress {minutes}\n")["percent"] is None
    block = f">>>>> SUMMARY OF 2 ACTIVE VIRTUAL USERS : MEDIAN ELAPSED TIME : {minutes}ms\n"
    [report] = output.parse_profile(f"Hammerdb Time Profile Report @ Mon Nov 30 09:34:20 UTC 2026\n{block}")
    assert report["elapsed_ms"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Killed\n1 = RUNNING\n", "; the last line was: Killed"),
        ('can\'t find package x\n    while executing\n"package require x"\n', "; the last line was: can't find package x"),
        ("", ""),
    ],
)
def test_last_words(text: str, said: str) -> None:
    assert output.last_words(text) == said


def test_an_error_of_several_lines_is_one() -> None:
    text = """\r@1796059296.324 Error in Virtual User 1: Connection to database failed
connection to server at "127.0.0.1", port 56321 failed: FATAL:  sorry, too many clients already
\r@1796059296.334 Vuser 1:FINISHED FAILED
@1796059257.628 Error in Virtual User 2: server closed the connection unexpectedly
\tThis probably means the server terminated abnormally
\tbefore or while processing the request.
"""
    run = output.parse_run(text)
    assert [e["text"].count("too many clients") for e in run["errors"]] == [1, 0]
    assert run["errors"][1]["text"].endswith("before or while processing the request.")
    assert run["users"][1]["state"] == "failed"


def test_a_program_that_does_not_start_says_why() -> None:
    """A checkout of its repository in place of a release lacks packages."""
    text = 'HammerDB CLI v4.12\nWhile loading module "ticklecharts"...\ncan\'t find package ticklecharts\n    while executing\n'
    assert output.parse_run(text)["errors"][0]["text"].startswith('While loading module "ticklecharts"... can\'t find package')


def test_a_user_that_failed_has_failed() -> None:
    run = output.parse_run("Vuser 2:FINISHED FAILED\nVuser 2:RUNNING\nVuser 2:FINISHED SUCCESS\n2 = FINISH SUCCESS\n")
    assert (run["users"][2]["state"], output.workers(run)["failed"]) == ("failed", [2])


def test_a_flood_of_errors_is_kept_in_bounds() -> None:
    run = output.parse_run("Error in Virtual User 2: ERROR:  numeric field overflow\n" * 5000)
    assert (run["error_count"], len(run["errors"]), len(run["users"][2]["errors"])) == (5000, output.KEEP_ERRORS, output.KEEP_ERRORS)


# times and counts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("Hammerdb Log @ Mon Nov 30 09:34:20 UTC 2026", 1796031260.0),
        ("Thu Jan  1 00:00:00 GMT 1970", 0.0),
        ("Mon Mar 01 10:00:00 CET 2021", None),  # the name of a zone does not say its offset
        ("Mon Xxx 01 10:00:00 UTC 2021", None),
        ("", None),
    ],
)
def test_clock(text: str, epoch: float | None) -> None:
    assert output.parse_clock(text) == epoch


CLOCKED = """@100000000.000 Vuser 1:RUNNING
@100000000.100 Vuser 1:Beginning rampup time of 0 minutes
@100000000.200 Vuser 1:Rampup complete, Taking start Transaction Count.
@100000000.300 Vuser 1:Timing test period of 0.1 in minutes
@100000000.800 Vuser 2:RUNNING
@100000001.400 Vuser 3:RUNNING
@100000003.200 2400 PostgreSQL tpm
@100000006.800 Vuser 1:Test complete, Taking end Transaction Count.
"""


def test_window_by_the_clock_and_users_that_came_late() -> None:
    run = output.parse_run(CLOCKED)
    assert output.window_s(run) == 6.6
    assert output.late_share(run, 2) == pytest.approx((0.6 + 1.2) / (2 * 6.6))
    assert run["samples"] == [{"at": 100000003.2, "tpm": 2400}]
    assert output.late_share(output.parse_run(""), 2) is None and output.window_s(output.parse_run("")) is None


def test_counted_nopm_between_two_times() -> None:
    counts = [{"at": float(t), "orders": 100.0 * t} for t in range(10)]
    assert output.counted_nopm(counts, 1.5, 7.25) == pytest.approx(6000)
    assert output.counted_nopm(counts, 1.5, 9.5) == pytest.approx(6000)  # the last sample is half a second before the end
    assert output.counted_nopm(counts, 1.5, 12) is None
    assert output.counted_nopm(counts, -1, 5) is None
    assert output.counted_nopm(counts, 5, 5) is None
    assert output.counted_nopm([], 1, 2) is None


def test_last_counter_of_new_output() -> None:
    assert output.last_counter("@1796055582.9 24192 PostgreSQL tpm\n@1796055587.9 40956 PostgreSQL tpm\nVuser 1:1 ...,\n") == 40956
    assert output.last_counter("Vuser 1:RUNNING\n") is None


def test_profile_that_contradicts_its_users() -> None:
    row = {"calls": 10, "total_ms": 5.0, "ratio_pct": 3.0}
    assert output.corrected({"neword": row}, {2: {"neword": {"calls": 7}}})[1] == "inconsistent"
    assert output.corrected({"neword": row}, {2: {"neword": {"calls": 10}}}) == ({"neword": row}, None)
    assert output.corrected({}, {}) == ({}, None)
