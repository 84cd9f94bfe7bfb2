"""The two brokers that must behave alike: the simulated one, and a real one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Protocol

from confluent_kafka import Producer

from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.batch import seal
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import EARLIEST, list_offsets
from heliograph.kafka.properties import parse
from heliograph.kafka.records import Record, encode
from heliograph.model.topics import Partition
from tests.making import create_topic, delete_topic
from tests.simulation.broker import SimBroker
from tests.simulation.network import Network, SimLoop
from tests.simulation.world import Host, World

_FLAGS_AT, _TRANSACTIONAL = 22, 0x10
_DAY_MS = 86_400_000
_WITHIN_S = 20.0


def within(seconds: float = _WITHIN_S) -> Deadline:
    return Deadline.after(timedelta(seconds=seconds))


class Side(Protocol):
    """What a test needs of a broker besides requests."""

    def connect(self) -> Cluster:
        """Return a client of it, for as long as the side lasts."""

    def create_topic(self, topic: str, partitions: int = 1, max_bytes: int = 1 << 20) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def delete_records(self, partition: Partition, before: int) -> None: ...

    def write_transaction(self, partition: Partition, value: bytes, *, commit: bool) -> None:
        """Write one record in a transaction of its own, and end that."""

    def wait_for_expiry(self, is_over: Callable[[], bool]) -> None:
        """Let the broker run its checks until the condition holds: what is too old is forgotten."""

    def close(self) -> None: ...


class SimulatedSide:
    """A world of its own with one broker in it."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._world = World()
        self._open.enter_context(clock.moved_by(self._world))
        self._network = Network(self._world)
        self._broker = SimBroker(self._world, "simulated")
        self._network.listen(self._broker.endpoint, self._broker)
        self._next_producer_id = 1

    def connect(self) -> Cluster:
        host = Host(self._world)
        loop = SimLoop(host, self._network)
        self._open.callback(loop.close)
        properties = {"bootstrap.servers": str(self._broker.endpoint)}
        settings = parse("simulated", properties)
        return Cluster(settings, "simulated", loop, self._network.dialer(host))

    def create_topic(self, topic: str, partitions: int = 1, max_bytes: int = 1 << 20) -> None:
        self._broker.create_topic(topic, partitions, max_bytes)

    def delete_topic(self, topic: str) -> None:
        self._broker.delete_topic(topic)

    def delete_records(self, partition: Partition, before: int) -> None:
        self._broker.log(partition).delete_before(before)

    def write_transaction(self, partition: Partition, value: bytes, *, commit: bool) -> None:
        self._next_producer_id += 1
        who = self._next_producer_id
        records = [Record(-1, self._world.wall_ms, None, value)]
        batch = encode(records, producer_id=who, producer_epoch=0, base_sequence=0)
        batch[_FLAGS_AT] |= _TRANSACTIONAL
        seal(batch)
        log = self._broker.log(partition)
        log.append(bytes(batch), transactional=True)
        log.mark(who, 0, commit=commit, now_ms=self._world.wall_ms)

    def wait_for_expiry(self, is_over: Callable[[], bool]) -> None:
        self._world.pass_time(15.0)
        self._broker.forget_producers(_DAY_MS)
        self._broker.coordinator.forget_ids(5_000)
        self._broker.coordinator.abort_timed_out()
        self._world.pass_time(1.0)
        assert is_over()

    def close(self) -> None:
        self._open.close()


class RealSide:
    """A running cluster; topics are named by the tests, so that it can be shared."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._open = ExitStack()

    def connect(self) -> Cluster:
        settings = parse("real", self._cluster.client_properties())
        return self._open.enter_context(Cluster(settings, "real"))

    def create_topic(self, topic: str, partitions: int = 1, max_bytes: int = 1 << 20) -> None:
        config = {"max.message.bytes": str(max_bytes)}
        create_topic(self._cluster.bootstrap, topic, partitions, config=config)
        # The controller's word is not yet the leader's: wait until each one serves its log.
        wanted = {Partition(topic, number): EARLIEST for number in range(partitions)}
        list_offsets(self.connect(), wanted, within())

    def delete_topic(self, topic: str) -> None:
        delete_topic(self._cluster.bootstrap, topic)

    def delete_records(self, partition: Partition, before: int) -> None:
        settings = parse("real", self._cluster.client_properties())
        with Admin(settings, "real") as admin:
            admin.logs.delete_records({partition: before}, within())

    def write_transaction(self, partition: Partition, value: bytes, *, commit: bool) -> None:
        name = f"writer.of.{partition}.{value.decode()}"
        settings = {"bootstrap.servers": self._cluster.bootstrap, "transactional.id": name}
        producer = Producer(settings)
        producer.init_transactions(_WITHIN_S)
        producer.begin_transaction()
        producer.produce(partition.topic, value, partition=partition.partition)
        assert producer.flush(_WITHIN_S) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(_WITHIN_S)

    def wait_for_expiry(self, is_over: Callable[[], bool]) -> None:
        deadline = within(40)
        while not is_over():
            assert not deadline.passed, "the broker did not forget it in time"

    def close(self) -> None:
        self._open.close()
