# GNU General Public License v3.0 or later (see LICENSE)
"""The workload tprocc by HammerDB: parameters, scripts, and the measurement of real runs of 4.5, 4.12, 5.0 and 6.0."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import hammerdb_script as script
from ansible_collections.pgsizing.bench.plugins.module_utils import verdict
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import verdict as verdict_of
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import hammerdb, tprocc

FIXTURES = Path(__file__).parents[4] / "fixtures" / "hammerdb"
CONNECTION = {
    "host": "/run/pg",
    "port": 5433,
    "user": "bench",
    "dbname": "db",
    "home": "/opt/HammerDB-4.12",
    "ssl_mode": "prefer",
    "psql": "/opt/pg/bin/psql",
}
#: Figures that HammerDB printed, users, seconds of ramp-up and window, calls of new orders in its time profile (each counted once).
RUNS: dict[str, tuple[Any, ...]] = {
    "4.5": (20908, 49080, 4, 12, 30, 14837),
    "4.12": (27220, 62165, 4, 12, 60, 35477),
    "5.0": (17102, 39350, 4, 12, 30, 11849),
    "6.0": (18848, 43800, 4, 12, 30, 13608),
}


def params(**given: Any) -> dict[str, Any]:
    return hammerdb.complete(given, cores=2)


def step(name: str = "measured", rc: int | None = 0, out: str = "", err: str = "", **job: Any) -> dict[str, Any]:
    known = {"state": "finished", "rc": rc, "stopped": None, "started": 10.0, "ended": 90.0, "elapsed_s": 80.0, "rusage": {}, **job}
    return {"name": name, "argv": ["sh", "hammerdb.sh"], "version": "4.12", "job": known, "stdout": out, "stderr": err}


def captured(version: str) -> dict[str, Any]:
    """The measured step of a real run."""
    texts = [(FIXTURES / "clocked" / version / f"run.{stream}").read_text(encoding="utf-8") for stream in ("stdout", "stderr")]
    begin = float(re.findall(r"^@([\d.]+)", texts[1], re.MULTILINE)[0])
    usage = {"user_s": 8.0, "system_s": 2.0, "max_rss_bytes": 75_000_000}
    return {**step("measured", 0, *texts, started=begin - 3, ended=begin + 80, rusage=usage), "version": f"HammerDB CLI v{version}"}


def shared(name: str) -> str:
    """The console of a run by another script, without our clock."""
    return (FIXTURES / "captures" / f"{name}_console.txt").read_text(encoding="utf-8")


def codes(measurement: dict[str, Any]) -> list[str]:
    return [f["code"] for f in measurement["findings"]]


GOOD = {
    "warehouses": 2,
    "last": 2,
    "districts": 20,
    "built": None,
    "routines": dict.fromkeys(("delivery", "neword", "ostat", "payment", "slev"), "p"),
    "violations": {"1": 0, "2": 0, "3": 0, "4": 0},
}


def answer(name: str, **changes: Any) -> dict[str, Any]:
    return step(name, out=json.dumps({**GOOD, **changes}) + "\n")


# parameters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"warehouses": 10, "clients": 4, "duration": 30, "ramp_up": 24, "storedprocs": True, "load_sessions": 2, "user_delay": 500}),
        ({"database_size": "120GB"}, {"warehouses": tprocc.complete({"database_size": "120GB"})["warehouses"], "database_size": None}),
        ({"clients": 96, "ramp_up": 24}, {"user_delay": 125}),  # all of them started by the middle of the ramp-up
        ({"clients": 96, "ramp_up": 300}, {"user_delay": 500}),
        ({"clients": 8, "ramp_up": 0}, {"user_delay": 1}),
        ({"user_delay": 20}, {"user_delay": 20}),
    ],
)
def test_defaults(given: dict[str, Any], expected: dict[str, Any]) -> None:
    completed = hammerdb.complete(given, 2)
    assert {k: completed[k] for k in expected} == expected
    assert hammerdb.complete(completed, 2) == completed
    assert hammerdb.validate(completed) == []


def test_parameters_of_the_built_in_driver_mean_the_same() -> None:
    """What both drivers take has one name, one type and, but for the ramp-up's step, one default."""
    both = set(hammerdb.OPTIONS) & set(tprocc.OPTIONS)
    assert both >= {"warehouses", "database_size", "load_sessions", "clients", "duration", "ramp_up", "all_warehouses"}
    assert {n for n in both if hammerdb.OPTIONS[n] != tprocc.OPTIONS[n]} == {"ramp_up"}
    assert (hammerdb.WORKLOAD, hammerdb.HEADLINE) == (tprocc.WORKLOAD, tprocc.HEADLINE)
    assert set(hammerdb.DATA_PARAMETERS) <= set(hammerdb.OPTIONS)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"warehouses": 0}, "warehouses: 0 is not a whole number of 1 or more"),
        ({"clients": 0}, "clients: 0 is not"),
        ({"clients": True}, "clients: True is not"),
        ({"duration": 0}, "duration: 0 is not"),
        ({"ramp_up": -1}, "ramp_up: -1 is not a whole number of 0"),
        ({"user_delay": 0}, "user_delay: 0 is not"),
        ({"load_sessions": 2000}, "up to 1024 virtual users"),
        ({"database_size": "large"}, "database_size: 'large' is not a size"),
        ({"database_size": "1GB", "warehouses": 3}, "exclude each other"),
    ],
)
def test_what_cannot_be(given: dict[str, Any], text: str) -> None:
    problems = hammerdb.validate(params(**given))
    assert len(problems) == 1 and text in problems[0]


