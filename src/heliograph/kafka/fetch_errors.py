"""What a fetch tells of logs that are not as they should be, in words."""

from collections.abc import Mapping

from heliograph.errors import CorruptBatch, LogTruncated, OffsetOutOfRange
from heliograph.kafka.offsets import EARLIEST, LATEST
from heliograph.model.topics import Partition


def out_of_range(
    cluster: str, partition: Partition, offset: int, bounds: Mapping[int, int]
) -> OffsetOutOfRange:
    """Say that a log does not hold an offset; ``bounds`` are its ends."""
    start, end = bounds[EARLIEST], bounds[LATEST]
    return OffsetOutOfRange(
        f"{partition} was to be read from offset {offset}, but its log holds {start} to {end}",
        cluster=cluster,
        offset=offset,
        start_offset=start,
        end_offset=end,
    )


def truncated(
    cluster: str, partition: Partition, offset: int, epoch: int, end_offset: int
) -> LogTruncated:
    """Say that a log lost records that it had given out."""
    return LogTruncated(
        f"{partition} was read up to offset {offset}, but its log now parts from that at offset"
        f" {end_offset} (leader epoch {epoch}): the cluster lost records that it had given out",
        cluster=cluster,
        epoch=epoch,
        end_offset=end_offset,
    )


def damaged(cluster: str, partition: Partition, damage: CorruptBatch, times: int) -> CorruptBatch:
    """Say that a batch came damaged, however often it was fetched."""
    return CorruptBatch(
        f"cluster {cluster}: {partition}: {damage.message} (fetched {max(times, 1)} times)"
    )
