"""Group sync: which offsets of a consumer group to set on the target, and why not others.

Pure. What a group is told on the target is what its source says, translated; these rules hold:

J. A group that is active on the target is left alone: its members know better.
K. No offset goes backwards, unless we set it, nobody has moved it since, and the source is further
   back now: somebody reset the group there.
L. No offset points past what the mirror holds (invariant I of ``translation``).
M. Where others write to a mirror too, nothing is set: one source's offset does not say what was
   read of the others' records, and a reader that was sent past them would miss them.
N. An offset of another topic of the same name is not translated: of the one that was copied since,
   it does not say what was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from heliograph.model.checkpoints import Checkpoint, Place, partition_of, place_key
from heliograph.model.groups import Committed
from heliograph.model.runs import Reason
from heliograph.model.topics import Partition
from heliograph.model.translation import Translator


class Why(Enum):
    """Why an offset on the target is left as it is. The worst last."""

    THERE = "it is there already"
    AHEAD = "the group is further on the target, and never goes backwards"
    SET_BACK = "somebody set it back on the target, and the source has not moved since"
    UNKNOWN = "what was copied there is not known (yet)"
    ANEW = "the group's offset is of another topic of that name: it was made anew on the source"
    SHARED = "others write to the mirror too: no offset of the source says what was read of theirs"
    ACTIVE = "the group is active on the target"


@dataclass(frozen=True, slots=True)
class Ground:
    """What all groups of a link stand on: mirrors and translators, by source partition.

    There is no translator where no ledger fits both topics. Logs are the offsets that are held.
    Mirrors are shared where others write to them too.
    """

    mirrors: Mapping[Partition, Partition]
    translators: Mapping[Partition, Translator] = field(default_factory=dict)
    source_logs: Mapping[Partition, range] = field(default_factory=dict)
    target_logs: Mapping[Partition, range] = field(default_factory=dict)
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Sides:
    """One group on both sides: its offsets on the source, on the target by mirror, and before.

    ``may_go_back`` says that the source's word is the only one that counts: the group has not been
    on the target since the topics turned round. ``topics`` are the ids of the source topics that
    its offsets are of, as far as known.
    """

    group: str
    source: Mapping[Partition, Committed]
    target: Mapping[Partition, Committed] = field(default_factory=dict)
    seen: Checkpoint | None = None
    is_active: bool = False
    may_go_back: bool = False
    topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def seen_topics(self) -> Mapping[str, str]:
        """The ids of the topics that ``seen`` is about, as far as known."""
        return self.seen.topics if self.seen is not None else {}


@dataclass(frozen=True, slots=True)
class Move:
    """An offset to set on the target; ``before`` is None where there is none."""

    source: Partition
    mirror: Partition
    source_offset: int
    before: int | None
    after: int
    reason: Reason
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """An offset that is left as it is on the target."""

    source: Partition
    mirror: Partition
    source_offset: int
    at: int | None
    why: Why
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do for one group. ``mirrors`` are of all partitions that were looked at."""

    sides: Sides
    moves: tuple[Move, ...] = ()
    left: tuple[Left, ...] = ()
    mirrors: Mapping[Partition, Partition] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The group's name."""
        return self.sides.group

    @property
    def offsets(self) -> dict[Partition, Committed]:
        """What to set on the target. Leader epochs of the source mean nothing there."""
        return {move.mirror: Committed(move.after, None, move.metadata) for move in self.moves}

    @property
    def why(self) -> Why:
        """The worst reason why something is left; all is well if it is there."""
        reasons = {one.why for one in self.left} or {Why.THERE}
        return [one for one in Why if one in reasons][-1]

    def checkpoint(self, at_ms: int, *, has_moved: bool) -> Checkpoint | None:
        """Return what to remember of the group; None if that stands there already.

        Whoever could not make the moves says so: only what was set counts as ours. Of partitions
        that this is not about, what was known is not forgotten.
        """
        steps: tuple[Move | Left, ...] = (*self.moves, *self.left)
        about = {one.source.topic for one in steps}
        topics = {topic: it for topic, it in self.sides.topics.items() if topic in about}
        places = self._elsewhere(topics) | {
            place_key(one.source): Place(one.source_offset, self._ours(one.source), one.metadata)
            for one in steps
        }
        if has_moved:
            places |= {
                place_key(one.source): Place(one.source_offset, one.after, one.metadata)
                for one in self.moves
            }
        topics = _of_places({**self.sides.seen_topics, **topics}, places)
        seen = self.sides.seen
        if seen is not None and (seen.places, seen.topics) == (places, topics):
            return None
        return Checkpoint(at_ms, places, topics) if places else None

    def _elsewhere(self, topics: Mapping[str, str]) -> dict[str, Place]:
        """Return the places that are known, but not those where the group is not any more.

        Nor those of other topics under the names of these.
        """
        known = self.sides.seen.places if self.sides.seen is not None else {}
        gone = {place_key(one) for one in self.mirrors if one not in self.sides.source}
        other = {topic for topic, it in topics.items() if self.sides.seen_topics.get(topic) != it}
        return {
            key: place
            for key, place in known.items()
            if key not in gone and partition_of(key).topic not in other
        }

    def _ours(self, source: Partition) -> int:
        place = self.sides.seen.place(source) if self.sides.seen else None
        return place.target_offset if place else -1


