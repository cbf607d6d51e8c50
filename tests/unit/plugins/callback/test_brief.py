# GNU General Public License v3.0 or later (see LICENSE)
"""What the terminal shows of a failed workload, in real ansible-playbook runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.playbook_run import Run

PLAYBOOK = """
- name: Fail
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Run pgbench
      pgsizing.bench.pgbench:
        bin_dir: "{folder}"
        work_dir: "{folder}/jobs"
        scripts: [{{sql: SELECT 1}}]
        duration: 1
        ramp_up: 0
        clients: 1
      register: run
      ignore_errors: true
    - name: Keep it
      ansible.builtin.copy: {{content: "{{{{ run | to_json }}}}", dest: "{folder}/run.json"}}
    - name: Fail otherwise
      ansible.builtin.shell: echo of another kind; exit 3
"""


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    program = tmp_path / "pgbench"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo "pgbench (PostgreSQL) 15.18"; exit; }\n'
        "echo 'pgbench: error: connection to server failed: FATAL:  sorry, too many clients already' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    path = tmp_path / "run.yml"
    path.write_text(PLAYBOOK.format(folder=tmp_path))
    return path


def run(playbook: Path, *arguments: str) -> tuple[str, dict[str, object]]:
    """Return what was printed of the workload that failed, and what was registered."""
    done = Run(playbook, *arguments, ANSIBLE_STDOUT_CALLBACK="pgsizing.bench.brief", ANSIBLE_CALLBACK_RESULT_FORMAT="yaml")
    assert done.end() == 2, done.errors
    assert "of another kind" in done.output  # results of others are printed as ever
    printed = done.output.partition("FAILED! =>")[2].partition("...ignoring")[0]
    return printed, json.loads((playbook.parent / "run.json").read_text())


def test_a_failed_workload_is_its_message_and_the_rest_is_registered(playbook: Path) -> None:
    printed, registered = run(playbook)
    assert printed.split(":", 1)[0].strip() == "msg"
    assert "too many clients" in printed
    assert len(printed.splitlines()) <= 4
    assert set(registered["measurement"]) > {"steps", "findings", "raw"}  # type: ignore[call-overload]
    assert registered["verdict"] == "failed"


def test_with_v_all_of_it_is_printed(playbook: Path) -> None:
    printed, _registered = run(playbook, "-v")
    assert "measurement:" in printed
    assert "findings:" in printed


def test_what_is_included_is_named_where_ok_hosts_are(tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("- name: Change\n  ansible.builtin.command: echo\n")
    path = tmp_path / "run.yml"
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"name": "Go on", "ansible.builtin.include_tasks": "more.yml"}]}
    path.write_text(json.dumps([play]))

    def printed(ok_hosts: str, *arguments: str) -> str:
        settings = {"ANSIBLE_STDOUT_CALLBACK": "pgsizing.bench.brief", "ANSIBLE_DISPLAY_OK_HOSTS": ok_hosts}
        done = Run(path, *arguments, **settings)
        assert done.end() == 0, done.errors
        return done.output

    brief = printed("0")
    assert "TASK [Change]" in brief
    assert "changed: [localhost]" in brief
    assert "included:" not in brief
    assert "Go on" not in brief
    assert "included: " in printed("1")
    assert "included: " in printed("0", "-v")
