"""The state machine of recovery: a topic's stages in both directions, and the verbs. Pure.

Either direction keeps the stages of its topics on its own target, and each can be named: a link,
and its opposite. Verbs are judged by both, so that none overwrites what applications use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from heliograph.model.stages import LEGAL, OPEN, REACHED, StageState, Verb

Other = StageState | Literal["UNKNOWN", "SILENT"] | None
"""The stage in the opposite direction; UNKNOWN where that was never on for the topic, SILENT where
the cluster that keeps it does not answer."""

LEADS: Mapping[Verb, tuple[tuple[Literal["own", "other"], StageState | None], ...]] = {
    "promote": (("own", "PROMOTING"), ("own", "PROMOTED")),
    "failover": (("own", "PROMOTING"), ("own", "FAILED_OVER")),
    "switch": (("own", "PROMOTING"), ("other", None), ("own", "REVERSING")),
    "switch-back": (("other", "PROMOTING"), ("other", "REVERSING"), ("own", None)),
    "failback": (("own", "FAILING_BACK"), ("other", None), ("own", "REVERSING")),
}
"""The stages that a verb puts, one after the other. To put None in the other direction turns that
on, and ends what was under way there for the topic."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a topic is in both directions, as the one sees it that is named.

    ``is_later`` says that its stage was put after that of the other. ``is_behind_turn``: a switch
    back is under way that may have opened its mirror already. ``other_verb`` is under way there.
    """

    own: StageState | None = None
    other: Other = "UNKNOWN"
    is_later: bool = False
    is_behind_turn: bool = False
    other_verb: Verb | None = None

    @property
    def is_primary(self) -> bool:
        """Whether applications use the target of this direction now; else they use its source."""
        return self.own in OPEN and not self.is_superseded

    @property
    def is_superseded(self) -> bool:
        """Whether the other direction was taken, or begun to be, after its own stage was put.

        Who is REVERSING was before the other: the opposite direction was on then.
        """
        are_both_begun = self.own == self.other == "PROMOTING"
        if self.own is None or (self.other not in OPEN and not are_both_begun):
            return False
        return self.own == "REVERSING" or (self.other != "REVERSING" and not self.is_later)

    @property
    def waits_for_other(self) -> bool:
        """Whether a verb of the opposite direction has begun with the topic, and must end first."""
        if self.other_verb == "switch-back" and self.other == "REVERSING":
            return self.own in {None, "PROMOTING", "REVERSING"}  # as that one has put it
        is_over = self.own in OPEN and self.is_later and self.other == "PROMOTING"
        return self.other_verb is not None and self.other not in OPEN and not is_over


def is_legal(verb: Verb, at: Situation, *, wipes: bool = False) -> bool:
    """Tell whether a verb may begin with a topic."""
    if verb == "failover":  # it needs no source, and overwrites nothing
        return at.own in LEGAL[verb] or takes_over(at)
    if at.waits_for_other:
        return False
    if verb == "failback":
        return at.is_primary and (wipes or at.own in LEGAL[verb])
    if verb == "switch-back":
        return at.own in LEGAL[verb] and at.is_primary and at.other != "UNKNOWN"
    # Where both directions are on, a target was lost that knew of a turn.
    return at.own in LEGAL[verb] and at.other is not None and not at.is_superseded


def takes_over(at: Situation) -> bool:
    """Tell whether a failover is for a topic although its mirror was opened for applications.

    The source was to be primary again, or may have been, and is lost.
    """
    return at.is_behind_turn or (at.own in {"REVERSING", "FAILING_BACK"} and at.other == "SILENT")


def goes_on(verb: Verb, at: Situation) -> bool:
    """Tell whether a verb that is under way may go on with a topic."""
    if verb == "failback":
        return at.is_primary and not at.waits_for_other
    if verb == "switch-back":
        return at.own is None or at.is_behind_turn or is_legal(verb, at)
    if verb == "failover":
        return True
    is_on_its_way = at.own == REACHED[verb] or (verb == "switch" and at.own == "PROMOTING")
    return is_legal(verb, at) or (is_on_its_way and not at.is_superseded)


def is_reached(verb: Verb, at: Situation) -> bool:
    """Tell whether a verb has nothing to do: the topic is where it leads."""
    if at.own != REACHED[verb] or at.is_behind_turn or at.waits_for_other:
        return False
    return verb == "switch-back" or at.is_primary


Name = Literal["own", "other"]


def way_on(at: Situation) -> tuple[Verb, Name, str]:
    """Return what leads on from where a verb is refused: another, under which name, and how."""
    if at.is_behind_turn:
        return "switch-back", "own", ""
    if at.waits_for_other and at.other_verb is not None:
        is_stuck = at.other_verb == "promote" and at.own is None
        return "failover" if is_stuck else at.other_verb, "other", ""
    if at.own not in OPEN:
        return "failover", "other" if at.own is None and at.other is None else "own", ""
    if not at.is_primary:
        return at.other_verb or "failback", "other", ""
    if at.own == "REVERSING" and at.other == "UNKNOWN":
        return "failback", "own", " --wipe --all"
    if at.own == "REVERSING":
        return "switch-back", "own", ""
    return "failback", "own", ""
