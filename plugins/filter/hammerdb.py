# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""The release archive of HammerDB for a machine (role ``hammerdb``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.pgsizing.bench.plugins.module_utils.hammerdb_release import archive


def hammerdb_archive(version: str, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return ``{name, url}`` for the facts of a host."""
    family = "Ubuntu" if facts["ansible_distribution"] == "Ubuntu" else facts["ansible_os_family"]
    try:
        return archive(str(version), facts["ansible_architecture"], family, facts["ansible_distribution_version"])
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's name of a set of filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"hammerdb_archive": hammerdb_archive}
