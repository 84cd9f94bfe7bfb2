"""Changes of groups' offsets that people ask for: reset, and rollback to a snapshot. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from heliograph.model.groups import Committed, GroupListing
from heliograph.model.topics import Partition

Offsets = Mapping[Partition, Committed]


@dataclass(frozen=True, slots=True)
class Change:
    """One offset of a group: None is none at all."""

    group: str
    partition: Partition
    before: int | None
    after: Committed | None


def reset_changes(
    groups: Iterable[str], now: Mapping[str, Offsets], wanted: Mapping[Partition, int]
) -> list[Change]:
    """Return what brings every group to the same offsets; what is there already is left out.

    >>> orders = Partition("orders", 0)
    >>> reset_changes(["a"], {"a": {orders: Committed(5)}}, {orders: 0})[0].before
    5
    """
    found = []
    for group in sorted(groups):
        for one, offset in sorted(wanted.items()):
            before = now.get(group, {}).get(one)
            if before is None or before.offset != offset:
                at = before.offset if before else None
                found.append(Change(group, one, at, Committed(offset)))
    return found


def rollback_changes(now: Mapping[str, Offsets], then: Mapping[str, Offsets]) -> list[Change]:
    """Return what brings groups back to where they were; offsets that were not there go.

    Groups that nothing is known of then stay where they are: whoever could not be read was
    somewhere, and whoever came since has nowhere to go back to.
    """
    found = []
    for group, there in sorted(then.items()):
        here = now.get(group, {})
        for one in sorted(here.keys() | there.keys()):
            before, after = here.get(one), there.get(one)
            if _without_epoch(before) != _without_epoch(after):
                found.append(Change(group, one, before.offset if before else None, after))
    return found


def active_groups(changes: Iterable[Change], listed: Mapping[str, GroupListing]) -> list[str]:
    """Return the groups that would be changed although somebody is in them."""
    groups = sorted({one.group for one in changes})
    return [group for group in groups if group in listed and listed[group].is_active]


def within(offset: int, log: range) -> int:
    """Return the nearest offset that a log holds, or its end.

    >>> within(5, range(10, 20)), within(15, range(10, 20)), within(99, range(10, 20))
    (10, 15, 20)
    """
    return min(max(offset, log.start), log.stop)


def on(offsets: Offsets, partitions: Collection[Partition]) -> dict[Partition, Committed]:
    """Return the offsets of some partitions."""
    return {one: at for one, at in offsets.items() if one in partitions}


def _without_epoch(at: Committed | None) -> tuple[int, str] | None:
    return (at.offset, at.metadata) if at else None
