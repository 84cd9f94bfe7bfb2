"""What people who come from MirrorMaker rely on, where no other test shows it: docs/claims.md.

Mirrors are made as by a driver, and filled as by a task; librdkafka writes and reads.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from bench.raw_copy import topic_ends
from heliograph.cli.app import run
from heliograph.control.reconcile import Observed, Reconciler
from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.links.own_topics import make_own_topics
from heliograph.links.setup import Setup
from heliograph.model.blueprint import Ours
from heliograph.model.control import Wanted
from heliograph.model.names import ledger_topic
from heliograph.wiring import load_config, setups
from tests.broker.linked import step_until, streaming, within
from tests.broker.links import make_link
from tests.checker.compare import count_equal
from tests.making import create_topic

PARTITIONS, RECORDS = 10, 150


class Mirrored:
    """A link: what its driver sees and makes, and what its tasks copy."""

    def __init__(self, setup: Setup, ends: tuple[Cluster, Cluster]) -> None:
        self.setup, self._ends = setup, ends
        self._ours = Ours()

    def look(self) -> Observed:
        """Do what a driver does when it looks around, and note it."""
        with closing(Reconciler(self.setup)) as reconciler:
            observed = reconciler.look(self._ours, Wanted(), within(30))
        made = {**self._ours.made, **observed.made}
        begun = {**self._ours.begun, **observed.beginning.begun}
        first = observed.beginning.first or self._ours.first
        self._ours = Ours(made, first=first, begun=begun)
        return observed

    def copy(self) -> Observed:
        """Look, and copy what is there by now."""
        observed, name = self.look(), self.setup.link.name
        with Admin(self.setup.target_settings, self.setup.link.target) as admin:
            make_own_topics(admin, name, within(20))
        ends = Ends(name, *self._ends, ledger_topic(name))
        opened = open_all(ends, observed.parts, within(60), begins=observed.beginning.begins)
        ready = [one for one in opened.values() if isinstance(one, Opened)]
        assert len(ready) == len(observed.parts), opened
        stream = streaming(ends, *ready)
        wanted = {
            one: end
            for topic in observed.topics
            for one, end in topic_ends(ends.source, topic, within(20)).items()
        }
        step_until(
            stream, lambda: all(stream.parts[one].position >= end for one, end in wanted.items())
        )
        stream.finish(within(20))
        stream.close()
        return observed


@pytest.fixture
def mirrored(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], tmp_path: Path, topic_name: str
) -> Mirrored:
    """A link of all topics whose names begin with this test's."""
    link = make_link(tmp_path, source.bootstrap, target, topics=f'"{topic_name}.*"')
    (setup,) = setups(load_config(link.file))
    return Mirrored(setup, ends)


def produce(bootstrap: str, topic: str, partitions: int, chance: random.Random) -> None:
    """Write records of every shape to each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    headers = ([("a", b"1"), ("b", None), ("a", b"2"), ("a", b"1")], [("empty", b"")], None)
    for partition in range(partitions):
        for number in range(RECORDS):
            producer.produce(
                topic,
                value=chance.choice((None, b"", chance.randbytes(100))),
                key=chance.choice((None, b"", b"key %d" % (number % 9))),
                partition=partition,
                timestamp=clock.wall_ms() - chance.randrange(10_000),
                headers=chance.choice(headers),
            )
    assert producer.flush(30) == 0


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        done.result(20)


def topics_of(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).topics)


def test_ten_partitions_arrive_whole_and_an_eleventh_from_its_first_record(
    source: Any, target: Any, mirrored: Mirrored, topic_name: str
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    both = (source.bootstrap, topic_name, target.bootstrap, topic_name)
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    produce(source.bootstrap, topic_name, PARTITIONS, random.Random(seed))
    assert len(mirrored.copy().parts) == PARTITIONS
    grow(source.bootstrap, topic_name, PARTITIONS + 1)
    produce(source.bootstrap, topic_name, PARTITIONS + 1, random.Random(seed + 1))
    assert mirrored.copy().altered == (topic_name,)
    assert count_equal(*both, PARTITIONS + 1) == (2 * PARTITIONS + 1) * RECORDS


def test_a_topic_that_is_only_on_the_target_causes_no_work(
    source: Any, target: Any, mirrored: Mirrored, topic_name: str, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic_name)
    create_topic(target.bootstrap, f"{topic_name}.there", 3)
    before = topics_of(source.bootstrap)
    observed = mirrored.look()
    assert {one.topic for one in observed.parts} == set(observed.made) == {topic_name}
    assert not (observed.altered or observed.errors or observed.notes)
    assert topics_of(source.bootstrap) == before
    assert run(["plan", "-f", str(tmp_path / "heliograph.yaml"), "-o", "json"]) == 0


# Files of MirrorMaker 2


@pytest.fixture
def tail(topic_name: str) -> str:
    """What the names of this test's topics begin with."""
    return topic_name.rpartition(".")[2]


@pytest.fixture
def there(source: Any, target: Any, tail: str) -> Iterator[set[str]]:
    """Topics on both sides; afterwards nothing was written to the source."""
    names = {f"{tail}-{name}" for name in ("a", "ab", "foo", "new1", "new2", "old")}
    for name in names:
        create_topic(source.bootstrap, name)
    create_topic(target.bootstrap, f"{tail}-back")
    before = topics_of(source.bootstrap)
    yield names
    assert topics_of(source.bootstrap) == before


def imported(folder: Path, source: Any, target: Any, *lines: str) -> list[Setup]:
    """Return the links that a file with these lines becomes."""
    file = folder / "mm2.properties"
    ends = [
        "clusters = us.west, eu/1",
        f"us.west.bootstrap.servers = {source.bootstrap}",
        f"eu/1.bootstrap.servers = {target.bootstrap}",
        "replication.factor = 1",
    ]
    file.write_text("\n".join([*ends, *lines]))
    made = folder / "imported.yaml"
    made.unlink(missing_ok=True)
    assert run(["import", "mm2", str(file), "-O", str(made)]) == 0
    return setups(load_config(made))


@pytest.mark.usefixtures("there")
def test_an_imported_file_selects_names_and_makes_what_mirrormaker_would(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], tail: str, tmp_path: Path
) -> None:
    """The link back is disabled, or its list of topics is blank: either way it does nothing."""
    topics = f"us.west->eu/1.topics = {tail}-a,{tail}-new.*,{tail}-foo"
    enabled = ("us.west->eu/1.enabled = true", topics)
    for back in ("eu/1->us.west.enabled = false", "eu/1->us.west.enabled = true"):
        blank = "eu/1->us.west.topics = "
        (setup,) = imported(tmp_path, source, target, *enabled, back, blank)
        assert (setup.link.name, setup.link.source) == ("us-west-eu-1", "us-west")
        Mirrored(setup, ends).look()
        mirrors = {name for name in topics_of(target.bootstrap) if f".{tail}-" in name}
        assert mirrors == {f"us.west.{tail}-{name}" for name in ("a", "foo", "new1", "new2")}