def test_versions() -> None:
    assert hammerdb.unsupported(params(), "HammerDB CLI v3.3") == ["HammerDB 3.3 is too old; 4.0 or later is needed"]
    assert hammerdb.unsupported(params(), "HammerDB CLI v4.5") == []
    assert hammerdb.unsupported(params(), "pgbench (PostgreSQL) 15.20") == []  # what a plan knows of the driver


@pytest.mark.parametrize(
    ("seconds", "minutes", "real"),
    [(60, "1", 60), (0, "0", 0), (1, "0.1", 6), (6, "0.1", 6), (7, "0.2", 12), (24, "0.4", 24), (1800, "30", 1800), (246, "4.2", 252)],
)
def test_lengths_that_hammerdb_can_end(seconds: int, minutes: str, real: int) -> None:
    """4.1 minutes (246 s) are 245,999.99… ms in floating point, which a sum of sleeps of 6,000 never equals: such a run does not end."""
    assert hammerdb.ticks(seconds) == (minutes, real)


def test_every_length_ends() -> None:
    for seconds in range(0, 20000, 7):
        minutes, real = hammerdb.ticks(seconds)
        assert float(minutes) * 60000 == real * 1000 and seconds <= real < seconds + 60


def test_dataset_is_another_one_than_the_built_in_loaders() -> None:
    same = hammerdb.dataset(params(warehouses=4))["fingerprint"]
    assert same == hammerdb.dataset(params(warehouses=4, clients=99, duration=1))["fingerprint"]
    others = [{"warehouses": 5}, {"warehouses": 4, "storedprocs": False}, {"warehouses": 4, "partition": True}]
    prints = {same, *(hammerdb.dataset(params(**p))["fingerprint"] for p in others), tprocc.dataset({"warehouses": 4})["fingerprint"]}
    assert len(prints) == 5


def test_estimates() -> None:
    p = params(warehouses=40, load_sessions=4, duration=60, ramp_up=20)
    assert hammerdb.run_seconds(p, 2) == 84  # 24 + 60
    assert hammerdb.load_seconds(p) == pytest.approx(290)
    assert hammerdb.dataset_bytes(p) == tprocc.dataset_bytes({"warehouses": 40})
    assert hammerdb.sampling_for(p, 1e6, 1) == 1.0 and hammerdb.log_layout(p) == {} and hammerdb.guess_tps(p, 2) > 0
    assert hammerdb.needs_dataset(p)


# commands ------------------------------------------------------------------------------------------------------------


def settings_of(text: str) -> dict[str, str]:
    body = re.findall(r"^ +pgsizing::set_all \{(.*?)\}", text, re.DOTALL | re.MULTILINE)
    words = body[0].split()
    return dict(zip(words[1::3], words[2::3], strict=True))


def test_run_steps() -> None:
    p = params(warehouses=40, clients=8, duration=60, ramp_up=20, all_warehouses=True, time_profile=True)
    measured, after = hammerdb.run_steps(p, "4.12", CONNECTION)
    assert measured["argv"][:4] == ["sh", "hammerdb.sh", "/opt/HammerDB-4.12", "run.tcl"]
    assert measured["argv"][4] == "/opt/pg/bin/psql" and measured["argv"][-3:] == ["--username=bench", "--dbname=db", "--file=counts.sql"]
    assert set(measured["files"]) == {"hammerdb.sh", "run.tcl", "counts.sql"}
    assert (measured["planned_s"], measured["grace_s"] > 300) == (84.0, True)
    text = measured["files"]["run.tcl"]
    wanted = {"pg_count_ware": "40", "pg_storedprocs": "true", "pg_driver": "timed", "pg_rampup": "0.4", "pg_duration": "1"}
    wanted |= {"pg_allwarehouse": "true", "pg_timeprofile": "true", "pg_raiseerror": "true", "pg_vacuum": "false", "pg_host": "/run/pg"}
    wanted |= {"pg_superuser": "bench", "pg_user": "bench", "pg_dbase": "db", "pg_defaultdbase": "db", "pg_port": "5433"}
    assert {k: settings_of(text)[k] for k in wanted} == wanted
    assert "vu 8 delay 500" in text and "@" not in re.sub(r"@%\.3f", "", text)
    assert "watch 1\n" in measured["files"]["counts.sql"]
    assert after["argv"][0] == "/opt/pg/bin/psql" and "violations" in after["files"]["after.sql"]


def test_c026_a_run_is_always_timed_and_names_its_users() -> None:
    text = hammerdb.run_steps(params(), "4.12", CONNECTION)[0]["files"]["run.tcl"]
    values = settings_of(text)
    assert (values["pg_driver"], values["pg_duration"], values["pg_rampup"]) == ("timed", "0.5", "0.4")
    assert "{vu 4 " in text


def test_no_password_is_in_any_script() -> None:
    """``''`` is an empty password to libpq, which then reads its password file; HammerDB has nothing to keep or print."""
    steps = [*hammerdb.load_steps(params(), "4.12", CONNECTION), *hammerdb.run_steps(params(), "4.12", CONNECTION)]
    for one in steps:
        for text in one["files"].values():
            for name, value in re.findall(r"(pg_\w*pass) (\S+)", text):
                assert value == "''", name


