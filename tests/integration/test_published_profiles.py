# GNU General Public License v3.0 or later (see LICENSE)
"""The published profiles on the installed server: it starts with them, and each setting is in effect."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.cluster import newest_bin_dir, running_cluster, sql
from support.shipped import PROFILES

from ansible_collections.pgsizing.bench.plugins.module_utils import guc
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue

#: The test's machine is smaller than the published ones.
SMALL = {"shared_buffers": "32MB"}
ROWS = "SELECT json_agg(s) FROM pg_settings s"


@pytest.mark.parametrize(
    ("profile", "size"),
    [
        ("as_published", "small"),
        ("as_published", "medium"),
        ("as_intended", "small"),
        ("as_intended", "xl"),
        ("published_default", "small"),
    ],
)
def test_the_server_starts_with_the_profile_and_knows_each_name(profile: str, size: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Path(tmp_path_factory.mktemp("cluster"))
    major = newest_bin_dir().parent.name
    document = PROFILES[profile]
    asked = {
        name: value[size] if isinstance(value, dict) else value
        for name, value in document["settings"].items()
        if "left_out" not in document["rows"][name]
    }
    settings, _, problems = guc.resolve(
        {**asked, **SMALL}, catalogue.load("postgres", major), origin="profile", strict=False, locales=["C"]
    )
    assert problems == []
    with running_cluster(home, guc.render(settings)) as cluster:
        assert guc.check_effect(settings, json.loads(sql(cluster, ROWS))) == []
        for setting in settings:
            shown = [f"{cluster['bin_dir']}/postgres", "-D", cluster["data_dir"], "-C", setting["name"]]
            if "." not in setting["name"]:  # settings of libraries are not known to -C
                subprocess.run([*cluster["run_prefix"], *shown], check=True, capture_output=True, cwd="/")
