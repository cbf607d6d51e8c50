# GNU General Public License v3.0 or later (see LICENSE)
"""Action plugins without a playbook: shell commands and modules run on this machine, as on a target."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from support.modules import _RUN, PATH, ROOT


def shell(command: str, sudoable: bool = True, **_more: Any) -> dict[str, Any]:
    """What ``ActionBase._low_level_execute_command`` does, on this machine."""
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, env={"PATH": PATH, "HOME": "/nonexistent"}, check=False)
    out, err = (stream.decode("utf-8", "surrogateescape") for stream in (done.stdout, done.stderr))
    return {"rc": done.returncode, "stdout": out, "stderr": err}


def module(module_name: str, module_args: dict[str, Any], task_vars: Any = None, **_more: Any) -> dict[str, Any]:
    """What ``ActionBase._execute_module`` does, on this machine."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, module_name.rpartition(".")[2]],
        input=json.dumps(module_args),
        env={"PYTHONPATH": str(ROOT / "collections"), "PATH": PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    return dict(json.loads(done.stdout))


def make_action(plugin: Any, check: bool = False, **args: Any) -> Any:
    """Return an ``ActionModule`` of ``plugin`` (a module of ``plugins/action``) with the task's ``args``; what it displays is kept."""
    loader = DataLoader()
    task = MagicMock(async_val=0, check_mode=check, diff=False, args=args)
    task.get_search_path.return_value = []
    connection = SimpleNamespace(fetch_file=shutil.copy, become=None, _shell=MagicMock(tmpdir=None), transport="local")
    action = plugin.ActionModule(
        task=task,
        connection=connection,
        play_context=MagicMock(),
        loader=loader,
        templar=Templar(loader=loader),
        shared_loader_obj=MagicMock(),
    )
    action._low_level_execute_command = shell
    action._execute_module = module
    action._display = MagicMock()
    return action


def displayed(action: Any) -> str:
    """Return what the action printed."""
    return "\n".join(str(call.args[0]) for call in action._display.display.call_args_list)
