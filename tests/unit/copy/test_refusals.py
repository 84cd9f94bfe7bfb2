"""Refused batches: what is sent instead, and what is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copy.queue import Prepared
from heliograph.copy.refusals import cut, is_about_records, is_about_size, judge
from heliograph.errors import RecordsRefused
from heliograph.kafka.batch import read_header
from heliograph.kafka.compress import Codec
from heliograph.kafka.records import Record, decode, encode

TOO_LARGE, BAD_TIME, BAD_RECORD, CORRUPT = 10, 32, 87, 2


def refusal(code: int, *indexes: int) -> RecordsRefused:
    return RecordsRefused("no", cluster="c", kafka_code=code, indexes=indexes)


def prepared(count: int, codec: Codec = Codec.NONE) -> Prepared:
    """A joined batch: every third source offset has no record."""
    sources = [n + n // 2 for n in range(100, 100 + count)]
    rows = [Record(-1, n, None, b"%d" % n + bytes(40)) for n in sources]
    batch = encode(rows, codec=codec)
    stretches = tuple((n, 1) for n in sources)
    return Prepared(batch, stretches, count, sources[-1], 3, len(batch), follows=90)


def offsets(one: Prepared) -> list[int]:
    return [start + n for start, length in one.stretches for n in range(length)]


def values(one: Prepared) -> list[bytes]:
    return [(record.value or b"").rstrip(b"\0") for record in decode(one.batch)]


@given(st.integers(2, 40), st.sampled_from(Codec), st.data())
def test_what_is_sent_again_and_what_is_left_out_is_everything(
    count: int, codec: Codec, data: st.DataObject
) -> None:
    whole = prepared(count, codec)
    bad = data.draw(st.sets(st.integers(0, count - 1)))
    verdict = judge(whole, refusal(BAD_RECORD, *bad))
    left_out = [one.source_offset for one in verdict.refused]
    again = [offset for one in verdict.again for offset in offsets(one)]
    assert left_out == [offsets(whole)[place] for place in sorted(bad)]
    assert sorted(left_out + again) == offsets(whole) and again == sorted(again)
    for one in verdict.again:
        assert values(one) == [b"%d" % offset for offset in offsets(one)]
        assert one.count == len(offsets(one)) and one.source_epoch == 3
        place = offsets(whole).index(offsets(one)[0])
        assert one.follows == (offsets(whole)[place - 1] + 1 if place else 90)
        spans = range(offsets(one)[0], offsets(one)[-1])
        assert not any(offset in spans for offset in left_out), "reaches over a bad record"


@given(st.integers(2, 40), st.integers(0, 100), st.integers(100, 2000))
def test_a_batch_is_cut_as_it_was_fetched_where_it_is_known_to_be_too_large(
    count: int, base: int, most_bytes: int
) -> None:
    """Unlike one that was sent, it bears the source's offset."""
    batch = encode([Record(-1, 5, None, b"%d" % n + bytes(40)) for n in range(base, base + count)])
    batch[:8] = base.to_bytes(8, "big")
    whole = Prepared(batch, ((base, count),), count, 5, 3, len(batch), follows=0)
    pieces = cut(whole, most_bytes)
    assert [offset for one in pieces for offset in offsets(one)] == offsets(whole)
    assert [one.follows for one in pieces] == [0, *(offsets(one)[-1] + 1 for one in pieces[:-1])]
    for one in pieces:
        assert values(one) == [b"%d" % offset for offset in offsets(one)]


@pytest.mark.parametrize("code", [TOO_LARGE, BAD_TIME, BAD_RECORD])
def test_without_a_name_for_the_bad_record_the_batch_is_cut_until_it_stands_alone(
    code: int,
) -> None:
    left, rounds = [prepared(16)], 0
    while any(one.count > 1 for one in left):
        left = [
            piece
            for one in left
            for piece in (judge(one, refusal(code)).again if one.count > 1 else [one])
        ]
        rounds += 1
    assert rounds <= 6
    assert [offset for one in left for offset in offsets(one)] == offsets(prepared(16))


def test_a_single_record_is_left_out_with_its_bytes_and_its_place() -> None:
    (alone,) = judge(prepared(1), refusal(TOO_LARGE)).refused
    assert alone.name == "MESSAGE_TOO_LARGE" and alone.source_offset == 150
    header = read_header(alone.record)
    assert (header.base_offset, header.count, header.producer_id) == (150, 1, -1)
    (record,) = decode(alone.record)
    assert record == Record(150, 150, None, b"150" + bytes(40))


def test_only_what_is_wrong_with_records_is_about_records() -> None:
    assert all(is_about_records(refusal(code)) for code in (TOO_LARGE, BAD_TIME, BAD_RECORD))
    assert not is_about_records(refusal(CORRUPT))
    assert is_about_size(refusal(TOO_LARGE)) and not is_about_size(refusal(BAD_RECORD))
