# GNU General Public License v3.0 or later (see LICENSE)
"""The shipped catalogues: complete, of real servers, and without traces of the machine that made them."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from ansible_collections.pgsizing.bench.plugins.module_utils import guc, guc_names
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue

MAJORS = catalogue.majors("postgres")
everywhere = pytest.mark.parametrize("major", MAJORS)


def test_versions() -> None:
    assert MAJORS == ("13", "14", "15", "16", "17", "18")
    assert catalogue.majors("epas") == ()
    with pytest.raises(KeyError):
        catalogue.load("postgres", "12")


@everywhere
def test_provenance_and_shape(major: str) -> None:
    loaded = catalogue.load("postgres", major)
    assert loaded["engine"] == "postgres"
    assert loaded["major"] == int(major)
    assert loaded["server_version"].startswith(f"{major}.")
    assert loaded["origin"].startswith("pg_settings of ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", loaded["date"])
    assert len(loaded["settings"]) > 340
    for name, entry in loaded["settings"].items():
        assert entry["name"] == name
        assert entry["vartype"] in ("bool", "integer", "real", "string", "enum"), name
        assert entry["context"] in ("internal", "postmaster", "sighup", "backend", "superuser-backend", "superuser", "user"), name
        assert ("enumvals" in entry) == (entry["vartype"] == "enum"), name


@everywhere
def test_no_trace_of_the_machine_that_made_it(major: str) -> None:
    text = (catalogue.FOLDER / f"postgres-{major}.json").read_text()
    allowed = {"/tmp"}  # where a server built from source has its sockets
    assert set(re.findall(r'(?<=")/[\w/.-]*', text)) <= allowed
    assert "://" not in text


@everywhere
def test_one_setting_a_line_in_order(major: str) -> None:
    lines = (catalogue.FOLDER / f"postgres-{major}.json").read_text().splitlines()
    first = lines.index('"settings": {') + 1
    names = [next(iter(json.loads("{" + line.rstrip(",") + "}"))) for line in lines[first:-2]]
    assert names == sorted(names)
    assert names == list(catalogue.load("postgres", major)["settings"])


@everywhere
def test_contrib_libraries_are_marked(major: str) -> None:
    settings = catalogue.load("postgres", major)["settings"]
    libraries = {entry.get("library") for entry in settings.values()}
    assert libraries == {None, "auto_explain", "pg_prewarm", "pg_stat_statements", "plpgsql"}
    assert settings["pg_stat_statements.max"]["context"] == "postmaster"


def test_names_of_other_versions_are_known() -> None:
    assert catalogue.load("postgres", "15")["elsewhere"]["io_method"] == [18]
    assert catalogue.load("postgres", "18")["elsewhere"]["stats_temp_directory"] == [13, 14]


def test_every_name_that_went_is_translated_or_explained() -> None:
    """What a catalogue lacks that an older one has must be in the tables: nothing can vanish unnoticed."""
    explained = {*guc_names.RENAMED, *guc_names.SEGMENTS, *guc_names.REMOVED, *guc_names.INTERNAL}
    for older, newer in itertools.pairwise(MAJORS):
        gone = catalogue.load("postgres", older)["settings"].keys() - catalogue.load("postgres", newer)["settings"].keys()
        assert {name.lower() for name in gone} <= explained, f"gone in {newer}"


@everywhere
def test_tables_of_names_do_not_contradict_the_server(major: str) -> None:
    known = {name.lower() for name in catalogue.load("postgres", major)["settings"]}
    for name, (version, _, _) in guc_names.REMOVED.items():
        assert name not in known or int(major) < float(version), name
    assert not known & (guc_names.EPAS_NAMES | guc_names.SEGMENTS.keys())
    assert not [name for name in known if name.startswith(guc_names.EPAS_PREFIXES)]
    new_names = {*guc_names.RENAMED.values(), *(new for new, _ in guc_names.SEGMENTS.values())}
    assert all(new in known or guc_names.OLDER.get(new) in known or new in guc_names.REMOVED for new in new_names)


@everywhere
def test_boot_values_resolve_on_themselves(major: str) -> None:
    """Each default, asked for, is accepted and means the default."""
    loaded = catalogue.load("postgres", major)
    asked = {
        name: entry["boot_val"]
        for name, entry in loaded["settings"].items()
        if "boot_val" in entry and entry["context"] != "internal" and name not in guc_names.OURS and name not in guc_names.INTERNAL
    }
    settings, _, problems = guc.resolve(asked, loaded, origin="test", loaded=["auto_explain", "pg_prewarm", "pg_stat_statements"])
    assert problems == []
    assert len(settings) == len(asked) > 300
    for setting in settings:
        assert guc.equal(loaded["settings"][setting["name"]], asked[setting["name"]], setting["text"]), setting
