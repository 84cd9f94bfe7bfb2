"""Rows of a link's topics, as its driver and its tasks would write them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heliograph.model.control import (
    LINK,
    WANTED,
    Heard,
    LinkReport,
    PartReport,
    Plan,
    Wanted,
    heard_key,
    part_key,
    plan_rows,
    receipt_key,
    row,
)
from heliograph.model.leases import Lease, Part, Receipt
from heliograph.model.ledger import Ledger, Origin
from heliograph.model.runs import Run
from heliograph.model.status import About, Books
from heliograph.model.topics import Partition

NOW_MS = 1_800_000_000_000
ABOUT = About("a-b", "a", "b", "{source}.{topic}")
ORIGIN = Origin("A", "topic", "B", "mirror")

LINK_REPORT = LinkReport(
    state="ACTIVE",
    since_ms=NOW_MS - 60_000,
    at_ms=NOW_MS - 1_000,
    generation=3,
    driver="host:1",
    partitions=2,
    topics={"orders": "a.orders"},
)
PART_REPORT = PartReport(
    generation=3,
    number=1,
    at_ms=NOW_MS - 2_000,
    state="ACTIVE",
    source_start=10,
    source_end=100,
    source_next=100,
    target_next=90,
    newest_ms=NOW_MS - 5_000,
    records_per_second=50.0,
    bytes_per_second=2_000.0,
)

HEARD = Heard(3, 1, NOW_MS - 1_500, NOW_MS - 1_000, NOW_MS - 1_000)


def ledger(partition: Partition, records: int = 90, size_bytes: int = 9_000) -> Ledger:
    made = Ledger(partition, ORIGIN, source_next=10)
    made.add(Run(10, 0, records))
    made.bytes = size_bytes
    return made


def books(
    *,
    link: LinkReport | None = LINK_REPORT,
    parts: Mapping[Partition, PartReport] | None = None,
    ledgers: tuple[Ledger, ...] = (),
    wanted: Wanted | None = None,
    leased: tuple[Partition, ...] = (),
    receipts: int = 0,
) -> Books:
    state = {part_key(one): row(report) for one, report in (parts or {}).items()}
    state |= {LINK: row(link)} if link else {}
    state |= {heard_key(0): row(HEARD)} if parts else {}
    state |= {receipt_key(n): row(Receipt(3, 1, n, 0, 1.0, ())) for n in range(receipts)}
    control: dict[bytes, Any] = {WANTED: row(wanted)} if wanted else {}
    if leased:
        lease = Lease(
            link="a-b",
            generation=3,
            number=1,
            index=0,
            most_s=60.0,
            expiration_ms=86_400_000,
            parts=tuple(Part(p, p) for p in leased),
        )
        control |= plan_rows(Plan(3, 1, 1), [lease], {})
    rows: dict[bytes, Any] = {}
    for one in ledgers:
        rows |= one.take_changes()
    return Books(rows, control, state)


def lagging(records: int, **other: Any) -> PartReport:
    return replace(PART_REPORT, source_end=PART_REPORT.source_next + records, **other)
