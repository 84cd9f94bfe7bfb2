"""Clocks that differ: by producers, drivers and operators. No record depends on whose is right."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from confluent_kafka import Producer

from heliograph.kafka import clock
from heliograph.model.control import Heard, heard_key, row
from heliograph.model.names import state_topic
from heliograph.model.recovery import read_events
from heliograph.model.topics import Partition
from tests.broker.groups import GroupLink, commit, consume
from tests.broker.linked import copy_all, produce
from tests.broker.links import link_report, part_report
from tests.broker.recovering import (
    Make,
    find_source,
    lose_source,
    numbers,
    opposite_ends,
    recover,
    refused,
    stages,
    tell,
    values,
)

HOUR = timedelta(hours=1)


class Shifted:
    """A clock that shows another time; how long anything takes, it tells as all do."""

    def __init__(self, by: timedelta) -> None:
        self._by_s = by.total_seconds()

    def time(self) -> float:
        return clock.REAL.time() + self._by_s

    def monotonic(self) -> float:
        return clock.REAL.monotonic()


@contextmanager
def reporting(link: GroupLink, here: Partition, do: Callable[[], None]) -> Iterator[None]:
    """Report by the right clock, as a driver does, whatever clock this process reads; and copy."""
    over = threading.Event()

    def drive() -> None:
        while not over.wait(0.5):
            now_ms = int(time.time() * 1000)
            report = link_report(at_ms=now_ms, topics={here.topic: here.topic})
            link.link.report(report, {})
            do()

    driver = threading.Thread(target=drive)
    driver.start()
    try:
        yield
    finally:
        over.set()
        driver.join()


def test_records_of_the_future_are_counted_and_no_objective_is_called_kept(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    objectives: {rpo: 60s}")
    here = link.make(topic_name)
    producer = Producer({"bootstrap.servers": link.source.bootstrap})
    future_ms = clock.wall_ms() + int(HOUR / timedelta(milliseconds=1))
    for value in numbers(0, 100):
        producer.produce(topic_name, value, partition=0, timestamp=future_ms)
    assert producer.flush(20) == 0
    link.copy(here)
    report = part_report(lag=40, newest_ms=future_ms)
    link.link.report(link_report(topics={topic_name: topic_name}), {here: report})
    link.link.put(state_topic(link.name), {heard_key(0): row(Heard(1, 1, clock.wall_ms()))})
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes")
    assert found["missing_records"] == 40 and found["state"] == "FAILED_OVER"
    assert (found["rpo_seconds"], found["rpo_ok"]) == (None, None)
    assert "The clocks of its producers are ahead" in found["notes"][0]


@pytest.mark.parametrize("shift", [HOUR, -HOUR])
def test_a_promotion_waits_for_a_driver_that_reports_by_another_clock(
    shift: timedelta, make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    link.copy(here)
    produce(link.source.bootstrap, topic_name, numbers(20, 25))
    tell(link, here)
    turns = iter(range(1000))

    def copy_at_last() -> None:
        if next(turns) == 4:
            link.copy(here)

    with clock.moved_by(Shifted(shift)), reporting(link, here, copy_at_last):
        found = recover(link, capsys, "promote")
    assert found["state"] == "PROMOTED" and found["missing_records"] == 0
    assert values(link.target, topic_name) == numbers(0, 25)


def test_a_dead_driver_whose_clock_was_ahead_is_not_waited_for(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    with clock.moved_by(Shifted(HOUR)):
        tell(link, here)
    began_s = time.monotonic()
    told = refused(link, capsys, "promote", "--timeout", "120s")
    assert "No driver is alive" in told and "up to 20 records" in told
    assert time.monotonic() - began_s < 60
    assert stages(link) == {}


def test_a_cycle_of_operators_whose_clocks_differ_keeps_every_record_and_their_order(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = link.make(topic_name)
    back = opposite_ends(link)
    produce(link.source.bootstrap, topic_name, numbers(0, 15))
    commit(link.source, topic_name, {here: 7})
    with clock.moved_by(Shifted(-HOUR)):
        link.copy(here)
        tell(link, here)
        assert not link.sync().errors
    produce(link.source.bootstrap, topic_name, numbers(15, 20))
    lose_source(link)
    with clock.moved_by(Shifted(HOUR)):
        found = recover(link, capsys, "failover", "--yes")
    assert found["heard_seconds"] > 7000  # by the clocks, and nobody can know better
    find_source(link)
    assert consume(link.target, topic_name, topic_name, 8) == numbers(7, 15)
    produce(link.target.bootstrap, topic_name, numbers(100, 110))
    with clock.moved_by(Shifted(-HOUR)):
        found = recover(link, capsys, "failback")
    assert [one["records"] for one in found["diverged"]] == [5]
    copy_all(back, here)
    assert consume(link.source, topic_name, topic_name, 10) == numbers(100, 110)
    assert values(link.source, topic_name) == [*numbers(0, 20), *numbers(100, 110)]
    assert values(link.target, f"{topic_name}.diverged") == numbers(15, 20)
    verbs = [one.verb for one in read_events(link.state())]
    assert verbs == sorted(verbs, reverse=True) and set(verbs) == {"failover", "failback"}
