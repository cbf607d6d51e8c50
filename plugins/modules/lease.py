#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Hold a host for one experiment, and leave nothing running on it when the controller is gone."""

from __future__ import annotations

DOCUMENTATION = r"""
module: lease
short_description: Hold a host for one experiment
version_added: 0.1.0
description:
  - A host is measured by one experiment at a time. A detached keeper holds a lock on C(host.lock) in O(base_dir), and
    C(lease.json) beside it tells for whom and, after the end, why it ended.
  - The keeper ends when the lease is released, at its deadline, or when the controller is gone and no load job of the experiment
    runs. But for a plain release it then stops the jobs of the experiment and every PostgreSQL cluster under
    C(clusters/) of O(base_dir), and frees the host. So an interrupt or a killed controller leaves nothing running,
    and yet a measurement that runs ends normally and can be collected.
  - The keeper sees the end of a controller on its own machine within a second. For a controller on another machine only the
    release and the deadline count.
  - A lease without keeper (killed, or the machine was restarted) is taken over once no job of its experiment runs and
    its deadline has passed or its controller is gone.
options:
  base_dir:
    description: Folder of ours on the host, which holds C(jobs/) and C(clusters/).
    type: path
    required: true
  experiment_id:
    description: Id of the experiment.
    type: str
    required: true
  state:
    description:
      - V(held) takes the host, or renews deadline and controller of a lease that is ours already.
      - V(released) frees it. A lease of another experiment is left alone.
    type: str
    choices: [held, released]
    default: held
  deadline:
    description: End of the lease at the latest, as seconds since the epoch. Needed by V(state=held).
    type: float
  controller:
    description: The process whose end ends the lease, as C(controller_identity) of C(module_utils/detached.py) gives it.
    type: dict
    suboptions:
      machine_id: {description: Identity of its machine., type: str, required: true}
      pid: {description: Its process id., type: int, required: true}
      start_ticks: {description: Its start time in clock ticks since boot., type: int}
  stop:
    description: With V(state=released), also stop the jobs of the experiment and our clusters.
    type: bool
    default: false
  share_host:
    description: Accept a host on which PostgreSQL servers run that are not ours.
    type: bool
    default: false
  local:
    description: The host is the machine the user sits at. Servers that are not ours are reported, not refused.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Takes and frees nothing. Refuses what it would refuse.
author: pgsizing contributors (@pgsizing)
"""

EXAMPLES = r"""
- name: Take the host for an hour
  pgsizing.bench.lease:
    base_dir: /var/lib/pgsizing
    experiment_id: 20300101T120000-pgbench
    deadline: "{{ now(utc=true).timestamp() + 3600 }}"

- name: Free it and stop what runs
  pgsizing.bench.lease:
    base_dir: /var/lib/pgsizing
    experiment_id: 20300101T120000-pgbench
    state: released
    stop: true
"""

RETURN = r"""
lease:
  description: The lease, and what else runs on the host.
  returned: always
  type: dict
  contains:
    held: {description: Whether this experiment holds the host now., type: bool}
    holder: {description: Id of the experiment that holds the host; None when it is free., type: str}
    taken_over:
      description: The experiment whose lease ended without a release and was taken over, with the reason; None otherwise.
      type: dict
      sample: {"experiment_id": "20300101T100000-pgbench", "reason": "its keeper is gone and its deadline has passed"}
    foreign:
      description: PostgreSQL servers on the host that are not ours. None stands for what could not be read.
      type: list
      elements: dict
      sample: [{"pid": 812, "port": 5432, "data_directory": "/var/lib/postgresql/15/main", "clients": 3}]
    findings:
      description: Both as findings for the trials of the experiment.
      type: list
      elements: dict
    jobs:
      description: Names of load jobs of this experiment that run; after a lost controller there may be some.
      type: list
      elements: str
    ended:
      description: How the lease of this experiment ended; None while it is held.
      type: dict
      sample: {"ended": 1893502800.0, "cause": "controller_lost", "stopped": {"jobs": [], "clusters": ["15-0a1b2c3d"]}, "problems": []}
"""

