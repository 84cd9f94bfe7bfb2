"""Who coordinates a transactional id: asked for many at once, forgotten when it proves wrong."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from heliograph.errors import HeliographError, ProtocolBroken
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.faults import error_for
from heliograph.kafka.messages import decode, encode, version_for
from heliograph.kafka.transport import Channel, Reply

_TRANSACTION = 1
_MANY_KEYS = 4
"""The first version that asks for several at once."""


class Coordinators:
    """The coordinators of one round of conversations. Never waits, so none holds up another."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, int | HeliographError] = {}
        self._asking: set[str] = set()

    def find(self, transactional_ids: Iterable[str]) -> None:
        """Ask for those that are not known, unless that is under way."""
        ids = dict.fromkeys(transactional_ids)
        wanted = [one for one in ids if one not in self._known and one not in self._asking]
        if not wanted:
            return
        try:
            channel = self._cluster.any_channel()
            if channel is None:
                return
            version = version_for(channel, FindCoordinatorRequest, most=_MANY_KEYS, least=1)
        except HeliographError as refused:
            self._known |= dict.fromkeys(wanted, refused)
            return
        for keys in [wanted] if version >= _MANY_KEYS else [[one] for one in wanted]:
            self._ask(channel, version, keys)

    def of(self, transactional_id: str) -> int | None:
        """Return its broker, or None while that is asked for; raise, once, why it is not known."""
        known = self._known.get(transactional_id)
        if isinstance(known, HeliographError):
            self.forget(transactional_id)
            raise known
        return known

    def forget(self, transactional_id: str) -> None:
        """Ask again next time: it said that it is not the one, or it does not answer."""
        self._known.pop(transactional_id, None)

    def _ask(self, channel: Channel, version: int, keys: list[str]) -> None:
        asked = {"coordinator_keys": keys} if version >= _MANY_KEYS else {"key": keys[0]}
        request = FindCoordinatorRequest(key_type=_TRANSACTION, **asked)
        self._asking.update(keys)
        channel.send(
            encode(request, version),
            partial(self._answered, channel, version, keys),
            Deadline.after(self._cluster.attempt_timeout),
        )

    def _answered(self, channel: Channel, version: int, keys: list[str], reply: Reply) -> None:
        self._asking.difference_update(keys)
        try:
            if isinstance(reply, HeliographError):
                raise reply
            answer = decode(FindCoordinatorResponse, version, reply, channel)
        except HeliographError as failure:
            channel.close(failure)
            self._known |= dict.fromkeys(keys, failure)
            return
        several = version >= _MANY_KEYS
        rows = {row.key: row for row in answer.coordinators} if several else {keys[0]: answer}
        for key in keys:
            row = rows.get(key)
            doing = f"finding the coordinator of {key}"
            if row is None:
                message = f"{doing}: {channel.address} left it out of its reply"
                self._known[key] = ProtocolBroken(message, cluster=self._cluster.name)
            elif row.error_code:
                name = self._cluster.name
                self._known[key] = error_for(row.error_code, cluster=name, doing=doing)
            else:
                self._known[key] = int(row.node_id)
