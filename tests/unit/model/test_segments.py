"""Rows of runs, of this version and of older ones, against plain lists of runs."""

import json
import random
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import LedgerUnreadable
from heliograph.model.ledger import Ledger, Origin, ids_in, origin_in, read_ledger
from heliograph.model.runs import Reason, Run, Runs, Translation
from heliograph.model.segments import decode_runs, encode_runs
from heliograph.model.topics import Partition

HERE = Partition("orders", 3)
ORIGIN = Origin("source-id", "topic-id", "target-id", "mirror-id")
HEAD = b"orders/3"

# Source gap, target gap, length, where no two runs touch. Most are transactions.
STEP = st.one_of(
    st.tuples(st.just(1), st.just(0), st.integers(1, 4)),
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)).filter(
        lambda one: any(one[:2])
    ),
)
STEPS = st.lists(STEP, max_size=40)


def runs_of(steps: list[tuple[int, int, int]]) -> list[Run]:
    runs, source, target = list[Run](), 0, 0
    for source_gap, target_gap, length in steps:
        run = Run(source + source_gap, target + target_gap, length)
        runs.append(run)
        source, target = run.source_end, run.target_end
    return runs


def old_row(runs: list[Run]) -> bytes:
    """A row as versions wrote it that knew format 2 only."""
    return json.dumps([[run.source_start, run.target_start, run.length] for run in runs]).encode()


def new_row(runs: list[Run]) -> bytes:
    return encode_runs(Runs(runs))


def rows_of(segments: list[bytes], runs: list[Run], first: int = 0) -> dict[bytes, bytes]:
    """The rows of a ledger whose segments hold these runs."""
    last = runs[-1] if runs else Run(0, 0, 1)
    ledger = Ledger(HERE, ORIGIN, last.source_end, last.target_end)
    head = json.loads(ledger.take_changes()[HEAD] or b"")
    head |= {"format": 2, "segments": [first, first + len(segments)]}
    head["records"] = sum(run.length for run in runs)
    rows = {b"%s/%d" % (HEAD, first + number): row for number, row in enumerate(segments)}
    return rows | {HEAD: json.dumps(head).encode()}


@st.composite
def kept_ledgers(draw: st.DrawFn) -> tuple[dict[bytes, bytes], list[Run]]:
    """Rows of old and new segments of any size, and the runs that they hold."""
    runs = runs_of(draw(STEPS))
    segments, left = list[bytes](), list(runs)
    while left:
        size = draw(st.integers(1, len(left)))
        segments.append(draw(st.sampled_from([old_row, new_row]))(left[:size]))
        left = left[size:]
    return rows_of(segments, runs, draw(st.integers(0, 3))), runs


def read(rows: dict[bytes, bytes]) -> Ledger:
    ledger = read_ledger(HERE, rows)
    assert ledger is not None
    return ledger


def put(rows: dict[bytes, bytes], ledger: Ledger) -> None:
    for key, value in ledger.take_changes().items():
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


def translated(pairs: list[tuple[int, int]], at: int) -> Translation:
    """The image of an offset, by a plain walk over all pairs."""
    if not pairs:
        return Translation(0, Reason.END)
    later = [pair for pair in pairs if pair[0] >= at]
    if not later:
        return Translation(pairs[-1][1] + 1, Reason.END)
    if later[0][0] == at:
        return Translation(later[0][1], Reason.EXACT)
    return Translation(later[0][1], Reason.NEXT if len(later) < len(pairs) else Reason.START)


def pairs_of(runs: list[Run]) -> list[tuple[int, int]]:
    return [
        (run.source_start + step, run.target_start + step)
        for run in runs
        for step in range(run.length)
    ]


@given(STEPS)
def test_a_row_holds_the_runs_that_were_written(steps: list[tuple[int, int, int]]) -> None:
    runs = runs_of(steps)
    assert list(decode_runs(new_row(runs))) == list(decode_runs(old_row(runs))) == runs


def test_transactions_are_a_list_of_their_lengths() -> None:
    runs = runs_of([(7, 5, 2), (1, 0, 3), (1, 0, 100), (9, 0, 1), (0, 2, 4), (1, 0, 1)])
    assert json.loads(new_row(runs)) == {
        "source": 7,
        "target": 5,
        "runs": [[0, 0, 2], 3, 100, [9, 0, 1], [0, 2, 4], 1],
    }


