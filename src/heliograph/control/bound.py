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
from heliograph.model.findings import some
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
    """Why some topics were not copied, or not begun at all."""
    after: Counts | None = None
    seconds: float = 0.0
    given_up: tuple[Partition, ...] | None = None
    """What has not arrived; None until the run has ended: then nobody may say that all has."""

    @property
    def copied(self) -> Counts | None:
        """Records and bytes that this run copied, by the ledgers; None until it has ended."""
        if self.after is None:
            return None
        return self.after[0] - self.before[0], self.after[1] - self.before[1]

    def is_over(
        self,
        done: Collection[Partition],
        active: Collection[Partition],
        report: Callable[[Partition], PartReport | None],
        number: int,
    ) -> bool:
        """True when every partition has arrived, or will not without somebody's help.

        What is not ``active`` is paused or removed: nobody copies it.
        """
        for source in self.until:
            if source in done or source not in active:
                continue
            seen = report(source)
            if seen is None or (seen.state, seen.number, seen.again_ms) != ("FAULTED", number, 0):
                return False
        return True

    def end(
        self, done: Collection[Partition], active: Collection[Partition], after: Counts, link: str
    ) -> None:
        """Note what came of the run, however it ended: what has not arrived is named."""
        self.after, self.seconds = after, clock.now_s() - self.started_s
        self.given_up = tuple(sorted(source for source in self.until if source not in done))
        halted = sorted({one.topic for one in self.given_up if one not in active})
        if halted:
            self.left_out += (
                f"paused or removed, so not copied: {some(halted)}. To copy what is paused:"
                f" heliograph resume {link}",
            )


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
