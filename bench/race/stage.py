"""Where the race takes place: two clusters of one broker, topics on one, mirrors on the other."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path

from bench.race.fill import Filled, Make, fill
from bench.race.timeline import Span
from bench.race.tools import TARGET, Leg
from bench.raw_copy import topic_ends, within
from heliograph.kafka.admin import Admin
from heliograph.kafka.admin_configs import ALL_BROKERS
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.kafka.waiting import scan
from heliograph.local import brokers
from heliograph.local.launch import start
from heliograph.local.spec import Spec
from heliograph.model.configs import NewTopic
from heliograph.model.topics import Partition

HEAP = "1g"
PROPERTIES = {
    # A run's mirror is deleted after it. Unwritten pages that stay would be written, for
    # nothing, during the next run.
    "log.segment.delete.delay.ms": "1000",
}
_SCAN_S = 300
_EXPIRATION = "producer.id.expiration.ms"


@dataclass(frozen=True)
class Counted:
    """What stands on a mirror: where, and how many records in each partition."""

    spans: tuple[Span, ...]
    records: tuple[int, ...]


class Stage:
    """Two running clusters, and what is done on them between the runs."""

    def __init__(
        self,
        folder: Path,
        source: tuple[brokers.Cluster, Cluster, Admin],
        target: tuple[brokers.Cluster, Cluster, Admin],
    ) -> None:
        self.folder = folder
        self._source, self.source, self.source_admin = source
        self._target, self.target, self.target_admin = target
        self._numbers = count(1)

    def leg(self, topic: str) -> Leg:
        """Return a new run's names: nobody has used them."""
        alias = f"race{next(self._numbers):03d}"
        return Leg(alias, topic, self._source.bootstrap, self._target.bootstrap)

    def make(self, make: Make) -> None:
        """Create an empty topic on the source."""
        # Old records must not go before they are mirrored.
        keep = {"retention.ms": "-1"}
        self.source_admin.topics.create(NewTopic(make.topic, make.partitions, 1, keep))
        self.source_admin.topics.await_leaders([make.topic])

    def fill(self, make: Make, records: int) -> Filled:
        """Create and fill a topic on the source."""
        self.make(make)
        return fill(self.source, self._source.bootstrap, make, records)

    def drop(self, topic: str) -> None:
        """Delete a topic of the source."""
        self.source_admin.topics.delete(topic)

    def wipe(self, leg: Leg) -> None:
        """Delete whatever a run has left on the two clusters."""
        for admin in (self.source_admin, self.target_admin):
            for topic in admin.topics.names():
                if leg.alias in topic:
                    admin.topics.delete(topic)

    def count(self, mirror: str) -> Counted:
        """Read a mirror as a read_committed reader would; what it cannot read does not count."""
        ends = topic_ends(self.target, mirror, within(20))
        firsts: dict[int, int] = {}
        lasts: dict[int, int] = {}
        records = dict.fromkeys((partition.partition for partition in ends), 0)
        starts: dict[Partition, int] = dict.fromkeys(ends, 0)
        for fetched in scan(self.target, starts, within(_SCAN_S), ends=ends, read_committed=True):
            number = fetched.partition.partition
            for header, _ in fetched.batches:
                firsts.setdefault(number, header.base_offset)
                lasts[number] = header.next_offset
                records[number] += header.count
        spans = tuple(Span(firsts.get(n, 0), lasts.get(n, 0)) for n in sorted(records))
        return Counted(spans, tuple(records[n] for n in sorted(records)))

    @contextmanager
    def remembering(self, duration: timedelta) -> Iterator[None]:
        """Let the target's brokers remember producers for longer, for a while."""
        put = {_EXPIRATION: str(int(duration.total_seconds() * 1000))}
        self.target_admin.configs.change_broker(ALL_BROKERS, put=put)
        try:
            yield
        finally:
            self.target_admin.configs.change_broker(ALL_BROKERS, remove=[_EXPIRATION])


@contextmanager
def stage() -> Iterator[Stage]:
    """Start two clusters; at the end, nothing of them is left."""
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="heliograph-race-"))
        specs = [Spec(name=n, heap=HEAP, properties=PROPERTIES) for n in ("source", TARGET)]
        clusters = start(*specs, under=Path(name))
        for cluster in clusters:
            stack.callback(cluster.stop)
        loop = Loop()
        stack.callback(loop.close)
        ends = []
        for cluster in clusters:
            settings = parse(cluster.name, cluster.client_properties())
            client = stack.enter_context(Cluster(settings, cluster.name, loop))
            ends.append((cluster, client, stack.enter_context(Admin(settings, cluster.name))))
        yield Stage(Path(name), ends[0], ends[1])
