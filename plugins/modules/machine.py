#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""What PLAN may know of a machine, read without changing anything and without Ansible facts.

The plan calls ``machine()`` for the controller; for a host of the inventory this runs as a module.
"""

from __future__ import annotations

DOCUMENTATION = r"""
module: machine
short_description: What a plan has to know of a machine
version_added: 0.1.0
description:
  - Reads cores, memory, disk, installed servers, who owns a port and the like. Changes nothing.
options:
  port:
    description: Port that the private server is to have.
    type: int
    required: true
  majors:
    description: Major versions of PostgreSQL that are looked for.
    type: list
    elements: str
    required: true
  bin_dirs:
    description: Where server programs lie, as globs. Default the places of the distributions.
    type: list
    elements: str
    default: []
  base_dir:
    description: Folder of ours on the host. Default C(/var/lib/pgsizing) for root, C(~/.local/state/pgsizing) for others.
    type: str
    default: ""
author: pgsizing contributors (@pgsizing)
attributes:
  check_mode:
    description: Changes nothing anyway.
    support: full
"""

EXAMPLES = r"""
- name: Look at the host
  pgsizing.bench.machine:
    port: 55432
    majors: ["15", "16"]
"""

RETURN = r"""
machine:
  description: The facts. What cannot be read is None.
  returned: always
  type: dict
  contains:
    base_dir: {description: Folder of ours on the host., type: str}
    root: {description: Whether the task runs as root., type: bool}
    machine_id: {description: Identity of this machine and boot., type: str}
    cores: {description: CPUs that may be used; no more than a container's quota., type: int}
    memory_bytes: {description: Memory; no more than a container's limit., type: int}
    huge_pages_free: {description: Huge pages that nobody has., type: int}
    huge_page_bytes: {description: Size of one., type: int}
    disk_free_bytes: {description: Free space for the folder of ours., type: int}
    devices: {description: Size of each block device in bytes by its name in C(/dev/disk/by-id)., type: dict}
    os: {description: Name and version of the operating system., type: str}
    virtualization: {description: Kind of virtual machine., type: str}
    installed_majors: {description: Major versions whose server is installed., type: list, elements: str}
    server_versions: {description: Their versions by major., type: dict}
    pgbench: {description: What each C(pgbench --version) says by major., type: dict}
    postgres_major: {description: "Newest installed major, else that of the distribution.", type: str}
    can_install: {description: Whether packages can be installed., type: bool}
    locales: {description: What C(locale -a) prints., type: list, elements: str}
    port_owner: {description: "Who listens on the port, unless it is a cluster of ours.", type: str}
"""

import contextlib
import math
import os
import platform
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.pgsizing.bench.plugins.module_utils.detached import machine_identity

#: Where server programs may lie (globs); the same list as ``postgres_bin_dirs`` of the role ``postgres``.
BIN_DIRS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/usr/bin")

#: The server major of a distribution release, for a machine without any: packages.debian.org, packages.ubuntu.com, EL release notes.
DISTRIBUTION_MAJORS = {
    ("debian", "12"): "15",
    ("debian", "13"): "17",
    ("ubuntu", "22.04"): "14",
    ("ubuntu", "24.04"): "16",
    ("rhel", "9"): "13",
    ("rhel", "10"): "16",
}


def machine(port: int, majors: tuple[str, ...], bin_dirs: tuple[str, ...] = (), base_dir: str = "") -> dict[str, Any]:
    """Return the facts of this machine, as in RETURN."""
    root = os.geteuid() == 0
    base = Path(base_dir) if base_dir else Path("/var/lib/pgsizing") if root else Path.home() / ".local/state/pgsizing"
    installed = _installed(majors, bin_dirs or BIN_DIRS)
    versions = {major: _version(directory / "postgres") for major, directory in installed.items()}
    memory = _meminfo()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cpus, most = _allowed()
    return {
        "base_dir": str(base),
        "root": root,
        "machine_id": machine_identity(),
        "cores": max(1, min(cores, math.ceil(cpus or cores))),
        "memory_bytes": min(memory.get("MemTotal", 0), most or math.inf),
        "huge_pages_free": memory.get("HugePages_Free", 0),
        "huge_page_bytes": memory.get("Hugepagesize", 0),
        "disk_free_bytes": _disk_free(base),
        "devices": _devices(),
        "os": _os_release().get("PRETTY_NAME", platform.platform()),
        "virtualization": _virtualization(),
        "installed_majors": sorted(installed, key=int),
        "server_versions": {major: version for major, version in versions.items() if version},
        "pgbench": {
            major: _output(directory / "pgbench", "--version") for major, directory in installed.items() if (directory / "pgbench").exists()
        },
        "postgres_major": max(installed, key=int) if installed else _distribution_major(),
        "can_install": root and (shutil.which("apt-get") or shutil.which("dnf")) is not None,
        "locales": _locales(),
        "port_owner": _port_owner(port, base),
    }


def _installed(majors: tuple[str, ...], patterns: tuple[str, ...]) -> dict[str, Path]:
    """Return the folder of each installed server major; the first pattern that holds a version wins."""
    found: dict[str, Path] = {}
    for pattern in patterns:
        for server in sorted(Path("/").glob(f"{pattern.lstrip('/')}/postgres")):
            major = re.split(r"\D", _version(server) or "0")[0]
            if major in majors:
                found.setdefault(major, server.parent)
    return found


def _version(program: Path) -> str | None:
    match = re.search(r"\b(\d+(?:\.\d+)*(?:devel|beta\d+|rc\d+)?)", _output(program, "--version") or "")
    return match.group(1) if match else None


def _output(*argv: str | Path) -> str | None:
    try:
        return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _meminfo() -> dict[str, int]:
    values = {}
    for line in _read("/proc/meminfo").splitlines():
        name, _colon, rest = line.partition(":")
        number, _blank, unit = rest.strip().partition(" ")
        values[name] = int(number) * (1024 if unit == "kB" else 1)
    return values


def _allowed(groups: Path = Path("/sys/fs/cgroup")) -> tuple[float | None, int | None]:
    """Return the CPUs and the bytes that a container is limited to, each ``None`` without a limit.

    ``/proc/meminfo`` is the host's there. Outside of a container the root group, the only one that is read, has no limits.
    """
    quota, period = [*_read(str(groups / "cpu.max")).split(), "", ""][:2]
    if not quota:  # version 1
        quota, period = (_read(str(groups / "cpu" / f"cpu.cfs_{what}_us")).strip() for what in ("quota", "period"))
    most = _read(str(groups / "memory.max")).strip() or _read(str(groups / "memory/memory.limit_in_bytes")).strip()
    return (
        int(quota) / int(period) if quota.isdecimal() and period.isdecimal() and int(period) else None,
        int(most) if most.isdecimal() else None,
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _os_release() -> dict[str, str]:
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', _read("/etc/os-release"), re.MULTILINE))


def _distribution_major() -> str | None:
    release = _os_release()
    version = release.get("VERSION_ID", "")
    for name in [release.get("ID", ""), *release.get("ID_LIKE", "").split()]:
        for key in (version, version.split(".")[0]):
            if (name, key) in DISTRIBUTION_MAJORS:
                return DISTRIBUTION_MAJORS[name, key]
    return None


def _virtualization() -> str | None:
    if "hypervisor" in _read("/proc/cpuinfo"):
        return (_read("/sys/class/dmi/id/sys_vendor").strip() or "a hypervisor").removesuffix(", Inc.")
    return None


def _disk_free(path: Path) -> int:
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _devices(by_id: Path = Path("/dev/disk/by-id"), blocks: Path = Path("/sys/class/block")) -> dict[str, int]:
    """Return bytes by stable name; the kernel counts sectors of 512 bytes, whatever those of the device are."""
    sectors = {link.name: _read(str(blocks / link.resolve().name / "size")).strip() for link in by_id.glob("*")}
    return {name: 512 * int(count) for name, count in sectors.items() if count.isdecimal()}


def _locales() -> list[str] | None:
    listed = _output("locale", "-a")
    return listed.split() if listed else None


def _port_owner(port: int, base_dir: Path) -> str | None:
    """Return who listens on ``port`` of the loopback address, ``None`` when nobody or a cluster of ours does."""
    for pid_file in base_dir.glob("clusters/*/data/postmaster.pid"):
        lines = _read(str(pid_file)).splitlines()
        if len(lines) > 3 and lines[3].strip() == str(port) and Path(f"/proc/{lines[0].strip()}").exists():
            return None
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) != 0:
            return None
    return _listener(port) or "another program"


def _listener(port: int) -> str | None:
    inodes = {
        fields[9]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in (line.split() for line in _read(table).splitlines()[1:])
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port
    }
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if any(_link(file) in wanted for file in (process / "fd").iterdir()):
                return f"{_read(f'{process}/comm').strip()} (pid {process.name})"
    return None


def _link(path: Path) -> str | None:
    try:
        return str(path.readlink())
    except OSError:
        return None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "port": {"type": "int", "required": True},
            "majors": {"type": "list", "elements": "str", "required": True},
            "bin_dirs": {"type": "list", "elements": "str", "default": []},
            "base_dir": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    given = module.params
    module.exit_json(changed=False, machine=machine(given["port"], tuple(given["majors"]), tuple(given["bin_dirs"]), given["base_dir"]))


if __name__ == "__main__":
    main()
