# GNU General Public License v3.0 or later (see LICENSE)
"""Facts of the controller: read without changing anything, and never a reason to fail."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.pgsizing.bench.plugins.modules import machine as machines
from ansible_collections.pgsizing.bench.plugins.modules.machine import machine

MAJORS = ("13", "14", "15", "16", "17", "18")


def programs(folder: Path, **outputs: str) -> Path:
    """Make programs that print their version."""
    folder.mkdir(parents=True)
    for name, output in outputs.items():
        (folder / name).write_text(f"#!/bin/sh\necho '{output}'\n")
        (folder / name).chmod(0o755)
    return folder


def test_this_machine() -> None:
    found = machine(1, MAJORS)
    assert 1 <= found["cores"] <= len(os.sched_getaffinity(0))
    assert found["memory_bytes"] > 2**28
    assert found["disk_free_bytes"] > 0
    assert found["root"] is (os.geteuid() == 0)
    assert found["os"]
    assert "C" in (found["locales"] or ["C"])
    assert set(found["installed_majors"]) <= set(MAJORS)
    assert set(found["server_versions"]) == set(found["installed_majors"])


def test_installed_servers(tmp_path: Path) -> None:
    first = programs(tmp_path / "a/16/bin", postgres="postgres (PostgreSQL) 16.4 (Debian 16.4-1)", pgbench="pgbench (PostgreSQL) 16.4")
    programs(tmp_path / "a/9.6/bin", postgres="postgres (PostgreSQL) 9.6.24")  # too old for us
    programs(tmp_path / "a/broken/bin", postgres="segmentation fault")
    programs(tmp_path / "b/16/bin", postgres="postgres (PostgreSQL) 16.1")
    programs(tmp_path / "b/18/bin", postgres="postgres (PostgreSQL) 18beta2")
    found = machine(1, MAJORS, (f"{tmp_path}/a/*/bin", f"{tmp_path}/b/*/bin"))
    assert found["installed_majors"] == ["16", "18"]
    assert found["server_versions"] == {"16": "16.4", "18": "18beta2"}  # the first pattern wins
    assert found["pgbench"] == {"16": "pgbench (PostgreSQL) 16.4"}
    assert found["postgres_major"] == "18"
    assert first.exists()


def test_devices_by_their_stable_names(tmp_path: Path) -> None:
    by_id, blocks, dev = tmp_path / "by-id", tmp_path / "block", tmp_path / "dev"
    for folder in (by_id, blocks / "nvme1n1", dev):
        folder.mkdir(parents=True)
    (blocks / "nvme1n1" / "size").write_text("1048576000\n")  # sectors
    for name in ("nvme1n1", "sr0"):
        (dev / name).touch()
        (by_id / f"nvme-{name}").symlink_to(f"../dev/{name}")
    assert machines._devices(by_id, blocks) == {"nvme-nvme1n1": 500 * 2**30}
    assert machines._devices(tmp_path / "none", blocks) == {}


@pytest.mark.parametrize(
    ("files", "cpus", "most"),
    [
        ({}, None, None),
        ({"cpu.max": "max 100000\n", "memory.max": "max\n"}, None, None),
        ({"cpu.max": "250000 100000\n", "memory.max": "2147483648\n"}, 2.5, 2**31),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None, None),
        (
            {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n", "memory/memory.limit_in_bytes": "1073741824\n"},
            0.5,
            2**30,
        ),
    ],
)
def test_the_limits_of_a_container(files: dict[str, str], cpus: float | None, most: int | None, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machines._allowed(tmp_path) == (cpus, most)


@pytest.mark.parametrize(
    ("limits", "cores", "memory"),
    [((None, None), 8, 2**36), ((2.5, 2**31), 3, 2**31), ((0.5, 2**30), 1, 2**30), ((64.0, 9223372036854771712), 8, 2**36)],
)
def test_a_container_has_no_more_than_its_limits(
    limits: tuple[float | None, int | None], cores: int, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile from the host's memory would be more than the container may have."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    monkeypatch.setattr(machines, "_meminfo", lambda: {"MemTotal": 2**36})
    monkeypatch.setattr(machines, "_allowed", lambda: limits)
    found = machine(1, MAJORS)
    assert (found["cores"], found["memory_bytes"]) == (cores, memory)


def test_no_server_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_os_release", lambda: {"ID": "debian", "VERSION_ID": "13"})
    found = machine(1, MAJORS, (f"{tmp_path}/*/bin",))
    assert found["installed_majors"] == []
    assert found["postgres_major"] == "17"


@pytest.mark.parametrize(
    ("release", "major"),
    [
        ({"ID": "debian", "VERSION_ID": "12"}, "15"),
        ({"ID": "ubuntu", "VERSION_ID": "24.04", "ID_LIKE": "debian"}, "16"),
        ({"ID": "rocky", "VERSION_ID": "9.4", "ID_LIKE": "rhel centos fedora"}, "13"),
        ({"ID": "linuxmint", "VERSION_ID": "22", "ID_LIKE": "ubuntu debian"}, None),
        ({}, None),
    ],
)
def test_the_major_of_a_distribution(release: dict[str, str], major: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_os_release", lambda: release)
    assert machines._distribution_major() == major


def test_os_release_with_and_without_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_read", lambda _path: 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    assert machines._os_release() == {"ID": "debian", "VERSION_ID": "12", "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)"}


@pytest.mark.parametrize("missing", ["new", "new/deep/er"])
def test_free_space_of_a_folder_that_is_not_there_yet(missing: str, tmp_path: Path) -> None:
    assert machines._disk_free(tmp_path / missing) > 0


def test_the_base_folder_can_be_chosen(tmp_path: Path) -> None:
    assert machine(1, MAJORS, base_dir=str(tmp_path))["base_dir"] == str(tmp_path)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening


def test_a_port_in_use_names_its_owner(listener: socket.socket, tmp_path: Path) -> None:
    port = listener.getsockname()[1]
    owner = machines._port_owner(port, tmp_path)
    assert owner is not None
    assert owner.endswith(f"(pid {os.getpid()})")


def test_a_port_in_use_by_a_cluster_of_ours_is_ours(listener: socket.socket, tmp_path: Path) -> None:
    port = listener.getsockname()[1]
    data = tmp_path / "clusters/15-0a1b2c3d/data"
    data.mkdir(parents=True)
    lines = [str(os.getpid()), str(data), "0", str(port), "/tmp", "localhost", "", "ready"]
    (data / "postmaster.pid").write_text("\n".join(lines))
    assert machines._port_owner(port, tmp_path) is None
    lines[0] = "999999999"  # that server is gone: its file says nothing of who has the port now
    (data / "postmaster.pid").write_text("\n".join(lines))
    assert machines._port_owner(port, tmp_path) is not None


def test_a_free_port(listener: socket.socket, tmp_path: Path) -> None:
    port = listener.getsockname()[1]
    listener.close()
    assert machines._port_owner(port, tmp_path) is None


def test_a_controller_that_is_no_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(machines, "_read", lambda _path: "")
    found = machine(1, MAJORS)
    assert found["cores"] == os.cpu_count()
    assert found["memory_bytes"] == 0
