"""Records in and out of batches, against kafka-python and against damage."""

import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from heliograph.errors import CorruptBatch
from heliograph.kafka.batch import read_header, restamp, seal, split_batches, verify
from heliograph.kafka.compress import Codec
from heliograph.kafka.records import Record, decode, encode, iter_records, unpack
from tests.doubles.old_messages import old_message, wrapped

NOW = 1_700_000_000_000
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)

timestamps = st.one_of(
    st.sampled_from([0, -1, NOW, (1 << 63) - 1, -(1 << 63)]), st.integers(NOW, NOW + 9_000), INT64
)
contents = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=60, max_size=300))
names = st.one_of(st.binary(max_size=5), st.sampled_from([b"again", b"\xff\xfe", b""]))
records = st.builds(
    Record,
    st.just(0),
    timestamps,
    contents,
    contents,
    st.lists(st.tuples(names, contents), max_size=4).map(tuple),
)
lists = st.lists(records, min_size=1, max_size=30)
codecs = st.sampled_from(Codec)


def numbered(found: list[Record]) -> list[Record]:
    return [record._replace(offset=place) for place, record in enumerate(found)]


@given(lists, codecs)
def test_decoding_gives_what_was_encoded(given_records: list[Record], codec: Codec) -> None:
    batch = encode(given_records, codec=codec)
    verify(batch)
    assert list(decode(batch)) == numbered(given_records)
    header = read_header(batch)
    assert header.codec == codec
    assert header.count == len(given_records)
    assert not header.has_holes
    assert header.base_timestamp == given_records[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in given_records)


