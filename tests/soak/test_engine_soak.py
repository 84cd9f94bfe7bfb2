"""A seeded mix of everything that can be done to a running link; then every record is once.

``make soak SECONDS=3600`` runs it for longer.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from heliograph.local.brokers import Cluster
from heliograph.model.control import PLAN, RECALL, WANTED, Plan, Recall, Wanted, read, row
from heliograph.model.names import control_topic
from tests.checker.follow import Followers, following
from tests.faults.engine import START_S, Driver, Link, loading, make_link, running, see_more
from tests.making import create_topic

SECONDS = float(os.environ.get("HELIOGRAPH_FAULT_SECONDS", "40"))


class Torment:
    """Does one thing after the other to a link, as chance has it; ``driver`` drives it now."""

    def __init__(
        self, link: Link, clusters: tuple[Cluster, Cluster], folder: Path, chance: random.Random
    ) -> None:
        self._link, self._clusters, self._folder, self._chance = link, clusters, folder, chance
        self._stack = ExitStack()
        self._started = 0
        self.driver = self._start()

    def __enter__(self) -> Torment:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def step(self) -> str:
        """Do one thing; return its name."""
        common = [self._kill_worker, self._kill_daemon, self._pause_worker, self._recall]
        rare = [self._kill_driver, self._kill_jvm, self._take_over, self._freeze_all]
        rare += [self._kill_broker, self._pause_topics, self._pause_helper]
        act = self._chance.choice(common if self._chance.random() < 0.7 else rare)
        act()
        return act.__name__

    def _start(self) -> Driver:
        self._started += 1
        folder = self._folder / f"driver-{self._started}"
        lease_s = self._chance.choice([1, 2, 5, 30])
        return self._stack.enter_context(running(self._link, folder, lease_s=lease_s))

    def _kill_worker(self) -> None:
        self._chance.choice(self.driver.wait_copying()).send(signal.SIGKILL)

    def _kill_daemon(self) -> None:
        self.driver.wait_copying()
        for one in self.driver.daemons():
            one.send(signal.SIGKILL)

    def _pause_worker(self) -> None:
        victim = self._chance.choice(self.driver.wait_copying())
        victim.send(signal.SIGSTOP)
        time.sleep(self._chance.choice([0.1, 1, 12]))
        victim.send(signal.SIGCONT)

    def _pause_helper(self) -> None:
        self.driver.wait_copying()
        victim = self._chance.choice(self.driver.helpers())
        victim.send(signal.SIGSTOP)
        time.sleep(self._chance.choice([1, 12, 60]))
        victim.send(signal.SIGCONT)

    def _recall(self) -> None:
        plan = read(self._link.control, PLAN, Plan)
        if plan is not None:
            recall = Recall(plan.generation, plan.number)
            self._link.put(control_topic(self._link.name), {RECALL: row(recall)})

    def _kill_driver(self) -> None:
        # A worker that lost its daemon outlives the JVM, until it hears of the next driver.
        self.driver.process.kill()
        self.driver.process.wait()
        self.driver = self._start()

    def _kill_jvm(self) -> None:
        self.driver.jvm().send(signal.SIGKILL)
        assert self.driver.wait() == 1, self.driver.said
        self.driver = self._start()

    def _take_over(self) -> None:
        # Of two that start at the same time, either may be the one that goes on.
        self.driver.wait_copying()
        before, self.driver = self.driver, self._start()
        assert before.wait(START_S) == 1, before.said

    def _freeze_all(self) -> None:
        before = self.driver
        before.wait_copying()
        before.freeze()
        self.driver = self._start()
        self.driver.wait_copying()
        before.thaw()
        assert before.wait(START_S) == 1, before.said

    def _kill_broker(self) -> None:
        node = self._chance.choice(self._clusters).node(1)
        node.kill()
        node.start()

    def _pause_topics(self) -> None:
        for wanted in (Wanted(state="paused"), Wanted()):
            self._link.put(control_topic(self._link.name), {WANTED: row(wanted)})


@pytest.fixture
def clusters(private_cluster: Callable[..., Cluster]) -> Iterator[tuple[Cluster, Cluster]]:
    yield private_cluster(name="soak-source"), private_cluster(name="soak-target")


def torment(torment: Torment, followers: Followers, chance: random.Random) -> None:
    torment.driver.wait_copying()
    see_more(followers, 100)
    over_s = time.monotonic() + SECONDS
    while time.monotonic() < over_s:
        print(f"{over_s - time.monotonic():.0f} s left: {torment.step()}", flush=True)
        see_more(followers, chance.randrange(1, 300), START_S)
        assert torment.driver.is_alive, torment.driver.said


@pytest.mark.timeout(0)
def test_a_tormented_link_copies_every_record_once(
    clusters: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    seed = int(os.environ.get("HELIOGRAPH_FAULT_SEED", random.randrange(10**6)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    link = make_link(tmp_path, *clusters)
    topic, journal = f"{link.name}-orders", tmp_path / "journal"
    create_topic(link.source, topic, 3)
    with (
        following(link.source, link.target, {topic: topic}) as followers,
        Torment(link, clusters, tmp_path, chance) as tormented,
    ):
        with loading(link.source, topic, journal):
            torment(tormented, followers, chance)
        followers.healed()
        followers.catch_up(within_s=120)
        assert tormented.driver.end() == 0, tormented.driver.said
    assert followers.anomalies == []
    link.check(topic, journal=journal)
