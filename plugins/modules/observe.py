#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Sample a host and a PostgreSQL server once a second, detached, at little cost."""

from __future__ import annotations

DOCUMENTATION = r"""
module: observe
short_description: Sample a host and a PostgreSQL server during a measurement
version_added: 0.1.0
description:
  - Starts one detached sampler. Once every O(interval) it reads counters of the kernel from C(/proc) and, over one connection
    of its own, counters of the server. It keeps files and connection open and never connects anew while it samples.
    A server that goes away is an observation.
  - The connection is that of psycopg 3 or psycopg2 when the module's Python has one of them, else one C(psql) that stays.
  - The sampler measures what it costs itself, and what its backend costs the server.
  - What is sampled, and the columns of the series, is in C(docs/observation.md).
options:
  id:
    description: Name of the observation, which is also the name of its run folder.
    type: str
    required: true
  dir:
    description: Folder that holds the run folders, the same as of M(pgsizing.bench.job).
    type: path
    required: true
  state:
    description:
      - V(started) starts the sampler, unless it runs or has ended, and returns facts of the host.
      - V(stopped) ends it and returns the observation.
    type: str
    choices: [started, stopped]
    default: started
  interval:
    description: Seconds between two samples.
    type: float
    default: 1.0
  deadline:
    description: Seconds from the start after which the sampler ends by itself. Needed by V(state=started).
    type: float
  data_directory:
    description: Data directory of the server, whose block device is sampled.
    type: path
  wal_directory:
    description: Directory of the write-ahead log. C(pg_wal) of O(data_directory) when not given.
    type: path
  server_log:
    description: Log file of the server. What it grows by during the observation is kept.
    type: path
  postgres:
    description: The server to sample. Without it, only the host is sampled.
    type: dict
    suboptions:
      socket_dir: {description: Folder of its socket., type: path}
      host: {description: Its host name., type: str}
      port: {description: Its port., type: int, default: 5432}
      user: {description: User to connect as. Best a member of C(pg_monitor)., type: str, required: true}
      dbname: {description: Database whose counters are sampled., type: str, required: true}
      passfile: {description: Password file., type: path}
      bin_dir: {description: Folder of C(psql). The search path when not given., type: path}
  experiment:
    description: Id of the experiment the observation belongs to, for M(pgsizing.bench.lease).
    type: str
  window:
    description: With V(state=stopped), restrict the summary to this time.
    type: dict
    suboptions:
      from: {description: Its begin as seconds since the epoch., type: float, required: true}
      to: {description: Its end as seconds since the epoch., type: float, required: true}
attributes:
  check_mode:
    support: full
    description: Starts and stops nothing, and returns the facts of the host.
author: pgsizing contributors (@pgsizing)
"""

EXAMPLES = r"""
- name: Watch the server
  pgsizing.bench.observe:
    id: base-1-server
    dir: /var/lib/pgsizing/jobs
    deadline: 600
    data_directory: /var/lib/pgsizing/clusters/15-0a1b2c3d/data
    postgres:
      socket_dir: /var/lib/pgsizing/clusters/15-0a1b2c3d/run
      port: 5532
      user: pgsizing
      dbname: bench
      passfile: /var/lib/pgsizing/clusters/15-0a1b2c3d/pgpass

- name: What it did while the load ran
  pgsizing.bench.observe:
    id: base-1-server
    dir: /var/lib/pgsizing/jobs
    state: stopped
    window:
      from: "{{ load.job.started }}"
      to: "{{ load.job.ended }}"
  register: watched
"""

