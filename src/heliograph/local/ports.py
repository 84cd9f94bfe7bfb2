"""Free ports on loopback, that stay free while a broker is down."""

import secrets
import socket
from pathlib import Path

from heliograph.local.layout import HOST

_LOWEST = 10240
_FEWEST_CHOICES = 1000
_TRIES = 200


def reserve(count: int) -> list[socket.socket]:
    """Return sockets bound to free ports; close each right before its broker starts.

    Another process may still take a port in between: the caller starts again with others.
    """
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            held.append(_bind_one())
    except BaseException:
        for one in held:
            one.close()
        raise
    return held


def _bind_one() -> socket.socket:
    # The system's own choice (port 0) lies where outgoing connections get their ports. A broker
    # that is killed and started again could find its port taken by one, and a client that
    # knocks at the dead port could even be connected to itself. So choose below that range.
    above = _first_outgoing_port()
    for _ in range(_TRIES if above - _LOWEST >= _FEWEST_CHOICES else 0):
        try:
            return _bind(_LOWEST + secrets.randbelow(above - _LOWEST))
        except OSError:
            continue
    return _bind(0)


def _bind(port: int) -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        one.bind((HOST, port))
    except OSError:
        one.close()
        raise
    return one


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        # Not Linux: the range that the internet's registry sets aside.
        return 49152
