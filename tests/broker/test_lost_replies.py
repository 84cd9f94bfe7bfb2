"""Replies that never arrive, between Heliograph and a real broker (fault 21, crash points C1-C7).

The broker does its work and the answer is lost: the connection is cut, or the answer is swallowed
until the request times out. Logs are read back by confluent-kafka.
"""

from __future__ import annotations

import random
import secrets

import pytest

from heliograph.errors import HeliographError, OutcomeUnknown, Superseded
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.produce import Producer
from heliograph.model.topics import Partition
from tests.doubles import outside
from tests.doubles.behind import Behind
from tests.doubles.driving import Writing, claim_of, offsets_of, pump, read_values, within
from tests.doubles.proxy import (
    FETCH,
    LIST_OFFSETS,
    LOSSES,
    METADATA,
    PRODUCE,
    Act,
    Cut,
    Hold,
    Side,
    name_of,
)

# Produce


@pytest.mark.parametrize("act", LOSSES, ids=name_of)
def test_batch_whose_reply_is_lost_is_stored_once_and_acknowledged_with_its_first_offset(
    behind: Behind, topic_name: str, act: Act
) -> None:
    outside.make_topic(behind.direct, topic_name)
    with behind.connect() as cluster:
        writing = Writing(cluster, Partition(topic_name, 0), claim_of(cluster, topic_name))
        rule = behind.proxy.on_reply(PRODUCE, act)
        writing.send(b"a", b"b")
        (offset,) = offsets_of(writing.finish())
    assert rule.caught == 1 and behind.proxy.passed(Side.REQUEST, PRODUCE) == 2
    seen = outside.read_both(behind.direct, topic_name)
    assert [record.value for record in seen] == [b"a", b"b"]
    assert [record.offset for record in seen] == [offset, offset + 1]


def test_batch_whose_replies_are_lost_again_and_again_is_stored_once(
    behind: Behind, topic_name: str
) -> None:
    outside.make_topic(behind.direct, topic_name)
    with behind.connect() as cluster:
        writing = Writing(cluster, Partition(topic_name, 0), claim_of(cluster, topic_name))
        behind.proxy.on_reply(PRODUCE, Cut(), times=4)
        writing.send(b"a")
        offsets_of(writing.finish())
    assert behind.proxy.passed(Side.REQUEST, PRODUCE) == 5
    assert outside.values(behind.direct, topic_name) == [b"a"]


@pytest.mark.parametrize("lost", [1, 3, 5])
@pytest.mark.parametrize("act", LOSSES, ids=name_of)
def test_one_of_five_replies_in_flight_lost_keeps_order_and_stores_each_once(
    behind: Behind, topic_name: str, act: Act, lost: int
) -> None:
    outside.make_topic(behind.direct, topic_name)
    wanted = [f"{number}".encode() for number in range(12)]
    with behind.connect() as cluster:
        writing = Writing(cluster, Partition(topic_name, 0), claim_of(cluster, topic_name))
        # Held replies make sure that five requests are in flight before the first is answered.
        held = behind.proxy.on_reply(PRODUCE, Hold())
        behind.proxy.on_reply(PRODUCE, act, skip=lost - 1)
        for value in wanted:
            writing.send(value)
        five = lambda: behind.proxy.passed(Side.REQUEST, PRODUCE) >= 5  # noqa: E731
        pump(cluster, writing.producer, five)
        behind.proxy.release(held)
        offsets = offsets_of(writing.finish())
    seen = outside.read_both(behind.direct, topic_name)
    assert [record.value for record in seen] == wanted
    assert [record.offset for record in seen] == offsets


