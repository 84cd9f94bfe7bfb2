"""A source and its mirror in memory, correct when made, and wrong in one way at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.checker.journal import Account
from tests.checker.judge import Case, judge
from tests.checker.ledger import Gap, Ledger
from tests.checker.pairs import Pairs
from tests.checker.reading import CREATE_TIME, Seen
from tests.checker.resolve import Finding
from tests.checker.walk import Bounds, Sourced, Walked


def seen(value: bytes | None, **fields: Any) -> Seen:
    return Seen(b"key", value, CREATE_TIME, 1_000, ())._replace(**fields)


@dataclass(frozen=True)
class Image:
    """A record on the mirror; ``source`` is the offset that the ledger gives it, if any."""

    seen: Seen
    source: int | None


@dataclass
class World:
    """``images`` by target offset, None is a marker; the last ``unrecorded`` have no run yet."""

    source: list[Sourced]
    images: list[Image | None]
    unrecorded: int = 0
    source_end: int | None = None
    source_start: int = 0
    mirror_start: int = 0
    is_compacted: bool = False
    gaps: list[Gap] = field(default_factory=list)
    ledger: Ledger | None = None
    hidden: set[int] = field(default_factory=set)
    """Target offsets that readers of committed records do not see."""

    def recorded(self) -> Ledger:
        """Return a ledger that is as true as the images are."""
        runs, target_next = Pairs(), len(self.images) - self.unrecorded
        for target, image in enumerate(self.images[:target_next]):
            if image is not None and image.source is not None:
                runs.add(image.source, target)
        left = (image.source for image in self.images[target_next:] if image is not None)
        source_next = next((source for source in left if source is not None), self._source_end)
        return Ledger(source_next, target_next, runs, sorted(self.gaps))

    def find(self, **more: Any) -> tuple[Walked, list[Finding]]:
        bounds = Bounds(
            (self.source_start, self._source_end),
            (self.mirror_start, len(self.images)),
            self.is_compacted,
        )
        ledger = self.ledger or self.recorded()
        readable = [record for record in self.source if record.offset >= self.source_start]
        case = Case(ledger, bounds, lambda: iter(readable), self._mirror, Account())
        return judge(replace(case, **more))

    def names(self, **more: Any) -> set[str]:
        return {str(finding.name) for finding in self.find(**more)[1]}

    @property
    def _source_end(self) -> int:
        if self.source_end is not None:
            return self.source_end
        return self.source[-1].offset + 1 if self.source else 0

    def _mirror(self, committed: bool) -> Iterator[tuple[int, Seen]]:
        for target, image in enumerate(self.images):
            is_hidden = committed and target in self.hidden
            if image is not None and target >= self.mirror_start and not is_hidden:
                yield target, image.seen


def make(chance: random.Random, records: int = 40, *, alike: float = 0.3) -> World:
    """Return a source with aborted records, markers and records that are alike, and its mirror."""
    source: list[Sourced] = []
    images: list[Image | None] = []
    offset = 0
    for number in range(records):
        value = b"alike" if chance.random() < alike else b"%d" % number
        is_committed = chance.random() < 0.8
        source.append(Sourced(offset, seen(value), is_committed))
        if is_committed:
            images.append(Image(seen(value), offset))
        offset += chance.choice([1, 1, 1, 2, 5])
        images += [None] * chance.choice([0, 0, 0, 1])
    return World(source, images, unrecorded=chance.choice([0, 0, chance.randrange(10)]))


def unique(records: int = 10) -> World:
    """Return a plain world: records that differ, offsets that are the same on both sides."""
    source = [Sourced(offset, seen(b"%d" % offset)) for offset in range(records)]
    return World(source, [Image(record.seen, record.offset) for record in source])
