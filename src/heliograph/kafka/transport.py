"""Frames over sockets: one thread drives many connections.

A :class:`Channel` is one connection to one broker. It sends requests as lists of buffers, so a
batch is never copied into a request, and reads each reply with ``recv_into`` a buffer of exactly
its size, so a reply is never pieced together. A :class:`Loop` waits for all channels at once.

Nothing here knows what the bytes mean, apart from the length and the correlation id.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from heliograph.errors import DeadlinePassed, HeliographError, ProtocolBroken, Unreachable
from heliograph.kafka import clock
from heliograph.kafka.deadline import Deadline

Bytes: TypeAlias = bytes | bytearray | memoryview
Reply: TypeAlias = memoryview | HeliographError

# A reply is asked for in sizes of some MB; one batch may be larger. More than this is not Kafka.
MAX_FRAME_BYTES = 256 << 20
_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">ihhih")  # length, api key, version, correlation id, length of client id

_WAIT = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_IOV_MAX = 512
# So much is read from a connection in one turn, and a reply to its end: no broker starves another.
_TURN_BYTES = 64 << 10
# A reply of which nothing more came for this long does not arrive any more.
_SILENCE_S = 5.0


class Request(NamedTuple):
    """A request as buffers; ``flexible`` says that its header ends with tagged fields."""

    api_key: int
    version: int
    flexible: bool
    body: Sequence[Bytes]


@dataclass(slots=True)
class _Flight:
    """A request that was sent and not yet answered."""

    correlation_id: int
    on_reply: Callable[[Reply], None]
    deadline: Deadline
    sent_s: float


class Channel:
    """One connection, after set-up. Replies come in the order of the requests.

    Every request gets exactly one reply: the frame, its length taken off, or the error that ended
    the connection. After an error the channel is closed for good; open another.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        cluster: str,
        address: str,
        client_id: str,
        versions: Mapping[int, tuple[int, int]],
    ) -> None:
        self.cluster = cluster
        self.address = address
        self.versions = versions
        self._client_id = client_id.encode()
        self.quiet_until_s = 0.0
        self._expires_s: float | None = None
        self._sock = sock
        self._loop: Loop | None = None
        self._out: deque[memoryview] = deque()
        self._flights: deque[_Flight] = deque()
        self._next_id = 0
        self._length = bytearray(4)
        self._frame: bytearray | None = None
        self._hole = memoryview(self._length)
        self.heard_s = 0.0
        self._error: HeliographError | None = None

    def __repr__(self) -> str:
        return f"<Channel {self.cluster} {self.address}>"

    @property
    def error(self) -> HeliographError | None:
        """Why the channel closed, or None while it is open."""
        return self._error

    @property
    def in_flight(self) -> int:
        """Requests sent and not yet answered."""
        return len(self._flights)

    @property
    def retiring(self) -> bool:
        """Whether the login runs out: send nothing more, let it drain, open another."""
        return self._expires_s is not None and clock.now_s() >= self._expires_s

    def retire_at(self, moment_s: float) -> None:
        """Say when the login runs out, in monotonic seconds."""
        self._expires_s = moment_s

    def waited_s(self) -> float:
        """How long the oldest request has been waiting for its reply."""
        return clock.now_s() - self._flights[0].sent_s if self._flights else 0.0

    def send(self, request: Request, on_reply: Callable[[Reply], None], deadline: Deadline) -> None:
        """Queue one request; ``on_reply`` is called once, with the whole reply or an error.

        The request's buffers must not change until the reply is there.
        """
        if self._error is not None:
            on_reply(self._error)
            return
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        views = [memoryview(part) for part in request.body if len(part)]
        size = len(self._client_id) + request.flexible + 10 + sum(map(len, views))
        head = _HEAD.pack(
            size, request.api_key, request.version, self._next_id, len(self._client_id)
        )
        tags = b"\0" if request.flexible else b""
        self._out.append(memoryview(head + self._client_id + tags))
        self._out.extend(views)
        self._flights.append(_Flight(self._next_id, on_reply, deadline, clock.now_s()))
        self._write()

    def close(self, error: HeliographError | None = None) -> None:
        """Close the connection and answer whatever is still waiting with ``error``."""
        if self._error is not None:
            return
        self._error = error or Unreachable("the connection was closed", cluster=self.cluster)
        if self._loop is not None:
            self._loop.remove(self)
        self._sock.close()
        self._out.clear()
        waiting, self._flights = self._flights, deque()
        for flight in waiting:
            flight.on_reply(self._error)

    # What the loop calls.

    def fileno(self) -> int:
        """Return the socket's descriptor, for the selector."""
        return self._sock.fileno()

    def attach(self, loop: Loop) -> None:
        """Remember the loop that drives this channel. Called by the loop."""
        self._loop = loop

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._out)

    def perform(self, events: int) -> None:
        """Do the I/O that is possible now; a broken connection closes the channel."""
        if events & selectors.EVENT_WRITE:
            self._write()
        if events & selectors.EVENT_READ and self._error is None:
            self.heard_s = clock.now_s()
            self._read()

    def expire(self, now_s: float) -> None:
        """Close the channel when a request has had its time.

        Kafka answers in order, so a late reply cannot be told from a lost one on this connection.
        One that is arriving is not lost, however large it is and however slow the network.
        """
        arrives = self._frame is not None and now_s - self.heard_s < _SILENCE_S
        overdue = next((one for one in self._flights if now_s >= one.deadline.at_s), None)
        if overdue is not None and not arrives:
            waited = now_s - overdue.sent_s
            message = f"{self.address} did not answer a request within {waited:.1f} s"
            self.close(Unreachable(message, cluster=self.cluster))

    def _write(self) -> None:
        try:
            while self._out:
                sent = self._send_some()
                while sent and self._out:
                    first = self._out[0]
                    if sent < len(first):
                        self._out[0] = first[sent:]
                        break
                    sent -= len(first)
                    self._out.popleft()
        except _WAIT:
            pass
        except OSError as broken:
            self._broke(broken)
        if self._loop is not None and self._error is None:
            self._loop.rearm(self)

    def _send_some(self) -> int:
        if isinstance(self._sock, ssl.SSLSocket):
            return self._sock.send(self._out[0])  # TLS has no scatter send
        count = min(len(self._out), _IOV_MAX)
        return self._sock.sendmsg([self._out[i] for i in range(count)])

    def _read(self) -> None:
        taken = 0
        try:
            while self._error is None:
                read = self._sock.recv_into(self._hole)
                if read == 0:
                    self._ended()
                    return
                whole = read == len(self._hole)
                self._hole = self._hole[read:]
                taken += read
                if whole and self._advance() and taken >= _TURN_BYTES and not self._pending():
                    return
        except _WAIT:
            pass
        except OSError as broken:
            self._broke(broken)

    def _pending(self) -> bool:
        # Bytes that TLS has decrypted already do not wake the selector.
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def _advance(self) -> bool:
        """Go on from a filled buffer; return True when that completed a reply."""
        if self._frame is None:
            (size,) = _LENGTH.unpack(self._length)
            if not 4 <= size <= MAX_FRAME_BYTES:
                self.close(self._nonsense())
                return True
            self._frame = bytearray(size)
            self._hole = memoryview(self._frame)
            return False
        frame, self._frame = self._frame, None
        self._hole = memoryview(self._length)
        self._answer(memoryview(frame))
        return True

    def _answer(self, frame: memoryview) -> None:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        if not self._flights or self._flights[0].correlation_id != correlation_id:
            message = f"{self.address} sent a reply nobody asked for (correlation {correlation_id})"
            self.close(ProtocolBroken(message, cluster=self.cluster))
            return
        self._flights.popleft().on_reply(frame)

    def _nonsense(self) -> HeliographError:
        if self._length[0] in (0x15, 0x16) and self._length[1] == 0x03:
            return ProtocolBroken(
                f"{self.address} speaks TLS and was spoken to in plain text;"
                " set security.protocol to SSL or SASL_SSL",
                cluster=self.cluster,
            )
        return ProtocolBroken(
            f"{self.address} sent a frame of impossible length ({self._length.hex()})",
            cluster=self.cluster,
        )

    def _ended(self) -> None:
        inside = self._frame is not None or len(self._hole) < 4
        if inside:
            message = f"{self.address} closed the connection in the middle of a reply"
            self.close(ProtocolBroken(message, cluster=self.cluster))
        else:
            self.close(Unreachable(f"{self.address} closed the connection", cluster=self.cluster))

    def _broke(self, broken: OSError) -> None:
        message = f"the connection to {self.address} broke: {broken.strerror or broken}"
        error = Unreachable(message, cluster=self.cluster)
        error.__cause__ = broken
        self.close(error)


