"""Claiming: mirror partitions together with the ledger's topic, all at once."""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.copy.opened import Ends
from heliograph.errors import HeliographError
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.fence import Claim, claim_all
from heliograph.model.names import transactional_id
from heliograph.model.topics import Partition


def claim_parts(
    ends: Ends, parts: Mapping[Partition, Partition], deadline: Deadline
) -> dict[Partition, Claim | HeliographError]:
    """Claim mirror partitions, by their source partitions; one that fails leaves the others alone.

    The ledger's topic is claimed with each: who holds a claim is the only one to put its ledger.
    """
    books = Partition(ends.ledger_topic, 0)
    names = {source: transactional_id(ends.link, *source) for source in parts}
    wanted = {names[source]: [mirror, books] for source, mirror in parts.items()}
    claims = claim_all(ends.target, wanted, deadline)
    return {source: claims[name] for source, name in names.items()}
