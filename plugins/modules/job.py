#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Run a command detached from the connection that started it, in a run folder that tells everything about it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: job
short_description: Run a long command detached, with a deadline
version_added: 0.1.0
description:
  - Starts a command in a session of its own, under a small supervisor, and returns at once.
    A lost connection or a lost controller does not end it. It ends by itself at its deadline at the latest.
  - All of it lies in the run folder I(dir)/I(id) (mode 0700) - C(job.json), C(started.json), C(stdout), C(stderr), and, once it
    has ended, C(result.json), which is the RV(job) dictionary. Output stays there, whatever its size.
  - The end of the command is the end of all its descendants. What is still there gets SIGTERM, and 5 seconds later SIGKILL.
  - When the supervisor is killed, the command is killed by the kernel and the state is C(lost).
options:
  id:
    description: Name of the job, which is also the name of its run folder.
    type: str
    required: true
  dir:
    description: Folder that holds the run folders. It must be on a local file system.
    type: path
    required: true
  state:
    description:
      - V(started) starts the job. A job of that id that runs is attached to, and one that has ended is read. Neither is a change.
      - V(polled) reads state and new output.
      - V(stopped) ends the job and its descendants, and waits for that.
    type: str
    choices: [started, polled, stopped]
    default: started
  argv:
    description: The command and its arguments, without a shell. Needed by V(state=started). Never put a secret here.
    type: list
    elements: str
  stdin:
    description: Text that the command reads from standard input. Without it, standard input is empty.
    type: str
  stdin_dump:
    description:
      - A plain dump of C(pg_dump) that the command reads from standard input, without its owners and privileges, instead of O(stdin).
      - When it cannot be restored so, that ends its input, the exit status is 1 at the least, and standard error says why.
    type: path
  env:
    description:
      - Variables added to the environment. Nothing secret. C(PGPASSWORD) is refused, use O(secret_files) and C(PGPASSFILE).
      - Variables of the caller that libpq would read (C(PG*)) are not passed on.
    type: dict
    default: {}
  chdir:
    description: Working folder of the command. The run folder when not given.
    type: path
  deadline:
    description: Seconds from the start after which the job is ended. Needed by V(state=started).
    type: float
  secret_files:
    description: Files, name to content, written into the run folder with mode 0600 before the start and removed at the end.
    type: dict
    default: {}
  experiment:
    description: Id of the experiment the job belongs to, for M(pgsizing.bench.lease).
    type: str
  load:
    description: Whether the job makes load, so that a host is not freed while it runs. False for observers.
    type: bool
    default: true
  offset:
    description: With V(state=polled), position in C(stdout) from which on new output is returned.
    type: int
    default: 0
  stderr_offset:
    description: With V(state=polled), position in C(stderr) from which on new output is returned.
    type: int
    default: 0
attributes:
  check_mode:
    support: full
    description: Starts and stops nothing, tells whether it would.
notes:
  - A module run costs the target about half a second of CPU. For a poll each second read C(result.json) and the output with a
    plain shell command, as our actions do.
author: pgsizing contributors (@pgsizing)
"""

EXAMPLES = r"""
- name: Start a load
  pgsizing.bench.job:
    id: base-1
    dir: /var/lib/pgsizing/jobs
    argv: [pgbench, -T, "60", -P, "1", bench]
    env: {PGPASSFILE: /var/lib/pgsizing/jobs/base-1/pgpass}
    secret_files:
      pgpass: "db1:5432:bench:bench:{{ bench_password }}"
    deadline: 120

- name: Wait for it
  pgsizing.bench.job:
    id: base-1
    dir: /var/lib/pgsizing/jobs
    state: polled
  register: load
  until: load.job.state != 'running'
  retries: 20
  delay: 10

- name: End it
  pgsizing.bench.job:
    id: base-1
    dir: /var/lib/pgsizing/jobs
    state: stopped
