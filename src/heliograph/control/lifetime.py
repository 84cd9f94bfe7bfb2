"""A link's life across failures: begun again where that helps, and after another run had it.

What waiting can heal is waited for, and told meanwhile: on stderr at once, and in the link's state
topic, so that its status does not look as if nobody had wanted it to run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from heliograph.control.bound import Bound
from heliograph.control.running import Engine
from heliograph.control.supervise import Supervisor, Terms
from heliograph.control.voice import Progress
from heliograph.errors import ClusterError, HeliographError, Superseded
from heliograph.kafka import clock
from heliograph.kafka.admin import Admin
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.links.books import BooksReader
from heliograph.links.helm import driver_name
from heliograph.links.own_topics import make_own_topics
from heliograph.links.setup import Setup
from heliograph.links.state_rows import put_state
from heliograph.model.control import (
    DRIVER,
    LINK,
    WAITING,
    WANTED,
    Driver,
    LinkReport,
    Waiting,
    Wanted,
    read,
    row,
)
from heliograph.model.status import Books

# How long to wait before each start after the first; the last counts for all that follow.
_PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
_TELL_WITHIN = timedelta(seconds=10)
_READ_WITHIN = timedelta(seconds=10)
_LOOK_EVERY_S = 1.0
# A bounded run that has told nothing for this long will not go on.
_DEAD_S = 30.0


class Lifetime:
    """Runs one link for as long as it is wanted. ``run`` is for its own thread."""

    def __init__(
        self,
        setup: Setup,
        terms: Terms,
        get_engine: Callable[[], Engine],
        say: Callable[[str], None],
    ) -> None:
        self._setup, self._terms = setup, terms
        self._get_engine, self._say = get_engine, say
        self._supervisor = self._make()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._waits_ms: int | None = None
        self._said = ""

    def _make(self) -> Supervisor:
        return Supervisor(self._setup, self._terms, self._get_engine, self._say)

    @property
    def summary(self) -> Bound | None:
        """What a bounded run was to copy, and did."""
        return self._supervisor.summary

    @property
    def is_turned(self) -> bool:
        """True when some topics are mirrored in the opposite direction by now. Any thread."""
        return self._supervisor.is_turned

    @property
    def progress(self) -> Progress:
        """How the link gets on. Any thread."""
        return self._supervisor.progress

    def stop(self) -> None:
        """End in good order, soon. Any thread."""
        with self._lock:
            self._stop.set()
            self._supervisor.stop()

    def run(self) -> None:
        """Run the link; return when it was stopped or is done, raise why it cannot go on.

        A bounded run is not begun again: whoever gave the command decides.
        """
        tries = 0
        while True:
            began_s = clock.now_s()
            try:
                self._supervisor.run()
                return
            except Superseded as taken:
                if self._terms.until_synced or not self._await_turn(taken):
                    raise
                if self._stop.is_set():
                    return
            except ClusterError as trouble:
                if self._terms.until_synced:
                    raise
                lasted = clock.now_s() - began_s > 2 * _PAUSES_S[-1]
                tries = 0 if lasted else tries
                self._tell_waiting(trouble)
                if self._stop.wait(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)]):
                    raise
                tries += 1
            with self._lock:
                if self._stop.is_set():
                    return
                self._supervisor = self._make()

    def _tell_waiting(self, trouble: ClusterError) -> None:
        """Say why the link does not run, once for as long as it is the same; and that it waits."""
        link, now_ms, text = self._setup.link, clock.wall_ms(), str(trouble)
        if text != self._said:
            self._said = text
            self._say(f"{link.name}: {text}. It is not copied. It is tried again until it can be")
        self._waits_ms = self._waits_ms or now_ms
        told = Waiting(driver_name(), self._waits_ms, now_ms, text)
        deadline = Deadline.after(_TELL_WITHIN)
        with suppress(HeliographError):  # the target may be what is away: then nobody can read it
            with Admin(self._setup.target_settings, link.target) as admin:
                make_own_topics(admin, link.name, deadline)
            with Cluster(self._setup.target_settings, link.target) as target:
                put_state(target, link.name, {WAITING: row(told)}, deadline)

    def _await_turn(self, taken: Superseded) -> bool:
        """Wait while another bounded run has the link; False where it is not to be taken up again.

        Of two runs without an end, the newer one has it for good: they must not take it from each
        other in turn.
        """
        link, mine = self._setup.link.name, self._supervisor.generation
        told, since_s, is_told = -1, clock.now_s(), False
        with Cluster(self._setup.target_settings, self._setup.link.target) as target:
            reader = BooksReader(self._setup, target)
            while not self._stop.wait(_LOOK_EVERY_S):
                try:
                    books = reader.read(Deadline.after(_READ_WITHIN))
                except HeliographError:
                    continue
                driver, report = _newest(books)
                if driver is not None and driver.generation > mine:
                    if not driver.is_bounded or _is_stopped(books):
                        return False
                    if not is_told:
                        self._say(f"{link}: {taken}. It is taken up again once that run has ended")
                        is_told = True
                    if report and report.generation == driver.generation and _has_ended(report):
                        break
                if report is not None and report.at_ms != told:
                    told, since_s = report.at_ms, clock.now_s()
                if clock.now_s() - since_s > _DEAD_S:
                    break
        if not self._stop.is_set():
            self._say(f"{link}: the run that took it over has ended. It is taken up again")
        return True


def _newest(books: Books) -> tuple[Driver | None, LinkReport | None]:
    return read(books.control, DRIVER, Driver), read(books.state, LINK, LinkReport)


def _is_stopped(books: Books) -> bool:
    """True when people have stopped the link: then nobody is to take it up."""
    return (read(books.control, WANTED, Wanted) or Wanted()).state == "stopped"


def _has_ended(report: LinkReport) -> bool:
    return report.state == "STOPPED"
