# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""The flight recorder: what no action can see of a run, written into the folder of its experiment."""

from __future__ import annotations

DOCUMENTATION = r"""
name: artifacts
type: notification
short_description: Records the course of a benchmark run into its experiment folder
version_added: 0.1.0
author: pgsizing contributors
description:
  - Appends the time line of tasks to C(events.jsonl) in the folder of the experiment - one JSON object a line with start,
    end, host, task, action, status and duration; results stay out, messages of failures are cut short and cleaned of secrets.
  - Writes the end record of the journal when the run is interrupted, loses a host, fails or finishes, and says how to
    resume and how to tear down.
  - SIGTERM and SIGHUP end the run the way Ctrl-C does, so that workers stop their jobs and the end is recorded. A SIGHUP
    that was ignored (C(nohup)) stays ignored.
  - After such an end it frees hosts of the inventory by the playbook C(pgsizing.bench.release), since only the controller can
    tell them of it; it says so when it cannot. This machine notices by itself.
  - Holds a lock on the file C(lock) in the folder while the process lives. A free lock without end record means
    interrupted, even after C(kill -9).
  - Nothing of the toolkit depends on this callback being enabled.
requirements:
  - enabling in configuration (C(callbacks_enabled))
options:
  adhoc_dir:
    description:
      - Folder for measurements of workload actions used alone, outside an experiment. One file each under C(<time>-adhoc/).
      - Nothing is written when not set.
    type: path
    env:
      - name: PGSIZING_ADHOC_DIR
    ini:
      - section: pgsizing_artifacts
        key: adhoc_dir
"""

import atexit
import contextlib
import fcntl
import multiprocessing
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from ansible import constants, context
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.callback import CallbackBase
from ansible.utils.vars import load_extra_vars

from ansible_collections.pgsizing.bench.plugins.module_utils.plain import dump_json, to_plain
from ansible_collections.pgsizing.bench.plugins.module_utils.progress_line import NAMED_BY, experiment_of
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store, StoreError, write_atomic

#: More events than this are not written: a run of a week stays within some ten megabytes.
MAX_EVENTS = 50_000
#: Seconds that freeing the hosts after an interrupt may take; their leases end by themselves later.
RELEASE_S = 120
#: Seconds that an interrupted run may live on without a worker. A worker that ends while it hands over a result may take a lock
#: with it for which Ansible then waits for ever, and as long as the controller lives the host stays taken and the server runs.
HANG_S = 10
#: What ansible-playbook itself returns when it is interrupted.
INTERRUPTED_RC = 99
#: Characters kept of the message of a failed task.
MAX_MESSAGE = 500

_SECRET = re.compile(
    r"(?i)((?:password|passwd|passphrase|secret|token|credential|api_?key|access_?key)\w*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;]+)"
)
_URI_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")


def clean(text: str) -> str:
    """Return ``text`` on one line, without what looks like a secret, cut to ``MAX_MESSAGE`` characters."""
    text = _URI_PASSWORD.sub(r"\1***@", _SECRET.sub(r"\1***", " ".join(text.split())))
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


