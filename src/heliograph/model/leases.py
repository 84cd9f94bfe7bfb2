"""Leases and receipts: the right to copy partitions for a while, and what came of it.

Pure values, as they stand in the control and state topics. To a Spark task travels only its seat:
the lease for it is read from the control topic.

G. A hand-over is used once: by the first attempt of the lease that carries it. Every other
   attempt claims.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from heliograph.model.policies import Policies
from heliograph.model.topics import Partition


@dataclass(frozen=True, slots=True)
class HandOver:
    """What the next writer of a partition needs to go on without a claim.

    The identity with its next sequences on the mirror and in the ledger, and the rows of the
    ledger that grow: its head and its newest segment. ``newest_ms`` is the time of the newest
    record copied so far. By ``written_ms`` the mirror's leader counts how long it remembers the
    identity, -1 where that is not known; before ``old_not_before_ms`` no batch is sent of which it
    could forget the writer.
    """

    transactional_id: str
    producer_id: int
    marker_epoch: int
    epoch: int
    sequence: int
    ledger_sequence: int
    claimed_ms: int
    newest_ms: int
    rows: Mapping[str, str]
    written_ms: int = -1
    old_not_before_ms: int = -1


class Begin(NamedTuple):
    """Where a partition of exactly this topic begins."""

    topic_id: str
    offset: int


class Known(NamedTuple):
    """What was last heard of a partition: where its source ends, what was copied, and of when.

    ``log_end`` and ``whole_ms`` are as in a report: what stands behind open transactions.
    """

    source_end: int = -1
    source_next: int = -1
    newest_ms: int = -1
    log_end: int = -1
    whole_ms: int = -1


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of a lease. ``until`` bounds it: source offsets from there on stay.

    ``begin`` is where it begins if it was never mirrored; where there is none, at its start.
    ``known`` is for a task that cannot reach the source: it goes on saying so, and forgets nothing.
    """

    source: Partition
    mirror: Partition
    until: int | None = None
    handed: HandOver | None = None
    begin: Begin | None = None
    known: Known = NOTHING_KNOWN


@dataclass(frozen=True, slots=True)
class Seat:
    """A task's place in a plan. It waits there for its lease, for ``most_s`` at most."""

    generation: int
    number: int
    index: int
    most_s: float


@dataclass(frozen=True, slots=True)
class Lease:
    """What one Spark task copies. It ends when it is recalled, and at the latest by itself.

    ``number`` is the plan's: all leases of one plan begin and end together. ``most_s`` is for a
    task that the driver cannot reach any more. ``expiration_ms`` is how long the target's brokers
    remember a writer. ``bytes_per_second`` is this task's share of the link's limit; 0 is none.
    ``rows`` is over how many rows of the control topic it is spread.
    """

    link: str
    generation: int
    number: int
    index: int
    most_s: float
    expiration_ms: int
    parts: tuple[Part, ...]
    bytes_per_second: int = 0
    rows: int = 1


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """What came of one partition. ``error`` is its last fault's code and message."""

    source: Partition
    source_next: int
    records: int
    bytes: int
    is_done: bool = False
    error: tuple[str, ...] = ()
    handed: HandOver | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a task returns for a lease, spread over so many ``rows`` of the state topic."""

    generation: int
    number: int
    index: int
    attempt: int
    seconds: float
    parts: tuple[PartReceipt, ...]
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Access:
    """How a task reaches a cluster. Secrets are references, resolved where they are used."""

    name: str
    properties: Mapping[str, str] = field(repr=False)
    allow_literal_secrets: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What all leases of a link have in common: the data source's only option."""

    link: str
    generation: int
    source: Access
    target: Access
    policies: Policies = field(default_factory=Policies)
    lane: int = 0
    """Which of the link's queries this is."""
    after: int = 0
    """Seats up to this number are not to be handed out: they were, by an earlier query."""
