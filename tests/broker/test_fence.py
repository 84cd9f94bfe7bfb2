"""The claim on a real broker: who may write, and what the log holds afterwards."""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.raw_copy import within
from heliograph.errors import HeliographError, OutcomeUnknown, Superseded
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.conversation import talk
from heliograph.kafka.fence import Claim, claim, claim_all, steps
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.properties import parse
from heliograph.kafka.records import Record, encode
from heliograph.kafka.waiting import write
from heliograph.model.names import transactional_id
from heliograph.model.topics import Partition
from tests.checker.reading import read_partition
from tests.making import create_topic

NOW_MS = 1_790_000_000_000


@pytest.fixture
def cluster(target: Any) -> Iterator[Cluster]:
    with Cluster(parse("target", target.client_properties()), "target") as made:
        yield made


@pytest.fixture
def mirror(target: Any, cluster: Cluster, topic_name: str) -> Partition:
    """A partition to claim; the topic's second one stands in for the ledger."""
    create_topic(target.bootstrap, topic_name, 2)
    cluster.describe([topic_name], within(10))
    return Partition(topic_name, 0)


def take(cluster: Cluster, mirror: Partition) -> Claim:
    both = [mirror, Partition(mirror.topic, 1)]
    return claim(cluster, transactional_id("link", mirror.topic, 0), both, within(10))


def put(cluster: Cluster, mirror: Partition, writer: Claim, sequence: int, value: bytes) -> int:
    batch = encode(
        [Record(-1, NOW_MS, None, value)],
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        base_sequence=sequence,
    )
    topic_id = cluster.view.topics[mirror.topic].topic_id
    return write(cluster, mirror, topic_id, [batch], within(10))[0]


def end_of(cluster: Cluster, partition: Partition) -> int:
    return list_offsets(cluster, {partition: LATEST}, within(10))[partition]


def values(target: Any, mirror: Partition, *, committed: bool) -> list[bytes | None]:
    seen = read_partition(target.bootstrap, *mirror, committed=committed)
    return [record.value for _, record in seen]


def test_a_zombie_is_refused_after_a_claim_and_the_log_is_unchanged(
    target: Any, cluster: Cluster, mirror: Partition
) -> None:
    zombie = take(cluster, mirror)
    put(cluster, mirror, zombie, 0, b"first")
    heir = take(cluster, mirror)
    before = end_of(cluster, mirror)

    for number in (mirror.partition, 1):  # the ledger's partition is fenced by the same claim
        with pytest.raises(Superseded):
            put(cluster, Partition(mirror.topic, number), zombie, 1 - number, b"zombie")

    assert end_of(cluster, mirror) == before
    put(cluster, mirror, heir, 0, b"second")
    for committed in (False, True):
        assert values(target, mirror, committed=committed) == [b"first", b"second"]


def test_both_isolation_levels_read_the_same_after_a_claim(
    target: Any, cluster: Cluster, mirror: Partition
) -> None:
    writer = take(cluster, mirror)
    put(cluster, mirror, writer, 0, b"visible at once")
    committed_end = list_offsets(cluster, {mirror: LATEST}, within(10), read_committed=True)
    assert committed_end[mirror] == end_of(cluster, mirror)
    assert values(target, mirror, committed=True) == [b"visible at once"]


def test_a_claim_keeps_the_producer_id_and_raises_the_epoch(
    cluster: Cluster, mirror: Partition
) -> None:
    first, second = take(cluster, mirror), take(cluster, mirror)
    assert second.producer_id == first.producer_id
    assert second.marker_epoch > first.epoch
    assert second.epoch > second.marker_epoch


def test_a_repeat_is_answered_with_the_first_offset(cluster: Cluster, mirror: Partition) -> None:
    writer = take(cluster, mirror)
    offset = put(cluster, mirror, writer, 0, b"once")
    end = end_of(cluster, mirror)
    assert put(cluster, mirror, writer, 0, b"once") == offset
    assert end_of(cluster, mirror) == end


def test_a_hole_in_the_sequence_is_a_doubt_not_a_guess(cluster: Cluster, mirror: Partition) -> None:
    writer = take(cluster, mirror)
    put(cluster, mirror, writer, 0, b"a")
    with pytest.raises(OutcomeUnknown):
        put(cluster, mirror, writer, 7, b"b")


def test_rivals_that_interleave_leave_one_writer(cluster: Cluster, mirror: Partition) -> None:
    # Both conversations run in step: each of one's questions is followed by the other's.
    tid = transactional_id("link", mirror.topic, 0)
    rounds: list[dict[str, Claim | HeliographError]] = []
    for _ in range(20):
        rounds.append(_race(cluster, tid, mirror))
    for outcome in rounds:
        winners = [one for one in outcome.values() if isinstance(one, Claim)]
        losers = [one for one in outcome.values() if isinstance(one, HeliographError)]
        assert len(winners) == 1
        assert all(isinstance(loser, Superseded) for loser in losers)


def _race(cluster: Cluster, tid: str, mirror: Partition) -> dict[str, Claim | HeliographError]:
    rivals = {name: steps(tid, [mirror]) for name in ("one", "other")}
    outcome = talk(cluster, rivals, within(20))
    winners = [one for one in outcome.values() if isinstance(one, Claim)]
    for winner in winners:
        put(cluster, mirror, winner, 0, b"winner")
    return outcome


def test_a_hundred_claims_at_once_all_succeed(target: Any, topic_name: str) -> None:
    create_topic(target.bootstrap, topic_name, 100)
    with Cluster(parse("target", target.client_properties()), "target") as cluster:
        wanted = {
            transactional_id("link", topic_name, number): [Partition(topic_name, number)]
            for number in range(100)
        }
        claims = claim_all(cluster, wanted, within(30))
        assert all(isinstance(one, Claim) for one in claims.values()), claims
        assert len({one.producer_id for one in claims.values() if isinstance(one, Claim)}) == 100
