# GNU General Public License v3.0 or later (see LICENSE)
"""Run a module of the collection in a process of its own, as a target does, and wait for conditions."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RUN = """
import atexit, importlib, json, re, sys
from ansible.module_utils.testing import patch_module_args

@atexit.register
def peak():
    print("peak_rss_kb", re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1), file=sys.stderr)

with patch_module_args(json.load(sys.stdin)):
    importlib.import_module("ansible_collections.pgsizing.bench.plugins.modules." + sys.argv[1]).main()
"""


def run_module(
    name: str, check: bool = False, fails: bool = False, environment: dict[str, str] | None = None, **options: Any
) -> dict[str, Any]:
    """Return what the module returns, with ``peak_rss_kb``. It must fail exactly when ``fails`` says so."""
    process = subprocess.run(
        [sys.executable, "-c", _RUN, name],
        input=json.dumps({**options, "_ansible_check_mode": check}, default=str),
        env={"PYTHONPATH": str(ROOT / "collections"), "PATH": PATH, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout, process.stderr
    result: dict[str, Any] = json.loads(process.stdout)
    assert bool(result.get("failed")) is fails, result
    result["peak_rss_kb"] = int(process.stderr.rpartition("peak_rss_kb ")[2])
    return result


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait until the condition is true and return its value."""
    give_up = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < give_up, "the condition did not come true"
        time.sleep(0.02)
    return value
