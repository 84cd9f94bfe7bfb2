"""Stillness: nobody may write to a topic that is about to become a mirror."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from heliograph.copy.finding import find_offsets, look_at
from heliograph.errors import HeliographError, Unsafe
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import LATEST
from heliograph.model.topics import Partition
from heliograph.recovery.command import LOOK_TIMEOUT, Command

WATCH = timedelta(seconds=2)
_NAMED = 5


def moving(cluster: Cluster, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Return the partitions whose ends move while they are watched, and by how much.

    One that is not there, or does not answer, does not move: whoever needs it is told.
    """
    look_at(cluster, {one.topic for one in partitions}, Deadline.after(LOOK_TIMEOUT))
    there = [one for one in partitions if cluster.view.find(one) is not None]
    if not there:
        return {}
    before = _ends(cluster, there)
    _pause(cluster)
    after = _ends(cluster, there)
    return {
        one: end - before[one] for one, end in after.items() if one in before and end > before[one]
    }


def _pause(cluster: Cluster) -> None:
    pause = Deadline.after(WATCH)
    while not pause.passed:
        cluster.loop.turn(pause.left_s)


def _ends(cluster: Cluster, partitions: Sequence[Partition]) -> dict[Partition, int]:
    deadline = Deadline.after(LOOK_TIMEOUT)
    found = find_offsets(cluster, dict.fromkeys(partitions, LATEST), deadline)
    return {one: end for one, end in found.items() if isinstance(end, int)}


def refuse_moving(command: Command, found: Mapping[Partition, int]) -> None:
    """Raise where somebody still writes to the old source; say who, as far as brokers tell."""
    if found:
        named = ", ".join(f"{one} (+{count})" for one, count in sorted(found.items())[:_NAMED])
        raise Unsafe(
            f"somebody still writes to {command.setup.link.source}: within {WATCH.seconds} s,"
            f" {named} grew{_writers(command, found)}. What they write would be on neither side."
            " Stop those producers, or point them at the other cluster, and do this again"
        )


def _writers(command: Command, found: Mapping[Partition, int]) -> str:
    """Return who writes while it is watched once more: no clock of theirs need agree with ours.

    Brokers know ids of producers, and only of idempotent ones.
    """
    try:
        with Admin(command.source.settings, command.source.name) as admin:
            before = _last_written(admin, found)
            _pause(command.source)
            after = _last_written(admin, found)
    except HeliographError:
        return ""
    ids = sorted({producer for (_, producer), _ in after.items() - before.items()})
    return f" (producer ids {', '.join(map(str, ids[:_NAMED]))})" if ids else ""


def _last_written(
    admin: Admin, partitions: Collection[Partition]
) -> dict[tuple[Partition, int], tuple[int, int]]:
    """Return what each producer wrote last, by partition and producer id."""
    known = admin.logs.producers(list(partitions), Deadline.after(LOOK_TIMEOUT))
    return {
        (place, one.producer_id): (one.epoch, one.last_sequence)
        for place, some in known.items()
        for one in some
    }
