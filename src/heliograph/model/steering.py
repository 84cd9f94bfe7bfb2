"""Steering: what the driver of a link decides, from what it sees. Pure.

Plans follow each other; all leases of one begin and end together. What one hands over, the next
takes up; a partition that was not handed over is claimed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from heliograph.model.balance import assign
from heliograph.model.control import Plan, Wanted
from heliograph.model.leases import HandOver, Lease, Part, Receipt
from heliograph.model.selection import matches
from heliograph.model.topics import Partition

# Brokers forget a transactional id seven days after its last claim; plain writes do not count.
_CLAIM_EVERY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all leases of a plan have in common; ``until`` bounds a run, see ``Part``."""

    tasks: int
    most_s: float
    expiration_ms: int
    until: Mapping[Partition, int] | None = None


@dataclass(slots=True)
class Course:
    """Where a link is between its plans. ``running`` is the plan whose leases are out."""

    link: str
    generation: int
    number: int = 0
    running: Plan | None = None
    parts: frozenset[Partition] = frozenset()
    handed: dict[Partition, HandOver] = field(default_factory=dict)
    places: dict[Partition, int] = field(default_factory=dict)
    done: set[Partition] = field(default_factory=set)

    def plan(
        self,
        wanted: Mapping[Partition, Partition],
        conditions: Conditions,
        rates: Mapping[Partition, float],
        now_ms: int,
    ) -> tuple[Plan, list[Lease]]:
        """Return the next plan with its leases; from here on they count as out.

        What was handed over goes with them, once (invariant G).
        """
        assert wanted and self.running is None
        self.number += 1
        self.places = assign(wanted.keys(), conditions.tasks, rates, self.places)
        groups: dict[int, list[Part]] = {}
        for source, place in self.places.items():
            handed = self.handed.pop(source, None)
            if handed is not None and now_ms - handed.claimed_ms >= _CLAIM_EVERY_MS:
                handed = None
            bound = conditions.until[source] if conditions.until is not None else None
            groups.setdefault(place, []).append(Part(source, wanted[source], bound, handed))
        self.handed.clear()
        leases = [
            Lease(
                self.link,
                self.generation,
                self.number,
                index,
                conditions.most_s,
                conditions.expiration_ms,
                tuple(groups[place]),
            )
            for index, place in enumerate(sorted(groups))
        ]
        self.running = Plan(self.generation, self.number, len(leases))
        self.parts = frozenset(wanted)
        return self.running, leases

    def close(self, receipts: Collection[Receipt]) -> None:
        """Take the receipts of the running plan; partitions without one will be claimed."""
        self.running = None
        for receipt in receipts:
            for part in receipt.parts:
                if part.handed is not None:
                    self.handed[part.source] = part.handed
                if part.is_done:
                    self.done.add(part.source)

    def lose(self) -> None:
        """Forget the running plan and all that was handed over: everything is claimed next."""
        self.running = None
        self.handed.clear()


def active_parts(
    parts: Mapping[Partition, Partition], wanted: Wanted
) -> dict[Partition, Partition]:
    """Return what is to be copied now: nothing while the link is paused."""
    if wanted.state != "active":
        return {}
    return {
        source: mirror
        for source, mirror in parts.items()
        if not matches(wanted.paused, source.topic)
    }