RETURN = r"""
host:
  description: Facts of the host. A fact that cannot be read is None.
  returned: with O(state=started)
  type: dict
  contains:
    hostname: {description: Its name., type: str}
    machine_id: {description: Its machine id., type: str}
    boot_id: {description: Id of this boot., type: str}
    cpu_model: {description: Model of the processor., type: str}
    cores: {description: CPUs the kernel schedules on., type: int}
    sockets: {description: Processor packages., type: int}
    numa_nodes: {description: NUMA nodes., type: int}
    memory_bytes: {description: Memory., type: int}
    swap_bytes: {description: Swap space., type: int}
    kernel: {description: Kernel release., type: str}
    os: {description: Name and version of the operating system., type: str}
    architecture: {description: Machine architecture., type: str}
    virtualization: {description: Kind of virtual machine or container; C(none) on bare metal., type: str}
    product: {description: What the firmware calls the machine., type: str}
    instance_type: {description: "Instance type on EC2, as its firmware says; None elsewhere.", type: str}
    thp: {description: Mode of transparent huge pages., type: str}
    huge_pages: {description: "C(total), C(free), C(reserved) pages and C(size_bytes).", type: dict}
    governor: {description: CPU frequency governor., type: str}
    sysctl: {description: Kernel settings of memory and scheduling., type: dict}
    filesystems:
      description: >-
        Where O(data_directory) and O(wal_directory) lie, as C(data) and C(wal) - C(device), C(disk) (the whole disk of a
        partition; what is sampled), C(fstype), C(options), C(mountpoint), C(free_bytes), C(total_bytes), C(read_ahead_kb),
        C(scheduler), C(rotational), C(model).
      type: dict
observation:
  description: What was seen. Shapes and units are in C(docs/observation.md). A figure that was not seen is None.
  returned: with O(state=stopped)
  type: dict
  contains:
    started: {description: First sample as seconds since the epoch., type: float}
    ended: {description: Last sample., type: float}
    n: {description: Intervals in the summary., type: int}
    interval_s: {description: Asked interval., type: float}
    clock_steps: {description: "Where the wall clock was set, C(at) by C(by_s) seconds.", type: list, elements: dict}
    samples: {description: Path of the series; CSV., type: str}
    columns: {description: Names and units of its columns., type: list, elements: dict}
    cost: {description: "CPU seconds of the sampler and of its backend, and both as a fraction of one core.", type: dict}
    cpu: {description: Shares of all cores., type: dict}
    memory: {description: Extremes., type: dict}
    disk: {description: "Rates of the devices of C(data) and C(wal).", type: dict}
    network: {description: Rates., type: dict}
    postgres: {description: Totals of the server; None without a server., type: dict}
    huge_pages_in_use: {description: Whether the server really uses huge pages., type: bool}
    server_log: {description: Path of the server log of the observation., type: str}
    statements_before: {description: Path of pg_stat_statements before; CSV., type: str}
    statements_after: {description: Path of pg_stat_statements after; CSV., type: str}
    problems: {description: What went wrong in observing., type: list, elements: str}
"""

import csv
import importlib
import json
import os
import platform
import queue
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.pgsizing.bench.plugins.module_utils import observation as pure
from ansible_collections.pgsizing.bench.plugins.module_utils.detached import (
    WANTED,
    clean_environment,
    cpu_seconds,
    detach,
    die_with_parent,
    prepare_run,
    process_stat,
    read_json,
    run_state,
    start_ticks,
    stop_runs,
    write_json,
)

#: A query of the sampler that takes longer than this is given up (ms).
STATEMENT_TIMEOUT_MS = 2000

#: More of the server log than this is not copied (bytes).
LOG_LIMIT = 64 * 1024 * 1024

#: Settings of our session: no compilation and no workers for a query of some milliseconds.
SESSION = f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c jit=off -c max_parallel_workers_per_gather=0 -c client_min_messages=error"

#: Further settings that keep us out of the logs and of pg_stat_statements; only a superuser may make them.
QUIET = (
    "SET log_min_duration_statement = -1",
    "SET log_statement = 'none'",
    "SET log_duration = off",
    "SET pg_stat_statements.track = 'none'",
    "SET pg_stat_statements.track_utility = off",
)

SYSCTL = (
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
    "min_free_kbytes",
    "nr_hugepages",
    "nr_overcommit_hugepages",
    "overcommit_memory",
    "overcommit_ratio",
    "swappiness",
    "vfs_cache_pressure",
    "zone_reclaim_mode",
)


# The host


def read(path: str | Path) -> str | None:
    """Return the stripped text of a file, ``None`` when it cannot be read."""
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return None


def read_number(path: str | Path) -> int | None:
    """Return the integer in a file, ``None`` when there is none."""
    text = read(path)
    return int(text) if text and re.fullmatch(r"-?\d+", text) else None


def chosen(path: str) -> str | None:
    """Return the choice in brackets of a kernel file such as ``always [madvise] never``."""
    found = re.search(r"\[(\S+)\]", read(path) or "")
    return found.group(1) if found else None


