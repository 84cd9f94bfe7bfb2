"""Logins that run out, on a real broker."""

from collections.abc import Callable
from typing import Any

from bench.raw_copy import within
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fence import claim
from heliograph.kafka.produce import Producer
from heliograph.kafka.properties import parse
from heliograph.kafka.records import Record, encode
from heliograph.kafka.transport import Channel
from heliograph.model.topics import Partition
from tests.checker.reading import read_partition
from tests.making import create_topic


def test_a_channel_is_replaced_before_its_login_runs_out_and_nothing_is_lost(
    private_cluster: Callable[..., Any], topic_name: str
) -> None:
    lifetime = {"connections.max.reauth.ms": "2000"}
    local = private_cluster(sasl="SCRAM-SHA-256", properties=lifetime)
    create_topic(local.internal_bootstrap, topic_name)
    settings = parse(local.name, local.client_properties(reveal=False))
    partition = Partition(topic_name, 0)
    with Cluster(settings, local.name) as cluster:
        topic_id = cluster.describe([topic_name], within(20)).topics[topic_name].topic_id
        writer = claim(cluster, topic_name, [partition], within(20))
        producer = Producer(cluster)
        channels: list[Channel] = []
        offsets: list[Any] = []
        sequence = 0
        deadline = within(30)
        while len(channels) < 4:  # three logins ran out meanwhile
            assert not deadline.passed
            if producer.unfinished < 5:
                batch = encode(
                    [Record(-1, 1_790_000_000_000, None, b"%d" % sequence)],
                    producer_id=writer.producer_id,
                    producer_epoch=writer.epoch,
                    base_sequence=sequence,
                )
                producer.send(partition, topic_id, batch, offsets.append)
                sequence += 1
            producer.pump()
            cluster.loop.turn(0.02)
            lane = cluster.channel(1, "produce0")
            if lane is not None and lane not in channels:
                channels.append(lane)
        while producer.unfinished:
            assert not deadline.passed
            producer.pump()
            cluster.loop.turn(0.02)
    # Closed by us, drained; had the broker closed one, its error would say so.
    for replaced in channels[:-1]:
        assert replaced.error is not None and "was closed" in replaced.error.message
    assert all(isinstance(offset, int) for offset in offsets)
    seen = read_partition(local.internal_bootstrap, topic_name, 0, committed=False)
    assert [record.value for _, record in seen] == [b"%d" % n for n in range(sequence)]
