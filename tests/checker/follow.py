"""Follows a mirror through a whole test, as its readers do: it must be a prefix of the source.

    with following(source, target, {"orders": "orders"}) as followers:
        ...  # break things, and mend them
        followers.healed()
        followers.catch_up(within_s=90)
    assert followers.anomalies == []

One thread an isolation level. The n-th image must be the n-th committed source record, at every
moment: nothing may be missing before it, repeated, out of order or different. Start it while both
sides still have all their records.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.checker.anomalies import Anomaly, Name
from tests.checker.pairs import one
from tests.checker.reading import ISOLATIONS, Settings
from tests.checker.tail import Arrived, Place, Tail

STUCK_S = 60.0
_RECENT = 20_000
_TURN_S = 0.1
_LAST_S = 20.0


@dataclass(slots=True)
class _Followed:
    """One partition: what waits for its image, what waits for its source record."""

    records: deque[Arrived] = field(default_factory=deque)
    images: deque[Arrived] = field(default_factory=deque)
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT))
    moved_s: float = 0.0
    is_broken: bool = False


class Follower(threading.Thread):
    """Follows mirrors from their start at one isolation level, until told to stop.

    A broker that is away is waited for: only ``stuck`` says that it takes too long, and only after
    ``healed``. The first anomaly of a partition is its last: what follows has nothing to stand on.
    With ``gaps_ok`` source records may be left out.
    """

    def __init__(
        self,
        source: Settings,
        target: Settings,
        topics: Mapping[str, str],
        *,
        committed: bool,
        stuck_s: float = STUCK_S,
        gaps_ok: bool = False,
    ) -> None:
        self.isolation = ISOLATIONS[committed]
        super().__init__(name=f"follower ({self.isolation})", daemon=True)
        self.anomalies: list[Anomaly] = []
        self.images = 0
        self._source = Tail(source, {topic: topic for topic in topics}, committed=True)
        mirrors = {mirror: topic for topic, mirror in topics.items()}
        self._mirror = Tail(target, mirrors, committed=committed)
        self._parts: dict[Place, _Followed] = defaultdict(_Followed)
        self._stuck_s = stuck_s
        self._gaps_ok = gaps_ok
        self._healed_s: float | None = None
        self._is_over = threading.Event()
        self._wanted: dict[Place, int] | None = None
        self._is_level = threading.Event()

    def healed(self) -> None:
        """Say that every fault is over: from now on all partitions must make progress."""
        self._healed_s = time.monotonic()

    def catch_up(self, within_s: float) -> None:
        """Wait until the mirror holds all that the source has now, or an anomaly ends the wait."""
        self._is_level.clear()
        self._wanted = self._source.ends()
        assert self._wanted, "no such topic on the source"
        over_s = time.monotonic() + within_s
        while not self._is_level.wait(_TURN_S):
            assert self.is_alive(), f"{self.name} died"
            if self.anomalies:
                return
            if time.monotonic() > over_s:
                left = {place: len(part.records) for place, part in list(self._parts.items())}
                raise AssertionError(f"{self.name}: after {within_s} s not copied: {left}")

    def see_mirror(self, within_s: float) -> None:
        """Wait until all that the mirror holds now was read, wherever it comes from."""
        wanted = self._mirror.ends()
        over_s = time.monotonic() + within_s
        while any(self._mirror.positions.get(place, -1) < end for place, end in wanted.items()):
            assert time.monotonic() < over_s, f"{self.name}: the mirror was not read in time"
            self._is_over.wait(_TURN_S)

    def stop(self) -> None:
        """End; an image whose source record never came is then a phantom."""
        self._is_over.set()
        self.join()

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._turn()
            self._find_phantoms()
        finally:
            self._source.close()
            self._mirror.close()

    def _turn(self) -> None:
        images = self._mirror.take(_TURN_S)
        for record in self._source.take(0 if images else _TURN_S):
            if record.trouble:
                self._find(Name.LOST, record.trouble, record=record)
            part = self._parts[record.place]
            if not part.records:
                part.moved_s = time.monotonic()  # until now there was nothing to do
            part.records.append(record)
        for image in images:
            if image.trouble:
                self._find(Name.LOST, image.trouble, image=image)
            self._parts[image.place].images.append(image)
        for part in self._parts.values():
            self._match(part)
            self._find_stuck(part)
        if self._wanted is not None and self._reached(self._wanted):
            self._is_level.set()

    def _match(self, part: _Followed) -> None:
        """Pair images with source records, in order, as far as both have arrived."""
        while part.images and part.records and not part.is_broken:
            image, record = part.images[0], part.records[0]
            if image.digest == record.digest:
                part.recent.append(record.digest)
                part.images.popleft()
                part.records.popleft()
                part.moved_s = time.monotonic()
                self.images += 1
                continue
            comes_later = any(image.digest == later.digest for later in part.records)
            if comes_later and self._gaps_ok:
                while part.records[0].digest != image.digest:
                    part.records.popleft()
            elif comes_later:
                self._find(Name.REORDERED, "earlier records are not there", image, record)
            elif image.digest in part.recent:
                self._find(Name.DUPLICATE, "this image was there before", image, record)
            else:
                self._find(Name.MISMATCH, "not the next record of the source", image, record)

    def _find_phantoms(self) -> None:
        """Read the source to its end for images that wait; what waits still, it never had."""
        if not any(part.images for part in self._parts.values()):
            return
        wanted, over_s = self._source.ends(), time.monotonic() + _LAST_S
        while not self._has_read(wanted) and time.monotonic() < over_s:
            self._turn()
        for part in self._parts.values():
            if part.images:
                self._find(Name.PHANTOM, "no source record came", image=part.images[0])

    def _find_stuck(self, part: _Followed) -> None:
        if self._healed_s is None or not part.records:
            return
        if time.monotonic() - max(self._healed_s, part.moved_s) > self._stuck_s:
            detail = f"no image for {self._stuck_s} s; {len(part.records)} records wait"
            self._find(Name.STUCK, detail, record=part.records[0])

    def _find(
        self, name: Name, detail: str, image: Arrived | None = None, record: Arrived | None = None
    ) -> None:
        """Report the first anomaly of a partition, at the offsets where it shows."""
        found = image or record
        assert found is not None
        part = self._parts[found.place]
        if part.is_broken:
            return
        part.is_broken = True
        source, target = (one(at.offset) if at else None for at in (record, image))
        told = f"{self.isolation}: {detail}"
        self.anomalies.append(Anomaly(name, *found.place, told, source, target))

    def _reached(self, wanted: Mapping[Place, int]) -> bool:
        """Claim: every source record below these offsets has its image."""
        return self._has_read(wanted) and not any(self._parts[at].records for at in wanted)

    def _has_read(self, wanted: Mapping[Place, int]) -> bool:
        return all(self._source.positions.get(place, -1) >= end for place, end in wanted.items())


@dataclass(frozen=True, slots=True)
class Followers:
    """The followers of both isolation levels, steered as one."""

    each: tuple[Follower, ...]

    @property
    def anomalies(self) -> list[Anomaly]:
        return [anomaly for follower in self.each for anomaly in follower.anomalies]

    def healed(self) -> None:
        for follower in self.each:
            follower.healed()

    def catch_up(self, within_s: float) -> None:
        over_s = time.monotonic() + within_s
        for follower in self.each:
            follower.catch_up(over_s - time.monotonic())

    def see_mirror(self, within_s: float) -> None:
        for follower in self.each:
            follower.see_mirror(within_s)


@contextmanager
def following(
    source: Settings,
    target: Settings,
    topics: Mapping[str, str],
    *,
    stuck_s: float = STUCK_S,
    gaps_ok: bool = False,
) -> Iterator[Followers]:
    """Follow mirrors, by their source topics, at both isolation levels."""
    followers = Followers(
        tuple(
            Follower(source, target, topics, committed=level, stuck_s=stuck_s, gaps_ok=gaps_ok)
            for level in (False, True)
        )
    )
    for follower in followers.each:
        follower.start()
    try:
        yield followers
    finally:
        for follower in followers.each:
            follower.stop()