def host_facts(params: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of the host as in RETURN."""
    memory = dict(re.findall(r"^(\S+):\s+(\d+)", read("/proc/meminfo") or "", re.MULTILINE))
    names = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', read("/etc/os-release") or "", re.MULTILINE))
    packages = {read(path) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id")}
    maker = {name: read(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")}
    return {
        "hostname": platform.node(),
        "machine_id": read("/etc/machine-id"),
        "boot_id": read("/proc/sys/kernel/random/boot_id"),
        "cpu_model": pure.parse_cpuinfo(read("/proc/cpuinfo") or ""),
        "cores": os.cpu_count(),
        "sockets": len(packages) or None,
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "memory_bytes": int(memory["MemTotal"]) * 1024,
        "swap_bytes": int(memory["SwapTotal"]) * 1024,
        "kernel": platform.release(),
        "os": names.get("PRETTY_NAME"),
        "architecture": platform.machine(),
        "virtualization": virtualization(),
        "product": " ".join(filter(None, maker.values())) or None,
        "instance_type": pure.instance_type(**maker),
        "thp": chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "huge_pages": {
            "total": int(memory.get("HugePages_Total", 0)),
            "free": int(memory.get("HugePages_Free", 0)),
            "reserved": int(memory.get("HugePages_Rsvd", 0)),
            "size_bytes": int(memory.get("Hugepagesize", 0)) * 1024 or None,
        },
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "sysctl": {f"vm.{name}": read_number(f"/proc/sys/vm/{name}") for name in SYSCTL},
        "filesystems": {role: filesystem(path) for role, path in directories(params).items()},
    }


def virtualization() -> str | None:
    """Return what systemd-detect-virt says; without it, whether there is a hypervisor at all."""
    program = shutil.which("systemd-detect-virt")
    if program:
        return subprocess.run([program], capture_output=True, text=True, check=False).stdout.strip() or None
    return "unknown" if re.search(r"^flags\s*:.*\bhypervisor\b", read("/proc/cpuinfo") or "", re.MULTILINE) else None


def directories(params: dict[str, Any]) -> dict[str, str]:
    """Return the real paths of the directories of the server that exist, as ``data`` and ``wal``."""
    data = params["data_directory"]
    wal = params["wal_directory"] or (data and f"{data}/pg_wal")
    return {role: os.path.realpath(path) for role, path in (("data", data), ("wal", wal)) if path and Path(path).exists()}


def filesystem(path: str) -> dict[str, Any]:
    """Return where a directory lies (see RETURN); the device is ``None`` for a file system without one."""
    mounts = pure.parse_mountinfo(read("/proc/self/mountinfo") or "")
    mount = pure.mount_of(path, mounts)
    space = os.statvfs(path)
    device = block_device(path, mounts)
    disk = device and whole_disk(device)
    queue_of = Path("/sys/class/block") / (disk or "none") / "queue"
    return {
        "device": device,
        "disk": disk,
        "fstype": mount["fstype"],
        "options": f"{mount['options']},{mount['super_options']}",
        "mountpoint": mount["mountpoint"],
        "free_bytes": space.f_bavail * space.f_frsize,
        "total_bytes": space.f_blocks * space.f_frsize,
        "read_ahead_kb": read_number(queue_of / "read_ahead_kb"),
        "scheduler": chosen(str(queue_of / "scheduler")) or read(queue_of / "scheduler"),
        "rotational": {"0": False, "1": True}.get(read(queue_of / "rotational") or ""),
        "model": read(queue_of.parent / "device" / "model"),
    }


def block_device(path: str, mounts: list[dict[str, str]], nested: bool = False) -> str | None:
    """Return the kernel name of the block device under a path (``nvme1n1p1``, ``dm-0``), ``None`` when there is none."""
    number = Path(path).stat().st_dev
    if not os.major(number):  # btrfs, overlay and the like have a number of their own
        mount = pure.mount_of(path, mounts)
        upper = re.search(r"(?:^|,)upperdir=([^,]+)", mount["super_options"])
        if upper and not nested and Path(upper.group(1)).is_dir():
            return block_device(os.path.realpath(upper.group(1)), mounts, nested=True)
        if not mount["source"].startswith("/dev/"):
            return None
        number = Path(mount["source"]).stat().st_rdev
    link = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return link.resolve().name if link.exists() else None


def whole_disk(device: str) -> str:
    """Return the disk a partition belongs to; another device is its own."""
    path = Path("/sys/class/block", device).resolve()
    return path.parent.name if (path / "partition").exists() else device


def interfaces() -> list[str]:
    """Return the network interfaces that stand for hardware; where none does (a container), all but the loopback."""
    names = sorted(path.name for path in Path("/sys/class/net").iterdir() if path.name != "lo")
    return [name for name in names if Path("/sys/class/net", name, "device").exists()] or names


class Host:
    """Reads one host sample, from files that stay open."""

    def __init__(self, disks: dict[str, str]) -> None:
        self.disks = disks
        self.interfaces = interfaces()
        self.page = os.sysconf("SC_PAGE_SIZE")
        names = ("stat", "meminfo", "vmstat", "loadavg", "net/dev", *(["diskstats"] if disks else []))
        self.files = {name: os.open(f"/proc/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names}
        # A container sees its own group as the root. That of a host has no quota, and reading it sums up all groups.
        groups = ("/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat")
        quota = next((path for path in groups if "nr_throttled" in (read(path) or "")), os.devnull)
        self.files["quota"] = os.open(quota, os.O_RDONLY | os.O_CLOEXEC)

    def sample(self) -> dict[str, Any]:
        """Return a sample without its ``server_cpu`` and ``pg``."""
        now, clock = time.time(), time.monotonic()
        text = {name: self._read(descriptor) for name, descriptor in self.files.items()}
        return {
            "t": now,
            "m": clock,
            **pure.parse_stat(text["stat"]),
            "quota": pure.parse_quota(text["quota"]),
            "load1": pure.parse_loadavg(text["loadavg"]),
            "mem": pure.parse_meminfo(text["meminfo"]),
            "vm": pure.parse_vmstat(text["vmstat"], self.page),
            "disk": {role: pure.parse_diskstats(text["diskstats"], disk) for role, disk in self.disks.items()},
            "net": pure.parse_net(text["net/dev"], self.interfaces),
        }

    @staticmethod
    def _read(descriptor: int) -> str:
        parts, size = [], 0
        while part := os.pread(descriptor, 65536, size):  # /proc gives some of its files by the page
            parts.append(part)
            size += len(part)
        return b"".join(parts).decode("utf-8", "replace")


# The server


class QueryError(Exception):
    """The server refused or gave up a query; the connection goes on."""


class Driver:
    """A connection by psycopg 3 or psycopg2. Raises QueryError, or ConnectionError when the connection is lost."""

    process_id = None

    def __init__(self, library: Any, options: dict[str, Any]) -> None:
        self.library = library
        given = {name: options[name] for name in ("port", "user", "dbname", "passfile")}
        given.update(host=options["socket_dir"] or options["host"], application_name="pgsizing_observe", options=SESSION)
        given.update(connect_timeout=5, client_encoding="utf8")
        try:
            self.connection = library.connect(**{name: value for name, value in given.items() if value is not None})
        except library.Error as error:
            raise ConnectionError(str(error).strip()) from None
        self.connection.autocommit = True

    def query(self, text: str) -> str:
        """Return the only field of the only row, an empty text when there is none."""

        def run(cursor: Any) -> str:
            cursor.execute(text)
            return str(cursor.fetchone()[0]) if cursor.description else ""

        return str(self._do(run))

    def export(self, text: str, path: Path) -> None:
        """Write the rows of a query as CSV with a header."""
        command = f"COPY ({text}) TO STDOUT WITH (FORMAT csv, HEADER)"

        def run(cursor: Any) -> None:
            with open(path, "wb") as file:
                if hasattr(cursor, "copy_expert"):
                    cursor.copy_expert(command, file)
                else:
                    with cursor.copy(command) as rows:
                        file.writelines(bytes(row) for row in rows)

        self._do(run)

    def _do(self, run: Callable[[Any], Any]) -> Any:
        try:
            with self.connection.cursor() as cursor:
                return run(cursor)
        except self.library.Error as error:
            lost = ConnectionError if self.connection.closed else QueryError
            raise lost(str(error).strip()) from None

    def close(self) -> None:
        with suppress(self.library.Error):
            self.connection.close()


class Psql:
    """A connection by one psql that stays. Raises what Driver raises."""

    END = "-- end of answer --"

    def __init__(self, options: dict[str, Any], run_dir: Path) -> None:
        program = f"{options['bin_dir']}/psql" if options["bin_dir"] else "psql"
        argv = [program, "-XAtqw", "-p", str(options["port"]), "-U", options["user"], "-d", options["dbname"]]
        if options["socket_dir"] or options["host"]:
            argv += ["-h", options["socket_dir"] or options["host"]]
        env = {"PGOPTIONS": SESSION, "PGAPPNAME": "pgsizing_observe", "PGCONNECT_TIMEOUT": "5", "PGCLIENTENCODING": "UTF8"}
        if options["passfile"]:
            env["PGPASSFILE"] = options["passfile"]
        self.errors = run_dir / "psql.err"
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=clean_environment(env),
                preexec_fn=die_with_parent,
                encoding="utf-8",
                errors="replace",
                bufsize=1,
            )
        self.process_id = self.process.pid
        self.query("SELECT 1")

    def query(self, text: str) -> str:
        """Return the only field of the only row, an empty text when there is none."""
        return self._send(f"{text};")

    def export(self, text: str, path: Path) -> None:
        """Write the rows of a query as CSV with a header."""
        self._send(f"\\copy ({text}) to '{str(path).replace(chr(39), 2 * chr(39))}' with (format csv, header)")

    def _send(self, line: str) -> str:
        said = self.errors.stat().st_size
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        answer = []
        try:
            self.process.stdin.write(f"{line}\n\\echo {self.END}\n")
            for row in self.process.stdout:
                if row.strip() == self.END:
                    break
                answer.append(row)
            else:
                raise ConnectionError(self._said(0) or "the connection was lost")
        except BrokenPipeError:
            raise ConnectionError(self._said(0) or "the connection was lost") from None
        if self.errors.stat().st_size > said:
            raise QueryError(self._said(said))
        return "".join(answer).strip()

    def _said(self, offset: int) -> str:
        return self.errors.read_bytes()[offset:].decode("utf-8", "replace").strip().removeprefix("psql: error: ")

    def close(self) -> None:
        """End psql, also when the server does not answer it."""
        self.process.kill()
        self.process.wait()


def connect(options: dict[str, Any], run_dir: Path) -> Driver | Psql:
    """Return a connection to the server, set up as far as the user may."""
    for name in list(os.environ):
        if name.startswith("PG"):
            del os.environ[name]  # what libpq would read
    connection: Driver | Psql | None = None
    for library in ("psycopg", "psycopg2"):
        with suppress(ImportError):
            connection = Driver(importlib.import_module(library), options)
            break
    connection = connection or Psql(options, run_dir)
    for setting in QUIET:
        with suppress(QueryError):
            connection.query(setting)
    return connection


class Server:
    """Samples the server in a thread of its own, so that a server that hangs does not stop the sampling of the host."""

    def __init__(self, options: dict[str, Any], run_dir: Path) -> None:
        self.options, self.run_dir = options, run_dir
        self.connection = connect(options, run_dir)
        self.before = self.snapshot()
        self.connection.query(f"PREPARE pgsizing_observe AS {pure.server_query(self.before['version_num'])}")
        fields = process_stat(self.before["backend_pid"]) if self.is_local() else None
        self.postmaster = int(fields[1]) if fields else None
        self._cpu_ticks = 0
        self.lost_at: float | None = None
        self.errors: Counter[str] = Counter()
        self._questions: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[dict[str, Any] | Exception] = queue.SimpleQueue()
        self._pending = False
        threading.Thread(target=self._serve, daemon=True).start()

    def sample(self, patience_s: float) -> dict[str, Any] | None:
        """Return a sample of the server; ``None`` when it does not answer in time, refuses, or is lost."""
        if self.lost_at:
            return None
        late = self._pending
        if not late:
            self._questions.put(None)
            self._pending = True
        try:
            answer = self._answers.get(timeout=patience_s)
        except queue.Empty:
            self.errors[f"no answer within {patience_s:g} s"] += 1
            return None
        self._pending = False
        if isinstance(answer, ConnectionError):
            self.lost_at = time.time()
            self.errors[f"the connection was lost: {answer}"] += 1
        elif isinstance(answer, Exception):
            self.errors[str(answer)] += 1
        elif not late:  # an answer to the question before would be of another time
            return answer
        return None

    def snapshot(self) -> dict[str, Any]:
        """Return the row of ``snapshot_query``."""
        version = int(self.connection.query("SELECT current_setting('server_version_num')"))
        snapshot: dict[str, Any] = json.loads(self.connection.query(pure.snapshot_query(version)))
        return snapshot

    def is_local(self) -> bool:
        """Tell whether the server runs on this host, in our pid name space."""
        command = read(f"/proc/{self.before['backend_pid']}/cmdline") or ""
        host = self.options["socket_dir"] or self.options["host"] or "/"
        return (host.startswith("/") or host in ("localhost", "127.0.0.1", "::1")) and "postgres" in command

    def huge_pages_in_use(self) -> bool | None:
        """Tell whether the server uses huge pages; before version 17 by what its first process has mapped."""
        status = self.before["huge_pages_status"]
        if status in ("on", "off"):
            return bool(status == "on")
        mapped = read(f"/proc/{self.postmaster}/status") if self.postmaster else None
        found = re.search(r"^HugetlbPages:\s+(\d+) kB", mapped or "", re.MULTILINE)
        return int(found.group(1)) > 0 if found else None

    def cpu_ticks(self) -> int | None:
        """Return the clock ticks that all processes of a server on this host have used, those that ended among them."""
        first = process_stat(self.postmaster) if self.postmaster else None
        children = read(f"/proc/{self.postmaster}/task/{self.postmaster}/children") if first else None
        if first is None or children is None:
            return None
        # utime, stime, cutime, cstime: the last two hold the children that ended
        running = [fields for child in children.split() if (fields := process_stat(int(child)))]
        ticks = sum(int(ticks) for fields in (first, *running) for ticks in fields[11:15])
        # A process that ended and was not yet waited for, or that the kernel left out of its list, is missing for one sample.
        self._cpu_ticks = max(self._cpu_ticks, ticks)
        return self._cpu_ticks

    def export_statements(self, name: str, problems: list[str]) -> str | None:
        """Write pg_stat_statements of the database as CSV; return its path, ``None`` when the extension is not there."""
        if not self.before["statements"]:
            return None
        path = self.run_dir / name
        try:
            self.connection.export(  # utility statements stand there as they came: none that may hold a password
                f"SELECT s.* FROM {self.before['statements']}.pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
                "WHERE d.datname = current_database() AND s.query !~* 'password' ORDER BY s.total_exec_time DESC",
                path,
            )
        except (QueryError, ConnectionError) as error:
            problems.append(f"pg_stat_statements: {error}")
            return None
        return str(path)

    def finish(self, problems: list[str]) -> dict[str, Any]:
        """Take the closing snapshot, over a new connection if ours was lost; ``{after, statements_after}``."""
        result: dict[str, Any] = {"after": None, "statements_after": None}
        try:
            if self.lost_at or self._pending:
                self.connection = connect(self.options, self.run_dir)
            result["after"] = self.snapshot()
            result["statements_after"] = self.export_statements("statements_after.csv", problems)
        except (QueryError, ConnectionError) as error:
            problems.append(f"the server was not there at the end: {error}")
        else:
            self.connection.close()
        return result

    def _serve(self) -> None:
        while True:
            self._questions.get()
            try:
                self._answers.put(json.loads(self.connection.query("EXECUTE pgsizing_observe")))
            except Exception as error:
                self._answers.put(error)


# The sampler


def watch(run_dir: Path, params: dict[str, Any], ready: Callable[[], None]) -> None:
    """Sample until stopped or until the deadline, then write ``result.json``. Runs detached."""
    problems: list[str] = []
    log = LogWindow(params["server_log"])
    server = Server(params["postgres"], run_dir) if params["postgres"] else None
    host = Host(params["disks"])
    result: dict[str, Any] = {"id": params["id"], "run_dir": str(run_dir), "server": None, "statements_before": None}
    if server:
        result["statements_before"] = server.export_statements("statements_before.csv", problems)
    interval, patience = params["interval"], min(params["interval"] / 2, 1.0)
    with open(run_dir / "samples.jsonl", "w", encoding="utf-8", buffering=1) as file:
        started = {"supervisor_pid": os.getpid(), "supervisor_start_ticks": start_ticks(os.getpid()), "started": time.time()}
        cost = Cost(server)
        start = due = time.monotonic()
        while True:
            write_sample(file, host, server, patience)
            if due == start:
                write_json(run_dir / "started.json", started)
                ready()
            # ticks that were missed are left out, the next one is on time again
            due += interval * max(1, -((due - time.monotonic()) // interval))
            stopped = wait(min(due, start + params["deadline"]))
            if stopped is None and time.monotonic() >= start + params["deadline"]:
                stopped = "deadline"
            if stopped:
                break
        write_sample(file, host, server, patience)
    result.update(state="finished", stopped=stopped, started=started["started"], ended=time.time(), cost=cost.total())
    if server:
        result["huge_pages_in_use"] = server.huge_pages_in_use() if not server.lost_at else None
        finished = server.finish(problems)
        problems += [f"server, {count} times: {text}" for text, count in server.errors.items()]
        result["statements_after"] = finished["statements_after"]
        result["server"] = {"before": server.before, "after": finished["after"], "lost_at": server.lost_at}
    result["server_log"] = log.copy(run_dir / "server.log", problems)
    result["problems"] = problems
    write_json(run_dir / "result.json", result)


def write_sample(file: IO[str], host: Host, server: Server | None, patience_s: float) -> None:
    """Take one sample of host and server and add it to the series."""
    sample = host.sample()
    sample["server_cpu"] = server.cpu_ticks() if server else None
    sample["pg"] = server.sample(patience_s) if server else None
    file.write(json.dumps(sample) + "\n")


def wait(until: float) -> str | None:
    """Sleep until then (monotonic); return ``request`` at once when asked to stop."""
    while (left := until - time.monotonic()) > 0:
        received = signal.sigtimedwait(WANTED, left)
        if received and received.si_signo != signal.SIGCHLD:
            return "request"
    return None


class Cost:
    """What sampling costs, from when this is made on."""

    def __init__(self, server: Server | None) -> None:
        self.client = server.connection.process_id if server else None
        self.backend = server.before["backend_pid"] if server and server.is_local() else None
        self.wall, self.cpu = time.monotonic(), self._cpu()
        self.backend_cpu = cpu_seconds(self.backend) if self.backend else None

    def _cpu(self) -> float:
        return time.process_time() + ((cpu_seconds(self.client) or 0.0) if self.client else 0.0)

    def total(self) -> dict[str, Any]:
        """Return ``{cpu_s, wall_s, core_fraction, server_backend_cpu_s}``; the fraction is of one core and of all CPU time known."""
        wall, cpu = time.monotonic() - self.wall, self._cpu() - self.cpu
        after = cpu_seconds(self.backend) if self.backend else None
        backend = after - self.backend_cpu if after is not None and self.backend_cpu is not None else None
        return {"cpu_s": cpu, "wall_s": wall, "core_fraction": (cpu + (backend or 0.0)) / wall, "server_backend_cpu_s": backend}


class LogWindow:
    """What a server log grows by."""

    def __init__(self, path: str | None) -> None:
        self.path = Path(path) if path else None
        self.inode, self.size = self._stand()

    def _stand(self) -> tuple[int, int]:
        try:
            found = self.path.stat() if self.path else None
        except OSError:
            found = None
        return (found.st_ino, found.st_size) if found else (0, 0)

    def copy(self, target: Path, problems: list[str]) -> str | None:
        """Copy what was added since; return the path of the copy, ``None`` without a log."""
        if not self.path:
            return None
        inode, size = self._stand()
        if not inode:
            problems.append(f"the server log {self.path} cannot be read")
            return None
        begin = self.size
        if inode != self.inode or size < self.size:
            begin = 0
            if self.inode:
                problems.append("the server log was rotated: its first part is missing")
        if size - begin > LOG_LIMIT:
            problems.append(f"the server log grew by {size - begin} bytes: only the last {LOG_LIMIT} are kept")
            begin = size - LOG_LIMIT
        with open(self.path, "rb") as source, open(target, "wb") as file:
            source.seek(begin)
            left = size - begin
            while left > 0 and (part := source.read(min(left, 1 << 20))):
                file.write(part)
                left -= len(part)
        return str(target)


# What was seen


def observation(run_dir: Path, window: dict[str, Any] | None) -> dict[str, Any]:
    """Write the series and return the observation of a sampler that has ended, in whatever way."""
    asked = read_json(run_dir / "job.json") or {}
    result = read_json(run_dir / "result.json") or {"problems": ["the sampler was killed"]}
    with open(run_dir / "samples.jsonl", encoding="utf-8") as file:
        samples = pure.tidy([json.loads(line) for line in file if line.endswith("\n")], asked["interval"])
    problems = list(result["problems"])
    write_series(run_dir / "samples.csv", samples)
    seen, around = samples, samples
    if window:
        seen, around = pure.in_window(samples, window["from"], window["to"], asked["interval"])
        if seen is around:
            problems.append("the window holds fewer than two samples: the figures reach beyond it")
    if pure.longest_gap(seen) > 3 * asked["interval"]:
        problems.append(f"the sampler fell behind: {pure.longest_gap(seen):.1f} s without a sample")
    summary = pure.summarise(seen, around, asked["cores"])
    disk: dict[str, Any] = {role: {"device": asked["disks"][role], **figures} for role, figures in (summary["disk"] or {}).items()}
    if disk and asked["same_disk"]:
        disk["wal"] = "same as data"
    return {
        "started": samples[0]["t"],
        "ended": samples[-1]["t"],
        "interval_s": asked["interval"],
        "clock_steps": pure.clock_steps(samples),
        "samples": str(run_dir / "samples.csv"),
        "columns": [{"name": name, "unit": unit} for name, unit in pure.COLUMNS],
        "cost": result.get("cost"),
        **summary,
        "disk": disk or None,
        "postgres": server_observation(result.get("server"), summary["postgres"]),
        "huge_pages_in_use": result.get("huge_pages_in_use"),
        "server_log": result.get("server_log"),
        "statements_before": result.get("statements_before"),
        "statements_after": result.get("statements_after"),
        "problems": problems,
    }


def server_observation(server: dict[str, Any] | None, totals: dict[str, Any] | None) -> dict[str, Any] | None:
    """Join what the samples and the two snapshots of a server say; ``None`` without a server."""
    if not server:
        return totals
    before, after = server["before"], server["after"] or {}
    restarted = after["start_time"] != before["start_time"] or after["version"] != before["version"] if after else None
    return {
        "version": before["version"],
        "version_before": before["version"],
        "version_after": after.get("version"),
        "start_time_before": before["start_time"],
        "start_time_after": after.get("start_time"),
        "restarted": restarted,
        "lost_at": server["lost_at"],
        "autovacuum_off": before.get("autovacuum_off") or [],
        **pure.table_changes(before["tables"], after.get("tables")),
        **(totals or dict.fromkeys(pure.SERVER_TOTALS)),
    }


def write_series(path: Path, samples: list[dict[str, Any]]) -> None:
    """Write the series as CSV; an empty field is a figure that was not seen."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(name for name, _ in pure.COLUMNS)
        for before, after in pure.in_pairs(samples):
            row = pure.rates(before, after)
            writer.writerow(round(value, 4) if isinstance(value, float) else value for value in row.values())


# The module


def start(module: AnsibleModule, run_dir: Path, host: dict[str, Any]) -> bool:
    """Start the sampler unless it runs or has ended; return whether it was started."""
    if run_state(run_dir) != "absent" or module.check_mode:
        return run_state(run_dir) == "absent"
    lock = prepare_run(run_dir)
    if lock is None:
        return False
    disks = {role: place["disk"] for role, place in host["filesystems"].items() if place["disk"]}
    same = disks.get("wal") is not None and disks.get("wal") == disks.get("data")
    if same:
        del disks["wal"]
    params = {**module.params, "disks": disks}
    asked = {name: params[name] for name in ("id", "experiment", "interval", "deadline", "disks")}
    write_json(run_dir / "job.json", {**asked, "load": False, "same_disk": same, "cores": host["cores"]})
    failure = detach(lambda ready: watch(run_dir, params, ready), {lock}, run_dir / "error")
    os.close(lock)
    if failure:
        module.fail_json(msg=f"the observation {params['id']} could not be started: {failure}", host=host)
    return True


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "id": {"type": "str", "required": True},
            "dir": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "interval": {"type": "float", "default": 1.0},
            "deadline": {"type": "float"},
            "data_directory": {"type": "path"},
            "wal_directory": {"type": "path"},
            "server_log": {"type": "path"},
            "postgres": {
                "type": "dict",
                "options": {
                    "socket_dir": {"type": "path"},
                    "host": {"type": "str"},
                    "port": {"type": "int", "default": 5432},
                    "user": {"type": "str", "required": True},
                    "dbname": {"type": "str", "required": True},
                    "passfile": {"type": "path"},
                    "bin_dir": {"type": "path"},
                },
                "mutually_exclusive": [("socket_dir", "host")],
            },
            "experiment": {"type": "str"},
            "window": {
                "type": "dict",
                "options": {"from": {"type": "float"}, "to": {"type": "float"}},
                "required_together": [("from", "to")],
            },
        },
        required_if=[("state", "started", ("deadline",))],
        supports_check_mode=True,
    )
    params = module.params
    run_dir = Path(params["dir"]) / params["id"]
    if params["state"] == "started":
        if params["interval"] <= 0 or params["deadline"] <= 0:
            module.fail_json(msg="interval and deadline must be above 0 seconds")
        host = host_facts(params)
        module.exit_json(changed=start(module, run_dir, host), host=host)
    state = run_state(run_dir)
    if state == "absent":
        module.fail_json(msg=f"there is no observation {params['id']} in {params['dir']}")
    if state == "running":
        if module.check_mode:
            module.exit_json(changed=True, observation=None)
        if stop_runs([run_dir]):
            module.fail_json(msg=f"the observation {params['id']} does not end")
    module.exit_json(changed=state == "running", observation=observation(run_dir, params["window"]))


if __name__ == "__main__":
    main()
