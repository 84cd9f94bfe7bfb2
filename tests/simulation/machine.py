"""Histories of a link in trouble: Hypothesis picks the steps, the journal judges each.

Copiers run one at a time, for as many turns as a step gives them; all others stand still, like
paused processes. Their requests stay in the network's hands whatever becomes of them.
"""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from heliograph.kafka import clock
from heliograph.kafka.records import Record
from heliograph.model.expiry import REQUEST_LIFE
from tests.simulation.broker import SimBroker
from tests.simulation.copier import LEDGER, PARTITION, Copier
from tests.simulation.journal import Journal, Life
from tests.simulation.network import Fate, Fault, Network
from tests.simulation.world import World

PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT, ADD, END = 0, 1, 2, 3, 22, 24, 26
_APIS = (PRODUCE, PRODUCE, PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT, ADD, END)
_TRANSACTIONS = (1, 2)  # producer ids of the source's own producers
_MOST_COPIERS = 3
_SAME_TIME_MS = 1_789_999_999_000
_DAY_MS = 86_400_000

pick = st.integers(0, 5)
standstill = st.sampled_from((0.002, 2.0, 9.0, 15.0))
turns = st.sampled_from((1, 2, 3, 5, 8, 13, 25, 60))


class LinkInTrouble(RuleBasedStateMachine):
    """One partition, its mirror, and everything that may go wrong around them."""

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

    # The source

    @rule(batches=st.integers(1, 4), records=st.integers(1, 3))
    def append(self, batches: int, records: int) -> None:
        for _ in range(batches):
            self.journal.append(self._records(records))
        self.source.look_at_fetches()

    @rule(who=st.sampled_from(_TRANSACTIONS), records=st.integers(1, 2))
    def append_in_transaction(self, who: int, records: int) -> None:
        self.journal.append_in_transaction(self._records(records), who)
        self.source.look_at_fetches()

    @precondition(lambda self: self._open_transactions())
    @rule(which=pick, commit=st.booleans())
    def end_transaction(self, which: int, commit: bool) -> None:
        who = self._open_transactions()
        self.journal.end_transaction(
            who[which % len(who)], commit=commit, now_ms=self.world.wall_ms
        )
        self.source.look_at_fetches()

    @precondition(lambda self: not self.are_alike and self.journal.entries)
    @rule(which=st.floats(0, 1))
    def delete_records(self, which: float) -> None:
        """Let the source's retention pass; a record that nothing tells apart has no place then."""
        entries = self.journal.entries
        self.journal.delete_before(entries[int(which * (len(entries) - 1))].offset)
        self.source.look_at_fetches()

    def _records(self, count: int) -> list[Record]:
        first, self.written = self.written, self.written + count
        when_ms = self.world.wall_ms - self.age_ms
        if self.are_alike:
            return [Record(-1, _SAME_TIME_MS - self.age_ms, None, b"alike")] * count
        return [Record(-1, when_ms, None, b"%d" % number) for number in range(first, first + count)]

    def _open_transactions(self) -> list[int]:
        return sorted({one.producer_id for one in self.journal.entries if one.life is Life.OPEN})

    # Copiers

    @precondition(lambda self: len(self._running()) < _MOST_COPIERS)
    @rule(turns=turns)
    def start_copier(self, turns: int) -> None:
        copier = Copier(self.network, self.source, self.target)
        self.copiers.append(copier)
        copier.run(turns)

    @precondition(lambda self: len(self._running()) < _MOST_COPIERS)
    @rule()
    def take_over(self) -> None:
        """Start a copier and let it do all there is to do; the others stand still meanwhile."""
        copier = Copier(self.network, self.source, self.target)
        self.copiers.append(copier)
        self._work(copier)

    @precondition(lambda self: self._running())
    @rule(which=pick)
    def work(self, which: int) -> None:
        """Let one copier do all there is to do."""
        self._work(self._pick(which))

    def _work(self, copier: Copier, most_turns: int = 300) -> None:
        copier.run(most_turns, until=self._is_done)

    def _is_done(self) -> bool:
        self.journal.judge()
        return not self.journal.left

    @precondition(lambda self: self._running())
    @rule(which=pick, turns=turns)
    def run(self, which: int, turns: int) -> None:
        self._pick(which).run(turns)

    @precondition(lambda self: len(self._running()) <= _MOST_COPIERS - 2)
    @rule(schedule=st.lists(st.integers(1, 12), min_size=4, max_size=10))
    def start_rivals(self, schedule: list[int]) -> None:
        """Start two copiers that overtake each other in the middle of what they do."""
        rivals = [Copier(self.network, self.source, self.target) for _ in range(2)]
        self.copiers += rivals
        for number, few in enumerate(schedule):
            rivals[number % 2].run(few)

    @precondition(lambda self: len(self._running()) < _MOST_COPIERS)
    @rule(seconds=standstill)
    def leave_behind(self, seconds: float) -> None:
        """Let all copiers stand still while another takes over and copies more than they know."""
        self.pass_time(seconds)
        self.take_over()
        self.append(batches=1, records=1)
        self._work(self.copiers[-1])

    @precondition(lambda self: self._running())
    @rule(which=pick)
    def crash(self, which: int) -> None:
        self._pick(which).crash()

    def _running(self) -> list[Copier]:
        return [one for one in self.copiers if not one.is_over]

    def _pick(self, which: int) -> Copier:
        running = self._running()
        return running[which % len(running)]

    # The network and the clusters

    @rule(fate=st.sampled_from(Fate), api_key=st.sampled_from(_APIS), skip=st.integers(0, 2))
    def disturb(self, fate: Fate, api_key: int, skip: int) -> None:
        self.network.faults.append(Fault(fate, api_key, skip))

    @precondition(lambda self: self.network.holding)
    @rule(which=pick)
    def let_go(self, which: int) -> None:
        holding = self.network.holding
        holding[which % len(holding)].let_go()
        self.world.pass_time(0.01)

    @rule(seconds=standstill)
    def pass_time(self, seconds: float) -> None:
        """Let every copier stand still for so long."""
        self.world.pass_time(seconds)
        self.target.coordinator.abort_timed_out()

    @rule(which=st.sampled_from(("source", "target")))
    def restart(self, which: str) -> None:
        broker = self.source if which == "source" else self.target
        self.network.stop_listening(broker.endpoint)
        broker.elect()
        self.network.listen(broker.endpoint, broker)

    # What must hold

    @invariant()
    def mirror_is_a_prefix_and_ledger_is_true(self) -> None:
        self.journal.judge()

    def teardown(self) -> None:
        """Heal everything; one copier must bring the mirror to the end, and its ledger."""
        try:
            self._heal()
        finally:
            for copier in self._running():
                copier.crash()
            self.open.close()

    def _heal(self) -> None:
        self.network.heal()
        for copier in self._running():
            copier.crash()
        for who in self._open_transactions():
            self.journal.end_transaction(who, commit=True, now_ms=self.world.wall_ms)
        last = Copier(self.network, self.source, self.target)
        self.copiers.append(last)
        self._work(last, most_turns=2000)
        assert not last.is_over, f"the last copier stopped: {last.outcome!r}"
        assert not self.journal.left, f"stuck: {self.journal.left[:3]}"


class OldRecords(LinkInTrouble):
    """The same with records that are older than the target's memory of who wrote them.

    Here the promise needs a bound: what the network held back for longer than a request lives
    does not arrive (design 3.4).
    """

    age_ms = 3 * _DAY_MS

    def __init__(self) -> None:
        super().__init__()
        self.network.longest_life_s = REQUEST_LIFE.total_seconds()

    @initialize(seconds=st.sampled_from((0.05, 5.0)))
    def check_every(self, seconds: float) -> None:
        """Let the target look that often for producers to forget; ten minutes are usual."""

        def check() -> None:
            self.target.forget_producers(_DAY_MS)
            self.world.after(seconds, check)

        check()


class ForgottenIds(LinkInTrouble):
    """The same over weeks: the target forgets who wrote, and under which id."""

    @rule()
    def pass_a_week(self) -> None:
        self.network.heal()  # nothing stays in a network for so long
        self.world.pass_time(8 * _DAY_MS / 1000)
        self.target.forget_producers(_DAY_MS)
        self.target.coordinator.forget_ids(7 * _DAY_MS)
