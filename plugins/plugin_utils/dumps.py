# GNU General Public License v3.0 or later (see LICENSE)
"""Dumps of a database on the controller: their kind, size and identity."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from ansible_collections.pgsizing.bench.plugins.module_utils import plain_dump

#: Of a plain dump this much of its beginning and end is looked at; the whole is when it is restored.
LOOK_BYTES = 65536


def describe(path: Path) -> dict[str, Any]:
    """Return ``{path, format, bytes, sha256}`` of a dump; ``ValueError`` for a file that is none.

    The identity of a directory is that of its files, by name.
    """
    if path.is_dir():
        if not (path / "toc.dat").is_file():
            raise ValueError(f"{path} is a directory, but not one of pg_dump --format=directory: it holds no toc.dat")
        files = sorted(p for p in path.iterdir() if p.is_file())
        together = hashlib.sha256("".join(f"{p.name} {_sha256(p)}\n" for p in files).encode()).hexdigest()
        return {"path": str(path), "format": "directory", "bytes": sum(p.stat().st_size for p in files), "sha256": together}
    with open(path, "rb") as stream:
        head = stream.read(LOOK_BYTES)
        kind = _format(path, head)
        if kind == "plain":
            stream.seek(-min(LOOK_BYTES, path.stat().st_size), os.SEEK_END)
            _look(path, head, stream.read())
    return {"path": str(path), "format": kind, "bytes": path.stat().st_size, "sha256": _sha256(path)}


def _look(path: Path, head: bytes, tail: bytes) -> None:
    try:
        plain_dump.look(head, tail)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _format(path: Path, head: bytes) -> str:
    if head.startswith(b"PGDMP"):
        return "custom"
    if head[257:262] == b"ustar" and head.startswith(b"toc.dat"):
        return "tar"
    if plain_dump.HEADER in head or plain_dump.CLUSTER in head or path.suffix == ".sql":
        return "plain"
    if head[:2] == b"\x1f\x8b":
        raise ValueError(f"{path} is compressed by gzip: unpack it, or dump with --format=custom, which is compressed too")
    raise ValueError(f"{path} is no dump of pg_dump (custom, directory, tar or plain)")


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