"""

RETURN = r"""
job:
  description: The job as it is now.
  returned: always
  type: dict
  contains:
    id: {description: Its name., type: str}
    state: {description: C(running), C(finished), C(lost) (its supervisor was killed) or C(absent)., type: str}
    run_dir: {description: Its run folder., type: str}
    rc: {description: Exit status of the command; negative for a signal. None until it has ended., type: int}
    stopped: {description: Why it was ended; C(request) or C(deadline)., type: str}
    started: {description: Start as seconds since the epoch., type: float}
    ended: {description: End as seconds since the epoch., type: float}
    elapsed_s: {description: Seconds from start to end., type: float}
    rusage:
      description: >-
        CPU seconds of the command and of every descendant, and the largest resident set among them in bytes
        (None when it ended too soon to be seen).
      type: dict
      sample: {"user_s": 3.2, "system_s": 1.1, "max_rss_bytes": 31457280}
    stdout: {description: Path of its standard output., type: str}
    stderr: {description: Path of its standard error., type: str}
    stdout_bytes: {description: Size of the output., type: int}
    stderr_bytes: {description: Size of the error output., type: int}
    stdout_tail: {description: The last 4 KB of the output., type: str}
    stderr_tail: {description: The last 4 KB of the error output., type: str}
    new_stdout: {description: Output from O(offset) on, whole lines while it runs, at most 64 KB. With V(state=polled)., type: str}
    new_stderr: {description: The same for the error output and O(stderr_offset)., type: str}
    offset: {description: The next O(offset)., type: int}
    stderr_offset: {description: The next O(stderr_offset)., type: int}
"""

import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import (
    GRACE_S,
    WANTED,
    adopt_orphans,
    clean_environment,
    descendants,
    detach,
    die_with_parent,
    prepare_run,
    read_json,
    remove_secrets,
    run_state,
    send,
    start_ticks,
    stop_runs,
    write_json,
)
from ansible_collections.pgsizing.bench.plugins.module_utils.plain_dump import cleaned

TAIL_BYTES = 4096
#: A dump is read by lines, and a long line in parts of this.
PART_BYTES = 2**16
POLL_BYTES = 65536
OWN_FILES = ("job.json", "started.json", "result.json", "stdout", "stderr", "lock", "error")


# Reading a run folder


def report(run_dir: Path, state: str) -> dict[str, Any]:
    """Return the job dict of a run folder (see RETURN)."""
    job = read_json(run_dir / "result.json") if state == "finished" else None
    if job:
        return job
    job = {
        "id": run_dir.name,
        "state": state,
        "run_dir": str(run_dir),
        "rc": None,
        "stopped": None,
        "started": (read_json(run_dir / "started.json") or {}).get("started"),
        "ended": None,
        "elapsed_s": None,
        "rusage": None,
    }
    for name in ("stdout", "stderr"):
        path = run_dir / name
        size = path.stat().st_size if path.exists() else 0
        job[name] = str(path)
        job[f"{name}_bytes"] = size
        job[f"{name}_tail"] = read_part(path, size - TAIL_BYTES, TAIL_BYTES).decode("utf-8", "replace")
    return job


def read_part(path: Path, offset: int, count: int) -> bytes:
    """Return up to ``count`` bytes of a file from ``offset`` (not below 0) on; nothing when there is no such file."""
    if not path.exists():
        return b""
    with open(path, "rb") as file:
        file.seek(max(offset, 0))
        return file.read(count)


def new_output(path: Path, offset: int, running: bool) -> tuple[str, int]:
    """Return the text from ``offset`` on and the next offset. While the job runs, a line that has no end yet is left for later."""
    data = read_part(path, offset, POLL_BYTES)
    whole = data.rfind(b"\n") + 1
    if whole and (running or len(data) == POLL_BYTES):
        data = data[:whole]
    elif running and len(data) < POLL_BYTES:
        data = b""
    return data.decode("utf-8", "replace"), offset + len(data)


# The supervisor


def supervise(run_dir: Path, params: dict[str, Any], ready: Callable[[], None]) -> None:
    """Run the command to its end, deadline or stop, and write ``result.json``. Runs detached."""
    adopt_orphans()
    with open(run_dir / "stdout", "wb") as out, open(run_dir / "stderr", "wb") as err, tempfile.TemporaryFile(dir=run_dir) as given:
        given.write((params["stdin"] or "").encode())
        given.seek(0)
        dump = os.open(params["stdin_dump"], os.O_RDONLY) if params["stdin_dump"] else None
        source, feed = (given.fileno(), None) if dump is None else os.pipe()
        floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started, start = time.time(), time.monotonic()
        child = subprocess.Popen(
            params["argv"],
            stdin=source,
            stdout=out,
            stderr=err,
            cwd=params["chdir"] or run_dir,
            env=clean_environment(params["env"]),
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        feeder = None
        if dump is not None and feed is not None:
            os.close(source)
            feeder = feed_dump(dump, feed, err)
            os.close(dump)
            os.close(feed)
    write_json(
        run_dir / "started.json",
        {
            "pid": child.pid,
            "supervisor_pid": os.getpid(),
            "supervisor_start_ticks": start_ticks(os.getpid()),
            "started": started,
            "argv": params["argv"],
            "deadline": params["deadline"],
        },
    )
    ready()
    family = Family(child.pid, floor, feeder)
    stopped = family.wait(start + params["deadline"])
    elapsed = time.monotonic() - start
    family.end_rest()
    remove_secrets(run_dir)
    result = {
        **report(run_dir, "finished"),
        "rc": family.rc or family.feeder_rc,
        "stopped": stopped,
        "started": started,
        "ended": started + elapsed,
        "elapsed_s": elapsed,
        "rusage": family.rusage(),
    }
    write_json(run_dir / "result.json", result)


def feed_dump(dump: int, pipe: int, err: BinaryIO) -> int:
    """Write the dump for its reader in a process of its own, and return its pid. Its status is 1 when the dump cannot be restored."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end of the reader is the end of it, and no failure of its own
        die_with_parent()
        with os.fdopen(dump, "rb") as lines, os.fdopen(pipe, "wb") as stream:
            for part in cleaned(iter(partial(lines.readline, PART_BYTES), b"")):
                stream.write(part)
        status = 0
    except BrokenPipeError:
        status = 0  # the reader has ended, and says why itself
    except (OSError, ValueError) as error:
        os.write(err.fileno(), f"dump: {error}\n".encode())
    finally:
        os._exit(status)


