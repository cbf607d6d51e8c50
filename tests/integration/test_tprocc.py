# GNU General Public License v3.0 or later (see LICENSE)
"""The TPROC-C data set and the built-in driver on a real server: rules of population, consistency, counts, and trouble."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import tprocc as driver
from support.cluster import running_cluster, sql
from support.modules import wait_for

from ansible_collections.pgsizing.bench.plugins.module_utils import verdict
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import verdict as verdict_of
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import tprocc

WAREHOUSES = 2
DATABASE = "tpcc"


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, Any]]:
    settings = "shared_buffers = 128MB\nautovacuum = off\nsynchronous_commit = off\nmax_wal_size = 4GB\n"
    with tempfile.TemporaryDirectory(prefix="pgs-") as home, running_cluster(Path(home) / "tprocc", settings) as here:
        yield here


@pytest.fixture(scope="module")
def built(cluster: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A data set of two warehouses that no test changes; the measurement of its build."""
    sql(cluster, f"CREATE DATABASE {DATABASE}")
    return driver.load(cluster, DATABASE, tmp_path_factory.mktemp("load"), warehouses=WAREHOUSES, load_sessions=2)


@pytest.fixture
def database(cluster: dict[str, Any], built: dict[str, Any]) -> Iterator[str]:
    """A copy of the data set to work on."""
    assert built["findings"] == []
    sql(cluster, f"CREATE DATABASE work TEMPLATE {DATABASE} STRATEGY file_copy")
    yield "work"
    wait_for(lambda: sql(cluster, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'work'") == "0")
    sql(cluster, "DROP DATABASE work")


def codes(findings: list[dict[str, Any]]) -> set[str]:
    return {f["code"] for f in findings}


# the data set ---------------------------------------------------------------------------------------------------------------


def test_the_build_is_measured_and_complete(cluster: dict[str, Any], built: dict[str, Any]) -> None:
    assert built["findings"] == []
    assert [s["name"] for s in built["steps"]] == ["schema", "rows", "indexes", "finish", "statistics"]
    assert built["metrics"]["load_seconds"]["value"] == pytest.approx(sum(s["elapsed_s"] for s in built["steps"]))
    assert built["conditions"]["resumed"] is False
    assert driver.check(cluster, DATABASE, warehouses=WAREHOUSES) == []
    assert (
        sql(cluster, "SELECT count(*) FROM pg_class WHERE reloptions IS NOT NULL AND relnamespace = 'public'::regnamespace", DATABASE)
        == "0"
    )
    analyzed = (
        "SELECT count(*) FROM pg_stat_user_tables WHERE schemaname = 'public' AND last_analyze IS NOT NULL AND last_vacuum IS NOT NULL"
    )
    assert sql(cluster, analyzed, DATABASE) == "9"


@pytest.mark.parametrize(
    ("what", "query", "expected"),
    [
        ("rows", "SELECT count(*) FROM warehouse", "2"),
        ("rows", "SELECT count(*) FROM customer", "60000"),
        ("rows", "SELECT count(*) FROM history", "60000"),
        ("rows", "SELECT count(*) FROM orders", "60000"),
        ("rows", "SELECT count(*) FROM new_order", "18000"),
        ("rows", "SELECT count(*) FROM stock", "200000"),
        ("rows", "SELECT count(*) FROM item", "100000"),
        ("lines of an order", "SELECT min(o_ol_cnt), max(o_ol_cnt) FROM orders", "5|15"),
        ("lines of an order", "SELECT abs(avg(o_ol_cnt) - 10) < 0.05 FROM orders", "t"),
        ("numbers of lines", "SELECT count(*) FROM (SELECT ol_w_id, ol_d_id, ol_o_id FROM order_line GROUP BY 1, 2, 3"
         " HAVING min(ol_number) <> 1 OR max(ol_number) <> count(*)) AS o", "0"),
        ("customers are a permutation", "SELECT count(*) FROM (SELECT FROM orders GROUP BY o_w_id, o_d_id"
         " HAVING count(DISTINCT o_c_id) <> 3000 OR min(o_c_id) <> 1 OR max(o_c_id) <> 3000) AS d", "0"),
        ("in random order", "SELECT abs(corr(o_id, o_c_id)) < 0.05 FROM orders", "t"),
        ("delivered", "SELECT count(*) FROM orders WHERE (o_carrier_id IS NOT NULL) <> (o_id < 2101)", "0"),
        ("carriers", "SELECT min(o_carrier_id), max(o_carrier_id), count(DISTINCT o_carrier_id) FROM orders", "1|10|10"),
        ("delivery dates", "SELECT count(*) FROM order_line WHERE (ol_delivery_d IS NOT NULL) <> (ol_o_id < 2101)", "0"),
        ("amounts", "SELECT min(ol_amount), max(ol_amount) FROM order_line WHERE ol_o_id < 2101", "0.00|0.00"),
        ("amounts", "SELECT min(ol_amount) > 0, max(ol_amount) > 9990, abs(avg(ol_amount) - 5000) < 50 FROM order_line "
         "WHERE ol_o_id > 2100",
         "t|t|t"),
        ("new orders", "SELECT min(no_o_id), max(no_o_id) FROM new_order", "2101|3000"),
        ("next order", "SELECT min(d_next_o_id), max(d_next_o_id) FROM district", "3001|3001"),
        ("takings", "SELECT min(w_ytd), max(w_ytd) FROM warehouse", "300000.00|300000.00"),
        ("takings", "SELECT min(d_ytd), max(d_ytd) FROM district", "30000.00|30000.00"),
        ("taxes", "SELECT min(d_tax) >= 0, max(d_tax) <= 0.2 FROM district", "t|t"),
        ("balance", "SELECT DISTINCT c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_credit_lim, c_middle FROM customer",
         "-10.00|10.00|1|0|50000.00|OE"),
        ("credit", "SELECT abs(avg((c_credit = 'BC')::integer) - 0.1) < 0.01, count(DISTINCT c_credit) FROM customer", "t|2"),
        ("discount", "SELECT min(c_discount), max(c_discount), abs(avg(c_discount) - 0.25) < 0.005 FROM customer", "0.0000|0.5000|t"),
        ("last names", "SELECT count(DISTINCT c_last) FROM customer WHERE c_id <= 1000", "1000"),
        ("last names", "SELECT c_last FROM customer WHERE c_w_id = 1 AND c_d_id = 1 AND c_id IN (1, 372, 1000) ORDER BY c_id",
         "BARBARBAR\nPRICALLYOUGHT\nEINGEINGEING"),
        ("lengths", "SELECT min(length(c_data)) >= 300, max(length(c_data)) <= 500, min(length(c_first)), max(length(c_first)) "
         "FROM customer",
         "t|t|8|16"),
        ("codes", "SELECT count(*) FROM customer WHERE c_zip !~ '^[0-9]{4}11111$' OR c_phone !~ '^[0-9]{16}$' "
         "OR c_state !~ '^[A-Z0-9]{2}$'",
         "0"),
        ("stock", "SELECT min(s_quantity), max(s_quantity), abs(avg(s_quantity) - 55) < 0.3 FROM stock", "10|100|t"),
        ("stock", "SELECT DISTINCT s_ytd, s_order_cnt, s_remote_cnt FROM stock", "0|0|0"),
        ("stock", "SELECT min(length(s_data)) = 26, max(length(s_data)) = 50, min(length(s_dist_07)) = 24 FROM stock", "t|t|t"),
        ("originals", "SELECT abs(avg((s_data LIKE '%ORIGINAL%')::integer) - 0.1) < 0.01 FROM stock", "t"),
        ("originals", "SELECT abs(avg((i_data LIKE '%ORIGINAL%')::integer) - 0.1) < 0.01 FROM item", "t"),
        ("prices", "SELECT min(i_price) >= 1, max(i_price) <= 100, abs(avg(i_price) - 50.5) < 0.5, max(i_im_id) FROM item", "t|t|t|10000"),
        ("payments", "SELECT DISTINCT h_amount FROM history", "10.00"),
        ("items drawn evenly", "SELECT min(ol_i_id) < 50, max(ol_i_id) > 99950, abs(avg(ol_i_id) - 50000) < 300 FROM order_line", "t|t|t"),
    ],
)  # fmt: skip
def test_population(cluster: dict[str, Any], built: dict[str, Any], what: str, query: str, expected: str) -> None:
    assert sql(cluster, query, DATABASE) == expected


def test_tables_are_declared_as_hammerdb_declares_them(cluster: dict[str, Any], built: dict[str, Any]) -> None:
    columns = (
        "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN '' ELSE ' null' END, ', '"
        " ORDER BY attnum) FROM pg_attribute WHERE attrelid = '{}'::regclass AND attnum > 0"
    )
    assert sql(cluster, columns.format("order_line"), DATABASE) == (
        "ol_delivery_d timestamp with time zone null, ol_o_id integer, ol_w_id integer, ol_i_id integer, ol_supply_w_id integer,"
        " ol_d_id smallint, ol_number smallint, ol_quantity smallint, ol_amount numeric(6,2) null, ol_dist_info character(24) null"
    )
    assert sql(cluster, columns.format("new_order"), DATABASE) == "no_w_id integer, no_o_id integer, no_d_id smallint"
    keys = (
        "SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE contype = 'p' AND connamespace = 'public'::regnamespace"
    )
    assert sql(cluster, keys, DATABASE) == "customer_i1 district_i1 item_i1 new_order_i1 order_line_i1 orders_i1 stock_i1 warehouse_i1"
    others = "SELECT string_agg(indexdef, E'\\n' ORDER BY indexname) FROM pg_indexes WHERE indexname LIKE '%_i2'"
    assert sql(cluster, others, DATABASE) == (
        "CREATE UNIQUE INDEX customer_i2 ON public.customer USING btree (c_w_id, c_d_id, c_last, c_first, c_id)\n"
        "CREATE UNIQUE INDEX orders_i2 ON public.orders USING btree (o_w_id, o_d_id, o_c_id, o_id)"
    )


@pytest.mark.parametrize(
    "call",
    [
        "neword(1,2,3,4,5,0.0,'','',0.0,0.0,0,TO_TIMESTAMP('20300101120000','YYYYMMDDHH24MISS')::timestamp without time zone)",
        "payment(1,2,2,3,1,17,'0','BARBARBAR',5,'','','','','','','','','','','','','','','','','','',"
        "TO_TIMESTAMP('20300101120000','YYYYMMDDHH24MISS')::timestamp without time zone,0.0,0.0,0.0,'',"
        "TO_TIMESTAMP('20300101120000','YYYYMMDDHH24MISS')::timestamp without time zone)",
        "delivery(1,7,TO_TIMESTAMP('20300101120000','YYYYMMDDHH24MISS')::timestamp without time zone)",
        "slev(1,3,15,0)",
        "ostat(1,2,3,1,'BARBARBAR','','',0.0,0,TO_TIMESTAMP('20300101120000','YYYYMMDDHH24MISS')::timestamp without time zone,0,'')",
    ],
    ids=lambda call: call.partition("(")[0],
)
def test_routines_take_the_calls_of_hammerdbs_driver(cluster: dict[str, Any], database: str, call: str) -> None:
    sql(cluster, f"call {call}", database)
    assert driver.check(cluster, database, warehouses=WAREHOUSES) == []


def test_what_a_new_order_does(cluster: dict[str, Any], database: str) -> None:
    """Over many orders: every line has its stock's text and a price, but for the item that does not exist; the quantities are taken."""
    calls = "DO $$ DECLARE a numeric; b varchar; c varchar; d numeric; e numeric; o integer; BEGIN FOR i IN 1 .. 1000 LOOP"
    calls += " CALL neword(1, 2, 1 + i % 10, 1 + i, 5 + i % 11, a, b, c, d, e, o, now()::timestamp); END LOOP; END $$"
    sql(cluster, calls, database)
    lines = "FROM order_line JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id"
    dist = "CASE ol_d_id " + " ".join(f"WHEN {n} THEN s_dist_{n:02}" for n in range(1, 11)) + " END"
    assert sql(cluster, f"SELECT count(*) {lines} WHERE ol_o_id > 3000 AND (ol_dist_info <> {dist} OR ol_amount IS NULL)", database) == "0"
    missing = sql(cluster, "SELECT count(*), count(ol_amount), count(ol_dist_info) FROM order_line WHERE ol_i_id = 100001", database)
    orders, amounts, infos = map(int, missing.split("|"))
    assert 1 <= orders <= 30
    assert (amounts, infos) == (0, 0)
    remote = float(sql(cluster, "SELECT avg((ol_supply_w_id <> ol_w_id)::integer) FROM order_line WHERE ol_o_id > 3000", database))
    assert 0.005 < remote < 0.016
    assert sql(cluster, "SELECT min(s_quantity) >= 0 FROM stock", database) == "t"
    assert driver.check(cluster, database, warehouses=WAREHOUSES) == []


@pytest.mark.parametrize("plans", ["auto", "force_generic_plan", "force_custom_plan"])
def test_a_stock_level_reads_the_lines_of_20_orders_whatever_the_plan(cluster: dict[str, Any], database: str, plans: str) -> None:
    """An index lookup for each line, not the whole stock of the warehouse: not even where random reads are taken to be cheap or dear."""
    calls = f"SET plan_cache_mode = {plans}; BEGIN;"
    calls += "".join(f" SET random_page_cost = {cost}; CALL slev(1, {d}, 15, 0);" for cost in (1.1, 10) for d in range(1, 9))
    looked = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'stock'"
    read = int(sql(cluster, f"{calls} {looked}", database).splitlines()[-1])
    assert 16 * 20 * 5 <= read <= 16 * 20 * 15


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM warehouse WHERE w_id = 2",
        "DELETE FROM district WHERE d_w_id = 1 AND d_id = 7",
        "DELETE FROM customer WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 17",
        "DELETE FROM history WHERE ctid = '(3,4)'",
        "DELETE FROM item WHERE i_id = 4711",
        "DELETE FROM stock WHERE s_w_id = 2 AND s_i_id = 4711",
        "DELETE FROM orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 17",
        "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 2101",
        "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 2500",
        "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 10 AND ol_o_id = 3000 AND ol_number = 5",
        "UPDATE order_line SET ol_amount = 5 WHERE ol_w_id = 2 AND ol_d_id = 10 AND ol_o_id = 12 AND ol_number = 5",
        "UPDATE district SET d_next_o_id = 3002 WHERE d_w_id = 1 AND d_id = 7",
        "UPDATE customer SET c_balance = 0 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 17",
        "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 17",
    ],
)
def test_one_wrong_row_is_found(cluster: dict[str, Any], built: dict[str, Any], statement: str) -> None:
    found = driver.check(cluster, DATABASE, before=statement)
    assert codes(found) == {"data_inconsistent"}
    assert verdict_of(found) == "invalid"


