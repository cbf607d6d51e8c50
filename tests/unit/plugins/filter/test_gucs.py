# GNU General Public License v3.0 or later (see LICENSE)
"""What is kept of the settings that were read from a server."""

from __future__ import annotations

from typing import Any

from ansible_collections.pgsizing.bench.plugins.filter.gucs import check


def row(name: str, setting: str, **more: Any) -> dict[str, Any]:
    plain = {"unit": None, "vartype": "string", "context": "internal", "enumvals": None, "boot_val": None, "source": "default"}
    return {"name": name, "setting": setting, **plain, "sourcefile": None, "pending_restart": False, **more}


ROWS = [
    row("server_version", "15.20"),
    row("server_version_num", "150020"),
    row("work_mem", "8192", unit="kB", vartype="integer", source="configuration file", boot_val="4096", pending_restart=True),
]


def test_a_server_of_ours_is_judged() -> None:
    kept = check({"settings": ROWS, "file_settings": []}, [])
    assert [f["code"] for f in kept["findings"]] == ["settings_not_in_effect"]


def test_a_server_that_is_not_ours_is_described_and_not_judged() -> None:
    kept = check({"settings": ROWS, "file_settings": None}, [])
    assert kept["findings"] == []
    assert [(s["name"], s["text"]) for s in kept["non_default"]] == [("work_mem", "8MB")]
    assert (kept["server_version"], kept["server_version_num"], kept["huge_pages_in_use"]) == ("15.20", 150020, None)
