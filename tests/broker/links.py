"""Links for tests of commands: a configuration on disk, and rows as an engine would write them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.raw_copy import within
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.properties import parse
from heliograph.kafka.tables import Table
from heliograph.links.own_topics import make_own_topics
from heliograph.model.control import (
    LINK,
    PLAN,
    WANTED,
    LinkReport,
    PartReport,
    Plan,
    Wanted,
    part_key,
    plan_rows,
    read,
    receipt_key,
    row,
)
from heliograph.model.leases import Lease, Part, Receipt
from heliograph.model.names import control_topic, state_topic
from heliograph.model.steering import active_parts
from heliograph.model.topics import Partition


@dataclass(frozen=True)
class Link:
    """A link of a configuration file, and its target."""

    name: str
    file: Path
    target: Any

    def words(self, verb: str, *more: str) -> list[str]:
        return [verb, self.name, "-f", str(self.file), *more]

    def open_target(self) -> Cluster:
        return Cluster(parse("target", self.target.client_properties()), "target")

    def make_topics(self) -> None:
        with Admin(parse("target", self.target.client_properties()), "target") as admin:
            make_own_topics(admin, self.name, within(30))

    def put(self, topic: str, rows: Mapping[bytes, bytes | None]) -> None:
        with self.open_target() as cluster:
            Table(cluster, topic).put(rows, within(20))

    def rows(self, topic: str) -> Mapping[bytes, bytes]:
        with self.open_target() as cluster:
            return dict(Table(cluster, topic).load(within(20)))

    def wanted(self) -> Wanted | None:
        return read(self.rows(control_topic(self.name)), WANTED, Wanted)

    def report(self, report: LinkReport, parts: Mapping[Partition, PartReport]) -> None:
        rows: dict[bytes, bytes | None] = {part_key(one): row(it) for one, it in parts.items()}
        self.put(state_topic(self.name), rows | {LINK: row(report)})


def make_link(
    folder: Path, source: str, target: Any, more: str = "", topics: str = "orders, payments"
) -> Link:
    """Write a configuration with one link of a name that nobody else has."""
    name = f"link-{secrets.token_hex(4)}"
    file = folder / "heliograph.yaml"
    file.write_text(
        f"""
clusters:
  source: {{bootstrap.servers: "{source}"}}
  target: {{bootstrap.servers: "{target.bootstrap}"}}
links:
  {name}:
    source: source
    target: target
    topics: [{topics}]
{more}
"""
    )
    return Link(name, file, target)


def link_report(**other: Any) -> LinkReport:
    now_ms = clock.wall_ms()
    topics = {"orders": "orders", "payments": "payments"}
    return replace(LinkReport("ACTIVE", now_ms, now_ms, 1, "host:1", 2, topics), **other)


def part_report(lag: int = 0, **other: Any) -> PartReport:
    now_ms = clock.wall_ms()
    report = PartReport(1, 1, now_ms, "ACTIVE", 0, 100 + lag, 100, 100, now_ms, 10.0, 1000.0)
    return replace(report, **other)


class PlayedDriver(threading.Thread):
    """Obeys what is wanted of a link, as its driver would: leases, receipts and reports."""

    PARTS = (Partition("orders", 0), Partition("payments", 0))

    def __init__(self, link: Link) -> None:
        super().__init__(daemon=True)
        self._link = link
        self._over = threading.Event()
        self._number = 0

    def __enter__(self) -> PlayedDriver:
        self._link.make_topics()
        self._link.report(link_report(), dict.fromkeys(self.PARTS, part_report()))
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        with self._link.open_target() as cluster:
            control = Table(cluster, control_topic(self._link.name))
            state = Table(cluster, state_topic(self._link.name))
            control.load(within(20))
            while not self._over.is_set():
                wanted = read(control.rows, WANTED, Wanted) or Wanted()
                self._obey(control, state, wanted)
                control.follow(within(0.5))

    def _obey(self, control: Table, state: Table, wanted: Wanted) -> None:
        if (plan := read(control.rows, PLAN, Plan)) is not None:
            receipt = Receipt(1, plan.number, 0, 0, 1.0, ())
            state.put({receipt_key(0): row(receipt)}, within(20))
        parts = active_parts({one: one for one in self.PARTS}, wanted)
        if parts:
            self._number += 1
            leased = tuple(Part(one, one) for one in parts)
            lease = Lease(
                link=self._link.name,
                generation=1,
                number=self._number,
                index=0,
                most_s=60.0,
                expiration_ms=86_400_000,
                parts=leased,
            )
            control.put(plan_rows(Plan(1, self._number, 1), [lease], control.rows), within(20))
            control.catch_up(within(20))
        states = {"active": "ACTIVE", "paused": "PAUSED", "stopped": "STOPPED"}
        state.put({LINK: row(link_report(state=states[wanted.state]))}, within(20))
