"""A TCP proxy that knows Kafka's frames, and breaks them by rules.

It stands between a client and one broker that advertises the proxy's address. A rule names one
API key and one direction, says which frames it takes (the first ``times`` after ``skip`` others),
and what happens to them. Everything else passes untouched. Replies are known by their order on
the connection, as in Kafka itself.

Only for listeners without TLS. One thread, loopback only; ``stop`` leaves no thread and no port.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self, TypeAlias

HOST = "127.0.0.1"
_HEAD = struct.Struct(">ihhi")  # length, api key, version, correlation id
_WITHIN_S = 20.0
_ANSWER_WITHIN_S = 5.0

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID = 10, 18, 22
ADD_PARTITIONS_TO_TXN, END_TXN, SASL_AUTHENTICATE = 24, 26, 36


class Side(Enum):
    """Which frames a rule is about."""

    REQUEST = "request"
    REPLY = "reply"


@dataclass(frozen=True)
class Cut:
    """Pass the first ``after_bytes`` of the frame and cut the connection."""

    after_bytes: int = 0


@dataclass(frozen=True)
class Swallow:
    """Pass neither the frame nor anything after it in its direction; the connection stays."""


@dataclass(frozen=True)
class Hold:
    """Keep the frame, and what follows it, until the rule is released."""


@dataclass(frozen=True)
class Delay:
    """Pass the frame later."""

    seconds: float


@dataclass(frozen=True)
class Alter:
    """Pass other bytes in place of the frame, its length field included."""

    change: Callable[[bytes], bytes]


Act: TypeAlias = Cut | Swallow | Hold | Delay | Alter


LOSSES = (Cut(), Swallow())
"""The two ways to lose a reply: the client knows at once, or only when its time is over."""


def name_of(act: Act) -> str:
    """Return a word for the names of tests."""
    return type(act).__name__.lower()


def flip(at: int) -> Alter:
    """Turn one bit of the byte at a place; the length field is at 0 to 3, negative counts back."""

    def change(frame: bytes) -> bytes:
        changed = bytearray(frame)
        changed[at] ^= 0x10
        return bytes(changed)

    return Alter(change)


def flip_in(needle: bytes) -> Alter:
    """Turn one bit of the first byte of ``needle`` where it stands in the frame, if it does."""

    def change(frame: bytes) -> bytes:
        at = frame.find(needle)
        return frame if at < 0 else frame[:at] + bytes([frame[at] ^ 0x10]) + frame[at + 1 :]

    return Alter(change)


def replace(with_bytes: bytes) -> Alter:
    """Send these bytes instead, as they are."""
    return Alter(lambda _: with_bytes)


@dataclass(eq=False)
class Rule:
    """What happens to some frames of one API key. ``caught`` counts them as it goes on."""

    side: Side
    api_key: int
    act: Act
    skip: int = 0
    times: int | None = 1
    holding: bytes | None = None
    """Only frames that hold these bytes count: a topic's name, a transactional id."""
    caught: int = 0
    _seen: int = 0
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, side: Side, api_key: int, frame: bytes) -> bool:
        if (side, api_key) != (self.side, self.api_key):
            return False
        if self.holding is not None and self.holding not in frame:
            return False
        self._seen += 1
        taken = self._seen > self.skip and (self.times is None or self.caught < self.times)
        self.caught += taken
        return taken


