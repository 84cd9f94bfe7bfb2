"""Wiping: the old side's topics are deleted, and mirrored anew from their first record."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from heliograph.errors import TopicMissing
from heliograph.kafka.admin import Admin
from heliograph.kafka.deadline import Deadline
from heliograph.links.forgetting import forget
from heliograph.links.own_topics import make_own_topics
from heliograph.model.control import Rows
from heliograph.model.ledger import read_ledger
from heliograph.model.topics import Partition
from heliograph.recovery.command import Command

_TIMEOUT = timedelta(minutes=2)


def wipe(
    ended: Command, onward: Command, topics: Sequence[str], mirrors: Sequence[str]
) -> list[str]:
    """Delete topics of the old source, and what the opposite direction knows of them.

    Ledgers first: with one, the driver would take a new topic for the old one made anew. And again
    behind that, where a driver was faster and began anew with the topic that was about to go.
    """
    deadline = Deadline.after(_TIMEOUT)
    with Admin(ended.setup.source_settings, ended.setup.link.source) as admin:
        make_own_topics(admin, onward.setup.link.name, deadline)
        link = onward.setup.link.name
        forget(onward.target, link, lambda one, _: one.topic in mirrors, deadline)
        there = admin.topics.describe(topics, deadline)
        for view in there.values():
            with suppress(TopicMissing):
                admin.topics.delete(view.topic_id, deadline)
        gone = {view.topic_id for view in there.values()}
        while gone & {one.topic_id for one in admin.topics.describe(topics, deadline).values()}:
            ended.source.loop.turn(0.2)  # describing raises when time is over
    forget(onward.target, link, lambda one, rows: _is_of(gone, one, rows), deadline)
    return [f"{len(there)} topics deleted; they are made and copied anew"]


def _is_of(gone: Collection[UUID], one: Partition, rows: Rows) -> bool:
    ledger = read_ledger(one, rows)
    return ledger is not None and ledger.origin.mirror_topic_id in map(str, gone)
