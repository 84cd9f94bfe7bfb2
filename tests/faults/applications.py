"""Applications for tests of recovery: a producer and a member of a group, by librdkafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer

_EVERY_S = 0.005
_END_S = 90.0


@dataclass
class Written:
    """What a producer wrote, and what the brokers acknowledged."""

    first: int
    acknowledged: list[bytes] = field(default_factory=list)
    sent: int = 0


@contextmanager
def producing(
    bootstrap: str, topic: str, first: int, until: Path | None = None
) -> Iterator[Written]:
    """Write numbered records until the block ends, from ``first`` on; spread by their keys.

    Or until a file is there, as a hook of the link may make it.
    """
    written, over = Written(first), threading.Event()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "delivery.timeout.ms": 8000,
            "linger.ms": 5,
        }
    )

    def told(error: KafkaError | None, message: Message) -> None:
        if error is None:
            written.acknowledged.append(message.value() or b"")

    def write() -> None:
        while not over.wait(_EVERY_S) and not _is_there(until):
            value = b"%d" % (first + written.sent)
            producer.produce(topic, value, key=value[-1:], on_delivery=told)
            written.sent += 1
            producer.poll(0)
        producer.flush(20)

    thread = threading.Thread(target=write, name="producer")
    thread.start()
    try:
        yield written
    finally:
        over.set()
        thread.join(_END_S)
        assert not thread.is_alive(), f"the {thread.name} does not end"


@contextmanager
def consuming(
    bootstrap: str, topic: str, group: str, until: Path | None = None, *, leaves: bool = True
) -> Iterator[list[bytes]]:
    """Read as a member of a group until the block ends, committing what was read at once.

    Or until a file is there. Then it leaves its group, unless it is told not to: where all brokers
    are dead, librdkafka may wait for minutes to do so.
    """
    read: list[bytes] = []
    over = threading.Event()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )
    consumer.subscribe([topic])

    def run() -> None:
        while not over.is_set() and not _is_there(until):
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue
            read.append(message.value() or b"")
            consumer.commit(message, asynchronous=True)
        if leaves:
            consumer.close()

    thread = threading.Thread(target=run, name="consumer")
    thread.start()
    try:
        yield read
    finally:
        over.set()
        thread.join(_END_S)
        assert not thread.is_alive(), f"the {thread.name} does not end"


def _is_there(file: Path | None) -> bool:
    return file is not None and file.exists()


def settle(read: list[bytes], seconds: float = 2.0, most_s: float = 60.0) -> None:
    """Wait until nothing more has been read for a while."""
    over_s = time.monotonic() + most_s
    count, since_s = len(read), time.monotonic()
    while time.monotonic() - since_s < seconds:
        assert time.monotonic() < over_s, "records keep coming"
        time.sleep(0.05)
        if len(read) != count:
            count, since_s = len(read), time.monotonic()
