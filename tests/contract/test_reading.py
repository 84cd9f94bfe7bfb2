"""What a reader is given: records, markers, aborts, bounds."""

import pytest

from heliograph.errors import OffsetOutOfRange, TopicRecreated
from heliograph.kafka import clock
from heliograph.kafka.batch import Marker, marker_of
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.records import Record, decode, encode
from heliograph.kafka.waiting import scan
from heliograph.model.topics import Partition
from tests.contract.sides import Side, within
from tests.contract.test_claiming import claim
from tests.contract.wire import Wire, batch


def write(wire: Wire, partition: Partition, *values: bytes, timestamp: int | None = None) -> None:
    """Write records as one batch of nobody."""
    now_ms = clock.wall_ms() if timestamp is None else timestamp
    records = [Record(-1, now_ms, None, value) for value in values]
    assert wire.produce(partition, encode(records)).code == 0


def bounds(wire: Wire, partition: Partition, *, committed: bool = False) -> tuple[int, int]:
    found = [
        list_offsets(wire.cluster, {partition: time}, within(), read_committed=committed)[partition]
        for time in (EARLIEST, LATEST)
    ]
    return found[0], found[1]


def read(
    wire: Wire, partition: Partition, start: int = 0, *, committed: bool = False
) -> list[tuple[int, bytes | None]]:
    """Return offset and value of everything up to the end, as Heliograph reads it."""
    end = bounds(wire, partition)[1]
    found = []
    scanned = scan(
        wire.cluster, {partition: start}, within(), ends={partition: end}, read_committed=committed
    )
    for fetched in scanned:
        for _, data in fetched.batches:
            found += [(record.offset, record.value) for record in decode(data)]
    return found


def test_empty_log_begins_and_ends_at_zero(wire: Wire, partition: Partition) -> None:
    assert bounds(wire, partition) == (0, 0)
    assert read(wire, partition) == []


def test_records_come_back_in_order_from_any_batch(wire: Wire, partition: Partition) -> None:
    write(wire, partition, b"a", b"b")
    write(wire, partition, b"c")
    assert read(wire, partition) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert read(wire, partition, 2) == [(2, b"c")]


def test_offset_inside_a_batch_brings_the_whole_batch(wire: Wire, partition: Partition) -> None:
    write(wire, partition, b"a", b"b", b"c")
    assert read(wire, partition, 1) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_deleted_records_are_gone_also_from_inside_a_batch(
    side: Side, wire: Wire, partition: Partition
) -> None:
    write(wire, partition, b"a")
    write(wire, partition, b"b", b"c")
    side.delete_records(partition, 2)
    assert bounds(wire, partition) == (2, 3)
    assert read(wire, partition, 2) == [(1, b"b"), (2, b"c")], "the batch stays whole"


@pytest.mark.parametrize("start", [0, 9])
def test_offset_outside_the_log_is_refused_with_its_bounds(
    side: Side, wire: Wire, partition: Partition, start: int
) -> None:
    write(wire, partition, b"a")
    write(wire, partition, b"b")
    side.delete_records(partition, 1)
    with pytest.raises(OffsetOutOfRange) as refused:
        list(scan(wire.cluster, {partition: start}, within(), ends={partition: 99}))
    assert (refused.value.start_offset, refused.value.end_offset) == (1, 2)


def test_everything_deleted_leaves_an_empty_log_at_its_end(
    side: Side, wire: Wire, partition: Partition
) -> None:
    write(wire, partition, b"a", b"b")
    side.delete_records(partition, 2)
    assert bounds(wire, partition) == (2, 2)
    write(wire, partition, b"c")
    assert read(wire, partition, 2) == [(2, b"c")]


def await_end(wire: Wire, partition: Partition, end: int) -> None:
    """Wait for the marker: a transaction's end is answered before it is written."""
    over = within(20)
    while bounds(wire, partition)[1] < end:
        assert not over.passed, "the marker does not come"


def test_aborted_records_are_hidden_only_from_committed_readers(
    side: Side, wire: Wire, partition: Partition
) -> None:
    side.write_transaction(partition, b"taken-back", commit=False)
    side.write_transaction(partition, b"kept", commit=True)
    await_end(wire, partition, 4)
    write(wire, partition, b"plain")
    assert read(wire, partition, committed=True) == [(2, b"kept"), (4, b"plain")]
    assert read(wire, partition) == [(0, b"taken-back"), (2, b"kept"), (4, b"plain")]
    assert bounds(wire, partition, committed=True) == (0, 5)


def test_abort_is_told_to_one_who_begins_behind_its_records(
    side: Side, wire: Wire, partition: Partition
) -> None:
    side.write_transaction(partition, b"taken-back", commit=False)
    await_end(wire, partition, 2)
    write(wire, partition, b"plain")
    assert read(wire, partition, 1, committed=True) == [(2, b"plain")]


def test_claim_leaves_one_marker_and_both_isolation_levels_alike(
    wire: Wire, partition: Partition, tid: str
) -> None:
    who = claim(wire, tid, partition)
    assert wire.produce(partition, batch(who, 0)).offset == 1
    assert bounds(wire, partition) == bounds(wire, partition, committed=True) == (0, 2)
    assert read(wire, partition) == read(wire, partition, committed=True) == [(1, b"0")]


def test_marker_names_the_claim(wire: Wire, partition: Partition, tid: str) -> None:
    who, epoch = claim(wire, tid, partition)
    wire.cluster.describe([partition.topic], within())
    scanned = scan(wire.cluster, {partition: 0}, within(), ends={partition: 1}, markers=True)
    ((header, data),) = [pair for fetched in scanned for pair in fetched.batches]
    assert (header.producer_id, header.producer_epoch) == (who, epoch - 1)
    assert header.is_control and marker_of(data) is Marker.ABORT


def test_open_transaction_of_a_claim_holds_back_no_reader(
    wire: Wire, partition: Partition, tid: str
) -> None:
    _, who, epoch = wire.init(tid)
    wire.add(tid, (who, epoch), partition)
    write(wire, partition, b"plain")
    assert read(wire, partition, committed=True) == [(0, b"plain")]


def test_time_finds_the_first_record_not_older(wire: Wire, partition: Partition) -> None:
    for timestamp in (1000, 3000, 2000):
        write(wire, partition, b"x", timestamp=timestamp)
    for time, offset in ((500, 0), (1000, 0), (1001, 1), (3000, 1), (3001, -1)):
        assert list_offsets(wire.cluster, {partition: time}, within())[partition] == offset


def test_topic_made_anew_is_not_read_for_the_old_one(
    side: Side, wire: Wire, partition: Partition
) -> None:
    write(wire, partition, b"old")
    scanned = scan(wire.cluster, {partition: 0}, within())
    assert next(scanned).next_offset == 1
    side.delete_topic(partition.topic)
    side.create_topic(partition.topic)
    with pytest.raises(TopicRecreated):
        list(scanned)
