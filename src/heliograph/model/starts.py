"""Starts: where partitions begin that were never mirrored. Pure.

``earliest`` needs no thought. The other starts are resolved to offsets once, by the driver that
sees a topic first, and noted: whoever opens the partition then begins exactly there, also after a
crash or a pause in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.model.control import Added, Begun, FirstLook
from heliograph.model.policies import Start
from heliograph.model.selection import matches
from heliograph.model.topics import Partition, TopicView


@dataclass(frozen=True, slots=True)
class Starts:
    """Where a link's topics begin: ``by_topic`` are names and patterns, the first that fits counts.

    >>> Starts("earliest", {"log.*": "latest"}).of("logs", ())
    'latest'
    """

    default: Start = "earliest"
    by_topic: Mapping[str, Start] | None = None

    def of(self, topic: str, added: tuple[Added, ...]) -> Start:
        """Return a topic's start; what a command said of it wins."""
        for one in added:
            if one.start is not None and matches([one.pattern], topic):
                return one.start
        for pattern, start in (self.by_topic or {}).items():
            if matches([pattern], topic):
                return start
        return self.default


def undecided(
    topics: Mapping[str, TopicView],
    starts: Starts,
    added: tuple[Added, ...],
    begun: Mapping[str, Begun],
    first: FirstLook | None,
) -> dict[Partition, Start]:
    """Return the partitions whose start is not noted yet, and where each begins.

    ``latest`` means what came after the link, or the command that added the topic, first looked:
    a topic or a partition that appeared since is new as a whole, and begins at its start.
    """
    found: dict[Partition, Start] = {}
    for topic, view in topics.items():
        start = starts.of(topic, added)
        if start == "earliest":
            continue
        offsets = noted(begun, topic, view)
        if start == "latest" and (offsets or not _is_first(topic, added, first)):
            start = "earliest"
        found |= {
            Partition(topic, number): start for number in view.partitions if number >= len(offsets)
        }
    return found


def noted(begun: Mapping[str, Begun], topic: str, view: TopicView) -> tuple[int, ...]:
    """Return the offsets that are noted for a topic; a topic made anew is another."""
    note = begun.get(topic)
    return note.offsets if note is not None and note.topic_id == str(view.topic_id) else ()


def _is_first(topic: str, added: tuple[Added, ...], first: FirstLook | None) -> bool:
    """Claim: nobody has looked for this topic before."""
    if first is None or topic in first.pending:
        return True
    new = [one.pattern for one in added if one.pattern not in first.added]
    return matches(new, topic)
