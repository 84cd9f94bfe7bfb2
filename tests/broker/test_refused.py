"""Records that the target refuses: isolated, and dealt with as the link's policy says."""

from typing import Any
from uuid import UUID

import pytest

from heliograph.copy.opening import Ends
from heliograph.copy.quarantine import Made, MakeTopic
from heliograph.errors import HeliographError, RecordsRefused, TopicMissing
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.compress import Codec
from heliograph.kafka.records import decode, encode
from heliograph.model.ledger import Gap
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.linked import (
    check_link,
    copy_all,
    make_ledger,
    on_mirror,
    opened_one,
    record,
    same,
    step_until_failure,
    streaming,
    within,
    write_batches,
)
from tests.checker.reading import read_partition
from tests.making import create_topic

SKIP, STOP = Policies(on_refuse="skip"), Policies(on_refuse="stop")
SMALL = {"max.message.bytes": "2000"}
KEYS_ONLY = {"cleanup.policy": "compact"}
NOT_OLD = {"message.timestamp.before.max.ms": "3600000"}


def linked(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], topic: str, config: dict[str, str]
) -> Ends:
    create_topic(source.bootstrap, topic, config={"max.message.bytes": "4000000"})
    create_topic(target.bootstrap, topic, config=config)
    return Ends("test", *ends, make_ledger(target.bootstrap, topic))


def making(link: Ends, bootstrap: str) -> MakeTopic:
    """Return what makes quarantine topics, and calls back in a later turn of the loop."""

    def make(topic: str, made: Made) -> None:
        create_topic(bootstrap, topic, config={"max.message.bytes": "4000000"})
        view = link.target.describe([topic], within(20))
        link.target.loop.start(lambda: lambda: made(view.topics[topic].topic_id))

    return make


def values(target: Any, here: Partition) -> list[bytes | None]:
    return [seen.value for _, seen in on_mirror(target, here)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=["plain", "zstd"])
def test_a_batch_that_is_too_large_is_split(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], here: Partition, codec: Codec
) -> None:
    link = linked(source, target, ends, here.topic, SMALL)
    noise = [record(bytes(range(n % 200, n % 200 + 50)) * 10) for n in range(40)]
    small = [record(b"%d" % n) for n in range(5)]
    batches = [encode(noise, codec=codec), encode(small), encode(noise), encode(small)]
    write_batches(link.source, here, batches * 3)  # more than fly together: some are cut unsent
    opened = copy_all(link, here)
    assert same(source, target, here) == 270
    assert not opened.ledger.gaps and [run.length for run in opened.ledger.runs] == [270]
    check_link(source, target, link, here.topic)


def test_a_single_record_that_is_too_large_is_skipped_and_named(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], here: Partition
) -> None:
    link = linked(source, target, ends, here.topic, SMALL)
    rows = [record(b"a"), record(bytes(5000)), record(b"b")]
    write_batches(link.source, here, [encode(rows), encode([record(b"c")])])
    opened = copy_all(link, here, SKIP)
    assert values(target, here) == [b"a", b"b", b"c"]
    assert opened.ledger.gaps == [Gap(1, 2, "refused: MESSAGE_TOO_LARGE")]
    check_link(source, target, link, here.topic, gaps_ok=True)


def test_records_without_a_key_are_taken_out_of_their_batches(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], here: Partition
) -> None:
    link = linked(source, target, ends, here.topic, KEYS_ONLY)
    rows = [record(b"%d" % n, key=None if n % 3 == 1 else b"%d" % n) for n in range(10)]
    write_batches(link.source, here, [encode(rows), encode([record(b"last", key=b"l")])])
    opened = copy_all(link, here, SKIP)
    assert values(target, here) == [b"0", b"2", b"3", b"5", b"6", b"8", b"9", b"last"]
    why = "refused: INVALID_RECORD"
    assert opened.ledger.gaps == [Gap(n, n + 1, why) for n in (1, 4, 7)]
    assert opened.ledger.source_next == 11
    copy_all(link, here, SKIP)
    assert len(values(target, here)) == 8


