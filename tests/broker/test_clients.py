"""Clients that meet another cluster behind the same name: the guide's recipe, and why it is so.

One story for all tests, since a cluster dies in it: applications use paris by a name, the name is
pointed at dublin, paris is killed. Record number n stands at offset n on paris and at n - 100 on
dublin, as when retention had removed a hundred before they were mirrored.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from heliograph.local import jars
from heliograph.local.brokers import Cluster
from heliograph.local.java import find_java, short_lived
from heliograph.local.launch import start
from heliograph.local.spec import Spec
from tests.broker.linked import produce
from tests.checker.reading import read_partition
from tests.doubles.application import Application
from tests.doubles.proxy import Proxy
from tests.making import create_topic

EXAMPLES = Path(__file__).parents[2] / "examples" / "clients"
NAME = "kafka.example.com:9092"
START_AGAIN = 75

SHIFT = 100
READ_ON_PARIS = 300
ON_DUBLIN = 450
LOST = 3

BEFORE = [f"before {number}" for number in range(20)]
DURING = [f"during {number}" for number in range(5)]

Run = Callable[[], Application]


@dataclass
class Story:
    """What was seen. Each application has two lives: before the name moved, and after."""

    codes: dict[str, int] = field(default_factory=dict)
    printed: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    written: dict[str, list[str]] = field(default_factory=dict)
    bare_consumer_went_on_with: tuple[int, str] = (0, "")
    bare_producer_acknowledged: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Java examples, compiled as they stand."""
    compiler = Path(find_java()).resolve().with_name("javac")
    if not compiler.exists():
        pytest.skip("this Java has no compiler (on Debian or Ubuntu: default-jdk-headless)")
    folder = tmp_path_factory.mktemp("classes")
    sources = [str(file) for file in sorted(EXAMPLES.glob("*.java"))]
    options = ["-Xlint:all", "-Werror", "-cp", _kafka(), "-d", str(folder)]
    subprocess.run([str(compiler), *options, *sources], check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def story(
    classes: Path, clusters_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    with ExitStack() as stack:
        name = stack.enter_context(Proxy())
        stack.callback(name.cut_all)
        paris, dublin = start(Spec(name="paris"), Spec(name="dublin"), under=clusters_folder)
        stack.enter_context(paris)
        stack.enter_context(dublin)
        settings = tmp_path_factory.mktemp("settings")
        yield tell(stack, name, paris, dublin, Applications(name.address, classes, settings))


@dataclass(frozen=True)
class Applications:
    """How the examples are started: with these settings, through this name."""

    address: str
    classes: Path
    folder: Path

    def consumers(self) -> dict[str, Run]:
        newer = "group.protocol=consumer\n"
        return {
            "java": self._java("Consume", "consumer", "java"),
            "java-newer": self._java("Consume", "consumer", "java-newer", newer),
            "python": self._python("consume.py", "orders", "python"),
        }

    def producers(self) -> dict[str, Run]:
        return {
            "to-java": self._java("Produce", "producer", "to-java"),
            "to-python": self._python("produce.py", "to-python"),
        }

    def _java(self, main: str, kind: str, name: str, more: str = "") -> Run:
        text = (EXAMPLES / f"{kind}.properties").read_text()
        assert NAME in text
        group = f"group.id={name}\n" if kind == "consumer" else ""
        file = self.folder / f"{name}.properties"
        file.write_text(text.replace(NAME, self.address) + group + more)
        topic = "orders" if kind == "consumer" else name
        java, *rest = short_lived(f"{_kafka()}:{self.classes}", main, [str(file), topic])
        # Without a configuration of its own, the logging library writes between the records.
        command = [java, "-Dlog4j2.level=OFF", *rest]
        return lambda: Application(command)

    def _python(self, file: str, *arguments: str) -> Run:
        command = [sys.executable, str(EXAMPLES / file), self.address, *arguments]
        return lambda: Application(command)


def tell(
    stack: ExitStack, name: Proxy, paris: Cluster, dublin: Cluster, applications: Applications
) -> Story:
    story = Story()
    consumers, producers = applications.consumers(), applications.producers()
    prepare(paris, dublin, consumers, producers)
    name.point_at(paris.node(1).ports.client)
    bare = Bare(name.address)
    stack.callback(bare.close)
    # The first producer of each of two new clusters: their producer ids are the same.
    bare.write([f"bare {number}" for number in range(10)])
    write_one_by_one(dublin, "bare", [f"other {number}" for number in range(10 + LOST)])

    first = live(stack, consumers | producers)
    bare.read(READ_ON_PARIS)
    wait_printed(first, consumers, READ_ON_PARIS)
    for one in producers:
        first[one].tell(BEFORE)
    wait_printed(first, producers, len(BEFORE))

    mirror_the_rest(dublin, consumers)
    paris.node(1).pause()
    for one in producers:
        first[one].tell(DURING)
    name.point_at(dublin.node(1).ports.client)
    name.cut_all()
    paris.node(1).kill()

    story.codes = {one: application.wait_ended() for one, application in first.items()}
    second = live(stack, consumers | producers)
    story.bare_consumer_went_on_with = bare.read(1)
    story.bare_producer_acknowledged = bare.write([f"bare {number}" for number in range(10, 20)])
    wait_printed(second, consumers, ON_DUBLIN - READ_ON_PARIS)
    for one in producers:
        second[one].tell([line for line in BEFORE + DURING if line not in first[one].lines])
    wait_printed(second, producers, len(DURING))
    story.printed = {one: (first[one].lines, second[one].lines) for one in first}
    story.written = {one: values(dublin, one) for one in ("bare", *producers)}
    return story


def prepare(
    paris: Cluster, dublin: Cluster, groups: Iterable[str], producers: Iterable[str]
) -> None:
    for cluster in (paris, dublin):
        for topic in ("orders", "bare", *producers):
            create_topic(cluster.bootstrap, topic)
    produce(paris.bootstrap, "orders", orders(0, READ_ON_PARIS))
    produce(dublin.bootstrap, "orders", orders(SHIFT, READ_ON_PARIS))
    for group in groups:
        commit(paris, group, 0)


def mirror_the_rest(dublin: Cluster, groups: Iterable[str]) -> None:
    """Do what a link does: the groups' offsets, translated, and the newest records."""
    for group in groups:
        commit(dublin, group, READ_ON_PARIS - SHIFT)
    produce(dublin.bootstrap, "orders", orders(READ_ON_PARIS, ON_DUBLIN))


def live(stack: ExitStack, runs: Mapping[str, Run]) -> dict[str, Application]:
    started = {}
    for one, run in runs.items():
        started[one] = run()
        stack.callback(started[one].end)
    return started


def wait_printed(those: Mapping[str, Application], names: Iterable[str], count: int) -> None:
    for one in names:
        those[one].wait_printed(count)


class Bare:
    """librdkafka's clients as they come: they move by themselves, with all that they know."""

    def __init__(self, address: str) -> None:
        settings = {"bootstrap.servers": address}
        self._consumer = Consumer(settings | {"group.id": "bare", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition("orders", 0, 0)])
        self._producer = Producer(settings | {"enable.idempotence": True})

    def read(self, count: int) -> tuple[int, str]:
        """Read so many records and return the last one."""
        last = (-1, "")
        for _ in range(count):
            record = self._consumer.poll(60)
            assert record is not None and record.error() is None
            last = record.offset(), record.value().decode()
        return last

    def write(self, lines: list[str]) -> list[str]:
        """Write lines, each in a batch of its own, and return those that were acknowledged."""
        acknowledged = []

        def on_delivery(error: object, _: object) -> None:
            if error is None:
                acknowledged.append(line)

        for line in lines:
            self._producer.produce("bare", line.encode(), on_delivery=on_delivery)
            assert self._producer.flush(60) == 0
        return acknowledged

    def close(self) -> None:
        self._consumer.close()


def orders(start: int, end: int) -> list[bytes]:
    return [b"order %d" % number for number in range(start, end)]


def commit(cluster: Cluster, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def write_one_by_one(cluster: Cluster, topic: str, lines: list[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for line in lines:
        producer.produce(topic, line.encode())
        assert producer.flush(30) == 0


def values(cluster: Cluster, topic: str) -> list[str]:
    rows = read_partition(cluster.bootstrap, topic, 0, committed=True)
    return [(seen.value or b"").decode() for _, seen in rows]


def _kafka() -> str:
    return jars.classpath(jars.ensure())


CONSUMERS = ("java", "java-newer", "python")
PRODUCERS = ("to-java", "to-python")


@pytest.mark.parametrize("one", CONSUMERS + PRODUCERS)
def test_an_application_ends_instead_of_moving(story: Story, one: str) -> None:
    # The newer protocol asks for its coordinator first, and the answer may be fatal as well.
    assert story.codes[one] == START_AGAIN or (one == "java-newer" and story.codes[one] == 1)


@pytest.mark.parametrize("one", CONSUMERS)
def test_a_consumer_that_is_started_again_goes_on_exactly(story: Story, one: str) -> None:
    before, after = story.printed[one]
    assert before == [f"{number} order {number}" for number in range(READ_ON_PARIS)]
    wanted = range(READ_ON_PARIS, ON_DUBLIN)
    assert after == [f"{number - SHIFT} order {number}" for number in wanted]


@pytest.mark.parametrize("one", PRODUCERS)
def test_a_producer_that_is_started_again_writes_what_was_not_acknowledged(
    story: Story, one: str
) -> None:
    before, after = story.printed[one]
    assert before == BEFORE
    assert after == DURING
    assert story.written[one] == DURING


def test_a_consumer_that_moves_by_itself_skips_records(story: Story) -> None:
    offset, value = story.bare_consumer_went_on_with
    assert offset == READ_ON_PARIS
    assert value == f"order {READ_ON_PARIS + SHIFT}"


def test_an_idempotent_producer_that_moves_by_itself_loses_acknowledged_records(
    story: Story,
) -> None:
    acknowledged = story.bare_producer_acknowledged
    assert acknowledged == [f"bare {number}" for number in range(10, 20)]
    there = [value for value in story.written["bare"] if value.startswith("bare")]
    assert there == acknowledged[LOST:]
