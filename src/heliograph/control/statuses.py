"""Statuses: what links do, read from their topics on the targets.

Nothing else is asked: this works from any machine, with no driver alive and with the source down.
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
from heliograph.links.setup import Setup
from heliograph.model.status import LinkStatus, unreadable


class Statuses:
    """Reads the statuses of links, again and again. For one thread; close it at the end."""

    def __init__(self, setups: Sequence[Setup]) -> None:
        self._stack = ExitStack()
        targets: dict[str, Cluster] = {}
        for setup in setups:
            name = setup.link.target
            if name not in targets:
                targets[name] = self._stack.enter_context(Cluster(setup.target_settings, name))
        self._readers = [BooksReader(setup, targets[setup.link.target]) for setup in setups]

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
            deadline, target = Deadline.after(within), reader.target.name
            try:
                if target in failed:
                    raise failed[target]
                found.append(reader.status(deadline))
            except HeliographError as error:
                if error.retriable or deadline.passed:
                    failed[target] = error
                found.append(unreadable(reader.about, str(error)))
        return found