@given(kept_ledgers())
def test_old_and_new_rows_are_one_ledger(kept: tuple[dict[bytes, bytes], list[Run]]) -> None:
    rows, runs = kept
    found = read(rows).runs
    assert list(found) == runs and len(found) == len(runs)
    assert list(reversed(found)) == runs[::-1]
    assert found.last == (runs[-1] if runs else None)
    pairs = pairs_of(runs)
    back = [(target, source) for source, target in pairs]
    for at in range(max(map(max, pairs), default=0) + 3):
        assert found.translate(at) == translated(pairs, at)
        assert found.translate_back(at) == translated(back, at)


@given(kept_ledgers(), STEPS)
def test_an_older_ledger_grows_in_new_rows(
    kept: tuple[dict[bytes, bytes], list[Run]], more: list[tuple[int, int, int]]
) -> None:
    rows, runs = kept
    ledger, before = read(rows), dict(rows)
    handed = read_ledger(HERE, ledger.growing_rows(), is_whole=False)
    assert handed is not None
    for source_gap, target_gap, length in more:
        for one in (ledger, handed):
            run = Run(one.source_next + source_gap, one.target_next + target_gap, length)
            one.add(run)
        runs.append(run)
    changes = handed.take_changes()
    assert ledger.take_changes() == changes
    rows |= {key: value for key, value in changes.items() if value is not None}
    assert json.loads(rows[HEAD])["format"] == 3, "an older version says what is the matter"
    newest = max((int(key.rpartition(b"/")[2]) for key in before.keys() - {HEAD}), default=0)
    assert changes.keys() <= {HEAD, b"%s/%d" % (HEAD, newest)}, "only the newest segment grows"
    assert list(read(rows).runs) == runs


@given(kept_ledgers(), st.integers(0, 200))
def test_what_retention_took_goes_by_whole_segments(
    kept: tuple[dict[bytes, bytes], list[Run]], target_offset: int
) -> None:
    rows, runs = kept
    ledger, needed = read(rows), [run for run in runs if run.target_end > target_offset]
    ledger.drop_before(target_offset)
    put(rows, ledger)
    left = list(read(rows).runs)
    assert left == runs[len(runs) - len(left) :] and needed == left[len(left) - len(needed) :]
    gone = len(runs) - len(left)
    assert all(run.target_end <= target_offset for run in runs[:gone])


@given(kept_ledgers(), st.integers(0, 200))
def test_a_ledger_of_any_rows_goes_back(
    kept: tuple[dict[bytes, bytes], list[Run]], target_offset: int
) -> None:
    rows, runs = kept
    ledger = read(rows)
    pairs = [pair for pair in pairs_of(runs) if pair[1] < target_offset]
    assert ledger.first_copy(target_offset) == next(iter(pairs_of(runs)[len(pairs) :]), None)
    loss = ledger.go_back(target_offset, at_ms=7)
    assert (loss.records if loss else 0) == len(pairs_of(runs)) - len(pairs)
    ledger.add(Run(ledger.source_next + 1, ledger.target_next, 2))
    pairs += [(ledger.source_next - 2, ledger.target_next - 2)]
    pairs += [(ledger.source_next - 1, ledger.target_next - 1)]
    assert pairs_of(list(ledger.runs)) == pairs
    put(rows, ledger)
    assert pairs_of(list(read(rows).runs)) == pairs


NUMBERS = st.one_of(
    st.integers(-3, 40), st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=3)
)
ITEMS = st.lists(st.one_of(NUMBERS, st.lists(NUMBERS, max_size=4)), max_size=5)
NONSENSE = st.one_of(
    st.recursive(NUMBERS, lambda one: st.lists(one) | st.dictionaries(st.text(max_size=6), one)),
    ITEMS,
    st.fixed_dictionaries({"source": NUMBERS, "target": NUMBERS, "runs": ITEMS}),
    st.fixed_dictionaries({"source": st.just(0), "target": st.just(0), "runs": ITEMS}),
).map(lambda one: json.dumps(one).encode())


