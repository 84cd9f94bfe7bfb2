"""Frames over socket pairs: cut in any way, many in flight, ended in any way."""

from __future__ import annotations

import random
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from heliograph.errors import (
    DeadlinePassed,
    HeliographError,
    ProtocolBroken,
    Unreachable,
)
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.transport import MAX_FRAME_BYTES, Channel, Loop, Reply, Request


class Pair:
    """A channel and, at the other end, a broker that a test plays by hand."""

    def __init__(self, small_buffers: bool = False) -> None:
        ours, self.broker = socket.socketpair()
        if small_buffers:
            for one in (ours, self.broker):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        ours.setblocking(False)
        self.broker.setblocking(False)
        self.loop = Loop()
        self.channel = Channel(
            ours, cluster="c", address="broker:1", client_id="me", versions={1: (0, 5)}
        )
        self.loop.add(self.channel)
        self.received = bytearray()
        self.replies: list[tuple[int, Reply]] = []

    def send(self, *body: bytes, seconds: float = 20.0, flexible: bool = False) -> None:
        number = len(self.replies) + self.channel.in_flight
        self.channel.send(
            Request(3, 4, flexible, body),
            lambda reply: self.replies.append((number, reply)),
            Deadline.after(timedelta(seconds=seconds)),
        )

    def turn_until(self, met: Callable[[], bool]) -> None:
        deadline = Deadline.after(timedelta(seconds=20))
        while not met():
            assert not deadline.passed, "not in time"
            with suppress(BlockingIOError):
                self.received += self.broker.recv(1 << 16)
            self.loop.turn(0.002)

    def requests(self) -> list[bytes]:
        """The whole frames that the broker got so far, without their lengths."""
        frames, at = [], 0
        while len(self.received) - at >= 4:
            (size,) = struct.unpack_from(">i", self.received, at)
            if len(self.received) - at - 4 < size:
                break
            frames.append(bytes(self.received[at + 4 : at + 4 + size]))
            at += 4 + size
        return frames

    @property
    def error(self) -> HeliographError:
        assert self.channel.error is not None
        return self.channel.error

    def close(self) -> None:
        self.loop.close()
        self.broker.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


@pytest.fixture
def chance() -> random.Random:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


