# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""The live line: reads ``progress.jsonl`` of the running experiment from a thread and draws its last event."""

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: notification
short_description: Live progress of a benchmark experiment
version_added: 0.1.0
author: pgsizing contributors
description:
  - On a terminal, keeps one line below Ansible's own output - stage, trial k of n, time in the step, current rate and
    latency, and about how long it will yet take.
  - Without a terminal, prints a plain line to standard error now and then.
  - Reads what the actions of this collection append to C(progress.jsonl) in the folder of the experiment. Does nothing
    in a run that plans no experiment. An error of its own switches it off and never touches the run.
requirements:
  - enabling in configuration (C(callbacks_enabled))
options:
  mode:
    description:
      - V(auto) draws a live line when both standard output and standard error are terminals, and prints plain lines otherwise.
      - V(plain) always prints plain lines, V(off) prints nothing.
    type: str
    choices: [auto, plain, 'off']
    default: auto
    env:
      - name: PGSIZING_PROGRESS
    ini:
      - section: pgsizing_progress
        key: mode
  interval:
    description: Seconds between plain lines.
    type: float
    default: 30
    env:
      - name: PGSIZING_PROGRESS_INTERVAL
    ini:
      - section: pgsizing_progress
        key: interval
"""

import atexit
import contextlib
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

from ansible_collections.pgsizing.bench.plugins.module_utils.progress_line import NAMED_BY, Progress, experiment_of, parse_events

#: How often the thread looks for new events; a look is one ``read`` that mostly returns nothing.
LOOK_S = 0.1


def display_lock(display: Any) -> Any:
    """Return the lock under which Display writes and forks (a private name), or one of our own."""
    return getattr(display, "_lock", None) or threading.RLock()


class LiveLine:
    """One line at the foot of the terminal, taken away before Ansible prints and drawn again after.

    ``display.display`` is shadowed on the instance, because the callback plugin that prints is called before this one:
    erasing in a hook comes too late. Display's own lock also guards its ``fork``, so no child inherits a held lock.
    """

    def __init__(self, display: Any) -> None:
        self.display = display
        self.lock = display_lock(display)
        self.pid = os.getpid()
        self.shown = ""

    def install(self) -> None:
        """Put the erasing wrapper in front of ``display.display``."""
        original = self.display.display

        def display(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() != self.pid:  # in a worker, whose calls go to the parent and arrive here again
                return original(*args, **kwargs)
            with self.lock:
                self.erase()
                return original(*args, **kwargs)

        self.display.display = display

    def remove(self) -> None:
        """Erase the line and restore ``display.display``."""
        self.display.__dict__.pop("display", None)
        with self.lock:
            self.erase()

    def erase(self) -> None:
        """Take the line away. A terminal that is gone raises nothing: what Ansible prints next matters more."""
        if self.shown:
            self.shown = ""
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def draw(self, text: str) -> None:
        """Show ``text``, which must fit the terminal: a line that wraps cannot be erased."""
        with self.lock:
            if text != self.shown:
                sys.stdout.flush()
                self.shown = text
                sys.stderr.write("\r\x1b[K" + text)
                sys.stderr.flush()


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "pgsizing.bench.progress"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._line: LiveLine | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def v2_runner_on_ok(self, result: Any) -> None:
        """Start when a task says which experiment this run is."""
        if self._thread is None and (named := experiment_of(result.result)) and result.task.resolved_action in NAMED_BY:
            self._start(Path(named["dir"]))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Take the line away before the recap."""
        self._close()

    def _start(self, directory: Path) -> None:
        mode = self.get_option("mode")
        if mode == "off":
            return
        if mode == "auto" and sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
            self._line = LiveLine(self._display)
            self._line.install()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, args=(directory,), name="pgsizing-progress", daemon=True)
        self._thread.start()
        atexit.register(self._close)  # an interrupt reaches no hook

    def _close(self) -> None:
        if self._thread is not None and os.getpid() == self._pid and not self._stop.is_set():
            self._stop.set()
            self._thread.join(2)
            if self._line:
                self._line.remove()

    def _run(self, directory: Path) -> None:
        try:
            self._follow(directory)
        except Exception as error:
            if self._line:
                self._line.remove()
            with contextlib.suppress(Exception):
                self._display.warning(f"pgsizing.bench.progress is off: {type(error).__name__}: {error}")

    def _follow(self, directory: Path) -> None:
        """Read events as they come and show the last one, until told to stop."""
        progress = Progress(_estimate(directory))
        path = directory / "progress.jsonl"
        # A resumed experiment has events of its earlier run: only what comes from now on says how fast this one is.
        offset, rest = path.stat().st_size if path.exists() else 0, b""
        lock = display_lock(self._display)
        interval = float(self.get_option("interval"))
        next_plain = time.monotonic() + interval
        while not self._stop.wait(LOOK_S):
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as stream:
                stream.seek(offset)
                new = stream.read()
                offset += len(new)
                events, rest = parse_events(rest + new)
                for event in events:
                    progress.feed(event)
            text = progress.text(time.time(), shutil.get_terminal_size().columns - 1 if self._line else None)
            if not text:
                continue
            if self._line:
                self._line.draw(text)
            elif time.monotonic() >= next_plain:
                next_plain = time.monotonic() + interval
                with lock:
                    sys.stdout.flush()  # Ansible leaves its own lines in the buffer; ours must not overtake them
                    self._display.display(f"pgsizing: {text}", stderr=True)
                    sys.stderr.flush()


def _estimate(directory: Path) -> float | None:
    """Return the plan's estimate in seconds, ``None`` when there is none."""
    try:
        return float(json.loads((directory / "experiment.json").read_text(encoding="utf-8"))["plan"]["estimate"]["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
