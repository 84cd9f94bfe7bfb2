"""Fetch on the wire: the request by kafka-python, the reply by hand.

kafka-python copies each record set out of the reply. Here a record set is a view into the reply's
own buffer, which the copier may rewrite in place. Brokers too old for topic ids (Fetch before
version 13) are rare and go through kafka-python's decoder.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, FetchResponse

from heliograph.errors import ProtocolBroken
from heliograph.kafka.isolation import Aborted
from heliograph.kafka.messages import decode, version_for
from heliograph.kafka.transport import Channel

BY_ID = 13
"""The first version that names topics by id."""
NEWEST = 17
OLDEST = 4

_TOP = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_INT32 = struct.Struct(">i")
_DIVERGING = struct.Struct(">iq")


class Place(NamedTuple):
    """Where to read one partition: what a fetch request says of it."""

    topic: str
    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int


class Limits(NamedTuple):
    """How much one fetch may bring and how long it may wait."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class PartitionReply(NamedTuple):
    """What a fetch reply says of one partition; ``topic`` is its id, or its name before v13."""

    topic: UUID | str
    partition: int
    code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[Aborted]
    records: memoryview
    diverging: tuple[int, int] | None


class FetchReply(NamedTuple):
    """A fetch reply as a whole."""

    throttle_ms: int
    code: int
    session_id: int
    partitions: list[PartitionReply]


def version_of(channel: Channel, newest: int) -> int:
    """Pick the version to fetch with."""
    return version_for(channel, FetchRequest, most=min(newest, NEWEST), least=OLDEST)


def request(
    version: int,
    limits: Limits,
    *,
    read_committed: bool,
    session: tuple[int, int],
    places: Iterable[Place],
    forgotten: Iterable[Place],
) -> Any:
    """Build kafka-python's request; ``session`` is its id and epoch."""
    topics: dict[str, Any] = {}
    for place in places:
        topic = topics.get(place.topic)
        if topic is None:
            topic = topics[place.topic] = FetchRequest.FetchTopic(
                topic=place.topic, topic_id=place.topic_id, partitions=[], version=version
            )
        topic.partitions.append(_wanted(place, limits, version))
    forget: dict[str, Any] = {}
    for place in forgotten:
        topic = forget.get(place.topic)
        if topic is None:
            topic = forget[place.topic] = FetchRequest.ForgottenTopic(
                topic=place.topic, topic_id=place.topic_id, partitions=[], version=version
            )
        topic.partitions.append(place.partition)
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=int(read_committed),
        session_id=session[0],
        session_epoch=session[1],
        topics=list(topics.values()),
        forgotten_topics_data=list(forget.values()),
        # No rack: a leader that is told one may send us to a follower instead of sending records.
        rack_id="",
        version=version,
    )


def _wanted(place: Place, limits: Limits, version: int) -> Any:
    return FetchRequest.FetchTopic.FetchPartition(
        partition=place.partition,
        current_leader_epoch=place.leader_epoch,
        fetch_offset=place.offset,
        last_fetched_epoch=place.last_fetched_epoch,
        log_start_offset=-1,
        partition_max_bytes=limits.partition_max_bytes,
        version=version,
    )


def parse(version: int, frame: memoryview, channel: Channel) -> FetchReply:
    """Read a reply; bytes that are none raise ProtocolBroken."""
    if version < BY_ID:
        return _from_kafka_python(decode(FetchResponse, version, frame, channel))
    try:
        return _Reader(frame).reply()
    except (struct.error, IndexError, ValueError) as nonsense:
        raise ProtocolBroken(
            f"{channel.address} sent a fetch reply that cannot be read ({nonsense})",
            cluster=channel.cluster,
        ) from nonsense


def _from_kafka_python(answer: Any) -> FetchReply:
    partitions = [
        PartitionReply(
            topic.topic,
            p.partition_index,
            p.error_code,
            p.high_watermark,
            p.last_stable_offset,
            p.log_start_offset,
            [Aborted(a.first_offset, a.producer_id) for a in p.aborted_transactions or ()],
            memoryview(bytearray(p.records or b"")),
            _diverging(p.diverging_epoch),
        )
        for topic in answer.responses
        for p in topic.partitions
    ]
    return FetchReply(
        answer.throttle_time_ms, answer.error_code or 0, answer.session_id or 0, partitions
    )


def _diverging(value: Any) -> tuple[int, int] | None:
    if value is None or value.epoch < 0:
        return None
    return value.epoch, value.end_offset


class _Reader:
    """Walks the bytes of a reply, version 13 or newer."""

    def __init__(self, frame: memoryview) -> None:
        self._frame = frame
        self._at = 4  # after the correlation id

    def reply(self) -> FetchReply:
        self._tags()
        throttle_ms, code, session_id = self._take(_TOP)
        partitions: list[PartitionReply] = []
        for _ in range(self._length()):
            topic_id = UUID(bytes=bytes(self._slice(16)))
            partitions.extend(self._partition(topic_id) for _ in range(self._length()))
            self._tags()
        self._tags()
        if self._at != len(self._frame):
            raise ValueError(f"{len(self._frame) - self._at} bytes too many")
        return FetchReply(throttle_ms, code, session_id, partitions)

    def _partition(self, topic_id: UUID) -> PartitionReply:
        index, code, high, stable, start = self._take(_PARTITION)
        aborted = [self._aborted() for _ in range(self._length())]
        self._take(_INT32)  # preferred read replica: we read from leaders
        records = self._slice(self._length())
        diverging = self._tags().get(0)
        return PartitionReply(
            topic_id,
            index,
            code,
            high,
            stable,
            start,
            aborted,
            records,
            None if diverging is None else _DIVERGING.unpack_from(diverging),
        )

    def _aborted(self) -> Aborted:
        producer_id, first_offset = self._take(_ABORTED)
        self._tags()
        return Aborted(first_offset, producer_id)

    def _take(self, layout: struct.Struct) -> tuple[Any, ...]:
        values = layout.unpack_from(self._frame, self._at)
        self._at += layout.size
        return values

    def _slice(self, size: int) -> memoryview:
        end = self._at + size
        if end > len(self._frame):
            raise ValueError("it ends too early")
        part = self._frame[self._at : end]
        self._at = end
        return part

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._frame[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise ValueError("a length is too long")

    def _length(self) -> int:
        """Read the length of a compact array or of bytes; null counts as empty."""
        return max(self._varint() - 1, 0)

    def _tags(self) -> dict[int, memoryview]:
        count = self._varint()
        return {self._varint(): self._slice(self._varint()) for _ in range(count)}
