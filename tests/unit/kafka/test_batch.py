"""Headers, checksums and restamping, on bytes written by hand and by kafka-python."""

import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from heliograph.errors import CorruptBatch
from heliograph.kafka.batch import (
    HEADER_BYTES,
    Header,
    Marker,
    encode_header,
    marker_of,
    read_header,
    restamp,
    seal,
    sequence_after,
    split_batches,
    verify,
)
from heliograph.kafka.records import Record, decode, encode

# One record, key "k", value "v", no headers, time 1 700 000 000 123, at offset 7, leader epoch 3.
GOLDEN = bytes.fromhex(
    "0000000000000007"  # base offset
    "0000003a"  # length: 58 bytes follow
    "00000003"  # leader epoch
    "02"  # magic
    "423288da"  # CRC-32C of all that follows
    "0000"  # attributes
    "00000000"  # last offset delta
    "0000018bcfe5687b"  # base timestamp
    "0000018bcfe5687b"  # max timestamp
    "ffffffffffffffff"  # producer id: none
    "ffff"  # producer epoch
    "ffffffff"  # base sequence
    "00000001"  # one record
    "10"  # its length: 8
    "00"  # attributes
    "00"  # timestamp delta
    "00"  # offset delta
    "026b"  # key
    "0276"  # value
    "00"  # no headers
)
# The abort marker of producer 1000, epoch 5, as a Kafka 4 broker writes it.
ABORT = bytes.fromhex(
    "000000000000002a" "00000042" "00000000" "02" "00000000" "0030" "00000000"
    "0000018bcfe5687b" "0000018bcfe5687b" "00000000000003e8" "0005" "ffffffff" "00000001"
    "20" "00" "00" "00" "08" "0000" "0000" "0c" "0000" "00000000" "00"
)  # fmt: skip
PLAIN = [Record(0, 1_700_000_000_000 + n, b"k%d" % n, b"v" * n) for n in range(3)]


def at_offset(batch: bytearray, base_offset: int) -> bytes:
    struct.pack_into(">q", batch, 0, base_offset)
    return bytes(batch)


def with_flags(batch: bytes | bytearray, flags: int) -> bytearray:
    changed = bytearray(batch)
    changed[22] |= flags
    seal(changed)
    return changed


def test_golden_bytes_are_read_field_by_field() -> None:
    ((header, batch),) = split_batches(memoryview(GOLDEN))
    assert header == Header(
        base_offset=7,
        length=58,
        leader_epoch=3,
        magic=2,
        crc=0x423288DA,
        attributes=0,
        last_offset_delta=0,
        base_timestamp=1_700_000_000_123,
        max_timestamp=1_700_000_000_123,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=1,
    )
    assert (header.last_offset, header.next_offset, header.size) == (7, 8, len(GOLDEN))
    assert not header.needs_rebuild
    assert batch == GOLDEN
    verify(batch)


def test_golden_bytes_are_what_encode_writes() -> None:
    batch = encode([Record(7, 1_700_000_000_123, b"k", b"v")])
    assert batch[17:] == GOLDEN[17:]
    assert batch[:17] == bytes(8) + GOLDEN[8:12] + b"\xff\xff\xff\xff" + b"\x02"


def test_header_survives_encoding() -> None:
    assert encode_header(read_header(GOLDEN)) == GOLDEN[:HEADER_BYTES]


def test_attribute_bits_read_as_claims() -> None:
    flags = {
        0x08: "has_append_time",
        0x10: "is_transactional",
        0x20: "is_control",
        0x40: "has_delete_horizon",
    }
    for bit in flags:
        header = read_header(with_flags(GOLDEN, bit))
        assert [name for name in flags.values() if getattr(header, name)] == [flags[bit]]
    assert read_header(with_flags(GOLDEN, 4)).codec == 4


def test_walk_yields_every_batch_and_stops_at_a_cut_tail() -> None:
    whole = b"".join(at_offset(encode(PLAIN), 10 * n) for n in range(4))
    size = len(whole) // 4
    for cut in range(3 * size, 4 * size):
        found = list(split_batches(memoryview(whole[:cut]), check=True))
        assert [header.base_offset for header, _ in found] == [0, 10, 20]
        assert all(batch.nbytes == header.size == size for header, batch in found)
    assert len(list(split_batches(memoryview(whole)))) == 4


def test_walk_of_nothing_is_empty() -> None:
    assert list(split_batches(memoryview(b""))) == []


def test_first_batch_without_an_end_is_damage() -> None:
    for cut in range(1, len(GOLDEN)):
        with pytest.raises(CorruptBatch):
            list(split_batches(memoryview(GOLDEN[:cut])))


@pytest.mark.parametrize(
    ("position", "content"),
    [
        (8, struct.pack(">i", 48)),
        (8, struct.pack(">i", -1)),
        (8, struct.pack(">i", -(1 << 31))),
        (16, b"\x03"),
        (16, b"\xff"),
        (23, struct.pack(">i", -2)),
        (57, struct.pack(">i", -1)),
        (57, struct.pack(">i", 2)),
        (0, struct.pack(">q", -1)),
    ],
)
def test_nonsense_in_a_header_is_corrupt(position: int, content: bytes) -> None:
    batch = bytearray(GOLDEN)
    batch[position : position + len(content)] = content
    with pytest.raises(CorruptBatch):
        list(split_batches(memoryview(batch)))
    with pytest.raises(CorruptBatch):
        read_header(batch)


