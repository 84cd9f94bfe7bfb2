"""Fetch: raw batches of many partitions from every broker at once.

A :class:`Fetcher` keeps one request in flight on each lane of each broker that leads a wanted
partition. Partitions that cannot be read right now wait without holding up the others; what
waiting cannot heal is handed to the caller as that partition's error.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from uuid import UUID

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from heliograph.errors import CorruptBatch, HeliographError, ProtocolBroken
from heliograph.kafka import clock, fetch_codec
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.faults import error_for
from heliograph.kafka.fetch_codec import Limits, PartitionReply, Place
from heliograph.kafka.fetch_errors import damaged, out_of_range, truncated
from heliograph.kafka.isolation import committed
from heliograph.kafka.leaders import Leaders
from heliograph.kafka.messages import decode, encode, version_for
from heliograph.kafka.offsets import EARLIEST, LATEST, ask_offsets
from heliograph.kafka.received import Batches, sound_batches
from heliograph.kafka.transport import Channel, Reply
from heliograph.model.topics import ClusterView, Partition

DEFAULT_LIMITS = Limits(
    max_wait_ms=100, min_bytes=1, max_bytes=16 << 20, partition_max_bytes=4 << 20
)
# A reply later than its own wait by this much: perhaps the leader is gone; look who leads now.
_SUSPICIOUS_S = 1.5
_CORRUPT_TRIES = 3
_RETRY_PAUSE_S = 0.05
_OFFSET_OUT_OF_RANGE = 1
_UNKNOWN_TOPIC_CODES = (3, 100, 103)
_SESSION_CODES = (70, 71, 106)
_TOPIC_IDS = 10
"""The first version of Metadata that tells the ids of topics."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one reply told of one partition: batches to copy, or why there are none.

    ``batches`` are whole, checked, writable in place, and free of markers (unless asked for) and
    (read_committed) of aborted records. ``next_offset`` is where the next fetch begins, so what
    is in no batch and below it holds nothing to copy. A batch may begin below the wanted offset.
    ``last_epoch`` is the leader epoch of what stands before ``next_offset``, -1 if not known.
    """

    partition: Partition
    batches: Batches = ()
    next_offset: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    last_epoch: int = -1
    error: HeliographError | None = None


@dataclass(slots=True, eq=False)
class _Reading:
    """One wanted partition. ``leader`` and ``place`` are as ``view`` tells: there may be thousands,
    and they are asked for in every turn.
    """

    partition: Partition
    topic_id: UUID
    offset: int
    last_epoch: int
    lane: str
    paused: bool = False
    flying_on: Channel | None = None
    not_before_s: float = 0.0
    corrupt: int = 0
    view: ClusterView | None = None
    leader: int | None = None
    place: Place | None = None


@dataclass(slots=True)
class _Session:
    """An incremental fetch session: what the broker already knows we want."""

    channel: Channel
    session_id: int = 0
    epoch: int = 0
    known: dict[Partition, Place] = field(default_factory=dict)

    def reset(self) -> None:
        self.session_id, self.epoch = 0, 0
        self.known.clear()


class Fetcher:
    """Reads partitions of one cluster, from their leaders. For the thread of the cluster's loop.

    Call :meth:`pump` after each turn of the loop, then :meth:`take` what arrived. Nothing is
    fetched for a paused partition: that is how a caller bounds its memory.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        read_committed: bool = True,
        markers: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        lanes: int = 1,
        lane: str = "fetch",
        newest_version: int = fetch_codec.NEWEST,
    ) -> None:
        self._cluster = cluster
        self._leaders = Leaders(cluster)
        assert not (markers and read_committed), "markers are for those who decide for themselves"
        self._read_committed = read_committed
        self._markers = markers
        self._limits = limits
        self._lane, self._lanes = lane, lanes
        self._newest = newest_version
        self._readings: dict[Partition, _Reading] = {}
        self._names: dict[UUID, str] = {}
        self._sessions: dict[tuple[int, str], _Session] = {}
        self._arrived: deque[Fetched] = deque()

    def start(
        self, partition: Partition, topic_id: UUID, offset: int, last_epoch: int = -1
    ) -> None:
        """Read ``partition`` of exactly this topic id from ``offset`` on.

        ``last_epoch`` is the leader epoch of the batch before ``offset``, if known: with it the
        broker tells when its log parted from what was read.
        """
        lane = f"{self._lane}{hash(partition) % self._lanes}"
        self._readings[partition] = _Reading(partition, topic_id, offset, last_epoch, lane)
        self._names[topic_id] = partition.topic
        self._cluster.watch([partition.topic])

    def stop(self, partition: Partition) -> None:
        """Read the partition no more; what is under way, or arrived and not taken, is dropped."""
        self._readings.pop(partition, None)
        if self._arrived:
            self._arrived = deque(one for one in self._arrived if one.partition != partition)

    def pause(self, partition: Partition) -> None:
        """Fetch nothing more of it until :meth:`resume`; a reply under way still arrives."""
        if reading := self._readings.get(partition):  # it may have failed meanwhile
            reading.paused = True

    def resume(self, partition: Partition) -> None:
        """Fetch it again."""
        if reading := self._readings.get(partition):
            reading.paused = False

    def take(self) -> list[Fetched]:
        """Return what arrived since the last call, in order of arrival."""
        arrived, self._arrived = self._arrived, deque()
        return list(arrived)

    def pump(self) -> None:
        """Send a fetch on every lane that has none in flight and something to read."""
        now_s = clock.now_s()
        ready: dict[tuple[int, str], list[_Reading]] = {}
        busy = {id(one.channel) for one in self._sessions.values() if self._answers(one.channel)}
        for reading in list(self._readings.values()):
            if id(reading.flying_on) in busy:
                continue
            leader = self._leader_of(reading)
            if leader is None or self._abandons(reading, leader):
                continue
            if not reading.paused and reading.not_before_s <= now_s:
                ready.setdefault((leader, reading.lane), []).append(reading)
        for (broker, lane), readings in ready.items():
            try:
                channel = self._cluster.channel(broker, lane)
            except HeliographError as refused:  # by this broker: the others go on
                for reading in readings:
                    self._fail(reading, refused)
                continue
            if channel is not None and not channel.in_flight and channel.quiet_until_s <= now_s:
                self._send(channel, (broker, lane), readings)

    # Who leads what

    def _leader_of(self, reading: _Reading) -> int | None:
        view = self._cluster.view
        if reading.view is view:
            return reading.leader
        try:
            leader = self._leaders.find(reading.partition, reading.topic_id)
        except HeliographError as gone:
            self._fail(reading, gone)
            return None
        if leader is not None:
            reading.view, reading.leader, reading.place = view, leader, None
        return leader

    def _answers(self, channel: Channel) -> bool:
        """Claim: a request is under way on a channel, and its answer is not overdue."""
        late_s = channel.waited_s() - self._limits.max_wait_ms / 1000
        return bool(channel.in_flight) and late_s < _SUSPICIOUS_S

    def _abandons(self, reading: _Reading, leader: int) -> bool:
        """Return True while a request for it is under way and worth waiting for.

        A broker that was stopped answers nothing and refuses nothing: when its reply is overdue
        and another broker leads by now, the old request is given up.
        """
        channel = reading.flying_on
        if channel is None:
            return False
        if self._answers(channel):
            return True
        self._cluster.look_again()
        here = self._sessions.get((leader, reading.lane))
        if here is not None and here.channel is channel:
            return True
        reading.flying_on = None
        return False

    # Requests

    def _send(self, channel: Channel, key: tuple[int, str], readings: list[_Reading]) -> None:
        version = fetch_codec.version_of(channel, self._newest)
        session = self._sessions.get(key)
        if session is None or session.channel is not channel:
            session = self._sessions[key] = _Session(channel)
        places = {r.partition: self._place(r) for r in readings}
        known = session.known
        changed = [p for key, p in places.items() if (was := known.get(key)) is not p and was != p]
        forgotten = [p for key, p in known.items() if key not in places]
        message = fetch_codec.request(
            version,
            self._limits,
            read_committed=self._read_committed,
            session=(session.session_id, session.epoch),
            places=changed,
            forgotten=forgotten,
        )
        session.known = places
        for reading in readings:
            reading.flying_on = channel
        wait = timedelta(milliseconds=self._limits.max_wait_ms)
        channel.send(
            encode(message, version),
            lambda reply: self._replied(session, version, readings, reply),
            Deadline.after(self._cluster.settings.request_timeout + wait),
        )

    def _place(self, reading: _Reading) -> Place:
        if reading.place is None:
            known = self._cluster.view.find(reading.partition)
            reading.place = Place(
                reading.partition.topic,
                reading.topic_id,
                reading.partition.partition,
                known.leader_epoch if known else -1,
                reading.offset,
                reading.last_epoch,
            )
        return reading.place

    # Replies

    def _replied(
        self, session: _Session, version: int, readings: list[_Reading], reply: Reply
    ) -> None:
        channel = session.channel
        mine = [r for r in readings if r.flying_on is channel]
        for reading in mine:
            reading.flying_on = None
        if isinstance(reply, HeliographError):
            self._cluster.look_again()
            return
        try:
            answer = fetch_codec.parse(version, reply, channel)
        except ProtocolBroken as nonsense:
            channel.close(nonsense)
            return
        channel.quiet_until_s = clock.now_s() + answer.throttle_ms / 1000
        if answer.code:
            self._refused(session, mine, answer.code)
            return
        session.session_id = answer.session_id
        session.epoch = session.epoch % 0x7FFFFFFF + 1 if answer.session_id else 0
        if not answer.session_id:
            session.known.clear()
        if version < fetch_codec.BY_ID and any(one.records for one in answer.partitions):
            self._confirm(channel, mine, answer.partitions)
        else:
            self._deliver(mine, answer.partitions)

    def _confirm(
        self, channel: Channel, readings: list[_Reading], replies: list[PartitionReply]
    ) -> None:
        """Deliver replies that name their topics once the broker says that these are the same.

        Without ids, a topic that was made anew under its name answers for the old one. Brokers
        forget a topic before they lead the next of its name, so the answer must come afterwards.
        """
        version = version_for(channel, MetadataRequest, most=12, least=4)
        if version < _TOPIC_IDS:
            self._deliver(readings, replies)
            return
        names = sorted({str(one.topic) for one in replies if one.records})
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False, version=version)
        for reading in readings:
            reading.flying_on = channel

        def answered(reply: Reply) -> None:
            mine = [one for one in readings if one.flying_on is channel]
            for reading in mine:
                reading.flying_on = None
            try:
                if isinstance(reply, HeliographError):
                    raise reply
                answer = decode(MetadataResponse, version, reply, channel)
            except HeliographError as failure:
                if isinstance(failure, ProtocolBroken):
                    channel.close(failure)
                self._cluster.look_again()
                return
            ids = {row.name: row.topic_id for row in answer.topics if not row.error_code}
            same = [
                one
                for one in mine
                if one.partition.topic not in names or ids.get(one.partition.topic) == one.topic_id
            ]
            for reading in set(mine).difference(same):
                reading.not_before_s = clock.now_s() + _RETRY_PAUSE_S
                self._cluster.look_again()
            self._deliver(same, replies)

        timeout = self._cluster.settings.request_timeout
        channel.send(encode(request, version), answered, Deadline.after(timeout))

    def _refused(self, session: _Session, readings: list[_Reading], code: int) -> None:
        session.reset()
        if code in _SESSION_CODES:
            return
        error = error_for(code, cluster=self._cluster.name, doing="fetching")
        for reading in readings:
            self._settle(reading, code, error)

    def _deliver(self, readings: list[_Reading], replies: list[PartitionReply]) -> None:
        asked = set(readings)
        for reply in replies:
            topic = (
                self._names.get(reply.topic, "") if isinstance(reply.topic, UUID) else reply.topic
            )
            reading = self._readings.get(Partition(topic, reply.partition))
            if reading is None or reading not in asked:
                continue
            if isinstance(reply.topic, UUID) and reply.topic != reading.topic_id:
                continue
            if reply.code:
                doing = f"fetching {reading.partition} from offset {reading.offset}"
                error = error_for(reply.code, cluster=self._cluster.name, doing=doing)
                self._settle(reading, reply.code, error)
            elif reply.diverging is not None:
                self._fail(
                    reading,
                    truncated(
                        self._cluster.name, reading.partition, reading.offset, *reply.diverging
                    ),
                )
            else:
                self._accept(reading, reply)

    def _accept(self, reading: _Reading, reply: PartitionReply) -> None:
        whole, damage = sound_batches(reply.records, reading.offset)
        # Damaged on the wire, it comes whole the next time; damaged on disk, it does not.
        reading.corrupt = 0 if damage is None else reading.corrupt + 1
        if damage is not None and reading.corrupt >= _CORRUPT_TRIES:
            self._fail(
                reading, damaged(self._cluster.name, reading.partition, damage, reading.corrupt)
            )
            return
        try:
            data = self._readable(whole, reply)
        except CorruptBatch as broken:  # under a right checksum: another fetch brings the same
            self._fail(
                reading, damaged(self._cluster.name, reading.partition, broken, reading.corrupt)
            )
            return
        if whole:
            last = whole[-1][0]
            reading.offset, reading.last_epoch = last.next_offset, last.leader_epoch
            reading.place = None
            # Without a session the broker fills its reply in the order of the request.
            self._readings[reading.partition] = self._readings.pop(reading.partition)
        self._arrived.append(
            Fetched(
                reading.partition,
                data,
                reading.offset,
                reply.high_watermark,
                reply.last_stable_offset,
                reply.log_start_offset,
                reading.last_epoch,
            )
        )

    def _readable(self, batches: Batches, reply: PartitionReply) -> Batches:
        if self._read_committed:
            return list(committed(batches, reply.aborted))
        return [pair for pair in batches if self._markers or not pair[0].is_control]

    # Errors

    def _settle(self, reading: _Reading, code: int, error: HeliographError) -> None:
        """Wait out what heals; hand the caller what does not."""
        if code == _OFFSET_OUT_OF_RANGE:
            self._ask_range(reading)
        elif code in _UNKNOWN_TOPIC_CODES:
            # Gone, or not yet known to this broker: only the view can tell.
            reading.not_before_s = clock.now_s() + 0.1
            self._cluster.look_again()
        elif error.retriable:
            reading.not_before_s = clock.now_s() + _RETRY_PAUSE_S
            self._cluster.look_again()
        else:
            self._fail(reading, error)

    def _fail(self, reading: _Reading, error: HeliographError) -> None:
        self._readings.pop(reading.partition, None)
        self._arrived.append(Fetched(reading.partition, next_offset=reading.offset, error=error))

    def _ask_range(self, reading: _Reading) -> None:
        """Find out which offsets there are: error 1 does not say on which side we fell off."""
        reading.not_before_s = inf

        def answered(bounds: dict[int, int] | HeliographError) -> None:
            if self._readings.get(reading.partition) is not reading:
                return
            if isinstance(bounds, HeliographError):
                # Fetch again, be refused again, ask again.
                reading.not_before_s = clock.now_s() + _RETRY_PAUSE_S
                return
            self._fail(
                reading, out_of_range(self._cluster.name, reading.partition, reading.offset, bounds)
            )

        ask_offsets(self._cluster, reading.partition, (EARLIEST, LATEST), answered)
