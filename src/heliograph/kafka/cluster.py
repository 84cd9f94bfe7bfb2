"""A cluster as a client sees it: where things are, and channels to reach them.

One thread drives a :class:`Cluster` through its loop. Channels are made in the background and the
view is refreshed in the background, so that one slow broker never holds up another; the blocking
methods are the same work, waited for under a deadline.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from heliograph.errors import (
    ClusterError,
    DeadlinePassed,
    HeliographError,
    NotReady,
    ProtocolBroken,
    TopicMissing,
    Unreachable,
)
from heliograph.kafka import clock
from heliograph.kafka.connect import ask, dial
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.faults import error_for
from heliograph.kafka.messages import decode, encode, version_for
from heliograph.kafka.metadata import merge
from heliograph.kafka.properties import ClientSettings, Endpoint
from heliograph.kafka.transport import Channel, Loop, Reply
from heliograph.model.topics import ClusterView, Partition, TopicView

T = TypeVar("T")
Dial: TypeAlias = Callable[[ClientSettings, str, Endpoint | None, Deadline], Channel]

BOOTSTRAP = -1  # in place of a broker's id: whichever bootstrap server answers
_LOOK_PAUSE_S = 0.1
# A broker that has not answered for this long may be stopped: ask another one meanwhile.
_SLOW_S = 1.0
# A small request that takes longer is asked again, elsewhere if possible.
_ATTEMPT_TIMEOUT = timedelta(seconds=10)
_RETRY_FIRST_S, _RETRY_MOST_S = 0.05, 1.0
# Not more often: a wrong password that is tried too often locks the account.
_REFUSED_PAUSE_S = 30.0
# A topic just created is not known to every broker yet; one that is missing for longer is missing.
PROPAGATION = timedelta(seconds=2)
_UNKNOWN_TOPIC = 3


@dataclass(slots=True)
class _Route:
    """The channel to one broker on one lane, or how far its making got."""

    channel: Channel | None = None
    making: bool = False
    error: HeliographError | None = None
    again_s: float = 0.0
    pause_s: float = _RETRY_FIRST_S


class Cluster:
    """Channels and view of one cluster, for one thread.

    A *lane* is a channel of its own to the same broker, so that small requests never queue behind
    large ones, and partitions can be spread over several connections. Every channel is made by
    ``dial``, in a thread of its own unless the loop has other ways.
    """

    def __init__(
        self, settings: ClientSettings, name: str, loop: Loop | None = None, dial: Dial = dial
    ) -> None:
        self._dial = dial
        self.settings = settings
        self.name = name
        self.loop = loop or Loop()
        self.view = ClusterView()
        self.looks = 0
        self.refused: dict[str, int] = {}
        self._owns_loop = loop is None
        self.attempt_timeout = min(_ATTEMPT_TIMEOUT, settings.request_timeout)
        self._routes: dict[tuple[int, str], _Route] = {}
        self._watched: set[str] = set()
        self._looked_s = 0.0  # when the look under way began; 0 when there is none
        self._look_again_s = 0.0
        self._closed = False

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every channel, and the loop if it is this cluster's own."""
        self._closed = True
        for route in list(self._routes.values()):
            if route.channel:
                route.channel.close()
        if self._owns_loop:
            self.loop.close()

    # Channels

    def channel(self, broker: int, lane: str = "control") -> Channel | None:
        """Return an open channel, or None while one is being made or drained.

        Raises what waiting cannot heal: a refused login, a refused certificate. After a while it
        is tried again all the same: passwords and certificates are renewed.
        """
        route = self._routes.setdefault((broker, lane), _Route())
        channel = route.channel
        if channel is not None and channel.error is None:
            if not channel.retiring:
                return channel
            if channel.in_flight:
                return None
            channel.close()
        if channel is not None:
            route.channel = None
        if not route.making and clock.now_s() >= route.again_s:
            self._make(broker, route)
        elif route.error is not None and not route.error.retriable:
            raise route.error
        return None

    def heard_s(self) -> dict[int, float]:
        """Return when each broker last answered, as far as channels to it are open. Monotonic."""
        heard: dict[int, float] = {}
        for (broker, _), route in self._routes.items():
            if route.channel is not None:
                heard[broker] = max(heard.get(broker, 0.0), route.channel.heard_s)
        return heard

    def connected(self, broker: int, deadline: Deadline, lane: str = "control") -> Channel:
        """Return an open channel, waiting for it; raise why there is none when time is over."""
        while True:
            channel = self.channel(broker, lane)
            if channel is not None:
                return channel
            if deadline.passed:
                raise self._routes[broker, lane].error or self._no_connection(broker)
            self.loop.turn(min(deadline.left_s, 0.05))

    def trouble(self, broker: int, lane: str = "control") -> HeliographError | None:
        """Return why the last attempt to connect failed, if it did."""
        route = self._routes.get((broker, lane))
        return route.error if route else None

    def _no_connection(self, broker: int) -> Unreachable:
        known = self.view.brokers.get(broker)
        where = f"broker {broker}" + (f" at {Endpoint(known.host, known.port)}" if known else "")
        if broker == BOOTSTRAP:
            where = f"any of {', '.join(map(str, self.settings.bootstrap))}"
        return Unreachable(f"no connection to {where} in the time allowed", cluster=self.name)

    def _make(self, broker: int, route: _Route) -> None:
        if self._closed:
            return
        known = self.view.brokers.get(broker)
        if broker != BOOTSTRAP and known is None:
            self.look_again()
            return
        endpoint = Endpoint(known.host, known.port) if known else None
        route.making = True
        deadline = Deadline.after(self.settings.connect_timeout)

        def work() -> Callable[[], None]:
            made: Channel | HeliographError
            try:
                made = self._dial(self.settings, self.name, endpoint, deadline)
            except HeliographError as failure:
                made = failure
            return lambda: self._made(route, made)

        self.loop.start(work)

    def _made(self, route: _Route, made: Channel | HeliographError) -> None:
        route.making = False
        if isinstance(made, Channel):
            if self._closed or self.loop.is_closed:
                made.close()
                return
            route.channel, route.error, route.pause_s = made, None, _RETRY_FIRST_S
            self.loop.add(made)
            return
        route.error = made
        pause_s = route.pause_s if made.retriable else _REFUSED_PAUSE_S
        route.again_s = clock.now_s() + pause_s * random.uniform(0.8, 1.2)
        route.pause_s = min(route.pause_s * 2, _RETRY_MOST_S)
        self.look_again()

    # The view

    def watch(self, topics: Iterable[str]) -> None:
        """Keep these topics in the view from the next look on."""
        self._watched.update(topics)

    def look_again(self) -> None:
        """Refresh the view of the watched topics soon; safe to call as often as you like.

        Never raises: it is called while replies are handed out, and none may be left over.
        """
        now_s = clock.now_s()
        under_way = now_s - self._looked_s < _SLOW_S
        if self._closed or under_way or now_s < self._look_again_s:
            return
        self._look_again_s = now_s + _LOOK_PAUSE_S
        try:
            channel = self.any_channel()
            if channel is None:
                return
            version = version_for(channel, MetadataRequest, most=12, least=4)
        except HeliographError:
            return  # a refused login: whoever needs that connection is told
        self._looked_s = now_s

        def looked(reply: Reply) -> None:
            self._looked_s = 0.0
            if isinstance(reply, HeliographError):
                return  # whoever still needs the view asks again
            try:
                answer = decode(MetadataResponse, version, reply, channel)
            except ProtocolBroken as nonsense:
                channel.close(nonsense)
                return
            self._see(answer, asked)

        asked = frozenset(self._watched)  # what is watched since was not asked for
        request = encode(_metadata(sorted(asked), version), version)
        channel.send(request, looked, Deadline.after(self.attempt_timeout))

    def look(self, topics: Collection[str] | None, deadline: Deadline) -> ClusterView:
        """Look at the cluster now and return the view; None means all topics.

        Topics that do not exist are absent. Retries what heals, under the deadline.
        """
        return self.retry("looking at the cluster", lambda: self._look(topics, deadline), deadline)

    def look_everywhere(self, deadline: Deadline) -> Mapping[str, TopicView]:
        """Ask every broker for all topics; return those that any of them knows.

        A broker may be behind, and one that lost the controller stays so. But whoever leads a
        partition knows its topic: what none knows of held no record when this began. Raises where
        a broker cannot be asked that any of them names.
        """
        found: dict[str, TopicView] = {}
        asked: set[int] = set()

        def attempt() -> Mapping[str, TopicView]:
            view, named = self._look((), deadline), set[int]()
            while True:
                for broker in view.brokers:
                    self.channel(broker)  # while it is known where: others may not name it
                named |= view.brokers.keys()
                if named <= asked:
                    return found
                broker = min(named - asked)
                view = self._look(None, deadline, broker)
                found.update(view.topics)
                asked.add(broker)

        return self.retry("looking at every broker", attempt, deadline)

    def describe(
        self, topics: Collection[str], deadline: Deadline, led: Collection[Partition] | None = None
    ) -> ClusterView:
        """Look at topics that must exist; watch them from now on.

        Each partition has a leader then, or each of those that are to be ``led``.
        """
        self.watch(topics)
        patience = deadline.within(PROPAGATION)

        def attempt() -> ClusterView:
            view = self._look(topics, deadline)
            missing = sorted(set(topics) - set(view.topics))
            if missing and patience.passed:
                raise self._missing(missing)
            unled = view.leaderless(topics)
            leaderless = [str(one) for one in unled if led is None or one in led]
            if missing or leaderless:
                what = ", ".join((missing or leaderless)[:5])
                raise NotReady(f"{what} has no leader yet", cluster=self.name)
            return view

        return self.retry("describing topics", attempt, deadline)

    def _look(
        self, topics: Collection[str] | None, deadline: Deadline, broker: int | None = None
    ) -> ClusterView:
        deadline = deadline.within(self.attempt_timeout)
        channel = self.any_channel() if broker is None else None
        channel = channel or self.connected(BOOTSTRAP if broker is None else broker, deadline)
        version = version_for(channel, MetadataRequest, most=12, least=4)
        request = _metadata(None if topics is None else sorted(topics), version)
        answer = ask(channel, self.loop, request, MetadataResponse, version, deadline)
        view = self._see(answer, topics)
        for topic in topics or ():
            if topic in self.refused and self.refused[topic] != _UNKNOWN_TOPIC:
                raise self.why_absent(topic)
        return view

    def _see(self, answer: Any, asked: Collection[str] | None) -> ClusterView:
        self.view, self.refused = merge(self.view, answer, asked)
        self.looks += 1
        return self.view

    def why_absent(self, topic: str) -> HeliographError:
        """Say why a topic that was asked for is not in the view."""
        code = self.refused.get(topic, _UNKNOWN_TOPIC)
        if code == _UNKNOWN_TOPIC:
            return self._missing([topic])
        return error_for(code, cluster=self.name, doing=f"describing topic {topic}")

    def _missing(self, topics: list[str]) -> TopicMissing:
        names = ", ".join(topics[:5]) + (", …" if len(topics) > 5 else "")
        return TopicMissing(
            f"there is no topic {names}, or it may not be described."
            " Check the name, and the DESCRIBE or READ right of this user",
            cluster=self.name,
        )

    def any_channel(self) -> Channel | None:
        """Return an open channel that is not waiting for long, if there is one.

        Starts connections otherwise; one of them to a bootstrap server, which also survives that
        all brokers changed.
        """
        ready = [
            route.channel
            for (_, lane), route in self._routes.items()
            if lane == "control"
            and route.channel is not None
            and route.channel.error is None
            and not route.channel.retiring
            and route.channel.waited_s() < _SLOW_S
        ]
        if ready:
            return random.choice(ready)
        known = list(self.view.brokers)
        for broker in (*random.sample(known, len(known)), BOOTSTRAP):
            channel = self.channel(broker)
            if channel is not None and channel.waited_s() < _SLOW_S:
                return channel
        return None

    # Requests

    def call(
        self,
        request: Any,
        response: type[Any],
        *,
        broker: int,
        deadline: Deadline,
        most: int,
        least: int = 0,
    ) -> Any:
        """Ask one broker once; error codes inside the reply are the caller's to read."""
        channel = self.connected(broker, deadline)
        version = version_for(channel, type(request), most=most, least=least)
        return ask(channel, self.loop, request, response, version, deadline)

    def retry(self, doing: str, action: Callable[[], T], deadline: Deadline) -> T:
        """Repeat ``action`` while it raises what can heal, under one deadline.

        When time is over, the error says what was being done and ends with the last failure.
        """
        pause_s = _RETRY_FIRST_S
        while True:
            try:
                return action()
            except ClusterError as failure:
                if not (failure.retriable or isinstance(failure, DeadlinePassed)):
                    raise
                if deadline.left_s <= pause_s:
                    raise self._gave_up(doing, failure) from failure
            pause = Deadline.after(timedelta(seconds=pause_s * random.uniform(0.8, 1.2)))
            while not pause.passed:
                self.loop.turn(pause.left_s)
            pause_s = min(pause_s * 2, _RETRY_MOST_S)

    def _gave_up(self, doing: str, failure: ClusterError) -> ClusterError:
        message = f"{doing} did not succeed in the time allowed; last: {failure.message}"
        kind = type(failure) if failure.code == "unreachable" else DeadlinePassed
        return kind(message, cluster=self.name)


def _metadata(topics: list[str] | None, version: int) -> Any:
    wanted = None
    if topics is not None:
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False, version=version)
