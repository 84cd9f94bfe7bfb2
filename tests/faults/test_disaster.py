"""A primary that dies under load, and comes back: the whole cycle, with applications at work."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
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
            consuming(primary.bootstrap, topic_name, group) as before,
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
