"""The table of `status`: what it sorts by knows every state."""

from typing import get_args

from heliograph.cli.status import BADNESS
from heliograph.model.control import LinkState, PartState
from heliograph.model.stages import StageState


def test_every_state_has_its_place_in_the_table() -> None:
    states = {"UNKNOWN", *get_args(LinkState), *get_args(PartState), *get_args(StageState)}
    assert sorted(BADNESS) == sorted(states)
