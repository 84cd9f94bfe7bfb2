"""Adopting: go on where another tool stopped, exactly. It blocks.

What the tool says of its position is where to look; what both logs hold is what counts. From a
pair of offsets that belong to one record, the mirror is read to its end and compared with the
source: so it is known which records were copied after the position was written, and which twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from heliograph.copy.claiming import claim_parts
from heliograph.copy.finding import find_ranges, look_at, origin_of
from heliograph.copy.opened import Ends
from heliograph.copy.reading import read_each
from heliograph.copy.recording import record
from heliograph.copy.walking import Walked, meet, walk
from heliograph.errors import Diverged, HeliographError, LinkError
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.dense import Slice
from heliograph.kafka.fetch import Fetched
from heliograph.kafka.records import slices_of
from heliograph.kafka.tables import Table, Writer
from heliograph.kafka.transport import Loop
from heliograph.links.own_topics import make_own_topics
from heliograph.links.setup import Setup
from heliograph.model.ledger import Ledger, read_ledger
from heliograph.model.names import ledger_topic
from heliograph.model.topics import Partition

LOOK_BACK = 200_000
"""Mirror partitions of so many records are compared as a whole; of larger ones, the end is."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where another tool was: ``last`` is the last source offset it says it copied, if it says so.

    ``anchors`` are pairs of a source and a target offset, at least one, that may belong to one
    record: the first from which both logs are alike counts.
    """

    source: Partition
    mirror: Partition
    last: int | None
    anchors: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Adoption:
    """One partition: where to go on, what was copied twice, or why it cannot be adopted."""

    position: Position
    walked: Walked = field(default_factory=Walked)
    mirror_end: int = -1
    error: HeliographError | None = None
    is_known: bool = False
    """Whether the link has a ledger of it already: then that counts, and nothing is done."""


class Adopter:
    """Both ends of a link, for taking over. For one thread; close it at the end."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._loop = setup, Loop()
        link = setup.link
        source = Cluster(setup.source_settings, link.source, self._loop)
        target = Cluster(setup.target_settings, link.target, self._loop)
        self.ends = Ends(link.name, source, target, ledger_topic(link.name))
        self._stamped: set[Partition] = set()  # mirrors whose records have their broker's time

    def close(self) -> None:
        """Close the connections."""
        self._loop.close()

    def survey(self, positions: Sequence[Position], deadline: Deadline) -> list[Adoption]:
        """Compare both logs from each position on; nothing is changed."""
        found = self.begin(positions, deadline)
        left = [one for one in found if not one.is_known]
        for one in left:
            if not one.position.anchors:
                one.error = LinkError(
                    f"{one.position.source}: its logs could not be read. Try again"
                )
        for number in range(max((len(one.anchors) for one in positions), default=0)):
            some = [one for one in left if number < len(one.position.anchors)]
            self._walk_all(some, number, deadline)
            left = [one for one in left if isinstance(one.error, Diverged)]
        if left and (met := self._meet(left, deadline)):
            self._walk_all(met, -1, deadline)
        return found

    def begin(self, positions: Sequence[Position], deadline: Deadline) -> list[Adoption]:
        """Return the partitions, and which of them the link knows already."""
        ends = self.ends
        self._make_topics(deadline)
        look_at(ends.source, {one.source.topic for one in positions}, deadline)
        look_at(ends.target, {one.mirror.topic for one in positions}, deadline)
        rows = Table(ends.target, ends.ledger_topic).load(deadline)
        return [
            Adoption(one, is_known=read_ledger(one.source, rows) is not None) for one in positions
        ]

    def adopt(self, adoptions: Sequence[Adoption], deadline: Deadline) -> None:
        """Claim the partitions, and write their ledgers; each is whole or not there at all."""
        ends, claimed = self.ends, list[tuple[Ledger, Writer]]()
        look_at(ends.target, {ends.ledger_topic}, deadline)
        todo = [one for one in adoptions if not one.is_known and one.error is None]
        parts = {one.position.source: one.position.mirror for one in todo}
        claims = claim_parts(ends, parts, deadline)
        for one in todo:
            outcome = claims[one.position.source]
            if isinstance(outcome, HeliographError):
                one.error = outcome
                continue
            ledger = self._ledger(one)
            ledger.producer_ids.add(outcome.producer_id)
            claimed.append((ledger, Writer.of(outcome)))
        failed = record(ends, claimed, deadline)
        for one in todo:
            one.error = one.error or failed.get(one.position.source)

    def _make_topics(self, deadline: Deadline) -> None:
        link = self._setup.link
        with Admin(self._setup.target_settings, link.target) as admin:
            make_own_topics(admin, link.name, deadline)

    def _ledger(self, one: Adoption) -> Ledger:
        where = one.position
        assert min(one.walked.source_next, one.mirror_end) >= 0, "it was not found out"
        ledger = Ledger(where.source, origin_of(self.ends, where.source.topic, where.mirror.topic))
        for run in one.walked.runs:
            ledger.add(run)
        ledger.skip_to(max(one.walked.source_next, ledger.source_next))
        ledger.skip_target_to(max(one.mirror_end, ledger.target_next))
        return ledger

    # Logs

    def _meet(self, adoptions: Sequence[Adoption], deadline: Deadline) -> list[Adoption]:
        """Give an anchor more to those of which one log begins in the other; return these."""
        mirrors = {one.position.mirror: 0 for one in adoptions}
        tails, _ = self.read(self.ends.target, mirrors, dict.fromkeys(mirrors, LOOK_BACK), deadline)
        starts = {one.position.source: 0 for one in adoptions}
        sources, _ = self.read(
            self.ends.source,
            starts,
            dict.fromkeys(starts, LOOK_BACK),
            deadline,
            read_committed=False,
        )
        met = []
        for one in adoptions:
            where = one.position
            with_times = where.mirror not in self._stamped
            pair = meet(tails[where.mirror], sources[where.source], with_times=with_times)
            if pair is not None and pair not in where.anchors:
                one.position = replace(where, anchors=(*where.anchors, pair))
                met.append(one)
        return met

    def _walk_all(self, adoptions: Sequence[Adoption], number: int, deadline: Deadline) -> None:
        """Walk from the anchors of a number."""
        mirrors = {one.position.mirror: one.position.anchors[number][1] for one in adoptions}
        tails, failed = self.read(self.ends.target, mirrors, {}, deadline)
        for one in adoptions:
            tail = tails[one.position.mirror]
            one.mirror_end = tail[-1][1] + 1 if tail else one.position.anchors[number][1]
            one.error = failed.get(one.position.mirror)
        good = [one for one in adoptions if one.error is None]
        # Records that were aborted on the source were copied, unless the tool was told otherwise.
        for read_committed in (False, True):
            starts = {one.position.source: one.position.anchors[number][0] for one in good}
            needed = {one.position.source: _needed(one, tails) for one in good}
            sources, failed = self.read(
                self.ends.source, starts, needed, deadline, read_committed=read_committed
            )
            for one in good:
                one.error = failed.get(one.position.source)
                if one.error is None:
                    mirror, with_times = (
                        one.position.mirror,
                        one.position.mirror not in self._stamped,
                    )
                    _walk(one, tails[mirror], sources[one.position.source], with_times)
            good = [one for one in good if isinstance(one.error, Diverged)]

    def read(
        self,
        cluster: Cluster,
        starts: Mapping[Partition, int],
        needed: Mapping[Partition, int],
        deadline: Deadline,
        *,
        read_committed: bool = True,
    ) -> tuple[dict[Partition, list[Slice]], dict[Partition, HeliographError]]:
        """Read from each start to the end, or until there are as many records as needed."""
        ranges = find_ranges(cluster, starts, deadline)
        found: dict[Partition, list[Slice]] = {one: [] for one in starts}
        failed = {one: it for one, it in ranges.items() if isinstance(it, HeliographError)}
        held = {one: it for one, it in ranges.items() if isinstance(it, range)}
        from_ = {one: max(starts[one], it.start) for one, it in held.items() if len(it)}

        def take(fetched: Fetched) -> bool:
            here = fetched.partition
            for header, batch in fetched.batches:
                if header.has_append_time and cluster is self.ends.target:
                    self._stamped.add(here)
                found[here] += [one for one in slices_of(header, batch) if one[1] >= from_[here]]
            if here in needed and len(found[here]) > needed[here]:
                return True
            end = fetched.last_stable_offset if read_committed else held[here].stop
            return fetched.next_offset >= end

        some = {one: start for one, start in from_.items() if start < held[one].stop}
        failed |= read_each(cluster, some, take, deadline, read_committed=read_committed)
        return found, failed


