"""What offsets of a link are translated with: ledgers that fit, and what both logs hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heliograph.copy.finding import find_ranges
from heliograph.errors import LedgerUnfit
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.setup import Setup
from heliograph.model.group_sync import Ground
from heliograph.model.ledger import Ledger, head_of
from heliograph.model.status import Books, find_ledger
from heliograph.model.topics import Partition
from heliograph.model.translation import ANYWHERE, Translator


class Grounds:
    """Makes translators from a link's books, again and again. For one thread at a time."""

    def __init__(self, setup: Setup, source: Cluster, target: Cluster) -> None:
        self._link, self._is_shared = setup.link, setup.policies.is_shared
        self._source, self._target = source, target
        self._ledgers: dict[Partition, tuple[bytes, Ledger]] = {}

    def survey(
        self,
        parts: Collection[Partition],
        mirrors: Mapping[Partition, Partition],
        books: Books,
        deadline: Deadline,
        *,
        is_live: bool = True,
    ) -> Ground:
        """Return the ground of some source partitions. Unless live, the source is not asked.

        Raises LedgerUnfit if another cluster stands in the place of the source.
        """
        target_logs = _logs(self._target, {mirrors[one] for one in parts}, deadline)
        source_logs = _logs(self._source, parts, deadline) if is_live else {}
        translators = {}
        for one in parts:
            ledger, log = self._ledger(one, books), target_logs.get(mirrors[one])
            if ledger is None or log is None or not self._fits(ledger, mirrors[one], is_live):
                continue
            translators[one] = Translator(
                ledger,
                source_log=source_logs.get(one, ANYWHERE),
                target_log=log,
                is_shared=self._is_shared,
            )
        return Ground(mirrors, translators, source_logs, target_logs, self._is_shared)

    def _fits(self, ledger: Ledger, mirror: Partition, is_live: bool) -> bool:
        """Claim: the ledger is about the topics that are there now."""
        origin = ledger.origin
        if _topic_id(self._target, mirror.topic) != origin.mirror_topic_id:
            return False
        if not is_live:
            return True
        here = self._source.view.cluster_id
        if here != origin.source_cluster_id:
            raise LedgerUnfit(
                f"{self._link.source} is another cluster (id {here}) than the one that was mirrored"
                f" (id {origin.source_cluster_id}): offsets mean something else there, so none were"
                " translated. Correct bootstrap.servers, or begin a new link"
            )
        return _topic_id(self._source, ledger.partition.topic) == origin.source_topic_id

    def _ledger(self, source: Partition, books: Books) -> Ledger | None:
        """Return a ledger; one that did not change is not read again, for it may be long."""
        head = head_of(source, books.ledger)
        if head is None:
            return None
        before = self._ledgers.get(source)
        if before is not None and before[0] == head:
            return before[1]
        ledger = find_ledger(books, source)
        if not isinstance(ledger, Ledger):
            return None  # its partition faults and says so
        self._ledgers[source] = head, ledger
        return ledger


def _logs(
    cluster: Cluster, parts: Collection[Partition], deadline: Deadline
) -> dict[Partition, range]:
    """Return the offsets that logs hold, of those that are there."""
    if not parts:
        return {}
    view = cluster.look({one.topic for one in parts}, deadline)
    there = [one for one in parts if view.find(one) is not None]
    found = find_ranges(cluster, there, deadline)
    return {one: log for one, log in found.items() if isinstance(log, range)}


def _topic_id(cluster: Cluster, topic: str) -> str:
    view = cluster.view.topics.get(topic)
    return str(view.topic_id) if view else ""
