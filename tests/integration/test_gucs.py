# GNU General Public License v3.0 or later (see LICENSE)
"""Settings against a real server: values read as it reads them, catalogues equal to it, and the role ``gucs``."""

from __future__ import annotations

import json
import random
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import newest_bin_dir, running_cluster, sql
from support.playbook_run import REPOSITORY, Run

from ansible_collections.pgsizing.bench.plugins.module_utils import guc, guc_names, units
from ansible_collections.pgsizing.bench.plugins.module_utils.local_profile import local_profile
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue

MAJOR = newest_bin_dir().parent.name
COLUMNS = "name, setting, unit, vartype, context, min_val, max_val, enumvals, boot_val, source, sourcefile, pending_restart"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A running cluster that includes the file the role writes, described as the role postgres describes one."""
    home = tmp_path_factory.mktemp("gucs")
    with running_cluster(home, f"include_if_exists = '{home}/gucs.conf'\n") as started:
        (home / "pgpass").touch(0o600)
        os_user = "postgres" if started["run_prefix"] else home.owner()
        yield {**started, "gucs_file": str(home / "gucs.conf"), "passfile": str(home / "pgpass"), "os_user": os_user}


def rows(cluster: dict[str, Any], query: str) -> list[dict[str, Any]]:
    return list(json.loads(sql(cluster, f"SELECT coalesce(json_agg(x), '[]') FROM ({query}) x")))


def pg_ctl(cluster: dict[str, Any], *arguments: str) -> None:
    argv = [*cluster["run_prefix"], f"{cluster['bin_dir']}/pg_ctl", "-D", cluster["data_dir"], "-w", *arguments]
    subprocess.run(argv, check=True, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask_postgres(cluster: dict[str, Any], name: str, *options: str) -> str:
    """Return what ``postgres -C`` says, which reads the configuration as a start would."""
    argv = [*cluster["run_prefix"], f"{cluster['bin_dir']}/postgres", "-D", cluster["data_dir"], *options, "-C", name]
    return subprocess.run(argv, check=True, cwd="/", capture_output=True, text=True).stdout.strip()


def play(cluster: dict[str, Any], directory: Path, settings: list[dict[str, Any]], *entries: str, options: tuple[str, ...] = ()) -> str:
    """Run entry points of the role in a play; afterwards ``gucs_check`` lies in ``directory/check.json``."""
    variables = {"gucs_cluster": cluster, "gucs_settings": settings}
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.include_role": {"name": "pgsizing.bench.gucs", "tasks_from": entry}, "vars": variables} for entry in entries
    ]
    keep = {"content": "{{ gucs_check | to_json }}", "dest": str(directory / "check.json"), "mode": "0600"}
    tasks.append({"ansible.builtin.copy": keep, "when": "gucs_check is defined"})
    playbook = directory / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}]))
    run = Run(playbook, *options)
    assert run.end() == 0, run.output + run.errors
    return run.output


def checked(directory: Path) -> dict[str, Any]:
    return dict(json.loads((directory / "check.json").read_text()))


def resolved(asked: dict[str, Any]) -> list[dict[str, Any]]:
    settings, _, problems = guc.resolve(asked, catalogue.load("postgres", MAJOR), origin="test")
    assert problems == []
    return settings


# --- the catalogue and the parser ----------------------------------------------------------------------------------


def test_the_tool_finds_on_this_server_what_is_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from what a distribution builds in and what the server only reports, a catalogue made here is the shipped one."""
    tool = runpy.run_path(str(REPOSITORY / "tools/catalogues.py"))
    monkeypatch.setitem(tool["catalogue"].__globals__, "TARGET", tmp_path)
    tool["catalogue"](int(MAJOR), newest_bin_dir(), "nobody")
    made = json.loads((tmp_path / f"postgres-{MAJOR}.json").read_text())
    shipped = catalogue.load("postgres", MAJOR)
    assert made["origin"].startswith(f"pg_settings of postgres (PostgreSQL) {MAJOR}.")
    distribution = {"extension_destdir", "krb_server_keyfile", "unix_socket_directories"}
    here, there = (set(c["settings"]) - distribution for c in (made, shipped))
    # A minor release may add a setting; none takes one away.
    assert here == there if made["server_version"] == shipped["server_version"] else here <= there or there <= here
    for name in here & there:
        ours, theirs = ({"enumvals": [], "build": [], **each} for each in (made["settings"][name], shipped["settings"][name]))
        if ours["context"] != "internal":
            values = {*ours.pop("enumvals"), *ours.pop("build")}
            assert values == {*theirs.pop("enumvals"), *theirs.pop("build")}, name
            assert {"name": name, **ours} == theirs


