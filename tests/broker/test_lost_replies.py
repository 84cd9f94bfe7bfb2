"""Replies that never arrive, between Heliograph and a real broker (fault 21, crash points C1-C7).

The broker does its work and the answer is lost: the connection is cut, or the answer is swallowed
until the request times out. Logs are read back by confluent-kafka.
"""

from __future__ import annotations

import random
import secrets
import threading

import pytest

from heliograph.errors import HeliographError, OutcomeUnknown, Superseded
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fence import Claim, claim
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.produce import Producer
from heliograph.model.topics import Partition
from tests.doubles import outside
from tests.doubles.behind import Behind
from tests.doubles.driving import Writing, pump, read_values, within
from tests.doubles.proxy import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    Act,
    Cut,
    Hold,
    Side,
    Swallow,
    wait_until,
)

LOSSES = (Cut(), Swallow())


def name_of(act: Act) -> str:
    return type(act).__name__.lower()


def claim_of(cluster: Cluster, topic: str, *partitions: int) -> Claim:
    wanted = [Partition(topic, number) for number in partitions or (0,)]
    return claim(cluster, f"heliograph.test.{topic}.{wanted[0].partition}", wanted, within())


def offsets_of(outcomes: list[int | HeliographError]) -> list[int]:
    assert all(isinstance(outcome, int) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, int)]


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


# Claim


STEPS = {
    "first InitProducerId": (INIT_PRODUCER_ID, 0),
    "AddPartitionsToTxn": (ADD_PARTITIONS_TO_TXN, 0),
    "EndTxn": (END_TXN, 0),
    "second InitProducerId": (INIT_PRODUCER_ID, 1),
    "FindCoordinator": (FIND_COORDINATOR, 0),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("act", LOSSES, ids=name_of)
def test_claim_outlives_a_lost_reply(behind: Behind, topic_name: str, step: str, act: Act) -> None:
    api_key, skip = STEPS[step]
    partition = Partition(topic_name, 0)
    outside.make_topic(behind.direct, topic_name)
    with behind.connect("old") as before, behind.connect("new") as after:
        old = Writing(before, partition, claim_of(before, topic_name))
        old.send(b"old")
        offsets_of(old.finish())
        rule = behind.proxy.on_reply(api_key, act, skip=skip)
        new = Writing(after, partition, claim_of(after, topic_name))
        assert rule.caught == 1
        old.send(b"zombie")
        assert isinstance(old.finish()[-1], Superseded)
        new.send(b"new")
        offsets_of(new.finish())
    assert outside.values(behind.direct, topic_name) == [b"old", b"new"]


@pytest.mark.parametrize("step", [name for name in STEPS if name != "FindCoordinator"])
def test_late_request_of_a_claim_does_not_touch_the_writer_it_made(
    behind: Behind, topic_name: str, step: str
) -> None:
    """A request is held until its repeat has done its work, then delivered after all (fault 22)."""
    api_key, skip = STEPS[step]
    partition = Partition(topic_name, 0)
    outside.make_topic(behind.direct, topic_name)
    with behind.connect() as cluster:
        held = behind.proxy.on_request(api_key, Hold(), skip=skip)
        writing = Writing(cluster, partition, claim_of(cluster, topic_name))
        writing.send(b"before")
        writing.finish()
        answered = behind.proxy.passed(Side.REPLY, api_key)
        behind.proxy.release(held)
        wait_until(
            lambda: behind.proxy.passed(Side.REPLY, api_key) > answered, "the late one's reply"
        )
        writing.send(b"after")
        offsets_of(writing.finish())
    assert outside.values(behind.direct, topic_name) == [b"before", b"after"]


@pytest.mark.parametrize("step", [name for name in STEPS if name != "FindCoordinator"])
@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
def test_of_two_claims_that_interleave_exactly_one_wins(
    behind: Behind, topic_name: str, step: str, side: Side
) -> None:
    """The first claim is held at a step while a rival claims completely (C5)."""
    api_key, skip = STEPS[step]
    partition = Partition(topic_name, 0)
    outside.make_topic(behind.direct, topic_name)
    found: list[Claim | HeliographError] = []
    with behind.connect("slow") as slow, behind.connect("rival") as rival:

        def claim_slowly() -> None:
            try:
                found.append(claim_of(slow, topic_name))
            except HeliographError as failure:
                found.append(failure)

        add = behind.proxy.on_request if side is Side.REQUEST else behind.proxy.on_reply
        held = add(api_key, Hold(), skip=skip)
        thread = threading.Thread(target=claim_slowly)
        thread.start()
        try:
            behind.proxy.wait_caught(held)
            won = claim_of(rival, topic_name)
        finally:
            behind.proxy.release(held)
            thread.join()
        outcomes = [_try_to_write(rival, partition, won, b"rival")]
        if isinstance(found[0], Claim):
            outcomes.append(_try_to_write(slow, partition, found[0], b"slow"))
            outcomes.append(_try_to_write(rival, partition, won, b"rival"))
    stored = [one for one in outcomes if isinstance(one, int)]
    refused = [one for one in outcomes if not isinstance(one, int)] + [
        one for one in found if not isinstance(one, Claim)
    ]
    print(found, outcomes)
    assert refused and all(isinstance(one, Superseded) for one in refused)
    assert stored, "nobody won"
    values = outside.values(behind.direct, topic_name)
    assert len(values) == len(stored)
    # Whoever wrote last wrote alone from then on.
    assert values in ([b"rival"], [b"slow"], [b"rival", b"slow"])


def _try_to_write(
    cluster: Cluster, partition: Partition, identity: Claim, value: bytes
) -> int | HeliographError:
    writing = Writing(cluster, partition, identity)
    writing.send(value)
    return writing.finish()[0]


def test_of_rivals_at_the_same_instant_at_most_the_last_winner_writes(
    behind: Behind, topic_name: str
) -> None:
    partition = Partition(topic_name, 0)
    outside.make_topic(behind.direct, topic_name)
    clusters = [behind.connect(f"rival-{number}") for number in range(3)]
    expected: list[bytes] = []
    try:
        for turn in range(12):
            found = _claim_together(clusters, topic_name)
            claims = {n: one for n, one in found.items() if isinstance(one, Claim)}
            losers = [one for one in found.values() if not isinstance(one, Claim)]
            assert all(isinstance(one, Superseded) for one in losers), losers
            # The last to claim may have come after another was through; it has the newest epoch.
            order = sorted(claims, key=lambda n: (claims[n].producer_id, claims[n].epoch))
            if not order:
                # Kafka lets a stale second InitProducerId abort the transaction of the claim that
                # overtook it, and only then refuses it: both lose. Nobody writes; claim again.
                claims, order = {0: claim_of(clusters[0], topic_name)}, [0]
            value = f"{turn}".encode()
            written = _try_to_write(clusters[order[-1]], partition, claims[order[-1]], value)
            assert isinstance(written, int), written
            expected.append(value)
            for number in order[:-1]:
                refused = _try_to_write(clusters[number], partition, claims[number], b"loser")
                assert isinstance(refused, Superseded), refused
    finally:
        for cluster in clusters:
            cluster.close()
    assert outside.values(behind.direct, topic_name) == expected


def _claim_together(clusters: list[Cluster], topic: str) -> dict[int, Claim | HeliographError]:
    found: dict[int, Claim | HeliographError] = {}
    gate = threading.Barrier(len(clusters))

    def run(number: int) -> None:
        gate.wait(20)
        try:
            found[number] = claim_of(clusters[number], topic)
        except HeliographError as failure:
            found[number] = failure

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(clusters))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(clusters)
    return found


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
