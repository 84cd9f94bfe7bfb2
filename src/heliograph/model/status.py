"""Status: a link as one frozen value, made from the rows of its topics on the target.

Pure. What is not known is None, never a guess: JSON shows null. Lag is as it was last reported;
a driver that is silent is named among the errors, because nothing here is news then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any

from heliograph.errors import LedgerUnreadable
from heliograph.model.clocks import age_s
from heliograph.model.control import (
    LINK,
    WANTED,
    LinkReport,
    PartReport,
    PartState,
    Rows,
    Wanted,
    part_key,
    read,
)
from heliograph.model.drivers import SILENCE, driver_errors, is_alive
from heliograph.model.group_reports import GroupStatus, group_statuses
from heliograph.model.ledger import Gap, Ledger, partition_named, partitions_in, read_ledger
from heliograph.model.moments import moment
from heliograph.model.selection import matches, mirror_name
from heliograph.model.stages import Stage, closed_topics, link_state, read_stages
from heliograph.model.topics import Partition

# How often a driver reports when all is well, and a little more.
_PULSE_S = 4.0
_QUARANTINED = "quarantined"
_NAMED_PARTITIONS = 5
_NOT_SEEN = PartReport(0, 0, 0, "ACTIVE", -1, -1, -1, -1, -1, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class About:
    """What the configuration says of a link; ``runs`` is what runs it, where that is another."""

    link: str
    source: str
    target: str
    naming: str  # the template of its mirrors' names
    rpo: timedelta | None = None
    runs: str | None = None


@dataclass(frozen=True, slots=True)
class Books:
    """The rows of a link's three topics; none where a topic does not exist yet."""

    ledger: Rows = field(default_factory=dict)
    control: Rows = field(default_factory=dict)
    state: Rows = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartStatus:
    """One partition. ``leader`` is the mirror's; ``gaps`` are all offsets that were left out."""

    partition: int
    leader: int | None
    state: PartState
    source_start: int | None
    source_end: int | None
    source_position: int | None
    target_end: int | None
    lag_records: int | None
    lag_seconds: float | None
    runs: int
    gaps: tuple[Gap, ...]
    error: str | None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One topic, under its name on the source."""

    topic: str
    mirror: str
    state: str
    partitions: tuple[PartStatus, ...]


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One link. ``gaps`` counts gaps, ``quarantined`` records; ``errors`` say what is wrong.

    ``state`` is None where the target could not be asked. ``asked_at`` and ``asked_by`` are of the
    last command that changed what is wanted.
    """

    link: str
    source: str
    target: str
    state: str | None = None
    since: str | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    records_total: int | None = None
    bytes_total: int | None = None
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    partitions: int | None = None
    partitions_faulted: int | None = None
    gaps: int | None = None
    quarantined: int | None = None
    heartbeat_age_seconds: float | None = None
    rpo_ok: bool | None = None
    eta_seconds: float | None = None
    time_to_loss_seconds: float | None = None
    asked_at: str | None = None
    asked_by: str | None = None
    errors: tuple[str, ...] = ()
    topics: tuple[TopicStatus, ...] = ()
    groups: tuple[GroupStatus, ...] = ()

    @property
    def is_healthy(self) -> bool:
        """Claim: nothing is wrong that a person should know of."""
        return not self.errors and self.state != "FAULTED" and self.rpo_ok is not False

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return asdict(self)


def known_topics(books: Books) -> list[str]:
    """Return the source topics that a link's rows name, sorted."""
    report = read(books.state, LINK, LinkReport)
    current = set(report.topics) if report else set()
    return sorted(current or {partition.topic for partition in known_partitions(books)})


def link_status(
    about: About, books: Books, now_ms: int, leaders: Mapping[Partition, int] | None = None
) -> LinkStatus:
    """Return the status that the rows tell. ``leaders`` are those of mirror partitions."""
    report = read(books.state, LINK, LinkReport)
    wanted = read(books.control, WANTED, Wanted) or Wanted()
    state, stages = _link_state(report, wanted, now_ms), read_stages(books.control)
    seen = _Seen(books, now_ms, state, wanted, report.generation if report else 0, stages)
    mirrors = mirrors_of(about, books)
    reached = link_state(state, mirrors, stages)
    topics = tuple(_topic(seen, topic, mirrors, leaders or {}) for topic in mirrors)
    parts = [part for topic in topics for part in topic.partitions]
    faulted = sum(part.state == "FAULTED" for part in parts)
    copied = [one for topic in topics if topic.topic not in seen.closed for one in topic.partitions]
    is_over = state == "STOPPED" or (bool(parts) and not copied)
    runs = about.runs or about.link
    late = driver_errors(report, runs, now_ms, is_over=is_over) if report else ()
    status = LinkStatus(
        about.link,
        about.source,
        about.target,
        state="FAULTED" if faulted and reached == "ACTIVE" else reached,
        since=moment(report.since_ms) if report else None,
        partitions=report.partitions if report else len(parts),
        partitions_faulted=faulted,
        heartbeat_age_seconds=_age_s(report.at_ms, now_ms) if report else None,
        asked_at=moment(wanted.asked_ms) if wanted.asked_ms else None,
        asked_by=wanted.asked_by or None,
        errors=(*late, *_errors(report, topics)),
        topics=topics,
        groups=group_statuses(books.state, now_ms),
    )
    return _with_lag(_with_totals(status, seen), copied, about.rpo, seen.rates())