def test_wrong_checksum_names_the_offset_and_both_sums() -> None:
    batch = bytearray(GOLDEN)
    batch[-2] ^= 1
    with pytest.raises(CorruptBatch, match=r"offset 7 .*0x423288da.*0x[0-9a-f]{8}"):
        verify(batch)
    with pytest.raises(CorruptBatch, match="0x423288da"):
        list(split_batches(memoryview(batch), check=True))


def test_damage_behind_a_good_batch_does_not_hide_it() -> None:
    bad = bytearray(GOLDEN)
    bad[-2] ^= 1
    walk = split_batches(memoryview(GOLDEN + bad), check=True)
    assert next(walk)[0].base_offset == 7
    with pytest.raises(CorruptBatch):
        next(walk)


@given(st.integers(min_value=17 * 8, max_value=len(GOLDEN) * 8 - 1))
def test_every_flipped_bit_is_found(bit: int) -> None:
    # Bytes before 17 are outside the checksum: offset, length, leader epoch and magic.
    batch = bytearray(GOLDEN)
    batch[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptBatch):
        verify(batch)


@given(st.binary(max_size=200), st.sampled_from([b"", GOLDEN, bytes(8) + b"\x00\x00\x00\x40"]))
def test_garbage_gives_batches_or_corrupt_and_ends(garbage: bytes, start: bytes) -> None:
    try:
        found = list(split_batches(memoryview(start + garbage)))
    except CorruptBatch:
        return
    assert sum(header.size for header, _ in found) <= len(start + garbage)


def test_restamp_writes_ours_and_keeps_the_records() -> None:
    batch = with_flags(at_offset(encode(PLAIN, codec=3), 500), 0x10)
    struct.pack_into(">i", batch, 12, 9)
    before = read_header(batch)
    restamp(batch, 4711, 6, 99)
    verify(batch)
    assert read_header(batch) == before._replace(
        base_offset=0,
        leader_epoch=-1,
        crc=read_header(batch).crc,
        attributes=3,
        producer_id=4711,
        producer_epoch=6,
        base_sequence=99,
    )
    assert list(decode(batch)) == [r._replace(offset=n) for n, r in enumerate(PLAIN)]


def test_restamp_works_inside_the_buffer_of_a_fetch() -> None:
    buffer = bytearray(GOLDEN + GOLDEN)
    for sequence, (_, batch) in enumerate(split_batches(memoryview(buffer))):
        restamp(batch, 1, 0, sequence)
    headers = [header for header, _ in split_batches(memoryview(buffer), check=True)]
    assert [header.base_sequence for header in headers] == [0, 1]


def test_clearing_the_delete_horizon_keeps_timestamps() -> None:
    # Compaction puts the horizon into base timestamp and makes the deltas relative to it.
    batch = encode(PLAIN)
    horizon = PLAIN[0].timestamp + 60
    records = bytearray(batch)
    struct.pack_into(">q", records, 27, horizon)
    for place, record in enumerate(PLAIN):
        # Each delta is one byte; zigzag of a negative number n is -2n - 1.
        delta_at = batch.index(b"k%d" % place) - 3
        records[delta_at] = -2 * (record.timestamp - horizon) - 1
    fetched = with_flags(records, 0x40)
    assert read_header(fetched).has_delete_horizon
    restamp(fetched, 1, 0, 0)
    assert not read_header(fetched).has_delete_horizon
    assert [r.timestamp for r in decode(fetched)] == [r.timestamp for r in PLAIN]


@pytest.mark.parametrize("flag", [0x08, 0x20])
def test_append_time_and_control_batches_are_not_restamped(flag: int) -> None:
    with pytest.raises(AssertionError):
        restamp(with_flags(GOLDEN, flag), 1, 0, 0)


def test_sequences_wrap_to_zero() -> None:
    assert sequence_after(0, 5) == 5
    assert sequence_after(2**31 - 1, 1) == 0
    assert sequence_after(2**31 - 5, 10) == 5


def test_markers_are_told_apart() -> None:
    abort = with_flags(ABORT, 0)
    assert marker_of(abort) is Marker.ABORT
    header = read_header(abort)
    assert (header.producer_id, header.producer_epoch) == (1000, 5)
    assert header.is_control and header.is_transactional
    for kind, marker in ((1, Marker.COMMIT), (2, Marker.OTHER), (5, Marker.OTHER)):
        other = bytearray(ABORT)
        other[69] = kind
        assert marker_of(other) is marker


@given(st.binary(max_size=12))
def test_damaged_marker_is_corrupt(payload: bytes) -> None:
    batch = bytearray(ABORT[:HEADER_BYTES] + payload)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    with suppress(CorruptBatch):
        assert marker_of(batch) in Marker


def test_kafka_python_and_we_agree_on_headers() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, True, 4000, 7, 42, 1 << 20)
    for place in range(5):
        builder.append(place, 1_000 - place, b"k", b"v", [])
    built = bytes(builder.build())
    theirs, ours = DefaultRecordBatch(built), read_header(built)
    verify(built)
    assert ours.base_offset == theirs.base_offset
    assert ours.is_transactional is theirs.is_transactional is True
    assert ours.max_timestamp == theirs.max_timestamp == 1_000
    assert ours.crc == theirs.crc
    assert (ours.producer_id, ours.producer_epoch, ours.base_sequence) == (4000, 7, 42)
    assert (ours.count, ours.last_offset_delta) == (5, 4)


def test_offsets_of_a_walk_follow_each_other() -> None:
    whole = b"".join(at_offset(encode(PLAIN), 3 * n) for n in range(5))
    headers = [header for header, _ in split_batches(memoryview(whole))]
    assert all(first.next_offset == second.base_offset for first, second in pairwise(headers))
