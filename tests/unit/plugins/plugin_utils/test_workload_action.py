# GNU General Public License v3.0 or later (see LICENSE)
"""What every workload action does, by the example of pgbench, with programs that imitate pgbench and psql."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from support import actions
from support.modules import wait_for
from support.plan_site import make_experiment

from ansible_collections.pgsizing.bench.plugins.action import pgbench
from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench as pgbench_workload
from ansible_collections.pgsizing.bench.plugins.plugin_utils import job_client, workload_action
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store

CAPTURES = Path(__file__).parents[3] / "fixtures/pgbench/captures"
SECRET = "s3cr3t:pass\\phrase"
DATA = {"branches": 5, "tellers": 50, "accounts": 500000, "partitions": 0, "unlogged": False, "foreign_keys": False}
RUN: dict[str, Any] = {"scale": 5, "clients": 4, "threads": 2, "duration": 5, "ramp_up": 0, "report_per_command": True}


class Driver:
    """Programs in a folder of their own, and how to call the action with them."""

    def __init__(self, folder: Path) -> None:
        self.bin_dir, self.work_dir = folder / "bin", folder / "jobs"
        self.bin_dir.mkdir()
        self.pgbench("pgbench15_run_T5_P1_r.txt")
        self.psql(f"echo '{json.dumps(DATA)}'")

    def pgbench(self, capture: str, more: str = "") -> None:
        """Imitate pgbench: a per-transaction log, then what the capture printed."""
        stdout, stderr = re.search(r"### stdout:\n(.*)### stderr:\n(.*)", (CAPTURES / capture).read_text(), re.DOTALL).groups()  # type: ignore[union-attr]
        (self.bin_dir / "out.txt").write_text(stdout)
        (self.bin_dir / "err.txt").write_text(stderr)
        code = int(re.search(r"### exit code: (\d+)", (CAPTURES / capture).read_text()).group(1))  # type: ignore[union-attr]
        log = "printf '0 1 8164 0 1796030202 118936\\n0 2 1698 0 1796030202 120646\\n' > pgbench_log.$$"
        self._write(
            "pgbench",
            f'[ "$1" = --version ] && {{ echo "pgbench (PostgreSQL) 15.18"; exit; }}\n{log}\n{more}\n'
            f"cat {self.bin_dir}/out.txt; cat {self.bin_dir}/err.txt >&2\nexit {code}",
        )

    def psql(self, script: str) -> None:
        self._write("psql", f'[ "$1" != --version ] || {{ echo "psql (PostgreSQL) 15.18"; exit; }}\n{script}')

    def _write(self, name: str, script: str) -> None:
        (self.bin_dir / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin_dir / name).chmod(0o755)

    def action(self, check: bool = False, **args: Any) -> Any:
        return actions.make_action(pgbench, check, bin_dir=str(self.bin_dir), work_dir=str(self.work_dir), **args)


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.create(tmp_path / "results", make_experiment(**RUN, repeats=1, profile="none"))
    store.trial_state("01-base-r1", "running", attempt=1)
    return store


def commands(driver: Driver, **args: Any) -> list[list[str]]:
    return driver.action(check=True, **args).run(task_vars={})["commands"]


# before anything runs ----------------------------------------------------------------------------------------------------


def test_check_mode_says_what_would_run(driver: Driver) -> None:
    argv = commands(driver, **RUN, login_host="db1", login_port=5433, login_user="bench", login_db="bench")[-1]
    assert argv[0] == f"{driver.bin_dir}/pgbench"
    assert argv[-1] == "bench"
    assert [argv[argv.index(o) + 1] for o in ("-h", "-p", "-U", "-c", "-j", "-T")] == ["db1", "5433", "bench", "4", "2", "5"]
    assert not driver.work_dir.exists()


def test_a_socket_wins_over_a_host(driver: Driver) -> None:
    argv = commands(driver, **RUN, login_host="db1", login_unix_socket="/run/pg")[-1]
    assert argv[argv.index("-h") + 1] == "/run/pg"


def test_ramp_up_is_a_step_of_its_own(driver: Driver) -> None:
    assert len(commands(driver, **{**RUN, "ramp_up": 3})) == 2


def test_a_load_changes_something_and_a_run_does_not(driver: Driver) -> None:
    assert driver.action(check=True, phase="load", scale=5).run(task_vars={})["changed"] is True
    assert driver.action(check=True, **RUN).run(task_vars={})["changed"] is False


def test_script_files_are_read_on_the_controller(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text("SELECT 42;\n")
    action = driver.action(check=True, **RUN, scripts=[{"file": str(tmp_path / "mine.sql"), "weight": 2}])
    assert "0_mine.sql@2" in action.run(task_vars={})["commands"][-1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"clients": "many"}, "clients"),
        ({"clints": 4}, "clints"),
        ({"protocol": "fast"}, "value of protocol must be one of"),
        ({"transactions": 5}, "transactions=5 and duration=5 exclude each other"),
        ({"clients": 0, "scale": 0}, "scale: 0 is not a whole number of 1 or more; clients: 0 is not a whole number of 1 or more"),
        ({"experiment_dir": "/nosuch"}, "experiment_dir needs trial_id"),
        ({"deadline": 5}, "deadline: 5 s end a step that is planned to take 5 s; give more, or leave it out"),
        ({"bin_dir": "/nosuch"}, r"pgbench was not found on the driver \(/nosuch\); install PostgreSQL's client programs"),
        ({"scripts": [{"sql": "\\syncpipeline\n"}], "protocol": "extended"}, "syncpipeline needs pgbench 17; this is 15.18"),
        ({"scripts": [{"file": "/nosuch/x.sql"}]}, "nosuch"),
    ],
)
def test_refusals(args: dict[str, Any], message: str, driver: Driver) -> None:
    action = driver.action(**RUN)
    action._task.args.update(args)
    with pytest.raises(Exception, match=message):
        action.run(task_vars={})
    assert not driver.work_dir.exists()


@pytest.mark.parametrize("name", ["login_db", "login_host"])
@pytest.mark.parametrize("text", ["postgresql://bench:s3cr3t@db1/app", "host=db1 dbname=app password=s3cr3t"])
def test_C073_a_connection_string_never_becomes_an_argument(name: str, text: str, driver: Driver) -> None:
    """libpq would read it where it stands for a database, and every user of the driver could read the password in it."""
    with pytest.raises(AnsibleActionFail, match=f"{name}: this is a connection string") as caught:
        driver.action(**RUN, **{name: text}).run(task_vars={})
    assert "s3cr3t" not in str(caught.value)
    assert not driver.work_dir.exists()


def test_a_program_that_cannot_run_is_told_from_one_that_is_not_there(driver: Driver) -> None:
    driver._write("pgbench", "echo 'error while loading shared libraries: libpq.so.5' >&2; exit 127")
    with pytest.raises(AnsibleActionFail, match=r"pgbench does not run on the driver \(.*\): error while loading .* libpq.so.5; install"):
        driver.action(**RUN).run(task_vars={})


def test_C068_a_deadline_behind_the_planned_end_is_accepted(driver: Driver) -> None:
    assert commands(driver, **RUN, deadline=5.5)


def test_a_driver_that_does_not_answer(driver: Driver) -> None:
    action = driver.action(**RUN)
    action._low_level_execute_command = lambda _command, **_k: {"stdout": "", "stderr": "sh: nproc: not found"}
    with pytest.raises(AnsibleActionFail, match="the driver did not answer: sh: nproc: not found"):
        action.run(task_vars={})


def test_C070_a_lost_connection_is_a_plain_failure(driver: Driver) -> None:
    """An unreachable host would skip every rescue and end the chain of playbooks."""
    action = driver.action(**RUN)

    def lost(*_args: Any, **_more: Any) -> None:
        raise AnsibleConnectionFailure("Connection timed out")

    action._low_level_execute_command = lost
    with pytest.raises(AnsibleActionFail, match="no connection to the driver: Connection timed out"):
        action.run(task_vars={})


def test_C074_a_weak_password_is_warned_of_and_not_shown(driver: Driver) -> None:
    action = driver.action(check=True, **RUN, login_password="postgres")
    result = action.run(task_vars={})
    warning = action._display.warning.call_args.args[0]
    assert "short, a number or a common word" in warning
    assert "postgres" not in warning
    assert "postgres" in result["commands"][-1]  # the database of that name is not masked


def test_C074_what_ansible_masked_is_no_figure(driver: Driver) -> None:
    action = driver.action(**RUN)
    execute = action._execute_module

    def masking(module_name: str, **more: Any) -> dict[str, Any]:
        result = execute(module_name, **more)
        if module_name.endswith(".digest"):
            result["digest"]["overall"]["p99"] = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"
        return result

    action._execute_module = masking
    result = action.run(task_vars={})
    assert result["measurement"]["latency"]["p99"] is None
    assert result["measurement"]["latency"]["max"] == 8.164
    (found,) = (f for f in result["measurement"]["findings"] if f["code"] == "masked")
    assert found["message"].startswith("Ansible masked measurement.latency.p99: ")
    assert result["verdict"] == "invalid"


# a run -------------------------------------------------------------------------------------------------------------------


def test_used_alone(driver: Driver) -> None:
    result = driver.action(**RUN).run(task_vars={})
    measurement = result["measurement"]
    assert measurement["metrics"]["tps"] == {"value": 502.811548, "unit": "1/s", "better": "higher"}
    assert measurement["latency"]["n"] == 2
    assert measurement["latency"]["max"] == 8.164
    assert [s["elapsed_s"] for s in measurement["progress"]] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert {f["code"] for f in measurement["findings"]} >= {"not_checked"}  # no observer, and it says so
    assert result["verdict"] in ("valid", "suspect", "invalid")
    assert (result["changed"], result["found"]) == (True, True)
    assert all(set(raw) == {"path", "bytes", "sha256"} and Path(raw["path"]).is_file() for raw in measurement["raw"])
    json.dumps(result, allow_nan=False)


def test_C071_a_result_holds_paths_and_figures_not_output(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (job_client, workload_action):
        monkeypatch.setattr(module, "READ_BYTES", 100_000)
    driver.pgbench("pgbench15_run_T5_P1_r.txt", more="head -c 5000000 /dev/zero | tr '\\0' 'x' | fold -w 80")
    result = driver.action(**RUN).run(task_vars={})
    assert len(json.dumps(result)) < 30_000
    assert result["measurement"]["metrics"]["tps"]["value"] == 502.811548  # the report stands at the end
    left = next(f for f in result["measurement"]["findings"] if f["code"] == "raw_left_on_driver")
    assert re.match(r"50\d{5} bytes of stdout stay in /", left["message"])


def test_C016_a_data_set_of_another_scale_is_rejected_before_it_is_timed(driver: Driver) -> None:
    driver.psql(f"echo '{json.dumps({**DATA, 'branches': 1})}'")
    with pytest.raises(AnsibleActionFail, match=r"the data set is not the one asked for: the data set has scale 1 .* asks for 5"):
        driver.action(**RUN).run(task_vars={})
    assert not list(driver.work_dir.glob("*.measured"))


@pytest.mark.parametrize(
    "said",
    [
        'FATAL:  database "bench" does not exist',
        'FATAL:  password authentication failed for user "bench"',
        'ERROR:  relation "pgbench_branches" does not exist',
    ],
)
def test_a_server_that_refuses_is_quoted(said: str, driver: Driver) -> None:
    driver.psql(f"echo 'psql: error: {said}' >&2; exit 2")
    with pytest.raises(AnsibleActionFail, match=rf"no data set to measure \(phase: load builds it\): psql: error: {said}"):
        driver.action(**RUN).run(task_vars={})


def test_a_run_without_result_fails_and_keeps_what_it_left(driver: Driver) -> None:
    driver.pgbench("pgbench15_err_too_many_clients.txt")
    with pytest.raises(AnsibleActionFail, match="pgbench: ") as caught:
        driver.action(**RUN).run(task_vars={})
    measurement = caught.value.result["measurement"]
    assert "too_many_clients" in {f["code"] for f in measurement["findings"]}
    assert measurement["metrics"] == {}


def test_a_run_that_ended_badly_is_an_ok_result_that_says_so(driver: Driver) -> None:
    driver.pgbench("pgbench15_one_backend_terminated_T5.txt")
    driver.psql(f"echo '{json.dumps({**DATA, 'branches': 10, 'tellers': 100, 'accounts': 1000000})}'")
    result = driver.action(**{**RUN, "scale": 10}).run(task_vars={})
    assert result["verdict"] == "aborted"


def test_no_log_no_percentiles_but_figures(driver: Driver) -> None:
    driver.pgbench("pgbench15_run_T5_P1_r.txt", more="rm pgbench_log.*")
    measurement = driver.action(**RUN).run(task_vars={})["measurement"]
    assert measurement["latency"]["p99"] is None
    assert measurement["latency"]["average"] == 7.931
    assert "log_incomplete" in {f["code"] for f in measurement["findings"]}


def test_a_log_that_cannot_be_read_costs_the_percentiles_only(driver: Driver) -> None:
    action = driver.action(**RUN)
    execute = action._execute_module

    def failing(module_name: str, **more: Any) -> dict[str, Any]:
        return {"failed": True, "msg": "disk full"} if module_name.endswith(".digest") else execute(module_name, **more)

    action._execute_module = failing
    measurement = action.run(task_vars={})["measurement"]
    assert measurement["metrics"]["tps"]["value"] == 502.811548
    assert measurement["latency"]["p99"] is None
    (found,) = (f for f in measurement["findings"] if f["code"] == "log_incomplete")
    assert found["message"] == "the per-transaction log could not be read: disk full"


def test_the_workload_is_told_the_transactions_of_each_second(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    parse, told = pgbench_workload.result, []
    monkeypatch.setattr(pgbench_workload, "result", lambda parameters, done, digest: told.append(digest) or parse(parameters, done, digest))
    driver.action(**RUN).run(task_vars={})
    assert told[0]["seconds"] == [{"ts": "1796030202", "transactions": "2", "not_processed": "0"}]


def test_the_window_is_that_of_the_measured_step(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workload may have steps behind it; they are not what was measured."""
    plan, parse = pgbench_workload.run_steps, pgbench_workload.result

    def one_more(*args: Any) -> list[dict[str, Any]]:
        return [*plan(*args), {"name": "after", "argv": ["sh", "-c", "sleep 1.5"], "planned_s": 0.5, "files": {}, "version": "15.18"}]

    driver._write("sh", 'exec /bin/sh "$@"')
    monkeypatch.setattr(pgbench_workload, "run_steps", one_more)
    monkeypatch.setattr(pgbench_workload, "result", lambda parameters, done, digest: parse(parameters, done[:1], digest))
    measurement = driver.action(**RUN).run(task_vars={})["measurement"]
    assert measurement["window"]["to"] - measurement["window"]["from"] < 1.5
    assert measurement["latency"]["n"] == 2  # its log was read
    assert any(raw["path"].endswith(".after/stdout") for raw in measurement["raw"])


