"""Commands that change a link while it runs: topics in and out, limits; others go on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from heliograph.cli.app import run
from heliograph.model.topics import Partition
from tests.broker.groups import commit, consume, offset
from tests.broker.linked import produce
from tests.checker.reading import read_partition
from tests.faults.engine import Driver, Link, make_link, running, until
from tests.making import create_topic


def values(cluster: Any, topic: str) -> list[bytes | None]:
    return [seen.value for _, seen in read_partition(cluster.bootstrap, topic, 0, committed=True)]


def asked(link: Link, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run([*words, "-f", str(link.file), "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert isinstance(row, dict)
    return row


def test_topics_come_and_go_while_others_are_copied(
    source: Any,
    target: Any,
    driver: Driver,
    shared_link: Link,
    shared_topic: str,
    topic_name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    link, here = shared_link, source.bootstrap
    for topic in (shared_topic, topic_name):
        create_topic(here, topic)
        produce(here, topic, [b"before"])
    driver.wait_copying()
    row = asked(link, capsys, "topics", link.name, "add", topic_name, "--start", "latest")
    assert row["added"] == [topic_name] and row["effect"] == "done"
    produce(here, topic_name, [b"after"])
    until(lambda: values(target, topic_name) == [b"after"], 30, "the new topic is not copied")
    row = asked(link, capsys, "topics", "remove", link.name, topic_name)
    assert (row["added"], row["removed"], row["effect"]) == ([], [topic_name], "done")
    produce(here, topic_name, [b"while away"])
    produce(here, shared_topic, [b"more"])
    until(lambda: values(target, shared_topic)[-1] == b"more", 30, "the others do not go on")
    assert values(target, topic_name) == [b"after"]
    assert run(["topics", link.name, "-f", str(link.file), "-o", "json"]) == 0
    shown = [one["topic"] for one in json.loads(capsys.readouterr().out)]
    assert shared_topic in shown and topic_name not in shown
    asked(link, capsys, "topics", link.name, "add", topic_name)
    wanted = [b"after", b"while away"]
    until(lambda: values(target, topic_name) == wanted, 30, "it does not go on where it was")
    asked(link, capsys, "topics", link.name, "remove", topic_name)


def test_groups_follow_while_a_link_runs(
    source: Any, target: Any, driver: Driver, shared_topic: str
) -> None:
    here = Partition(shared_topic, 0)
    create_topic(source.bootstrap, shared_topic)
    produce(source.bootstrap, shared_topic, [b"%d" % number for number in range(10)])
    commit(source, shared_topic, {here: 4})
    driver.wait_copying()
    until(lambda: offset(target, shared_topic, here), 40, "the group was not brought over")
    until(lambda: len(values(target, shared_topic)) == 10, 30, "it is not copied")
    commit(source, shared_topic, {here: 7})
    first = offset(target, shared_topic, here)
    until(lambda: offset(target, shared_topic, here) != first, 30, "the group does not follow")
    assert consume(target, shared_topic, shared_topic, 1) == [b"7"]


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["add", "a(b"],
        ["take", "orders"],
        ["remove", "orders", "--start", "latest"],
        ["add", "orders", "--start", "tomorrow"],
    ],
)
def test_what_cannot_be_meant_is_refused(
    shared_link: Link, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["topics", shared_link.name, *words, "-f", str(shared_link.file)]) == 2
    assert capsys.readouterr().err.startswith("error: usage:")


def test_latest_is_what_came_after_the_first_start_and_topics_made_later_are_whole(
    source: Any, target: Any, tmp_path: Path
) -> None:
    link = make_link(tmp_path, source, target, more="start: latest")
    old, new = f"{link.name}-old", f"{link.name}-new"
    create_topic(source.bootstrap, old)
    produce(source.bootstrap, old, [b"before"])
    with running(link, tmp_path / "run") as driver:
        driver.wait_copying()
        produce(source.bootstrap, old, [b"after"])
        create_topic(source.bootstrap, new)
        produce(source.bootstrap, new, [b"first", b"second"])
        until(lambda: values(target, old) == [b"after"], 30, "latest is not copied")
        until(lambda: values(target, new) == [b"first", b"second"], 30, "a new topic lost records")
        driver.kill()
    later = f"{link.name}-later"
    create_topic(source.bootstrap, later)
    produce(source.bootstrap, later, [b"whole"])
    with running(link, tmp_path / "again"):
        until(lambda: values(target, later) == [b"whole"], 60, "a topic made between runs")


def test_a_limit_is_kept_to_and_changes_while_it_runs(
    source: Any, target: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make_link(tmp_path, source, target, more="limits: {bytes_per_second: 1MB}")
    topic = f"{link.name}-big"
    create_topic(source.bootstrap, topic, 2)
    produce(source.bootstrap, topic, [b"x" * 10_000] * 5_000)  # 50 MB

    def copied() -> int:
        return link.ledger(topic).bytes

    def noted() -> tuple[int, float]:
        """Return what is on record just as that changes: ledgers are written once a second."""
        before = copied()
        until(lambda: copied() != before, 30, "nothing is copied")
        return copied(), time.monotonic()

    def rate(seconds: float) -> float:
        first, from_s = noted()
        time.sleep(seconds)
        last, to_s = noted()
        return (last - first) / (to_s - from_s)

    with running(link, tmp_path / "run", lease_s=60) as driver:
        driver.wait_copying()
        assert rate(12) == pytest.approx(1_000_000, rel=0.1)
        asked(link, capsys, "limits", link.name, "--bytes-per-second", "2MB")
        assert rate(8) == pytest.approx(2_000_000, rel=0.1)
        asked(link, capsys, "limits", link.name, "--bytes-per-second", "off")
        until(lambda: copied() > 49_000_000, 15, "the limit was not lifted")
