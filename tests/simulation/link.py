"""One link, its copiers, and the steps of a history that no fault is needed for.

Copiers run one at a time, for as many turns as a step gives them; all others stand still, like
paused processes. What they had sent stays in the network's hands whatever becomes of them.
"""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from heliograph.kafka import clock
from heliograph.kafka.records import Record
from tests.simulation.broker import SimBroker
from tests.simulation.copier import LEDGER, PARTITION, Copier
from tests.simulation.journal import Journal
from tests.simulation.network import Network
from tests.simulation.world import World

PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT, ADD, END = 0, 1, 2, 3, 22, 24, 26
MOST_COPIERS = 3
_SAME_TIME_MS = 1_789_999_999_000

pick = st.integers(0, 5)
standstill = st.sampled_from((0.002, 2.0, 9.0, 15.0))
milestone = st.sampled_from((PRODUCE, FETCH, INIT, ADD, END))
some_turns = st.sampled_from((1, 2, 3, 5, 8, 13, 25, 60))


class Link(RuleBasedStateMachine):
    """One partition and its mirror, copiers that start, stop, race and stand still."""

    age_ms = 0
    """How old records are when they are written to the source."""

    def __init__(self) -> None:
        super().__init__()
        self.open = ExitStack()
        self.world = World()
        self.open.enter_context(clock.moved_by(self.world))
        self.network = Network(self.world)
        self.source = SimBroker(self.world, "source")
        self.target = SimBroker(self.world, "target")
        for broker in (self.source, self.target):
            self.network.listen(broker.endpoint, broker)
            broker.create_topic(PARTITION.topic)
        self.target.create_topic(LEDGER.topic)
        self.journal = Journal(self.source, self.target)
        self.copiers: list[Copier] = []
        self.are_alike = False
        self.written = 0

    @initialize(are_alike=st.booleans())
    def choose(self, are_alike: bool) -> None:
        """Say whether all records look the same; then nothing but their place tells them apart."""
        self.are_alike = are_alike

    @rule(batches=st.integers(1, 4), records=st.integers(1, 3))
    def append(self, batches: int, records: int) -> None:
        for _ in range(batches):
            self.journal.append(self.new_records(records))
        self.source.look_at_fetches()

    def new_records(self, count: int) -> list[Record]:
        first, self.written = self.written, self.written + count
        if self.are_alike:
            return [Record(-1, _SAME_TIME_MS - self.age_ms, None, b"alike")] * count
        when_ms = self.world.wall_ms - self.age_ms
        return [Record(-1, when_ms, None, b"%d" % number) for number in range(first, first + count)]

    # Copiers

    def running(self) -> list[Copier]:
        return [one for one in self.copiers if not one.is_over]

    def _pick(self, which: int) -> Copier:
        running = self.running()
        return running[which % len(running)]

    def _new_copier(self) -> Copier:
        self.copiers.append(Copier(self.network, self.source, self.target))
        return self.copiers[-1]

    @precondition(lambda self: len(self.running()) < MOST_COPIERS)
    @rule(turns=some_turns)
    def start_copier(self, turns: int) -> None:
        self._new_copier().run(turns)

    @precondition(lambda self: len(self.running()) <= MOST_COPIERS - 2)
    @rule(schedule=st.lists(milestone, min_size=2, max_size=8))
    def start_rivals(self, schedule: list[int]) -> None:
        """Start two copiers that overtake each other in the middle of what they do."""
        rivals = self._new_copier(), self._new_copier()
        for number, api_key in enumerate(schedule):
            self._run_to(rivals[number % 2], api_key)

    @precondition(lambda self: self.running())
    @rule(which=pick, api_key=milestone)
    def run_to(self, which: int, api_key: int) -> None:
        """Let one copier run until it has sent a request of a kind, and not a turn longer."""
        self._run_to(self._pick(which), api_key)

    def _run_to(self, copier: Copier, api_key: int) -> None:
        before = self.network.sent[api_key]
        copier.run(60, until=lambda: self.network.sent[api_key] > before)

    @precondition(lambda self: self.running())
    @rule(which=pick, turns=some_turns)
    def run(self, which: int, turns: int) -> None:
        self._pick(which).run(turns)

    @precondition(lambda self: self.running())
    @rule(which=pick)
    def work(self, which: int) -> None:
        """Let one copier do all there is to do."""
        self._work(self._pick(which))

    @precondition(lambda self: len(self.running()) < MOST_COPIERS)
    @rule()
    def take_over(self) -> None:
        """Start a copier and let it do all there is to do; the others stand still meanwhile."""
        self._work(self._new_copier())

    @precondition(lambda self: len(self.running()) < MOST_COPIERS)
    @rule(seconds=standstill)
    def leave_behind(self, seconds: float) -> None:
        """Let all copiers stand still while another takes over and copies more than they know."""
        self.pass_time(seconds)
        self.take_over()
        self.append(batches=1, records=1)
        self._work(self.copiers[-1])

    @precondition(lambda self: self.running())
    @rule(which=pick)
    def crash(self, which: int) -> None:
        self._pick(which).crash()

    @rule(seconds=standstill)
    def pass_time(self, seconds: float) -> None:
        """Let every copier stand still for so long."""
        self.world.pass_time(seconds)
        self.target.coordinator.abort_timed_out()

    def _work(self, copier: Copier, most_turns: int = 300) -> None:
        copier.run(most_turns, until=self._is_done)

    def _is_done(self) -> bool:
        self.journal.judge()
        return not self.journal.left

    # What must hold

    @invariant()
    def mirror_is_a_prefix_and_ledger_is_true(self) -> None:
        self.journal.judge()

    def heal(self) -> None:
        """End what is wrong with the world; copiers are dead by now."""

    def teardown(self) -> None:
        """Heal everything; one copier must bring the mirror to the end, and its ledger."""
        try:
            self._kill_all()
            self.heal()
            last = self._new_copier()
            self._work(last, most_turns=2000)
            assert not last.is_over, f"the last copier stopped: {last.outcome!r}"
            assert not self.journal.left, f"stuck: {self.journal.left[:3]}"
        finally:
            self._kill_all()
            self.open.close()

    def _kill_all(self) -> None:
        for copier in self.running():
            copier.crash()
