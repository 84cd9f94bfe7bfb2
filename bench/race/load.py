"""A steady stream of records into one topic, each with the time it was made. Run as a process.

``python -m bench.race.load BOOTSTRAP TOPIC PARTITIONS RATE LINGER_MS`` until its input ends.
"""

import struct
import sys
import threading
import time

import confluent_kafka

STAMP = struct.Struct(">qq")
"""What a value begins with: nanoseconds of wall clock time, and a number that grows by one in
each partition."""
_VALUE_BYTES = 300
_TICK_S = 0.001


def pace(
    producer: confluent_kafka.Producer, topic: str, partitions: int, rate: int, end: threading.Event
) -> None:
    """Produce ``rate`` records a second, evenly, to the partitions in turn."""
    rest = b"x" * (_VALUE_BYTES - STAMP.size)
    sent, began_s = 0, time.perf_counter()
    while not end.is_set():
        due = int((time.perf_counter() - began_s) * rate)
        while sent < due:
            number, partition = divmod(sent, partitions)
            stamp = STAMP.pack(time.time_ns(), number)
            producer.produce(topic, stamp + rest, partition=partition, on_delivery=_delivered)
            sent += 1
        producer.poll(0)
        time.sleep(_TICK_S)
    producer.flush()


def _delivered(error: object, _: object) -> None:
    if error is not None:
        raise RuntimeError(f"a record was not taken by the source: {error}")


def main() -> None:
    """Run until the input ends: so also when whoever started this is gone."""
    bootstrap, topic, partitions, rate, linger_ms = sys.argv[1:]
    end = threading.Event()
    settings = {"bootstrap.servers": bootstrap, "linger.ms": linger_ms, "acks": "all"}
    settings["socket.nagle.disable"] = "true"

    def wait() -> None:
        sys.stdin.read()
        end.set()

    threading.Thread(target=wait, daemon=True).start()
    pace(confluent_kafka.Producer(settings), topic, int(partitions), int(rate), end)


if __name__ == "__main__":
    main()
