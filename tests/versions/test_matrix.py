"""Whole links, with Spark, between this Kafka and older ones: ``make test-versions``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.links import Link, make_link
from tests.broker.test_older_kafka import fill, values
from tests.doubles.older import OlderCluster, older
from tests.making import create_topic

# What is promised of a target's log, of claims and of topics, by the tests of the present Kafka.
_PROMISED = ("claim_answers", "claims_of_many", "closing", "copy", "fence", "opening", "situations")
_TRIED = "not compacted_batches"
_VERSIONS = [("2.8.2", True), ("3.9.1", True), ("3.9.1", False)]


@pytest.fixture(
    scope="module", params=_VERSIONS, ids=lambda one: f"{one[0]}-{'zk' if one[1] else 'kraft'}"
)
def old(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OlderCluster]:
    version, zookeeper = request.param
    with older(version, tmp_path_factory.mktemp("older"), zookeeper=zookeeper) as cluster:
        yield cluster


def heliograph(link: Link, *words: str) -> Any:
    """Run a command in a process of its own, and return what it printed."""
    program = [str(Path(sys.executable).with_name("heliograph")), *words]
    done = subprocess.run(
        [*program, "-f", str(link.file), "-o", "json"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


@pytest.mark.parametrize("older_end", ["source", "target"])
def test_a_link_is_run_drilled_failed_over_and_failed_back(
    old: OlderCluster, older_end: str, source: Any, target: Any, topic_name: str, tmp_path: Path
) -> None:
    one, other = (old, target) if older_end == "source" else (source, old)
    create_topic(one.bootstrap, topic_name)
    expected = fill(one.bootstrap, topic_name)
    link = make_link(tmp_path, one.bootstrap, other, topics=topic_name)
    found = heliograph(link, "check")
    assert {row["severity"] for row in found} <= {"note"}, found
    heliograph(link, "run", "--until-synced")
    assert values(other.bootstrap, topic_name) == expected
    heliograph(link, "drill", link.name)
    heliograph(link, "failover", link.name, "--yes")
    heliograph(link, "failback", link.name, "--yes")
    assert values(one.bootstrap, topic_name) == expected


@pytest.mark.parametrize("end", ["source", "target"])
def test_what_is_promised_holds_there_as_well(old: OlderCluster, end: str) -> None:
    files = [f"tests/broker/test_{name}.py" for name in _PROMISED]
    done = subprocess.run(
        # The one left out compares both logs, and an older cleaner goes on after the copying.
        [sys.executable, "-m", "pytest", "-q", *files, f"--{end}={old.bootstrap}", "-k", _TRIED],
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout[-6000:]
