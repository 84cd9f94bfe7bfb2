"""Conversations with coordinators that a test plays: moved, silent, and one of many."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import FindCoordinatorResponse
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from heliograph.errors import DeadlinePassed, HeliographError, Unreachable
from heliograph.kafka.conversation import Question, talk
from heliograph.kafka.transport import Channel, Loop, Request
from tests.doubles.driving import within
from tests.doubles.played import PlayedCluster

FIND, INIT = 10, 22
VERSIONS = {FIND: (0, 6), INIT: (0, 5)}


class PlayingLoop(Loop):
    """Lets the test answer before each turn."""

    play: Callable[[], None] = staticmethod(lambda: None)

    def turn(self, timeout_s: float) -> None:
        self.play()
        super().turn(min(timeout_s, 0.01))


class Coordinated(PlayedCluster):
    """Broker 9 knows the coordinators; those in ``down`` cannot be reached."""

    def __init__(self) -> None:
        super().__init__({0: 9})
        self.loop.close()
        self.loop = self.playing = PlayingLoop()
        self.chosen = 1
        self.down: set[int] = set()
        self.playing.play = self.answer

    def channel(self, broker: int, lane: str = "control") -> Channel | None:
        if broker in self.down:
            return None
        channel = super().channel(broker, lane)
        assert channel is not None
        channel.versions = VERSIONS
        return channel

    def any_channel(self) -> Channel | None:
        return self.channel(9)

    def trouble(self, broker: int, lane: str = "control") -> HeliographError | None:
        message = f"nobody listens on lane {lane}"
        return Unreachable(message, cluster="c") if broker in self.down else None

    def answer(self) -> None:
        for (broker, _), player in list(self.players.items()):
            while player.asked and (broker == 9 or player.asked[0].api_key == INIT):
                player.answer(self._found() if broker == 9 else _identity(broker))

    def _found(self) -> Any:
        row = FindCoordinatorResponse.Coordinator(
            key="tid",
            node_id=self.chosen,
            host="h",
            port=1,
            error_code=0,
            error_message=None,
            version=4,
        )
        return FindCoordinatorResponse(throttle_time_ms=0, coordinators=[row], version=4)


def _identity(producer_id: int) -> Any:
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=0,
        producer_id=producer_id,
        producer_epoch=0,
        version=4,
    )


def ask() -> Generator[Question, Any, int]:
    answer = yield Question(
        "tid",
        InitProducerIdRequest(
            transactional_id="tid",
            transaction_timeout_ms=1,
            producer_id=-1,
            producer_epoch=-1,
        ),
        InitProducerIdResponse,
        4,
        lambda answer: (answer.error_code,),
        "asking",
    )
    return int(answer.producer_id)


@pytest.fixture
def cluster() -> Iterator[Coordinated]:
    made = Coordinated()
    yield made
    made.close()


def test_coordinator_that_cannot_be_reached_is_looked_for_again(cluster: Coordinated) -> None:
    cluster.down = {1}
    begin_s = time.monotonic()

    def answer() -> None:
        if time.monotonic() - begin_s > 0.3:
            cluster.chosen = 2  # moved, because broker 1 is dead
        cluster.answer()

    cluster.playing.play = answer
    assert talk(cluster, {"one": ask()}, within(5)) == {"one": 2}


def test_silent_coordinator_holds_nobody_up_after_the_deadline(cluster: Coordinated) -> None:
    """Also behind a request on the same connection that is given more time."""
    channel = cluster.channel(1)
    assert channel is not None
    channel.send(Request(3, 12, True, (b"x",)), lambda _: None, within(20))
    begin_s = time.monotonic()
    (result,) = talk(cluster, {"one": ask()}, within(0.5)).values()
    assert isinstance(result, DeadlinePassed)
    assert time.monotonic() - begin_s < 5
