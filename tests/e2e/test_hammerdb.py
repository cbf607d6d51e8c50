# GNU General Public License v3.0 or later (see LICENSE)
"""TPROC-C by HammerDB as a user starts it; a stand-in replays what the real one printed (``support/hammerdb_standin.tcl``)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from support import hammerdb_standin
from support.cluster import newest_bin_dir
from support.e2e import REPOSITORY, Place, Run, codes, rows

#: The stand-in has four users, as the captured run.
SHORT = ("workload=tprocc", "load_generator=hammerdb", "warehouses=1", "clients=4", "duration=12", "ramp_up=6", "repeats=1")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    here = Place()
    yield here
    here.run(playbook="playbooks/teardown.yml")
    assert not here.base_dir.exists()
    here.remove()


@pytest.fixture(scope="module")
def archive(place: Place) -> tuple[Path, str]:
    """A release archive of the stand-in, which makes the rows that it says it makes, and its SHA-256."""
    files, made = REPOSITORY / "roles/tprocc/files", place.root / "HammerDB-4.12"
    hammerdb_standin.install(made, psql=str(newest_bin_dir() / "psql"), builder=files)
    path = place.root / "HammerDB-4.12-Linux.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(made, made.name)
    return path, sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def measured(place: Place, archive: tuple[Path, str]) -> Run:
    path, checksum = archive
    return place.run(*SHORT, "time_profile=true", {"hammerdb_archive": str(path), "hammerdb_sha256": checksum})


def test_plan_names_the_load_generator(place: Place) -> None:
    run = place.run(*SHORT, "--check")
    assert "tprocc by hammerdb, headline metric NOPM" in run.words


def test_another_generator_is_refused(place: Place) -> None:
    run = place.run("workload=tprocc", "load_generator=hamerdb", "--check", rc=None)
    assert "'hamerdb' does not run tprocc; there is builtin and hammerdb" in run.words


def is_valid_but_for_neighbours(trial: dict[str, Any]) -> bool:
    """Other tests run beside, which the trial is right to say."""
    return trial["verdict"] in ("valid", "suspect") and codes(trial, "suspect") <= {"other_load"}


def test_trial(measured: Run) -> None:
    """Figures, findings and series are where those of every workload are; the window is the measured one, not the job."""
    [trial] = measured.trials.values()
    assert (trial["headline"]["metric"], trial["headline"]["value"]) == ("nopm", 27220)
    assert is_valid_but_for_neighbours(trial)
    assert trial["load_generator"]["name"] == "hammerdb" and trial["comparison_key"]["load_generator"] == ["hammerdb", "4.12"]
    assert [s["name"] for s in trial["steps"]] == ["ramp_up", "measured", "after"]
    assert [row["name"] for row in trial["latency"]["scripts"]] == ["neword", "payment", "delivery", "slev", "ostat"]
    assert {"profile_doubled", "driver_on_server"} <= codes(trial)
    series = rows(measured.directory / "trials" / trial["trial_id"] / trial["series"]["path"])
    assert sum(bool(row["nopm"]) for row in series) >= 9
    assert {c["name"] for c in trial["series"]["columns"]} >= {"nopm", "tpm", "cpu_user"}
    raw = measured.directory / "trials" / trial["trial_id"] / "raw"
    assert {p.name for p in raw.iterdir()} >= {"measured.stdout", "measured.stderr", "run.tcl", "hammerdb.sh", "counts.sql", "after.stdout"}


def test_data_set_is_built_by_hammerdb_and_checked(measured: Run) -> None:
    [raw] = measured.directory.glob("datasets/*/raw")
    assert {p.name for p in raw.iterdir()} >= {"load.stderr", "build.tcl", "verify.stdout", "checkschema.stderr"}
    events = [e for e in measured.progress() if e.get("step") == "load" and e.get("percent")]
    assert events and events[-1]["percent"] > 50


def test_the_data_are_checked_without_hammerdb(place: Place, measured: Run) -> None:
    """Nothing of how HammerDB was had is said again."""
    assert measured.trials
    assert "warehouses: all ten conditions hold" in place.run(playbook="playbooks/check_data.yml").words


def test_live_line_and_report(measured: Run) -> None:
    rates = [e["rate"] for e in measured.progress() if e.get("step") == "measured" and e.get("rate")]
    assert rates and all(300 < rate < 2500 for rate in rates)
    assert "27,220" in (measured.directory / "report.md").read_text()


def test_data_set_and_program_are_used_again(place: Place, measured: Run, archive: tuple[Path, str]) -> None:
    """The archive is gone, the installation is not; and our own driver measures on a data set of its own."""
    assert measured.trials
    again = place.run(*SHORT, {"hammerdb_sha256": archive[1], "hammerdb_archive": "/nowhere.tar.gz"})
    [trial] = again.trials.values()
    assert is_valid_but_for_neighbours(trial) and not list(again.directory.glob("datasets/*/raw"))
