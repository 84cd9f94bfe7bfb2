"""`failback` when a side lost records, grew, or was made anew: no record goes without a word."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from heliograph.copy.recording import record
from heliograph.copy.rematching import rematch
from heliograph.kafka.cluster import Cluster as KafkaCluster
from heliograph.kafka.fence import claim
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Writer
from heliograph.kafka.transport import Loop
from heliograph.local.brokers import Cluster
from heliograph.model.control import part_key, row
from heliograph.model.ledger import Ledger, Origin, read_ledger
from heliograph.model.names import ledger_topic, state_topic, transactional_id
from heliograph.model.runs import Run
from heliograph.model.topics import Partition
from heliograph.recovery import diverged
from heliograph.recovery.journal import Journal
from tests.broker.groups import GroupLink, group_link
from tests.broker.linked import (
    copy_all,
    opened_one,
    produce,
    step_until,
    step_until_failure,
    streaming,
    within,
)
from tests.broker.links import link_report, part_report
from tests.broker.recovering import (
    Make,
    die_at,
    find_source,
    lose_source,
    mirrored,
    numbers,
    opposite_ends,
    recover,
    refused,
    stages,
    tell,
    values,
)
from tests.making import delete_topic


@contextmanager
def linked_from(source: Cluster, target: Any, folder: Path, topic_name: str) -> Iterator[GroupLink]:
    """A link from a cluster of this test alone."""
    loop = Loop()
    ends = [
        KafkaCluster(parse(name, one.client_properties()), name, loop)
        for name, one in (("source", source), ("target", target))
    ]
    try:
        yield group_link(folder, source, target, (ends[0], ends[1]), topic_name)
    finally:
        loop.close()


def test_a_source_that_lost_its_log_and_wrote_others_is_not_taken_for_what_was_copied(
    private_cluster: Callable[..., Cluster],
    target: Any,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = private_cluster(name="losing")
    with linked_from(source, target, tmp_path, topic_name) as link:
        here = link.make(topic_name)
        produce(source.bootstrap, topic_name, numbers(0, 20))
        link.copy(here)
        tell(link, here)
        recover(link, capsys, "failover", "--yes")
        source.node(1).stop()
        shutil.rmtree(source.folder.data(1) / f"{topic_name}-0")
        source.node(1).start()
        produce(source.bootstrap, topic_name, numbers(500, 530))
        told = refused(link, capsys, "failback", code=1)
        assert f"{here} was copied up to offset 20" in told and "--wipe" in told
        assert stages(link) == {topic_name: "FAILED_OVER"}
        # Also where nobody noted the leader epoch: the records themselves tell.
        ledger = read_ledger(here, link.link.rows(ledger_topic(link.name)))
        assert ledger is not None and ledger.source_epoch >= 0
        ledger.source_epoch = -1
        failed = rematch(link.ends, {here: here}, {here: ledger}, within(30)).failed
        assert "holds at offset 0 something else" in str(failed[here])
        # A ledger that was turned round has runs, and counts no records of its own.
        ledger.records, ledger.origin = 0, replace(ledger.origin, source_topic_id="another")
        failed = rematch(link.ends, {here: here}, {here: ledger}, within(30)).failed
        assert "source topic id was another" in str(failed[here])


def put(cluster: Any, topic: str, partition: int, wanted: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in wanted:
        producer.produce(topic, value, key=b"k", partition=partition)
    assert producer.flush(20) == 0


def grow(cluster: Any, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        done.result(20)


def failed_over(link: GroupLink, capsys: pytest.CaptureFixture[str], *topics: str) -> None:
    """Copy ten records of each topic, and fail over."""
    parts = [link.make(topic) for topic in topics]
    for here in parts:
        produce(link.source.bootstrap, here.topic, numbers(0, 10))
        link.copy(here)
    tell_all(link, parts)
    recover(link, capsys, "failover", "--yes")


def tell_all(link: GroupLink, parts: list[Partition]) -> None:
    topics = {here.topic: here.topic for here in parts}
    link.link.report(link_report(topics=topics), dict.fromkeys(parts, part_report()))


def test_what_cannot_be_compared_is_saved_before_it_is_wiped(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    anew, wider, gone = names = [f"{topic_name}.{one}" for one in ("anew", "wider", "gone")]
    failed_over(link, capsys, *names)
    delete_topic(link.source.bootstrap, anew)
    link.make_on(link.source, anew)
    produce(link.source.bootstrap, anew, numbers(500, 505))
    grow(link.source, wider, 2)
    put(link.source, wider, 1, numbers(600, 603))
    delete_topic(link.source.bootstrap, gone)
    told = refused(link, capsys, "failback", code=1)
    assert "source topic id was" in told and "does not have the topic any more" in told
    found = recover(link, capsys, "failback", "--wipe", "--all", "--yes")
    saved = {(one["topic"], one["partition"]): one["records"] for one in found["diverged"]}
    assert saved == {(anew, 0): 5, (wider, 1): 3}
    assert values(link.target, f"{anew}.diverged") == numbers(500, 505)
    assert values(link.target, f"{wider}.diverged", 1) == numbers(600, 603)
    assert stages(link) == dict.fromkeys(names, "REVERSING")


def test_a_partition_that_only_the_target_has_is_copied_back_whole(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    failed_over(link, capsys, topic_name)
    grow(link.target, topic_name, 2)
    put(link.target, topic_name, 1, numbers(700, 703))
    produce(link.target.bootstrap, topic_name, numbers(10, 12))
    assert recover(link, capsys, "failback")["diverged"] == []
    grow(link.source, topic_name, 2)  # as the driver of the opposite direction does
    for number in range(2):
        copy_all(opposite_ends(link), Partition(topic_name, number))
    assert values(link.source, topic_name) == numbers(0, 12)
    assert values(link.source, topic_name, 1) == numbers(700, 703)


def test_a_mirror_that_applications_made_after_the_failover_is_copied_back_whole(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here, late = link.make(topic_name), Partition(f"{topic_name}.late", 0)
    link.make_on(link.source, late.topic)
    for one in (here, late):
        produce(link.source.bootstrap, one.topic, numbers(0, 5))
    link.copy(here)
    tell(link, here, late)  # its driver could not make the mirror in time
    unmade = part_report(state="FAULTED", source_next=-1, target_next=-1, error=("internal", "?"))
    link.link.put(state_topic(link.name), {part_key(late): row(unmade)})
    lose_source(link)
    assert any("is not there" in one for one in recover(link, capsys, "failover", "--yes")["notes"])
    find_source(link)
    link.make_on(link.target, late.topic)
    produce(link.target.bootstrap, late.topic, numbers(10, 13))
    found = recover(link, capsys, "failback")
    assert {one["topic"]: one["records"] for one in found["diverged"]} == {late.topic: 5}
    copy_all(opposite_ends(link), late)
    assert values(link.source, late.topic) == [*numbers(0, 5), *numbers(10, 13)]


def test_what_comes_while_a_failback_is_under_way_is_saved_as_well(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    failed_over(link, capsys, topic_name)
    produce(link.source.bootstrap, topic_name, numbers(10, 12))
    assert die_at("R-diverged-recorded", link.link.words("failback")) == -signal.SIGKILL
    produce(link.source.bootstrap, topic_name, numbers(12, 15))
    (one,) = recover(link, capsys, "failback")["diverged"]
    assert one["records"] == 5
    assert values(link.target, f"{topic_name}.diverged") == numbers(10, 15)


def test_a_transaction_that_stays_open_on_the_old_source_is_told(
    make: Make,
    topic_name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(diverged, "OPEN_PATIENCE", timedelta(seconds=1))
    link = make()
    failed_over(link, capsys, topic_name)
    address = link.source.bootstrap
    writer = Producer({"bootstrap.servers": address, "transactional.id": topic_name})
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce(topic_name, b"10", partition=0)
    assert writer.flush(20) == 0
    told = refused(link, capsys, "failback", code=1)
    assert f"a transaction is open in {topic_name}" in told and "(from 10 to 11)" in told
    writer.commit_transaction(20)
    (one,) = recover(link, capsys, "failback")["diverged"]
    assert one["records"] == 1


def test_what_the_opposite_direction_copies_already_has_not_diverged(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    failed_over(link, capsys, topic_name)
    produce(link.target.bootstrap, topic_name, numbers(10, 15))
    assert die_at("R-turn-recorded", link.link.words("failback")) == -signal.SIGKILL
    copy_all(opposite_ends(link), Partition(topic_name, 0))
    # As a failback of some other topics ends one that was begun for them and for this.
    journal = Journal(link.ends.target, link.name)
    journal.open(within(20))
    journal.begin("failback", [topic_name], "test")
    journal.end()
    assert recover(link, capsys, "failback")["diverged"] == []
    assert values(link.source, topic_name) == numbers(0, 15)


def test_what_slips_in_behind_the_fence_of_a_switch_is_saved_and_reported(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    objectives: {rpo: 60s}")
    mirrored(link, topic_name, 10)
    words = link.link.words("switch", "--fence", "none")
    assert die_at("R-drain-recorded", words) == -signal.SIGKILL
    produce(link.source.bootstrap, topic_name, numbers(10, 12))
    # Also where the command dies once more, after nobody would look there again.
    assert die_at("R-turn-recorded", words) == -signal.SIGKILL
    found = recover(link, capsys, "switch", "--fence", "none")
    assert [(one["topic"], one["records"]) for one in found["diverged"]] == [(topic_name, 2)]
    assert "2 records" in found["notes"][0] and found["rpo_ok"] is None
    assert values(link.target, f"{topic_name}.diverged") == numbers(10, 12)


def test_what_applications_wrote_before_the_last_copy_is_saved_and_told(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    stream = streaming(link.ends, opened_one(link.ends, here))
    step_until(stream, lambda: stream.parts[here].position >= 10)
    produce(link.target.bootstrap, topic_name, [b"early", b"bird"])
    produce(link.source.bootstrap, topic_name, numbers(10, 15))
    step_until_failure(stream)
    stream.close()
    link.copy(here)
    tell(link, here)
    recover(link, capsys, "failover", "--yes")
    produce(link.target.bootstrap, topic_name, [b"late"])
    (foreseen,) = recover(link, capsys, "failback", "--dry-run")["diverged"]
    (found,) = recover(link, capsys, "failback")["diverged"]
    assert (found["side"], found["records"]) == ("target", 2) == (foreseen["side"], 2)
    assert values(link.target, f"{topic_name}.diverged") == [b"early", b"bird"]
    copy_all(opposite_ends(link), here)
    assert values(link.source, topic_name) == [*numbers(0, 15), b"late"]


def test_a_ledger_that_is_too_large_for_one_batch_is_put_all_the_same(
    make: Make, topic_name: str
) -> None:
    link = make()
    here, far = Partition(topic_name, 0), 18 * 10**12
    ledger = Ledger(here, Origin("a", "b", "c", "d"))
    for step in range(500_000):
        ledger.add(Run(far * step, far * step, 1))
    books = Partition(ledger_topic(link.name), 0)
    name = transactional_id(link.name, *here)
    link.ends.target.describe([books.topic], within(20))
    writer = Writer.of(claim(link.ends.target, name, [books], within(20)))
    assert record(link.ends, [(ledger, writer)], within(30)) == {}
    rows = link.link.rows(books.topic)
    assert sum(map(len, rows.values())) > 16 << 20, "a broker takes no more in a batch"
    found = read_ledger(here, rows)
    assert found is not None and list(found.runs) == list(ledger.runs)
