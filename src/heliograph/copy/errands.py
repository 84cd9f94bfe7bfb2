"""Errands: what blocks, done beside the stream, with connections of its own.

A claim waits for a coordinator, a match reads two logs, a new topic waits for a controller: none
of it may hold up the partitions that are being copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from functools import partial
from uuid import UUID

from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.errors import HeliographError, LinkError
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

Outcomes = Mapping[Partition, Opened | HeliographError]


class Errands:
    """Runs errands for one loop: each in a thread of its own, its end told inside a turn."""

    def __init__(
        self,
        loop: Loop,
        link: str,
        ledger_topic: str,
        source: ClientSettings,
        target: ClientSettings,
    ) -> None:
        self._loop = loop
        self._link = link
        self._ledger_topic = ledger_topic
        self._source = source
        self._target = target

    def open(
        self,
        mirrors: Mapping[Partition, Partition],
        policies: Policies,
        begins: Mapping[Partition, Begin],
        copied: Collection[Partition],
        on_done: Callable[[Outcomes], None],
    ) -> None:
        """Claim and match partitions, see ``open_all``; ``on_done`` is called for each group."""
        for group in _groups(mirrors):
            self._loop.start(partial(self._open, group, policies, begins, copied, on_done))

    def make_topic(self, topic: str, on_done: Callable[[UUID | HeliographError], None]) -> None:
        """Create a topic for what is put aside, unless it exists."""

        def work() -> Callable[[], None]:
            made = self._make_topic(topic)
            return lambda: on_done(made)

        self._loop.start(work)

    def _open(
        self,
        mirrors: Mapping[Partition, Partition],
        policies: Policies,
        begins: Mapping[Partition, Begin],
        copied: Collection[Partition],
        on_done: Callable[[Outcomes], None],
    ) -> Callable[[], None]:
        deadline = Deadline.after(OPEN_TIMEOUT)
        loop = Loop()
        try:
            source = Cluster(self._source, self._source.cluster, loop)
            target = Cluster(self._target, self._target.cluster, loop)
            ends = Ends(self._link, source, target, self._ledger_topic)
            outcomes = open_all(ends, mirrors, deadline, policies, begins, copied)
        except HeliographError as failure:
            outcomes = dict.fromkeys(mirrors, failure)
        except Exception as defect:
            # Of this code; the partitions must not be lost sight of because of it.
            message = f"could not be opened: {type(defect).__name__}: {defect}"
            outcomes = dict.fromkeys(mirrors, LinkError(message))
        finally:
            loop.close()
        return lambda: on_done(outcomes)

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


def _groups(mirrors: Mapping[Partition, Partition]) -> Iterable[dict[Partition, Partition]]:
    pairs = list(mirrors.items())
    for at in range(0, len(pairs), _TOGETHER):
        yield dict(pairs[at : at + _TOGETHER])
