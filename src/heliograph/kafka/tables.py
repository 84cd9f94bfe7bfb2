"""A small compacted topic as a table: read to the end, follow, put.

The last record of a key is its row; a null value removes it. Whoever has claimed the table's
partition puts as that claim's writer, and a superseded writer's put is refused by the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from heliograph.errors import DeadlinePassed, HeliographError, OutcomeUnknown
from heliograph.kafka import clock
from heliograph.kafka.batch import sequence_after
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import Claim
from heliograph.kafka.fetch import DEFAULT_LIMITS, Fetched, Fetcher
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.records import Record, decode, encode
from heliograph.kafka.waiting import scan, write
from heliograph.model.topics import Partition

_TURN_S = 0.1
# Rows are few and far between; a broker answers as soon as there is one.
_PATIENT = DEFAULT_LIMITS._replace(max_wait_ms=500)


@dataclass(slots=True)
class Writer:
    """The identity that puts rows, and its next sequence in that partition.

    ``spent`` after a put that failed: it may stand in the log all the same, and the broker would
    take the next one, under the same sequence, for its repeat and acknowledge it unstored.
    """

    producer_id: int
    epoch: int
    sequence: int = 0
    spent: bool = False

    @classmethod
    def of(cls, claim: Claim) -> Writer:
        """Return the writer that a fresh claim allows."""
        return cls(claim.producer_id, claim.epoch)


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the table: a row set, or removed (``value`` None)."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None


def rows_batch(rows: Mapping[bytes, bytes | None], writer: Writer | None = None) -> bytearray:
    """Return rows as one batch, ready to send; it takes the writer's next sequences."""
    now_ms = clock.wall_ms()
    records = [Record(-1, now_ms, key, value) for key, value in rows.items()]
    if writer is None:
        return encode(records)
    batch = encode(
        records,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        base_sequence=writer.sequence,
    )
    writer.sequence = sequence_after(writer.sequence, len(rows))
    return batch


class Table:
    """The rows of one compacted topic, as far as they were read.

    ``read_committed`` is for topics of others, who write in transactions.
    """

    def __init__(self, cluster: Cluster, topic: str, *, read_committed: bool = False) -> None:
        self.topic = topic
        self._read_committed = read_committed
        self.rows: dict[bytes, bytes] = {}
        self._cluster = cluster
        self._positions: dict[Partition, int] = {}
        self._untold: list[Change] = []
        self._fetcher: Fetcher | None = None

    def load(self, deadline: Deadline) -> Mapping[bytes, bytes]:
        """Read the whole topic to its present end and return the rows."""
        view = self._cluster.describe([self.topic], deadline)
        partitions = [Partition(self.topic, n) for n in view.topics[self.topic].partitions]
        starts = list_offsets(self._cluster, dict.fromkeys(partitions, EARLIEST), deadline)
        self.rows.clear()
        self._untold.clear()
        self._positions, self._fetcher = starts, None
        self.advance(deadline)
        return self.rows

    def read_on(self, deadline: Deadline) -> None:
        """Read to the present end, from where an earlier call got to before its time was over.

        From the beginning at first, and after any other error: the topic may be another one.
        """
        try:
            if self._positions:
                self.advance(deadline)
            else:
                self.load(deadline)
        except DeadlinePassed:
            raise
        except HeliographError:
            self._positions = {}
            raise

    def advance(self, deadline: Deadline) -> None:
        """Read to the present end, and keep the rows alone: changes may be many times as large."""
        for _ in self._read(deadline):
            self._untold.clear()

    def catch_up(self, deadline: Deadline) -> list[Change]:
        """Read what was put since the last call, to the present end, and return it in order.

        What was read before an error is returned by the next call.
        """
        for _ in self._read(deadline):
            continue
        return self._tell()

    def _read(self, deadline: Deadline) -> Iterator[None]:
        """Read to the present end, step by step."""
        assert self._positions, "load comes first"
        wanted, committed = dict.fromkeys(self._positions, LATEST), self._read_committed
        ends = list_offsets(self._cluster, wanted, deadline, read_committed=committed)
        for fetched in scan(
            self._cluster, self._positions, deadline, ends=ends, read_committed=committed
        ):
            self._apply(fetched)
            yield

    def follow(self, deadline: Deadline) -> list[Change]:
        """Wait for the next change and return it with what came along; empty when time is over."""
        while True:
            changes = self.poll()
            if changes or deadline.passed:
                return changes
            self._cluster.loop.turn(min(deadline.left_s, _TURN_S))

    def poll(self) -> list[Change]:
        """Return what has arrived by now; the loop's turns bring more. Never waits."""
        assert self._positions, "load comes first"
        if self._fetcher is None:
            # On a lane of its own: a lane carries one fetch at a time, and this one may wait.
            lane = f"table:{self.topic}:"
            self._fetcher = Fetcher(
                self._cluster, read_committed=self._read_committed, limits=_PATIENT, lane=lane
            )
            topic_id = self._cluster.view.topics[self.topic].topic_id
            for partition, position in self._positions.items():
                self._fetcher.start(partition, topic_id, position)
        self._fetcher.pump()
        for fetched in self._fetcher.take():
            if fetched.error is not None:
                self._fetcher = None  # whoever goes on all the same begins anew
                raise fetched.error
            self._apply(fetched)
        return self._tell()

    def put(
        self,
        rows: Mapping[bytes, bytes | None],
        deadline: Deadline,
        *,
        writer: Writer | None = None,
        partition: int = 0,
    ) -> int:
        """Write rows as one batch and return its offset, acknowledged by all replicas in sync.

        As ``writer``, a repeat after a lost reply is stored once, and Superseded is raised when
        somebody claimed since. Without one, the last put wins. A put that fails spends its writer.
        """
        if writer is not None and writer.spent:
            message = f"a put to {self.topic} failed and may stand in it all the same; claim anew"
            raise OutcomeUnknown(message, cluster=self._cluster.name)
        batch = rows_batch(rows, writer)
        if writer is None:
            return self._write(Partition(self.topic, partition), batch, deadline)
        writer.spent = True
        offset = self._write(Partition(self.topic, partition), batch, deadline)
        writer.spent = False
        return offset

    def _write(self, partition: Partition, batch: bytearray, deadline: Deadline) -> int:
        view = self._cluster.view
        if self.topic not in view.topics:
            view = self._cluster.describe([self.topic], deadline)
        topic_id = view.topics[self.topic].topic_id
        (offset,) = write(self._cluster, partition, topic_id, [batch], deadline)
        return offset

    def _tell(self) -> list[Change]:
        told, self._untold = self._untold, []
        return told

    def _apply(self, fetched: Fetched) -> None:
        for _, batch in fetched.batches:
            for record in decode(batch):
                if record.key is None or record.offset < self._positions[fetched.partition]:
                    continue  # not a row; or before the position, in a batch that spans it
                number = fetched.partition.partition
                self._untold.append(Change(number, record.offset, record.key, record.value))
                if record.value is None:
                    self.rows.pop(record.key, None)
                else:
                    self.rows[record.key] = record.value
        # Never backwards: a poll may have been under way while catch_up read further.
        position = max(self._positions[fetched.partition], fetched.next_offset)
        self._positions[fetched.partition] = position
