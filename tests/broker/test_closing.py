"""Closed mirror partitions: no writer of the link, early or late, writes to them any more."""

from typing import Any

from heliograph.copy.closing import close_blind, seal
from heliograph.copy.opening import Ends, Opened
from heliograph.errors import MirrorClosed, Superseded
from heliograph.kafka.tables import Table
from heliograph.model.ledger import Ledger, read_ledger
from heliograph.model.runs import Run
from heliograph.model.topics import Partition
from tests.broker.linked import (
    copy_all,
    open_one,
    opened_one,
    produce,
    same,
    step_until,
    step_until_failure,
    streaming,
    within,
)
from tests.checker.reading import read_partition


def recorded(link: Ends, here: Partition) -> Ledger:
    ledger = read_ledger(here, Table(link.target, link.ledger_topic).load(within(20)))
    assert ledger is not None
    return ledger


def mirrored(target: Any, here: Partition) -> list[bytes | None]:
    seen = read_partition(target.bootstrap, here.topic, 0, committed=False)
    return [one.value for _, one in seen]


def close_one(link: Ends, here: Partition) -> Ledger:
    closed = close_blind(link, {here: here}, "FAILED_OVER", within(30))[here]
    assert isinstance(closed, Ledger), closed
    return closed


def test_a_writer_that_was_asleep_is_refused_after_a_close(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a", b"b"])
    stream = streaming(link, opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].position >= 2)
    close_one(link, here)
    produce(source.bootstrap, here.topic, [b"c"])
    assert isinstance(step_until_failure(stream), Superseded)
    stream.close()
    assert mirrored(target, here) == [b"a", b"b"]


def test_a_writer_that_claims_after_a_close_writes_nothing(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a"])
    copy_all(link, here)
    close_one(link, here)
    produce(source.bootstrap, here.topic, [b"b"])
    refused = open_one(link, here)
    assert isinstance(refused, MirrorClosed)
    assert "FAILED_OVER since" in str(refused) and "heliograph failback" in str(refused)
    assert mirrored(target, here) == [b"a"]
    assert recorded(link, here).closing is not None


def test_what_was_written_and_not_recorded_is_counted(
    source: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(100)])
    stream = streaming(link, opened_one(link, here))
    while stream.parts[here].position < 100:
        stream.step()
    before = recorded(link, here)
    # It ends here without a word, as if killed: the ledger may be up to a second behind.
    closed = close_one(link, here)
    assert closed.closing is not None
    assert closed.closing.unmatched == 100 - before.records
    assert (closed.source_next, closed.target_next) == (before.source_next, before.target_next)
    assert closed.closing.marker_offset >= 100
    assert recorded(link, here).closing == closed.closing
    stream.close()


def test_closing_twice_changes_nothing(source: Any, link: Ends, here: Partition) -> None:
    produce(source.bootstrap, here.topic, [b"a"])
    copy_all(link, here)
    first = close_one(link, here)
    assert close_one(link, here).closing == first.closing == recorded(link, here).closing


def test_a_partition_that_was_never_copied_is_closed_too(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(target.bootstrap, here.topic, [b"of an application"])
    produce(source.bootstrap, here.topic, [b"a"])
    close_one(link, here)
    assert isinstance(open_one(link, here), MirrorClosed)


def test_a_sealed_partition_has_everything_on_record(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a", b"b"])
    copy_all(link, here)
    opened = open_one(link, here)
    assert isinstance(opened, Opened)
    sealed = seal(link, [opened], "PROMOTED", within(20))[here]
    assert isinstance(sealed, Ledger) and sealed.closing is not None
    assert list(sealed.runs) == [Run(0, 1, 2)] and sealed.closing.unmatched == 0
    assert isinstance(open_one(link, here), MirrorClosed)
    assert same(source, target, here) == 2


def test_one_that_cannot_be_closed_leaves_the_others_alone(
    source: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a"])
    copy_all(link, here)
    absent = Partition(f"{here.topic}.absent", 0)
    found = close_blind(link, {here: here, absent: absent}, "FAILED_OVER", within(20))
    closed = found[here]
    assert isinstance(closed, Ledger) and closed.closing is not None
    assert not isinstance(found[absent], Ledger)
