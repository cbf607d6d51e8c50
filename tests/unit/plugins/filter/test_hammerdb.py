# GNU General Public License v3.0 or later (see LICENSE)
"""HammerDB's release archive by the facts of a host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.pgsizing.bench.plugins.filter.hammerdb import hammerdb_archive

FACTS = {"distribution": "Rocky", "os_family": "RedHat", "architecture": "x86_64", "distribution_version": "9.4"}


def test_facts_by_either_name() -> None:
    """The variable ansible_facts has short names, what the module setup returns has long ones."""
    long = {f"ansible_{name}": value for name, value in FACTS.items()}
    assert hammerdb_archive("5.0", FACTS) == hammerdb_archive("5.0", long)
    assert hammerdb_archive("5.0", FACTS)["name"] == "HammerDB-5.0-Prod-Lin-RHEL9.tar.gz"


@pytest.mark.parametrize(
    ("version", "facts", "said"),
    [
        ("4.12", {}, "distribution, os_family, architecture, distribution_version not gathered"),
        (4.1, FACTS, "put it in quotes, '4.1' or '4.10'"),
        (3.3, FACTS, "put it in quotes"),
        ("3.3", FACTS, "too old"),
    ],
)
def test_where_there_is_none(version: Any, facts: dict[str, str], said: str) -> None:
    with pytest.raises(AnsibleFilterError, match=said):
        hammerdb_archive(version, facts)


def test_a_number_that_can_be_one_version_only() -> None:
    assert hammerdb_archive(4.12, FACTS)["name"] == "HammerDB-4.12-Linux.tar.gz"
