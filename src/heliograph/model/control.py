"""The rows of a link's control and state topics: what is wanted, what is planned, what was seen.

Pure. In the control topic ``wanted`` is written by people's commands; ``driver``,
``seats/<lane>``, ``plan``, ``lease/<index>``, ``recall``, ``raised``, ``noted``, ``first``,
``begun/<topic>`` and ``made/<mirror>`` by the one driver that holds the newest generation. In the
state topic ``link`` is written by the driver, ``waiting`` by one that cannot start;
``part/<topic>/<partition>``, ``seat/<index>``, ``heard/<index>`` and ``receipt/<index>`` by tasks.
Leases and receipts of many partitions go on in ``lease/<index>/<n>`` and ``receipt/<index>/<n>``.
What a row cannot be read as is an error with the row's name, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from heliograph.errors import LedgerUnreadable
from heliograph.model.acls import Acl
from heliograph.model.leases import Known, Lease, Receipt, Seat
from heliograph.model.policies import Start
from heliograph.model.texts import from_text, to_text
from heliograph.model.topics import Partition

T = TypeVar("T")
W = TypeVar("W", Lease, Receipt)
Rows = Mapping[bytes, bytes]

BATCH_BYTES = 4 << 20
"""The topics take 16 MB; what comes with rows, and one that is large for itself, has room."""
_ROW_BYTES = 1 << 20
# What a partition takes in a row beside what it hands over: its names, twice, and an error.
_PART_BYTES = 1 << 10

WANTED, DRIVER, PLAN, RECALL, LINK = b"wanted", b"driver", b"plan", b"recall", b"link"
WAITING = b"waiting"
RAISED, NOTED, FIRST = b"raised", b"noted", b"first"
_BEGUN, _MADE, _HEARD = b"begun/", b"made/", b"heard/"

LinkState = Literal["CREATED", "ACTIVE", "PAUSED", "FAULTED", "STOPPED"]
PartState = Literal["ACTIVE", "PAUSED", "FAULTED", "DONE"]


@dataclass(frozen=True, slots=True)
class Added:
    """Topics that a command added to a link, by name or pattern, and where they begin if told."""

    pattern: str
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What people asked for, beside what the link's file says.

    ``paused`` and ``removed`` are names and patterns of source topics. ``bytes_per_second`` is
    None where the file's limit counts, and 0 for no limit. ``asked_by`` says who asked last, as
    far as that is known.
    """

    state: Literal["active", "paused", "stopped"] = "active"
    paused: tuple[str, ...] = ()
    asked_ms: int = 0
    added: tuple[Added, ...] = ()
    removed: tuple[str, ...] = ()
    bytes_per_second: int | None = None
    asked_by: str = ""


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver that may plan: the one of the newest generation.

    ``is_bounded`` says that it ends by itself, once it has copied what was there.
    """

    generation: int
    name: str
    since_ms: int
    is_bounded: bool = False


@dataclass(frozen=True, slots=True)
class Seats:
    """So many tasks are to start and wait for the leases of a plan, each for ``most_s`` at most.

    ``lane`` is the query on which they start.
    """

    generation: int
    number: int
    lane: int
    count: int
    most_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """How many leases a plan has; the leases stand before it.

    ``heard_ms`` is when the source had last answered, as its driver knew at ``dealt_ms``; -1 is
    not known.
    """

    generation: int
    number: int
    leases: int
    dealt_ms: int = -1
    heard_ms: int = -1


@dataclass(frozen=True, slots=True)
class Recall:
    """Leases of this plan, and of any before, end now."""

    generation: int
    number: int


@dataclass(frozen=True, slots=True)
class Raised:
    """How long the target remembers writers is raised; this is what was set before."""

    was: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A mirror that Heliograph made: its topic's id, and of which topic it is the mirror."""

    topic_id: str
    source: str


@dataclass(frozen=True, slots=True)
class Noted:
    """The ACLs that Heliograph grants on the target: noted here before they are granted."""

    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True)
