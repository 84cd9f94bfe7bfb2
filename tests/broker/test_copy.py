"""Raw copies on real brokers, compared field by field by an independent reader."""

import random
from typing import Any

import pytest
from confluent_kafka import Producer as RdProducer

from bench.raw_copy import RawCopy, claim_mirror, topic_ends, within
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.compress import Codec
from heliograph.kafka.records import Record, encode
from heliograph.kafka.waiting import write
from heliograph.model.topics import Partition
from tests.checker.compare import count_equal
from tests.making import create_topic

RECORDS = 300_000
PARTITIONS = 4
ODD_RECORDS = 20_000
CODECS = [codec.name.lower() for codec in Codec]


def produce_ordinary(bootstrap: str, topic: str, codec: str, records: int, seed: int) -> None:
    """Write records of many shapes with librdkafka, in batches of many sizes."""
    chance = random.Random(seed)
    producer = RdProducer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 5,
            "batch.size": 100_000,
            "queue.buffering.max.messages": 500_000,
        }
    )
    values = [chance.randbytes(chance.randrange(1, 200)) for _ in range(500)] + [None, b""]
    headers = [[("trace", b"1"), ("trace", b"2")], [("empty", b""), ("null", None)], None, None]
    for number in range(records):
        producer.produce(
            topic,
            value=values[number % len(values)],
            key=None if number % 7 == 0 else b"" if number % 11 == 0 else str(number).encode(),
            partition=number % PARTITIONS,
            timestamp=1_700_000_000_000 + number - chance.randrange(10_000),
            headers=headers[number % 4],
        )
        if number % 100_000 == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def produce_odd(source: Cluster, topic: str, codec: Codec, records: int) -> None:
    """Write what librdkafka cannot: timestamps 0 and -1, negative and far apart."""
    topic_id = source.describe([topic], within(10)).topics[topic].topic_id
    times = [0, -1, 1, -5, 1_700_000_000_000, 946_684_800_000]
    for number in range(PARTITIONS):
        rows = [
            Record(
                -1,
                times[i % len(times)],
                None if i % 3 == 0 else b"k%d" % i,
                None if i % 5 == 0 else b"v" * (i % 300),
                ((b"h", None), (b"h", b""), (b"h", b"x")) if i % 4 == 0 else (),
            )
            for i in range(records // PARTITIONS)
        ]
        batches = [encode(rows[i : i + 500], codec=codec) for i in range(0, len(rows), 500)]
        write(source, Partition(topic, number), topic_id, batches, within(60))


@pytest.mark.parametrize("codec", CODECS)
def test_a_raw_copy_is_equal_field_by_field(
    codec: str, source: Any, target: Any, ends: tuple[Cluster, Cluster], topic_name: str
) -> None:
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name, PARTITIONS)
    produce_ordinary(source.bootstrap, topic_name, codec, RECORDS - ODD_RECORDS, seed=1)
    produce_odd(ends[0], topic_name, Codec[codec.upper()], ODD_RECORDS)

    wanted = topic_ends(ends[0], topic_name, within(30))
    ends[1].describe([topic_name], within(30))
    claims = claim_mirror(ends[1], topic_name, PARTITIONS, within(30))
    RawCopy(*ends, wanted, topic_name, claims).run(within(120))

    both = (source.bootstrap, topic_name, target.bootstrap, topic_name)
    assert count_equal(*both, PARTITIONS) == RECORDS
