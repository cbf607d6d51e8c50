# GNU General Public License v3.0 or later (see LICENSE)
"""Wrong inputs and machines that cannot hold the plan: one clear message, nothing changed, exit status not 0."""

from __future__ import annotations

import socket
import sys
from typing import Any

import pytest
from support.e2e import SHORT, Place

REFUSED = {
    "near miss of an input": (["sise=local"], ["sise", "did you mean 'size'?"]),
    "wrong type": (["clients=many"], ["clients: 'many' is not a whole number, such as clients=4"]),
    "wrong choice": (["cache=warn"], ["cache: 'warn' is not one of as_is, warm, cold; did you mean 'warm'?"]),
    "both of a pair": (["transactions=10"], ["transactions=10 and duration=3 exclude each other"]),
    "unknown GUC": ([{"gucs": {"shared_bufers": "1GB"}}], ["shared_bufers", "shared_buffers"]),
    "GUC out of range": ([{"gucs": {"max_connections": 0}}], ["max_connections", "1", "262143"]),
    "GUC of another engine": ([{"gucs": {"edb_dynatune": 90}}], ["edb_dynatune", "EPAS"]),
    "more shared_buffers than memory": ([{"gucs": {"shared_buffers": "4TB"}}], ["shared_buffers", "larger than the memory"]),
    "more clients than connections": (["clients=500"], ["500 clients", "max_connections = 200", "lower clients"]),
    "disk too small": (["scale=5000", "data_scale=1000"], ["disk: the plan needs", "are free"]),
    "cold cache on a machine that is not ours": (["cache=cold"], ["cache=cold", "share_host=true"]),
    "unknown published run": (["reproduce=pgbench-shared-bufers-2023"], ["did you mean 'pgbench-shared-buffers-2023'?"]),
}


@pytest.mark.parametrize(("options", "said"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_with_one_message(fresh: Place, options: list[str | dict[str, Any]], said: list[str]) -> None:
    run = fresh.run(*SHORT, *options, rc=None)
    assert [text for text in said if text not in run.words] == [], run.output
    assert run.output.count("fatal: ") == 1
    assert fresh.snapshot() == {}


def test_everything_wrong_is_said_at_once(fresh: Place) -> None:
    run = fresh.run("sise=1", "clients=many", "repeats=0", "cache=hot", {"gucs": {"work_mem": "many"}}, rc=None)
    assert "5 reason(s)" in run.output
    for name in ("sise", "clients", "repeats", "cache", "work_mem"):
        assert f"* {name}" in run.output.replace("gucs: ", ""), run.output


def test_port_in_use_is_refused_and_named(fresh: Place) -> None:
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", fresh.port))
        owner.listen()
        run = fresh.run(*SHORT, rc=None)
    assert f"port {fresh.port} is in use by" in run.words
    assert "choose another with -e postgres_port=N" in run.words
    assert fresh.snapshot() == {}


def test_no_binaries_and_no_way_to_install(fresh: Place) -> None:
    fresh.environment = {"PATH": "/nonexistent"}  # no apt-get, no dnf
    run = fresh.run(*SHORT, {"postgres_bin_dirs": ["/nonexistent/bin"]}, rc=None)
    assert "binaries on this machine (there are: none) and no way to install them" in run.words
    assert "set postgres_bin_dirs to where they are" in run.words
    assert fresh.snapshot() == {}


def test_an_old_python_on_a_host(fresh: Place) -> None:
    """Stand-in: this Python, saying that it is 3.6, and failing as 3.6 does on what Ansible sends it."""
    old = fresh.root / "old-python"
    old.write_text(
        "#!/bin/sh\n"
        f"""[ "$1" = -c ] && exec {sys.executable} -c "import sys; sys.version_info = (3, 6, 15); $2"\n"""
        "echo 'SyntaxError: future feature annotations is not defined' >&2; exit 1\n"
    )
    old.chmod(0o755)
    inventory = fresh.root / "hosts.yml"
    inventory.write_text(
        f"bench_db: {{hosts: {{db1: {{ansible_connection: local, ansible_python_interpreter: {old}}}}}}}\n"
        "bench_clients: {hosts: {c1: {ansible_connection: local}}}\n"
    )
    for options in ([], ["--check"]):
        run = fresh.run(*SHORT, f"--inventory={inventory}", *options, "server_group=bench_db", "driver_group=bench_clients", rc=2)
        assert "nothing was changed; Python 3.6.15 of db1 is too old, modules need 3.9 or later there" in run.words
        assert "SyntaxError" not in run.words
    assert not fresh.base_dir.exists()
