"""Match on real batches: joined, split and rebuilt ones too."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copy.match import Compacted, match, match_behind, match_compacted
from heliograph.errors import Diverged
from heliograph.kafka.batch import read_header
from heliograph.kafka.compress import Codec
from heliograph.kafka.dense import Slice
from heliograph.kafka.rebuild import join, split
from heliograph.kafka.records import Record, encode, slices_of
from heliograph.model.runs import Run
from heliograph.model.topics import Partition

HERE = Partition("orders", 0)

RECORDS = st.lists(
    st.builds(
        Record,
        st.just(-1),
        st.sampled_from([-1, 0, 1_700_000_000_000, 1_700_000_000_005]),
        st.sampled_from([None, b"", b"k"]),
        st.sampled_from([None, b"", b"v", b"w" * 50]),  # few values: many records are alike
    ),
    min_size=1,
    max_size=12,
)


def at(batch: bytearray, base_offset: int) -> bytearray:
    """Return the batch as a log at that offset holds it; no checksum covers the offset."""
    moved = bytearray(batch)
    moved[:8] = base_offset.to_bytes(8, "big")
    return moved


def slices(batch: bytearray) -> Iterator[Slice]:
    return slices_of(read_header(batch), batch)


@given(RECORDS, st.sampled_from(list(Codec)), st.integers(0, 100), st.integers(0, 100))
def test_a_batch_matches_its_copy(
    records: list[Record], codec: Codec, source_base: int, target_base: int
) -> None:
    batch = encode(records, codec=codec)
    source, tail = slices(at(batch, source_base)), slices(at(batch, target_base))
    assert list(match(HERE, tail, source)) == [Run(source_base, target_base, len(records))]


@given(st.lists(RECORDS, min_size=2, max_size=5), st.integers(1, 200))
def test_joined_and_split_batches_match_record_by_record(
    groups: list[list[Record]], most_bytes: int
) -> None:
    batches, offset = [], 0
    for group in groups:
        batches.append(at(encode(group), offset))
        offset += len(group) + 1  # a marker between two batches
    joined = join([(read_header(batch), memoryview(batch)) for batch in batches])
    assert joined is not None
    tail: list[Slice] = []
    for piece in split(joined.batch, most_bytes):
        tail += slices(at(piece.batch, len(tail)))
    source = (one for batch in batches for one in slices(batch))
    runs = match(HERE, tail, source)
    assert [(run.source_start, run.length) for run in runs] == list(joined.source_offsets)


def test_a_tail_shorter_than_the_source_leaves_the_rest_to_copy() -> None:
    records = [Record(-1, 5, None, b"%d" % n) for n in range(10)]
    source = slices(encode(records))
    assert list(match(HERE, slices(at(encode(records[:4]), 7)), source)) == [Run(0, 7, 4)]
    assert next(source)[1] == 4


def test_no_tail_is_no_run() -> None:
    assert len(match(HERE, [], slices(encode([Record(-1, 5, None, b"x")])))) == 0


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (Record(-1, 5, None, b"y"), "content"),
        (Record(-1, 5, b"", b"x"), "content"),  # null is not empty
        (Record(-1, 6, None, b"x"), "timestamp"),
        (Record(-1, 5, None, b"x", ((b"h", None),)), "content"),
    ],
)
def test_a_record_that_differs_names_both_offsets(other: Record, what: str) -> None:
    first, second = Record(-1, 5, None, b"first"), Record(-1, 5, None, b"x")
    source = slices(at(encode([first, second]), 100))
    tail = slices(at(encode([first, other]), 40))
    with pytest.raises(Diverged, match=what) as caught:
        match(HERE, tail, source)
    assert (caught.value.source_offset, caught.value.target_offset) == (101, 41)


def test_a_mirror_record_without_a_source_is_divergence() -> None:
    records = [Record(-1, 5, None, b"%d" % n) for n in range(3)]
    with pytest.raises(Diverged, match="does not have") as caught:
        match(HERE, slices(encode(records)), slices(encode(records[:2])))
    assert caught.value.target_offset == 2


def numbered(start: int, end: int, base: int) -> list[Slice]:
    """Slices of records that say their numbers, the first at ``base``."""
    records = [Record(-1, 5, None, b"%d" % n) for n in range(start, end)]
    return list(slices(at(encode(records), base))) if records else []


@pytest.mark.parametrize("gone", [0, 1, 7])
def test_records_that_the_mirrors_retention_took_have_no_partner(gone: int) -> None:
    source, tail = numbered(0, 20, base=100), numbered(gone, 12, base=50 + gone)
    runs = match_behind(HERE, tail, source, tail_lost=gone)
    assert list(runs) == [Run(100 + gone, 50 + gone, 12 - gone)]


def test_markers_among_what_the_mirrors_retention_took_do_not_count() -> None:
    source, tail = numbered(0, 20, base=100), numbered(3, 12, base=60)
    assert list(match_behind(HERE, tail, source, tail_lost=8)) == [Run(103, 60, 9)]


@pytest.mark.parametrize("gone", [0, 1, 7])
def test_records_that_the_source_has_lost_stand_on_the_mirror_alone(gone: int) -> None:
    source, tail = numbered(gone, 20, base=100 + gone), numbered(0, 12, base=50)
    runs = match_behind(HERE, tail, source, source_lost=gone)
    assert list(runs) == [Run(100 + gone, 50 + gone, 12 - gone)]


def test_a_tail_of_which_the_source_has_lost_everything_adds_no_run() -> None:
    source, tail = numbered(30, 40, base=130), numbered(0, 12, base=50)
    assert not match_behind(HERE, tail, source, source_lost=30)


def test_no_retention_explains_a_record_that_differs() -> None:
    source, tail = numbered(0, 20, base=100), [*numbered(0, 5, base=50), *numbered(9, 10, base=55)]
    for lost in ({"tail_lost": 3}, {"source_lost": 3}):
        with pytest.raises(Diverged) as caught:
            match_behind(HERE, tail, source, **lost)
        assert (caught.value.source_offset, caught.value.target_offset) == (105, 55)


KEYS = st.lists(st.sampled_from([b"a", b"b", b"c", None]), min_size=1, max_size=20)


def compacted(slices_: list[Slice], keys: list[bytes | None], choice: list[bool]) -> list[Slice]:
    """Take out some of the records that a later one of the same key supersedes."""
    last = {key: number for number, key in enumerate(keys)}
    return [
        one
        for number, (one, key) in enumerate(zip(slices_, keys, strict=True))
        if key is None or last[key] == number or not choice[number]
    ]


@given(KEYS, st.data())
def test_compaction_of_either_side_hides_no_pair(
    keys: list[bytes | None], data: st.DataObject
) -> None:
    records = [Record(-1, 5, key, b"%d" % number) for number, key in enumerate(keys)]
    choices = st.lists(st.booleans(), min_size=len(keys), max_size=len(keys))
    source = compacted(list(slices(at(encode(records), 100))), keys, data.draw(choices))
    tail = compacted(list(slices(at(encode(records), 40))), keys, data.draw(choices))
    logs = Compacted(range(100, 100 + len(keys)), range(40, 40 + len(keys)))
    runs = match_compacted(HERE, tail, source, logs)
    on_source, on_mirror = {one[1] - 100 for one in source}, {one[1] - 40 for one in tail}
    pairs = {
        (run.source_start + step - 100, run.target_start + step - 40)
        for run in runs
        for step in range(run.length)
    }
    assert pairs == {(number, number) for number in on_source & on_mirror}


def test_a_long_tail_of_few_keys_is_matched_although_compaction_took_most_of_the_source() -> None:
    count, keys = 32_000, 10
    records = [Record(-1, n, b"%d" % (n % keys), b"v") for n in range(count)]
    whole = list(slices(at(encode(records), 0)))
    began_s = time.process_time()
    logs = Compacted(range(count), range(count))
    runs = match_compacted(HERE, whole[count // 2 :], whole[-count // 10 :], logs)
    assert list(runs) == [Run(count - count // 10, count - count // 10, count // 10)]
    source = [*whole[: count // 2 : 7], *whole[-count // 10 :]]
    tail = [one for one in whole[: count // 2] if one[1] % 7] + whole[-count // 10 :]
    runs = match_compacted(HERE, tail, source, logs)
    assert list(runs) == [Run(count - count // 10, count - count // 10, count // 10)]
    assert time.process_time() - began_s < 10, "it took more than a hundred times as long"


def test_a_copy_that_a_later_record_of_others_replaced_is_not_missed() -> None:
    records = [Record(-1, 5, b"%d" % n, b"v") for n in range(5)]
    source = list(slices(at(encode(records), 0)))
    tail = [one for one in slices(at(encode(records), 0)) if one[1] != 2]
    logs = Compacted(None, range(5), frozenset({b"2"}))
    assert list(match_compacted(HERE, tail, source, logs)) == [Run(0, 0, 2), Run(3, 3, 2)]


def test_compaction_explains_no_record_that_never_arrived() -> None:
    """The mirror has room for it, but no later copy of its key."""
    records = [Record(-1, 5, b"%d" % n, b"v") for n in range(5)]
    source = list(slices(at(encode(records), 0)))
    tail = [one for one in slices(at(encode(records), 0)) if one[1] != 2]
    with pytest.raises(Diverged) as caught:
        match_compacted(HERE, tail, source, Compacted(range(5), range(5)))
    assert (caught.value.source_offset, caught.value.target_offset) == (2, 3)


def test_compaction_explains_no_copy_where_the_source_has_every_offset() -> None:
    """The source lost a record and wrote another one in its place: nothing was compacted."""
    records = [Record(-1, 5, b"k", b"%d" % n) for n in range(5)]
    tail = list(slices(at(encode(records), 0)))
    other = [*records[:4], Record(-1, 5, b"k", b"other")]
    with pytest.raises(Diverged):
        match_compacted(HERE, tail, list(slices(encode(other))), Compacted(range(5), None))
