"""Zigzag varints, the integers inside a v2 record batch.

Pure. Loops that read millions of them test the first byte themselves (below 0x80 it is the
whole number) and call ``read_varint`` only for the rest. Running past the end shows as
IndexError: those loops turn it into CorruptBatch, with the offset that only they know.
"""

_INT64 = 1 << 64
_MAX_INT64 = (1 << 63) - 1

# The first 2^13 non-negative numbers: record lengths, offset deltas and timestamp deltas are
# nearly always in here, and looking one up costs a tenth of encoding it.
_SMALL = 1 << 13


def wrap_int64(number: int) -> int:
    """Return ``number`` as a Java long holds it: timestamps and their deltas wrap around.

    >>> wrap_int64(2**63), wrap_int64(-5)
    (-9223372036854775808, -5)
    """
    return (number + _MAX_INT64 + 1) % _INT64 - _MAX_INT64 - 1


def read_varint(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Return the number at ``pos`` and the position after it.

    Raises IndexError when it runs past the end or is longer than 64 bits.

    >>> read_varint(bytes([0xAC, 0x04]), 0)
    (278, 2)
    """
    low = data[pos]
    if low < 0x80:
        return (low >> 1) ^ -(low & 1), pos + 1
    byte = data[pos + 1]
    raw = low & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return (raw >> 1) ^ -(raw & 1), pos + 2
    pos += 1
    for shift in range(14, 70, 7):
        pos += 1
        byte = data[pos]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw %= _INT64
            return (raw >> 1) ^ -(raw & 1), pos + 1
    raise IndexError("a varint is longer than 64 bits")


def encode_varint(number: int) -> bytes:
    """Return the shortest encoding of a number, wrapped to 64 bits.

    >>> encode_varint(278).hex(), encode_varint(-1).hex()
    ('ac04', '01')
    """
    if 0 <= number < _SMALL:
        return SMALL_VARINTS[number]
    return _encode(wrap_int64(number))


def _encode(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


SMALL_VARINTS = tuple(_encode(number) for number in range(_SMALL))
