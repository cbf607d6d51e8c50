#!/usr/bin/python
# Copyright: pgsizing contributors
# GNU General Public License v3.0 or later (see LICENSE)
"""Say how this host reaches another one, and if it does not, at which hop it ends."""

from __future__ import annotations

DOCUMENTATION = r"""
module: reach
short_description: Say how this host reaches a server
version_added: 0.1.0
description:
  - Resolves the name of a server, asks the kernel for the route to it, and with O(connect) opens a TCP connection.
  - Fails with the hop at which it ends - the name, the route, the host or the port. Changes nothing.
options:
  host:
    description: Name or address of the server.
    type: str
    required: true
  port:
    description: Its TCP port.
    type: int
    required: true
  connect:
    description: Also open a connection.
    type: bool
    default: false
  timeout:
    description: Seconds after which a connection that is not answered is given up.
    type: float
    default: 10
attributes:
  check_mode:
    support: full
    description: Changes nothing anyway.
author: pgsizing contributors (@pgsizing)
"""

EXAMPLES = r"""
- name: See whether the driver reaches the server
  pgsizing.bench.reach:
    host: 10.0.0.11
    port: 55432
    connect: true
"""

RETURN = r"""
address:
  description: Address of the server.
  returned: success
  type: str
  sample: 10.0.0.11
source:
  description: Address of this host on the way there.
  returned: success
  type: str
  sample: 10.0.0.12
"""

import platform
import socket

from ansible.module_utils.basic import AnsibleModule


def reach(host: str, port: int, connect: bool, timeout: float) -> tuple[str, str]:
    """Return the address of the server and ours on the way there; ``OSError`` names the hop."""
    here = platform.node()
    try:
        family, _kind, _protocol, _name, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise OSError(f"name: {here} cannot resolve {host!r}: {error.strerror}") from error
    where = f"{target[0]} port {port}"
    with socket.socket(family, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(target)  # sends nothing; the kernel chooses the route
        except OSError as error:
            raise OSError(f"route: {here} has no route to {where}: {error.strerror}") from error
        source = asked.getsockname()[0]
    if not connect:
        return target[0], source
    try:
        socket.create_connection(target[:2], timeout).close()
    except ConnectionRefusedError as error:
        raise OSError(f"port: {where} refuses {here} ({source}): nothing listens on that address, or a firewall rejects it") from error
    except socket.timeout as error:
        raise OSError(f"host: no answer from {where} to {here} ({source}) within {timeout:g} s: a firewall or security group?") from error
    except OSError as error:
        raise OSError(f"host: {here} ({source}) cannot reach {where}: {error.strerror}") from error
    return target[0], source


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "connect": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 10},
        },
        supports_check_mode=True,
    )
    try:
        address, source = reach(**module.params)
    except OSError as error:
        module.fail_json(msg=f"the driver does not reach the server: {error}")
    module.exit_json(changed=False, address=address, source=source)


if __name__ == "__main__":
    main()
