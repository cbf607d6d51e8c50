# GNU General Public License v3.0 or later (see LICENSE)
"""Which hop fails between driver and server is said."""

from __future__ import annotations

import errno
import socket

import pytest

from ansible_collections.pgsizing.bench.plugins.modules import reach as module
from ansible_collections.pgsizing.bench.plugins.modules.reach import reach


def test_there_and_back() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        assert reach("127.0.0.1", listening.getsockname()[1], True, 5) == ("127.0.0.1", "127.0.0.1")


def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(OSError, match=r"^name: .* cannot resolve 'no\.such\.invalid'"):
        reach("no.such.invalid", 5432, True, 1)


def test_a_port_on_which_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match=r"^port: 127\.0\.0\.1 port \d+ refuses .*nothing listens"):
            reach("127.0.0.1", bound.getsockname()[1], True, 1)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError("timed out"), "host: no answer from"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "host: .* cannot reach"),
    ],
)
def test_a_host_that_does_not_answer(error: OSError, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise error

    monkeypatch.setattr(module.socket, "create_connection", fail)
    with pytest.raises(OSError, match=said):
        reach("127.0.0.1", 5432, True, 1)


def test_no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere(socket.socket):
        def connect(self, _address: object) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(module.socket, "socket", Nowhere)
    with pytest.raises(OSError, match=r"^route: .* has no route to 127\.0\.0\.1 port 5432: Network is unreachable"):
        reach("127.0.0.1", 5432, False, 1)
