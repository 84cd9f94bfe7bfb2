"""Picking: saves what stands in some ranges of a log, without reading what lies between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from heliograph.errors import DeadlinePassed
from heliograph.kafka.batch import Header
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import DEFAULT_LIMITS, Fetched, Fetcher
from heliograph.kafka.records import Record, decode
from heliograph.model.topics import Partition
from heliograph.recovery.diverged import Saving

_TURN_S = 0.1
# A range is mostly one marker, and what follows it is not wanted.
_SMALL = DEFAULT_LIMITS._replace(max_bytes=4 << 20, partition_max_bytes=64 << 10)
# To read on to the next range is cheaper than to begin there anew.
_NEAR = 1000


class Picking(Saving):
    """Saves the records of ``ranges``, which are in order, by partition."""

    def __init__(
        self,
        link: str,
        source: Cluster,
        side: Cluster,
        recovery: str,
        ranges: Mapping[Partition, Sequence[range]],
    ) -> None:
        super().__init__(link, source, side, recovery)
        self._ranges = {one: some for one, some in ranges.items() if some}

    @property
    def starts(self) -> dict[Partition, int]:
        """From where on to look at each log."""
        return {one: some[0].start for one, some in self._ranges.items()}

    def _is_meant(self, partition: Partition, header: Header) -> bool:
        """Tell whether the records of a batch are wanted: all, unless of markers."""
        return partition in self._ranges and not header.is_control

    def _records(
        self, logs: Mapping[Partition, range], deadline: Deadline
    ) -> Iterator[tuple[Partition, Record]]:
        """Yield the records that stand in the ranges."""
        left = {one: found for one, log in logs.items() if (found := self._within(one, log))}
        fetcher = Fetcher(self._source, read_committed=True, limits=_SMALL)
        topics = self._source.view.topics
        for one, some in left.items():
            fetcher.start(one, topics[one.topic].topic_id, some[0].start)
        while left:
            if deadline.passed:
                names = ", ".join(map(str, sorted(left)[:5]))
                message = f"what is to be saved of {names} was not read in time"
                raise DeadlinePassed(message, cluster=self._source.name)
            fetcher.pump()
            self._source.loop.turn(min(deadline.left_s, _TURN_S))
            for fetched in fetcher.take():
                one = fetched.partition
                yield from ((one, record) for record in self._picked(fetched, left[one]))
                if not (some := _after(left[one], fetched.next_offset)):
                    del left[one]
                    fetcher.stop(one)
                elif some[0].start > fetched.next_offset + _NEAR:
                    fetcher.stop(one)
                    fetcher.start(one, topics[one.topic].topic_id, some[0].start)

    def _within(self, one: Partition, log: range) -> deque[range]:
        """Return the ranges as far as they are in the log."""
        found = (
            range(max(some.start, log.start), min(some.stop, log.stop))
            for some in self._ranges[one]
        )
        return deque(some for some in found if some)

    def _picked(self, fetched: Fetched, left: deque[range]) -> Iterator[Record]:
        if fetched.error is not None:
            raise fetched.error
        for header, batch in fetched.batches:
            if not self._is_meant(fetched.partition, header):
                continue
            for record in decode(batch):
                some = _after(left, record.offset)
                if some and record.offset in some[0]:
                    yield record


def _after(left: deque[range], offset: int) -> deque[range]:
    """Drop the ranges that end at or before an offset."""
    while left and left[0].stop <= offset:
        left.popleft()
    return left
