"""Python workers that die or freeze while they copy: others go on, and every record is once."""

import os
import random
import signal
from operator import gt
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from heliograph.model.topics import Partition
from tests.checker.follow import following
from tests.faults.engine import START_S, Driver, Link, loading, see_more, until
from tests.making import create_topic

KILLS = 8
FREEZES = int(os.environ.get("HELIOGRAPH_FREEZES", "1"))


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


def test_a_worker_that_freezes_holds_no_other_up_and_stays_fenced(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str, tmp_path: Path
) -> None:
    """It keeps its slot and never ends its lease: the next plan goes on without it."""
    journal = tmp_path / "journal"
    create_topic(source.bootstrap, shared_topic, 3)
    places = [Partition(shared_topic, number) for number in range(3)]

    def all_move_on(within_s: float) -> None:
        before = mirror_ends(target.bootstrap, places)
        until(
            lambda: all(map(gt, mirror_ends(target.bootstrap, places), before)),
            within_s,
            lambda: f"{before}, {mirror_ends(target.bootstrap, places)}: {driver.said}",
        )

    both = (source.bootstrap, target.bootstrap, {shared_topic: shared_topic})
    with following(*both) as followers:
        with loading(source.bootstrap, shared_topic, journal):
            until(lambda: len(driver.copiers()) >= 2, START_S, lambda: driver.said)
            all_move_on(60)
            frozen = []
            for _ in range(FREEZES):
                frozen.append(driver.wait_copying()[0])
                frozen[-1].send(signal.SIGSTOP)
                all_move_on(90)
            for one in frozen:
                one.send(signal.SIGCONT)
            all_move_on(30)
        followers.healed()
        followers.catch_up(within_s=60)
    assert followers.anomalies == []
    shared_link.check(shared_topic, journal=journal)
    assert driver.is_alive, driver.said


def mirror_ends(bootstrap: str, places: list[Partition]) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        found = [
            consumer.get_watermark_offsets(TopicPartition(one.topic, one.partition), 20)
            for one in places
        ]
        return [ends[1] if ends is not None else -1 for ends in found]
    finally:
        consumer.close()
