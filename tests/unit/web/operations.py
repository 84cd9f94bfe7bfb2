"""Operations without clusters: two links on two targets, and what was asked of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from heliograph.control.operations import no_such_link
from heliograph.errors import HeliographError
from heliograph.model.status import LinkStatus, link_status
from heliograph.model.topics import Partition
from heliograph.model.watching import Mark, Standing, standing
from tests.unit.model.books import ABOUT, NOW_MS, PART_REPORT, books, lagging

ZERO = Partition("orders", 0)
GOOD = link_status(ABOUT, books(parts={ZERO: lagging(7)}), NOW_MS)
FAULT = replace(PART_REPORT, state="FAULTED", error=("gap-found", "records [7, 9) are gone"))
BAD = replace(link_status(ABOUT, books(parts={ZERO: FAULT}), NOW_MS), link="bad", target="c")


class PlayedOperations:
    """Answers at once; ``stuck`` ones wait until they are let go."""

    def __init__(self, *statuses: LinkStatus) -> None:
        self.statuses = {one.link: one for one in statuses or (GOOD,)}
        self.asked: list[tuple[Any, ...]] = []
        self.error: BaseException | None = None
        self.stuck: set[str] = set()
        self.go = threading.Event()

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(self.statuses)

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.target for one in self.statuses.values()))

    def target_of(self, link: str) -> str:
        if link not in self.statuses:
            raise no_such_link(link, self.links)
        return self.statuses[link].target

    def read(self, target: str) -> list[LinkStatus]:
        if target in self.stuck:
            self.go.wait(60)
        if isinstance(self.error, Exception) and not isinstance(self.error, HeliographError):
            raise self.error
        return [one for one in self.statuses.values() if one.target == target]

    def standing(self, status: LinkStatus, least: timedelta) -> tuple[float, tuple[Standing, ...]]:
        marks = {ZERO: Mark(100, NOW_MS - 90_000)}
        return 300.0, standing(status, marks, NOW_MS, least)

    def plan(self, link: str) -> dict[str, Any]:
        self._fail(link)
        return {"link": link, "steps": [], "errors": [], "notes": []}

    def steer(
        self, link: str, verb: str, words: Mapping[str, Any], by: str, *, dry_run: bool, wait: bool
    ) -> dict[str, Any]:
        self._fail(link)
        self.asked.append((link, verb, dict(words), by, dry_run, wait))
        effect = "dry_run" if dry_run else "done" if wait else "asked"
        changed = ["state: active -> paused"]
        return {"link": link, "wanted": "paused", "paused": [], "changed": changed} | {
            "effect": effect
        }

    def _fail(self, link: str) -> None:
        if link in self.stuck:
            self.go.wait(60)
        self.target_of(link)
        if self.error is not None:
            raise self.error
