# GNU General Public License v3.0 or later (see LICENSE)
"""The built and installed collection, from another folder, without the checkout's configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.e2e import REPOSITORY, SHORT, Place

GALAXY = Path(sys.executable).with_name("ansible-galaxy")


def test_an_installed_collection_leaves_a_trial(prepared: Place, tmp_path: Path) -> None:
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

    prepared.environment = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}
    try:
        run = prepared.run(*SHORT, playbook="pgsizing.bench.benchmark", cwd=elsewhere)
    finally:
        prepared.environment = {}
    (trial,) = run.trials.values()
    assert trial["verdict"] in ("valid", "suspect")
    assert trial["environment"]["collection"] == {"version": root.joinpath("MANIFEST.json").read_text() and "0.1.0", "git_commit": None}
    assert "callbacks_enabled = pgsizing.bench.artifacts, pgsizing.bench.progress" in run.words
    assert run.journal["end"]["state"] == "finished"
    assert (run.directory / "report.html").exists()
    assert not (run.directory / "events.jsonl").exists()  # the callback is off, and nothing depends on it
