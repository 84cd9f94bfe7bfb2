"""A run that another one took its link from, and that cannot see whose turn it is."""

import time

import pytest

from heliograph.control.lifetime import Lifetime
from heliograph.control.running import Engine
from heliograph.control.supervise import Terms
from heliograph.errors import Superseded
from heliograph.kafka import clock
from heliograph.wiring import config_of, setups

FILE = """
clusters:
  a: {bootstrap.servers: "127.0.0.1:1"}
  b: {bootstrap.servers: "127.0.0.1:2"}
links:
  a-b: {source: a, target: b, topics: [orders]}
"""


class Fast:
    """Twenty times as fast."""

    def monotonic(self) -> float:
        return time.monotonic() * 20

    def time(self) -> float:
        return time.time()


def test_it_ends_where_nobody_can_tell_for_how_long_it_was_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (setup,) = setups(config_of(FILE, "test"))
    runs = list[float]()

    def no_engine() -> Engine:
        raise AssertionError("it was superseded before it needed any")

    def superseded() -> None:
        runs.append(clock.now_s())
        raise Superseded("another driver took link a-b over")

    lifetime = Lifetime(setup, Terms(), no_engine, lambda _: None)
    monkeypatch.setattr(lifetime._supervisor, "_start", superseded)
    with clock.moved_by(Fast()), pytest.raises(Superseded):
        lifetime.run()
    assert len(runs) == 1
