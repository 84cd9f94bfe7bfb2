"""Tables whose broker goes silent: no put is acknowledged in place of another, none is lost."""

from __future__ import annotations

import pytest

from heliograph.errors import CorruptBatch, OutcomeUnknown
from heliograph.kafka.tables import Table, Writer
from tests.doubles import outside
from tests.doubles.behind import Behind
from tests.doubles.driving import claim_of, within
from tests.doubles.proxy import FETCH, PRODUCE, Cut, flip_in


def test_put_after_one_in_doubt_is_not_acknowledged_in_its_place(
    behind: Behind, topic_name: str
) -> None:
    """Both would carry the same sequence: the broker takes the second for a repeat."""
    outside.make_topic(behind.direct, topic_name, cleanup_policy="compact")
    with behind.connect() as cluster:
        table = Table(cluster, topic_name)
        writer = Writer.of(claim_of(cluster, topic_name))
        behind.proxy.on_reply(PRODUCE, Cut(), times=None)
        with pytest.raises(OutcomeUnknown):
            table.put({b"k": b"first"}, within(1), writer=writer)
        behind.proxy.heal()
        with pytest.raises(OutcomeUnknown, match="claim"):
            table.put({b"k": b"second"}, within(), writer=writer)
        again = Writer.of(claim_of(cluster, topic_name))
        table.put({b"k": b"third"}, within(), writer=again)
    assert outside.values(behind.direct, topic_name) == [b"first", b"third"]


def test_changes_read_before_an_error_are_told_the_next_time(
    behind: Behind, topic_name: str
) -> None:
    outside.make_topic(behind.direct, topic_name, partitions=2, cleanup_policy="compact")
    with behind.connect() as cluster:
        table = Table(cluster, topic_name)
        table.load(within())
        for value in (b"0", b"1"):
            table.put({b"k": value}, within())
        table.put({b"other": b"2"}, within(), partition=1)
        behind.proxy.on_reply(FETCH, flip_in(b"other"), times=None)
        with pytest.raises(CorruptBatch):
            table.catch_up(within())
        behind.proxy.heal()
        seen = table.catch_up(within())
    assert sorted(change.value or b"" for change in seen) == [b"0", b"1", b"2"]
