# GNU General Public License v3.0 or later (see LICENSE)
"""Settings read, translated, checked, written and compared; the cases of kind c by their number."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import guc
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, KIB, MIB
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue


class Outcome:
    """What ``resolve`` returned, by name and by code."""

    def __init__(self, settings: list[dict[str, Any]], findings: list[dict[str, Any]], problems: list[str]) -> None:
        self.settings = {setting["name"]: setting for setting in settings}
        self.findings, self.problems = findings, problems

    @property
    def texts(self) -> dict[str, str]:
        return {name: setting["text"] for name, setting in self.settings.items()}

    @property
    def codes(self) -> list[str]:
        return [found["code"] for found in self.findings]

    @property
    def messages(self) -> str:
        return "\n".join(found["message"] for found in self.findings)


def resolve(asked: dict[str, Any], major: int = 15, **options: Any) -> Outcome:
    return Outcome(*guc.resolve(asked, catalogue.load("postgres", str(major)), **{"origin": "gucs", **options}))


def entry(name: str, major: int = 15) -> dict[str, Any]:
    return catalogue.load("postgres", str(major))["settings"][name]


def by_name(asked: dict[str, Any], major: int = 15) -> dict[str, dict[str, Any]]:
    outcome = resolve(asked, major)
    assert outcome.problems == []
    return outcome.settings


# --- one value ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "raw", "text", "value"),
    [
        ("shared_buffers", "24GB", "24GB", 3145728),
        ("work_mem", "1.5MB", "1536kB", 1536),
        ("max_connections", 300, "300", 300),
        ("max_connections", "0x64", "100", 100),
        ("wal_buffers", -1, "-1", -1),
        ("random_page_cost", 1.1, "1.1", 1.1),
        ("random_page_cost", 4, "4", 4),
        ("vacuum_cost_delay", "500us", "500us", 0.5),
        ("fsync", False, "off", False),
        ("fsync", "yes", "on", True),
        ("fsync", "T", "on", True),
        ("fsync", 0, "off", False),
        ("fsync", "of", "off", False),
        ("synchronous_commit", False, "off", "off"),
        ("synchronous_commit", "Remote_Apply", "remote_apply", "remote_apply"),
        ("huge_pages", "true", "on", "on"),
        ("huge_pages", True, "on", "on"),
        ("wal_level", "hot_standby", "replica", "replica"),
        ("wal_compression", "on", "pglz", "pglz"),
        ("wal_compression", "zstd", "zstd", "zstd"),  # only in builds with zstd: the live server has the last word
        ("client_min_messages", "debug", "debug2", "debug2"),
        ("search_path", ["app", "public"], "app, public", "app, public"),
        ("archive_command", "cp %p /a/it's", "cp %p /a/it's", "cp %p /a/it's"),
        ("application_name", 7, "7", "7"),
    ],
)
def test_values(name: str, raw: Any, text: str, value: Any) -> None:
    parsed = guc.parse_value(entry(name), raw)
    assert (parsed["text"], parsed["value"], parsed["raw"]) == (text, value, raw)


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        ("max_connections", 0, "0 is outside 1 .. 262143"),
        ("shared_buffers", "64kB", "64kB is outside 128kB .. 8TB"),
        ("shared_buffers", 15, r"15 \(120kB\) is outside 128kB .. 8TB"),
        ("checkpoint_timeout", "10s", "10s is outside 30s .. 1d"),
        ("checkpoint_completion_target", 1.5, "1.5 is outside 0 .. 1"),
        ("work_mem", "64mb", "write 64MB"),
        ("work_mem", True, "takes a number, not on"),
        ("work_mem", None, "no value"),
        ("work_mem", {"a": 1}, "not a mapping"),
        ("max_connections", "100kB", "without unit"),
        ("random_page_cost", "1,1", "'1,1' is not a number"),
        ("checkpoint_completion_target", "90%", "'90%' is not a number"),
        ("fsync", "maybe", "not on or off"),
        ("fsync", "o", "not on or off"),
        ("wal_level", "full", "not one of minimal, replica, logical"),
        ("wal_level", True, "not one of minimal, replica, logical"),
        ("wal_compression", "gzip", "not one of pglz, on, off, lz4, zstd"),
        ("search_path", False, "write it in quotes"),
        ("search_path", "a\0b", "zero byte"),
    ],
)
def test_values_refused(name: str, raw: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        guc.parse_value(entry(name), raw)


def test_log_connections_became_a_text_in_18() -> None:
    assert guc.parse_value(entry("log_connections", 17), True)["value"] is True
    assert guc.parse_value(entry("log_connections", 18), True)["text"] == "on"
    assert guc.parse_value(entry("log_connections", 18), ["receipt", "setup_durations"])["text"] == "receipt, setup_durations"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("'24GB'", "24GB"),
        (" '24GB'  # a quarter", "24GB"),
        ("''", ""),
        (r"'cp ''%p'' C:\\a\n\'\101'", "cp '%p' C:\\a\n'A"),
        ("'/usr/bin/cp' '%p'", "'/usr/bin/cp' '%p'"),  # quotes of a shell
        ("'open", "'open"),
        ('"$user", public', '"$user", public'),
        (24, 24),
        (None, None),
        (["a"], ["a"]),
    ],
)
def test_values_quoted_as_in_a_configuration_file(raw: Any, value: Any) -> None:
    assert guc.unquoted(raw) == value


@pytest.mark.parametrize("text", ["cp '%p' C:\\a\nb", "%m [%p] ", "it''s", "", "\\1", "'x'"])
def test_what_is_written_is_read_again(text: str) -> None:
    written = guc.render([{"name": "archive_command", "text": text}]).splitlines()[1]
    assert guc.unquoted(written.partition(" = ")[2]) == text


def test_quotes_and_comments_of_a_configuration_file() -> None:
    asked = {
        "shared_buffers": "3145728  # blocks",
        "checkpoint_timeout": "'15min' # longer",
        "wal_level": "'replica'",
        "fsync": "off  # never",
        "wal_keep_segments": "'10'",
        "log_line_prefix": "'%m [%p%l] # '",
        "application_name": "a # b",
    }
    outcome = resolve(asked)
    assert outcome.texts == {
        "shared_buffers": "24GB",
        "checkpoint_timeout": "15min",
        "wal_level": "replica",
        "fsync": "off",
        "wal_keep_size": "160MB",
        "log_line_prefix": "%m [%p%l] # ",
        "application_name": "a # b",
    }
    assert (outcome.codes, outcome.problems) == (["guc_unitless", "guc_renamed"], [])
    assert "3145728 = 24GB" in outcome.messages
    assert outcome.settings["checkpoint_timeout"]["raw"] == "'15min' # longer"
    assert resolve({"archive_command": "'(disabled)'"}).codes == ["guc_cleaned"]
    assert guc.import_settings({"max_wal_size": "'64'  # segments"}, "9.6")[0] == {"max_wal_size": "1GB"}


# --- the cases ---------------------------------------------------------------

C034 = {
    "shared_buffers": (3145728, "24GB", 24 * GIB),
    "effective_cache_size": (4841216, "37822MB", 37822 * MIB),
    "work_mem": (449536, "439MB", 439 * MIB),
    "max_wal_size": (102400, "100GB", 100 * GIB),
    "checkpoint_timeout": (900, "15min", None),
    "wal_buffers": (8192, "64MB", 64 * MIB),
}


@pytest.mark.parametrize("major", [13, 15, 18])
@pytest.mark.parametrize("spelled", [int, str])
def test_c034_bare_numbers_are_read_in_the_base_unit_and_written_with_one(major: int, spelled: type) -> None:
    outcome = resolve({name: spelled(raw) for name, (raw, _, _) in C034.items()}, major)
    assert outcome.problems == []
    assert outcome.codes == ["guc_unitless"] * 6
    for name, (raw, text, size) in C034.items():
        setting = outcome.settings[name]
        assert (setting["raw"], setting["text"], setting["bytes"]) == (spelled(raw), text, size)
        assert f"{raw} = {text}" in outcome.messages
    assert "shared_buffers = '24GB'" in guc.render(outcome.settings.values())


def test_c034_the_slip_is_a_factor_of_eight() -> None:
    setting = by_name({"shared_buffers": "3145728kB"})["shared_buffers"]
    assert (setting["value"], setting["text"], setting["bytes"]) == (393216, "3GB", 3 * GIB)


def test_c034_a_number_of_an_unknown_setting_is_refused() -> None:
    assert "did you mean shared_buffers?" in resolve({"shared_bufers": 3145728}).problems[0]


@pytest.mark.parametrize("raw", [0, -1, "0"])
def test_c034_switches_are_no_amounts(raw: Any) -> None:
    outcome = resolve({"log_temp_files": raw})
    assert (outcome.codes, outcome.texts["log_temp_files"]) == ([], str(raw))


@pytest.mark.parametrize("major", [13, 15, 18])
def test_c035_wal_keep_segments(major: int) -> None:
    outcome = resolve({"wal_keep_segments": 10}, major)
    assert outcome.texts == {"wal_keep_size": "160MB"}
    assert outcome.settings["wal_keep_size"]["replaces"] == "wal_keep_segments"
    assert outcome.settings["wal_keep_size"]["raw"] == 10
    assert outcome.codes == ["guc_renamed"]
    assert f"wal_keep_segments = 10 is wal_keep_size = 160MB in PostgreSQL {major}" in outcome.messages
    assert resolve({"wal_keep_segments": 10}, major, wal_segment_size=64 * MIB).texts == {"wal_keep_size": "640MB"}


@pytest.mark.parametrize(
    ("asked", "major", "settings", "codes"),
    [
        ({"checkpoint_segments": 64}, 15, {"max_wal_size": "3GB"}, ["guc_renamed"]),
        ({"replication_timeout": "60s"}, 15, {"wal_sender_timeout": "1min"}, ["guc_renamed"]),
        ({"min_parallel_relation_size": "8MB"}, 15, {"min_parallel_table_scan_size": "8MB"}, ["guc_renamed"]),
        ({"sort_mem": 65536}, 18, {"work_mem": "64MB"}, ["guc_renamed", "guc_unitless"]),
        ({"vacuum_mem": "1GB"}, 13, {"maintenance_work_mem": "1GB"}, ["guc_renamed"]),
        ({"force_parallel_mode": True}, 15, {"force_parallel_mode": "on"}, []),
        ({"force_parallel_mode": True}, 16, {"debug_parallel_query": "on"}, ["guc_renamed"]),
        ({"debug_parallel_query": "regress"}, 15, {"force_parallel_mode": "regress"}, ["guc_renamed"]),
        ({"ssl_ecdh_curve": "X25519"}, 18, {"ssl_groups": "X25519"}, ["guc_renamed"]),
        ({"ssl_groups": "X25519"}, 17, {"ssl_ecdh_curve": "X25519"}, ["guc_renamed"]),
        ({"wal_compression": "pglz"}, 14, {"wal_compression": "on"}, ["guc_renamed"]),
        ({"wal_compression": "pglz"}, 15, {"wal_compression": "pglz"}, []),
        ({"trigger_file": "/f"}, 15, {"promote_trigger_file": "/f"}, ["guc_renamed"]),
        ({"trigger_file": "/f"}, 16, {}, ["guc_removed"]),
        ({"stats_temp_directory": "/d"}, 14, {"stats_temp_directory": "/d"}, []),
        ({"stats_temp_directory": "/d"}, 15, {}, ["guc_removed"]),
        ({"promote_trigger_file": "/f"}, 16, {}, ["guc_removed"]),
        ({"vacuum_defer_cleanup_age": 0}, 16, {}, ["guc_removed"]),
        ({"old_snapshot_threshold": -1}, 17, {}, ["guc_removed"]),
        ({"db_user_namespace": "off"}, 17, {}, ["guc_removed"]),
        ({"operator_precedence_warning": True}, 14, {}, ["guc_removed"]),
        ({"replacement_sort_tuples": 150000}, 13, {}, ["guc_removed"]),
        ({"sql_inheritance": "on"}, 13, {}, ["guc_removed"]),
        ({"default_with_oids": False}, 13, {}, ["guc_removed"]),
    ],
)
def test_c035_renamed_and_removed(asked: dict[str, Any], major: int, settings: dict[str, str], codes: list[str]) -> None:
    outcome = resolve(asked, major)
    assert (outcome.texts, outcome.codes, outcome.problems) == (settings, codes, [])


def test_c035_unix_socket_directory_is_known_and_ours() -> None:
    assert "cluster's own folder" in resolve({"unix_socket_directory": "/s"}).problems[0]


def test_c035_a_removed_setting_with_an_effect_is_refused_to_a_user_and_dropped_from_a_profile() -> None:
    asked = {"vacuum_defer_cleanup_age": 100000, "old_snapshot_threshold": "1h", "sql_inheritance": "off"}
    assert len(resolve(asked, 17).problems) == 3
    outcome = resolve(asked, 17, strict=False)
    assert (outcome.codes, outcome.problems, outcome.settings) == (["guc_removed"] * 3, [], {})


def test_c035_old_and_new_name_together() -> None:
    assert resolve({"wal_keep_segments": 10, "wal_keep_size": "160MB"}).problems == []
    problem = resolve({"wal_keep_segments": 10, "wal_keep_size": "1GB"}).problems[0]
    assert "160MB" in problem and "1GB" in problem
    assert "both set TimeZone" in resolve({"TimeZone": "UTC", "timezone": "GMT"}).problems[0]


def test_c035_an_old_value_that_is_no_number() -> None:
    assert "wal_keep_segments" in resolve({"wal_keep_segments": "160MB"}).problems[0]


def test_settings_of_another_version() -> None:
    assert resolve({"io_method": "worker"}, 15).problems == ["io_method: exists in PostgreSQL 18, not in 15"]
    outcome = resolve({"io_method": "worker"}, 15, strict=False)
    assert (outcome.codes, outcome.problems) == (["guc_removed"], [])


def test_c037_the_unit_of_wal_sizes_changed_in_10() -> None:
    imported, findings, problems = guc.import_settings({"max_wal_size": 64}, "9.6")
    assert (imported, problems) == ({"max_wal_size": "1GB"}, [])
    assert "64 = 1GB" in findings[0]["message"]
    assert guc.import_settings({"max_wal_size": 64}, 10)[0] == {"max_wal_size": "64MB"}
    assert guc.import_settings({"min_wal_size": 16384}, 15)[0] == {"min_wal_size": "16GB"}
    assert guc.import_settings({"max_wal_size": 64}, "9.5", wal_segment_size=64 * MIB)[0] == {"max_wal_size": "4GB"}
    assert resolve({"min_wal_size": 16384}, 15).texts == {"min_wal_size": "16GB"}


@pytest.mark.parametrize("name", ["min_wal_size", "max_wal_size"])
def test_c037_without_version_only_with_unit(name: str) -> None:
    assert "give the unit or the version" in guc.import_settings({name: 64}, None)[2][0]
    assert guc.import_settings({name: "1GB"}, None) == ({name: "1GB"}, [], [])
    assert guc.import_settings({name: "1GB"}, "9.6") == ({name: "1GB"}, [], [])


def test_other_values_that_changed_meaning() -> None:
    assert guc.import_settings({"effective_io_concurrency": 10}, 12)[0] == {"effective_io_concurrency": 29}
    assert guc.import_settings({"effective_io_concurrency": 10}, 13)[0] == {"effective_io_concurrency": 10}
    assert guc.import_settings({"password_encryption": "on"}, "13.1.4")[0] == {"password_encryption": "md5"}
    assert guc.import_settings({"password_encryption": "off"}, "9.6")[0] == {}
    assert guc.import_settings({"password_encryption": "scram-sha-256"}, 13) == ({"password_encryption": "scram-sha-256"}, [], [])


def lint(asked: dict[str, Any], memory: int, clients: int = 10, **options: Any) -> dict[str, str]:
    return {f["code"]: f["message"] for f in guc.lint(by_name(asked), memory_bytes=memory, clients=clients, **options)}


@pytest.mark.parametrize(("major", "text"), [("9.6.24", "1GB"), ("10beta2", "64MB"), ("18beta1", "64MB"), ("EPAS 13.4", "64MB")])
def test_c037_spellings_of_a_version(major: str, text: str) -> None:
    assert guc.import_settings({"max_wal_size": 64}, major)[0] == {"max_wal_size": text}


@pytest.mark.parametrize("major", [None, "", "unknown"])
def test_c037_what_is_no_version_is_not_known(major: str | None) -> None:
    asked, _, problems = guc.import_settings({"max_wal_size": 64, "effective_io_concurrency": 200}, major)
    assert (asked["effective_io_concurrency"], len(problems)) == (200, 1)


def test_c037_imported_values_stay_within_their_bounds() -> None:
    assert guc.import_settings({"effective_io_concurrency": 200}, "12")[0] == {"effective_io_concurrency": 1000}
    assert guc.import_settings({"min_wal_size": -1}, "9.6")[2] != []


def test_c038_kilobytes_fed_to_a_setting_counted_in_blocks() -> None:
    found = lint({"effective_cache_size": 33554432 // 2}, memory=33554432 * KIB)
    assert found == {"memory_effective_cache_size": "effective_cache_size = 128GB is more than 32GB of memory"}


def test_c038_memory() -> None:
    found = lint(
        {"shared_buffers": "24GB", "effective_cache_size": "24GB", "work_mem": "64MB", "max_connections": 300}, 31 * GIB, clients=96
    )
    assert found == {
        "memory_shared_buffers": "shared_buffers = 24GB is 77% of 31GB of memory",
        "memory_work_mem_connections": "shared_buffers = 24GB and work_mem = 64MB for 300 max_connections are 42.8GB, "
        "more than 31GB of memory",
    }
    found = lint({"shared_buffers": "4GB", "work_mem": "439MB", "max_connections": 300}, 31 * GIB, clients=96)
    assert list(found) == ["memory_work_mem_clients", "memory_work_mem_connections"]
    assert "45.2GB" in found["memory_work_mem_clients"]


def test_defaults_draw_no_remark() -> None:
    assert lint({}, memory=4 * GIB, disk_free_bytes=20 * GIB, dataset_bytes=GIB, huge_pages_free=0) == {}


def test_cache_size_below_shared_buffers() -> None:
    found = lint({"shared_buffers": "24GB", "effective_cache_size": "4352MB"}, 128 * GIB)
    assert list(found) == ["memory_cache_below_buffers"]


def test_wal_beside_the_data_set() -> None:
    found = lint({"max_wal_size": "100GB"}, 64 * GIB, disk_free_bytes=150 * GIB, dataset_bytes=60 * GIB)
    assert found == {"wal_disk": "max_wal_size = 100GB and a data set of 60GB do not fit in 150GB free"}
    assert lint({"max_wal_size": "80GB"}, 64 * GIB, disk_free_bytes=150 * GIB, dataset_bytes=60 * GIB) == {}
    kept = lint({"max_wal_size": "4GB", "wal_keep_segments": 6400}, 64 * GIB, disk_free_bytes=90 * GIB)
    assert kept == {"wal_disk": "wal_keep_size = 100GB and a data set of 0B do not fit in 90GB free"}


def test_c041_reload_is_not_restart() -> None:
    settings = by_name(
        {"shared_buffers": "4GB", "wal_buffers": "16MB", "max_connections": 200, "max_wal_size": "4GB", "work_mem": "8MB"}
    ).values()
    assert guc.needs_restart(settings, catalogue.load("postgres", "15")) == ["max_connections", "shared_buffers", "wal_buffers"]
    workers = by_name({"autovacuum_max_workers": 5}).values()
    assert guc.needs_restart(workers, catalogue.load("postgres", "17")) == ["autovacuum_max_workers"]
    assert guc.needs_restart(workers, catalogue.load("postgres", "18")) == []


def row(name: str, setting: str, **columns: Any) -> dict[str, Any]:
    """A row of ``pg_settings`` of a live server."""
    known = entry(name) if name in catalogue.load("postgres", "15")["settings"] else {"name": name, "vartype": "string"}
    own = {"setting": setting, "source": "configuration file", "sourcefile": "/c/gucs.conf", "pending_restart": False}
    return {"unit": None, "enumvals": None, "boot_val": None, **known, **own, **columns}


def test_c041_a_pending_restart_is_never_overlooked() -> None:
    settings = by_name({"shared_buffers": "4GB"}).values()
    found = guc.check_effect(
        settings, [row("shared_buffers", "16384", pending_restart=True), row("max_connections", "100", pending_restart=True)]
    )
    assert [f["code"] for f in found] == ["settings_not_in_effect"] * 2
    assert found[0]["message"] == "shared_buffers = 4GB waits for a restart of the server: 128MB still holds"
    assert found[1]["message"] == "max_connections waits for a restart of the server: 100 still holds"


@pytest.mark.parametrize(
    ("name", "asked", "actual", "same"),
    [
        ("track_activity_query_size", "2048B", "2kB", True),
        ("log_rotation_size", "10240kB", "10MB", True),
        ("archive_command", "/usr/bin/touch %f", "/usr/bin/touch %f", True),
        ("archive_command", "'/usr/bin/touch %f'", "/usr/bin/touch %f", True),
        ("archive_command", "'/usr/bin/touch %f'", "'/usr/bin/touch %f'", True),
        ("DateStyle", "'iso, mdy'", "ISO, MDY", True),
        ("archive_command", "/usr/bin/touch %f", "/USR/BIN/TOUCH %F", False),
        ("log_directory", "/data/2gb_logs", "/data/2gb_logs", True),
        ("log_directory", "/data/2gb_logs", "/data/2GB_logs", False),
        ("shared_buffers", "4GB", "524288", True),
        ("shared_buffers", "4GB", "524287", False),
        ("fsync", "yes", "on", True),
        ("fsync", 1, "on", True),
        ("fsync", False, "on", False),
        ("huge_pages", "TRUE", "on", True),
        ("wal_compression", "on", "pglz", True),
        ("random_page_cost", 1.1, "1.1", True),
        ("random_page_cost", 1.1, "1.2", False),
        ("cpu_operator_cost", 0.00123456789, "0.00123457", True),  # the server prints six digits
        ("log_file_mode", 384, "0600", True),
        ("DateStyle", "iso, dmy", "ISO, DMY", True),
        ("DateStyle", "ISO", "ISO, MDY", True),
        ("DateStyle", "SQL", "ISO, MDY", False),
        ("TimeZone", "europe/berlin", "Europe/Berlin", True),
        ("TimeZone", "UTC", "GMT", False),
        ("client_encoding", "utf-8", "UTF8", True),
        ("search_path", "a, b", "a,b", False),
        ("default_text_search_config", "english", "pg_catalog.english", True),
        ("work_mem", "nonsense", "4096", False),
    ],
)
def test_c043_values_are_compared_not_texts(name: str, asked: Any, actual: str, same: bool) -> None:
    assert guc.equal(entry(name), asked, actual) is same


def test_c043_the_same_settings_give_the_same_file() -> None:
    first, second = ({"log_rotation_size": "10240kB", "work_mem": "64MB"}, {"work_mem": 65536, "log_rotation_size": "10MB"})
    assert guc.render(by_name(first).values()) == guc.render(by_name(second).values())


@pytest.mark.parametrize(("pending", "fires"), [(True, True), ("t", True), (False, False), ("f", False), (None, False)])
def test_c041_pending_restart_as_a_driver_or_psql_gives_it(pending: Any, fires: bool) -> None:
    row = {"name": "max_connections", **entry("max_connections"), "setting": "100", "source": "default", "pending_restart": pending}
    assert bool(guc.check_effect([], [row])) is fires


def test_c044_exactly_shared_buffers_is_not_enough() -> None:
    settings = by_name({"huge_pages": "on", "shared_buffers": "24GB"})
    found = guc.lint(settings, memory_bytes=128 * GIB, clients=10, huge_pages_free=12288)
    assert [f["code"] for f in found if f["code"] == "memory_huge_pages"] == ["memory_huge_pages"]
    assert "the server will not start" in found[-1]["message"]
    assert guc.huge_pages_needed(26_347_528_192) == 12_564
    assert 12_564 <= guc.huge_pages_needed(guc.shared_memory_bytes(settings)) <= 12_564 * 1.05
    enough = guc.lint(settings, memory_bytes=128 * GIB, clients=10, huge_pages_free=13_000)
    assert "memory_huge_pages" not in [f["code"] for f in enough]


def test_c044_formula_of_the_published_run() -> None:
    assert guc.huge_pages_needed(9000 * MIB) == 4500
    assert guc.huge_pages_needed(9000 * MIB + 1) == 4501
    assert guc.huge_pages_needed(24 * GIB, huge_page_bytes=GIB) == 24


def test_c044_try_is_a_wish_and_the_default_is_silent() -> None:
    wished = {f["code"]: f["message"] for f in guc.lint(by_name({"huge_pages": "try"}), memory_bytes=4 * GIB, clients=1, huge_pages_free=0)}
    assert "do without" in wished["memory_huge_pages"]
    assert guc.lint({}, memory_bytes=4 * GIB, clients=1, huge_pages_free=0) == []


@pytest.mark.parametrize(
    ("size", "free", "told"), [(0, 4, False), (0, 3, True), ("512MB", 3, True), ("2MB", 3, False)], ids=["enough", "short", "same", "other"]
)
def test_c044_free_pages_are_of_the_size_of_the_host(size: Any, free: int, told: bool) -> None:
    settings = by_name({"huge_pages": "on", "shared_buffers": "1536MB", "huge_page_size": size})
    found = guc.lint(settings, memory_bytes=8 * GIB, clients=1, huge_pages_free=free, huge_page_bytes=512 * MIB)
    assert ("memory_huge_pages" in [f["code"] for f in found]) is told


C046 = {
    "edb_redwood_date": "on",
    "db_dialect": "redwood",
    "timed_statistics": "off",
    "data_encryption_key_unwrap_command": "-",
    "dbms_alert.max_alerts": 100,
    "index_advisor.enabled": "on",
    "edb_wait_states.retention_period": 604800,
    "sql_profiler.use_array_for_paramas": "off",
    "DateStyle": "Redwood, SHOW_TIME",
    "shared_preload_libraries": "$libdir/dbms_pipe,$libdir/edb_gen",
}


@pytest.mark.parametrize("major", [13, 15, 18])
def test_c046_epas_settings_are_dropped_from_a_profile_with_a_reason_each(major: int) -> None:
    outcome = resolve(C046, major, strict=False)
    assert (outcome.settings, outcome.problems) == ({}, [])
    assert outcome.codes == ["guc_engine"] * len(C046)
    assert {f["evidence"]["name"] for f in outcome.findings} == set(C046)


def test_c046_a_user_who_asks_for_them_is_refused() -> None:
    outcome = resolve(C046)
    assert outcome.settings == {}
    assert len(outcome.problems) == len(C046)
    assert all("EPAS only" in problem for problem in outcome.problems)


def test_c046_epas_keeps_them() -> None:
    outcome = resolve(C046, engine="epas")
    assert (outcome.problems, outcome.codes) == ([], [])
    assert set(outcome.settings) == set(C046)
    assert outcome.settings["dbms_alert.max_alerts"]["text"] == "100"


def test_c046_libraries_are_filtered_one_by_one() -> None:
    asked = {"shared_preload_libraries": "$libdir/dbms_pipe, sql-profiler, pg_stat_statements", "pg_stat_statements.max": 5000}
    outcome = resolve(asked, strict=False)
    assert outcome.texts == {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.max": "5000"}
    assert outcome.codes == ["guc_engine"]
    assert "without $libdir/dbms_pipe, sql-profiler" in outcome.messages
    quoted = {"shared_preload_libraries": "'$libdir/dbms_pipe,$libdir/edb_stat_monitor,$libdir/pg_stat_statements'"}
    assert resolve(quoted, strict=False).texts == {"shared_preload_libraries": "$libdir/pg_stat_statements"}


def test_a_zero_byte_is_refused_whatever_the_name() -> None:
    assert resolve({"a.b": "\0", "cluster.x": "y"}).problems == ["a.b: must not contain a zero byte"]


def test_c046_a_dotted_name_is_no_proof_of_support() -> None:
    outcome = resolve({"timescaledb.telemetry_level": "off", "pg_stat_statements.max": 5000})
    assert outcome.problems == []
    assert outcome.codes == ["guc_placeholder"] * 2
    below = resolve({"shared_preload_libraries": "$libdir/pg_stat_statements, timescaledb.so"}).settings
    assert resolve({"pg_stat_statements.max": 5000, "timescaledb.x": 1}, loaded=guc.loaded_libraries(below)).codes == []
    assert "did you mean pg_stat_statements.max?" in resolve({"pg_stat_statements.maxx": 1}).problems[0]


C047 = dict.fromkeys(("lc_messages", "lc_monetary", "lc_numeric", "lc_time"), "en_US.UTF-8")


def test_c047_locales_that_the_host_lacks() -> None:
    outcome = resolve(C047, locales=["C", "C.utf8", "POSIX"])
    assert outcome.texts == dict.fromkeys(C047, "C")
    assert (outcome.codes, outcome.problems) == (["locale_replaced"] * 4, [])


def test_c047_spellings_of_a_codeset() -> None:
    outcome = resolve(C047, locales=["C", "en_US.utf8"])
    assert (outcome.texts, outcome.codes) == (C047, [])
    assert resolve({"lc_time": "C.UTF-8"}, locales=["C", "C.utf8"]).codes == []
    assert resolve({"lc_messages": ""}, locales=["C"]).codes == []


def test_c047_a_language_in_other_letters_is_another_name() -> None:
    """glibc compares codesets loosely and languages exactly: the server would not start."""
    outcome = resolve({"lc_time": "en_us.UTF-8", "lc_numeric": "c", "lc_monetary": "C"}, locales=["C", "en_US.utf8"])
    assert outcome.texts == {"lc_time": "C", "lc_numeric": "C", "lc_monetary": "C"}
    assert outcome.codes == ["locale_replaced"] * 2


def test_c047_the_log_of_a_profile_is_english() -> None:
    outcome = resolve(C047, strict=False, locales=["C", "en_US.utf8"])
    assert outcome.texts == {**C047, "lc_messages": "C"}
    assert outcome.codes == ["locale_replaced"]


@pytest.mark.parametrize("strict", [True, False])
def test_c049_disabled_is_a_display_text(strict: bool) -> None:
    outcome = resolve({"archive_mode": "on", "archive_command": "(disabled)"}, strict=strict)
    assert outcome.texts == {"archive_mode": "on"}
    assert (outcome.codes, outcome.problems) == (["guc_cleaned"], [])
    found = guc.lint(outcome.settings, memory_bytes=4 * GIB, clients=1)
    assert "kept until the disk is full" in found[0]["message"]


def test_c049_prose_in_a_column_of_numbers() -> None:
    asked = {"effective_cache_size": "Varies based on size", "work_mem": None}
    outcome = resolve(asked, strict=False)
    assert (outcome.settings, outcome.codes, outcome.problems) == ({}, ["guc_cleaned"] * 2, [])
    assert len(resolve(asked).problems) == 2


@pytest.mark.parametrize("text", ["Varies based on size", "Varies (2 - 16GB)", "n/a", "(none)", "depends on 4 sizes"])
def test_c049_a_remark_is_no_value(text: str) -> None:
    outcome = resolve({"max_connections": text, "shared_buffers": text}, strict=False)
    assert (outcome.settings, outcome.problems, outcome.codes) == ({}, [], ["guc_cleaned"] * 2)
    assert len(resolve({"max_connections": text}).problems) == 1


def test_c049_remarks_on_switches_and_wrong_values() -> None:
    outcome = resolve({"fsync": "Varies based on size", "wal_level": "see the text"}, strict=False)
    assert (outcome.settings, outcome.problems, outcome.codes) == ({}, [], ["guc_cleaned"] * 2)
    assert len(resolve({"fsync": "onn", "work_mem": "64mb"}, strict=False).problems) == 2


def test_c050_what_the_server_showed_beats_the_file_and_the_file_the_prose() -> None:
    value, contradiction = guc.published_value(entry("shared_buffers"), show="1GB", file="1GB", prose="2GB")
    assert value == "1GB"
    assert contradiction == "shared_buffers: SHOW says 1GB, text says 2GB; 1GB is used"
    assert guc.published_value(entry("shared_buffers"), file="1GB", prose="1024MB") == ("1GB", None)
    assert guc.published_value(entry("shared_buffers"), prose="2GB") == ("2GB", None)
    assert guc.published_value(entry("shared_buffers")) == (None, None)


# --- names -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("port", "the plan chooses the port"),
        ("listen_addresses", "listens where its driver is"),
        ("data_directory", "belong to the toolkit"),
        ("HBA_file", "belong to the toolkit"),
        ("include", "an include is no setting"),
        ("logging_collector", "server log"),
        ("data_checksums", "initdb option --data-checksums"),
        ("wal_segment_size", "initdb option --wal-segsize"),
        ("block_size", "build option --with-blocksize"),
        ("lc_collate", "initdb option --lc-collate"),
        ("server_version", "postgres_version"),
        ("in_hot_standby", "the server reports it"),
        ("transaction_isolation", "default_transaction_isolation"),
        ("work_memm", "did you mean work_mem?"),
        ("max_locks", "did you mean max_locks_per_transaction?"),
        ("effective_io", "did you mean effective_io_concurrency?"),
        ("checkpoint_target", "did you mean checkpoint_completion_target?"),
        ("shared_mem", "did you mean shared_memory_type?"),  # the size of it cannot be set
        ("max-wal-size", "'max-wal-size' is not a name of a setting; did you mean max_wal_size?"),
        ("work_mem ", "did you mean work_mem?"),
        ("frobnicate", "PostgreSQL 15 has no such setting"),
        ("work mem", "is not a name"),
        ("work_mem = '1' #", "is not a name"),
    ],
)
def test_names_refused(name: str, says: str) -> None:
    assert says in resolve({name: "1"}).problems[0]


def test_what_is_ours_is_dropped_from_a_profile_and_a_typo_in_one_is_a_problem() -> None:
    outcome = resolve({"port": 5444, "listen_addresses": "*", "data_checksums": "on"}, strict=False)
    assert (outcome.codes, outcome.problems) == (["guc_reserved"] * 3, [])
    assert len(resolve({"work_memm": "1MB", "work_mem": "1mb"}, strict=False).problems) == 2


def test_names_in_any_case() -> None:
    assert resolve({"TIMEZONE": "UTC", "Work_Mem": "1MB"}).texts == {"TimeZone": "UTC", "work_mem": "1MB"}
    assert resolve({"TIMEZONE": "UTC"}).settings["TimeZone"]["replaces"] is None


def test_lists_only_where_a_setting_takes_one() -> None:
    assert resolve({"shared_preload_libraries": ["pg_stat_statements", "auto_explain"]}).texts == {
        "shared_preload_libraries": "pg_stat_statements, auto_explain"
    }
    assert "not a list" in resolve({"work_mem": ["1MB"]}).problems[0]
    assert "not a list" in resolve({"archive_command": ["cp", "%p"]}).problems[0]
    assert "not a mapping" in resolve({"work_mem": {"value": "1MB"}}).problems[0]
    assert "not a mapping" in resolve({"foo.bar": {"value": "1MB"}}).problems[0]


def test_a_setting_has_the_shape_of_the_experiment() -> None:
    setting = resolve({"work_mem": "64MB"}, origin="profile x", reasons={"work_mem": "sorts"}).settings["work_mem"]
    assert setting == {
        "name": "work_mem",
        "raw": "64MB",
        "text": "64MB",
        "value": 65536,
        "unit": "kB",
        "bytes": 64 * MIB,
        "context": "user",
        "origin": "profile x",
        "reason": "sorts",
        "replaces": None,
    }


# --- the file and the server -------------------------------------------------


def test_render_quotes_everything_that_needs_it() -> None:
    text = guc.render(by_name({"archive_command": "cp '%p' C:\\a\nb", "work_mem": "1MB", "TimeZone": "UTC"}).values())
    assert text.splitlines()[1:] == ["archive_command = 'cp ''%p'' C:\\\\a\\nb'", "TimeZone = 'UTC'", "work_mem = '1MB'"]


@pytest.mark.parametrize("setting", [{"name": "a = 1\nb", "text": "x"}, {"name": "a", "text": "x\0"}])
def test_render_refuses_what_would_break_the_file(setting: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot stand"):
        guc.render([setting])


def check(asked: dict[str, Any], rows: list[dict[str, Any]], file_rows: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    return guc.check_effect(by_name(asked).values(), rows, file_rows)


def test_effect_by_value() -> None:
    asked = {"work_mem": "64MB", "fsync": "yes", "wal_compression": True, "random_page_cost": 1.1, "archive_command": "x"}
    rows = [row("work_mem", "65536"), row("fsync", "on"), row("wal_compression", "pglz"), row("random_page_cost", "1.1")]
    assert check(asked, [*rows, row("archive_command", "x")]) == []


def test_effect_of_another_value() -> None:
    (found,) = check({"work_mem": "64MB"}, [row("work_mem", "4096", source="default", sourcefile=None)])
    assert found["code"] == "settings_not_in_effect"
    assert found["message"] == "work_mem = 64MB is not in effect: the server has 4MB, from default"
    assert found["evidence"] == {"name": "work_mem", "asked": "64MB", "actual": "4MB", "source": "default"}


def test_effect_with_the_reason_of_the_file() -> None:
    file_rows = [{"name": "wal_compression", "setting": "zstd", "sourcefile": "/c/gucs.conf", "error": "setting could not be applied"}]
    (found,) = check({"wal_compression": "zstd"}, [row("wal_compression", "off")], file_rows)
    assert "setting could not be applied" in found["message"]


def test_effect_of_a_file_that_cannot_be_read() -> None:
    """One wrong line, and a reload takes nothing from any file."""
    file_rows = [{"name": None, "setting": None, "sourcefile": "/c/postgresql.conf", "error": "syntax error"}]
    (found,) = check({"work_mem": "64MB"}, [row("work_mem", "4096", source="default", sourcefile=None)], file_rows)
    assert found["message"] == "work_mem = 64MB is not in effect: the server has 4MB, from default (syntax error)"


def test_values_that_the_server_works_out() -> None:
    assert check({"wal_buffers": -1}, [row("wal_buffers", "512", source="override", boot_val="-1")]) == []
    assert (
        check({"wal_buffers": "8MB"}, [row("wal_buffers", "512", source="override", boot_val="-1")])[0]["code"] == "settings_not_in_effect"
    )


def test_auto_conf_is_seen_whether_it_was_asked_for_or_not() -> None:
    auto = "/d/postgresql.auto.conf"
    rows = [row("work_mem", "8192", sourcefile=auto), row("max_connections", "50", sourcefile=auto), row("fsync", "on")]
    found = check({"work_mem": "64MB", "fsync": True}, rows)
    assert [f["code"] for f in found] == ["settings_not_in_effect", "guc_auto_conf", "guc_auto_conf"]
    assert found[1]["message"] == "max_connections = 50 stands in postgresql.auto.conf: nobody asked for it"
    assert found[2]["message"] == "work_mem = 8MB stands in postgresql.auto.conf, which overrides 64MB"
    waiting = [{"name": "shared_buffers", "setting": "1GB", "sourcefile": auto, "error": None}]
    assert [f["code"] for f in check({}, [row("shared_buffers", "16384")], waiting)] == ["guc_auto_conf"]


def test_settings_that_the_server_does_not_have() -> None:
    assert [f["code"] for f in check({"work_mem": "1MB"}, [])] == ["settings_not_in_effect"]
    preloads = row("shared_preload_libraries", "$libdir/pg_stat_statements")
    assert [f["code"] for f in check({"foo.bar": 1}, [preloads])] == ["guc_placeholder"]
    # A loaded library that does not define the name has thrown it out.
    assert [f["code"] for f in check({"pg_stat_statements.max": 500}, [preloads])] == ["settings_not_in_effect"]


def test_what_belongs_to_a_connection_is_not_checked() -> None:
    own = row("application_name", "psql", source="client")
    over_a_socket = row("tcp_keepalives_idle", "0")
    found = check({"application_name": "bench", "tcp_keepalives_idle": 60}, [own, over_a_socket])
    assert [f["code"] for f in found] == ["not_checked"] * 2


def test_a_command_that_is_shown_as_disabled() -> None:
    assert check({"archive_command": "/bin/true"}, [row("archive_command", "(disabled)")]) == []


def test_non_default_settings() -> None:
    rows = [
        row("work_mem", "65536"),
        row("shared_buffers", "16384"),  # the built-in value, written by initdb
        row("port", "5544"),
        row("wal_buffers", "512", source="override"),
        row("application_name", "psql", source="client"),
        row("TimeZone", "Etc/UTC"),
    ]
    assert guc.non_default(rows) == [
        {"name": "TimeZone", "setting": "Etc/UTC", "unit": None, "source": "configuration file", "text": "Etc/UTC"},
        {"name": "work_mem", "setting": "65536", "unit": "kB", "source": "configuration file", "text": "64MB"},
    ]


@pytest.mark.parametrize(("value", "kept"), [("on", ["debug_assertions"]), ("off", [])])
def test_a_build_with_assertions_is_not_the_default(value: str, kept: list[str]) -> None:
    built = {"name": "debug_assertions", "setting": value, "boot_val": value, "unit": None, "vartype": "bool", "source": "default"}
    assert [s["name"] for s in guc.non_default([built])] == kept


# --- what a server would refuse at its start --------------------------------


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"wal_level": "minimal"}, "max_wal_senders = 0"),
        ({"wal_level": "minimal", "max_wal_senders": 0, "archive_mode": "on"}, "archive_mode = off"),
        ({"max_connections": 3}, "reserved"),
        ({"max_wal_size": "16MB"}, "two WAL segments"),
        ({"shared_buffers": "64GB"}, "more than the machine's 32GB"),
        ({"huge_pages": "on", "shared_memory_type": "sysv"}, "shared_memory_type = mmap"),
        ({"ssl": "on"}, "ssl: on needs ssl_cert_file and ssl_key_file"),
        ({"ssl": True, "ssl_cert_file": "/etc/pg/server.crt", "ssl_key_file": "server.key"}, "ssl: on needs ssl_key_file"),
    ],
)
def test_conflicts(asked: dict[str, Any], says: str) -> None:
    (problem,) = guc.conflicts(by_name(asked), memory_bytes=32 * GIB)
    assert says in problem


def test_wal_summaries_need_more_than_minimal_wal() -> None:
    settings = resolve({"wal_level": "minimal", "max_wal_senders": 0, "summarize_wal": "on"}, 17).settings
    assert guc.conflicts(settings) == ["wal_level: minimal needs summarize_wal = off"]


def test_no_conflicts() -> None:
    assert guc.conflicts(by_name({"huge_pages": "try", "shared_memory_type": "sysv"})) == []
    assert guc.conflicts({}) == []
    assert guc.conflicts(by_name({"ssl": "on", "ssl_cert_file": "/etc/pg/server.crt", "ssl_key_file": "/etc/pg/server.key"})) == []
    assert guc.conflicts(by_name({"ssl": "off", "ssl_cert_file": "server.crt"})) == []
    assert guc.conflicts(by_name({"wal_level": "minimal", "max_wal_senders": 0, "max_wal_size": "1GB", "min_wal_size": "32MB"})) == []
    assert "min_wal_size" in guc.conflicts(by_name({"min_wal_size": "80MB"}), wal_segment_size=64 * MIB)[0]


def test_connections_available() -> None:
    assert guc.connections_available({}) == 97
    settings = by_name({"max_connections": 50, "superuser_reserved_connections": 5, "reserved_connections": 4}, 16)
    assert guc.connections_available(settings) == 41
