"""Prints what a group reads, with confluent-kafka: consume.py BOOTSTRAP TOPIC GROUP.

Ends when all brokers that it knows are gone. Whoever supervises it starts it again, and then it
finds the cluster that the name of the bootstrap servers leads to by now.
"""

import os
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException

START_AGAIN = 75


def on_error(error: KafkaError) -> None:
    """Told by librdkafka of errors that belong to no record."""
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        # At once: neither a commit nor a flush of this process belongs on another cluster.
        os.write(2, f"{error}\n".encode())
        os._exit(START_AGAIN)


bootstrap, topic, group = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        # Positions of one cluster mean nothing on another: never take them there.
        "metadata.recovery.strategy": "none",
        "error_cb": on_error,
        # A silent cluster is given up after this long.
        "socket.timeout.ms": 15_000,
        # A group without an offset is somebody's mistake: stop, and do not choose.
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
)
consumer.subscribe([topic])
while True:
    record = consumer.poll(0.5)
    if record is None:
        continue
    if record.error():
        raise KafkaException(record.error())
    sys.stdout.write(f"{record.offset()} {record.value().decode()}\n")
    sys.stdout.flush()
    # Of records that are dealt with. It is sent in the background; the last one wins.
    consumer.commit(record)
