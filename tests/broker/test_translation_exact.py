"""Every offset translates exactly, both ways: 100 000 of each mirror, against the logs themselves.

Mirrors of a clean, a compacted and a transactional log, and one whose writers were dropped again
and again. They are read by librdkafka; the offsets go the way of `heliograph groups translate`.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from heliograph.cli.app import run
from heliograph.copy.opening import Ends
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.records import encode
from heliograph.kafka.tables import Table
from heliograph.kafka.transport import Loop
from heliograph.links.group_ends import GroupEnds
from heliograph.model.ledger import read_ledger
from heliograph.model.names import reverse_name
from heliograph.model.runs import Reason, Translation
from heliograph.model.topics import Partition
from heliograph.model.translation import Translator
from heliograph.wiring import load_config, setups
from tests.broker.exact import Log, Way, both_ways
from tests.broker.groups import GroupLink, group_link
from tests.broker.linked import (
    await_holes,
    copy_all,
    opened_one,
    produce,
    record,
    streaming,
    within,
    write_batches,
)
from tests.broker.links import link_report, part_report
from tests.broker.recovering import find_source, lose_source, opposite_ends, recover

OFFSETS = 100_000
SIDES = ("target_offset", "source_offset")
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.0"}


@pytest.fixture
def link(
    tmp_path: Path, private_cluster: Callable[..., Any], target: Any, topic_name: str
) -> Iterator[GroupLink]:
    source = private_cluster(name="source", properties={"log.cleaner.backoff.ms": "100"})
    loop = Loop()
    with (
        Cluster(parse("source", source.client_properties()), "source", loop) as one,
        Cluster(parse("target", target.client_properties()), "target", loop) as other,
    ):
        yield group_link(tmp_path, source, target, (one, other), topic_name)
    loop.close()


def test_every_offset_translates_exactly_both_ways_also_after_the_link_turned_round(
    link: GroupLink, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    mirrors = {name: Mirror(link, link.make(f"{topic_name}.{name}")) for name in MAKERS}
    for name, make in MAKERS.items():
        make(link, mirrors[name].here, chance)
        link.copy(mirrors[name].here)
        produce(link.source.bootstrap, mirrors[name].here.topic, values("not copied", 50))
    judge(link.name, mirrors, chance, OFFSETS)
    some = [mirrors["clean"], mirrors["transactional"]]
    assert type_some(link.name, some, capsys) == set(Reason) - {Reason.CUT}
    retention_passes(mirrors["clean"])
    judge(link.name, mirrors, chance)

    turn_round(link, [one.here for one in mirrors.values()], capsys)
    for one in mirrors.values():
        one.is_reversed = True
        produce(link.target.bootstrap, one.here.topic, values("of an application", 300))
    name = reverse_name(link.name)
    judge(name, mirrors, chance)
    for one in mirrors.values():
        copy_all(opposite_ends(link), one.here)
        produce(link.target.bootstrap, one.here.topic, values("not copied back", 50))
    judge(name, mirrors, chance)
    type_some(name, [mirrors["restarted"]], capsys)


# Logs


def values(what: str, count: int) -> list[bytes]:
    """Return values that are nowhere else."""
    tail = secrets.token_hex(4)
    return [f"{number} {what} {tail}".encode() for number in range(count)]


def clean(link: GroupLink, here: Partition, chance: random.Random) -> None:
    """Write a plain log, whose start is gone before it is copied."""
    produce(link.source.bootstrap, here.topic, values("clean", 8_000))
    delete_before(link.source, here, 300 + chance.randrange(100))


def compacted(link: GroupLink, here: Partition, chance: random.Random) -> None:
    """Write a log and wait until the broker has compacted it; then let it rest."""
    configure(link.source, here, COMPACTED)
    rows = [
        record(value, key=b"%d" % chance.randrange(4_000)) for value in values("compacted", 8_000)
    ]
    batches = [encode(rows[at : at + 400]) for at in range(0, len(rows), 400)]
    write_batches(link.ends.source, here, batches)
    await_holes(link.ends.source, here)
    configure(link.source, here, {"cleanup.policy": "delete"})
    deadline, before, now = within(20), Log(), Log().read(link.source, here, committed=True)
    while now != before:
        assert not deadline.passed, "it is still being compacted"
        before, now = now, Log().read(link.source, here, committed=True)
    assert len(now.records) < 7_000


def transactional(link: GroupLink, here: Partition, chance: random.Random) -> None:
    """Write transactions in between each other and in between plain records; a third aborts."""
    bootstrap = link.source.bootstrap
    plain = Producer({"bootstrap.servers": bootstrap})
    writers = [
        Producer({"bootstrap.servers": bootstrap, "transactional.id": secrets.token_hex(8)})
        for _ in range(3)
    ]
    for one in writers:
        one.init_transactions(20)
    open_ones: set[Producer] = set()
    for _ in range(300):
        one = chance.choice([plain, *writers])
        if one is not plain and one not in open_ones:
            one.begin_transaction()
            open_ones.add(one)
        for value in values("transactional", chance.randrange(1, 30)):
            one.produce(here.topic, value, partition=0)
        assert one.flush(20) == 0
        if one in open_ones and chance.random() < 0.4:
            end_transaction(one, chance)
            open_ones.remove(one)
    for one in open_ones:
        end_transaction(one, chance)


def end_transaction(writer: Producer, chance: random.Random) -> None:
    if chance.random() < 1 / 3:
        writer.abort_transaction(20)
    else:
        writer.commit_transaction(20)


def restarted(link: GroupLink, here: Partition, chance: random.Random) -> None:
    """Copy a log in many openings; most streams are dropped in the middle, without a word."""
    matched = 0
    for number in range(12):
        produce(link.source.bootstrap, here.topic, values("restarted", 600), **{"batch.size": 2000})
        if number % 2:
            transactional_bit(link, here, chance)
        if number % 4 == 3:
            link.copy(here)  # so that the next claim's marker follows where a transaction's does
            continue
        known = recorded(link.ends, here)
        opened = opened_one(link.ends, here)
        matched += opened.ledger.records - known
        stream = streaming(link.ends, opened)
        for _ in range(chance.randrange(1, 12)):
            stream.step()
        stream.close()
    assert matched > 0, "no opening had anything to match"


def transactional_bit(link: GroupLink, here: Partition, chance: random.Random) -> None:
    writer = Producer(
        {"bootstrap.servers": link.source.bootstrap, "transactional.id": secrets.token_hex(8)}
    )
    writer.init_transactions(20)
    for _ in range(5):
        writer.begin_transaction()
        for value in values("in a transaction", chance.randrange(1, 30)):
            writer.produce(here.topic, value, partition=0)
        assert writer.flush(20) == 0
        end_transaction(writer, chance)


def recorded(ends: Ends, here: Partition) -> int:
    """Return how many records are on record as copied."""
    ledger = read_ledger(here, Table(ends.target, ends.ledger_topic).load(within(20)))
    return ledger.records if ledger else 0


def delete_before(cluster: Any, here: Partition, offset: int) -> None:
    """Let a log begin later, as retention does."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in admin.delete_records([TopicPartition(*here, offset)]).values():
        done.result(20)


