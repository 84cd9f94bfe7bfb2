"""Bounded runs: what was there is copied, told and done; what cannot be copied is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from heliograph.model.control import WANTED, Added, Wanted, row
from heliograph.model.names import control_topic
from tests.broker.linked import produce
from tests.faults.engine import START_S, make_link, running, synced
from tests.making import create_topic

RECORDS = 500


@pytest.mark.timeout(900)
def test_a_bounded_run_copies_what_is_there_and_names_what_it_cannot(
    source: Any, target: Any, tmp_path: Path
) -> None:
    link = make_link(tmp_path, source, target, more="on_gap: stop")
    orders, payments = f"{link.name}-orders", f"{link.name}-payments"
    for topic in (orders, payments):
        create_topic(link.source, topic, 2)
        produce(link.source, topic, [b"%d" % number for number in range(RECORDS)])
    summary = synced(link, tmp_path / "first")
    assert (summary["records"], summary["lag"]) == (2 * RECORDS, 0)
    assert summary["bytes"] > 0 and summary["seconds"] > 0 and summary["given_up"] == []
    assert link.check(orders, payments).not_copied == 0

    again = synced(link, tmp_path / "second")
    assert (again["records"], again["bytes"], again["lag"]) == (0, 0, 0)

    for topic in (orders, payments):
        produce(link.source, topic, [b"more %d" % number for number in range(50)])
    admin = AdminClient({"bootstrap.servers": link.source})
    overtaken = TopicPartition(orders, 0, RECORDS + 20)
    for done in admin.delete_records([overtaken]).values():
        done.result(20)
    with running(link, tmp_path / "third", "--until-synced", "-o", "json") as driver:
        assert driver.wait(START_S) == 1
        (told,) = json.loads(driver.printed)
    assert told["given_up"] == [f"{orders}-0"] and told["records"] == 50
    assert f"{orders}-0" in driver.said and "gap-found" in driver.said
    assert f"{RECORDS}" in driver.said and f"{RECORDS + 20}" in driver.said
    assert link.check(payments).not_copied == 0

    # What is paused, and what is not there, is named; it holds up nothing and is no success.
    wanted = Wanted(paused=(orders,), added=(Added("no-such-topic"),))
    link.put(control_topic(link.name), {WANTED: row(wanted)})
    produce(link.source, payments, [b"last %d" % number for number in range(30)])
    with running(link, tmp_path / "fourth", "--until-synced", "-o", "json") as driver:
        assert driver.wait(START_S) == 1
        (told,) = json.loads(driver.printed)
    assert (told["records"], told["lag"]) == (30, 2)
    assert told["given_up"] == [f"{orders}-0", f"{orders}-1"]
    assert f"not copied: {orders}" in driver.said
    assert "no-such-topic: there is no such topic on source" in driver.said
