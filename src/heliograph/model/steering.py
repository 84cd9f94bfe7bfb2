"""Steering: what the driver of a link decides, from what it sees. Pure.

Plans follow each other; all leases of one begin and end together. What one hands over, the next
takes up; a partition that was not handed over is claimed. The tasks of the next plan may be seated
while those of the last still copy: a link then stands still for no longer than a hand-over takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from heliograph.model.balance import assign
from heliograph.model.control import Plan, Seats, Wanted
from heliograph.model.leases import Begin, HandOver, Known, Lease, Part, Receipt
from heliograph.model.selection import matches
from heliograph.model.topics import Partition

# Brokers forget a transactional id seven days after its last claim; plain writes do not count.
_CLAIM_EVERY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all leases of a plan have in common; ``until`` bounds a run, see ``Part``.

    ``begins`` is where partitions begin that were never mirrored. ``bytes_per_second`` is the
    link's limit, which its leases share; 0 is none. ``heard_ms`` is when the source last answered.
    """

    tasks: int
    most_s: float
    expiration_ms: int
    until: Mapping[Partition, int] | None = None
    bytes_per_second: int = 0
    begins: Mapping[Partition, Begin] = field(default_factory=dict)
    known: Mapping[Partition, Known] = field(default_factory=dict)
    heard_ms: int = -1


@dataclass(slots=True)
class Course:
    """Where a link is between its plans. ``running`` is the plan whose leases are out.

    ``number`` and ``lane`` are of the last plan, ``seats`` for the one after it; ``newest`` is the
    last number that was given away.
    """

    link: str
    generation: int
    number: int = 0
    lane: int = 0
    newest: int = 0
    running: Plan | None = None
    seats: Seats | None = None
    parts: frozenset[Partition] = frozenset()
    bytes_per_second: int = 0
    handed: dict[Partition, HandOver] = field(default_factory=dict)
    places: dict[Partition, int] = field(default_factory=dict)
    done: set[Partition] = field(default_factory=set)

    def seat(self, lane: int, count: int, most_s: float) -> Seats:
        """Let tasks take their seats for the next plan; seats that wait for it already are void."""
        self.newest += 1
        self.seats = Seats(self.generation, self.newest, lane, count, most_s)
        return self.seats

    def plan(
        self,
        wanted: Mapping[Partition, Partition],
        conditions: Conditions,
        rates: Mapping[Partition, float],
        now_ms: int,
    ) -> tuple[Plan, list[Lease]]:
        """Return the next plan with its leases, not more than there are seats; they are out now.

        What was handed over goes with them, once (invariant G).
        """
        assert wanted and self.running is None and self.seats is not None
        seats, self.seats = self.seats, None
        self.number, self.lane = seats.number, seats.lane
        tasks = min(conditions.tasks, seats.count)
        self.places = assign(wanted.keys(), tasks, rates, self.places)
        groups: dict[int, list[Part]] = {}
        for source, place in self.places.items():
            handed = self.handed.pop(source, None)
            if handed is not None and now_ms - handed.claimed_ms >= _CLAIM_EVERY_MS:
                handed = None
            bound = conditions.until[source] if conditions.until is not None else None
            begin, known = conditions.begins.get(source), conditions.known.get(source, Known())
            part = Part(source, wanted[source], bound, handed, begin, known)
            groups.setdefault(place, []).append(part)
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
                share_of(conditions.bytes_per_second, len(groups)),
            )
            for index, place in enumerate(sorted(groups))
        ]
        number, count = self.number, len(leases)
        self.running = Plan(self.generation, number, count, now_ms, conditions.heard_ms)
        self.parts = frozenset(wanted)
        self.bytes_per_second = conditions.bytes_per_second
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

    def unseat(self, lane: int) -> None:
        """Forget the seats on a query that ends: the one that follows does not hand them out."""
        if self.seats is not None and self.seats.lane == lane:
            self.seats = None

    def lose(self, lane: int) -> None:
        """Forget what was out on a query that ended: its seats, its plan, and all handed over."""
        self.unseat(lane)
        if self.running is not None and self.lane == lane:
            self.running = None
        self.handed.clear()


def limit_of(wanted: Wanted, configured: int | None) -> int:
    """Return the bytes per second that a link may copy, 0 for no limit: a command's word counts.

    >>> limit_of(Wanted(), 500), limit_of(Wanted(bytes_per_second=0), 500), limit_of(Wanted(), None)
    (500, 0, 0)
    """
    asked = wanted.bytes_per_second
    return configured or 0 if asked is None else asked


def share_of(bytes_per_second: int, leases: int) -> int:
    """Return what one lease may copy of a link's limit; 0 is everything.

    Partitions are dealt out by their measured rates, so equal shares are fair.

    >>> share_of(100, 3), share_of(0, 3)
    (34, 0)
    """
    return -(-bytes_per_second // leases)


def active_parts(
    parts: Mapping[Partition, Partition], wanted: Wanted, closed: Collection[str] = ()
) -> dict[Partition, Partition]:
    """Return what is to be copied now: nothing while the link is paused, or has ended.

    ``closed`` are source topics whose mirrors are their applications' by now.
    """
    if wanted.state != "active":
        return {}
    return {
        source: mirror
        for source, mirror in parts.items()
        if source.topic not in closed
        and not matches((*wanted.paused, *wanted.removed), source.topic)
    }
