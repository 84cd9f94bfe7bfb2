"""Records that groups read again after a failover: Heliograph against MirrorMaker 2.

Both mirror the same topic of the same source to the same target, at the same time. While records
are written, some groups read steadily so many records behind the end; others commit once, at the
end. When both tools have copied everything and have had time to bring the groups over, the source's
broker and both tools are killed with kill -9. MirrorMaker 2 has set the groups' offsets by then;
Heliograph gets its ``failover``. Then each group's offset is compared with the records themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.race.helio import Heliograph, link_of
from bench.race.mirrormaker import MirrorMaker
from bench.race.tools import Leg, Running, fenced
from heliograph.local.launch import start
from heliograph.local.spec import Spec

LAGS = (1_000, 10_000, 100_000)
RECORDS = 200_000
RATE = 5_000
SETTLE_S = 15.0
TOPIC = "orders"
_FIRST = 1_000
_WITHIN_S = 120.0

OURS = Heliograph()
THEIRS = MirrorMaker(
    {
        "emit.checkpoints.enabled": "true",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "refresh.groups.enabled": "true",
        "refresh.groups.interval.seconds": "5",
        "emit.offset-syncs.enabled": "true",
        "offset.lag.max": "100",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
    },
    is_exactly_once=False,
)


class Moved(NamedTuple):
    """Where a group goes on, on a mirror, against where it was; None if it has no offset there."""

    again: int | None
    missed: int | None


@dataclass(frozen=True)
class Group:
    """A group that reads so many records behind the end: all the time, or only at the end."""

    lag: int
    is_steady: bool

    @property
    def name(self) -> str:
        """Its name, on both clusters."""
        return f"{'steady' if self.is_steady else 'once'}-{self.lag}"

    @property
    def told(self) -> str:
        """What it does, for the report."""
        return "commits every second" if self.is_steady else "commits once, at the end"


GROUPS = [Group(lag, is_steady) for is_steady in (True, False) for lag in LAGS]


def compare() -> list[str]:
    """Run once; return the report."""
    with tempfile.TemporaryDirectory(prefix="heliograph-bench-") as name:
        folder = Path(name)
        source, target = start(Spec(name="source"), Spec(name="target"), under=folder)
        with source, target:
            legs = [Leg(one, TOPIC, source.bootstrap, target.bootstrap) for one in ("ours", "mm2")]
            load = Load(source.bootstrap)
            with Running(OURS, legs[0], folder) as ours, Running(THEIRS, legs[1], folder) as mm2:
                load.write(_FIRST)
                for leg in legs:
                    _await_records(target.bootstrap, leg.mirror, _FIRST)
                load.flow(RECORDS)
                for leg in legs:
                    _await_records(target.bootstrap, leg.mirror, RECORDS)
                assert all(one == it for one, it in _read(source.bootstrap, TOPIC).items())
                time.sleep(SETTLE_S)
                source.node(1).kill()
                for tool in (ours, mm2):
                    _kill(tool)
            _fail_over(legs[0], folder)
            return _report([_moved(target.bootstrap, leg.mirror) for leg in legs])


class Load:
    """Writes numbers to the source's only partition, and commits for the groups."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
        )
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._end = 0
        for made in self._admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
            made.result(60)
        for group in GROUPS:
            self._commit(group, 0)

    def write(self, count: int) -> None:
        """Write the next numbers."""
        for _ in range(count):
            self._producer.produce(TOPIC, b"%d" % self._end, partition=0)
            self._end += 1
        assert self._producer.flush(60) == 0

    def flow(self, records: int) -> None:
        """Write at a steady rate until there are so many; let the groups follow."""
        began_s, before = time.monotonic(), self._end
        commit_s = began_s
        while self._end < records:
            due = before + int((time.monotonic() - began_s) * RATE)
            self.write(min(due, records) - self._end)
            if time.monotonic() >= commit_s:
                commit_s += 1
                self._commit_all(is_over=False)
            time.sleep(0.01)
        self._commit_all(is_over=True)

    def _commit_all(self, *, is_over: bool) -> None:
        for group in GROUPS:
            if self._end >= group.lag and (group.is_steady or is_over):
                self._commit(group, self._end - group.lag)

    def _commit(self, group: Group, offset: int) -> None:
        """Commit; on a new cluster, again until it is done."""
        at = ConsumerGroupTopicPartitions(group.name, [TopicPartition(TOPIC, 0, offset)])
        until_s = time.monotonic() + _WITHIN_S
        while time.monotonic() < until_s:
            (asked,) = self._admin.alter_consumer_group_offsets([at]).values()
            if not any(one.error for one in asked.result(60).topic_partitions):
                return
            time.sleep(0.1)
        raise AssertionError(f"{group.name} could not commit")