@given(st.lists(st.one_of(NONSENSE, NONSENSE, st.binary(max_size=20)), max_size=3), STEPS)
def test_rows_of_any_content_are_read_or_refused(
    segments: list[bytes], steps: list[tuple[int, int, int]]
) -> None:
    rows = rows_of([*segments, new_row([])], runs_of([*steps, (99, 99, 1)]))
    try:
        ledger = read(rows)
    except LedgerUnreadable:
        return
    runs = list(ledger.runs)
    assert all(one.length > 0 for one in runs)
    for before, after in pairwise(runs):
        assert after.source_start >= before.source_end and after.target_start >= before.target_end
    for run in runs:
        assert ledger.runs.translate(run.source_start) == (run.target_start, Reason.EXACT)


@pytest.mark.parametrize(
    "row",
    [
        b'{"source":0,"target":0,"runs":[[0,0,3],0]}',
        b'{"source":0,"target":0,"runs":[[0,0,3],-2]}',
        b'{"source":0,"target":0,"runs":[[0,0,3],[-1,0,2]]}',
        b'{"source":0,"target":0,"runs":[[0,0,3],[0,-1,2]]}',
        b'{"source":0,"target":0,"runs":[[0,0,3],[2,2]]}',
        b'{"source":0,"target":0,"runs":[[0,0,2.5]]}',
        b'{"source":0,"target":0,"runs":[[0,0,NaN]]}',
        b'{"source":-1,"target":0,"runs":[[0,0,3]]}',
        b'{"source":0,"target":0,"runs":[[0,0,18]]}',
        b'{"source":9223372036854775807,"target":0,"runs":[[1,0,3]]}',
        b'{"source":0,"runs":[[0,0,3]]}',
        b"[[0,0,2.5]]",
        b"[[0,0,3],2]",
        b"[" * 100_000,
    ],
)
def test_a_row_that_makes_no_sense_is_refused(row: bytes) -> None:
    with pytest.raises(LedgerUnreadable, match="orders-3"):
        read(rows_of([row], [Run(0, 0, 10)]))


@pytest.mark.parametrize("head", [b'{"producer_ids":[Infinity]}', b"[" * 100_000, b"7"])
def test_a_head_that_makes_no_sense_is_refused(head: bytes) -> None:
    with pytest.raises(LedgerUnreadable):
        read_ledger(HERE, {HEAD: head})
    with pytest.raises(LedgerUnreadable):
        ids_in(HEAD, head)
    assert origin_in(HERE, {HEAD: head}) is None


def test_segments_out_of_order_are_refused() -> None:
    first, second = [Run(0, 0, 3)], [Run(5, 3, 3)]
    for rows in ([second, first], [first, first], [first, [Run(5, 2, 4)]]):
        with pytest.raises(LedgerUnreadable, match="out of order"):
            read(rows_of([new_row(rows[0]), old_row(rows[1])], [Run(0, 0, 20)]))


def transactions(count: int) -> Ledger:
    """A ledger of transactions of very different sizes."""
    draw, ledger = random.Random(7), Ledger(HERE, ORIGIN, 6_000_000_000, 6_000_000_000)
    for _ in range(count):
        length = min(1 + int(draw.lognormvariate(2.5, 1.2)), 5000)
        ledger.add(Run(ledger.source_next + 1, ledger.target_next, length))
    return ledger


def test_a_transaction_takes_three_bytes_of_the_topic() -> None:
    rows = transactions(10_000).take_changes()
    size = sum(len(value or b"") for key, value in rows.items() if key != HEAD)
    assert size < 3.2 * 10_000


def test_a_transaction_takes_as_little_memory() -> None:
    tracemalloc.start()
    try:
        ledger = transactions(50_000)
        rows = {key: value for key, value in ledger.take_changes().items() if value is not None}
        written = tracemalloc.get_traced_memory()[0]
        again = read(rows)
        beside_rows = tracemalloc.get_traced_memory()[0] - written
    finally:
        tracemalloc.stop()
    assert len(again.runs) == 50_000
    assert written < 6 * 50_000 and beside_rows < 2 * 50_000, (written, beside_rows)
