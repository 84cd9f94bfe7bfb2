"""Reopen mirror partitions that were closed and must be written to after all. Blocking."""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.copy.claiming import claim_parts
from heliograph.copy.opened import Ends
from heliograph.copy.recording import record
from heliograph.errors import HeliographError
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table, Writer
from heliograph.model.ledger import Ledger, read_ledger
from heliograph.model.topics import Partition


def reopen(
    ends: Ends, parts: Mapping[Partition, Partition], state: str, deadline: Deadline
) -> dict[Partition, HeliographError]:
    """Take back the closing of partitions, where it was for ``state``; return those that failed.

    Claimed first, and read after that: what is put is the ledger as it stands.
    """
    claims = claim_parts(ends, parts, deadline)
    rows = Table(ends.target, ends.ledger_topic).load(deadline)
    failed: dict[Partition, HeliographError] = {}
    put: list[tuple[Ledger, Writer]] = []
    for source, claim in claims.items():
        if isinstance(claim, HeliographError):
            failed[source] = claim
            continue
        ledger = read_ledger(source, rows)
        if ledger is not None and ledger.closing is not None and ledger.closing.state == state:
            ledger.closing = None
            ledger.producer_ids.add(claim.producer_id)
            put.append((ledger, Writer.of(claim)))
    return failed | record(ends, put, deadline)
