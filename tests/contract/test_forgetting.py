"""What a broker forgets, and what it takes afterwards. The real one looks every second."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.kafka import clock
from heliograph.kafka.cluster import Cluster as KafkaCluster
from heliograph.kafka.properties import parse
from heliograph.kafka.records import encode
from heliograph.kafka.transport import Loop
from heliograph.local.brokers import Cluster
from heliograph.local.launch import start
from heliograph.local.spec import Spec
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.linked import make_ledger, record, step_until, streaming, write_batches
from tests.checker.reading import read_partition
from tests.contract.sides import RealSide, Side, SimulatedSide, within
from tests.contract.test_claiming import begin, claim
from tests.contract.wire import Ack, Wire, batch
from tests.making import create_topic

TWO_DAYS_MS = 2 * 86_400_000
EVERY_SECOND = {
    "producer.id.expiration.check.interval.ms": "1000",
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def forgetful(clusters_folder: Path) -> Iterator[Cluster]:
    (cluster,) = start(Spec(name="forgetful", properties=EVERY_SECOND), under=clusters_folder)
    with cluster:
        yield cluster


@pytest.fixture(params=["simulated", "real"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    real = request.param == "real"
    made: Side = RealSide(request.getfixturevalue("forgetful")) if real else SimulatedSide()
    yield made
    made.close()


def test_repeat_of_old_records_is_stored_twice_once_their_writer_is_forgotten(
    side: Side, wire: Wire, partition: Partition
) -> None:
    """The reason for design 3.4: time is that of the records, not of the write."""
    who = (4_000_000_000, 0)
    old = batch(who, 0, age_ms=TWO_DAYS_MS)
    assert wire.produce(partition, old) == Ack(0, 0)
    side.wait_for_expiry(lambda: wire.produce(partition, old).offset > 0)


def test_fenced_writer_is_accepted_once_its_successor_wrote_old_records(
    side: Side, wire: Wire, partition: Partition, tid: str
) -> None:
    zombie = claim(wire, tid, partition)
    heir = claim(wire, tid, partition)
    assert wire.produce(partition, batch(zombie, 0)).code == 47
    assert wire.produce(partition, batch(heir, 0, age_ms=TWO_DAYS_MS)).code == 0
    side.wait_for_expiry(lambda: wire.produce(partition, batch(zombie, 0)).code == 0)


def test_writer_that_is_forgotten_may_go_on_with_any_sequence(
    side: Side, wire: Wire, partition: Partition, tid: str
) -> None:
    """What flies behind a batch that is refused is stored then; with the first one it ends."""
    writer = claim(wire, tid, partition)
    assert wire.produce(partition, batch(writer, 0, age_ms=TWO_DAYS_MS)).code == 0
    assert wire.produce(partition, batch(writer, 9)).code == 45
    side.wait_for_expiry(lambda: wire.produce(partition, batch(writer, 9)).code == 0)
    assert wire.produce(partition, batch(writer, 20)).code == 45
    assert wire.produce(partition, batch(writer, 10)).code == 0


def test_records_behind_a_refused_batch_wait_where_the_writer_may_be_forgotten(
    forgetful: Cluster, topic_name: str
) -> None:
    """The mirror's leader has forgotten who wrote old records; then it refuses a batch for its
    size, which it takes record by record, while others would fly behind it.
    """
    here, mirror = Partition(topic_name, 0), Partition(f"{topic_name}.mirror", 0)
    create_topic(forgetful.bootstrap, here.topic)
    create_topic(forgetful.bootstrap, mirror.topic, config={"max.message.bytes": "100000"})
    loop, near = Loop(), parse("here", forgetful.client_properties())
    with KafkaCluster(near, "source", loop) as one, KafkaCluster(near, "target", loop) as other:
        link = Ends("test", one, other, make_ledger(forgetful.bootstrap, here.topic))
        long_ago = clock.wall_ms() - TWO_DAYS_MS
        write_batches(one, here, [encode([record(b"old", long_ago)])])
        policies = Policies(is_shared=True)
        opened = open_all(link, {here: mirror}, within(), policies)[here]
        assert isinstance(opened, Opened), opened
        stream = streaming(link, opened, policies=policies)
        step_until(stream, lambda: stream.parts[here].position == 1)
        # An old record of somebody else's shows when the leader has looked.
        alien, deadline = batch((4_000_000_000, 0), 0, age_ms=TWO_DAYS_MS), within(40)
        wire = Wire(other)
        first = wire.produce(mirror, alien)
        while wire.produce(mirror, alien) == first:
            assert not deadline.passed, "the broker did not forget it in time"
            stream.step()
        rows = [[record(b"%d" % n + bytes(30_000))] * count for n, count in enumerate((5, 2, 2))]
        write_batches(one, here, [encode(some) for some in rows])
        step_until(stream, lambda: stream.parts[here].position == 10)
        stream.finish(within())
        stream.close()
    loop.close()
    wanted = [b"old", b"0", b"0", *(row.value for some in rows for row in some)]
    found = read_partition(forgetful.bootstrap, mirror.topic, 0, committed=False)
    assert [seen.value for _, seen in found] == wanted


def test_writer_of_fresh_records_is_remembered(
    side: Side, wire: Wire, partition: Partition
) -> None:
    old, fresh = (4_000_000_000, 0), (4_000_000_001, 0)
    assert wire.produce(partition, batch(fresh, 0)) == Ack(0, 0)
    old_batch = batch(old, 0, age_ms=TWO_DAYS_MS)
    wire.produce(partition, old_batch)
    # The old one shows when the broker has looked.
    side.wait_for_expiry(lambda: wire.produce(partition, old_batch).offset > 1)
    assert wire.produce(partition, batch(fresh, 0)) == Ack(0, 0), "a repeat"
    assert wire.produce(partition, batch(fresh, 5)).code == 45


def test_transaction_that_times_out_shuts_the_live_writer_out(
    side: Side, wire: Wire, partition: Partition, tid: str
) -> None:
    """A claimer died after AddPartitionsToTxn (C2)."""
    writer = claim(wire, tid, partition)
    _, who, epoch = wire.init(tid, timeout_ms=1000)
    assert wire.add(tid, (who, epoch), partition) == [0]
    assert wire.produce(partition, batch(writer, 0)).code == 0
    side.wait_for_expiry(lambda: wire.state(tid) == "CompleteAbort")
    assert wire.produce(partition, batch(writer, 1)).code == 47
    assert wire.produce(partition, batch((who, epoch), 0)).code == 47, "nor the one that died"
    assert wire.end(tid, (who, epoch)) == 90
    assert wire.init(tid, (who, epoch)) == (0, who, epoch + 1), "as if by a repeat"


def test_transactional_id_that_was_idle_gets_another_producer_id_and_fences_nobody(
    side: Side, wire: Wire, partition: Partition, tid: str
) -> None:
    old = claim(wire, tid, partition)
    assert wire.produce(partition, batch(old, 0)).code == 0
    side.wait_for_expiry(lambda: wire.state(tid) == "105")
    assert wire.init(tid, old)[:2] != (0, old[0]), "an identity does not bring the id back"
    new = claim(wire, tid, partition)
    assert new[0] != old[0]
    assert wire.produce(partition, batch(old, 1)).code == 0, "the old writer is not fenced"


def test_open_transaction_keeps_its_id(
    side: Side, wire: Wire, partition: Partition, tid: str
) -> None:
    idle, busy = f"{tid}.idle", f"{tid}.busy"
    claim(wire, idle, partition)
    identity = begin(wire, busy, partition)
    side.wait_for_expiry(lambda: wire.state(idle) == "105")
    assert wire.state(busy) in ("Ongoing", "CompleteAbort")
    assert wire.init(busy)[1] == identity[0]
