# GNU General Public License v3.0 or later (see LICENSE)
"""pgbench's output: every capture, every wording of the named cases, and what must not be understood."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import pgbench_output as output

FIXTURES = Path(__file__).parents[3] / "fixtures" / "pgbench"


def rows(name: str) -> list[dict[str, str]]:
    with (FIXTURES / name).open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def capture(name: str) -> tuple[int, str]:
    """Return exit status and output (stdout, then stderr) of a capture, without the lines that frame it."""
    text = (FIXTURES / "captures" / name).read_text(encoding="utf-8")
    status = re.search(r"^(?:### exit code: |rc=)(\d+)$", text, re.MULTILINE)
    assert status
    body = text[text.index("\n### exit code") :] if "### exit code" in text else text.split("\n", 1)[1]
    return int(status[1]), re.sub(r"^(?:### .*|rc=\d+)\n?", "", body, flags=re.MULTILINE)


REPORTS = rows("expected_reports.csv")  # taken from the captures by plain text tools, not by this parser
INITS = rows("expected_inits.csv")
NAMES = [row["file"] for row in REPORTS]


# every capture ---------------------------------------------------------------------------------------------------------


def test_every_capture_is_expected() -> None:
    assert sorted(p.name for p in (FIXTURES / "captures").iterdir()) == sorted(NAMES + [row["file"] for row in INITS])


@pytest.mark.parametrize("row", REPORTS, ids=NAMES)
def test_capture(row: dict[str, str]) -> None:
    status, text = capture(row["file"])
    report = output.parse_report(text, status)
    numbers = [k for k in row if k in report and k not in ("scripts", "statements", "protocol")]
    assert {k: report[k] for k in numbers} == {k: output.number(row[k]) for k in numbers}
    assert report["protocol"] == (row["protocol"] or None)
    assert (len(report["scripts"]), len(report["statements"])) == (int(row["scripts"]), int(row["statements"]))
    assert len(output.parse_progress(text)) == int(row["progress"])
    assert report["aborted"] == (row["run_aborted"] == "1")
    assert report["clients_aborted"] == int(row["aborted_clients"])
    assert (report["first_error"] is None) == (status == 0 or row["file"].startswith("pgbench15_sig"))
    if report["tps"] is not None:
        assert report["generation"] == ("14+" if int(row["major"]) >= 14 else "9.6-13")
        assert not report["low_detail"]
    assert report["unparsed"] == []
    json.dumps(report, allow_nan=False)


def test_figures_are_those_of_the_text_to_the_last_digit() -> None:
    for name in NAMES:
        status, text = capture(name)
        report = output.parse_report(text, status)
        for key in ("tps_including", "tps_excluding", "tps_reconnecting"):
            assert report[key] is None or f"tps = {report[key]:.6f} (" in text
        for row in report["statements"]:
            assert f"{row['latency_ms']:.3f} " in text and row["text"] in text


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in report.items() if k not in ("server_messages", "warnings", "errors", "first_error", "banner")}


PREFIXES = {
    "host": "[bench1] out: ",
    "log": "2024-05-01T10:00:07.123Z pgbench-1  | ",
    "syslog": "db-7 pgbench[4711]: ",
    "quote": "> ",
    "indent": "    ",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("name", [n for n in NAMES if "_run_" in n or "multiscript" in n or "tpcc" in n])
def test_a_prefix_on_every_line_changes_nothing(name: str, prefix: str) -> None:
    status, text = capture(name)
    prefixed = "".join(f"{prefix}{line}\n" for line in text.splitlines())
    assert comparable(output.parse_report(prefixed, status)) == comparable(output.parse_report(text, status))
    assert output.parse_progress(prefixed) == output.parse_progress(text)


@pytest.mark.parametrize("name", NAMES)
def test_line_ends_and_order_of_the_streams_change_nothing(name: str) -> None:
    status, text = capture(name)
    plain = output.parse_report(text, status)
    assert output.parse_report(text.replace("\n", "\r\n"), status) == plain
    stdout, stderr = (FIXTURES / "captures" / name).read_text(encoding="utf-8").partition("### stderr:\n")[::2]
    stdout = stdout.partition("### stdout:\n")[2]
    if stdout and stderr:
        assert comparable(output.parse_report(stderr + stdout, status)) == comparable(plain)
        banner, rest = stdout.split("\n", 1)  # as a terminal shows them: what goes to stderr stands before the report
        assert comparable(output.parse_report(f"{banner}\n{stderr}{rest}", status)) == comparable(plain)


def test_lines_of_a_json_list() -> None:
    status, text = capture("pgbench15_multiscript_maxtries.txt")
    listed = json.dumps({"stdout_lines": text.splitlines()}, indent=8)
    assert comparable({**output.parse_report(listed), "unparsed": [], "unparsed_lines": 0, "exit_status": status}) == comparable(
        output.parse_report(text, status)
    )


@pytest.mark.parametrize("listed", [True, False], ids=["with its lines", "alone"])
@pytest.mark.parametrize("indent", [None, 4])
def test_c001_a_text_within_json(indent: int | None, listed: bool) -> None:
    """As Ansible prints what a command wrote: one text, and often its lines again."""
    status, text = capture("pgbench15_multiscript_maxtries.txt")
    result = {
        "changed": True,
        "cmd": ["pgbench", "-c", "8"],
        "stderr": "starting vacuum...end.\nprogress: 1.0 s, 5.0 tps, lat 1.0 ms\n",
        "stdout": text,
    }
    result |= {f"{name}_lines": str(result[name]).splitlines() for name in ("stderr", "stdout") if listed}
    shown = f"ok: [db1] => {json.dumps(result, indent=indent)}"
    (report,) = output.parse_reports(shown, status)
    assert comparable({**report, "unparsed": [], "unparsed_lines": 0}) == comparable(output.parse_report(text, status))
    assert output.parse_progress(shown)[0]["elapsed_s"] == 1.0


@pytest.mark.parametrize(
    ("first", "second"),
    [("[bench1] out: ", "[bench2] out: "), ("10.0.0.1: ", "10.0.0.12: "), ("2024-05-01T10:00:07Z a | ", "2024-05-01T10:00:08Z b | ")],
)
def test_c001_lines_of_two_hosts_among_each_other(first: str, second: str) -> None:
    one, two = (capture(f"pgbench{major}_run_T5_P1_r.txt") for major in (15, 17))
    lines = [
        f"{host}{line}"
        for pair in zip(one[1].splitlines(), two[1].splitlines(), strict=False)
        for host, line in zip((first, second), pair, strict=True)
    ]
    reports = output.parse_reports("\n".join(lines))
    assert [(r["client_version"], r["tps"], r["processed"], r["latency_average_ms"], r["unparsed"]) for r in reports] == [
        (alone["client_version"], alone["tps"], alone["processed"], alone["latency_average_ms"], [])
        for alone in (output.parse_report(text) for _status, text in (one, two))
    ]


def test_lines_of_a_list_are_not_those_of_a_script() -> None:
    report = output.parse_report("".join(f"- {line}\n" for line in C002.splitlines()))
    assert (report["latency_average_ms"], report["tps"], report["unparsed"]) == (9.146, 109.334011, [])


# named cases -------------------------------------------------------------------------------------------------------------


def test_c001_one_tps_line_and_a_prefix_on_every_line() -> None:
    report = output.parse_report(
        """[bench1] out: progress: 60.0 s, 2391.2 tps, lat 33.1 ms stddev 12.9
