# GNU General Public License v3.0 or later (see LICENSE)
"""Detached jobs from an action: followed by cheap polls, through lost connections, until the end or an interrupt."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from support import actions

from ansible_collections.pgsizing.bench.plugins.plugin_utils import job_client
from ansible_collections.pgsizing.bench.plugins.plugin_utils.job_client import Interrupted, JobClient, interruptible

STARTED = 1_790_000_000.0


class Target:
    """A target whose answers to polls are given; its clock is the only one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any, state: str = "running") -> None:
        self.answers, self.state = list(answers), state
        self.now = 0.0
        self.commands: list[str] = []
        self.modules: list[tuple[str, dict[str, Any]]] = []
        monkeypatch.setattr(job_client.time, "sleep", self._sleep)
        monkeypatch.setattr(job_client.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(job_client.time, "time", lambda: STARTED + self.now)

    def _sleep(self, seconds: float) -> None:
        assert 0 < seconds <= job_client.POLL_S
        self.now += seconds

    def _low_level_execute_command(self, command: str, sudoable: bool) -> dict[str, Any]:
        self.commands.append(command)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"stdout": answer}

    def _execute_module(self, module_name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        self.modules.append((module_name, module_args))
        return {"job": {"id": module_args["id"], "state": self.state, "run_dir": "/jobs/x"}}

    def follow(self, planned_s: float | None = None) -> tuple[dict[str, Any], str]:
        client = make_client(self, experiment="e1")
        seen: list[str] = []
        job = client.follow({"id": "x", "run_dir": "/jobs/x", "started": STARTED}, planned_s, seen.append)
        return job, "".join(seen)


def make_client(target: Any, jobs_dir: str = "/jobs", experiment: str | None = None) -> JobClient:
    return JobClient(target, {}, jobs_dir, experiment)


def answer(text: str | bytes = "", result: dict[str, Any] | None = None) -> str:
    """What a poll gets back: the result once there is one, and new output."""
    data = text.encode() if isinstance(text, str) else text
    return f"{json.dumps(result) if result else ''}\n{job_client._MARK}\n{base64.encodebytes(data).decode()}"


RESULT = {"state": "finished", "rc": 0}


def test_output_is_handed_over_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch, answer("one\n"), answer(), answer("two ü\n"), answer("three\n", RESULT))
    assert target.follow() == (RESULT, "one\ntwo ü\nthree\n")
    assert [int(c.partition("tail -c +")[2].split()[0]) for c in target.commands] == [1, 5, 5, 12]  # bytes, not characters
    assert target.modules == []


def test_output_larger_than_a_poll_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_client, "POLL_BYTES", 4)
    target = Target(monkeypatch, answer("abcd", RESULT), answer("efgh", RESULT), answer("i", RESULT))
    assert target.follow() == (RESULT, "abcdefghi")


def test_C070_a_lost_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = AnsibleConnectionFailure("broken pipe")
    target = Target(monkeypatch, answer("a"), lost, lost, lost, answer("b", RESULT))
    assert target.follow() == (RESULT, "ab")
    assert target.modules == []  # nothing else is tried while the connection is lost


def test_C070_a_connection_that_stays_lost_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch, answer("a"), AnsibleConnectionFailure("broken pipe"))
    with pytest.raises(AnsibleActionFail, match=r"no connection for 120 s; the run goes on by itself .* -e resume=<id>"):
        target.follow()
    assert target.now > job_client.RECONNECT_S


