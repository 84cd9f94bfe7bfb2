"""Taking over from MirrorMaker 2: read where it was, and adopt its mirrors. It blocks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta

from heliograph.control.adopting import LOOK_BACK, Adopter, Adoption, Position
from heliograph.copy.finding import find_ranges
from heliograph.errors import HeliographError, TopicMissing, Unsafe
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.links.setup import Setup
from heliograph.model.blueprint import name_mirrors
from heliograph.model.mm2_positions import Keeping, read_progress, read_syncs
from heliograph.model.selection import select
from heliograph.model.topics import Partition

LIMIT = timedelta(seconds=120)
_STILL = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class TakenOver:
    """One link: what was found of each partition; ``is_done`` says that it was written down."""

    adoptions: tuple[Adoption, ...]
    is_done: bool

    @property
    def doubled(self) -> int:
        """How many records MirrorMaker 2 copied more than once, as far as was looked."""
        return sum(len(one.walked.doubled) for one in self.adoptions)

    @property
    def unstored(self) -> int:
        """How many partitions were compared without a position of MirrorMaker 2."""
        return sum(one.position.last is None and not one.is_known for one in self.adoptions)

    @property
    def has_failed(self) -> bool:
        """Claim: some partition cannot be taken over."""
        return any(one.error is not None for one in self.adoptions)


def take_over(setup: Setup, keeping: Keeping, *, dry_run: bool) -> TakenOver:
    """Adopt all partitions that MirrorMaker 2 copied, or none where one cannot be.

    Raises while it still runs.
    """
    deadline = Deadline.after(LIMIT)
    _refuse_running(setup, keeping, deadline)
    positions = _positions(setup, keeping, deadline)
    before = _ends(setup, positions, deadline)
    with closing(Adopter(setup)) as adopter:
        found = adopter.survey(positions, deadline)
        _refuse_moving(before, _ends(setup, positions, deadline, after=_STILL))
        _refuse_running(setup, keeping, deadline)
        if dry_run or any(one.error for one in found):
            return TakenOver(tuple(found), is_done=False)
        adopter.adopt(found, deadline)
    return TakenOver(tuple(found), is_done=not any(one.error for one in found))


def _refuse_running(setup: Setup, keeping: Keeping, deadline: Deadline) -> None:
    with Admin(setup.target_settings, setup.link.target) as admin:
        has_members = admin.groups.has_members(keeping.group, deadline)
    if has_members:
        raise Unsafe(
            f"MirrorMaker 2 still runs: group {keeping.group} on {setup.link.target} has members."
            " Nothing was changed. Stop it, wait until its session is over, then take over"
        )


def _ends(
    setup: Setup, positions: list[Position], deadline: Deadline, after: timedelta = timedelta()
) -> Mapping[Partition, object]:
    """Return where the mirrors end, after a while."""
    with Cluster(setup.target_settings, setup.link.target) as target:
        pause = Deadline.after(after)
        while not pause.passed:
            target.loop.turn(pause.left_s)
        found = find_ranges(target, [one.mirror for one in positions], deadline)
    return {one: it.stop if isinstance(it, range) else str(it) for one, it in found.items()}


def _refuse_moving(before: Mapping[Partition, object], after: Mapping[Partition, object]) -> None:
    """What grew since before it was read has another writer."""
    for mirror, end in before.items():
        if end != after[mirror]:
            raise Unsafe(
                f"{mirror} grows: something still writes to it. Nothing was changed. Stop"
                " MirrorMaker 2, and whoever else writes there, then take over"
            )


def _positions(setup: Setup, keeping: Keeping, deadline: Deadline) -> list[Position]:
    """Return where to look: for each partition with a stored position, or with a mirror at all.

    Positions are stored once a minute by default, so one that is absent says nothing.
    """
    link = setup.link
    with (
        Cluster(setup.source_settings, link.source) as source,
        Cluster(setup.target_settings, link.target) as target,
    ):
        progress = read_progress(_rows(target, keeping.offsets_topic, deadline), keeping.source)
        holder = target if keeping.is_on_target else source
        syncs = read_syncs(_rows(holder, keeping.syncs_topic, deadline))
        chosen = set(select({one.topic for one in progress}, link.topics, link.exclude))
        names = name_mirrors(chosen, setup.mirror_rules)[0]
        mirrors = {
            one: Partition(names[one.topic], one.partition)
            for one in progress
            if one.topic in names
        }
        mirrors |= _mirrored(setup, deadline)
        starts = find_ranges(source, mirrors, deadline)
        firsts = find_ranges(target, mirrors.values(), deadline)
    found = (
        _position(one, mirror, progress.get(one), syncs.get(one), starts[one], firsts[mirror])
        for one, mirror in sorted(mirrors.items())
    )
    return [one for one in found if one is not None]


def _mirrored(setup: Setup, deadline: Deadline) -> dict[Partition, Partition]:
    """Return the partitions that the link selects and whose mirrors are there."""
    link = setup.link
    with (
        Admin(setup.source_settings, link.source) as source,
        Admin(setup.target_settings, link.target) as target,
    ):
        topics = select(source.topics.names(deadline), link.topics, link.exclude)
        names = name_mirrors(topics, setup.mirror_rules)[0]
        mirrors = target.topics.describe(names.values(), deadline)
        there = {topic: name for topic, name in names.items() if name in mirrors}
        sources = source.topics.describe(there, deadline)
    return {
        Partition(topic, number): Partition(name, number)
        for topic, name in there.items()
        if topic in sources
        for number in sources[topic].partitions.keys() & mirrors[name].partitions.keys()
    }


def _position(
    one: Partition,
    mirror: Partition,
    last: int | None,
    sync: tuple[int, int] | None,
    begin: range | HeliographError,
    first: range | HeliographError,
) -> Position | None:
    """Return where to look, or None where there is nothing to take over."""
    if isinstance(begin, TopicMissing) or isinstance(first, TopicMissing):
        return None  # deleted long ago: positions are kept for ever
    if last is None and isinstance(first, range) and first.stop == 0:
        return None  # it never held a record
    anchors = [sync] if sync is not None else []
    if isinstance(begin, range) and isinstance(first, range):
        whole = (begin.start, first.start)
        anchors = [whole, *anchors] if len(first) <= LOOK_BACK else [*anchors, whole]
    return Position(one, mirror, last, tuple(anchors))


def _rows(cluster: Cluster, topic: str, deadline: Deadline) -> Mapping[bytes, bytes]:
    """Return the rows of a topic of MirrorMaker's; none if it is absent."""
    try:
        return Table(cluster, topic, read_committed=True).load(deadline)
    except TopicMissing:
        return {}
