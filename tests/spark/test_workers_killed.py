"""Python workers that die while they copy: whoever comes next claims, and every record is once."""

import random
import signal
from pathlib import Path
from typing import Any

from tests.checker.follow import following
from tests.faults.engine import Driver, Link, loading, see_more
from tests.making import create_topic

KILLS = 8


def test_workers_killed_at_random_moments_leave_every_record_once(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str, tmp_path: Path
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    journal = tmp_path / "journal"
    create_topic(source.bootstrap, shared_topic, 3)
    both = (source.bootstrap, target.bootstrap, {shared_topic: shared_topic})
    with following(*both) as followers:
        with loading(source.bootstrap, shared_topic, journal, rate=1000):
            driver.wait_copying()
            for _ in range(KILLS):
                see_more(followers, chance.randrange(1, 400))
                victim = chance.choice(driver.wait_copying())
                victim.send(signal.SIGKILL)
        followers.healed()
        followers.catch_up(within_s=90)
    assert followers.anomalies == []
    shared_link.check(shared_topic, journal=journal)
    assert driver.is_alive, driver.said
