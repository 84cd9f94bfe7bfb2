"""Walking: learn from both logs what another tool copied, which copied some records twice.

Pure. A tool without exactly-once begins again where it last wrote down its position, so a mirror
of its own is the source's records in order, with steps back. Records are compared as in ``match``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from heliograph.errors import Diverged
from heliograph.kafka.dense import Slice
from heliograph.model.runs import Run, Runs
from heliograph.model.topics import Partition


@dataclass(slots=True)
class Walked:
    """What a mirror holds of its source.

    ``runs`` are the first copies. ``source_next`` is the first source offset that was never
    copied; ``doubled`` are mirror offsets of records that were copied before. ``is_certain`` says
    that ``source_next`` cannot be another because records are alike, if the walk began with the
    copies of one record; ``is_alone`` that no other record of the source is like the last copied.
    """

    runs: Runs = field(default_factory=Runs)
    source_next: int = -1
    doubled: list[int] = field(default_factory=list)
    is_certain: bool = True
    is_alone: bool = True


def walk(
    partition: Partition,
    mirror: Sequence[Slice],
    source: Sequence[Slice],
    *,
    with_times: bool = True,
) -> Walked:
    """Walk along a mirror, from a record that is a copy of the first of ``source``.

    A record that is neither the next one, nor one that was copied before, raises Diverged.
    ``with_times`` is False where the mirror's broker stamped records with its own time.
    """
    walked = Walked(source_next=source[0][1] if source else -1)
    keys = [_key(one, with_times) for one in source]
    places: dict[object, list[int]] = {}
    at, back = 0, -1
    for ours in mirror:
        key = _key(ours, with_times)
        copied = places.get(key, [])
        if back >= 0 and keys[back] == key:
            is_double, step = True, back
        elif at < len(keys) and keys[at] == key:
            is_double, step = False, at
        elif copied:
            is_double, step = True, copied[-1]
        else:
            raise _foreign(partition, ours, source[at][1] if at < len(source) else None)
        if copied and at < len(keys) and keys[at] == key:
            walked.is_certain = False  # a copy of the next one, or of one before
        elif not is_double:
            # Never seen before: all records up to this one were copied, however they were taken.
            walked.is_certain = True
        if is_double:
            walked.doubled.append(ours[1])
            back = step + 1 if step + 1 < at else -1
        else:
            walked.runs.add(Run(source[at][1], ours[1], 1))
            places.setdefault(key, []).append(at)
            at, back = at + 1, -1
            walked.source_next = source[at - 1][1] + 1
    walked.is_alone = at == 0 or keys.count(keys[at - 1]) == 1
    return walked


def meet(
    mirror: Sequence[Slice], source: Sequence[Slice], *, with_times: bool = True
) -> tuple[int, int] | None:
    """Return the source and the target offset of one record, where one log begins in the other.

    The source's first records may be gone by now, or were never copied. None where the logs have no
    such record, or where it could be one of several.
    """
    if not mirror or not source:
        return None
    first = _key(mirror[0], with_times)
    if places := [one[1] for one in source if _key(one, with_times) == first]:
        return (places[0], mirror[0][1]) if len(places) == 1 else None
    if source[0][1] == 0:
        return None  # nothing is gone: what the mirror begins with was never in the source
    first = _key(source[0], with_times)
    copies = [one[1] for one in mirror if _key(one, with_times) == first]
    return (source[0][1], copies[0]) if copies else None


def identity(one: Slice) -> tuple[int, bytes]:
    """Return by what a record is known again: its time, and its bytes."""
    return one[0], bytes(one[3])


def _key(one: Slice, with_times: bool) -> object:
    return identity(one) if with_times else bytes(one[3])


def _foreign(partition: Partition, ours: Slice, expected: int | None) -> Diverged:
    wanted = "the end of the source" if expected is None else f"source offset {expected}"
    return Diverged(
        f"{partition}: the mirror's record at offset {ours[1]} is no copy of {wanted}, nor of any"
        " record copied before it. Something else wrote it, or the source lost records. Nothing"
        " was changed",
        source_offset=expected,
        target_offset=ours[1],
    )