[bench1] out: transaction type: <builtin: TPC-B (sort of)>
[bench1] out: scaling factor: 100
[bench1] out: query mode: simple
[bench1] out: number of clients: 80
[bench1] out: number of threads: 8
[bench1] out: duration: 60 s
[bench1] out: number of transactions actually processed: 143112
[bench1] out: latency average = 33.480 ms
[bench1] out: latency stddev = 13.204 ms
[bench1] out: initial connection time = 91.402 ms
[bench1] out: tps = 2388.104512 (without initial connection time)
"""
    )
    assert (report["tps"], report["tps_excluding"], report["tps_including"]) == (2388.104512, 2388.104512, None)
    assert (report["initial_connection_ms"], report["generation"], report["client_version"]) == (91.402, "14+", None)
    assert report["clients"] / report["latency_average_ms"] * 1000 == pytest.approx(report["tps"], rel=1e-3)


C002 = """transaction type: TPC-B (sort of)
scaling factor: 1
query mode: simple
number of clients: 1
number of threads: 1
duration: 30 s
number of transactions actually processed: 3280
latency average: 9.146 ms
tps = 109.331207 (including connections establishing)
tps = 109.334011 (excluding connections establishing)
"""


def test_c002_colon_and_two_tps_lines() -> None:
    report = output.parse_report(C002)
    assert (report["latency_average_ms"], report["latency_stddev_ms"]) == (9.146, None)
    assert (report["tps_including"], report["tps_excluding"], report["tps"]) == (109.331207, 109.334011, 109.334011)
    assert (report["builtin"], report["client_version"], report["generation"]) == ("tpcb-like", None, "9.5-")


@pytest.mark.parametrize("said", ["pgbench (PostgreSQL) 9.5.25", "[bench1] out: pgbench (PostgreSQL) 9.5.25 (Debian 9.5.25-1.pgdg90+1)"])
def test_c002_version_that_stands_by_itself(said: str) -> None:
    prefix = said.partition("pgbench")[0]
    report = output.parse_report("\n".join([said, *(prefix + line for line in C002.splitlines())]))
    assert (report["client_version"], report["server_version"], report["generation"]) == ("9.5.25", None, "9.5-")
    assert (report["tps"], report["unparsed"]) == (109.334011, [])
    assert output.parse_report(f"{C002}{said}\n")["client_version"] is None


def test_c004_no_blank_before_the_parenthesis() -> None:
    report = output.parse_report(
        """number of clients: 4
