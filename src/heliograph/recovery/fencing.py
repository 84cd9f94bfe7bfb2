"""A write fence: applications may not write to topics while their link turns round.

A rule that denies writing to everybody stands on each topic, and is on record before it does, so
that whoever takes the command up again takes the fence down again, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from heliograph.errors import HeliographError, RecoveryError
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.model.acls import fence_rule
from heliograph.model.findings import counted
from heliograph.recovery.journal import Journal

_TIMEOUT = timedelta(seconds=30)


class Fence:
    """The fence around topics of one cluster, kept in a journal."""

    def __init__(self, cluster: Cluster, journal: Journal) -> None:
        self._cluster, self._journal = cluster, journal

    def put_up(self, topics: Sequence[str]) -> list[str]:
        """Deny everybody to write; rules that were there already are not ours.

        That is also the user of the link, unless it is a super user: nothing is written behind the
        fence before it is down again.
        """
        name, wanted = self._cluster.name, [fence_rule(topic) for topic in sorted(topics)]
        try:
            with self._admin() as admin:
                there = set(admin.acls.matching(deadline=Deadline.after(_TIMEOUT)))
                ours = self._journal.fenced(name)
                mine = [acl for acl in wanted if acl not in there or acl.name in ours]
                self._journal.set_fenced(name, {*ours, *(acl.name for acl in mine)})
                admin.acls.create(mine, Deadline.after(_TIMEOUT))
        except HeliographError as failure:
            self.take_down(topics)
            raise RecoveryError(
                f"the topics of {name} could not be fenced by ACLs: {str(failure).rstrip('.')}. The"
                " fence is down again. Stop the producers by other means (a hook before_switch),"
                " and say --fence none"
            ) from failure
        return [f"nobody may write to {counted(len(wanted), 'topic')} of {name}"]

    def take_down(self, topics: Iterable[str]) -> list[str]:
        """Remove the rules around some topics, as far as they are ours."""
        name, down = self._cluster.name, set(topics)
        known = self._journal.fenced(name)
        ours = [fence_rule(topic) for topic in known if topic in down]
        if not ours:
            return []
        with self._admin() as admin:
            admin.acls.delete(ours, Deadline.after(_TIMEOUT))
        self._journal.set_fenced(name, set(known) - down)
        return [f"the fence around {counted(len(ours), 'topic')} of {name} is down"]

    def _admin(self) -> Admin:
        return Admin(self._cluster.settings, self._cluster.name)