@pytest.mark.parametrize(
    ("version", "names"), [("4.5", ["load", "verify"]), ("4.9", ["load", "verify"]), ("4.10", ["load", "verify", "checkschema"])]
)
def test_load_steps(version: str, names: list[str]) -> None:
    steps = hammerdb.load_steps(params(warehouses=3, load_sessions=8), f"HammerDB CLI v{version}", CONNECTION)
    assert [s["name"] for s in steps] == names
    values = settings_of(steps[0]["files"]["build.tcl"])
    assert (values["pg_count_ware"], values["pg_num_vu"], values["pg_partition"]) == ("3", "3", "false")
    assert "ALTER USER" in steps[0]["files"]["build.tcl"]


def test_counting_many_warehouses_is_done_less_often() -> None:
    files = hammerdb.run_steps(params(warehouses=4000), "4.12", CONNECTION)[0]["files"]
    assert "watch 4\n" in files["counts.sql"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"host": None}, None),
        ({"host": "fe80::1%eth0"}, None),
        ({"host": "db1 sslmode=disable"}, "login_host"),
        ({"host": "[exec id]"}, "login_host"),
        ({"user": 'a"b'}, "login_user"),
        ({"user": "$x"}, "login_user"),
        ({"dbname": "my db"}, "login_db"),
        ({"dbname": "-d"}, "login_db"),
        ({"home": "HammerDB-4.12"}, "home"),
    ],
)
def test_what_hammerdb_does_not_quote_is_refused(change: dict[str, Any], problem: str | None) -> None:
    problems = script.connection_problems({**CONNECTION, **change})
    assert [p.partition(":")[0] for p in problems] == ([problem] if problem else [])


# results of real runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", RUNS)
def test_measurement_of_a_real_run(version: str) -> None:
    nopm, tpm, clients, ramp_up, duration, calls = RUNS[version]
    p = params(warehouses=2, clients=clients, ramp_up=ramp_up, duration=duration, time_profile=True)
    m = hammerdb.result(p, [captured(version), answer("after")])
    assert {k: (v["value"], v["unit"]) for k, v in m["metrics"].items()} == {"nopm": (nopm, "1/min"), "tpm": (tpm, "1/min")}
    assert m["load_generator"]["version"] == version
    assert (m["conditions"]["clients"], m["conditions"]["ramp_up_s"], m["conditions"]["duration_s"]) == (clients, ramp_up, duration)
    assert m["conditions"]["window_s"] == pytest.approx(duration, rel=0.002)
    assert m["conditions"]["counted"]["nopm"] == pytest.approx(nopm, rel=0.01)
    assert [(s["name"], round(s["elapsed_s"] or 0)) for s in m["steps"]] == [("ramp_up", ramp_up), ("measured", duration), ("after", 80)]
    assert m["window"] == {"from": m["steps"][1]["started"], "to": m["steps"][1]["ended"]}
    assert [row["name"] for row in m["latency"]["scripts"]] == ["neword", "payment", "delivery", "slev", "ostat"]
    assert m["latency"]["scripts"][0]["n"] == calls
    assert len(m["progress"]) == pytest.approx(duration, abs=1)
    assert all(s["nopm"] >= 0 and 0 <= s["elapsed_s"] <= duration + 1 for s in m["progress"])
    assert len(m["conditions"]["transaction_counter"]["samples"]) == pytest.approx(duration / 5, abs=1)
    expected = ["profile_ramp_up"] if version in ("4.5", "6.0") else ["profile_doubled", "profile_ramp_up"]
    assert codes(m) == expected
    judged = verdict.judge({"headline": "nopm", "parameters": p, "measurement": m, "progress": m["progress"]})
    assert verdict_of(m["findings"] + judged) == "valid"
    json.dumps(m, allow_nan=False)


def test_profile_counts_the_calls_of_the_database() -> None:
    """Orders that psql counted from before the run to after it are the calls of the time profile: each once, ramp-up and end included."""
    for version, row in RUNS.items():
        lines = [line.split() for line in captured(version)["stdout"].splitlines() if re.match(r"\d+\.\d+ \d+ \d+ ", line)]
        assert int(lines[-1][1]) - int(lines[0][1]) == pytest.approx(row[5], abs=8), version


def test_without_our_clock_there_is_a_result_and_nothing_is_made_up() -> None:
    m = hammerdb.result(params(clients=4, ramp_up=0), [step(err=shared("v4.12_run_vu4_sp_noprof_homewh"))])
    assert m["metrics"]["nopm"]["value"] == 18796
    assert (m["conditions"]["window_s"], m["conditions"]["counted"], m["progress"]) == (None, None, [])
    assert codes(m) == ["not_checked"]
    assert [s["name"] for s in m["steps"]] == ["measured"]
    assert m["window"] == {"from": 10.0, "to": 90.0}


def test_latencies_from_the_job_store_when_there_is_no_report() -> None:
    m = hammerdb.result(params(clients=4, time_profile=True), [step(err=shared("v4.12_run_vu4_sp_prof_allw"))])
    row = m["latency"]["scripts"][0]
    assert (row["name"], row["n"], row["p99"], row["stddev"]) == ("neword", 17710, 17.038, 3.440856)
    assert "profile_doubled" in codes(m)