def unreadable(about: About, error: str) -> LinkStatus:
    """Return the status of a link whose topics could not be read."""
    return LinkStatus(about.link, about.source, about.target, errors=(error,))


def mirrors_of(about: About, books: Books) -> dict[str, str]:
    """Return the mirrors of a link by source topic: as its driver says, else by the naming."""
    report = read(books.state, LINK, LinkReport)
    told = report.topics if report else {}
    return {
        topic: told.get(topic) or mirror_name(about.naming, about.source, topic)
        for topic in known_topics(books)
    }


def known_partitions(books: Books) -> set[Partition]:
    """Return every source partition that was ever opened or reported."""
    reported = (key[5:] for key in books.state if key.startswith(b"part/"))
    return partitions_in(books.ledger) | set(map(partition_named, reported))


class _Seen:
    """The rows of the partitions, and what they mean at a moment."""

    def __init__(
        self,
        books: Books,
        now_ms: int,
        state: str,
        wanted: Wanted,
        generation: int,
        stages: Mapping[str, Stage],
    ) -> None:
        self.now_ms, self.state, self.stages = now_ms, state, stages
        self.closed = closed_topics(stages)
        self._wanted, self._generation = wanted, generation
        self.partitions = sorted(known_partitions(books))
        self.reports = {
            one: read(books.state, part_key(one), PartReport) for one in self.partitions
        }
        self.ledgers: dict[Partition, Ledger] = {}
        self.unreadable: dict[Partition, str] = {}
        for partition in self.partitions:
            try:
                ledger = read_ledger(partition, books.ledger)
            except LedgerUnreadable as nonsense:
                self.unreadable[partition] = str(nonsense)
            else:
                if ledger is not None:
                    self.ledgers[partition] = ledger

    def rates(self) -> tuple[float, float]:
        """Return records and bytes per second. A report that is old says nothing of now."""
        reports = filter(None, self.reports.values())
        fresh = [one for one in reports if _age_s(one.at_ms, self.now_ms) <= SILENCE.seconds]
        records = sum((one.records_per_second for one in fresh), 0.0)
        return round(records, 1), round(sum((one.bytes_per_second for one in fresh), 0.0), 1)

    def fault(self, partition: Partition) -> str | None:
        """Return why a partition is not copied. What an earlier driver ran into may be over."""
        if partition in self.unreadable:
            return self.unreadable[partition]
        report = self.reports[partition]
        if report is None or report.state != "FAULTED" or report.generation < self._generation:
            return None
        if partition.topic in self.closed:
            return None
        again = f" (tried again at {moment(report.again_ms)})" if report.again_ms else ""
        return ": ".join(report.error) + again

    def state_of(self, partition: Partition) -> PartState:
        """Return what a partition does."""
        report = self.reports[partition]
        if self.fault(partition) is not None:
            return "FAULTED"
        if partition.topic in self.closed or (report is not None and report.state == "DONE"):
            return "DONE"
        halted = self.state in ("PAUSED", "STOPPED")
        return "PAUSED" if halted or matches(self._wanted.paused, partition.topic) else "ACTIVE"


def _link_state(report: LinkReport | None, wanted: Wanted, now_ms: int) -> str:
    if report is None:
        return "CREATED"
    # Nobody copies, and nobody should: it does not matter that no driver was left to say so.
    if wanted.state == "stopped" and not is_alive(report, now_ms):
        return "STOPPED"
    return report.state


def _topic(
    seen: _Seen, topic: str, mirrors: Mapping[str, str], leaders: Mapping[Partition, int]
) -> TopicStatus:
    mirror = mirrors[topic]
    parts = tuple(
        _part(seen, one, leaders.get(Partition(mirror, one.partition)))
        for one in seen.partitions
        if one.topic == topic
    )
    stage = seen.stages.get(topic)
    return TopicStatus(topic, mirror, stage.state if stage else _topic_state(seen, parts), parts)


