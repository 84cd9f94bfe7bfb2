"""Status: a link as one frozen value, made from the rows of its topics on the target.

Pure. What is not known is None, never a guess: JSON shows null.

S. Status, objectives and exit codes come from what was observed lately, say how old it is, and are
   never better than what is known. What is missing from the rows is not news that all is well: a
   task, a driver or a source that is silent is named among the errors, with for how long; lag is a
   lower bound then; and an objective is kept only where that follows from what was observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any

from heliograph.errors import HeliographError, LedgerUnfit, LedgerUnreadable
from heliograph.model.clocks import age_s, ahead_s, longest_s
from heliograph.model.control import (
    LINK,
    WAITING,
    WANTED,
    LinkReport,
    PartReport,
    PartState,
    Rows,
    Waiting,
    Wanted,
    is_covered,
    part_key,
    read,
    read_heard,
    read_passing,
)
from heliograph.model.drivers import (
    PULSE,
    SILENCE,
    driver_errors,
    is_alive,
    listening,
    listening_errors,
    waiting_errors,
)
from heliograph.model.group_reports import GroupStatus, group_statuses
from heliograph.model.ledger import (
    Gap,
    Ledger,
    Loss,
    loss_lines,
    partition_named,
    partitions_in,
    read_ledger,
)
from heliograph.model.moments import moment
from heliograph.model.selection import matches, mirror_name
from heliograph.model.stages import Stage, closed_topics, link_state, read_stages
from heliograph.model.topics import Partition

_QUARANTINED = "quarantined"
_NAMED_PARTITIONS = 5
_LOSS_NEWS_MS = 24 * 3600 * 1000
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
    """One partition. ``leader`` is the mirror's; ``gaps`` are all offsets that were left out.

    ``losses`` are what the mirror lost, and was copied to it again.
    """

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
    losses: tuple[Loss, ...] = ()


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
    last command that changed what is wanted. ``source_heard_age_seconds`` is how long ago all of
    the source that is copied had last answered; ``lag_is_lower_bound`` says that there may be more
    lag than what is known. ``notes`` are nothing that is wrong.
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
    source_heard_age_seconds: float | None = None
    lag_is_lower_bound: bool = True
    rpo_ok: bool | None = None
    eta_seconds: float | None = None
    asked_at: str | None = None
    asked_by: str | None = None
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
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
    waiting = read_passing(books.state, WAITING, Waiting)
    waits = tuple(waiting_errors(waiting, report, now_ms))
    reached = "FAULTED" if waits else link_state(state, mirrors, stages)
    topics = tuple(_topic(seen, topic, mirrors, leaders or {}) for topic in mirrors)
    parts = [part for topic in topics for part in topic.partitions]
    faulted = sum(part.state == "FAULTED" for part in parts)
    copied = {
        Partition(topic.topic, one.partition): one
        for topic in topics
        if topic.topic not in seen.closed
        for one in topic.partitions
    }
    is_over = state == "STOPPED" or (bool(parts) and not copied)
    runs = about.runs or about.link
    late = driver_errors(report, runs, now_ms, is_over=is_over) if report else ()
    unseen = max(0, (report.partitions if report else 0) - len(parts))
    is_copied = any(part.state == "ACTIVE" for part in copied.values()) or unseen > 0
    if is_copied and state in ("ACTIVE", "FAULTED") and not is_over:
        late = (*late, *listening_errors(seen.listening, about.source))
        late = (*late, *_unseen_errors(seen, copied.values(), unseen))
    never = () if report or waits else (f"never started. To start it: heliograph run {runs}",)
    status = LinkStatus(
        about.link,
        about.source,
        about.target,
        state="FAULTED" if faulted and reached == "ACTIVE" else reached,
        since=moment(report.since_ms) if report else None,
        partitions=report.partitions if report else len(parts),
        partitions_faulted=faulted,
        heartbeat_age_seconds=_heartbeat_s(report, now_ms) if report else None,
        source_heard_age_seconds=_rounded(seen.listening.heard_s),
        asked_at=moment(wanted.asked_ms) if wanted.asked_ms else None,
        asked_by=wanted.asked_by or None,
        errors=(*waits, *late, *_errors(report, topics)),
        notes=(*never, *loss_lines(seen.ledgers.values(), now_ms - _LOSS_NEWS_MS)),
        topics=topics,
        groups=group_statuses(books.state, now_ms),
    )
    status = _with_lag(_with_totals(status, seen), seen, copied, unseen)
    has_objective = about.rpo is not None and (bool(copied) or not parts)
    return _with_rpo(status, seen, copied, unseen, about) if has_objective else status


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


def find_ledger(books: Books, one: Partition) -> Ledger | HeliographError | None:
    """Return a partition's ledger, or why nobody can tell what was copied; None if nothing was.

    A partition that a task reported to copy has a ledger, or has lost it. One that was made when
    its mirror was closed without a word from the source, and without another, knows nothing.
    """
    try:
        ledger = read_ledger(one, books.ledger)
        report = read(books.state, part_key(one), PartReport)
    except LedgerUnreadable as nonsense:
        return nonsense
    was_copied = report is not None and report.source_next >= 0
    if was_copied and (ledger is None or not ledger.origin.source_topic_id):
        return LedgerUnfit(
            f"{one}: there is no ledger, and records of it were copied. Which ones is not known."
            " Restore the ledger's topic if you can"
        )
    return ledger


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
        self.listening = listening(books.control, books.state, now_ms)
        self._heard = read_heard(books.control, books.state)
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
        ages = ((one, age_s(one.at_ms, self.now_ms) or 0.0) for one in reports)
        fresh = [one for one, age in ages if age <= SILENCE.total_seconds()]
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

    def is_followed(self, partition: Partition) -> bool:
        """True when a task reads a partition, or read it until the whole link was halted."""
        report = self.reports[partition]
        if report is None or report.state != "ACTIVE" or partition in self.unreadable:
            return False
        return not matches(self._wanted.paused, partition.topic) and is_covered(report, self._heard)

    def silence_s(self, partition: Partition) -> tuple[float, float | None]:
        """Return for how long the source may have grown unseen, at least and at most.

        Where nothing was missing, or what was copied was written, was known at that time. When a
        topic was paused is not on record; the last command came no earlier.
        """
        report, heard_s = self.reports[partition], self.listening.heard_s
        if self.is_followed(partition):
            return heard_s or 0.0, heard_s
        known = (report.newest_ms, report.whole_ms) if report else ()
        ages = [age_s(one, self.now_ms) for one in known if one >= 0]
        most = min((one for one in ages if one is not None), default=None)
        if matches(self._wanted.paused, partition.topic):
            asked_ms = self._wanted.asked_ms
            return (age_s(asked_ms, self.now_ms) or 0.0) if asked_ms else 0.0, most
        return (heard_s if self.fault(partition) is None else most) or 0.0, most

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
        losses=tuple(ledger.losses) if ledger else (),
    )


def _known(*values: int) -> int | None:
    """Return the first that is known: reports write -1 for what they do not know."""
    return next((value for value in values if value >= 0), None)


def _lag_s(lag: int | None, newest_ms: int, now_ms: int) -> float | None:
    if lag == 0:
        return 0.0
    return None if lag is None or newest_ms < 0 else _rounded(age_s(newest_ms, now_ms))


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
    status: LinkStatus, seen: _Seen, parts: Mapping[Partition, PartStatus], unseen: int
) -> LinkStatus:
    """Add the lag of the whole, as far as it is known, and what follows from it."""
    rates, heard_s = seen.rates(), seen.listening.heard_s
    records = [part.lag_records for part in parts.values() if part.lag_records is not None]
    seconds = [part.lag_seconds for part in parts.values() if part.lag_seconds is not None]
    lag = sum(records) if records else None
    eta = 0.0 if lag == 0 else round(lag / rates[0], 1) if lag and rates[0] else None
    is_whole = not unseen and len(records) == len(parts) and all(map(seen.is_followed, parts))
    is_fresh = heard_s is not None and heard_s <= PULSE.total_seconds()
    return replace(
        status,
        lag_records=lag,
        lag_seconds=max(seconds, default=None),
        lag_is_lower_bound=not (is_whole and is_fresh),
        records_per_second=rates[0],
        bytes_per_second=rates[1],
        eta_seconds=eta,
    )


def _with_rpo(
    status: LinkStatus,
    seen: _Seen,
    parts: Mapping[Partition, PartStatus],
    unseen: int,
    about: About,
) -> LinkStatus:
    """Add whether the objective is kept; where that is not known, it is an error."""
    assert about.rpo is not None
    lags = [part.lag_seconds for part in parts.values()]
    silences = [seen.silence_s(one) for one in parts]
    quiet_s = status.heartbeat_age_seconds
    least_s = max([one for one, _ in silences] + [quiet_s or 0.0])
    most_s = longest_s([most for _, most in silences] + [quiet_s])
    found = _rpo_ok(about.rpo, lags, least_s, most_s)
    if found and (unseen or not parts):
        found = None
    objective, errors = f"the objective (rpo {about.rpo.total_seconds():g} s)", status.errors
    if found is None and (parts or unseen or status.notes):
        why = f"not all that {about.source} holds was observed lately"
        errors = (*errors, f"whether {objective} is kept is not known: {why}")
    elif found is False and not errors and least_s > (longest_s(lags) or 0.0):
        why = f"what {about.source} took in the last {least_s:.0f} s is not known"
        errors = (f"{objective} is missed: {why}",)
    return replace(status, rpo_ok=found, errors=errors)


def _rpo_ok(
    rpo: timedelta, lags: Sequence[float | None], least_s: float, most_s: float | None
) -> bool | None:
    """Say whether an objective is kept, where nobody knew the source for that long.

    A silence that is no longer than what lies between two reports is none.
    """
    limit_s, worst_s = rpo.total_seconds(), longest_s(lags)
    if max((one for one in lags if one is not None), default=0.0) > limit_s:
        return False
    silent_s = max(limit_s, PULSE.total_seconds())
    if least_s > silent_s:
        return False
    return True if worst_s is not None and most_s is not None and most_s <= silent_s else None


def _unseen_errors(seen: _Seen, parts: Iterable[PartStatus], unseen: int) -> Iterable[str]:
    """Say that partitions should have been reported, and were not."""
    unknown = sum(part.state == "ACTIVE" and part.lag_records is None for part in parts) + unseen
    if unknown and seen.listening.is_late:
        yield f"{unknown} partitions were never reported: their lag is not known"


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


def _heartbeat_s(report: LinkReport, now_ms: int) -> float | None:
    """Return how long ago a driver reported; None where its clock is too far ahead to tell."""
    if ahead_s(report.at_ms, now_ms) > SILENCE.total_seconds():
        return None
    return round(max(0, now_ms - report.at_ms) / 1000, 1)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
