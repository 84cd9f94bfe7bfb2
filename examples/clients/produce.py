"""Writes lines to a topic, with confluent-kafka: produce.py BOOTSTRAP TOPIC.

A line is printed when it was acknowledged. What was not printed when the process ends is to be
given to the next one: it may have been written or not, so this is at least once.
"""

import os
import sys
import threading

from confluent_kafka import KafkaError, Message, Producer

START_AGAIN = 75


def on_error(error: KafkaError) -> None:
    """Told by librdkafka of errors that belong to no record."""
    if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():
        end(error)


def on_delivery(error: KafkaError | None, message: Message) -> None:
    """Told of each record, in order."""
    if error is not None:
        end(error)
    sys.stdout.write(f"{message.value().decode()}\n")
    sys.stdout.flush()


def end(error: KafkaError) -> None:
    """Leave at once: what this process still holds has a producer id of the old cluster."""
    os.write(2, f"{error}\n".encode())
    os._exit(START_AGAIN)


def serve() -> None:
    """Pass on what librdkafka has to tell, also while no line comes."""
    while True:
        producer.poll(0.1)


bootstrap, topic = sys.argv[1:]
producer = Producer(
    {
        "bootstrap.servers": bootstrap,
        # A producer id of one cluster is somebody else's on another: never take it there.
        "metadata.recovery.strategy": "none",
        "error_cb": on_error,
        "socket.timeout.ms": 15_000,
        "acks": "all",
        "enable.idempotence": True,
        "delivery.timeout.ms": 60_000,
        "linger.ms": 5,
    }
)
threading.Thread(target=serve, daemon=True).start()
for line in sys.stdin:
    producer.produce(topic, line.rstrip("\n").encode(), on_delivery=on_delivery)
producer.flush()