TRY = """
CREATE OR REPLACE FUNCTION pg_temp.try(name text, value text, OUT setting text, OUT shown text) AS $$
BEGIN
    PERFORM set_config(name, value, false);
    shown := current_setting(name);
    SELECT s.setting INTO setting FROM pg_settings s WHERE s.name = try.name;
EXCEPTION WHEN OTHERS THEN setting := NULL;
END $$ LANGUAGE plpgsql;
"""
NUMBERS = ["1", "0", "-1", "64", "100", "1024", "1.5", "0.1", ".5", "30.1", "2.5", "1e3", "0x40", "010", "08", "1e-3", "2147483647", ""]
UNITS = ["", "B", "kB", "MB", "GB", "TB", "us", "ms", "s", "min", "h", "d", "KB", "mb", "kBs", " kB", "kB ", "\tmin "]
NAMES = ("work_mem", "temp_buffers", "effective_cache_size", "statement_timeout", "log_temp_files", "log_min_duration_statement")
REALS = ("vacuum_cost_delay", "random_page_cost", "seq_page_cost")
OTHERS = {
    "enable_sort": ("t", "TRUE", "tr", "y", "ye", "yes", "on", "1", "f", "fal", "n", "no", "of", "off", "0", "o", "", "2", " on", "onn"),
    "synchronous_commit": ("on", "OFF", "true", "yes", "no", "0", "1", "local", "remote_write", "remote", "t", " on"),
    "wal_compression": ("on", "true", "pglz", "PGLZ", "off", "0", "gzip"),
    "bytea_output": ("hex", "Escape", "on"),
    "client_min_messages": ("debug", "debug2", "info", "NOTICE", "fatal", "on"),
}


def test_values_are_read_as_the_server_reads_them(cluster: dict[str, Any]) -> None:
    """Every number with every unit, and the spellings of bools and enums: same value, same text, or refused by both."""
    draw = random.Random(5)
    tried = [(name, number + unit) for name in NAMES + REALS for number in NUMBERS for unit in UNITS]
    tried += [(name, f"{draw.uniform(0, 5000):.{draw.randint(0, 6)}f}{draw.choice(UNITS)}") for name in NAMES for _ in range(150)]
    tried += [(name, text) for name, texts in OTHERS.items() for text in texts]
    answers: list[dict[str, Any]] = []
    for first in range(0, len(tried), 1000):
        values = ", ".join(f"({i}, '{name}', '{text}')" for i, (name, text) in enumerate(tried[first : first + 1000]))
        query = f"SELECT t.* FROM (VALUES {values}) v(i, name, value), LATERAL pg_temp.try(v.name, v.value) t ORDER BY v.i"
        answers += json.loads(sql(cluster, f"{TRY} SELECT json_agg(x) FROM ({query}) x"))
    settings = catalogue.load("postgres", MAJOR)["settings"]
    assert len(answers) == len(tried) > 3000
    for (name, text), answer in zip(tried, answers, strict=True):
        try:
            ours: dict[str, Any] | None = guc.parse_value(settings[name], text)
        except ValueError:
            ours = None
        assert (ours is None) == (answer["setting"] is None), (name, text, answer)
        if ours is not None:
            assert guc.equal(settings[name], ours["text"], answer["setting"]), (name, text, answer, ours)
            if settings[name]["vartype"] != "real":
                assert ours["text"] == answer["shown"], (name, text)


@pytest.mark.skipif(int(MAJOR) < 15, reason="shared_memory_size came with 15")
def test_c044_the_estimate_of_shared_memory_holds_the_server(cluster: dict[str, Any]) -> None:
    pg_ctl(cluster, "stop")  # a running server does not let itself be asked
    try:
        for buffers, connections in (("128MB", 100), ("1GB", 1000), ("8GB", 300), ("24GB", 100)):
            asked = resolved({"shared_buffers": buffers, "max_connections": connections})
            estimate = guc.shared_memory_bytes({setting["name"]: setting for setting in asked})
            options = ("-c", f"shared_buffers={buffers}", "-c", f"max_connections={connections}")
            real = units.parse_size(f"{ask_postgres(cluster, 'shared_memory_size', *options)}MB")
            assert real <= estimate <= 1.2 * real
    finally:
        pg_ctl(cluster, "start", "-l", cluster["log"])


# --- the role ------------------------------------------------------------------------------------------------------


