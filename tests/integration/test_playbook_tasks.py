# GNU General Public License v3.0 or later (see LICENSE)
"""Decisions of the playbooks' task files, by the tasks themselves: which addresses, and whether to reserve huge pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
#: Both hosts are this machine; nothing is asked of the addresses but the way to them.
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def facts(folder: Path, tasks: str, names: list[str], hosts: dict[str, dict[str, Any]], **variables: Any) -> dict[str, Any]:
    """Run a task file on the first host; return the facts ``names`` that it sets."""
    out = folder / "facts.json"
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {name: {**LOCAL, **values} for name, values in hosts.items()}}}))
    keep = {"ansible.builtin.copy": {"content": f"{{{{ {{{', '.join(f'{n!r}: {n}' for n in names)}}} | to_json }}}}", "dest": str(out)}}
    play = {
        "hosts": next(iter(hosts)),
        "gather_facts": False,
        "vars": variables,
        "tasks": [{"ansible.builtin.include_tasks": f"{ROOT}/playbooks/tasks/{tasks}"}, keep],
    }
    (folder / "play.json").write_text(json.dumps([play]))
    run = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(folder / "hosts.json"), str(folder / "play.json")],
        env=os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return dict(json.loads(out.read_text()))


SSH = {"ansible_host": "127.0.0.9"}
ADDRESSES = [
    # variables of the server, variables of the driver, address of the server, address of the driver
    (SSH, {}, "127.0.0.9", "127.0.0.1"),
    ({**SSH, "private_ip": "127.0.0.2"}, {}, "127.0.0.2", "127.0.0.1"),
    ({**SSH, "private_ip": "127.0.0.2"}, {"ansible_host": "127.0.0.8", "private_ip": "127.0.0.3"}, "127.0.0.2", "127.0.0.3"),
    ({**SSH, "hammerdb_private_ip": "127.0.0.4"}, {}, "127.0.0.9", "127.0.0.4"),
    ({**SSH, "hammerdb_server_private_ip": "127.0.0.5"}, {}, "127.0.0.9", "127.0.0.5"),
    ({**SSH, "hammerdb_private_ip": "127.0.0.4", "hammerdb_server_private_ip": "127.0.0.5"}, {}, "127.0.0.9", "127.0.0.4"),
    ({**SSH, "hammerdb_private_ip": "127.0.0.4"}, {"private_ip": "127.0.0.3"}, "127.0.0.9", "127.0.0.3"),
    ({**SSH, "ansible_ssh_common_args": "-o ProxyJump=ops@bastion", "private_ip": "127.0.0.2"}, {}, "127.0.0.2", "127.0.0.1"),
]


@pytest.mark.parametrize(("server", "driver", "to", "at"), ADDRESSES)
def test_driver_and_server_meet_at_the_addresses_of_the_inventory(
    server: dict[str, str], driver: dict[str, str], to: str, at: str, tmp_path: Path
) -> None:
    """The way that the controller takes to either is none of theirs; where the inventory is silent, the route between them decides."""
    hosts = {"pgsql1": server, "hammerdb1": driver}
    names = ["pgsizing_address", "pgsizing_driver_address"]
    found = facts(tmp_path, "prepare_addresses.yml", names, hosts, prepare_driver="hammerdb1", prepare_experiment={"port": 55432})
    assert found == {"pgsizing_address": to, "pgsizing_driver_address": at}


@pytest.mark.parametrize(("resumed", "runs", "reserve"), [(False, True, True), (True, True, False), (True, False, True)])
def test_huge_pages_are_reserved_again_where_a_restart_may_have_given_them_back(
    resumed: bool, runs: bool, reserve: bool, tmp_path: Path
) -> None:
    """A server of ours that still runs has what was reserved for it; else there may have been a restart of the host."""
    cluster = tmp_path / "clusters/16-0"
    (cluster / "data").mkdir(parents=True)
    (cluster / "cluster.json").write_text("{}")
    server = subprocess.Popen(["sleep", "60"], cwd=cluster / "data" if runs else tmp_path)
    (cluster / "data/postmaster.pid").write_text(f"{server.pid}\n{cluster}/data\n0\n55432\n")
    names, experiment = ["pgsizing_reserve_pages"], {"resumed": resumed}
    try:
        found = facts(tmp_path, "prepare_pages.yml", names, {"db": {}}, prepare_experiment=experiment, pgsizing_base_dir=str(tmp_path))
    finally:
        server.kill()
        server.wait()
    assert found == {"pgsizing_reserve_pages": reserve}
