"""Gaps: source offsets that were lost before they were copied. Pure."""

from heliograph.errors import GapFound, LogTruncated, OffsetOutOfRange
from heliograph.model.ledger import Ledger
from heliograph.model.topics import Partition

_RETENTION = "the source's retention overtook the mirror"


def step_over(ledger: Ledger, source_start: int) -> None:
    """Enter that the source begins at ``source_start``: what is before it will never arrive."""
    ledger.add_gap(source_start, _RETENTION)


def overtaken(ledger: Ledger, source_start: int) -> GapFound:
    """Return the error for a source that begins behind the ledger's end."""
    start = ledger.source_next
    return GapFound(
        f"{ledger.partition}: the source holds nothing below offset {source_start} any more, and"
        f" everything from {start} to {source_start} was not copied yet. Copying stopped. To leave"
        " these offsets out and go on, set on_gap to skip; they are recorded as a gap",
        source_start=start,
        source_end=source_start,
    )


def past_the_end(
    source: Partition, source_next: int, source_end: int, cluster: str
) -> LogTruncated:
    """Return the error for a source that ends before what was copied from it."""
    return LogTruncated(
        f"{source} was copied up to offset {source_next}, but now it ends at {source_end}: the"
        f" source lost the records from {source_end} to {source_next}, which the mirror holds."
        " Copying stopped",
        cluster=cluster,
        epoch=-1,
        end_offset=source_end,
    )


def epoch_lost(source: Partition, why: OffsetOutOfRange, source_epoch: int) -> LogTruncated:
    """Return the error for a source that has offsets, but not those that were copied from it."""
    return LogTruncated(
        f"{source} was copied up to offset {why.offset}, but its log ({why.start_offset} to"
        f" {why.end_offset}) does not know the leader epoch {source_epoch} of what was copied last:"
        " the source lost those records and may have written others in their place. Copying"
        " stopped",
        cluster=why.cluster,
        epoch=source_epoch,
        end_offset=-1,
    )