def test_the_module_is_not_asked_while_output_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module costs the target half a second of CPU, and the target is what is being measured."""
    target = Target(monkeypatch, *[answer(f"progress {i}\n") for i in range(600)], answer("", RESULT))
    target.follow(planned_s=None)
    assert target.now >= 500
    assert target.modules == []


def test_nor_before_the_planned_end(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch, *[answer()] * 40, answer("", RESULT))
    target.follow(planned_s=100)
    assert target.modules == []


@pytest.mark.parametrize("state", ["lost", "absent"])
def test_a_supervisor_that_is_gone_is_noticed(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch, answer(), state=state)
    job, _seen = target.follow(planned_s=5)
    assert job["state"] == state
    assert job_client.LIVENESS_S < target.now < 20
    assert target.modules == [("pgsizing.bench.job", {"state": "polled", "id": "x", "dir": "/jobs"})]


def test_a_folder_that_is_gone_is_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    job, seen = Target(monkeypatch, "", state="absent").follow(planned_s=1)
    assert (job["state"], seen) == ("absent", "")


def test_a_controller_that_is_gone_leaves_the_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch, answer())
    parents = iter([1234, 1234, 1])
    monkeypatch.setattr(job_client.os, "getppid", lambda: next(parents))
    with pytest.raises(Interrupted) as caught:
        target.follow()
    assert caught.value.number == 0
    assert target.modules == []


@pytest.mark.parametrize(
    ("planned", "elapsed", "pause"),
    [
        (60.0, 0.0, job_client.POLL_S),
        (60.0, 59.0, pytest.approx(1.3)),
        (60.0, 60.2, 0.5),
        (60.0, 500.0, 0.5),
        (None, 500.0, job_client.UNPLANNED_POLL_S),
    ],
)
def test_polls_are_rare_until_the_planned_end(planned: float | None, elapsed: float, pause: Any) -> None:
    assert job_client._pause(planned, elapsed) == pause


# signals -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_once(number: int, handlers: None) -> None:
    with pytest.raises(Interrupted) as caught, interruptible():
        os.kill(os.getpid(), number)
        time.sleep(60)
    assert caught.value.number == number
    os.kill(os.getpid(), signal.SIGTERM)  # the second one, which the parent sends at once, is ignored


def test_handlers_are_put_back(handlers: None) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptible():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


# the modules -------------------------------------------------------------------------------------------------------------


def test_what_is_not_said_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch, answer())
    make_client(target).start("x", ["true"], 5.0, secret_files=None, env={"A": "1"})
    assert target.modules == [
        ("pgsizing.bench.job", {"state": "started", "id": "x", "dir": "/jobs", "argv": ["true"], "deadline": 5.0, "env": {"A": "1"}})
    ]


def test_a_module_that_fails_is_an_error_with_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch, answer())
    monkeypatch.setattr(target, "_execute_module", lambda **_k: {"failed": True, "msg": "no such program"})
    with pytest.raises(AnsibleActionFail, match="no such program"):
        make_client(target).module("digest")


class Here:
    """This machine as the target."""

    _low_level_execute_command = staticmethod(actions.shell)
    _execute_module = staticmethod(actions.module)


def test_a_real_job(tmp_path: Path) -> None:
    client = make_client(Here(), str(tmp_path), "e1")
    script = "cat pgpass >/dev/null && stat -c %a pgpass; printf 'caf\\351\\n' >&2; exit 3"
    job = client.start("x", ["sh", "-c", script], 30.0, secret_files={"pgpass": "s3cr3t-passphrase"})
    seen: list[str] = []
    job = client.follow(job, 0.0, seen.append)
    assert (job["state"], job["rc"]) == ("finished", 3)
    assert client.read(job["stdout"]) == "600\n"
    assert client.read(job["stderr"]).encode("utf-8", "surrogateescape") == b"caf\xe9\n"
    assert seen == ["caf\ufffd\n"]
    assert client.start("x", ["sh", "-c", script], 30.0)["rc"] == 3  # it is read, not run again
    assert client.stop("x")["state"] == client.state("x")["state"] == "finished"
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"s3cr3t" in p.read_bytes()]


def test_C071_of_an_output_its_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_client, "READ_BYTES", 5)
    (tmp_path / "stdout").write_text("0123456789")
    client = make_client(Here(), str(tmp_path))
    assert client.read(str(tmp_path / "stdout")) == "56789"
    assert client.read(str(tmp_path / "nosuch")) == ""
