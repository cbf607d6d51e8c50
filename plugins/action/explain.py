# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Explain every row of a profile on the hardware of a size; the documentation is the module's."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.pgsizing.bench.plugins.module_utils import profiles, spec
from ansible_collections.pgsizing.bench.plugins.module_utils.inputs import INPUTS, coerce_all, nearest
from ansible_collections.pgsizing.bench.plugins.module_utils.local_profile import local_profile
from ansible_collections.pgsizing.bench.plugins.module_utils.plain import to_plain
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_place import DEFAULTS
from ansible_collections.pgsizing.bench.plugins.module_utils.plan_variants import EPAS_MAJORS
from ansible_collections.pgsizing.bench.plugins.module_utils.sizing_text import explain_text
from ansible_collections.pgsizing.bench.plugins.module_utils.units import human_size
from ansible_collections.pgsizing.bench.plugins.modules.machine import machine
from ansible_collections.pgsizing.bench.plugins.plugin_utils import catalogue, command_line
from ansible_collections.pgsizing.bench.plugins.plugin_utils import site as sites

KNOWN = {name: {**INPUTS[name], "axis": False} for name in ("size", "profile", "engine", "postgres_version", "allow_vars")}


class ActionModule(ActionBase):
    """Say of each setting of a profile why it is set, what is wrong with it, and what would be right."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Print the explanation and return it, or fail with everything that is wrong with the inputs."""
        result = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(
            argument_spec={
                "inputs": {"type": "dict", "default": {}},
                "sizes": {"type": "dict", "required": True},
                "profiles": {"type": "dict", "required": True},
            }
        )
        args = to_plain(args)
        given, _ignored, problems = command_line.inputs(self, args["inputs"], set(KNOWN))
        values, wrong = coerce_all(given, KNOWN)
        problems += wrong
        size = self._size(values, args["sizes"], problems)
        name = values.get("profile") or size.get("profile") or ""
        known = {"none": {}, **args["profiles"]}
        if name and name not in ("local", *known):
            problems.append(f"profile: {name!r} is not one of local, {', '.join(known)}{_meant(name, ['local', *known])}")
        engine = values.get("engine") or DEFAULTS["engine"]
        majors = [m for m in catalogue.majors("postgres") if engine != "epas" or m in EPAS_MAJORS]
        version = values.get("postgres_version") or majors[-1]
        if version not in majors:
            problems.append(f"postgres_version: {version!r} is not one of {', '.join(majors)}")
        facts = sites.instances().get(size.get("instance_type"))
        if not facts and not size.get("instance_type"):
            here = machine(0, tuple(majors))
            facts = {**here, "vcpus": here["cores"]}
        if name == "local" and not problems:
            if not facts:
                problems.append(f"profile local is computed from cores and memory, and nothing is known of {size['instance_type']}")
            else:
                known["local"] = _computed(facts, size, version)
        if not problems:
            answer, wrong = profiles.explain(
                known,
                name,
                size["name"],
                catalogue.load("postgres", version),
                engine=engine,
                memory_bytes=facts["memory_bytes"] if facts else None,
                clients=(size.get("workload") or {}).get("clients") or 1,
            )
            problems += wrong
        if problems:
            raise AnsibleActionFail("this cannot be explained:\n" + "\n".join(f"  * {p}" for p in problems))
        self._display.display("\n".join(explain_text(answer, _machine_text(size, facts))))
        return {**result, "changed": False, "answer": to_plain(answer)}

    def _size(self, values: dict[str, Any], known: dict[str, Any], problems: list[str]) -> dict[str, Any]:
        name = values.get("size") or DEFAULTS["size"]
        if name not in known:
            problems.append(f"size: {name!r} is not one of {', '.join(known)}{_meant(name, known)}")
            return {}
        entry = known[name]
        if values.get("profile") and isinstance(entry, dict):
            entry = {**entry, "profile": values["profile"]}
        size, wrong = spec.read_size(name, entry)
        problems += wrong
        return size


def _meant(name: str, known: Any) -> str:
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def _computed(facts: dict[str, Any], size: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the computed profile in the shape of the others."""
    volumes = size["volumes"]
    disk = (volumes.get("wal") or volumes.get("data") or volumes.get("root") or {}).get("bytes") or facts.get("disk_free_bytes") or 0
    rows = local_profile(facts["vcpus"], facts["memory_bytes"], disk, int(version))
    return {
        "description": "Computed from cores, memory and disk",
        "settings": {row["name"]: row["value"] for row in rows},
        "rows": {row["name"]: {"reason": row["reason"]} for row in rows},
    }


def _machine_text(size: dict[str, Any], facts: dict[str, Any] | None) -> str:
    what = size["instance_type"] or "this machine"
    return f"{what}: {facts['vcpus']} vCPU, {human_size(facts['memory_bytes'])} memory" if facts else f"{what}: not known"