class TimeLine:
    """Task events, oldest first: kept until the experiment's folder is known, then appended to its file line by line."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._count = 0
        self._started: dict[tuple[str, str], float] = {}
        self._stream: IO[bytes] | None = None

    def open(self, path: Path) -> None:
        """Write what has waited to ``path`` and go on there, one ``write`` a line: readers never see half of one."""
        self._stream = open(path, "ab", buffering=0)  # noqa: SIM115 - open while the process lives
        self._stream.write("".join(self._waiting).encode())
        self._waiting.clear()

    def start(self, host: str, task_id: str) -> None:
        """Note when a host began a task."""
        self._started[host, task_id] = time.time()

    def end(self, host: str, task_id: str, **event: Any) -> None:
        """Add the event of a host's finished task."""
        now = time.time()
        started = self._started.pop((host, task_id), None)
        duration = None if started is None else round(now - started, 6)
        self.add(event="task", host=host, start=started, end=now, duration_s=duration, **event)

    def add(self, **event: Any) -> None:
        """Add one event; past ``MAX_EVENTS`` only the fact that more came."""
        self._count += 1
        if self._count > MAX_EVENTS + 1:
            return
        if self._count == MAX_EVENTS + 1:
            event = {"event": "truncated", "message": f"only the first {MAX_EVENTS} events are kept"}
        line = dump_json({"at": time.time(), **event}, indent=None)
        if self._stream is None:
            self._waiting.append(line)
        else:
            self._stream.write(line.encode())


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "pgsizing.bench.artifacts"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._time_line = TimeLine()
        self._store: Store | None = None
        self._id = ""
        self._pid = os.getpid()
        self._play = ""
        self._failure: str | None = None  # the last task that failed for good or was rescued
        self._lost: str | None = None  # the last host that was lost
        self._signal: str | None = None
        self._ended = False
        self._passwords: dict[str, str] = {}  # typed at the prompts of -k and -K
        self._adhoc: Path | None = None
        self._adhoc_count = 0

    # what happens, in the words of Ansible's hooks

    def set_play_context(self, play_context: Any) -> None:
        prompted = {"--connection-password-file": play_context.password, "--become-password-file": play_context.become_pass}
        self._passwords = {option: str(password) for option, password in prompted.items() if password}

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._route_signals()

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._play = play.get_name()
        self._time_line.add(event="play", play=self._play)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        # What a signal raises in a finaliser or around a fork, Python prints and forgets: the run would go on.
        if self._signal and os.getpid() == self._pid:
            raise KeyboardInterrupt
        self._time_line.start(host.get_name(), task._uuid)

    def v2_runner_on_ok(self, result: Any) -> None:
        self._finished(result, "changed" if result.is_changed() else "ok")
        if self._store is None:
            if (named := experiment_of(result.result)) and result.task.resolved_action in NAMED_BY:
                self._open(named["id"], Path(named["dir"]))
            else:
                self._keep_adhoc(result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._finished(result, "skipped")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        message = _message(result.result)
        self._finished(result, "ignored" if ignore_errors else "failed", message)
        if not ignore_errors:
            self._failure = f"task '{clean(result.task_name)}' failed on {result.host.get_name()}: {message}"

    def v2_runner_on_unreachable(self, result: Any) -> None:
        message = _message(result.result)
        self._finished(result, "unreachable", message)
        if not result.task.ignore_unreachable:
            self._lost = f"host {result.host.get_name()} unreachable in task '{clean(result.task_name)}': {message}"

    def v2_playbook_on_stats(self, stats: Any) -> None:
        totals = {host: stats.summarize(host) for host in sorted(stats.processed)}
        self._time_line.add(event="end", hosts=totals)
        if self._lost or any(t["failures"] for t in totals.values()):
            self._close("failed", self._lost or self._failure)
        else:
            self._close("finished")

    def _finished(self, result: Any, status: str, message: str | None = None) -> None:
        task = result.task
        self._time_line.end(
            result.host.get_name(),
            task._uuid,
            play=self._play,
            task=clean(result.task_name),
            action=task.action,
            status=status,
            message=message,
        )

    # the experiment

    def _open(self, experiment_id: str, directory: Path) -> None:
        """The experiment is known: lock its folder, write the events so far, be there when the run is ended."""
        store = Store(directory)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._display.warning(f"pgsizing: another process runs experiment {experiment_id}; this run is not recorded in its folder")
            os.close(lock)
            return
        _keep_from_children(lock)
        self._store, self._id = store, experiment_id
        self._time_line.open(directory / "events.jsonl")
        threading.Thread(target=self._end_a_hang, daemon=True).start()  # a handler must not start it: it may interrupt anything
        atexit.register(self._close_early)

    def _route_signals(self) -> None:
        """Let TERM and HUP take the way of SIGINT, which tells the workers and lets ``atexit`` run; note which one it was."""
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt) or threading.current_thread() is not threading.main_thread():
            return

        def handler(number: int, frame: Any) -> None:
            if os.getpid() != self._pid:  # a worker that was forked a moment ago and has no handler of its own yet
                os._exit(1)
            for routed in (signal.SIGTERM, signal.SIGHUP):  # a closing terminal may send more than one
                signal.signal(routed, signal.SIG_IGN)
            self._signal = signal.Signals(number).name
            interrupt(signal.SIGINT, frame)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)

    def _end_a_hang(self) -> None:
        """Wait for an interrupt; end the process when it cannot end by itself (``HANG_S``)."""
        idle = 0
        while idle < HANG_S:
            if self._ended:
                return
            time.sleep(1)
            idle = idle + 1 if self._signal and not multiprocessing.active_children() else 0
        self._close("interrupted", self._signal)
        os._exit(INTERRUPTED_RC)

    def _close_early(self) -> None:
        """At exit without recap: an interrupt, which reaches no hook, or an error of Ansible itself."""
        if self._signal:
            self._close("interrupted", self._signal)
        else:
            self._close("failed", self._lost or self._failure or "ansible-playbook ended before its recap")

    def _close(self, state: str, cause: str | None = None) -> None:
        """Write the end record and say how to go on. The first call wins; forked workers never get through."""
        if self._store is None or self._ended or os.getpid() != self._pid:
            return
        self._ended = True
        try:
            self._end(self._store, state, cause)
        except (StoreError, OSError, ValueError, KeyError) as error:  # also called at exit, where nothing else reports it
            with contextlib.suppress(OSError, ValueError):
                self._display.warning(f"pgsizing: at the end of experiment {self._id}: {type(error).__name__}: {error}")

    def _end(self, store: Store, state: str, cause: str | None) -> None:
        if state == "interrupted":
            self._time_line.add(event="interrupted", cause=cause)
        journal = store.experiment["journal"]
        unfinished = [i for i, t in journal["trials"].items() if t["state"] != "finished"]
        # An action that ended the experiment knew more; one with trials left and no trouble waits for its next playbook.
        if journal["end"] is None and not (state == "finished" and unfinished):
            store.end(state, cause)
        if state != "finished" and unfinished:
            with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
                self._display.display(
                    f"\npgsizing: experiment {self._id} {state} with {len(unfinished)} of {len(journal['trials'])} trials to do."
                    f"\n  resume:    {shlex.join(_command(context.CLIARGS.get('args') or ['benchmark.yml'], *_resume(store), *_place()))}"
                    f"\n  tear down: {shlex.join(_command(['pgsizing.bench.teardown'], *_hosts(store), *_login(store), *_place()))}"
                )
        if state == "interrupted" and store.experiment["plan"]["where"]["provider"] == "inventory":
            self._release(store)

    def _release(self, store: Store) -> None:
        """Free the hosts: what runs there knows nothing of this machine. As this command line reaches them, passwords by pipe."""
        command = [*_command(["pgsizing.bench.release"], *_hosts(store), "-e", f"experiment_id={self._id}"), *_connection_options()]
        with contextlib.ExitStack() as stack:
            readable = []
            for option, password in self._passwords.items():
                reader, writer = os.pipe()
                stack.callback(os.close, reader)
                os.write(writer, password.encode())
                os.close(writer)
                readable.append(reader)
                command += [option, f"/dev/fd/{reader}"]
            try:
                done = subprocess.run(
                    [str(Path(sys.argv[0]).with_name("ansible-playbook")), *command[1:]],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=RELEASE_S,
                    pass_fds=readable,
                    start_new_session=True,
                    check=False,
                )
                failed = done.returncode != 0
            except (OSError, subprocess.TimeoutExpired):
                failed = True
        by_hand = shlex.join([*_command(["pgsizing.bench.release"], *_hosts(store), "-e", f"experiment_id={self._id}")])
        with contextlib.suppress(OSError, ValueError):
            self._display.display(
                f"pgsizing: the hosts could not be freed; they are held until the lease ends. By hand: {by_hand}"
                if failed
                else "pgsizing: the hosts are free."
            )

    # workload actions used alone

    def _keep_adhoc(self, result: Any) -> None:
        """Write the measurements of a workload action that belongs to no experiment."""
        base = self.get_option("adhoc_dir")
        measurements = _measurements(result.result) if base else []
        if not measurements or not str(result.task.resolved_action).startswith("pgsizing.bench."):
            return
        for measurement in measurements:
            if self._adhoc is None:
                self._adhoc = Path(base) / time.strftime("%Y%m%dT%H%M%SZ-adhoc", time.gmtime())
            self._adhoc_count += 1
            name = f"{self._adhoc_count:03}-{result.host.get_name()}-{measurement.get('workload') or 'workload'}"
            path = self._adhoc / (re.sub(r"[^\w.-]+", "_", name) + ".json")
            write_atomic(path, dump_json({"at": time.time(), "host": result.host.get_name(), "measurement": measurement}))


