# GNU General Public License v3.0 or later (see LICENSE)
"""The built and installed collection, from another folder, without the checkout's configuration and callbacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.e2e import REPOSITORY, SHORT, Place, codes, read

GALAXY = Path(sys.executable).with_name("ansible-galaxy")


def test_an_installed_collection_leaves_a_trial(prepared: Place, tmp_path: Path) -> None:
    """It does so after a run that held the host against a second one, and was ended by ``kill``.

    What an unstartable variant leaves behind when it is the last keeps neither from starting.
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    built, installed, elsewhere = tmp_path / "built", tmp_path / "collections", tmp_path / "elsewhere"
    elsewhere.mkdir()

    def galaxy(*words: str) -> None:
        done = subprocess.run([GALAXY, "collection", *words], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    galaxy("build", str(REPOSITORY), "--output-path", str(built))
    (archive,) = built.glob("pgsizing-bench-*.tar.gz")
    galaxy("install", str(archive), "--offline", "--no-deps", "-p", str(installed))
    root = installed / "ansible_collections" / "pgsizing" / "bench"
    assert not [name for name in ("tests", ".venv", "results", "ansible.cfg", "collections", "benchmarks") if (root / name).exists()]

    (settings,) = prepared.base_dir.glob("clusters/*/gucs.conf")
    settings.write_text("huge_pages = on\nhuge_page_size = 1GB\n")
    prepared.environment = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}
    here: dict[str, Any] = {"playbook": "pgsizing.bench.benchmark", "cwd": elsewhere}
    try:
        ended = prepared.start(*SHORT, "duration=30", **here)
        ended.wait_step("measured")
        second = prepared.run(*SHORT, rc=None, **here)
        going_on = ended.process.poll() is None
        ended.signal(signal.SIGTERM)
        assert ended.end() != 0
        prepared.quiet()
        run = prepared.run(*SHORT, **here)
    finally:
        prepared.environment = {}
    assert going_on and second.trials == {}
    assert f"held by the experiment {ended.id}" in second.words
    assert f"-e resume={ended.id}" in second.words
    assert [codes(t, "aborted") for t in ended.trials.values()] == [{"interrupted"}]
    assert ended.journal["end"] is None  # nobody was left to write it
    (trial,) = run.trials.values()
    assert trial["verdict"] in ("valid", "suspect")
    assert trial["environment"]["collection"] == {"version": read(root / "MANIFEST.json")["collection_info"]["version"], "git_commit": None}
    assert "callbacks_enabled = pgsizing.bench.artifacts, pgsizing.bench.progress" in run.words
    assert run.journal["end"]["state"] == "finished"
    assert (run.directory / "report.html").exists()
    assert not (run.directory / "events.jsonl").exists()  # the callback is off, and nothing depends on it
