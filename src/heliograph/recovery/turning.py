"""Turning round: from the direction that has ended to the opposite one, partition by partition.

What is put stands on the new target, under the new direction's own claims. A partition that has
turned already is left as it is, so that this may be taken up again after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from heliograph.copy.finding import find_ranges, look_at
from heliograph.copy.gaps import step_over
from heliograph.copy.recording import record
from heliograph.errors import HeliographError, NotAuthorized, RecoveryError
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import claim_all
from heliograph.kafka.tables import Table, Writer
from heliograph.links.own_topics import make_own_topics
from heliograph.links.setup import opposite
from heliograph.model.control import WANTED, Added, Wanted, read, row
from heliograph.model.findings import counted
from heliograph.model.ledger import Ledger, read_ledger
from heliograph.model.mirrors import TIMESTAMP_TYPE, replaces_times
from heliograph.model.names import control_topic, transactional_id
from heliograph.model.reversal import is_outrun, reverse
from heliograph.model.topics import Partition
from heliograph.recovery.command import LOOK_TIMEOUT, Command
from heliograph.recovery.journal import Journal

_TIMEOUT = timedelta(seconds=60)


def turn(
    ended: Mapping[Partition, Ledger],
    parts: Mapping[Partition, Partition],
    onward: Command,
    save: Callable[[Mapping[Partition, int]], Mapping[Partition, int]],
) -> list[str]:
    """Put the ledgers of the opposite direction; ``parts`` and ``ended`` are of the one before.

    ``onward`` is the command of the direction to come. What has no ledger in ``ended`` is left out.
    ``save`` is told where the new targets end, before that is put on record as the beginning of
    what comes back, and returns how many records before it diverged.
    """
    deadline = Deadline.after(_TIMEOUT)
    with Admin(onward.setup.target_settings, onward.setup.link.target) as admin:
        make_own_topics(admin, onward.setup.link.name, deadline)
    ends, books = onward.ends, Partition(onward.ends.ledger_topic, 0)
    table = Table(ends.target, books.topic)
    table.load(deadline)
    left = {one: parts[one] for one in ended if _is_to_turn(parts[one], table)}
    look_at(ends.target, {*(one.topic for one in left), books.topic}, deadline)
    look_at(ends.source, {one.topic for one in left.values()}, deadline)
    names = {transactional_id(ends.link, *mirror): source for source, mirror in left.items()}
    # Of the ledger alone: the topic may be fenced by a rule that keeps us out as well. Whoever
    # wrote there for this direction before was fenced when its ledger was closed.
    claims = claim_all(ends.target, {name: [books] for name in names}, deadline)
    table.catch_up(deadline)
    held = find_ranges(ends.target, list(left), deadline)
    kept = find_ranges(ends.source, list(left.values()), deadline)
    diverged = save({one: log.stop for one, log in held.items() if isinstance(log, range)})
    deadline = Deadline.after(_TIMEOUT)
    failed: dict[Partition, HeliographError] = {}
    put: list[tuple[Ledger, Writer]] = []
    expired = 0
    for name, source in names.items():
        claim, log, mirror = claims[name], held[source], parts[source]
        begin = kept[mirror]
        if isinstance(claim, HeliographError):
            failed[source] = claim
        elif isinstance(log, HeliographError):
            failed[source] = log
        elif isinstance(begin, HeliographError):
            failed[source] = begin
        elif is_outrun(ended[source], before := read_ledger(mirror, table.rows)):
            failed[source] = outrun(source, onward)
        elif _is_to_turn(mirror, table):
            ledger = reverse(ended[source], mirror, log.stop, diverged.get(source, 0), before)
            expired += _step_over_expired(ledger, ended[source], begin.start)
            ledger.producer_ids.add(claim.producer_id)
            put.append((ledger, Writer.of(claim)))
    failed |= record(ends, put, deadline)
    if failed:
        told = "\n  - ".join(f"{one}: {error}" for one, error in sorted(failed.items()))
        raise RecoveryError(
            f"{counted(len(failed), 'partition')} did not turn round:\n  - {told}\n"
        )
    return _told(onward, len(ended), expired)


def _told(onward: Command, partitions: int, expired: int) -> list[str]:
    link = onward.setup.link
    lines = [
        f"{counted(partitions, 'partition')} turned round: {link.name} copies {link.source} to"
        f" {link.target}"
    ]
    if expired:
        lines.append(
            f"up to {expired} records that came since have expired on {link.source}: they are not"
            f" copied to {link.target}, and the ledger has them as gaps"
        )
    return lines


def _step_over_expired(ledger: Ledger, ended: Ledger, start: int) -> int:
    """Begin where the new source's log begins; return how many offsets of others went before.

    To turn round is somebody's decision: what has expired until then is told, and stops nothing.
    What stands there of our own, up to where the mirror was closed, is no gap.
    """
    ours = ended.closing.marker_offset + 1 if ended.closing is not None else 0
    ledger.skip_to(max(ledger.source_next, min(start, ours)))
    gone = max(0, start - ledger.source_next)
    step_over(ledger, start)
    return gone


def outrun(source: Partition, onward: Command) -> RecoveryError:
    """Say that a partition cannot turn round from here, and what there is to do."""
    link, other = onward.setup.link.name, opposite(onward.setup).link.name
    return RecoveryError(
        f"{source}: {link} has copied more since this direction ended, so it would copy it twice."
        f" Nothing was changed. It can be mirrored back whole: heliograph failback {other} --wipe"
        f" --topics {source.topic} saves what only {onward.setup.link.target} has, and deletes it"
        " there"
    )


def times_replaced(onward: Command, topics: Sequence[str]) -> list[str]:
    """Say which topics of the new target replace the times of what is copied back."""
    if not topics:
        return []
    link, deadline = onward.setup.link, Deadline.after(LOOK_TIMEOUT)
    with Admin(onward.setup.target_settings, link.target) as admin:
        try:
            there = admin.topics.describe(topics, deadline).keys() & set(topics)
            found = admin.configs.of_topics(there, deadline, only=[TIMESTAMP_TYPE])
        except NotAuthorized as hidden:
            return [f"whether {link.target} replaces the times of records is not known: {hidden}"]
    return [
        f"{topic} has {TIMESTAMP_TYPE}=LogAppendTime on {link.target}, which replaces the time of"
        f" every record that {link.name} copies there. Unless `run` may change that"
        " (mirrors.configs_exclude), nothing is copied there until you set CreateTime"
        for topic, settings in sorted(found.items())
        if replaces_times(settings)
    ]


def turned(onward: Command, parts: Mapping[Partition, Partition]) -> set[Partition]:
    """Return the source partitions that have turned round: the opposite direction copies there."""
    rows = onward.reader.read(Deadline.after(LOOK_TIMEOUT)).ledger
    return {source for source, mirror in parts.items() if _is_open(read_ledger(mirror, rows))}


def _is_open(ledger: Ledger | None) -> bool:
    return ledger is not None and ledger.closing is None


def _is_to_turn(mirror: Partition, table: Table) -> bool:
    return not _is_open(read_ledger(mirror, table.rows))


def open_direction(onward: Command, topics: Sequence[str]) -> None:
    """Let the driver of the opposite direction copy these topics of its source."""
    deadline = Deadline.after(LOOK_TIMEOUT)
    link = onward.setup.link.name
    journal = Journal(onward.target, link)
    journal.open(deadline)
    closed = {topic: None for topic in topics if topic in journal.stages}
    if closed:
        journal.set_stages(closed)
    journal.drop(topics)
    control = Table(onward.target, control_topic(link))
    before = read(control.load(deadline), WANTED, Wanted) or Wanted()
    known = {one.pattern for one in before.added}
    added = (*before.added, *(Added(one, "earliest") for one in topics if one not in known))
    removed = tuple(one for one in before.removed if one not in topics)
    after = replace(
        before,
        state="active",
        added=added,
        removed=removed,
        asked_ms=clock.wall_ms(),
        asked_by=onward.options.by,
    )
    if after != before:
        control.put({WANTED: row(after)}, deadline)
