from bench.race.listen import Listener
from bench.race.load import STAMP

SECOND = 10**9


def hear(listener: Listener, partition: int, made_s: float, number: int, late_s: float) -> None:
    made_ns = int(made_s * SECOND)
    listener.hear(partition, STAMP.pack(made_ns, number), made_ns + int(late_s * SECOND))


def test_only_records_made_in_the_window_count() -> None:
    listener = Listener(partitions=1, seconds=10, begin_ns=100 * SECOND)

    for number, made_s in enumerate((99.0, 100.0, 109.9, 110.0)):
        hear(listener, 0, made_s, number, late_s=0.5)

    assert list(listener.latencies) == [SECOND // 2, SECOND // 2]


def test_it_is_over_when_every_partition_has_passed_the_window() -> None:
    listener = Listener(partitions=2, seconds=1, begin_ns=0)

    hear(listener, 0, 1.5, 0, late_s=0)
    assert not listener.is_over
    hear(listener, 1, 1.5, 0, late_s=0)
    assert listener.is_over


def test_a_skipped_number_is_a_lost_record() -> None:
    listener = Listener(partitions=1, seconds=10, begin_ns=0)

    for number in (0, 1, 4):
        hear(listener, 0, 1.0, number, late_s=0)

    assert (listener.lost, listener.repeated) == (2, 0)


def test_a_number_that_comes_again_is_repeated_and_not_measured() -> None:
    listener = Listener(partitions=1, seconds=10, begin_ns=0)

    for number in (0, 1, 2, 1, 2, 3):
        hear(listener, 0, 1.0, number, late_s=0)

    assert (listener.lost, listener.repeated, len(listener.latencies)) == (0, 2, 4)


def test_a_reader_that_joins_late_has_lost_nothing() -> None:
    listener = Listener(partitions=1, seconds=10, begin_ns=0)

    hear(listener, 0, 1.0, 777, late_s=0)

    assert listener.lost == 0


def test_the_end_of_an_earlier_stream_confuses_nobody() -> None:
    listener = Listener(partitions=1, seconds=10, begin_ns=100 * SECOND)

    for made_s, number in ((90.0, 5000), (99.0, 0), (100.0, 1), (101.0, 2)):
        hear(listener, 0, made_s, number, late_s=0)

    assert (listener.lost, listener.repeated, len(listener.latencies)) == (0, 0, 2)
