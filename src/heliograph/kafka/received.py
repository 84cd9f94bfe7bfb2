"""What a fetch brought of one partition: whole batches, as far as they are sound. Pure."""

from collections.abc import Sequence

from heliograph.errors import CorruptBatch
from heliograph.kafka.batch import Header, corrupt, split_batches

Batches = Sequence[tuple[Header, memoryview]]


def sound_batches(records: memoryview, offset: int) -> tuple[Batches, CorruptBatch | None]:
    """Return the batches from ``offset`` on, each checked, up to the first that is damaged.

    The damage comes second. Batches whose offsets overlap are all left out: no checksum covers
    an offset, so either may be the wrong one.
    """
    whole: list[tuple[Header, memoryview]] = []
    end = 0
    try:
        for pair in split_batches(records, check=True):
            header = pair[0]
            base = header.base_offset
            if base < end:
                whole.clear()
                raise corrupt(base, f"the one before it ends at {end}")
            end = base + header.last_offset_delta + 1
            if end > offset:  # a broker may start a little before
                whole.append(pair)
    except CorruptBatch as damage:
        return whole, damage
    return whole, None
