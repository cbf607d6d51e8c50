# GNU General Public License v3.0 or later (see LICENSE)
"""Role storage on loop devices: what is empty is formatted, everything else is refused, and all is put back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BY_ID = Path("/dev/disk/by-id")
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: pgsizing.bench.storage, tasks_from: "{{ entry | default('main') }}"}
"""


def sh(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


class Volumes:
    """Loop devices with stable names, and the role run on them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.base = folder, folder / "base"
        self.devices: dict[str, str] = {}
        self.made = [p for p in (BY_ID.parent, BY_ID) if not p.exists()]
        BY_ID.mkdir(parents=True, exist_ok=True)

    def device(self, name: str, size: int = 128 * 2**20) -> str:
        """Make an empty device; return its stable name."""
        image = self.folder / f"{name}.img"
        with open(image, "wb") as file:
            file.truncate(size)
        self.devices[name] = sh("losetup", "--find", "--show", str(image))
        link = BY_ID / f"pgsizing-test-{os.getpid()}-{name}"
        link.symlink_to(self.devices[name])
        return str(link)

    def run(self, entry: str = "main", rc: int = 0, **options: Any) -> str:
        """Run the role; return what was printed."""
        playbook = self.folder / "play.yml"
        playbook.write_text(PLAY)
        given = {"entry": entry, "storage_base_dir": str(self.base), "ansible_python_interpreter": sys.executable, **options}
        words = [str(Path(sys.executable).with_name("ansible-playbook")), str(playbook), "-e", json.dumps(given)]
        environment = os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(words, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == rc, done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())

    def mounts(self) -> dict[str, list[str]]:
        """Mount points of the base folder: device, kind, options."""
        lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        return {w[1].removeprefix(f"{self.base}/"): [w[0], w[2], *w[3].split(",")] for w in lines if w[1].startswith(f"{self.base}/")}

    def close(self) -> None:
        for name, device in self.devices.items():
            subprocess.run(["losetup", "--detach", device], check=True)
            (BY_ID / f"pgsizing-test-{os.getpid()}-{name}").unlink()
        for path in reversed(self.made):
            path.rmdir()


@pytest.fixture
def volumes(tmp_path: Path) -> Iterator[Volumes]:
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("needs root and loop devices")
    made = Volumes(tmp_path)
    yield made
    made.run("teardown")
    assert made.mounts() == {}
    made.close()


def test_made_left_alone_and_put_back(volumes: Volumes) -> None:
    data, wal = volumes.device("data"), volumes.device("wal")
    read_ahead = Path("/sys/block", Path(volumes.devices["data"]).name, "queue/read_ahead_kb")
    before = read_ahead.read_text()
    wanted = {"data": {"devices": [data], "mount_options": "noatime,nodiratime", "read_ahead_kb": 512}, "wal": {"devices": [wal]}}
    volumes.run(storage_volumes=wanted)
    mounts = volumes.mounts()
    assert {role: m[:2] for role, m in mounts.items()} == {
        "clusters": [volumes.devices["data"], "ext4"],
        "wal": [volumes.devices["wal"], "ext4"],
    }
    assert {"noatime", "nodiratime"} <= set(mounts["clusters"])
    assert read_ahead.read_text() == "512\n"
    (volumes.base / "clusters/kept").touch()
    assert "changed=0" in volumes.run(storage_volumes=wanted)
    assert (volumes.base / "clusters/kept").exists()
    volumes.run("teardown")
    assert volumes.mounts() == {}
    assert read_ahead.read_text() == before
    assert list(volumes.base.iterdir()) == []
    volumes.run(storage_volumes=wanted)  # what was given back counts as empty again


def test_a_device_with_data_is_refused_and_by_leave_of_its_name_formatted(volumes: Volumes) -> None:
    data, wal = volumes.device("data"), volumes.device("wal")
    sh("mkfs.ext4", "-q", volumes.devices["wal"])
    wanted = {"data": {"devices": [data]}, "wal": {"devices": [wal]}}
    said = volumes.run(rc=2, storage_volumes=wanted)
    assert f"{wal} ({volumes.devices['wal']}) on localhost is not empty: it holds ext4. Nothing was changed." in said
    assert volumes.mounts() == {}  # the empty one was not touched either
    volumes.run(rc=2, storage_volumes=wanted, storage_wipe=[Path(data).name])
    volumes.run(storage_volumes=wanted, storage_wipe=[Path(wal).name])
    assert set(volumes.mounts()) == {"clusters", "wal"}


MIB = 2**20


@pytest.mark.parametrize(("size", "offset"), [(128 * MIB, 0), (128 * MIB, 128 * MIB - 512), (128 * MIB + 4608, 128 * MIB + 4096)])
def test_data_without_a_signature_is_data(size: int, offset: int, volumes: Volumes) -> None:
    data = volumes.device("data", size)
    with open(volumes.devices["data"], "r+b") as device:
        device.seek(offset)
        device.write(b"x" * 512)
    assert "holds data of an unknown kind" in volumes.run(rc=2, storage_volumes={"data": {"devices": [data]}})


def test_a_device_that_cannot_be_read_is_not_empty(volumes: Volumes) -> None:
    """The file behind it was cut: reading what is missing is an I/O error."""
    data = volumes.device("data")
    os.truncate(volumes.folder / "data.img", 100 * MIB)
    said = volumes.run(rc=2, storage_volumes={"data": {"devices": [data]}}, storage_wipe=[Path(data).name])
    assert f"on localhost cannot be used: it cannot be read at byte {127 * MIB}: Input/output error. Nothing was changed." in said


def test_the_end_of_a_device_of_any_size_is_given_back_empty(volumes: Volumes) -> None:
    wanted = {"data": {"devices": [volumes.device("data", 128 * MIB + 4608)]}}
    volumes.run(storage_volumes=wanted)
    with open(volumes.devices["data"], "r+b") as device:
        device.seek(128 * MIB + 4096)
        device.write(b"x" * 512)
    volumes.run("teardown")
    volumes.run(storage_volumes=wanted)


def test_a_volume_of_ours_is_mounted_again_after_a_restart_of_the_host(volumes: Volumes) -> None:
    """Even where its name is listed to be wiped: the list of a run that is resumed is still the same."""
    data, wal = volumes.device("data"), volumes.device("wal")
    wanted = {"data": {"devices": [data], "mount_options": "noatime,nodiratime"}, "wal": {"devices": [wal]}}
    volumes.run(storage_volumes=wanted)
    for folder in ("clusters", "wal"):
        (volumes.base / folder / f"kept-{folder}").touch()
        sh("umount", str(volumes.base / folder))  # which is all of a restart that the role can see
    volumes.run(storage_volumes=wanted, storage_wipe=[Path(data).name])
    assert {"noatime", "nodiratime"} <= set(volumes.mounts()["clusters"])
    assert all((volumes.base / folder / f"kept-{folder}").exists() for folder in ("clusters", "wal"))
    assert "changed=0" in volumes.run(storage_volumes=wanted)


def test_what_was_made_since_on_a_device_of_ours_is_refused_and_survives_the_teardown(volumes: Volumes) -> None:
    data, wal = volumes.device("data"), volumes.device("wal")
    wanted = {"data": {"devices": [data]}, "wal": {"devices": [wal]}}
    volumes.run(storage_volumes=wanted)
    for folder in ("clusters", "wal"):
        sh("umount", str(volumes.base / folder))
    sh("mkfs.ext4", "-q", "-F", volumes.devices["data"])
    said = volumes.run(rc=2, storage_volumes=wanted)
    assert (
        f"{data} ({volumes.devices['data']}) on localhost is not empty: it holds ext4, which is not what was made there for a run." in said
    )
    assert "changed=0" in said
    swapped = {"data": {"devices": [wal]}}
    assert "it holds ext4, which is not what was made there for a run" in volumes.run(rc=2, storage_volumes=swapped)
    said = volumes.run("teardown")
    assert f"{data} ({volumes.devices['data']}) holds what this role did not make: it is left alone (on localhost)" in said
    assert [sh("sh", "-c", f"blkid -p -o value -s TYPE {volumes.devices[name]}; true") for name in ("data", "wal")] == ["ext4", ""]


def test_a_device_in_use_is_refused_even_by_leave(volumes: Volumes, tmp_path: Path) -> None:
    data = volumes.device("data")
    sh("mkfs.ext4", "-q", volumes.devices["data"])
    (tmp_path / "elsewhere").mkdir()
    sh("mount", volumes.devices["data"], str(tmp_path / "elsewhere"))
    try:
        said = volumes.run(rc=2, storage_volumes={"data": {"devices": [data]}}, storage_wipe=[Path(data).name])
        assert f"cannot be used: it is mounted on {tmp_path}/elsewhere" in said
    finally:
        sh("umount", str(tmp_path / "elsewhere"))


def test_one_device_under_two_names_is_refused_before_it_is_touched(volumes: Volumes) -> None:
    data = volumes.device("data")
    other = Path(f"{data}-other")
    other.symlink_to(volumes.devices["data"])
    try:
        said = volumes.run(rc=2, storage_volumes={"data": {"devices": [data]}, "wal": {"devices": [str(other)]}})
    finally:
        other.unlink()
    assert f"{data} and {other} are one device, {volumes.devices['data']}. Nothing was changed." in said
    assert volumes.mounts() == {}


def test_a_label_may_hold_quotes(volumes: Volumes) -> None:
    data = volumes.device("data")
    sh("mkfs.ext4", "-q", "-L", 'my "x"', volumes.devices["data"])
    assert "is not empty" in volumes.run(rc=2, storage_volumes={"data": {"devices": [data]}})


def test_names_that_are_not_stable_or_not_there(volumes: Volumes) -> None:
    volumes.device("data")
    assert "give the device by its stable name" in volumes.run(rc=2, storage_volumes={"data": {"devices": [volumes.devices["data"]]}})
    said = volumes.run(rc=2, storage_volumes={"data": {"devices": [f"{BY_ID}/nvme-nosuch"]}})
    assert "there is no such block device" in said
