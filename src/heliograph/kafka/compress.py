"""The compression codecs of Kafka, as brokers and all clients write and read them.

Pure. Undecodable bytes raise CorruptBatch without an offset: whoever knows it adds it.
"""

import struct
import zlib
from enum import IntEnum

import cramjam

from heliograph.errors import CorruptBatch
from heliograph.kafka.batch import Bytes


class Codec(IntEnum):
    """Kafka's numbers, the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


UNPACKED_LIMIT_BYTES = 256 << 20
"""No batch unpacks to more: some kilobytes of zstd could otherwise fill any memory."""

# Java's levels, so that a batch does not grow on its way.
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
_LZ4_LEVEL = 1
_GZIP_WITH_HEADER = 31

# The stream format of snappy-java, which Kafka's Java clients expect: a header of magic,
# version and oldest compatible version, then blocks, each behind its length.
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK_BYTES = 32 << 10
_SNAPPY_LENGTH = struct.Struct(">i")

_FIRST_GUESS_BYTES = 4 << 10
_GROWTH = 8


def compress(payload: Bytes, codec: int) -> Bytes:
    """Return the records of a batch as ``codec`` packs them."""
    match codec:
        case Codec.NONE:
            return payload
        case Codec.GZIP:
            packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WITH_HEADER)
            return packer.compress(payload) + packer.flush()
        case Codec.SNAPPY:
            return _compress_snappy(payload)
        case Codec.LZ4:
            return _compress_lz4(payload)
        case Codec.ZSTD:
            return memoryview(cramjam.zstd.compress(payload, _ZSTD_LEVEL))
    raise _unknown(codec)


def decompress(payload: Bytes, codec: int, limit: int = UNPACKED_LIMIT_BYTES) -> Bytes:
    """Return what ``compress`` of any client was given; at most ``limit`` bytes."""
    match codec:
        case Codec.NONE:
            return payload
        case Codec.GZIP:
            return _decompress_gzip(payload, limit)
        case Codec.SNAPPY:
            return _decompress_snappy(payload, limit)
        case Codec.LZ4 | Codec.ZSTD:
            return _decompress_growing(payload, Codec(codec), limit)
    raise _unknown(codec)


def _compress_snappy(payload: Bytes) -> bytes:
    view = memoryview(payload)
    parts: list[bytes | memoryview] = [_SNAPPY_HEADER]
    for start in range(0, len(view), _SNAPPY_BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(view[start : start + _SNAPPY_BLOCK_BYTES])
        parts += (_SNAPPY_LENGTH.pack(len(block)), memoryview(block))
    return b"".join(parts)


def _compress_lz4(payload: Bytes) -> memoryview:
    # Java's reader refuses blocks that refer to earlier ones, which is lz4's default.
    packer = cramjam.lz4.Compressor(_LZ4_LEVEL, content_checksum=False, block_linked=False)
    packer.compress(payload)
    return memoryview(packer.finish())


def _decompress_gzip(payload: Bytes, limit: int) -> bytes:
    parts, left, packed = [], limit, payload
    while packed:
        unpacker = zlib.decompressobj(_GZIP_WITH_HEADER)
        try:
            part = unpacker.decompress(packed, left + 1)
        except zlib.error as error:
            raise _undecodable(Codec.GZIP, error) from None
        left -= len(part)
        if left < 0:
            raise _too_large(Codec.GZIP, limit)
        if not unpacker.eof:
            raise _undecodable(Codec.GZIP, "it ends too early")
        parts.append(part)
        packed = unpacker.unused_data
    return b"".join(parts)


def _decompress_snappy(payload: Bytes, limit: int) -> bytearray | memoryview:
    # librdkafka may write one bare block without the stream format.
    view = memoryview(payload)
    if view[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
        return _unpack_snappy_block(view, limit, limit)
    out, pos = bytearray(), len(_SNAPPY_HEADER)
    while pos < len(view):
        if pos + _SNAPPY_LENGTH.size > len(view):
            raise _undecodable(Codec.SNAPPY, "a block length is cut")
        (length,) = _SNAPPY_LENGTH.unpack_from(view, pos)
        pos += _SNAPPY_LENGTH.size
        if not 0 < length <= len(view) - pos:
            raise _undecodable(Codec.SNAPPY, f"a block of {length} bytes")
        out += _unpack_snappy_block(view[pos : pos + length], limit - len(out), limit)
        pos += length
    return out


def _unpack_snappy_block(block: memoryview, left: int, limit: int) -> memoryview:
    try:
        # The block states its size; a lie is found by the decoder, but only after allocating.
        if cramjam.snappy.decompress_raw_len(block) > left:
            raise _too_large(Codec.SNAPPY, limit)
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _undecodable(Codec.SNAPPY, error) from None


def _decompress_growing(payload: Bytes, codec: Codec, limit: int) -> memoryview:
    # Frames do not state their unpacked size, and only a buffer of fixed size bounds cramjam.
    unpack = cramjam.lz4.decompress_into if codec is Codec.LZ4 else cramjam.zstd.decompress_into
    size = max(_FIRST_GUESS_BYTES, _GROWTH * len(payload))
    while True:
        out = bytearray(min(size, limit))
        try:
            return memoryview(out)[: unpack(payload, out)]
        except cramjam.DecompressionError as error:
            # A test holds cramjam to this wording.
            if "failed to write whole buffer" not in str(error):
                raise _undecodable(codec, error) from None
        if size >= limit:
            raise _too_large(codec, limit)
        size *= _GROWTH


def _undecodable(codec: Codec, reason: object) -> CorruptBatch:
    return CorruptBatch(f"{codec.name.lower()} data cannot be unpacked: {reason}")


def _too_large(codec: Codec, limit: int) -> CorruptBatch:
    return CorruptBatch(f"{codec.name.lower()} data unpacks to more than {limit} bytes")


def _unknown(codec: int) -> CorruptBatch:
    return CorruptBatch(f"there is no compression codec {codec}, known are 0 to 4")
