"""Translation: where a reader of one side of a mirror partition goes on, on the other. Pure.

H. A translated reader misses no record and reads none twice, as far as the ledger reaches.
I. A translated offset never points behind what is there: neither before the log's start nor past
   what was copied.
"""

from __future__ import annotations

from heliograph.model.ledger import Ledger
from heliograph.model.runs import Reason, Translation

ANYWHERE = range(1 << 63)
"""The offsets of a log of which nothing is known."""


class Translator:
    """The offsets of one mirror partition, both ways: made once from a ledger, for many questions.

    ``source_log`` and ``target_log`` are the offsets that the two logs hold, as far as known.
    A mirror is shared where others write to it too; it is closed where it is its applications'.
    ``source_topic_id`` says which topic of the source's name its offsets are of.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        source_log: range = ANYWHERE,
        target_log: range = ANYWHERE,
        is_shared: bool = False,
    ) -> None:
        self._runs = ledger.runs
        self.source_topic_id = ledger.origin.source_topic_id
        self.is_closed = ledger.closing is not None
        self._source_log, self._target_log = source_log, target_log
        self._source_end, self._target_end = _ends(ledger, is_shared)

    def to_target(self, source_offset: int) -> Translation:
        """Return where a reader at ``source_offset`` goes on, on the mirror."""
        found = self._runs.translate(source_offset)
        if found.reason is Reason.END:
            found = Translation(self._target_end, Reason.END)
        return _within(found, self._target_log)

    def to_source(self, target_offset: int) -> Translation:
        """Return where a reader at ``target_offset`` of the mirror goes on, on the source."""
        found = self._runs.translate_back(target_offset)
        if found.reason is Reason.END:
            found = Translation(self._source_end, Reason.END)
        return _within(found, self._source_log)


def _ends(ledger: Ledger, is_shared: bool) -> tuple[int, int]:
    """Return where readers wait for what is not copied yet.

    Not at the end of the last run: markers may follow it, and a reader that has read everything
    would seem to lag. On a shared mirror others' records follow it, which are not to be missed;
    so do applications' on one that is closed, and they may have begun before it was.
    """
    last = ledger.runs.last
    if last is not None and (is_shared or ledger.closing is not None):
        return ledger.source_next, last.target_end
    if last is None and not ledger.records and not is_shared:
        # Nothing but markers is there: an empty mirror, from its start. What stands there of
        # another direction is behind whoever reads this one.
        return ledger.source_next, ledger.target_begin
    return ledger.source_next, ledger.target_next


def _within(found: Translation, log: range) -> Translation:
    if found.offset < log.start:
        return Translation(log.start, Reason.START)
    if found.offset > log.stop:
        return Translation(log.stop, Reason.END)
    return found