number of transactions per client: 100
number of processed transactions: 400/400
tps = 21.402117(including connections establishing)
tps = 21.660934(excluding connections establishing)
"""
    )
    assert (report["processed"], report["planned"], report["tps_including"], report["tps_excluding"]) == (400, 400, 21.402117, 21.660934)
    assert [report[k] for k in ("scale", "threads", "protocol", "latency_average_ms")] == [None] * 4
    assert (report["low_detail"], report["generation"]) == (True, "8.x")


def test_c005_failed_transactions_with_status_0() -> None:
    report = output.parse_report(
        """pgbench (15.18)
number of clients: 8
maximum number of tries: 1
number of transactions per client: 50
number of transactions actually processed: 111/400
number of failed transactions: 289 (72.250%)
latency average = 12.009 ms (including failures)
tps = 184.861970 (without initial connection time)
[process exit status 0]
""",
        0,
    )
    assert (report["processed"], report["planned"], report["failed"], report["failed_pct"]) == (111, 400, 289, 72.25)
    assert (report["latency_average_ms"], report["latency_basis"]) == (12.009, "including failures")
    assert report["unparsed"] == []


def test_c007_more_clients_than_connections() -> None:
    report = output.parse_report(
        """pgbench (16.2, server 15.4)
pgbench: error: connection to server on socket "/run/pg/.s.PGSQL.5432" failed: FATAL:  sorry, too many clients already
pgbench: error: could not create connection for client 97
""",
        1,
    )
    assert (report["client_version"], report["server_version"]) == ("16.2", "15.4")
    assert [(e["kind"], e["client"], e["answered"]) for e in report["errors"]] == [("connection", None, True), ("connection", 97, False)]
    assert (report["tps"], report["latency_average_ms"], report["processed"], report["has_report"]) == (None, None, None, False)


@pytest.mark.parametrize("figure", ["9" * 5000, "1." + "9" * 5000])
def test_endless_numbers_are_damage_and_no_figures(figure: str) -> None:
    text = f"number of clients: {figure}\nnumber of threads: 2\ntps = {figure} (without initial connection time)\n"
    (report,) = output.parse_reports(text)
    assert (report["clients"], report["threads"], report["tps"]) == (None, 2, None)
    assert (output.number(figure) is None and output.parse_version(f"pgbench (PostgreSQL) {figure}") is None) or figure.startswith("1.")
    assert output.parse_progress(f"progress: {figure} s, 1.0 tps, lat 1.0 ms stddev 0.1") == []
    assert output.parse_init(f"{figure} of {figure} tuples (1%) done (elapsed 1.2.3 s, remaining {figure} s)\n")["tuples"] is None
    assert output.parse_aggregate_log([f"{figure} 1 1 1 1 1"])["intervals"] == []


def test_c010_a_spoilt_clock_is_no_sample() -> None:
    assert (
        output.parse_progress("progress: 5.0.0 s, 2.0 tps, lat 3.0 ms stddev 0.1\nprogress: 6.0 s, 2.0 tps, lat 3.0 ms")[0]["elapsed_s"]
        == 6.0
    )


@pytest.mark.parametrize(
    ("words", "basis"),
    [
        ("초기 연결 시간 없이", output.WITHOUT_INITIAL),
        ("没有初始连接时间", output.WITHOUT_INITIAL),
        ("初期接続時間なし", output.WITHOUT_INITIAL),
        ("bez początkowego czasu połączenia", output.WITHOUT_INITIAL),
        ("wyłączając nawiązywanie połączeń", output.EXCLUDING),
        ("włącznie z nawiązywaniem połączeń", output.INCLUDING),
        ("bağlantı kurma hariç", output.EXCLUDING),  # noqa: RUF001
        ("bağlantı kurma dahil", output.INCLUDING),  # noqa: RUF001
        ("không bao gồm thời gian kết nối ban đầu", output.WITHOUT_INITIAL),
        ("с учётом установления соединений", output.INCLUDING),  # noqa: RUF001
        ("без учёта установления соединений", output.EXCLUDING),
    ],
)
def test_c014_more_languages(words: str, basis: str) -> None:
    assert output.tps_basis(words) == (basis, True)


def test_c008_missing_figures_are_null() -> None:
    report = output.parse_report(
        """pgbench: error: client 0 script 0 aborted in command 0 query 0: ERROR:  relation "nosuch" does not exist
transaction type: /tmp/bad.sql
number of clients: 2
duration: 2 s
number of transactions actually processed: 0
number of failed transactions: 0 (NaN%)
pgbench: error: Run was aborted; the above results are incomplete.
""",
        2,
    )
    assert (report["tps"], report["latency_average_ms"], report["failed"], report["failed_pct"]) == (None, None, 0, None)
    assert (report["aborted"], report["first_error"]) == (True, 'ERROR:  relation "nosuch" does not exist')
    assert "NaN" not in json.dumps(report, allow_nan=False)


def test_c010_progress_lines() -> None:
    samples = output.parse_progress(
        """progress: 5.0 s, 2388.9 tps, lat 329.801 ms stddev 724.856
