# GNU General Public License v3.0 or later (see LICENSE)
"""The module lease with real keepers, jobs, controllers and clusters.

``local=True`` everywhere but where servers that are not ours are the matter: the machine may run some.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import running_cluster, sql
from support.modules import run_module, wait_for

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import controller_identity, is_locked, start_ticks

Lease = Callable[..., dict[str, Any]]


@pytest.fixture
def base_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lease-") as path:  # readable by the server's user, as pytest's own is not
        yield Path(path)


@pytest.fixture
def lease(base_dir: Path) -> Iterator[Lease]:
    """Run the module with defaults, and release at the end whatever is held."""

    def run(experiment_id: str = "e1", **options: Any) -> dict[str, Any]:
        given = {"experiment_id": experiment_id, "deadline": time.time() + 120, "local": True, **options}
        return run_module("lease", base_dir=base_dir, **given)

    yield run
    holder = (state(base_dir) or {}).get("experiment_id")
    if holder and is_locked(base_dir / "host.lock"):
        run(holder, state="released", stop=True)


@pytest.fixture
def controller() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for ansible-playbook."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def state(base_dir: Path) -> dict[str, Any]:
    path = base_dir / "lease.json"
    return json.loads(path.read_text()) if path.exists() else {}


def wait_for_end(base_dir: Path) -> dict[str, Any]:
    wait_for(lambda: state(base_dir).get("ended") and not is_locked(base_dir / "host.lock"))
    return state(base_dir)


def kill_keeper(base_dir: Path) -> None:
    os.kill(state(base_dir)["keeper_pid"], signal.SIGKILL)
    wait_for(lambda: not is_locked(base_dir / "host.lock"))


def start_job(base_dir: Path, name: str, script: str, **options: Any) -> dict[str, Any]:
    given = {"experiment": "e1", "argv": ["sh", "-c", script], "deadline": 60, **options}
    return run_module("job", id=name, dir=base_dir / "jobs", **given)


def job_state(base_dir: Path, name: str) -> dict[str, Any]:
    job: dict[str, Any] = run_module("job", id=name, dir=base_dir / "jobs", state="polled")["job"]
    return job


def test_a_host_is_held_renewed_and_released(base_dir: Path, lease: Lease) -> None:
    taken = lease()
    assert taken["changed"]
    assert (taken["lease"]["held"], taken["lease"]["holder"], taken["lease"]["taken_over"]) == (True, "e1", None)
    keeper = state(base_dir)["keeper_pid"]
    later = time.time() + 500
    renewed = lease(deadline=later)
    assert not renewed["changed"]
    assert renewed["lease"]["held"]
    assert state(base_dir)["keeper_pid"] == keeper
    assert state(base_dir)["deadline"] == pytest.approx(later)
    released = lease(state="released")
    assert released["changed"]
    assert not released["lease"]["held"]
    assert released["lease"]["ended"]["cause"] == "released"
    assert start_ticks(keeper) is None
    assert not lease(state="released")["changed"]


def test_c070_a_second_experiment_is_refused_and_told_how_to_go_on(base_dir: Path, lease: Lease) -> None:
    lease("e1")
    refused = lease("e2", fails=True)
    assert "experiment e1" in refused["msg"]
    assert "-e resume=e1" in refused["msg"]
    assert refused["msg"].endswith("run pgsizing.bench.release -e experiment_id=e1")
    assert (refused["lease"]["held"], refused["lease"]["holder"]) == (False, "e1")
    assert not lease("e2", state="released", stop=True)["changed"]
    assert state(base_dir)["experiment_id"] == "e1"
    assert is_locked(base_dir / "host.lock")
    lease("e1", state="released")
    assert lease("e2")["lease"]["held"]


def test_a_plain_release_stops_nothing(base_dir: Path, lease: Lease) -> None:
    lease()
    start_job(base_dir, "watch", "exec sleep 300", load=False)
    lease(state="released")
    assert job_state(base_dir, "watch")["state"] == "running"
    assert lease(state="released", stop=True)["changed"]
    assert job_state(base_dir, "watch")["state"] == "finished"


def test_the_deadline_ends_the_lease_and_its_jobs(base_dir: Path, lease: Lease) -> None:
    lease(deadline=time.time() + 3)
    start_job(base_dir, "load", "exec sleep 300")
    start_job(base_dir, "other", "exec sleep 300", experiment="e9")
    end = wait_for_end(base_dir)
    assert (end["cause"], end["stopped"]["jobs"], end["problems"]) == ("deadline", ["load"], [])
    assert job_state(base_dir, "load")["stopped"] == "request"
    assert job_state(base_dir, "other")["state"] == "running"
    run_module("job", id="other", dir=base_dir / "jobs", state="stopped")
    assert "passed" in lease(deadline=time.time() - 1, fails=True)["msg"]


def test_after_a_killed_controller_the_load_ends_normally_and_then_nothing_is_left(
    base_dir: Path, lease: Lease, controller: subprocess.Popen[bytes]
) -> None:
    with running_cluster(base_dir / "clusters" / "15-00000000") as cluster:
        server = int(Path(cluster["data_dir"], "postmaster.pid").read_text().split()[0])
        assert sql(cluster, "select 1") == "1"
        lease(controller=controller_identity(controller.pid))
        start_job(base_dir, "load", "while [ ! -e go ]; do sleep 0.05; done; echo measured")
        start_job(base_dir, "watch", "exec sleep 300", load=False)
        controller.kill()
        controller.wait()
        # another experiment has to wait for the load, and to be told so
        assert "-e resume=e1" in lease("e2", fails=True)["msg"]
        assert job_state(base_dir, "load")["state"] == "running"
        assert start_ticks(server)
        (base_dir / "jobs" / "load" / "go").touch()
        end = wait_for_end(base_dir)
        assert (end["experiment_id"], end["cause"], end["problems"]) == ("e1", "controller_lost", [])
        assert end["stopped"] == {"jobs": ["watch"], "clusters": ["15-00000000"]}
        assert start_ticks(server) is None
        assert not Path(cluster["data_dir"], "postmaster.pid").exists()
    load = job_state(base_dir, "load")
    assert (load["rc"], load["stopped"], load["stdout_tail"]) == (0, None, "measured\n")
    assert job_state(base_dir, "watch")["stopped"] == "request"
    # and the experiment can be taken up again
    resumed = lease("e1")
    assert resumed["lease"]["held"]
    assert resumed["lease"]["taken_over"] is None


def test_a_new_controller_takes_up_its_lease_while_the_load_runs(base_dir: Path, lease: Lease, controller: subprocess.Popen[bytes]) -> None:
    lease(controller=controller_identity(controller.pid))
    start_job(base_dir, "load", "while [ ! -e go ]; do sleep 0.05; done")
    controller.kill()
    controller.wait()
    renewed = lease(controller=controller_identity(os.getpid()))
    assert not renewed["changed"]
    assert renewed["lease"]["held"]
    assert renewed["lease"]["jobs"] == ["load"]
    (base_dir / "jobs" / "load" / "go").touch()
    wait_for((base_dir / "jobs" / "load" / "result.json").exists)
    assert lease("e2", fails=True)["lease"]["holder"] == "e1"


def test_a_second_run_right_after_an_interrupt_waits_for_the_clean_up(
    base_dir: Path, lease: Lease, controller: subprocess.Popen[bytes]
) -> None:
    lease(controller=controller_identity(controller.pid))
    start_job(base_dir, "watch", "exec sleep 300", load=False)
    controller.kill()
    controller.wait()
    second = lease("e2")
    assert second["lease"]["held"]
    assert second["lease"]["taken_over"] is None
    assert job_state(base_dir, "watch")["state"] == "finished"


@pytest.mark.parametrize("unknown", [None, {"machine_id": "another machine", "pid": 1, "start_ticks": 1}])
def test_only_the_deadline_counts_for_a_controller_elsewhere(base_dir: Path, lease: Lease, unknown: dict[str, Any] | None) -> None:
    lease(controller=unknown, deadline=time.time() + 3)
    assert wait_for_end(base_dir)["cause"] == "deadline"


def test_a_keeper_that_is_told_to_end_stops_what_runs(base_dir: Path, lease: Lease) -> None:
    lease()
    start_job(base_dir, "load", "exec sleep 300")
    os.kill(state(base_dir)["keeper_pid"], signal.SIGTERM)
    end = wait_for_end(base_dir)
    assert (end["cause"], end["stopped"]["jobs"]) == ("terminated", ["load"])


def test_a_keeper_whose_folder_was_removed_ends_and_leaves_nothing(base_dir: Path, lease: Lease) -> None:
    lease()
    keeper = state(base_dir)["keeper_pid"]
    shutil.rmtree(base_dir)
    base_dir.mkdir()  # as a new experiment would find it
    wait_for(lambda: start_ticks(keeper) is None)
    assert list(base_dir.iterdir()) == []


def test_a_lease_without_keeper_is_taken_over_when_its_controller_is_gone_and_no_job_runs(
    base_dir: Path, lease: Lease, controller: subprocess.Popen[bytes]
) -> None:
    lease(controller=controller_identity(controller.pid))
    kill_keeper(base_dir)
    assert "-e resume=e1" in lease("e2", fails=True)["msg"]
    controller.kill()
    controller.wait()
    start_job(base_dir, "load", "exec sleep 300")
    assert "-e resume=e1" in lease("e2", fails=True)["msg"]
    run_module("job", id="load", dir=base_dir / "jobs", state="stopped")
    assert lease("e2", check=True)["lease"]["taken_over"]["experiment_id"] == "e1"
    assert not is_locked(base_dir / "host.lock")
    taken = lease("e2")
    assert taken["lease"]["taken_over"] == {"experiment_id": "e1", "reason": "its keeper and its controller are gone"}
    (found,) = [f for f in taken["lease"]["findings"] if f["code"] == "lock_taken_over"]
    assert "the lease of e1" in found["message"] and "its keeper and its controller are gone" in found["message"]
    assert state(base_dir)["experiment_id"] == "e2"


def test_a_lease_of_an_earlier_boot_is_taken_over(base_dir: Path, lease: Lease) -> None:
    lease()
    kill_keeper(base_dir)
    (base_dir / "lease.json").write_text(json.dumps({**state(base_dir), "host": "this machine before"}))
    assert lease("e2")["lease"]["taken_over"] == {"experiment_id": "e1", "reason": "the machine was restarted"}


def test_the_same_experiment_takes_its_lease_up_after_a_killed_keeper(base_dir: Path, lease: Lease) -> None:
    lease()
    kill_keeper(base_dir)
    again = lease()
    assert again["changed"]
    assert (again["lease"]["held"], again["lease"]["taken_over"]) == (True, None)
    kill_keeper(base_dir)
    assert lease(state="released")["changed"]
    assert lease("e2")["lease"]["taken_over"] is None


def test_a_server_that_is_not_ours_is_refused_unless_the_user_says_so(base_dir: Path, lease: Lease) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="foreign-") as folder,
        running_cluster(Path(folder), "cluster_name = 'archiver/main'") as cluster,
    ):
        client = subprocess.Popen(
            ["psql", "-XAtq", "-h", cluster["socket_dir"], "-p", str(cluster["port"]), "-U", cluster["user"], "-d", "postgres"],
            stdin=subprocess.PIPE,
        )
        wait_for(lambda: sql(cluster, "select count(*) from pg_stat_activity where backend_type = 'client backend'") == "2")
        wait_for(lambda: our(cluster, lease(check=True)["lease"]["foreign"])["clients"] == 1)
        refused = lease(local=False, fails=True)
        assert f"port {cluster['port']} (1 clients" in refused["msg"]
        assert f"a PostgreSQL server runs on {platform.node()} on port" in refused["msg"]
        assert "share_host" in refused["msg"]
        assert f"port {cluster['port']} (" in next(f for f in refused["lease"]["findings"] if f["code"] == "foreign_postmaster")["message"]
        assert our(cluster, refused["lease"]["foreign"])["data_directory"] == cluster["data_dir"]
        assert not is_locked(base_dir / "host.lock")
        for accepted in ({"local": True}, {"local": False, "share_host": True}):
            result = lease(**accepted)
            assert result["lease"]["held"]
            assert our(cluster, result["lease"]["foreign"])["port"] == cluster["port"]
            lease(state="released", stop=True)
        client.communicate()
        assert sql(cluster, "select 1") == "1"  # stopping stops only what is ours


def our(cluster: dict[str, Any], servers: list[dict[str, Any]]) -> dict[str, Any]:
    (server,) = (server for server in servers if server["port"] == cluster["port"])
    return server


def test_our_own_cluster_is_not_foreign_and_is_stopped_by_a_release_that_asks_for_it(base_dir: Path, lease: Lease) -> None:
    with running_cluster(base_dir / "clusters" / "15-11111111") as cluster:
        assert cluster["port"] not in [server["port"] for server in lease()["lease"]["foreign"]]
        lease(state="released")
        assert sql(cluster, "select 1") == "1"
        lease()
        released = lease(state="released", stop=True)
        assert released["lease"]["ended"]["stopped"]["clusters"] == ["15-11111111"]
        assert not Path(cluster["data_dir"], "postmaster.pid").exists()


def test_a_cluster_whose_stop_command_fails_is_stopped_all_the_same(base_dir: Path, lease: Lease) -> None:
    with running_cluster(base_dir / "clusters" / "15-22222222") as cluster:
        (Path(cluster["data_dir"]).parent / "cluster.json").write_text(json.dumps({**cluster, "stop_argv": ["false"]}))
        lease()
        assert lease(state="released", stop=True)["lease"]["ended"]["problems"] == []
        assert not Path(cluster["data_dir"], "postmaster.pid").exists()


def test_check_mode_takes_and_frees_nothing(base_dir: Path, lease: Lease) -> None:
    predicted = lease(check=True)
    assert predicted["changed"]
    assert not predicted["lease"]["held"]
    assert list(base_dir.iterdir()) == []
    lease()
    assert lease("e2", check=True, fails=True)["lease"]["holder"] == "e1"
    assert lease(state="released", check=True)["changed"]
    assert is_locked(base_dir / "host.lock")
