"""One suite, two brokers: what a test claims must hold on the simulated and on a real one."""

from collections.abc import Iterator

import pytest

from heliograph.model.topics import Partition
from tests.contract.sides import RealSide, Side, SimulatedSide
from tests.contract.wire import Wire


@pytest.fixture(params=["simulated", "real"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    # Looked up here, so that the simulated half starts no broker.
    real = request.param == "real"
    made: Side = RealSide(request.getfixturevalue("target")) if real else SimulatedSide()
    yield made
    made.close()


@pytest.fixture
def wire(side: Side) -> Wire:
    return Wire(side.connect())


@pytest.fixture
def partition(side: Side, topic_name: str) -> Partition:
    """The first partition of a new topic; the second one stands in for the ledger."""
    side.create_topic(topic_name, 2)
    return Partition(topic_name, 0)


@pytest.fixture
def tid(topic_name: str) -> str:
    return f"contract.{topic_name}"