def test_random_losses_on_several_partitions_lose_and_repeat_nothing(
    behind: Behind, topic_name: str
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    outside.make_topic(behind.direct, topic_name, partitions=4)
    behind.proxy.heal()
    with behind.connect() as cluster:
        producer = Producer(cluster)
        writings = [
            Writing(
                cluster,
                Partition(topic_name, number),
                claim_of(cluster, topic_name, number),
                producer,
            )
            for number in range(4)
        ]
        at = 0
        for _ in range(8):
            at += chance.randrange(1, 9)
            behind.proxy.on_reply(PRODUCE, Cut(chance.choice((0, 0, 3, 20))), skip=at)
        wanted: list[list[bytes]] = [[], [], [], []]
        for number in range(160):
            place = chance.randrange(4)
            values = [f"{number}.{n}".encode() for n in range(chance.randrange(1, 4))]
            wanted[place] += values
            writings[place].send(*values)
            if chance.random() < 0.5:
                producer.pump()
                cluster.loop.turn(0)
        for writing in writings:
            offsets = offsets_of(writing.finish())
            assert offsets == sorted(set(offsets))
    for place in range(4):
        assert outside.values(behind.direct, topic_name, place) == wanted[place]


@pytest.mark.parametrize("act", LOSSES, ids=name_of)
def test_batch_to_be_sent_once_is_not_sent_again_when_its_reply_is_lost(
    behind: Behind, topic_name: str, act: Act
) -> None:
    outside.make_topic(behind.direct, topic_name)
    with behind.connect() as cluster:
        writing = Writing(cluster, Partition(topic_name, 0), claim_of(cluster, topic_name))
        behind.proxy.on_reply(PRODUCE, act)
        writing.send(b"doubtful", once=True)
        writing.send(b"after", once=True)
        writing.send(b"last")
        first, *rest = writing.finish()
        assert isinstance(first, OutcomeUnknown) and "behind" in str(first)
        assert all(isinstance(one, HeliographError) for one in rest), rest
        assert not writing.producer.unfinished
    assert behind.proxy.passed(Side.REQUEST, PRODUCE) == 1
    assert outside.values(behind.direct, topic_name) == [b"doubtful"]


def test_batch_to_be_sent_once_flies_alone(behind: Behind, topic_name: str) -> None:
    outside.make_topic(behind.direct, topic_name)
    with behind.connect() as cluster:
        writing = Writing(cluster, Partition(topic_name, 0), claim_of(cluster, topic_name))
        held = behind.proxy.on_reply(PRODUCE, Hold())
        for number in range(3):
            writing.send(b"%d" % number, once=True)
        pump(cluster, writing.producer, lambda: held.caught == 1)
        for _ in range(20):
            writing.producer.pump()
            cluster.loop.turn(0.005)
        assert behind.proxy.passed(Side.REQUEST, PRODUCE) == 1
        behind.proxy.release(held)
        offsets_of(writing.finish())
    assert outside.values(behind.direct, topic_name) == [b"0", b"1", b"2"]


def test_batch_whose_time_runs_out_in_flight_is_doubtful_and_answered_once(
    behind: Behind, topic_name: str
) -> None:
    outside.make_topic(behind.direct, topic_name)
    with behind.connect() as cluster:
        writing = Writing(cluster, Partition(topic_name, 0), claim_of(cluster, topic_name))
        held = behind.proxy.on_reply(PRODUCE, Hold())
        writing.send(b"slow", seconds=0.5)
        pump(cluster, writing.producer, lambda: writing.is_done)
        behind.proxy.release(held)
        for _ in range(20):
            writing.producer.pump()
            cluster.loop.turn(0.01)
    (outcome,) = writing.outcomes
    assert isinstance(outcome, OutcomeUnknown), outcome


def test_late_request_of_a_superseded_writer_changes_nothing(
    behind: Behind, topic_name: str
) -> None:
    outside.make_topic(behind.direct, topic_name)
    with behind.connect("old") as old, behind.connect("new") as new:
        late = Writing(old, Partition(topic_name, 0), claim_of(old, topic_name))
        held = behind.proxy.on_request(PRODUCE, Hold())
        late.send(b"late")
        pump(old, late.producer, lambda: held.caught == 1)
        writing = Writing(new, Partition(topic_name, 0), claim_of(new, topic_name))
        writing.send(b"new")
        offsets_of(writing.finish())
        behind.proxy.release(held)
        (outcome,) = late.finish()
    assert isinstance(outcome, Superseded), outcome
    assert outside.values(behind.direct, topic_name) == [b"new"]


# Reading


@pytest.mark.parametrize("act", LOSSES, ids=name_of)
def test_lost_fetch_replies_lose_and_repeat_no_record(
    behind: Behind, topic_name: str, act: Act
) -> None:
    wanted = [f"{number}".encode() for number in range(40)]
    outside.make_topic(behind.direct, topic_name)
    for at in range(0, 40, 10):
        outside.fill(behind.direct, topic_name, wanted[at : at + 10])
    with behind.connect() as cluster:
        rules = [behind.proxy.on_reply(FETCH, act)]
        if act == Cut():
            rules += [behind.proxy.on_reply(FETCH, Cut(9 * n), skip=n) for n in (1, 2, 3)]
        found, error = read_values(cluster, Partition(topic_name, 0), len(wanted))
    assert error is None and all(rule.caught for rule in rules)
    assert found == wanted


@pytest.mark.parametrize("act", LOSSES, ids=name_of)
def test_lost_metadata_and_offset_replies_are_asked_for_again(
    behind: Behind, topic_name: str, act: Act
) -> None:
    outside.make_topic(behind.direct, topic_name, partitions=2)
    outside.fill(behind.direct, topic_name, [b"a", b"b", b"c"], partition=1)
    rules = [behind.proxy.on_reply(key, act) for key in (METADATA, LIST_OFFSETS)]
    wanted = {Partition(topic_name, number): LATEST for number in range(2)}
    with behind.connect() as cluster:
        ends = list_offsets(cluster, wanted, within())
    assert ends == {Partition(topic_name, 0): 0, Partition(topic_name, 1): 3}
    assert all(rule.caught == 1 for rule in rules)


def test_reading_goes_on_when_all_connections_are_cut_and_refused_for_a_while(
    behind: Behind, topic_name: str
) -> None:
    wanted = [f"{number}".encode() for number in range(20)]
    outside.make_topic(behind.direct, topic_name)
    outside.fill(behind.direct, topic_name, wanted[:10])
    with behind.connect() as cluster:
        found, _ = read_values(cluster, Partition(topic_name, 0), 10)
        behind.proxy.refuse()
        behind.proxy.cut_all()
        for _ in range(20):
            cluster.look_again()
            cluster.loop.turn(0.02)
        behind.proxy.refuse(False)
        outside.fill(behind.direct, topic_name, wanted[10:])
        found, error = read_values(cluster, Partition(topic_name, 0), 20)
    assert error is None and found == wanted
