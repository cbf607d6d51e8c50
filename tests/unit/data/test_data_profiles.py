# GNU General Public License v3.0 or later (see LICENSE)
"""The three profiles of the T-shirt publication against its printed Appendix A, and rendered for every version."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
import yaml
from support.shipped import PROFILES, REPOSITORY, TSHIRTS, appendix_a, repaired

from ansible_collections.pgsizing.bench.plugins.module_utils import guc, guc_names
from ansible_collections.pgsizing.bench.plugins.module_utils.units import GIB, MIB
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue

PRINTED = appendix_a()
THREE = ("as_published", "as_intended", "published_default")
BY_SIZE = {"type": "object", "propertyNames": {"enum": list(TSHIRTS)}, "minProperties": 1}
TEXTS = {"oneOf": [{"type": "string", "minLength": 4}, {**BY_SIZE, "additionalProperties": {"type": "string"}}]}
SCHEMA = {
    "type": "object",
    "required": ["description", "source", "settings", "rows"],
    "additionalProperties": False,
    "properties": {
        "description": {"type": "string"},
        "source": {"type": "string"},
        "notes": {"type": "array", "items": {"type": "string"}},
        "confidence": {**BY_SIZE, "additionalProperties": {"enum": ["low"]}},
        "settings": {
            "additionalProperties": {
                "oneOf": [
                    {"type": ["string", "number", "null"]},
                    {**BY_SIZE, "required": list(TSHIRTS), "additionalProperties": {"type": ["string", "number"]}},
                ]
            }
        },
        "rows": {
            "additionalProperties": {
                "type": "object",
                "required": ["reason"],
                "additionalProperties": False,
                "properties": {"reason": TEXTS, "wrong": TEXTS, "note": TEXTS, "left_out": TEXTS, "engine": {"const": "epas"}},
            }
        },
    },
}


def value(profile: str, name: str, size: str) -> Any:
    given = PROFILES[profile]["settings"][name]
    return given[size] if isinstance(given, dict) else given


def rendered(profile: str, size: str, engine: str, major: str) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return the settings and findings of a profile as the planner makes them; it must have no problem."""
    rows = PROFILES[profile]["rows"]
    asked = {name: value(profile, name, size) for name in PROFILES[profile]["settings"] if "left_out" not in rows[name]}
    known = catalogue.load("postgres", major)
    settings, findings, problems = guc.resolve(asked, known, engine=engine, origin=f"profile {profile}", strict=False)
    assert problems == []
    return {setting["name"]: setting for setting in settings}, findings


# shape ---------------------------------------------------------------------------------------------------------------------


def test_the_profiles_that_ship() -> None:
    assert tuple(PROFILES) == THREE
    assert not {"local", "none"} & set(PROFILES)


@pytest.mark.parametrize("profile", THREE)
def test_schema(profile: str) -> None:
    jsonschema.validate(PROFILES[profile], SCHEMA)


@pytest.mark.parametrize("profile", THREE)
def test_each_of_the_70_rows_is_there_with_a_reason(profile: str) -> None:
    assert len(PRINTED) == 70
    assert set(PROFILES[profile]["settings"]) == set(PRINTED)
    assert set(PROFILES[profile]["rows"]) == set(PRINTED)
    for name, given in PROFILES[profile]["settings"].items():
        assert given is not None or PROFILES[profile]["rows"][name]["left_out"], name


def test_nothing_overrides_what_is_merged_in() -> None:
    """Ansible warns of each key that a YAML merge and the mapping itself both hold."""
    root = yaml.compose((REPOSITORY / "roles/plan/defaults/main/profiles.yml").read_text(encoding="utf-8"))
    merging, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.MappingNode):
            own = [key.value for key, _ in node.value]
            merged = [key.value for name, value in node.value if name.value == "<<" for key, _ in value.value]
            merging += bool(merged)
            assert not set(own) & set(merged)
            waiting += [value for _, value in node.value]
    assert merging == 4


# the printed table ---------------------------------------------------------------------------------------------------------


def test_26_rows_are_shifted_and_each_says_so() -> None:
    shifted = {name for name, cells in PRINTED.items() if not cells[4]}
    assert len(shifted) == 26
    assert all(cells[:4] and all(cells[:4]) for name, cells in PRINTED.items() if name in shifted)
    said = {name for name, row in PROFILES["as_published"]["rows"].items() if "one column to the left" in str(row.get("note"))}
    assert said == shifted
    blank = {name for name, row in PROFILES["published_default"]["rows"].items() if "cell is blank" in row.get("left_out", "")}
    assert blank == shifted
    assert all(repaired(cells)[4] for cells in PRINTED.values())


