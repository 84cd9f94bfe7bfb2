"""Fetchers against a broker that a test plays: every reply is delivered once, or fails."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from kafka.protocol.consumer import FetchRequest

from heliograph.errors import CorruptBatch, LoginRefused, NotAuthorized
from heliograph.kafka.batch import Header, encode_header, seal
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched, Fetcher
from heliograph.kafka.records import Record, encode
from tests.doubles.played import TOPIC_ID, PlayedCluster, Player, fetched, partition

CONTROL = 0x30  # and transactional


class Reading:
    """Two partitions from their start, on one lane."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self.cluster = cluster
        self.fetcher = Fetcher(cluster)
        for number in (0, 1):
            self.fetcher.start(partition(number), TOPIC_ID, 0)

    def broker(self) -> Player:
        """Return the broker's end once it is asked."""
        self.turn_until(lambda: bool(self._player and self._player.asked))
        assert self._player is not None
        return self._player

    @property
    def _player(self) -> Player | None:
        return self.cluster.players.get((1, "fetch0"))

    def taken(self, count: int) -> list[Fetched]:
        found: list[Fetched] = []

        def enough() -> bool:
            found.extend(self.fetcher.take())
            return len(found) >= count

        self.turn_until(enough)
        return found

    def turn_until(self, met: Callable[[], bool]) -> None:
        deadline = Deadline.after(timedelta(seconds=10))
        while not met():
            assert not deadline.passed, "not in time"
            self.fetcher.pump()
            self.cluster.loop.turn(0.005)


@pytest.fixture
def reading() -> Iterator[Reading]:
    made = Reading(PlayedCluster({0: 1, 1: 1}))
    yield made
    made.cluster.close()


def batch(offset: int) -> bytes:
    made = encode([Record(-1, 0, None, b"x")])
    struct.pack_into(">q", made, 0, offset)
    return bytes(made)


def control(offset: int, count: int, records: bytes = b"") -> bytes:
    length = 49 + len(records)
    header = Header(offset, length, 0, 2, 0, CONTROL, 0, 0, 0, 9, 1, -1, count)
    made = bytearray(encode_header(header) + records)
    seal(made)
    return bytes(made)


def offsets(one: Fetched) -> list[int]:
    return [header.base_offset for header, _ in one.batches]


def test_marker_that_compaction_emptied_loses_nothing_around_it(reading: Reading) -> None:
    records = batch(0) + control(1, count=0) + batch(2)
    reply = fetched({"partition": 0, "records": records, "aborted": [(9, 0)]}, {"partition": 1})
    reading.broker().answer(reply)
    first = reading.taken(1)[0]
    assert first.error is None and offsets(first) == [0, 2] and first.next_offset == 3


def test_marker_that_cannot_be_read_ends_its_partition_alone(reading: Reading) -> None:
    """Its checksum is right, so it is not the network; nothing around it is skipped."""
    records = batch(0) + control(1, count=1, records=b"\xff") + batch(2)
    reading.broker().answer(
        fetched(
            {"partition": 0, "records": records, "aborted": [(9, 0)]},
            {"partition": 1, "records": batch(0)},
        )
    )
    bad, good = reading.taken(2)
    assert isinstance(bad.error, CorruptBatch) and bad.next_offset == 0 and not bad.batches
    assert good.error is None and offsets(good) == [0]


def test_pause_and_resume_of_a_partition_that_failed_do_nothing(reading: Reading) -> None:
    reading.broker().answer(fetched({"partition": 0, "code": 29}))
    (failed,) = reading.taken(1)
    assert isinstance(failed.error, NotAuthorized)
    reading.fetcher.pause(partition(0))
    reading.fetcher.resume(partition(0))


def test_partition_that_brought_records_goes_to_the_end_of_the_next_request(
    reading: Reading,
) -> None:
    """Without a session the broker fills its reply in that order: the first would starve others."""
    reading.broker().answer(fetched({"partition": 0, "records": batch(0)}))
    reading.taken(1)
    assert order_asked(reading.broker()) == [1, 0]


def order_asked(broker: Player) -> list[int]:
    asked = broker.asked[0]
    body = asked.body[1:]  # after the header's tagged fields
    request = FetchRequest[asked.version].decode(body)
    return [row.partition for topic in request.topics for row in topic.partitions]


def test_range_that_cannot_be_asked_for_leaves_a_pause_in_place(reading: Reading) -> None:
    broker = reading.broker()
    reading.fetcher.pause(partition(0))
    reading.cluster.refusal = LoginRefused("another password by now", cluster="c")
    broker.answer(fetched({"partition": 0, "code": 1}))
    for _ in range(2):
        broker = reading.broker()
        assert order_asked(broker) == [1], "paused, whatever happened to the question"
        broker.answer(fetched())


def test_what_arrived_before_a_partition_was_stopped_is_not_taken_after_it_starts_again(
    reading: Reading,
) -> None:
    rows = [{"partition": number, "records": batch(0)} for number in (0, 1)]
    player = reading.broker()
    player.answer(fetched(*rows))
    reading.turn_until(lambda: not player.channel.in_flight)
    reading.fetcher.stop(partition(0))
    reading.fetcher.start(partition(0), TOPIC_ID, 50)
    assert [one.partition for one in reading.fetcher.take()] == [partition(1)]
