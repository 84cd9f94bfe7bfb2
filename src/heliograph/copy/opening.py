"""Open mirror partitions: claim them, read their ledgers, match what is not recorded.

After this, and only after this, a partition may be written. Blocking, under one deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from heliograph.copy.match import match
from heliograph.errors import HeliographError, LedgerUnfit
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.dense import Slice
from heliograph.kafka.fence import Claim, claim_all
from heliograph.kafka.offsets import EARLIEST, list_offsets
from heliograph.kafka.records import slices_of
from heliograph.kafka.tables import Table, Writer
from heliograph.kafka.waiting import scan
from heliograph.model.ledger import Ledger, Origin, read_ledger
from heliograph.model.names import transactional_id
from heliograph.model.topics import Partition


@dataclass(slots=True)
class Opened:
    """A partition that is ours to write: with which identity, and from where on.

    ``claim`` writes the mirror, ``writer`` the ledger; both are one identity, but count their
    sequences apart, partition by partition.
    """

    source: Partition
    mirror: Partition
    claim: Claim
    writer: Writer
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a link copies from and to. The ledger's topic must exist, with one partition."""

    link: str
    source: Cluster
    target: Cluster
    ledger_topic: str


def open_all(
    ends: Ends, mirrors: Mapping[Partition, Partition], deadline: Deadline
) -> dict[Partition, Opened | HeliographError]:
    """Open mirror partitions, by their source partitions; one that fails leaves the others alone.

    All claims first: each ends with its markers in the log. What the ledger's topic holds then is
    all that earlier writers could put, so it is read once for all.
    """
    ids = {source: transactional_id(ends.link, *source) for source in mirrors}
    books = Partition(ends.ledger_topic, 0)
    wanted = {ids[source]: [mirror, books] for source, mirror in mirrors.items()}
    claims = claim_all(ends.target, wanted, deadline)
    opening = _Opening(ends, deadline)
    opened: dict[Partition, Opened | HeliographError] = {}
    for source, mirror in mirrors.items():
        claimed = claims[ids[source]]
        try:
            if isinstance(claimed, HeliographError):
                raise claimed
            opened[source] = opening.open(source, mirror, claimed)
        except HeliographError as failure:
            opened[source] = failure
    return opened


class _Opening:
    """What the partitions that are opened together share: the ledger's rows, who is who."""

    def __init__(self, ends: Ends, deadline: Deadline) -> None:
        self._ends = ends
        self._deadline = deadline
        self._table = Table(ends.target, ends.ledger_topic)
        self._rows = self._table.load(deadline)
        self._origins: dict[tuple[str, str], Origin] = {}

    def open(self, source: Partition, mirror: Partition, claimed: Claim) -> Opened:
        """Open one partition that is claimed; nothing is written unless all fits together."""
        ends, deadline = self._ends, self._deadline
        origin = self._origin(source.topic, mirror.topic)
        recorded = read_ledger(source, self._rows)
        if recorded is not None and recorded.origin != origin:
            raise _another(source, recorded.origin, origin)
        ledger = recorded or _new_ledger(ends.source, source, origin, deadline)
        tail = _tail(ends.target, mirror, ledger, claimed, deadline)
        if recorded is None and tail:
            raise _ledger_gone(source, mirror, tail)
        for run in match(source, tail, _source_slices(ends.source, ledger, deadline)):
            ledger.add(run)
        # Invariant F: the id is on record before its first batch.
        ledger.producer_ids.add(claimed.producer_id)
        writer = Writer.of(claimed)
        self._table.put(ledger.take_changes(), deadline, writer=writer)
        return Opened(source, mirror, claimed, writer, ledger)

    def _origin(self, topic: str, mirror: str) -> Origin:
        """Return who is who, asked once for all partitions of a topic."""
        origin = self._origins.get((topic, mirror))
        if origin is None:
            there = self._ends.source.describe([topic], self._deadline)
            here = self._ends.target.describe([mirror], self._deadline)
            origin = self._origins[topic, mirror] = Origin(
                source_cluster_id=str(there.cluster_id),
                source_topic_id=str(there.topics[topic].topic_id),
                target_cluster_id=str(here.cluster_id),
                mirror_topic_id=str(here.topics[mirror].topic_id),
            )
        return origin


def _new_ledger(cluster: Cluster, source: Partition, origin: Origin, deadline: Deadline) -> Ledger:
    """Return the ledger of a partition that was never copied: from the oldest record there is."""
    ledger = Ledger(source, origin)
    ledger.skip_to(list_offsets(cluster, {source: EARLIEST}, deadline)[source])
    return ledger


def _tail(
    target: Cluster, mirror: Partition, ledger: Ledger, claimed: Claim, deadline: Deadline
) -> list[Slice]:
    """Return what this link's earlier writers left on the mirror after the ledger's end.

    Reads to our own marker: whatever they got in stands before it, even what was not visible yet
    at the claim. The claim's own id counts as well, also where no ledger names it: it stays the
    same as long as the broker remembers the transactional id.
    """
    known = ledger.producer_ids | {claimed.producer_id}
    found: list[Slice] = []
    starts = {mirror: ledger.target_next}
    for fetched in scan(target, starts, deadline, markers=True):
        for header, batch in fetched.batches:
            if header.is_control:
                if (header.producer_id, header.producer_epoch) == (
                    claimed.producer_id,
                    claimed.marker_epoch,
                ):
                    return _after(found, ledger.target_next)
            elif header.producer_id in known:
                found += slices_of(header, batch)
    raise _no_marker(mirror, claimed)


def _after(slices: Iterable[Slice], offset: int) -> list[Slice]:
    """Leave out what stands before ``offset``: a fetch begins at the start of a batch."""
    return [one for one in slices if one[1] >= offset]


def _source_slices(source: Cluster, ledger: Ledger, deadline: Deadline) -> Iterator[Slice]:
    starts = {ledger.partition: ledger.source_next}
    for fetched in scan(source, starts, deadline, read_committed=True):
        for header, batch in fetched.batches:
            yield from _after(slices_of(header, batch), ledger.source_next)
        if fetched.next_offset >= fetched.last_stable_offset >= 0:
            return


def _another(source: Partition, known: Origin, found: Origin) -> LedgerUnfit:
    differs = [
        f"{name.replace('_', ' ')} was {getattr(known, name)}, is {getattr(found, name)}"
        for name in Origin.__slots__
        if getattr(known, name) != getattr(found, name)
    ]
    return LedgerUnfit(
        f"{source}: the ledger is about something else: {'; '.join(differs)}. Nothing was written"
    )


def _ledger_gone(source: Partition, mirror: Partition, tail: list[Slice]) -> LedgerUnfit:
    return LedgerUnfit(
        f"{source}: there is no ledger, but {mirror} holds {len(tail)} records that this link"
        " wrote. Where to go on is not known, so nothing was written. Give the link a new mirror,"
        " or restore the ledger's topic"
    )


def _no_marker(mirror: Partition, claimed: Claim) -> LedgerUnfit:
    return LedgerUnfit(
        f"{mirror}: our own marker (producer {claimed.producer_id}, epoch {claimed.marker_epoch})"
        " was not found on the mirror in the time allowed. Nothing was written"
    )