def _topic_state(seen: _Seen, parts: Sequence[PartStatus]) -> str:
    states = {part.state for part in parts}
    if not parts or seen.state in ("CREATED", "STOPPED"):
        return "STOPPED" if seen.state == "STOPPED" else "CREATED"
    if "FAULTED" in states:
        return "FAULTED"
    return "PAUSED" if states == {"PAUSED"} else "ACTIVE"


def _part(seen: _Seen, source: Partition, leader: int | None) -> PartStatus:
    report, ledger = seen.reports[source] or _NOT_SEEN, seen.ledgers.get(source)
    position = _known(report.source_next, ledger.source_next if ledger else -1)
    end = _known(report.source_end)
    lag = None if end is None or position is None else max(0, end - position)
    return PartStatus(
        partition=source.partition,
        leader=leader,
        state=seen.state_of(source),
        source_start=_known(report.source_start),
        source_end=end,
        source_position=position,
        target_end=_known(report.target_next, ledger.target_next if ledger else -1),
        lag_records=lag,
        lag_seconds=_lag_s(lag, report.newest_ms, seen.now_ms),
        runs=len(ledger.runs) if ledger else 0,
        gaps=tuple(ledger.gaps) if ledger else (),
        error=seen.fault(source),
    )


def _known(*values: int) -> int | None:
    """Return the first that is known: reports write -1 for what they do not know."""
    return next((value for value in values if value >= 0), None)


def _lag_s(lag: int | None, newest_ms: int, now_ms: int) -> float | None:
    if lag == 0:
        return 0.0
    found = None if lag is None or newest_ms < 0 else age_s(newest_ms, now_ms)
    return None if found is None else round(found, 1)


def _with_totals(status: LinkStatus, seen: _Seen) -> LinkStatus:
    """Add what was ever copied, also of topics that the link does not copy any more."""
    ledgers = seen.ledgers.values()
    gaps = [gap for ledger in ledgers for gap in ledger.gaps]
    away = [gap for gap in gaps if gap.why.startswith(_QUARANTINED)]
    return replace(
        status,
        records_total=sum(ledger.records for ledger in ledgers),
        bytes_total=sum(ledger.bytes for ledger in ledgers),
        gaps=len(gaps) - len(away),
        quarantined=sum(gap.source_end - gap.source_start for gap in away),
    )


def _with_lag(
    status: LinkStatus,
    parts: Sequence[PartStatus],
    rpo: timedelta | None,
    rates: tuple[float, float],
) -> LinkStatus:
    """Add the lag of the whole, as far as it is known, and what follows from it."""
    records = [part.lag_records for part in parts if part.lag_records is not None]
    seconds = [part.lag_seconds for part in parts if part.lag_seconds is not None]
    lag = sum(records) if records else None
    eta = 0.0 if lag == 0 else round(lag / rates[0], 1) if lag and rates[0] else None
    return replace(
        status,
        lag_records=lag,
        lag_seconds=max(seconds, default=None),
        records_per_second=rates[0],
        bytes_per_second=rates[1],
        rpo_ok=_rpo_ok(status, parts, rpo),
        eta_seconds=eta,
    )


def _rpo_ok(status: LinkStatus, parts: Sequence[PartStatus], rpo: timedelta | None) -> bool | None:
    """Say whether the objective is kept. What was not heard of for that long may be lost."""
    if rpo is None or not parts:
        return None
    worst_s = max((part.lag_seconds or 0.0 for part in parts), default=0.0)
    quiet_s = status.heartbeat_age_seconds or 0.0
    if max(worst_s, quiet_s - _PULSE_S) > rpo.total_seconds():
        return False
    return None if any(part.lag_seconds is None for part in parts) else True


def _errors(report: LinkReport | None, topics: Sequence[TopicStatus]) -> Iterable[str]:
    alike: dict[str, list[str]] = {}
    for topic in topics:
        for part in topic.partitions:
            if part.error is not None:
                place = str(Partition(topic.topic, part.partition))
                alike.setdefault(part.error, []).append(place)
    said = report.errors if report else ()
    yield from (error for error in said if error not in alike)
    for error, places in alike.items():
        more = len(places) - _NAMED_PARTITIONS
        tail = f" and {more} more" if more > 0 else ""
        yield f"{', '.join(places[:_NAMED_PARTITIONS])}{tail}: {error}"


def _age_s(then_ms: int, now_ms: int) -> float:
    # What comes from the future is new: see ``driver_errors`` for whose clock that is.
    return round(age_s(then_ms, now_ms) or 0.0, 1)