def test_job_store_up_to_4_11_holds_the_last_users_row() -> None:
    text = shared("v4.12_run_vu4_sp_prof_allw").replace("HammerDB CLI v4.12", "HammerDB CLI v4.11")
    m = hammerdb.result(params(clients=4, time_profile=True), [step(err=text)])
    assert m["latency"]["scripts"] == [] and "profile_missing" in codes(m)


def test_a_stale_profile_is_not_taken() -> None:
    """The report of an earlier run in the same file: its time is before this run's start."""
    one = captured("4.12")
    late = {**one, "job": {**one["job"], "started": one["job"]["started"] + 3600}}
    late["stderr"] = re.sub(r"=== jobs \w+ timing.*?(?====)", "", late["stderr"], flags=re.DOTALL)
    m = hammerdb.result(params(warehouses=2, time_profile=True), [late])
    assert m["latency"]["scripts"] == []
    assert "profile_missing" in codes(m)


def test_functions_are_said_to_be_other_work() -> None:
    m = hammerdb.result(params(clients=4, storedprocs=False), [step(err=shared("v4.12_run_vu4_FUNCTIONS_prof_allw"))])
    assert "functions_mode" in codes(m) and m["conditions"]["storedprocs"] is False


@pytest.mark.parametrize("name", ["v4.12_run_vu8_sp_prof_allw", "v4.12_run2_vu8_sp_noprof_allw"])
def test_c020_ratio_of_real_runs_is_no_outlier(name: str) -> None:
    m = hammerdb.result(params(clients=8, ramp_up=0), [step(err=shared(name))])
    assert "tpm_nopm_ratio" not in [f["code"] for f in verdict.judge({"headline": "nopm", "parameters": {}, "measurement": m})]


@pytest.mark.parametrize(
    ("tpm", "nopm", "flagged"),
    [(157548, 68499, False), (337846, 141369, True), (622485, 270483, False), (1128086, 490532, False)],
)
def test_c020_published_ratios(tpm: int, nopm: int, flagged: bool) -> None:
    text = f"Vuser 1:TEST RESULT : System achieved {nopm} NOPM from {tpm} PostgreSQL TPM\n"
    m = hammerdb.result(params(clients=4, duration=1800), [step(err=text)])
    found = [f["code"] for f in verdict.judge({"headline": "nopm", "parameters": {"duration": 1800}, "measurement": m})]
    assert ("tpm_nopm_ratio" in found) == flagged


# what a run is worth -------------------------------------------------------------------------------------------------

BEGIN = "Vuser 1:Beginning rampup time of 2 minutes\n"
RESULT = "Vuser 1:TEST RESULT : System achieved 141000 NOPM from 324300 PostgreSQL TPM\n"


def ends(*failed: int, users: int = 5) -> str:
    return "".join(f"Vuser {n}:FINISHED {'FAILED' if n in failed else 'SUCCESS'}\n" for n in range(1, users + 1))