def test_a_local_profile_starts_and_is_in_effect(cluster: dict[str, Any], tmp_path: Path) -> None:
    """The profile of a small machine: written, accepted, in effect after the restart, and unchanged the second time."""
    profile = {row["name"]: row["value"] for row in local_profile(2, GIB, 5 * GIB, int(MAJOR))}
    settings = resolved({**profile, "archive_command": "echo 'it''s' \\ %p", "wal_buffers": -1})

    first = play(cluster, tmp_path, settings, "main", "check")
    assert "changed=" in first
    waiting = checked(tmp_path)["findings"]
    assert {found["code"] for found in waiting} == {"settings_not_in_effect"}
    assert not any(found["evidence"]["name"] == "port" for found in waiting)
    assert Path(cluster["gucs_file"]).owner() == cluster["os_user"]

    for setting in settings:
        assert ask_postgres(cluster, setting["name"])  # fails where a start would
    pg_ctl(cluster, "restart", "-l", cluster["log"])

    second = play(cluster, tmp_path, settings, "main", "check")
    result = checked(tmp_path)
    assert result["findings"] == []
    assert result["server_version"].startswith(f"{MAJOR}.")
    assert result["server_version_num"] // 10000 == int(MAJOR)
    listed = {row["name"]: row["text"] for row in result["non_default"]}
    assert listed["shared_buffers"] == "256MB"
    assert "port" not in listed and "wal_buffers" not in listed
    # Only the copy of the fact may have changed.
    assert "TASK [pgsizing.bench.gucs : Write the settings] ****" in second
    assert "changed: [localhost]" not in second.split("Write the settings]")[1].split("TASK")[0]


def test_c041_reload_is_not_restart(cluster: dict[str, Any], tmp_path: Path) -> None:
    settings = resolved({"shared_buffers": "24MB", "work_mem": "5MB"})
    play(cluster, tmp_path, settings, "main")
    sql(cluster, "SELECT pg_reload_conf()")
    found = guc.check_effect(settings, wait_for(cluster, "work_mem", "5120"))
    assert ["shared_buffers = 24MB waits for a restart" in f["message"] for f in found if f["evidence"]["name"] == "shared_buffers"] == [
        True
    ]
    assert not [f for f in found if f["evidence"]["name"] == "work_mem"]
    pg_ctl(cluster, "restart", "-l", cluster["log"])
    assert guc.check_effect(settings, rows(cluster, f"SELECT {COLUMNS} FROM pg_settings")) == []


def test_auto_conf_is_detected(cluster: dict[str, Any], tmp_path: Path) -> None:
    settings = resolved({"work_mem": "5MB"})
    play(cluster, tmp_path, settings, "main")
    sql(cluster, "ALTER SYSTEM SET work_mem = '7MB'")
    try:
        sql(cluster, "SELECT pg_reload_conf()")
        wait_for(cluster, "work_mem", "7168")
        play(cluster, tmp_path, settings, "check")
        found = {f["code"]: f["message"] for f in checked(tmp_path)["findings"] if f["evidence"]["name"] == "work_mem"}
        assert found["guc_auto_conf"] == "work_mem = 7MB stands in postgresql.auto.conf, which overrides 5MB"
        assert "the server has 7MB" in found["settings_not_in_effect"]
    finally:
        sql(cluster, "ALTER SYSTEM RESET work_mem")
        sql(cluster, "SELECT pg_reload_conf()")


def test_a_value_that_this_build_lacks_is_reported_with_the_server_s_reason(cluster: dict[str, Any], tmp_path: Path) -> None:
    lost = [{**resolved({"bytea_output": "hex"})[0], "text": "base64"}]
    play(cluster, tmp_path, lost, "main", "check")
    (found,) = (f for f in checked(tmp_path)["findings"] if f["evidence"]["name"] == "bytea_output")
    assert found["code"] == "settings_not_in_effect"
    assert "setting could not be applied" in found["message"]
    play(cluster, tmp_path, [], "main")


def test_check_mode_changes_nothing_and_does_not_fail(cluster: dict[str, Any], tmp_path: Path) -> None:
    before = Path(cluster["gucs_file"]).read_text()
    play(cluster, tmp_path, resolved({"work_mem": "9MB"}), "main", "check", options=("--check",))
    assert Path(cluster["gucs_file"]).read_text() == before


def test_c046_what_the_tables_call_foreign_is_unknown_to_the_server(cluster: dict[str, Any]) -> None:
    known = {row["name"].lower() for row in rows(cluster, "SELECT name FROM pg_settings")}
    assert not known & guc_names.EPAS_NAMES
    assert not known & {name for name, (version, _, _) in guc_names.REMOVED.items() if float(version) <= int(MAJOR)}


def wait_for(cluster: dict[str, Any], name: str, setting: str) -> list[dict[str, Any]]:
    """Return the rows of ``pg_settings`` once a new session sees the value (a reload is not immediate)."""
    for _ in range(200):
        found = rows(cluster, f"SELECT {COLUMNS} FROM pg_settings")
        if any(row["name"] == name and row["setting"] == setting for row in found):
            return found
    raise AssertionError(f"{name} did not become {setting}")
