"""Mirrors that follow their source topics into deletion; every doubt keeps them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.raw_copy import within
from heliograph.cli.app import run
from heliograph.control.deleting import Deleting
from heliograph.control.reconcile import Observed, Reconciler
from heliograph.copy.closing import close_blind
from heliograph.copy.opening import Ends
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fence import claim
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Table
from heliograph.links.own_topics import make_own_topics
from heliograph.links.setup import Setup
from heliograph.model.blueprint import Ours
from heliograph.model.control import FirstLook, Wanted
from heliograph.model.ledger import Ledger, Origin
from heliograph.model.mirrors import Delete
from heliograph.model.names import ledger_topic, transactional_id
from heliograph.model.topics import Partition
from tests.broker.linked import (
    copy_all,
    opened_one,
    produce,
    step_until,
    streaming,
)
from tests.broker.links import Link, make_link
from tests.making import create_topic, delete_topic


class Stopped:
    """A clock for a process that is stopped for a while: ``stood_s`` more have passed."""

    def __init__(self) -> None:
        self.stood_s = 0.0

    def monotonic(self) -> float:
        return clock.REAL.monotonic() + self.stood_s

    def time(self) -> float:
        return clock.REAL.time() + self.stood_s


class Followed:
    """A link whose mirrors are deleted with their topics, and what was noted for it."""

    def __init__(self, link: Link, setup: Setup, reconciler: Reconciler, target: Admin) -> None:
        self.link, self.setup, self.reconciler, self.target = link, setup, reconciler, target
        self.ours = Ours()

    def look(self, leased: tuple[str, ...] = ()) -> Observed:
        time.sleep(0.05)  # deletions are looked at every 10 ms
        observed = self.reconciler.look(self.ours, Wanted(), within(30), leased)
        made = {**self.ours.made, **observed.made}
        for name in observed.deleted:
            del made[name]
        first = observed.beginning.first or self.ours.first
        self.ours = Ours(made, first=first)
        return observed

    def has(self, topic: str) -> bool:
        return topic in self.target.topics.describe([topic], within(20))


@pytest.fixture
def followed(source: Any, target: Any, tmp_path: Path, topic_name: str) -> Iterator[Followed]:
    link = make_link(
        tmp_path,
        source.bootstrap,
        target,
        more="    sync: {deletes: 10ms}",
        topics=f'"{topic_name}.*"',
    )
    from heliograph.wiring import load_config, setups

    (setup,) = setups(load_config(link.file))
    with (
        Admin(parse("target", target.client_properties()), "target") as admin,
        closing(Reconciler(setup)) as reconciler,
    ):
        make_own_topics(admin, link.name, within(20))
        yield Followed(link, setup, reconciler, admin)


def ledger_of(topic: str, mirror_id: str) -> dict[bytes, bytes | None]:
    """Return the rows of a ledger about a mirror."""
    return Ledger(Partition(topic, 0), Origin("a", "b", "c", mirror_id)).take_changes()


def test_a_mirror_goes_when_its_topic_is_gone_for_good_and_nobody_copies_it(
    source: Any, followed: Followed, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name)
    followed.look()
    assert followed.has(topic_name)
    other = {f"{topic_name}x/0".encode(): b'{"producer_ids":[]}'}
    mirror_id = followed.ours.made[topic_name].topic_id
    followed.link.put(ledger_topic(followed.link.name), ledger_of(topic_name, mirror_id) | other)
    delete_topic(source.bootstrap, topic_name)
    assert followed.look().gone == frozenset(), "once is not for good"
    observed = followed.look(leased=(topic_name,))
    assert observed.gone == {topic_name} and observed.deleted == ()
    assert followed.has(topic_name), "a task copies to it"
    assert followed.look().deleted == (topic_name,)
    assert not followed.has(topic_name)
    assert followed.link.rows(ledger_topic(followed.link.name)) == other
    assert followed.look().deleted == ()


def test_a_mirror_goes_with_what_a_killed_writer_had_not_written_down(
    source: Any, followed: Followed, ends: tuple[Cluster, Cluster], here: Partition
) -> None:
    """And with the marker of a claim, by somebody who found the source gone."""
    create_topic(source.bootstrap, here.topic)
    followed.look()
    name = followed.link.name
    link = Ends(name, *ends, ledger_topic(name))
    produce(source.bootstrap, here.topic, [b"a", b"b"])
    copy_all(link, here)
    produce(source.bootstrap, here.topic, [b"c"])
    stream = streaming(link, opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].position == 3)
    stream.close()
    delete_topic(source.bootstrap, here.topic)
    books = Partition(link.ledger_topic, 0)
    claim(link.target, transactional_id(name, *here), [here, books], within(20))
    seen = [followed.look() for _ in range(3)]
    assert not any(one.errors for one in seen)
    assert any(one.deleted for one in seen) and not followed.has(here.topic)
    assert followed.link.rows(ledger_topic(name)) == {}


def test_a_mirror_that_others_wrote_to_stays(
    source: Any, target: Any, followed: Followed, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name)
    followed.look()
    produce(target.bootstrap, topic_name, [b"after a failover"])
    delete_topic(source.bootstrap, topic_name)
    errors = [error for _ in range(4) for error in followed.look().errors]
    assert followed.has(topic_name)
    assert any("was not deleted" in error for error in errors)


def test_a_mirror_that_was_closed_stays_also_while_nobody_has_written_to_it(
    source: Any, followed: Followed, ends: tuple[Cluster, Cluster], here: Partition
) -> None:
    create_topic(source.bootstrap, here.topic)
    followed.look()
    name = followed.link.name
    link = Ends(name, *ends, ledger_topic(name))
    produce(source.bootstrap, here.topic, [b"a", b"b"])
    copy_all(link, here)
    close_blind(link, {here: here}, "FAILED_OVER", within(20))
    delete_topic(source.bootstrap, here.topic)
    errors = [error for _ in range(4) for error in followed.look().errors]
    assert followed.has(here.topic)
    assert any("it is FAILED_OVER" in error for error in errors)


def test_a_topic_that_comes_back_keeps_its_mirror(
    source: Any, followed: Followed, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name)
    followed.look()
    delete_topic(source.bootstrap, topic_name)
    followed.look()
    create_topic(source.bootstrap, topic_name)
    followed.look()
    delete_topic(source.bootstrap, topic_name)
    assert followed.look().gone == frozenset(), "absence is counted anew"


def test_a_topic_that_heliograph_did_not_make_stays(
    source: Any, target: Any, followed: Followed, topic_name: str
) -> None:
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic_name)
    followed.look()
    delete_topic(source.bootstrap, topic_name)
    for _ in range(4):
        assert followed.look().deleted == ()
    assert followed.has(topic_name)


def test_a_mirror_that_somebody_made_anew_stays_and_so_does_its_ledger(
    source: Any, target: Any, followed: Followed, topic_name: str
) -> None:
    """A driver that was replaced while it deleted finds what the next one made."""
    create_topic(source.bootstrap, topic_name)
    followed.look()
    delete_topic(target.bootstrap, topic_name)
    create_topic(target.bootstrap, topic_name)
    anew = followed.target.topics.describe([topic_name], within(20))[topic_name]
    rows = ledger_of(topic_name, str(anew.topic_id))
    followed.link.put(ledger_topic(followed.link.name), rows)
    delete_topic(source.bootstrap, topic_name)
    for _ in range(4):
        followed.look()
    assert followed.has(topic_name)
    assert followed.link.rows(ledger_topic(followed.link.name)) == rows


def test_another_cluster_in_the_place_of_the_source_deletes_nothing(
    source: Any, followed: Followed, topic_name: str
) -> None:
    create_topic(source.bootstrap, topic_name)
    followed.look()
    followed.ours = Ours(followed.ours.made, first=FirstLook(1, "another cluster"))
    delete_topic(source.bootstrap, topic_name)
    for _ in range(4):
        assert followed.look().gone == frozenset()
    assert followed.has(topic_name)


def test_plan_shows_what_would_be_deleted(
    source: Any,
    target: Any,
    followed: Followed,
    topic_name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from heliograph.links.helm import Helm

    create_topic(source.bootstrap, topic_name)
    observed = followed.look()
    with Cluster(parse("target", target.client_properties()), "target") as cluster:
        helm = Helm(cluster, followed.link.name)
        helm.take(within(30))
        helm.note(observed.made, (), {}, observed.beginning.first, None)
        assert Table(cluster, helm.control.topic).load(within(20))
    delete_topic(source.bootstrap, topic_name)
    assert run(["plan", followed.link.name, "-f", str(followed.link.file), "-o", "json"]) == 0
    shown = capsys.readouterr().out
    assert '"delete"' in shown and topic_name in shown
    assert followed.has(topic_name)


def test_a_driver_that_stood_still_before_it_deletes_keeps_the_mirror(
    source: Any, followed: Followed, here: Partition
) -> None:
    """A failover may have given it to applications since it was looked at."""
    create_topic(source.bootstrap, here.topic)
    followed.look()
    delete_topic(source.bootstrap, here.topic)
    change = Delete(here.topic, followed.ours.made[here.topic].topic_id, here.topic)

    process = Stopped()

    class Stopping(Deleting):
        def _refuse_others(self, *seen: Any) -> None:
            super()._refuse_others(*seen)
            process.stood_s += 15

    def delete(deleting: Deleting) -> tuple[tuple[str, ...], list[str]]:
        return deleting.delete([here.topic], [change], within(120))

    with clock.moved_by(process):
        deleted, errors = delete(Stopping(followed.setup, followed.target))
    assert deleted == () and followed.has(here.topic)
    assert "over before it was sent" in errors[0]
    assert delete(Deleting(followed.setup, followed.target)) == ((here.topic,), [])
