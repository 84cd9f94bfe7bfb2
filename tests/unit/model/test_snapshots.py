"""Snapshots of groups, and the changes that people ask for."""

from heliograph.model.group_changes import (
    Change,
    active_groups,
    reset_changes,
    rollback_changes,
)
from heliograph.model.groups import Committed, GroupListing
from heliograph.model.moments import stamp
from heliograph.model.snapshots import (
    Held,
    Mirror,
    Snapshot,
    expired_rows,
    name_ms,
    read_saved,
    read_snapshots,
    snapshot_rows,
)
from heliograph.model.topics import Partition

ORDERS, OTHERS = Partition("orders", 0), Partition("others", 1)
MIRRORS = {"orders": Mirror("id of orders", 1), "others": Mirror("id of others", 2)}
THEN = {"a": {ORDERS: Committed(3, None, "meta")}, "b": {}}


def rows(*times_ms: int) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for at_ms in times_ms:
        taken = Snapshot(stamp(at_ms), at_ms, "me", "reset", len(THEN))
        found |= {key: value for key, value in snapshot_rows(taken, THEN, MIRRORS).items() if value}
    return found


def test_a_snapshot_reads_back_and_the_newest_is_first() -> None:
    there = rows(1_000, 2_000)
    newest, oldest = read_snapshots(there)
    assert (newest.at_ms, oldest.at_ms) == (2_000, 1_000)
    assert read_saved(there, newest) == Held(THEN, MIRRORS)


def test_a_snapshot_counts_once_it_is_whole() -> None:
    there = rows(1_000)
    head = [key for key in there if key.count(b"/") == 1]
    assert list(there)[-1:] == head, "what says that it is there is put last"
    del there[head[0]]
    assert read_snapshots(there) == []
    assert expired_rows(there).keys() == there.keys(), "halves are cleared away"


def test_a_snapshot_that_lost_a_row_is_not_gone_back_to() -> None:
    whole = rows(1_000)
    (taken,) = read_snapshots(whole)
    for lost in whole.keys() - {b"snapshot/" + taken.id.encode()}:
        there = {key: value for key, value in whole.items() if key != lost}
        assert read_saved(there, taken) is None, lost


def test_many_mirrors_are_spread_over_rows() -> None:
    mirrors = {f"topic-{number}": Mirror("id", number) for number in range(450)}
    wanted = snapshot_rows(Snapshot("x", 1, "me", "reset", 0), {}, mirrors)
    there = {key: value for key, value in wanted.items() if value}
    (taken,) = read_snapshots(there)
    assert taken.mirror_rows == 3 and read_saved(there, taken) == Held({}, mirrors)
    assert expired_rows(there, 0).keys() == there.keys()


def test_old_snapshots_go() -> None:
    there = rows(*range(1_000, 6_000, 1_000))
    left = there.keys() - expired_rows(there, 2).keys()
    assert [one.at_ms for one in read_snapshots({key: there[key] for key in left})] == [5000, 4000]


def test_a_snapshot_is_named_after_the_newest_whatever_the_clock_says() -> None:
    assert name_ms({}, 500) == 500
    assert name_ms(rows(1_000, 2_000), 500) == 2_001
    assert name_ms(rows(1_000, 2_000), 2_000) == 2_001
    assert name_ms(rows(1_000, 2_000), 3_000) == 3_000


def test_a_rollback_sets_what_was_and_deletes_what_was_not() -> None:
    now = {"a": {ORDERS: Committed(9), OTHERS: Committed(1)}, "b": {ORDERS: Committed(2)}}
    assert rollback_changes(now, THEN) == [
        Change("a", ORDERS, 9, Committed(3, None, "meta")),
        Change("a", OTHERS, 1, None),
        Change("b", ORDERS, 2, None),
    ]
    assert rollback_changes(THEN, THEN) == []


def test_a_rollback_leaves_groups_alone_that_the_snapshot_does_not_hold() -> None:
    assert rollback_changes({"c": {ORDERS: Committed(2)}, "b": {}}, {"b": {}}) == []


def test_a_snapshot_says_which_groups_it_does_not_hold() -> None:
    taken = Snapshot("id", 1, "me", "reset", 0).without(f"group-{one:02}" for one in range(12))
    rows = {key: value for key, value in snapshot_rows(taken, {}, {}).items() if value}
    (found,) = read_snapshots(rows)
    assert found.unread == 12 and found.lacks.startswith("12 groups could not be read, and are")
    assert found.lacks.endswith("group-08, group-09 and 2 more")


def test_a_snapshot_of_an_earlier_version_is_read() -> None:
    head = b'{"id":"x","at_ms":1,"by":"me","why":"reset","groups":1}'
    at = b'{"offset":3,"leader_epoch":null,"metadata":"meta"}'
    group = b'{"group":"a","offsets":{"orders/0":' + at + b"}}"
    rows = {b"snapshot/x": head, b"snapshot/x/0": group}
    (taken,) = read_snapshots(rows)
    assert taken == Snapshot("x", 1, "me", "reset", 1) and not taken.lacks
    held = read_saved(rows, taken)
    assert held == Held({"a": THEN["a"]}) and held.is_about(ORDERS, {})


def test_a_reset_leaves_out_what_is_there_already() -> None:
    now = {"a": {ORDERS: Committed(5), OTHERS: Committed(0)}}
    wanted = {ORDERS: 0, OTHERS: 0}
    assert reset_changes(["a", "b"], now, wanted) == [
        Change("a", ORDERS, 5, Committed(0)),
        Change("b", ORDERS, None, Committed(0)),
        Change("b", OTHERS, None, Committed(0)),
    ]


def test_groups_with_members_are_found() -> None:
    listed = {"a": GroupListing("a", "Stable"), "b": GroupListing("b", "Empty")}
    changes = [Change(group, ORDERS, None, Committed(0)) for group in ("a", "b", "c")]
    assert active_groups(changes, listed) == ["a"]
