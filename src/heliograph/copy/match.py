"""Match: learn from both logs what an earlier writer copied and did not record.

Pure. After a claim, whatever earlier writers got in stands in the mirror before our own marker.
Their batches may have been joined, split or rebuilt, so records are compared, not batches: the
bytes of key, value and headers, and the timestamp that readers see.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from heliograph.errors import Diverged
from heliograph.kafka.dense import Slice
from heliograph.kafka.varint import read_varint
from heliograph.model.runs import Run, Runs
from heliograph.model.topics import Partition


def match(partition: Partition, tail: Iterable[Slice], source: Iterator[Slice]) -> Runs:
    """Return the runs that the unrecorded records of the mirror add to the ledger.

    ``tail`` is what this link's writers left on the mirror after the ledger's end, ``source``
    the records to copy from the ledger's end on; both in the order of their logs. The n-th of
    one must be the n-th of the other: a mirror is a prefix of its source, always. The first
    pair that differs raises Diverged; then nothing may be written.
    """
    runs = Runs()
    for ours in tail:
        theirs = next(source, None)
        if theirs is None:
            raise _no_source(partition, ours)
        if not _equal(ours, theirs):
            raise _differs(partition, ours, theirs)
        runs.add(Run(theirs[1], ours[1], 1))
    return runs


def match_behind(
    partition: Partition,
    tail: Sequence[Slice],
    source: Sequence[Slice],
    *,
    tail_lost: int = 0,
    source_lost: int = 0,
) -> Runs:
    """Match where retention took the beginning of one side, so that the other's has no partner.

    At most ``tail_lost`` records are gone from the mirror, at most ``source_lost`` from the
    source; as many as that allows are taken for gone, as long as records are left that match.
    Where none are, the mirror's records are copies of what the source has lost.
    """
    for gone in range(min(tail_lost, len(source)), 0, -1):
        if _is_prefix(tail, source[gone:]):
            return match(partition, tail, iter(source[gone:]))
    for gone in range(min(source_lost, len(tail) - 1), -1, -1):
        if _is_prefix(tail[gone:], source):
            return match(partition, tail[gone:], iter(source))
    return match(partition, () if source_lost >= len(tail) else tail, iter(source))


@dataclass(frozen=True, slots=True)
class Compacted:
    """What is left of two logs that compaction may have taken records from since they were copied.

    ``source`` and ``mirror`` are the offsets in question of each, None where nothing compacts it.
    ``later`` are the keys of what others wrote to the mirror behind the tail.
    """

    source: range | None
    mirror: range | None
    later: Set[bytes | None] = frozenset()


def match_compacted(
    partition: Partition, tail: Sequence[Slice], source: Sequence[Slice], logs: Compacted
) -> Runs:
    """Match where compaction took records from between those that are left, on either side.

    A copy without a partner is taken for one whose source record is gone only where the source has
    an offset without a record for it. A source record without a copy is taken for copied, and its
    copy for gone, only where the mirror has such an offset and a later copy of the same key: else
    a record that never arrived would be passed over.
    """
    runs, walk = Runs(), _Walk(tail, source, logs)
    while walk.at < len(tail):
        skipped = walk.skip()
        if skipped is None and walk.to < len(source):
            raise _differs(partition, tail[walk.at], source[walk.to])
        if skipped is None:
            raise _no_source(partition, tail[walk.at])
        if (run := walk.step(*skipped)) is not None:
            runs.add(run)
    return runs


class _Walk:
    """Where a match of compacted logs is: ``at`` in the tail, ``to`` in the source's records."""

    def __init__(self, tail: Sequence[Slice], source: Sequence[Slice], logs: Compacted) -> None:
        self._tail, self._source, self._logs = tail, source, logs
        self.at = self.to = 0
        self._source_next = logs.source.start if logs.source is not None else 0
        self._target_next = logs.mirror.start if logs.mirror is not None else 0
        # Looked up, not looked for: compaction may take most of a long tail.
        newest = {key_of(one): place for place, one in enumerate(tail)}
        newest |= dict.fromkeys(logs.later, len(tail)) | {None: -1}
        self._newest = [newest.get(key_of(one), -1) for one in source]
        self._places: dict[int, list[int]] = {}
        for place, one in enumerate(source):
            self._places.setdefault(_content(one), []).append(place)

    def skip(self) -> tuple[int, int] | None:
        """Return how many copies and how many source records to pass over to the next pair.

        As few copies as can be; all that are left of them where none has a partner any more.
        """
        copies = len(self._tail) - self.at
        for gone in range(copies + 1 if self._logs.source is not None else 1):
            here = self.at + gone
            for there in self._partners(here):
                passed = there - self.to
                if passed > self._most_passed(here, gone) or not self._may_pass(there, here):
                    break
                if gone <= self._holes_before(there) - passed:
                    return gone, passed
        return None

    def step(self, gone: int, passed: int) -> Run | None:
        """Go behind the next pair and return it, None where there is none any more."""
        self.at, self.to = self.at + gone, self.to + passed
        if self.at == len(self._tail):
            return None
        run = Run(self._source[self.to][1], self._tail[self.at][1], 1)
        self.at, self.to = self.at + 1, self.to + 1
        self._source_next, self._target_next = run.source_end, run.target_end
        return run

    def _most_passed(self, here: int, gone: int) -> int:
        """Return for how many copies the mirror has room before one of the tail."""
        if self._logs.mirror is None or here == len(self._tail):
            return 0
        room = self._tail[here][1] - self._target_next - gone
        return min(room, len(self._source) - self.to)

    def _holes_before(self, there: int) -> int:
        """Return how many offsets the source has from the last pair to one of its records."""
        if self._logs.source is None:
            return len(self._source)
        end = self._source[there][1] if there < len(self._source) else self._logs.source.stop
        return end - self._source_next

    def _partners(self, here: int) -> Iterator[int]:
        """Find the source records that one copy may be of; behind the last copy, the next one."""
        if here == len(self._tail):
            yield self.to
            return
        places = self._places.get(_content(self._tail[here]), [])
        for place in range(bisect_left(places, self.to), len(places)):
            if _equal(self._tail[here], self._source[places[place]]):
                yield places[place]

    def _may_pass(self, there: int, here: int) -> bool:
        """True when later copies have the keys of all that is passed: compaction keeps those."""
        return min(self._newest[self.to : there], default=here) >= here


