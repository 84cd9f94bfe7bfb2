"""Early records: what applications wrote to a mirror before the last copy reached it.

They stand in the holes between the runs, before the offset from which the mirror is copied back, so
they would never reach the old source. They are saved with what diverged, and told. What stands in
the holes besides are markers of our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from heliograph.kafka.batch import Header
from heliograph.kafka.cluster import Cluster
from heliograph.model.ledger import Ledger
from heliograph.model.reversal import holes
from heliograph.model.topics import Partition
from heliograph.recovery.picking import Picking


class EarlySaving(Picking):
    """Saves early records. ``ledgers`` are by mirror partition, of the direction that ended."""

    stood: Literal["source", "target"] = "target"

    def __init__(
        self,
        link: str,
        mirrors: Cluster,
        side: Cluster,
        recovery: str,
        ledgers: Mapping[Partition, Ledger],
    ) -> None:
        ranges = {one: holes(ledger) for one, ledger in ledgers.items()}
        super().__init__(link, mirrors, side, recovery, ranges)
        self._ours = {one: ledger.producer_ids for one, ledger in ledgers.items()}

    @property
    def ends(self) -> dict[Partition, int]:
        """Up to where to look at each mirror."""
        return {one: some[-1].stop for one, some in self._ranges.items()}

    def _is_meant(self, partition: Partition, header: Header) -> bool:
        is_ours = header.producer_id in self._ours[partition]
        return super()._is_meant(partition, header) and not is_ours
