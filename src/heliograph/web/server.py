"""The server: an address taken, the application served there in a thread of its own."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import uvicorn
from starlette.applications import Starlette

from heliograph.config.settings import DashboardConfig
from heliograph.config.values import Address
from heliograph.errors import AddressTaken
from heliograph.web.app import make_app
from heliograph.web.desk import Desk, Operations, Validate
from heliograph.web.guard import make_guard

_MOST_CONNECTIONS = 100
_IDLE_S = 5
_LEAVES_WITHIN_S = 2


@contextmanager
def serving(
    operations: Operations, validate: Validate, dashboard: DashboardConfig
) -> Iterator[Address]:
    """Serve while the context lasts; yield where. Raises ConfigError before anything is served."""
    guard = make_guard(dashboard)
    with closing(_listen(dashboard.listen)) as listener:
        server = _Server(_settings(make_app(Desk(operations, validate), guard)))
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listener]}, name="dashboard", daemon=True
        )
        thread.start()
        server.wait_started(thread)
        try:
            yield Address(dashboard.listen.host, listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


def _listen(address: Address) -> socket.socket:
    try:
        family, _, _, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server((str(place[0]), int(place[1])), family=family)
    except OSError as error:
        # Python adds the address to what the system says, and we name it already.
        code = error.errno or 0
        reason = os.strerror(code) if code > 0 else error.strerror
        raise AddressTaken(
            f"the dashboard cannot listen at {address}: {reason}. Set dashboard.listen, or say"
            " --listen HOST:PORT"
        ) from error


def _settings(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        # A caller's address is the one it has, not one that it writes into a header.
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_LEAVES_WITHIN_S,
    )


class _Server(uvicorn.Server):
    """Serves in a thread. Signals are heard by whoever runs the process."""

    def wait_started(self, thread: threading.Thread) -> None:
        while not self.started and thread.is_alive():
            time.sleep(0.01)
        assert self.started, "the application starts without waiting for anything"
