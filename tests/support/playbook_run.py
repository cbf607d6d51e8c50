# GNU General Public License v3.0 or later (see LICENSE)
"""Start real ``ansible-playbook`` runs, on pipes or on a terminal, and watch what they print."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 60.0


class Run:
    """A started ``ansible-playbook``. ``output`` grows as it is read; with a terminal, both streams are one."""

    def __init__(self, playbook: Path, *arguments: str, terminal: bool = False, **environment: str) -> None:
        configuration = playbook.with_name("ansible.cfg")
        configuration.write_text("[defaults]\n", encoding="utf-8")
        settings = {
            "ANSIBLE_CONFIG": str(configuration),
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
            "ANSIBLE_CALLBACKS_ENABLED": "pgsizing.bench.artifacts,pgsizing.bench.progress",
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(playbook.parent / ".ansible"),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
        }
        command = [str(Path(sys.executable).with_name("ansible-playbook")), str(playbook), *arguments]
        self.output = self.errors = ""
        self._terminal: int | None = None
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if terminal:
            self._terminal, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            streams = dict.fromkeys(streams, slave)
        self.process = subprocess.Popen(
            command,
            cwd=playbook.parent,
            env={k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PGSIZING_"))} | settings | environment,
            start_new_session=True,
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if terminal else None,
            **streams,
        )
        if terminal:
            os.close(slave)

    def see(self, condition: Callable[[str], bool]) -> str:
        """Read the terminal until ``condition`` holds for what came so far; ``EOFError`` when the run ends before."""
        assert self._terminal is not None
        deadline = time.monotonic() + PATIENCE_S
        while not condition(self.output):
            if not select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"not seen: {self.output!r}")
            try:
                new = os.read(self._terminal, 65536)
            except OSError:  # the last program on the terminal has ended
                new = b""
            if not new:
                raise EOFError(f"not seen: {self.output!r}")
            self.output += new.decode()
        return self.output

    def see_error(self, text: str, times: int = 1) -> None:
        """Read standard error until ``text`` came in so many lines; ``EOFError`` when the run ends before."""
        assert self.process.stderr is not None
        while times:
            line = self.process.stderr.readline().decode()
            if not line:
                raise EOFError(f"not seen: {text!r}")
            times -= text in line

    def hang_up(self) -> None:
        """Close the terminal's window."""
        assert self._terminal is not None
        os.close(self._terminal)
        self._terminal = None

    def end(self) -> int:
        """Wait for the end and return the exit status."""
        if self._terminal is not None:
            with contextlib.suppress(EOFError):
                self.see(lambda _: False)
            os.close(self._terminal)
            return self.process.wait(PATIENCE_S)
        if self.process.stdout is None:
            return self.process.wait(PATIENCE_S)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        self.output, self.errors = out.decode(), err.decode()
        return self.process.returncode


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until ``condition`` holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


def screen(output: str) -> str:
    """Return what stays on a terminal after ``output``: carriage return and "erase to end of line" applied."""
    return "\n".join(line.rstrip("\r").rpartition("\r\x1b[K")[2] for line in output.split("\n"))
