"""Claims through lost replies, late requests and rivals, on a real broker (C1 to C5, fault 22).

Whatever happens on the way, at most one writer can write, and it is the one whose claim ended last.
"""

from __future__ import annotations

import threading

import pytest

from heliograph.errors import HeliographError, Superseded
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fence import Claim
from heliograph.model.topics import Partition
from tests.doubles import outside
from tests.doubles.behind import Behind
from tests.doubles.driving import Writing, claim_of, offsets_of
from tests.doubles.proxy import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LOSSES,
    Act,
    Hold,
    Side,
    name_of,
    wait_until,
)

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
        # The rival first: had both a claim that holds, both would be stored.
        outcomes = [_try_to_write(rival, partition, won, b"rival")]
        if isinstance(found[0], Claim):
            outcomes.append(_try_to_write(slow, partition, found[0], b"slow"))
    stored = [one for one in outcomes if isinstance(one, int)]
    refused = [one for one in [*outcomes, *found] if isinstance(one, HeliographError)]
    assert len(stored) == 1, (found, outcomes)
    assert len(refused) == 1 and isinstance(refused[0], Superseded), (found, outcomes)
    assert len(outside.values(behind.direct, topic_name)) == 1


def _try_to_write(
    cluster: Cluster, partition: Partition, identity: Claim, value: bytes
) -> int | HeliographError:
    writing = Writing(cluster, partition, identity)
    writing.send(value)
    return writing.finish()[0]


def test_of_rivals_at_the_same_instant_only_the_last_winner_writes(
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
            assert order, "all rivals lost"
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
