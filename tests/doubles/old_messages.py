"""Messages of the formats v0 and v1, as earlier versions of Kafka wrote them."""

import struct
from zlib import crc32

from heliograph.kafka.compress import Codec, compress
from heliograph.kafka.records import Record


def old_message(magic: int, offset: int, record: Record, attributes: int = 0) -> bytes:
    """A message written by the book: offset, size, CRC, magic, attributes, time, key, value."""
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", record.timestamp)
    for content in (record.key, record.value):
        body += struct.pack(">i", -1 if content is None else len(content)) + (content or b"")
    return struct.pack(">qiI", offset, len(body) + 4, crc32(body)) + body


def wrapped(
    magic: int, codec: Codec, inner: list[Record], first_offset: int, padding: bytes | None = None
) -> bytes:
    """A compressed message: v1 counts inner offsets from 0, v0 holds them whole.

    Its own key is not looked at: it can be padding.
    """
    start = 0 if magic else first_offset
    packed = compress(
        b"".join(old_message(magic, start + n, record) for n, record in enumerate(inner)), codec
    )
    last = first_offset + len(inner) - 1
    outer = Record(0, max(record.timestamp for record in inner), padding, bytes(packed))
    return old_message(magic, last, outer, codec)
