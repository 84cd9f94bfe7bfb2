"""Leases that end early, a hundred times: partitions are handed over, not claimed anew."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

from heliograph.model.control import PLAN, RECALL, Plan, Recall, read, read_leases, row
from heliograph.model.leases import Lease
from heliograph.model.names import control_topic
from tests.checker.follow import following
from tests.faults.engine import Driver, Link, loading, see_more, until
from tests.making import create_topic

TURN_OVERS = int(os.environ.get("HELIOGRAPH_TURN_OVERS", "30"))


def leases_of(link: Link, topic: str) -> tuple[Plan, list[Lease]]:
    """Return the running plan and those of its leases that hold a topic."""
    rows = link.control
    plan = read(rows, PLAN, Plan)
    assert plan is not None
    leases = read_leases(rows, plan)
    return plan, [one for one in leases if any(part.source.topic == topic for part in one.parts)]


def epochs_of(link: Link, topic: str) -> list[int]:
    """Return under which epochs the running leases go on; -1 where they claim."""
    parts = [part for lease in leases_of(link, topic)[1] for part in lease.parts]
    return [
        part.handed.epoch if part.handed else -1 for part in parts if part.source.topic == topic
    ]


def test_leases_called_in_again_and_again_are_handed_over_without_a_claim(
    source: Any, target: Any, driver: Driver, shared_link: Link, shared_topic: str, tmp_path: Path
) -> None:
    link, topic, journal = shared_link, shared_topic, tmp_path / "journal"
    create_topic(source.bootstrap, topic, 3)
    seen: list[list[int]] = []
    with following(source.bootstrap, target.bootstrap, {topic: topic}) as followers:
        with loading(source.bootstrap, topic, journal):
            driver.wait_copying()
            see_more(followers, 50)
            for _ in range(TURN_OVERS):
                plan, _ = leases_of(link, topic)
                recall = Recall(plan.generation, plan.number)
                link.put(control_topic(link.name), {RECALL: row(recall)})
                until(
                    lambda before=plan.number: leases_of(link, topic)[0].number > before,  # type: ignore[misc]
                    60,
                    lambda: f"no new plan: {driver.said}",
                )
                seen.append(epochs_of(link, topic))
            see_more(followers, 50)
        followers.healed()
        followers.catch_up(within_s=60)
    assert followers.anomalies == []
    link.check(topic, journal=journal)
    # Claims make new epochs: of so many hand-overs, nearly all must go on under the last one.
    handed = sum(epochs == before for before, epochs in pairwise(seen))
    assert handed >= 0.9 * (TURN_OVERS - 1), seen
    assert all(len(epochs) == 3 for epochs in seen), seen
