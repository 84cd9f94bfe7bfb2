"""Simulated time, and hosts that share it.

Nothing here happens by itself: time moves only while somebody waits, to the next thing that is
due, and one host at a time runs, for as many turns as it is given. So a run of the same choices
is the same run.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count

_START_S = 1_000.0
_START_WALL_S = 1_790_000_000.0
# What a turn costs where nothing else takes time: no wait is for ever.
_LEAST_S = 1e-6


class World:
    """The clock and what is due when. It can stand in for the module ``time``."""

    def __init__(self) -> None:
        self.running: Process | None = None
        self._now_s = _START_S
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def monotonic(self) -> float:
        """What the process shows that runs: time in which it was suspended does not count."""
        return self._now_s - (self.running.slept_s if self.running is not None else 0.0)

    def time(self) -> float:
        return _START_WALL_S + self._now_s - _START_S

    @property
    def wall_ms(self) -> int:
        return int(self.time() * 1000)

    @property
    def now_s(self) -> float:
        return self._now_s

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Let ``action`` happen then; things due at the same time happen in this order."""
        heapq.heappush(self._due, (self._now_s + delay_s, next(self._numbers), action))

    def wait(self, is_met: Callable[[], bool], timeout_s: float) -> None:
        """Let time pass until ``is_met()``, or until the timeout."""
        until_s = self._now_s + max(timeout_s, _LEAST_S)
        while not is_met():
            if not self._due or self._due[0][0] > until_s:
                self._now_s = until_s
                return
            at_s, _, action = heapq.heappop(self._due)
            self._now_s = max(at_s, self._now_s)
            action()

    def pass_time(self, seconds: float) -> None:
        """Let time pass while no host runs."""
        self.wait(lambda: False, seconds)

    def skip(self, seconds: float) -> None:
        """Let time pass without what is due in it: that happens as soon as somebody waits."""
        self._now_s += seconds


class Crash(BaseException):
    """Unwinds a host that was killed; nothing it still does leaves it."""


class Host:
    """A machine whose only program is the test itself: it runs whenever the test waits."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.on_crash: list[Callable[[], None]] = []

    def take_turn(self) -> None:
        """Called by its loops before each wait."""


class Process(Host):
    """A machine that runs ``program`` in a thread of its own, turn by turn, as the test says.

    Between two calls of :meth:`run` it stands still, as a paused process does; suspended, as a
    machine does that is frozen with its clock: only the time of day is put right as it wakes.
    """

    def __init__(self, world: World, program: Callable[[Process], None]) -> None:
        super().__init__(world)
        self.is_over = False
        self.slept_s = 0.0
        self._asleep_since_s: float | None = None
        self._program = program
        self._turns = 0
        self._until: Callable[[], bool] = lambda: False
        self._crashed = False
        self._failure: BaseException | None = None
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    def suspend(self) -> None:
        """Let its clock stand still until it runs again."""
        self._asleep_since_s = self._asleep_since_s or self.world.now_s

    def run(self, turns: int, until: Callable[[], bool] = lambda: False) -> None:
        """Let it take so many turns, or until something holds; raise what it does not expect."""
        if self.is_over:
            return
        if self._asleep_since_s is not None:
            self.slept_s += self.world.now_s - self._asleep_since_s
            self._asleep_since_s = None
        self.world.running = self
        try:
            self._run(turns, until)
        finally:
            self.world.running = None

    def _run(self, turns: int, until: Callable[[], bool]) -> None:
        self._turns, self._until = turns, until
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, daemon=True)
            self._thread.start()
        self._go.release()
        self._done.acquire()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def crash(self) -> None:
        """Kill it. What it had sent is in the network's hands."""
        for action in self.on_crash:
            action()
        self._crashed = True
        if self._thread is not None:
            self.run(0)
            self._thread.join()
        self.is_over = True

    def take_turn(self) -> None:
        if not self._crashed and (self._turns <= 0 or self._until()):
            self._done.release()
            self._go.acquire()
        if self._crashed:
            raise Crash
        self._turns -= 1

    def _main(self) -> None:
        self._go.acquire()
        try:
            self._program(self)
        except Crash:
            pass
        except BaseException as failure:
            self._failure = failure
        self.is_over = True
        self._done.release()