def frame(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def body_of(reply: Reply) -> bytes:
    assert isinstance(reply, memoryview), reply
    return bytes(reply[4:])


# Requests


def test_request_has_kafkas_header_and_all_parts_in_order(pair: Pair) -> None:
    pair.send(b"abc", b"", b"def", b"")
    pair.send(b"ghi", flexible=True)
    pair.turn_until(lambda: len(pair.requests()) == 2)
    head = struct.pack(">hhih2s", 3, 4, 1, 2, b"me")
    assert pair.requests()[0] == head + b"abcdef"
    assert pair.requests()[1] == struct.pack(">hhih2s", 3, 4, 2, 2, b"me") + b"\0" + b"ghi"


def test_request_without_a_body_is_a_header(pair: Pair) -> None:
    pair.send()
    pair.turn_until(lambda: len(pair.requests()) == 1)
    assert pair.requests()[0] == struct.pack(">hhih2s", 3, 4, 1, 2, b"me")


def test_large_requests_of_many_parts_go_through_a_narrow_socket(chance: random.Random) -> None:
    pair = Pair(small_buffers=True)
    try:
        bodies = []
        for _ in range(6):
            count = chance.choice((1, 3, 1500))  # more parts than one sendmsg may take
            parts = [chance.randbytes(chance.choice((0, 1, 300))) for _ in range(count)]
            parts.append(chance.randbytes(chance.choice((0, 200_000))))
            bodies.append(b"".join(parts))
            pair.send(*parts)
        assert pair.channel.wants_write, "the socket was not narrow enough to test anything"
        pair.turn_until(lambda: len(pair.requests()) == 6)
        assert [request[12:] for request in pair.requests()] == bodies
        assert not pair.channel.wants_write
    finally:
        pair.close()


# Replies


def test_replies_arrive_whole_however_they_are_cut(pair: Pair, chance: random.Random) -> None:
    bodies = [chance.randbytes(chance.choice((0, 1, 3, 4, 5, 900))) for _ in range(60)]
    for _ in bodies:
        pair.send(b"x")
    stream = b"".join(frame(n + 1, body) for n, body in enumerate(bodies))
    while stream:
        cut = chance.choice((1, 1, 2, 3, 7, 5000))
        pair.broker.send(stream[:cut])
        stream = stream[cut:]
        pair.loop.turn(0)
    pair.turn_until(lambda: len(pair.replies) == len(bodies))
    assert [number for number, _ in pair.replies] == list(range(60))
    for (_, reply), (number, body) in zip(pair.replies, enumerate(bodies), strict=True):
        assert isinstance(reply, memoryview) and not reply.readonly
        assert bytes(reply) == struct.pack(">i", number + 1) + body
    assert pair.channel.in_flight == 0 and pair.channel.error is None


def test_reply_of_a_single_byte_at_a_time(pair: Pair) -> None:
    pair.send(b"x")
    for byte in frame(1, b"hello"):
        assert not pair.replies
        pair.broker.send(bytes([byte]))
        pair.loop.turn(0.05)
    pair.turn_until(lambda: bool(pair.replies))
    assert body_of(pair.replies[0][1]) == b"hello"


def test_reply_larger_than_any_buffer_arrives_whole(pair: Pair, chance: random.Random) -> None:
    body = chance.randbytes(3_000_000)
    pair.send(b"x")
    left = memoryview(frame(1, body))

    def fed() -> bool:
        nonlocal left
        with suppress(BlockingIOError):
            left = left[pair.broker.send(left) :] if left else left
        return bool(pair.replies)

    pair.turn_until(fed)
    assert body_of(pair.replies[0][1]) == body


def test_small_replies_that_wait_are_given_out_in_one_turn(pair: Pair) -> None:
    """A turn for each would cost as much as looking through thousands of partitions."""
    for _ in range(50):
        pair.send(b"x")
    pair.turn_until(lambda: len(pair.requests()) == 50)
    for number in range(1, 51):
        pair.broker.sendall(struct.pack(">ii", 4, number))
    pair.loop.turn(1.0)
    assert len(pair.replies) == 50


def test_request_sent_from_inside_a_reply_is_answered_too(pair: Pair) -> None:
    found: list[Reply] = []

    def then(_: Reply) -> None:
        pair.channel.send(Request(3, 4, False, (b"second",)), found.append, _soon())

    pair.channel.send(Request(3, 4, False, (b"first",)), then, _soon())
    pair.broker.send(frame(1))
    pair.turn_until(lambda: len(pair.requests()) == 2)
    pair.broker.send(frame(2, b"ok"))
    pair.turn_until(lambda: bool(found))
    assert body_of(found[0]) == b"ok"


def _soon() -> Deadline:
    return Deadline.after(timedelta(seconds=20))


# Ends


def test_wrong_correlation_id_closes_and_answers_all(pair: Pair) -> None:
    pair.send(b"a")
    pair.send(b"b")
    pair.broker.send(frame(2))
    pair.turn_until(lambda: len(pair.replies) == 2)
    assert all(isinstance(reply, ProtocolBroken) for _, reply in pair.replies)
    assert "nobody asked for" in str(pair.error)


def test_reply_that_nobody_asked_for_closes(pair: Pair) -> None:
    pair.broker.send(frame(1))
    pair.turn_until(lambda: pair.channel.error is not None)
    assert isinstance(pair.error, ProtocolBroken)


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 3, MAX_FRAME_BYTES + 1, 2**31 - 1])
def test_impossible_length_closes(pair: Pair, length: int) -> None:
    pair.send(b"a")
    pair.broker.send(struct.pack(">i", length))
    pair.turn_until(lambda: bool(pair.replies))
    assert isinstance(pair.error, ProtocolBroken) and "impossible length" in str(pair.error)


@pytest.mark.parametrize("start", [b"\x15\x03\x03\x00\x02\x02\x50", b"\x16\x03\x01\x02\x00\x01"])
def test_answer_in_tls_says_what_to_set(pair: Pair, start: bytes) -> None:
    pair.send(b"a")
    pair.broker.send(start)
    pair.turn_until(lambda: bool(pair.replies))
    assert "security.protocol" in str(pair.error)


@pytest.mark.parametrize("sent", range(1, 9))
def test_end_inside_a_reply_is_broken(pair: Pair, sent: int) -> None:
    pair.send(b"a")
    pair.broker.send(frame(1, b"body")[:sent])
    pair.broker.shutdown(socket.SHUT_WR)
    pair.turn_until(lambda: bool(pair.replies))
    assert isinstance(pair.replies[0][1], ProtocolBroken)


def test_end_between_replies_is_unreachable_after_what_came_before(pair: Pair) -> None:
    for _ in range(3):
        pair.send(b"a")
    pair.broker.send(frame(1, b"one"))
    pair.broker.shutdown(socket.SHUT_WR)
    pair.turn_until(lambda: len(pair.replies) == 3)
    first, second, third = (reply for _, reply in pair.replies)
    assert isinstance(first, memoryview) and bytes(first)[4:] == b"one"
    assert isinstance(second, Unreachable) and isinstance(third, Unreachable)
    assert "cluster c" in str(second) and "broker:1" in str(second)


def test_close_answers_all_in_order_and_later_requests_at_once(pair: Pair) -> None:
    for _ in range(4):
        pair.send(b"a" * 100_000)
    mine = Unreachable("enough", cluster="c")
    pair.channel.close(mine)
    pair.channel.close()
    pair.send(b"later")
    assert [reply for _, reply in pair.replies] == [mine] * 5
    assert [number for number, _ in pair.replies] == [0, 1, 2, 3, 4]
    assert not pair.channel.wants_write and pair.channel.in_flight == 0


