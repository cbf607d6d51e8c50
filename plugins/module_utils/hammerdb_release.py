# GNU General Public License v3.0 or later (see LICENSE)
"""Which release archive of HammerDB fits a machine, by version, distribution and architecture.

Names as on the release pages of https://github.com/TPC-Council/HammerDB; those of 6.0 and of 6.1 for Arm follow their pattern. The
pages list MD5 and SHA-1 only, so that the SHA-256 of an archive is the user's to give.
"""

from __future__ import annotations

import re

#: What the role ``hammerdb`` installs when nobody says another version.
DEFAULT_VERSION = "4.12"
_PAGE = "https://github.com/TPC-Council/HammerDB/releases/download"
#: Distributions that the builds are known to run on; others have another C library, or an older one.
_FAMILIES = ("Debian", "RedHat", "Ubuntu")
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def unbuilt(version: str, machine: str) -> str | None:
    """Return why there is no build of ``version`` for a machine (as ``uname -m`` says, or AWS), ``None`` when there is one."""
    if machine not in _MACHINES:
        return f"there is no HammerDB for {machine}"
    if _MACHINES[machine] == "arm64" and _number(version) < (6, 1):
        return f"HammerDB {version} is built for x86-64 only; for Arm take 6.1 or later"
    return None


def _number(version: str) -> tuple[int, ...]:
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if not found:
        raise ValueError(f"hammerdb_version: {version!r} is not a version such as 4.12")
    return tuple(int(part or 0) for part in found.groups())


def archive(version: str, machine: str, family: str, release: str) -> dict[str, str]:
    """Return ``{name, url}`` of the Linux archive.

    ``machine``: as ``uname -m`` says. ``family`` and ``release``: of the distribution, such as ``RedHat`` and ``9``, ``Debian`` and ``12``.
    ``ValueError`` says why there is none.
    """
    number = _number(version)
    if wrong := unbuilt(version, machine):
        raise ValueError(wrong)
    kind = _MACHINES[machine]
    if number < (4, 0):
        raise ValueError(f"HammerDB {version} is too old; take 4.0 or later")
    if family not in _FAMILIES:
        raise ValueError(f"no archive of HammerDB is known to run on {family}; give hammerdb_archive, hammerdb_url or hammerdb_home")
    if number < (5, 0):
        name = f"HammerDB-{version}-Linux.tar.gz"
    else:
        name = f"HammerDB-{version}-Prod-Lin-{_system(number, family, release)}{f'-{kind}' if number >= (6, 1) else ''}.tar.gz"
    return {"name": name, "url": f"{_PAGE}/v{version}/{name}"}


def _system(number: tuple[int, ...], family: str, release: str) -> str:
    """Builds for Ubuntu 24 need its C library; the one for RHEL 8 of 5.0, and the one for RHEL 9, run on what is not older."""
    if family == "RedHat":
        return "RHEL8" if number < (6, 0) and release.split(".")[0] == "8" else "RHEL9"
    major = int(re.match(r"\d*", release).group() or 0)  # type: ignore[union-attr]
    return "UBU24" if major >= (24 if family == "Ubuntu" else 13) else "RHEL9"
