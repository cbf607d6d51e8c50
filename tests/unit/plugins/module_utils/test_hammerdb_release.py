# GNU General Public License v3.0 or later (see LICENSE)
"""Names of HammerDB's release archives, as its release pages have them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.pgsizing.bench.plugins.module_utils.hammerdb_release import DEFAULT_VERSION, archive


@pytest.mark.parametrize(
    ("version", "machine", "family", "release", "name"),
    [
        ("4.5", "x86_64", "Debian", "12", "HammerDB-4.5-Linux.tar.gz"),
        ("4.12", "x86_64", "RedHat", "9.4", "HammerDB-4.12-Linux.tar.gz"),
        ("5.0", "x86_64", "RedHat", "8.10", "HammerDB-5.0-Prod-Lin-RHEL8.tar.gz"),
        ("5.0", "x86_64", "RedHat", "9.4", "HammerDB-5.0-Prod-Lin-RHEL9.tar.gz"),
        ("5.0", "x86_64", "Ubuntu", "24.04", "HammerDB-5.0-Prod-Lin-UBU24.tar.gz"),
        ("5.0", "x86_64", "Ubuntu", "22.04", "HammerDB-5.0-Prod-Lin-RHEL9.tar.gz"),
        ("6.0", "x86_64", "Debian", "13", "HammerDB-6.0-Prod-Lin-UBU24.tar.gz"),
        ("6.0", "x86_64", "Debian", "12", "HammerDB-6.0-Prod-Lin-RHEL9.tar.gz"),
        ("6.0", "x86_64", "RedHat", "2023", "HammerDB-6.0-Prod-Lin-RHEL9.tar.gz"),
        ("6.1.1", "x86_64", "RedHat", "9", "HammerDB-6.1.1-Prod-Lin-RHEL9-x64.tar.gz"),
        ("6.1.1", "aarch64", "RedHat", "9", "HammerDB-6.1.1-Prod-Lin-RHEL9-arm64.tar.gz"),
        ("6.1", "arm64", "Ubuntu", "24.04", "HammerDB-6.1-Prod-Lin-UBU24-arm64.tar.gz"),
    ],
)
def test_name_and_address(version: str, machine: str, family: str, release: str, name: str) -> None:
    url = f"https://github.com/TPC-Council/HammerDB/releases/download/v{version}/{name}"
    assert archive(version, machine, family, release) == {"name": name, "url": url}


def test_the_default_is_that_of_the_role() -> None:
    defaults = yaml.safe_load((Path(__file__).parents[4] / "roles/hammerdb/defaults/main.yml").read_text("utf-8"))
    assert defaults["hammerdb_version"] == DEFAULT_VERSION


@pytest.mark.parametrize("family", ["Suse", "Alpine", "Archlinux"])
def test_a_distribution_that_none_is_made_for(family: str) -> None:
    with pytest.raises(ValueError, match=f"known to run on {family}; give hammerdb_archive"):
        archive("6.1", "x86_64", family, "15.6")


@pytest.mark.parametrize(
    ("version", "machine", "said"),
    [
        ("6.0", "aarch64", "for Arm take 6.1 or later"),
        ("4.12", "aarch64", "for Arm take 6.1 or later"),
        ("6.1", "ppc64le", "no HammerDB for ppc64le"),
        ("3.3", "x86_64", "too old"),
        ("latest", "x86_64", "is not a version"),
        ("4", "x86_64", "is not a version"),
    ],
)
def test_where_there_is_none(version: str, machine: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        archive(version, machine, "RedHat", "9")
