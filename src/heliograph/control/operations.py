"""Operations: what the commands do, by the name of a link, for a process that serves many callers.

Readers stay open between readings. Everything here blocks; whoever calls has threads for it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from heliograph.config.values import near
from heliograph.control.commands import (
    Steering,
    Verb,
    Wish,
    add_topics,
    limit_bytes,
    remove_topics,
    steer,
)
from heliograph.control.planning import plan, steps
from heliograph.control.statuses import Statuses
from heliograph.errors import NoSuchLink
from heliograph.kafka import clock
from heliograph.links.setup import Setup, in_ms
from heliograph.model.selection import matches
from heliograph.model.status import LinkStatus
from heliograph.model.topics import Partition
from heliograph.model.watching import Mark, Standing, mark, standing

AnyVerb = Verb | Literal["add", "remove", "limit"]
_PATIENCE = timedelta(seconds=10)
_FOLLOWS_WITHIN = timedelta(seconds=10)


def no_such_link(name: str, known: Sequence[str]) -> NoSuchLink:
    """Return the error for a name that no link has; it names the nearest, and all."""
    guess = near(name, known) or "."
    return NoSuchLink(
        f"there is no link {name!r}{guess} The configuration has: {', '.join(known) or 'none'}"
    )


class Operations:
    """The links of a configuration. For any thread; close it at the end.

    Links are read by target, all of one target at once: a target that does not answer costs one
    wait, and keeps only its own links from being read.
    """

    def __init__(self, setups: Sequence[Setup]) -> None:
        self._setups = {setup.link.name: setup for setup in setups}
        by_target: dict[str, list[Setup]] = {}
        for setup in setups:
            by_target.setdefault(setup.link.target, []).append(setup)
        self._readers = {name: _TargetReader(some) for name, some in by_target.items()}

    def close(self) -> None:
        """Close the connections."""
        for reader in self._readers.values():
            reader.close()

    @property
    def links(self) -> tuple[str, ...]:
        """The names of the links, in the order of the file."""
        return tuple(self._setups)

    @property
    def targets(self) -> tuple[str, ...]:
        """The clusters to read from."""
        return tuple(self._readers)

    def target_of(self, link: str) -> str:
        """Return the cluster that tells of a link; raise NoSuchLink."""
        return self._setup(link).link.target

    def read(self, target: str) -> list[LinkStatus]:
        """Return the statuses of a target's links; what cannot be read says so in its own."""
        return self._readers[target].read()

    def standing(self, status: LinkStatus, least: timedelta) -> tuple[float, tuple[Standing, ...]]:
        """Return for how many seconds a link was watched, and which partitions do not move.

        ``status`` is one that ``read`` has returned.
        """
        return self._readers[status.target].standing(status, least)

    def plan(self, link: str) -> dict[str, Any]:
        """Return what ``run`` would change for a link; changes nothing."""
        blueprint = plan(self._setup(link))
        return {
            "link": link,
            "steps": [asdict(step) for step in steps(link, blueprint)],
            "errors": list(blueprint.errors),
            "notes": list(blueprint.notes),
        }

    def steer(
        self,
        link: str,
        verb: AnyVerb,
        words: Mapping[str, Any],
        by: str,
        *,
        dry_run: bool,
        wait: bool,
    ) -> dict[str, Any]:
        """Put what is wanted of a link, and see it come true; return what came of it.

        ``words`` are what the verb takes. ``matched`` are the topics that the link has by now and
        the pattern means.
        """
        topics = words.get("topics")
        with Steering(self._setup(link)) as steering:
            asked = steering.look(_wish(verb, words))
            found = asked.as_dict(link, "dry_run")
            if topics is not None:
                found["matched"] = [one for one in asked.topics if matches([topics], one)]
            if not dry_run:
                within = _FOLLOWS_WITHIN if wait else None
                found["effect"] = steering.carry_out(asked, by, within)
        return found

    def _setup(self, link: str) -> Setup:
        if link not in self._setups:
            raise no_such_link(link, self.links)
        return self._setups[link]


def _wish(verb: AnyVerb, words: Mapping[str, Any]) -> Wish:
    topics = words.get("topics")
    if verb == "limit":
        return partial(limit_bytes, words["bytes_per_second"])
    if verb == "add":
        start = words.get("start")
        return partial(add_topics, [str(topics)], in_ms(start) if start else None)
    if verb == "remove":
        return partial(remove_topics, [str(topics)])
    return partial(steer, verb, topics)


class _TargetReader:
    """The statuses of one target's links, and where their partitions were seen to stand."""

    def __init__(self, setups: Sequence[Setup]) -> None:
        self._lock = threading.Lock()
        self._statuses = Statuses(setups)
        self._marks: dict[str, dict[Partition, Mark]] = {}
        self._since_ms: int | None = None
        self._is_over = False

    def read(self) -> list[LinkStatus]:
        try:
            with self._lock:
                return [] if self._is_over else self._read()
        finally:
            if self._is_over:
                self.close()

    def _read(self) -> list[LinkStatus]:
        found = self._statuses.read(_PATIENCE)
        now_ms = _now_ms()
        self._since_ms = self._since_ms or now_ms
        for status in found:
            before = self._marks.get(status.link, {})
            self._marks[status.link] = mark(before, status, now_ms)
        return found

    def standing(self, status: LinkStatus, least: timedelta) -> tuple[float, tuple[Standing, ...]]:
        now_ms = _now_ms()
        watched_s = round((now_ms - (self._since_ms or now_ms)) / 1000, 1)
        return watched_s, standing(status, self._marks.get(status.link, {}), now_ms, least)

    def close(self) -> None:
        """Close the connections; where somebody reads, they do it when they are through."""
        self._is_over = True
        if self._lock.acquire(blocking=False):
            try:
                self._statuses.close()
            finally:
                self._lock.release()


def _now_ms() -> int:
    """Return a time for marks, which never leave this process: a wall clock can be set back."""
    return int(clock.now_s() * 1000)
