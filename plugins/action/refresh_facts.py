# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Refresh instance facts and prices from AWS; the documentation is the module's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.pgsizing.bench.plugins.module_utils import aws_facts
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain
from ansible_collections.pgsizing.bench.plugins.plugin_utils import refresh_facts
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import write_atomic

FILES = Path(__file__).parents[2] / "roles/plan/files"


class ActionModule(ActionBase):
    """Ask AWS, transform, write what differs."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the files, what changed in them, and what AWS has no answer for; fail, after the rest was written, where it refused."""
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            argument_spec={
                "regions": {"type": "list", "elements": "str", "default": ["us-east-1", "eu-west-1"]},
                "instance_types": {"type": "list", "elements": "str", "default": []},
                "dest": {"type": "path", "default": str(FILES)},
            }
        )
        args = to_plain(args)
        if not args["regions"]:
            raise AnsibleActionFail("regions: an empty list")
        folder, today = Path(args["dest"]), time.strftime("%Y-%m-%d", time.gmtime())
        old = _read(folder / "instances.json")
        names = sorted({*old.get("instances", {}), *args["instance_types"]}, key=aws_facts.by_size)
        home = args["regions"][0]

        problems: list[str] = []
        documents: dict[str, dict[str, Any]] = {}
        missing: dict[str, list[str]] = {}

        def ask(name: str, question: Callable[[], tuple[dict[str, Any], list[str]]]) -> None:
            try:
                documents[name], missing[name] = question()
            except (refresh_facts.RefreshError, KeyError, ValueError) as error:
                problems.append(f"{name}: {error}")

        ask("instances.json", partial(_facts, names, old, home, today))
        known = documents.get("instances.json", old).get("instances", {})
        if "instances.json" in documents:
            problems += [f"instance_types: {home} offers no {name}" for name in args["instance_types"] if name not in known]
        for region in args["regions"]:
            name = f"prices/{region}.json"
            ask(name, partial(_prices, list(known), region, today))
            if name in documents and not documents[name]["instances"]:
                problems.append(f"{name}: the Price List has no instance in {region}; is it a region?")
                del documents[name]

        diffs = []
        for name, document in documents.items():
            before, after = _text(folder / name), aws_facts.to_text(document)
            if before != after:
                diffs.append({"before_header": name, "after_header": name, "before": before, "after": after})
                if not self._task.check_mode:
                    write_atomic(folder / name, after)
        missing = {name: lacking for name, lacking in missing.items() if lacking and name in documents}
        for name, lacking in missing.items():
            self._display.display(f"{name}: AWS has no answer for {', '.join(lacking)}")
        result |= {
            "changed": bool(diffs),
            "files": [str(folder / name) for name in documents],
            "missing": missing,
            "diff": diffs,
        }
        if problems:
            raise AnsibleActionFail("AWS did not answer everything:\n" + "\n".join(f"  * {p}" for p in problems), result=result)
        return result


def _facts(names: list[str], old: dict[str, Any], region: str, today: str) -> tuple[dict[str, Any], list[str]]:
    return aws_facts.facts(refresh_facts.instance_types(names, region), old, region, today)


def _prices(names: list[str], region: str, today: str) -> tuple[dict[str, Any], list[str]]:
    return aws_facts.prices(refresh_facts.price_list(region), names, region, today)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(_text(path) or "{}"))
