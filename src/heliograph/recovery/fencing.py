"""A write fence: applications may not write to topics while their link turns round.

A rule that denies writing to everybody stands on each topic, and is on record before it does, so
that whoever takes the command up again takes the fence down again, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

from heliograph.errors import HeliographError, RecoveryError
from heliograph.kafka.admin import Admin
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.deadline import Deadline
from heliograph.model.acls import Acl, Operation, Permission, Resource
from heliograph.recovery.journal import Journal

_TIMEOUT = timedelta(seconds=30)
_KEPT = "fenced"


class Fence:
    """The fence around topics of one cluster, kept in a journal."""

    def __init__(self, settings: ClientSettings, cluster: str, journal: Journal) -> None:
        self._settings, self._cluster, self._journal = settings, cluster, journal

    def put_up(self, topics: Sequence[str]) -> list[str]:
        """Deny everybody to write; rules that were there already are not ours."""
        wanted = [_rule(topic) for topic in sorted(topics)]
        try:
            with Admin(self._settings, self._cluster) as admin:
                there = set(admin.acls.matching(deadline=Deadline.after(_TIMEOUT)))
                ours = [acl for acl in wanted if acl not in there or acl.name in self._ours()]
                self._journal.keep(_KEPT, json.dumps([acl.name for acl in ours]))
                admin.acls.create(ours, Deadline.after(_TIMEOUT))
        except HeliographError as failure:
            raise RecoveryError(
                f"the topics of {self._cluster} could not be fenced by ACLs: {failure} Stop the"
                " producers by other means (a hook before_switch), and say --fence none"
            ) from failure
        return [f"nobody may write to {len(wanted)} topics of {self._cluster}"]

    def take_down(self) -> list[str]:
        """Remove the rules that were ours."""
        ours = [_rule(topic) for topic in self._ours()]
        if not ours:
            return []
        with Admin(self._settings, self._cluster) as admin:
            admin.acls.delete(ours, Deadline.after(_TIMEOUT))
        return [f"the fence around {len(ours)} topics of {self._cluster} is down"]

    def _ours(self) -> list[str]:
        recovery = self._journal.recovery
        kept = recovery.kept.get(_KEPT, "[]") if recovery else "[]"
        return [str(one) for one in json.loads(kept)]


def _rule(topic: str) -> Acl:
    return Acl(Resource.TOPIC, topic, "User:*", Operation.WRITE, Permission.DENY)
