"""Reads a mirror and notes how old each record is when it arrives. Run as a process.

``python -m bench.race.listen BOOTSTRAP TOPIC PARTITIONS ISOLATION SECONDS FILE``: prints a line
when the first record has arrived; then waits for a line on its input, the moment (nanoseconds) from
which records count. When records made ``SECONDS`` later arrive in every partition, it writes the
latencies to the file (nanoseconds, as signed 64-bit numbers) and prints how many were missing
and how many came twice.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka

from bench.race.load import STAMP

_AT_ONCE = 1000
_PATIENCE_S = 60.0


@dataclass
class Listener:
    """What was heard. Pure: somebody else reads."""

    partitions: int
    seconds: float
    begin_ns: int | None = None
    latencies: array[int] = field(default_factory=lambda: array("q"))
    lost: int = 0
    repeated: int = 0
    _numbers: dict[int, int] = field(default_factory=dict)
    _ended: set[int] = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        """Whether every partition has records made after the time that counts."""
        return len(self._ended) == self.partitions

    def hear(self, partition: int, value: bytes, now_ns: int) -> None:
        """Take one record that arrived."""
        made_ns, number = STAMP.unpack_from(value)
        last = self._numbers.get(partition, number - 1)
        if self.begin_ns is None or made_ns < self.begin_ns:
            # Not max(): the end of another stream may come first, with greater numbers.
            self._numbers[partition] = number
            return
        if made_ns >= self.begin_ns + self.seconds * 1e9:
            self._ended.add(partition)
            return
        self._numbers[partition] = max(number, last)
        if number <= last:
            self.repeated += 1
            return
        self.lost += number - last - 1
        self.latencies.append(now_ns - made_ns)


def messages(consumer: confluent_kafka.Consumer) -> Iterator[list[confluent_kafka.Message]]:
    """Yield what arrives, without ever waiting for more than one record."""
    while True:
        first = consumer.poll(0.1)
        # With a time limit, consume() would wait until it has as many as asked for.
        yield [] if first is None else [first, *consumer.consume(_AT_ONCE, timeout=0)]


def main() -> None:
    """Listen, and tell."""
    bootstrap, topic, partitions, isolation, seconds, path = sys.argv[1:]
    listener = Listener(int(partitions), float(seconds))
    consumer = confluent_kafka.Consumer(settings(bootstrap, isolation))
    places = [
        confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_END)
        for number in range(listener.partitions)
    ]
    consumer.assign(places)

    def begin() -> None:
        listener.begin_ns = int(sys.stdin.readline())

    heard_any, until_s = False, time.monotonic() + listener.seconds + _PATIENCE_S
    for some in messages(consumer):
        now_ns = time.time_ns()
        for message in some:
            if message.error():
                raise RuntimeError(str(message.error()))
            listener.hear(message.partition(), message.value(), now_ns)
        if some and not heard_any:
            heard_any = True
            print("heard", flush=True)
            threading.Thread(target=begin, daemon=True).start()
        if listener.is_over or time.monotonic() > until_s:
            break
    consumer.close()
    with Path(path).open("wb") as file:
        listener.latencies.tofile(file)
    said = {"over": listener.is_over, "lost": listener.lost, "repeated": listener.repeated}
    print(json.dumps(said), flush=True)


def settings(bootstrap: str, isolation: str) -> dict[str, str | int]:
    """Return the settings of a reader, the same for all tools."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "race",
        "enable.auto.commit": "false",
        "isolation.level": isolation,
        "fetch.wait.max.ms": 10,
        "fetch.min.bytes": 1,
        "fetch.queue.backoff.ms": 10,
        "socket.nagle.disable": "true",
    }


if __name__ == "__main__":
    main()
