"""Reading the ledger's topic: once for all partitions that are opened together, or one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from heliograph.errors import DeadlinePassed
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import ClientSettings
from heliograph.kafka.tables import Table
from heliograph.kafka.transport import Loop

_TURN_S = 0.02


class SharedLedgers:
    """The rows of a ledger's topic for several threads, each of which reads them once it claimed.

    The topic is read from its beginning by the first, and from there on by those that follow: what
    earlier writers could put stands before the end that each of them asks for. Its connection is
    used by one thread at a time.
    """

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        self._cluster = Cluster(settings, settings.cluster, Loop())
        self._table = Table(self._cluster, topic)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connection. No thread may be reading."""
        self._cluster.close()
        self._cluster.loop.close()

    @contextmanager
    def read(self, loop: Loop, deadline: Deadline) -> Iterator[Mapping[bytes, bytes]]:
        """Read to the present end; the rows may be looked at while in the context.

        Waits for its turn in ``loop``, whose owner goes on looking at the clock.
        """
        while not self._lock.acquire(blocking=False):
            if deadline.passed:
                name = self._cluster.name
                raise DeadlinePassed(f"{self._table.topic} was not read in time", cluster=name)
            loop.turn(_TURN_S)
        try:
            self._cluster.loop.on_wake = loop.on_wake
            self._table.read_on(deadline)
            yield self._table.rows
        finally:
            self._cluster.loop.on_wake = lambda: None
            self._lock.release()
