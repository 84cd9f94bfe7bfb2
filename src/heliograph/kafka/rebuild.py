"""New batches out of old ones: join, split, crop, close holes, append time, leave records out.

Pure. Each function takes verified batches (see ``batch.verify``) of any format and gives dense
ones with neutral producer fields, together with the source offsets of their records. Keys,
values and headers keep their bytes. All of them share ``dense.build_dense``. Control batches
must not come here: they hold no records of a user.
"""

import struct
from collections.abc import Container, Iterable, Iterator, Sequence

from heliograph.kafka.batch import (
    HEADER_BYTES,
    LENGTH_FREE_BYTES,
    Bytes,
    Header,
    read_header,
)
from heliograph.kafka.dense import Rebuilt, Slice, build_dense
from heliograph.kafka.records import slices_of
from heliograph.kafka.varint import SMALL_VARINTS

# Nearly all records that stand alone in a plain batch begin with two bytes of length, then
# attributes, timestamp delta and offset delta, all 0: the first four bytes follow from the length.
_RECORD_START = struct.Struct(">IB")
_STARTS = tuple(int.from_bytes(length + bytes(2), "big") for length in SMALL_VARINTS)
_LEAST, _BEYOND = 64, len(_STARTS)
_BEFORE_RECORD = HEADER_BYTES + 2 - LENGTH_FREE_BYTES
_BODY_AT = HEADER_BYTES + _RECORD_START.size
_NOT_PLAIN = 0x2F  # a codec, append time or control
_NO_RECORDS = "a control batch holds no records to copy"


def join(
    batches: Sequence[tuple[Header, memoryview]], wanted: range | None = None
) -> Rebuilt | None:
    """Join waiting batches into one; None if nothing is left of them.

    ``wanted`` says which source offsets to keep, where that is not all. Compaction may have
    emptied a batch.

    Called for every partition that has small batches waiting: the hot path of a source whose
    producers do not batch. The result is packed with the first codec met, so plain batches
    stay plain and a mixture is packed.
    """
    codec = next((header.codec for header, _ in batches if header.attributes & 7), 0)
    slices = _joined_slices(batches)
    if wanted is not None:
        slices = (part for part in slices if part[1] in wanted)
    return build_dense(slices, codec)


def rebuild(batch: Bytes) -> Rebuilt | None:
    """Return the batch in a form the target takes; None if compaction has emptied it.

    For a batch whose header says ``needs_rebuild``, whatever the reasons: holes are closed,
    append times become create times, the old formats become v2.
    """
    header = _header_of_records(batch)
    return build_dense(slices_of(header, batch), header.codec)


def crop(batch: Bytes, first_offset: int) -> Rebuilt | None:
    """Leave out what stands before ``first_offset``; None if nothing is left.

    A fetch from the middle of a batch returns the whole batch.
    """
    header = _header_of_records(batch)
    kept = (part for part in slices_of(header, batch) if part[1] >= first_offset)
    return build_dense(kept, header.codec)


def select(batch: Bytes, keep: Container[int]) -> Rebuilt | None:
    """Keep the records whose place in the batch, from 0, is in ``keep`` (a range or a set)."""
    header = _header_of_records(batch)
    numbered = enumerate(slices_of(header, batch))
    return build_dense((part for place, part in numbered if place in keep), header.codec)


def split(batch: Bytes, max_bytes: int) -> list[Rebuilt]:
    """Cut a batch into pieces of at most ``max_bytes``, in order.

    A piece of a single record may be larger: it cannot be cut, and what to do with it is the
    caller's policy.
    """
    assert max_bytes > 0
    header = _header_of_records(batch)
    return _split(list(slices_of(header, batch)), header.codec, max_bytes)


def _header_of_records(batch: Bytes) -> Header:
    header = read_header(batch)
    assert not header.is_control, _NO_RECORDS
    return header


def _joined_slices(batches: Iterable[tuple[Header, memoryview]]) -> Iterator[Slice]:
    peek = _RECORD_START.unpack_from
    for header, batch in batches:
        # Taking all apart costs less than reading five fields by name.
        base_offset, length, _, magic, _, attributes, _, timestamp, _, _, _, _, count = header
        length -= _BEFORE_RECORD
        if count == 1 and _LEAST <= length < _BEYOND and not attributes & _NOT_PLAIN:
            start, offset_delta = peek(batch, HEADER_BYTES)
            if start == _STARTS[length] and offset_delta == 0 and magic == 2:
                yield timestamp, base_offset, 0, batch[_BODY_AT:]
                continue
        assert not header.is_control, _NO_RECORDS
        yield from slices_of(header, batch)


def _split(slices: Sequence[Slice], codec: int, max_bytes: int) -> list[Rebuilt]:
    rebuilt = build_dense(slices, codec)
    if rebuilt is None:
        return []
    if len(slices) == 1 or len(rebuilt.batch) <= max_bytes:
        return [rebuilt]
    # How well a piece will pack is only known afterwards: cut by unpacked size, look again.
    pieces = min(len(slices), -(-len(rebuilt.batch) // max_bytes))
    return [
        piece for part in _cut_evenly(slices, pieces) for piece in _split(part, codec, max_bytes)
    ]


def _cut_evenly(slices: Sequence[Slice], pieces: int) -> Iterator[Sequence[Slice]]:
    share = sum(len(part[3]) for part in slices) / pieces
    start = filled = 0
    for place, part in enumerate(slices):
        if place > start and filled + len(part[3]) > share:
            yield slices[start:place]
            start, filled = place, 0
        filled += len(part[3])
    yield slices[start:]