progress: 10.0 s, 0.0 tps, lat 0.000 ms stddev 0.000, 0 failed
progress: 2.0 s, 278.5 tps, lat 4.445 ms stddev 3.594, 0 failed, lag 0.581 ms, 20 skipped
progress: 1.0 s, 231.8 tps, lat 7.932 ms stddev 9.553, 256 failed, 359 retried, 651 retries
progress: 1796030200.872 s, 3349.6 tps, lat 0.296 ms stddev 0.350, 0 failed
progress: 1796030201.872 s, 3350.6 tps, lat 0.297 ms stddev 0.351, 0 failed
"""
    )
    keys = ("elapsed_s", "ts", "interval_s", "tps", "latency_ms", "stddev_ms", "failed", "lag_ms", "skipped", "retried", "retries")
    assert [tuple(s[k] for k in keys) for s in samples] == [
        (5.0, None, 5.0, 2388.9, 329.801, 724.856, None, None, None, None, None),
        (10.0, None, 5.0, 0.0, None, None, 0, None, None, None, None),
        (2.0, None, 2.0, 278.5, 4.445, 3.594, 0, 0.581, 20, None, None),
        (1.0, None, 1.0, 231.8, 7.932, 9.553, 256, None, None, 359, 651),
        (0.0, 1796030200.872, None, 3349.6, 0.296, 0.35, 0, None, None, None, None),
        (1.0, 1796030201.872, 1.0, 3350.6, 0.297, 0.351, 0, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("heading", "line", "expected"),
    [
        ("", "         0.003  \\set aid random(1, 100000 * :scale)", (0.003, None, None, "\\set aid random(1, 100000 * :scale)")),
        ("", "       141.791  UPDATE t SET b = b + :d WHERE tid = 1.5;", (141.791, None, None, "UPDATE t SET b = b + :d WHERE tid = 1.5;")),
        ("", "\t22.989001\tselect 1;", (22.989001, None, None, "select 1;")),  # 9.4
        ("", "          -nan  SELECT 2;", (None, None, None, "SELECT 2;")),  # 9.6, never executed
        (" and failures", "         0.677           0  BEGIN;", (0.677, 0, None, "BEGIN;")),
        (" and failures", "         0.677           3 SELECT 1 ; SELECT 2", (0.677, 3, None, "SELECT 1 ; SELECT 2")),  # 18
        (", failures and retries", "         0.833         480        1043  UPDATE x;", (0.833, 480, 1043, "UPDATE x;")),
        (", failures and retries", "         0.833         480        1043 -- 5 6", (0.833, 480, 1043, "-- 5 6")),
    ],
)
def test_c011_statement_tables(heading: str, line: str, expected: tuple[Any, ...]) -> None:
    report = output.parse_report(f"statement latencies in milliseconds{heading}:\n{line}\n")
    (row,) = report["statements"]
    assert (row["latency_ms"], row["failures"], row["retries"], row["text"]) == expected


C014 = {
    "결과: x86 인스턴스: tps = 2035.794849(연결 설정 제외)": (2035.794849, output.EXCLUDING),
    "결과: arm 인스턴스: tps = 2109.661869(연결 설정 제외)": (2109.661869, output.EXCLUDING),
    "tps = 2109.661869 (초기 연결 시간 제외)": (2109.661869, output.WITHOUT_INITIAL),
    "tps = 85.296346\uff08接続の確立を除く\uff09": (85.296346, output.EXCLUDING),
    "tps = 85.296346 (不包括建立连接)": (85.296346, output.EXCLUDING),
    "tps = 85.296346 (ohne Verbindungsaufbau)": (85.296346, output.EXCLUDING),
    "tps = 85.296346 (hors établissement des connexions)": (85.296346, output.EXCLUDING),
    "tps = 85.296346 (excluyendo el establecimiento de conexiones)": (85.296346, output.EXCLUDING),
    "tps = 85.296346 (исключая установление соединений)": (85.296346, output.EXCLUDING),
}


@pytest.mark.parametrize("line", C014)
def test_c014_translated_output(line: str) -> None:
    report = output.parse_report(line)
    assert (report["tps"], report["tps_basis"], report["translated"], report["low_detail"]) == (*C014[line], True, True)


@pytest.mark.parametrize(
    "line", ["tps = 85.184871 (연결 설정 포함)", "tps = 85.184871 (包括建立连接)", "tps = 85.184871 (y compris les connexions)"]
)
def test_c014_translated_including_is_no_headline(line: str) -> None:
    report = output.parse_report(line)
    assert (report["tps_including"], report["tps"], report["translated"]) == (85.184871, None, True)


@pytest.mark.parametrize(
    "line",
    [
        "tps = 2035.794849 (알 수 없음)",
        "tps = 2035.794849 (foo)",
        "tps = 2035.794849 (not including connection time)",
        "tps = 2035.794849 (including and excluding connections)",
        "tps = 2035.794849",
        "tps = 2035,794849 (excluding connections establishing)",
        "tps = 2.035.794 (excluding connections establishing)",
        "tps = 43.8k (excluding connections establishing)",
        "tps: 31,900   43,800   43,100",
    ],
)
def test_a_tps_without_known_basis_or_number_is_not_filed_by_its_place(line: str) -> None:
    report = output.parse_report(line)
    assert [report[k] for k in ("tps", "tps_including", "tps_excluding", "tps_reconnecting")] == [None] * 4
    assert report["unparsed"] == [line]


@pytest.mark.parametrize(
    "words",
    [
        "no incluye las conexiones",
        "non compris les connexions",
        "não incluindo conexões",
        "не включая установку соединений",
        "niet inclusief verbindingen",
        "bağlantı dahil değil",  # noqa: RUF001
        "未包含建立连接",
        "연결 설정 포함하지 않음",
        "연결 불포함",
    ],
)
def test_c014_a_translated_not_is_no_including(words: str) -> None:
    report = output.parse_report(f"tps = 85.184871 ({words})")
    assert (report["tps"], report["tps_including"], len(report["unparsed"])) == (None, None, 1)


def test_c014_two_points_are_two_reports() -> None:
    text = "\n".join(list(C014)[:2])
    assert [r["tps"] for r in output.parse_reports(text)] == [2035.794849, 2109.661869]
    with pytest.raises(ValueError, match="2 reports"):
        output.parse_report(text)


def test_c014_failure_is_seen_in_any_language_of_the_server() -> None:
    report = output.parse_report(
        """transaction type: s/x.sql
