"""A primary that dies under load, and comes back: the whole cycle, with applications at work."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from heliograph.local.brokers import Cluster
from heliograph.model.names import reverse_name
from tests.checker.reading import read_partition
from tests.faults.applications import consuming, producing, settle
from tests.faults.engine import COMMAND, Link, make_link, running, until
from tests.making import create_topic

PARTITIONS = 3


def values(bootstrap: str, topic: str) -> list[bytes]:
    return [
        one.value or b""
        for number in range(PARTITIONS)
        for _, one in read_partition(bootstrap, topic, number, committed=False)
    ]


def command(link: Link, verb: str, *more: str, code: int = 0) -> dict[str, Any]:
    words = [COMMAND, verb, link.name, "-f", str(link.file), "-o", "json", *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    (found,) = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def status(link: Link, name: str) -> dict[str, Any]:
    words = [COMMAND, "status", name, "-f", str(link.file), "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    (found,) = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_a_primary_killed_under_load_comes_back_with_every_record_accounted_for(
    private_cluster: Callable[..., Cluster], target: Any, topic_name: str, tmp_path: Path
) -> None:
    primary = private_cluster(name="primary")
    link = make_link(tmp_path, primary, target, topics=topic_name, more="objectives: {rpo: 30s}")
    group = topic_name
    create_topic(primary.bootstrap, topic_name, PARTITIONS)
    with running(link, tmp_path / "run") as driver:
        driver.wait_copying()
        with (
            producing(primary.bootstrap, topic_name, 0) as first,
            consuming(primary.bootstrap, topic_name, group, leaves=False) as before,
        ):
            until(lambda: len(before) > 1500, 60, "nothing is consumed")
            time.sleep(6)  # at least one sync of groups
            primary.node(1).kill()
        found = command(link, "failover", "--yes")
        assert found["state"] == "FAILED_OVER" and found["missing_records"] is not None
        # Applications move: the same group, another producer.
        with (
            consuming(target.bootstrap, topic_name, group) as during,
            producing(target.bootstrap, topic_name, 1_000_000) as second,
        ):
            until(lambda: len(second.acknowledged) > 500, 60, "nothing is written")
            primary.node(1).start()
            back = command(link, "failback")
            assert back["state"] == "REVERSING"
            reverse = reverse_name(link.name)
            until(
                lambda: status(link, reverse)["lag_records"] is not None, 120, lambda: driver.said
            )
        with consuming(target.bootstrap, topic_name, group) as rest:
            settle(rest)
        switched = command(link, "switch", "--back", "--fence", "none", "--timeout", "60s")
        assert switched["missing_records"] == 0, switched
        with (
            consuming(primary.bootstrap, topic_name, group) as after,
            producing(primary.bootstrap, topic_name, 2_000_000) as third,
        ):
            until(lambda: len(third.acknowledged) > 500, 60, "nothing is written")
            until(lambda: len(after) > 300, 60, "nothing is consumed")
        with consuming(primary.bootstrap, topic_name, group) as last:
            settle(last)
        here = values(primary.bootstrap, topic_name)
        diverged = values(target.bootstrap, f"{topic_name}.diverged") if back["diverged"] else []
        acknowledged = {*first.acknowledged, *second.acknowledged, *third.acknowledged}
        common = set(here) - set(diverged)
        until(
            lambda: common <= set(values(target.bootstrap, topic_name)),
            60,
            lambda: f"not all came back: {driver.said}",
        )
        there = values(target.bootstrap, topic_name)
    # Each record stands once on each side; what diverged is on the old primary and saved.
    assert [one for one, count in Counter(here).items() if count > 1] == []
    assert [one for one, count in Counter(there).items() if count > 1] == []
    assert acknowledged <= set(here), "the old primary lost records"
    assert set(there) == common and not set(diverged) & set(there)
    assert len(diverged) == len(set(diverged))
    # Every record was read, and only those twice that were read after the last sync of groups.
    read = [*before, *during, *rest, *after, *last]
    assert acknowledged - set(diverged) <= set(read)
    counts = Counter(read)
    again = {one for one, count in counts.items() if count > 1}
    assert again <= set(before), "a planned move made a group read twice"
    assert len(again) <= 200 * 15, len(again)


def test_a_switch_under_load_loses_nothing_and_nobody_reads_twice(
    source: Any, target: Any, topic_name: str, tmp_path: Path
) -> None:
    gate = tmp_path / "applications-stop"
    hooks = f'hooks: {{before_switch: ["touch {gate}; sleep 3"]}}'
    link = make_link(tmp_path, source, target, topics=topic_name, more=hooks)
    group = topic_name
    create_topic(source.bootstrap, topic_name, PARTITIONS)
    with running(link, tmp_path / "run") as driver:
        driver.wait_copying()
        with (
            producing(source.bootstrap, topic_name, 0, until=gate) as first,
            consuming(source.bootstrap, topic_name, group, until=gate) as before,
        ):
            until(lambda: len(before) > 1000, 60, "nothing is consumed")
            found = command(link, "switch", "--fence", "none")
        assert found["state"] == "REVERSING" and found["missing_records"] == 0
        with (
            consuming(target.bootstrap, topic_name, group) as after,
            producing(target.bootstrap, topic_name, 1_000_000) as second,
        ):
            until(lambda: len(second.acknowledged) > 500, 60, "nothing is written")
        with consuming(target.bootstrap, topic_name, group) as rest:
            settle(rest)
        written = [*first.acknowledged, *second.acknowledged]
        until(
            lambda: len(values(source.bootstrap, topic_name)) >= len(written),
            120,
            lambda: f"not all came back: {driver.said}",
        )
    for cluster in (source, target):
        assert sorted(values(cluster.bootstrap, topic_name)) == sorted(written)
    assert sorted([*before, *after, *rest]) == sorted(written)


def test_a_driver_that_sleeps_through_every_verb_writes_nothing_when_it_wakes(
    source: Any, target: Any, topic_name: str, tmp_path: Path
) -> None:
    """One topic is promoted under load, one failed over and one switched while it sleeps."""
    gate = tmp_path / "applications-stop"
    hooks = f'hooks: {{before_promote: ["touch {gate}; sleep 3"]}}'
    link = make_link(tmp_path, source, target, topics=f"{topic_name}.*", more=hooks)
    promoted, lost, switched = (f"{topic_name}-{verb}" for verb in ("promote", "lose", "switch"))
    for topic in (promoted, lost, switched):
        create_topic(source.bootstrap, topic, PARTITIONS)
    with running(link, tmp_path / "run") as driver:
        driver.wait_copying()
        with (
            producing(source.bootstrap, promoted, 0, until=gate) as first,
            consuming(source.bootstrap, promoted, topic_name, until=gate) as before,
            producing(source.bootstrap, lost, 0) as late,
        ):
            until(lambda: len(before) > 500, 60, "nothing is consumed")
            found = command(link, "promote", "--topics", promoted)
            assert (found["state"], found["missing_records"]) == ("PROMOTED", 0)
            with consuming(target.bootstrap, promoted, topic_name) as after:
                settle(after)
            assert sorted([*before, *after]) == sorted(first.acknowledged)
            with producing(source.bootstrap, switched, 0) as second:
                until(lambda: len(second.acknowledged) > 300, 60, "nothing is written")
            until(lambda: _lag(link, switched) == 0, 60, lambda: driver.said)
            written = len(values(source.bootstrap, lost))
            driver.freeze()
            failed = command(link, "failover", "--yes", "--topics", lost)
            assert failed["state"] == "FAILED_OVER"
            turned = command(link, "switch", "--fence", "none", "--topics", switched)
            assert (turned["state"], turned["missing_records"]) == ("REVERSING", 0)
            with ExitStack() as stack:
                wrote = {
                    topic: stack.enter_context(producing(target.bootstrap, topic, 1_000_000))
                    for topic in (promoted, lost, switched)
                }
                until(
                    lambda: min(len(one.acknowledged) for one in wrote.values()) > 300,
                    60,
                    "nothing is written",
                )
            until(lambda: len(late.acknowledged) > written + 300, 60, "the old source is quiet")
            closed = {topic: values(target.bootstrap, topic) for topic in (promoted, lost)}
            driver.thaw()
            expected = {*second.acknowledged, *wrote[switched].acknowledged}
            until(
                lambda: set(values(source.bootstrap, switched)) >= expected,
                120,
                lambda: f"the opposite direction does not copy: {driver.said}",
            )
            time.sleep(5)  # whatever it still had in hand
        for cluster in (source, target):
            assert sorted(values(cluster.bootstrap, switched)) == sorted(expected)
        for topic, there in closed.items():
            assert values(target.bootstrap, topic) == there, f"{topic} was written to"
        # Of the one that was lost: what had arrived, and what applications wrote since; once each.
        ours = wrote[lost].acknowledged
        arrived = [one for one in closed[lost] if one not in set(ours)]
        assert set(arrived) <= set(values(source.bootstrap, lost))
        assert sorted(closed[lost]) == sorted([*set(arrived), *ours])


def _lag(link: Link, topic: str) -> int | None:
    topics = {one["topic"]: one for one in status(link, link.name)["topics"]}
    lags = [one["lag_records"] for one in topics[topic]["partitions"]] if topic in topics else []
    return sum(lags) if lags and None not in lags else None
