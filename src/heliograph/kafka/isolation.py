"""Which fetched batches a read_committed reader may see. Pure."""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop
from typing import NamedTuple

from heliograph.kafka.batch import IN_TRANSACTION, Header, Marker, marker_of


class Aborted(NamedTuple):
    """An aborted transaction that overlaps a fetched range, possibly begun before it."""

    first_offset: int
    producer_id: int


def committed(
    batches: Iterable[tuple[Header, memoryview]], aborted: Iterable[Aborted]
) -> Iterator[tuple[Header, memoryview]]:
    """Yield the data batches of one fetch that no abort took back, in order.

    ``aborted`` is the whole list of that fetch. A producer's batches are dropped from the first
    offset of its aborted transaction to its abort marker; markers are always dropped.
    """
    ahead = list(aborted)
    heapify(ahead)
    aborting: set[int] = set()
    for pair in batches:
        header, batch = pair
        if not header.attributes & IN_TRANSACTION:
            yield pair  # nearly all, in most logs
            continue
        while ahead and ahead[0].first_offset <= header.last_offset:
            aborting.add(heappop(ahead).producer_id)
        if header.is_control:
            if header.producer_id in aborting and marker_of(batch) is Marker.ABORT:
                aborting.discard(header.producer_id)
        elif header.producer_id not in aborting:
            yield pair
