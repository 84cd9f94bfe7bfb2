"""Opened where time has changed something: retention, recreated topics, forgotten ids; and many."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from heliograph.copy import opening, sending
from heliograph.copy.case import Case
from heliograph.copy.claiming import claim_parts
from heliograph.copy.closing import close_blind
from heliograph.copy.finding import find_starts
from heliograph.copy.opening import Ends, Opened, open_all
from heliograph.copy.stream import Stream
from heliograph.errors import LedgerUnfit, NotReady, TopicMissing
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import PROPAGATION, Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.properties import parse
from heliograph.kafka.records import encode
from heliograph.kafka.tables import Table, Writer
from heliograph.kafka.transport import Loop
from heliograph.model.ledger import Ledger, read_ledger
from heliograph.model.names import ledger_topic
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.linked import (
    check_link,
    copy_all,
    make_ledger,
    on_mirror,
    open_one,
    opened_one,
    produce,
    record,
    same,
    step_until,
    streaming,
    within,
    write_batches,
)
from tests.checker.compare import count_equal
from tests.doubles.behind import Behind
from tests.doubles.proxy import PRODUCE, Hold
from tests.making import create_topic, delete_topic

RESTART = Policies(on_recreate="restart")
MANY = 200
NOW_MS = int(time.time() * 1000)


def values(target: Any, here: Partition) -> list[bytes | None]:
    return [seen.value for _, seen in on_mirror(target, here)]


def copy_unrecorded(link: Ends, here: Partition, position: int) -> None:
    """Copy, and end without a word before anything is on record."""
    stream = streaming(link, opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].position == position)
    stream.close()


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ("earliest", [b"0", b"1", b"2", b"3", b"new"]),
        ("latest", [b"new"]),
        (NOW_MS + 2_000, [b"2", b"3", b"new"]),
        (NOW_MS + 2_500, [b"3", b"new"]),
        (NOW_MS + 60_000, [b"new"]),
    ],
    ids=["earliest", "latest", "a record's time", "between two", "after all"],
)
def test_a_partition_never_mirrored_begins_where_the_policy_says(
    target: Any, link: Ends, here: Partition, start: Any, wanted: list[bytes]
) -> None:
    rows = [record(b"%d" % n, NOW_MS + 1000 * n) for n in range(4)]
    write_batches(link.source, here, [encode([row]) for row in rows])
    begin = find_starts(link.source, {here: start}, within(20))[here]
    assert isinstance(begin, int)
    copy_all(link, here, begin=begin)
    write_batches(link.source, here, [encode([record(b"new", NOW_MS + 9_000)])])
    opened = copy_all(link, here, begin=begin)
    assert values(target, here) == wanted
    assert not opened.ledger.gaps


def test_latest_takes_transactions_whole_that_are_open_also_beside_a_partition_that_is_gone(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"before"])
    producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": here.topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(here.topic, b"open", partition=0)
    assert producer.flush(20) == 0
    gone = Partition(f"{here.topic}.gone", 0)
    alone = find_starts(link.source, {here: "latest"}, within(20))
    beside = find_starts(link.source, {here: "latest", gone: "latest"}, within(20))
    assert alone[here] == beside[here] == 1 and isinstance(beside[gone], TopicMissing)
    producer.produce(here.topic, b"later", partition=0)
    producer.commit_transaction(20)
    copy_all(link, here, begin=1)
    assert values(target, here) == [b"open", b"later"]


def test_a_topic_made_anew_is_mirrored_from_its_start_where_the_policy_says_so(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a", b"b", b"c"])
    first = copy_all(link, here)
    produce(source.bootstrap, here.topic, [b"d"])
    copy_unrecorded(link, here, 4)
    delete_topic(source.bootstrap, here.topic)
    create_topic(source.bootstrap, here.topic)
    produce(source.bootstrap, here.topic, [b"x", b"y"])
    refused = open_one(link, here)
    assert isinstance(refused, LedgerUnfit) and "source topic id" in refused.message
    opened = copy_all(link, here, RESTART)
    assert values(target, here) == [b"a", b"b", b"c", b"d", b"x", b"y"]
    (gap,) = opened.ledger.gaps
    assert gap.why.startswith("topic recreated") and gap.source_start == gap.source_end == 0
    assert first.ledger.producer_ids <= opened.ledger.producer_ids
    assert [(run.source_start, run.length) for run in opened.ledger.runs] == [(0, 2)]
    check_link(source, target, link, here.topic)
    produce(source.bootstrap, here.topic, [b"z"])
    again = copy_all(link, here, RESTART)
    assert values(target, here)[-3:] == [b"x", b"y", b"z"] and len(again.ledger.gaps) == 1


def test_what_the_targets_retention_left_is_matched_behind_what_it_took(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(5)])
    copy_all(link, here)
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(5, 20)])
    copy_unrecorded(link, here, 20)
    first = on_mirror(target, here)[12][0]
    with Admin(link.target.settings, "target") as admin:
        admin.logs.delete_records({here: first})
    opened = copy_all(link, here)
    assert opened.ledger.source_next == 20
    assert values(target, here) == [b"%d" % n for n in range(12, 20)]
    assert opened.ledger.runs.translate(15).offset == on_mirror(target, here)[3][0]


def test_a_mirror_whose_retention_took_everything_goes_on(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"%d" % n for n in range(5)])
    copy_all(link, here)
    end = list_offsets(link.target, {here: LATEST}, within(10))[here]
    with Admin(link.target.settings, "target") as admin:
        admin.logs.delete_records({here: end})
    produce(source.bootstrap, here.topic, [b"next"])
    copy_all(link, here)
    assert values(target, here) == [b"next"]


def test_a_mirror_that_lost_what_the_ledger_says_is_not_opened(
    source: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a"])
    opened = copy_all(link, here)
    opened.ledger.skip_target_to(50)
    put(link, opened)
    refused = open_one(link, here)
    assert isinstance(refused, LedgerUnfit) and "lost records" in refused.message


def put(link: Ends, opened: Opened) -> None:
    """Put a doctored ledger."""
    writer = Writer(opened.claim.producer_id, opened.claim.epoch, opened.writer.sequence)
    rows = opened.ledger.take_changes()
    Table(link.target, link.ledger_topic).put(rows, within(10), writer=writer)


class Fast:
    """Clocks that run twenty times as fast, so that waits are short."""

    def __init__(self) -> None:
        self._start_s = clock.REAL.monotonic()
        self._start_wall_s = clock.REAL.time()

    def monotonic(self) -> float:
        return self._start_s + 20 * (clock.REAL.monotonic() - self._start_s)

    def time(self) -> float:
        return self._start_wall_s + self.monotonic() - self._start_s


@pytest.fixture
def fast() -> Iterator[Fast]:
    double = Fast()
    with clock.moved_by(double):
        yield double


def test_where_the_broker_forgot_our_id_old_requests_are_waited_for_and_matched(
    source: Any, target: Any, link: Ends, here: Partition, fast: Fast
) -> None:
    produce(source.bootstrap, here.topic, [b"a"])
    opened = copy_all(link, here)
    # As if everything had been written under another id, which the broker has forgotten.
    opened.ledger.producer_ids.clear()
    opened.ledger.producer_ids.add(10**9)
    put(link, opened)
    before_s = fast.monotonic()
    again = open_all(link, {here: here}, within(600))[here]
    assert isinstance(again, Opened)
    assert fast.monotonic() - before_s >= 10
    assert again.claim.epoch - opened.claim.epoch >= 4, "two claims"
    assert again.ledger.producer_ids == {10**9, again.claim.producer_id}
    assert open_one(link, here) is not None and same(source, target, here) == 1


def test_a_source_that_is_gone_is_told_soon(
    target: Any, link: Ends, here: Partition, topic_name: str
) -> None:
    """A lease that is called in waits for it, and all its partitions with it."""
    gone = Partition(f"{topic_name}.gone", 0)
    create_topic(target.bootstrap, gone.topic)
    began_s = time.monotonic()
    opened = open_all(link, {here: here, gone: gone}, within(60))
    took_s = time.monotonic() - began_s
    assert isinstance(opened[here], Opened) and isinstance(opened[gone], TopicMissing)
    assert took_s < 4 * PROPAGATION.total_seconds(), "it was asked for again and again"


def test_many_partitions_open_at_once_and_one_that_cannot_leaves_the_others(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], topic_name: str
) -> None:
    parts = [Partition(topic_name, number) for number in range(MANY)]
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name, MANY)
    link = Ends("test", *ends, make_ledger(target.bootstrap, topic_name))
    for part in parts[:40]:
        write_batches(link.source, part, [encode([record(b"%d" % n)]) for n in range(3)])
    stream = streaming(link)
    for opened in open_all(link, {part: part for part in parts}, within(60)).values():
        assert isinstance(opened, Opened), opened
        stream.add(opened)
    # Batches of nobody that were sent again may stand twice on the source.
    step_until(stream, lambda: all(stream.parts[part].position >= 3 for part in parts[:40]))
    stream.close()  # as if killed

    nowhere = Partition(f"{topic_name}.nowhere", 0)
    mirrors = {part: part for part in parts} | {nowhere: parts[0]._replace(topic=nowhere.topic)}
    began_s = time.monotonic()
    again = open_all(link, mirrors, within(60))
    print(f"{MANY} partitions opened in {time.monotonic() - began_s:.2f} s")
    assert isinstance(again.pop(nowhere), TopicMissing)
    for part, opened in again.items():
        assert isinstance(opened, Opened), opened
        assert (opened.ledger.source_next >= 3) == (part in parts[:40])


SHARED = Policies(is_shared=True)


def test_a_shared_mirror_without_its_ledger_is_not_copied_again(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a", b"b"])
    copy_all(link, here, SHARED)
    delete_topic(target.bootstrap, link.ledger_topic)
    make_ledger(target.bootstrap, here.topic)
    produce(target.bootstrap, here.topic, [b"of another"])
    refused = open_one(link, here, SHARED)
    assert isinstance(refused, LedgerUnfit) and "this link wrote" in refused.message
    assert values(target, here) == [b"a", b"b", b"of another"]


def test_a_report_of_progress_without_a_ledger_stops_a_shared_mirror(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a"])
    refused = open_all(link, {here: here}, within(30), SHARED, copied=[here])[here]
    assert isinstance(refused, LedgerUnfit) and "has copied records" in refused.message
    assert values(target, here) == []


def test_a_claim_that_died_before_anything_was_written_does_not_stop_a_shared_mirror(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    produce(source.bootstrap, here.topic, [b"a"])
    produce(target.bootstrap, here.topic, [b"of another"])
    link.target.describe([link.ledger_topic, here.topic], within(20))
    claim_parts(link, {here: here}, within(20))
    copy_all(link, here, SHARED)
    assert values(target, here) == [b"of another", b"a"]


def test_a_link_under_another_name_does_not_copy_to_a_shared_mirror_again(
    source: Any, target: Any, ends: tuple[Cluster, Cluster], here: Partition
) -> None:
    links = [f"{name}-{here.topic[-8:]}" for name in ("old", "new")]
    for cluster in (source, target):
        create_topic(cluster.bootstrap, here.topic)
    for name in links:
        create_topic(target.bootstrap, ledger_topic(name), config={"cleanup.policy": "compact"})
    produce(source.bootstrap, here.topic, [b"a"])
    old, new = (Ends(name, *ends, ledger_topic(name)) for name in links)
    copy_all(old, here, SHARED)
    refused = open_one(new, here, SHARED)
    assert isinstance(refused, LedgerUnfit) and ledger_topic(links[0]) in refused.message
    assert values(target, here) == [b"a"]
    for name in links:  # or every test after this one reads them
        delete_topic(target.bootstrap, ledger_topic(name))


def test_a_ledger_of_another_link_that_cannot_be_read_holds_up_only_who_begins_anew(
    source: Any, target: Any, link: Ends, here: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no failover: after a disaster, nobody may lead it."""
    other, load = ledger_topic(f"other-{here.topic[-8:]}"), Table.load
    known = Partition(f"{here.topic}.known", 0)
    create_topic(target.bootstrap, other)
    for cluster in (source, target):
        create_topic(cluster.bootstrap, known.topic)
    copy_all(link, known, SHARED)

    def fail(table: Table, deadline: Deadline) -> Any:
        if table.topic == other:
            raise NotReady("nobody leads it", cluster="target")
        return load(table, deadline)

    monkeypatch.setattr(Table, "load", fail)
    opened = open_all(link, {here: here, known: known}, within(30), SHARED)
    assert isinstance(opened[here], NotReady) and isinstance(opened[known], Opened)
    closed = close_blind(link, {here: here, known: known}, "FAILED_OVER", within(30))
    assert all(isinstance(one, Ledger) for one in closed.values()), closed
    delete_topic(target.bootstrap, other)


