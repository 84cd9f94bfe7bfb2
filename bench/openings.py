"""Thousands of partitions in one task: how soon all are opened, and all handed over.

    python -m bench.openings [--open 8000] [--hand 1500] [--delay-ms 25]

Two local clusters, everything on this machine; the task is this process. Opened: so many mirror
partitions are claimed, for the first time and once more. Handed over: to each of so many partitions
something is written all the time, the target is a round trip of twice the delay away, and the
lease ends; what is not acknowledged and on record then has to be claimed by the next lease.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import resource
import selectors
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench.race.__main__ import conditions
from bench.raw_copy import within
from heliograph.copy.errands import Errands
from heliograph.copy.opened import Ends, Opened
from heliograph.copy.stream import Stream
from heliograph.errors import HeliographError
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.links.own_topics import make_own_topics
from heliograph.local.launch import start
from heliograph.local.spec import Spec
from heliograph.model.configs import NewTopic
from heliograph.model.names import ledger_topic
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition

LINK = "openings"
_A_TOPIC = 100
_WITHIN_S = 600.0
_BUSY_S = 10.0
_LEASE_END_S = 10.0


def main() -> int:
    """Measure what was asked for and print a table."""
    parser = argparse.ArgumentParser(prog="bench.openings", description=__doc__.split("\n\n")[0])
    parser.add_argument("--open", type=int, default=8000)
    parser.add_argument("--hand", type=int, default=1500)
    parser.add_argument("--delay-ms", type=float, default=25.0)
    asked = parser.parse_args()
    print(f"## Many partitions in one task, {conditions('two clusters of one broker')}\n")
    rows: dict[str, float] = {}
    if asked.open:
        rows |= _alone(_open, asked.open)
    if asked.hand:
        rows |= _alone(_hand, asked.hand, asked.delay_ms / 1000)
    print("| | |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value:.1f} |")
    return 0


def _alone(measure: Callable[..., dict[str, float]], *asked: float) -> dict[str, float]:
    """Measure in a process of its own: its memory is that of one task."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *asked).result()


