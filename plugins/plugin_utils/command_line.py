# GNU General Public License v3.0 or later (see LICENSE)
"""The inputs of a playbook: what the role says of them, overridden by short names from the command line. Controller only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import INPUTS, coerce_all, near_misses
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_place import DEFAULTS
from ansible_collections.pgsizing.bench.plugins.plugin_utils.site import role_variables


def inputs(action: ActionBase, configured: dict[str, Any], known: set[str]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the inputs that were given, the extra vars that are nobody's, and everything wrong with their names.

    ``configured`` are the role's (an empty value counts as not given), ``known`` the names that count from the command line.
    """
    extra = load_extra_vars(action._loader)
    ours = role_variables() if set(extra) - known else set()
    given = {name: value for name, value in configured.items() if value not in (None, "", [], {})}
    given |= to_plain({name: action._templar.template(value) for name, value in extra.items() if name in known})
    # Inputs of another playbook of ours are no typos.
    allowed = {*ours, *INPUTS, *_names(configured.get("allow_vars")), *_names(given.get("allow_vars"))}
    problems = [
        f"{name}: no such input; did you mean {near!r}? A variable of your own by that name is let through by "
        f"""-e '{{"allow_vars": ["{name}"]}}'"""
        for name, near in sorted(near_misses(extra, known, allowed).items())
    ]
    ignored = sorted(name for name in extra if name not in known | ours and not name.startswith("ansible_"))
    return given, ignored, problems


def _names(allow_vars: Any) -> list[str]:
    return list(coerce_all({"allow_vars": allow_vars}, INPUTS)[0].get("allow_vars", []))


def results_dir(given: Any) -> Path:
    """Return the folder of the results, as the user named it from where the command was given."""
    return Path(str(given or DEFAULTS["results_dir"])).expanduser().absolute()