def test_a_long_tail_is_matched_in_parts_and_what_matched_stays(
    source: Any, target: Any, link: Ends, here: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_long_tail(source, link, here)
    parts = fail_in_part(3, monkeypatch)
    assert isinstance(open_one(link, here), NotReady)
    done = recorded_next(link, here)
    assert 0 < done < 200, "what matched is on record"
    again = opened_one(link, here)
    assert again.ledger.source_next == 200 and max(parts) < 200 and len(parts) > 4
    copy_all(link, here)
    assert same(source, target, here) == 200
    check_link(source, target, link, here.topic)


def test_the_tail_of_a_topic_that_is_gone_is_never_passed_over_in_parts(
    source: Any, target: Any, link: Ends, here: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes next takes what is left of it for copies of the topic made anew."""
    leave_long_tail(source, link, here)
    delete_topic(source.bootstrap, here.topic)
    create_topic(source.bootstrap, here.topic)
    produce(source.bootstrap, here.topic, [b"x", b"y"])
    fail_in_part(1, monkeypatch)
    open_one(link, here, RESTART)
    monkeypatch.undo()
    copy_all(link, here, RESTART)
    assert len(on_mirror(target, here)) == 202 and values(target, here)[-2:] == [b"x", b"y"]


def test_a_long_tail_of_which_the_source_has_lost_the_beginning_is_matched_as_a_whole(
    source: Any, target: Any, link: Ends, here: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_long_tail(source, link, here)
    with Admin(link.source.settings, "source") as admin:
        admin.logs.delete_records({here: 150})
    fail_in_part(100, monkeypatch)
    opened = copy_all(link, here, Policies(on_gap="skip"))
    assert len(on_mirror(target, here)) == 200
    assert [(gap.source_start, gap.source_end) for gap in opened.ledger.gaps] == [(0, 150)]
    assert sum(run.length for run in opened.ledger.runs) == 50


def leave_long_tail(source: Any, link: Ends, here: Partition) -> None:
    """Copy 200 records of which none is on record, in ten batches too large to be joined."""
    for first in range(0, 200, 20):
        rows = [b"%d" % n + bytes(1000) for n in range(first, first + 20)]
        produce(source.bootstrap, here.topic, rows)
    copy_unrecorded(link, here, 200)


def fail_in_part(number: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Match tails in parts of 20, and fail once; return how long each part is."""
    monkeypatch.setattr(opening, "_MOST_TAIL", 20)
    monkeypatch.setattr(opening, "_LEAST_TAIL", 20)
    parts: list[int] = []
    match = Case.match

    def fail_once(case: Case) -> None:
        if len(parts) == number:
            parts.append(0)
            raise NotReady("the source went away", cluster="source")
        parts.append(len(case.tail))
        match(case)

    monkeypatch.setattr(Case, "match", fail_once)
    return parts


def recorded_next(link: Ends, here: Partition) -> int:
    ledger = read_ledger(here, Table(link.target, link.ledger_topic).load(within(20)))
    assert ledger is not None
    return ledger.source_next


def test_nothing_is_sent_while_what_was_sent_cannot_be_recorded(
    source: Any,
    behind: Behind,
    here: Partition,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "MOST_UNRECORDED_S", 1.5)
    for bootstrap in (source.bootstrap, behind.direct):
        create_topic(bootstrap, here.topic)
    loop = Loop()
    with (
        Cluster(parse("source", source.client_properties()), "source", loop) as one,
        Cluster(
            parse("target", {"bootstrap.servers": behind.proxy.address}), "target", loop
        ) as two,
    ):
        link = Ends("test", one, two, make_ledger(behind.direct, here.topic))
        stream = streaming(link, opened_one(link, here))
        ledger_id = two.view.topics[link.ledger_topic].topic_id.bytes
        rule = behind.proxy.on_request(PRODUCE, Hold(), holding=ledger_id)
        part, deadline, count = stream.parts[here], within(30), 0
        while clock.now_s() - part.recorded_s <= 1.5 or part.position == count:
            assert not deadline.passed
            produce(source.bootstrap, here.topic, [b"%d" % count])
            count += 1
            step_for(stream, 0.5)
        assert part.position == count - 1 and part.queue.waiting_bytes
        step_for(stream, 1.0)
        assert part.position == count - 1
        behind.proxy.release(rule)
        step_until(stream, lambda: part.position == count)
        stream.finish(within(20))
        assert count_equal(source.bootstrap, here.topic, behind.direct, here.topic, 1) == count
    loop.close()


def step_for(stream: Stream, seconds: float) -> None:
    deadline = within(seconds)
    while not deadline.passed:
        stream.step()
