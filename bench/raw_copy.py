"""The smallest copy loop: fetch, restamp, produce. What the wire alone can do.

Not the engine: no ledger, no match, no leases. Benchmarks and tests of the wire drive it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from heliograph.errors import HeliographError
from heliograph.kafka.batch import Header, restamp, sequence_after
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import Claim, claim_all
from heliograph.kafka.fetch import Fetched, Fetcher
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.produce import Producer
from heliograph.kafka.rebuild import rebuild
from heliograph.model.names import transactional_id
from heliograph.model.topics import Partition

MOST_WAITING_BYTES = 16 << 20


def topic_ends(cluster: Cluster, topic: str, deadline: Deadline) -> dict[Partition, int]:
    """Return the stable end of each partition of a topic."""
    view = cluster.describe([topic], deadline)
    wanted = {Partition(topic, n): LATEST for n in view.topics[topic].partitions}
    return list_offsets(cluster, wanted, deadline, read_committed=True)


def claim_mirror(
    target: Cluster, mirror: str, partitions: int, deadline: Deadline
) -> dict[int, Claim]:
    """Claim every partition of a mirror, all at once."""
    wanted = {transactional_id("raw", mirror, n): [Partition(mirror, n)] for n in range(partitions)}
    claims = claim_all(target, wanted, deadline)
    found: dict[int, Claim] = {}
    for number, result in enumerate(claims[tid] for tid in wanted):
        if isinstance(result, HeliographError):
            raise result
        found[number] = result
    return found


@dataclass
class Copied:
    """What a copy did."""

    batches: int = 0
    size_bytes: int = 0
    offsets: dict[Partition, list[int]] = field(default_factory=dict)


class RawCopy:
    """Copies one topic from its start to given ends, as fast as the two clusters allow."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        ends: Mapping[Partition, int],
        mirror: str,
        claims: Mapping[int, Claim],
        *,
        lanes: int = 1,
    ) -> None:
        assert source.loop is target.loop, "one loop drives both ends"
        self._loop = source.loop
        self._fetcher = Fetcher(source, lanes=lanes)
        self._producer = Producer(target, lanes=lanes)
        self._mirror = mirror
        self._mirror_id = target.view.topics[mirror].topic_id
        self._ends = ends
        self._claims = claims
        self._left = {p for p, end in ends.items() if end > 0}
        self._sequences = dict.fromkeys(claims, 0)
        self._waiting_bytes = dict.fromkeys(ends, 0)
        self._failure: HeliographError | None = None
        self.copied = Copied(offsets={p: [] for p in ends})
        for partition in self._left:
            topic_id = source.view.topics[partition.topic].topic_id
            self._fetcher.start(partition, topic_id, 0)

    def run(self, deadline: Deadline) -> Copied:
        """Copy to the ends; every batch is acknowledged when this returns."""
        while self.step():
            if deadline.passed:
                raise TimeoutError(f"not copied in time: {sorted(self._left)}")
        return self.copied

    def step(self) -> bool:
        """Do what is possible now; return whether something is left to do."""
        self._fetcher.pump()
        self._producer.pump()
        self._loop.turn(0.1)
        for fetched in self._fetcher.take():
            self._pass_on(fetched)
        self._producer.pump()
        if self._failure is not None:
            raise self._failure
        return bool(self._left or self._producer.unfinished)

    def _pass_on(self, fetched: Fetched) -> None:
        if fetched.error is not None:
            raise fetched.error
        for header, batch in fetched.batches:
            if header.base_offset < self._ends[fetched.partition]:
                self._write(fetched.partition, header, batch)
        if fetched.next_offset >= self._ends[fetched.partition]:
            self._fetcher.stop(fetched.partition)
            self._left.discard(fetched.partition)

    def _write(self, partition: Partition, header: Header, batch: memoryview | bytearray) -> None:
        count = header.count
        if header.needs_rebuild:
            rebuilt = rebuild(batch)
            if rebuilt is None:
                return
            batch, count = rebuilt.batch, sum(length for _, length in rebuilt.source_offsets)
        number = partition.partition
        claim, sequence = self._claims[number], self._sequences[number]
        restamp(batch, claim.producer_id, claim.epoch, sequence)
        self._sequences[number] = sequence_after(sequence, count)
        self._waiting_bytes[partition] += len(batch)
        if self._waiting_bytes[partition] > MOST_WAITING_BYTES and partition in self._left:
            self._fetcher.pause(partition)
        done = partial(self._done, partition, len(batch))
        self._producer.send(Partition(self._mirror, number), self._mirror_id, batch, done)

    def _done(self, partition: Partition, size_bytes: int, outcome: int | HeliographError) -> None:
        self._waiting_bytes[partition] -= size_bytes
        if partition in self._left and self._waiting_bytes[partition] <= MOST_WAITING_BYTES:
            self._fetcher.resume(partition)
        if isinstance(outcome, HeliographError):
            self._failure = self._failure or outcome
            return
        self.copied.batches += 1
        self.copied.size_bytes += size_bytes
        self.copied.offsets[partition].append(outcome)


def within(seconds: float) -> Deadline:
    """Return the deadline that many seconds from now."""
    return Deadline.after(timedelta(seconds=seconds))
