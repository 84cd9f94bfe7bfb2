"""The side that applications use: no verb of either name overwrites it, and some verb leads on."""

from __future__ import annotations

import signal

import pytest

from heliograph.model.topics import Partition
from tests.broker.linked import copy_all, produce
from tests.broker.recovering import (
    Make,
    die_at,
    find_source,
    lose_source,
    mirrored,
    numbers,
    opposite_ends,
    opposite_of,
    opposite_stages,
    recover,
    refused,
    stages,
    switched,
    tell,
    values,
)

WAYS = [[], ["--wipe", "--all", "--yes"]]


def test_an_old_source_that_is_primary_again_is_neither_wiped_nor_mirrored_to(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    back, here = opposite_of(link), mirrored(link, topic_name, 5)
    recover(link, capsys, "failover", "--yes")
    recover(link, capsys, "failback")
    copy_all(opposite_ends(link), here)
    tell(back, here)
    recover(back, capsys, "failover", "--yes")
    produce(link.source.bootstrap, topic_name, numbers(5, 8))
    for verb, *more in (["failback", *WAYS[0]], ["failback", *WAYS[1]], ["switch"]):
        told = refused(link, capsys, verb, *more)
        assert f"heliograph failback {back.name}" in told, told
    assert f"heliograph failback {back.name}" in refused(link, capsys, "failback", "--dry-run")
    assert values(link.source, topic_name) == numbers(0, 8)
    recover(back, capsys, "failback")  # as it told
    link.copy(here)
    assert values(link.target, topic_name) == numbers(0, 8)
    assert stages(link) == {} and opposite_stages(link) == {topic_name: "REVERSING"}


@pytest.mark.parametrize("more", WAYS)
def test_a_new_primary_to_which_nothing_was_copied_since_is_not_mirrored_to(
    more: list[str], make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    switched(link, topic_name, capsys)
    recover(link, capsys, "switch", "--back", "--fence", "none")
    recover(link, capsys, "failover", "--yes")
    produce(link.target.bootstrap, topic_name, numbers(100, 103))
    told = refused(opposite_of(link), capsys, "failback", *more)
    assert f"heliograph failback {link.name}" in told, told
    expected = [*numbers(0, 5), *numbers(100, 103)]
    assert values(link.target, topic_name) == expected
    assert not recover(link, capsys, "failback")["diverged"]  # as it told
    copy_all(opposite_ends(link), Partition(topic_name, 0))
    assert values(link.source, topic_name) == expected


@pytest.mark.parametrize("point", ["R-turn-done", "R-turn-recorded", "R-mark-begun"])
def test_a_switch_back_that_dies_behind_its_turn_with_the_old_source_is_taken_over(
    point: str, make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make()
    switched(link, topic_name, capsys)
    words = link.link.words("switch", "--back", "--fence", "none")
    assert die_at(point, words) == -signal.SIGKILL
    lose_source(link)
    takes_over = f"heliograph failover {link.name}"
    told = refused(link, capsys, "switch", "--back", "--fence", "none", code=1)
    assert takes_over in told, told
    assert takes_over in refused(link, capsys, "failback")
    assert recover(link, capsys, "failover", "--yes")["state"] == "FAILED_OVER"
    produce(link.target.bootstrap, topic_name, numbers(5, 8))
    find_source(link)
    assert not recover(link, capsys, "failback")["diverged"]
    copy_all(opposite_ends(link), Partition(topic_name, 0))
    tell(opposite_of(link), Partition(topic_name, 0))
    recover(link, capsys, "switch", "--back", "--fence", "none")
    assert stages(link) == {}
    for cluster in (link.source, link.target):
        assert values(cluster, topic_name) == numbers(0, 8)
