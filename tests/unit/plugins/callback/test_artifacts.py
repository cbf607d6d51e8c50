# GNU General Public License v3.0 or later (see LICENSE)
"""The flight recorder in real ansible-playbook runs: ended well, failed, host lost, interrupted in every way."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.playbook_run import Run, wait_for

from ansible_collections.pgsizing.bench.plugins.callback import artifacts
from ansible_collections.pgsizing.bench.plugins.callback.artifacts import CallbackModule, TimeLine, clean

PLAN = """
- name: Plan
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Before the experiment is known
      ansible.builtin.debug:
    - name: Plan
      ansible.builtin.set_fact:
        pgsizing_experiment: {{id: sample, dir: "{folder}"}}
"""
# A minute at the most: a module may outlive its controller.
WAIT = """
    - name: Measure
      ansible.builtin.shell: touch started; for i in $(seq 1200); do [ ! -e go ] || break; sleep 0.05; done
      args:
        chdir: "{folder}"
"""


def write(tmp_path: Path, tasks: str, provider: str = "local", **trials: str) -> Path:
    """Write a playbook and the experiment folder it names, with trials in the states given; return the playbook."""
    folder = tmp_path / "results" / "sample"
    folder.mkdir(parents=True)
    states = trials or {"t1": "finished", "t2": "finished"}
    journal = {"trials": {i: {"state": s} for i, s in states.items()}, "stages": {}, "end": None}
    plan = {"inputs": {"server_group": "my_db"}, "where": {"provider": provider}, "estimate": {"seconds": 60}}
    (folder / "experiment.json").write_text(json.dumps({"experiment_id": "sample", "plan": plan, "journal": journal}))
    playbook = tmp_path / "run.yml"
    playbook.write_text((PLAN + tasks).format(folder=folder))
    return playbook


def journal(playbook: Path) -> dict[str, Any]:
    return json.loads((playbook.parent / "results/sample/experiment.json").read_text())["journal"]


def events(playbook: Path) -> list[dict[str, Any]]:
    text = (playbook.parent / "results/sample/events.jsonl").read_text()
    return [json.loads(line, parse_constant=lambda name: pytest.fail(f"not strict JSON: {name}")) for line in text.splitlines()]


def started(playbook: Path) -> None:
    wait_for((playbook.parent / "results/sample/started").exists, "the task that is to be interrupted never began")


def locked(playbook: Path) -> bool:
    with open(playbook.parent / "results/sample/lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_run_that_ends_well(tmp_path):
    tasks = """
    - name: Skipped
      ansible.builtin.debug:
      when: false
    - name: Ignored
      ansible.builtin.fail:
        msg: "no connection to postgres://bench:geheim@db/x (password=geheim)"
      ignore_errors: true
    - name: Hidden
      ansible.builtin.command: echo geheim
      no_log: true
    """
    playbook = write(tmp_path, tasks)
    run = Run(playbook)
    assert run.end() == 0, run.output
    seen = events(playbook)
    assert [(e["event"], e.get("task"), e.get("status")) for e in seen] == [
        ("play", None, None),
        ("task", "Before the experiment is known", "ok"),
        ("task", "Plan", "ok"),
        ("task", "Skipped", "skipped"),
        ("task", "Ignored", "ignored"),
        ("task", "Hidden", "changed"),
        ("end", None, None),
    ]
    for task in seen[1:-1]:
        assert task["host"] == "localhost"
        assert task["play"] == "Plan"
        assert task["end"] - task["start"] == pytest.approx(task["duration_s"], abs=1e-3)
    assert seen[1]["action"] == "ansible.builtin.debug"
    assert seen[4]["message"] == "no connection to postgres://bench:***@db/x (password=***"
    assert "geheim" not in json.dumps(seen)
    assert seen[-1]["hosts"]["localhost"]["failures"] == 0
    end = journal(playbook)["end"]
    assert (end["state"], end["cause"]) == ("finished", None)
    assert "resume" not in run.output


def test_trials_left_without_trouble_wait_for_the_next_playbook(tmp_path):
    playbook = write(tmp_path, "", t1="planned")
    assert Run(playbook).end() == 0
    assert journal(playbook)["end"] is None


def test_an_end_that_an_action_wrote_stays(tmp_path):
    playbook = write(tmp_path, "    - name: Gate\n      ansible.builtin.fail:\n")
    file = playbook.parent / "results/sample/experiment.json"
    content = json.loads(file.read_text())
    content["journal"]["end"] = {"state": "finished", "at": 1.0, "cause": None}
    file.write_text(json.dumps(content))
    assert Run(playbook).end() == 2
    assert journal(playbook)["end"] == {"state": "finished", "at": 1.0, "cause": None}


def test_a_failure_names_its_task_and_how_to_go_on(tmp_path):
    tasks = "    - name: Break\n      ansible.builtin.fail:\n        msg: of no use {{{{ item }}}}\n      loop: [1, 2]\n"
    playbook = write(tmp_path, tasks, t1="running", t2="planned")
    run = Run(playbook)
    assert run.end() == 2
    end = journal(playbook)["end"]
    assert (end["state"], end["cause"]) == ("failed", "task 'Break' failed on localhost: of no use 1")
    assert journal(playbook)["trials"] == {"t1": {"state": "unknown"}, "t2": {"state": "planned"}}
    assert "experiment sample failed with 2 of 2 trials to do" in run.output
    assert f"resume:    ansible-playbook {playbook} -e resume=sample\n" in run.output
    assert "tear down: ansible-playbook pgsizing.bench.teardown\n" in run.output


def test_how_to_go_on_says_where_we_live_when_this_command_did(tmp_path):
    playbook = write(tmp_path, "    - name: Break\n      ansible.builtin.fail:\n", t1="running")
    place = "postgres_base_dir=/srv/of-mine"
    run = Run(playbook, "-e", place)
    assert run.end() == 2
    for command in (f"resume:    ansible-playbook {playbook} -e resume=sample", "tear down: ansible-playbook pgsizing.bench.teardown"):
        assert f"{command} -e {place}\n" in run.output


def test_how_to_tear_down_says_where_a_server_of_the_users_is(tmp_path):
    playbook = write(tmp_path, "    - name: Break\n      ansible.builtin.fail:\n", provider="existing", t1="running")
    file = playbook.parent / "results/sample/experiment.json"
    content = json.loads(file.read_text())
    content["plan"]["inputs"] = {}
    content["plan"]["login"] = {
        "host": "db1",
        "port": None,
        "user": "bench",
        "db": None,
        "unix_socket": None,
        "passfile": "/home/me/.pgpass",
    }
    file.write_text(json.dumps(content))
    run = Run(playbook)
    assert run.end() == 2
    login = "-e login_host=db1 -e login_user=bench -e login_passfile=/home/me/.pgpass"
    assert f"tear down: ansible-playbook pgsizing.bench.teardown {login}\n" in run.output


def test_a_lost_host_is_the_cause(tmp_path):
    tasks = """
    - name: Go on without it
      ansible.builtin.ping:
      delegate_to: gone
      ignore_unreachable: true
    - name: Ask
      ansible.builtin.ping:
      delegate_to: gone
    """
    playbook = write(tmp_path, tasks, provider="inventory", t1="running")
    inventory = tmp_path / "my hosts.yml"
    inventory.write_text("all: {hosts: {localhost: {ansible_connection: local}, gone: {ansible_host: 127.0.0.1, ansible_port: 1}}}")
    run = Run(playbook, "-i", str(inventory))
    assert run.end() == 4
    assert [e["status"] for e in events(playbook)[-3:-1]] == ["unreachable", "unreachable"]
    end = journal(playbook)["end"]
    assert end["state"] == "failed"
    assert end["cause"].startswith("host localhost unreachable in task 'Ask': ")
    assert f"-i {shlex.quote(str(inventory))} -e resume=sample" in run.output
    assert f"tear down: ansible-playbook pgsizing.bench.teardown -i {shlex.quote(str(inventory))} -e server_group=my_db\n" in run.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_interrupted(tmp_path, number):
    playbook = write(tmp_path, WAIT, t1="finished", t2="running", t3="planned")
    run = Run(playbook)
    started(playbook)
    assert locked(playbook)
    run.process.send_signal(number)
    assert run.end() == 99
    end = journal(playbook)["end"]
    assert (end["state"], end["cause"]) == ("interrupted", number.name)
    assert {i: t["state"] for i, t in journal(playbook)["trials"].items()} == {"t1": "finished", "t2": "interrupted", "t3": "planned"}
    assert events(playbook)[-1]["event"] == "interrupted"
    assert "experiment sample interrupted with 2 of 3 trials to do" in run.output
    assert "-e resume=sample" in run.output
    assert not locked(playbook)


def test_an_interrupt_that_was_lost_comes_with_the_next_task(callback, monkeypatch):
    """A worker, which has a process of its own, goes its own way."""
    host, task = SimpleNamespace(get_name=lambda: "db"), SimpleNamespace(_uuid="1")
    callback.v2_runner_on_start(host, task)
    callback._signal = "SIGTERM"
    with pytest.raises(KeyboardInterrupt):
        callback.v2_runner_on_start(host, task)
    monkeypatch.setattr(callback, "_pid", os.getpid() + 1)
    callback.v2_runner_on_start(host, task)


def test_an_interrupt_ends_a_worker_that_has_no_handler_of_its_own_yet(callback):
    """It would go on, hand its result to nobody and wait for ever."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        callback._route_signals()
        worker = os.fork()
        if worker == 0:
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_an_interrupt_that_hangs_ansible_ends_all_the_same(tmp_path):
    """As when a worker dies while it hands over a result: the lock of the queue of results is never given back."""
    playbook = write(tmp_path, WAIT, t1="running")
    (tmp_path / "callbacks").mkdir()
    (tmp_path / "callbacks" / "hold.py").write_text(
        "import gc\nfrom ansible.executor.task_queue_manager import FinalQueue\nfrom ansible.plugins.callback import CallbackBase\n"
        "class CallbackModule(CallbackBase):\n    CALLBACK_VERSION = 2.0\n    CALLBACK_TYPE = 'notification'\n    CALLBACK_NAME = 'hold'\n"
        "    def v2_runner_on_start(self, host, task):\n        if task.get_name() == 'Measure':\n"
        "            next(o for o in gc.get_objects() if type(o) is FinalQueue)._wlock.acquire()\n"
    )
    run = Run(
        playbook,
        ANSIBLE_CALLBACK_PLUGINS=str(tmp_path / "callbacks"),
        ANSIBLE_CALLBACKS_ENABLED="hold,pgsizing.bench.artifacts,pgsizing.bench.progress",
    )
    started(playbook)
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 99
    assert journal(playbook)["end"]["state"] == "interrupted"
    assert not locked(playbook)


