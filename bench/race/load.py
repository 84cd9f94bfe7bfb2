"""A steady stream of records into one topic, each with the time it was made. Run as a process.

``python -m bench.race.load BOOTSTRAP TOPIC PARTITIONS RATE LINGER_MS`` until its input ends. A line
on its input is the moment (nanoseconds) from which records count. At the end it prints, of these,
how late the source acknowledged them: on a busy machine the load itself may be what is slow.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import confluent_kafka

from bench.race.verdicts import percentile

STAMP = struct.Struct(">qq")
"""What a value begins with: nanoseconds of wall clock time, and a number that grows by one in
each partition."""
_VALUE_BYTES = 300
_TICK_S = 0.001


@dataclass
class Load:
    """A stream, and when the source took its records."""

    begin_ns: int | None = None
    latencies: array[int] = field(default_factory=lambda: array("q"))
    is_over: bool = False

    def delivered(self, error: object, message: confluent_kafka.Message) -> None:
        """Note how long one record took to the source's log."""
        if error is not None:
            raise RuntimeError(f"a record was not taken by the source: {error}")
        made_ns, _ = STAMP.unpack_from(message.value())
        if self.begin_ns is not None and made_ns >= self.begin_ns:
            self.latencies.append(time.time_ns() - made_ns)

    def follow(self, lines: Iterable[str]) -> None:
        """Be told when records begin to count and, by the end of the lines, when to stop."""
        for line in lines:
            self.begin_ns = int(line)
        self.is_over = True

    def pace(
        self, producer: confluent_kafka.Producer, topic: str, partitions: int, rate: int
    ) -> None:
        """Produce ``rate`` records a second, evenly, to the partitions in turn."""
        rest = b"x" * (_VALUE_BYTES - STAMP.size)
        sent, began_s = 0, time.perf_counter()
        while not self.is_over:
            due = int((time.perf_counter() - began_s) * rate)
            while sent < due:
                number, partition = divmod(sent, partitions)
                value = STAMP.pack(time.time_ns(), number) + rest
                producer.produce(topic, value, partition=partition, on_delivery=self.delivered)
                sent += 1
            producer.poll(0)
            time.sleep(_TICK_S)
        producer.flush()


def main() -> None:
    """Run until the input ends: so also when whoever started this is gone."""
    bootstrap, topic, partitions, rate, linger_ms = sys.argv[1:]
    settings = {"bootstrap.servers": bootstrap, "linger.ms": linger_ms, "acks": "all"}
    settings["socket.nagle.disable"] = "true"
    load = Load()
    threading.Thread(target=load.follow, args=(iter(sys.stdin.readline, ""),), daemon=True).start()
    load.pace(confluent_kafka.Producer(settings), topic, int(partitions), int(rate))
    ordered = sorted(load.latencies)
    shares = {"p50_ns": 0.5, "p99_ns": 0.99}
    told = {name: percentile(ordered, share) for name, share in shares.items()} if ordered else {}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
