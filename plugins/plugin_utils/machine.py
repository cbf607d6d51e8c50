# GNU General Public License v3.0 or later (see LICENSE)
"""What PLAN may know of the machine it runs on, read without changing anything and without Ansible facts."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

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
    """Return facts of this machine for the plan: cores, memory, disk, installed servers, who owns ``port``, locales."""
    root = os.geteuid() == 0
    base = Path(base_dir) if base_dir else Path("/var/lib/pgsizing") if root else Path.home() / ".local/state/pgsizing"
    installed = _installed(majors, bin_dirs or BIN_DIRS)
    versions = {major: _version(directory / "postgres") for major, directory in installed.items()}
    memory = _meminfo()
    return {
        "base_dir": str(base),
        "root": root,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_bytes": memory.get("MemTotal", 0),
        "huge_pages_free": memory.get("HugePages_Free", 0),
        "disk_free_bytes": _disk_free(base),
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
            major = (_version(server) or "0").split(".")[0]
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
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            targets = {str(link.readlink()) for link in (directory / "fd").iterdir()}
        except OSError:
            continue
        if any(f"socket:[{inode}]" in targets for inode in inodes):
            return f"{_read(f'{directory}/comm').strip()} (pid {directory.name})"
    return None