class Loop:
    """Drives channels from one thread: nothing here may be called from another.

    The exception is :meth:`start`, which runs slow set-up work in a thread of its own and hands
    its result back inside :meth:`turn`. A simulation gives a ``selector`` that waits for nothing.
    """

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        self._selector = selector or selectors.DefaultSelector()
        self._channels: dict[Channel, None] = {}  # in order: histories can be repeated
        self._wake_receive, self._wake_send = socket.socketpair()
        self._wake_receive.setblocking(False)
        self._selector.register(self._wake_receive, selectors.EVENT_READ)
        self._finished: deque[Callable[[], None]] = deque()
        self._next_expiry_s = 0.0
        self.is_closed = False
        self.on_wake: Callable[[], None] = lambda: None  # after each wait, before any I/O

    def add(self, channel: Channel) -> None:
        """Drive ``channel`` from now on."""
        channel.attach(self)
        self._channels[channel] = None
        self._selector.register(channel, selectors.EVENT_READ, channel)
        self.rearm(channel)

    def remove(self, channel: Channel) -> None:
        """Forget ``channel``; called by the channel before it closes its socket."""
        if channel in self._channels:
            del self._channels[channel]
            self._selector.unregister(channel)

    def rearm(self, channel: Channel) -> None:
        """Wait for room to write only while there is something to write."""
        events = selectors.EVENT_READ
        if channel.wants_write:
            events |= selectors.EVENT_WRITE
        if channel in self._channels and self._selector.get_key(channel).events != events:
            self._selector.modify(channel, events, channel)

    def turn(self, timeout_s: float) -> None:
        """Wait at most ``timeout_s`` for something to happen, and let it happen."""
        ready = self._selector.select(timeout_s)
        self.on_wake()
        for key, events in ready:
            if key.data is None:
                self._drain_wakeups()
            elif key.data in self._channels:  # an earlier callback may have closed it
                key.data.perform(events)
        self._finish()
        self._expire()

    def wait(self, done: Callable[[], bool], deadline: Deadline, what: str, cluster: str) -> None:
        """Turn until ``done()``; raise DeadlinePassed when time is over first."""
        while not done():
            if deadline.passed:
                raise DeadlinePassed(f"{what}: no answer in the time allowed", cluster=cluster)
            self.turn(min(deadline.left_s, 0.2))

    def start(self, work: Callable[[], Callable[[], None]]) -> None:
        """Run ``work`` in a thread; call what it returns inside a later turn."""
        name = "heliograph-connect"
        threading.Thread(target=self.carry_out, args=(work,), daemon=True, name=name).start()

    def carry_out(self, work: Callable[[], Callable[[], None]]) -> None:
        """Run ``work`` here; call what it returns inside a later turn. Safe from any thread."""
        try:
            then = work()
        except BaseException as failure:
            # A thread has nobody to tell; whoever turns the loop has.
            then = partial(_throw, failure)
        self._finished.append(then)
        if self.is_closed:
            self._finish()  # nobody turns any more; what was made must not stay open
        self.wake()

    def wake(self) -> None:
        """End the wait of the present turn; safe from any thread."""
        try:
            self._wake_send.send(b"\0")
        except OSError:
            return  # the loop was closed meanwhile: nobody is left to wake

    def close(self) -> None:
        """Close every channel and free the loop's own descriptors."""
        self.is_closed = True
        self._finish()
        for channel in list(self._channels):
            channel.close()
        self._selector.close()
        self._wake_receive.close()
        self._wake_send.close()

    def _finish(self) -> None:
        while self._finished:
            try:
                done = self._finished.popleft()
            except IndexError:
                return  # another thread was faster
            done()

    def _drain_wakeups(self) -> None:
        try:
            while self._wake_receive.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _expire(self) -> None:
        now_s = clock.now_s()
        if now_s >= self._next_expiry_s:
            self._next_expiry_s = now_s + 0.1
            for channel in list(self._channels):
                channel.expire(now_s)


def _throw(failure: BaseException) -> None:
    raise failure
