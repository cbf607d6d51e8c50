# GNU General Public License v3.0 or later (see LICENSE)
"""The workload tprocc: parameters, commands, and what becomes of the outputs. On a real server: tests/integration/test_tprocc.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import findings as table
from ansible_collections.pgsizing.bench.plugins.module_utils import verdict
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench, tprocc

CONNECTION = {"host": "/run/pg", "port": 5433, "user": "bench", "dbname": "tpcc"}
REPORT = """pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: multiple scripts
scaling factor: 4
query mode: simple
number of clients: 4
number of threads: 2
maximum number of tries: 1
duration: 60 s
number of transactions actually processed: {processed}
number of failed transactions: 0 (0.000%)
number of serialization failures: 0 (0.000%)
number of deadlock failures: 0 (0.000%)
latency average = 4.064 ms
latency stddev = 2.550 ms
initial connection time = 28.442 ms
tps = {tps} (without initial connection time)
SQL script 1: 0_neword
 - weight: 10 (targets 43.5% of total)
 - 4221 transactions (43.0% of total, tps = 422.320620)
 - latency average = 4.678 ms
 - latency stddev = 2.429 ms
"""


def params(**given: Any) -> dict[str, Any]:
    return tprocc.complete(given, cores=2)


def step(name: str, rc: int | None = 0, out: str = "", err: str = "", **job: Any) -> dict[str, Any]:
    known = {"state": "finished", "rc": rc, "stopped": None, "started": 10.0, "ended": 70.5, "elapsed_s": 60.5, "rusage": {}, **job}
    return {"name": name, "argv": [name], "version": "15.18", "job": known, "stdout": out, "stderr": err}


def snapshot(orders: int, commits: int, rollbacks: int = 0) -> str:
    counters = {"at": 1.0, "next_o_ids": orders, "commits": commits, "rollbacks": rollbacks, "deadlocks": 0}
    return json.dumps({**counters, "database_bytes": 10**9, "server_version": "15.18", "server_started": 1.0}) + "\n"


def checked(**violations: int) -> str:
    routines = dict.fromkeys(("delivery", "neword", "ostat", "payment", "slev"), "p")
    row = {"warehouses": 4, "last": 4, "districts": 40, "built": None, "routines": routines, "violations": {"1": 0, **violations}}
    return json.dumps(row) + "\n"


def run(orders: int = 37_000, commits: int = 85_100, *, ramp_up: str = "", check: str = "", tps: str = "1418.333333") -> dict[str, Any]:
    steps = [
        step("ramp_up", out=REPORT.format(processed=5000, tps="1000"), err=ramp_up),
        step("before", out=snapshot(1000, 500)),
        step("measured", out=REPORT.format(processed=85_100, tps=tps)),
        step("after", out=snapshot(1000 + orders, 500 + commits) + (check or checked())),
    ]
    return tprocc.result(params(warehouses=4), steps)


def codes(measurement: dict[str, Any]) -> set[str]:
    return {f["code"] for f in measurement["findings"]}


# parameters ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"warehouses": 10, "clients": 4, "duration": 30, "ramp_up": 15, "threads": 2, "load_sessions": 2, "mode": "hammerdb"}),
        ({"database_size": "120GB"}, {"warehouses": 1275, "database_size": None}),
        ({"database_size": "1MB"}, {"warehouses": 1}),
        ({"warehouses": 600, "clients": 96}, {"warehouses": 600, "threads": 2}),
        ({"clients": 1}, {"threads": 1}),
    ],
)
def test_defaults(given: dict[str, Any], expected: dict[str, Any]) -> None:
    completed = params(**given)
    assert {k: completed[k] for k in expected} == expected
    assert tprocc.complete(completed, 2) == completed
    assert tprocc.validate(completed) == []


def test_a_size_is_met_by_the_warehouses() -> None:
    assert tprocc.dataset_bytes(params(database_size="120GB")) == pytest.approx(120 * 2**30, rel=0.001)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"database_size": "120GB", "warehouses": 4}, "exclude each other"),
        ({"database_size": "large"}, "'large' is not a size such as 120GB"),
        ({"warehouses": 0}, "warehouses: 0 is not a whole number of 1 or more"),
        ({"partitions": -1}, "partitions: -1"),
        ({"partitions": 5, "warehouses": 4}, "more than there are warehouses"),
        ({"load_sessions": 0.5}, "load_sessions"),
        ({"mode": "specification"}, "mode: 'specification' is not one of hammerdb"),
        ({"clients": 0}, "clients: 0"),
        ({"duration": 0}, "duration: 0"),
        ({"protocol": "fast"}, "protocol: 'fast'"),
    ],
)
def test_what_cannot_be(given: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in tprocc.validate(params(**given))), tprocc.validate(params(**given))


def test_contract() -> None:
    """Every name that planner and action use of the workload pgbench is there."""
    public = {name for name in vars(pgbench) if name.isupper() and name in (pgbench.__doc__ or "")}
    assert public <= set(vars(tprocc))
    assert {name for group in tprocc.EXCLUSIVE for name in group} | set(tprocc.DATA_PARAMETERS) <= set(tprocc.OPTIONS)
    assert tprocc.unsupported(params(), "10.23")
    assert tprocc.unsupported(params(), "15.18") == []


def test_fingerprint_is_of_what_the_data_depend_on() -> None:
    same = tprocc.dataset(params(warehouses=4))["fingerprint"]
    assert tprocc.dataset(params(warehouses=4, clients=96, load_sessions=8, protocol="prepared"))["fingerprint"] == same
    others = [params(warehouses=5), params(warehouses=4, partitions=2)]
    assert len({same, *(tprocc.dataset(p)["fingerprint"] for p in others)}) == 3


# commands --------------------------------------------------------------------------------------------------------------


def test_steps() -> None:
    load = tprocc.load_steps(params(warehouses=7, partitions=2, load_sessions=3), "15.18", CONNECTION)
    assert [s["name"] for s in load] == ["schema", "rows", "indexes", "finish", "statistics"]
    assert [s["argv"][0] for s in load] == ["psql", "pgbench", "pgbench", "psql", "vacuumdb"]
    assert {"--set=warehouses=7", "--set=partitions=2", "--set=mode=hammerdb"} <= set(load[0]["argv"])
    assert load[1]["argv"][-8:] == ["3", "-j", "3", "-t", "1", "-f", "rows.sql", "tpcc"]
    run_ = tprocc.run_steps(params(warehouses=7, clients=5, all_warehouses=True, duration=33, ramp_up=9), "15.18", CONNECTION)
    assert [s["name"] for s in run_] == ["ramp_up", "before", "measured", "after"]
    measured = run_[2]["argv"]
    assert {"clients=5", "all_warehouses=1", "0_neword@10", "1_payment@10", "2_delivery@1", "3_slev@1", "4_ostat@1", "-l"} <= set(measured)
    assert measured[measured.index("-s") + 1] == "7"
    assert measured[measured.index("-T") + 1] == "33"
    assert run_[0]["argv"][run_[0]["argv"].index("-T") + 1] == "9"
    assert [s["name"] for s in tprocc.run_steps(params(ramp_up=0), "15.18", CONNECTION)] == ["before", "measured", "after"]


def test_every_step_says_what_its_folder_needs(pytestconfig: pytest.Config) -> None:
    shipped = pytestconfig.rootpath / "roles/tprocc/files"
    steps = [*tprocc.load_steps(params(), "15.18", CONNECTION), *tprocc.run_steps(params(), "15.18", CONNECTION)]
    for one in steps:
        assert all((shipped / file).is_file() for file in one["shipped"].values()), one["shipped"]
        there = {*one["shipped"], *one["files"]}
        named = {word.partition("=")[2] for word in one["argv"] if word.startswith("--file=")}
        named |= {b.partition("@")[0] for a, b in zip(one["argv"], one["argv"][1:], strict=False) if a == "-f"}
        assert named <= there, one["name"]


# results ------------------------------------------------------------------------------------------------------------------


def test_nopm_and_tpm_over_the_window_by_pgbenchs_clock() -> None:
    m = run(tps="1418.333333")
    assert m["conditions"]["window_s"] == pytest.approx(60)
    assert m["metrics"]["nopm"]["value"] == pytest.approx(37_000)
    assert m["metrics"]["tpm"]["value"] == pytest.approx(85_100)
    assert list(m["metrics"]) == ["nopm", "tpm", "tps"]
    assert (m["workload"], m["load_generator"]["name"], m["load_generator"]["version"]) == ("tprocc", "builtin", "15.18")
    assert codes(m) == set()
    assert run(tps="709.1666665")["metrics"]["nopm"]["value"] == pytest.approx(18_500)  # the same work in twice the time


@pytest.mark.parametrize(
    ("orders", "commits", "expected"),
    [(37_000, 85_100, set()), (37_000, 88_426, {"tpm_nopm_ratio"}), (0, 18_400, {"zero_result"})],
    ids=["2.30", "C020: 2.39", "C028: no new orders"],
)
def test_c020_c028_counts_that_do_not_fit(orders: int, commits: int, expected: set[str]) -> None:
    m = run(orders, commits)
    context = {"headline": "nopm", "parameters": {"warehouses": 400, "clients": 4, "duration": 60}, "measurement": m}
    found = verdict.judge(context)
    assert {f["code"] for f in found if f["severity"] != "note"} == expected
    assert table.verdict(found) == ("invalid" if "zero_result" in expected else "suspect" if expected else "valid")


def test_virtual_users_beyond_the_warehouses_are_told() -> None:
    context = {"headline": "nopm", "parameters": {"warehouses": 4, "clients": 96, "duration": 60}, "measurement": run()}
    context["measurement"]["conditions"]["clients"] = 96
    assert "warehouse_contention" in {f["code"] for f in verdict.judge(context)}


@pytest.mark.parametrize(
    ("built", "violations"), [(None, {"3": 1}), ({"mode": "hammerdb", "partitions": 0, "complete": True}, {"3": 1, "10": 5})]
)
def test_condition_10_does_not_hold_for_what_hammerdb_built(built: dict[str, Any] | None, violations: dict[str, int]) -> None:
    row = {**json.loads(checked(**{"3": 1, "10": 5})), "built": built}
    (found,) = tprocc.check([row], {})
    assert (found["code"], found["evidence"]["violations"]) == ("data_inconsistent", violations)


def test_violations_after_the_run() -> None:
    m = run(check=checked(**{"4": 3}))
    assert codes(m) == {"data_inconsistent"}
    assert "condition 4 (3)" in m["findings"][0]["message"]


@pytest.mark.parametrize(
    ("rates", "unsteady"),
    [([100.0] * 20, False), ([20.0 + 5 * n for n in range(20)], True), ([10.0] * 5 + [100.0] * 15, False), ([50.0, 100.0] * 3, False)],
    ids=["steady", "rising", "risen early", "too short to tell"],
)
def test_c032_is_the_ramp_up_over(rates: list[float], unsteady: bool) -> None:
    lines = "".join(f"progress: {n}.0 s, {rate} tps, lat 4.0 ms stddev 1.0, 0 failed\n" for n, rate in enumerate(rates, 1))
    assert ("ramp_up_unsteady" in codes(run(ramp_up=lines))) is unsteady


@pytest.mark.parametrize("name", ["before", "after"])
def test_without_counters_there_is_no_nopm(name: str) -> None:
    steps = [step("before", out=snapshot(1, 1)), step("measured", out=REPORT.format(processed=85_100, tps="1418.3")), step("after", out="")]
    broken = [{**s, **({"job": {**s["job"], "rc": 2}, "stderr": "psql: error: no"} if s["name"] == name else {})} for s in steps]
    m = tprocc.result(params(warehouses=4), broken)
    assert "nopm" not in m["metrics"]
    assert codes(m) == {"no_result"}


@pytest.mark.parametrize(
    ("changes", "metrics"),
    [({"commits": 10**9}, ["nopm", "tps"]), ({"next_o_ids": 10**9}, ["tpm", "tps"]), ({"deadlocks": 3}, ["nopm", "tpm", "tps"])],
)
def test_counters_that_fell_make_no_figure(changes: dict[str, int], metrics: list[str]) -> None:
    """Somebody reset the statistics, or put other data in place of these."""
    before = json.dumps({**json.loads(snapshot(1, 1)), **changes}) + "\n"
    report = REPORT.format(processed=85_100, tps="1418.3")
    steps = [step("before", out=before), step("measured", out=report), step("after", out=snapshot(37_001, 85_101) + checked())]
    m = tprocc.result(params(warehouses=4), steps)
    assert (list(m["metrics"]), codes(m)) == (metrics, {"inconsistent"})
    assert f"{next(iter(changes))} fell during the window" in m["findings"][0]["message"]


@pytest.mark.parametrize("answer", [snapshot(1, 1)[:30], json.dumps({**json.loads(snapshot(1, 1)), "next_o_ids": None}), ""])
def test_an_answer_that_lacks_counters_is_no_error(answer: str) -> None:
    report = REPORT.format(processed=85_100, tps="1418.3")
    m = tprocc.result(
        params(warehouses=4), [step("before", out=answer), step("measured", out=report), step("after", out=snapshot(2, 2) + checked())]
    )
    assert codes(m) == {"no_result"} and "its answer lacks some" in m["findings"][0]["message"]


def test_a_check_that_was_cut_off_is_none() -> None:
    m = run(check=checked()[:40])
    assert codes(m) == {"not_checked"}


def test_a_run_that_was_cut_short_has_no_nopm() -> None:
    error = "pgbench: error: client 0 script 0 aborted in command 4 query 0: FATAL:  terminating connection\n"
    m = tprocc.result(params(), [step("before", out=snapshot(1, 1)), step("measured", rc=2, err=error)])
    assert table.verdict(m["findings"]) == "aborted"
    assert "nopm" not in m["metrics"]


def test_new_orders_by_the_second_come_from_the_log() -> None:
    progress = "".join(f"progress: {n}.0 s, 230.0 tps, lat 4.0 ms stddev 1.0, 0 failed\n" for n in range(1, 5))
    seconds = [{"ts": str(10 + n), "transactions": "230", "not_processed": "0", "script_0": "100", "script_1": "130"} for n in range(5)]
    steps = [step("before", out=snapshot(1, 1)), step("measured", out=REPORT.format(processed=920, tps="230.0"), err=progress)]
    m = tprocc.result(params(), steps, {"seconds": seconds, "sampling": 0.5, "overall": {}, "scripts": {}})
    assert [row["nopm"] for row in m["progress"]] == [None, 12_000, 12_000, 12_000]
    assert [c["name"] for c in m["progress_columns"]] == ["nopm", "tpm"]


def test_a_build() -> None:
    steps = [step(name, elapsed_s=2.0) for name in ("schema", "rows", "indexes", "finish", "statistics")]
    assert tprocc.result(params(), steps)["metrics"]["load_seconds"]["value"] == 10
    resumed = tprocc.result(params(), [step("schema", out="resumed\n"), *steps[1:]])
    assert (resumed["metrics"], resumed["findings"], resumed["conditions"]["resumed"]) == ({}, [], True)  # its first part was not timed
    broken = tprocc.result(params(), [steps[0], step("rows", rc=2, err="NOTICE:  rows: 1 of 9 done\npgbench: error: disk full\n")])
    assert (broken["metrics"], codes(broken)) == ({}, {"dataset_failed"})
    assert "step rows ended with status 2: pgbench: error: disk full" in broken["findings"][0]["message"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NOTICE:  rows: 1 of 8 done\nNOTICE:  rows: 2 of 8 done\n", {"percent": 25.0}),
        ("HINWEIS:  indexes: 9 of 9 done\n", {"percent": 100.0}),
        ("NOTICE:  rows: 0 of 0 done\n", {"percent": 0.0}),
        ("progress: 3.0 s, 1400.5 tps, lat 2.5 ms stddev 1.0, 0 failed\n", {"rate": 1400.5, "latency_ms": 2.5}),
        ("pgbench (15.18)\n", None),
    ],
)
def test_progress(text: str, expected: dict[str, Any] | None) -> None:
    found = tprocc.progress(text)
    assert (found and {k: found[k] for k in expected or {}}) == expected
