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
from heliograph.kafka.tables import Table
from heliograph.links.books import BooksReader
from heliograph.links.helm import driver_name
from heliograph.links.own_topics import make_own_topics
from heliograph.links.setup import Setup
from heliograph.links.state_rows import put_state
from heliograph.model.control import WAITING, WANTED, Waiting, Wanted, read, row
from heliograph.model.drivers import Turn, turn_of
from heliograph.model.names import control_topic, state_topic

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
        self._asked_ms: int | None = None
        self._said = ""
        self._is_over = False

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
        if self._terms.until_synced:
            self._supervisor.run()
            return
        try:
            self._run_again_and_again()
        except (Superseded, ClusterError):
            raise
        except HeliographError as failure:
            self._put(failure, is_final=True)
            raise

    def _run_again_and_again(self) -> None:
        tries = 0
        while True:
            began_s = clock.now_s()
            try:
                self._supervisor.run()
                return
            except Superseded as taken:
                if not self._await_turn(taken):
                    raise
            except ClusterError as trouble:
                if clock.now_s() - began_s > 2 * _PAUSES_S[-1]:
                    tries, self._said, self._waits_ms, self._asked_ms = 0, "", None, None
                self._tell_waiting(trouble)
                if not self._is_over and self._stop.wait(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)]):
                    raise
                tries += 1
            with self._lock:
                if self._is_over or self._stop.is_set():
                    return
                self._supervisor = self._make()

    def _tell_waiting(self, trouble: ClusterError) -> None:
        """Say why the link does not run, once for as long as it is the same; and that it waits."""
        if trouble.code != self._said:
            self._said = trouble.code
            self._say(
                f"{self._setup.link.name}: {trouble}. It is not copied. It is tried again until it"
                " can be"
            )
        self._put(trouble)

    def _put(self, trouble: HeliographError, *, is_final: bool = False) -> None:
        """Put into the state topic why the link does not run; see whether it is still to."""
        link, now_ms = self._setup.link, clock.wall_ms()
        self._waits_ms = self._waits_ms or now_ms
        told = Waiting(driver_name(), self._waits_ms, now_ms, str(trouble), is_final)
        deadline = Deadline.after(_TELL_WITHIN)
        with suppress(HeliographError):  # the target may be what is away: then nobody can read it
            with Admin(self._setup.target_settings, link.target) as admin:
                make_own_topics(admin, link.name, deadline)
            with Cluster(self._setup.target_settings, link.target) as target:
                put_state(target, link.name, {WAITING: row(told)}, deadline)
                books = BooksReader(self._setup, target).read(deadline)
                wanted = read(books.control, WANTED, Wanted) or Wanted()
                # Starting a link takes a stop back: but not one that came since.
                before_ms, self._asked_ms = self._asked_ms, wanted.asked_ms
                is_new = wanted.asked_ms not in (before_ms, 0)
                if before_ms is None:
                    is_new = wanted.asked_ms > self._waits_ms
                if wanted.state == "stopped" and is_new and not is_final:
                    self._is_over = True
                    self._say(f"{link.name}: stopped, as asked. It is not tried again")
                    put_state(target, link.name, {WAITING: None}, deadline)

    def _await_turn(self, taken: Superseded) -> bool:
        """Wait while another bounded run has the link; False where it is not to be taken up again.

        Of two runs without an end, the newer one has it for good: they must not take it from each
        other in turn. So it is not where nobody can tell which of the two took it.
        """
        link, mine = self._setup.link.name, self._supervisor.driver
        turn: Turn = "unknown"
        told, since_s, is_told = -1, clock.now_s(), False
        with Cluster(self._setup.target_settings, self._setup.link.target) as target:
            control, state = Table(target, control_topic(link)), Table(target, state_topic(link))
            while not self._stop.wait(_LOOK_EVERY_S):
                try:
                    deadline = Deadline.after(_READ_WITHIN)
                    control.read_on(deadline)
                    state.read_on(deadline)
                except HeliographError:
                    if turn == "unknown" and clock.now_s() - since_s > _DEAD_S:
                        return False  # it was taken over, and nobody can tell for how long
                    continue
                turn, at_ms = turn_of(control.rows, state.rows, mine)
                if turn in ("theirs", "nobody's"):
                    self._is_over = turn == "nobody's"
                    return self._is_over
                if turn == "bounded" and not is_told:
                    self._say(f"{link}: {taken}. It is taken up again once that run has ended")
                    is_told = True
                if at_ms != told:
                    told, since_s = at_ms, clock.now_s()
                if turn == "ended" or clock.now_s() - since_s > _DEAD_S:
                    self._say(f"{link}: the run that took it over has ended. It is taken up again")
                    break
        return True
