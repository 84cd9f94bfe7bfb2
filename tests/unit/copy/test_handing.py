"""What the next writer of a partition is told, by itself or through an older version's row."""

import json

from heliograph.copy.handing import hand_over, take_over
from heliograph.copy.opened import Opened
from heliograph.kafka import clock
from heliograph.kafka.fence import Claim
from heliograph.kafka.tables import Writer
from heliograph.model.expiry import CLAIM_WAIT
from heliograph.model.leases import HandOver, Part
from heliograph.model.ledger import Ledger, Origin
from heliograph.model.texts import from_text, to_text
from heliograph.model.topics import Partition

HERE = Partition("orders", 0)
DAY_MS = 86_400_000


class Hands:
    """Two clocks that are moved by hand, as on a machine of its own."""

    def __init__(self, now_s: float) -> None:
        self.now_s, self.wall_s = now_s, 1_790_000_000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.wall_s


def handed(old_in_s: float) -> str:
    """Hand a partition over that was claimed a day ago."""
    hands = Hands(500.0)
    with clock.moved_by(hands):
        opened = Opened(
            HERE,
            HERE,
            Claim("id", 7, 1, 2),
            Writer(7, 2, 3),
            Ledger(HERE, Origin("a", "b", "c", "d")),
            old_not_before_s=hands.now_s + old_in_s,
            written_ms=1_789_000_000_123,
        )
        return to_text(hand_over(opened, clock.wall_ms() - DAY_MS, newest_ms=5))


def taken(text: str) -> tuple[Opened, float]:
    """Take it over on another machine; return how long old records have to wait, too."""
    with clock.moved_by(Hands(90_000.0)):
        opened = take_over(Part(HERE, HERE), from_text(HandOver, text))
        return opened, opened.old_not_before_s - clock.now_s()


def test_what_the_broker_remembers_and_what_may_still_arrive_are_handed_over() -> None:
    opened, old_in_s = taken(handed(old_in_s=8.0))
    assert opened.written_ms == 1_789_000_000_123
    assert 7.9 < old_in_s < 8.1
    assert taken(handed(old_in_s=-100.0))[1] <= 0
    assert taken(handed(old_in_s=1e6))[1] <= CLAIM_WAIT.total_seconds()


def test_of_what_an_older_version_hands_over_nothing_is_taken_for_fresh() -> None:
    fields = json.loads(handed(old_in_s=8.0))
    del fields["written_ms"], fields["old_not_before_ms"]
    opened, old_in_s = taken(json.dumps(fields))
    assert opened.written_ms == -1 and old_in_s <= 0
    fields["claimed_ms"] += DAY_MS
    assert taken(json.dumps(fields))[1] == CLAIM_WAIT.total_seconds()
