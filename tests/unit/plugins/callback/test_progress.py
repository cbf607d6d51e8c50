# GNU General Public License v3.0 or later (see LICENSE)
"""The live line in real ansible-playbook runs, on a pseudo terminal and on pipes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from support.playbook_run import Run, screen

PLAYBOOK = """
- name: Progress
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan
      ansible.builtin.set_fact:
        pgsizing_experiment: {{id: sample, dir: "{folder}"}}
    - name: Measure
      ansible.builtin.shell:
        cmd: |
          while [ ! -e go ]; do
            echo '{{"at": '$(date +%s.%N)', "stage": "measure", "trial": "01-base-r1", "k": 1, "n": 2, "step": "run",
                   "elapsed_s": 1, "planned_s": 9, "rate": 812.4, "unit": "tps", "latency_ms": 12.3}}' | tr -d '\\n' >> progress.jsonl
            echo >> progress.jsonl
            sleep 0.1
          done
        chdir: "{folder}"
      changed_when: false
    - name: After
      ansible.builtin.debug:
        msg: done
"""
SHOWN = "measure · trial 1/2 · "


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    folder = tmp_path / "sample"
    folder.mkdir()
    trials = {"01-base-r1": {"state": "running"}, "02-base-r2": {"state": "planned"}}
    plan = {"inputs": {}, "where": {"provider": "local"}, "estimate": {"seconds": 300.0}}
    experiment = {"plan": plan, "journal": {"trials": trials, "stages": {}, "end": None}}
    (folder / "experiment.json").write_text(json.dumps(experiment))
    path = tmp_path / "run.yml"
    path.write_text(PLAYBOOK.format(folder=folder))
    return path


def go(playbook: Path) -> None:
    (playbook.parent / "sample" / "go").touch()


@pytest.mark.parametrize("arguments", [(), ("-v",)])
def test_on_a_terminal_one_line_comes_and_goes(playbook, arguments):
    run = Run(playbook, *arguments, terminal=True)
    run.see(lambda text: text.endswith(" left"))
    last = run.output.rpartition("\r\x1b[K")[2]
    assert last.startswith(SHOWN)
    assert len(last) < 80  # never wraps
    assert "812 tps" in run.output
    go(playbook)
    assert run.end() == 0
    left = screen(run.output)
    assert SHOWN not in left
    assert "\x1b" not in left
    for line in ("TASK [Measure] *", "TASK [After] *", '    "msg": "done"', "PLAY RECAP *"):
        assert any(shown.startswith(line) for shown in left.split("\n")), line


def test_an_interrupt_takes_the_line_away(playbook):
    run = Run(playbook, terminal=True)
    run.see(lambda text: SHOWN in text)
    os.write(run._terminal, b"\x03")
    assert run.end() == 99
    left = screen(run.output)
    assert SHOWN not in left
    assert "resume=sample" in left


@pytest.mark.parametrize("terminal", [False, True], ids=["pipes", "dumb terminal"])
def test_without_a_terminal_plain_lines(playbook, terminal):
    run = Run(playbook, terminal=terminal, TERM="dumb", PGSIZING_PROGRESS_INTERVAL="0.3")
    if terminal:
        run.see(lambda text: text.count(SHOWN) > 1)
    else:
        run.see_error(SHOWN, times=2)
    go(playbook)
    assert run.end() == 0
    assert "\x1b" not in run.output + run.errors
    assert "PLAY RECAP" in run.output
    if not terminal:
        assert SHOWN not in run.output  # standard output is Ansible's alone


@pytest.mark.parametrize(("mode", "shown"), [("off", False), ("plain", True)])
def test_mode(playbook, mode, shown):
    run = Run(playbook, terminal=True, PGSIZING_PROGRESS=mode, PGSIZING_PROGRESS_INTERVAL="0.2")
    if shown:
        run.see(lambda text: f"pgsizing: {SHOWN}" in text)
    else:
        run.see(lambda text: "TASK [Measure]" in text)
    go(playbook)
    assert run.end() == 0
    assert (SHOWN in run.output) is shown
    assert "\x1b" not in run.output


def test_an_error_switches_the_line_off_and_not_the_run(playbook):
    (playbook.parent / "sample" / "progress.jsonl").mkdir()
    run = Run(playbook, terminal=True)
    run.see(lambda text: "pgsizing.bench.progress is off" in text)
    go(playbook)
    assert run.end() == 0
    assert "PLAY RECAP" in run.output


def test_events_of_an_earlier_run_are_not_shown(playbook):
    old = {"at": time.time() - 1000, "stage": "measure", "trial": "of an earlier run", "k": 1, "n": 2}
    (playbook.parent / "sample" / "progress.jsonl").write_text(json.dumps(old) + "\n")
    run = Run(playbook, terminal=True)
    run.see(lambda text: SHOWN in text)
    go(playbook)
    assert run.end() == 0
    assert "of an earlier run" not in run.output
