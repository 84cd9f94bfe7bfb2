"""One name on two clusters, links both ways: each record once on each, and none goes round."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from heliograph.copy.opening import Ends
from heliograph.copy.provenance import Provenance
from heliograph.errors import ClusterError, NotAuthorized
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.links.own_topics import make_own_topics
from heliograph.local.spec import User
from heliograph.model.names import ledger_topic
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.linked import (
    copy_all,
    on_mirror,
    opened_one,
    produce,
    step_until,
    streaming,
    within,
)
from tests.doubles.proxy import HOST, METADATA, Alter, Proxy
from tests.making import create_topic

LOCAL = Policies(origin="local", is_shared=True)


@pytest.fixture
def both_ways(source: Any, target: Any, topic_name: str) -> Iterator[tuple[Ends, Ends]]:
    """Links there and back, of one topic that is on both sides."""
    loop = Loop()
    clusters = []
    for one in (source, target):
        create_topic(one.bootstrap, topic_name)
        clusters.append(Cluster(parse(one.name, one.client_properties()), one.name, loop))
        with Admin(clusters[-1].settings, one.name) as admin:
            make_own_topics(admin, f"into-{_tail(topic_name)}", within(20))
    here, there = clusters
    name = f"into-{_tail(topic_name)}"
    yield (
        Ends(name, here, there, ledger_topic(name)),
        Ends(name, there, here, ledger_topic(name)),
    )
    loop.close()


def _tail(topic_name: str) -> str:
    return topic_name.rpartition(".")[2]


def values(cluster: Any, here: Partition) -> Counter[bytes | None]:
    return Counter(seen.value for _, seen in on_mirror(cluster, here))


def test_each_record_is_on_both_sides_once(
    source: Any, target: Any, both_ways: tuple[Ends, Ends], here: Partition
) -> None:
    written: set[bytes] = set()
    for turn in range(3):
        for cluster, name in ((source, "s"), (target, "t")):
            new = [f"{name} {turn} {number}".encode() for number in range(5)]
            produce(cluster.bootstrap, here.topic, new)
            written |= set(new)
        for link in both_ways:
            copy_all(link, here, LOCAL)
    for _ in range(2):  # nothing is left to copy, in either direction
        for link in both_ways:
            copy_all(link, here, LOCAL)
    assert values(source, here) == values(target, here) == Counter(written)


def test_what_was_not_recorded_is_matched_among_records_that_links_brought(
    source: Any, target: Any, both_ways: tuple[Ends, Ends], here: Partition
) -> None:
    there, back = both_ways
    produce(source.bootstrap, here.topic, [b"a", b"b"])
    produce(target.bootstrap, here.topic, [b"x", b"y"])
    copy_all(there, here, LOCAL)
    copy_all(back, here, LOCAL)
    produce(source.bootstrap, here.topic, [b"c"])
    produce(target.bootstrap, here.topic, [b"z"])
    copy_all(back, here, LOCAL)
    produce(source.bootstrap, here.topic, [b"d"])
    end = list_offsets(there.source, {here: LATEST}, within(20))[here]
    stream = streaming(there, opened_one(there, here, LOCAL), policies=LOCAL)
    step_until(stream, lambda: stream.parts[here].position >= end)
    stream.close()  # and nothing is on record
    opened = copy_all(there, here, LOCAL)
    copy_all(back, here, LOCAL)
    wanted = Counter([b"a", b"b", b"c", b"d", b"x", b"y", b"z"])
    assert values(source, here) == values(target, here) == wanted
    assert not opened.ledger.gaps


def test_a_writer_that_is_new_is_looked_up_while_others_are_copied(
    source: Any, target: Any, both_ways: tuple[Ends, Ends], here: Partition
) -> None:
    there, back = both_ways
    stream = streaming(there, opened_one(there, here, LOCAL), policies=LOCAL)
    wanted: list[bytes] = []
    for number in range(5):  # each producer has an id of its own
        value = b"%d" % number
        produce(source.bootstrap, here.topic, [value], **{"enable.idempotence": True})
        wanted.append(value)
        produce(target.bootstrap, here.topic, [b"back %d" % number])
        copy_all(back, here, LOCAL)
        step_until(stream, lambda: len(on_mirror(target, here)) == 2 * len(wanted))
    stream.finish(within(20))
    stream.close()
    copied = [seen.value for _, seen in on_mirror(target, here)]
    assert [one for one in copied if one in wanted] == wanted


def behind(real: Any, port: int, hidden: str) -> Alter:
    """Name one broker more, at a port, and leave a topic out: it has not heard of that yet."""

    def change(frame: bytes) -> bytes:
        told = MetadataResponse[12].decode(memoryview(frame)[9:])  # behind length and header
        (broker,) = told.brokers
        assert f"{broker.host}:{broker.port}" == real.bootstrap
        is_all = len(told.topics) > 1
        answer = MetadataResponse(
            version=12,
            throttle_time_ms=0,
            brokers=[broker, type(broker)(node_id=0, host=HOST, port=port, rack=None)],
            cluster_id=told.cluster_id,
            controller_id=told.controller_id,
            topics=[one for one in told.topics if one.name != hidden or not is_all],
        )
        body = frame[4:9] + bytes(answer.encode(version=12))
        return len(body).to_bytes(4, "big") + body

    return Alter(change)


@pytest.fixture
def proxy(source: Any) -> Iterator[Proxy]:
    with Proxy() as proxy:
        proxy.point_at(int(source.bootstrap.rpartition(":")[2]))
        yield proxy


def test_a_link_that_one_broker_has_not_heard_of_is_known_all_the_same(
    source: Any, target: Any, both_ways: tuple[Ends, Ends], here: Partition, proxy: Proxy
) -> None:
    _, back = both_ways
    produce(target.bootstrap, here.topic, [b"x"])
    written = copy_all(back, here, LOCAL).claim.producer_id
    proxy.on_reply(METADATA, behind(source, proxy.port, back.ledger_topic), times=None)
    settings = parse("source", {"bootstrap.servers": proxy.address})
    with closing(Provenance(settings)) as provenance:
        assert provenance.of_links([written, 10**9], within(20)) == {written}


def test_nobody_is_told_apart_while_a_broker_cannot_be_asked(source: Any, proxy: Proxy) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        nowhere = taken.getsockname()[1]
        proxy.on_reply(METADATA, behind(source, nowhere, "nothing"), times=None)
        settings = parse("source", {"bootstrap.servers": proxy.address})
        with closing(Provenance(settings)) as provenance, pytest.raises(ClusterError) as caught:
            provenance.of_links([10**9], within(3))
    assert caught.value.retriable and f"{nowhere}" in caught.value.message


def test_ledgers_that_may_not_be_read_are_told_of(private_cluster: Any) -> None:
    """Else the records of that link would be taken for the source's own, and go round."""
    cluster = private_cluster(sasl="PLAIN", acls=True, users=(User("mirror", "secret-of-it"),))
    internal = {"bootstrap.servers": cluster.internal_bootstrap}
    with Admin(parse("it", internal), "it") as admin:
        make_own_topics(admin, "inbound", within(20))
    settings = parse("it", cluster.client_properties("mirror"), True)
    with closing(Provenance(settings, ["inbound"])) as provenance, pytest.raises(NotAuthorized):
        provenance.of_links([1], within(20))
