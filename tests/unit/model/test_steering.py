from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from heliograph.model.balance import assign
from heliograph.model.control import (
    PLAN,
    Plan,
    Wanted,
    batches_of,
    plan_rows,
    read_leases,
    read_receipts,
    receipt_rows,
    row,
)
from heliograph.model.leases import HandOver, Lease, Part, PartReceipt, Receipt
from heliograph.model.steering import Conditions, Course, active_parts
from heliograph.model.topics import Partition

A, B, C = (Partition("t", number) for number in range(3))
ALIKE = {A: A, B: B, C: C}
CONDITIONS = Conditions(tasks=2, most_s=600.0, expiration_ms=86_400_000)
DAY_MS = 24 * 3600 * 1000
HANDED = HandOver("id", 1, 2, 3, 4, 5, claimed_ms=1000, newest_ms=0, rows={})


def plan(
    course: Course, wanted: dict[Partition, Partition], now_ms: int = 0
) -> tuple[Plan, list[Lease]]:
    """Seat tasks unless some wait already, and deal leases out to them."""
    if course.seats is None:
        course.seat(course.lane, CONDITIONS.tasks, 600.0)
    return course.plan(wanted, CONDITIONS, {}, now_ms)


def receipts(leases: list[Lease], handed: HandOver | None = HANDED) -> list[Receipt]:
    return [
        Receipt(
            one.generation,
            one.number,
            one.index,
            0,
            1.0,
            tuple(PartReceipt(part.source, 5, 5, 50, handed=handed) for part in one.parts),
        )
        for one in leases
    ]


def test_every_partition_is_in_one_lease() -> None:
    _, leases = plan(Course("link", 1), ALIKE)
    assert sorted(part.source for lease in leases for part in lease.parts) == [A, B, C]
    assert [lease.index for lease in leases] == [0, 1]


def test_what_was_handed_over_goes_into_the_next_plan_and_into_no_other() -> None:
    course = Course("link", 1)
    _, leases = plan(course, ALIKE)
    course.close(receipts(leases))
    _, leases = plan(course, ALIKE, 2000)
    assert all(part.handed == HANDED for lease in leases for part in lease.parts)
    course.close([])  # their receipts are lost
    _, leases = plan(course, ALIKE, 2000)
    assert all(part.handed is None for lease in leases for part in lease.parts)


def test_a_partition_left_out_of_a_plan_loses_what_was_handed_over() -> None:
    course = Course("link", 1)
    _, leases = plan(course, ALIKE)
    course.close(receipts(leases))
    _, leases = plan(course, {A: A}, 2000)
    course.close(receipts(leases))
    _, leases = plan(course, ALIKE, 2000)
    claimed = {part.source for lease in leases for part in lease.parts if part.handed is None}
    assert claimed == {B, C}


def test_a_claim_is_renewed_daily() -> None:
    course = Course("link", 1)
    _, leases = plan(course, ALIKE)
    course.close(receipts(leases))
    _, leases = plan(course, ALIKE, 1000 + DAY_MS)
    assert all(part.handed is None for lease in leases for part in lease.parts)


def test_a_lost_query_voids_every_hand_over() -> None:
    course = Course("link", 1)
    _, leases = plan(course, ALIKE)
    course.close(receipts(leases))
    course.lose(lane=0)
    _, leases = plan(course, ALIKE, 2000)
    assert all(part.handed is None for lease in leases for part in lease.parts)


def test_seats_give_the_next_plan_its_number_and_lane_and_bound_its_leases() -> None:
    course = Course("link", 1)
    first, _ = plan(course, ALIKE)
    seats = course.seat(1, 1, 600.0)
    assert (seats.number, seats.lane) == (first.number + 1, 1)
    course.close([])
    second, leases = plan(course, ALIKE)
    assert (second.number, course.lane, course.seats) == (seats.number, 1, None)
    assert [len(lease.parts) for lease in leases] == [3]


def test_a_lost_query_takes_its_own_seats_and_plan_with_it() -> None:
    course = Course("link", 1)
    running, _ = plan(course, ALIKE)
    course.seat(1, 2, 600.0)
    course.lose(lane=1)
    assert (course.running, course.seats) == (running, None)
    seats = course.seat(1, 2, 600.0)
    assert seats.number == running.number + 2, "a number is given away once"
    course.lose(lane=0)
    assert (course.running, course.seats) == (None, seats)


def test_a_paused_link_or_topic_has_nothing_to_copy() -> None:
    other = Partition("u", 0)
    parts = {A: A, other: other}
    assert active_parts(parts, Wanted()) == parts
    assert active_parts(parts, Wanted("paused")) == {}
    assert active_parts(parts, Wanted(paused=("t",))) == {other: other}
    assert active_parts(parts, Wanted(paused=("t.*", "u|v"))) == {}


