"""Sources that lost records before, while and after they were copied."""

from typing import Any

import pytest

from heliograph.copy.opening import Ends, Opened
from heliograph.errors import GapFound, LogTruncated
from heliograph.kafka.admin import Admin
from heliograph.kafka.records import encode
from heliograph.kafka.tables import Table, Writer
from heliograph.model.ledger import Gap
from heliograph.model.policies import Policies
from heliograph.model.topics import Partition
from tests.broker.linked import (
    check_link,
    copy_all,
    on_mirror,
    open_one,
    opened_one,
    record,
    same,
    step_until,
    step_until_failure,
    streaming,
    within,
    write_batches,
)

SKIP = Policies(on_gap="skip")
WHY = "the source's retention overtook the mirror"


def delete_before(link: Ends, here: Partition, offset: int) -> None:
    with Admin(link.source.settings, "source") as admin:
        admin.logs.delete_records({here: offset})


def fill(link: Ends, here: Partition, batches: int = 3) -> None:
    """Write batches of ten records."""
    rows = [record(b"%d" % n) for n in range(10)]
    write_batches(link.source, here, [encode(rows) for _ in range(batches)])


def recorded_at(link: Ends, here: Partition, source_next: int, source_epoch: int = -1) -> None:
    """Doctor the ledger: say that the source was copied further than it was."""
    opened = opened_one(link, here)
    opened.ledger.skip_to(source_next, source_epoch)
    rows = opened.ledger.take_changes()
    writer = Writer(opened.claim.producer_id, opened.claim.epoch, opened.writer.sequence)
    Table(link.target, link.ledger_topic).put(rows, within(10), writer=writer)


@pytest.mark.parametrize("start", [20, 23], ids=["between batches", "inside a batch"])
def test_retention_that_overtakes_a_stream_leaves_an_exact_gap(
    source: Any, target: Any, link: Ends, here: Partition, start: int
) -> None:
    opened = opened_one(link, here, SKIP)
    fill(link, here)
    delete_before(link, here, start)
    stream = streaming(link, opened, policies=SKIP)
    step_until(stream, lambda: stream.parts[here].position == 30)
    stream.finish(within(20))
    stream.close()
    assert opened.ledger.gaps == [Gap(0, start, WHY)]
    assert same(source, target, here) == 30 - start
    check_link(source, target, link, here.topic, gaps_ok=True)
    again = copy_all(link, here, SKIP)
    assert again.ledger.gaps == [Gap(0, start, WHY)]


def test_where_the_policy_says_stop_a_stream_names_the_gap(
    target: Any, link: Ends, here: Partition
) -> None:
    fill(link, here, 1)
    opened = copy_all(link, here)
    fill(link, here)
    delete_before(link, here, 25)
    stream = streaming(link, opened)
    error = step_until_failure(stream)
    assert isinstance(error, GapFound)
    assert (error.source_start, error.source_end) == (10, 25)
    assert len(on_mirror(target, here)) == 10


def test_retention_that_overtook_a_closed_mirror_is_found_when_it_opens(
    source: Any, target: Any, link: Ends, here: Partition
) -> None:
    fill(link, here, 1)
    copy_all(link, here)
    fill(link, here)
    delete_before(link, here, 25)
    refused = open_one(link, here)
    assert isinstance(refused, GapFound)
    assert (refused.source_start, refused.source_end) == (10, 25)
    opened = copy_all(link, here, SKIP)
    assert opened.ledger.gaps == [Gap(10, 25, WHY)]
    assert len(on_mirror(target, here)) == 10 + 15
    check_link(source, target, link, here.topic, gaps_ok=True)


def test_records_copied_and_lost_by_the_source_before_they_were_on_record_are_not_copied_again(
    target: Any, link: Ends, here: Partition
) -> None:
    fill(link, here)
    stream = streaming(link, opened_one(link, here))
    step_until(stream, lambda: stream.parts[here].position == 30)
    stream.close()  # as if killed: nothing of it is on record
    delete_before(link, here, 12)
    opened = copy_all(link, here, SKIP)
    assert len(on_mirror(target, here)) == 30
    assert opened.ledger.gaps == [Gap(0, 12, WHY)]
    assert [(run.source_start, run.length) for run in opened.ledger.runs] == [(12, 18)]


def test_a_source_that_ends_before_what_was_copied_stops_a_stream(
    link: Ends, here: Partition
) -> None:
    fill(link, here, 1)
    opened = copy_all(link, here)
    opened.ledger.skip_to(25)
    error = step_until_failure(streaming(link, opened))
    assert isinstance(error, LogTruncated) and error.end_offset == 10
    assert "from 10 to 25" in error.message


def test_a_source_that_ends_before_what_was_copied_is_not_opened(
    link: Ends, here: Partition
) -> None:
    fill(link, here, 1)
    recorded_at(link, here, 25)
    refused = open_one(link, here)
    assert isinstance(refused, LogTruncated) and "from 10 to 25" in refused.message


def test_a_source_that_parted_from_what_was_copied_is_noticed_after_a_restart(
    link: Ends, here: Partition
) -> None:
    fill(link, here, 1)
    # A leader epoch that the source never had: what was copied under it is not in its log.
    recorded_at(link, here, 10, source_epoch=7)
    opened = open_one(link, here)
    assert isinstance(opened, Opened) and opened.ledger.source_epoch == 7
    error = step_until_failure(streaming(link, opened))
    assert isinstance(error, LogTruncated) and "leader epoch 7" in error.message


def test_the_leader_epoch_of_what_was_copied_is_on_record(link: Ends, here: Partition) -> None:
    fill(link, here)
    assert copy_all(link, here).ledger.source_epoch == 0
    assert opened_one(link, here).ledger.source_epoch == 0
