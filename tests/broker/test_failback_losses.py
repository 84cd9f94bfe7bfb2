"""`failback` when a side lost records, grew, or was made anew: no record goes without a word."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from heliograph.copy.rematching import rematch
from heliograph.kafka.cluster import Cluster as KafkaCluster
from heliograph.kafka.properties import parse
from heliograph.kafka.transport import Loop
from heliograph.local.brokers import Cluster
from heliograph.model.ledger import read_ledger
from heliograph.model.names import ledger_topic
from tests.broker.groups import GroupLink, group_link
from tests.broker.linked import produce, within
from tests.broker.recovering import Make, numbers, recover, refused, stages, tell
from tests.checker.reading import read_partition


@pytest.fixture
def make(tmp_path: Path, source: Any, target: Any, ends: tuple[Any, Any], topic_name: str) -> Make:
    def made(more: str = "") -> GroupLink:
        return group_link(tmp_path, source, target, ends, topic_name, more)

    return made


def values(cluster: Any, topic: str, partition: int = 0) -> list[bytes | None]:
    found = read_partition(cluster.bootstrap, topic, partition, committed=False)
    return [one.value for _, one in found]


@contextmanager
def linked_from(source: Cluster, target: Any, folder: Path, topic_name: str) -> Iterator[GroupLink]:
    """A link from a cluster of this test alone."""
    loop = Loop()
    ends = [
        KafkaCluster(parse(name, one.client_properties()), name, loop)
        for name, one in (("source", source), ("target", target))
    ]
    try:
        yield group_link(folder, source, target, (ends[0], ends[1]), topic_name)
    finally:
        loop.close()


def test_a_source_that_lost_its_log_and_wrote_others_is_not_taken_for_what_was_copied(
    private_cluster: Callable[..., Cluster],
    target: Any,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = private_cluster(name="losing")
    with linked_from(source, target, tmp_path, topic_name) as link:
        here = link.make(topic_name)
        produce(source.bootstrap, topic_name, numbers(0, 20))
        link.copy(here)
        tell(link, here)
        recover(link, capsys, "failover", "--yes")
        source.node(1).stop()
        shutil.rmtree(source.folder.data(1) / f"{topic_name}-0")
        source.node(1).start()
        produce(source.bootstrap, topic_name, numbers(500, 530))
        told = refused(link, capsys, "failback", code=1)
        assert f"{here} was copied up to offset 20" in told and "--wipe" in told
        assert stages(link) == {topic_name: "FAILING_BACK"}
        # Also where nobody noted the leader epoch: the records themselves tell.
        ledger = read_ledger(here, link.link.rows(ledger_topic(link.name)))
        assert ledger is not None and ledger.source_epoch >= 0
        ledger.source_epoch = -1
        failed = rematch(link.ends, {here: here}, {here: ledger}, within(30)).failed
        assert "holds at offset 0 something else" in str(failed[here])