def _open(count: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with _clusters() as (source, target), _ends(source, target, count) as (ends, parts):
        for name in ("opened for the first time", "opened again"):
            before_mb = _peak_mb()
            opened: dict[Partition, Opened | HeliographError] = {}
            began_s, most_files, errands = time.monotonic(), 0, _opening(ends, parts, opened)
            while len(opened) < len(parts) and time.monotonic() - began_s < _WITHIN_S:
                errands.pump()
                ends.target.loop.turn(0.1)
                most_files = max(most_files, len(list(Path("/proc/self/fd").iterdir())))
            bad = [one for one in opened.values() if isinstance(one, HeliographError)]
            found |= {
                f"{count} partitions {name}, s": time.monotonic() - began_s,
                f"{name}: not opened": len(parts) - len(opened) + len(bad),
                f"{name}: most descriptors": most_files,
                f"{name}: memory it took beside what was there, MB": _peak_mb() - before_mb,
            }
            print(found, bad[:2], file=sys.stderr)
    return found


def _hand(count: int, delay_s: float) -> dict[str, float]:
    with _clusters(delay_s) as (source, target), _ends(source, target, count) as (ends, parts):
        opened: dict[Partition, Opened | HeliographError] = {}
        errands = _opening(ends, parts, opened)
        until_s = time.monotonic() + _WITHIN_S
        while len(opened) < len(parts):
            assert time.monotonic() < until_s, f"{len(opened)} opened"
            errands.pump()
            ends.target.loop.turn(0.1)
        stream = Stream(ends)
        for one in opened.values():
            assert isinstance(one, Opened), one
            stream.add(one)
        with _load(source.bootstrap, parts):
            over_s = time.monotonic() + _BUSY_S
            parts_under_way = stream.parts.values()
            while time.monotonic() < over_s or not all(one.records for one in parts_under_way):
                assert time.monotonic() < until_s, "not all are copied"
                stream.step()
            began_s = time.monotonic()
            stream.finish(within(_LEASE_END_S))
            took_s = time.monotonic() - began_s
        failed = len(stream.take_failures())
        stream.close()
    return {
        f"{count} busy partitions handed over at {delay_s * 2000:.0f} ms, s": took_s,
        "not handed over": failed,
        "peak memory of the task, MB": _peak_mb(),
    }


def _opening(
    ends: Ends,
    parts: Mapping[Partition, Partition],
    opened: dict[Partition, Opened | HeliographError],
) -> Errands:
    """Open partitions as a task does; they are there as the loop turns and errands are pumped."""
    settings = ends.source.settings, ends.target.settings
    errands = Errands(ends.target.loop, LINK, ends.ledger_topic, *settings)
    errands.open(parts, Policies(), {}, (), opened.update)
    return errands


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def _clusters(delay_s: float = 0.0) -> Iterator[tuple[Any, Any]]:
    with tempfile.TemporaryDirectory(prefix="heliograph-bench-") as name:
        folder = Path(name)
        if not delay_s:
            source, target = start(Spec(name="source"), Spec(name="target"), under=folder)
            with source, target:
                yield source, target
            return
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            there = Spec(name="target", advertised_port=listener.getsockname()[1])
            source, target = start(Spec(name="source"), there, under=folder)
            with source, target:
                asked = (listener, target.node(1).ports.client, delay_s)
                way = multiprocessing.get_context("fork").Process(target=_delay, args=asked)
                way.start()
                try:
                    yield source, target
                finally:
                    way.terminate()
                    way.join()


def _delay(listener: socket.socket, port: int, delay_s: float) -> None:
    """Pass bytes between the listener's connections and a port, each so much later."""
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        left_s = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else None
        for key, _ in selector.select(left_s):
            if key.data is None:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                for one, other in ((near, far), (far, near)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(one, selectors.EVENT_READ, other)
                continue
            try:
                some = key.fileobj.recv(1 << 18)  # type: ignore[union-attr]
            except OSError:
                some = b""
            if not some:
                selector.unregister(key.fileobj)
            waiting.append((time.monotonic() + delay_s, key.data, some))
        while waiting and waiting[0][0] <= time.monotonic():
            _, to, some = waiting.popleft()
            with contextlib.suppress(OSError):
                if some:
                    to.sendall(some)
                else:
                    to.shutdown(socket.SHUT_WR)


@contextmanager
def _ends(
    source: Any, target: Any, count: int
) -> Iterator[tuple[Ends, dict[Partition, Partition]]]:
    """Make topics on both ends and the link's own; connect as a task does."""
    topics = {f"topic-{n:03}": _A_TOPIC for n in range(-(-count // _A_TOPIC))}
    loop = Loop()
    near, far = ({"bootstrap.servers": one.bootstrap} for one in (source, target))
    for name, properties in (("source", near), ("target", far)):
        with Admin(parse(name, properties), name) as admin:
            new = [NewTopic(topic, partitions, 1) for topic, partitions in topics.items()]
            for at in range(0, len(new), 5):
                some = admin.topics.create_many(new[at : at + 5], deadline=within(120))
                for made in some.values():
                    assert not isinstance(made, HeliographError), made
            admin.topics.await_leaders(list(topics), within(300))
            if name == "target":
                make_own_topics(admin, LINK, within(60))
    with (
        Cluster(parse("source", near), "source", loop) as one,
        Cluster(parse("target", far), "target", loop) as other,
    ):
        other.describe([ledger_topic(LINK)], within(60))
        parts = [Partition(topic, n) for topic, many in topics.items() for n in range(many)]
        yield Ends(LINK, one, other, ledger_topic(LINK)), {part: part for part in parts[:count]}
    loop.close()


@contextmanager
def _load(bootstrap: str, parts: Mapping[Partition, Partition]) -> Iterator[None]:
    """Write to each partition about every second, while in the context."""
    over = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        while not over.is_set():
            for part in parts:
                producer.produce(part.topic, b"x" * 100, partition=part.partition)
            producer.poll(0)
            over.wait(0.7)
        producer.flush(30)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


if __name__ == "__main__":
    sys.exit(main())
