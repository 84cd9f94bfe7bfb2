"""Slices of records in, one dense batch out: the core that encoding and every rebuild share.

Pure. A slice keeps a record's key, value and headers as the bytes they were; only its length,
timestamp delta and offset delta are written anew.
"""

from collections.abc import Iterable
from typing import NamedTuple

from heliograph.kafka.batch import (
    HEADER_BYTES,
    LENGTH_FREE_BYTES,
    NO_PRODUCER,
    Bytes,
    Header,
    encode_header,
    seal,
)
from heliograph.kafka.compress import compress
from heliograph.kafka.varint import SMALL_VARINTS, encode_varint

Slice = tuple[int, int, int, Bytes]
"""Timestamp, source offset, record attributes, and the bytes from the key's length on.

A bare tuple: one is made per record, and a named one costs three times as much.
"""

_SMALL = len(SMALL_VARINTS)
_BLANK_HEADER = bytes(HEADER_BYTES)
_ATTRIBUTES = tuple(bytes((attributes,)) for attributes in range(256))


class Rebuilt(NamedTuple):
    """A dense batch of nobody, and where its records come from.

    The producer fields are neutral: ``restamp`` puts ours in. ``source_offsets`` are stretches
    ``(first source offset, length)``, in order; their lengths add up to the record count.
    """

    batch: bytearray
    source_offsets: tuple[tuple[int, int], ...]


def build_dense(slices: Iterable[Slice], codec: int) -> Rebuilt | None:
    """Build one batch with offsets from 0 without holes; None where there are no records.

    Timestamps are create times, kept exactly: 0, -1 and negative ones too.
    """
    parts: list[Bytes] = [_BLANK_HEADER]
    stretches: list[tuple[int, int]] = []
    count = first_offset = expected = base_timestamp = max_timestamp = 0
    for timestamp, source_offset, attributes, body in slices:
        if not count:
            base_timestamp = max_timestamp = timestamp
            first_offset = expected = source_offset
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        if source_offset != expected:
            stretches.append((first_offset, expected - first_offset))
            first_offset = source_offset
        expected = source_offset + 1
        delta = timestamp - base_timestamp
        when = SMALL_VARINTS[delta] if 0 <= delta < _SMALL else encode_varint(delta)
        place = SMALL_VARINTS[count] if count < _SMALL else encode_varint(count)
        size = 1 + len(when) + len(place) + len(body)
        parts += (
            SMALL_VARINTS[size] if size < _SMALL else encode_varint(size),
            _ATTRIBUTES[attributes],
            when,
            place,
            body,
        )
        count += 1
    if not count:
        return None
    stretches.append((first_offset, expected - first_offset))
    return Rebuilt(_finish(parts, codec, count, base_timestamp, max_timestamp), tuple(stretches))


def encode_body(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[bytes, bytes | None]] = ()
) -> bytes:
    """Return a record's bytes from its key's length on; None is not the same as empty."""
    parts = [_encode_nullable(key), _encode_nullable(value)]
    count = 0
    for name, content in headers:
        parts += (encode_varint(len(name)), name, _encode_nullable(content))
        count += 1
    parts.insert(2, encode_varint(count))
    return b"".join(parts)


def _encode_nullable(content: bytes | None) -> bytes:
    if content is None:
        return b"\x01"  # -1
    return encode_varint(len(content)) + content


def _finish(
    parts: list[Bytes], codec: int, count: int, base_timestamp: int, max_timestamp: int
) -> bytearray:
    if codec:
        packed = compress(b"".join(parts[1:]), codec)
        batch = bytearray().join((_BLANK_HEADER, packed))
    else:
        batch = bytearray().join(parts)
    header = Header(
        base_offset=0,
        length=len(batch) - LENGTH_FREE_BYTES,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=NO_PRODUCER,
        producer_epoch=NO_PRODUCER,
        base_sequence=NO_PRODUCER,
        count=count,
    )
    batch[:HEADER_BYTES] = encode_header(header)
    seal(batch)
    return batch
