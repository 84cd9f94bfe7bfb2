"""The operating system's part of the simulation: sockets, the selector, what gets lost between.

Heliograph's own channels and loop run on it unchanged. A connection keeps the order of what is
sent on it, as TCP does, and whatever was sent may still arrive after its sender is gone.
"""

from __future__ import annotations

import selectors
import socket
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Protocol, cast

from heliograph.errors import Unreachable
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import ClientSettings, Endpoint
from heliograph.kafka.transport import Bytes, Channel, Loop
from tests.simulation.world import Host, World

LATENCY_S = 0.001
_FIRST_NUMBER = 1 << 20
"""Connections have numbers that no descriptor of this process has."""


class Server(Protocol):
    """What stands at the other end of a connection."""

    versions: Mapping[int, tuple[int, int]]

    def handle(self, frame: bytes, reply: Callable[[bytes], None]) -> None:
        """Take one request, its length taken off; ``reply`` is called once, now or later."""


class Fate(Enum):
    """What the network does to one request."""

    LOSE_REQUEST = "the connection breaks before the broker has it"
    LOSE_REPLY = "the connection breaks after the broker has it, before the reply is back"
    HOLD = "it stays in the network, and so does what follows it, until it is let go"


@dataclass(slots=True)
class Fault:
    """What is to happen to the next request of one kind, after ``skip`` that pass."""

    fate: Fate
    api_key: int
    skip: int = 0