def _keep_from_children(descriptor: int) -> None:
    """Close ``descriptor`` in every child, once: a worker that outlives this process must not hold its lock."""
    held = [descriptor]

    def close() -> None:
        if held:
            os.close(held.pop())

    os.register_at_fork(after_in_child=close)


def _message(result: dict[str, Any]) -> str:
    """Return the message of a failed result, of its first failed item when it was a loop."""
    failed = next((i for i in result.get("results") or [] if isinstance(i, dict) and (i.get("failed") or i.get("unreachable"))), result)
    return clean(str(failed.get("msg") or ""))


def _measurements(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ``measurement`` of a result, or of each of its loop items."""
    items = [result, *(result.get("results") or [])]
    return [to_plain(i["measurement"]) for i in items if isinstance(i, dict) and isinstance(i.get("measurement"), dict)]


def _command(playbooks: Sequence[str], *options: str) -> list[str]:
    """Return the next command line, on the same inventories as this one."""
    inventories = context.CLIARGS.get("inventory") or []
    given = [] if list(inventories) == list(constants.DEFAULT_HOST_LIST) else inventories
    return ["ansible-playbook", *playbooks, *(word for i in given for word in ("-i", i)), *options]


def _connection_options() -> list[str]:
    """Return what this command line says of how hosts are reached, to be said again."""
    given = context.CLIARGS
    words = [word for text in given.get("extra_vars") or [] for word in ("-e", str(text))]
    words += [word for i in given.get("vault_ids") or [] for word in ("--vault-id", i)]
    words += [word for path in given.get("vault_password_files") or [] for word in ("--vault-password-file", path)]
    names = ("ssh_common_args", "ssh_extra_args", "sftp_extra_args", "scp_extra_args", "become_method", "become_user")
    options = {name: f"--{name.replace('_', '-')}" for name in names}
    options |= {"connection": "--connection", "remote_user": "--user", "private_key_file": "--private-key"}
    words += [f"{option}={given[name]}" for name, option in options.items() if given.get(name)]
    return [*words, "--become"] if given.get("become") else words


def _resume(store: Store) -> list[str]:
    """Return the inputs that find the experiment again."""
    options = ["-e", f"resume={store.directory.name}"]
    if store.directory.parent.resolve() != Path("results").resolve():
        options += ["-e", f"results_dir={store.directory.parent}"]
    return options


def _place() -> list[str]:
    """Return the input that says where we live on a host, if this command line says so."""
    base_dir = load_extra_vars(DataLoader()).get("postgres_base_dir")  # read once by Ansible, and kept
    return ["-e", f"postgres_base_dir={base_dir}"] if base_dir else []


def _hosts(store: Store) -> list[str]:
    """Return the input that names the hosts to tear down; none for this machine."""
    plan = store.experiment["plan"]
    if plan["where"]["provider"] == "local":
        return []
    groups = {name: plan["inputs"].get(name) for name in ("server_group", "driver_group")}
    return [word for name, group in groups.items() if group for word in ("-e", f"{name}={group}")]


def _login(store: Store) -> list[str]:
    """Return the inputs that reach a server of the user's, where our databases are; the password is for the user to give again."""
    plan = store.experiment["plan"]
    login = plan["login"] if plan["where"]["provider"] == "existing" else {}
    return [word for name, value in login.items() if value for word in ("-e", f"login_{name}={value}")]