def _needed(one: Adoption, tails: Mapping[Partition, Sequence[Slice]]) -> int:
    """Return how many records of the source to read, to find the place of the mirror's last one.

    Without a word of the tool, those behind count as well: they may be alike.
    """
    length = len(tails[one.position.mirror])
    return length if one.position.last is not None else max(length, LOOK_BACK)


def _walk(
    one: Adoption, mirror: Sequence[Slice], source: Sequence[Slice], with_times: bool
) -> None:
    """Walk, and see that it fits what the tool says of itself."""
    where = one.position
    last = -1 if where.last is None else where.last
    if not mirror and where.last is None:
        one.error = LinkError(
            f"{where.source}: no position is stored, and {where.mirror} held records that are gone"
            " by now, so where copying stopped cannot be told. Nothing was changed. Delete the"
            " mirror if nobody needs it, or exclude the topic"
        )
        return
    if not mirror:  # its retention took everything; only the tool's word is left
        one.walked = Walked(source_next=last + 1)
        return
    try:
        one.walked = walk(where.source, mirror, source, with_times=with_times)
    except Diverged as foreign:
        one.error = foreign
        return
    is_certain = one.walked.is_certain and (where.last is not None or one.walked.is_alone)
    if one.walked.source_next <= last:
        one.error = LinkError(
            f"{where.source}: offset {last} was copied, by what is on record, but the mirror"
            f" ends with the copy of {one.walked.source_next - 1}. It lost records. Nothing was"
            " changed"
        )
    elif not is_certain and one.walked.source_next > last + 1:
        stored = "no position is stored" if where.last is None else f"the stored position is {last}"
        one.error = LinkError(
            f"{where.source}: {stored}, and of the records that were copied since, some are alike"
            " to the letter, so which were copied cannot be told. Nothing was changed"
        )
