"""The way back to a topic whose brokers replace the times of records (LogAppendTime)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heliograph.cli.app import run
from heliograph.model.names import reverse_name
from heliograph.model.topics import Partition
from tests.broker.groups import GroupLink
from tests.broker.linked import (
    copy_all,
    opened_one,
    produce,
    step_until,
    streaming,
)
from tests.broker.recovering import Make, numbers, opposite_ends, opposite_of, recover, tell, values
from tests.making import create_topic

APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


def mirrored_back(
    link: GroupLink, topic: str, capsys: pytest.CaptureFixture[str]
) -> tuple[Partition, dict[str, Any]]:
    """Copy from a topic under LogAppendTime, fail over and back; return what failback said."""
    create_topic(link.source.bootstrap, topic, config=APPEND_TIME)
    create_topic(link.target.bootstrap, topic)
    here = Partition(topic, 0)
    produce(link.source.bootstrap, topic, numbers(0, 10))
    link.copy(here)
    tell(link, here)
    recover(link, capsys, "failover", "--yes")
    produce(link.target.bootstrap, topic, numbers(10, 15))
    foreseen = recover(link, capsys, "failback", "--dry-run")
    found = recover(link, capsys, "failback")
    assert foreseen["notes"] == found["notes"]
    return here, found


def crash_on_the_way_back(link: GroupLink, here: Partition, count: int) -> None:
    """Copy back so many records without a word about them."""
    back = opposite_ends(link)
    opened = opened_one(back, here)
    stream, end = streaming(back, opened), opened.ledger.source_next + count
    step_until(stream, lambda: stream.parts[here].position >= end)
    stream.close()


def test_times_that_the_old_source_replaces_stop_nothing_after_a_crash(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here, _ = mirrored_back(link, topic_name, capsys)
    crash_on_the_way_back(link, here, 5)
    produce(link.target.bootstrap, topic_name, numbers(15, 20))
    copy_all(opposite_ends(link), here)  # it opens: what it finds there is compared without times
    assert values(link.source, topic_name) == numbers(0, 20)


def test_times_that_the_old_source_replaces_stop_no_failback_of_the_opposite_direction(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The direction back is failed over with a tail that was never recorded."""
    link = make()
    here, _ = mirrored_back(link, topic_name, capsys)
    crash_on_the_way_back(link, here, 5)
    produce(link.target.bootstrap, topic_name, numbers(15, 18))
    tell(opposite_of(link), here)
    name = reverse_name(link.name)
    address = link.target.bootstrap
    text = link.link.file.read_text()
    link.link.file.write_text(text.replace(address, "127.0.0.1:1"))
    assert run(["failover", name, "-f", str(link.link.file), "--yes"]) == 0
    link.link.file.write_text(text)
    capsys.readouterr()
    assert run(["failback", name, "-f", str(link.link.file), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [one["records"] for one in found["diverged"]] == [3]
    link.copy(here)
    assert values(link.target, topic_name) == numbers(0, 18)


def test_that_times_would_be_replaced_is_told_before_and_after_a_link_turns(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    create_topic(link.source.bootstrap, f"{topic_name}.new", config=APPEND_TIME)
    capsys.readouterr()
    assert run(["check", "-f", str(link.link.file), "-o", "json"]) == 0
    (warning,) = json.loads(capsys.readouterr().out)
    assert warning["code"] == "source-append-time" and f"{topic_name}.new" in warning["finding"]
    assert f"--topic {topic_name}.new --add-config message.timestamp.type" in warning["remedy"]

    told = f"{topic_name} has message.timestamp.type=LogAppendTime on source"
    here, found = mirrored_back(link, topic_name, capsys)
    assert any(note.startswith(told) for note in found["notes"])
    copy_all(opposite_ends(link), here)
    tell(opposite_of(link), here)
    back = recover(link, capsys, "switch", "--back", "--fence", "none")
    assert not any("LogAppendTime" in note for note in back["notes"])  # the mirror keeps times
    produce(link.source.bootstrap, topic_name, numbers(15, 16))
    link.copy(here)
    for more in (("--dry-run",), ()):
        notes = recover(link, capsys, "switch", "--fence", "none", *more)["notes"]
        assert any(note.startswith(told) for note in notes)
