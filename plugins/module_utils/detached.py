# GNU General Public License v3.0 or later (see LICENSE)
"""Detached processes on a target: run folders, locks, and how to start, look at and end what runs in them.

A run folder ``<jobs>/<id>/`` belongs to one detached process, its supervisor. The supervisor holds an flock on the
file ``lock`` of the folder while it lives, so "it runs" means "somebody holds the lock": no pid file to trust, no
boot id, no reused pid. Files, all JSON written atomically: ``job.json`` (what was asked), ``started.json``
(``supervisor_pid``, ``supervisor_start_ticks``, ``started``), ``result.json`` (how it ended).

Shared by the modules job, observe and lease; the one place of module_utils that does I/O.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Seconds between TERM and KILL.
GRACE_S = 5.0

#: Signals a supervisor waits for instead of being interrupted by them.
WANTED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

# Bound when the module is loaded: a supervisor outlives the archive its imports came from.
_libc = ctypes.CDLL(None, use_errno=True)


# Files


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as strict JSON so that a reader sees the old file or the whole new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in the file, ``None`` when there is no such file."""
    try:
        value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    return value


def take_lock(path: Path, patience_s: float = 0.2) -> int | None:
    """Return a descriptor that holds the lock, ``None`` when somebody else holds it all the time.

    The patience is for others that only look at the lock, which holds it for some microseconds.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    give_up = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= give_up:
                os.close(descriptor)
                return None
            time.sleep(0.01)


def is_locked(path: Path) -> bool:
    """Tell whether a process holds the lock. A missing file is not locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


# Processes


