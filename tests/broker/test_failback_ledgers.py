"""`failback` when a ledger is gone or cannot be read: no record comes back twice, none is lost."""

from __future__ import annotations

import json

import pytest

from heliograph.model.names import ledger_topic
from heliograph.model.topics import Partition
from tests.broker.groups import GroupLink, commit, offset
from tests.broker.linked import copy_all, produce
from tests.broker.recovering import (
    Make,
    find_source,
    lose_source,
    mirrored,
    numbers,
    opposite_ends,
    recover,
    refused,
    stages,
    tell,
    values,
)
from tests.making import delete_topic

HURTS = ("topic deleted", "rows deleted", "head deleted", "newer format")


def hurt(link: GroupLink, how: str) -> None:
    """Take a link's ledgers from it, or let a later version have written them."""
    topic = ledger_topic(link.name)
    rows = link.link.rows(topic)
    heads = [key for key in rows if key.count(b"/") == 1]
    if how == "topic deleted":
        delete_topic(link.target.bootstrap, topic)
    elif how == "newer format":
        later = {key: json.dumps(json.loads(rows[key]) | {"format": 99}).encode() for key in heads}
        link.link.put(topic, later)
    else:
        link.link.put(topic, dict.fromkeys(heads if how == "head deleted" else rows))


def diverged_after(link: GroupLink, here: Partition, capsys: pytest.CaptureFixture[str]) -> None:
    """Fail over with two records that have not arrived, and let both sides be written to."""
    produce(link.source.bootstrap, here.topic, numbers(10, 12))
    lose_source(link)
    recover(link, capsys, "failover", "--yes")
    find_source(link)
    produce(link.target.bootstrap, here.topic, numbers(20, 25))


def refuses_and_wipes(
    link: GroupLink, here: Partition, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    for more in ((), ("--dry-run",)):
        told = refused(link, capsys, "failback", *more, code=1)
        assert f"{here}" in told and why in told and "--wipe" in told
    assert stages(link) == {here.topic: "FAILED_OVER"}
    assert values(link.source, here.topic) == numbers(0, 12)
    found = recover(link, capsys, "failback", "--wipe", "--all", "--yes")
    assert [one["records"] for one in found["diverged"]] == [12]  # nobody knows which are copied
    assert values(link.target, f"{here.topic}.diverged") == numbers(0, 12)
    link.make_on(link.source, here.topic)  # as the driver of the opposite direction does
    copy_all(opposite_ends(link), here)
    assert values(link.source, here.topic) == [*numbers(0, 10), *numbers(20, 25)]


@pytest.mark.parametrize("how", HURTS)
def test_a_ledger_that_is_lost_after_a_failover_is_not_one_that_never_was(
    how: str, make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = mirrored(link, topic_name, 10)
    diverged_after(link, here, capsys)
    hurt(link, how)
    refuses_and_wipes(link, here, capsys, "format" if "format" in how else "there is no ledger")


def test_a_ledger_that_is_lost_before_a_failover_holds_nobody_up_and_moves_no_group(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    here = mirrored(link, topic_name, 10)
    commit(link.source, topic_name, {here: 7})
    assert not link.sync().errors
    before = offset(link.target, topic_name, here)
    hurt(link, "rows deleted")
    produce(link.source.bootstrap, topic_name, numbers(10, 12))
    lose_source(link)
    notes = recover(link, capsys, "failover", "--yes")["notes"]
    assert any(f"{here}: there is no ledger" in one for one in notes)
    assert offset(link.target, topic_name, here) == before
    find_source(link)
    produce(link.target.bootstrap, topic_name, numbers(20, 25))
    refuses_and_wipes(link, here, capsys, "there is no ledger")


def test_a_topic_whose_ledger_cannot_be_read_is_not_left_out_of_a_failover_in_silence(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was deleted on the source, and its driver does not know of it any more."""
    link = make()
    kept, gone = f"{topic_name}.kept", f"{topic_name}.gone"
    here = mirrored(link, gone, 5)
    hurt(link, "newer format")
    delete_topic(link.source.bootstrap, gone)
    tell(link, mirrored(link, kept, 5))
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes", code=1)
    assert [(one["topic"], "format is 99" in one["error"]) for one in found["failed"]] == [
        (here.topic, True)
    ]
    assert stages(link) == {kept: "FAILED_OVER", gone: "PROMOTING"}
