"""Defects to be found: each takes one rule of the design away. Without them no test can fail."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from heliograph.copy import opening, standstill, stream
from heliograph.copy.case import Case
from heliograph.copy.copying import Copying
from heliograph.copy.queue import Prepared
from heliograph.copy.sending import Sender
from heliograph.kafka import clock, fence
from heliograph.kafka.fetch import Fetched, Fetcher


def no_match(patch: pytest.MonkeyPatch) -> None:
    """What earlier writers left on the mirror and not in the ledger is overlooked."""
    take = Case.take_tail

    def overlook(case: Case, fetched: Fetched) -> bool:
        found = take(case, fetched)
        case.tail.clear()
        return found

    patch.setattr(Case, "take_tail", overlook)


def no_identity(patch: pytest.MonkeyPatch) -> None:
    """The second InitProducerId does not carry ``(P, e)``."""
    init = fence._init
    patch.setattr(fence, "_init", lambda tid, _, doing: init(tid, (-1, -1), doing))


def uncommitted(patch: pytest.MonkeyPatch) -> None:
    """Aborted records are copied as well."""
    patch.setattr(stream, "Fetcher", partial(Fetcher, read_committed=False))


def no_stall(patch: pytest.MonkeyPatch) -> None:
    """A process that stood still does not notice it."""
    patch.setattr(standstill, "is_stall", lambda *_: False)


def no_time_of_day(patch: pytest.MonkeyPatch) -> None:
    """A process whose clock stood still with it does not look at the time of day."""
    patch.setattr(standstill, "_apart_s", lambda: 0.0)


def together(patch: pytest.MonkeyPatch) -> None:
    """Batches fly together by their own age, whatever the target has forgotten of their writer."""
    send = Sender._send

    def as_if_known(sender: Sender, part: Copying, prepared: Prepared) -> None:
        send(sender, part, prepared)
        part.opened.written_ms = clock.wall_ms()

    patch.setattr(Sender, "_send", as_if_known)


def no_wait(patch: pytest.MonkeyPatch) -> None:
    """A claim does not wait for what may still be on its way before its first old batch."""
    patch.setattr(opening, "CLAIM_WAIT", timedelta(0))


def no_epochs(patch: pytest.MonkeyPatch) -> None:
    """Never ask the target whether its log is still the one that is on record."""
    patch.setattr(Case, "epoch_before_tail", -1)


def no_compaction(patch: pytest.MonkeyPatch) -> None:
    """A record that compaction took is expected all the same."""
    patch.setattr(opening, "find_compacted", lambda *_: False)
