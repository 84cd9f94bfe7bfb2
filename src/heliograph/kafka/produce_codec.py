"""Produce on the wire: the request by hand, as buffers; the reply by kafka-python.

The batches go to the socket from where they are. kafka-python would copy each into the request.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from kafka.protocol.producer import ProduceRequest, ProduceResponse

from heliograph.kafka.messages import decode, version_for
from heliograph.kafka.transport import Bytes, Channel, Request

BY_ID = 13
"""The first version that names topics by id."""
NEWEST = 13
OLDEST = 9
_ACKS_ALL = -1
_START = struct.Struct(">bhi")  # no transactional id, acks, timeout
_INDEX = struct.Struct(">i")


class Entry(NamedTuple):
    """One batch of a request."""

    topic: str
    topic_id: UUID
    partition: int
    batch: Bytes


class PartitionAck(NamedTuple):
    """What a produce reply says of one partition; ``topic`` is its id, or its name before v13."""

    topic: UUID | str
    partition: int
    code: int
    base_offset: int
    bad_records: tuple[int, ...]
    message: str | None


def version_of(channel: Channel) -> int:
    """Pick the version to produce with."""
    return version_for(channel, ProduceRequest, most=NEWEST, least=OLDEST)


def request(version: int, entries: Iterable[Entry], timeout_ms: int) -> Request:
    """Build the request; each partition may occur once, and every replica in sync must have it."""
    topics: dict[str, list[Entry]] = {}
    for entry in entries:
        topics.setdefault(entry.topic, []).append(entry)
    body: list[Bytes] = []
    piece = bytearray(_START.pack(0, _ACKS_ALL, timeout_ms)) + _varint(len(topics) + 1)
    for some in topics.values():
        piece += _name(some[0], version) + _varint(len(some) + 1)
        for entry in some:
            piece += _INDEX.pack(entry.partition) + _varint(len(entry.batch) + 1)
            body += (piece, entry.batch)
            piece = bytearray(1)  # no tagged fields
        piece += b"\0"
    piece += b"\0"
    body.append(piece)
    return Request(ProduceRequest.API_KEY, version, True, body)


def parse(version: int, frame: memoryview, channel: Channel) -> tuple[int, Sequence[PartitionAck]]:
    """Return the throttle time in milliseconds, and what is said of each partition."""
    answer = decode(ProduceResponse, version, frame, channel)
    acks = [
        PartitionAck(
            topic.topic_id if version >= BY_ID else topic.name,
            row.index,
            row.error_code,
            row.base_offset,
            tuple(bad.batch_index for bad in row.record_errors or ()),
            _message(row),
        )
        for topic in answer.responses
        for row in topic.partition_responses
    ]
    return answer.throttle_time_ms, acks


def _message(row: object) -> str | None:
    """Return the broker's words; the first bad record's are more exact than the summary."""
    bad = getattr(row, "record_errors", None)
    said = [b.batch_index_error_message for b in bad or () if b.batch_index_error_message]
    return said[0] if said else getattr(row, "error_message", None)


def _name(entry: Entry, version: int) -> bytes:
    if version >= BY_ID:
        return entry.topic_id.bytes
    name = entry.topic.encode()
    return bytes(_varint(len(name) + 1)) + name


def _varint(value: int) -> bytearray:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return out
