# GNU General Public License v3.0 or later (see LICENSE)
"""The real HammerDB, named by ``HAMMERDB_HOME``, against a private server: ``make test-hammerdb``. Prints its figures.

It builds two warehouses, which takes one to three minutes, and measures for one minute each on its own schema and on ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import tprocc as driver
from support.cluster import running_cluster, sql

from ansible_collections.pgsizing.bench.plugins.module_utils import hammerdb_output
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import hammerdb

ROOT = Path(__file__).parents[2]
PASSWORD = "tr0ub4dor&3 and more"
WAREHOUSES, CLIENTS = 2, 4


@pytest.fixture(scope="module")
def home() -> str:
    here = os.environ.get("HAMMERDB_HOME")
    assert here, "HAMMERDB_HOME must name the folder of a HammerDB"
    return str(Path(here).resolve())


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, Any]]:
    settings = "shared_buffers = 512MB\nmax_wal_size = 4GB\ncheckpoint_timeout = 15min\nfsync = on\nlog_statement = ddl\n"
    with tempfile.TemporaryDirectory(prefix="pgs-") as place, running_cluster(Path(place) / "hdb", settings) as here:
        (Path(here["data_dir"]) / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        sql(here, "SELECT pg_reload_conf()")
        sql(here, f"SET password_encryption = 'scram-sha-256'; CREATE ROLE bench LOGIN CREATEDB PASSWORD '{PASSWORD}'")
        sql(here, "CREATE DATABASE theirs OWNER bench")
        sql(here, "CREATE DATABASE ours OWNER bench")
        yield here


@pytest.fixture(scope="module")
def theirs(cluster: dict[str, Any], home: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The measurement of HammerDB's build."""
    return act(cluster, home, "theirs", tmp_path_factory.mktemp("load"), phase="load", load_sessions=2)


@pytest.fixture(scope="module")
def ours(cluster: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The measurement of the built-in loader's build."""
    return driver.load({**cluster, "user": "bench"}, "ours", tmp_path_factory.mktemp("load"), warehouses=WAREHOUSES, load_sessions=2)


def act(cluster: dict[str, Any], home: str, database: str, folder: Path, **more: Any) -> dict[str, Any]:
    """Run ``pgsizing.bench.hammerdb`` in a playbook; return what it registered."""
    login = {
        "login_host": "127.0.0.1",
        "login_port": cluster["port"],
        "login_user": "bench",
        "login_password": PASSWORD,
        "login_db": database,
    }
    options = {"home": home, **login, "work_dir": str(folder / "work"), "warehouses": WAREHOUSES, "clients": CLIENTS, **more}
    out, place = folder / "result.json", folder / "own.yml"
    tasks = [
        {"pgsizing.bench.hammerdb": options, "register": "r", "ignore_errors": True},
        {"ansible.builtin.copy": {"content": "{{ r | to_json }}", "dest": str(out)}},
    ]
    place.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), str(place)],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_HOME": str(folder / ".ansible")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.exists(), done.stdout + done.stderr
    return dict(json.loads(out.read_text()))


def show(title: str, result: dict[str, Any]) -> None:
    """Print what was measured, for whoever reads the output of ``make test-hammerdb``."""
    m = result["measurement"]
    figures = {name: metric["value"] for name, metric in m["metrics"].items()}
    counted = m["conditions"].get("counted")
    print(f"\n{title}: HammerDB {m['load_generator']['version']}: {figures}, verdict {result['verdict']}")
    if counted:
        orders = figures["nopm"] * (m["conditions"]["ramp_up_s"] + m["conditions"]["window_s"]) / 60
        cpu = m["client"]["cpu_user_s"] + m["client"]["cpu_system_s"]
        off = 100 * (counted["nopm"] / figures["nopm"] - 1)
        print(f"  counted beside it: {counted['nopm']:.0f} NOPM ({off:+.2f} %), {counted['tpm']:.0f} TPM")
        print(f"  window {m['conditions']['window_s']} s by the clock, client CPU {1e6 * cpu / orders:.0f} us per new order")
    for found in m["findings"]:
        print(f"  {found['severity']}: {found['code']}: {found['message']}")


