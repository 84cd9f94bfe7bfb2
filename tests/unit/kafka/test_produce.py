"""Producers against a broker that a test plays: what each reply means for each batch."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from heliograph.errors import HeliographError, NotReady, OutcomeUnknown, RecordsRefused
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.produce import IN_FLIGHT, Producer
from heliograph.kafka.records import Record, encode
from tests.doubles.played import TOPIC, TOPIC_ID, PlayedCluster, Player, acks, partition

NOT_LEADER, TOO_LARGE, NOT_ENOUGH, AFTER_APPEND, OUT_OF_ORDER = 6, 10, 19, 20, 45


class Writing:
    """Batches of one partition, each of one record, and what became of each."""

    def __init__(self, most_requests: int = IN_FLIGHT) -> None:
        self.cluster = PlayedCluster({0: 1})
        self.producer = Producer(self.cluster, most_requests=most_requests)
        self.outcomes: list[int | HeliographError] = []
        self._sequences: Counter[int] = Counter()

    def send(
        self,
        *,
        once: bool = False,
        seconds: float = 20,
        topic_id: UUID = TOPIC_ID,
        producer_id: int = 5,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        now_ms = int(time.time() * 1000)
        batch = encode(
            [Record(-1, now_ms, None, b"x")],
            producer_id=producer_id,
            producer_epoch=1,
            base_sequence=self._sequences[producer_id],
        )
        self._sequences[producer_id] += 1
        deadline = Deadline.after(timedelta(seconds=seconds))
        self.producer.send(
            partition(),
            topic_id,
            batch,
            self.outcomes.append,
            once=once,
            deadline=deadline,
            on_lost=on_lost,
        )

    def broker(self, number: int = 1, *, asked: int) -> Player:
        """Return the broker's end once it has got so many requests."""
        deadline = Deadline.after(timedelta(seconds=10))
        while True:
            self.turn()
            player = self.cluster.players.get((number, "produce0"))
            if player is not None and len(player.asked) == asked:
                return player
            assert not deadline.passed, f"broker {number} was not asked {asked} times"

    def finish(self, count: int) -> list[int | HeliographError]:
        deadline = Deadline.after(timedelta(seconds=10))
        while len(self.outcomes) < count:
            assert not deadline.passed, self.outcomes
            self.turn()
        return self.outcomes

    def turn(self) -> None:
        self.producer.pump()
        self.cluster.loop.turn(0.005)


@pytest.fixture
def writing() -> Iterator[Writing]:
    made = Writing()
    yield made
    made.cluster.close()


def test_batch_is_not_blamed_for_records_refused_in_one_behind_it(writing: Writing) -> None:
    """The first waits for replicas, the second is too large: only the second is at fault."""
    for _ in range(3):
        writing.send()
    broker = writing.broker(asked=3)
    for code in (NOT_ENOUGH, TOO_LARGE, OUT_OF_ORDER):
        broker.answer(acks((0, code, -1)))
    broker = writing.broker(asked=3)
    for code, offset in ((0, 40), (TOO_LARGE, -1), (OUT_OF_ORDER, -1)):
        broker.answer(acks((0, code, offset)))
    first, second, third = writing.finish(3)
    assert first == 40
    assert isinstance(second, RecordsRefused)
    assert isinstance(third, NotReady), "it may be written once the second is dealt with"


def test_batch_stored_behind_a_doubtful_one_is_not_reported_as_absent(writing: Writing) -> None:
    for _ in range(2):
        writing.send(seconds=0.5)
    broker = writing.broker(asked=2)
    broker.answer(acks((0, AFTER_APPEND, 40)))
    broker.answer(acks((0, 0, 41)))
    writing.cluster.lead({0: None})  # so that both wait to go out again
    assert all(isinstance(one, OutcomeUnknown) for one in writing.finish(2)), writing.outcomes


@pytest.mark.parametrize("code", [TOO_LARGE, NOT_ENOUGH])
def test_batch_stored_behind_a_refused_one_is_not_reported_as_stored(
    writing: Writing, code: int
) -> None:
    """A broker that has forgotten the writer takes any sequence. Nothing goes out after that."""
    for _ in range(3):
        writing.send()
    broker = writing.broker(asked=3)
    for answer in ((0, code, -1), (0, 0, 40), (0, 0, 41)):
        broker.answer(acks(answer))
    for outcome in writing.finish(3):
        assert isinstance(outcome, OutcomeUnknown) and "at offset 40" in outcome.message
    assert not broker.asked and not writing.producer.unfinished


