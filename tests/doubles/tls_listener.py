"""A listener that shakes hands by TLS with any certificate, and says nothing more."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from pathlib import Path
from typing import Self

from heliograph.local.certs import Pair
from heliograph.local.credentials import write_private


class TlsListener:
    """As a context manager: listens on loopback, ends with its thread and its port."""

    def __init__(self, pair: Pair, folder: Path) -> None:
        file = folder / "listener.pem"
        write_private(file, pair.key + pair.certificate)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(file)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tls-listener")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        while not self._ends.is_set():
            # Whoever does not trust us hangs up: that is what the listener is for.
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                connection.settimeout(2)
                with connection, self._context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(1)
