"""What an admin client is asked to do is never sent after the caller's deadline."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from heliograph.errors import DeadlinePassed
from heliograph.kafka import clock
from heliograph.kafka.admin_session import Session
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.properties import parse

LIMIT = timedelta(seconds=30)


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.now_s


class Connected(Session):
    """A session whose process is stopped for a while as it connects."""

    def __init__(self, hands: Hands, stops_s: float = 0.0) -> None:
        super().__init__(parse("a", {"bootstrap.servers": "127.0.0.1:1"}), "a")
        self._hands, self._stops_s = hands, stops_s

    def _ready(self, _: Deadline) -> Any:
        self._hands.now_s += self._stops_s
        return "client"


@pytest.mark.parametrize("stops", ["nowhere", "before the call", "while it connects"])
def test_a_process_that_stood_still_past_its_deadline_sends_nothing(stops: str) -> None:
    hands, sent = Hands(), list[str]()
    with clock.moved_by(hands):
        deadline = Deadline.after(LIMIT)
        session = Connected(hands, 60.0 if stops == "while it connects" else 0.0)
        if stops == "before the call":
            hands.now_s += 60.0
        try:
            session.call("setting offsets", lambda client, _: sent.append(client), deadline)
        except DeadlinePassed as passed:
            assert "while setting offsets" in passed.message
    assert sent == (["client"] if stops == "nowhere" else [])
