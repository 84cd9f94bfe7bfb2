"""Record batches: read the header, check, rewrite it in place, recompute the checksum.

Pure, and the hot path of every copy: nothing here decodes a record. A batch is a memoryview
into the buffer of a fetch. Messages of the old formats (magic 0 and 1) are walked and reported
too, so that ``rebuild`` can take them.
"""

import struct
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple
from zlib import crc32

from crc32c import crc32c

from heliograph.errors import CorruptBatch
from heliograph.kafka.varint import read_varint

Bytes = bytes | bytearray | memoryview

HEADER_BYTES = 61
"""Size of a v2 header; the records follow."""

LENGTH_FREE_BYTES = 12
"""What the length field does not count: the base offset and the length itself."""

NO_PRODUCER = -1
"""In all three producer fields: a batch of nobody, without a sequence."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OLD = struct.Struct(">qiIb")
_OLD_TIMESTAMP = struct.Struct(">q")
_START = struct.Struct(">qii")
_PRODUCER = struct.Struct(">qhi")
_CRC = struct.Struct(">I")
_MARKER_KEY = struct.Struct(">hh")

_MAGIC_AT = 16
_CRC_AT = 17
_CHECKED_FROM = 21
_FLAGS_AT = 22
_PRODUCER_AT = 43
_LEAST_V2_LENGTH = HEADER_BYTES - LENGTH_FREE_BYTES
_LEAST_LENGTH = {0: 14, 1: 22, 2: _LEAST_V2_LENGTH}
_OLD_CRC_AT = 12

_CODEC = 0x07
_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40
_NEVER_SENT = _TRANSACTIONAL | _DELETE_HORIZON
_NEVER_RESTAMPED = _APPEND_TIME | _CONTROL

IN_TRANSACTION = _TRANSACTIONAL | _CONTROL
"""Attribute bits of batches that belong to a transaction, or mark the end of one."""


class Header(NamedTuple):
    """The header of a batch, in the order of its bytes.

    For a message of an old format ``base_offset`` is the offset that the message carries: of a
    compressed one that is its *last* record's. ``last_offset`` and ``next_offset`` are right for
    all formats; ``count`` is -1 where only unpacking could tell.
    """

    # A NamedTuple, since a frozen dataclass costs four times as much to fill, per batch.
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which no one calls on a header

    @property
    def codec(self) -> int:
        """Kafka's number of the compression codec, see ``compress``."""
        return self.attributes & _CODEC

    @property
    def is_old(self) -> bool:
        """Claim: a message of format v0 or v1, not a batch."""
        return self.magic < 2

    @property
    def is_control(self) -> bool:
        """Claim: it holds a transaction marker, no records of a user."""
        return self.magic == 2 and self.attributes & _CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        """Claim: it belongs to a transaction, which may have been aborted."""
        return self.magic == 2 and self.attributes & _TRANSACTIONAL != 0

    @property
    def has_append_time(self) -> bool:
        """Claim: readers see ``max_timestamp`` as the time of every record."""
        return self.attributes & _APPEND_TIME != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Claim: compaction has put the time to drop tombstones into ``base_timestamp``.

        Records count their timestamps from that field all the same.
        """
        return self.magic == 2 and self.attributes & _DELETE_HORIZON != 0

    @property
    def last_offset(self) -> int:
        """The last offset it covers, whether or not a record stands there."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the next fetch goes on."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def has_holes(self) -> bool:
        """Claim: compaction removed records, or it is unknown; a broker refuses such a batch."""
        return self.count != self.last_offset_delta + 1

    @property
    def needs_rebuild(self) -> bool:
        """Claim: restamping is not enough to send it."""
        return self.is_old or self.has_append_time or self.has_holes

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_FREE_BYTES


class Marker(Enum):
    """What a control batch says."""

    ABORT = "abort"
    COMMIT = "commit"
    OTHER = "other"


