# GNU General Public License v3.0 or later (see LICENSE)
"""Every plugin is documented, and what it documents is what it takes."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import actions

from ansible_collections.pgsizing.bench.plugins.module_utils.workloads import pgbench
from ansible_collections.pgsizing.bench.plugins.plugin_utils.site import WORKLOADS
from ansible_collections.pgsizing.bench.plugins.plugin_utils.workload_action import CONNECTION_SPEC

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "plugins/modules").glob("*.py"))
ACTIONS = sorted(path.stem for path in (ROOT / "plugins/action").glob("*.py"))
COMPARED = ("type", "choices", "default", "elements", "required")


def constants(path: Path) -> dict[str, str]:
    """The texts that stand at the top of a plugin, without importing it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant)
    }


def documented(name: str) -> dict[str, Any]:
    """The documented options of a module, with those of its fragments."""
    document = yaml.safe_load(constants(ROOT / f"plugins/modules/{name}.py")["DOCUMENTATION"])
    options = dict(document["options"])
    for fragment in document.get("extends_documentation_fragment", []):
        loaded = importlib.import_module(f"ansible_collections.pgsizing.bench.plugins.doc_fragments.{fragment.rpartition('.')[2]}")
        options |= yaml.safe_load(loaded.ModuleDocFragment.DOCUMENTATION)["options"]
    return options


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_documentation_examples_and_return(path: Path) -> None:
    texts = constants(path)
    document = yaml.safe_load(texts["DOCUMENTATION"])
    assert document["module"] == path.stem
    assert document["short_description"]
    assert not document["short_description"].endswith(".")
    assert document["description"]
    assert document["author"]
    assert "check_mode" in document["attributes"]
    for task in yaml.safe_load(texts["EXAMPLES"]):
        assert task["name"]
    for example in (e for e in yaml.safe_load(texts["EXAMPLES"]) if f"pgsizing.bench.{path.stem}" in e):
        assert set(example[f"pgsizing.bench.{path.stem}"]) <= set(documented(path.stem))
    for name, value in yaml.safe_load(texts["RETURN"]).items():
        assert value["description"], name
        assert value["returned"], name
        assert value["type"], name


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_has_its_module(name: str) -> None:
    assert (ROOT / f"plugins/modules/{name}.py").is_file()


class Taken(Exception):
    """Raised with the argument spec that an action validates."""


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_takes_what_its_module_documents(name: str) -> None:
    plugin = importlib.import_module(f"ansible_collections.pgsizing.bench.plugins.action.{name}")
    action = actions.make_action(plugin)

    def validate_argument_spec(argument_spec: dict[str, Any], **_more: Any) -> None:
        raise Taken(argument_spec)

    action.validate_argument_spec = validate_argument_spec
    with pytest.raises(Taken) as taken:
        action.run(task_vars={})
    assert comparable(taken.value.args[0]) == comparable(documented(name))


def comparable(spec: dict[str, Any]) -> dict[str, Any]:
    """What documentation and argument spec have in common, ``choices`` in any order; a folder of the checkout is no default to tell."""
    return {
        name: {
            k: sorted(v) if k == "choices" else v
            for k, v in option.items()
            if k in COMPARED and v not in (None, False) and not str(v).startswith(str(ROOT))
        }
        for name, option in spec.items()
    }


def test_the_shared_options_are_those_of_community_postgresql() -> None:
    assert {"login_host", "login_port", "login_user", "login_password", "login_db", "login_unix_socket", "ssl_mode"} <= set(CONNECTION_SPEC)
    assert CONNECTION_SPEC["login_password"]["no_log"] is True


def test_no_parameter_of_a_workload_hides_an_option_of_every_action() -> None:
    for name, workload in WORKLOADS.items():
        assert set(workload.OPTIONS) & set(CONNECTION_SPEC) == set(), name
    assert pgbench.WORKLOAD in WORKLOADS


@pytest.mark.parametrize(
    ("kind", "name"),
    [("module", "pgbench"), ("module", "plan"), ("role", "trial"), ("role", "plan"), ("callback", "progress"), ("filter", "gucs_render")],
)
def test_ansible_doc_shows_it(kind: str, name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-doc")), "--type", kind, "--json", f"pgsizing.bench.{name}"],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[f"pgsizing.bench.{name}"]
