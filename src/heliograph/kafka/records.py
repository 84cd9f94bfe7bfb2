"""Records inside a batch: as light slices for rebuilding, or decoded, and back into a batch.

Pure. Whatever is wrong with the bytes (lengths, counts, varints that run past the end) raises
CorruptBatch. Checksums are not looked at here: call ``verify`` first.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from heliograph.errors import CorruptBatch
from heliograph.kafka.batch import (
    HEADER_BYTES,
    NO_PRODUCER,
    Bytes,
    Header,
    corrupt,
    read_header,
    restamp,
)
from heliograph.kafka.compress import Codec, decompress
from heliograph.kafka.dense import Slice, build_dense, encode_body
from heliograph.kafka.old_format import read_old
from heliograph.kafka.varint import read_varint, wrap_int64

# A one-byte varint, decoded: cheaper to look up than to compute.
_ONE_BYTE = tuple((byte >> 1) ^ -(byte & 1) for byte in range(0x80))
_MIN_TIMESTAMP, _MAX_TIMESTAMP = -(1 << 63), (1 << 63) - 1

Headers = tuple[tuple[bytes, bytes | None], ...]


class Record(NamedTuple):
    """One record as a reader sees it.

    Header keys are bytes, since not all are UTF-8, and may repeat. None is not empty.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iter_records(
    payload: Bytes, count: int, base_offset: int = -1
) -> Iterator[tuple[int, int, int, memoryview]]:
    """Yield attributes, timestamp delta, offset delta and the rest of each unpacked record.

    The rest, from the key's length on, is a view and not decoded. ``base_offset`` is for the
    error message.
    """
    data = memoryview(payload)
    pos, size = 0, len(data)
    try:
        for _ in range(count):
            length, pos = read_varint(data, pos)
            end = pos + length
            attributes = data[pos]
            byte = data[pos + 1]
            if byte < 0x80:
                timestamp_delta, pos = _ONE_BYTE[byte], pos + 2
            else:
                timestamp_delta, pos = read_varint(data, pos + 1)
            byte = data[pos]
            if byte < 0x80:
                offset_delta, pos = _ONE_BYTE[byte], pos + 1
            else:
                offset_delta, pos = read_varint(data, pos)
            if not pos < end <= size:
                raise IndexError
            yield attributes, timestamp_delta, offset_delta, data[pos:end]
            pos = end
    except IndexError:
        raise corrupt(base_offset, f"{size} bytes do not hold {count} records") from None
    if pos != size:
        raise corrupt(base_offset, f"{size - pos} bytes follow its last record")


def slices_of(header: Header, batch: Bytes) -> Iterator[Slice]:
    """Yield the slices of a batch of any format, unpacked, with the timestamps readers see."""
    if header.is_old:
        for offset, timestamp, key, value in read_old(header, batch):
            yield timestamp, offset, 0, encode_body(key, value)
        return
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.has_append_time else None
    last = -1
    for attributes, ahead, delta, body in iter_records(
        unpack(header, batch), header.count, base_offset
    ):
        if not last < delta <= header.last_offset_delta:
            raise corrupt(base_offset, f"offset {base_offset + delta} is out of order")
        last = delta
        timestamp = base_timestamp + ahead if append_time is None else append_time
        if not _MIN_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
            timestamp = wrap_int64(timestamp)
        yield timestamp, base_offset + delta, attributes, body


def decode(batch: Bytes) -> Iterator[Record]:
    """Yield the records of one batch of any format, with the timestamps readers see."""
    header = read_header(batch)
    if header.is_old:
        for old in read_old(header, batch):
            yield Record(*old)
        return
    append_time = header.max_timestamp if header.has_append_time else None
    data = bytes(unpack(header, batch))
    try:
        yield from _decode_all(data, header, append_time)
    except IndexError:
        raise corrupt(header.base_offset, f"it does not hold {header.count} records") from None


def encode(
    records: Iterable[Record],
    *,
    codec: int = Codec.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_PRODUCER,
    base_sequence: int = NO_PRODUCER,
) -> bytearray:
    """Return the records as one batch, ready to send: offsets from 0, without holes.

    The records' own offsets are not looked at, the target gives new ones. There must be at
    least one record: a broker refuses an empty batch.
    """
    rebuilt = build_dense(
        (
            (record.timestamp, place, 0, encode_body(record.key, record.value, record.headers))
            for place, record in enumerate(records)
        ),
        codec,
    )
    assert rebuilt is not None, "a batch holds at least one record"
    if producer_id != NO_PRODUCER:
        restamp(rebuilt.batch, producer_id, producer_epoch, base_sequence)
    return rebuilt.batch


def unpack(header: Header, batch: Bytes) -> Bytes:
    """Return the records of a v2 batch as bytes, decompressed."""
    # Compaction may leave a header whose records are all gone, with the codec they had.
    if not header.count:
        return b""
    payload = memoryview(batch)[HEADER_BYTES:]
    try:
        return decompress(payload, header.codec)
    except CorruptBatch as error:
        raise corrupt(header.base_offset, error.message) from None


def _decode_all(data: bytes, header: Header, append_time: int | None) -> Iterator[Record]:
    """Decode; IndexError where the bytes end too early or a length lies.

    Long on purpose: most varints take one byte, and a call for each would double the time.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    pos, size, new = 0, len(data), tuple.__new__
    for _ in range(header.count):
        length, pos = read_varint(data, pos)
        end = pos + length
        byte = data[pos + 1]  # past the attributes, which nothing uses
        if byte < 0x80:
            timestamp, pos = base_timestamp + _ONE_BYTE[byte], pos + 2
        else:
            ahead, pos = read_varint(data, pos + 1)
            timestamp = base_timestamp + ahead
        if append_time is not None:
            timestamp = append_time
        elif not _MIN_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
            timestamp = wrap_int64(timestamp)
        byte = data[pos]
        if byte < 0x80:
            offset, pos = base_offset + _ONE_BYTE[byte], pos + 1
        else:
            delta, pos = read_varint(data, pos)
            offset = base_offset + delta
        byte = data[pos]
        if byte < 0x80:
            length, pos = _ONE_BYTE[byte], pos + 1
        else:
            length, pos = read_varint(data, pos)
        key, pos = (data[pos : pos + length], pos + length) if length >= 0 else (None, pos)
        length, pos = read_varint(data, pos)
        value, pos = (data[pos : pos + length], pos + length) if length >= 0 else (None, pos)
        headers: Headers = ()
        if data[pos]:
            headers, pos = _read_headers(data, pos)
        else:
            pos += 1
        # Slices do not fail at the end of the data, they are cut: this finds them all.
        if pos != end or end > size:
            raise IndexError
        yield new(Record, (offset, timestamp, key, value, headers))
    if pos != size:
        raise IndexError


def _read_nullable(data: bytes, pos: int) -> tuple[bytes | None, int]:
    byte = data[pos]
    if byte < 0x80:
        length, pos = _ONE_BYTE[byte], pos + 1
    else:
        length, pos = read_varint(data, pos)
    if length < 0:
        return None, pos
    end = pos + length
    if end > len(data):
        raise IndexError
    return data[pos:end], end


def _read_headers(data: bytes, pos: int) -> tuple[Headers, int]:
    count, pos = read_varint(data, pos)
    if count < 0:
        raise IndexError
    headers = []
    for _ in range(count):
        name, pos = _read_nullable(data, pos)
        content, pos = _read_nullable(data, pos)
        if name is None:
            raise IndexError
        headers.append((name, content))
    return tuple(headers), pos
