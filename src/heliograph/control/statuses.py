"""Statuses: what links do, read from their topics on the targets.

Nothing else is asked: this works from any machine, with no driver alive and with the source down.
The source is asked only for what stands on it: the opposite direction of links that are turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from types import TracebackType
from typing import Self

from heliograph.errors import HeliographError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.books import BooksReader
from heliograph.links.setup import Setup, opposite
from heliograph.model.status import LinkStatus, unreadable


class Statuses:
    """Reads the statuses of links, again and again. For one thread; close it at the end.

    With ``opposites``, also the opposite direction of a link whose topics are turned round, as a
    link of its own, right behind it. It stands on the link's source.
    """

    def __init__(self, setups: Sequence[Setup], *, opposites: bool = False) -> None:
        self._stack = ExitStack()
        self._targets: dict[str, Cluster] = {}
        self._readers = [self._reader(setup) for setup in setups]
        named = {setup.link.name for setup in setups}
        links = [setup for setup in setups if opposites and setup.reverses is None]
        both = {setup.link.name: opposite(setup) for setup in links}
        self._opposites = {link: it for link, it in both.items() if it.link.name not in named}
        self._turned: dict[str, BooksReader] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; once more does nothing."""
        self._stack.close()

    def read(self, within: timedelta) -> list[LinkStatus]:
        """Return every link's status; one whose target cannot be asked says so in its own.

        A target has ``within`` to answer for each link, and is asked no more once it did not.
        """
        failed: dict[str, HeliographError] = {}
        found = []
        for reader in self._readers:
            found.append(_status(reader, within, failed))
            if reader.is_turned and (other := self._opposite_of(reader.about.link)) is not None:
                found.append(_status(other, within, failed))
        return found

    def _opposite_of(self, link: str) -> BooksReader | None:
        """Return who reads the opposite direction of a link, if that is wanted."""
        if link in self._opposites and link not in self._turned:
            self._turned[link] = self._reader(self._opposites[link])
        return self._turned.get(link)

    def _reader(self, setup: Setup) -> BooksReader:
        name = setup.link.target
        if name not in self._targets:
            cluster = Cluster(setup.target_settings, name)
            self._targets[name] = self._stack.enter_context(cluster)
        return BooksReader(setup, self._targets[name])


def _status(
    reader: BooksReader, within: timedelta, failed: dict[str, HeliographError]
) -> LinkStatus:
    """Read one status; ``failed`` are the targets that did not answer."""
    deadline, target = Deadline.after(within), reader.target.name
    try:
        if target in failed:
            raise failed[target]
        return reader.status(deadline)
    except HeliographError as error:
        if error.retriable or deadline.passed:
            failed[target] = error
        return unreadable(reader.about, str(error))
