# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Settings as text of a configuration file, and the live server against them (role ``gucs``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import guc


def check(read: Mapping[str, Any], settings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what ``roles/gucs/tasks/check.yml`` keeps of the rows that it ``read`` from the server.

    A server that is not ours (no ``file_settings``) was asked for nothing: it is described, not judged.
    """
    rows = {row["name"]: row["setting"] for row in read["settings"]}
    return {
        "findings": [] if read["file_settings"] is None else guc.check_effect(settings, read["settings"], read["file_settings"]),
        "non_default": guc.non_default(read["settings"]),
        "server_version": rows["server_version"],
        "server_version_num": int(rows["server_version_num"]),
        # 17 and later; older servers do not tell.
        "huge_pages_in_use": {"on": True, "off": False}.get(rows.get("huge_pages_status", "")),
    }


class FilterModule:
    """Ansible's name of a set of filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"gucs_render": guc.render, "gucs_check": check}
