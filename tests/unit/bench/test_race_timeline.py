from bench.race.timeline import Sample, Span, value_at, window


def test_markers_before_the_first_record_do_not_start_the_clock() -> None:
    samples = [Sample(1.0, (1, 1)), Sample(5.0, (1, 11)), Sample(9.0, (101, 101))]

    seen = window(samples, [Span(1, 101), Span(1, 101)], records=200)

    assert (seen.first_s, seen.last_s) == (5.0, 9.0)


def test_a_marker_after_the_last_record_does_not_stop_the_clock() -> None:
    samples = [Sample(1.0, (10,)), Sample(2.0, (20,)), Sample(30.0, (21,))]

    assert window(samples, [Span(0, 20)], records=20).last_s == 2.0


def test_the_clock_runs_until_the_slowest_partition_is_whole() -> None:
    samples = [Sample(1.0, (1, 0)), Sample(2.0, (10, 0)), Sample(6.0, (10, 10))]

    assert window(samples, [Span(0, 10), Span(0, 10)], records=20).last_s == 6.0


def test_records_of_the_first_look_are_not_part_of_the_rate() -> None:
    samples = [Sample(1.0, (50,)), Sample(3.0, (150,))]

    assert window(samples, [Span(0, 150)], records=150).records_per_s == 50.0


def test_one_look_that_sees_everything_gives_no_rate() -> None:
    seen = window([Sample(1.0, (10,))], [Span(0, 10)], records=10)

    assert seen.records_per_s == float("inf")


def test_an_empty_partition_holds_nobody_up() -> None:
    samples = [Sample(1.0, (1, 0)), Sample(2.0, (4, 0))]

    assert window(samples, [Span(0, 4), Span(0, 0)], records=4).last_s == 2.0


def test_cpu_time_between_two_samples_is_shared_out_evenly() -> None:
    samples = [(10.0, 1.0), (11.0, 1.5), (12.0, 3.5)]

    assert value_at(samples, 11.5) - value_at(samples, 10.5) == 2.5 - 1.25


def test_cpu_time_outside_the_samples_is_that_of_the_nearest() -> None:
    samples = [(10.0, 1.0), (11.0, 1.5)]

    assert (value_at(samples, 3.0), value_at(samples, 99.0)) == (1.0, 1.5)
