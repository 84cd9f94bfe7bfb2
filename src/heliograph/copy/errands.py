"""Errands: what blocks, done beside the stream, with connections of its own.

A claim waits for a coordinator, a match reads two logs, a new topic waits for a controller: none
of it may hold up the partitions that are being copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from heliograph.copy.ledgers import SharedLedgers
from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.errors import HeliographError, LinkError
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import ClientSettings
from heliograph.kafka.transport import Loop
from heliograph.model.configs import NewTopic
from heliograph.model.leases import Begin
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition

OPEN_TIMEOUT = timedelta(seconds=60)
_TOPIC_TIMEOUT = timedelta(seconds=30)
# Opened in groups of this size: the first are copied while the others are still being opened.
_TOGETHER = 100
# So many groups at a time: more only take time from each other. One that takes long waits for
# something, and makes room for another, up to so many in all.
_AT_ONCE, _MOST_AT_ONCE = 3, 12
_LONG_S = 10.0

Outcomes = Mapping[Partition, Opened | HeliographError]


@dataclass(eq=False, slots=True)
class _Group:
    """Partitions that are opened together."""

    mirrors: Mapping[Partition, Partition]
    policies: Policies
    begins: Mapping[Partition, Begin]
    copied: Collection[Partition]
    on_done: Callable[[Outcomes], None]
    began_s: float = 0.0


class Errands:
    """Runs errands for one loop: each in a thread of its own, its end told inside a turn.

    Partitions are opened in groups of ``together``, a few at a time. Their connections, and what
    was read of the ledger's topic, go from one group to the next, and are given up after the last.
    """

    def __init__(
        self,
        loop: Loop,
        link: str,
        ledger_topic: str,
        source: ClientSettings,
        target: ClientSettings,
        *,
        together: int = _TOGETHER,
        at_once: int = _AT_ONCE,
        timeout: timedelta = OPEN_TIMEOUT,
    ) -> None:
        self._loop = loop
        self._link = link
        self._ledger_topic = ledger_topic
        self._source = source
        self._target = target
        self._together, self._at_once, self._timeout = together, at_once, timeout
        self._waiting: deque[_Group] = deque()
        self._running: set[_Group] = set()
        self._idle: list[Ends] = []
        self._ledgers: SharedLedgers | None = None

    def open(
        self,
        mirrors: Mapping[Partition, Partition],
        policies: Policies,
        begins: Mapping[Partition, Begin],
        copied: Collection[Partition],
        on_done: Callable[[Outcomes], None],
    ) -> None:
        """Claim and match partitions, see ``open_all``; ``on_done`` is called for each group."""
        for some in _groups(mirrors, self._together):
            self._waiting.append(_Group(some, policies, begins, copied, on_done))
        self.pump()

    def pump(self) -> None:
        """Open the next groups where it is their turn. To be called after each turn of the loop.

        Not by itself when a group is done: its owner may have to find out first who claims now.
        """
        while self._waiting and self._has_room():
            group = self._waiting.popleft()
            group.began_s = clock.now_s()
            self._running.add(group)
            self._ledgers = self._ledgers or SharedLedgers(self._target, self._ledger_topic)
            ends = self._idle.pop() if self._idle else None
            self._loop.start(partial(self._open, group, ends, self._ledgers))

    def drop_waiting(self) -> set[Partition]:
        """Open no more groups than those under way; return the partitions that are left out."""
        left = {source for group in self._waiting for source in group.mirrors}
        self._waiting.clear()
        return left

    @property
    def is_waiting(self) -> bool:
        """True when groups wait for their turn."""
        return bool(self._waiting)

    @property
    def at_work(self) -> int:
        """How many groups are being opened."""
        return len(self._running)

    def _has_room(self) -> bool:
        now_s = clock.now_s()
        quick = sum(now_s - one.began_s < _LONG_S for one in self._running)
        return quick < self._at_once and len(self._running) < _MOST_AT_ONCE

    def make_topic(self, topic: str, on_done: Callable[[UUID | HeliographError], None]) -> None:
        """Create a topic for what is put aside, unless it exists."""

        def work() -> Callable[[], None]:
            made = self._make_topic(topic)
            return lambda: on_done(made)

        self._loop.start(work)

    def _open(self, group: _Group, ends: Ends | None, ledgers: SharedLedgers) -> Callable[[], None]:
        """Open a group, in a thread of its own; its time begins now."""
        deadline = Deadline.after(self._timeout)
        outcomes: Outcomes
        try:
            ends = ends or self._connect()
            outcomes = open_all(
                ends,
                group.mirrors,
                deadline,
                group.policies,
                group.begins,
                group.copied,
                ledgers,
            )
        except HeliographError as failure:
            outcomes = dict.fromkeys(group.mirrors, failure)
        except Exception as defect:
            # Of this code; the partitions must not be lost sight of because of it.
            message = f"could not be opened: {type(defect).__name__}: {defect}"
            outcomes = dict.fromkeys(group.mirrors, LinkError(message))
        return lambda: self._opened(group, ends, outcomes)

    def _connect(self) -> Ends:
        loop = Loop()
        source = Cluster(self._source, self._source.cluster, loop)
        target = Cluster(self._target, self._target.cluster, loop)
        return Ends(self._link, source, target, self._ledger_topic)

    def _opened(self, group: _Group, ends: Ends | None, outcomes: Outcomes) -> None:
        self._running.discard(group)
        if ends is not None:
            self._idle.append(ends)
        if not self._waiting:
            self._let_go()
        group.on_done(outcomes)

    def _let_go(self) -> None:
        """Close what no group waits for."""
        for ends in self._idle:
            ends.source.close()
            ends.target.close()
            ends.target.loop.close()
        self._idle.clear()
        if self._ledgers is not None and not self._running:
            self._ledgers.close()
            self._ledgers = None

    def _make_topic(self, topic: str) -> UUID | HeliographError:
        deadline = Deadline.after(_TOPIC_TIMEOUT)
        configs = {"cleanup.policy": "compact", "max.message.bytes": str(1 << 28)}
        try:
            with Admin(self._target, self._target.cluster) as admin:
                found = admin.topics.describe([topic], deadline)
                if topic not in found:
                    new = NewTopic(topic, partitions=1, configs=configs)
                    admin.topics.create_many([new], deadline=deadline)
                    admin.topics.await_leaders([topic], deadline)
                    found = admin.topics.describe([topic], deadline)
                return found[topic].topic_id
        except HeliographError as failure:
            return failure


def _groups(
    mirrors: Mapping[Partition, Partition], together: int
) -> Iterable[dict[Partition, Partition]]:
    pairs = list(mirrors.items())
    for at in range(0, len(pairs), together):
        yield dict(pairs[at : at + together])
