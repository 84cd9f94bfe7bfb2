"""What a leader takes, refuses and recognises."""

import struct
from collections.abc import Callable

import pytest

from heliograph.kafka.batch import seal
from heliograph.model.topics import Partition
from tests.contract.sides import Side
from tests.contract.wire import Ack, Wire, batch

SOMEBODY = 4_000_000_000
"""A producer id that no broker has given out; a leader believes it."""


def test_each_of_the_last_five_batches_is_recognised(wire: Wire, partition: Partition) -> None:
    sent = [batch((SOMEBODY, 0), number) for number in range(6)]
    assert [wire.produce(partition, one) for one in sent] == [Ack(0, n) for n in range(6)]
    assert [wire.produce(partition, one) for one in sent[1:]] == [Ack(0, n) for n in range(1, 6)]
    assert wire.produce(partition, sent[0]).code == 45
    assert wire.produce(partition, batch((SOMEBODY, 0), 6)) == Ack(0, 6)


def test_other_record_count_is_no_repeat(wire: Wire, partition: Partition) -> None:
    wire.produce(partition, batch((SOMEBODY, 0), 0, 3))
    assert wire.produce(partition, batch((SOMEBODY, 0), 0, 2)).code == 45
    assert wire.produce(partition, batch((SOMEBODY, 0), 1, 2)).code == 45
    assert wire.produce(partition, batch((SOMEBODY, 0), 0, 3)) == Ack(0, 0)


def test_sequence_must_follow(wire: Wire, partition: Partition) -> None:
    wire.produce(partition, batch((SOMEBODY, 0), 0, 2))
    assert wire.produce(partition, batch((SOMEBODY, 0), 3)).code == 45
    assert wire.produce(partition, batch((SOMEBODY, 0), 2)) == Ack(0, 2)


def test_unknown_producer_may_begin_anywhere(wire: Wire, partition: Partition) -> None:
    assert wire.produce(partition, batch((SOMEBODY, 7), 500)) == Ack(0, 0)
    assert wire.produce(partition, batch((SOMEBODY, 7), 501)) == Ack(0, 1)


def test_newer_epoch_begins_at_zero_and_shuts_the_older_out(
    wire: Wire, partition: Partition
) -> None:
    wire.produce(partition, batch((SOMEBODY, 3), 0))
    assert wire.produce(partition, batch((SOMEBODY, 4), 1)).code == 45
    assert wire.produce(partition, batch((SOMEBODY, 4), 0)) == Ack(0, 1)
    assert wire.produce(partition, batch((SOMEBODY, 3), 1)).code == 47
    assert wire.produce(partition, batch((SOMEBODY, 3), 0)).code == 47, "not even as a repeat"


def test_sequences_wrap(wire: Wire, partition: Partition) -> None:
    last = 2**31 - 1
    assert wire.produce(partition, batch((SOMEBODY, 0), last - 1, 4)) == Ack(0, 0)
    assert wire.produce(partition, batch((SOMEBODY, 0), 2)) == Ack(0, 4)
    assert wire.produce(partition, batch((SOMEBODY, 0), last - 1, 4)) == Ack(0, 0)


def test_partitions_remember_apart(wire: Wire, partition: Partition) -> None:
    other = Partition(partition.topic, 1)
    wire.produce(partition, batch((SOMEBODY, 5), 0))
    assert wire.produce(other, batch((SOMEBODY, 1), 0)) == Ack(0, 0)


def _holes(data: bytearray) -> None:
    struct.pack_into(">i", data, 23, 5)  # last offset delta


def _moved(data: bytearray) -> None:
    struct.pack_into(">q", data, 0, 9)  # base offset


def _flag(bit: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[22] |= bit

    return change


def _no_sequence(data: bytearray) -> None:
    struct.pack_into(">i", data, 53, -1)


def _twice(data: bytearray) -> None:
    data += bytes(data)


BAD = {
    "holes": (_holes, 87),
    "base offset not 0": (_moved, 87),
    "control": (_flag(0x20), 87),
    "transactional": (_flag(0x10), 53),
    "no sequence": (_no_sequence, 87),
    "two batches": (_twice, 87),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_batch_is_refused(wire: Wire, partition: Partition, name: str) -> None:
    spoil, code = BAD[name]
    data = batch((SOMEBODY, 0), 0, 2)
    size = len(data)
    spoil(data)
    if len(data) == size:
        seal(data)
    assert wire.produce(partition, data) == Ack(code, -1)
    assert wire.produce(partition, batch((SOMEBODY, 0), 0)) == Ack(0, 0), "nothing was stored"


def test_wrong_checksum_is_refused(wire: Wire, partition: Partition) -> None:
    data = batch((SOMEBODY, 0), 0)
    data[-1] ^= 1
    assert wire.produce(partition, data) == Ack(2, -1)


def test_too_large_batch_is_refused(side: Side, wire: Wire, topic_name: str) -> None:
    side.create_topic(topic_name, max_bytes=200)
    partition = Partition(topic_name, 0)
    assert wire.produce(partition, batch((SOMEBODY, 0), 0, 100)) == Ack(10, -1)
    assert wire.produce(partition, batch((SOMEBODY, 0), 0, 1)) == Ack(0, 0)


def test_topic_made_anew_is_another(side: Side, wire: Wire, partition: Partition) -> None:
    before = wire.topic_id(partition.topic)
    side.delete_topic(partition.topic)
    side.create_topic(partition.topic)
    assert wire.topic_id(partition.topic) != before
    assert wire.produce(partition, batch((SOMEBODY, 0), 0), topic_id=before).code == 100
