"""How a process learns that it stood still, from two clocks that may stand still with it."""

import sys
import time
from collections.abc import Iterator

import pytest

from heliograph.copy.standstill import Tick
from heliograph.kafka import clock


class Hands:
    """Two clocks that are moved by hand."""

    def __init__(self) -> None:
        self.now_s, self.wall_s = 100.0, 1_790_000_000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.wall_s

    def move(self, now_s: float, wall_s: float) -> None:
        self.now_s, self.wall_s = self.now_s + now_s, self.wall_s + wall_s


@pytest.fixture
def hands() -> Iterator[Hands]:
    made = Hands()
    with clock.moved_by(made):
        yield made


@pytest.mark.parametrize(
    ("now_s", "wall_s", "stood_s"),
    [
        (1, 1, 0),
        (9, 9, 0),
        (11, 11, 11),  # stopped, or suspended
        (0, 60, 60),  # a virtual machine was paused, and its time of day put right
        (11, 71, 11),
        (1, 4, 0),
        (1, -3599, 3600),  # somebody set the clock back
    ],
)
def test_it_may_have_stood_still_where_either_clock_jumps(
    hands: Hands, now_s: float, wall_s: float, stood_s: float
) -> None:
    tick = Tick()
    hands.move(now_s, wall_s)
    assert tick.stood_s() == pytest.approx(stood_s)
    hands.move(1, 1)
    assert tick.stood_s() == 0, "a jump is told once"


def test_it_may_have_stood_still_where_the_time_of_day_is_put_right_little_by_little(
    hands: Hands,
) -> None:
    tick, told = Tick(), []
    for _ in range(120):  # a second each, of which one tenth is put on top
        hands.move(1, 1.1)
        told.append(tick.stood_s() > 0)
    assert told.count(True) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such clock")
def test_time_goes_on_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {time.CLOCK_BOOTTIME: 3600.0, time.CLOCK_MONOTONIC: 100.0}
    monkeypatch.setattr(time, "clock_gettime", shown.__getitem__)
    assert clock.now_s() == 3600.0
