"""``heliograph demo``: the guided first minutes."""

import time
from dataclasses import dataclass
from datetime import timedelta

import click

from heliograph.cli import render
from heliograph.cli.clusters import bring_up, fetch_jars
from heliograph.cli.options import Session, shared_options
from heliograph.errors import HeliographError, Superseded
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.compress import Codec
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import Claim, claim
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.properties import ClientSettings, parse
from heliograph.kafka.records import Record, decode, encode
from heliograph.kafka.waiting import scan, write
from heliograph.local import brokers
from heliograph.local.spec import Spec
from heliograph.model.configs import NewTopic
from heliograph.model.names import transactional_id
from heliograph.model.topics import Partition

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 30_000
_BATCH_RECORDS = 500
_PATIENCE = timedelta(seconds=60)
_COLUMNS = ("partition", "written", "read", "first", "last", "equal")


@click.command(short_help="See it work: two local clusters, records in and out.")
@shared_options
@click.pass_obj
def demo(session: Session, /) -> None:
    """Start two local clusters, write and read records, refuse a stale writer, stop them.

    Takes about ten seconds. Needs Java 17 or newer, downloads Kafka at the first use (44 MB),
    and otherwise leaves nothing behind. This version does not mirror yet: that lands later.
    """
    render.remark(session, "The mirror itself lands later. This shows the ground it stands on.")
    fetch_jars(session, verify=False)
    started = bring_up(session, [Spec(name="source"), Spec(name="target")], None)
    try:
        for cluster in started:
            render.remark(session, f"{cluster.name} serves at {cluster.bootstrap}")
        source, target = started
        records_in_and_out(session, source)
        stale_writer_refused(session, target)
    finally:
        for cluster in started:
            cluster.stop()
    render.remark(session, "Both clusters are stopped and their files removed.")


def records_in_and_out(session: Session, source: brokers.Cluster) -> None:
    """Write records to a new topic, read all of them back, and show that they are equal."""
    settings, deadline = _prepared(source)
    with Cluster(settings, source.name) as cluster:
        topic_id = cluster.describe([TOPIC], deadline).topics[TOPIC].topic_id
        written = {Partition(TOPIC, n): _orders(n) for n in range(PARTITIONS)}
        start_s = time.monotonic()
        for partition, records in written.items():
            write(cluster, partition, topic_id, _batches(records), deadline)
        render.remark(session, f"{RECORDS:,} records written in {_since(start_s)}, lz4 batches")
        start_s = time.monotonic()
        read = _read_all(cluster, list(written), deadline)
        render.remark(session, f"{RECORDS:,} records read back in {_since(start_s)}")
    rows = [_Row.of(p.partition, written[p], read[p]).as_dict() for p in written]
    render.show(session, rows, _COLUMNS, "nothing was written")
    if not all(row["equal"] for row in rows):
        raise HeliographError("what was read back is not what was written; see the table")


def stale_writer_refused(session: Session, target: brokers.Cluster) -> None:
    """Claim a partition twice, and let the first writer try once more."""
    settings, deadline = _prepared(target)
    partition = Partition(TOPIC, 0)
    with Cluster(settings, target.name) as cluster:
        topic_id = cluster.describe([TOPIC], deadline).topics[TOPIC].topic_id
        name = transactional_id("demo", TOPIC, 0)
        first = claim(cluster, name, [partition], deadline)
        write(cluster, partition, topic_id, [_stamped(first)], deadline)
        start_s = time.monotonic()
        claim(cluster, name, [partition], deadline)
        render.remark(session, f"a second writer claimed {partition} in {_since(start_s)}")
        try:
            write(cluster, partition, topic_id, [_stamped(first, sequence=1)], deadline)
        except Superseded as refused:
            render.remark(session, f"the first writer tried again and was refused: {refused.code}")
        else:
            raise AssertionError("a stale writer was not refused")


def _prepared(local: brokers.Cluster) -> tuple[ClientSettings, Deadline]:
    settings = parse(local.name, local.client_properties())
    deadline = Deadline.after(_PATIENCE)
    with Admin(settings, local.name) as admin:
        admin.topics.create(NewTopic(TOPIC, partitions=PARTITIONS), deadline=deadline)
    return settings, deadline


def _orders(partition: int) -> list[Record]:
    now_ms = int(time.time() * 1000)
    numbers = range(partition, RECORDS, PARTITIONS)
    return [Record(-1, now_ms, b"%d" % n, b'{"order": %d}' % n) for n in numbers]


def _batches(records: list[Record]) -> list[bytearray]:
    starts = range(0, len(records), _BATCH_RECORDS)
    return [encode(records[at : at + _BATCH_RECORDS], codec=Codec.LZ4) for at in starts]


def _stamped(writer: Claim, sequence: int = 0) -> bytearray:
    return encode(
        [Record(-1, int(time.time() * 1000), None, b"a record")],
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        base_sequence=sequence,
    )


def _read_all(
    cluster: Cluster, partitions: list[Partition], deadline: Deadline
) -> dict[Partition, list[Record]]:
    ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST), deadline)
    read: dict[Partition, list[Record]] = {partition: [] for partition in partitions}
    starts = dict.fromkeys(partitions, 0)
    for fetched in scan(cluster, starts, deadline, ends=ends, read_committed=True):
        for _, batch in fetched.batches:
            read[fetched.partition] += decode(batch)
    return read


def _since(start_s: float) -> str:
    return f"{(time.monotonic() - start_s) * 1000:.0f} ms"


@dataclass(frozen=True, slots=True)
class _Row:
    """What the demo shows of one partition."""

    partition: int
    written: int
    read: int
    first: int
    last: int
    equal: bool

    @classmethod
    def of(cls, partition: int, written: list[Record], read: list[Record]) -> "_Row":
        equal = [record[1:] for record in written] == [record[1:] for record in read]
        first, last = (read[0].offset, read[-1].offset) if read else (-1, -1)
        return cls(partition, len(written), len(read), first, last, equal)

    def as_dict(self) -> dict[str, object]:
        """Return the row under the names that JSON shows."""
        return {name: getattr(self, name) for name in _COLUMNS}