def _kill(tool: Running) -> None:
    tool.check()
    tool.tree.look()
    for pid in tool.tree.pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _fail_over(leg: Leg, folder: Path) -> None:
    command = [str(Path(sys.executable).with_name("heliograph")), "failover", link_of(leg), "--yes"]
    done = subprocess.run(
        [*command, "-f", str(folder / f"{leg.alias}.yaml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def _await_records(bootstrap: str, mirror: str, count: int) -> None:
    until_s = time.monotonic() + _WITHIN_S
    while time.monotonic() < until_s:
        if len(_read(bootstrap, mirror)) >= count:
            return
        time.sleep(0.5)
    raise AssertionError(f"{mirror} does not hold {count} records")


def _read(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the number of each record by its offset, as far as the log goes now."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    found: dict[int, int] = {}
    is_over = False
    while not is_over:
        for one in reader.consume(10_000, 0.2):
            is_over = is_over or bool(one.error())
            if not one.error():
                found[one.offset()] = int(one.value())
    reader.close()
    return found


def _moved(bootstrap: str, mirror: str) -> dict[Group, Moved]:
    """Return how each group was moved to a mirror."""
    records = _read(bootstrap, mirror)
    assert sorted(records.values()) == list(range(RECORDS)), f"{mirror} is no copy"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = {}
    for group in GROUPS:
        (asked,) = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group.name)]
        ).values()
        rows = asked.result(60).topic_partitions
        at = next((one.offset for one in rows if one.topic == mirror and one.offset >= 0), None)
        found[group] = judge(records, at, RECORDS - group.lag)
    return found


def judge(records: Mapping[int, int], at: int | None, was_at: int) -> Moved:
    """Say what a group that was at a number reads again, and what it misses.

    >>> judge({0: 0, 1: 1, 3: 2}, 1, 2)
    Moved(again=1, missed=0)
    """
    if at is None:
        return Moved(None, None)
    return Moved(
        sum(1 for offset, number in records.items() if offset >= at and number < was_at),
        sum(1 for offset, number in records.items() if offset < at and number >= was_at),
    )


def _report(moved: list[dict[Group, Moved]]) -> list[str]:
    ours, theirs = moved
    lines = [
        f"**Records that a group reads again after a failover**: {RECORDS:,} records in one"
        f" partition, written at {RATE:,}/s while both tools run; {SETTLE_S:.0f} s later the"
        " source and both tools are killed. None is missed, unless told.",
        "",
        "| group | records behind the end | Heliograph | MirrorMaker 2 |",
        "|---|---|---|---|",
    ]
    for group in GROUPS:
        cells = " | ".join(_told(one[group]) for one in (ours, theirs))
        lines.append(f"| {group.told} | {group.lag:,} | {cells} |")
    for tool in (OURS, THEIRS):
        lines += ["", fenced(tool.kind, tool.settings())]
    return lines


def _told(moved: Moved) -> str:
    if moved.again is None:
        return "no offset"
    return f"{moved.again:,}" + (f", {moved.missed:,} missed" if moved.missed else "")
