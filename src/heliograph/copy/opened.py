"""A partition that is ours to write, and the two ends of a link."""

from __future__ import annotations

from dataclasses import dataclass, field

from heliograph.copy.standstill import Tick
from heliograph.errors import Stalled
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fence import Claim
from heliograph.kafka.tables import Writer
from heliograph.model.ledger import Ledger
from heliograph.model.topics import Partition


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a link copies from and to. The ledger's topic must exist, with one partition."""

    link: str
    source: Cluster
    target: Cluster
    ledger_topic: str


@dataclass(slots=True)
class Opened:
    """A partition that is ours to write: with which identity, and from where on.

    ``claim`` writes the mirror, ``writer`` the ledger; both are one identity, but count their
    sequences apart, partition by partition: ``sequence`` is the mirror's next. Records so old that
    brokers forget their writers may be sent from ``old_not_before_s`` on: until then a request of
    an earlier writer, or one of ours that was given up, may still live: that is monotonic, and of
    this machine, so who hands a partition over says there what it is. ``tick`` tells whether the
    process stood still since.

    ``written_ms`` is by what time the mirror's leader counts how long it remembers this identity:
    that of the last thing acknowledged under it, the claim's marker or the newest record of a
    batch. -1 is not known, or a batch without times: then it may be forgotten already.
    """

    source: Partition
    mirror: Partition
    claim: Claim
    writer: Writer
    ledger: Ledger
    sequence: int = 0
    old_not_before_s: float = 0.0
    written_ms: int = -1
    tick: Tick = field(default_factory=Tick)


def stalled(source: Partition, stood_s: float) -> Stalled:
    """Say that this process may have stood still for too long to go on as a partition's writer."""
    return Stalled(
        f"{source}: this process stood still for {stood_s:.0f} s, or the time of day was set by as"
        " much. Somebody else may copy it by now, so nothing more was sent. The partition must be"
        " claimed again"
    )
