# GNU General Public License v3.0 or later (see LICENSE)
"""Which answers of dnf to the question what would be installed are refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

TASKS = yaml.safe_load((Path(__file__).parents[3] / "roles/postgres/tasks/packages_redhat.yml").read_text(encoding="utf-8"))
[REFUSAL] = [task for task in TASKS if task["name"] == "Refuse when there is no such package"]


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ({"msg": "", "results": ["Installed: postgresql15-server-15.8-1.x86_64"], "rc": 0}, False),
        ({"msg": "Check mode: No changes made, but would have if not in check mode", "results": ["Installed: x"], "rc": 0}, False),
        ({"msg": "Nothing to do", "results": [], "rc": 0}, False),
        (
            {"msg": "Failed to install some of the specified packages", "failures": ["No package x available."], "results": [], "rc": 1},
            True,
        ),
        ({"msg": "Failed to download metadata for repo 'baseos': Cannot prepare internal mirrorlist", "results": [], "rc": 1}, True),
        ({"msg": "Depsolve Error occurred: nothing provides libllvm", "failures": [], "results": [], "rc": 1}, True),
        ({"msg": "Could not import the dnf python module", "results": []}, True),
        ({"msg": "Depsolve Error occurred", "failures": [], "rc": 1}, True),  # dnf5
    ],
)
def test_answers_of_dnf(answer: dict[str, Any], refused: bool) -> None:
    compiled = [jinja2.Environment(autoescape=False).compile_expression(text) for text in REFUSAL["when"]]
    assert all(one(__postgres_plan=answer, ansible_check_mode=False) for one in compiled) is refused