def test_build(cluster: dict[str, Any], theirs: dict[str, Any]) -> None:
    show("build", theirs)
    assert (theirs["verdict"], theirs["measurement"]["findings"]) == ("valid", [])
    assert {s["name"] for s in theirs["measurement"]["steps"]} >= {"load", "verify"}
    log = Path(cluster["log"]).read_text().replace(f"PASSWORD '{PASSWORD}'", "")
    assert "PASSWORD" not in log


@pytest.mark.parametrize("database", ["theirs", "ours"])
def test_run(cluster: dict[str, Any], home: str, theirs: dict[str, Any], ours: dict[str, Any], database: str, tmp_path: Path) -> None:
    """One minute; its NOPM and our own count of orders agree within 1 %."""
    assert ours["findings"] == []
    result = act(cluster, home, database, tmp_path, duration=60, ramp_up=12)
    show(f"run on {database}", result)
    m = result["measurement"]
    assert result["verdict"] in ("valid", "suspect") and m["metrics"]["nopm"]["value"] > 0
    assert m["conditions"]["clients"] == CLIENTS
    assert m["conditions"]["counted"]["nopm"] == pytest.approx(m["metrics"]["nopm"]["value"], rel=0.01)
    assert {f["code"] for f in m["findings"]} & {"nopm_unconfirmed", "data_inconsistent", "clients_aborted", "window_longer"} == set()
    for path in (p for p in (tmp_path / "work").rglob("*") if p.is_file()):
        assert PASSWORD.encode() not in path.read_bytes(), path


def test_time_profile(cluster: dict[str, Any], home: str, theirs: dict[str, Any], tmp_path: Path) -> None:
    """Each call is counted once: the new orders of the profile are those that the database counted."""
    before = int(sql(cluster, "SELECT sum(d_next_o_id) FROM district", "theirs"))
    result = act(cluster, home, "theirs", tmp_path, duration=24, ramp_up=0, time_profile=True)
    show("time profile", result)
    made = int(sql(cluster, "SELECT sum(d_next_o_id) FROM district", "theirs")) - before
    [row] = [row for row in result["measurement"]["latency"]["scripts"] if row["name"] == "neword"]
    assert row["n"] == made
    assert 0 < row["min"] <= row["p50"] <= row["p95"] <= row["p99"] <= row["max"] and row["stddev"] < row["max"]


def test_its_checkschema_accepts_our_schema(cluster: dict[str, Any], home: str, ours: dict[str, Any], tmp_path: Path) -> None:
    said = subprocess.run(["./hammerdbcli", "--version"], cwd=home, capture_output=True, text=True, errors="replace", check=False).stdout
    version = hammerdb_output.parse_version(said)
    if hammerdb_output.version_tuple(version) < hammerdb.CHECKSCHEMA_FROM:
        pytest.skip(f"HammerDB {version} has no checkschema")
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:*:{PASSWORD}\n")
    passfile.chmod(0o600)
    connection = {
        "host": "127.0.0.1",
        "port": cluster["port"],
        "user": "bench",
        "dbname": "ours",
        "home": home,
        "ssl_mode": "prefer",
        "psql": "psql",
    }
    step = hammerdb.check_step({"warehouses": WAREHOUSES}, str(version), connection)
    for name, text in step["files"].items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        step["argv"],
        cwd=tmp_path,
        env={**os.environ, "PGPASSFILE": str(passfile)},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    checked = hammerdb_output.parse_check(done.stderr)
    print(f"\ncheckschema of HammerDB {version} on our schema: {checked}")
    assert (done.returncode, checked["passed"]) == (0, True)