def configure(cluster: Any, here: Partition, settings: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    put = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource("topic", here.topic, incremental_configs=put)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(20)


MAKERS = {
    "clean": clean,
    "compacted": compacted,
    "transactional": transactional,
    "restarted": restarted,
}


# Translations


@dataclass
class Mirror:
    """A mirror partition, and what its two logs were seen to hold."""

    link: GroupLink
    here: Partition
    source: Log = field(default_factory=Log)
    target: Log = field(default_factory=Log)
    is_reversed: bool = False

    def look(self) -> tuple[Way, Way]:
        """Read both logs, and return what to expect."""
        # What an aborted transaction wrote is no record. On the mirror, nothing is aborted.
        self.source = self.source.read(self.link.source, self.here, committed=True)
        self.target = self.target.read(self.link.target, self.here, committed=False)
        ends = (self.target, self.source) if self.is_reversed else (self.source, self.target)
        return both_ways(*ends)


def translators(link: GroupLink, name: str) -> Mapping[Partition, Translator]:
    """Return what `heliograph groups translate` translates with."""
    (setup,) = setups(load_config(link.link.file), [name])
    with closing(GroupEnds(setup)) as ends:
        books = ends.read(within(20))
        mirrors = ends.mirrors(books)
        return ends.grounds.survey(mirrors.keys(), mirrors, books, within(20)).translators


def judge(
    name: str, mirrors: Mapping[str, Mirror], chance: random.Random, offsets: int = 10_000
) -> None:
    """Translate many offsets of each mirror, both ways, and judge each."""
    for what, one in mirrors.items():
        there, back = one.look()
        found = translators(one.link, name)[one.here]
        for way, translate in ((there, found.to_target), (back, found.to_source)):
            judged = [way.wrong(at, translate(at)) for at in way.offsets(offsets, chance)]
            wrong = [it for it in judged if it is not None]
            assert not wrong, f"{what}: {len(wrong)} of {len(judged)}: {wrong[:5]}"


def type_some(
    name: str, mirrors: Sequence[Mirror], capsys: pytest.CaptureFixture[str]
) -> set[Reason]:
    """Translate a few offsets with the command; return the reasons that it gave."""
    reasons = set()
    for one in mirrors:
        for way, side, more in zip(one.look(), SIDES, ([], ["--back"]), strict=True):
            for offset in way.edges:
                words = ["--topic", one.here.topic, "--offset", str(offset), *more]
                row = typed(one.link, name, words, capsys)
                found = Translation(row[side], Reason(row["reason"]))
                assert way.wrong(offset, found) is None, row
                reasons.add(found.reason)
    return reasons


def typed(
    link: GroupLink, name: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """Type `heliograph groups translate` and return its only row."""
    capsys.readouterr()
    code = run(["groups", "translate", name, "-f", str(link.link.file), *words, "-o", "json"])
    told = capsys.readouterr()
    assert code == 0, told.err
    (row,) = json.loads(told.out)
    assert isinstance(row, dict)
    return row


# Retention and recovery


def retention_passes(mirror: Mirror) -> None:
    """Let both logs begin later than what was copied, the mirror's by more."""
    delete_before(mirror.link.source, mirror.here, mirror.source.held.start + 1_000)
    delete_before(mirror.link.target, mirror.here, mirror.target.held.start + 2_000)


def turn_round(link: GroupLink, parts: list[Partition], capsys: pytest.CaptureFixture[str]) -> None:
    """Lose the source, fail over, and fail back."""
    topics = {one.topic: one.topic for one in parts}
    link.link.report(link_report(topics=topics), {one: part_report() for one in parts})
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    find_source(link)
    recover(link, capsys, "failback")