def test_refused_records_are_kept_in_quarantine_as_they_were(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], here: Partition
) -> None:
    link = linked(source, target, ends, here.topic, NOT_OLD)
    rows = [record(b"now"), record(b"long ago", 5000, key=None), record(b"now again")]
    write_batches(link.source, here, [encode(rows), encode([record(b"then")])])
    opened = copy_all(link, here, make_topic=making(link, target.bootstrap))
    assert values(target, here) == [b"now", b"now again", b"then"]
    assert opened.ledger.gaps == [Gap(1, 2, "quarantined: INVALID_TIMESTAMP")]
    ((_, kept),) = read_partition(target.bootstrap, f"{here.topic}.quarantine", 0, committed=True)
    assert kept.key == f"{here.topic}/0/1".encode() and kept.value is not None
    (row,) = decode(kept.value)
    assert row == rows[1]._replace(offset=1)
    said = dict(kept.headers)
    assert said["heliograph.link"] == b"test" and said["source.cluster"] == b"source"
    assert (said["source.topic"], said["source.partition"]) == (here.topic.encode(), b"0")
    assert (said["source.offset"], said["timestamp"]) == (b"1", b"5000")
    assert said["error.code"] == b"32" and b"INVALID_TIMESTAMP" in (said["error.message"] or b"")
    check_link(source, target, link, here.topic)


def test_only_the_partition_that_needs_a_quarantine_waits_for_it(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], topic_name: str
) -> None:
    bad, good = Partition(topic_name, 0), Partition(topic_name, 1)
    create_topic(source.bootstrap, topic_name, 2)
    create_topic(target.bootstrap, topic_name, 2, config=NOT_OLD)
    link = Ends("test", *ends, make_ledger(target.bootstrap, topic_name))
    asked: list[tuple[str, Made]] = []
    stream = streaming(link, make_topic=lambda topic, made: asked.append((topic, made)))
    for part in (bad, good):
        stream.add(opened_one(link, part))
    write_batches(link.source, bad, [encode([record(b"old", 5000)]), encode([record(b"x")])])
    while not asked:
        stream.step()
    write_batches(link.source, good, [encode([record(b"%d" % n)]) for n in range(5)])
    deadline = within(20)
    while stream.parts[good].position < 5:
        assert not deadline.passed
        stream.step()
    assert stream.parts[bad].position == 0 and not stream.take_failures()
    ((topic, made),) = asked
    create_topic(target.bootstrap, topic)
    made(link.target.describe([topic], within(10)).topics[topic].topic_id)
    while stream.parts[bad].position < 2:
        assert not deadline.passed and not stream.take_failures()
        stream.step()
    stream.finish(within(20))
    stream.close()
    check_link(source, target, link, topic_name)


def test_a_quarantine_that_cannot_be_made_fails_the_partition(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], here: Partition
) -> None:
    link = linked(source, target, ends, here.topic, NOT_OLD)
    write_batches(link.source, here, [encode([record(b"old", 5000)])])
    refusal = TopicMissing("no quarantine for you", cluster="target")
    outcome: UUID | HeliographError = refusal
    stream = streaming(link, opened_one(link, here), make_topic=lambda _, made: made(outcome))
    assert step_until_failure(stream) is refusal
    assert stream.parts[here].position == 0 and not values(target, here)


def test_where_the_policy_says_stop_the_failure_names_the_offset(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], here: Partition
) -> None:
    link = linked(source, target, ends, here.topic, NOT_OLD)
    rows = [record(b"a"), record(b"b"), record(b"old", 5000), record(b"c")]
    write_batches(link.source, here, [encode(rows)])
    stream = streaming(link, opened_one(link, here), policies=STOP)
    error = step_until_failure(stream)
    assert isinstance(error, RecordsRefused) and error.kafka_code == 32
    assert f"offset 2 of {here}" in error.message
    assert values(target, here) == [b"a", b"b"], "what stands before it is copied"
    stream.close()
    # After the policy has changed, nothing is missing and nothing is there twice.
    copy_all(link, here, SKIP)
    assert values(target, here) == [b"a", b"b", b"c"]