number of clients: 2
number of transactions actually processed: 7
client 0 script 0 aborted in command 1 query 0: ОШИБКА:  обнаружена взаимоблокировка
ПОДРОБНОСТИ:  Процесс 7 ожидает ShareLock
FEHLER:  Deadlock entdeckt
""",
        0,
    )
    assert (report["aborted"], report["clients_aborted"], report["errors"][0]["client"]) == (True, 1, 0)
    assert report["first_error"] == "ОШИБКА:  обнаружена взаимоблокировка"


def test_c016_scale_of_the_data_set_wins() -> None:
    report = output.parse_report(
        """pgbench: warning: scale option ignored, using count from pgbench_branches table (1)
scaling factor: 1
number of clients: 64
"""
    )
    assert (report["scale"], report["scale_from_table"], len(report["warnings"])) == (1, 1, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("31,900", 31900),
        ("43,800", 43800),
        ("2,035.794849", 2035.794849),
        ("1,234,567", 1234567),
        ("1 234 567", 1234567),
        ("1'234.5", 1234.5),
        ("42", 42),
        ("0.5", 0.5),
        ("2035,79", None),
        ("1,23,456", None),
        ("1.234.567", None),
        ("1,234 567", None),
        ("43.8k", None),
        ("NaN", None),
        ("-nan", None),
        ("inf", None),
        ("", None),
        ("31,900 43,800", None),
    ],
)
def test_c017_numbers(text: str, value: float | None) -> None:
    assert output.number(text) == value


def test_c017_thousands_separators_in_a_report() -> None:
    text = C002.replace("3280", "1,143,280").replace("109.334011", "2,109.334011").replace("9.146", "1,009.146")
    report = output.parse_report(text)
    assert (report["processed"], report["tps"], report["latency_average_ms"]) == (1143280, 2109.334011, 1009.146)


# other wordings -------------------------------------------------------------------------------------------------------------


def test_reports_quoted_in_prose() -> None:
    one, two = (
        capture("pgbench16_run_tpcb_t100_c4.txt")[1],
        C002,
    )
    quoted = one + "The most interesting one is:\n" + "\n".join(line for line in one.splitlines() if "latency" in line or "tps" in line)
    reports = output.parse_reports(f"{quoted}\nThen with more memory:\n{two}{two}")
    assert [r["clients"] for r in reports] == [4, 1, 1]
    assert [r["tps"] for r in reports][1:] == [109.334011] * 2


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        (C002, "9.5-"),
        (C002.replace("latency average:", "latency average ="), "9.6-13"),
        (C002.replace("latency average: 9.146 ms\n", ""), "9.5-"),
        (C002.replace("latency average:", "latency average =").replace(" (", "("), "9.6-13"),  # a blank lost in copying
        ("number of transactions actually processed: 5\nlatency average = 1.0 ms\ntps = 5.0 (including reconnection times)\n", "14+"),
        ("transaction type: <builtin: select only>\nmaximum number of tries: 1\n", "14+"),
        ("nothing of pgbench\n", None),
    ],
)
def test_generation_by_the_wording(text: str, generation: str | None) -> None:
    assert output.parse_report(text)["generation"] == generation


@pytest.mark.parametrize(
    ("text", "value"),
    [("117,390", None), ("0,110", None), ("1,009.390", 1009.39), ("12", 12), ("12.5", 12.5), ("1,009,390", None), ("nan", None)],
)
def test_c017_a_decimal_comma_is_not_guessed_where_decimals_are_printed(text: str, value: float | None) -> None:
    """Milliseconds and shares always have their point: a comma alone may stand for it, or set thousands apart."""
    assert output.decimal(text) == value
    report = output.parse_report(f"number of failed transactions: 289 ({text}%)\nlatency average = {text} ms\n")
    assert (report["failed"], report["failed_pct"], report["latency_average_ms"]) == (289, value, value)
    assert output.parse_report(f"rate limit schedule lag: avg {text} (max {text}) ms\n")["lag_max_ms"] == value
    (sample,) = output.parse_progress(f"progress: 5.0 s, 2388.9 tps, lat {text} ms stddev {text}")
    assert (sample["tps"], sample["latency_ms"], sample["stddev_ms"]) == (2388.9, value, value)


def test_infinite_rate_is_null() -> None:
    report = output.parse_report(C002.replace("109.334011", "inf"))
    assert (report["tps"], report["tps_basis"], report["tps_including"]) == (None, None, 109.331207)


def test_comments_behind_the_figures() -> None:
    text = C002.replace("clients: 1", "clients: 1      # sessions").replace(
        "tps = 109.334011 (excluding connections establishing)", "tps = 109.334011 (excluding connections)   # <- this one"
    )
    report = output.parse_report(text)
    assert (report["clients"], report["tps"], report["unparsed"]) == (1, 109.334011, [])


def test_a_key_within_a_sentence_is_not_a_figure() -> None:
    text = "invalid number of clients: 0\nthe number of threads: 4 of them\n"
    report = output.parse_report(text, 1)
    assert (report["clients"], report["threads"], report["first_error"]) == (None, None, "invalid number of clients: 0")


def test_colours_are_not_text() -> None:
    assert output.parse_report("\x1b[1mnumber of clients: 4\x1b[0m\n")["clients"] == 4


def test_94_average_of_a_run_of_transactions_is_not_0() -> None:
    report = output.parse_report(C002.replace("duration: 30 s", "number of transactions per client: 10").replace("9.146", "0.000"))
    assert report["latency_average_ms"] is None


def test_script_counts_mean_the_same_in_every_version() -> None:
    def script(body: str) -> dict[str, Any]:
        text = "transaction type: multiple scripts\nSQL script 1: a.sql\n - weight: 1 (targets 50.0% of total)\n" + body
        return output.parse_report(text)["scripts"][0]

    until_14 = script(" - 100 transactions (50.0% of total, tps = 9.5)\n - number of transactions skipped: 5 (5.000%)\n")
    until_17 = script(
        " - 80 transactions (50.0% of total, tps = 9.5)\n"
        " - number of failed transactions: 15 (15.000%)\n"
        " - number of transactions skipped: 5 (5.000%)\n"
    )
    from_18 = script(
        " - 100 transactions (50.0% of total)\n"
        " - number of transactions actually processed: 80 (tps = 9.5)\n"
        " - number of failed transactions: 15 (15.000%)\n"
    )
    assert (until_14["transactions"], until_14["processed"]) == (100, 95)
    assert (until_17["transactions"], until_17["processed"], until_17["failed"]) == (100, 80, 15)
    assert (from_18["transactions"], from_18["processed"], from_18["tps"]) == (100, 80, 9.5)


def test_96_repeats_figures_under_script_statistics() -> None:
    report = output.parse_report(
        """transaction type: <builtin: select only>