def worth(text: str, rc: int | None = 0, p: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
    return hammerdb.result(p or params(clients=4), [step(err=text, rc=rc, **job)])


@pytest.mark.parametrize(
    ("text", "rc", "code", "said"),
    [
        ("", 3, "no_result", "status 3"),
        (
            "./hammerdbcli: version `GLIBC_2.38' not found\n",
            1,
            "no_result",
            "the last line was: ./hammerdbcli: version `GLIBC_2.38' not found",
        ),
        ("@1796055582.9 Vuser 2:RUNNING\nKilled\n", 137, "no_result", "status 137 and printed no result; the last line was: Killed"),
        (2 * RESULT + ends(), 0, "no_result", "2 results within the bounds of one run"),
        ("Vuser 2:new order\nVuser 1:payment\n", 0, "no_result", "test driver output, not a timed run"),
        ("Error: Virtual Users exist, destroy with vudestroy before creating\n", 0, "load_generator_failed", "Virtual Users exist"),
        ("Error: wrong database driver: Pgtcl 3.0.0\n", 5, "load_generator_failed", "cannot work with this database driver"),
        ("Error: no database driver: libpq.so.5: cannot open shared object file\n", 5, "load_generator_failed", "libpq.so.5"),
        (
            "Error in Virtual User 3: connection to server failed: FATAL:  sorry, too many clients already\n",
            4,
            "too_many_clients",
            "4 virtual users",
        ),
        ("Error in Virtual User 1: FATAL:  the database system is starting up\n", 4, "server_unreachable", "starting up"),
        ('Error in Virtual User 1: connection to server at "db1" failed: Connection refused\n', 4, "server_unreachable", "refused"),
        (
            "Error in Virtual User 2: ERROR:  function neword(integer, integer) does not exist\n",
            4,
            "dataset_failed",
            "not the ones that storedprocs=true calls",
        ),
        (
            "Vuser 1:Timing test period of 1 in minutes\nError in Virtual User 1: server closed the connection unexpectedly\n",
            4,
            "server_lost",
            "lost during the run",
        ),
        ("Error in Virtual User 2: ERROR:  numeric field overflow\n", 4, "load_generator_failed", "numeric field overflow"),
        (
            'Error in Virtual User 1: connection to server at "db1", port 5432 failed: FATAL:  database "tpcc" does not exist\n',
            4,
            "load_generator_failed",
            'the server refused the connection: connection to server at "db1"',
        ),
        (
            'Error in Virtual User 1: FATAL:  password authentication failed for user "tpcc"\n',
            4,
            "load_generator_failed",
            "the server refused the connection",
        ),
        ('Error in Virtual User 1: ERROR:  relation "district" does not exist\n', 4, "dataset_failed", "holds no TPROC-C schema"),
        (
            "Error: Virtual Users exist, destroy with vudestroy before creating\n" + RESULT + ends(),
            0,
            "no_result",
            "the result may be theirs and is not taken",
        ),
        (
            BEGIN
            + RESULT
            + ends()
            + BEGIN
            + "Error in Virtual User 1: FATAL:  the database system is starting up\nVuser 1:FINISHED FAILED\n",
            0,
            "no_result",
            "2 runs within the bounds of one",
        ),
    ],
)
def test_runs_without_a_result(text: str, rc: int, code: str, said: str) -> None:
    m = worth(text, rc)
    assert [f["code"] for f in m["findings"]] == [code]
    assert said in m["findings"][0]["message"]
    assert m["metrics"] == {}


def test_c022_result_of_an_earlier_run_is_not_taken() -> None:
    """The last run of a shared log failed; 68110 is not its result."""
    text = "Error in Virtual User 1: FATAL:  the database system is starting up\nVuser 1:FINISHED FAILED\n"
    m = worth(text, 4)
    assert (codes(m), m["metrics"]) == (["server_unreachable"], {})


@pytest.mark.parametrize("header", ["Hammerdb Log @ Mon Mar 01 10:00:00 UTC 2021\n", "HammerDB CLI v4.12\n", "== step vu=4\n"])
def test_c022_a_shared_log_as_a_whole_is_no_run(header: str) -> None:
    failed = "Error in Virtual User 1: FATAL:  the database system is starting up\nVuser 1:FINISHED FAILED\n"
    m = worth(header + RESULT + ends() + header + failed)
    assert (codes(m)[0], m["metrics"]) == ("no_result", {}) and "2 runs within the bounds of one" in m["findings"][0]["message"]
    assert worth("HammerDB CLI v4.12\n" + header.replace("HammerDB CLI v4.12", "") + RESULT + ends())["metrics"]


def test_c023_worker_failed_monitor_failed() -> None:
    text = "Vuser 1:4 Active Virtual Users configured\n" + RESULT + 'Error in Virtual User 1: key "msperclick" not found\n' + ends(1, 3)
    m = worth(text)
    assert codes(m)[:2] == ["clients_aborted", "monitor_failed"]
    assert m["findings"][0]["evidence"]["failed_users"] == [3]
    assert "msperclick" in m["findings"][1]["message"]
    assert verdict_of(m["findings"]) == "aborted"
    monitor_only = worth("Vuser 1:4 Active Virtual Users configured\n" + RESULT + ends(1))
    assert codes(monitor_only)[0] == "monitor_failed" and verdict_of(monitor_only["findings"]) == "suspect"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("FATAL:  the database system is shutting down", "server_unreachable"),
        ("FATAL:  the database system is not yet accepting connections", "server_unreachable"),
        ("FATAL:  no more connections allowed (max_client_conn)", "too_many_clients"),  # of a pooler
        ('FATAL:  too many connections for role "tpcc"', "too_many_clients"),
        (
            "connection to server failed: FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "too_many_clients",
        ),
    ],
)
def test_c022_why_there_is_no_result(text: str, code: str) -> None:
    assert codes(worth(f"Error in Virtual User 1: {text}\nVuser 1:FINISHED FAILED\n")) == [code]


def test_c023_a_user_of_whose_end_nothing_is_said() -> None:
    m = worth(RESULT + ends(users=4))
    assert codes(m)[0] == "clients_aborted" and m["findings"][0]["evidence"]["unknown_users"] == [5]


@pytest.mark.parametrize("users", [2, 16])
def test_c025_a_run_of_another_number_of_users(users: int) -> None:
    """A loop over the users that did not take the next number: the result is not that of the number asked for."""
    m = worth(f"Vuser 1:{users} Active Virtual Users configured\n" + RESULT + ends(users=users + 1))
    assert codes(m)[0] == "clients_aborted"
    assert m["findings"][0]["message"] == f"HammerDB ran {users} virtual users, not the 4 that were asked for"


def test_c023_a_result_and_nothing_of_how_any_user_ended() -> None:
    m = worth(RESULT)
    assert codes(m)[0] == "ends_unknown" and m["findings"][0]["evidence"]["users"] == [2, 3, 4, 5]
    assert verdict_of(m["findings"]) == "suspect"


def test_c023_all_users_lost_their_connection() -> None:
    errors = "".join(f"Error in Virtual User {n}: terminating connection due to administrator command\n" for n in range(2, 6))
    assert codes(worth(RESULT + errors + ends(2, 3, 4, 5)))[0] == "server_lost"


def test_c025_shutdown_overran_the_margin() -> None:
    text = RESULT + "Vuser 1:Checkpoint and Vacuum\nVirtual Users remain running in background or shutting down, retry\n"
    m = worth(text, 6)
    assert codes(m)[0] == "shutdown_overran" and verdict_of(m["findings"]) == "valid"
    assert m["metrics"]["nopm"]["value"] == 141000


