"""How batches that wait become the next one to send."""

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from heliograph.copy.queue import Bounds, Prepared, Queue
from heliograph.kafka.batch import read_header, split_batches
from heliograph.kafka.compress import Codec
from heliograph.kafka.records import Record, decode, encode
from tests.doubles.old_messages import wrapped

ALL = range(1 << 62)
OLD_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
JOINED = Bounds(small_bytes=500, most_bytes=2000)


def at(base_offset: int, batch: bytearray) -> bytearray:
    batch[:8] = base_offset.to_bytes(8, "big")  # which no checksum covers
    return batch


def batch_at(base_offset: int, count: int = 1, size: int = 10, **fields: int) -> bytearray:
    rows = [
        Record(-1, fields.get("timestamp", 5), None, b"%d" % (base_offset + n) + bytes(size))
        for n in range(count)
    ]
    return at(base_offset, encode(rows, codec=Codec(fields.get("codec", 0))))


def queue_of(*batches: bytearray, wanted: range = ALL) -> Queue:
    queue = Queue(wanted)
    queue.put([(read_header(batch), memoryview(batch)) for batch in batches])
    return queue


def drain(queue: Queue, bounds: Bounds = JOINED) -> list[Prepared]:
    taken = []
    while (prepared := queue.take(bounds)) is not None:
        taken.append(prepared)
    return taken


def offsets(prepared: Prepared) -> list[int]:
    return [start + n for start, length in prepared.stretches for n in range(length)]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(1, 5), st.integers(0, 400), st.sampled_from(Codec)
        ),
        max_size=20,
    ),
    st.integers(0, 30),
    st.integers(0, 60),
)
def test_every_wanted_record_is_taken_once_and_in_order(
    shapes: list[tuple[int, int, int, Codec]], start: int, length: int
) -> None:
    wanted = range(start, start + length)
    batches, base = [], 0
    for hole, count, size, codec in shapes:
        batches.append(batch_at(base + hole, count, size, codec=codec))
        base += hole + count
    # A fetch brings nothing that ends before the wanted offset.
    kept = [b for b in batches if read_header(b).next_offset > start]
    expected = [r for b in kept for r in decode(b) if r.offset in wanted]
    queue = queue_of(*kept, wanted=wanted)
    taken = drain(queue)
    assert [n for one in taken for n in offsets(one)] == [r.offset for r in expected]
    found = [r for one in taken for r in decode(one.batch)]
    assert [r.value for r in found] == [r.value for r in expected]
    assert all(one.count == len(offsets(one)) for one in taken)
    ends = [start, *(offsets(one)[-1] + 1 for one in taken)]
    assert [one.follows for one in taken] == ends[:-1]
    assert queue.waiting_bytes == 0 and not queue


def test_small_batches_are_joined_up_to_the_bound() -> None:
    batches = [batch_at(n) for n in range(100)]
    size = len(batches[0])
    taken = drain(queue_of(*batches))
    assert [one.count for one in taken[:-1]] == [2000 // size] * (len(taken) - 1)
    assert sum(one.count for one in taken) == 100


def test_a_big_batch_goes_untouched_between_joined_ones() -> None:
    big = batch_at(2, count=3, size=300)
    first, middle, last = drain(queue_of(batch_at(0), batch_at(1), big, batch_at(5), batch_at(6)))
    assert (first.count, last.count) == (2, 2)
    assert middle.stretches == ((2, 3),) and bytes(middle.batch) == bytes(big)


def test_one_small_batch_alone_goes_untouched() -> None:
    batch = batch_at(7)
    (taken,) = drain(queue_of(batch))
    assert bytes(taken.batch) == bytes(batch) and taken.stretches == ((7, 1),)


def test_what_is_put_back_comes_first_and_as_it_was() -> None:
    queue = queue_of(*(batch_at(n, size=500) for n in range(4)))
    first, second = queue.take(JOINED), queue.take(JOINED)
    assert first is not None and second is not None
    queue.put_back([first, second])
    assert queue.source_next == 0
    third = drain(queue)
    assert third[:2] == [first, second] and [offsets(one) for one in third[2:]] == [[2], [3]]
    assert queue.waiting_bytes == 0


def test_the_newest_time_of_a_joined_batch_is_that_of_its_newest_record() -> None:
    queue = queue_of(batch_at(0, timestamp=50), batch_at(1, timestamp=90), batch_at(2, timestamp=7))
    assert queue.newest_ms == 50
    (taken,) = drain(queue)
    assert taken.newest_ms == 90


def test_messages_of_the_old_formats_are_rebuilt() -> None:
    # One message of format v1: offset 4, key null, value "old", written at 77.
    body = bytes([1, 0]) + (77).to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\0\0\x03old"
    message = crc32(body).to_bytes(4, "big") + body
    raw = (4).to_bytes(8, "big") + len(message).to_bytes(4, "big") + message
    queue = Queue(ALL)
    queue.put(list(split_batches(memoryview(bytearray(raw)), check=True)))
    (taken,) = drain(queue)
    assert taken.stretches == ((4, 1),) and taken.newest_ms == 77
    assert list(decode(taken.batch)) == [Record(0, 77, None, b"old")]


@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(OLD_CODECS)), min_size=1, max_size=8),
    st.sampled_from([0, 1]),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_of_sets_of_the_old_formats_only_what_is_wanted_is_taken(
    shapes: list[tuple[int, Codec]], magic: int, start: int, length: int
) -> None:
    """The offset of a compressed set is its last record's: it may begin before the position."""
    wanted, log, base = range(start, start + length), b"", 0
    for count, codec in shapes:
        rows = [Record(-1, 5, None, b"%d" % (base + n)) for n in range(count)]
        log += wrapped(magic, codec, rows, base)
        base += count
    queue = Queue(wanted)
    read = list(split_batches(memoryview(bytearray(log)), check=True))
    queue.put([(header, batch) for header, batch in read if header.next_offset > start])
    taken = drain(queue)
    expected = [n for n in wanted if n < base]
    assert [n for one in taken for n in offsets(one)] == expected
    assert [r.value for one in taken for r in decode(one.batch)] == [b"%d" % n for n in expected]


def test_a_few_batches_do_not_keep_the_reply_alive_that_brought_them() -> None:
    batches = [batch_at(n, size=500) for n in range(10)]
    reply = bytearray(b"".join(batches) + bytes(100_000))  # which others' batches fill
    queue = Queue(ALL)
    queue.put(list(split_batches(memoryview(reply)[:-100_000])))
    taken = drain(queue)
    assert not any(memoryview(one.batch).obj is reply for one in taken)
    assert [bytes(one.batch) for one in taken] == [bytes(batch) for batch in batches]
    assert [one.stretches for one in taken] == [((n, 1),) for n in range(10)]


def test_a_reply_that_is_a_partitions_own_is_not_copied() -> None:
    reply = bytearray(b"".join(batch_at(n, size=500) for n in range(200)))
    queue = Queue(ALL)
    queue.put(list(split_batches(memoryview(reply))))
    assert all(memoryview(one.batch).obj is reply for one in drain(queue))