def _means(name: str, ours: Any, printed: str) -> bool:
    """Whether our value, in units, is the printed number in base units (a text: the same text)."""
    entry = catalogue.load("postgres", "13")["settings"].get(name)
    if name == "wal_keep_segments" or entry is None:  # removed, or EPAS: kept as printed
        return str(ours) == printed
    return bool(guc.equal(entry, ours, printed))


@pytest.mark.parametrize("name", PRINTED)
def test_every_cell_is_what_is_printed(name: str) -> None:
    default, *cells = repaired(PRINTED[name])
    for size, cell in zip(TSHIRTS, cells, strict=True):
        assert _means(name, value("as_published", name, size), cell), (size, cell)
    if default in ("", "(disabled)", "Varies based on size"):
        assert PROFILES["published_default"]["settings"][name] is None
    else:
        assert _means(name, value("published_default", name, "small"), default), default


def test_c034_units_of_the_numbers() -> None:
    settings, _ = rendered("as_published", "small", "postgres", "15")
    medium, _ = rendered("as_published", "medium", "postgres", "15")
    assert settings["shared_buffers"]["bytes"] == 24 * GIB
    assert settings["effective_cache_size"]["bytes"] == 4352 * MIB == 4.25 * GIB
    assert medium["effective_cache_size"]["bytes"] == 37822 * MIB
    assert (settings["work_mem"]["text"], medium["work_mem"]["text"]) == ("26MB", "439MB")
    assert (settings["maintenance_work_mem"]["text"], medium["maintenance_work_mem"]["text"]) == ("944MB", "1GB")
    assert (settings["wal_buffers"]["text"], medium["wal_buffers"]["text"]) == ("16MB", "64MB")
    assert settings["max_wal_size"]["bytes"] == 100 * GIB
    assert (settings["checkpoint_timeout"]["text"], settings["idle_in_transaction_session_timeout"]["text"]) == ("15min", "10min")
    assert settings["log_min_duration_statement"]["text"] == "1s"


def test_only_four_rows_differ_by_size_and_only_small_differs() -> None:
    differ = [name for name, cells in PRINTED.items() if len(set(repaired(cells)[1:])) > 1]
    assert differ == ["effective_cache_size", "maintenance_work_mem", "wal_buffers", "work_mem"]
    assert [n for n, given in PROFILES["as_published"]["settings"].items() if isinstance(given, dict)] == differ
    for name in differ:
        assert value("as_published", name, "medium") == value("as_published", name, "large") == value("as_published", name, "xl")
        assert value("as_published", name, "small") != value("as_published", name, "medium")
    assert PROFILES["as_published"]["confidence"] == {"large": "low", "xl": "low"}


def test_c040_the_published_overstatement_is_kept_and_named() -> None:
    assert int(31495 * 1.048576) - 24576 - 4096 == 4352
    assert 31495 - 24576 - 4096 == 2823
    assert "2823MB was meant" in PROFILES["as_published"]["rows"]["effective_cache_size"]["wrong"]["small"]


def test_findings_that_the_published_settings_raise_by_themselves() -> None:
    small, _ = rendered("as_published", "small", "postgres", "15")
    codes = [f["code"] for f in guc.lint(small, memory_bytes=32 * GIB, clients=96)]
    assert "memory_shared_buffers" in codes
    assert "memory_cache_below_buffers" in codes


def test_four_default_cells_are_no_defaults() -> None:
    settings = catalogue.load("postgres", "13")["settings"]
    # 13 and 14: initdb writes 128MB, the built-in 8MB serves nobody
    boot = {name: entry.get("boot_val") for name, entry in settings.items()} | {"shared_buffers": "128MB"}
    wrong = {
        name
        for name in ("shared_buffers", "maintenance_work_mem", "work_mem", "wal_buffers", "max_wal_size", "checkpoint_timeout")
        if not guc.equal(settings[name], value("published_default", name, "small"), boot[name])
    }
    assert wrong == {"shared_buffers", "maintenance_work_mem", "work_mem", "wal_buffers"}
    rows = PROFILES["published_default"]["rows"]
    assert {name for name, row in rows.items() if "wrong" in row} == wrong


# what is EPAS only ---------------------------------------------------------------------------------------------------------


def test_c046_epas_settings_are_marked() -> None:
    epas = {name for name in PRINTED if name in guc_names.EPAS_NAMES or name.startswith(guc_names.EPAS_PREFIXES)}
    assert len(epas) == 22
    for profile in ("as_published", "as_intended"):
        marked = {name for name, row in PROFILES[profile]["rows"].items() if row.get("engine") == "epas"}
        assert marked == epas | {"DateStyle"}, profile  # its name is everybody's, the value is not


