# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""The release archive of HammerDB for a machine (role ``hammerdb``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.pgsizing.bench.plugins.module_utils.hammerdb_release import archive


def hammerdb_archive(version: str | float, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return ``{name, url}`` for the facts of a host: ``ansible_facts``, or those that the module ``setup`` returned."""
    names = ("distribution", "os_family", "architecture", "distribution_version")
    known = {name: str(facts.get(name, facts.get(f"ansible_{name}", ""))) for name in names}
    missing = [name for name, value in known.items() if not value]
    if missing:
        raise AnsibleFilterError(f"hammerdb_archive: facts: {', '.join(missing)} not gathered")
    if isinstance(version, float) and re.fullmatch(r"\d+\.[1-9]", str(version)):
        raise AnsibleFilterError(f"hammerdb_version: put it in quotes, '{version}' or '{version}0': to YAML both are {version}")
    family = "Ubuntu" if known["distribution"] == "Ubuntu" else known["os_family"]
    try:
        return archive(str(version), known["architecture"], family, known["distribution_version"])
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's name of a set of filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"hammerdb_archive": hammerdb_archive}
