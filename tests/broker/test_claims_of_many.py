"""Claims of many ids at once, on a real broker: what is wrong with one leaves the others alone."""

from __future__ import annotations

import struct

from heliograph.errors import ClusterError, HeliographError, TopicMissing
from heliograph.kafka.fence import Claim, claim_all
from heliograph.model.topics import Partition
from tests.doubles import outside
from tests.doubles.behind import Behind
from tests.doubles.driving import within
from tests.doubles.proxy import FIND_COORDINATOR, METADATA, Alter, Side

_COORDINATOR_NOT_AVAILABLE = 15


def without_leader(topic: str) -> Alter:
    """Say that the first partition of a topic has no leader, in Metadata version 12."""
    name = topic.encode()

    def change(frame: bytes) -> bytes:
        at = frame.find(name)
        if at < 0:
            return frame
        # After the name: topic id, is internal, number of partitions, error code, index.
        leader = at + len(name) + 16 + 1 + 1 + 2 + 4
        return frame[:leader] + struct.pack(">i", -1) + frame[leader + 4 :]

    return Alter(change)


def without_coordinator(transactional_id: str) -> Alter:
    """Say that one of several keys has no coordinator, in FindCoordinator version 4."""
    name = transactional_id.encode()

    def change(frame: bytes) -> bytes:
        at = frame.find(name)
        if at < 0:
            return frame
        host_bytes = frame[at + len(name) + 4] - 1
        code = at + len(name) + 4 + 1 + host_bytes + 4
        return frame[:code] + struct.pack(">h", _COORDINATOR_NOT_AVAILABLE) + frame[code + 2 :]

    return Alter(change)


def claims_of(behind: Behind, topic: str, seconds: float) -> list[Claim | HeliographError]:
    wanted = {f"heliograph.test.{topic}.{n}": [Partition(f"{topic}.{n}", 0)] for n in range(3)}
    with behind.connect() as cluster:
        found = claim_all(cluster, wanted, within(seconds))
    return [found[transactional_id] for transactional_id in wanted]


def test_partition_without_a_leader_fails_only_its_own_claim(
    behind: Behind, topic_name: str
) -> None:
    for number in range(3):
        outside.make_topic(behind.direct, f"{topic_name}.{number}")
    behind.proxy.on_reply(METADATA, without_leader(f"{topic_name}.1"), times=None)
    first, bad, last = claims_of(behind, topic_name, 6)
    assert isinstance(first, Claim) and isinstance(last, Claim), (first, last)
    assert isinstance(bad, ClusterError) and f"{topic_name}.1" in str(bad)


def test_topic_that_does_not_exist_fails_only_its_own_claim(
    behind: Behind, topic_name: str
) -> None:
    for number in (0, 2):
        outside.make_topic(behind.direct, f"{topic_name}.{number}")
    first, bad, last = claims_of(behind, topic_name, 15)
    assert isinstance(first, Claim) and isinstance(last, Claim), (first, last)
    assert isinstance(bad, TopicMissing) and f"{topic_name}.1" in str(bad)


def test_id_without_a_coordinator_fails_only_its_own_claim(behind: Behind, topic_name: str) -> None:
    for number in range(3):
        outside.make_topic(behind.direct, f"{topic_name}.{number}")
    bad_id = f"heliograph.test.{topic_name}.1"
    behind.proxy.on_reply(FIND_COORDINATOR, without_coordinator(bad_id), times=None)
    first, bad, last = claims_of(behind, topic_name, 3)
    assert isinstance(first, Claim) and isinstance(last, Claim), (first, last)
    assert isinstance(bad, ClusterError) and bad_id in str(bad)


def test_coordinators_of_many_ids_are_asked_for_at_once(behind: Behind, topic_name: str) -> None:
    for number in range(3):
        outside.make_topic(behind.direct, f"{topic_name}.{number}")
    claims_of(behind, topic_name, 20)  # a new cluster makes its coordinators only now
    before = behind.proxy.passed(Side.REQUEST, FIND_COORDINATOR)
    claims = claims_of(behind, topic_name, 20)
    assert all(isinstance(one, Claim) for one in claims), claims
    assert behind.proxy.passed(Side.REQUEST, FIND_COORDINATOR) - before == 1