@pytest.mark.parametrize("major", catalogue.majors("postgres"))
@pytest.mark.parametrize("size", TSHIRTS)
@pytest.mark.parametrize("profile", THREE)
def test_renders_for_every_version_of_postgresql(profile: str, size: str, major: str) -> None:
    settings, findings = rendered(profile, size, "postgres", major)
    known = catalogue.load("postgres", major)["settings"]
    assert set(settings) <= set(known)
    assert not {"listen_addresses", "logging_collector", "unix_socket_directories", "primary_slot_name"} & set(settings)
    assert guc.conflicts(settings) == []
    if profile != "published_default":
        assert settings["shared_preload_libraries"]["text"] == "$libdir/pg_stat_statements"
        assert "pg_stat_statements.track" in settings
        assert "guc_placeholder" not in [f["code"] for f in findings]
    text = guc.render(settings.values())
    assert not re.search(r"(?i)redwood|dbms_|edb_|index_advisor|sql_profiler|timed_statistics|wal_keep_segments|/pgdata", text)


@pytest.mark.parametrize("major", catalogue.majors("postgres"))
def test_c035_wal_keep_segments_is_translated_not_dropped(major: str) -> None:
    settings, findings = rendered("as_published", "small", "postgres", major)
    assert settings["wal_keep_size"]["text"] == "160MB"
    assert settings["wal_keep_size"]["replaces"] == "wal_keep_segments"
    assert [f["evidence"]["name"] for f in findings if f["code"] == "guc_renamed"] == ["wal_keep_segments"]


def test_c047_locales_that_the_host_lacks_become_c() -> None:
    names = [name for name in PRINTED if name.startswith("lc_")]
    asked = {name: value("as_published", name, "small") for name in names}
    settings, findings, problems = guc.resolve(
        asked, catalogue.load("postgres", "15"), origin="profile as_published", strict=False, locales=["C", "C.utf8", "POSIX"]
    )
    assert ({s["text"] for s in settings}, problems) == ({"C"}, [])
    assert [f["code"] for f in findings] == ["locale_replaced"] * 4


@pytest.mark.parametrize(("name", "printed"), [("archive_command", "(disabled)"), ("effective_cache_size", "Varies based on size")])
def test_c049_texts_of_the_display_are_no_values(name: str, printed: str) -> None:
    assert PRINTED[name][0] == printed
    assert PROFILES["published_default"]["settings"][name] is None
    assert printed in PROFILES["published_default"]["rows"][name]["left_out"]


@pytest.mark.parametrize("major", ["13", "14", "15", "16", "17"])
@pytest.mark.parametrize("size", TSHIRTS)
def test_renders_for_epas_with_its_own_rows(size: str, major: str) -> None:
    settings, _ = rendered("as_published", size, "epas", major)
    assert settings["db_dialect"]["text"] == "redwood"
    assert settings["dbms_aq.batch_size"]["text"] == "10"
    assert settings["DateStyle"]["text"] == "Redwood, SHOW_TIME"
    assert settings["shared_preload_libraries"]["text"].count("$libdir/") == 7
    assert settings["wal_keep_size"]["text"] == "160MB"
    assert "wal_keep_segments" not in settings


# what was meant ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("shared_buffers", ["24GB"] * 4),
        ("effective_cache_size", ["4GB", "36GB", "100GB", "228GB"]),
        ("max_wal_size", ["50GB", "100GB", "200GB", "400GB"]),
        ("work_mem", ["64MB"] * 4),
        ("maintenance_work_mem", ["1GB"] * 4),
        ("wal_buffers", ["64MB"] * 4),
        ("max_connections", [300] * 4),
        ("log_line_prefix", ["%m [%p-%l] %u@%d app=%a"] * 4),
    ],
)
def test_what_the_vendor_meant(name: str, values: list[Any]) -> None:
    assert [value("as_intended", name, size) for size in TSHIRTS] == values


def test_the_constant_that_stands_for_an_unknown_formula_is_named() -> None:
    assert "vendor's constant" in PROFILES["as_intended"]["rows"]["work_mem"]["reason"]
    assert any("work_mem" in note and "64MB" in note for note in PROFILES["as_intended"]["notes"])


def test_the_vendors_constants_in_blocks() -> None:
    entry = catalogue.load("postgres", "13")["settings"]["effective_cache_size"]
    for size, blocks in zip(TSHIRTS, (524288, 4718592, 13107200, 29884416), strict=True):
        assert guc.equal(entry, value("as_intended", "effective_cache_size", size), str(blocks))


def test_published_and_intended_are_two_sets() -> None:
    published, intended = (PROFILES[name]["settings"] for name in ("as_published", "as_intended"))
    differ = {name for name in published if published[name] != intended[name]}
    assert differ == {"effective_cache_size", "log_line_prefix", "maintenance_work_mem", "max_wal_size", "wal_buffers", "work_mem"}