class FirstLook:
    """When a link was first looked at, and which of the topics that commands added were since.

    ``pending`` are topics that were there, and whose beginning could not be found out yet.
    """

    at_ms: int
    source_cluster_id: str
    added: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Begun:
    """Where the partitions of a topic begin, in their order; see ``model.starts``."""

    topic_id: str
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What the driver says of a link, every few seconds: a silent one is dead."""

    state: LinkState
    since_ms: int
    at_ms: int
    generation: int
    driver: str
    partitions: int
    topics: Mapping[str, str]
    errors: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """What of people's commands the driver has looked for."""


@dataclass(frozen=True, slots=True)
class PartReport:
    """What a task saw of a partition; rates are over the last few seconds.

    ``source_end`` is the last stable offset: behind it stand transactions that are still open, and
    whatever else was written since they began, up to ``log_end``. ``whole_ms`` is when all of that
    was last seen to have arrived. -1 stands for what is not known.
    """

    generation: int
    number: int
    at_ms: int
    state: PartState
    source_start: int
    source_end: int
    source_next: int
    target_next: int
    newest_ms: int
    records_per_second: float
    bytes_per_second: float
    error: tuple[str, ...] = ()
    again_ms: int = 0
    log_end: int = -1
    whole_ms: int = -1

    @property
    def known(self) -> Known:
        """What whoever copies the partition next has to know of it."""
        return Known(self.source_end, self.source_next, self.newest_ms, self.log_end, self.whole_ms)


@dataclass(frozen=True, slots=True)
class Heard:
    """When all brokers of the source that a task reads from had last answered it; -1 for never.

    ``listened_ms`` is until when it has waited for their answers, and ``told_ms`` when it put this
    row, by the same clock. A task puts it every two seconds for as long as it lives: one that does
    not is frozen, dead or cut off from the target.
    """

    generation: int
    number: int
    at_ms: int
    listened_ms: int = -1
    told_ms: int = -1


@dataclass(frozen=True, slots=True)
class Waiting:
    """A driver that cannot run a link, why, and since when; unless for good, it tries again."""

    driver: str
    since_ms: int
    at_ms: int
    error: str
    is_final: bool = False


def heard_key(index: int) -> bytes:
    """Name the row of when a task last heard from the source."""
    return _HEARD + b"%d" % index


def read_heard(control: Rows, state: Rows) -> list[Heard]:
    """Return what each task of the newest plan has heard; none where there was no plan.

    The whole source was last heard from at the oldest ``at_ms`` of them. A task that has not heard
    anything itself knows what was known when its plan was dealt out, and no more.
    """
    keys = [key for key in state if key.startswith(_HEARD)]
    rows = {key: read_passing(state, key, Heard) for key in keys}
    found = {key: one for key, one in rows.items() if one is not None}
    newest = max(((one.generation, one.number) for one in found.values()), default=(-1, -1))
    plan = read_passing(control, PLAN, Plan)
    if plan is None or newest > (plan.generation, plan.number):
        return [one for one in found.values() if (one.generation, one.number) == newest]
    before = Heard(plan.generation, plan.number, plan.heard_ms, told_ms=plan.dealt_ms)
    mine = [found.get(heard_key(index), before) for index in range(plan.leases)]
    mine = [one if is_of(one, plan) else before for one in mine]
    return [one if one.at_ms >= 0 else replace(one, at_ms=plan.heard_ms) for one in mine]


def heard_ms(heard: Iterable[Heard]) -> int | None:
    """Return when the whole source was last heard from; None where that is not known."""
    oldest = min((one.at_ms for one in heard), default=-1)
    return oldest if oldest >= 0 else None


def is_covered(report: PartReport, heard: Sequence[Heard]) -> bool:
    """True when what tasks heard is about a partition as well, for one of them reads it.

    Where plans change, tasks tell one after the other: the plan before is as good.
    """
    if not heard:
        return True
    newest = heard[0]
    return (report.generation, report.number + 1) >= (newest.generation, newest.number)


