"""What only one side has is saved to `<topic>.diverged`: nothing is left out, nothing is hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from heliograph.kafka import clock
from heliograph.model.names import reverse_name
from heliograph.model.recovery import read_events
from heliograph.model.topics import Partition
from heliograph.recovery.diverged import Saving
from tests.broker.groups import GroupLink
from tests.broker.linked import copy_all, produce, within
from tests.broker.recovering import Make, numbers, opposite_ends, recover, tell, values
from tests.checker.reading import read_partition
from tests.making import delete_topic


def failed_over(link: GroupLink, topic: str, capsys: pytest.CaptureFixture[str]) -> Partition:
    """Copy ten records, fail over, and let two more come on the old source."""
    here = link.make(topic)
    produce(link.source.bootstrap, topic, numbers(0, 10))
    link.copy(here)
    tell(link, here)
    recover(link, capsys, "failover", "--yes")
    produce(link.source.bootstrap, topic, numbers(10, 12))
    return here


def saving(link: GroupLink, recovery: str) -> Saving:
    source, side = link.ends.source, link.ends.target
    return Saving(link.name, source, side, recovery)


def test_what_a_former_failback_saved_is_saved_again_before_a_wipe(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mirror was made anew since: what the old source holds is on no other side."""
    link = make()
    here = failed_over(link, topic_name, capsys)
    assert recover(link, capsys, "failback")["diverged"][0]["records"] == 2
    copy_all(opposite_ends(link), here)
    opposite = replace(link.link, name=reverse_name(link.name), target=link.source)
    tell(replace(link, link=opposite), here)
    recover(link, capsys, "switch", "--back", "--fence", "none")
    tell(link, here)
    recover(link, capsys, "failover", "--yes")
    delete_topic(link.target.bootstrap, topic_name)
    link.make_on(link.target, topic_name)
    (found,) = recover(link, capsys, "failback", "--wipe", "--all", "--yes")["diverged"]
    assert found["records"] == 12
    assert values(link.target, f"{topic_name}.diverged") == [*numbers(10, 12), *numbers(0, 12)]


def test_a_recovery_saves_each_record_once_however_often_it_is_taken_up(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    expected: list[bytes] = []
    for recovery, start, new in (
        ("one", 6, numbers(6, 10)),
        ("one", 6, []),
        ("one", 3, numbers(3, 6)),  # as by a wipe, after a failback that could not compare
        ("one", 0, numbers(0, 3)),
        ("another", 5, numbers(5, 10)),
        ("one", 0, []),
    ):
        found = saving(link, recovery).save({here: start}, within(30))
        assert found[here].count == 10 - start
        expected += new
        assert values(link.target, f"{topic_name}.diverged") == expected
    records = read_partition(link.target.bootstrap, f"{topic_name}.diverged", 0, committed=True)
    marks = [dict(one.headers)["heliograph.diverged.recovery"] for _, one in records]
    assert marks == [b"one"] * 10 + [b"another"] * 5


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "of an earlier version"])
def test_a_record_of_any_time_is_saved_with_its_time(
    make: Make, topic_name: str, is_there: bool
) -> None:
    """Brokers refuse what is more than an hour ahead of their clock, unless told otherwise."""
    link = make()
    here = link.make(topic_name, message_timestamp_after_max_ms=str((1 << 63) - 1))
    if is_there:
        link.make_on(link.target, f"{topic_name}.diverged")
    ahead_ms = clock.wall_ms() + 48 * 3_600_000
    producer = Producer({"bootstrap.servers": link.source.bootstrap})
    for stamp_ms in (1, ahead_ms):
        producer.produce(topic_name, b"%d" % stamp_ms, partition=0, timestamp=stamp_ms)
    assert producer.flush(20) == 0
    saving(link, "one").save({here: 0}, within(30))
    saved = read_partition(link.target.bootstrap, f"{topic_name}.diverged", 0, committed=True)
    assert [one.timestamp for _, one in saved] == [1, ahead_ms]


def forget(cluster: Any, here: Partition, before: int) -> None:
    """Remove the records of a partition before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in admin.delete_records([TopicPartition(*here, before)]).values():
        done.result(20)


@pytest.mark.parametrize(("before", "saved"), [(11, 1), (12, 0)])
def test_what_expired_on_the_old_source_before_it_could_be_saved_is_told(
    before: int, saved: int, make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = failed_over(link, topic_name, capsys)
    forget(link.source, here, before)
    (foreseen,) = recover(link, capsys, "failback", "--dry-run")["diverged"]
    found = recover(link, capsys, "failback")
    (one,) = found["diverged"]
    assert one == foreseen and (one["records"], one["expired_offsets"]) == (saved, 2 - saved)
    assert (one["first"] is None) is (saved == 0)
    offsets = "1 offset" if saved else "2 offsets"
    told = f"what stood at {offsets} on the source expired before it could be saved"
    assert any(told in line for line in found["notes"])
    (step,) = (
        it for it in read_events(link.state()) if (it.step, it.outcome) == ("diverged", "done")
    )
    assert any(told in line for line in step.lines)


def test_what_expires_once_it_is_saved_counts_as_saved(make: Make, topic_name: str) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    forget(link.source, here, 5)
    assert saving(link, "one").save({here: 0}, within(30))[here].expired == 0, "never compared"
    forget(link.source, here, 8)
    found = saving(link, "one").save({here: 4}, within(30))[here]
    assert (found.count, found.expired) == (5, 1)
    found = saving(link, "another").save({here: 4}, within(30))[here]
    assert (found.count, found.expired) == (2, 4)
