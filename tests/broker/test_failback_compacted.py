"""`failback` when compaction took records of either side that were never on record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heliograph.kafka.records import encode
from heliograph.local.brokers import Cluster
from tests.broker.linked import (
    await_holes,
    copy_all,
    opened_one,
    record,
    step_until,
    streaming,
    write_batches,
)
from tests.broker.recovering import find_source, lose_source, opposite_ends, recover, tell
from tests.broker.test_failback_losses import linked_from
from tests.checker.reading import read_partition


def newest(cluster: Any, topic: str) -> dict[bytes | None, bytes | None]:
    found = read_partition(cluster.bootstrap, topic, 0, committed=False)
    return {one.key: one.value for _, one in found if one.key != b"filler"}


@pytest.mark.parametrize("side", ["source", "target"])
def test_compaction_of_either_side_between_failover_and_failback_does_not_look_like_divergence(
    side: str,
    private_cluster: Callable[..., Cluster],
    source: Any,
    target: Any,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the mirror, because of what applications wrote there since."""
    cleaning = private_cluster(name="cleaning", properties={"log.cleaner.backoff.ms": "100"})
    sides = {"source": source, "target": target} | {side: cleaning}
    rolls: Any = {"segment_ms": "500", "min_cleanable_dirty_ratio": "0.0"}
    with linked_from(sides["source"], sides["target"], tmp_path, topic_name) as link:
        here = link.make(topic_name, cleanup_policy="compact", **rolls)
        rows = [record(b"%d" % n, key=b"k%d" % (n * n % 20)) for n in range(60)]
        write_batches(link.ends.source, here, [encode(rows[:30]), encode(rows[30:])])
        stream = streaming(link.ends, opened_one(link.ends, here))
        step_until(stream, lambda: stream.parts[here].position >= 60)
        stream.close()  # without a word: nothing of it is on record
        tell(link, here)
        lose_source(link)
        recover(link, capsys, "failover", "--yes")
        find_source(link)
        wanted = {row.key: row.value for row in rows}
        since = [record(b"since", key=key) for key in list(wanted)[::2]]
        write_batches(link.ends.target, here, [encode(since)])
        await_holes(getattr(link.ends, side), here)
        recover(link, capsys, "failback")
        copy_all(opposite_ends(link), here)
        wanted |= {row.key: row.value for row in since}
        assert newest(link.source, topic_name) == newest(link.target, topic_name) == wanted