def test_whoever_sends_hears_of_a_request_that_may_still_arrive(writing: Writing) -> None:
    lost: list[str] = []
    writing.send(on_lost=lambda: lost.append("first"))
    first = writing.broker(asked=1)
    first.asked.clear()
    first.channel.close()
    again = writing.broker(asked=1)
    first.sock.close()
    assert lost == ["first"]
    again.answer(acks((0, 0, 40)))
    assert writing.finish(1) == [40] and lost == ["first"]


@pytest.mark.parametrize("code", [3, NOT_LEADER, 56, 100])
def test_error_that_comes_with_an_offset_came_after_the_append(writing: Writing, code: int) -> None:
    """A leader that moves while it waits for its replicas says so under the offset it gave."""
    writing.send(once=True)
    writing.broker(asked=1).answer(acks((0, code, 40)))
    (outcome,) = writing.finish(1)
    assert isinstance(outcome, OutcomeUnknown)
    assert not writing.producer.unfinished, "not sent again"


def test_batch_to_be_sent_once_goes_out_again_when_it_was_not_appended(writing: Writing) -> None:
    writing.send(once=True)
    writing.broker(asked=1).answer(acks((0, NOT_LEADER, -1)))
    writing.cluster.lead({0: 2}, epoch=1)
    writing.broker(2, asked=1).answer(acks((0, 0, 40)))
    assert writing.finish(1) == [40]


def test_partition_at_rest_may_be_written_under_another_topic_id(writing: Writing) -> None:
    writing.send()
    writing.broker(asked=1).answer(acks((0, 0, 40)))
    deadline = Deadline.after(timedelta(seconds=10))
    while not writing.outcomes and not deadline.passed:
        writing.cluster.loop.turn(0.005)  # without a pump, which would forget the partition
    topic = replace(writing.cluster.view.topics[TOPIC], topic_id=UUID(int=8))
    writing.cluster.view = replace(writing.cluster.view, topics={TOPIC: topic})
    writing.send(topic_id=UUID(int=8))
    assert UUID(int=8).bytes in writing.broker(asked=1).asked[0].body


def test_what_is_forgotten_is_neither_answered_nor_sent(writing: Writing) -> None:
    for _ in range(7):
        writing.send()
    broker = writing.broker(asked=5)
    writing.producer.forget(partition(), 5)
    assert not writing.producer.unfinished
    for offset in range(5):
        broker.answer(acks((0, 0, 40 + offset)))
    writing.send()
    writing.broker(asked=1).answer(acks((0, 0, 50)))
    assert writing.finish(1) == [50]


def test_what_is_forgotten_and_cut_leaves_no_byte_behind(writing: Writing) -> None:
    writing.send()
    broker = writing.broker(asked=1)
    writing.producer.forget(partition(), 5, cut=True)
    assert broker.channel.error is not None and not broker.channel.wants_write
    writing.send()
    again = writing.broker(asked=1)
    assert again is not broker
    broker.sock.close()
    again.answer(acks((0, 0, 50)))
    assert writing.finish(1) == [50]


def test_many_writers_of_a_partition_fly_together_and_of_each_five_batches_at_most() -> None:
    """Else a far broker takes no more than five ledgers in a round trip."""
    writing = Writing(most_requests=100)
    for producer_id in (1, 2):
        for _ in range(7):
            writing.send(producer_id=producer_id)
    for producer_id in range(3, 43):
        writing.send(producer_id=producer_id)
    broker = writing.broker(asked=5 + 5 + 40)
    written = [_writer_in(one.body) for one in broker.asked]
    assert Counter(pid for pid, _ in written).most_common(3) == [(1, 5), (2, 5), (3, 1)]
    for pid in (1, 2):
        assert [sequence for one, sequence in written if one == pid] == list(range(5))
    for offset in range(50):
        broker.answer(acks((0, 0, offset)))
    broker = writing.broker(asked=4)
    assert sorted(_writer_in(one.body) for one in broker.asked) == [(1, 5), (1, 6), (2, 5), (2, 6)]
    for offset in range(50, 54):
        broker.answer(acks((0, 0, offset)))
    assert sorted(one for one in writing.finish(54) if isinstance(one, int)) == list(range(54))
    writing.cluster.close()


def _writer_in(body: bytes) -> tuple[int, int]:
    """Return the producer id and the first sequence of the only batch of a request."""
    at = body.index(b"\xff\xff\xff\xff\x02") - 12  # no leader's epoch, format 2
    producer_id, _, sequence = struct.unpack_from(">qhi", body, at + 43)
    return producer_id, sequence
