"""Recovery in tests: a link and its opposite direction, commands, and what their rows say."""

from __future__ import annotations

import json
import multiprocessing
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from heliograph.cli.app import run
from heliograph.copy.opening import Ends
from heliograph.kafka import clock, crash
from heliograph.kafka.tables import Table
from heliograph.model.checkpoints import Checkpoint, Place, checkpoint_key, place_key
from heliograph.model.control import Heard, heard_key, row
from heliograph.model.names import control_topic, ledger_topic, reverse_name, state_topic
from heliograph.model.stages import read_stages
from heliograph.model.topics import Partition
from heliograph.recovery import command, stillness
from tests.broker.groups import GroupLink
from tests.broker.linked import copy_all, produce, within
from tests.broker.links import link_report, part_report
from tests.checker.reading import read_partition

Make = Callable[..., GroupLink]
# A source that is lost on purpose answers no sooner and no later.
_LOST_TIMEOUT = timedelta(seconds=0.2)
_ANSWER_TIMEOUT = command._ANSWER_TIMEOUT


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def values(cluster: Any, topic: str, partition: int = 0) -> list[bytes | None]:
    """Return what a partition holds, as a reader sees it who minds no transactions."""
    found = read_partition(cluster.bootstrap, topic, partition, committed=False)
    return [one.value for _, one in found]


def mirrored(link: GroupLink, topic: str, count: int) -> Partition:
    """Make a topic of so many numbered records, and let the link copy them and report."""
    here = link.make(topic)
    produce(link.source.bootstrap, topic, numbers(0, count))
    link.copy(here)
    tell(link, here)
    return here


def switched(link: GroupLink, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Copy five records, and switch; the opposite direction has caught up."""
    here = mirrored(link, topic, 5)
    recover(link, capsys, "switch", "--fence", "none")
    copy_all(opposite_ends(link), here)
    tell(opposite_of(link), here)


def tell(link: GroupLink, *parts: Partition, lag: int = 0) -> None:
    """Report what a driver and its tasks would: the source was heard a moment ago."""
    topics = {one.topic: one.topic for one in parts}
    report = part_report(lag, newest_ms=clock.wall_ms() - 3000)
    link.link.report(link_report(topics=topics), dict.fromkeys(parts, report))
    heard = row(Heard(1, 1, clock.wall_ms()))
    link.link.put(state_topic(link.name), {heard_key(0): heard})


def checkpoint(
    group: str, offsets: dict[Partition, int], metadata: str = ""
) -> dict[bytes, bytes | None]:
    """Return the row of a group that was seen on the source, and never set on the target."""
    places = {place_key(one): Place(at, metadata=metadata) for one, at in offsets.items()}
    return {checkpoint_key(group): row(Checkpoint(clock.wall_ms(), places))}


def lose_source(link: GroupLink) -> None:
    """Let nobody answer where the source was."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    text = link.link.file.read_text()
    link.link.file.write_text(text.replace(link.source.bootstrap, f"127.0.0.1:{port}"))
    command._ANSWER_TIMEOUT = _LOST_TIMEOUT


def lose_target(link: GroupLink) -> None:
    """Let nobody answer where the target was."""
    text = link.link.file.read_text()
    link.link.file.write_text(text.replace(link.target.bootstrap, "127.0.0.1:1"))


def find_source(link: GroupLink) -> None:
    """Let the source answer again."""
    text = link.link.file.read_text()
    address = text.partition('source: {bootstrap.servers: "')[2].partition('"')[0]
    link.link.file.write_text(text.replace(address, link.source.bootstrap, 1))
    command._ANSWER_TIMEOUT = _ANSWER_TIMEOUT


def opposite_ends(link: GroupLink) -> Ends:
    """Return both ends of the opposite direction of a link."""
    name = reverse_name(link.name)
    return Ends(name, link.ends.target, link.ends.source, ledger_topic(name))


def opposite_of(link: GroupLink) -> GroupLink:
    """Return the opposite direction as a link of its own."""
    opposite = replace(link.link, name=reverse_name(link.name), target=link.source)
    return replace(link, link=opposite)


def recover(
    link: GroupLink, capsys: pytest.CaptureFixture[str], verb: str, *more: str, code: int = 0
) -> dict[str, Any]:
    """Give a command and return what it says to programs."""
    capsys.readouterr()
    ended = run(link.link.words(verb, *more, "-o", "json"))
    told = capsys.readouterr()
    assert ended == code and told.out, told.err
    (found,) = json.loads(told.out)
    assert isinstance(found, dict)
    return found


def refused(
    link: GroupLink, capsys: pytest.CaptureFixture[str], verb: str, *more: str, code: int = 3
) -> str:
    """Give a command that is refused and return what it says to people."""
    capsys.readouterr()
    assert run(link.link.words(verb, *more)) == code
    return capsys.readouterr().err


# From a process that has loaded everything already: a command is one of many in a test.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["heliograph.cli.recover", "heliograph.cli.turn"])


def die_at(point: str, words: list[str]) -> int | None:
    """Give a command in a process that dies at a crash point; return how it ended."""
    patience = stillness.WATCH, command._ANSWER_TIMEOUT
    process = _PROCESSES.Process(target=_pass, args=(point, words, *patience))
    process.start()
    process.join(60)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode


def _pass(point: str, words: list[str], watch: timedelta, answer: timedelta) -> None:
    crash._point = point
    stillness.WATCH, command._ANSWER_TIMEOUT = watch, answer
    sys.exit(run(words))


def stages(link: GroupLink) -> dict[str, str]:
    """Return the stages of a link's topics."""
    found = read_stages(link.link.rows(control_topic(link.name)))
    return {topic: one.state for topic, one in found.items()}


def opposite_stages(link: GroupLink) -> dict[str, str]:
    """Return the stages of the topics of a link's opposite direction."""
    rows = Table(link.ends.source, control_topic(reverse_name(link.name))).load(within(20))
    return {topic: one.state for topic, one in read_stages(rows).items()}