def process_stat(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` from the third (state) on, ``None`` for a process that is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot (field 22), ``None`` when it is gone.

    With the pid it names one process for good: a reused pid has another start time.
    """
    fields = process_stat(pid)
    return int(fields[19]) if fields else None


def cpu_seconds(pid: int) -> float | None:
    """Return user plus system CPU time of a process (fields 14 and 15), ``None`` when it is gone."""
    fields = process_stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else None


def parents() -> dict[int, int]:
    """Return the parent of every process that is not a zombie."""
    found = {}
    for entry in Path("/proc").iterdir():
        fields = process_stat(int(entry.name)) if entry.name.isdigit() else None
        if fields:
            found[int(entry.name)] = int(fields[1])
    return found


def descendants(pid: int) -> list[int]:
    """Return the pids of all children, grandchildren … of a process, in whatever session they are."""
    children: dict[int, list[int]] = {}
    for child, parent in parents().items():
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, []))
    for child in found:
        found.extend(children.get(child, []))
    return found


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to each process that is still there and may be signalled."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def machine_identity() -> str:
    """Name this machine, boot and pid name space, so that a pid of one place is never looked up in another."""
    parts = []
    with suppress(OSError):  # a controller that is no Linux
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        with suppress(OSError):
            parts.append(Path(path).read_text("ascii").strip())
    return "/".join(parts)


def controller_identity(pid: int | None = None) -> dict[str, Any]:
    """Return the ``controller`` option of the module lease: ``{machine_id, pid, start_ticks}``.

    Called in an action plugin, which is a forked worker: the controller is its parent, which is the default.
    """
    pid = pid or os.getppid()
    return {"machine_id": machine_identity(), "pid": pid, "start_ticks": start_ticks(pid)}


def clean_environment(extra: dict[str, str]) -> dict[str, str]:
    """Return our environment without what libpq would read (``PG*``) and with ``extra``.

    A stray PGOPTIONS or PGPASSWORD of the caller's shell would change what is measured or as whom.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, **extra}


# Start


def unblock_signals() -> None:
    """In a child of a supervisor, before the exec: receive again what the supervisor waits for."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WANTED)


def die_with_parent() -> None:
    """The same, and let the kernel kill the child when its supervisor ends, however that ends."""
    unblock_signals()
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be waited for and ended."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def detach(run: Callable[[Callable[[], None]], None], keep: Iterable[int], errors: Path) -> str | None:
    """Run ``run(ready)`` in a process of its own session, cut off from everything but the descriptors ``keep``.

    Returns ``None`` once ``run`` has called ``ready()``, and the text of the error when it ended before that. The signals of
    ``WANTED`` are blocked in it. An exception after ``ready()`` leaves its traceback in the file ``errors``.
    """
    read_end, write_end = os.pipe()
    middle = os.fork()
    if middle:
        os.close(write_end)
        os.waitpid(middle, 0)
        with os.fdopen(read_end, "rb") as pipe:
            answer = pipe.read().decode("utf-8", "replace")
        return None if answer == "ready" else answer or "it ended before it was ready"
    waiting = True
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        _cut_ties({*keep, write_end})

        def ready() -> None:
            nonlocal waiting
            os.write(write_end, b"ready")
            os.close(write_end)
            waiting = False

        run(ready)
    except BaseException as error:
        if waiting:
            os.write(write_end, (str(error) or repr(error)).encode())
        else:
            errors.write_text(traceback.format_exc(), "utf-8")
    finally:
        os._exit(0)


def _cut_ties(keep: set[int]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, WANTED)
    os.umask(0o077)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor not in keep:
            with suppress(OSError):  # the descriptor of the listing itself
                os.close(descriptor)


# Run folders


def prepare_run(run_dir: Path) -> int | None:
    """Make a run folder (0700) and return its lock, ``None`` when a process already holds it."""
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    run_dir.mkdir(mode=0o700, exist_ok=True)
    return take_lock(run_dir / "lock")


def run_state(run_dir: Path) -> str:
    """Return ``finished``, ``running``, ``lost`` (its supervisor was killed) or ``absent`` (never started)."""
    if (run_dir / "result.json").exists():
        return "finished"
    if is_locked(run_dir / "lock"):
        return "running"
    if (run_dir / "result.json").exists():  # it ended between the two looks
        return "finished"
    return "lost" if (run_dir / "started.json").exists() else "absent"


def remove_secrets(run_dir: Path) -> None:
    """Remove the secret files that ``job.json`` names."""
    for name in (read_json(run_dir / "job.json") or {}).get("secret_files", []):
        (run_dir / name).unlink(missing_ok=True)


def running_jobs(jobs: Path, experiment: str, load_only: bool = False) -> list[Path]:
    """Return the run folders of an experiment in which a process runs; with ``load_only`` without its observers."""
    found = []
    for path in sorted(jobs.glob("*/job.json")):
        job = read_json(path)
        if job and job.get("experiment") == experiment and (job.get("load") or not load_only) and run_state(path.parent) == "running":
            found.append(path.parent)
    return found


def stop_runs(run_dirs: list[Path], patience_s: float = 2 * GRACE_S + 5) -> list[Path]:
    """Ask the supervisors to stop, kill those that do not within the patience, and return what runs even so."""
    for run_dir in run_dirs:
        send(_supervisor(run_dir), signal.SIGTERM)
    left = _wait_for_end(run_dirs, patience_s)
    for run_dir in left:
        supervisor = _supervisor(run_dir)
        send([*supervisor, *(pid for parent in supervisor for pid in descendants(parent))], signal.SIGKILL)
    left = _wait_for_end(left, GRACE_S)
    for run_dir in run_dirs:
        if run_dir not in left:
            remove_secrets(run_dir)  # the supervisor did so, unless it was killed
    return left


def _supervisor(run_dir: Path) -> list[int]:
    """Return the pid of the living supervisor in a list; empty when it is gone or its pid names another process by now."""
    started = read_json(run_dir / "started.json") or {}
    pid = started.get("supervisor_pid")
    return [pid] if pid and start_ticks(pid) == started.get("supervisor_start_ticks") else []


def _wait_for_end(run_dirs: list[Path], patience_s: float) -> list[Path]:
    give_up = time.monotonic() + patience_s
    left = run_dirs
    while left:
        left = [run_dir for run_dir in left if is_locked(run_dir / "lock")]
        if not left or time.monotonic() >= give_up:
            break
        time.sleep(0.02)
    return left