@pytest.mark.parametrize(
    ("said", "code", "users"),
    [
        ("Vuser 1:FINISHED SUCCESS\n", "clients_aborted", [2, 3, 4, 5]),  # the monitor is done: nothing keeps the workers
        (
            "Vuser 1:FINISHED SUCCESS\nVuser 2:FINISHED SUCCESS\nVuser 3:RUNNING\n4 = FINISH SUCCESS\n5 = RUNNING\n",
            "clients_aborted",
            [3, 5],
        ),
        ("Vuser 2:FINISHED SUCCESS\n4 = FINISH SUCCESS\n5 = FINISH SUCCESS\n", "clients_aborted", [3]),
        (ends(users=5).split("\n", 1)[1], "shutdown_overran", []),  # the monitor alone is at work, with its vacuum
        ("1 = RUNNING\n2 = RUNNING\n3 = RUNNING\n", "shutdown_overran", [2, 3, 4, 5]),
    ],
)
def test_c023_a_worker_that_hangs_is_no_slow_shutdown(said: str, code: str, users: list[int]) -> None:
    m = worth(RESULT + said + "Virtual Users remain running in background or shutting down, retry\n", 6)
    assert [f["code"] for f in m["findings"] if f["code"] != "not_checked"] == [code]
    assert m["findings"][0]["evidence"].get("unknown_users", m["findings"][0]["evidence"].get("users")) == users
    assert users or m["findings"][0]["message"].startswith("the monitor had not ended")


def test_c025_all_ended_later_than_hammerdb_waits() -> None:
    m = worth(RESULT + "Virtual Users remain running in background or shutting down, retry\n" + ends())
    assert (codes(m)[0], verdict_of(m["findings"])) == ("shutdown_overran", "valid")
    assert "ended later than HammerDB waits" in m["findings"][0]["message"]


def test_c028_zero_with_a_result_line() -> None:
    text = "Vuser 1:8 Active Virtual Users configured\nVuser 1:TEST RESULT : System achieved 0 NOPM from 18400 PostgreSQL TPM\n"
    m = worth(text + ends(users=9), p=params(clients=8))
    judged = verdict.judge({"headline": "nopm", "parameters": {}, "measurement": m})
    [zero] = [f for f in judged if f["code"] == "zero_result"]
    assert "wrong database" in zero["message"] and verdict_of(judged) == "invalid"


@pytest.mark.parametrize(
    ("state", "stopped", "code"),
    [("finished", "deadline", "deadline_exceeded"), ("finished", "request", "interrupted"), ("lost", None, "run_aborted")],
)
def test_jobs_that_were_ended(state: str, stopped: str | None, code: str) -> None:
    assert codes(worth(RESULT + ends(), None, state=state, stopped=stopped))[0] == code


def test_failing_calls_are_failed_transactions() -> None:
    text = RESULT + "Vuser 2:Payment Procedure Error set RAISEERROR for Details\n" * 4000 + ends()
    m = worth("Vuser 1:Timing test period of 1 in minutes\n" + text)
    assert (m["counts"]["failed"], m["counts"]["processed"]) == (4000, 324300)
    assert "failed_transactions" in [f["code"] for f in verdict.judge({"headline": "nopm", "parameters": {}, "measurement": m})]


def test_window_that_was_longer_than_what_hammerdb_divided_by() -> None:
    one = captured("4.12")
    end = re.search(r"@([\d.]+) Vuser 1:Test complete", one["stderr"])
    assert end
    slow = {**one, "stderr": one["stderr"].replace(end[0], end[0].replace(end[1], f"{float(end[1]) + 4:.3f}"))}
    m = hammerdb.result(params(warehouses=2), [slow])
    [found] = [f for f in m["findings"] if f["code"] == "window_longer"]
    assert "6.7 % too high" in found["message"]


def test_own_count_that_disagrees() -> None:
    one = captured("4.12")
    lied = {**one, "stderr": one["stderr"].replace("27220 NOPM from 62165", "28000 NOPM from 64000")}
    m = hammerdb.result(params(warehouses=2), [lied])
    assert "nopm_unconfirmed" in codes(m) and verdict_of(m["findings"]) == "suspect"
    assert codes(hammerdb.result(params(warehouses=2), [one])) == []