def corrupt(base_offset: int, reason: str) -> CorruptBatch:
    """Return the error for a batch that contradicts itself; the caller raises it."""
    return CorruptBatch(
        f"the batch at offset {base_offset} is damaged: {reason}. It was not passed on. If"
        " fetching it again gives the same, the broker's log segment or disk is damaged: look at"
        " it with kafka-dump-log.sh and restore it from another replica"
    )


def split_batches(
    records: memoryview, *, check: bool = False
) -> Iterator[tuple[Header, memoryview]]:
    """Walk a fetched record set; yield each whole batch with its header.

    A fetch may cut its last batch: the walk ends before it. The first batch is never cut by a
    broker, so a first batch without an end is damage, not a reason to fetch it again for ever.
    With ``check`` each one is verified, at less than half the price of ``verify``.
    """
    pos, size = 0, len(records)
    unpack, new = _HEADER.unpack_from, tuple.__new__
    while size - pos > _MAGIC_AT:
        if size - pos >= HEADER_BYTES:
            fields = unpack(records, pos)
            # Taking all apart costs less than picking six by number.
            base, length, _, magic, crc, _, last, _, _, _, _, _, count = fields
            if magic == 2 and length >= _LEAST_V2_LENGTH:
                end = pos + LENGTH_FREE_BYTES + length
                if end > size:
                    break
                if not 0 <= count <= last + 1 or base < 0:
                    raise _wrong_count(base, count, last)
                batch = records[pos:end]
                if check and crc32c(batch[_CHECKED_FROM:]) != crc:
                    verify(batch)
                # What Header._make does, without its check of the length: once per batch.
                yield new(Header, fields), batch
                pos = end
                continue
        header = _read_old_start(records, pos)
        end = pos + header.size
        if end > size:
            break
        if check:
            verify(records[pos:end])
        yield header, records[pos:end]
        pos = end
    if pos == 0 < size:
        raise CorruptBatch(
            f"a fetch returned {size} bytes that do not hold one whole batch. Nothing of it was"
            " passed on. Fetch again; if it stays so, the broker or a proxy before it cuts replies"
        )


def read_header(batch: Bytes) -> Header:
    """Return the header of exactly one batch; its length field must fit the bytes given."""
    if len(batch) <= _MAGIC_AT:
        raise corrupt(-1, f"it is {len(batch)} bytes long, less than a header")
    if batch[_MAGIC_AT] == 2 and len(batch) >= HEADER_BYTES:
        header = Header._make(_HEADER.unpack_from(batch))
        if not 0 <= header.count <= header.last_offset_delta + 1 or header.base_offset < 0:
            raise _wrong_count(header.base_offset, header.count, header.last_offset_delta)
    else:
        header = _read_old_start(batch, 0)
    if header.size != len(batch):
        raise corrupt(
            header.base_offset, f"its length field says {header.size} bytes, it has {len(batch)}"
        )
    return header


def encode_header(header: Header) -> bytes:
    """Return the 61 bytes of a v2 header, the checksum as it stands in ``header``."""
    return _HEADER.pack(*header)


def verify(batch: Bytes) -> None:
    """Raise CorruptBatch unless the checksum fits. Every batch, before any of it is passed on."""
    if len(batch) < HEADER_BYTES or batch[_MAGIC_AT] != 2:
        _verify_old(memoryview(batch))
        return
    stated: int = _CRC.unpack_from(batch, _CRC_AT)[0]
    computed = crc32c(memoryview(batch)[_CHECKED_FROM:])
    if stated != computed:
        raise _wrong_checksum(batch, stated, computed)