def test_partitions_by_warehouse(cluster: dict[str, Any], tmp_path: Path) -> None:
    sql(cluster, "CREATE DATABASE parts")
    built = driver.load(cluster, "parts", tmp_path, warehouses=2, partitions=2, load_sessions=2)
    assert built["findings"] == []
    assert driver.check(cluster, "parts", warehouses=2, partitions=2) == []
    assert codes(driver.check(cluster, "parts", warehouses=2)) == {"wrong_scale"}
    assert sql(cluster, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'order_line'::regclass", "parts") == "2"
    tables = "('order_line'::regclass, 'ol_0'::regclass, 'ol_1'::regclass)"
    valid = f"SELECT bool_and(indisvalid AND indisprimary) FROM pg_index WHERE indrelid IN {tables}"
    assert sql(cluster, valid, "parts") == "t"
    sql(cluster, "DROP DATABASE parts")


# builds that go wrong -----------------------------------------------------------------------------------------------------------


def test_a_build_that_was_killed_half_way_never_passes_and_is_taken_up(cluster: dict[str, Any], tmp_path: Path) -> None:
    sql(cluster, "CREATE DATABASE half")
    ready = "SELECT count(done) FROM tprocc_build.work"
    schema, rows, *_rest = tprocc.load_steps({"warehouses": 2, "load_sessions": 2}, driver.VERSION, driver.connection(cluster, "half"))
    driver.run([schema], cluster, tmp_path / "first")
    process = driver.start(rows, cluster, tmp_path / "first" / "rows")
    wait_for(lambda: sql(cluster, ready, "half") not in ("0", ""))
    process.kill()
    process.wait()
    wait_for(lambda: sql(cluster, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'half'") == "0")
    done = int(sql(cluster, ready, "half"))
    assert 1 <= done < 12
    for depth in ("before", "full"):
        assert codes(driver.check(cluster, "half", depth, warehouses=2)) == {"dataset_failed"}
    built = driver.load(cluster, "half", tmp_path / "second", warehouses=2, load_sessions=2)
    assert (built["findings"], built["conditions"]["resumed"]) == ([], True)
    assert driver.check(cluster, "half", warehouses=2) == []
    assert "rows: 12 of 12 done" in built_text(tmp_path / "second" / "rows")
    sql(cluster, "DROP DATABASE half")


def built_text(folder: Path) -> str:
    return (folder / "stderr").read_text()


def test_a_finished_build_is_left_as_it_is(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    size = "SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    before = sql(cluster, size, database)
    assert driver.load(cluster, database, tmp_path, warehouses=WAREHOUSES, load_sessions=2)["findings"] == []
    assert sql(cluster, size, database) == before


def test_another_schema_is_refused_with_what_was_found(cluster: dict[str, Any], built: dict[str, Any], tmp_path: Path) -> None:
    found = driver.load(cluster, DATABASE, tmp_path, warehouses=3)["findings"]
    assert codes(found) == {"dataset_failed"}
    assert '"warehouses": 2' in found[0]["message"]
    assert codes(driver.check(cluster, DATABASE, "before", warehouses=3)) == {"wrong_scale"}


def test_foreign_tables_are_left_alone(cluster: dict[str, Any], tmp_path: Path) -> None:
    sql(cluster, "CREATE DATABASE theirs")
    sql(cluster, "CREATE TABLE orders (id integer)", "theirs")
    found = driver.load(cluster, "theirs", tmp_path, warehouses=1)["findings"]
    assert codes(found) == {"dataset_failed"}
    assert "did not build: orders" in found[0]["message"]
    sql(cluster, "DROP DATABASE theirs")


def test_functions_in_place_of_procedures_are_refused(cluster: dict[str, Any], built: dict[str, Any]) -> None:
    """HammerDB's default makes functions; the calls of the driver would fail one by one."""
    function = "DROP PROCEDURE slev; CREATE FUNCTION slev(integer, integer, integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'"
    found = driver.check(cluster, DATABASE, "before", function, warehouses=WAREHOUSES)
    assert codes(found) == {"dataset_failed"}
    assert "slev are functions" in found[0]["message"]
    missing = driver.check(cluster, DATABASE, "before", "DROP PROCEDURE payment", warehouses=WAREHOUSES)
    assert "routines are missing: payment" in missing[0]["message"]


# runs ---------------------------------------------------------------------------------------------------------------------------


def test_a_run_counts_what_the_database_counts(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    orders = "SELECT sum(d_next_o_id) FROM district"
    m = driver.measure(cluster, database, tmp_path, warehouses=WAREHOUSES, clients=3, ramp_up=1, duration=4)
    assert [s["name"] for s in m["steps"]] == ["ramp_up", "before", "measured", "after"]
    assert codes(m["findings"]) == set()
    nopm, tpm, window = m["metrics"]["nopm"]["value"], m["metrics"]["tpm"]["value"], m["conditions"]["window_s"]
    assert nopm > 0
    assert window == pytest.approx(4, abs=0.5)
    taken = m["conditions"]["new_orders"]
    assert nopm == pytest.approx(60 * taken / window)
    assert int(sql(cluster, orders, database)) - 60020 > taken  # the ramp-up is not in the window
    scripts = {s["name"]: s for s in m["latency"]["scripts"]}
    assert list(scripts) == ["neword", "payment", "delivery", "slev", "ostat"]
    assert scripts["neword"]["n"] == taken
    assert all(s["p50"] <= s["p95"] <= s["p99"] <= s["max"] for s in scripts.values())
    assert 0 <= m["conditions"]["commits"] - m["counts"]["processed"] <= 10  # ours, and those of the two looks at the counters
    assert tpm == pytest.approx(60 * m["conditions"]["commits"] / window)
    assert m["conditions"]["rollbacks"] == 0
    seconds = [row["nopm"] for row in m["progress"] if row["nopm"] is not None]
    assert seconds
    assert sum(seconds) / len(seconds) == pytest.approx(nopm, rel=0.3)
    assert m["load_generator"]["name"] == "builtin"
    assert driver.check(cluster, database, warehouses=WAREHOUSES) == []
    context = {"headline": "nopm", "parameters": {"warehouses": WAREHOUSES, "clients": 3, "duration": 4}, "measurement": m}
    assert not {"zero_result", "no_result", "tpm_nopm_ratio"} & codes(verdict.judge(context))


@pytest.mark.parametrize("protocol", ["extended", "prepared"])
def test_all_warehouses_and_other_protocols(cluster: dict[str, Any], database: str, tmp_path: Path, protocol: str) -> None:
    m = driver.measure(
        cluster, database, tmp_path, warehouses=WAREHOUSES, clients=3, ramp_up=0, duration=2, all_warehouses=True, protocol=protocol
    )
    assert codes(m["findings"]) == set()
    assert m["conditions"]["protocol"] == protocol
    assert m["metrics"]["nopm"]["value"] > 0


@pytest.mark.parametrize(
    ("clients", "warehouses", "everywhere", "expected"),
    [
        (2, 2, False, {0: {1}, 1: {2}}),
        (2, 10, False, {0: {1}, 1: {6}}),
        (5, 2, False, {0: {1}, 1: {1}, 2: {1}, 3: {2}, 4: {2}}),
        (2, 5, True, {0: {1, 3, 5}, 1: {2, 4}}),
        (3, 2, True, {0: {1}, 1: {2}, 2: {1}}),
        (1, 1, True, {0: {1}}),
    ],
)
def test_where_a_virtual_user_works(
    cluster: dict[str, Any], tmp_path: Path, clients: int, warehouses: int, everywhere: bool, expected: dict[int, set[int]]
) -> None:
    """Each has a home warehouse, spread evenly, or its share of all of them, as HammerDB deals them."""
    sql(cluster, "DROP TABLE IF EXISTS seen; CREATE TABLE seen (client integer, warehouse integer)")
    head = (driver.FILES / "neword.pgbench").read_text().partition("\\set d_id")[0]
    assert all(head in path.read_text() for path in driver.FILES.glob("*.pgbench"))
    (tmp_path / "seen").write_text(head + "INSERT INTO seen VALUES (:client_id, :w_id);\n")
    argv = ["pgbench", "-h", cluster["socket_dir"], "-p", str(cluster["port"]), "-U", cluster["user"], "-n", "-f", "seen", "-t", "40"]
    argv += ["-s", str(warehouses), "-c", str(clients), "-D", f"clients={clients}", "-D", f"all_warehouses={int(everywhere)}", "postgres"]
    subprocess.run(argv, cwd=tmp_path, env=driver.environment(cluster), check=True, capture_output=True)
    rows = sql(cluster, "SELECT DISTINCT client, warehouse FROM seen").splitlines()
    found: dict[int, set[int]] = {}
    for row in rows:
        client, warehouse = map(int, row.split("|"))
        found.setdefault(client, set()).add(warehouse)
    assert found == expected


def test_serialization_failures_are_counted_and_shown(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    sql(cluster, f"ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'")
    m = driver.measure(cluster, database, tmp_path, warehouses=WAREHOUSES, clients=6, ramp_up=0, duration=3)
    assert m["counts"]["serialization_failures"] > 0
    assert m["counts"]["failed"] == m["counts"]["serialization_failures"] + m["counts"]["deadlock_failures"]
    assert m["conditions"]["rollbacks"] >= m["counts"]["failed"]
    assert m["metrics"]["nopm"]["value"] > 0
    assert driver.check(cluster, database, warehouses=WAREHOUSES) == []


def test_more_users_than_connections(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    m = driver.measure(cluster, database, tmp_path, warehouses=WAREHOUSES, clients=30, ramp_up=0, duration=2)
    assert codes(m["findings"]) == {"too_many_clients"}
    assert "nopm" not in m["metrics"]


def test_a_server_that_restarts_in_mid_run(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    def restart(step: str, folder: Path) -> None:
        if step == "measured":
            wait_for(lambda: "progress:" in (folder / "stderr").read_text())
            control = [
                *cluster["run_prefix"],
                f"{cluster['bin_dir']}/pg_ctl",
                "restart",
                "-D",
                cluster["data_dir"],
                "-m",
                "immediate",
                "-w",
            ]
            subprocess.run([*control, "-l", cluster["log"]], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/")

    m = driver.measure(cluster, database, tmp_path, restart, warehouses=WAREHOUSES, clients=2, ramp_up=0, duration=8)
    assert verdict_of(m["findings"]) == "aborted"
    assert "nopm" not in m["metrics"]
    assert driver.check(cluster, database, warehouses=WAREHOUSES) == []


def test_data_that_a_run_found_broken(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    sql(cluster, "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 10 AND ol_o_id = 12", database)
    m = driver.measure(cluster, database, tmp_path, warehouses=WAREHOUSES, clients=2, ramp_up=0, duration=2)
    assert codes(m["findings"]) == {"data_inconsistent"}
    assert verdict_of(m["findings"]) == "invalid"


def test_orders_of_somebody_else_in_the_window(cluster: dict[str, Any], database: str, tmp_path: Path) -> None:
    def interfere(step: str, _folder: Path) -> None:
        if step == "measured":
            sql(cluster, "UPDATE district SET d_next_o_id = d_next_o_id + 500 WHERE d_w_id = 2 AND d_id = 3", database)

    m = driver.measure(cluster, database, tmp_path, interfere, warehouses=WAREHOUSES, clients=2, ramp_up=0, duration=2)
    assert codes(m["findings"]) == {"inconsistent", "data_inconsistent"}