def test_statistics_that_were_reset_during_the_run() -> None:
    one = captured("4.12")
    rows = re.findall(r"^\d+\.\d+ \d+ \d+ \d+ \d+$", one["stdout"], re.MULTILINE)
    for row in rows[len(rows) // 2 :]:
        at, orders, *_reset = row.split()
        one["stdout"] = one["stdout"].replace(row, f"{at} {orders} 5 0 0")
    one["stderr"] = one["stderr"].replace("27220 NOPM from 62165", "27220 NOPM from -5000")
    m = hammerdb.result(params(warehouses=2), [one])
    assert (list(m["metrics"]), codes(m)) == (["nopm"], ["inconsistent"])
    assert (m["conditions"]["counted"]["tpm"], m["counts"]["deadlock_failures"], m["counts"]["processed"]) == (None, None, None)
    assert m["conditions"]["counted"]["nopm"] == pytest.approx(27220, rel=0.01)
    assert all(sample["tps"] >= 0 for sample in m["progress"])


def test_clocks_of_two_machines_may_differ() -> None:
    """The server's clock is an hour ahead: the counts are put back by what both said at the start."""
    one = captured("4.12")
    ahead = re.sub(r"^(\d+)(\.\d+ \d+ \d+ \d+ \d+)$", lambda f: f"{int(f[1]) + 3600}{f[2]}", one["stdout"], flags=re.MULTILINE)
    m = hammerdb.result(params(warehouses=2), [{**one, "stdout": ahead}])
    assert codes(m) == [] and m["conditions"]["counted"]["nopm"] == pytest.approx(27220, rel=0.01)


@pytest.mark.parametrize(
    "line", ["could not send to server", "1796055582.9 NaN.1 4 5 6", "1796055582.9 1.2.3 4 5 6", f"1 {'9' * 400} 3 4 5"]
)
def test_what_is_no_row_of_counts(line: str) -> None:
    one = captured("4.12")
    m = hammerdb.result(
        params(warehouses=2), [{**one, "stdout": one["stdout"].replace("=== file counts\n", f"=== file counts\n{line}\n", 1)}]
    )
    assert codes(m) == [] and m["conditions"]["counted"]["nopm"] == pytest.approx(27220, rel=0.01)


def test_progress_from_the_transaction_counter_when_nothing_was_counted() -> None:
    m = hammerdb.result(params(warehouses=2), [{**captured("4.12"), "stdout": ""}])
    assert codes(m) == ["not_checked"]
    assert [s["interval_s"] for s in m["progress"]] == [5] * len(m["progress"]) and len(m["progress"]) >= 11


def test_users_that_came_late() -> None:
    late = captured("4.12")
    late["stderr"] = re.sub(r"@\d+\.\d+ (Vuser [45]:RUNNING)", lambda f: f"@{float(RAMPED) + 20:.3f} {f[1]}", late["stderr"])
    m = hammerdb.result(params(warehouses=2), [late])
    assert "clients_late" in codes(m)


RAMPED = re.findall(r"@([\d.]+) Vuser 1:Rampup complete", (FIXTURES / "clocked/4.12/run.stderr").read_text(encoding="utf-8"))[0]


@pytest.mark.parametrize(
    ("changes", "version", "code"),
    [
        ({}, "4.12", None),
        ({"violations": {"1": 1}}, "4.12", "data_inconsistent"),
        ({"violations": {"2": 20}}, "4.12", "data_inconsistent"),
        ({"violations": {"2": 20}}, "4.5", None),  # the order counter of procedures built by 4.10 and before is one off after any run
        ({"warehouses": 1, "last": 1, "districts": 10}, "4.12", "wrong_scale"),
    ],
)
def test_data_after_the_run(changes: dict[str, Any], version: str, code: str | None) -> None:
    m = hammerdb.result(params(warehouses=2), [captured(version), answer("after", **changes)])
    assert codes(m) == ([code] if code else [])


# the live line -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@1796055582.9 24192 PostgreSQL tpm\n", {"rate": 403.2, "percent": None}),
        ("@1796055541.0 Vuser 2:Orders Done\nprogress 96.4\n@1796055541.1 Vuser 2:Loading\n", {"rate": None, "percent": 96.4}),
        ("Vuser 1:RUNNING\n", None),
    ],
)
def test_progress(text: str, expected: dict[str, Any] | None) -> None:
    found = hammerdb.progress(text)
    assert found == (None if expected is None else {"latency_ms": None, "elapsed_s": None, **expected})


# the data set --------------------------------------------------------------------------------------------------------


def test_check_of_the_data_set() -> None:
    assert hammerdb.check([GOOD], params(warehouses=2)) == []
    assert hammerdb.check([{**GOOD, "routines": json.dumps(GOOD["routines"])}], {}) == []
    assert [f["code"] for f in hammerdb.check([GOOD], params(warehouses=3))] == ["wrong_scale"]
    by_us = {"complete": True, "mode": "hammerdb", "partitions": 0, "warehouses": 2}
    assert hammerdb.check([{**GOOD, "built": by_us}], params(warehouses=2)) == []
    assert [f["code"] for f in hammerdb.check([{**GOOD, "built": {**by_us, "complete": False}}], params(warehouses=2))] == [
        "dataset_failed"
    ]
    assert [f["code"] for f in hammerdb.check([{**GOOD, "routines": {"neword": "p"}}], params(warehouses=2))] == ["dataset_failed"]


@pytest.mark.parametrize(("kind", "storedprocs", "fits"), [("p", True, True), ("p", False, False), ("f", True, False), ("f", False, True)])
def test_functions_and_procedures_must_be_what_is_called(kind: str, storedprocs: bool, fits: bool) -> None:
    row = {**GOOD, "routines": dict.fromkeys(GOOD["routines"], kind)}
    found = hammerdb.check([row], params(warehouses=2, storedprocs=storedprocs))
    assert (found == []) == fits
    assert fits or f"storedprocs={str(not storedprocs).lower()}" in found[0]["message"]


def test_condition_10_is_not_asked_of_hammerdbs_own_data() -> None:
    """HammerDB gives amounts to the lines of delivered orders, the specification to the others: balances cannot agree."""
    row = {**GOOD, "violations": {"10": 27203}}
    assert hammerdb.check([row], params(warehouses=2)) == []
    by_us = {**row, "built": {"complete": True, "mode": "hammerdb", "partitions": 0}}
    assert [f["code"] for f in hammerdb.check([by_us], params(warehouses=2))] == ["data_inconsistent"]


def test_data_of_any_origin_can_be_checked() -> None:
    """Nothing is asked for: functions are as good as procedures, and up to 4.10 a run leaves the order counters one off."""
    functions = {**GOOD, "routines": dict.fromkeys(GOOD["routines"], "f"), "violations": {"2": 20}}
    assert hammerdb.check([functions], {}) == []
    ours = {**GOOD, "built": {"complete": True, "mode": "hammerdb", "partitions": 0}, "violations": {"2": 20}}
    assert [f["code"] for f in hammerdb.check([ours], {})] == ["data_inconsistent"]
    assert "all ten conditions hold, 2 and 10 left out;" in hammerdb.sound(functions)
    assert "all ten conditions hold;" in hammerdb.sound(ours)
    assert [f["code"] for f in hammerdb.check([{**GOOD, "violations": {"3": 1}}], {})] == ["data_inconsistent"]


