# GNU General Public License v3.0 or later (see LICENSE)
"""The TPROC-C data set: its statement of checks, and what the answer means. For every schema of HammerDB's names, whoever built it.

The conditions are the first ten of the TPC-C specification, clause 3.3.2. The eleventh is of data just built, the twelfth needs
counters that HammerDB's routines do not keep.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding

ROUTINES = ("delivery", "neword", "ostat", "payment", "slev")
ITEMS = 100_000
DISTRICTS, CUSTOMERS, STOCKS = 10, 3_000, 100_000  # of a warehouse, of a district, of a warehouse

#: What a build leaves as the comment of its schema; ``None`` where another tool built the tables.
_BUILT = "(SELECT obj_description(oid, 'pg_namespace')::json FROM pg_namespace WHERE nspname = 'tprocc_build')"

#: Eleven warehouses spread evenly from the first to the last; all of them where there are no more.
_SAMPLE = "(SELECT 1 + n * ((SELECT max(w_id) FROM warehouse) - 1) / 10 FROM generate_series(0, 10) AS n)"

_CONDITIONS = {
    # cheap: small tables and the ends of indexes
    1: "SELECT count(*) FROM warehouse WHERE w_ytd IS DISTINCT FROM (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)",
    2: """SELECT count(*) FROM (SELECT d_next_o_id - 1 AS last, (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS o,
          (SELECT max(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS n FROM district) AS d
          WHERE last IS DISTINCT FROM o OR last <> n""",
    # of some warehouses, or of all
    3: """SELECT count(*) FROM (SELECT FROM new_order {where_new_order} GROUP BY no_w_id, no_d_id
          HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) AS d""",
    4: """SELECT count(*) FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS n FROM orders {where_orders} GROUP BY 1, 2) AS o
          FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS n FROM order_line {where_order_line} GROUP BY 1, 2) AS l
          ON ol_w_id = o_w_id AND ol_d_id = o_d_id WHERE o.n IS DISTINCT FROM l.n""",
    # of all: each reads whole tables
    5: """SELECT count(*) FROM orders FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
          WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)""",
    6: """SELECT count(*) FROM orders FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS n FROM order_line GROUP BY 1, 2, 3) AS l
          ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_ol_cnt IS DISTINCT FROM n""",
    7: """SELECT count(*) FROM order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
          WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)""",
    8: """SELECT count(*) FROM warehouse LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY 1) AS h ON h_w_id = w_id
          WHERE w_ytd IS DISTINCT FROM paid""",
    9: """SELECT count(*) FROM district LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2) AS h
          ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd IS DISTINCT FROM paid""",
    10: """SELECT count(*) FROM customer LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS owed FROM orders JOIN order_line
           ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) AS o
           ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
           LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2, 3) AS h
           ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
           WHERE c_balance IS DISTINCT FROM coalesce(owed, 0) - coalesce(paid, 0)""",
}
#: Rows of the tables whose number never changes.
_COUNTS = {
    "item": f"(SELECT abs(count(*) - {ITEMS}) FROM item)",
    "stock": "(SELECT count(*) FROM (SELECT FROM warehouse LEFT JOIN stock ON s_w_id = w_id"
    f" GROUP BY w_id HAVING count(s_i_id) <> {STOCKS}) AS w)",
    "customer": "(SELECT count(*) FROM (SELECT FROM district LEFT JOIN customer ON c_w_id = d_w_id AND c_d_id = d_id"
    f" GROUP BY d_w_id, d_id HAVING count(c_id) <> {CUSTOMERS}) AS d)",
}
#: How much each kind of check reads.
DEPTHS = ("before", "sample", "full")


def statement(depth: str) -> str:
    """Return one statement with one row: ``{warehouses, last, districts, built, routines, violations}``.

    ``depth``: ``before`` a run (reads next to nothing, so that caches stay as they are), ``sample`` (conditions 1 to 4, the last two
    on eleven warehouses), ``full`` (everything; it reads the whole database).
    """
    where = (
        {name: f"WHERE {column} IN {_SAMPLE}" for name, column in _WAREHOUSE_OF.items()}
        if depth == "sample"
        else dict.fromkeys(_WAREHOUSE_OF, "")
    )
    last = {"before": 2, "sample": 4, "full": 10}[depth]
    parts = {str(n): f"({sql.format(**where)})" for n, sql in _CONDITIONS.items() if n <= last}
    parts |= _COUNTS if depth == "full" else {}
    violations = ", ".join(f"'{name}', {sql}" for name, sql in parts.items())
    routines = ", ".join(f"'{name}'" for name in ROUTINES)
    return (
        "SELECT (SELECT count(*) FROM warehouse) AS warehouses, (SELECT max(w_id) FROM warehouse) AS last,"
        f" (SELECT count(*) FROM district) AS districts, {_BUILT} AS built, (SELECT json_object_agg(proname, prokind) FROM pg_proc"
        f" WHERE pronamespace = 'public'::regnamespace AND proname IN ({routines})) AS routines,"
        f" CASE WHEN coalesce(({_BUILT} ->> 'complete')::boolean, true) THEN json_build_object({violations}) END AS violations"
    )


_WAREHOUSE_OF = {"where_new_order": "no_w_id", "where_orders": "o_w_id", "where_order_line": "ol_w_id"}


def check(row: Mapping[str, Any], p: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return findings where the data set is not complete and consistent, or not the one that ``p`` asks for.

    ``row``: of ``statement``. ``p``: ``{mode, warehouses, partitions}``; without it whatever is there is checked against itself.
    """
    built = _json(row.get("built"))
    if built and not built["complete"]:
        return [finding("dataset_failed", "the build of the schema was interrupted; phase=load goes on with it", built=built)]
    here = {"mode": (built or {}).get("mode"), "partitions": (built or {}).get("partitions"), "warehouses": int(row["warehouses"])}
    findings = []
    if p and (here["warehouses"] != p["warehouses"] or (built and any(built[k] != p[k] for k in ("mode", "partitions")))):
        known = [name for name, value in here.items() if value is not None]
        found, asked = (", ".join(f"{name} {values[name]}" for name in known) for values in (here, p))
        text = f"the database holds a schema of another build: {found}, not {asked}"
        findings.append(finding("wrong_scale", text, found=here, asked=dict(p)))
    kinds = _json(row.get("routines")) or {}
    missing = [name for name in ROUTINES if name not in kinds]
    functions = [name for name, kind in kinds.items() if kind != "p"]
    if missing:
        findings.append(finding("dataset_failed", f"routines are missing: {', '.join(missing)}", routines=kinds))
    elif functions:
        text = f"{', '.join(functions)} are functions, and the built-in driver calls procedures: the schema was built without them"
        findings.append(finding("dataset_failed", text, routines=kinds))
    if int(row["last"] or 0) != here["warehouses"] or int(row["districts"]) != DISTRICTS * here["warehouses"]:
        text = f"{here['warehouses']} warehouses up to number {row['last']} with {row['districts']} districts: rows are missing"
        findings.append(finding("data_inconsistent", text))
    # Who did not leave our mark is HammerDB: its build gives amounts to the delivered orders instead of the others.
    broken = {name: n for name, n in _json(row["violations"]).items() if n and (built or name != "10")}
    if broken:
        text = ", ".join(f"{'condition ' if name.isdigit() else 'rows of '}{name} ({n})" for name, n in broken.items())
        findings.append(finding("data_inconsistent", f"the data violate {text}", violations=broken))
    return findings


def sound(row: Mapping[str, Any], left_out: Sequence[str] = ("10",)) -> str:
    """Return what is true of a data set in which a ``full`` check found nothing.

    ``left_out``: the conditions that are not asked of data without our mark.
    """
    but = [] if _json(row.get("built")) else sorted(left_out, key=int)
    conditions = "all ten conditions hold" + (f", {' and '.join(but)} left out" if but else "")
    return f"{row['warehouses']} warehouses: {conditions}; no row of item, stock and customer is missing, and no routine"


def answer(line: str) -> dict[str, Any] | None:
    """Return the object in a line that a statement answered; ``None`` when the line was cut off."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return None


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
