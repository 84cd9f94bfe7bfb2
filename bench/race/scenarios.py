"""The scenarios of the race: what is copied, by whom, and which bars it decides."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeVar

from bench import wire
from bench.race import sections
from bench.race.drain import Drained, drain
from bench.race.fill import Filled, Make
from bench.race.helio import Heliograph
from bench.race.latency import Heard, listen
from bench.race.mirrormaker import (
    EXACTLY_ONCE_LATENCY,
    EXACTLY_ONCE_THROUGHPUT,
    LATENCY,
    THROUGHPUT,
    MirrorMaker,
)
from bench.race.sections import EXACTLY_ONCE, OURS, PLAIN, Section
from bench.race.stage import Stage
from bench.race.tools import Tool
from bench.raw_copy import topic_ends, within
from heliograph.errors import HeliographError
from heliograph.kafka.compress import Codec

_WARM_S = 10.0
_OLD = timedelta(days=3)
_RAISED = timedelta(days=20)
_LARGE, _SMALL = 260, 49  # records in batches of about 40 KB (lz4) and of 16 KB (uncompressed)

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    rounds: int
    records: int
    seconds: float
    lease_s: int
    entrants: tuple[str, ...]
    tuned: Mapping[str, str] = field(default_factory=dict)
    """Settings of MirrorMaker to try in place of ours, with ``{source}`` and ``{target}``."""

    def copier(self, name: str, codec: Codec) -> Tool:
        """Return a tool tuned for throughput, for batches of a codec."""
        if name == OURS:
            return Heliograph()
        is_exactly_once = name == EXACTLY_ONCE
        tuned = EXACTLY_ONCE_THROUGHPUT if is_exactly_once else THROUGHPUT
        same = {"{target}.producer.compression.type": codec.name.lower()}
        return MirrorMaker({**tuned, **same, **self.tuned}, is_exactly_once)

    def window_s(self, name: str) -> float:
        """Return how long to listen: of ours, two turn-overs at least."""
        return max(self.seconds, 2.1 * self.lease_s) if name == OURS else self.seconds

    def live(self, name: str) -> Tool:
        """Return a tool tuned for latency."""
        if name == OURS:
            return Heliograph({"HELIOGRAPH_LEASE_SECONDS": str(self.lease_s)})
        is_exactly_once = name == EXACTLY_ONCE
        tuned = EXACTLY_ONCE_LATENCY if is_exactly_once else LATENCY
        return MirrorMaker({**tuned, **self.tuned}, is_exactly_once)


@dataclass
class Race:
    """One race: the stage, what was asked for, and what went wrong."""

    stage: Stage
    options: Options
    say: Callable[[str], None]
    failures: list[str] = field(default_factory=list)

    def lz4(self) -> Section:
        """Large compressed batches; also what copying costs, and how soon it begins."""
        filled = self._fill(Make("lz4", 8, Codec.LZ4, _LARGE), self.options.records)
        runs, memory = self._throughput(filled, (PLAIN, EXACTLY_ONCE))
        bars = sections.rate_bars(runs, {EXACTLY_ONCE: 8.0, PLAIN: 5.0})
        bars += [*sections.cost_bars(runs), sections.memory_bar(runs, memory)]
        lines = [*sections.drained_table(runs), *sections.memory_line(memory)]
        return Section(f"lz4: {filled}", lines, bars)

    def plain(self) -> Section:
        """The same records in uncompressed batches of 16 KB."""
        filled = self._fill(Make("plain", 8, Codec.NONE, _SMALL), self.options.records)
        runs, memory = self._throughput(filled, (EXACTLY_ONCE,))
        bars = sections.rate_bars(runs, {EXACTLY_ONCE: 3.0})
        bars.append(sections.memory_bar(runs, memory))
        lines = [*sections.drained_table(runs), *sections.memory_line(memory)]
        return Section(f"plain: {filled}", lines, bars)

    def single(self) -> Section:
        """Batches of one record: the hard case for whoever copies batches."""
        filled = self._fill(Make("single", 4, Codec.NONE, 1), self.options.records // 3)
        runs, _ = self._throughput(filled, (EXACTLY_ONCE,), has_limit=False)
        bars = sections.rate_bars(runs, {EXACTLY_ONCE: 1.5})
        return Section(f"single: {filled}", sections.drained_table(runs), bars)

    def old(self) -> Section:
        """A backlog three days old, older than brokers remember a producer by default."""
        kept: dict[str, list[Drained]] = {"fresh": [], "3 days old": [], "old, limit raised": []}
        fresh, old, raised = kept
        if OURS in self.options.entrants:
            new = self._fill(Make("fresh", 8, Codec.LZ4, _LARGE), self.options.records)
            aged = self._fill(Make("old", 8, Codec.LZ4, _LARGE, _OLD), self.options.records)
            for _ in range(self.options.rounds):
                for name, filled in ((fresh, new), (old, aged), (raised, aged)):
                    longer = self.stage.remembering(_RAISED)
                    with longer if name == raised else nullcontext():
                        self._try(f"{OURS}, {name}", self._drain(OURS, filled), kept[name])
            self._drop(new, aged)
        title = f"old: {OURS} alone, a backlog as in lz4, {_OLD.days} days old and fresh"
        bars = sections.old_bars(kept, fresh, old, raised)
        return Section(title, sections.drained_table(kept), bars)

    def latency(self) -> Section:
        """From produced to readable, at two rates, over two turn-overs of Heliograph's leases."""
        kept: dict[str, list[list[Heard]]] = {name: [] for name in self.options.entrants}
        for turn in range(self.options.rounds):
            for name in _rotated(self.options.entrants, turn):
                tool = self.options.live(name)
                heard = partial(listen, self.stage, tool, self.options.window_s(name), _WARM_S)
                self._try(name, heard, kept[name])
        title = (
            f"latency: from produced to readable, 4 partitions, {self.options.seconds:.0f} s each"
            f" (Heliograph {self.options.window_s(OURS):.0f} s, leases of {self.options.lease_s} s)"
        )
        return Section(title, sections.heard_table(kept), sections.heard_bars(kept))

    def _throughput(
        self, filled: Filled, rivals: Sequence[str], *, has_limit: bool = True
    ) -> tuple[dict[str, list[Drained]], list[float]]:
        names = [name for name in (OURS, *rivals) if name in self.options.entrants]
        runs: dict[str, list[Drained]] = {name: [] for name in names}
        memory: list[float] = []
        for turn in range(self.options.rounds):
            for name in _rotated(names, turn):
                self._try(name, self._drain(name, filled), runs[name])
            if has_limit:
                self._try("from memory", partial(self._from_memory, filled), memory)
        self._drop(filled)
        return runs, memory

    def _fill(self, make: Make, records: int) -> Filled:
        filled = self.stage.fill(make, records)
        self.say(f"{make.topic}: {filled}")
        return filled

    def _drop(self, *filled: Filled) -> None:
        for one in filled:
            self.stage.drop(one.make.topic)

    def _drain(self, name: str, filled: Filled) -> Callable[[], Drained]:
        tool = self.options.copier(name, filled.make.codec)
        return partial(drain, self.stage, tool, filled)

    def _from_memory(self, filled: Filled) -> float:
        """Return the records a second that the target takes of the same batches from memory."""
        stage, topic = self.stage, filled.make.topic
        ends = topic_ends(stage.source, topic, within(20))
        admin, size_bytes = stage.target_admin, filled.size_bytes
        there = wire.Stage(stage.source, stage.target, admin, "", topic, ends, size_bytes)
        return filled.records / wire.produce_from_memory(there).wall_s

    def _try(self, name: str, run: Callable[[], T], into: list[T]) -> None:
        """Make one run. One that fails is told of at the end, and does not end the race."""
        try:
            result = run()
        except (RuntimeError, OSError, HeliographError) as failure:
            self.failures.append(f"{name}: {failure}")
            self.say(f"  {name}: FAILED, {failure}")
        else:
            into.append(result)
            shown = result if isinstance(result, list) else [result]
            self.say("\n".join(f"  {name}: {_brief(one)}" for one in shown))


def _brief(result: object) -> str:
    if isinstance(result, float):
        return f"{result:,.0f} records/s"
    return str(result)


def _rotated(names: Sequence[str], turn: int) -> list[str]:
    """Return the names, each round beginning with the next: no one always follows the same."""
    at = turn % len(names) if names else 0
    return [*names[at:], *names[:at]]
