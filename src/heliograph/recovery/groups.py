"""Groups in a recovery: from where they were on the source to the same record on the target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

from heliograph.errors import HeliographError, RecoveryError
from heliograph.kafka.deadline import Deadline
from heliograph.links.group_changes import take_snapshot
from heliograph.links.group_ends import GroupEnds, Sight
from heliograph.links.group_sync import GroupSync, decide_all
from heliograph.links.setup import Setup
from heliograph.model.checkpoints import partition_of, read_checkpoints
from heliograph.model.findings import counted
from heliograph.model.group_sync import Decision, Left, Move, Why, cut_back
from heliograph.model.groups import Committed
from heliograph.model.topics import Partition
from heliograph.recovery.cutting import Cut, find_cut, newest_common_ms

_TIMEOUT = timedelta(seconds=30)


class Groups:
    """The groups that read some topics, moved by what the source says, or said last.

    ``mirrors`` are by source topic, where the driver may not tell of all.
    """

    def __init__(
        self,
        setup: Setup,
        topics: Collection[str],
        verb: str,
        by: str,
        *,
        from_checkpoints: bool = False,
        may_go_back: bool = False,
        is_consistent: bool = False,
        mirrors: Mapping[str, str] | None = None,
    ) -> None:
        self._mirrors = mirrors
        self._setup, self._topics = setup, frozenset(topics)
        self._verb, self._by = verb, by
        self._from_checkpoints, self._may_go_back = from_checkpoints, may_go_back
        self._is_consistent = is_consistent
        self._every = self._topics
        self._cut_ms: int | None = None
        self._decisions: Sequence[Decision] = ()
        self._settled: frozenset[str] = frozenset()
        self._again: frozenset[str] = frozenset()
        self._undone_by = ""
        self.cut: Cut | None = None
        self.failed: Mapping[str, HeliographError] = {}

    def narrow(
        self,
        topics: Collection[str],
        settled: Collection[str],
        again: Collection[str],
        cut_ms: int | None,
    ) -> None:
        """Move the groups of fewer topics; of settled ones only the groups to be tried again.

        Applications may have gone on since those were settled. ``cut_ms`` is the time at which
        those were cut, if they were: all are, or none.
        """
        self._settled, self._again = frozenset(settled), frozenset(again)
        self._topics = frozenset(topics) | (self._settled if again else frozenset())
        self._cut_ms = cut_ms

    def foresee(self) -> None:
        """Find out where the groups would be moved to; changes nothing."""
        if self._topics:
            with closing(GroupSync(self._setup, self._mirrors)) as sync:
                deadline = Deadline.after(_TIMEOUT)
                self._decisions = self._decide(sync.ends, self._look(sync.ends, deadline), deadline)

    def move(self) -> list[str]:
        """Set the groups' offsets on the target; say what was left alone, and why.

        A group that cannot be moved stops no other, but the step: begun again, it is tried again.
        """
        if not self._topics:
            return []
        deadline = Deadline.after(_TIMEOUT)
        with closing(GroupSync(self._setup, self._mirrors)) as sync:
            sight = self._look(sync.ends, deadline)
            decisions = self._decide(sync.ends, sight, deadline)
            moved = [one.group for one in decisions if one.moves]
            if moved:
                taken = take_snapshot(sync.ends, self._by, self._verb, deadline, also=moved)
                self._undone_by = f"heliograph groups rollback {self._setup.link.name} {taken.id}"
            synced = sync.carry_out(sight, decisions, deadline)
        self._decisions, self.failed = synced.decisions, dict(synced.failed)
        if synced.failed:
            told = "\n  - ".join(synced.errors)
            many = counted(len(synced.failed), "group")
            raise RecoveryError(f"{many} could not be moved:\n  - {told}\n")
        return self.told()

    def _decide(self, ends: GroupEnds, sight: Sight, deadline: Deadline) -> list[Decision]:
        decisions = decide_all(sight)
        if self._is_consistent or self._cut_ms is not None:
            at_ms = self._cut_ms or newest_common_ms(ends, sight, self._every)
            self.cut = cut = find_cut(ends, sight, self._topics, at_ms, deadline)
            decisions = [cut_back(one, cut.offsets) for one in decisions]
        return [one if one.group in self._again else self._unsettled(one) for one in decisions]

    def _unsettled(self, decision: Decision) -> Decision:
        moves = tuple(one for one in decision.moves if one.source.topic not in self._settled)
        left = tuple(one for one in decision.left if one.source.topic not in self._settled)
        return replace(decision, moves=moves, left=left)

    def _look(self, ends: GroupEnds, deadline: Deadline) -> Sight:
        return ends.look(
            deadline,
            sources=self._last_seen(ends, deadline) if self._from_checkpoints else None,
            topics=self._topics,
            may_go_back=self._may_go_back,
        )

    def _last_seen(
        self, ends: GroupEnds, deadline: Deadline
    ) -> dict[str, Mapping[Partition, Committed]]:
        """Return where the groups were on the source when it was last seen."""
        return {
            group: {
                partition_of(key): Committed(place.source_offset, None, place.metadata)
                for key, place in checkpoint.places.items()
            }
            for group, checkpoint in read_checkpoints(ends.read(deadline).state).items()
            if ends.selects(group)
        }

    def told(self) -> list[str]:
        """Say what was set, how to undo that, and what was left alone."""
        moves = sum(len(one.moves) for one in self._decisions)
        lines = [f"{counted(len(self._decisions), 'group')}: {counted(moves, 'offset')} set"]
        if self._undone_by:
            lines.append(f"to undo this: {self._undone_by}")
        if self.cut is not None:
            lines += self.cut.lines()
        for one in self._decisions:
            left = [it for it in one.left if it.why is not Why.THERE]
            if left:
                many = counted(len(left), "offset")
                lines.append(f"{one.group}: {many} left alone: {one.why.value}")
        return lines

    def rows(self) -> list[dict[str, Any]]:
        """Return each offset, as JSON shows it."""
        found: list[dict[str, Any]] = []
        for one in self._decisions:
            found += [_row(one.group, move) for move in one.moves]
            found += [_row(one.group, left) for left in one.left]
        return found


def _row(group: str, step: Move | Left) -> dict[str, Any]:
    return {
        "group": group,
        "topic": step.source.topic,
        "partition": step.source.partition,
        "mirror": step.mirror.topic,
        "source_offset": step.source_offset,
        "before": step.before if isinstance(step, Move) else step.at,
        "after": step.after if isinstance(step, Move) else step.at,
        "moved": isinstance(step, Move),
        "why": step.reason.value if isinstance(step, Move) else step.why.value,
    }
