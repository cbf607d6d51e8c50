"""Make ``ansible_collections.pgsizing.bench`` importable from the checkout, with or without pytest-ansible."""

from __future__ import annotations

import signal
from pathlib import Path

from ansible.plugins.loader import init_plugin_loader

init_plugin_loader([str(Path(__file__).parents[1] / "collections")])

# Started by nohup or in the background of a script, a test run ignores these, and every program it starts inherits that:
# tests that send them would wait for nothing.
for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)
