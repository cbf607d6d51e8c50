# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Which size do I need? The documentation is the module's."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.pgsizing.bench.plugins.module_utils import preflight, sizing, spec
from ansible_collections.pgsizing.bench.plugins.module_utils.hardware import DEFAULT_REGION
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain
from ansible_collections.pgsizing.bench.plugins.module_utils.sizing_text import size_text
from ansible_collections.pgsizing.bench.plugins.plugin_utils import command_line
from ansible_collections.pgsizing.bench.plugins.plugin_utils import site as sites
from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import Store, StoreError


class ActionModule(ActionBase):
    """Recommend a size for a need, from published results and the user's own."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Print the answer and return it, or fail with everything that is wrong with the question."""
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            argument_spec={"inputs": {"type": "dict", "default": {}}, "sizes": {"type": "dict", "required": True}}
        )
        args = to_plain(args)
        given, _ignored, problems = command_line.inputs(self, args["inputs"], set(sizing.INPUTS))
        need, wrong = sizing.read_need(given)
        problems += wrong
        sizes = {}
        for name, entry in args["sizes"].items():
            sizes[name], wrong = spec.read_size(name, entry)
            problems += wrong
        if problems:
            raise AnsibleActionFail("this question cannot be answered:\n" + "\n".join(f"  * {p}" for p in problems))
        region = need["region"] or DEFAULT_REGION
        prices = sites.prices(region)
        answer = sizing.recommend(
            need,
            points=[
                *sizing.published_points(sites.published()),
                *sizing.own_points(self._own(command_line.results_dir(need["results_dir"]))),
            ],
            sizes=sizes,
            instances=sites.instances(),
            prices=prices,
            region=region,
        )
        today = datetime.datetime.now(datetime.UTC).date()
        age = preflight.price_age({"date": (prices or {}).get("date"), "region": region}, today)
        answer["uncertainty"] += [f["message"] for f in age]
        self._display.display("\n".join(size_text(answer)))
        return {**result, "changed": False, "answer": to_plain(answer)}

    def _own(self, results_dir: Path) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """Yield the user's experiments that a size can be told from; a damaged one is said and left out."""
        for path in sorted(results_dir.glob("*/experiment.json")):
            if path.parent.is_symlink():
                continue
            store = Store(path.parent)
            try:
                if store.experiment["plan"]["headline"] == "nopm":
                    yield store.experiment, store.trials()
            except (StoreError, OSError, KeyError) as error:
                self._display.warning(f"left out: {path.parent.name}: {error}")
