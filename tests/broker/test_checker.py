"""The checker on real brokers: a correct mirror is clean, each anomaly turns red by its name."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.checker.check import Unsupported
from tests.checker.pairs import one
from tests.checker.reading import Reader, read_partition
from tests.doubles.mirrored import LINK, Image, Pair, delete_before, ensure_ledger, write_rows
from tests.making import create_topic

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pair(source: Any, target: Any, topic_name: str) -> Pair:
    """Empty topics on both sides."""
    ensure_ledger(target.bootstrap)
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name)
    return Pair(source.bootstrap, target.bootstrap, topic_name)


# Clean


def test_a_mirror_of_transactions_is_clean_with_markers_on_both_sides(pair: Pair) -> None:
    pair.fill_in_transactions(random.Random(1))
    pair.write()
    report = pair.check()
    assert report.anomalies == [], report
    assert (report.equal, report.not_copied) == (len(pair.images), 0)
    assert len(pair.images) < pair.source_end() - 12, "aborted records must stand in the source"


def test_the_command_says_clean_red_or_unable_by_its_exit_status(pair: Pair) -> None:
    def run(*more: str) -> tuple[int, str, str]:
        ends = ["--source", pair.source, "--target", pair.target, "--link", LINK]
        command = [sys.executable, "-m", "tests.checker", *ends, *more]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        return ran.returncode, ran.stdout, ran.stderr

    pair.fill(5)
    pair.write()
    code, out, _ = run("--topic", f"{pair.topic}={pair.topic}")
    assert (code, out.splitlines()[0]) == (0, "clean")
    pair.record(runs=[])
    code, out, _ = run("--topic", pair.topic, "-o", "json")
    assert code == 1
    assert [found["name"] for found in json.loads(out)["anomalies"]] == ["ledger-lie"]
    code, _, error = run("--topic", f"{pair.topic}.absent")
    assert (code, error.split(":")[0]) == (2, "not checked")
    assert run("--topic", pair.topic, "--nonsense")[0] == 2


def test_records_that_are_all_alike_are_told_apart_by_the_ledger(pair: Pair) -> None:
    producer = Producer({"bootstrap.servers": pair.source})
    for _ in range(50):
        producer.produce(pair.topic, b"alike", timestamp=1_700_000_000_000)
    assert producer.flush(20) == 0
    pair.take_over()
    del pair.images[20]
    pair.write()
    (anomaly,) = pair.check().anomalies
    assert (anomaly.name, anomaly.source) == ("lost", one(20))


def test_append_time_must_become_create_time(pair: Pair, topic_name: str) -> None:
    topic = f"{topic_name}.appended"
    create_topic(pair.source, topic, config={"message.timestamp.type": "LogAppendTime"})
    create_topic(pair.target, topic)
    appended = Pair(pair.source, pair.target, topic)
    appended.fill(5)
    appended.write()
    assert appended.check().anomalies == []


def test_a_mirror_that_goes_on_after_the_ledger_is_compared_by_order(pair: Pair) -> None:
    pair.fill()
    pair.write()
    runs = [[image.source, image.target, 1] for image in pair.images[:10]]
    pair.record(runs, source_next=10, target_next=pair.images[9].target + 1)
    report = pair.check()
    assert (report.anomalies, report.equal) == ([], 30)


# Each anomaly


def lose(images: list[Image]) -> None:
    del images[7]


def repeat(images: list[Image]) -> None:
    images.insert(12, Image(images[4].seen, None))


def swap(images: list[Image]) -> None:
    images[5].seen, images[6].seen = images[6].seen, images[5].seen


def invent(images: list[Image]) -> None:
    images.insert(9, Image(images[4].seen._replace(value=b"invented"), None))


def make_empty_of_null(images: list[Image]) -> None:
    at = next(at for at, image in enumerate(images) if image.seen.value is None)
    images[at].seen = images[at].seen._replace(value=b"")


def turn_headers(images: list[Image]) -> None:
    at = next(at for at, image in enumerate(images) if len(image.seen.headers) == 4)
    images[at].seen = images[at].seen._replace(headers=images[at].seen.headers[::-1])


def make_older(images: list[Image]) -> None:
    images[3].seen = images[3].seen._replace(timestamp=images[3].seen.timestamp - 1)


@pytest.mark.parametrize(
    ("inject", "name"),
    [
        (lose, "lost"),
        (repeat, "duplicate"),
        (swap, "reordered"),
        (invent, "phantom"),
        (make_empty_of_null, "mismatch"),
        (turn_headers, "mismatch"),
        (make_older, "mismatch"),
    ],
)
def test_an_anomaly_turns_red_under_its_own_name(
    pair: Pair, inject: Callable[[list[Image]], None], name: str
) -> None:
    pair.fill_in_transactions(random.Random(2))
    inject(pair.images)
    pair.write()
    report = pair.check()
    assert report.names == {name}, report


def test_an_image_of_an_aborted_record_is_told_as_such(pair: Pair) -> None:
    pair.fill_in_transactions(random.Random(3))
    committed = {image.source for image in pair.images}
    with Reader(pair.source, committed=False) as reader:
        everything = [Image(seen, at) for at, seen in reader.read(pair.topic, 0)]
    aborted = next(image for image in everything if image.source not in committed)
    pair.images = sorted([*pair.images, aborted], key=lambda image: image.source or 0)
    pair.write()
    (anomaly,) = pair.check().anomalies
    assert aborted.source is not None
    assert (anomaly.name, anomaly.source) == ("aborted", one(aborted.source))


def test_a_doctored_ledger_lies(pair: Pair) -> None:
    pair.fill()
    pair.write()
    shifted = [[image.source, image.target + 1, 1] for image in pair.images]
    pair.record(shifted, target_next=pair.images[-1].target + 2)
    assert pair.check().names == {"ledger-lie"}
    pair.record(target_next=pair.images[-1].target + 5)
    assert pair.check().names == {"ledger-lie"}
    pair.record()
    assert pair.check().names == set()


def test_an_image_that_an_aborted_transaction_wrote_is_lost_to_some_readers(pair: Pair) -> None:
    pair.fill(10)
    last = pair.images.pop()
    pair.write()
    producer = Producer({"bootstrap.servers": pair.target, "transactional.id": pair.topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    pair.send(producer, last)
    assert producer.flush(20) == 0
    producer.abort_transaction(20)
    pair.images.append(last)
    pair.record()
    assert pair.check().names == {"lost"}


# Retention, quarantine, compaction


def test_offsets_that_retention_took_before_the_copy_need_a_gap(pair: Pair) -> None:
    pair.fill()
    del pair.images[10:20]
    delete_before(pair.source, pair.topic, 20)
    pair.write()
    (anomaly,) = pair.check().anomalies
    assert (anomaly.name, anomaly.source) == ("gap-unreported", (10, 20))
    pair.gaps = [{"source_start": 10, "source_end": 20, "why": "retention"}]
    pair.record()
    report = pair.check()
    assert (report.anomalies, report.equal, report.unverified) == ([], 10, 10)


def test_a_quarantined_record_needs_its_entry(pair: Pair) -> None:
    pair.fill()
    del pair.images[10]
    pair.gaps = [{"source_start": 10, "source_end": 11, "why": "quarantined: too large"}]
    pair.write()
    assert pair.check().names == {"lost"}
    create_topic(pair.target, f"{pair.topic}.quarantine")
    write_rows(pair.target, f"{pair.topic}.quarantine", {f"{pair.topic}/0/10": "it"})
    assert pair.check().names == set()


def test_images_that_the_mirrors_retention_took_are_not_lost(pair: Pair) -> None:
    pair.fill()
    pair.write()
    delete_before(pair.target, pair.topic, pair.images[12].target)
    report = pair.check()
    assert (report.anomalies, report.equal) == ([], 18)


def test_a_compacted_mirror_is_not_judged(pair: Pair, topic_name: str) -> None:
    topic = f"{topic_name}.compacted"
    create_topic(pair.source, topic)
    create_topic(pair.target, topic, config={"cleanup.policy": "compact"})
    with pytest.raises(Unsupported, match="compacted"):
        Pair(pair.source, pair.target, topic).check()


def test_images_of_records_that_the_source_compacted_away_are_no_phantoms(
    pair: Pair, private_cluster: Callable[..., Any]
) -> None:
    pair.source = private_cluster(properties={"log.cleaner.backoff.ms": "100"}).bootstrap
    rolls = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.0"}
    create_topic(pair.source, pair.topic, config=rolls)
    producer = Producer({"bootstrap.servers": pair.source})
    for number in range(30):
        # Each a second later than the last: each closes the segment before it.
        made_ms = 1_700_000_000_000 + number * 1_000
        producer.produce(pair.topic, b"%d" % number, b"%d" % (number % 4), timestamp=made_ms)
        assert producer.flush(20) == 0
    pair.take_over()
    pair.write()
    deadline_s = time.monotonic() + 60
    while (left := len(list(read_partition(pair.source, pair.topic, 0, committed=True)))) > 25:
        assert time.monotonic() < deadline_s, "the broker did not compact"
    report = pair.check()
    assert report.anomalies == [], report
    assert report.equal + report.unverified == len(pair.images) and report.equal <= left
