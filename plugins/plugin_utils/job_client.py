# GNU General Public License v3.0 or later (see LICENSE)
"""Start, follow, stop and collect a detached job from an action plugin (DESIGN 4.4).

Start and stop go through the module ``job``; following is a low-level command, because a module costs the target half a
second of CPU and the target is what is being measured.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

POLL_S = 2.0
POLL_BYTES = 262144
#: Of a program's output the end is read; the whole stays in its file.
READ_BYTES = 4 * 2**20
#: A connection that stays lost this long fails the task; the job itself goes on to its deadline.
RECONNECT_S = 120.0
#: The module is asked whether the supervisor still lives once the job has written nothing for so long.
LIVENESS_S = 10.0
#: Between two polls of a job whose end cannot be planned.
UNPLANNED_POLL_S = 1.0

_MARK = "--pgsizing-result--"


class Interrupted(BaseException):
    """The controller was told to stop (signal number) or is gone (0)."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT and SIGTERM in this worker into ``Interrupted``, once.

    The parent sends SIGTERM right after SIGINT: without ignoring both from then on, the second would end the handler.
    """

    def handler(number: int, _frame: Any) -> NoReturn:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, old)


class JobClient:
    """The jobs of one action on its target."""

    def __init__(self, action: ActionBase, task_vars: dict[str, Any], jobs_dir: str, experiment: str | None) -> None:
        self.action = action
        self.task_vars = task_vars
        self.jobs_dir = jobs_dir
        self.experiment = experiment
        self._controller = os.getppid()

    def module(self, name: str, **args: Any) -> dict[str, Any]:
        """Run a module of this collection on the target; ``AnsibleActionFail`` carries its message."""
        args = {k: v for k, v in args.items() if v is not None}
        result = self.action._execute_module(module_name=f"pgsizing.bench.{name}", module_args=args, task_vars=self.task_vars)
        if result.get("failed"):
            raise AnsibleActionFail(str(result.get("msg") or f"module {name} failed"), result=result)
        return result

    def start(self, job_id: str, argv: list[str], deadline: float, **options: Any) -> dict[str, Any]:
        """Start the job, or attach to it when it runs or has ended already; return its state."""
        result = self.module(
            "job", state="started", id=job_id, dir=self.jobs_dir, argv=argv, deadline=deadline, experiment=self.experiment, **options
        )
        return result["job"]

    def stop(self, job_id: str) -> dict[str, Any]:
        """End the job and its children; return its final state."""
        return self.module("job", state="stopped", id=job_id, dir=self.jobs_dir)["job"]

    def state(self, job_id: str) -> dict[str, Any]:
        """Return the job's state by the module (half a second of the target's CPU)."""
        return self.module("job", state="polled", id=job_id, dir=self.jobs_dir)["job"]

    def follow(self, job: dict[str, Any], planned_s: float | None, output: Callable[[str], None]) -> dict[str, Any]:
        """Wait until the job has ended; hand what it writes to stderr to ``output`` as it comes.

        A lost connection is tried again; the job does not notice. Raises ``Interrupted``.
        """
        run_dir, offset = job["run_dir"], 0
        lost_since: float | None = None
        asked = time.monotonic()
        with interruptible():
            while True:
                try:
                    text, size, result = self._poll(run_dir, offset)
                    lost_since = None
                except AnsibleConnectionFailure as error:
                    lost_since = lost_since or time.monotonic()
                    if time.monotonic() - lost_since > RECONNECT_S:
                        raise AnsibleActionFail(
                            f"no connection for {RECONNECT_S:.0f} s; the run goes on by itself until its deadline and can be collected "
                            f"with -e resume=<id>: {error}"
                        ) from error
                    text, size, result = "", 0, None
                offset += size
                if text:
                    asked = time.monotonic()
                    output(text)
                if result is not None and size < POLL_BYTES:
                    return result
                if os.getppid() != self._controller:
                    raise Interrupted(0)
                elapsed = time.time() - (job.get("started") or time.time())
                if lost_since is None and elapsed > (planned_s or 0) and time.monotonic() - asked > LIVENESS_S:
                    asked = time.monotonic()
                    state = self.state(job["id"])
                    if state["state"] in ("lost", "absent"):
                        return state
                time.sleep(_pause(planned_s, elapsed))

    def _poll(self, run_dir: str, offset: int) -> tuple[str, int, dict[str, Any] | None]:
        """Return new text of stderr, its size in bytes, and the result once there is one."""
        script = (
            f"cd {shlex.quote(run_dir)} && {{ cat result.json 2>/dev/null; echo; echo {_MARK}; "
            f"tail -c +{offset + 1} stderr | head -c {POLL_BYTES} | base64; }}"
        )
        answer = self.action._low_level_execute_command(script, sudoable=True)
        head, mark, tail = answer.get("stdout", "").partition(_MARK)
        if not mark:
            return "", 0, None
        data = base64.b64decode("".join(tail.split()))
        return data.decode("utf-8", "replace"), len(data), json.loads(head) if head.strip() else None

    def read(self, path: str) -> str:
        """Return the last ``READ_BYTES`` of a text file on the target, empty when there is none."""
        answer = self.action._low_level_execute_command(f"tail -c {READ_BYTES} {shlex.quote(path)} 2>/dev/null", sudoable=True)
        return answer.get("stdout", "")


def _pause(planned_s: float | None, elapsed: float) -> float:
    """Return the seconds until the next poll: long while the job cannot have ended, short from its planned end on."""
    if planned_s is None:
        return UNPLANNED_POLL_S
    remaining = planned_s - elapsed + 0.3
    return min(POLL_S, remaining) if remaining > 0.2 else 0.5