def test_closing_from_inside_a_reply_answers_the_others_once(pair: Pair) -> None:
    pair.channel.send(Request(3, 4, False, ()), lambda _: pair.channel.close(), _soon())
    pair.send(b"b")
    pair.broker.send(frame(1) + frame(2))
    pair.turn_until(lambda: bool(pair.replies))
    pair.loop.turn(0)
    assert len(pair.replies) == 1 and isinstance(pair.replies[0][1], Unreachable)


def test_request_without_an_answer_expires_with_all_after_it(pair: Pair) -> None:
    pair.send(b"a", seconds=0.15)
    pair.send(b"b", seconds=20)
    pair.turn_until(lambda: len(pair.replies) == 2)
    assert all(isinstance(reply, Unreachable) for _, reply in pair.replies)
    assert "did not answer" in str(pair.error)


def test_request_behind_a_patient_one_has_its_own_time(pair: Pair) -> None:
    begin = Deadline.after(timedelta(seconds=5))
    pair.send(b"a", seconds=20)
    pair.send(b"b", seconds=0.15)
    pair.turn_until(lambda: len(pair.replies) == 2)
    assert not begin.passed and "did not answer" in str(pair.error)


def test_reply_that_arrives_slowly_is_waited_for(pair: Pair) -> None:
    pair.send(b"a", seconds=0.15)
    whole = frame(1, b"x" * 40)
    for at in range(0, len(whole), 8):
        pause = Deadline.after(timedelta(seconds=0.12))
        pair.broker.send(whole[at : at + 8])
        pair.turn_until(lambda pause=pause: pause.passed)  # type: ignore[misc]
    pair.turn_until(lambda: bool(pair.replies))
    assert isinstance(pair.replies[0][1], memoryview)


def test_answered_request_does_not_expire(pair: Pair) -> None:
    pair.send(b"a", seconds=0.1)
    pair.broker.send(frame(1))
    pair.turn_until(lambda: bool(pair.replies))
    passed = Deadline.after(timedelta(seconds=0.3))
    pair.turn_until(lambda: passed.passed)
    assert pair.channel.error is None


def test_closed_loop_closes_its_channels(pair: Pair) -> None:
    pair.send(b"a")
    pair.loop.close()
    assert isinstance(pair.replies[0][1], Unreachable)
    assert pair.channel.fileno() == -1


# The loop


def test_work_of_a_thread_is_finished_inside_a_turn(pair: Pair) -> None:
    done: list[threading.Thread] = []
    pair.loop.start(lambda: lambda: done.append(threading.current_thread()))
    pair.turn_until(lambda: bool(done))
    assert done == [threading.main_thread()]


def test_failure_in_a_thread_is_raised_inside_a_turn(pair: Pair) -> None:
    def fail() -> Callable[[], None]:
        raise RuntimeError("a bug")

    pair.loop.start(fail)
    with pytest.raises(RuntimeError, match="a bug"):
        pair.turn_until(lambda: False)


def test_work_that_ends_after_the_loop_is_finished_all_the_same() -> None:
    loop, gate, done = Loop(), threading.Event(), threading.Event()

    def work() -> Callable[[], None]:
        gate.wait(20)
        return done.set

    loop.start(work)
    loop.close()
    gate.set()
    assert done.wait(20)


def test_waiting_in_vain_ends_with_the_deadline(pair: Pair) -> None:
    deadline = Deadline.after(timedelta(seconds=0.1))
    with pytest.raises(DeadlinePassed, match="cluster c: reading"):
        pair.loop.wait(lambda: False, deadline, "reading", "c")


def test_one_loop_drives_many_channels() -> None:
    loop = Loop()
    ends = []
    answers: list[bytes] = []
    for _ in range(20):
        ours, broker = socket.socketpair()
        ours.setblocking(False)
        channel = Channel(ours, cluster="c", address="a", client_id="me", versions={})
        loop.add(channel)
        channel.send(
            Request(3, 4, False, ()), lambda reply: answers.append(body_of(reply)), _soon()
        )
        ends.append(broker)
    for number, broker in enumerate(ends):
        broker.send(frame(1, b"%d" % number))
    deadline = _soon()
    while len(answers) < 20:
        assert not deadline.passed
        loop.turn(0.01)
    assert sorted(map(int, answers)) == list(range(20))
    loop.close()
    for broker in ends:
        broker.close()


def test_after_a_wait_nothing_is_sent_before_whoever_looks_has_agreed() -> None:
    pair = Pair(small_buffers=True)
    pair.send(bytes(1 << 20))
    assert pair.channel.wants_write
    while True:
        try:
            pair.received += pair.broker.recv(1 << 16)
        except BlockingIOError:
            break
    pair.loop.on_wake = pair.channel.close  # there is room to write by now
    pair.loop.turn(0)
    assert pair.broker.recv(1 << 16) == b"", "only the end of the connection"
    pair.broker.close()
    pair.loop.close()
