"""Sockets for kafka-python that do not leak.

It forgets a socket whose connection fails or is given up, and it tries again for ever: while a
broker is down, open files pile up until the garbage collector happens to run.
"""

import socket
from typing import Any

from kafka.net.inet import KafkaNetSocket

# kafka-python picks the class of its sockets by the scheme of ``proxy_url``.
CLOSING = "heliograph://"


class ClosingSocket(KafkaNetSocket):  # type: ignore[misc]  # kafka-python has no types
    """Connects directly, like the class it extends; what it made and cannot hand over it closes.

    kafka-python makes one of these for each connection it attempts.
    """

    SCHEMES = ("heliograph",)

    async def sock_connect(self, net: Any, sock: socket.socket, *to: Any, **limits: Any) -> Any:
        """Connect or close. Also runs its end when the attempt itself is closed half-way."""
        try:
            return await super().sock_connect(net, sock, *to, **limits)
        except BaseException:
            sock.close()
            raise
