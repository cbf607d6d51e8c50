# GNU General Public License v3.0 or later (see LICENSE)
"""What PLAN gathers from the files that ship and from the controller."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.pgsizing.bench.plugins.plugin_utils import site as sites

ROOT = Path(__file__).parents[4]


def test_published_runs_by_id() -> None:
    runs = sites.published()
    seed = runs["pgbench-shared-buffers-2023"]
    assert seed["recipe"]["scale"] == 50
    assert set(runs) == {path.stem for path in (ROOT / "published").glob("*.yml")}
    for name, run in runs.items():
        assert run["title"], name
        assert run["source"], name


def test_a_site_has_the_published_runs_and_what_can_be_run() -> None:
    inventory = {"given": False, "groups": {}, "local_only": True}
    site = sites.site(sizes={}, profiles={}, inventory=inventory, port=55432)
    assert "pgbench-shared-buffers-2023" in site.recipes
    assert set(site.workloads) >= {"pgbench"}
    assert site.majors == ("13", "14", "15", "16", "17", "18")
    assert site.machine["cores"] >= 1
    assert site.now > 1_700_000_000


def test_role_variables() -> None:
    names = sites.role_variables()
    assert {"plan_size", "plan_own_sizes", "postgres_bin_dirs", "trial_id", "dataset_reset", "pgbench_phase"} <= names
    assert "size" not in names


def test_the_collection_knows_its_version_and_commit() -> None:
    found = sites.collection()
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["version"] or "")
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", found["git_commit"] or "")


def test_an_installed_collection_has_a_manifest_and_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "MANIFEST.json").write_text('{"collection_info": {"version": "9.8.7"}}')
    monkeypatch.setattr(sites, "ROOT", tmp_path)
    assert sites.collection() == {"version": "9.8.7", "git_commit": None}


def test_a_copy_without_git_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "galaxy.yml").write_text("version: 1.2.3\n")
    monkeypatch.setattr(sites, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert sites.collection() == {"version": "1.2.3", "git_commit": None}