import os
import platform
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import (
    WANTED,
    detach,
    is_locked,
    machine_identity,
    parents,
    read_json,
    running_jobs,
    start_ticks,
    stop_runs,
    take_lock,
    unblock_signals,
    write_json,
)
from ansible_collections.pgsizing.bench.plugins.module_utils.findings import finding

SERVERS = ("postgres", "postmaster", "edb-postgres")

#: What the title of a process that serves a client holds: ``[local]`` or an address with its port, as EPAS writes it too.
CLIENT = re.compile(r" (\[local\]|\S+(\(\d+\)|\[\d+\]))( |$)")

#: Seconds without anything left to stop before the keeper ends: tasks that were under way when the controller died may still start things.
QUIET_S = 3.0

STOP_S = 120.0


# PostgreSQL servers on this host


def is_client(title: str) -> bool:
    """Tell whether a process with this title serves a client: ``postgres: [<cluster>: ]<user> <database> <host> <activity>``."""
    return bool(CLIENT.search(title))


def postmasters() -> list[dict[str, Any]]:
    """Return ``{pid, port, data_directory, clients}`` of every postmaster on the host."""
    parent_of = parents()
    servers = {pid for pid in parent_of if _program(pid) in SERVERS}
    found = []
    for pid in sorted(servers):
        if parent_of[pid] in servers:
            continue
        lines = _pid_file(pid)
        if lines is not None and lines[:1] != [str(_own_pid(pid))]:
            continue  # initdb, a single-user session
        found.append(
            {
                "pid": pid,
                "port": int(lines[3]) if lines and len(lines) > 3 and lines[3].isdigit() else None,
                "data_directory": _data_directory(pid),
                "clients": sum(1 for child, parent in parent_of.items() if parent == pid and is_client(_command(child)[0])),
            }
        )
    return found


