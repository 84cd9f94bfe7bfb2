"""Deleting: mirrors follow their source topics, where the link is told so (``sync.deletes``).

What is deleted cannot be brought back, so every doubt is for keeping it. Only a mirror that
Heliograph made, by its topic's id, goes; only if its source topic was absent twice, asked by name
on the same cluster; only when no task copies to it any more; only if nobody else's records stand
behind what is on record; and only within seconds of that being seen, for a driver that stood still
may wake after a failover. Its ledger goes with it, claimed first: whoever still writes it is
fenced. All of it may be done twice, by a driver that was replaced and by the one after it: a mirror
and a ledger go by the mirror's id, so what was made anew meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from uuid import UUID

from heliograph.copy.reading import read_each
from heliograph.errors import HeliographError, LinkError, TopicMissing
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.tables import Table
from heliograph.links.forgetting import forget
from heliograph.links.setup import Setup
from heliograph.model.blueprint import Change, Seen
from heliograph.model.control import Rows
from heliograph.model.expiry import REQUEST_LIFE
from heliograph.model.ledger import Closing, read_ledger
from heliograph.model.mirrors import Delete
from heliograph.model.names import ledger_topic
from heliograph.model.topics import Partition, TopicView


class Deleting:
    """Remembers which source topics are gone, and deletes their mirrors. For one thread."""

    def __init__(self, setup: Setup, target: Admin) -> None:
        self._setup, self._target = setup, target
        self._absent: set[str] = set()
        self._gone: set[str] = set()

    def confirm(self, changes: Collection[Change], seen: Seen) -> frozenset[str]:
        """Return the source topics that are gone for good, with what was seen now.

        What was absent at the last look at deletions, and is again. One that is back is not gone.
        """
        self._absent -= seen.sources.keys()
        self._gone -= seen.sources.keys()
        absent = {change.source for change in changes if isinstance(change, Delete)}
        if absent:
            self._gone |= absent & self._absent
            self._absent = absent
        return frozenset(self._gone)

    def delete(
        self, sources: Collection[str], changes: Collection[Change], deadline: Deadline
    ) -> tuple[tuple[str, ...], list[str]]:
        """Delete the mirrors of source topics; return which are gone, and what went wrong."""
        deleted, errors = [], []
        for change in changes:
            if not isinstance(change, Delete) or change.source not in sources:
                continue
            try:
                self._delete(change, deadline)
            except HeliographError as error:
                errors.append(str(error))
            else:
                deleted.append(change.topic)
                self._gone.discard(change.source)
                self._absent.discard(change.source)
        return tuple(deleted), errors

    def _delete(self, change: Delete, deadline: Deadline) -> None:
        """Delete a mirror and its ledger; what an earlier driver left of that is finished."""
        # Looking and deleting share it, so that what is deleted was looked at just before.
        fresh = deadline.within(REQUEST_LIFE)
        there = self._target.topics.describe([change.topic], fresh).get(change.topic)
        if there is not None and str(there.topic_id) == change.topic_id:
            self._refuse_others(change, there, fresh)
            with suppress(TopicMissing):  # somebody else may be faster
                self._target.topics.delete(UUID(change.topic_id), fresh)
        self.forget(change.source, change.topic_id, deadline)

    def _refuse_others(self, change: Delete, there: TopicView, deadline: Deadline) -> None:
        """Raise where a mirror holds records of others, behind what is on record, or may do so.

        Those of our own may stand there: a writer was killed before it could write them down.
        """
        link = self._setup.link
        places = {Partition(change.topic, number): number for number in there.partitions}
        with Cluster(self._setup.target_settings, link.target) as target:
            rows = Table(target, ledger_topic(link.name)).load(deadline)
            starts = list_offsets(target, dict.fromkeys(places, EARLIEST), deadline)
            ends = list_offsets(target, dict.fromkeys(places, LATEST), deadline)
            ours: dict[Partition, Collection[int]] = dict.fromkeys(places, ())
            for place, number in places.items():
                ledger = read_ledger(Partition(change.source, number), rows)
                if ledger is not None and ledger.closing is not None:
                    raise _of_applications(change, ledger.closing)
                if ledger is not None:
                    ours[place] = ledger.producer_ids
                    starts[place] = max(starts[place], ledger.target_next)

            def take(fetched: Fetched) -> bool:
                for header, _ in fetched.batches:
                    if header.producer_id not in ours[fetched.partition]:
                        raise _of_others(change, fetched.partition, header.base_offset)
                return fetched.next_offset >= ends[fetched.partition]

            left = {one: start for one, start in starts.items() if start < ends[one]}
            for failure in read_each(target, left, take, deadline).values():
                raise failure

    def forget(self, source: str, mirror_id: str, deadline: Deadline) -> None:
        """Remove the ledgers of a topic whose mirror, by its id, is gone."""
        link = self._setup.link

        def is_meant(one: Partition, rows: Rows) -> bool:
            ledger = read_ledger(one, rows) if one.topic == source else None
            return ledger is not None and ledger.origin.mirror_topic_id == mirror_id

        with Cluster(self._setup.target_settings, link.target) as target:
            forget(target, link.name, is_meant, deadline)


def _of_applications(change: Delete, closing: Closing) -> LinkError:
    return LinkError(
        f"{change.source} is gone, but its mirror {change.topic} was not deleted: it is"
        f" {closing.state}, and belongs to the applications that write to it"
    )


def _of_others(change: Delete, place: Partition, offset: int) -> LinkError:
    return LinkError(
        f"{change.source} is gone, but its mirror {change.topic} was not deleted: from offset"
        f" {offset} on, {place} holds what this link did not write. Delete it by hand if nobody"
        " needs it"
    )
