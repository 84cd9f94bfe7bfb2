"""A bounded run: where every partition is to come, captured once, and when it is over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.tables import Table
from heliograph.links.setup import Setup
from heliograph.model.control import PartReport
from heliograph.model.ledger import read_ledger
from heliograph.model.topics import Partition

Counts = tuple[int, int]
"""Records and bytes."""


@dataclass(slots=True)
class Bound:
    """What a bounded run copies: up to these source offsets, and not a record more."""

    until: Mapping[Partition, int]
    before: Counts
    started_s: float
    left_out: tuple[str, ...] = ()
    """Why some topics were not begun at all."""
    after: Counts = (0, 0)
    seconds: float = 0.0
    given_up: tuple[Partition, ...] = ()

    @property
    def copied(self) -> Counts:
        """Records and bytes that this run copied, by the ledgers."""
        return self.after[0] - self.before[0], self.after[1] - self.before[1]

    def is_over(
        self,
        done: Collection[Partition],
        report: Callable[[Partition], PartReport | None],
        number: int,
    ) -> bool:
        """Claim: every partition has arrived, or will not without somebody's help."""
        left = [source for source in self.until if source not in done]
        for source in left:
            seen = report(source)
            if seen is None or (seen.state, seen.number, seen.again_ms) != ("FAULTED", number, 0):
                return False
        self.given_up = tuple(left)
        return True


def capture(
    setup: Setup,
    parts: Collection[Partition],
    left_out: tuple[str, ...],
    before: Counts,
    deadline: Deadline,
) -> Bound:
    """Ask the source once where each partition ends for readers of committed records."""
    with Cluster(setup.source_settings, setup.link.source) as source:
        wanted = dict.fromkeys(parts, LATEST)
        until = list_offsets(source, wanted, deadline, read_committed=True) if wanted else {}
    return Bound(until, before, clock.now_s(), left_out)


def count(
    target: Cluster, ledger_topic: str, parts: Collection[Partition], deadline: Deadline
) -> Counts:
    """Return what was ever copied of these partitions, from their ledgers."""
    rows = Table(target, ledger_topic).load(deadline)
    ledgers = [read_ledger(source, rows) for source in parts]
    found = [one for one in ledgers if one is not None]
    return sum(one.records for one in found), sum(one.bytes for one in found)
