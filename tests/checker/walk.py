"""The merge walk: both sides of a partition once, in the order of their offsets.

Pure: iterators in, findings out. The ledger says where each image should stand; beyond the
ledger's end the n-th record goes with the n-th image. So records that are all alike cannot be
mixed up. What stands where it should is counted and forgotten; only what does not is kept, for
``resolve`` to explain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tests.checker.digests import of_record
from tests.checker.ledger import Ledger
from tests.checker.pairs import Pairs, Span
from tests.checker.reading import CREATE_TIME, Seen

MOST_KEPT = 100_000
UNKNOWN = -1
"""The digest of what nobody remembers."""


class Sourced(NamedTuple):
    """A source record. One that is not committed was aborted, or its transaction is open."""

    offset: int
    seen: Seen
    is_committed: bool = True


class Missing(NamedTuple):
    """A committed source record whose image is not at ``target``, where it should be.

    Without ``target`` the ledger knows of no image.
    """

    source: int
    target: int | None
    digest: int


class Stray(NamedTuple):
    """An image that is not that of ``source``, whose image should stand there."""

    target: int
    source: int | None
    digest: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets that stand on either side, half-open; the source's may be compacted."""

    source: Span
    target: Span
    is_compacted: bool = False


@dataclass(slots=True)
class Walked:
    """What a walk found. ``backed`` are the pairs that both logs bear out, as far as they can.

    ``named_by_gap`` are committed source records that a gap of the ledger names.
    """

    backed: Pairs = field(default_factory=Pairs)
    missing: list[Missing] = field(default_factory=list)
    strays: list[Stray] = field(default_factory=list)
    named_by_gap: list[int] = field(default_factory=list)
    equal: int = 0
    unverified: int = 0
    not_copied: int = 0
    first_not_copied: int | None = None
    has_source_holes: bool = False
    stopped_at: int | None = None


Remember = Callable[[int, Seen], bool | None]
"""Whether this was written at that source offset, if anybody but the source knows."""


def image_of(seen: Seen) -> Seen:
    """Return what the mirror must show: the append time, too, becomes the create time."""
    if seen.timestamp_type == CREATE_TIME:
        return seen
    return seen._replace(timestamp_type=CREATE_TIME)


class Walk:
    """One walk along one partition; keeps only what does not stand where it should."""

    def __init__(self, ledger: Ledger, bounds: Bounds, remember: Remember | None = None) -> None:
        self._ledger = ledger
        self._bounds = bounds
        self._remember = remember
        self._floor = first_kept(ledger, bounds)
        self._restart = ledger.restart_target
        self._found = Walked()

    def run(self, source: Iterator[Sourced], mirror: Iterator[tuple[int, Seen]]) -> Walked:
        """Walk to both ends, or until too much is wrong to keep it all."""
        found = self._found
        record, image = next(source, None), next(mirror, None)
        while record is not None or image is not None:
            takes_record, takes_image = self._step(record, image)
            if takes_record and record is not None:
                last, record = record, next(source, None)
                if record is not None and record.offset != last.offset + 1:
                    found.has_source_holes = True
            if takes_image:
                image = next(mirror, None)
            if len(found.missing) + len(found.strays) > MOST_KEPT:
                found.stopped_at = record.offset if record is not None else self._bounds.source[1]
                break
        return found

    def _step(self, record: Sourced | None, image: tuple[int, Seen] | None) -> tuple[bool, bool]:
        """Deal with one record, one image, or both; say which."""
        if record is None:
            assert image is not None
            self._stray(*image)
            return False, True
        if record.offset < self._ledger.source_next:
            return self._by_ledger(record, image)
        return self._by_order(record, image)

    def _by_ledger(self, record: Sourced, image: tuple[int, Seen] | None) -> tuple[bool, bool]:
        target = self._ledger.runs.target_of(record.offset)
        if target is None:
            self._unplaced(record)
            return True, False
        if target < self._bounds.target[0]:
            return True, False  # the mirror's retention has passed it
        if image is None or target < image[0]:
            self._miss(record, target)
            return True, False
        if target > image[0]:
            self._stray(*image)
            return False, True
        self._compare(record, *image)
        return True, True

    def _by_order(self, record: Sourced, image: tuple[int, Seen] | None) -> tuple[bool, bool]:
        if image is None:
            self._leave(record)
            return True, False
        if image[0] < self._ledger.target_next:
            self._stray(*image)
            return False, True
        if not record.is_committed:
            return True, False
        self._compare(record, *image)
        return True, True

    def _compare(self, record: Sourced, target: int, seen: Seen) -> None:
        if record.is_committed and image_of(record.seen) == seen:
            self._found.backed.add(record.offset, target)
            self._found.equal += 1
            return
        self._miss(record, target)
        self._found.strays.append(Stray(target, record.offset, of_record(seen)))

    def _miss(self, record: Sourced, target: int | None) -> None:
        if record.is_committed:
            digest = of_record(image_of(record.seen))
            self._found.missing.append(Missing(record.offset, target, digest))

    def _unplaced(self, record: Sourced) -> None:
        """Deal with a record that no run holds."""
        if not record.is_committed or record.offset < self._floor:
            return
        if self._ledger.gap_at(record.offset) is not None:
            self._found.named_by_gap.append(record.offset)
        else:
            self._miss(record, None)

    def _stray(self, target: int, seen: Seen) -> None:
        """Deal with an image that no source record claims."""
        if target < self._restart:
            self._found.unverified += 1  # an image of the topic that was there before
            return
        source = self._ledger.runs.source_of(target)
        if source is None or not self._is_gone(source, target):
            self._found.strays.append(Stray(target, source, of_record(seen)))
            return
        verdict = self._remember(source, seen) if self._remember is not None else None
        if verdict is False:
            self._found.missing.append(Missing(source, target, UNKNOWN))
            self._found.strays.append(Stray(target, source, of_record(seen)))
            return
        self._found.backed.add(source, target)
        self._found.equal += verdict is True
        self._found.unverified += verdict is None

    def _is_gone(self, source: int, target: int) -> bool:
        """Claim: a source record can have stood there, and cannot be asked for any more."""
        if source >= self._ledger.source_next or target >= self._ledger.target_next:
            return False
        start, end = self._bounds.source
        return source < start or (self._bounds.is_compacted and source < end)

    def _leave(self, record: Sourced) -> None:
        """Deal with a record behind the mirror's end: not copied yet, or copied out of place."""
        found = self._found
        if not record.is_committed:
            return
        if found.strays and of_record(image_of(record.seen)) in self._stray_digests:
            self._miss(record, None)
            return
        if found.first_not_copied is None:
            found.first_not_copied = record.offset
        found.not_copied += 1

    @cached_property
    def _stray_digests(self) -> set[int]:
        # Asked for behind the mirror's end, when there can be no more of them.
        return {stray.digest for stray in self._found.strays}


def first_kept(ledger: Ledger, bounds: Bounds) -> int:
    """Return the first source offset whose image the mirror's retention has not passed."""
    start = bounds.target[0]
    if start == 0:
        return 0
    for run in ledger.runs:
        if run.target + run.length > start:
            return run.source + max(0, start - run.target)
    return ledger.source_next