def _of_places(topics: Mapping[str, str], places: Iterable[str]) -> dict[str, str]:
    names = {partition_of(key).topic for key in places}
    return {topic: topics[topic] for topic in sorted(names & topics.keys())}


def cut_back(decision: Decision, cuts: Mapping[Partition, int]) -> Decision:
    """Return a decision that leaves a group nowhere behind the cuts, by mirror partition.

    Also where it was set further before: what lies behind a cut is not consistent. A group that is
    active on the target is left alone all the same (invariant J).
    """
    moves = [
        replace(move, after=cuts[move.mirror], reason=Reason.CUT)
        if move.after > cuts.get(move.mirror, move.after)
        else move
        for move in decision.moves
    ]
    left = []
    for one in decision.left:
        cut = cuts.get(one.mirror)
        if one.why is Why.ACTIVE or cut is None or one.at is None or one.at <= cut:
            left.append(one)
        else:
            moves.append(
                Move(
                    one.source, one.mirror, one.source_offset, one.at, cut, Reason.CUT, one.metadata
                )
            )
    return replace(decision, moves=tuple(moves), left=tuple(left))


def may_delete(
    seen: Checkpoint,
    target: Mapping[Partition, Committed],
    mirrors: Mapping[Partition, Partition],
) -> bool:
    """Claim: all offsets of a group on the mirrors are those that we set.

    Then it may follow its source into deletion; else somebody reads on the target.
    """
    ours = {
        mirror: place.target_offset
        for source, mirror in mirrors.items()
        if (place := seen.place(source)) is not None and place.target_offset >= 0
    }
    return all(ours.get(one) == at.offset for one, at in target.items())


def decide(sides: Sides, ground: Ground) -> Decision:
    """Return what to set for a group, and what is left alone and why."""
    steps = list(_steps(sides, ground))
    return Decision(
        sides,
        tuple(one for one in steps if isinstance(one, Move)),
        tuple(one for one in steps if isinstance(one, Left)),
        ground.mirrors,
    )


def _steps(sides: Sides, ground: Ground) -> Iterator[Move | Left]:
    for source, committed in sorted(sides.source.items()):
        mirror = ground.mirrors.get(source)
        if mirror is not None:
            yield _step(sides, ground, source, mirror, committed)


def _step(
    sides: Sides, ground: Ground, source: Partition, mirror: Partition, committed: Committed
) -> Move | Left:
    there = sides.target.get(mirror)
    at = there.offset if there is not None else None
    translator = ground.translators.get(source)
    place = sides.seen.place(source) if sides.seen else None
    metadata = committed.metadata

    def left(why: Why) -> Left:
        return Left(source, mirror, committed.offset, at, why, metadata)

    if sides.is_active:
        return left(Why.ACTIVE)
    if ground.is_shared:
        return left(Why.SHARED)
    if translator is None:
        return left(Why.UNKNOWN)
    topic_id = sides.topics.get(source.topic, translator.source_topic_id)
    if topic_id != translator.source_topic_id:
        return left(Why.ANEW)
    after, reason = translator.to_target(committed.offset)
    move = Move(source, mirror, committed.offset, at, after, reason, metadata)
    if there is None or (sides.may_go_back and after != there.offset):
        return move
    is_ours = place is not None and place.target_offset == there.offset
    if after == there.offset:
        return move if is_ours and there.metadata != metadata else left(Why.THERE)
    if after > there.offset:
        return left(Why.SET_BACK) if _was_set_back(sides, source, there) else move
    # A source offset translates to less than it did only once the mirror is closed: the end is not
    # behind our markers any more, and what applications wrote before them is to be read. Else it
    # must be another offset, and lower.
    return move if is_ours else left(Why.AHEAD)


def _was_set_back(sides: Sides, source: Partition, there: Committed) -> bool:
    """Claim: somebody reset the group on the target, and the source has nothing new to say."""
    place = sides.seen.place(source) if sides.seen else None
    if place is None or place.source_offset != sides.source[source].offset:
        return False
    now = sides.topics.get(source.topic)
    if now is not None and sides.seen_topics.get(source.topic, now) != now:
        return False  # the same offset, but of another topic
    return there.offset < place.target_offset
