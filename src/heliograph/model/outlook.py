"""Outlook: what a link has brought over, and what may be missing, as its target knows it. Pure.

RPO is measured, not promised: what the source was last known to hold, against what arrived. What
it took after it was last heard from, nobody can know; how long ago that was is said beside it.
No objective counts as kept where that is too long ago; see ``Outlook.rpo_ok``.

Seconds compare clocks: of producers, of the machines that mirror, and of the one that asks. Where
one of them is ahead, they are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from heliograph.model.clocks import age_s, ahead_s, longest_s
from heliograph.model.following import Following
from heliograph.model.ledger import Ledger
from heliograph.model.status import Books
from heliograph.model.topics import Partition


@dataclass(frozen=True, slots=True)
class TopicOutlook:
    """One topic. ``missing_*`` are None where the source was never heard of.

    ``unmatched_records`` arrived and were not on record yet: they count as arrived. Of
    ``unknown_partitions`` nobody knows where the source ended, or they were not followed any more
    (faulted, paused): what is missing is a lower bound.
    ``ahead_seconds`` is how far its records are stamped beyond the time at which they were there.
    """

    topic: str
    mirror: str
    partitions: int
    missing_records: int | None
    missing_seconds: float | None
    unmatched_records: int = 0
    unknown_partitions: int = 0
    ahead_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """A link, or some topics of it. ``heard_seconds`` is how long ago the source last answered.

    ``ahead_seconds`` is how far the machines that mirror are ahead of this one by their clocks.
    ``unwatched_seconds`` is how long the source may have lived on since; None is not known.
    """

    topics: tuple[TopicOutlook, ...]
    heard_seconds: float | None
    ahead_seconds: float = 0.0
    unwatched_seconds: float | None = 0.0

    @property
    def missing_records(self) -> int | None:
        """What the source was known to hold and did not arrive; None where that is not known.

        There may be more where it is not known of every partition.
        """
        known = [one.missing_records for one in self.topics if one.missing_records is not None]
        return sum(known) if known else None

    @property
    def unknown_partitions(self) -> int:
        """The partitions of which nobody knows where the source ended."""
        return sum(one.unknown_partitions for one in self.topics)

    @property
    def is_lower_bound(self) -> bool:
        """True when more may be missing than what is known."""
        return bool(self.unknown_partitions) or self.unwatched_seconds != 0

    @property
    def rpo_seconds(self) -> float | None:
        """The time that is missing at worst, of what the source was known to hold."""
        known = [one.missing_seconds for one in self.topics if one.missing_seconds is not None]
        return max(known, default=None)

    def rpo_ok(self, rpo: timedelta | None) -> bool | None:
        """Tell whether the objective was kept, if there is one and it can be told.

        What is not known of one partition may be worse than all that is known. What the source took
        since it was last heard from is not known either: unless even all of that time would be
        within the objective, nobody can say that it was kept (invariant S).
        """
        if rpo is None or self.rpo_seconds is None:
            return None
        if self.rpo_seconds > rpo.total_seconds():
            return False
        is_known = all(one.missing_seconds is not None for one in self.topics)
        if not is_known or self.unknown_partitions or self.unwatched_seconds is None:
            return None
        at_most_s = self.rpo_seconds + self.unwatched_seconds
        return True if at_most_s <= rpo.total_seconds() else None

    def doubts(self) -> list[str]:
        """Say which clocks differ, or that nobody listened, and what is not known for that."""
        lines = [
            f"{one.topic}: its records are stamped up to {one.ahead_seconds:.0f} s after they were"
            " seen. The clocks of its producers are ahead, so times that are taken from records say"
            " little"
            for one in self.topics
            if one.ahead_seconds
        ]
        if self.ahead_seconds:
            lines.append(
                f"By their clocks, the machines that mirror are {self.ahead_seconds:.0f} s ahead of"
                " this one, so how long ago the source was last heard from is not known"
            )
        if self.unwatched_seconds:
            lines.append(
                f"The source was last heard from {self.unwatched_seconds:.0f} s ago. It may have"
                " lived on, and what it took since is not known: missing records and seconds are"
                " at least what was known then"
            )
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "topics": [asdict(one) for one in self.topics],
            "missing_records": self.missing_records,
            "unknown_partitions": self.unknown_partitions,
            "missing_is_lower_bound": self.is_lower_bound,
            "rpo_seconds": self.rpo_seconds,
            "heard_seconds": self.heard_seconds,
        }


def outlook(
    books: Books,
    parts: Mapping[Partition, Partition],
    ledgers: Mapping[Partition, Ledger],
    now_ms: int,
    ends: Mapping[Partition, int] | None = None,
) -> Outlook:
    """Return what is missing of these partitions; ``ends`` are the source's, where it answers."""
    following = Following(books, ledgers)
    heard_ms = following.heard_ms if ends is None else now_ms
    by_topic: dict[str, list[Partition]] = {}
    for source in sorted(parts):
        by_topic.setdefault(source.topic, []).append(source)
    seen = _Seen(following, heard_ms, ends or {})
    topics = tuple(
        seen.topic(topic, parts[some[0]].topic, some) for topic, some in by_topic.items()
    )
    if heard_ms is None:
        return Outlook(topics, None, unwatched_seconds=None)
    unwatched = 0.0 if ends is not None else following.unwatched_s(now_ms)
    return Outlook(topics, age_s(heard_ms, now_ms), ahead_s(heard_ms, now_ms), unwatched)