class Network:
    """Connections to servers by their addresses, and the faults that wait for a request."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.faults: list[Fault] = []
        self.sent: Counter[int] = Counter()
        """How many requests of each API key were ever sent."""
        self.longest_life_s = float("inf")
        """A request that was held back for longer does not arrive any more."""
        self._servers: dict[Endpoint, Server] = {}
        self._connections: dict[int, Connection] = {}

    def listen(self, endpoint: Endpoint, server: Server) -> None:
        """Answer connections to ``endpoint`` from now on."""
        self._servers[endpoint] = server

    def dialer(self, host: Host) -> Callable[..., Channel]:
        """Return what makes connections for a host: the ``dial`` of a Cluster."""

        def dial(
            settings: ClientSettings, cluster: str, endpoint: Endpoint | None, _: Deadline
        ) -> Channel:
            endpoint = endpoint or settings.bootstrap[0]
            server = self._servers.get(endpoint)
            if server is None:
                raise Unreachable(f"nobody listens at {endpoint}", cluster=cluster)
            number = _FIRST_NUMBER + len(self._connections)
            connection = self._connections[number] = Connection(self, server, endpoint, number)
            host.on_crash.append(connection.close)
            return Channel(
                cast(socket.socket, connection),
                cluster=cluster,
                address=str(endpoint),
                client_id=settings.client_id,
                versions=server.versions,
            )

        return dial

    def stop_listening(self, endpoint: Endpoint) -> None:
        """Break every connection to ``endpoint`` and refuse new ones."""
        self._servers.pop(endpoint, None)
        for connection in self._connections.values():
            if connection.endpoint == endpoint:
                connection.cut()

    @property
    def holding(self) -> list[Connection]:
        """The connections that hold requests back, in the order they were made."""
        return [one for one in self._connections.values() if one.is_holding]

    def is_readable(self, number: int) -> bool:
        """Tell whether a connection, by the number it has for a descriptor, has news."""
        return number in self._connections and self._connections[number].is_readable

    def heal(self) -> None:
        """Forget the faults that did not happen; drop what is held."""
        self.faults.clear()
        for connection in self.holding:
            connection.cut()

    def fate_of(self, api_key: int) -> Fate | None:
        """Count a request and return what happens to it; a fault happens once."""
        self.sent[api_key] += 1
        for fault in self.faults:
            if fault.api_key == api_key:
                if fault.skip:
                    fault.skip -= 1
                    return None
                self.faults.remove(fault)
                return fault.fate
        return None


class Connection:
    """Both ends of one connection; the client's end looks like a socket.

    The server takes one request at a time and answers it before it takes the next, as Kafka does.
    """

    def __init__(self, network: Network, server: Server, endpoint: Endpoint, number: int) -> None:
        self.endpoint = endpoint
        self._number = number
        self.is_holding = False
        self._network = network
        self._server = server
        self._sent = bytearray()
        self._requests: deque[tuple[bytes, Fate | None]] = deque()
        self._is_serving = False
        self._inbox = bytearray()
        self._is_cut = False
        self._is_closed = False

    # The client's end

    def fileno(self) -> int:
        return self._number

    def sendmsg(self, parts: Sequence[Bytes]) -> int:
        if self._is_cut:
            raise ConnectionResetError("the connection is cut")
        for part in parts:
            self._sent += part
        while len(self._sent) >= 4:
            size = 4 + int.from_bytes(self._sent[:4], "big")
            if len(self._sent) < size:
                break
            frame = bytes(self._sent[4:size])
            del self._sent[:size]
            fate = self._network.fate_of(int.from_bytes(frame[:2], "big"))
            self._network.world.after(LATENCY_S, partial(self._arrive, frame, fate))
        return sum(map(len, parts))

    def recv_into(self, room: memoryview) -> int:
        if not self._inbox:
            if self._is_cut:
                raise ConnectionResetError("the connection is cut")
            raise BlockingIOError
        size = min(len(room), len(self._inbox))
        room[:size] = self._inbox[:size]
        del self._inbox[:size]
        return size

    def close(self) -> None:
        """Hear nothing more; what was sent goes its way."""
        self._is_closed = True

    @property
    def is_readable(self) -> bool:
        return bool(self._inbox) or self._is_cut

    # The network

    def cut(self) -> None:
        """Break it: nothing that is under way arrives any more, at either end."""
        self._is_cut, self.is_holding = True, False
        self._requests.clear()

    def let_go(self) -> None:
        """Deliver what was held back, whether or not somebody still waits for a reply."""
        self.is_holding = False
        self._serve()

    def _arrive(self, frame: bytes, fate: Fate | None) -> None:
        if self._is_cut:
            return
        if fate is Fate.LOSE_REQUEST:
            self.cut()
            return
        if fate is Fate.HOLD and not self.is_holding:
            self.is_holding = True
            self._network.world.after(self._network.longest_life_s - LATENCY_S, self._give_up)
        self._requests.append((frame, fate))
        self._serve()

    def _give_up(self) -> None:
        if self.is_holding:
            self.cut()

    def _serve(self) -> None:
        if self._is_serving or self.is_holding or not self._requests:
            return
        frame, fate = self._requests.popleft()
        self._is_serving = True
        self._server.handle(frame, lambda reply: self._answer(reply, fate))

    def _answer(self, reply: bytes, fate: Fate | None) -> None:
        self._is_serving = False
        if fate is Fate.LOSE_REPLY:
            self.cut()
            return
        frame = len(reply).to_bytes(4, "big") + reply
        self._network.world.after(LATENCY_S, lambda: self._return(frame))
        self._serve()

    def _return(self, frame: bytes) -> None:
        if not (self._is_cut or self._is_closed):
            self._inbox += frame


class SimSelector(selectors.BaseSelector):
    """Waits by moving the world's clock. Writing never has to wait."""

    def __init__(self, host: Host, network: Network) -> None:
        self._host = host
        self._network = network
        self._keys: dict[Any, selectors.SelectorKey] = {}
        self.is_woken = False

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, fileobj.fileno(), events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.register(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._host.take_turn()
        self.is_woken = False
        self._host.world.wait(self._is_due, timeout or 0.0)
        return [(key, selectors.EVENT_READ) for key in self._keys.values() if self._has_news(key)]

    def close(self) -> None:
        self._keys.clear()

    def _is_due(self) -> bool:
        return self.is_woken or any(map(self._has_news, self._keys.values()))

    def _has_news(self, key: selectors.SelectorKey) -> bool:
        return self._network.is_readable(key.fd)


class SimLoop(Loop):
    """The loop of a host: connections are made in simulated time, not in threads."""

    def __init__(self, host: Host, network: Network) -> None:
        self._sim_selector = SimSelector(host, network)
        self._world = host.world
        super().__init__(self._sim_selector)

    def start(self, work: Callable[[], Callable[[], None]]) -> None:
        self._world.after(LATENCY_S, lambda: self.carry_out(work))

    def wake(self) -> None:
        self._sim_selector.is_woken = True
