# GNU General Public License v3.0 or later (see LICENSE)
"""A small private PostgreSQL cluster for a test: own temporary directory, own free port, loopback and socket only."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SETTINGS = """
listen_addresses = '127.0.0.1'
shared_buffers = 16MB
max_connections = 20
fsync = off
"""


def newest_bin_dir() -> Path:
    """Return the folder of the newest PostgreSQL server programs of the distribution."""
    return sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))[-1].parent


@contextmanager
def running_cluster(home: Path, settings: str = "") -> Iterator[dict[str, Any]]:
    """Run a cluster in ``home`` (made if missing) and give its ``cluster.json``; stopped at the end if it still runs."""
    root = os.geteuid() == 0
    home.mkdir(parents=True, exist_ok=True)
    data, bin_dir, prefix = home / "data", newest_bin_dir(), ["runuser", "-u", "postgres", "--"] if root else []
    if root:
        for folder in (home, *home.parents):
            if folder == Path("/tmp"):
                break
            folder.chmod(0o755)
        shutil.chown(home, "postgres", "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = {
        "name": home.name,
        "bin_dir": str(bin_dir),
        "data_dir": str(data),
        "socket_dir": str(home),
        "port": port,
        "user": "pgsizing",
        "run_prefix": prefix,
        "stop_argv": [*prefix, str(bin_dir / "pg_ctl"), "stop", "-D", str(data), "-m", "fast", "-w"],
        "log": str(home / "server.log"),
    }

    def run(*argv: str) -> None:
        # the server keeps what it inherits: give it no pipe that we would wait for
        subprocess.run(
            [*prefix, *argv], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )

    run(f"{bin_dir}/initdb", "-D", str(data), "-U", "pgsizing", "-A", "trust", "--no-sync", "--locale=C")
    with open(data / "postgresql.conf", "a", encoding="utf-8") as file:
        file.write(SETTINGS + f"port = {port}\nunix_socket_directories = '{home}'\n" + settings)
    run(f"{bin_dir}/pg_ctl", "start", "-D", str(data), "-l", cluster["log"], "-w")
    (home / "cluster.json").write_text(json.dumps(cluster), "utf-8")
    try:
        yield cluster
    finally:
        if (data / "postmaster.pid").exists():
            run(f"{bin_dir}/pg_ctl", "stop", "-D", str(data), "-m", "immediate", "-w")


def sql(cluster: dict[str, Any], query: str, dbname: str = "postgres") -> str:
    """Return what psql prints for a query, unaligned."""
    environment = {**os.environ, "PGPASSFILE": cluster.get("passfile") or os.devnull}
    return subprocess.run(
        ["psql", "-XAtq", "-h", cluster["socket_dir"], "-p", str(cluster["port"]), "-U", cluster["user"], "-d", dbname, "-c", query],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    ).stdout.strip()