def test_an_error_of_ansible_is_no_interrupt(tmp_path):
    playbook = write(tmp_path, "    - ansible.builtin.meta: noop\n", t1="running")
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "broken.py").write_text(
        "from ansible.plugins.strategy import StrategyBase\nclass StrategyModule(StrategyBase):\n"
        "    def run(self, iterator, play_context):\n        raise RuntimeError('broken')\n"
    )
    playbook.write_text(playbook.read_text() + "\n- name: Break\n  hosts: localhost\n  strategy: broken\n  gather_facts: false\n")
    run = Run(playbook, ANSIBLE_STRATEGY_PLUGINS=str(tmp_path / "strategy"))
    assert run.end() not in (0, 99)
    end = journal(playbook)["end"]
    assert (end["state"], end["cause"]) == ("failed", "ansible-playbook ended before its recap")


def test_a_closed_window_is_recorded(tmp_path):
    playbook = write(tmp_path, WAIT, t1="running")
    run = Run(playbook, terminal=True)
    run.see(lambda text: "TASK [Measure]" in text)
    started(playbook)
    run.hang_up()
    run.process.wait(60)
    assert (journal(playbook)["end"]["state"], journal(playbook)["end"]["cause"]) == ("interrupted", "SIGHUP")


def test_nohup_stays_in_force(tmp_path):
    playbook = write(tmp_path, WAIT)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what a child inherits from nohup
    try:
        run = Run(playbook)
    finally:
        signal.signal(signal.SIGHUP, before)
    started(playbook)
    run.process.send_signal(signal.SIGHUP)
    (playbook.parent / "results/sample/go").touch()
    assert run.end() == 0
    assert journal(playbook)["end"]["state"] == "finished"


