"""An allowance: what is sent keeps to a rate, whatever the size of batches."""

from typing import Any

import pytest

from heliograph.copy.allowance import Allowance
from heliograph.kafka import clock


@pytest.fixture
def now(monkeypatch: Any) -> list[float]:
    at = [100.0]
    monkeypatch.setattr(clock, "now_s", lambda: at[0])
    return at


@pytest.mark.parametrize("batch", [10, 900, 5_000])
@pytest.mark.parametrize("turn_s", [0.01, 0.1, 0.3])
def test_a_rate_holds_over_ten_seconds(now: list[float], batch: int, turn_s: float) -> None:
    allowance, sent = Allowance(1_000), 0
    while now[0] < 110.0:
        while not allowance.is_spent:
            allowance.spend(batch)
            sent += batch
        now[0] += turn_s
    assert 10_000 - batch - 300 <= sent <= 10_000 + batch + 300


def test_what_was_not_used_is_not_saved_up(now: list[float]) -> None:
    allowance, sent = Allowance(1_000), 0
    assert allowance.is_spent
    now[0] += 3_600
    while not allowance.is_spent:
        allowance.spend(10)
        sent += 10
    assert sent <= 310


def test_without_a_limit_nothing_is_ever_spent() -> None:
    allowance = Allowance()
    allowance.spend(1 << 40)
    assert not allowance.is_spent and not allowance.is_limited
