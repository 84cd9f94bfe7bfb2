"""Refusals: what to do with a batch that the target does not take.

Pure. A batch that is too large is cut; a record that cannot be stored is taken out of its batch,
and the policy of the link decides what becomes of it. Everything else is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from heliograph.copy.queue import Prepared, Stretches
from heliograph.errors import RecordsRefused
from heliograph.kafka.batch import read_header
from heliograph.kafka.dense import Rebuilt
from heliograph.kafka.faults import FAULTS
from heliograph.kafka.rebuild import select, split

# Larger than max.message.bytes, larger than a segment.
_TOO_LARGE = (10, 18)
# A timestamp out of range; a rule of the topic, such as a key on a compacted one.
_BAD_RECORD = (32, 87)


class Refused(NamedTuple):
    """A record that the target will not take: a batch of its own, as it was on the source."""

    source_offset: int
    source_epoch: int
    record: bytearray
    error: RecordsRefused

    @property
    def name(self) -> str:
        """Kafka's name for what is wrong with it."""
        return FAULTS[self.error.kafka_code].name


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to send instead of a refused batch, and the records to leave out."""

    again: Sequence[Prepared] = ()
    refused: Sequence[Refused] = ()


def is_about_records(error: RecordsRefused) -> bool:
    """Tell whether other batches of the same records may be taken, or some of the records."""
    return error.kafka_code in _TOO_LARGE + _BAD_RECORD


def is_about_size(error: RecordsRefused) -> bool:
    """Tell whether every batch of that size will be refused."""
    return error.kafka_code in _TOO_LARGE


def judge(prepared: Prepared, error: RecordsRefused) -> Verdict:
    """Say what to do with a batch that was refused. Each call comes closer to single records."""
    bad = set(error.indexes) if error.kafka_code in _BAD_RECORD else set()
    if prepared.count == 1:
        bad = {0}
    if not bad:
        return Verdict(again=cut(prepared, len(prepared.batch) // 2))
    return Verdict(_without(prepared, bad), [_alone(prepared, one, error) for one in sorted(bad)])


def cut(prepared: Prepared, most_bytes: int) -> list[Prepared]:
    """Cut a batch into pieces of at most that size, as far as its records allow."""
    pieces = split(prepared.batch, max(most_bytes, 1))
    share = prepared.read_bytes // len(pieces)
    return [_piece(prepared, piece, share) for piece in pieces]


def _without(whole: Prepared, bad: set[int]) -> list[Prepared]:
    """Return the good records, in pieces that reach over no bad one.

    The ledger must know of a record that is left out before any behind it is sent.
    """
    bounds = [-1, *sorted(bad), whole.count]
    some = [range(before + 1, after) for before, after in pairwise(bounds)]
    kept = [select(whole.batch, places) for places in some if places]
    return [_piece(whole, one, whole.read_bytes // len(kept)) for one in kept if one is not None]


def _piece(whole: Prepared, rebuilt: Rebuilt, read_bytes: int) -> Prepared:
    stretches = _translated(whole, rebuilt.source_offsets)
    header = read_header(rebuilt.batch)
    place = rebuilt.source_offsets[0][0] - read_header(whole.batch).base_offset
    before = _offsets(whole)[place - 1] + 1 if place else whole.follows
    return Prepared(
        rebuilt.batch,
        stretches,
        header.count,
        header.max_timestamp,
        whole.source_epoch,
        read_bytes,
        before,
    )


def _offsets(whole: Prepared) -> list[int]:
    return [start + step for start, length in whole.stretches for step in range(length)]


def _translated(whole: Prepared, places: Stretches) -> Stretches:
    """Return the source offsets of some places in a batch.

    One that was sent counts from 0; one that was fetched, and is known to be too large, does not.
    """
    offsets, first = _offsets(whole), read_header(whole.batch).base_offset
    found: list[tuple[int, int]] = []
    for start, length in places:
        for offset in offsets[start - first : start - first + length]:
            if found and sum(found[-1]) == offset:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((offset, 1))
    return tuple(found)


def _alone(whole: Prepared, place: int, error: RecordsRefused) -> Refused:
    rebuilt = select(whole.batch, {place})
    assert rebuilt is not None, "the broker counts records from 0, as we do"
    ((source_offset, _),) = _translated(whole, rebuilt.source_offsets)
    rebuilt.batch[:8] = source_offset.to_bytes(8, "big")  # which no checksum covers
    return Refused(source_offset, whole.source_epoch, rebuilt.batch, error)
