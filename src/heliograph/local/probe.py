"""Does a cluster serve? Asked of the brokers themselves, in the protocol's smallest request."""

import socket
import struct
from contextlib import suppress

_METADATA = 3
_VERSION = 1
_CLIENT = b"heliograph-probe"
_MOST_BYTES = 1 << 20


def nodes_seen(host: str, port: int, timeout_s: float) -> frozenset[int] | None:
    """Return the nodes that the broker at this port knows as alive, or None.

    None: it does not answer, answers nonsense, or knows no controller. Needs a listener
    without TLS or login.
    """
    with suppress(OSError, struct.error, EOFError):
        return _parse(_ask(host, port, timeout_s))
    return None


def accepts(host: str, port: int, timeout_s: float) -> bool:
    """Tell whether anything listens at the port: all that can be asked without a login."""
    with suppress(OSError), socket.create_connection((host, port), timeout_s):
        return True
    return False


def _ask(host: str, port: int, timeout_s: float) -> bytes:
    header = struct.pack(f">hhih{len(_CLIENT)}s", _METADATA, _VERSION, 1, len(_CLIENT), _CLIENT)
    # Version 1 with an empty list of topics: brokers and controller only.
    body = struct.pack(">i", 0)
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (size,) = struct.unpack(">i", _read(connection, 4))
        if not 4 <= size <= _MOST_BYTES:
            raise EOFError
        return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise EOFError
        received += part
    return received


def _parse(reply: bytes) -> frozenset[int] | None:
    _, count = struct.unpack_from(">ii", reply)
    at, nodes = 8, set()
    for _ in range(count):
        node, length = struct.unpack_from(">ih", reply, at)
        nodes.add(node)
        # Host, port, then a rack that may be absent (length -1).
        at += 6 + length + 4
        (length,) = struct.unpack_from(">h", reply, at)
        at += 2 + max(length, 0)
    (controller,) = struct.unpack_from(">i", reply, at)
    return frozenset(nodes) if controller >= 0 else None
