"""Match: learn from both logs what an earlier writer copied and did not record.

Pure. After a claim, whatever earlier writers got in stands in the mirror before our own marker.
Their batches may have been joined, split or rebuilt, so records are compared, not batches: the
bytes of key, value and headers, and the timestamp that readers see.
"""

from collections.abc import Iterable, Iterator, Sequence

from heliograph.errors import Diverged
from heliograph.kafka.dense import Slice
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
