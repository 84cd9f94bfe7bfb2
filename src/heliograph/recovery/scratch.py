"""The scratch link of a drill: made beside the real one, and removed without a trace.

Its topics and its group bear its name, under a prefix that no link ever copies. What a drill that
was killed left behind is found by that name, and told from a link that only happens to be called
so by a row in its control topic.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from heliograph.errors import HeliographError, NotAuthorized, TopicMissing, Unsafe
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.links.books import BooksReader
from heliograph.links.own_topics import make_own_topics
from heliograph.links.setup import Setup
from heliograph.model.configs import ConfigEntry, ConfigSource, NewTopic
from heliograph.model.control import read, row
from heliograph.model.drills import DRILL, Mark
from heliograph.model.mirrors import SettingRules, mirror_configs
from heliograph.model.moments import moment
from heliograph.model.names import (
    control_topic,
    drill_link,
    drill_named,
    own_topics,
    scratch_group,
    scratch_naming,
)
from heliograph.model.topics import TopicView

_FOR_EVER = str((1 << 63) - 1)
# What is sampled may be older than any retention, and must be there when it is compared.
_KEPT = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "min.compaction.lag.ms": _FOR_EVER,
    "max.compaction.lag.ms": _FOR_EVER,
}
# Storage elsewhere is not for what lives for seconds.
_TIERED = ("remote\\..*", "local\\..*")
_GONE_TIMEOUT = timedelta(seconds=15)
_PAUSE_S = 0.1


def scratch_setup(setup: Setup) -> Setup:
    """Return a link like this one, with a name, mirrors and a group of its own."""
    drill = drill_link(setup.link.name, secrets.token_hex(4))
    group = scratch_group(drill)
    link = replace(
        setup.link,
        name=drill,
        naming=scratch_naming(drill),
        groups=(group,),
        groups_exclude=(),
    )
    return replace(setup, link=link)


def make(
    scratch: Setup,
    mark: Mark,
    mirrors: Mapping[str, str],
    shapes: Mapping[str, TopicView],
    deadline: Deadline,
) -> list[str]:
    """Make the link's own topics, say what they are for, and then the mirrors; return notes.

    ``mirrors`` are scratch topics by the real mirror whose shape and settings they take, ``shapes``
    are those mirrors as they are.
    """
    link = scratch.link
    with (
        Admin(scratch.target_settings, link.target) as admin,
        Cluster(scratch.target_settings, link.target) as target,
    ):
        make_own_topics(admin, link.name, deadline)
        Table(target, control_topic(link.name)).put({DRILL: row(mark)}, deadline)
        settings, notes = _settings(admin, mirrors, deadline)
        new = [
            NewTopic(
                name,
                len(shapes[mirror].partitions),
                max(len(one.replicas) for one in shapes[mirror].partitions.values()),
                {**mirror_configs(settings.get(mirror, {}), SettingRules(_TIERED)), **_KEPT},
            )
            for mirror, name in mirrors.items()
        ]
        for outcome in admin.topics.create_many(new, known_only=True, deadline=deadline).values():
            if isinstance(outcome, HeliographError):
                raise outcome
        admin.topics.await_leaders(mirrors.values(), deadline)
    return notes


def _settings(
    admin: Admin, mirrors: Collection[str], deadline: Deadline
) -> tuple[dict[str, dict[str, ConfigEntry]], list[str]]:
    """Return what was set on the real mirrors, or a note why that is not known."""
    try:
        found = admin.configs.of_topics(mirrors, deadline)
    except NotAuthorized as hidden:
        return {}, [f"the scratch topics have not the settings of the real mirrors: {hidden}"]
    set_there = {
        mirror: {name: one for name, one in some.items() if one.source is ConfigSource.TOPIC}
        for mirror, some in found.items()
    }
    return set_there, []


def mark_of(setup: Setup, by: str) -> Mark:
    """Return the mark of a drill that this process begins now."""
    return Mark(setup.link.name, by, socket.gethostname(), os.getpid(), clock.wall_ms())


def find_leftovers(setup: Setup, deadline: Deadline, *, by_force: bool = False) -> list[str]:
    """Return the scratch links that earlier drills of a link left behind.

    Raises Unsafe where one may be under way, unless its end is wanted whatever it does.
    """
    link = setup.link
    with Admin(setup.target_settings, link.target) as admin:
        names = _named(admin, link.name, deadline)
    found = sorted({drill_named(link.name, name) or "" for name in names})
    with Cluster(setup.target_settings, link.target) as target:
        return [one for one in found if _is_leftover(setup, target, one, deadline, by_force)]


def _is_leftover(
    setup: Setup, target: Cluster, drill: str, deadline: Deadline, by_force: bool
) -> bool:
    about = replace(setup, link=replace(setup.link, name=drill))
    books = BooksReader(about, target).read(deadline)
    mark = read(books.control, DRILL, Mark)
    if mark is None:  # one that was killed before it put its mark has put nothing else either
        return not (books.control or books.ledger or books.state)
    if mark.link != setup.link.name:
        return False
    living = _is_other_process(mark.pid)
    if by_force or not mark.may_be_alive(clock.wall_ms(), socket.gethostname(), living):
        return True
    raise Unsafe(
        f"a drill of {mark.link} may be under way: {mark.by} began it at {moment(mark.begun_ms)}"
        f" on {mark.host} as process {mark.pid}. Nothing was done. Wait for its end; if it is dead,"
        f" heliograph drill {mark.link} --clean removes what it made"
    )


def _is_other_process(pid: int) -> bool:
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove(setup: Setup, drills: Iterable[str]) -> tuple[list[str], list[str]]:
    """Remove scratch links; return the names of what is gone, and of what could not be removed.

    The control topic goes last: as long as it is there, the next drill knows what the rest is.
    """
    wanted = set(drills)
    if not wanted:
        return [], []
    deadline = Deadline.after(_GONE_TIMEOUT)
    with Admin(setup.target_settings, setup.link.target) as admin:
        before = _named(admin, setup.link.name, deadline, wanted)
        for drill in wanted:
            _remove(admin, drill, before, deadline)
        left = _await_gone(admin, setup.link.name, wanted, deadline)
    return sorted(set(before) - set(left)), left


def _remove(admin: Admin, drill: str, names: Collection[str], deadline: Deadline) -> None:
    group, last = scratch_group(drill), own_topics(drill)
    topics = [one for one in names if one.startswith(f"{group}.") and one not in last]
    if group in names:
        admin.groups.delete(group, deadline)
    for name in (*topics, *(one for one in reversed(last) if one != control_topic(drill))):
        _delete(admin, name, names, deadline)
    _delete(admin, control_topic(drill), names, deadline)


def _delete(admin: Admin, topic: str, names: Collection[str], deadline: Deadline) -> None:
    if topic in names:
        with suppress(TopicMissing):  # somebody else cleans, too
            admin.topics.delete(topic, deadline)


def _await_gone(admin: Admin, link: str, drills: set[str], deadline: Deadline) -> list[str]:
    """Wait until brokers have forgotten it all; return what they have not."""
    while True:
        left = _named(admin, link, deadline, drills)
        if not left or deadline.left_s < 1:
            return left
        time.sleep(_PAUSE_S)


def _named(
    admin: Admin, link: str, deadline: Deadline, drills: Collection[str] | None = None
) -> list[str]:
    """Return the topics and groups on the target that are of drills of a link: all, or these."""
    names = admin.topics.names(deadline)
    names += [one.group for one in admin.groups.listing(deadline=deadline)]
    of = {one: drill for one in names if (drill := drill_named(link, one))}
    return sorted(one for one, drill in of.items() if drills is None or drill in drills)
