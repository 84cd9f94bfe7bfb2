"""Taking over from a tool that kept its position as a consumer group on the source. It blocks.

MirrorMaker 1 commits now and then, so records behind the committed offset may be on the target
already, in any partition: it deals records out anew. They are looked for by time and content.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from datetime import timedelta

from heliograph.control.adopting import Adopter, Adoption, Position
from heliograph.copy.finding import find_ranges
from heliograph.copy.walking import Walked, identity
from heliograph.errors import HeliographError, Unsafe
from heliograph.kafka.admin import Admin
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.dense import Slice
from heliograph.kafka.offsets import list_offsets
from heliograph.links.setup import Setup
from heliograph.model.groups import Committed
from heliograph.model.mirrors import replaces_times
from heliograph.model.selection import mirror_name
from heliograph.model.topics import Partition

LIMIT = timedelta(seconds=120)
_LOOK_BACK = 1_000
LOOK_AHEAD = 50_000
"""How many records behind the committed offset of a partition are looked for on the target."""


def take_over_group(
    setup: Setup, group: str, committed: Mapping[Partition, Committed]
) -> list[Adoption]:
    """Write down that everything below the group's offsets, and what is found behind, is copied.

    Raises Unsafe, and changes nothing, where the group still has members or where it is not
    certain what was copied.
    """
    deadline = Deadline.after(LIMIT)
    _refuse_members(setup, group, deadline)
    link = setup.link
    positions = [
        Position(
            one, Partition(mirror_name(link.naming, link.source, one.topic), one.partition), -1, ()
        )
        for one in committed
    ]
    with closing(Adopter(setup)) as adopter:
        found = adopter.begin(positions, deadline)
        todo = [one for one in found if not one.is_known]
        _find_ends(adopter, todo, deadline)
        _find_next(adopter, todo, {one: at.offset for one, at in committed.items()}, deadline)
        adopter.adopt(todo, deadline)
    for one in todo:
        if one.error is not None:
            raise one.error
    return found


def _refuse_members(setup: Setup, group: str, deadline: Deadline) -> None:
    with Admin(setup.source_settings, setup.link.source) as admin:
        has_members = admin.groups.has_members(group, deadline)
    if has_members:
        raise Unsafe(
            f"MirrorMaker still runs: the group {group} has members on the source. Nothing was"
            " changed. Stop it, wait until its session is over, then start this"
        )


def _find_ends(adopter: Adopter, todo: list[Adoption], deadline: Deadline) -> None:
    view = adopter.ends.target.view
    for one in todo:
        if view.find(one.position.mirror) is None:
            raise Unsafe(
                f"{one.position.mirror} is not on the target, but MirrorMaker copied"
                f" {one.position.source}. Nothing was changed. Create the topic, or give it as many"
                " partitions as the source has, then start this again"
            )
    ranges = find_ranges(adopter.ends.target, [one.position.mirror for one in todo], deadline)
    for one in todo:
        range_ = ranges[one.position.mirror]
        if isinstance(range_, HeliographError):
            raise range_
        one.mirror_end = range_.stop


def _find_next(
    adopter: Adopter, todo: list[Adoption], starts: Mapping[Partition, int], deadline: Deadline
) -> None:
    """Find the first record of each partition that is not on the target."""
    wanted = {one.position.source: max(starts[one.position.source] - _LOOK_BACK, 0) for one in todo}
    needed = dict.fromkeys(wanted, LOOK_AHEAD + _LOOK_BACK)
    sources, failed = adopter.read(
        adopter.ends.source, wanted, needed, deadline, read_committed=False
    )
    for failure in failed.values():
        raise failure
    _refuse_append_time(adopter, {one.position.mirror.topic for one in todo}, deadline)
    for topic in {one.position.mirror.topic for one in todo}:
        some = [one for one in todo if one.position.mirror.topic == topic]
        waiting = [record for one in some for record in sources[one.position.source]]
        there = _copies(adopter, topic, min((one[0] for one in waiting), default=0), deadline)
        for one in some:
            _judge(one, sources[one.position.source], there, starts[one.position.source])


def _copies(
    adopter: Adopter, topic: str, since_ms: int, deadline: Deadline
) -> set[tuple[int, bytes]]:
    """Return what a topic of the target holds since a time."""
    target = adopter.ends.target
    partitions = [Partition(topic, number) for number in target.view.topics[topic].partitions]
    found = list_offsets(target, dict.fromkeys(partitions, max(since_ms, 0)), deadline)
    starts = {one: offset for one, offset in found.items() if offset >= 0}
    records, failed = adopter.read(target, starts, {}, deadline)
    for failure in failed.values():
        raise failure
    return {identity(record) for some in records.values() for record in some}


def _refuse_append_time(adopter: Adopter, topics: Collection[str], deadline: Deadline) -> None:
    with Admin(adopter.ends.target.settings, adopter.ends.target.name) as admin:
        found = admin.configs.of_topics(topics, deadline)
    for topic, entries in found.items():
        if replaces_times(entries):
            raise Unsafe(
                f"{topic} on the target has message.timestamp.type=LogAppendTime: copies do not"
                " have the times of their originals, so they cannot be told. Nothing was changed"
            )


def _judge(one: Adoption, records: list[Slice], there: set[tuple[int, bytes]], start: int) -> None:
    before = {identity(record) for record in records if record[1] < start}
    records = [record for record in records if record[1] >= start]
    are_there = [identity(record) in there for record in records]
    count = are_there.index(False) if False in are_there else len(are_there)
    is_alike = any(identity(record) in before for record in records[:count])
    if any(are_there[count:]) or is_alike or LOOK_AHEAD < count == len(records):
        raise Unsafe(
            f"{one.position.source}: records behind the committed offset {start} are on the target,"
            " and where MirrorMaker stopped cannot be told: some are missing between them, some are"
            " alike, or there are too many. Nothing was changed. Let MirrorMaker run again and stop"
            " it with SIGTERM: it commits then"
        )
    one.walked = Walked(source_next=records[count - 1][1] + 1 if count else start)
