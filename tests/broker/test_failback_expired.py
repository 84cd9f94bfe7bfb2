"""`failback` when retention took records of either side before it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from heliograph.kafka.tables import Table
from heliograph.model.ledger import read_ledger
from heliograph.model.recovery import read_events
from heliograph.model.topics import Partition
from tests.broker.groups import commit, consume, offset
from tests.broker.linked import (
    copy_all,
    opened_one,
    produce,
    step_until,
    streaming,
    within,
)
from tests.broker.recovering import (
    Make,
    find_source,
    lose_source,
    mirrored,
    numbers,
    opposite_ends,
    recover,
    tell,
    values,
)
from tests.checker.reading import read_partition


def forget(cluster: Any, here: Partition, before: int) -> None:
    """Remove the records of a partition before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in admin.delete_records([TopicPartition(*here, before)]).values():
        done.result(20)


def test_what_was_never_copied_is_saved_before_it_is_wiped(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands before the link's beginning, and what has expired on the mirror since."""
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    copy_all(link.ends, here, begin=10)
    tell(link, here)
    recover(link, capsys, "failover", "--yes")
    records = read_partition(link.target.bootstrap, topic_name, 0, committed=False)
    forget(link.target, here, next(at for at, one in records if one.value == b"13"))
    found = recover(link, capsys, "failback", "--wipe", "--all", "--yes")
    assert [one["records"] for one in found["diverged"]] == [13]
    assert values(link.target, f"{topic_name}.diverged") == numbers(0, 13)
    assert values(link.target, topic_name) == numbers(13, 20)


@pytest.mark.parametrize("side", ["source", "target"])
def test_retention_of_either_side_does_not_stop_a_failback(
    side: str, make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has passed the end of what was on record at the failover."""
    link = make()
    here = link.make(topic_name)
    stream = streaming(link.ends, opened_one(link.ends, here))
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    step_until(stream, lambda: stream.parts[here].position >= 10)
    stream.close()  # without a word: nothing of it is on record
    tell(link, here)
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    find_source(link)
    produce(link.target.bootstrap, topic_name, numbers(10, 13))
    cluster = getattr(link, side)
    records = read_partition(cluster.bootstrap, topic_name, 0, committed=False)
    first = next(at for at, one in records if one.value == b"4")
    forget(cluster, here, first)
    assert recover(link, capsys, "failback")["diverged"] == []
    copy_all(opposite_ends(link), here)
    found = values(link.source, topic_name)
    assert found[-9:] == numbers(4, 13) and len(found) == len(set(found))


@pytest.mark.parametrize("sides", [("source",), ("target",), ("source", "target")])
def test_a_side_that_retention_emptied_does_not_stop_a_failback(
    sides: tuple[str, ...], make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What only the emptied side had is gone; what came since is copied back, once."""
    link = make()
    here = mirrored(link, topic_name, 10)
    produce(link.source.bootstrap, topic_name, numbers(10, 12))  # they have not arrived
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    find_source(link)
    for side in sides:
        forget(getattr(link, side), here, -1)
    produce(link.target.bootstrap, topic_name, numbers(20, 25))
    found = recover(link, capsys, "failback")
    diverged = sum(one["records"] for one in found["diverged"])
    assert diverged == (0 if "source" in sides else 2)
    copy_all(opposite_ends(link), here)
    kept = [] if "source" in sides else numbers(0, 12)
    assert values(link.source, topic_name) == [*kept, *numbers(20, 25)]


def test_a_group_of_a_partition_that_was_never_copied_goes_on_behind_what_stood_there(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The link begins at the end (`start: latest`), and nothing came before the failover."""
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    copy_all(link.ends, here, begin=10)
    tell(link, here)
    recover(link, capsys, "failover", "--yes")
    commit(link.target, topic_name, {here: 0})
    recover(link, capsys, "failback")
    assert offset(link.source, topic_name, here) == 10
    produce(link.target.bootstrap, topic_name, numbers(20, 23))
    copy_all(opposite_ends(link), here)
    assert consume(link.source, topic_name, topic_name, 3) == numbers(20, 23)


def test_what_expired_before_a_failback_is_told_and_stops_nothing(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = mirrored(link, topic_name, 10)
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    find_source(link)
    produce(link.target.bootstrap, topic_name, numbers(20, 25))
    forget(link.target, here, -1)
    produce(link.target.bootstrap, topic_name, numbers(30, 35))
    recover(link, capsys, "failback")
    told = [line for one in read_events(link.state()) for line in one.lines]
    assert any("up to 5 records that came since have expired on target" in one for one in told)
    copy_all(opposite_ends(link), here)
    assert values(link.source, topic_name) == [*numbers(0, 10), *numbers(30, 35)]
    back = opposite_ends(link)
    rows = Table(back.target, back.ledger_topic).load(within(20))
    ledger = read_ledger(here, rows)
    assert ledger is not None and [one.source_end - one.source_start for one in ledger.gaps] == [5]
