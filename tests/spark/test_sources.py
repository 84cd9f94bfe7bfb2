"""Sources of every kind, copied by a link that runs: transactions, compaction, growth."""

import re
import time
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions

from heliograph.model.control import WANTED, Wanted, row
from heliograph.model.names import control_topic
from tests.broker.linked import produce
from tests.checker.follow import following
from tests.checker.reading import Reader, read_partition
from tests.faults.engine import Driver, Link, loading, see_more, until
from tests.making import create_topic


def test_aborted_transactions_never_reach_the_mirror(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    create_topic(source.bootstrap, shared_topic, 2)
    options = ("--transactional", "--abort-ratio", "0.4")
    with following(source.bootstrap, target.bootstrap, {shared_topic: shared_topic}) as followers:
        with loading(source.bootstrap, shared_topic, journal, *options):
            driver.wait_copying()
            see_more(followers, 800)
        followers.healed()
        followers.catch_up(within_s=60)
    assert followers.anomalies == []
    assert '"fail"' in journal.read_text(), "no transaction was aborted"
    shared_link.check(shared_topic, journal=journal)


def test_what_compaction_leaves_is_copied_with_its_holes(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str, tmp_path: Path
) -> None:
    link, topic, journal = shared_link, shared_topic, tmp_path / "journal"
    create_topic(source.bootstrap, f"{topic}.first")  # so that there is something to copy at all
    driver.wait_copying()
    paused = Wanted(paused=(re.escape(topic),))
    link.put(control_topic(link.name), {WANTED: row(paused)})
    quickly = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "max.compaction.lag.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    create_topic(source.bootstrap, topic, config=quickly)
    create_topic(target.bootstrap, topic)  # not compacted, so that the checker sees every image

    def has_holes() -> bool:
        with Reader(source.bootstrap, committed=False) as reader:
            end = reader.bounds(topic, 0)[1]
        left = sum(1 for _ in read_partition(source.bootstrap, topic, 0, committed=False))
        return left < 0.8 * end

    with loading(source.bootstrap, topic, journal, "--compact-keys", "20"):
        until(has_holes, 120, "the source is not compacted")
        link.put(control_topic(link.name), {WANTED: row(Wanted())})
        until(
            lambda: sum(1 for _ in read_partition(target.bootstrap, topic, 0, committed=True)),
            90,
            lambda: f"nothing is copied: {driver.said}",
        )
    until(lambda: link.check(topic).not_copied == 0, 90, lambda: f"not copied: {driver.said}")


def test_a_topic_made_while_others_are_copied_arrives_whole_and_holds_up_none(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str, tmp_path: Path
) -> None:
    new, journal = f"{shared_topic}.new", tmp_path / "journal"
    create_topic(source.bootstrap, shared_topic)
    with (
        loading(source.bootstrap, shared_topic, journal),
        following(source.bootstrap, target.bootstrap, {shared_topic: shared_topic}) as followers,
    ):
        driver.wait_copying()
        see_more(followers, 300)
        longest_s, last_s, before = 0.0, time.monotonic(), followers.each[0].images

        def has_all() -> bool:
            """Look for the new topic, and note for how long the other stands still meanwhile."""
            nonlocal longest_s, last_s, before
            if followers.each[0].images > before:
                last_s, before = time.monotonic(), followers.each[0].images
            longest_s = max(longest_s, time.monotonic() - last_s)
            report = shared_link.report(new)
            return report is not None and report.source_next == 100

        create_topic(source.bootstrap, new, 1)
        produce(source.bootstrap, new, [b"%d" % number for number in range(100)])
        until(has_all, 60, lambda: f"the new topic is not copied: {driver.said}")
        see_more(followers, 100)
    assert followers.anomalies == []
    assert shared_link.check(new).equal == 100
    print(f"the other topic stood still for {longest_s:.1f} s at most")
    assert longest_s < 5  # starting a task takes longer; a fifth of a second on a quiet machine


def test_a_topic_that_grows_while_it_is_copied_grows_its_mirror(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    create_topic(source.bootstrap, shared_topic, 1)
    with following(source.bootstrap, target.bootstrap, {shared_topic: shared_topic}) as followers:
        with loading(source.bootstrap, shared_topic, journal):
            driver.wait_copying()
            see_more(followers, 50)
            admin = AdminClient({"bootstrap.servers": source.bootstrap})
            for done in admin.create_partitions([NewPartitions(shared_topic, 3)]).values():
                done.result(20)
            with loading(source.bootstrap, shared_topic, tmp_path / "after"):
                see_more(followers, 500)
        followers.healed()
        followers.catch_up(within_s=90)
    assert followers.anomalies == []
    produce(source.bootstrap, shared_topic, [b"last"])
    report = shared_link.check(shared_topic)
    assert report.equal > 500
    assert {shared_link.ledger(shared_topic, number).records > 0 for number in range(3)} == {True}