def test_a_check_runs_nothing_and_says_what_the_data_set_is(driver: Driver) -> None:
    driver.pgbench("pgbench15_run_T5_P1_r.txt", more=f"touch {driver.bin_dir}/started")
    checked = driver.action(phase="check", scale=5).run(task_vars={})
    assert checked == {"changed": False, "found": True, "checked": DATA, "verdict": "valid"}
    assert driver.action(phase="check").run(task_vars={}) == checked  # of whatever is there
    with pytest.raises(AnsibleActionFail, match="the data set is not the one asked for: the data set has scale 5") as caught:
        driver.action(phase="check", scale=7).run(task_vars={})
    assert caught.value.result["verdict"] == "failed"
    assert caught.value.result["findings"][0]["severity"] == "failed"
    assert not (driver.bin_dir / "started").exists()


# secrets -----------------------------------------------------------------------------------------------------------------


def test_C073_a_password_travels_in_a_file_alone(driver: Driver, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    spy = f"tr '\\0' '\\n' < /proc/$$/cmdline > {seen}.argv; env > {seen}.env; cp -p pgpass {seen}.pgpass"
    driver.pgbench("pgbench15_run_T5_P1_r.txt", more=spy)
    action = driver.action(**RUN, login_password=SECRET)
    result = action.run(task_vars={})
    environment = (seen.with_suffix(".env")).read_text()
    assert "PGPASSFILE=pgpass" in environment
    assert "PGSSLMODE=prefer" in environment
    assert seen.with_suffix(".pgpass").read_text() == "*:*:*:*:s3cr3t\\:pass\\\\phrase\n"
    assert seen.with_suffix(".pgpass").stat().st_mode & 0o777 == 0o600
    for text in (environment, seen.with_suffix(".argv").read_text(), json.dumps(result), str(action._display.mock_calls)):
        assert "s3cr3t" not in text
    assert not [p for p in driver.work_dir.rglob("*") if p.is_file() and b"s3cr3t" in p.read_bytes()]


def test_a_password_file_of_the_user_wins(driver: Driver) -> None:
    action = driver.action(check=True, **RUN, login_password=SECRET, login_passfile="/home/bench/.pgpass")
    action.run(task_vars={})
    assert action._environment()["PGPASSFILE"] == "/home/bench/.pgpass"
    assert action._secret_files() == {}


# in an experiment --------------------------------------------------------------------------------------------------------


def test_in_an_experiment_the_raw_files_are_kept(driver: Driver, store: Store) -> None:
    action = driver.action(**RUN, experiment_dir=str(store.directory), trial_id="01-base-r1")
    measurement = action.run(task_vars={})["measurement"]
    folder = store.trial_dir("01-base-r1")
    kept = {raw["path"]: raw for raw in measurement["raw"]}
    assert {"raw/measured.stdout", "raw/measured.stderr", "raw/latency_histogram.gz"} <= set(kept)
    assert all((folder / path).stat().st_size == raw["bytes"] for path, raw in kept.items())
    assert json.loads((folder / "raw/measured.argv.json").read_text())[0].endswith("/pgbench")
    assert measurement["series"]["path"] == "raw/progress.csv"
    assert measurement["window"]["from"] <= measurement["window"]["to"]
    assert (driver.work_dir / f"{store.directory.name}.01-base-r1.1.measured" / "result.json").is_file()
    events = [json.loads(line) for line in (store.directory / "progress.jsonl").read_text().splitlines()]
    assert {(e["stage"], e["trial"], e["step"]) for e in events} == {("measure", "01-base-r1", "measured")}
    assert events[-1]["unit"] == "tps"
    assert "not_checked" not in {f["code"] for f in measurement["findings"]}  # the trial is judged when it is recorded


def test_a_run_that_stands_already_is_collected_not_repeated(driver: Driver, store: Store) -> None:
    where = {"experiment_dir": str(store.directory), "trial_id": "01-base-r1"}
    assert driver.action(**RUN, **where, phase="collect").run(task_vars={}) == {"changed": False, "found": False}
    first = driver.action(**RUN, **where).run(task_vars={})["measurement"]
    driver.pgbench("pgbench15_err_too_many_clients.txt")  # would fail if it ran again
    again = driver.action(**RUN, **where, phase="collect").run(task_vars={})
    assert again["found"] is True
    assert again["measurement"]["metrics"] == first["metrics"]
    assert again["measurement"]["window"] == first["window"]


def test_a_log_too_large_to_be_fetched_stays_and_is_named(driver: Driver, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_action, "FETCH_BYTES", 10)
    action = driver.action(**RUN, experiment_dir=str(store.directory), trial_id="01-base-r1")
    measurement = action.run(task_vars={})["measurement"]
    assert measurement["latency"]["n"] == 2  # it was read where it lies
    (left,) = (f for f in measurement["findings"] if f["code"] == "raw_left_on_driver")
    (name,) = left["evidence"]["files"]
    run_dir = driver.work_dir / f"{store.directory.name}.01-base-r1.1.measured"
    assert f"bytes of log stay in {run_dir} on the driver" in left["message"]
    assert (run_dir / name).is_file()
    kept = {path.name for path in (store.trial_dir("01-base-r1") / "raw").iterdir()}
    assert "latency_histogram.gz" in kept
    assert name not in kept


def test_a_load(driver: Driver, store: Store) -> None:
    driver.pgbench("pgbench15_init_s5_serverside_G.txt")
    action = driver.action(phase="load", scale=5, server_side=True, experiment_dir=str(store.directory), trial_id="15-0a1b2c3d-5a3b1e")
    measurement = action.run(task_vars={})["measurement"]
    assert measurement["metrics"]["load_seconds"]["value"] > 0
    assert (store.directory / "datasets/15-0a1b2c3d-5a3b1e/raw/load.stderr").is_file()
    driver.psql(f"echo '{json.dumps({**DATA, 'accounts': 499999})}'")
    with pytest.raises(AnsibleActionFail, match="accounts = 499999, the plan asks for 500000"):
        action.run(task_vars={})


def test_script_texts_are_kept_with_the_trial(driver: Driver, store: Store) -> None:
    run = {**RUN, "ramp_up": 1, "scripts": [{"sql": "SELECT 42;", "name": "answer.sql"}]}
    action = driver.action(**run, experiment_dir=str(store.directory), trial_id="01-base-r1")
    measurement = action.run(task_vars={})["measurement"]
    assert (store.trial_dir("01-base-r1") / "raw/0_answer.sql").read_text() == "SELECT 42;"
    paths = [raw["path"] for raw in measurement["raw"]]
    assert paths.count("raw/0_answer.sql") == 1


# interrupts --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(driver: Driver, store: Store, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs the action up to an interrupt of the measured step; the worker's end is a ``SystemExit``."""
    driver.pgbench("pgbench15_run_T5_P1_r.txt", more=f"touch {driver.bin_dir}/started; exec sleep 300")
    follow = job_client.JobClient.follow

    def run(number: int) -> Any:
        def followed(client: Any, job: dict[str, Any], *args: Any) -> dict[str, Any]:
            if not job["id"].endswith(".measured"):
                return follow(client, job, *args)
            wait_for((driver.bin_dir / "started").exists)
            raise job_client.Interrupted(number)

        monkeypatch.setattr(job_client.JobClient, "follow", followed)
        monkeypatch.setattr(workload_action.os, "_exit", lambda code: (_ for _ in ()).throw(SystemExit(code)))
        action = driver.action(**RUN, experiment_dir=str(store.directory), trial_id="01-base-r1")
        with pytest.raises(SystemExit):
            action.run(task_vars={})
        return action

    return run


def test_an_interrupt_stops_the_job_and_keeps_what_there_is(interrupted: Any, driver: Driver, store: Store) -> None:
    action = interrupted(2)
    job = action.client.state(f"{store.directory.name}.01-base-r1.1.measured")
    assert (job["state"], job["stopped"]) == ("finished", "request")
    assert store.experiment["journal"]["trials"]["01-base-r1"]["state"] == "interrupted"
    trial = store.trials()[0]
    assert trial["verdict"] in ("aborted", "failed")
    assert "interrupted by signal 2 in step measured" in [f["message"] for f in trial["findings"]]
    where = {"experiment_dir": str(store.directory), "trial_id": "01-base-r1"}
    assert driver.action(**RUN, **where, phase="collect").run(task_vars={})["found"] is False  # half a run is not collected


@pytest.mark.parametrize(("number", "state"), [(2, "finished"), (0, "running")])
def test_an_interrupted_check_of_the_data_set_is_stopped_too(
    number: int, state: str, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.psql("exec sleep 300")

    def interrupt(_client: Any, _job: dict[str, Any], *_args: Any) -> None:
        raise job_client.Interrupted(number)

    monkeypatch.setattr(job_client.JobClient, "follow", interrupt)
    monkeypatch.setattr(workload_action.os, "_exit", lambda code: (_ for _ in ()).throw(SystemExit(code)))
    action = driver.action(**RUN)
    with pytest.raises(SystemExit):
        action.run(task_vars={})
    job_id = f"{action.job_prefix}.check"
    assert action.client.state(job_id)["state"] == state
    action.client.stop(job_id)


def test_a_lost_controller_leaves_the_job_alone(interrupted: Any, store: Store) -> None:
    action = interrupted(0)
    job_id = f"{store.directory.name}.01-base-r1.1.measured"
    assert action.client.state(job_id)["state"] == "running"
    assert store.experiment["journal"]["trials"]["01-base-r1"]["state"] == "running"
    assert store.trials() == []
    action.client.stop(job_id)
