"""The sample of a drill: which records of a link are copied to which scratch topics. It blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heliograph.copy.finding import find_offsets
from heliograph.errors import Unsafe
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.offsets import EARLIEST, LATEST
from heliograph.links.setup import Setup, refuse_unbuilt
from heliograph.model.blueprint import name_mirrors
from heliograph.model.control import WANTED, Wanted, read
from heliograph.model.drills import Sampled, choose
from heliograph.model.findings import some
from heliograph.model.recovery import under_way, words_of
from heliograph.model.stages import read_stages
from heliograph.model.topics import ClusterView, Partition, TopicView
from heliograph.recovery.command import LOOK_TIMEOUT, Command, Options
from heliograph.recovery.scene import Scene
from heliograph.recovery.scratch import scratch_setup


@dataclass(frozen=True, slots=True)
class Sample:
    """What a drill is about. ``scratch`` is the link that is made, ``names`` its mirrors by topic.

    ``mirrors`` are the real ones by topic, ``shapes`` those as they are. ``pattern`` is for all
    topics that the link mirrors now, sampled or not. ``source`` and ``target`` are the clusters as
    they were seen.
    """

    scratch: Setup
    rehearses: str
    by: str
    pattern: str
    names: Mapping[str, str]
    mirrors: Mapping[str, str]
    shapes: Mapping[str, TopicView]
    parts: tuple[Sampled, ...]
    partitions_of_link: int
    source: ClusterView
    target: ClusterView
    bytes_per_second: int = 0
    notes: tuple[str, ...] = ()


def take_sample(
    setup: Setup, by: str, topics: str | None, most_partitions: int, most_records: int
) -> Sample:
    """Choose what to copy; raise Unsafe where a drill would show nothing."""
    refuse_unbuilt(setup.link)
    deadline = Deadline.after(LOOK_TIMEOUT)
    with Command(setup, Options(by, topics), lambda _: None) as command:
        scene = command.look(deadline)
        _refuse(command, scene)
        chosen, notes = _chosen(command, scene, deadline)
        source = command.source.look({one.topic for one in chosen}, deadline)
        target = command.target.look(set(scene.mirrors.values()), deadline)
        _refuse_another(command, scene, str(source.cluster_id))
        logs, more = _logs(command, [one for one in chosen if source.find(one)], deadline)
    scratch = scratch_setup(setup)
    names, unfit = name_mirrors(sorted({one.topic for one in logs}), scratch.mirror_rules)
    logs = {one: log for one, log in logs.items() if one.topic in names}
    if not logs:
        raise Unsafe(
            f"link {setup.link.name} has no partition that a drill could sample. Nothing was done."
            + "".join(f" {one}." for one in (*notes, *more, *unfit))
        )
    parts = choose(logs, names, most_partitions, most_records)
    used = {one.source.topic for one in parts}
    mirrors = {topic: scene.mirrors[topic] for topic in sorted(used)}
    return Sample(
        scratch,
        setup.link.name,
        by,
        "|".join(re.escape(topic) for topic in sorted({one.topic for one in chosen})),
        {topic: names[topic] for topic in mirrors},
        mirrors,
        {mirror: target.topics[mirror] for mirror in mirrors.values()},
        tuple(parts),
        len(scene.parts),
        source,
        target,
        _limit(setup, scene),
        (*notes, *more, *unfit),
    )


def _refuse(command: Command, scene: Scene) -> None:
    link = command.setup.link
    if (unfinished := under_way(scene.books.control)) is not None:
        words = words_of(unfinished.verb)
        raise Unsafe(
            f"a {words} of {link.name}, begun by {unfinished.by}, has not ended. Nothing was done:"
            f" this is no time for a drill. Finish it first: heliograph {words} {link.name}"
        )
    if not command.does_source_answer():
        raise Unsafe(
            f"{link.source} does not answer, and a drill copies from it. Nothing was done. If it is"
            f" lost: heliograph failover {link.name}"
        )


def _refuse_another(command: Command, scene: Scene, cluster_id: str) -> None:
    known = {one.origin.source_cluster_id for one in scene.ledgers.values()}
    if known and cluster_id not in known:
        link = command.setup.link
        raise Unsafe(
            f"{link.source} is another cluster (id {cluster_id}) than the one that {link.name}"
            f" mirrors (id {some(sorted(known))}). Nothing was done. Correct bootstrap.servers"
        )


def _chosen(
    command: Command, scene: Scene, deadline: Deadline
) -> tuple[list[Partition], list[str]]:
    """Return the partitions that are mirrored, and why topics are left out."""
    stages = read_stages(scene.books.control)
    notes = [
        f"{topic} was left out: it is {stages[topic].state}"
        for topic in sorted(scene.mirrors.keys() & stages.keys())
    ]
    notes += [f"{topic} was left out: its mirror is not there" for topic in scene.absent]
    topics = {one.topic for one in scene.parts} - stages.keys()
    there = command.source.look(topics, deadline).topics if topics else {}
    notes += [
        f"{topic} was left out: it is not there on the source"
        for topic in sorted(topics - there.keys())
    ]
    return [one for one in scene.parts if one.topic in topics and one.topic in there], notes


def _logs(
    command: Command, parts: Iterable[Partition], deadline: Deadline
) -> tuple[dict[Partition, range], list[str]]:
    """Return what the source holds, committed, and which partitions cannot be asked."""
    wanted = list(parts)
    starts = find_offsets(command.source, dict.fromkeys(wanted, EARLIEST), deadline)
    ends = find_offsets(
        command.source, dict.fromkeys(wanted, LATEST), deadline, read_committed=True
    )
    logs: dict[Partition, range] = {}
    notes = []
    for one in wanted:
        start, end = starts[one], ends[one]
        if isinstance(start, int) and isinstance(end, int):
            logs[one] = range(start, end)
        else:
            notes.append(f"{one} was left out: {start if isinstance(end, int) else end}")
    return logs, notes


def _limit(setup: Setup, scene: Scene) -> int:
    """Return how fast the link may copy at most; 0 is without a limit."""
    wanted = read(scene.books.control, WANTED, Wanted) or Wanted()
    if wanted.bytes_per_second is not None:
        return wanted.bytes_per_second
    return setup.link.limits.bytes_per_second or 0
