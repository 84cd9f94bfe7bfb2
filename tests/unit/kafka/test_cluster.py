"""A cluster's channels and view, where no broker is needed to see what happens."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from math import inf

import pytest

from heliograph.errors import HeliographError, LoginRefused, Unreachable
from heliograph.kafka.client_settings import Endpoint
from heliograph.kafka.cluster import BOOTSTRAP, Cluster, _Route
from heliograph.kafka.connect import connect
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Channel, Request
from heliograph.model.topics import Broker, ClusterView
from tests.doubles.driving import within


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(parse("c", {"bootstrap.servers": "localhost:1"}), "c") as made:
        made.view = ClusterView("id", 1, {1: Broker(1, "localhost", 1)}, {})
        yield made


def put_channel(cluster: Cluster, broker: int, lane: str) -> tuple[Channel, socket.socket]:
    """Give the cluster a connection as if it had made it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    made = Channel(ours, cluster="c", address="broker:1", client_id="", versions={})
    cluster._made(cluster._routes.setdefault((broker, lane), _Route()), made)
    return made, theirs


def test_closing_with_requests_in_flight_answers_all_and_starts_nothing(cluster: Cluster) -> None:
    """Whoever is told looks again at once, as a fetcher does: there is nothing to look with."""
    answered: list[object] = []

    def on_reply(reply: object) -> None:
        answered.append(reply)
        cluster.look_again()

    peers = [put_channel(cluster, BOOTSTRAP, "control")[1]]
    for lane in ("fetch0", "fetch1"):
        channel, peer = put_channel(cluster, 1, lane)
        channel.send(Request(1, 17, True, (b"x",)), on_reply, within())
        peers.append(peer)
    before = set(threading.enumerate())
    cluster.close()
    assert len(answered) == 2 and all(isinstance(one, Unreachable) for one in answered)
    assert set(threading.enumerate()) <= before, "no connection is begun any more"
    for peer in peers:
        peer.close()


def test_refused_login_does_not_swallow_the_replies_that_are_being_handed_out(
    cluster: Cluster,
) -> None:
    answered: list[object] = []

    def on_reply(reply: object) -> None:
        answered.append(reply)
        cluster.look_again()

    channel, peer = put_channel(cluster, 1, "produce0")
    for broker in (BOOTSTRAP, 1):
        refused = LoginRefused("another password by now", cluster="c")
        cluster._routes[broker, "control"] = _Route(error=refused, again_s=inf)
    for _ in range(3):
        channel.send(Request(0, 13, True, (b"x",)), on_reply, within())
    peer.close()
    deadline = within(10)
    while len(answered) < 3 and not deadline.passed:
        cluster.loop.turn(0.05)
    assert len(answered) == 3
    with pytest.raises(LoginRefused):
        cluster.channel(1)


@pytest.mark.parametrize("host", ["a..b", ".x", "x" * 64])
def test_host_that_cannot_be_a_name_is_unreachable(host: str) -> None:
    """A broker may advertise anything."""
    settings = parse("c", {"bootstrap.servers": "localhost:1"})
    with pytest.raises(HeliographError) as caught:
        connect(settings, "c", Endpoint(host, 9092), within(5))
    assert isinstance(caught.value, Unreachable) and host in str(caught.value)
