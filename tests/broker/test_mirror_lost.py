"""A target that loses the end of mirrors that it had acknowledged: found out, and made good.

One broker is killed and the newest batches are cut off its segments, which is what an unclean
election leaves. Then claims put their markers in the place of what is gone.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.copy.claiming import claim_parts
from heliograph.copy.closing import close_blind
from heliograph.copy.handing import is_led_as_claimed
from heliograph.copy.opening import Ends, Opened
from heliograph.errors import Diverged, GapFound
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fence import Claim
from heliograph.kafka.properties import parse
from heliograph.kafka.records import encode
from heliograph.kafka.tables import Table
from heliograph.kafka.transport import Loop
from heliograph.local.brokers import Cluster as LocalCluster
from heliograph.local.launch import start
from heliograph.local.spec import Spec
from heliograph.model.ledger import Ledger, read_ledger
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.linked import (
    check_link,
    copy_all,
    make_ledger,
    open_one,
    opened_one,
    produce,
    record,
    same,
    within,
    write_batches,
)
from tests.checker.reading import read_partition
from tests.making import create_topic

KEPT, LOST = 6, 4
SCENES = ("again", "shared", "blind", "overtaken", "behind", "whole")


class Lossy:
    """A target after its loss, and a link for each scene; the mirror of one is ``whole``."""

    def __init__(self, source: Any, target: LocalCluster, tail: str) -> None:
        self.source, self.target, self._tail = source, target, tail

    def here(self, scene: str) -> Partition:
        return Partition(f"lost-{scene}.{self._tail}", 0)

    def link(self, scene: str, ends: tuple[Cluster, Cluster]) -> Ends:
        return Ends(f"lost-{scene}-{self._tail}", *ends, f"{self.here(scene).topic}.ledger")


def cut(log: Path, batches: int) -> None:
    """Take the last batches off a segment; the broker makes its indexes anew."""
    data, ends = log.read_bytes(), [0]
    while ends[-1] < len(data):
        (length,) = struct.unpack_from(">i", data, ends[-1] + 8)
        if length <= 0:
            break
        ends.append(ends[-1] + 12 + length)
    log.write_bytes(data[: ends[-1 - batches]])
    for other in log.parent.glob("0*"):
        if other != log:
            other.unlink()


def connected(source: Any, target: Any) -> tuple[Cluster, Cluster, Loop]:
    loop = Loop()
    one = Cluster(parse("source", source.client_properties()), "source", loop)
    return one, Cluster(parse("target", target.client_properties()), "target", loop), loop


@pytest.fixture(scope="module")
def lossy(source: Any, clusters_folder: Path) -> Iterator[Lossy]:
    """Copy ten records in four batches for each scene; then the target loses the last two."""
    (target,) = start(Spec(name="lossy"), under=clusters_folder)
    made = Lossy(source, target, secrets.token_hex(4))
    one, other, loop = connected(source, target)
    for scene in SCENES:
        here = made.here(scene)
        for cluster in (source, target):
            create_topic(cluster.bootstrap, here.topic)
        make_ledger(target.bootstrap, here.topic)
        for first, end in ((0, 3), (3, KEPT), (KEPT, 8), (8, KEPT + LOST)):
            produce(source.bootstrap, here.topic, [b"%d" % n for n in range(first, end)])
            # Each opening leaves a marker, so that no two batches are joined.
            copy_all(made.link(scene, (one, other)), here)
    loop.close()
    node = target.nodes[0]
    node.kill()
    for scene in set(SCENES) - {"whole"}:
        # Batch, marker, batch: what was copied last stands behind the marker of its claim.
        cut(next(target.folder.root.rglob(f"{made.here(scene).topic}-0/*.log")), batches=3)
    node.start()
    yield made
    target.stop()


@pytest.fixture
def both(lossy: Lossy) -> Iterator[tuple[Cluster, Cluster]]:
    one, other, loop = connected(lossy.source, lossy.target)
    yield one, other
    loop.close()


def claim_until_hidden(link: Ends, here: Partition) -> None:
    """Let claims put as many markers as records are gone, as tasks do that start again."""
    link.target.describe([link.ledger_topic, here.topic], within(20))
    for _ in range(LOST + 3):
        claim_parts(link, {here: here}, within(20))


def values(lossy: Lossy, here: Partition) -> list[bytes | None]:
    seen = read_partition(lossy.target.bootstrap, here.topic, 0, committed=False)
    return [one.value for _, one in seen]


def test_what_a_mirror_lost_is_copied_again_however_many_claims_came_between(
    lossy: Lossy, both: tuple[Cluster, Cluster]
) -> None:
    here, link = lossy.here("again"), lossy.link("again", both)
    claim_until_hidden(link, here)
    assert values(lossy, here) == [b"%d" % n for n in range(KEPT)]
    opened = copy_all(link, here)
    assert same(lossy.source, lossy.target, here) == KEPT + LOST
    check_link(lossy.source, lossy.target, link, here.topic)
    (loss,) = opened.ledger.losses
    assert (loss.records, loss.source_start) == (LOST, KEPT)
    assert opened.ledger.records == KEPT + LOST
    (kept,) = opened_one(link, here).ledger.losses  # it stays on record
    assert kept == loss


def test_on_a_shared_mirror_records_of_others_do_not_hide_a_loss(
    lossy: Lossy, both: tuple[Cluster, Cluster]
) -> None:
    here, link = lossy.here("shared"), lossy.link("shared", both)
    others = [b"other %d" % n for n in range(3 * LOST)]
    produce(lossy.target.bootstrap, here.topic, others)
    opened = copy_all(link, here, Policies(is_shared=True))
    assert [loss.records for loss in opened.ledger.losses] == [LOST]
    ours = [value for value in values(lossy, here) if value not in others]
    assert ours == [b"%d" % n for n in range(KEPT + LOST)]


def test_a_short_mirror_is_closed_without_its_source_and_the_loss_is_counted(
    lossy: Lossy, both: tuple[Cluster, Cluster]
) -> None:
    here, link = lossy.here("blind"), lossy.link("blind", both)
    claim_until_hidden(link, here)
    closed = close_blind(link, {here: here}, "FAILED_OVER", within(30))[here]
    assert isinstance(closed, Ledger) and closed.closing is not None
    assert closed.closing.unmatched == 0
    assert closed.source_next == KEPT, "what is missing begins with what was lost"
    assert [loss.records for loss in closed.losses] == [LOST]


def test_what_the_source_does_not_have_any_more_either_is_a_gap(
    lossy: Lossy, both: tuple[Cluster, Cluster]
) -> None:
    here, link = lossy.here("overtaken"), lossy.link("overtaken", both)
    with Admin(link.source.settings, "source") as admin:
        admin.logs.delete_records({here: KEPT + 1})
    for _ in range(2):  # it is not forgotten by the second look
        refused = open_one(link, here)
        assert isinstance(refused, GapFound), refused
        assert (refused.source_start, refused.source_end) == (KEPT, KEPT + 1)
    opened = copy_all(link, here, Policies(on_gap="skip"))
    assert [(gap.source_start, gap.source_end) for gap in opened.ledger.gaps] == [(KEPT, KEPT + 1)]
    assert values(lossy, here) == [b"%d" % n for n in range(KEPT + LOST) if n != KEPT]


def test_later_records_in_the_place_of_lost_ones_stop_the_partition_and_say_why(
    lossy: Lossy, both: tuple[Cluster, Cluster]
) -> None:
    """A leader that lost the claim as well takes whatever a writer that is alive sends next."""
    here, link = lossy.here("behind"), lossy.link("behind", both)
    link.target.describe([link.ledger_topic, here.topic], within(20))
    claim = claim_parts(link, {here: here}, within(20))[here]
    assert isinstance(claim, Claim)
    identity = {"producer_id": claim.producer_id, "producer_epoch": claim.epoch}
    later = encode([record(b"9", key=b"9")], **identity, base_sequence=0)
    write_batches(link.target, here, [later])
    for _ in range(2):
        refused = open_one(link, here)
        assert isinstance(refused, Diverged), refused
        assert f"{LOST} copies of {here}, from source offset {KEPT} on" in refused.message
        assert refused.source_offset == KEPT
        ledger = read_ledger(here, Table(link.target, link.ledger_topic).load(within(20)))
        assert ledger is not None and [loss.records for loss in ledger.losses] == [LOST]
    assert values(lossy, here) == [*(b"%d" % n for n in range(KEPT)), b"9"]


def test_a_leader_that_came_back_whole_lost_nothing(
    lossy: Lossy, both: tuple[Cluster, Cluster]
) -> None:
    here, link = lossy.here("whole"), lossy.link("whole", both)
    opened = open_one(link, here)
    assert isinstance(opened, Opened) and not opened.ledger.losses
    view = link.target.view
    assert is_led_as_claimed(opened, view)
    opened.ledger.target_epoch -= 1
    assert not is_led_as_claimed(opened, view), "a lease after an election claims"
    assert opened.ledger.source_next == KEPT + LOST
    copy_all(link, here)
    assert same(lossy.source, lossy.target, here) == KEPT + LOST