def reached_ms(
    books: Books,
    parts: Iterable[Partition],
    ledgers: Mapping[Partition, Ledger],
) -> dict[Partition, int | None]:
    """Return up to which time the records of each partition have arrived; None is not known.

    One that lacks nothing, and is followed, has reached the time at which the source was last heard
    from; any other one that of its newest record, unless that is stamped in the future.
    """
    following = Following(books, ledgers)
    seen = _Seen(following, following.heard_ms, {})
    return {one: seen.reached_ms(one) for one in parts}


class _Seen:
    """What is known of each partition, as of when the source was last heard from."""

    def __init__(
        self, following: Following, heard_ms: int | None, ends: Mapping[Partition, int]
    ) -> None:
        self._following, self._heard_ms, self._ends = following, heard_ms, ends
        self._report, self._ledgers = following.report, following.ledgers

    def topic(self, topic: str, mirror: str, partitions: Sequence[Partition]) -> TopicOutlook:
        missing = {one: self._missing(one) for one in partitions}
        known = {one: count for one, count in missing.items() if count is not None}
        return TopicOutlook(
            topic,
            mirror,
            len(partitions),
            sum(known.values()) if known else None,
            longest_s(map(self._seconds, known)) if known else None,
            sum(map(self._unmatched, partitions)),
            sum(not (one in known and self._is_followed(one)) for one in partitions),
            max(map(self._ahead_s, partitions), default=0.0),
        )

    def _is_followed(self, source: Partition) -> bool:
        return source in self._ends or self._following.is_followed(source)

    def _unmatched(self, source: Partition) -> int:
        ledger = self._ledgers.get(source)
        closing = ledger.closing if ledger else None
        return max(closing.unmatched, 0) if closing else 0

    def _missing(self, source: Partition) -> int | None:
        report, ledger = self._report(source), self._ledgers.get(source)
        # An open transaction is on the source only, and so is whatever was written behind it.
        known = max(report.source_end, report.log_end) if report else -1
        end = self._ends.get(source, known)
        if end < 0:
            return None
        start = max(report.source_start, 0) if report else 0
        copied = ledger.source_next if ledger else start
        if ledger is not None and ledger.closing is None and report is not None:
            copied = max(copied, report.source_next)  # the ledger may be a second behind
        return max(0, end - copied - self._unmatched(source))

    def reached_ms(self, source: Partition) -> int | None:
        missing, report = self._missing(source), self._report(source)
        if missing is None or report is None:
            return None
        if not missing and self._is_followed(source):
            return self._heard_ms
        if self._heard_ms is None or ahead_s(report.newest_ms, self._heard_ms):
            return None  # what it lacks may be older than that stamp
        return report.newest_ms

    def _seconds(self, source: Partition) -> float | None:
        """Return the time that is missing; None where nobody knows how old the last record is.

        Nothing was missing when its newest record was written, nor when all of it was last seen to
        be there: so the later of the two counts.
        """
        missing, report = self._missing(source), self._report(source)
        if missing == 0:
            return 0.0
        if missing is None or report is None or self._heard_ms is None:
            return None
        if source not in self._ledgers:
            return None  # nothing of it is there: it lacks all the time that its records span
        whole = (report.newest_ms, report.whole_ms)
        ages = [age_s(one, self._heard_ms) for one in whole if one >= 0]
        return min((one for one in ages if one is not None), default=None)

    def _ahead_s(self, source: Partition) -> float:
        report = self._report(source)
        if report is None or self._heard_ms is None:
            return 0.0
        return ahead_s(report.newest_ms, self._heard_ms)
