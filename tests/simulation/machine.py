"""Histories of a link in trouble: Hypothesis picks the steps, the journal judges each."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from heliograph.kafka.records import Record
from heliograph.model.expiry import REQUEST_LIFE
from tests.simulation.copier import PARTITION
from tests.simulation.journal import Life
from tests.simulation.link import (
    ADD,
    END,
    FETCH,
    INIT,
    LIST_OFFSETS,
    METADATA,
    MOST_COPIERS,
    PRODUCE,
    Link,
    pick,
    standstill,
)
from tests.simulation.log import NOT_ENOUGH_REPLICAS, TOO_LARGE, Refusal
from tests.simulation.network import Fate, Fault

_APIS = (PRODUCE, PRODUCE, PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT, ADD, END)
_TRANSACTIONS = (1, 2)  # producer ids of the source's own producers
_DAY_MS = 86_400_000

refusals = st.sampled_from((TOO_LARGE, NOT_ENOUGH_REPLICAS))


class LinkInTrouble(Link):
    """A link, and everything that may go wrong around it."""

    # The source

    @rule(who=st.sampled_from(_TRANSACTIONS), records=st.integers(1, 2))
    def append_in_transaction(self, who: int, records: int) -> None:
        self.journal.append_in_transaction(self.new_records(records), who)
        self.source.look_at_fetches()

    @precondition(lambda self: self._open_transactions())
    @rule(which=pick, commit=st.booleans())
    def end_transaction(self, which: int, commit: bool) -> None:
        who = self._open_transactions()
        self._end(who[which % len(who)], commit=commit)

    @precondition(lambda self: not self.are_alike and self.journal.entries)
    @rule(which=st.floats(0, 1))
    def delete_records(self, which: float) -> None:
        """Let the source's retention pass. Of records that look alike nobody could tell which."""
        entries = self.journal.entries
        self.journal.delete_before(entries[int(which * (len(entries) - 1))].offset)
        self.source.look_at_fetches()

    def _open_transactions(self) -> list[int]:
        return sorted({one.producer_id for one in self.journal.entries if one.life is Life.OPEN})

    def _end(self, who: int, *, commit: bool) -> None:
        self.journal.end_transaction(who, commit=commit, now_ms=self.world.wall_ms)
        self.source.look_at_fetches()

    # The network and the brokers

    @rule(fate=st.sampled_from(Fate), api_key=st.sampled_from(_APIS), skip=st.integers(0, 2))
    def disturb(self, fate: Fate, api_key: int, skip: int) -> None:
        self.network.faults.append(Fault(fate, api_key, skip))

    @precondition(lambda self: self.network.holding)
    @rule(which=pick)
    def let_go(self, which: int) -> None:
        holding = self.network.holding
        holding[which % len(holding)].let_go()
        self.world.pass_time(0.01)

    @rule(code=refusals, skip=st.integers(0, 2))
    def refuse(self, code: int, skip: int) -> None:
        """Let the target refuse a batch, whatever flies behind it."""
        self.target.log(PARTITION).refusals.append(Refusal(code, skip))

    @rule(which=st.sampled_from(("source", "target")))
    def restart(self, which: str) -> None:
        broker = self.source if which == "source" else self.target
        self.network.stop_listening(broker.endpoint)
        broker.elect()
        self.network.listen(broker.endpoint, broker)

    def heal(self) -> None:
        self.network.heal()
        self.target.log(PARTITION).refusals.clear()
        for who in self._open_transactions():
            self._end(who, commit=True)