def is_of(told: Heard | PartReport, plan: Heard | Plan) -> bool:
    """True when a row was put by a task of a plan."""
    return (told.generation, told.number) == (plan.generation, plan.number)


def seats_key(lane: int) -> bytes:
    """Name the row of a query's seats."""
    return b"seats/%d" % lane


def seat_key(index: int) -> bytes:
    """Name the row of a task that waits for its lease."""
    return b"seat/%d" % index


def lease_key(index: int, piece: int = 0) -> bytes:
    """Name a row of a lease: one of many partitions has several.

    >>> lease_key(2), lease_key(2, 1)
    (b'lease/2', b'lease/2/1')
    """
    return b"lease/%d" % index + (b"/%d" % piece if piece else b"")


def receipt_key(index: int, piece: int = 0) -> bytes:
    """Name a row of a lease's receipt."""
    return b"receipt/%d" % index + (b"/%d" % piece if piece else b"")


def part_key(source: Partition) -> bytes:
    """Name the row of a partition's report.

    >>> part_key(Partition("orders", 3))
    b'part/orders/3'
    """
    return f"part/{source.topic}/{source.partition}".encode()


def begun_key(topic: str) -> bytes:
    """Name the row of where a topic's partitions begin.

    >>> begun_key("orders")
    b'begun/orders'
    """
    return _BEGUN + topic.encode()


def made_key(mirror: str) -> bytes:
    """Name the row of a mirror that was made.

    >>> made_key("paris.orders")
    b'made/paris.orders'
    """
    return _MADE + mirror.encode()


def read_begun(rows: Rows) -> dict[str, Begun]:
    """Return where topics begin, by name."""
    return _read_named(rows, _BEGUN, Begun)


def read_made(rows: Rows) -> dict[str, Made]:
    """Return the mirrors that were made, by name."""
    return _read_named(rows, _MADE, Made)


def _read_named(rows: Rows, prefix: bytes, kind: type[T]) -> dict[str, T]:
    keys = [key for key in rows if key.startswith(prefix)]
    found = {key.removeprefix(prefix).decode(): read(rows, key, kind) for key in keys}
    return {name: one for name, one in found.items() if one is not None}


def row(value: Any) -> bytes:
    """Return a row's value."""
    return to_text(value).encode()


def read(rows: Rows, key: bytes, kind: type[T]) -> T | None:
    """Return a row, None if there is none."""
    found = rows.get(key)
    if found is None:
        return None
    try:
        return from_text(kind, found)
    except ValueError as nonsense:
        message = f"the row {key.decode(errors='replace')} cannot be read: {nonsense}"
        raise LedgerUnreadable(message) from nonsense


def read_passing(rows: Rows, key: bytes, kind: type[T]) -> T | None:
    """Return a row that is soon written anew; one of another version is as good as none."""
    try:
        return read(rows, key, kind)
    except LedgerUnreadable:
        return None


def read_report(rows: Rows, source: Partition, generation: int) -> PartReport | None:
    """Return what the tasks of a driver last said of a partition."""
    found = read_passing(rows, part_key(source), PartReport)
    return found if found is not None and found.generation == generation else None


def plan_rows(plan: Plan, leases: Iterable[Lease], before: Rows) -> dict[bytes, bytes | None]:
    """Return the rows of a plan, in the order in which to put them; leases of an earlier one go.

    The plan comes last: leases mean nothing until it names them.
    """
    rows: dict[bytes, bytes | None] = {key: None for key in before if key.startswith(b"lease/")}
    for lease in leases:
        rows |= {lease_key(lease.index, n): row(one) for n, one in enumerate(_pieces(lease))}
    return rows | {PLAN: row(plan)}


def receipt_rows(receipt: Receipt) -> dict[bytes, bytes | None]:
    """Return the rows of a receipt; it counts once all of them are there."""
    return {receipt_key(receipt.index, n): row(one) for n, one in enumerate(_pieces(receipt))}


