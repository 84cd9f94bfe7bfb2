"""Early records: what applications wrote to a mirror before the last copy reached it.

They stand in the holes between the runs, before the offset from which the mirror is copied back, so
they would never reach the old source. They are saved with what diverged, and told. What stands in
the holes besides are markers of our own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Literal

from heliograph.errors import DeadlinePassed
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import DEFAULT_LIMITS, Fetched, Fetcher
from heliograph.kafka.records import Record, decode
from heliograph.model.ledger import Ledger
from heliograph.model.reversal import holes
from heliograph.model.topics import Partition
from heliograph.recovery.diverged import Saving

_TURN_S = 0.1
# A hole is mostly one marker, and what follows it is not wanted.
_SMALL = DEFAULT_LIMITS._replace(max_bytes=4 << 20, partition_max_bytes=64 << 10)


class EarlySaving(Saving):
    """Saves early records. ``ledgers`` are by mirror partition, of the direction that ended."""

    stood: Literal["source", "target"] = "target"

    def __init__(
        self,
        link: str,
        mirrors: Cluster,
        side: Cluster,
        side_settings: ClientSettings,
        recovery: str,
        ledgers: Mapping[Partition, Ledger],
    ) -> None:
        super().__init__(link, mirrors, side, side_settings, recovery)
        self._ours = {one: ledger.producer_ids for one, ledger in ledgers.items()}
        self._holes = {one: found for one, it in ledgers.items() if (found := holes(it))}

    @property
    def starts(self) -> dict[Partition, int]:
        """From where on to look at each mirror that has holes."""
        return {one: some[0].start for one, some in self._holes.items()}

    @property
    def ends(self) -> dict[Partition, int]:
        """Up to where."""
        return {one: some[-1].stop for one, some in self._holes.items()}

    def _records(
        self, logs: Mapping[Partition, range], deadline: Deadline
    ) -> Iterator[tuple[Partition, Record]]:
        """Yield the records of others that stand in the holes; only these are read."""
        left = {one: found for one, log in logs.items() if (found := self._within(one, log))}
        fetcher = Fetcher(self._source, read_committed=True, limits=_SMALL)
        topics = self._source.view.topics
        for one, some in left.items():
            fetcher.start(one, topics[one.topic].topic_id, some[0].start)
        while left:
            if deadline.passed:
                names = ", ".join(map(str, sorted(left)[:5]))
                message = f"the holes of {names} were not read in time"
                raise DeadlinePassed(message, cluster=self._source.name)
            fetcher.pump()
            self._source.loop.turn(min(deadline.left_s, _TURN_S))
            for fetched in fetcher.take():
                one = fetched.partition
                yield from ((one, record) for record in self._of_others(fetched, left[one]))
                if not (some := _after(left[one], fetched.next_offset)):
                    del left[one]
                    fetcher.stop(one)
                elif some[0].start > fetched.next_offset:
                    fetcher.stop(one)
                    fetcher.start(one, topics[one.topic].topic_id, some[0].start)

    def _within(self, one: Partition, log: range) -> deque[range]:
        """Return the holes of a mirror as far as they are in its log."""
        found = (
            range(max(hole.start, log.start), min(hole.stop, log.stop)) for hole in self._holes[one]
        )
        return deque(hole for hole in found if hole)

    def _of_others(self, fetched: Fetched, left: deque[range]) -> Iterator[Record]:
        if fetched.error is not None:
            raise fetched.error
        for header, batch in fetched.batches:
            if header.is_control or header.producer_id in self._ours[fetched.partition]:
                continue
            for record in decode(batch):
                some = _after(left, record.offset)
                if some and record.offset in some[0]:
                    yield record


def _after(left: deque[range], offset: int) -> deque[range]:
    """Drop the holes that end at or before an offset."""
    while left and left[0].stop <= offset:
        left.popleft()
    return left