class OldLink(Link):
    """A link whose records are older than the target's memory of who wrote them.

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

    @precondition(lambda self: 0 < len(self.running()) < MOST_COPIERS)
    @rule(which=pick, seconds=standstill)
    def suspend(self, which: int, seconds: float) -> None:
        """Freeze a copier with its clock, until its next turn; another one takes over."""
        self._pick(which).suspend()
        self.leave_behind(seconds)
        self._work(self.copiers[-1])
        self.pass_time(seconds)


class AgingLink(OldLink):
    """Records old and fresh in turn: the target forgets its writer, and knows it again."""

    @rule(days=st.sampled_from((0, 3)))
    def write_records_of(self, days: int) -> None:
        self.age_ms = days * _DAY_MS

    @precondition(lambda self: self.running())
    @rule(which=pick)
    def age(self, which: int) -> None:
        """Let one copier copy an old record, and the target forget it; what follows is fresh."""
        self.write_records_of(days=3)
        self.append(batches=1, records=1)
        self.work(which)
        self.pass_time(9.0)
        self.write_records_of(days=0)

    @precondition(lambda self: self.running())
    @rule(which=pick, code=refusals, ages=st.booleans())
    def refuse_first(self, which: int, code: int, ages: bool) -> None:
        """Let batches of one copier fly together, as far as it lets them, and refuse the first."""
        copier = self._pick(which)
        if ages:
            self.age(which)
        self.network.faults.append(Fault(Fate.HOLD, PRODUCE))
        for _ in range(3):
            self.append(batches=1, records=3)
            copier.run(8)
        self.target.log(PARTITION).refusals.append(Refusal(code))
        for held in self.network.holding:
            held.let_go()
        copier.run(25)

    @rule()
    def rest(self) -> None:
        """Let everything stand still until the target has forgotten even a claim."""
        self.network.heal()  # nothing stays in a network for so long
        self.world.pass_time(REQUEST_LIFE.total_seconds())
        self.world.skip(1.5 * _DAY_MS / 1000)
        self.target.forget_producers(_DAY_MS)


class ForgottenLink(Link):
    """A link over weeks: the target forgets who wrote, and under which id."""

    @rule()
    def pass_a_week(self) -> None:
        self.network.heal()  # nothing stays in a network for so long
        self.world.pass_time(8 * _DAY_MS / 1000)
        self.target.forget_producers(_DAY_MS)
        self.target.coordinator.forget_ids(7 * _DAY_MS)


class LossyLink(Link):
    """A link whose target loses the end of a mirror that it had acknowledged."""

    @precondition(lambda self: not self.network.holding)
    @rule(batches=st.integers(1, 4))
    def lose_end_of_mirror(self, batches: int) -> None:
        """Elect a leader that lacks the last batches.

        Not the marker of a copier that is alive, nor while something of a dead one is on its way:
        a leader that forgot its claim takes whatever comes, and so the copies are out of order.
        """
        mirror = self.target.log(PARTITION)
        self.world.pass_time(1.0)
        kept = max(len(mirror.batches) - batches, 0)
        if self.running():
            markers = [at for at, one in enumerate(mirror.batches) if one.header.is_control]
            kept = max(kept, markers[-1] + 1 if markers else 0)
        end = mirror.batches[kept - 1].header.next_offset if kept else mirror.start
        self.journal.lose_end_of_mirror(end, self.target.coordinator.newest_epoch)


class CompactedLink(Link):
    """A link whose logs are compacted, also behind a ledger that lacks what was copied last."""

    def __init__(self) -> None:
        super().__init__()
        for broker in (self.source, self.target):
            broker.topics[PARTITION.topic].is_compacted = True

    def new_records(self, count: int) -> list[Record]:
        key = b"key %d" % (self.written % 3)
        return [one._replace(key=key) for one in super().new_records(count)]

    @precondition(lambda self: not self.are_alike)
    @rule()
    def compact_source(self) -> None:
        """Of records that look alike nobody could tell which were copied."""
        self.journal.compact_source()

    @precondition(lambda self: not self.are_alike)
    @rule()
    def compact_mirror(self) -> None:
        self.journal.compact_mirror()


class LossyLinkInTrouble(LossyLink, LinkInTrouble):
    """A target that loses records, and everything else that may go wrong."""


class OldLinkInTrouble(OldLink, LinkInTrouble):
    """Old records, and everything that may go wrong around them."""


class AgingLinkInTrouble(AgingLink, LinkInTrouble):
    """Records of all ages, and everything that may go wrong around them."""


class ForgottenLinkInTrouble(ForgottenLink, LinkInTrouble):
    """Weeks, and everything that may go wrong in them."""