def test_killed_leaves_a_free_lock_and_no_end(tmp_path):
    """What tells a later reader that the run was interrupted. The worker that outlives its controller holds no lock."""
    playbook = write(tmp_path, WAIT, t1="running")
    run = Run(playbook)
    started(playbook)
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait(60)
    assert not locked(playbook)
    assert journal(playbook)["end"] is None
    (playbook.parent / "results/sample/go").touch()
    run.end()


def test_a_second_process_leaves_the_record_alone(tmp_path):
    playbook = write(tmp_path, "", t1="running")
    with open(playbook.parent / "results/sample/lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = Run(playbook)
        assert run.end() == 0
    assert "another process runs experiment sample" in run.errors + run.output
    assert journal(playbook)["end"] is None
    assert not (playbook.parent / "results/sample/events.jsonl").exists()


@pytest.fixture
def release(tmp_path, monkeypatch):
    """Return a function that frees the hosts as this command line would, by a stand-in of ansible-playbook that ends with ``code``.

    It returns the arguments, what the password files held, and what was printed.
    """

    def run(code: int = 0, **command_line: Any) -> tuple[list[str], list[str], str]:
        (tmp_path / "ansible-playbook").write_text(
            f'#!/bin/sh\nfor word; do echo "$word"; case $word in /dev/fd/*) cat $word >> {tmp_path}/read; echo >> {tmp_path}/read;; '
            f"esac; done > {tmp_path}/words\nexit {code}\n"
        )
        (tmp_path / "ansible-playbook").chmod(0o755)
        monkeypatch.setattr("sys.argv", [str(tmp_path / "ansible-playbook")])
        monkeypatch.setattr(artifacts.context, "CLIARGS", command_line)
        playbook = write(tmp_path, "", provider="inventory")
        callback = CallbackModule()
        printed: list[str] = []
        callback._display = SimpleNamespace(display=printed.append)
        callback._id = "sample"
        callback.set_play_context(SimpleNamespace(password=command_line.get("k"), become_pass=command_line.get("K")))
        callback._release(artifacts.Store(playbook.parent / "results/sample"))
        read = tmp_path / "read"
        return (tmp_path / "words").read_text().splitlines(), read.read_text().splitlines() if read.exists() else [], "\n".join(printed)

    return run


def test_hosts_are_freed_the_way_this_command_reached_them(release):
    words, _read, printed = release(
        inventory=["my hosts.yml"],
        extra_vars=["a=1", "@vars.yml"],
        vault_ids=["dev@prompt"],
        vault_password_files=["vault.txt"],
        remote_user="admin",
        private_key_file="key",
        ssh_common_args="-J bastion",
        become=True,
        become_user="root",
        forks=5,
    )
    assert words[:6] == ["pgsizing.bench.release", "-i", "my hosts.yml", "-e", "server_group=my_db", "-e"]
    assert words[6:] == [
        "experiment_id=sample",
        *("-e", "a=1", "-e", "@vars.yml", "--vault-id", "dev@prompt", "--vault-password-file", "vault.txt"),
        *("--ssh-common-args=-J bastion", "--become-user=root", "--user=admin", "--private-key=key", "--become"),
    ]
    assert printed == "pgsizing: the hosts are free."


def test_C073_passwords_that_were_typed_are_handed_on_by_pipe(release):
    words, read, printed = release(k="ssh geheim", K="sudo geheim")
    options = [word for word in words if word.startswith("--")]
    assert options == ["--connection-password-file", "--become-password-file"]
    assert read == ["ssh geheim", "sudo geheim"]
    assert "geheim" not in printed + " ".join(words)


def test_hosts_that_could_not_be_freed_are_said_with_the_command(release):
    _words, _read, printed = release(code=4, inventory=["my hosts.yml"])
    assert "could not be freed" in printed
    assert printed.endswith("ansible-playbook pgsizing.bench.release -i 'my hosts.yml' -e server_group=my_db -e experiment_id=sample")


def result(action: str, content: dict[str, Any]) -> SimpleNamespace:
    task = SimpleNamespace(action=action, resolved_action=action, _uuid="u1")
    return SimpleNamespace(
        host=SimpleNamespace(get_name=lambda: "db1"), task=task, task_name="Load", result=content, is_changed=lambda: True
    )


@pytest.fixture
def callback(tmp_path):
    callback = CallbackModule()
    callback._plugin_options = {"adhoc_dir": str(tmp_path / "adhoc")}
    return callback


@pytest.mark.parametrize(
    ("action", "content", "workloads"),
    [
        ("pgsizing.bench.pgbench", {"measurement": {"workload": "pgbench", "x": float("nan")}}, ["pgbench"]),
        ("pgsizing.bench.pgbench", {"results": [{"measurement": {"workload": "a/b"}}, {"measurement": {}}, {}]}, ["a/b", None]),
        ("pgsizing.bench.pgbench", {"msg": "loaded"}, []),
        ("other.bench.pgbench", {"measurement": {"workload": "pgbench"}}, []),
    ],
)
def test_an_action_used_alone(callback, tmp_path, action, content, workloads):
    callback.v2_runner_on_ok(result(action, content))
    files = sorted((tmp_path / "adhoc").glob("*-adhoc/*.json"))
    assert [json.loads(f.read_text())["measurement"].get("workload") for f in files] == workloads
    assert all("NaN" not in f.read_text() for f in files)


def test_an_action_used_alone_writes_nothing_unasked(callback, tmp_path):
    callback._plugin_options = {"adhoc_dir": None}
    callback.v2_runner_on_ok(result("pgsizing.bench.pgbench", {"measurement": {"workload": "pgbench"}}))
    assert not (tmp_path / "adhoc").exists()


def test_c071_results_stay_out_of_the_record(callback, tmp_path):
    callback.v2_runner_on_ok(result("ansible.builtin.command", {"stdout": "x" * 10_000_000, "stdout_lines": ["x"] * 100_000}))
    callback._time_line.open(tmp_path / "events.jsonl")
    assert (tmp_path / "events.jsonl").stat().st_size < 1000


def test_c077_tagged_values_become_plain(callback, tmp_path):
    class Tagged(str):
        __slots__ = ()

    callback.v2_runner_on_ok(result(Tagged("ansible.builtin.command"), {}))
    callback._time_line.open(tmp_path / "events.jsonl")
    assert json.loads((tmp_path / "events.jsonl").read_text())["action"] == "ansible.builtin.command"


def test_the_record_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "MAX_EVENTS", 3)
    line = TimeLine()
    for number in range(9):
        line.add(event="task", number=number)
        if number == 1:
            line.open(tmp_path / "events.jsonl")
    written = [json.loads(row) for row in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [e.get("number") for e in written] == [0, 1, 2, None]
    assert written[-1]["message"] == "only the first 3 events are kept"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("two\n  lines", "two lines"),
        ("password: hunter2, user: x", "password: ***, user: x"),
        ('{"login_password": "a b", "port": 5}', '{"login_password": ***, "port": 5}'),
        ("PGPASSWORD='a b' psql", "PGPASSWORD=*** psql"),
        ("aws_secret_access_key = AKIA", "aws_secret_access_key = ***"),
        ("postgresql://u:p%40x@db:5432/b", "postgresql://u:***@db:5432/b"),
        ("host db:5432, tokens per s", "host db:5432, tokens per s"),
        ("x" * 600, "x" * 499 + "…"),
    ],
)
def test_clean(text, kept):
    assert clean(text) == kept
