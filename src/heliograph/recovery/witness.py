"""The witness of a drill: reads what its group reads, and what the source holds in that place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass

from heliograph.copy.finding import look_at
from heliograph.copy.provenance import Provenance
from heliograph.copy.reading import read_each
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.records import Record, decode
from heliograph.kafka.waiting import scan
from heliograph.links.setup import Setup
from heliograph.model.topics import Partition

Offsets = Mapping[Partition, int]
_Foreign = Callable[[set[int]], set[int]]


@dataclass(frozen=True, slots=True)
class First:
    """The first record that a reader gets, None if there is none, and when it got it."""

    record: Record | None
    at_s: float


@dataclass(slots=True)
class Missing:
    """Records of the source that did not arrive; ``oldest_ms`` is the time of the first of them."""

    records: int = 0
    oldest_ms: int = -1


def read_first(
    cluster: Cluster, starts: Offsets, ends: Offsets, deadline: Deadline
) -> dict[Partition, First]:
    """Return the first record at or after each start and before its end, as a consumer reads it."""
    look_at(cluster, {one.topic for one in starts}, deadline)
    return _first(cluster, starts, ends, deadline, lambda _: set())


def read_source(
    setup: Setup, cluster: Cluster, starts: Offsets, ends: Offsets, deadline: Deadline
) -> dict[Partition, First]:
    """Return the same of the source: of what is committed, and what the link copies."""
    look_at(cluster, {one.topic for one in starts}, deadline)
    with ExitStack() as stack:
        foreign = _foreign(setup, stack, deadline)
        return _first(cluster, starts, ends, deadline, foreign, read_committed=True)


def count_missing(
    setup: Setup,
    cluster: Cluster,
    arrived: Offsets,
    unmatched: Mapping[Partition, int],
    ends: Offsets,
    deadline: Deadline,
) -> dict[Partition, Missing]:
    """Count the source's records before ``ends`` that did not arrive.

    ``arrived`` is how far the ledgers go; so many more records as are ``unmatched`` arrived, too.
    """
    look_at(cluster, {one.topic for one in arrived}, deadline)
    found = {one: Missing() for one in arrived}
    skip = dict(unmatched)
    with ExitStack() as stack:
        foreign = _foreign(setup, stack, deadline)
        for fetched in scan(cluster, arrived, deadline, ends=ends, read_committed=True):
            one = fetched.partition
            for record in _records(fetched, range(arrived[one], ends[one]), foreign):
                if skip.get(one, 0) > 0:
                    skip[one] -= 1
                    continue
                if not found[one].records:
                    found[one].oldest_ms = record.timestamp
                found[one].records += 1
    return found


def _first(
    cluster: Cluster,
    starts: Offsets,
    ends: Offsets,
    deadline: Deadline,
    foreign: _Foreign,
    *,
    read_committed: bool = False,
) -> dict[Partition, First]:
    found: dict[Partition, First] = {}

    def take(fetched: Fetched) -> bool:
        one = fetched.partition
        record = next(_records(fetched, range(starts[one], ends[one]), foreign), None)
        if record is None and fetched.next_offset < ends[one]:
            return False
        found[one] = First(record, clock.now_s())
        return True

    wanted = {one: at for one, at in starts.items() if at < ends[one]}
    failed = read_each(cluster, wanted, take, deadline, read_committed=read_committed)
    for error in failed.values():
        raise error
    none = First(None, clock.now_s())
    return {one: found.get(one, none) for one in starts}


def _records(fetched: Fetched, wanted: range, foreign: _Foreign) -> Iterator[Record]:
    theirs = foreign({header.producer_id for header, _ in fetched.batches})
    for header, batch in fetched.batches:
        if header.producer_id not in theirs:
            yield from (one for one in decode(batch) if one.offset in wanted)


def _foreign(setup: Setup, stack: ExitStack, deadline: Deadline) -> _Foreign:
    """Return what tells the producers whose records the link leaves out: those of other links."""
    if setup.policies.origin == "any":
        return lambda _: set()
    provenance = Provenance(setup.source_settings, setup.inbound)
    stack.enter_context(closing(provenance))
    return lambda ids: provenance.of_links(ids, deadline) if ids else set()