def restamp(
    batch: bytearray | memoryview, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Make a fetched batch ours to send, in place; the records keep their bytes.

    Clears the transactional bit, since data is written without transactions, and the delete
    horizon: left set, the target would drop tombstones at once. ``base_timestamp`` then holds
    the horizon; it stays, because the records count from it. The caller has verified the old
    checksum. Append-time, control and old batches must not come here: the first would lose
    their timestamps, see ``rebuild``.
    """
    view = memoryview(batch)
    flags = view[_FLAGS_AT]
    assert flags & _NEVER_RESTAMPED == 0 and view[_MAGIC_AT] == 2, "rebuild or skip this batch"
    _START.pack_into(view, 0, 0, len(view) - LENGTH_FREE_BYTES, -1)
    view[_FLAGS_AT] = flags & ~_NEVER_SENT
    _PRODUCER.pack_into(view, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(view, _CRC_AT, crc32c(view[_CHECKED_FROM:]))


def producer_of(batch: Bytes) -> int:
    """Return the producer id of a batch, without reading the rest of its header."""
    return int.from_bytes(batch[_PRODUCER_AT : _PRODUCER_AT + 8], "big", signed=True)


def seal(batch: bytearray | memoryview) -> None:
    """Write the checksum of a finished v2 batch."""
    view = memoryview(batch)
    _CRC.pack_into(view, _CRC_AT, crc32c(view[_CHECKED_FROM:]))


def sequence_after(base_sequence: int, count: int) -> int:
    """Return the sequence that follows ``count`` records; after 2^31-1 comes 0.

    >>> sequence_after(2**31 - 2, 3)
    1
    """
    return (base_sequence + count) & 0x7FFFFFFF


def marker_of(batch: Bytes) -> Marker:
    """Return what a control batch says. OTHER is for marks that are not of transactions."""
    header = read_header(batch)
    assert header.is_control, "only control batches hold markers"
    if header.count == 0:  # compaction took the marker and left the header
        return Marker.OTHER
    data = bytes(batch[HEADER_BYTES:])
    try:
        _, pos = read_varint(data, 0)  # length
        _, pos = read_varint(data, pos + 1)  # attributes, timestamp delta
        _, pos = read_varint(data, pos)  # offset delta
        key_bytes, pos = read_varint(data, pos)
        if key_bytes < _MARKER_KEY.size:
            raise IndexError
        _, kind = _MARKER_KEY.unpack_from(data, pos)
    except (IndexError, struct.error):
        raise corrupt(header.base_offset, "its marker cannot be read") from None
    return {0: Marker.ABORT, 1: Marker.COMMIT}.get(kind, Marker.OTHER)


def _wrong_count(base_offset: int, count: int, last_offset_delta: int) -> CorruptBatch:
    return corrupt(base_offset, f"it states {count} records over {last_offset_delta + 1} offsets")


def _read_old_start(records: Bytes, pos: int) -> Header:
    """Read the header of an old message, or complain: here comes all that is no v2 header."""
    offset, length, crc, magic = _OLD.unpack_from(records, pos)
    least = _LEAST_LENGTH.get(magic)
    if least is None:
        raise corrupt(offset, f"its format is {magic}, known are 0, 1 and 2")
    if length < least:
        raise corrupt(offset, f"its length is {length}, at least {least} is possible")
    attributes, timestamp = 0, -1  # v0 has no timestamp: -1, as Kafka itself reports it
    if len(records) - pos >= LENGTH_FREE_BYTES + least:
        attributes = records[pos + _MAGIC_AT + 1]
        if magic == 1:
            (timestamp,) = _OLD_TIMESTAMP.unpack_from(records, pos + _MAGIC_AT + 2)
    count = -1 if attributes & _CODEC else 1
    return Header(
        offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, count
    )


def _verify_old(view: memoryview) -> None:
    if len(view) <= _MAGIC_AT or view[_MAGIC_AT] > 1:
        raise corrupt(-1, f"{len(view)} bytes are no batch")
    stated: int = _CRC.unpack_from(view, _OLD_CRC_AT)[0]
    computed = crc32(view[_MAGIC_AT:])
    if stated != computed:
        raise _wrong_checksum(view, stated, computed)


def _wrong_checksum(batch: Bytes, stated: int, computed: int) -> CorruptBatch:
    return corrupt(
        _base_offset(batch, 0), f"its checksum is {stated:#010x}, its bytes give {computed:#010x}"
    )


def _base_offset(records: Bytes, pos: int) -> int:
    return int.from_bytes(records[pos : pos + 8], "big", signed=True)
