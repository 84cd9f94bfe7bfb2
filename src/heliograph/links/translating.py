"""Offsets of a link translated on request: one, or those of groups. It blocks."""

from __future__ import annotations

from dataclasses import dataclass

from heliograph.errors import ConfigError, LedgerUnfit
from heliograph.kafka.deadline import Deadline
from heliograph.links.group_ends import GroupEnds, Sight
from heliograph.model.runs import Reason
from heliograph.model.topics import Partition


@dataclass(frozen=True, slots=True)
class Translated:
    """An offset of one side and what it is on the other, and why; None where nothing is known.

    ``group`` is the one that committed it, empty for an offset that somebody asked for.
    """

    source: Partition
    mirror: Partition
    source_offset: int | None
    target_offset: int | None
    reason: Reason | None
    group: str = ""


def translate_one(
    ends: GroupEnds, source: Partition, offset: int, deadline: Deadline, *, back: bool = False
) -> Translated:
    """Translate an offset of a source partition, or back one of its mirror."""
    books = ends.read(deadline)
    mirrors = ends.mirrors(books)
    if source not in mirrors:
        known = ", ".join(sorted({one.topic for one in mirrors})) or "none"
        raise ConfigError(
            f"{source} was never copied by the link {ends.setup.link.name}, so its offsets cannot"
            f" be translated. Topics that were: {known}"
        )
    ground = ends.grounds.survey([source], mirrors, books, deadline)
    translator, mirror = ground.translators.get(source), mirrors[source]
    if translator is None:
        raise LedgerUnfit(
            f"what was copied of {source} is about other topics than those that are there now: one"
            " of them was deleted or made anew. Its offsets cannot be translated"
        )
    if back:
        found = translator.to_source(offset)
        return Translated(source, mirror, found.offset, offset, found.reason)
    found = translator.to_target(offset)
    return Translated(source, mirror, offset, found.offset, found.reason)


def translate_groups(sight: Sight) -> list[Translated]:
    """Translate what groups have committed on the source."""
    rows = []
    for group, sides in sorted(sight.sides.items()):
        for source, at in sorted(sides.source.items()):
            mirror, translator = sight.ground.mirrors[source], sight.ground.translators.get(source)
            found = translator.to_target(at.offset) if translator else None
            offset, reason = found or (None, None)
            rows.append(Translated(source, mirror, at.offset, offset, reason, group))
    return rows
