# GNU General Public License v3.0 or later (see LICENSE)
"""Rules of the house that no linter knows: what newer versions of Ansible refuse must not come in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
YAML_FILES = sorted(
    path for folder in ("roles", "playbooks") for path in (ROOT / folder).rglob("*.yml") if "files" not in path.relative_to(ROOT).parts
)
PYTHON_FILES = sorted((ROOT / "plugins").rglob("*.py"))
#: Facts that Ansible sets as variables of their own in any case, and what a run tells of itself.
MAGIC = {
    *("ansible_facts", "ansible_check_mode", "ansible_connection", "ansible_failed_result", "ansible_failed_task", "ansible_host"),
    *("ansible_limit", "ansible_play_hosts_all", "ansible_playbook_python", "ansible_python_interpreter"),
}
#: Variables of Ansible that are booleans by definition.
BOOLEANS = {"ansible_check_mode"}


def conditionals(value: Any) -> Iterator[str]:
    """Yield each expression of ``when``, ``until``, ``that``, ``failed_when`` and ``changed_when``, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("when", "until", "that", "failed_when", "changed_when"):
                yield from (str(item) for item in (inner if isinstance(inner, list) else [inner]) if not isinstance(item, bool))
            yield from conditionals(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from conditionals(inner)


#: Filters whose value is no boolean, when one of them comes last.
NO_BOOLEANS = r"\|\s*(?:length|count|int|float|string|trim|list|first|last|min|max|sum|join|select|reject|map|lower|upper)(?:\([^()]*\))?"
#: A default that is no boolean, as a value of its own.
NO_DEFAULT = r"\|\s*default\((?:''|\"\"|\[\]|\{\}|[\d.]+|none)[^()]*\)"


def is_bare(expression: str) -> bool:
    """Whether one of the operands of ``and``, ``or`` and ``not`` is a variable alone, or the value of a filter, that may be no boolean."""
    parts = re.split(r"\band\b|\bor\b", expression)
    names = [re.sub(r"^(?:not\b|[\s(])+|\s+$", "", part) for part in parts]
    alone = (name.rstrip(") ") for name in names)
    return any(re.fullmatch(r"[A-Za-z_][\w.\[\]'\"]*", name) and name not in BOOLEANS for name in alone) or any(
        re.search(f"(?:{NO_BOOLEANS}|{NO_DEFAULT})\\)*$", name) and not re.search(r"[=<>]|\b(?:in|is)\b", name) for name in names
    )


@pytest.mark.parametrize(
    ("expression", "bare"),
    [
        ("pg_extra_conf", True),
        ("not volumes_result.volumes", True),
        ("a == 1 and (b or c | bool)", True),
        ("item['x']", True),
        ("volumes_result.volumes | length", True),
        ("x is defined and (y | default(''))", True),
        ("not (r.stdout | trim)", True),
        ("a | selectattr('b') | list", True),
        ("(a | length) > 0 and b == 1", False),
        ("x | default(false)", False),
        ("x | default('') == 'a'", False),
        ("r.stdout | default('') is search('x')", False),
        ("pg_extra_conf | length > 0", False),
        ("x is defined", False),
        ("not x | bool", False),
        ("not (a | bool and b | bool)", False),
        ("not ansible_check_mode", False),
        ("lookup('template', 'x') | length > 0", False),
    ],
)
def test_bare_variables_are_seen(expression: str, bare: bool) -> None:
    assert is_bare(expression) is bare


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_C076_no_bare_variable_is_a_condition(path: Path) -> None:
    """From 2.19 on a conditional must be a boolean."""
    found = list(conditionals(yaml.safe_load(path.read_text(encoding="utf-8"))))
    assert [expression for expression in found if is_bare(expression)] == []
    assert [expression for expression in found if "{{" in expression] == []


def test_C076_broken_conditionals_are_not_allowed_by_configuration() -> None:
    assert "allow_broken_conditionals" not in (ROOT / "ansible.cfg").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize(
    "path",
    [*YAML_FILES, *sorted((ROOT / "roles").rglob("*.j2")), *PYTHON_FILES],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_C079_no_fact_is_read_as_a_variable_of_its_own(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"ansible_collections[.\w]*|['\"]ansible_facts['\"]|^#.*$", "", text, flags=re.MULTILINE)
    used = set(re.findall(r"(?<![\w'\"`-])(ansible_[a-z0-9_]+)\b(?!\()", text))
    assert {name for name in used - MAGIC if not name.startswith(("ansible_ssh_", "ansible_become_"))} == set()


def test_C079_runs_from_the_checkout_have_injection_off() -> None:
    assert "inject_facts_as_vars = False" in (ROOT / "ansible.cfg").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_C080_facts_of_another_host_are_gathered_by_a_play_on_it(path: Path) -> None:
    """``setup`` with ``delegate_to`` would leave the facts of one host with another."""

    def tasks(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            yield value
            value = list(value.values())
        for inner in value if isinstance(value, list) else []:
            yield from tasks(inner)

    gathering = ("ansible.builtin.setup", "ansible.builtin.gather_facts", "ansible.builtin.service_facts", "ansible.builtin.package_facts")
    for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8"))):
        if "delegate_to" in task:
            assert not set(task) & set(gathering), task


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_C077_nothing_private_of_ansible_is_imported(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"(?:from|import) ansible[\w.]*\._\w+", text) == []


@pytest.mark.parametrize("path", sorted((ROOT / "plugins/module_utils").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_pure_logic_imports_the_standard_library_and_itself(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    imported = set(re.findall(r"^\s*(?:from|import) ([\w.]+)", text, re.MULTILINE))
    others = {
        name
        for name in imported
        if name.startswith("ansible") and not name.startswith("ansible_collections.pgsizing.bench.plugins.module_utils")
    }
    assert others == set()
    assert imported & {"yaml", "jinja2", "numpy", "psycopg", "psutil", "requests", "boto3"} == set()


def travelling(path: Path) -> list[Path]:
    """Return a module and what of ours it takes along to the target."""
    found = [path]
    for known in found:
        text = known.read_text(encoding="utf-8")
        names = [
            name
            for where, said in re.findall(
                r"^from ansible_collections\.pgsizing\.bench\.plugins\.(module_utils[\w.]*) import (.+)$", text, re.M
            )
            for name in ([where] if "." in where else [f"{where}.{n.split()[0]}" for n in said.strip("(").split(",") if n.strip()])
        ]
        files = [ROOT / "plugins" / (name.replace(".", "/") + ".py") for name in names]
        found += [file for file in files if file not in found]
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "plugins/modules").glob("*.py")), ids=lambda path: path.name)
def test_modules_run_by_the_oldest_python_of_a_target(path: Path) -> None:
    """EL 9 has Python 3.9, where newer syntax and newer parts of the standard library are not."""
    newer = {"pairwise", "strict", "tomllib", "UTC", "add_note", "ExceptionGroup", "slots", "kw_only", "bit_count"}
    for file in travelling(path):
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file), feature_version=(3, 9))
        fields = (getattr(node, field, None) for node in ast.walk(tree) for field in ("id", "attr", "arg", "name", "module"))
        assert newer.isdisjoint(name for name in fields if isinstance(name, str)), file


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_C073_no_password_in_an_environment_or_an_argument(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "PGPASSWORD" not in text
    assert re.findall(r"--password[= ]", text) == []
