# GNU General Public License v3.0 or later (see LICENSE)
"""The module job with real processes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.modules import PATH, ROOT, run_module, wait_for

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import start_ticks

SECRET = "h0rse-battery-staple"


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


def start(jobs: Path, script: str, **options: Any) -> dict[str, Any]:
    return run_module("job", **{"id": "t1", "dir": jobs, "argv": ["sh", "-c", script], "deadline": 60, **options})


def poll(jobs: Path, **options: Any) -> dict[str, Any]:
    job: dict[str, Any] = run_module("job", **{"id": "t1", "dir": jobs, "state": "polled", **options})["job"]
    return job


def stop(jobs: Path, **options: Any) -> dict[str, Any]:
    return run_module("job", id="t1", dir=jobs, state="stopped", **options)


def ended(jobs: Path) -> dict[str, Any]:
    """Wait for the end as a poll by plain shell does, and return what the module then says."""
    wait_for((jobs / "t1" / "result.json").exists)
    return poll(jobs)


def pids_in(path: Path, count: int) -> list[int]:
    """Return the pids that a job has printed, once there are as many."""
    return wait_for(lambda: path.exists() and len(found := [int(pid) for pid in path.read_text().split()]) == count and found)


def test_a_job_runs_to_its_end(jobs: Path) -> None:
    started = start(jobs, "echo out; echo err >&2; sleep 0.3; exit 3")
    assert started["changed"]
    assert started["job"]["state"] == "running"
    assert started["job"]["rc"] is None
    job = ended(jobs)
    assert (job["state"], job["rc"], job["stopped"]) == ("finished", 3, None)
    assert (job["stdout_tail"], job["stderr_tail"]) == ("out\n", "err\n")
    assert job["ended"] - job["started"] == pytest.approx(job["elapsed_s"])
    assert job["elapsed_s"] >= 0.3
    assert {**job, **json.loads((jobs / "t1" / "result.json").read_text())} == job
    assert stat.S_IMODE((jobs / "t1").stat().st_mode) == 0o700


def test_a_second_start_attaches_and_a_third_reads(jobs: Path) -> None:
    script = "echo started; sleep 1"
    first = start(jobs, script)
    second = start(jobs, script)
    assert not second["changed"]
    assert second["job"]["state"] == "running"
    assert second["job"]["started"] == first["job"]["started"]
    ended(jobs)
    third = start(jobs, script)
    assert not third["changed"]
    assert third["job"]["state"] == "finished"
    assert third["job"]["stdout_tail"] == "started\n"


def test_another_command_under_the_same_id_is_refused(jobs: Path) -> None:
    start(jobs, "true")
    ended(jobs)
    assert "another command" in start(jobs, "false", fails=True)["msg"]


def test_c068_a_job_past_its_deadline_is_ended_even_if_it_ignores_term(jobs: Path) -> None:
    start(jobs, "trap '' TERM; echo partial; while :; do sleep 1; done", deadline=0.5)
    job = ended(jobs)
    assert (job["state"], job["rc"], job["stopped"]) == ("finished", -signal.SIGKILL, "deadline")
    assert job["stdout_tail"] == "partial\n"


def test_c068_a_start_without_deadline_is_refused(jobs: Path) -> None:
    assert "deadline" in run_module("job", fails=True, id="t1", dir=jobs, argv=["true"])["msg"]
    assert "deadline" in start(jobs, "true", deadline=0, fails=True)["msg"]


def test_c070_a_job_outlives_the_session_that_started_it(jobs: Path) -> None:
    options = {"id": "t1", "dir": str(jobs), "argv": ["sh", "-c", "sleep 1; echo survived"], "deadline": 60}
    starter = subprocess.Popen(
        [sys.executable, "-m", "ansible.cli.adhoc", "localhost", "-c", "local", "-m", "pgsizing.bench.job", "-a", json.dumps(options)],
        env={"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "PATH": PATH, "HOME": str(jobs.parent), "LC_ALL": "C.UTF-8"},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for((jobs / "t1" / "started.json").exists)
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait()
    job = ended(jobs)
    assert (job["rc"], job["stdout_tail"]) == (0, "survived\n")


def test_c071_200_mb_of_output_stay_in_the_file(jobs: Path) -> None:
    start(jobs, "head -c 200000000 /dev/zero | tr '\\0' 'x'; echo; echo last")
    wait_for((jobs / "t1" / "result.json").exists)
    result = run_module("job", id="t1", dir=jobs, state="polled")
    small = run_module("job", id="none", dir=jobs, state="polled")
    assert result["job"]["stdout_bytes"] == 200_000_006
    assert len(result["job"]["stdout_tail"]) == 4096
    assert result["job"]["stdout_tail"].endswith("x\nlast\n")
    assert len(result["job"]["new_stdout"]) == 65536
    assert (jobs / "t1" / "result.json").stat().st_size < 10_000
    assert result["peak_rss_kb"] - small["peak_rss_kb"] < 5_000


def test_c073_secrets_are_in_a_private_file_only_and_are_removed(jobs: Path) -> None:
    run_dir = jobs / "t1"
    script = 'cat "$PGPASSFILE"; echo "environment:"; cat "/proc/$$/environ"; while [ ! -e go ]; do sleep 0.05; done'
    result = start(jobs, script, env={"PGPASSFILE": str(run_dir / "pgpass")}, secret_files={"pgpass": SECRET})
    assert SECRET not in json.dumps(result)
    assert stat.S_IMODE((run_dir / "pgpass").stat().st_mode) == 0o600
    written = wait_for(lambda: "environment:" in (text := (run_dir / "stdout").read_text()) and text)
    assert written.startswith(SECRET)
    assert SECRET not in written.partition("environment:")[2]
    for name in ("job.json", "started.json"):
        assert SECRET not in (run_dir / name).read_text()
    pids = json.loads((run_dir / "started.json").read_text())
    for pid in (pids["pid"], pids["supervisor_pid"]):
        assert SECRET not in Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text()
    (run_dir / "go").touch()
    ended(jobs)
    assert not (run_dir / "pgpass").exists()


def test_c073_a_password_in_the_environment_is_refused_and_a_stray_one_not_passed_on(jobs: Path) -> None:
    refused = start(jobs, "true", env={"PGPASSWORD": SECRET}, fails=True)
    assert "PGPASSWORD" in refused["msg"]
    assert SECRET not in json.dumps(refused)
    run_module("job", environment={"PGPASSWORD": SECRET, "PGOPTIONS": "-c jit=off"}, id="t2", dir=jobs, argv=["env"], deadline=60)
    wait_for((jobs / "t2" / "result.json").exists)
    assert "PG" not in (jobs / "t2" / "stdout").read_text()


def test_c074_masking_reaches_the_module_output_but_not_the_files(jobs: Path) -> None:
    start(jobs, "echo datname postgres", secret_files={"word": "postgres"})
    wait_for((jobs / "t1" / "result.json").exists)
    assert json.loads((jobs / "t1" / "result.json").read_text())["stdout_tail"] == "datname postgres\n"


def test_stopping_ends_the_command_and_its_descendants_in_other_sessions(jobs: Path) -> None:
    start(jobs, "echo $$; setsid sh -c 'echo $$; exec sleep 300' & sh -c 'echo $$; exec sleep 300' & wait")
    pids = pids_in(jobs / "t1" / "stdout", 3)
    result = stop(jobs)
    assert result["changed"]
    assert (result["job"]["state"], result["job"]["rc"], result["job"]["stopped"]) == ("finished", -signal.SIGTERM, "request")
    assert [start_ticks(pid) for pid in pids] == [None, None, None]
    assert not stop(jobs)["changed"]


def test_descendants_that_outlive_the_command_are_ended_with_it(jobs: Path) -> None:
    start(jobs, "setsid sh -c 'echo $$; exec sleep 300' & while [ ! -s stdout ]; do sleep 0.02; done; exit 0")
    job = ended(jobs)
    assert (job["rc"], job["stopped"]) == (0, None)
    assert start_ticks(int(job["stdout_tail"])) is None


def test_a_killed_supervisor_takes_the_command_with_it(jobs: Path) -> None:
    start(jobs, "echo $$; exec sleep 300", secret_files={"pgpass": SECRET})
    (pid,) = pids_in(jobs / "t1" / "stdout", 1)
    os.kill(json.loads((jobs / "t1" / "started.json").read_text())["supervisor_pid"], signal.SIGKILL)
    wait_for(lambda: start_ticks(pid) is None)
    assert poll(jobs)["state"] == "lost"
    assert not (jobs / "t1" / "pgpass").exists()
    assert not stop(jobs)["changed"]
    again = start(jobs, "echo $$; exec sleep 300")
    assert not again["changed"]
    assert again["job"]["state"] == "lost"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"argv": ["no-such-program"]}, "no-such-program"),
        ({"chdir": "/no/such/folder"}, "/no/such/folder"),
        ({"argv": ["/etc/passwd"]}, "denied"),
    ],
)
def test_a_failed_start_says_why_and_leaves_the_id_free(jobs: Path, options: dict[str, Any], named: str) -> None:
    result = start(jobs, "true", secret_files={"pgpass": SECRET}, fails=True, **options)
    assert named in result["msg"]
    assert result["job"]["state"] == "absent"
    assert not (jobs / "t1" / "pgpass").exists()
    assert start(jobs, "echo fine")["changed"]
    assert ended(jobs)["stdout_tail"] == "fine\n"


def test_standard_input_is_given_and_not_left_behind(jobs: Path) -> None:
    start(jobs, "cat", stdin="select 1;\n")
    assert ended(jobs)["stdout_tail"] == "select 1;\n"
    assert sorted(path.name for path in (jobs / "t1").iterdir()) == ["job.json", "lock", "result.json", "started.json", "stderr", "stdout"]


def test_resources_are_those_of_the_command_and_its_descendants(jobs: Path) -> None:
    busy = "import time; b = bytearray(60_000_000); exec('while time.process_time() < 0.4: pass')"
    start(jobs, f'{sys.executable} -c "{busy}" & {sys.executable} -c "{busy}"; wait')
    usage = ended(jobs)["rusage"]
    assert 0.8 <= usage["user_s"] + usage["system_s"] < 3
    assert 60_000_000 < usage["max_rss_bytes"] < 150_000_000


def test_the_memory_of_a_small_command_is_not_that_of_its_supervisor(jobs: Path) -> None:
    start(jobs, "sleep 0.5")
    assert ended(jobs)["rusage"]["max_rss_bytes"] < 8_000_000


def test_polling_returns_whole_new_lines(jobs: Path) -> None:
    start(jobs, "echo one; echo two; printf thr; while [ ! -e go ]; do sleep 0.02; done; echo ee")
    wait_for(lambda: (jobs / "t1" / "stdout").read_text().endswith("thr"))
    first = poll(jobs)
    assert (first["new_stdout"], first["offset"]) == ("one\ntwo\n", 8)
    second = poll(jobs, offset=first["offset"])
    assert (second["new_stdout"], second["offset"]) == ("", 8)
    (jobs / "t1" / "go").touch()
    wait_for((jobs / "t1" / "result.json").exists)
    assert poll(jobs, offset=8)["new_stdout"] == "three\n"


def test_check_mode_starts_and_stops_nothing(jobs: Path) -> None:
    result = start(jobs, "true", check=True)
    assert result["changed"]
    assert result["job"]["state"] == "absent"
    assert not jobs.exists()
    start(jobs, "exec sleep 300")
    assert stop(jobs, check=True)["changed"]
    assert poll(jobs)["state"] == "running"
    stop(jobs)


@pytest.mark.parametrize("options", [{"id": "../up"}, {"argv": []}, {"secret_files": {"job.json": "x"}}, {"secret_files": {"a/b": "x"}}])
def test_unusable_options_are_refused(jobs: Path, options: dict[str, Any]) -> None:
    start(jobs, "true", fails=True, **options)
    assert not jobs.exists()


def test_a_dump_is_read_without_its_owners_and_one_that_is_cut_short_fails(jobs: Path, tmp_path: Path) -> None:
    dump = tmp_path / "app.sql"
    dump.write_text("SELECT 1;\nGRANT SELECT ON t TO x;\nCOPY t FROM stdin;\n" + "GRANT\n" * 50000 + "\\.\n")
    start(jobs, "cat", stdin_dump=dump)
    job = ended(jobs)
    assert (job["rc"], job["stderr_tail"]) == (0, "")
    assert Path(job["stdout"]).read_text() == dump.read_text().replace("GRANT SELECT ON t TO x;", "")
    dump.write_text("COPY t FROM stdin;\n1\n")
    run_module("job", id="t2", dir=jobs, argv=["cat"], stdin_dump=dump, deadline=60)
    wait_for((jobs / "t2/result.json").exists)
    result = json.loads((jobs / "t2/result.json").read_text())
    assert (result["rc"], result["stderr_tail"]) == (1, "dump: line 3: it ends within the data of a table: it is cut short\n")


@pytest.mark.parametrize("rc", [0, 3])
def test_a_command_that_ends_before_its_dump_has_its_own_status(rc: int, jobs: Path, tmp_path: Path) -> None:
    dump = tmp_path / "app.sql"
    dump.write_text("SELECT 1;\n" * 500000)
    start(jobs, f"head -n 1; exit {rc}", stdin_dump=dump)
    job = ended(jobs)
    assert (job["rc"], job["stdout_tail"], job["stderr_tail"]) == (rc, "SELECT 1;\n", "")


def test_a_dump_that_is_not_there_starts_nothing(jobs: Path, tmp_path: Path) -> None:
    assert "No such file" in start(jobs, "cat", stdin_dump=tmp_path / "none.sql", fails=True)["msg"]
