# GNU General Public License v3.0 or later (see LICENSE)
"""A stand-in for HammerDB, where the real one cannot be had: see ``hammerdb_standin.tcl``. It needs ``tclsh``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parents[1] / "fixtures" / "hammerdb" / "clocked"


def install(home: Path, version: str = "4.12", psql: str = "psql", **conf: Any) -> Path:
    """Make ``home`` a folder that looks like HammerDB's and return it. ``conf``: keys of ``standin.conf``."""
    home.mkdir(parents=True, exist_ok=True)
    program = home / "hammerdbcli"
    shutil.copy(Path(__file__).with_suffix(".tcl"), program)
    program.chmod(0o755)
    values = {"version": version, "captures": CAPTURES / version, "psql": psql, **conf}
    (home / "standin.conf").write_text("\n".join(f"{name} {{{value}}}" for name, value in values.items()))
    return home