number of transactions skipped: 7 (1.0 %)
number of transactions above the 2.0 ms latency limit: 3 (0.4 %)
latency average = 1.000 ms
script statistics:
 - number of transactions skipped: 7 (1.000%)
 - statement latencies in milliseconds:
         0.001  \\set aid random(1, 100000 * :scale)
"""
    )
    assert (report["skipped"], report["skipped_pct"], report["late"], report["late_pct"], len(report["statements"])) == (7, 1.0, 3, 0.4, 1)
    assert report["unparsed"] == []


def test_19_other_failures() -> None:
    report = output.parse_report("number of failed transactions: 3 (1.500%)\nnumber of other failures: 3 (1.500%)\n")
    assert (report["failed"], report["other_failures"]) == (3, 3)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("client 3 aborted in state 7: ERROR:  deadlock detected", (3, None, 7, "ERROR:  deadlock detected", False)),
        (
            "Client 3 aborted in state 7. Probably the backend died while processing.",
            (3, None, 7, "Probably the backend died while processing.", True),
        ),
        ("client 1 aborted in command 3 of script 2; ERROR:  x", (1, 2, 3, "ERROR:  x", False)),
        ("pgbench: error: client 1 script 0 aborted in command 3 query 0: ERROR:  x", (1, 0, 3, "ERROR:  x", False)),
        ("client 1 script 0 aborted in command 3 query 0: FATAL:  terminating", (1, 0, 3, "FATAL:  terminating", True)),
        ("client 1 script 0 aborted in command 3 query 0: ВАЖНО:  x", (1, 0, 3, "ВАЖНО:  x", True)),
        ("pgbench: error: client 2 aborted while establishing connection", (2, None, None, "while establishing connection", True)),
        (
            "pgbench: error: client 2 aborted: end of script reached with pipeline open",
            (2, None, None, "end of script reached with pipeline open", False),
        ),
    ],
)
def test_aborted_clients_of_every_version(line: str, expected: tuple[Any, ...]) -> None:
    (error,) = output.parse_report(line, 0)["errors"]
    assert (error["client"], error["script"], error["command"], error["text"], error["lost"]) == expected


def test_a_lost_connection_in_the_detail_of_an_error() -> None:
    text = "client 2 script 0 aborted in command 3 query 0: FATAL:  x\nserver closed the connection unexpectedly\n\tThis probably means\n"
    (error,) = output.parse_report(text, 2)["errors"]
    assert error["lost"] and error["detail"].startswith("server closed")


def test_refusal_of_12_stands_on_its_own_line() -> None:
    text = 'connection to database "bench" failed:\nFATAL:  sorry, too many clients already\n'
    (error,) = output.parse_report(text, 1)["errors"]
    assert (error["kind"], error["answered"], error["detail"]) == ("connection", True, "FATAL:  sorry, too many clients already")


def test_messages_without_prefix_of_12_are_kept() -> None:
    report = output.parse_report('ERROR:  relation "pgbench_branches" does not exist\n', 1)
    assert report["first_error"] == 'ERROR:  relation "pgbench_branches" does not exist'


def test_statement_text_is_never_a_message_or_a_figure() -> None:
    row = "         0.003  SELECT 'number of clients: 7', 'connection to server failed', 'tps = 5 (excluding connections)';"
    report = output.parse_report(f"statement latencies in milliseconds:\n{row}\nnumber of clients: 2\n")
    assert (report["clients"], report["tps"], report["errors"], len(report["statements"])) == (2, None, [], 1)


# progress and initialisation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunk", "tps"),
    [
        ("progress: 1.0 s, 10.5 tps, lat 1.0 ms stddev 0.1\nprogress: 2.0 s, 20.5 tps, lat 1.0 ms stddev 0.1\n", 20.5),
        ("progress: 1.0 s, 10.5 tps, lat 1.0 ms stddev 0.1\nprogress: 2.0 s, 20", 10.5),
        ("s, 9.5 tps, lat 1.0 ms stddev 0.1\nprogress: 1.0 s, 10.5 tps, lat 1", None),
        ("", None),
    ],
)
def test_last_progress_takes_whole_lines_only(chunk: str, tps: float | None) -> None:
    sample = output.last_progress(chunk)
    assert (sample["tps"] if sample else None) == tps


def test_progress_without_a_number_is_null() -> None:
    (sample,) = output.parse_progress("progress: 1.0 s, 5.0 tps, lat -nan ms stddev nan, lag inf ms")
    assert (sample["latency_ms"], sample["stddev_ms"], sample["lag_ms"]) == (None, None, None)


def test_progress_of_one_thread_is_not_of_the_run() -> None:
    assert output.parse_progress("progress 1: 5.0 s, 100.0 tps, lat 1.0 ms stddev 0.1\n") == []  # 9.4, 9.5 without threads


@pytest.mark.parametrize("row", INITS, ids=[row["file"] for row in INITS])
def test_initialisation(row: dict[str, str]) -> None:
    _status, text = capture(row["file"])
    init = output.parse_init(text)
    assert (init["complete"], init["phase"], init["seconds"], init["errors"]) == (True, None, float(row["seconds"]), [])
    assert "; ".join(f"{s['name']} {s['seconds']:.2f} s" for s in init["steps"]) == row["steps"]
    assert (str(init["tuples"]["total"]) if init["tuples"] else "") == row["tuples"]


def test_initialisation_of_10_and_in_progress() -> None:
    text = "creating tables...\n100000 of 1000000 tuples (10%) done (elapsed 0.43 s, remaining 3.86 s)\n"
    init = output.parse_init(text)
    assert (init["complete"], init["phase"], init["tuples"]["percent"], init["seconds"]) == (False, "create tables", 10, None)
    done = output.parse_init(text + "vacuum...\nset primary key...\nset foreign keys...\ndone.\n")
    assert (done["complete"], done["seconds"]) == (True, None)
    assert [s["name"] for s in done["steps"]] == ["create tables", "vacuum", "primary keys", "foreign keys"]


def test_initialisation_on_a_terminal() -> None:
    text = (
        "100 of 200 tuples (50%) of pgbench_tellers done (elapsed 0.00 s, remaining 0.00 s)\r"
        "200 of 200 tuples (100%) of pgbench_tellers done (elapsed 0.01 s, remaining 0.00 s)   \r"
    )
    assert output.parse_init(text)["tuples"] == {
        "table": "pgbench_tellers",
        "done": 200,
        "total": 200,
        "percent": 100,
        "elapsed_s": 0.01,
        "remaining_s": 0.0,
    }


def test_failed_initialisation_keeps_its_error() -> None:
    init = output.parse_init("generating data (client-side)...\npgbench: error: could not extend file: No space left on device\n")
    assert (init["complete"], init["phase"]) == (False, "client-side generate")
    assert init["first_error"] == "could not extend file: No space left on device"


# versions and aggregate logs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version", "major", "num", "stage", "engine", "package"),
    [
        ("pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18", "15", 150018, None, "PostgreSQL", "Debian 15.18-0+deb12u1"),
        ("pgbench (PostgreSQL) 9.6.24", "9.6.24", "9.6", 90624, None, "PostgreSQL", None),
        ("pgbench (PostgreSQL) 19devel", "19devel", "19", 190000, "devel", "PostgreSQL", None),
        ("pgbench (PostgreSQL) 18beta2 (Ubuntu 18~beta2-1)", "18beta2", "18", 180000, "beta2", "PostgreSQL", "Ubuntu 18~beta2-1"),
        ("pgbench (PostgreSQL) 17rc1", "17rc1", "17", 170000, "rc1", "PostgreSQL", None),
        ("pgbench (EnterpriseDB) 14.2.1", "14.2.1", "14", 140002, None, "EnterpriseDB", None),
        ("16.2", "16.2", "16", 160002, None, None, None),
        ("perl: warning: Setting locale failed.\npgbench (PostgreSQL) 13.16\n", "13.16", "13", 130016, None, "PostgreSQL", None),
    ],
)
def test_versions(text: str, version: str, major: str, num: int, stage: str | None, engine: str | None, package: str | None) -> None:
    expected = {"engine": engine, "version": version, "major": major, "num": num, "stage": stage, "package": package}
    assert output.parse_version(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/usr/bin/pgbench: error while loading shared libraries: libpq.so.5: no such file", "error while loading shared libraries"),
        ("bash: line 1: pgbench: command not found", "command not found"),
        ('pgbench: setting random seed to 20\npgbench: too many command-line arguments (first is "x")\nTry --help', "too many command"),
    ],
)
def test_a_program_that_did_not_start_says_why(text: str, said: str) -> None:
    assert output.parse_report(text, 127)["first_error"].startswith(said)
    assert output.parse_report(text, 0)["first_error"] is None


@pytest.mark.parametrize("text", ["", "bash: pgbench: command not found"])
def test_no_version(text: str) -> None:
    assert output.parse_version(text) is None


@pytest.mark.parametrize("path", sorted((FIXTURES / "logs").iterdir()), ids=lambda p: p.name)
def test_aggregate_logs(path: Path) -> None:
    rate = "aggrate" in path.name
    lines = path.read_text(encoding="utf-8").splitlines()
    log = output.parse_aggregate_log(lines, lag=rate, skipped=rate)
    assert (len(log["intervals"]), log["problems"]) == (len(lines), [])
    for interval, line in zip(log["intervals"], lines, strict=True):
        cells = [int(c) for c in line.split()]
        done = cells[1] - (cells[10] if len(cells) == 11 else 0)
        assert (interval["start"], interval["n"], interval["latency_max_ms"]) == (cells[0], done, cells[5] / 1000)
        assert interval["latency_average_ms"] == cells[2] / done / 1000
        assert interval["skipped"] == (cells[10] if rate else None)
        assert interval["lag_max_ms"] == (cells[9] / 1000 if rate else None)
        assert interval["serialization_failures"] == (cells[13] if len(cells) == 15 else None)


def test_aggregate_logs_c013_options_decide_the_columns() -> None:
    with_lag = "1796030323 2 3000 4500000 1000 2000 30 500 10 20"
    assert output.parse_aggregate_log([with_lag], lag=True)["intervals"][0]["lag_average_ms"] == 0.015
    assert output.parse_aggregate_log([with_lag])["problems"]  # ten columns that the options do not explain
    assert output.parse_aggregate_log([with_lag + " 0"], lag=True, skipped=True)["intervals"][0]["skipped"] == 0
    empty = output.parse_aggregate_log(["1796030323 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"])["intervals"][0]  # 19
    assert (empty["n"], empty["latency_average_ms"], empty["other_failures"]) == (0, None, 0)
    assert output.parse_aggregate_log(["1796030323 2 3000 4500000 1000"])["problems"]  # cut in mid-line


def test_aggregate_logs_c013_a_log_of_single_transactions_is_none() -> None:
    log = output.parse_aggregate_log(["0 1 8164 0 1796030202 118936", "1796030323 2 3000 4500000 1000 2000"])
    assert [i["start"] for i in log["intervals"]] == [1796030323]
    assert log["problems"] == ["line 1: 0 is no time at which an interval begins: 0 1 8164 0 1796030202 118936"]


def test_aggregate_logs_of_14_and_before_count_skipped_transactions() -> None:
    line = "1796030326 {} 6000 20000000 1000 3000 300 50000 50 150 {}"
    (interval,) = output.parse_aggregate_log([line.format(8, 5)], lag=True, skipped=True)["intervals"]
    assert (interval["n"], interval["skipped"], interval["latency_average_ms"], interval["lag_average_ms"]) == (3, 5, 2.0, 0.1)
    (interval,) = output.parse_aggregate_log([line.format(5, 5)], lag=True, skipped=True)["intervals"]
    assert (interval["n"], interval["latency_average_ms"], interval["latency_max_ms"]) == (0, None, None)
    (interval,) = output.parse_aggregate_log([line.format(3, 5) + " 0 0 0 0"], lag=True, skipped=True)["intervals"]  # 15 leaves them out
    assert (interval["n"], interval["skipped"], interval["latency_average_ms"]) == (3, 5, 2.0)
    spoilt = output.parse_aggregate_log([line.format(4, 5)], lag=True, skipped=True)
    assert (spoilt["intervals"], len(spoilt["problems"])) == ([], 1)
