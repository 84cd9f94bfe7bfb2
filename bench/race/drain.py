"""One run against the clock: a tool copies a filled topic to a new mirror, and is watched."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.race.ends import Ends
from bench.race.fill import Filled
from bench.race.stage import Counted, Stage
from bench.race.timeline import Sample, value_at, window
from bench.race.tools import Running, Tool

POLL_S = 0.005
_CPU_S, _LOOK_S = 0.02, 0.5
_STILL_S = 1.0
_WITHIN_S = 600.0


@dataclass(frozen=True)
class Drained:
    """What one run has shown."""

    records_per_s: float
    cpu_s_per_million: float
    """CPU seconds of all the tool's processes from the first to the last record."""
    peak_bytes: int
    """The most memory of all of them together (PSS), from the start to the last record."""
    first_record_s: float
    """From the command to the first record that could be read on the mirror."""

    def __str__(self) -> str:
        return (
            f"{self.records_per_s:,.0f} records/s, {self.cpu_s_per_million:.2f} CPU s per million,"
            f" peak {self.peak_bytes / 1e6:,.0f} MB, first record after {self.first_record_s:.1f} s"
        )


@dataclass
class _Watch:
    """Everything that is noted while a tool runs."""

    running: Running
    samples: list[Sample] = field(default_factory=list)
    cpu: list[tuple[float, float]] = field(default_factory=list)
    peak_bytes: int = 0
    _looked_s: float = 0.0

    def note(self, ends: tuple[int, ...] | None) -> None:
        """Note the ends if they moved, and every now and then CPU time and memory."""
        now_s = time.monotonic()
        if ends and any(ends) and (not self.samples or self.samples[-1].ends != ends):
            self.samples.append(Sample(now_s, ends))
        if now_s - self._looked_s >= _LOOK_S:
            self.running.check()
            self.running.tree.look()
            self.peak_bytes = max(self.peak_bytes, self.running.tree.pss_bytes())
            self._looked_s = now_s
        if not self.cpu or now_s - self.cpu[-1][0] >= _CPU_S:
            self.cpu.append((now_s, self.running.tree.cpu_s()))

    def is_still(self, records: int) -> bool:
        """Tell whether as many offsets as records are there, and none came for a while."""
        if not self.samples:
            return False
        last = self.samples[-1]
        return sum(last.ends) >= records and time.monotonic() - last.at_s >= _STILL_S


def drain(stage: Stage, tool: Tool, filled: Filled) -> Drained:
    """Let the tool copy the topic; check that every record arrived, once; wipe the mirror."""
    leg = stage.leg(filled.make.topic)
    try:
        with (
            Ends(leg.target, leg.mirror, filled.make.partitions) as ends,
            Running(tool, leg, stage.folder) as running,
        ):
            watch = _Watch(running)
            counted = _follow(stage, watch, ends, filled, leg.mirror)
    finally:
        stage.wipe(leg)
    return _measured(watch, counted, filled.records)


def _follow(stage: Stage, watch: _Watch, ends: Ends, filled: Filled, mirror: str) -> Counted:
    a_partition = filled.records // filled.make.partitions
    until_s = watch.running.started_s + _WITHIN_S
    counted: Counted | None = None
    while time.monotonic() < until_s:
        watch.note(ends.ask())
        if watch.is_still(filled.records):
            # Markers take offsets too, so only a count can tell whether all is there.
            counted = stage.count(mirror)
            if _is_whole(counted.records, a_partition):
                return counted
        time.sleep(POLL_S)
    seen = counted.records if counted else "nothing"
    raise watch.running.failure(f"did not copy {filled.records} records in time, but {seen}")


def _is_whole(records: Sequence[int], a_partition: int) -> bool:
    if any(count > a_partition for count in records):
        raise RuntimeError(f"more than {a_partition} records in a mirror partition: {records}")
    return all(count == a_partition for count in records)


def _measured(watch: _Watch, counted: Counted, records: int) -> Drained:
    seen = window(watch.samples, counted.spans, records)
    cpu_s = value_at(watch.cpu, seen.last_s) - value_at(watch.cpu, seen.first_s)
    return Drained(
        records_per_s=seen.records_per_s,
        cpu_s_per_million=cpu_s / (records / 1e6),
        peak_bytes=watch.peak_bytes,
        first_record_s=seen.first_s - watch.running.started_s,
    )
