"""The sieve: lets through only what was first written on the source, not what links brought there.

So links in both directions between topics of one name copy each record once, and none goes round.
A batch of a link carries the link's producer id; whose an id is, is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from heliograph.copy.provenance import Provenance
from heliograph.errors import HeliographError
from heliograph.kafka.batch import Header
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.transport import Loop

_LIMIT = timedelta(seconds=15)
_NOBODY = -1

Batches = Sequence[tuple[Header, memoryview]]


class Sieve:
    """Sorts batches by who wrote them; asks, beside the loop, about ids that it has not met."""

    def __init__(self, loop: Loop, provenance: Provenance) -> None:
        self._loop, self._provenance = loop, provenance
        self._is_links: dict[int, bool] = {_NOBODY: False}
        self._is_asking = self._is_closed = False

    def close(self) -> None:
        """Close the connections, once nobody uses them."""
        self._is_closed = True
        if not self._is_asking:
            self._provenance.close()

    def strange(self, batches: Batches) -> set[int]:
        """Return the ids that are not known yet."""
        return {header.producer_id for header, _ in batches} - self._is_links.keys()

    def sift(self, batches: Batches) -> Batches:
        """Return the batches that no link wrote; their ids must be known."""
        return [pair for pair in batches if not self._is_links[pair[0].producer_id]]

    def ask(self, ids: set[int], on_done: Callable[[HeliographError | None], None]) -> None:
        """Find out about ids; ``on_done`` is called in a turn of the loop.

        One question at a time: whoever asks meanwhile asks again when that one is answered.
        """
        if self._is_asking:
            return
        self._is_asking = True

        def work() -> Callable[[], None]:
            try:
                found = self._provenance.of_links(ids, Deadline.after(_LIMIT))
            except HeliographError as failure:
                error = failure
                return lambda: self._answer({}, on_done, error)
            return lambda: self._answer({one: one in found for one in ids}, on_done, None)

        self._loop.start(work)

    def _answer(
        self,
        found: dict[int, bool],
        on_done: Callable[[HeliographError | None], None],
        error: HeliographError | None,
    ) -> None:
        self._is_asking = False
        if self._is_closed:
            self._provenance.close()
            return
        self._is_links |= found
        on_done(error)