def test_rows_of_a_smaller_plan_remove_the_leases_of_the_larger_before_it() -> None:
    course = Course("link", 1)
    first, leases = plan(course, ALIKE)
    before = {key: value for key, value in plan_rows(first, leases, {}).items() if value}
    assert read_leases(before, first) == leases
    course.close([])
    second, leases = plan(course, {A: A})
    changes = plan_rows(second, leases, before)
    now = {key: value for key, value in {**before, **changes}.items() if value is not None}
    assert read_leases(now, second) == leases
    assert b"lease/1" not in now


def wide_lease(partitions: int) -> Lease:
    """Return a lease that hands over the newest segments of many ledgers, each of them full."""
    segment = f"[{','.join(['[1234567890,1234567890,12]'] * 256)}]"
    handed = replace(HANDED, rows={"t/0": '{"head":0}', "t/0/7": segment})
    parts = [
        Part(one, one, handed=handed) for one in (Partition("t", n) for n in range(partitions))
    ]
    return Lease("link", 1, 5, 0, 60.0, 1, tuple(parts))


def test_a_lease_of_thousands_of_partitions_is_put_in_pieces_and_never_read_in_part() -> None:
    """A broker takes 16 MB at most in a batch."""
    lease, plan = wide_lease(3000), Plan(1, 5, 1)
    batches = list(batches_of(plan_rows(plan, [lease], {})))
    sizes = [sum(len(value or b"") for value in one.values()) for one in batches]
    assert sum(sizes) > 16 << 20 and max(sizes) < 8 << 20
    assert list(batches[-1])[-1] == PLAN, "the plan names what was put before it"
    rows = {key: value for one in batches for key, value in one.items() if value is not None}
    assert read_leases(rows, plan) == [lease]
    for key in rows.keys() - {PLAN}:
        left = {one: value for one, value in rows.items() if one != key}
        assert read_leases(left, plan) == []
    # Rows of the plan before it, which had as many, are no part of this one.
    older = plan_rows(Plan(1, 4, 1), [replace(lease, number=4)], {})
    last = max(rows.keys() - {PLAN})
    assert read_leases(rows | {last: older[last] or b""}, plan) == []
    gone = plan_rows(Plan(1, 6, 0), [], rows)
    assert all(gone[key] is None for key in rows.keys() - {PLAN})


def test_a_receipt_of_thousands_of_partitions_counts_once_all_of_it_is_there() -> None:
    (receipt,) = receipts([wide_lease(3000)], wide_lease(1).parts[0].handed)
    rows = {key: value or b"" for key, value in receipt_rows(receipt).items()}
    assert len(rows) > 16 and max(map(len, rows.values())) < 2 << 20
    plan = Plan(1, 5, 1)
    assert read_receipts(rows, plan) == {0: receipt}
    first = b"receipt/0"
    assert not read_receipts({first: rows[first]}, plan)
    again = receipt_rows(replace(receipt, attempt=1))
    assert not read_receipts(rows | {first: again[first] or b""}, plan), "of two attempts"


def test_receipts_of_another_plan_do_not_count() -> None:
    plan = Plan(generation=2, number=5, leases=2)
    rows = {
        b"receipt/0": row(Receipt(2, 5, 0, 0, 1.0, ())),
        b"receipt/1": row(Receipt(2, 4, 1, 0, 1.0, ())),
    }
    assert list(read_receipts(rows, plan)) == [0]
    assert not read_receipts({b"receipt/0": row(Receipt(1, 5, 0, 0, 1.0, ()))}, plan)


loads = st.dictionaries(st.builds(Partition, st.just("t"), st.integers(0, 40)), st.floats(0, 1e8))


@given(loads.filter(bool), st.integers(1, 6))
def test_leases_are_even_as_far_as_whole_partitions_allow(
    rates: dict[Partition, float], leases: int
) -> None:
    places = assign(rates.keys(), leases, rates, {})
    totals = [sum(rates[p] for p, n in places.items() if n == lease) for lease in range(leases)]
    assert set(places) == set(rates)
    largest, mean = max(rates.values()), sum(rates.values()) / leases
    assert max(totals) - min(totals) <= max(largest, mean * 0.25) + 2_000 * len(rates)


@given(loads.filter(bool), st.integers(1, 6))
def test_nothing_moves_while_rates_stay_the_same(
    rates: dict[Partition, float], leases: int
) -> None:
    places = assign(rates.keys(), leases, rates, {})
    assert assign(rates.keys(), leases, rates, places) == places


def test_a_partition_that_became_busy_makes_room() -> None:
    many = [Partition("t", number) for number in range(4)]
    places = assign(many, 2, {}, {})
    busy = {many[0]: 9e6, many[1]: 1.0, many[2]: 1e6, many[3]: 1e6}
    after = assign(many, 2, busy, places)
    neighbours = [p for p in many[1:] if after[p] == after[many[0]]]
    assert all(busy[p] < 1e6 for p in neighbours)


def test_a_receipt_of_another_version_is_as_good_as_none() -> None:
    assert not read_receipts({b"receipt/0": b'{"nonsense": 1}'}, Plan(1, 1, leases=1))
