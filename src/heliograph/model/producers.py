"""What a partition's leader remembers of those who wrote to it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProducerView:
    """One producer in a leader's memory; -1 stands for what it does not know."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None = None
