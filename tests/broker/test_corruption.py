"""Bytes that are wrong: on the wire, in both directions, and on a broker's disk (faults 23, 39).

Nothing of a damaged batch is delivered or stored, the error names where it is, and what can heal
by a new connection heals by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.errors import CorruptBatch, HeliographError, RecordsRefused
from heliograph.kafka.batch import HEADER_BYTES
from heliograph.kafka.fence import claim
from heliograph.kafka.fetch import Fetcher
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.local.brokers import Cluster as LocalCluster
from heliograph.model.topics import Partition
from tests.doubles import outside
from tests.doubles.behind import Behind
from tests.doubles.driving import (
    Writing,
    connect_to,
    pump,
    read_records,
    read_values,
    records_of,
    within,
)
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
    Alter,
    Cut,
    flip,
    flip_in,
    replace,
)

NEEDLE = b"needle-in-a-batch"
NONSENSE: dict[str, Act] = {
    "cut inside": Cut(after_bytes=9),
    "cut short": Alter(lambda frame: struct.pack(">i", len(frame) - 7) + frame[4:-3]),
    "garbage": replace(struct.pack(">i", 200) + bytes(range(200))),
    "garbage after its head": Alter(lambda frame: frame[:8] + b"\xee" * (len(frame) - 8)),
    "impossible length": replace(b"\x7f\xff\xff\xff" + b"x" * 50),
    "negative length": replace(b"\xff\xff\xff\xff" + b"x" * 50),
    "wrong correlation id": flip(7),
    "too short": replace(struct.pack(">i", 2) + b"xx"),
}


def three_batches(behind: Behind, topic: str) -> list[bytes]:
    """Write three batches of one record; the second holds the needle."""
    wanted = [b"first", NEEDLE, b"third"]
    outside.make_topic(behind.direct, topic)
    for value in wanted:
        outside.fill(behind.direct, topic, [value])
    return wanted


# Fetched


def test_batch_damaged_once_on_the_wire_is_fetched_again(behind: Behind, topic_name: str) -> None:
    wanted = three_batches(behind, topic_name)
    rule = behind.proxy.on_reply(FETCH, flip_in(NEEDLE), holding=NEEDLE)
    with behind.connect() as cluster:
        found, error = read_values(cluster, Partition(topic_name, 0), 3)
    assert error is None and rule.caught == 1
    assert found == wanted


def test_batch_damaged_every_time_ends_its_partition_and_is_not_delivered(
    behind: Behind, topic_name: str
) -> None:
    three_batches(behind, topic_name)
    behind.proxy.on_reply(FETCH, flip_in(NEEDLE), times=None)
    with behind.connect() as cluster:
        found, error = read_values(cluster, Partition(topic_name, 0), 3)
    assert found == [b"first"], "what stands before the damage is good, nothing else"
    assert isinstance(error, CorruptBatch)
    assert f"cluster behind: {topic_name}-0" in str(error) and "offset 1 " in str(error)


@pytest.mark.parametrize("fault", NONSENSE)
def test_fetch_reply_that_is_nonsense_costs_a_connection_and_no_record(
    behind: Behind, topic_name: str, fault: str
) -> None:
    wanted = three_batches(behind, topic_name)
    rules = [behind.proxy.on_reply(FETCH, NONSENSE[fault], skip=skip) for skip in (0, 1)]
    with behind.connect() as cluster:
        found, error = read_values(cluster, Partition(topic_name, 0), 3)
    assert error is None and all(rule.caught for rule in rules)
    assert found == wanted


@pytest.mark.parametrize("fault", NONSENSE)
@pytest.mark.parametrize("api_key", [METADATA, LIST_OFFSETS])
def test_nonsense_in_place_of_a_small_reply_is_asked_for_again(
    behind: Behind, topic_name: str, api_key: int, fault: str
) -> None:
    three_batches(behind, topic_name)
    rule = behind.proxy.on_reply(api_key, NONSENSE[fault])
    with behind.connect() as cluster:
        ends = list_offsets(cluster, {Partition(topic_name, 0): LATEST}, within())
    assert rule.caught == 1 and ends == {Partition(topic_name, 0): 3}


def test_any_flipped_byte_of_the_records_is_noticed(behind: Behind, topic_name: str) -> None:
    """All but the leader epoch, 12 to 15, which no checksum covers and no record depends on."""
    wanted = three_batches(behind, topic_name)
    record_bytes = 6 + len(b"first") + 1  # what stands before the value, and no headers
    size = HEADER_BYTES + record_bytes
    with behind.connect() as cluster:
        for byte in (*range(12), *range(16, size)):
            rule = behind.proxy.on_reply(FETCH, _flip_in_first_batch(byte), holding=NEEDLE)
            found, error = read_records(cluster, Partition(topic_name, 0), 3)
            assert rule.caught == 1
            seen = [(record.offset, record.value) for record in found]
            assert error is None and seen == list(enumerate(wanted)), f"byte {byte}: {seen} {error}"


def _flip_in_first_batch(byte: int) -> Alter:
    def change(frame: bytes) -> bytes:
        changed = bytearray(frame)
        changed[frame.index(b"first") - 6 - HEADER_BYTES + byte] ^= 0x01
        return bytes(changed)

    return Alter(change)


# Produced


def test_batch_damaged_on_its_way_to_the_broker_is_refused_and_never_stored(
    behind: Behind, topic_name: str
) -> None:
    partition = Partition(topic_name, 0)
    outside.make_topic(behind.direct, topic_name)
    with behind.connect() as cluster:
        identity = claim(cluster, f"heliograph.test.{topic_name}.0", [partition], within())
        writing = Writing(cluster, partition, identity)
        writing.send(b"before")
        writing.finish()
        behind.proxy.on_request(PRODUCE, flip_in(NEEDLE), times=None)
        writing.send(NEEDLE)
        writing.send(b"after")
        outcomes = writing.finish()
    assert isinstance(outcomes[1], RecordsRefused) and outcomes[1].kafka_code == 2
    assert all(isinstance(one, HeliographError) for one in outcomes[1:])
    assert outside.values(behind.direct, topic_name) == [b"before"]


def test_batch_damaged_once_on_its_way_to_the_broker_is_sent_again_and_stored_once(
    behind: Behind, topic_name: str
) -> None:
    partition = Partition(topic_name, 0)
    outside.make_topic(behind.direct, topic_name)
    with behind.connect() as cluster:
        identity = claim(cluster, f"heliograph.test.{topic_name}.0", [partition], within())
        writing = Writing(cluster, partition, identity)
        rule = behind.proxy.on_request(PRODUCE, flip_in(NEEDLE), times=1)
        writing.send(NEEDLE)
        writing.send(b"after")
        outcomes = writing.finish()
    assert rule.caught == 1
    assert all(isinstance(one, int) for one in outcomes), outcomes
    assert outside.values(behind.direct, topic_name) == [NEEDLE, b"after"]


@pytest.mark.parametrize("fault", NONSENSE)
def test_produce_reply_that_is_nonsense_stores_the_batch_once(
    behind: Behind, topic_name: str, fault: str
) -> None:
    partition = Partition(topic_name, 0)
    outside.make_topic(behind.direct, topic_name)
    with behind.connect() as cluster:
        identity = claim(cluster, f"heliograph.test.{topic_name}.0", [partition], within())
        writing = Writing(cluster, partition, identity)
        rule = behind.proxy.on_reply(PRODUCE, NONSENSE[fault])
        writing.send(b"a")
        writing.send(b"b")
        outcomes = writing.finish()
    assert rule.caught == 1
    assert all(isinstance(one, int) for one in outcomes), outcomes
    assert outside.values(behind.direct, topic_name) == [b"a", b"b"]


@pytest.mark.parametrize("fault", NONSENSE)
def test_claim_outlives_nonsense_in_place_of_each_reply(
    behind: Behind, topic_name: str, fault: str
) -> None:
    partition = Partition(topic_name, 0)
    outside.make_topic(behind.direct, topic_name)
    keys = (FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN)
    rules = [behind.proxy.on_reply(key, NONSENSE[fault]) for key in keys]
    rules.append(behind.proxy.on_reply(INIT_PRODUCER_ID, NONSENSE[fault], skip=2))
    with behind.connect() as cluster:
        identity = claim(cluster, f"heliograph.test.{topic_name}.0", [partition], within())
        writing = Writing(cluster, partition, identity)
        writing.send(b"a")
        writing.finish()
    assert all(rule.caught == 1 for rule in rules)
    assert outside.values(behind.direct, topic_name) == [b"a"]


# On disk


def test_batch_damaged_on_disk_ends_only_its_own_partition(
    private_cluster: Callable[..., LocalCluster], topic_name: str
) -> None:
    local = private_cluster(name="damaged")
    outside.make_topic(local.bootstrap, topic_name, partitions=2)
    for value in (b"first", NEEDLE, b"third"):
        for partition in (0, 1):
            outside.fill(local.bootstrap, topic_name, [value], partition=partition)
    node = local.node(1)
    node.stop()
    _damage(local.folder.data(1) / f"{topic_name}-0", NEEDLE)
    node.start()
    with connect_to(local.bootstrap, "damaged") as cluster:
        topic_id = cluster.describe([topic_name], within()).topics[topic_name].topic_id
        fetcher = Fetcher(cluster)
        for number in (0, 1):
            fetcher.start(Partition(topic_name, number), topic_id, 0)
        found: dict[int, list[bytes]] = {0: [], 1: []}
        errors: dict[int, HeliographError] = {}

        def done() -> bool:
            for fetched in fetcher.take():
                found[fetched.partition.partition] += [
                    record.value or b"" for record in records_of(fetched)
                ]
                if fetched.error:
                    errors[fetched.partition.partition] = fetched.error
            return bool(errors) and len(found[1]) == 3

        pump(cluster, fetcher, done)
    assert found == {0: [b"first"], 1: [b"first", NEEDLE, b"third"]}
    assert isinstance(errors.pop(0), CorruptBatch) and not errors


def _damage(folder: Path, needle: bytes) -> None:
    (segment,) = folder.glob("*.log")
    content = bytearray(segment.read_bytes())
    at = content.index(needle)
    content[at] ^= 0x10
    segment.write_bytes(content)