def _content(one: Slice) -> int:
    return hash((one[0], bytes(one[3])))


def key_of(one: Slice) -> bytes | None:
    """Return the key of a record."""
    body = memoryview(one[3])
    length, start = read_varint(body, 0)
    return bytes(body[start : start + length]) if length >= 0 else None


def _is_prefix(tail: Sequence[Slice], source: Sequence[Slice]) -> bool:
    return len(tail) <= len(source) and all(map(_equal, tail, source))


def _equal(ours: Slice, theirs: Slice) -> bool:
    # Record attributes are not compared: no bit of them is in use.
    return ours[0] == theirs[0] and ours[3] == theirs[3]


def _differs(partition: Partition, ours: Slice, theirs: Slice) -> Diverged:
    what = "content" if ours[0] == theirs[0] else "timestamp"
    return Diverged(
        f"{partition}: the mirror's record at offset {ours[1]} should be the copy of source offset"
        f" {theirs[1]}, but its {what} differs. Nothing was written. Either something else writes"
        " to the mirror under this link's identity, or the source lost records and wrote others",
        source_offset=theirs[1],
        target_offset=ours[1],
    )


def _no_source(partition: Partition, ours: Slice) -> Diverged:
    return Diverged(
        f"{partition}: the mirror holds a record at offset {ours[1]} that the source does not"
        " have. Nothing was written. The source lost records after they were copied",
        source_offset=None,
        target_offset=ours[1],
    )
