"""A copier as a simulated process: Heliograph's own opening and stream, and nothing else."""

from __future__ import annotations

from datetime import timedelta

from heliograph.copy.opening import Ends, open_all
from heliograph.copy.stream import Stream
from heliograph.errors import HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import parse
from heliograph.model.names import ledger_topic
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.simulation.broker import SimBroker
from tests.simulation.network import Network, SimLoop
from tests.simulation.world import Host, Process

LINK = "simulated"
LEDGER = Partition(ledger_topic(LINK), 0)
PARTITION = Partition("orders", 0)
_POLICIES = Policies(on_gap="skip")
_OPENING = timedelta(seconds=60)
# Short, so that a lost reply costs few turns.
_TIMEOUT_MS = "1500"


def client(network: Network, broker: SimBroker, host: Host, loop: SimLoop) -> Cluster:
    """Return Heliograph's view of a simulated cluster, from one host."""
    properties = {"bootstrap.servers": str(broker.endpoint), "request.timeout.ms": _TIMEOUT_MS}
    return Cluster(parse(broker.name, properties), broker.name, loop, network.dialer(host))


class Copier(Process):
    """Opens the partition and copies it until it fails or is killed; ``outcome`` says why."""

    def __init__(self, network: Network, source: SimBroker, target: SimBroker) -> None:
        super().__init__(network.world, lambda _: self._copy())
        self.outcome: HeliographError | None = None
        self._network = network
        self._brokers = source, target

    def _copy(self) -> None:
        loop = SimLoop(self, self._network)
        try:
            source, target = (client(self._network, one, self, loop) for one in self._brokers)
            self._open_and_stream(Ends(LINK, source, target, LEDGER.topic))
        except HeliographError as failure:
            self.outcome = failure
        finally:
            loop.close()

    def _open_and_stream(self, ends: Ends) -> None:
        opened = open_all(ends, {PARTITION: PARTITION}, Deadline.after(_OPENING), _POLICIES)[
            PARTITION
        ]
        if isinstance(opened, HeliographError):
            raise opened
        stream = Stream(ends, policies=_POLICIES)
        stream.add(opened)
        while not (failures := stream.take_failures()):
            stream.step()
        raise failures[0][1]
