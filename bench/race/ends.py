"""A very light client: asks one broker for the stable ends of one topic, every few milliseconds.

It shares no code with what is measured, and costs tens of microseconds a question: one request,
made once, on one blocking socket.
"""

import socket
import struct
from types import TracebackType
from typing import Self

_LIST_OFFSETS, _VERSION = 2, 2
_READ_COMMITTED, _LATEST, _NO_REPLICA = 1, -1, -1
# The topic is not there yet; has no leader yet; this broker does not know that it leads.
_NOT_YET = (3, 5, 6)
_TIMEOUT_S = 30.0
_PARTITION = struct.Struct(">ihqq")


class Ends:
    """The stable ends (what a read_committed reader may read up to) of a topic's partitions.

    For clusters of one broker without security, and topics that may not exist yet.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        host, _, port = bootstrap.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._partitions = partitions
        self._request = _request(topic, partitions)
        self._skipped = 4 + 4 + 4 + 2 + len(topic.encode()) + 4

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self) -> tuple[int, ...] | None:
        """Return the ends by partition, or None while the topic is not there."""
        self._socket.sendall(self._request)
        (size,) = struct.unpack(">i", self._read(4))
        body = self._read(size)
        ends = [0] * self._partitions
        # Correlation id, throttle time, count of topics, name, count of partitions.
        for number, code, _, end in _PARTITION.iter_unpack(body[self._skipped :]):
            if code in _NOT_YET:
                return None
            if code:
                raise RuntimeError(f"the broker answered {code} when asked for the ends")
            ends[number] = end
        return tuple(ends)

    def _read(self, size: int) -> bytes:
        body = b""
        while len(body) < size:
            some = self._socket.recv(size - len(body))
            if not some:
                raise ConnectionError("the broker closed the connection")
            body += some
        return body


def _request(topic: str, partitions: int) -> bytes:
    name, client = topic.encode(), b"race"
    body = struct.pack(">hhih", _LIST_OFFSETS, _VERSION, 1, len(client)) + client
    body += struct.pack(">ibi", _NO_REPLICA, _READ_COMMITTED, 1)
    body += struct.pack(">h", len(name)) + name + struct.pack(">i", partitions)
    body += b"".join(struct.pack(">iq", number, _LATEST) for number in range(partitions))
    return struct.pack(">i", len(body)) + body
