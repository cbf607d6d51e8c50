# GNU General Public License v3.0 or later (see LICENSE)
"""Raw files of a trial: fetched, described, never held in memory."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.pgsizing.bench.plugins.plugin_utils.store import write_atomic

#: Fetched files from this size are compressed.
COMPRESS_BYTES = 64 * 2**10
#: A file that only the become user may read comes in pieces of this size.
PIECE_BYTES = 8 * 2**20


class Shell:
    """Reads files of the target as the become user; the connection itself fetches as the user it logs in as."""

    def __init__(self, action: ActionBase) -> None:
        self._action = action

    def fetch_file(self, path: str, local: str) -> None:
        """Fetch ``path`` into the file ``local``."""
        with open(local, "wb") as stream:
            while True:
                answer = self._action._low_level_execute_command(
                    f"tail -c +{stream.tell() + 1} {shlex.quote(path)} | head -c {PIECE_BYTES} | base64", sudoable=True
                )
                piece = base64.b64decode("".join(answer.get("stdout", "").split()))
                if not piece and answer.get("stderr", "").strip():
                    raise AnsibleActionFail(f"{path}: {answer['stderr'].strip()}")
                stream.write(piece)
                if len(piece) < PIECE_BYTES:
                    return


def source(action: ActionBase) -> Any:
    """Return what ``fetch`` reads the files of the action's target from."""
    return Shell(action) if action._connection.become else action._connection


def describe(path: Path, base: Path) -> dict[str, Any]:
    """Return path (relative to ``base``), size in bytes and SHA-256 of a raw file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(2**20):
            digest.update(block)
    return {"path": str(path.relative_to(base)), "bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def fetch(connection: Any, path: str, folder: Path, compress: bool = True) -> dict[str, Any]:
    """Fetch a file of the target into ``folder``, compressed when large, and describe it."""
    local = folder / Path(path).name
    connection.fetch_file(path, str(local))
    if compress and local.suffix != ".gz" and local.stat().st_size >= COMPRESS_BYTES:
        packed = local.with_name(local.name + ".gz")
        with open(local, "rb") as source, gzip.open(packed, "wb", compresslevel=3) as out:
            shutil.copyfileobj(source, out, 2**20)
        local.unlink()
        local = packed
    return describe(local, folder.parent)


def write_table(path: Path, rows: Sequence[dict[str, Any]], base: Path) -> dict[str, Any]:
    """Write rows of equal keys as CSV (a missing value is an empty field); return its path and column names."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)
    write_atomic(path, text.getvalue())
    return {"path": str(path.relative_to(base)), "columns": columns}