@pytest.mark.parametrize(
    ("rows", "since", "noted"),
    [
        ({"dead": 9_100_000, "live": 30_000_000, "vacuumed": None}, None, True),
        ({"dead": 9_100_000, "live": 30_000_000, "vacuumed": None}, 1000.0, True),
        ({"dead": 9_100_000, "live": 30_000_000, "vacuumed": 900.0}, 1000.0, True),  # before the end of the run
        ({"dead": 9_100_000, "live": 30_000_000, "vacuumed": 1100.0}, 1000.0, False),
        ({"dead": 20_000, "live": 30_000_000, "vacuumed": None}, None, False),
        ({}, None, False),
    ],
)
def test_c031_vacuum_in_the_wrong_database(rows: dict[str, Any], since: float | None, noted: bool) -> None:
    found = hammerdb.not_vacuumed(rows, since)
    assert (found is not None) == noted
    assert found is None or "not vacuumed in this database" in found["message"]


def test_c031_the_vacuum_of_a_run_would_be_in_our_database() -> None:
    """Up to 5.0 HammerDB vacuums the default database: it is told that this is ours."""
    values = settings_of(hammerdb.run_steps(params(), "4.12", CONNECTION)[0]["files"]["run.tcl"])
    assert values["pg_defaultdbase"] == values["pg_dbase"] == "db"


def test_c032_short_ramp_up_is_a_note() -> None:
    p = params(warehouses=2, ramp_up=0)
    m = hammerdb.result(p, [captured("4.12")])
    [found] = [f for f in verdict.judge({"headline": "nopm", "parameters": p, "measurement": m}) if f["code"] == "ramp_up_short"]
    assert found["severity"] == "note"


# the load ------------------------------------------------------------------------------------------------------------


def load(*, build: str = "", rc: int | None = 0, verify: dict[str, Any] | None = None, check: str = "", **job: Any) -> dict[str, Any]:
    steps = [step("load", rc, err=build or (FIXTURES / "clocked/4.12/build.stderr").read_text(encoding="utf-8"), **job)]
    if verify is not None:
        steps.append(step("verify", out=json.dumps(verify)))
    if check:
        steps.append(step("checkschema", err=check))
    return hammerdb.result(params(warehouses=2), steps)


PASSED = (FIXTURES / "clocked/4.12/checkschema.stderr").read_text(encoding="utf-8")


def test_load_that_every_check_accepts() -> None:
    m = load(verify=GOOD, check=PASSED)
    assert (codes(m), m["metrics"]["load_seconds"]["value"], m["load_generator"]["version"]) == ([], 80.0, "4.12")
    assert [s["name"] for s in m["steps"]] == ["load", "verify", "checkschema"]


@pytest.mark.parametrize(
    ("made", "code", "said"),
    [
        ({"build": "Vuser 1:BENCH SCHEMA COMPLETE\n", "rc": 4}, "dataset_failed", "status 4"),
        ({"verify": {**GOOD, "violations": {"stock": 1}}}, "data_inconsistent", "rows of stock"),
        ({"verify": {**GOOD, "warehouses": 1, "last": 1, "districts": 10}}, "wrong_scale", "warehouses"),
        ({}, "dataset_failed", "says that the schema is complete, and the check of its rows failed"),
        (
            {"verify": GOOD, "check": "Error in Virtual User 1: consistency check 1 failed\n"},
            "dataset_failed",
            "consistency check 1 failed",
        ),
        ({"build": shared("v4.12_pgtclng_buildschema_4wh_2vu"), "verify": GOOD}, "dataset_failed", "could not load library"),
        ({"rc": None, "stopped": "deadline"}, "deadline_exceeded", "at its deadline"),
        ({"rc": None, "stopped": "request"}, "interrupted", "on request"),
    ],
)
def test_load_that_is_not_what_it_says(made: dict[str, Any], code: str, said: str) -> None:
    m = load(**made)
    assert codes(m) == [code] and said in m["findings"][0]["message"]
    assert m["metrics"] == {}


# comparing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ({"database": "MariaDB", "version": "4.12"}, {"database": "PostgreSQL", "version": "4.12"}, "compare NOPM"),
        ({"database": "MariaDB", "version": "3.3"}, {"database": "MariaDB", "version": "4.5"}, "where the driver commits"),
        (
            {"database": "PostgreSQL", "version": "4.12", "storedprocs": True},
            {"database": "PostgreSQL", "version": "4.5", "storedprocs": False},
            "procedures",
        ),
        (
            {"database": "PostgreSQL", "version": "4.12", "storedprocs": True},
            {"database": "PostgreSQL", "version": "4.5", "storedprocs": True},
            None,
        ),
        ({"database": "PostgreSQL", "version": None}, {"database": "PostgreSQL", "version": None}, "where the driver commits"),
    ],
)
def test_c091_tpm_across_engines_or_drivers(one: dict[str, Any], other: dict[str, Any], reason: str | None) -> None:
    found = hammerdb.tpm_incomparable(one, other)
    assert found is None if reason is None else found and reason in found
