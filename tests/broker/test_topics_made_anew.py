"""Topics that come back under the same name: offsets of the one before mean nothing to groups."""

from __future__ import annotations

import pytest

from heliograph.model.policies import Policies
from tests.broker.groups import commit, consume
from tests.broker.linked import copy_all, produce
from tests.broker.recovering import Make, lose_source, numbers, recover, tell
from tests.making import create_topic, delete_topic


def test_a_group_that_read_a_topic_to_its_end_reads_the_one_made_in_its_place(
    make: Make, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = make("    on_recreate: restart")
    here, daily = link.make(topic_name), f"{topic_name}.daily"
    produce(link.source.bootstrap, topic_name, numbers(0, 20))
    for group in (topic_name, daily):
        commit(link.source, group, {here: 20})
    link.copy(here)
    assert not link.sync().errors
    delete_topic(link.source.bootstrap, topic_name)
    create_topic(link.source.bootstrap, topic_name)
    produce(link.source.bootstrap, topic_name, numbers(20, 30))
    copy_all(link.ends, here, Policies(on_recreate="restart"))
    commit(link.source, daily, {here: 4})
    tell(link, here)
    assert not link.sync().errors  # the other one has no offsets any more, so nobody sees it
    lose_source(link)
    found = recover(link, capsys, "failover", "--yes")
    why = {one["group"]: one["why"] for one in found["groups"]}
    assert "made anew" in why[topic_name] and "made anew" not in why[daily]
    assert consume(link.target, topic_name, topic_name, 10) == numbers(20, 30)
    assert consume(link.target, daily, topic_name, 6) == numbers(24, 30)