class Proxy:
    """Listens at once; passes to the broker that ``point_at`` names. A context manager."""

    def __init__(self) -> None:
        self._broker_port = 0
        self._refuses = False
        self._rules: list[Rule] = []
        self._passed: Counter[tuple[Side, int]] = Counter()
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="kafka-proxy")
        self._thread.start()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop()

    def point_at(self, port: int) -> None:
        self._broker_port = port

    def add(self, rule: Rule) -> Rule:
        """Apply the rule from the next frame on, after those added before it."""
        self._call(lambda: self._rules.append(rule))
        return rule

    def on_request(self, api_key: int, act: Act, **limits: int | bytes | None) -> Rule:
        return self.add(Rule(Side.REQUEST, api_key, act, **limits))  # type: ignore[arg-type]

    def on_reply(self, api_key: int, act: Act, **limits: int | bytes | None) -> Rule:
        return self.add(Rule(Side.REPLY, api_key, act, **limits))  # type: ignore[arg-type]

    def release(self, rule: Rule) -> None:
        """Let the frames go on that a Hold keeps."""
        self._call(rule._released.set)

    def refuse(self, refuses: bool = True) -> None:
        """Cut every new connection at once, or stop doing so."""
        self._call(lambda: setattr(self, "_refuses", refuses))

    def cut_all(self) -> None:
        """Cut every connection there is."""
        self._call(self._abort_all)

    def heal(self) -> None:
        """Drop all rules, release what is held, and cut the connections they were about."""

        def heal() -> None:
            for rule in self._rules:
                rule._released.set()
            self._rules.clear()
            self._refuses = False
            self._passed.clear()
            self._abort_all()

        self._call(heal)

    def passed(self, side: Side, api_key: int) -> int:
        """How many frames came by since the last ``heal``, whatever became of them."""
        return self._passed[side, api_key]

    def wait_caught(self, rule: Rule, count: int = 1) -> None:
        """Return when the rule has taken so many frames; fail when that takes too long."""
        with self._changed:
            met = self._changed.wait_for(lambda: rule.caught >= count, _WITHIN_S)
        assert met, f"only {rule.caught} of {count} frames came by for {rule}"

    def stop(self) -> None:
        """End every connection, the port and the thread. Safe to repeat."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_WITHIN_S)
        assert not self._thread.is_alive(), "the proxy's thread did not end"

    # In the proxy's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._listener)
        await self._stopping.wait()
        server.close()
        self._abort_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _call(self, action: Callable[[], object]) -> None:
        """Run something in the proxy's thread and wait for it."""
        done = threading.Event()

        def run() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(_WITHIN_S), "the proxy's thread does not answer"

    def _abort_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(HOST, self._broker_port)
        except OSError:
            writer.transport.abort()
            return
        mine = {writer, back}
        self._writers |= mine
        asked: deque[int] = deque()
        flows = [
            asyncio.ensure_future(self._flow(Side.REQUEST, reader, back, asked)),
            asyncio.ensure_future(self._flow(Side.REPLY, there, writer, asked)),
        ]
        try:
            await asyncio.wait(flows, return_when=asyncio.FIRST_COMPLETED)
            if flows[0].done() and not flows[0].result():
                # The client is gone. What it asked for is carried out all the same: a broker
                # drops the requests of a connection that closes.
                await self._answered(asked, flows[1])
        finally:
            for flow in flows:
                flow.cancel()
            await asyncio.gather(*flows, return_exceptions=True)
            for one in mine:
                # What was passed on just before a cut shall still arrive.
                one.close()
            self._writers -= mine

    async def _answered(self, asked: deque[int], replies: asyncio.Future[bool]) -> None:
        until_s = self._loop.time() + _ANSWER_WITHIN_S
        while asked and not replies.done() and self._loop.time() < until_s:
            await asyncio.sleep(0.01)

    async def _flow(
        self,
        side: Side,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: deque[int],
    ) -> bool:
        """Pass frames one way until either end closes; return True when a rule cut."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                start = await reader.readexactly(4)
                frame = start + await reader.readexactly(int.from_bytes(start, "big"))
                if side is Side.REQUEST:
                    api_key = _HEAD.unpack_from(frame)[1]
                    asked.append(api_key)
                else:
                    api_key = asked.popleft()
                if not await self._pass(side, api_key, frame, writer):
                    return True
        return False

    async def _pass(
        self, side: Side, api_key: int, frame: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        """Apply the rules that take the frame, in turn; return whether the connection goes on."""
        taking = [rule for rule in self._rules if rule.takes(side, api_key, frame)]
        with self._changed:
            self._passed[side, api_key] += 1
            self._changed.notify_all()
        for rule in taking:
            match rule.act:
                case Cut(after_bytes):
                    writer.write(frame[:after_bytes])
                    await writer.drain()
                    return False
                case Swallow():
                    await asyncio.Event().wait()  # until the connection ends
                case Hold():
                    await rule._released.wait()
                case Delay(seconds):
                    await asyncio.sleep(seconds)
                case Alter(change):
                    frame = change(frame)
        writer.write(frame)
        await writer.drain()
        return True


def wait_until(met: Callable[[], bool], what: str, within_s: float = _WITHIN_S) -> None:
    """Poll a condition that nobody announces; fail when it is not met in time."""
    deadline = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < deadline, f"not in time: {what}"
        threading.Event().wait(0.005)