def _command(pid: int) -> list[str]:
    """Return the arguments of a process; a server process has its title in the first."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").rstrip("\0").split("\0")
    except OSError:
        return [""]


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.partition(" (deleted)")[0]
    except OSError:  # another user's process
        with suppress(OSError):
            return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    return ""


def _data_directory(pid: int) -> str | None:
    """Return the data directory of a postmaster: its working folder, else what ``-D`` says."""
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        arguments = _command(pid)
        return arguments[arguments.index("-D") + 1] if "-D" in arguments[:-1] else None


def _pid_file(pid: int) -> list[str] | None:
    """Return the lines of postmaster.pid of a server, ``None`` when we may not read it, ``[]`` when there is none."""
    try:  # through the process: its data directory may lie in another mount name space
        return Path(f"/proc/{pid}/cwd/postmaster.pid").read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except OSError:
        return None


def _own_pid(pid: int) -> int:
    """Return the pid that the process itself sees, which differs in a container."""
    with suppress(OSError):
        found = re.search(r"^NSpid:.*?(\d+)$", Path(f"/proc/{pid}/status").read_text("utf-8", "replace"), re.MULTILINE)
        if found:
            return int(found.group(1))
    return pid


# Our clusters


def running_clusters(base_dir: Path) -> list[dict[str, Any]]:
    """Return the ``cluster.json`` of each cluster of ours whose server runs, with its ``pid``."""
    ours = {os.path.realpath(server["data_directory"]): server["pid"] for server in postmasters() if server["data_directory"]}
    found = []
    for path in sorted((base_dir / "clusters").glob("*/cluster.json")):
        cluster = read_json(path) or {}
        pid = ours.get(os.path.realpath(cluster.get("data_dir") or path.parent / "data"))
        if pid:
            found.append({"name": path.parent.name, "data_dir": str(path.parent / "data"), **cluster, "pid": pid})
    return found


def stop_cluster(cluster: dict[str, Any]) -> str | None:
    """Stop the server of a cluster, the hard way if need be; return what is wrong if it runs even so."""
    prefix, ticks = cluster.get("run_prefix") or [], start_ticks(cluster["pid"])
    pg_ctl = [*prefix, f"{cluster.get('bin_dir', '')}/pg_ctl", "stop", "-D", cluster["data_dir"], "-w", "-t", "60", "-m"]
    said = ""
    for argv in (cluster.get("stop_argv") or [*pg_ctl, "fast"], [*pg_ctl, "immediate"]):
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=STOP_S,
                check=False,
                text=True,
                preexec_fn=unblock_signals,
            )
            said = done.stdout.strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
        if start_ticks(cluster["pid"]) != ticks:
            return None
    return f"the cluster {cluster['name']} still runs: {said}"


def stop_everything(base_dir: Path, experiment_id: str, quiet_s: float) -> tuple[dict[str, list[str]], list[str]]:
    """Stop the jobs of the experiment and our clusters until nothing has run for ``quiet_s``.

    Returns the names of what was stopped, as ``{"jobs", "clusters"}``, and what is wrong with the rest.
    """
    stopped: dict[str, list[str]] = {"jobs": [], "clusters": []}
    problems: list[str] = []
    quiet_since = time.monotonic()
    while not problems:
        jobs = running_jobs(base_dir / "jobs", experiment_id)
        clusters = running_clusters(base_dir)
        if jobs or clusters:
            problems += [f"the job {left.name} still runs" for left in stop_runs(jobs)]
            problems += [wrong for wrong in map(stop_cluster, clusters) if wrong]
            stopped["jobs"] += [job.name for job in jobs]
            stopped["clusters"] += [cluster["name"] for cluster in clusters]
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since >= quiet_s:
            break
        else:
            time.sleep(0.5)
    return stopped, problems


# The lease


@contextmanager
def update(base_dir: Path) -> Iterator[dict[str, Any]]:
    """Give ``lease.json`` as a dict that nobody else changes meanwhile, and write it back when it was changed."""
    lock = take_lock(base_dir / "lease.lock", patience_s=10)
    if lock is None:
        raise TimeoutError(f"{base_dir}/lease.lock is locked")
    try:
        lease = read_json(base_dir / "lease.json") or {}
        before = dict(lease)
        yield lease
        if lease != before:
            write_json(base_dir / "lease.json", lease)
    finally:
        os.close(lock)


def controller_gone(lease: dict[str, Any]) -> bool:
    """Tell whether the controller of the lease is known to be gone. One on another machine, or that we never saw, is not."""
    controller = lease.get("controller") or {}
    if controller.get("machine_id") != machine_identity() or controller.get("start_ticks") is None:
        return False
    return start_ticks(controller["pid"]) != controller["start_ticks"]


def end_cause(base_dir: Path, lease: dict[str, Any]) -> str | None:
    """Return why the lease ends now: ``released``, ``deadline`` or ``controller_lost``; ``None`` while it goes on."""
    if lease.get("release"):
        return "released"
    if time.time() >= lease["deadline"]:
        return "deadline"
    if controller_gone(lease) and not running_jobs(base_dir / "jobs", lease["experiment_id"], load_only=True):
        return "controller_lost"
    return None


def keep(base_dir: Path, lease: dict[str, Any], ready: Callable[[], None]) -> None:
    """Hold the lease until it ends, then stop what there is to stop and say so in ``lease.json``. Runs detached."""
    write_json(base_dir / "lease.json", {**lease, "keeper_pid": os.getpid(), "keeper_start_ticks": start_ticks(os.getpid())})
    ready()
    file, seen, cause = base_dir / "lease.json", (0, 0), None
    while cause is None:
        received = signal.sigtimedwait(WANTED, 0.5)
        terminated = received is not None and received.si_signo != signal.SIGCHLD
        try:
            now = file.stat()
        except FileNotFoundError:  # teardown removed the folder: nothing is left to hold
            return
        if (now.st_ino, now.st_mtime_ns) != seen:
            seen, lease = (now.st_ino, now.st_mtime_ns), read_json(file) or lease
        if not terminated and end_cause(base_dir, lease) is None:
            continue
        with update(base_dir) as current:  # the lease may have been renewed just now
            cause = "terminated" if terminated else end_cause(base_dir, current)
            if cause:
                current["ending"] = cause
            lease = dict(current)
    outcome: dict[str, Any] = {"cause": cause, "stopped": {"jobs": [], "clusters": []}, "problems": []}
    if cause != "released" or lease["release"]["stop"]:
        quiet_s = 0.0 if cause == "released" else QUIET_S
        outcome["stopped"], outcome["problems"] = stop_everything(base_dir, lease["experiment_id"], quiet_s)
    with update(base_dir) as current:
        current.update(outcome, ended=time.time())


def stale_reason(base_dir: Path, lease: dict[str, Any]) -> str | None:
    """Return why a lease whose keeper is gone may be taken over by another experiment, ``None`` when it may not."""
    if running_jobs(base_dir / "jobs", lease["experiment_id"]):
        return None
    if lease.get("host") != machine_identity():
        return "the machine was restarted"
    if time.time() >= lease["deadline"]:
        return "its keeper is gone and its deadline has passed"
    if controller_gone(lease):
        return "its keeper and its controller are gone"
    return None


# The module


class Lease:
    """One run of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.base_dir = Path(self.params["base_dir"])
        self.id = self.params["experiment_id"]
        self.taken_over: dict[str, Any] | None = None
        self.foreign: list[dict[str, Any]] = []

    def hold(self) -> bool:
        """Take or renew the lease; return whether it was taken."""
        if self.params["deadline"] <= time.time():
            self.fail(f"the deadline {self.params['deadline']} has already passed")
        if not self.module.check_mode:
            self.base_dir.mkdir(parents=True, exist_ok=True)
        taken = not self.renew()
        if taken:
            self.look_before()
        clusters = os.path.realpath(self.base_dir / "clusters") + "/"
        self.foreign = [server for server in postmasters() if not os.path.realpath(server["data_directory"] or "/").startswith(clusters)]
        if taken and self.foreign and not (self.params["share_host"] or self.params["local"]):
            self.fail(f"{self.foreign_text()}, which is not ours: measuring would disturb both. To run beside it: -e share_host=true")
        if taken and not self.module.check_mode:
            self.take()
        return taken

    def renew(self) -> bool:
        """Renew the lease if this experiment holds it. Refuses when another does, and waits for the end of one that is ending."""
        give_up = time.monotonic() + 2 * STOP_S
        while is_locked(self.base_dir / "host.lock"):
            with update(self.base_dir) as lease:
                ending = not lease or lease.get("ending") or lease.get("ended") or end_cause(self.base_dir, lease)
                if not ending and lease["experiment_id"] != self.id:
                    self.refuse(lease)
                if not ending:
                    if not self.module.check_mode:
                        lease.update(deadline=self.params["deadline"], controller=self.params["controller"])
                    return True
            if time.monotonic() >= give_up:
                self.fail(f"the lease of {lease.get('experiment_id')} is being ended and does not come to its end")
            time.sleep(0.1)
        return False

    def look_before(self) -> None:
        """Refuse when the lease of another experiment lost its keeper and cannot be taken over yet."""
        before = read_json(self.base_dir / "lease.json")
        if before and not before.get("ended") and before["experiment_id"] != self.id:
            reason = stale_reason(self.base_dir, before)
            if reason is None:
                self.refuse(before)
            self.taken_over = {"experiment_id": before["experiment_id"], "reason": reason}

    def take(self) -> None:
        """Take the lock, stop what a lease that is taken over left behind, and start the keeper."""
        lock = take_lock(self.base_dir / "host.lock")
        before = read_json(self.base_dir / "lease.json") or {}
        if lock is None:
            self.refuse(before)
        if self.taken_over:
            _, problems = stop_everything(self.base_dir, before["experiment_id"], 0)
            if problems:
                self.fail(f"what the experiment {before['experiment_id']} left behind cannot be stopped: {'; '.join(problems)}")
        lease = {
            "experiment_id": self.id,
            "since": time.time(),
            "deadline": self.params["deadline"],
            "controller": self.params["controller"],
            "host": machine_identity(),
        }
        failure = detach(lambda ready: keep(self.base_dir, lease, ready), {lock}, self.base_dir / "lease.error")
        os.close(lock)
        if failure:
            self.fail(f"the keeper of the lease could not be started: {failure}")

    def release(self) -> bool:
        """Free the host if this experiment holds it; return whether anything was done."""
        lease = read_json(self.base_dir / "lease.json") or {}
        if lease.get("experiment_id") != self.id:
            return False
        held = is_locked(self.base_dir / "host.lock")
        if self.module.check_mode:
            return held
        if held:
            with update(self.base_dir) as lease:
                lease["release"] = {"stop": self.params["stop"]}
            give_up = time.monotonic() + 2 * STOP_S
            while is_locked(self.base_dir / "host.lock"):
                if time.monotonic() >= give_up:
                    self.fail("the keeper of the lease does not end")
                time.sleep(0.05)
        elif self.params["stop"] or not lease.get("ended"):
            held = self.finish()
        problems = (read_json(self.base_dir / "lease.json") or {}).get("problems")
        if problems:
            self.fail("; ".join(problems))
        return held

    def finish(self) -> bool:
        """Do what the keeper does at a release, for a lease whose keeper is gone; return whether anything was done."""
        lock = take_lock(self.base_dir / "host.lock")
        if lock is None:
            return False
        nothing: dict[str, list[str]] = {"jobs": [], "clusters": []}
        stopped, problems = stop_everything(self.base_dir, self.id, 0) if self.params["stop"] else (nothing, [])
        with update(self.base_dir) as lease:
            changed = not lease.get("ended") or stopped != nothing
            if changed:
                lease.update(ended=time.time(), cause=lease.get("cause") or "released", stopped=stopped, problems=problems)
        os.close(lock)
        return changed

    def foreign_text(self) -> str:
        """Name the servers that are not ours, with port and clients."""
        servers = [
            f"port {server['port'] or 'unknown'} ({server['clients']} clients, data directory {server['data_directory'] or 'unknown'})"
            for server in self.foreign
        ]
        return f"a PostgreSQL server runs on {platform.node()} on {' and on '.join(servers)}"

    def findings(self) -> list[dict[str, Any]]:
        """Return what the trials of the experiment should tell of the host."""
        found = []
        if self.foreign:
            found.append(finding("foreign_postmaster", f"{self.foreign_text()}, which is not ours", servers=self.foreign))
        if self.taken_over:
            text = "the lease of {experiment_id} on {host} was taken over: {reason}".format(host=platform.node(), **self.taken_over)
            found.append(finding("lock_taken_over", text, **self.taken_over))
        return found

    def refuse(self, lease: dict[str, Any]) -> NoReturn:
        """Fail because another experiment holds the host."""
        other = lease.get("experiment_id", "unknown")
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(lease.get("deadline", 0)))
        self.fail(
            f"the host is held by the experiment {other} until {until} at the latest. "
            f"To take up that one: -e resume={other}. To free the host: end its controller, or run pgsizing.bench.release "
            f"-e experiment_id={other}"
        )

    def fail(self, message: str) -> NoReturn:
        self.module.fail_json(msg=message, lease=self.report())
        raise SystemExit(1)  # never reached; for the type checker

    def report(self) -> dict[str, Any]:
        """Return the lease as in RETURN."""
        lease = read_json(self.base_dir / "lease.json") or {}
        holder = lease.get("experiment_id") if is_locked(self.base_dir / "host.lock") else None
        ended = None
        if lease.get("ended") and lease["experiment_id"] == self.id:
            ended = {name: lease.get(name) for name in ("ended", "cause", "stopped", "problems")}
        return {
            "held": holder == self.id,
            "holder": holder,
            "taken_over": self.taken_over,
            "foreign": self.foreign,
            "findings": self.findings(),
            "jobs": [run_dir.name for run_dir in running_jobs(self.base_dir / "jobs", self.id, load_only=True)],
            "ended": ended,
        }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "base_dir": {"type": "path", "required": True},
            "experiment_id": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["held", "released"], "default": "held"},
            "deadline": {"type": "float"},
            "controller": {
                "type": "dict",
                "options": {
                    "machine_id": {"type": "str", "required": True},
                    "pid": {"type": "int", "required": True},
                    "start_ticks": {"type": "int"},
                },
            },
            "stop": {"type": "bool", "default": False},
            "share_host": {"type": "bool", "default": False},
            "local": {"type": "bool", "default": False},
        },
        required_if=[("state", "held", ("deadline",))],
        supports_check_mode=True,
    )
    lease = Lease(module)
    changed = lease.hold() if module.params["state"] == "held" else lease.release()
    module.exit_json(changed=changed, lease=lease.report())


if __name__ == "__main__":
    main()