def batches_of(
    rows: Mapping[bytes, bytes | None], most_bytes: int = BATCH_BYTES
) -> Iterator[dict[bytes, bytes | None]]:
    """Cut rows into batches that a broker takes, in order.

    >>> [list(one) for one in batches_of({b"a": b"12", b"b": b"34", b"c": None}, 5)]
    [[b'a'], [b'b', b'c']]
    """
    batch, size_bytes = dict[bytes, bytes | None](), 0
    for key, value in rows.items():
        weight = len(key) + len(value or b"")
        if batch and size_bytes + weight > most_bytes:
            yield batch
            batch, size_bytes = {}, 0
        batch[key] = value
        size_bytes += weight
    yield batch


def _pieces(whole: W) -> list[W]:
    """Cut a lease or a receipt: what is handed over with thousands of partitions is no one row."""
    cuts: list[list[Any]] = [[]]
    size_bytes = 0
    for part in whole.parts:
        handed = part.handed.rows if part.handed is not None else {}
        weight = _PART_BYTES + sum(len(key) + len(value) for key, value in handed.items())
        if cuts[-1] and size_bytes + weight > _ROW_BYTES:
            cuts.append([])
            size_bytes = 0
        cuts[-1].append(part)
        size_bytes += weight
    return [replace(whole, parts=tuple(some), rows=len(cuts)) for some in cuts]


def _joined(pieces: Sequence[W | None]) -> W | None:
    """Return the whole; None while a piece is missing, or is of another plan or attempt."""
    first = pieces[0]
    if first is None:
        return None
    whole: list[Any] = []
    for piece in pieces:
        if piece is None or replace(piece, parts=first.parts) != first:
            return None
        whole += piece.parts
    return replace(first, parts=tuple(whole), rows=1)


def read_lease(rows: Rows, index: int, generation: int, number: int) -> Lease | None:
    """Return a lease of a plan, None unless all of it is there."""
    first = read(rows, lease_key(index), Lease)
    if first is None or (first.generation, first.number) != (generation, number):
        return None
    others = [read(rows, lease_key(index, n), Lease) for n in range(1, first.rows)]
    return _joined([first, *others])


def read_leases(rows: Rows, plan: Plan) -> list[Lease]:
    """Return the leases of a plan; none where the rows are of another one."""
    each = (read_lease(rows, n, plan.generation, plan.number) for n in range(plan.leases))
    return [lease for lease in each if lease is not None]


def are_taken(rows: Rows, seats: Seats) -> bool:
    """Claim: a task waits at each of the seats."""
    found = (read_passing(rows, seat_key(index), Seat) for index in range(seats.count))
    mine = (seats.generation, seats.number)
    return all(one is not None and (one.generation, one.number) == mine for one in found)


def read_receipts(rows: Rows, plan: Plan) -> dict[int, Receipt]:
    """Return the receipts that are in for a plan, by the lease's index."""
    each = (_read_receipt(rows, index, plan) for index in range(plan.leases))
    return {one.index: one for one in each if one is not None}


def _read_receipt(rows: Rows, index: int, plan: Plan) -> Receipt | None:
    # Asked for in every step: those of the plan before, which may be large, are not parsed.
    begin = b'{"generation":%d,"number":%d,' % (plan.generation, plan.number)
    if not rows.get(receipt_key(index), b"").startswith(begin):
        return None
    first = read_passing(rows, receipt_key(index), Receipt)
    if first is None:
        return None
    keys = (receipt_key(index, n) for n in range(1, first.rows))
    return _joined([first, *(read_passing(rows, key, Receipt) for key in keys)])


def leased(control: Rows, state: Rows) -> set[Partition]:
    """Return the source partitions whose leases are out: their plan has not all its receipts."""
    plan = read(control, PLAN, Plan)
    if plan is None or len(read_receipts(state, plan)) == plan.leases:
        return set()
    return {part.source for lease in read_leases(control, plan) for part in lease.parts}
