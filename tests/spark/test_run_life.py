"""A run of several links: one that cannot start, and one that another run has for a while."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.cli.app import run
from heliograph.model.control import WAITING, Waiting, read
from tests.broker.linked import produce
from tests.checker.reading import read_partition
from tests.doubles.proxy import Proxy
from tests.faults.engine import START_S, Link, make_link, running, synced, until
from tests.making import create_topic


def count(cluster: Any, topic: str) -> int:
    return sum(1 for _ in read_partition(cluster.bootstrap, topic, 0, committed=True))


def status(link: Link, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run(["status", link.name, "-f", str(link.file), "-o", "json"])
    (found,) = json.loads(capsys.readouterr().out)
    return code, found


def has_tried_again(link: Link) -> bool:
    found = read(link.state, WAITING, Waiting)
    return found is not None and found.at_ms > found.since_ms


@pytest.mark.timeout(900)
def test_a_link_whose_cluster_is_away_is_told_and_begins_and_comes_back_after_a_bounded_run(
    source: Any, target: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Proxy() as proxy:
        proxy.point_at(int(source.bootstrap.split(",")[0].rpartition(":")[2]))
        proxy.refuse()
        good = make_link(tmp_path, source, target)
        late = replace(good, name=f"late-{secrets.token_hex(4)}")
        same = replace(good, name=f"same-{secrets.token_hex(4)}")
        gone = replace(good, name=f"gone-{secrets.token_hex(4)}")
        text = good.file.read_text().replace(
            "links:\n",
            "links:\n"
            f"  {late.name}: {{source: away, target: target, topics: ['{late.name}-.*']}}\n"
            f"  {gone.name}: {{source: away, target: target, topics: ['{gone.name}-.*']}}\n"
            f"  {same.name}: {{source: twin, target: target, naming: prefix, topics: [nothing]}}\n",
        )
        away = f"  away: {{bootstrap.servers: '{proxy.address}'}}\n"
        away += f"  twin: {{bootstrap.servers: '{target.bootstrap}'}}\n"
        good.file.write_text(text.replace("clusters:\n", f"clusters:\n{away}"))
        orders, topic = f"{good.name}-orders", f"{late.name}-orders"
        for one in (orders, topic):
            create_topic(source.bootstrap, one)
            produce(source.bootstrap, one, [b"first"])

        with running(good, tmp_path / "run") as driver:
            # Told at once, on stderr and in the status; the others go on.
            until(lambda: f"{late.name}: unreachable" in driver.said, 60, lambda: driver.said)
            until(
                lambda: f"error: link {same.name}: config" in driver.said, 60, lambda: driver.said
            )
            until(lambda: count(target, orders) == 1, START_S, lambda: driver.said)
            until(lambda: f"{gone.name}: unreachable" in driver.said, 60, lambda: driver.said)
            code, found = until(
                lambda: (told := status(late, capsys))[1]["errors"] and told, 30, "not told"
            )
            assert (code, found["state"], found["lag_records"]) == (1, "FAULTED", None)
            assert "cannot start the link, and tries again: unreachable" in found["errors"][0]
            code, found = status(same, capsys)
            assert (code, found["state"]) == (1, "FAULTED")
            assert "does not try again: config: link same-" in found["errors"][0]

            # One that people stop meanwhile is not tried again.
            until(lambda: has_tried_again(gone), 60, lambda: driver.said)
            assert run(["stop", gone.name, "-f", str(gone.file)]) == 0
            until(lambda: f"{gone.name}: stopped, as asked" in driver.said, 90, lambda: driver.said)
            assert status(gone, capsys)[1]["state"] in ("CREATED", "STOPPED")

            proxy.refuse(False)
            until(lambda: count(target, topic) == 1, 90, lambda: driver.said)
            until(lambda: status(late, capsys)[0] == 0, 30, lambda: str(status(late, capsys)))

            # Another run takes it over, ends, and it is taken up again.
            produce(source.bootstrap, topic, [b"second"])
            synced(late, tmp_path / "bounded", late.name)
            produce(source.bootstrap, topic, [b"third"])
            until(lambda: count(target, topic) == 3, 60, lambda: driver.said)
            assert "taken up again" in driver.said
            produce(source.bootstrap, orders, [b"second"])
            until(lambda: count(target, orders) == 2, 30, lambda: driver.said)
            assert driver.end() == 1  # for the link that was refused
            assert "1 links ended with an error" in driver.said
    assert late.check(topic).equal == 3 and good.check(orders).equal == 2