class Family:
    """The command and its descendants, as their adoptive parent sees them."""

    def __init__(self, pid: int, rss_floor_kb: int, feeder: int | None) -> None:
        self.pid = pid
        self.rc: int | None = None
        self.feeder_rc = 0
        self._feeder = feeder
        self._rss_floor_kb = rss_floor_kb
        self._user = self._system = 0.0
        self._waited_kb = self._seen_kb = 0

    def wait(self, end: float) -> str | None:
        """Wait for the command, ending it at ``end`` (monotonic) or on SIGTERM; return what made us end it."""
        stopped: str | None = None
        kill_at, pause = float("inf"), 0.05
        while self._reap() and self.rc is None:
            now = time.monotonic()
            if stopped is None and now >= end:
                stopped = "deadline"
            if stopped and kill_at == float("inf"):
                send(descendants(os.getpid()), signal.SIGTERM)
                kill_at = now + GRACE_S
            if now >= kill_at:
                send(descendants(os.getpid()), signal.SIGKILL)
                kill_at = now + 1
            self._look()
            due = kill_at if stopped else end
            received = signal.sigtimedwait(WANTED, max(0.0, min(pause, due - now)))
            pause = min(pause * 2, 1.0)
            if received and received.si_signo != signal.SIGCHLD and stopped is None:
                stopped = "request"
        return stopped

    def end_rest(self) -> None:
        """End the descendants that outlived the command."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            give_up = time.monotonic() + GRACE_S
            send(descendants(os.getpid()), number)
            while self._reap() and time.monotonic() < give_up:
                signal.sigtimedwait(WANTED, 0.1)
                if number == signal.SIGKILL:
                    send(descendants(os.getpid()), number)

    def rusage(self) -> dict[str, Any]:
        """Return ``{user_s, system_s, max_rss_bytes}`` of all that were waited for.

        A child starts as a copy of this process, so the kernel's maximum is never below our own size; below that, what counts
        is what was seen while the command ran.
        """
        rss_kb = self._waited_kb if self._waited_kb > self._rss_floor_kb else self._seen_kb
        return {"user_s": self._user, "system_s": self._system, "max_rss_bytes": rss_kb * 1024 or None}

    def _reap(self) -> bool:
        """Take the status and resources of all children that have ended; tell whether there are others."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self.pid:
                self.rc = os.waitstatus_to_exitcode(status)
            elif pid == self._feeder:
                self.feeder_rc = os.waitstatus_to_exitcode(status)
            self._user += usage.ru_utime
            self._system += usage.ru_stime
            self._waited_kb = max(self._waited_kb, usage.ru_maxrss)

    def _look(self) -> None:
        try:
            text = Path(f"/proc/{self.pid}/status").read_text("utf-8", "replace")
        except OSError:
            return
        found = re.search(r"^VmHWM:\s+(\d+) kB", text, re.MULTILINE)
        self._seen_kb = max(self._seen_kb, int(found.group(1)) if found else 0)