@given(
    lists, codecs, st.integers(0, 1 << 62), st.integers(0, 32_767), st.integers(0, (1 << 31) - 1)
)
def test_restamping_keeps_every_record(
    given_records: list[Record], codec: Codec, producer_id: int, epoch: int, sequence: int
) -> None:
    batch = encode(given_records, codec=codec)
    restamp(batch, producer_id, epoch, sequence)
    verify(batch)
    assert list(decode(batch)) == numbered(given_records)
    assert batch == encode(
        given_records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def test_batches_beyond_the_small_varints_come_back() -> None:
    many = [Record(0, NOW + 100 * n, b"%d" % n, b"v") for n in range(20_000)]
    assert list(decode(encode(many))) == numbered(many)
    large = [Record(0, NOW, None, bytes(size)) for size in (8_180, 8_191, 8_192, 2_000_000)]
    assert list(decode(encode(large))) == numbered(large)


theirs = st.builds(
    Record,
    st.just(0),
    # Its decoder neither wraps nor takes negative times.
    st.integers(0, 1 << 50),
    contents,
    contents,
    st.lists(
        st.tuples(st.text(max_size=5).map(str.encode), st.binary(max_size=70)), max_size=3
    ).map(tuple),
)


@given(st.lists(theirs, min_size=1, max_size=20), st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_kafka_python_reads_what_we_wrote(given_records: list[Record], codec: Codec) -> None:
    batch = encode(given_records, codec=codec)
    reader = DefaultRecordBatch(bytes(batch))
    assert reader.validate_crc()
    assert numbered(given_records) == [
        Record(
            found.offset,
            found.timestamp,
            found.key,
            found.value,
            tuple((name.encode(), content) for name, content in found.headers),
        )
        for found in reader
    ]


@given(st.lists(theirs, min_size=1, max_size=20), st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_we_read_what_kafka_python_wrote(given_records: list[Record], codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    for place, record in enumerate(given_records):
        headers = [(name.decode(), content) for name, content in record.headers]
        builder.append(place, record.timestamp, record.key, record.value, headers)
    built = bytes(builder.build())
    verify(built)
    assert list(decode(built)) == numbered(given_records)
    if codec is Codec.NONE:
        assert encode(given_records)[17:] == built[17:]


def test_append_time_is_what_readers_see() -> None:
    batch = encode([Record(0, 5, b"k", b"v"), Record(0, 6, b"k", b"w")])
    batch[22] |= 0x08
    struct.pack_into(">q", batch, 35, NOW)
    assert [record.timestamp for record in decode(batch)] == [NOW, NOW]


def test_emptied_batch_has_no_records_whatever_its_codec() -> None:
    batch = bytearray(encode([Record(0, 5, b"k", b"v")], codec=Codec.LZ4)[:61])
    struct.pack_into(">i", batch, 8, 49)
    struct.pack_into(">i", batch, 57, 0)
    seal(batch)
    assert list(decode(batch)) == []


def test_light_slices_hold_the_undecoded_rest() -> None:
    payload = encode([Record(0, 5, b"k", b"v"), Record(0, 9, None, b"")])[61:]
    found = [(a, t, o, bytes(rest)) for a, t, o, rest in iter_records(payload, 2)]
    assert found == [(0, 0, 0, b"\x02k\x02v\x00"), (0, 4, 1, b"\x01\x00\x00")]


@given(lists, codecs, st.data())
@settings(max_examples=300)
def test_damage_inside_is_corrupt_or_decodes_and_ends(
    given_records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    batch = encode(given_records, codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(21, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    for read in (decode, light):
        try:
            assert len(list(read(batch))) == read_header(batch).count
        except CorruptBatch as error:
            assert "offset 0" in error.message


def light(batch: bytearray) -> Iterator[object]:
    header = read_header(batch)
    return iter_records(unpack(header, batch), header.count, header.base_offset)


@given(st.binary(max_size=80), st.integers(0, (1 << 31) - 1), st.integers(0, 7))
def test_garbage_as_records_is_corrupt(garbage: bytes, count: int, codec: int) -> None:
    batch = bytearray(encode([Record(0, 0, None, None)])[:61] + garbage)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 23, max(count - 1, 0))
    struct.pack_into(">i", batch, 57, count)
    batch[22] = codec
    for read in (decode, light):
        try:
            assert len(list(read(batch))) == count
        except CorruptBatch:
            continue


@given(st.binary(max_size=120))
def test_garbage_as_a_batch_is_corrupt(garbage: bytes) -> None:
    with pytest.raises(CorruptBatch):
        list(decode(garbage))


def test_lengths_and_counts_that_lie_are_corrupt() -> None:
    batch = encode([Record(0, 5, b"key", b"value"), Record(0, 6, b"key", b"value")])
    for count in (0, 1, 3, 1 << 30):
        lie = bytearray(batch)
        struct.pack_into(">i", lie, 23, count)
        struct.pack_into(">i", lie, 57, count)
        if count:
            with pytest.raises(CorruptBatch):
                list(decode(lie))
    for at in range(61, len(batch)):
        if batch[at] in (6, 10):  # a key or value length
            lie = bytearray(batch)
            lie[at] = 0x7E
            with pytest.raises(CorruptBatch):
                list(decode(lie))


def test_varint_of_eleven_bytes_is_corrupt() -> None:
    batch = encode([Record(0, 0, b"k", bytes(100))])
    lie = batch[:61] + b"\xff" * 11 + batch[72:]
    with pytest.raises(CorruptBatch):
        list(decode(lie))


# Old formats.

olds = st.lists(
    st.builds(Record, st.just(0), st.integers(0, 1 << 50), contents, contents, st.just(())),
    min_size=1,
    max_size=10,
)


@given(olds, st.sampled_from([0, 1]))
def test_old_messages_are_walked_and_read(given_records: list[Record], magic: int) -> None:
    log = b"".join(old_message(magic, 7 + n, r) for n, r in enumerate(given_records))
    found = list(split_batches(memoryview(log), check=True))
    assert all(header.is_old and header.needs_rebuild for header, _ in found)
    assert [header.next_offset for header, _ in found] == [8 + n for n in range(len(given_records))]
    read = [record for _, batch in found for record in decode(batch)]
    assert read == [
        r._replace(offset=7 + n, timestamp=r.timestamp if magic else -1)
        for n, r in enumerate(given_records)
    ]


@given(olds, st.sampled_from([0, 1]), st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4]))
def test_compressed_old_messages_are_unpacked(
    given_records: list[Record], magic: int, codec: Codec
) -> None:
    ((header, batch),) = split_batches(
        memoryview(wrapped(magic, codec, given_records, 100)), check=True
    )
    assert header.next_offset == 100 + len(given_records)
    assert header.codec == codec
    assert header.has_holes, "nobody knows how many records it holds"
    assert list(decode(batch)) == [
        r._replace(offset=100 + n, timestamp=r.timestamp if magic else -1)
        for n, r in enumerate(given_records)
    ]


@given(olds, st.sampled_from([0, 1]), st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_we_and_kafka_python_agree_on_old_messages(
    given_records: list[Record], magic: int, codec: Codec
) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
    for place, record in enumerate(given_records):
        builder.append(place, record.timestamp, record.key, record.value)
    built = bytearray(builder.build())
    if codec:
        # What a broker does on arrival: the outer message gets the offset of its last record.
        struct.pack_into(">q", built, 0, len(given_records) - 1)
    for _, batch in split_batches(memoryview(built), check=True):
        assert [(r.offset, r.timestamp, r.key, r.value) for r in decode(batch)] == [
            (r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value)
            for r in LegacyRecordBatch(bytes(batch), magic)
        ]


def test_append_time_of_a_compressed_old_message_holds_for_all_inside() -> None:
    message = bytearray(wrapped(1, Codec.GZIP, [Record(0, 5, b"k", b"v")] * 2, 0))
    message[17] |= 0x08
    struct.pack_into(">q", message, 18, NOW)
    assert [record.timestamp for record in decode(message)] == [NOW, NOW]


def test_first_lz4_frames_of_kafka_with_their_wrong_checksum_are_read() -> None:
    inner = old_message(0, 0, Record(0, -1, b"k", b"v"))
    # Magic, flags and block size as Java wrote them, a wrong header checksum, one plain block.
    block = struct.pack("<I", len(inner) | 1 << 31) + inner
    frame = bytes.fromhex("04224d18604000") + block + bytes(4)
    message = old_message(0, 0, Record(0, -1, None, frame), Codec.LZ4)
    assert list(decode(message)) == [Record(0, -1, b"k", b"v")]


@given(olds, st.sampled_from([0, 1]), st.sampled_from([Codec.GZIP, Codec.LZ4]), st.data())
def test_damaged_old_messages_are_corrupt(
    given_records: list[Record], magic: int, codec: Codec, data: st.DataObject
) -> None:
    message = bytearray(wrapped(magic, codec, given_records, 0))
    at = data.draw(st.integers(16, len(message) - 1))
    message[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBatch):
        verify(message)
    with suppress(CorruptBatch):
        list(decode(message))
