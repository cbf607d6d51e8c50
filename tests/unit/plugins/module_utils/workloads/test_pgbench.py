# GNU General Public License v3.0 or later (see LICENSE)
"""The workload pgbench: what is refused, the commands of each version, and measurements from captures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import findings as table
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench

CAPTURES = Path(__file__).parents[4] / "fixtures" / "pgbench" / "captures"
CONNECTION = {"host": "/run/pg", "port": 5433, "user": "bench", "dbname": "db"}


def params(**given: Any) -> dict[str, Any]:
    return pgbench.complete(given, cores=2)


def argv(version: str = "15.18", step: str = "measured", **given: Any) -> list[str]:
    steps = pgbench.run_steps(params(**given), version, CONNECTION)
    return next(s["argv"] for s in steps if s["name"] == step)


def step(name: str = "measured", rc: int | None = 0, out: str = "", err: str = "", **job: Any) -> dict[str, Any]:
    known = {"state": "finished", "rc": rc, "stopped": None, "started": 10.0, "ended": 15.5, "elapsed_s": 5.5, "rusage": {}, **job}
    return {"name": name, "argv": ["pgbench"], "version": "15.18", "job": known, "stdout": out, "stderr": err}


def captured(name: str, **job: Any) -> dict[str, Any]:
    text = (CAPTURES / name).read_text(encoding="utf-8")
    found = re.search(r"### exit code: (\d+)\n### stdout:\n(.*)### stderr:\n(.*)", text, re.DOTALL)
    assert found
    return step("load" if "_init_s" in name else "measured", int(found[1]), found[2], found[3], **job)


def codes(measurement: dict[str, Any]) -> list[str]:
    return [f["code"] for f in measurement["findings"]]


# parameters ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "cores", "expected"),
    [
        (
            {},
            2,
            {"duration": 20, "transactions": None, "ramp_up": 5, "threads": 2, "clients": 4, "scale": 10, "protocol": "simple", "seed": 20},
        ),
        ({"clients": 1}, 8, {"threads": 1}),
        ({"transactions": 100}, 2, {"duration": None, "ramp_up": 0}),
        ({"transactions": 100, "ramp_up": 3}, 2, {"ramp_up": 3}),
        ({"duration": 7, "ramp_up": 0}, 2, {"duration": 7, "ramp_up": 0}),
        ({"threads": 8, "clients": 4}, 16, {"threads": 4}),
        ({}, None, {"threads": None}),
    ],
)
def test_defaults(given: dict[str, Any], cores: int | None, expected: dict[str, Any]) -> None:
    completed = pgbench.complete(given, cores)
    assert {k: completed[k] for k in expected} == expected
    assert pgbench.complete(completed, cores) == completed
    assert pgbench.validate(completed) == []


def test_options_are_an_argument_spec_with_every_parameter() -> None:
    for name, spec in pgbench.OPTIONS.items():
        assert set(spec) <= {"type", "default", "choices", "elements", "unit"}, name
        assert spec.get("default") is None or spec["default"] in spec.get("choices", [spec["default"]])
    assert {name for group in pgbench.EXCLUSIVE for name in group} | set(pgbench.DATA_PARAMETERS) <= set(pgbench.OPTIONS)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [("tpcb-like", 1)]),
        ({"builtin": "select-only"}, [("select-only", 1)]),
        ({"builtin": "tpcb-like@2, select@8"}, [("tpcb-like", 2), ("select-only", 8)]),
        (
            {"scripts": [{"builtin": "simple", "weight": 3}, {"sql": "SELECT 1;", "name": "x y.sql"}]},
            [("simple-update", 3), ("x_y.sql", 1)],
        ),
        ({"scripts": [{"sql": "SELECT 1;"}, {"sql": "SELECT 2;"}]}, [("script.sql", 1), ("1_script.sql", 1)]),
        ({"scripts": [{"sql": "SELECT 1;"}, {"file": "dir/../new order.pgb", "weight": 0}]}, [("script.sql", 1), ("new_order.pgb", 0)]),
    ],
)
def test_scripts(given: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    assert [(s["name"], s["weight"]) for s in pgbench.scripts(given)] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, True),
        ({"builtin": "select-only"}, False),
        ({"builtin": "select-only@9,simple-update"}, True),
        ({"scripts": [{"sql": "SELECT pay(1);"}]}, True),
    ],
)
def test_writes(given: dict[str, Any], expected: bool) -> None:
    assert pgbench.writes(given) is expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"transactions": 10, "duration": 5}, "exclude each other"),
        ({"clients": 0}, "clients: 0"),
        ({"clients": -4}, "clients: -4"),
        ({"clients": "4"}, "clients: '4'"),
        ({"clients": True}, "clients: True"),
        ({"threads": 0}, "threads: 0"),
        ({"duration": 0}, "duration: 0"),
        ({"transactions": -1}, "transactions: -1"),
        ({"ramp_up": -1}, "ramp_up: -1"),
        ({"scale": 0}, "scale: 0"),
        ({"seed": -1}, "seed: -1"),
        ({"rate": 0.0}, "rate: 0.0"),
        ({"rate": float("nan")}, "rate: nan"),
        ({"latency_limit": -2.0}, "latency_limit: -2.0"),
        ({"max_tries": 0, "transactions": 5}, "max_tries=0"),
        ({"max_tries": -1}, "max_tries: -1"),
        ({"sampling_rate": 0.0}, "sampling_rate: 0.0"),
        ({"sampling_rate": 1.5}, "sampling_rate: 1.5"),
        ({"fillfactor": 9}, "fillfactor: 9"),
        ({"partitions": -1}, "partitions: -1"),
        ({"partition_method": "hash"}, "needs partitions"),
        ({"partition_method": "list", "partitions": 2}, "range, hash"),
        ({"protocol": "query"}, "simple, extended, prepared"),
        ({"vacuum": "full"}, "none, default, all"),
        ({"init_steps": "dtxgvp"}, "holds x"),
        ({"init_steps": " "}, "no step"),
        ({"init_steps": "vp"}, "makes no data set"),
        ({"init_steps": "dtgvp", "server_side": True}, "server_side"),
        ({"init_steps": "dtgvf", "foreign_keys": True}, "primary keys"),
        ({"builtin": "tpcc"}, "'tpcc' is not one of"),
        ({"builtin": "select-only@"}, "weight ''"),
        ({"builtin": "select-only@x"}, "weight 'x'"),
        ({"builtin": "select-only@0"}, "add up to 0"),
        ({"builtin": "select-only", "scripts": [{"sql": "SELECT 1;"}]}, "exclude each other"),
        ({"scripts": "select-only"}, "give a list"),
        ({"scripts": [{"builtin": "select-only", "sql": "SELECT 1;"}]}, "exactly one"),
        ({"scripts": [{"weight": 3}]}, "none of builtin, file, sql"),
        ({"scripts": [{"sql": "SELECT 1;", "wieght": 2}]}, "wieght"),
        ({"scripts": [{"sql": "SELECT 1;", "weight": -1}]}, "weight -1"),
        ({"scripts": [{"sql": " -- nothing\n/* at\nall */\n"}]}, "no command"),
        ({"scripts": [{"sql": "\\setrandom aid 1 10\nSELECT 1;"}]}, "removed in 9.6"),
        ({"scripts": [{"sql": "\\sett aid 1\nSELECT 1;"}]}, "\\sett"),
        ({"scripts": [{"sql": "\\startpipeline\nSELECT 1;\n\\endpipeline\n"}]}, "simple protocol cannot"),
        ({"scripts": [{"sql": "SELECT 1\\;\nSELECT 2;"}], "protocol": "prepared"}, "several statements"),
        ({"scripts": [{"builtin": "select-only"}] * 129}, "129 scripts"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    problems = pgbench.validate(params(**given))
    assert len(problems) == 1 and said in problems[0]


def test_all_problems_are_said_at_once() -> None:
    assert len(pgbench.validate(params(clients=0, rate=-1.0, protocol="x", builtin="nothing"))) == 4


@pytest.mark.parametrize(
    "given",
    [
        {"max_tries": 0, "duration": 5},
        {"max_tries": 0, "transactions": 5, "latency_limit": 10.0},
        {"rate": 100.0, "latency_limit": 5.0, "max_tries": 3},
        {"init_steps": "dtGvpf", "server_side": True, "foreign_keys": True},
        {"partitions": 4, "partition_method": "hash", "unlogged": True, "fillfactor": 70},
        {"scripts": [{"sql": "\\startpipeline\nSELECT 1;\n\\endpipeline\n"}], "protocol": "prepared"},
        {"scripts": [{"sql": "SELECT 1\\;\nSELECT 2;"}]},
        {"scripts": [{"sql": "SELECT 1 AS x \\gset\n\\if :x > 0\nSELECT 2;\n\\endif"}, {"builtin": "select-only", "weight": 0}]},
    ],
)
def test_what_can_be_is_accepted(given: dict[str, Any]) -> None:
    assert pgbench.validate(params(**given)) == []


def sql(text: str) -> dict[str, Any]:
    return {"scripts": [{"sql": text}]}


@pytest.mark.parametrize(
    ("given", "lacks", "has"),
    [
        ({"init_steps": "dtgvp"}, "10.23", "11.22"),
        ({"server_side": True}, "12.20", "13.16"),
        ({"init_steps": "dtGvp"}, "12.20", "13.16"),
        ({"partitions": 4}, "12.20", "13.16"),
        ({"max_tries": 3}, "14.19", "15.18"),
        (sql("\\if :client_id > 0\nSELECT 1;\n\\endif"), "10.23", "11.22"),
        (sql("SELECT 1 AS x \\gset"), "11.22", "12.20"),
        (sql("SELECT 1 AS x \\aset"), "12.20", "13.16"),
        (sql("\\startpipeline\nSELECT 1;\n\\endpipeline"), "13.16", "14.19"),
        (sql("\\startpipeline\nSELECT 1;\n\\syncpipeline\n\\endpipeline"), "16.2", "17.12"),
        (sql("\\set z random_zipfian(1, 9, 1.1)\nSELECT :z;"), "10.23", "11.22"),
        (sql("\\set z permute(3, 9)\nSELECT :z;"), "13.16", "14.19"),
        (sql("\\set z pow(2, 3)\nSELECT :z;"), "10.23", "11.22"),
        (sql("\\set f random(1,100) = 1\nSELECT :f;"), "10.23", "11.22"),
    ],
)
def test_options_that_a_version_lacks(given: dict[str, Any], lacks: str, has: str) -> None:
    assert any(f"this is {lacks}" in problem for problem in pgbench.unsupported(given, lacks))
    assert pgbench.unsupported(given, f"pgbench (PostgreSQL) {has} (Debian {has}-1)") == []


def test_every_default_runs_on_every_version() -> None:
    for version in ("9.6.24", "10.23", "11.22", "12.20", "13.16", "14.19", "15.18", "16.2", "17.12", "18.6", "19devel"):
        assert pgbench.unsupported(params(), version) == []
    assert "9.6 or later" in pgbench.unsupported(params(), "9.5.25")[0]
    with pytest.raises(ValueError, match="no version"):
        pgbench.unsupported({}, "command not found")


# commands -----------------------------------------------------------------------------------------------------------------


def test_command_line_of_a_default_run() -> None:
    ramp_up, measured = pgbench.run_steps(params(), "15.18", CONNECTION)
    common = "pgbench -h /run/pg -p 5433 -U bench -M simple -c 4 -P 1 -j 2 --failures-detailed -b tpcb-like@1".split()  # noqa: SIM905
    assert ramp_up["argv"] == [*common, "--random-seed=21", "-T", "5", "db"]
    assert measured["argv"] == [*common, "-n", "--random-seed=20", "-l", "--log-prefix=pgbench_log", "-T", "20", "db"]
    assert (ramp_up["name"], ramp_up["log_prefix"], ramp_up["planned_s"]) == ("ramp_up", None, 5.0)
    assert (measured["name"], measured["log_prefix"], measured["planned_s"], measured["env"]) == ("measured", "pgbench_log", 20.0, {})


@pytest.mark.parametrize(
    ("version", "present", "absent"),
    [
        ("9.6.24", [], ["--random-seed=20", "--log-prefix=pgbench_log", "--failures-detailed"]),
        ("10.23", ["--log-prefix=pgbench_log"], ["--random-seed=20", "--failures-detailed"]),
        ("14.19", ["--log-prefix=pgbench_log", "--random-seed=20"], ["--failures-detailed"]),
        ("18.6", ["--log-prefix=pgbench_log", "--random-seed=20", "--failures-detailed"], []),
    ],
)
def test_options_by_version(version: str, present: list[str], absent: list[str]) -> None:
    line = argv(version)
    assert set(present) <= set(line) and not set(absent) & set(line)
    assert line.index("-M") < line.index("-b")  # 9.6 refuses the other order
    assert line[-1] == "db" and "-d" not in line


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"transactions": 1000, "clients": 10}, "-t 1000 db"),
        ({"rate": 300.0, "latency_limit": 2.5}, "-R 300 -L 2.5"),
        ({"max_tries": 0}, "--max-tries=0"),
        ({"reconnect": True, "report_per_command": True}, "-C -r"),
        ({"sampling_rate": 0.01}, "--sampling-rate=0.01"),
        ({"protocol": "prepared"}, "-M prepared"),
        ({"vacuum": "all", "ramp_up": 0}, "-v --random-seed"),
        ({"vacuum": "none", "ramp_up": 0}, "-n --random-seed"),
        ({"ramp_up": 0}, "tpcb-like@1 --random-seed"),
        ({"scripts": [{"sql": "SELECT 1;", "weight": 3}], "ramp_up": 0}, "-s 10 -f 0_script.sql@3 -n"),
        (
            {"scripts": [{"sql": "SELECT 1;"}, {"builtin": "select-only", "weight": 9}]},
            "--failures-detailed -f 0_script.sql@1 -b select-only@9",
        ),
    ],
)
def test_options_on_the_command_line(given: dict[str, Any], words: str) -> None:
    assert words in " ".join(argv(**given))


def test_a_run_of_transactions_has_a_deadline_but_no_planned_length() -> None:
    (measured,) = pgbench.run_steps(params(transactions=100_000, clients=10), "15.18", CONNECTION)
    assert (measured["planned_s"], measured["grace_s"]) == (None, 100_000)


def test_custom_scripts_are_files_of_the_run() -> None:
    given = params(scripts=[{"sql": "SELECT 1;", "name": "one.sql"}])
    assert [s["files"] for s in pgbench.run_steps(given, "15.18", CONNECTION)] == [{"0_one.sql": "SELECT 1;"}] * 2
    with pytest.raises(ValueError, match="has not been read"):
        pgbench.run_steps(params(scripts=[{"file": "one.sql"}]), "15.18", CONNECTION)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "-i -q -s 10 -F 100 db"),
        ({"server_side": True, "foreign_keys": True}, "-I dtGvpf --foreign-keys db"),
        ({"init_steps": "d t g"}, "-I dtg db"),
        ({"partitions": 4, "unlogged": True}, "--unlogged-tables --partitions=4 --partition-method=range db"),
    ],
)
def test_load_command(given: dict[str, Any], words: str) -> None:
    (load,) = pgbench.load_steps(params(**given), "15.18", CONNECTION)
    assert " ".join(load["argv"]).endswith(words) and load["argv"][:3] == ["pgbench", "-h", "/run/pg"]
    assert load["planned_s"] > 0 and load["grace_s"] >= 600


def test_connection_of_the_client_library() -> None:
    (load,) = pgbench.load_steps(params(), "15.18", {"host": None, "port": None, "user": None, "dbname": "db"})
    assert load["argv"][:2] == ["pgbench", "-i"]


def test_c073_no_secret_can_reach_the_command() -> None:
    connection = {**CONNECTION, "password": "s3cr3t"}
    steps = [*pgbench.load_steps(params(), "15.18", connection), *pgbench.run_steps(params(), "15.18", connection)]
    assert "s3cr3t" not in json.dumps(steps)


def test_c013_options_decide_the_columns_of_the_log() -> None:
    assert pgbench.log_layout(params()) == {"lag": False, "retries": False, "sampling_rate": 1.0, "scripts": 1}
    given = params(rate=5.0, max_tries=3, sampling_rate=0.1, builtin="tpcb-like,select-only")
    assert pgbench.log_layout(given) == {"lag": True, "retries": True, "sampling_rate": 0.1, "scripts": 2}


def test_log_volume_and_sampling() -> None:
    given = params(duration=100, builtin="select-only")
    assert pgbench.expected_log_bytes(given, 16_000) == 36 * 1_600_000
    assert pgbench.expected_log_bytes(params(transactions=1000, clients=10), 1) == 36 * 10_000
    assert pgbench.expected_log_bytes(params(duration=10, rate=5000.0, latency_limit=1.0), 300) == 43 * 50_000  # skipped ones are logged
    assert pgbench.expected_log_bytes(params(duration=10, rate=5000.0), 300) == 43 * 3_000
    assert pgbench.sampling_for(given, 16_000, 100_000_000) == 1.0
    assert pgbench.sampling_for(given, 16_000, 2_000_000) == 0.034
    assert pgbench.sampling_for(given, 16_000, 20_000_000) == 0.34
    assert pgbench.sampling_for({**given, "sampling_rate": 0.5}, 16_000, 1) == 0.5


# the data set ---------------------------------------------------------------------------------------------------------------


def test_fingerprint_depends_on_the_data_alone() -> None:
    base = pgbench.dataset(params())
    assert re.fullmatch(r"[0-9a-f]{12}", base["fingerprint"])
    load = {"clients": 40, "duration": 3, "protocol": "prepared", "seed": 7, "builtin": "select-only", "partition_method": None}
    assert pgbench.dataset(params(**load)) == base
    others: list[dict[str, Any]] = [
        {"scale": 11},
        {"fillfactor": 90},
        {"unlogged": True},
        {"partitions": 2},
        {"foreign_keys": True},
        {"server_side": True},
    ]
    assert len({pgbench.dataset(params(**o))["fingerprint"] for o in others} | {base["fingerprint"]}) == len(others) + 1
    assert pgbench.dataset(params(init_steps="dtgvp")) == base


@pytest.mark.parametrize(("given", "measured"), [({}, 156_966_912), ({"fillfactor": 50}, 295_788_544), ({"fillfactor": 90}, 171_614_208)])
def test_size_agrees_with_a_real_server(given: dict[str, Any], measured: int) -> None:
    # pg_total_relation_size of the four tables at scale 10 on PostgreSQL 15.18
    assert pgbench.dataset_bytes(params(scale=10, **given)) - pgbench.DATABASE_BYTES == pytest.approx(measured, rel=0.01)


def test_estimates_grow_with_the_work() -> None:
    assert pgbench.load_seconds(params(scale=100)) > pgbench.load_seconds(params(scale=10)) > 1
    assert pgbench.run_seconds(params(duration=20, ramp_up=5), 2) == 25
    assert pgbench.run_seconds(params(transactions=600, clients=10), 2) == 10
    assert pgbench.guess_tps(params(rate=50.0), 8) == 50


GOOD = {"branches": "10", "tellers": "100", "accounts": "1000000", "partitions": "0", "unlogged": "f", "foreign_keys": "f"}


@pytest.mark.parametrize(
    ("row", "given", "expected"),
    [
        (GOOD, {}, []),
        ({**GOOD, "foreign_keys": True, "branches": 10}, {"foreign_keys": True}, []),
        ({**GOOD, "branches": "1"}, {}, ["wrong_scale"]),
        ({**GOOD, "accounts": None}, {}, ["dataset_failed"]),
        ({**GOOD, "tellers": "99", "accounts": "900000"}, {}, ["dataset_failed"] * 2),
        (GOOD, {"partitions": 4}, ["dataset_failed"]),
        ({**GOOD, "unlogged": "t"}, {}, ["dataset_failed"]),
        (None, {}, ["dataset_failed"]),
    ],
)
def test_check_of_the_data_set(row: dict[str, Any] | None, given: dict[str, Any], expected: list[str]) -> None:
    assert [f["code"] for f in pgbench.check([row] if row else [], params(**given))] == expected


@pytest.mark.parametrize(
    ("change", "expected"), [({}, []), ({"partitions": "4", "unlogged": "t"}, []), ({"tellers": "99"}, ["dataset_failed"])]
)
def test_data_of_which_nothing_was_said_are_held_against_themselves(change: dict[str, Any], expected: list[str]) -> None:
    row = {**GOOD, "branches": "10", **change}
    assert [f["code"] for f in pgbench.check([row], {"scale": None})] == expected
    assert pgbench.sound(row).startswith("scale 10: ")


def test_c016_another_scale_is_refused_before_the_run() -> None:
    (found,) = pgbench.check([{**GOOD, "branches": "1"}], params(scale=1000))
    assert (found["severity"], found["evidence"]) == ("failed", {"scale": 1, "asked": 1000})


# results --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "progress: 3.0 s, 590.9 tps, lat 6.494 ms stddev 5.625, 0 failed\n",
            {"rate": 590.9, "latency_ms": 6.494, "elapsed_s": 3.0, "percent": None},
        ),
        (
            "100000 of 1000000 tuples (10%) done (elapsed 0.50 s, remaining 3.86 s)\n200000 of 1000",
            {"rate": None, "latency_ms": None, "elapsed_s": 0.5, "percent": 10},
        ),
        ("vacuuming...\n", None),
        ("", None),
    ],
)
def test_live_line(text: str, expected: dict[str, Any] | None) -> None:
    assert pgbench.progress(text) == expected


DIGEST = {
    "n": 3648,
    "lines": 3648,
    "failed": 0,
    "skipped": 0,
    "sampling": 1.0,
    "overall": {
        "min": 0.1,
        "p50": 1.5,
        "p90": 2.0,
        "p95": 3.0,
        "p99": 4.0,
        "p99_9": 5.0,
        "max": 6.0,
        "n": 3648,
        "average": 9.9,
        "stddev": 9.9,
    },
    "scripts": {"0": {"p50": 1.0, "n": 73}, "2": {"p50": 0.3, "n": 99}},
}


def test_measurement_of_three_scripts() -> None:
    given = params(scale=5, protocol="prepared", builtin="tpcb-like@2,simple-update@3,select-only@5", duration=4)
    usage = {"user_s": 0.5, "system_s": 0.25, "max_rss_bytes": 7_000_000}
    one = captured("pgbench18_run_T4_P1_timestamp_multiscript_prepared.txt", rusage=usage, stdout="/j/stdout", stdout_bytes=10)
    measurement = pgbench.result(given, [one], {**DIGEST, "lines": 4783})
    assert measurement["findings"] == []
    assert measurement["metrics"] == {"tps": {"value": 1198.050256, "unit": "1/s", "better": "higher"}}
    assert measurement["load_generator"] == {
        "name": "pgbench",
        "version": "18.6",
        "package": None,
        "server_version": "15.18",
        "generation": "14+",
    }
    assert {k: measurement["conditions"][k] for k in ("clients", "threads", "duration_s", "protocol", "scale", "seed", "loop")} == {
        "clients": 4,
        "threads": 2,
        "duration_s": 4,
        "protocol": "prepared",
        "scale": 5,
        "seed": 20,
        "loop": "closed",
    }
    assert (measurement["counts"]["processed"], measurement["counts"]["failed"], measurement["counts"]["skipped"]) == (4783, 0, None)
    latency = measurement["latency"]
    assert (latency["average"], latency["stddev"], latency["p99"], latency["max"], latency["source"]) == (3.332, 5.461, 4.0, 6.0, "log")
    assert [(s["name"], s["weight"], s["transactions"], s["tps"], s["average"], s["p50"]) for s in latency["scripts"]] == [
        ("tpcb-like", 2, 952, 238.457839, 7.024, 1.0),
        ("simple-update", 3, 1399, 350.422812, 5.979, None),
        ("select-only", 5, 2432, 609.169606, 0.364, 0.3),
    ]
    assert [s["tps"] for s in measurement["progress"]] == [1094.8, 951.2, 1257.0, 1472.2]
    assert measurement["steps"][0]["elapsed_s"] == 5.5
    assert measurement["client"] == {"cpu_user_s": 0.5, "cpu_system_s": 0.25, "wall_s": 5.5, "max_rss_bytes": 7_000_000}
    assert measurement["raw"] == [{"path": "/j/stdout", "bytes": 10, "sha256": None}]
    json.dumps(measurement, allow_nan=False)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("pgbench*.txt")), ids=lambda p: p.name)
def test_every_capture_has_a_measurement_or_a_finding(path: Path) -> None:
    one = captured(path.name)
    measurement = pgbench.result(params(scale=5 if one["name"] == "measured" else 10), [one])
    worst = table.verdict(measurement["findings"])
    assert worst in ("valid", "failed", "aborted")
    assert (worst == "valid" or codes(measurement) == ["wrong_scale"]) == (one["job"]["rc"] == 0)
    if worst == "valid":
        assert measurement["metrics"]
    json.dumps(measurement, allow_nan=False)


S10 = {"scale": 10}


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("pgbench15_err_too_many_clients.txt", {"clients": 80}, ["too_many_clients"]),
        ("pgbench17_err_too_many_clients.txt", {"clients": 80}, ["too_many_clients"]),
        ("pgbench13_err_too_many_clients.txt", {"clients": 80, "scale": 5}, ["too_many_clients"]),
        ("pgbench18_err_server_down.txt", {}, ["server_unreachable"]),
        ("pgbench13_err_server_down.txt", {}, ["server_unreachable"]),
        ("pgbench16_err_nodb.txt", {}, ["load_generator_failed"]),
        ("pgbench18_err_missing_tables.txt", {}, ["load_generator_failed"]),
        ("pgbench15_err_syntax.txt", {}, ["load_generator_failed"]),
        ("pgbench15_err_unknown_option_exit_on_abort.txt", {}, ["load_generator_failed"]),
        ("pgbench15_err_divzero_all_abort.txt", {"builtin": None, "scripts": [{"sql": "x;"}]}, ["clients_aborted"]),
        ("pgbench18_exit_on_abort_divzero.txt", {}, ["clients_aborted"]),
        ("pgbench13_serialization_default.txt", {"scripts": [{"sql": "x;"}]}, ["clients_aborted"]),
        ("pgbench15_one_backend_terminated_T5.txt", S10, ["clients_aborted"]),
        ("pgbench13_server_immediate_stop_midrun_T5.txt", S10, ["server_lost"]),
        ("pgbench15_server_immediate_stop_midrun_T5.txt", S10, ["server_lost"]),
        ("pgbench18_server_immediate_stop_midrun_T5.txt", S10, ["server_lost"]),
        ("pgbench15_postmaster_kill9_midrun_T5.txt", S10, ["server_lost"]),
        ("pgbench15_one_backend_kill9_crash_recovery_T8.txt", S10, ["server_lost"]),
        ("pgbench15_sigterm_midrun.txt", {}, ["run_aborted"]),
        ("pgbench15_scale_mismatch_warning.txt", {"scale": 3}, ["wrong_scale"]),
        ("pgbench15_serialization_default.txt", {"scripts": [{"sql": "x;"}]}, []),  # the share of failures is judged elsewhere
        ("pgbench16_run_T3_connect_C.txt", {"scale": 5, "reconnect": True}, []),
    ],
)
def test_findings_of_captures(name: str, given: dict[str, Any], expected: list[str]) -> None:
    assert codes(pgbench.result(params(**given), [captured(name)])) == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (step(rc=0), ["no_result"]),
        (step(rc=0, out="transaction type: x\nnumber of transactions actually processed: 0\n"), ["no_result"]),
        (step(rc=None, state="lost"), ["run_aborted"]),
        (step(rc=-9), ["run_aborted"]),
        (step(rc=137), ["run_aborted"]),
        (step(rc=143, stopped="request"), ["interrupted"]),
        (step(rc=-15, stopped="deadline"), ["deadline_exceeded"]),
        (step(rc=1, err="invalid number of clients: 0\n"), ["load_generator_failed", "unparsed_output"]),
        (step("load", rc=1, err="pgbench: error: could not extend file: No space left on device\n"), ["dataset_failed"]),
        (
            step("load", rc=1, err="pgbench: error: connection to server failed: Connection refused\n"),
            ["server_unreachable", "dataset_failed"],
        ),
        (
            step("ramp_up", rc=2, err="pgbench: error: client 0 script 0 aborted in command 1 query 0: X:  y\n"),
            ["clients_aborted", "setup_failed"],
        ),
        (step("ramp_up", rc=1, err="pgbench: error: x.sql:1: syntax error\n"), ["load_generator_failed"]),
        (step(rc=0, err="client 0 aborted in state 3: FEHLER:  Verklemmung entdeckt\n"), ["clients_aborted"]),  # up to 11
    ],
)
def test_findings_of_endings(one: dict[str, Any], expected: list[str]) -> None:
    assert codes(pgbench.result(params(), [one])) == expected


@pytest.mark.parametrize("which", ["pgbench: error: could not create connection for client 97\n", ""])
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("FATAL:  sorry, too many clients already", "too_many_clients"),
        ('FATAL:  too many connections for role "bench"', "too_many_clients"),
        ("FATAL:  no more connections allowed (max_client_conn)", "too_many_clients"),  # of a pooler
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", "too_many_clients"),
        ("FATAL:  the database system is shutting down", "server_unreachable"),
        ("FATAL:  the database system is not yet accepting connections", "server_unreachable"),
        ('FATAL:  password authentication failed for user "bench"', "load_generator_failed"),
        ('FATAL:  database "nosuch" does not exist', "load_generator_failed"),
    ],
)
def test_c007_why_a_connection_was_refused(said: str, code: str, which: str) -> None:
    text = f'pgbench (16.2, server 15.4)\npgbench: error: connection to server at "db1", port 5432 failed: {said}\n{which}'
    step = {"name": "measured", "argv": [], "stdout": "", "stderr": text, "version": "16.2", "job": {"rc": 1, "state": "finished"}}
    measurement = pgbench.result(params(clients=120), [step])
    assert [f["code"] for f in measurement["findings"]] == [code] and measurement["metrics"] == {}


def test_c007_a_server_that_is_not_found_is_told_with_its_reason() -> None:
    said = "pgbench: error: could not translate host name to address\npgbench: error: could not create connection for setup\n"
    (found,) = pgbench.result(params(), [step(rc=1, err=said)])["findings"]
    assert (found["code"], "host name" in found["message"]) == ("server_unreachable", True)


def test_c022_two_reports_in_one_run_are_none() -> None:
    report = "number of transactions actually processed: {n}\ntps = {n}.0 (without initial connection time)\n"
    step = {"name": "measured", "argv": [], "stdout": report.format(n=5) + report.format(n=7), "stderr": "", "version": "16.2"}
    measurement = pgbench.result(params(), [{**step, "job": {"rc": 0, "state": "finished"}}])
    assert (codes(measurement), measurement["metrics"]) == (["no_result"], {})
    assert "2 reports" in measurement["findings"][0]["message"]


def test_c007_message_names_both_numbers() -> None:
    (found,) = pgbench.result(params(clients=80), [captured("pgbench15_err_too_many_clients.txt")])["findings"]
    assert (found["evidence"]["clients"], found["evidence"]["first_failed_client"]) == (80, 29)
    assert "80 clients" in found["message"] and "client 29" in found["message"]


def test_c008_aborted_without_a_figure() -> None:
    measurement = pgbench.result(params(scripts=[{"sql": "x;"}]), [captured("pgbench15_err_pipeline_simple.txt")])
    assert (codes(measurement), measurement["metrics"]) == (["clients_aborted"], {})
    assert measurement["findings"][0]["evidence"]["first_error"] == "cannot use pipeline mode with the simple query protocol"
    assert measurement["counts"]["failed_pct"] is None


def test_c005_failures_stand_beside_the_rate() -> None:
    measurement = pgbench.result(params(scripts=[{"sql": "x;"}]), [captured("pgbench15_serialization_default_r_detailed.txt")])
    assert measurement["metrics"]["tps"]["value"] == 351.733379
    assert {k: measurement["counts"][k] for k in ("processed", "failed", "failed_pct", "serialization_failures")} == {
        "processed": 1055,
        "failed": 3764,
        "failed_pct": 78.107,
        "serialization_failures": 3764,
    }
    hottest = max(measurement["latency"]["statements"], key=lambda s: s["latency_ms"])
    assert (hottest["text"], hottest["failures"]) == ("COMMIT;", 347)


def test_c089_maximum_and_kind_of_loop_are_kept() -> None:
    open_loop = pgbench.result(params(rate=300.0), [captured("pgbench15_rate_only.txt")], DIGEST)
    assert (open_loop["conditions"]["loop"], open_loop["conditions"]["rate"]) == ("open", 300.0)
    assert open_loop["latency"]["lag"] == {"average": 1.838, "max": 27.811}
    assert (open_loop["latency"]["max"], open_loop["latency"]["p99_9"]) == (6.0, 5.0)


def test_reconnecting_up_to_13_counts_the_connections() -> None:
    text = "number of transactions actually processed: 15660\ntps = 521.868802 (including connections establishing)\n"
    both = text + "tps = 190594.420914 (excluding connections establishing)\n"
    measurement = pgbench.result(params(reconnect=True), [step(out=both)])
    assert measurement["metrics"]["tps"]["value"] == 521.868802
    assert measurement["conditions"]["tps_basis"] == "including reconnection times"
    assert pgbench.result(params(), [step(out=both)])["metrics"]["tps"]["value"] == 190594.420914


def test_incomplete_log() -> None:
    one = captured("pgbench16_run_tpcb_t100_c4.txt")
    assert codes(pgbench.result(params(scale=5), [one], {**DIGEST, "lines": 400})) == []
    assert codes(pgbench.result(params(scale=5), [one], {**DIGEST, "lines": 399})) == ["log_incomplete"]
    assert codes(pgbench.result(params(scale=5, sampling_rate=0.1), [one], {**DIGEST, "lines": 41})) == []
    sampled = pgbench.result(params(scale=5, sampling_rate=0.1), [one], {**DIGEST, "lines": 41})["latency"]
    assert (sampled["sampling"], sampled["source"]) == (0.1, "log")


def test_load_and_ramp_up_have_figures_of_their_own() -> None:
    load = pgbench.result(params(), [captured("pgbench18_init_s10.txt")])
    assert load["metrics"] == {"load_seconds": {"value": 4.78, "unit": "s", "better": "lower"}}
    assert (load["findings"], load["progress"], load["counts"]["processed"]) == ([], [], None)
    until_12 = pgbench.result(params(), [step("load", err="creating tables...\nvacuum...\nset primary key...\ndone.\n")])
    assert until_12["metrics"]["load_seconds"]["value"] == 5.5  # measured from outside
    measured = captured("pgbench16_run_tpcb_t100_c4.txt")
    ramp_up = {**captured("pgbench18_run_tpcb_t100_c4.txt"), "name": "ramp_up"}
    both = pgbench.result(params(scale=5), [ramp_up, measured])
    assert both["metrics"]["tps"]["value"] == 458.170206
    assert [s["metrics"]["tps"]["value"] for s in both["steps"]] == [455.06723, 458.170206]


def test_seed_is_not_claimed_where_it_cannot_be_given() -> None:
    old = {**captured("pgbench13_run_tpcb_t100_c4.txt"), "version": "pgbench (PostgreSQL) 10.23"}
    measurement = pgbench.result(params(scale=5), [old])
    assert (measurement["conditions"]["seed"], measurement["load_generator"]["version"]) == (None, "10.23")
