# GNU General Public License v3.0 or later (see LICENSE)
"""TPROC-C by the built-in driver as a user starts it: NOPM, the consistency command, and a build that was interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.e2e import Place, Run, codes, read, rows

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import is_locked

SHORT = ("workload=tprocc", "warehouses=2", "clients=2", "duration=4", "ramp_up=1", "repeats=1")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    here = Place()
    yield here
    here.run(playbook="playbooks/teardown.yml")
    here.remove()


@pytest.fixture(scope="module")
def interrupted(place: Place) -> Run:
    """A run whose controller was killed while the rows were made."""
    run = place.start(*SHORT)
    run.wait_step("rows")
    os.killpg(run.process.pid, signal.SIGKILL)
    run.end()
    place.quiet()
    return run


@pytest.fixture(scope="module")
def measured(place: Place, interrupted: Run) -> Run:
    """The next run; its server goes on running."""
    return place.run(*SHORT, "keep=server")


def psql(cluster: dict[str, Any], statement: str) -> str:
    argv = [f"{cluster['bin_dir']}/psql", "-XAtq", "-h", cluster["socket_dir"], "-p", str(cluster["port"]), "-U", cluster["user"]]
    environment = {**os.environ, "PGPASSFILE": cluster["passfile"]}
    done = subprocess.run([*argv, "-c", statement, "pgsizing_run"], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def cluster(place: Place, measured: Run) -> dict[str, Any]:
    assert measured.process.returncode == 0
    return read(next(place.base_dir.glob("clusters/*/cluster.json")))


def test_a_build_that_was_interrupted_is_taken_up(measured: Run) -> None:
    built = next(measured.directory.glob("datasets/*/raw"))
    assert (built / "schema.stdout").read_text() == "resumed\n"
    dataset = next(iter(measured.experiment["environment"]["datasets"].values()))
    assert (dataset["reused"], dataset["load_seconds"]) == (False, None)  # what the first part took is not known


def test_a_run_gives_nopm_by_the_second_and_latencies_by_type(measured: Run, cluster: dict[str, Any]) -> None:
    trial = next(iter(measured.trials.values()))
    assert trial["verdict"] in ("valid", "suspect")
    assert trial["headline"]["metric"] == "nopm"
    assert trial["headline"]["value"] == trial["metrics"]["nopm"]["value"] > 0
    assert not codes(trial) & {"inconsistent", "data_inconsistent", "tpm_nopm_ratio", "no_result"}
    assert [s["name"] for s in trial["latency"]["scripts"]] == ["neword", "payment", "delivery", "slev", "ostat"]
    assert all(s["p99"] for s in trial["latency"]["scripts"])
    series = rows(measured.directory / "trials" / trial["trial_id"] / "series.csv")
    assert any(float(row["nopm"]) > 0 for row in series if row["nopm"])
    assert "nopm" in (measured.directory / "report.md").read_text().lower()
    orders = int(psql(cluster, "SELECT sum(d_next_o_id - 3001) FROM district"))
    assert orders > trial["conditions"]["new_orders"] > 0  # those of the ramp-up are not in the window


def test_the_consistency_command_passes_after_a_run_and_fails_on_a_deleted_row(place: Place, cluster: dict[str, Any]) -> None:
    here = place.run(playbook="playbooks/check_data.yml")
    assert "localhost: pgsizing_run: 2 warehouses: all ten conditions hold; no row of item" in here.words
    nothing = place.run("login_db=elsewhere", playbook="playbooks/check_data.yml", rc=2)
    assert f"in {place.base_dir} holds a database elsewhere that a run left: nothing was checked" in nothing.words
    assert not is_locked(place.base_dir / "host.lock")
    assert Path(cluster["data_dir"], "postmaster.pid").exists()  # it ran before, and goes on
    login = {"login_unix_socket": cluster["socket_dir"], "login_passfile": cluster["passfile"], "login_port": cluster["port"]}
    login["login_user"] = cluster["user"]
    place.run(login, playbook="playbooks/check_data.yml")  # the same as a server of the user's own
    psql(cluster, "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 3 AND ol_o_id = 17 AND ol_number = 1")
    failed = place.run(playbook="playbooks/check_data.yml", rc=None)
    assert "the data violate condition 4 (1), condition 6 (1)" in failed.words
    assert "the data violate condition 4 (1), condition 6 (1)" in place.run(login, playbook="playbooks/check_data.yml", rc=None).words
    assert not is_locked(place.base_dir / "host.lock")


@pytest.mark.extra
def test_a_run_whose_controller_was_killed_is_collected_with_all_its_orders(place: Place, measured: Run) -> None:
    """After it ended by itself, and its server with it: the counters are read then, the window is the run's own."""
    assert measured.trials
    run = place.start(*SHORT, "duration=6")
    run.wait_step("measured")
    os.killpg(run.process.pid, signal.SIGKILL)
    run.end()
    place.quiet()
    resumed = place.run(f"resume={run.id}")
    (trial,) = resumed.trials.values()
    assert "resumed" in codes(trial)
    assert trial["verdict"] in ("valid", "suspect"), trial["findings"]
    neword = next(s for s in trial["latency"]["scripts"] if s["name"] == "neword")
    assert 0 <= neword["transactions"] - trial["conditions"]["new_orders"] <= 0.05 * neword["transactions"]  # 1 in 100 rolls back
    assert trial["metrics"]["nopm"]["value"] == pytest.approx(10 * trial["conditions"]["new_orders"], rel=0.1)
    assert not codes(trial) & {"inconsistent", "data_inconsistent", "tpm_nopm_ratio"}
