"""Snapshots: where groups were on a target before something was changed there.

Pure. Rows of the state topic: ``snapshot/<id>`` says what it is, ``snapshot/<id>/<n>`` holds one
group each, ``snapshot/<id>/mirrors/<n>`` some mirrors, so that no row is huge. The first is put
last: a snapshot is whole, or is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from heliograph.model.checkpoints import partition_of, place_key
from heliograph.model.control import Rows, read_passing, row
from heliograph.model.findings import counted
from heliograph.model.groups import Committed
from heliograph.model.topics import Partition

KEPT = 20
"""How many snapshots of a link are kept."""
_SNAPSHOT = b"snapshot/"
_NAMED = 10
_MIRRORS_A_ROW = 200


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot is: who took it, when, before which verb, and of how many groups.

    ``id`` is its time, so that ids sort and can be typed. ``unread`` counts groups that could not
    be read, so it does not hold them; ``unread_names`` are the first few. ``mirror_rows`` counts
    the rows of mirrors; an earlier version put none.
    """

    id: str
    at_ms: int
    by: str
    why: str
    groups: int
    unread: int = 0
    unread_names: tuple[str, ...] = ()
    mirror_rows: int | None = None

    def without(self, unread: Iterable[str]) -> Snapshot:
        """Return it saying which groups it does not hold, since they could not be read."""
        names = sorted(unread)
        return replace(self, unread=len(names), unread_names=tuple(names[:_NAMED]))

    @property
    def lacks(self) -> str:
        """What it does not hold and should, in words; empty where it holds everything.

        >>> Snapshot("id", 0, "me", "reset", 3).without(["billing"]).lacks
        '1 group could not be read, and is not in the snapshot: billing'
        """
        if not self.unread:
            return ""
        more = self.unread - len(self.unread_names)
        names = ", ".join(self.unread_names) + (f" and {more} more" if more else "")
        verb = "is" if self.unread == 1 else "are"
        count = counted(self.unread, "group")
        return f"{count} could not be read, and {verb} not in the snapshot: {names}"


@dataclass(frozen=True, slots=True)
class Saved:
    """One group of a snapshot; offsets are by mirror partition, written as ``topic/partition``."""

    group: str
    offsets: Mapping[str, Committed]


class Mirror(NamedTuple):
    """A mirror at a moment: offsets mean something only in the same topic, as far as it went."""

    topic_id: str
    partitions: int


Mirrors = Mapping[str, Mirror]
"""Mirrors by name."""


@dataclass(frozen=True, slots=True)
class SomeMirrors:
    """Some of the mirrors that were there when a snapshot was taken."""

    mirrors: Mirrors


@dataclass(frozen=True, slots=True)
class Held:
    """What a snapshot holds: offsets by group, and mirrors, None where it does not say."""

    groups: Mapping[str, Mapping[Partition, Committed]]
    mirrors: Mirrors | None = None

    def is_about(self, one: Partition, now: Mirrors) -> bool:
        """Claim: it knows where groups were in a partition, and that is of the same topic now.

        >>> held, now = Held({}, {"orders": Mirror("a", 2)}), {"orders": Mirror("a", 3)}
        >>> [held.is_about(Partition("orders", number), now) for number in (1, 2)]
        [True, False]
        >>> held.is_about(Partition("orders", 1), {"orders": Mirror("b", 2)})
        False
        """
        if self.mirrors is None:
            return True
        was, here = self.mirrors.get(one.topic), now.get(one.topic)
        if was is None or here is None or was.topic_id != here.topic_id:
            return False
        return one.partition < was.partitions


def name_ms(rows: Rows, now_ms: int) -> int:
    """Return the time to name a snapshot by: now, but after the newest there is.

    The clock here may be behind the one that named that, and the newest is what a rollback takes.
    """
    newest = next(iter(read_snapshots(rows)), None)
    return max(now_ms, newest.at_ms + 1) if newest is not None else now_ms


def snapshot_rows(
    taken: Snapshot, groups: Mapping[str, Mapping[Partition, Committed]], mirrors: Mirrors
) -> dict[bytes, bytes | None]:
    """Return the rows of a snapshot, in the order to put them in.

    ``mirrors`` are all that were looked at, also those that no group has an offset on.
    """
    rows: dict[bytes, bytes | None] = {}
    for number, (group, offsets) in enumerate(sorted(groups.items())):
        saved = Saved(group, {place_key(one): at for one, at in offsets.items()})
        rows[_key(taken.id) + b"/%d" % number] = row(saved)
    names = sorted(mirrors)
    parts = [names[at : at + _MIRRORS_A_ROW] for at in range(0, len(names), _MIRRORS_A_ROW)]
    for number, part in enumerate(parts):
        some = SomeMirrors({name: mirrors[name] for name in part})
        rows[_mirrors_key(taken.id, number)] = row(some)
    return rows | {_key(taken.id): row(replace(taken, mirror_rows=len(parts)))}


def read_snapshots(rows: Rows) -> list[Snapshot]:
    """Return all snapshots, the newest first."""
    keys = [key for key in rows if key.startswith(_SNAPSHOT) and key.count(b"/") == 1]
    found = [read_passing(rows, key, Snapshot) for key in keys]
    return sorted((one for one in found if one), key=lambda one: one.id, reverse=True)


def read_saved(rows: Rows, taken: Snapshot) -> Held | None:
    """Return what a snapshot holds; None if a row of it is missing."""
    groups: dict[str, dict[Partition, Committed]] = {}
    for number in range(taken.groups):
        saved = read_passing(rows, _key(taken.id) + b"/%d" % number, Saved)
        if saved is None:
            return None
        groups[saved.group] = {partition_of(key): at for key, at in saved.offsets.items()}
    if taken.mirror_rows is None:
        return Held(groups)
    mirrors: dict[str, Mirror] = {}
    for number in range(taken.mirror_rows):
        some = read_passing(rows, _mirrors_key(taken.id, number), SomeMirrors)
        if some is None:
            return None
        mirrors |= some.mirrors
    return Held(groups, mirrors)


def expired_rows(rows: Rows, keep: int = KEPT) -> dict[bytes, bytes | None]:
    """Return what removes all snapshots but the newest, and what is left of halves."""
    kept = {_key(one.id) for one in read_snapshots(rows)[:keep]}
    return {
        key: None
        for key in rows
        if key.startswith(_SNAPSHOT) and b"/".join(key.split(b"/")[:2]) not in kept
    }


def _key(name: str) -> bytes:
    return _SNAPSHOT + name.encode()


def _mirrors_key(name: str, number: int) -> bytes:
    return _key(name) + b"/mirrors/%d" % number
