"""Conversations with coordinators: many at once, each a generator of questions.

A conversation says what to ask next and knows nothing of connections, moves and retries; those
are the same for all and live here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from heliograph.errors import DeadlinePassed, HeliographError, ProtocolBroken
from heliograph.kafka import clock, crash
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.coordinators import Coordinators
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.faults import error_for, is_retriable
from heliograph.kafka.messages import decode, encode, version_for
from heliograph.kafka.transport import Channel, Reply

K = TypeVar("K")
T = TypeVar("T")

_PAUSE_S = 0.02
_NOT_THE_COORDINATOR = (15, 16)
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Question:
    """A request to the coordinator of a transactional id, in exactly this version.

    ``codes`` finds the error codes in the reply, and raises ValueError if that is no answer to
    the question; then it is asked again. Codes that heal are asked again; others end the
    conversation, so a conversation only ever sees good replies.
    """

    transactional_id: str
    request: Any
    response: type[Any]
    version: int
    codes: Callable[[Any], Iterable[int]]
    doing: str
    crash_point: str = ""


def talk(
    cluster: Cluster,
    conversations: Mapping[K, Generator[Question, Any, T]],
    deadline: Deadline,
) -> dict[K, T | HeliographError]:
    """Hold all conversations under one deadline; return what each ended with.

    Asking again after a lost reply must be harmless: every question here is one of the claim's.
    """
    waiting = [_Talk(key, conversation) for key, conversation in conversations.items()]
    waiting.reverse()
    active: list[_Talk[K, T]] = []
    done: dict[K, T | HeliographError] = {}
    coordinators = Coordinators(cluster)
    while waiting or active:
        while waiting and len(active) < _AT_ONCE:
            active.append(waiting.pop())
        coordinators.find(one.transactional_id for one in active if one.is_due)
        for one in active:
            one.step(cluster, coordinators, deadline)
        cluster.loop.turn(min(deadline.left_s, _PAUSE_S))
        done.update((one.key, one.result) for one in active if one.result is not None)
        active = [one for one in active if one.result is None]
    return done


class _Talk(Generic[K, T]):
    """How far one conversation got."""

    def __init__(self, key: K, conversation: Generator[Question, Any, T]) -> None:
        self.key = key
        self.result: T | HeliographError | None = None
        self._conversation = conversation
        self._question: Question | None = None
        self._asked = False
        self._not_before_s = 0.0
        self._last: HeliographError | None = None
        self._advance(None)

    @property
    def transactional_id(self) -> str:
        """Whose coordinator is to be asked."""
        assert self._question is not None, "a conversation asks at least once"
        return self._question.transactional_id

    @property
    def is_due(self) -> bool:
        """Whether its question is to be asked now."""
        if self.result is not None or self._asked:
            return False
        return clock.now_s() >= self._not_before_s

    def step(self, cluster: Cluster, coordinators: Coordinators, deadline: Deadline) -> None:
        """Ask the question at hand if that is possible now."""
        if self.result is None and deadline.passed:
            self._end(self._too_late(cluster))
        if not self.is_due:
            return
        try:
            self._ask(cluster, coordinators, deadline)
        except HeliographError as failure:
            self._heal_or_end(failure)

    def _ask(self, cluster: Cluster, coordinators: Coordinators, deadline: Deadline) -> None:
        question = self._question
        assert question is not None
        broker = coordinators.of(question.transactional_id)
        if broker is None:
            return
        channel = cluster.channel(broker)
        if channel is None:
            if trouble := cluster.trouble(broker):
                coordinators.forget(question.transactional_id)  # it may have moved
                self._heal_or_end(trouble)
            return
        version = question.version
        version_for(channel, type(question.request), most=version, least=version)
        self._asked = True
        channel.send(
            encode(question.request, version),
            lambda reply: self._answered(cluster.name, coordinators, channel, question, reply),
            deadline.within(cluster.attempt_timeout),
        )
        crash.point(question.crash_point)

    def _answered(
        self,
        cluster: str,
        coordinators: Coordinators,
        channel: Channel,
        question: Question,
        reply: Reply,
    ) -> None:
        self._asked = False
        if self.result is not None:
            return  # too late
        if isinstance(reply, HeliographError):
            coordinators.forget(question.transactional_id)
            self._heal_or_end(reply)
            return
        try:
            answer = decode(question.response, question.version, reply, channel)
            bad = [code for code in question.codes(answer) if code]
        except (ProtocolBroken, ValueError) as nonsense:
            message = f"{question.doing}: {channel.address} gave no answer to that: {nonsense}"
            broken = ProtocolBroken(message, cluster=cluster)
            channel.close(broken)
            self._heal_or_end(broken)
            return
        if not bad:
            self._advance(answer)
            return
        if any(code in _NOT_THE_COORDINATOR for code in bad):
            coordinators.forget(question.transactional_id)
        worst = next((code for code in bad if not is_retriable(code)), bad[0])
        self._heal_or_end(error_for(worst, cluster=cluster, doing=question.doing))

    def _advance(self, answer: Any) -> None:
        try:
            if answer is None:
                self._question = next(self._conversation)
            else:
                self._question = self._conversation.send(answer)
        except StopIteration as end:
            self.result = end.value
        except HeliographError as failure:
            self.result = failure

    def _heal_or_end(self, failure: HeliographError) -> None:
        if failure.retriable:
            self._last = failure
            self._not_before_s = clock.now_s() + _PAUSE_S
        else:
            self._end(failure)

    def _end(self, failure: HeliographError) -> None:
        self._conversation.close()
        self.result = failure

    def _too_late(self, cluster: Cluster) -> DeadlinePassed:
        doing = self._question.doing if self._question else "beginning"
        last = f"; last: {self._last.message}" if self._last else ""
        message = f"{doing} did not succeed in the time allowed{last}"
        return DeadlinePassed(message, cluster=cluster.name)
