"""Rebuilt batches: the same records, dense offsets, and the right way back to the source.

Source batches are written here by the book, so that a mistake shared by our encoder and decoder
would show.
"""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import CorruptBatch
from heliograph.kafka.batch import Header, read_header, restamp, seal, verify
from heliograph.kafka.compress import Codec, compress
from heliograph.kafka.dense import Rebuilt
from heliograph.kafka.rebuild import crop, join, rebuild, select, split
from heliograph.kafka.records import Record, decode

NOW = 1_700_000_000_000
APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40

contents = st.one_of(st.none(), st.binary(max_size=8), st.binary(min_size=55, max_size=200))
timestamps = st.one_of(
    st.integers(NOW, NOW + 20_000),
    st.sampled_from([0, -1, -5, (1 << 63) - 1, -(1 << 63)]),
    st.integers(-(1 << 63), (1 << 63) - 1),
)
headers = st.lists(st.tuples(st.binary(max_size=4), contents), max_size=3).map(tuple)
codecs = st.sampled_from(Codec)


@st.composite
def logs(draw: st.DrawFn, min_size: int = 1) -> list[Record]:
    """Records as a compacted log may hold them: offsets rise, with gaps."""
    offset, found = draw(st.integers(0, 1 << 40)), []
    for _ in range(draw(st.integers(min_size, 12))):
        found.append(
            Record(offset, draw(timestamps), draw(contents), draw(contents), draw(headers))
        )
        offset += draw(st.sampled_from([1, 1, 1, 2, 70, 9_000]))
    return found


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def nullable(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def as_int64(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def batch_of(
    records: Sequence[Record],
    codec: Codec = Codec.NONE,
    *,
    flags: int = 0,
    base_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    tail: int = 0,
) -> memoryview:
    """A batch as a broker may hold it; ``tail`` offsets at its end are compacted away."""
    base = records[0].offset if base_offset is None else base_offset
    start = records[0].timestamp if base_timestamp is None else base_timestamp
    payload = b""
    for record in records:
        body = b"\x00" + varint(as_int64(record.timestamp - start)) + varint(record.offset - base)
        body += nullable(record.key) + nullable(record.value) + varint(len(record.headers))
        for name, content in record.headers:
            body += nullable(name) + nullable(content)
        payload += varint(len(body)) + body
    packed = bytes(compress(payload, codec))
    newest = max(r.timestamp for r in records) if max_timestamp is None else max_timestamp
    span = records[-1].offset - base + tail
    batch = bytearray(
        struct.pack(
            ">qiibIhiqqqhii",
            *(base, 49 + len(packed), 4, 2, 0, codec | flags, span, start, newest),
            *(77, 3, 12, len(records)),
        )
        + packed
    )
    seal(batch)
    return memoryview(batch)


def paired(*batches: memoryview) -> list[tuple[Header, memoryview]]:
    return [(read_header(batch), batch) for batch in batches]


def offsets_of(rebuilt: Rebuilt) -> list[int]:
    return [
        offset
        for first, length in rebuilt.source_offsets
        for offset in range(first, first + length)
    ]


def check(rebuilt: Rebuilt | None, wanted: Sequence[Record], codec: int = Codec.NONE) -> None:
    """The invariants of every rebuilt batch."""
    assert rebuilt is not None
    verify(rebuilt.batch)
    found = list(decode(rebuilt.batch))
    assert [r.offset for r in found] == list(range(len(wanted)))
    assert [r[1:] for r in found] == [r[1:] for r in wanted]
    assert offsets_of(rebuilt) == [r.offset for r in wanted]
    header = read_header(rebuilt.batch)
    assert header == header._replace(
        base_offset=0,
        leader_epoch=-1,
        attributes=codec,
        base_timestamp=wanted[0].timestamp,
        max_timestamp=max(r.timestamp for r in wanted),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    assert not header.needs_rebuild
    for first, second in zip(rebuilt.source_offsets, rebuilt.source_offsets[1:], strict=False):
        assert first[0] + first[1] < second[0], "stretches are as long as can be"


@given(logs(), codecs, st.integers(0, 5), st.integers(0, 5))
def test_holes_are_closed(log: list[Record], codec: Codec, before: int, after: int) -> None:
    base = max(log[0].offset - before, 0)
    check(rebuild(batch_of(log, codec, base_offset=base, tail=after)), log, codec)


@given(logs(), codecs, timestamps)
def test_append_time_becomes_create_time(log: list[Record], codec: Codec, time: int) -> None:
    batch = batch_of(log, codec, flags=APPEND_TIME, max_timestamp=time)
    check(rebuild(batch), [r._replace(timestamp=time) for r in log], codec)


@given(logs(), codecs, timestamps)
def test_delete_horizon_goes_and_timestamps_stay(
    log: list[Record], codec: Codec, horizon: int
) -> None:
    batch = batch_of(log, codec, flags=DELETE_HORIZON | TRANSACTIONAL, base_timestamp=horizon)
    check(rebuild(batch), log, codec)


@given(logs(), codecs, st.integers(-2, 13))
def test_cropped_batch_begins_at_the_wanted_offset(
    log: list[Record], codec: Codec, place: int
) -> None:
    first = log[place].offset if 0 <= place < len(log) else log[-1].offset + place
    batch = batch_of(log, codec)
    wanted = [r for r in log if r.offset >= first]
    if wanted:
        check(crop(batch, first), wanted, codec)
    else:
        assert crop(batch, first) is None


@given(logs(), codecs, st.sets(st.integers(0, 12)))
def test_selected_records_are_kept(log: list[Record], codec: Codec, keep: set[int]) -> None:
    wanted = [r for place, r in enumerate(log) if place in keep]
    if wanted:
        check(select(batch_of(log, codec), keep), wanted, codec)
    else:
        assert select(batch_of(log, codec), keep) is None


def test_a_refused_record_is_isolated_with_ranges() -> None:
    log = [Record(10 + n, NOW, b"k", b"%d" % n) for n in range(5)]
    batch = batch_of(log)
    check(select(batch, range(2)), log[:2])
    check(select(batch, {2}), log[2:3])
    check(select(batch, range(3, 5)), log[3:])


@given(logs(), codecs, st.integers(1, 1_500))
def test_split_pieces_fit_or_hold_one_record(
    log: list[Record], codec: Codec, max_bytes: int
) -> None:
    pieces = split(batch_of(log, codec), max_bytes)
    rest = list(log)
    for piece in pieces:
        count = read_header(piece.batch).count
        assert count == 1 or len(piece.batch) <= max_bytes
        check(piece, rest[:count], codec)
        rest = rest[count:]
    assert rest == []


@pytest.mark.parametrize("codec", Codec)
def test_splitting_makes_few_pieces(codec: Codec) -> None:
    log = [Record(n, NOW + n, b"%d" % n, b"%d" % (n * n) * 40) for n in range(2_000)]
    batch = batch_of(log, codec)
    pieces = split(batch, len(batch) // 3)
    assert 4 <= len(pieces) <= 8
    assert sum(read_header(piece.batch).count for piece in pieces) == 2_000


def test_splitting_around_one_huge_record_ends() -> None:
    log = [Record(n, NOW, None, bytes(100_000 if n in (0, 7) else 10)) for n in range(9)]
    pieces = split(batch_of(log), 1_000)
    assert [read_header(piece.batch).count for piece in pieces] == [1, 6, 1, 1]


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[Record], list[memoryview]]:
    """A log, and the same log in batches of any size, codec and kind."""
    log = draw(logs())
    batches, wanted, start = [], [], 0
    while start < len(log):
        end = draw(st.integers(start + 1, len(log)))
        part = log[start:end]
        flags = draw(st.sampled_from([0, 0, 0, APPEND_TIME, TRANSACTIONAL]))
        batch = batch_of(part, draw(codecs), flags=flags)
        newest = max(r.timestamp for r in part)
        wanted += [r._replace(timestamp=newest) for r in part] if flags == APPEND_TIME else part
        batches.append(batch)
        start = end
    return wanted, batches


@given(partitions())
def test_joined_batch_holds_all_records_in_order(
    partition: tuple[list[Record], list[memoryview]],
) -> None:
    log, batches = partition
    pairs = paired(*batches)
    codec = next((header.codec for header, _ in pairs if header.codec), 0)
    check(join(pairs), log, codec)


@given(st.lists(st.integers(0, 400), min_size=1, max_size=40), st.integers(-3, 3))
def test_single_record_batches_are_joined(sizes: list[int], step: int) -> None:
    # Sizes around 59 and 8 192 bytes are where the length takes another byte.
    log = [
        Record(50 + n, NOW + n * step * 1_000, b"k", bytes(size * 25))
        for n, size in enumerate(sizes)
    ]
    check(join(paired(*(batch_of([record]) for record in log))), log)


@pytest.mark.parametrize("size", [0, 1, 50, 51, 52, 53, 54, 55, 8_180, 8_181, 8_182, 8_183, 8_184])
def test_joining_at_the_edges_of_varint_sizes(size: int) -> None:
    log = [Record(n, NOW, None, bytes(size)) for n in range(70)]
    check(join(paired(*(batch_of([record]) for record in log))), log)


def test_joining_thousands_crosses_every_varint_size() -> None:
    log = [Record(n, NOW + 10 * n, b"%d" % n, bytes(n % 200)) for n in range(10_000)]
    check(join(paired(*(batch_of([record]) for record in log))), log)


def test_joining_skips_what_compaction_has_emptied() -> None:
    empty = bytearray(batch_of([Record(5, NOW, b"k", b"v")])[:61])
    struct.pack_into(">i", empty, 8, 49)
    struct.pack_into(">i", empty, 57, 0)
    seal(empty)
    log = [Record(4, NOW, b"k", b"v"), Record(6, NOW, b"k", b"w")]
    mixed = [batch_of(log[:1]), memoryview(empty), batch_of(log[1:])]
    check(join(paired(*mixed)), log)
    assert join(paired(memoryview(empty))) is None
    assert join([]) is None
    assert rebuild(empty) is None
    assert split(empty, 100) == []


def test_joined_batch_takes_our_stamp() -> None:
    log = [Record(n, NOW, b"k", b"v") for n in range(3)]
    joined = join(paired(*(batch_of([record]) for record in log)))
    assert joined is not None
    restamp(joined.batch, 5, 1, 30)
    verify(joined.batch)
    header = read_header(joined.batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 30)


def test_control_batches_are_refused() -> None:
    marker = batch_of([Record(5, NOW, bytes(4), bytes(6))], flags=CONTROL | TRANSACTIONAL)
    with pytest.raises(AssertionError):
        join(paired(marker))
    with pytest.raises(AssertionError):
        rebuild(marker)


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 9)])
def test_inner_offsets_out_of_order_are_corrupt(deltas: tuple[int, int]) -> None:
    batch = bytearray(batch_of([Record(n, NOW, b"k", b"v") for n in range(2)]))
    for place, delta in enumerate(deltas):
        batch[61 + 9 * place + 3] = 2 * delta
    seal(batch)
    with pytest.raises(CorruptBatch, match="out of order"):
        rebuild(batch)


@given(logs(), codecs, st.data())
def test_damaged_batches_are_corrupt_or_rebuilt(
    log: list[Record], codec: Codec, data: st.DataObject
) -> None:
    batch = bytearray(batch_of(log, codec))
    batch[data.draw(st.integers(57, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBatch):
        verify(batch)
    try:
        header = read_header(batch)
        joined = join([(header, memoryview(batch))])
    except CorruptBatch:
        return
    assert joined is None or len(offsets_of(joined)) == header.count


@given(st.lists(st.integers(0, 255), min_size=0, max_size=12))
def test_damaged_single_records_are_corrupt_or_joined(start: list[int]) -> None:
    batch = bytearray(batch_of([Record(9, NOW, b"key", bytes(100))]))
    batch[61 : 61 + len(start)] = bytes(start)
    try:
        joined = join(paired(memoryview(batch)))
    except CorruptBatch:
        return
    assert joined is not None
    assert offsets_of(joined) == [9]