# The module


def start(module: AnsibleModule, run_dir: Path) -> bool:
    """Start the job unless it runs or has ended; return whether it was started."""
    params = module.params
    if run_state(run_dir) == "absent":
        if module.check_mode:
            return True
        lock = prepare_run(run_dir)
        if lock is not None and run_state_under_lock(run_dir) == "absent":
            launch(module, run_dir, lock)
            return True
        if lock is not None:
            os.close(lock)
    argv = (read_json(run_dir / "job.json") or {}).get("argv", params["argv"])
    if argv != params["argv"]:
        module.fail_json(msg=f"{run_dir} belongs to another command: {argv}")
    return False


def run_state_under_lock(run_dir: Path) -> str:
    """Return the state of a run folder whose lock we hold ourselves: ``absent``, or ``ended`` in whatever way."""
    return "ended" if (run_dir / "started.json").exists() else "absent"


def launch(module: AnsibleModule, run_dir: Path, lock: int) -> None:
    """Write the run folder and start the supervisor, which keeps the lock."""
    params = module.params
    described = {name: params[name] for name in ("id", "argv", "stdin_dump", "env", "chdir", "deadline", "experiment", "load")}
    write_json(run_dir / "job.json", {**described, "secret_files": sorted(params["secret_files"])})
    for name, content in params["secret_files"].items():
        with open(os.open(run_dir / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(str(content))
    failure = detach(lambda ready: supervise(run_dir, params, ready), {lock}, run_dir / "error")
    os.close(lock)
    if failure:
        remove_secrets(run_dir)
        module.fail_json(msg=f"the job {params['id']} could not be started: {failure}", job=report(run_dir, "absent"))


def check(params: dict[str, Any]) -> str | None:
    """Return what is wrong with the options, in words."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", params["id"]):
        return f"id '{params['id']}' must be letters, digits and ._- as it names a folder"
    if params["state"] == "started" and not params["argv"]:
        return "argv is empty"
    if params["state"] == "started" and params["deadline"] <= 0:
        return f"deadline must be above 0 seconds, not {params['deadline']}"
    if "PGPASSWORD" in params["env"]:
        return "env must not hold PGPASSWORD, which any process list shows: put a password file into secret_files and set PGPASSFILE"
    for name in params["secret_files"]:
        if name in OWN_FILES or not re.fullmatch(r"\w[\w.-]*", name):
            return f"secret_files: '{name}' is not a usable file name"
    return None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "id": {"type": "str", "required": True},
            "dir": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["started", "polled", "stopped"], "default": "started"},
            "argv": {"type": "list", "elements": "str"},
            "stdin": {"type": "str"},
            "stdin_dump": {"type": "path"},
            "env": {"type": "dict", "default": {}},
            "chdir": {"type": "path"},
            "deadline": {"type": "float"},
            "secret_files": {"type": "dict", "default": {}, "no_log": True},
            "experiment": {"type": "str"},
            "load": {"type": "bool", "default": True},
            "offset": {"type": "int", "default": 0},
            "stderr_offset": {"type": "int", "default": 0},
        },
        required_if=[("state", "started", ("argv", "deadline"))],
        mutually_exclusive=[("stdin", "stdin_dump")],
        supports_check_mode=True,
    )
    params = module.params
    params["env"] = {name: str(value) for name, value in params["env"].items()}
    module.no_log_values.update(value for name, value in params["env"].items() if name == "PGPASSWORD")
    if wrong := check(params):
        module.fail_json(msg=wrong)
    run_dir = Path(params["dir"]) / params["id"]
    changed = False
    if params["state"] == "started":
        changed = start(module, run_dir)
    elif params["state"] == "stopped" and run_state(run_dir) == "running":
        changed = True
        if not module.check_mode and stop_runs([run_dir]):
            module.fail_json(msg=f"the job {params['id']} does not end", job=report(run_dir, "running"))
    state = run_state(run_dir)
    if state == "lost" and not module.check_mode:
        remove_secrets(run_dir)
    job = report(run_dir, state)
    if params["state"] == "polled":
        for name, offset in (("stdout", "offset"), ("stderr", "stderr_offset")):
            job[f"new_{name}"], job[offset] = new_output(run_dir / name, params[offset], state == "running")
    module.exit_json(changed=changed, job=job)


if __name__ == "__main__":
    main()
