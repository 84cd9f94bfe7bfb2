"""Groups move to the target: their offsets, translated exactly, are set where that is safe."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from heliograph.copy.opening import open_all
from heliograph.errors import ClusterError, LedgerUnfit
from heliograph.kafka.admin import Admin
from heliograph.links.group_sync import GroupSync, decide_all
from heliograph.model.checkpoints import Place, read_checkpoints
from heliograph.model.group_sync import Why
from heliograph.model.groups import Committed
from heliograph.model.topics import Partition
from tests.broker.groups import (
    PROTOCOLS,
    GroupLink,
    commit,
    commit_many,
    committed,
    consume,
    delete_groups,
    end,
    joined,
    offset,
    records,
)
from tests.broker.linked import produce, within
from tests.making import create_topic, delete_topic

Make = Callable[..., GroupLink]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_that_moves_reads_exactly_what_it_has_not_read(
    make: Make, topic_name: str, protocol: str
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    commit(link.source, topic_name, {here: 0})
    assert consume(link.source, topic_name, topic_name, 7, protocol) == numbers(0, 7)
    link.copy(here)
    synced = link.sync()
    assert not synced.errors and [one.group for one in synced.decisions] == [topic_name]
    assert consume(link.target, topic_name, topic_name, 13, protocol) == numbers(7, 20)
    # It was here, so it is not moved back when the source is.
    commit(link.source, topic_name, {here: 2})
    there = offset(link.target, topic_name, here)
    assert [one.why for one in link.sync().decisions] == [Why.AHEAD]
    assert offset(link.target, topic_name, here) == there


def test_groups_at_the_start_at_a_tenth_and_at_the_end_of_a_large_topic(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name, 2)
    empty = Partition(topic_name, 1)
    produce(link.source.bootstrap, topic_name, [b"x"] * 100_000)
    link.copy(here)
    link.copy(empty)
    places = {"start": 0, "tenth": 10_000, "end": 100_000}
    for name, at in places.items():
        commit(link.source, f"{topic_name}.{name}", {here: at, empty: 0}, f"at the {name}")
    link.sync()
    ((first, _),) = records(link.target, here, 1)
    for name, at in places.items():
        found = committed(link.target, f"{topic_name}.{name}")
        assert found[here] == (
            first + at if name != "end" else end(link.target, here),
            f"at the {name}",
        )
        assert found[empty] == (0, f"at the {name}")


def test_over_markers_and_aborted_records(make: Make, topic_name: str) -> None:
    link = make()
    here = link.make(topic_name)
    bootstrap = link.source.bootstrap
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic_name})
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic_name, b"%d" % number, key=b"k%d" % number, partition=0)
        assert producer.flush(20) == 0
        if number % 3 == 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    link.copy(here)
    # Each record is followed by a marker: 0 . 2 . (4) . 6 . 8 . (10) .
    wanted = {0: b"0", 1: b"1", 2: b"1", 3: b"3", 4: b"3", 6: b"3", 7: b"4", 8: b"4", 9: None}
    for at in wanted:
        commit(link.source, f"{topic_name}.{at}", {here: at})
    link.sync()
    values = dict(records(link.target, here, 4))
    for at, value in wanted.items():
        there = offset(link.target, f"{topic_name}.{at}", here)
        assert values.get(there or 0) == value, (at, there)
        if value is None:
            assert there == end(link.target, here)


def test_an_active_group_is_left_alone_and_a_rewind_is_followed_once_it_is_not(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    link.copy(here)
    commit(link.source, topic_name, {here: 10})
    link.sync()
    before = offset(link.target, topic_name, here)
    commit(link.source, topic_name, {here: 4})
    with closing(GroupSync(link.setup)) as sync:
        sight = sync.ends.look(within(30))
        with joined(link.target, topic_name, topic_name):
            late = sync.carry_out(sight, decide_all(sight), within(30))
    assert not late.failed and [one.why for one in late.decisions] == [Why.ACTIVE]
    with joined(link.target, topic_name, topic_name):
        (decision,) = link.sync().decisions
        assert decision.why is Why.ACTIVE and not decision.moves
        assert offset(link.target, topic_name, here) == before
    (decision,) = link.sync().decisions
    assert decision.moves and offset(link.target, topic_name, here) == decision.moves[0].after
    assert consume(link.target, topic_name, topic_name, 1) == [b"4"]


def test_an_offset_set_by_hand_ahead_stays_and_one_set_back_stays_until_the_source_moves(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    link.copy(here)
    commit(link.source, topic_name, {here: 10})
    link.sync()
    commit(link.target, topic_name, {here: 18})
    assert [one.why for one in link.sync().decisions] == [Why.AHEAD]
    assert offset(link.target, topic_name, here) == 18
    commit(link.target, topic_name, {here: 3})
    assert [one.why for one in link.sync().decisions] == [Why.SET_BACK]
    assert offset(link.target, topic_name, here) == 3
    commit(link.source, topic_name, {here: 11})
    link.sync()
    assert consume(link.target, topic_name, topic_name, 1) == [b"11"]


@pytest.mark.parametrize("nothing", [-1, -2])
def test_an_offset_below_zero_counts_as_none_on_either_side(
    make: Make, topic_name: str, nothing: int
) -> None:
    link = make()
    here, group = link.make(topic_name), topic_name
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    link.copy(here)
    settings = link.setup.source_settings, link.setup.target_settings
    for one in settings:
        with Admin(one, "cluster") as admin:
            admin.groups.commit(group, {here: Committed(nothing)}, within(30))
            assert [it.group for it in admin.groups.listing() if it.group == group] == [group]
    synced = link.sync()
    assert not synced.errors and not any(one.moves for one in synced.decisions)
    commit(link.source, group, {here: 7})
    link.sync()
    assert consume(link.target, group, topic_name, 1) == [b"7"]


def test_a_mirror_that_lags_is_never_pointed_past(make: Make, topic_name: str) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    link.copy(here)
    produce(link.source.bootstrap, topic_name, numbers(10, 20))
    commit(link.source, topic_name, {here: 15})
    link.sync()
    assert offset(link.target, topic_name, here) == end(link.target, here)
    link.copy(here)
    link.sync()
    assert consume(link.target, topic_name, topic_name, 5) == numbers(15, 20)


def test_what_is_not_mirrored_or_left_out_is_not_synced(make: Make, topic_name: str) -> None:
    link = make(more=f'    groups_exclude: ["{topic_name}.out.*"]\n')
    here, other = link.make(topic_name), link.make(f"other.{topic_name}")
    produce(link.source.bootstrap, topic_name, numbers(0, 3))
    link.copy(here)
    commit(link.source, f"{topic_name}.out.1", {here: 1})
    commit(link.source, f"{topic_name}.elsewhere", {other: 0})
    commit(link.source, f"unselected.{topic_name}", {here: 1})
    commit(link.source, f"{topic_name}.in", {here: 1, other: 0})
    synced = link.sync()
    assert [one.group for one in synced.decisions] == [f"{topic_name}.in"]
    assert list(committed(link.target, f"{topic_name}.in")) == [here]
    for group in (f"{topic_name}.out.1", f"{topic_name}.elsewhere", f"unselected.{topic_name}"):
        assert committed(link.target, group) == {}
    assert list(read_checkpoints(link.state())) == [f"{topic_name}.in"]


def test_checkpoints_are_kept_on_the_target_and_serve_without_the_source(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    commit(link.source, topic_name, {here: 6}, "meta")
    link.copy(here)
    link.sync()
    there = offset(link.target, topic_name, here)
    assert there is not None
    found = read_checkpoints(link.state())[topic_name]
    # librdkafka writes a zero behind the text; whatever it is, it is kept.
    assert found.place(here) == Place(6, there, "meta\0")
    delete_groups(link.target, topic_name)
    with closing(GroupSync(link.setup)) as sync:
        synced = sync.run(within(30), sources={topic_name: found.committed})
    assert not synced.failed
    assert committed(link.target, topic_name)[here] == (there, "meta")


def test_a_group_deleted_on_the_source_is_deleted_on_the_target_if_nobody_used_it_there(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    link.copy(here)
    groups = [f"{topic_name}.{name}" for name in ("idle", "used")]
    for group in groups:
        commit(link.source, group, {here: 6})
    commit(link.source, f"{topic_name}.stays", {here: 6})
    link.sync()
    commit(link.target, groups[1], {here: 8})
    delete_groups(link.source, *groups)
    kept = link.sync()
    assert not kept.deleted and committed(link.target, groups[0])
    assert {one.group for one in kept.report.groups if one.sync == "gone"} == set(groups)
    assert link.sync(deletes=True).deleted == (groups[0],)
    assert committed(link.target, groups[0]) == {}
    assert committed(link.target, groups[1]) and committed(link.target, f"{topic_name}.stays")


def test_fifty_groups_of_a_hundred_partitions_are_set_in_one_pass(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name, 100)
    parts = [Partition(topic_name, number) for number in range(100)]
    open_all(link.ends, {one: one for one in parts}, within(60))
    groups = [f"{topic_name}.{number}" for number in range(50)]
    commit_many(link.source, groups, dict.fromkeys(parts, 0))
    synced = link.sync()
    assert not synced.failed and len(synced.decisions) == 50
    for group in (groups[0], groups[-1]):
        assert committed(link.target, group) == dict.fromkeys(parts, (0, ""))
    assert here in parts
    again = link.sync()
    assert not any(one.moves for one in again.decisions)


def test_a_topic_made_anew_is_not_translated_with_the_old_ledger(
    make: Make, topic_name: str
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 10))
    link.copy(here)
    delete_topic(link.source.bootstrap, topic_name)
    create_topic(link.source.bootstrap, topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 5))
    commit(link.source, topic_name, {here: 5})
    assert [one.why for one in link.sync().decisions] == [Why.UNKNOWN]
    assert committed(link.target, topic_name) == {}


def test_a_source_that_is_away_is_an_error_and_changes_nothing(
    make: Make, topic_name: str, tmp_path: Path
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 3))
    link.copy(here)
    commit(link.source, topic_name, {here: 1})
    link.sync()
    before = link.state()
    file = tmp_path / "heliograph.yaml"
    file.write_text(file.read_text().replace(link.source.bootstrap, "127.0.0.1:1"))
    with closing(GroupSync(link.setup)) as sync, pytest.raises(ClusterError):
        sync.run(within(1.5))
    assert link.state() == before


def test_another_cluster_in_the_place_of_the_source_is_refused(
    make: Make, topic_name: str, tmp_path: Path
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 3))
    link.copy(here)
    commit(link.target, topic_name, {here: 1})
    file = tmp_path / "heliograph.yaml"
    file.write_text(file.read_text().replace(link.source.bootstrap, link.target.bootstrap))
    with pytest.raises(LedgerUnfit, match="another cluster"):
        link.sync()
    assert link.state() == {}
