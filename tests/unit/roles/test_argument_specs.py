# GNU General Public License v3.0 or later (see LICENSE)
"""Every role says what it takes: its argument spec and its defaults are the same, and its README points at them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import INPUTS

ROOT = Path(__file__).parents[3]
ROLES = sorted(path.parent for path in (ROOT / "roles").glob("*/meta"))
#: Data too large to be repeated in the spec; their shape is told in the defaults.
LARGE = {"plan_sizes", "plan_profiles"}
each_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def defaults(role: Path) -> dict[str, Any]:
    """Defaults of a role by name: of its one file, or of all files of its folder."""
    files = [path for path in [role / "defaults/main.yml", *sorted((role / "defaults/main").glob("*.yml"))] if path.exists()]
    found: dict[str, Any] = {}
    for path in files:
        values = read(path) or {}
        assert not set(values) & set(found), f"{path}: set twice"
        found |= values
    return found


def main_options(role: Path) -> dict[str, Any]:
    return dict(read(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"])


@each_role
def test_spec_and_defaults_are_the_same(role: Path) -> None:
    options, set_here = main_options(role), defaults(role)
    required = {name for name, option in options.items() if option.get("required")}
    assert set(options) - required == set(set_here)
    for name in set(set_here) - LARGE:
        assert options[name].get("default") == set_here[name], name


@each_role
def test_every_option_is_described_and_named_after_the_role(role: Path) -> None:
    for point, spec in read(role / "meta/argument_specs.yml")["argument_specs"].items():
        assert spec["short_description"], point
        for name, option in (spec.get("options") or {}).items():
            assert name.startswith(f"{role.name}_"), name
            assert option["type"], name
            assert option["description"], name


@each_role
def test_entry_points_are_tasks(role: Path) -> None:
    for point in read(role / "meta/argument_specs.yml")["argument_specs"]:
        assert (role / f"tasks/{point}.yml").is_file(), point


@each_role
def test_variables_inside_are_told_apart(role: Path) -> None:
    """Constants are ``_<role>_…``, what tasks register or set is ``__<role>_…`` or a fact that other roles read."""
    for path in sorted((role / "vars").glob("*.yml")):
        assert [name for name in read(path) or {} if not name.startswith(f"_{role.name}_")] == [], path
    for path in sorted((role / "tasks").rglob("*.yml")):
        for name in re.findall(r"^\s*register: (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert name.startswith((f"__{role.name}_", f"{role.name}_")), f"{path}: {name}"


@each_role
def test_readme(role: Path) -> None:
    text = (role / "README.md").read_text(encoding="utf-8")
    assert text.splitlines()[0] in (f"# {role.name}", f"# pgsizing.bench.{role.name}")
    assert "meta/argument_specs.yml" in text
    assert "```yaml" in text
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (role / link).exists(), link
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        assert yaml.safe_load(block), block
    for name in re.findall(rf"\b({role.name}_[a-z_]+):", text):
        assert name in main_options(role), name


def test_every_input_has_a_variable_of_the_role_plan() -> None:
    known = defaults(ROOT / "roles/plan")
    passed_on = read(ROOT / "roles/plan/vars/main.yml")["_plan_inputs"]
    assert {name for name in INPUTS if f"plan_{name}" not in known} == set()
    assert {name: value for name, value in passed_on.items() if value != f"{{{{ plan_{name} }}}}"} == {}
    assert set(INPUTS) - set(passed_on) == set()
    assert {f"plan_{name}" for name in passed_on} <= set(known)


def test_defaults_of_inputs_say_nothing() -> None:
    """An empty value means "not said here": a recipe or the documented default then holds."""
    known = defaults(ROOT / "roles/plan")
    assert {name: known[f"plan_{name}"] for name in INPUTS if known[f"plan_{name}"] not in ("", {}, [])} == {}


def test_a_secret_is_not_logged() -> None:
    options = main_options(ROOT / "roles/plan")
    assert [name for name, spec in INPUTS.items() if spec.get("secret") and not options[f"plan_{name}"].get("no_log")] == []
