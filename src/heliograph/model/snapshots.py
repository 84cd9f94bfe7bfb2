"""Snapshots: where groups were on a target before something was changed there.

Pure. Rows of the state topic: ``snapshot/<id>`` says what it is, ``snapshot/<id>/<n>`` holds one
group each, so that no row is huge. The first is put last: a snapshot is whole, or is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from heliograph.model.checkpoints import partition_of, place_key
from heliograph.model.control import Rows, read_passing, row
from heliograph.model.groups import Committed
from heliograph.model.topics import Partition

KEPT = 20
"""How many snapshots of a link are kept."""
_SNAPSHOT = b"snapshot/"
_NAMED = 10


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot is: who took it, when, before which verb, and of how many groups.

    ``id`` is its time, so that ids sort and can be typed. ``unread`` counts groups that could not
    be read, so it does not hold them; ``unread_names`` are the first few.
    """

    id: str
    at_ms: int
    by: str
    why: str
    groups: int
    unread: int = 0
    unread_names: tuple[str, ...] = ()

    def without(self, unread: Iterable[str]) -> Snapshot:
        """Return it saying which groups it does not hold, since they could not be read."""
        names = sorted(unread)
        return replace(self, unread=len(names), unread_names=tuple(names[:_NAMED]))


@dataclass(frozen=True, slots=True)
class Saved:
    """One group of a snapshot; offsets are by mirror partition, written as ``topic/partition``."""

    group: str
    offsets: Mapping[str, Committed]


def name_ms(rows: Rows, now_ms: int) -> int:
    """Return the time to name a snapshot by: now, but after the newest there is.

    The clock here may be behind the one that named that, and the newest is what a rollback takes.
    """
    newest = next(iter(read_snapshots(rows)), None)
    return max(now_ms, newest.at_ms + 1) if newest is not None else now_ms


def snapshot_rows(
    taken: Snapshot, groups: Mapping[str, Mapping[Partition, Committed]]
) -> dict[bytes, bytes | None]:
    """Return the rows of a snapshot, in the order to put them in."""
    rows: dict[bytes, bytes | None] = {}
    for number, (group, offsets) in enumerate(sorted(groups.items())):
        saved = Saved(group, {place_key(one): at for one, at in offsets.items()})
        rows[_key(taken.id) + b"/%d" % number] = row(saved)
    return rows | {_key(taken.id): row(taken)}


def read_snapshots(rows: Rows) -> list[Snapshot]:
    """Return all snapshots, the newest first."""
    keys = [key for key in rows if key.startswith(_SNAPSHOT) and key.count(b"/") == 1]
    found = [read_passing(rows, key, Snapshot) for key in keys]
    return sorted((one for one in found if one), key=lambda one: one.id, reverse=True)


def read_saved(rows: Rows, taken: Snapshot) -> dict[str, dict[Partition, Committed]] | None:
    """Return the groups of a snapshot; None if a row of it is missing."""
    found: dict[str, dict[Partition, Committed]] = {}
    for number in range(taken.groups):
        saved = read_passing(rows, _key(taken.id) + b"/%d" % number, Saved)
        if saved is None:
            return None
        found[saved.group] = {partition_of(key): at for key, at in saved.offsets.items()}
    return found


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
