"""Messages of the old formats v0 and v1, which a log may still hold: unpack and read them.

Pure. kafka-python reads them too, but unpacks lz4 and snappy only with libraries that
Heliograph does not bring.
"""

import struct
from collections.abc import Iterator

from heliograph.errors import CorruptBatch
from heliograph.kafka.batch import Bytes, Header, corrupt, split_batches, verify
from heliograph.kafka.compress import Codec, decompress

OldRecord = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp, key, value."""

_KEY_AT = {0: 18, 1: 26}
_LENGTH = struct.Struct(">i")

# Kafka's first lz4 code put a wrong checksum into the frame header and ignored it when reading
# (KAFKA-3160). Its frames were always of one kind, so the right checksum is a constant.
_LZ4_KAFKA_FRAME = bytes.fromhex("04224d186040")
_LZ4_RIGHT_CHECKSUM = b"\x82"


def read_old(header: Header, message: Bytes) -> Iterator[OldRecord]:
    """Yield the records of a message, of all inner ones if it is compressed."""
    key, value = _key_and_value(header, message)
    if not header.codec:
        yield header.base_offset, header.base_timestamp, key, value
        return
    inner = _unpack(header, value)
    # v1 counts inner offsets from 0 and the outer message has the last one's; v0 has them whole.
    shift = header.base_offset - inner[-1][0].base_offset if header.magic else 0
    if shift < 0:
        raise corrupt(header.base_offset, "its inner offsets are beyond its own")
    for found, content in inner:
        timestamp = header.base_timestamp if header.has_append_time else found.base_timestamp
        yield found.base_offset + shift, timestamp, *_key_and_value(found, content)


def _unpack(header: Header, packed: bytes | None) -> list[tuple[Header, memoryview]]:
    if packed is None:
        raise corrupt(header.base_offset, "a compressed message without content")
    if header.magic == 0 and header.codec == Codec.LZ4 and packed[:6] == _LZ4_KAFKA_FRAME:
        packed = _LZ4_KAFKA_FRAME + _LZ4_RIGHT_CHECKSUM + packed[7:]
    try:
        unpacked = memoryview(decompress(packed, header.codec))
        inner = list(split_batches(unpacked))
        for found, content in inner:
            verify(content)
            if found.magic != header.magic or found.codec:
                raise CorruptBatch("a message inside it is itself packed or of another format")
    except CorruptBatch as error:
        raise corrupt(header.base_offset, error.message) from None
    if not inner or sum(found.size for found, _ in inner) != len(unpacked):
        raise corrupt(header.base_offset, "its inner messages are cut")
    return inner


def _key_and_value(header: Header, message: Bytes) -> tuple[bytes | None, bytes | None]:
    key, pos = _nullable(header, message, _KEY_AT[header.magic])
    value, pos = _nullable(header, message, pos)
    if pos != len(message):
        raise corrupt(header.base_offset, f"{len(message) - pos} bytes follow its value")
    return key, value


def _nullable(header: Header, message: Bytes, pos: int) -> tuple[bytes | None, int]:
    start = pos + _LENGTH.size
    if start > len(message):
        raise corrupt(header.base_offset, "it ends before its value")
    (length,) = _LENGTH.unpack_from(message, pos)
    if length == -1:
        return None, start
    if not 0 <= length <= len(message) - start:
        raise corrupt(header.base_offset, f"a key or value of {length} bytes")
    return bytes(message[start : start + length]), start + length
