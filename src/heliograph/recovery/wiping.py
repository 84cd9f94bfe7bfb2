"""Wiping: the old side's topics are deleted, and mirrored anew from their first record."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from heliograph.errors import TopicMissing
from heliograph.kafka.admin import Admin
from heliograph.kafka.deadline import Deadline
from heliograph.links.forgetting import forget
from heliograph.links.own_topics import make_own_topics
from heliograph.recovery.command import Command

_TIMEOUT = timedelta(minutes=2)


def wipe(
    ended: Command, onward: Command, topics: Sequence[str], mirrors: Sequence[str]
) -> list[str]:
    """Delete topics of the old source, and what the opposite direction knows of them.

    Ledgers first: with one, the driver would take a new topic for the old one made anew.
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
        while there.keys() & set(admin.topics.names(deadline)):  # it raises when time is over
            ended.source.loop.turn(0.2)
    return [f"{len(there)} topics deleted; they are made and copied anew"]
