"""From measurements to the tables and bars of the report. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.race.drain import Drained
from bench.race.latency import Heard
from bench.race.verdicts import Bar, Wanted, median

OURS, PLAIN, EXACTLY_ONCE = "Heliograph", "MirrorMaker 2", "MirrorMaker 2 exactly-once"
MEMORY = "from memory"
RIVALS = (PLAIN, EXACTLY_ONCE)

Runs = Mapping[str, Sequence[Drained]]
HeardRuns = Mapping[str, Sequence[Sequence[Heard]]]


@dataclass(frozen=True)
class Section:
    """One part of the report."""

    title: str
    lines: Sequence[str]
    bars: Sequence[Bar] = field(default_factory=list)


def drained_table(runs: Runs) -> list[str]:
    """Return the table of runs against the clock: medians, and the rate of each run."""
    lines = [
        "| tool | records/s | CPU s per million records | peak memory, MB |"
        " command to first record, s | records/s of each run |",
        "|---|---|---|---|---|---|",
    ]
    for name, some in runs.items():
        if some:
            each = ", ".join(f"{run.records_per_s:,.0f}" for run in some)
            lines.append(
                f"| {name} | {_mid(some, 'records_per_s'):,.0f}"
                f" | {_mid(some, 'cpu_s_per_million'):.2f} | {_mid(some, 'peak_bytes') / 1e6:,.0f}"
                f" | {_mid(some, 'first_record_s'):.1f} | {each} |"
            )
    return lines


def memory_line(rates: Sequence[float]) -> list[str]:
    """Return the line that tells the target's own limit."""
    middle = median(rates)
    return [] if middle is None else ["", f"The target takes the same batches: {middle:,.0f} rec/s"]


def rate_bars(runs: Runs, wanted: Mapping[str, float]) -> list[Bar]:
    """Return how many times the rate of each rival ours must be."""
    return [
        Bar(
            f"records/s against {name}",
            _median(runs, OURS, "records_per_s"),
            _median(runs, name, "records_per_s"),
            Wanted.AT_LEAST,
            times,
        )
        for name, times in wanted.items()
    ]


def cost_bars(runs: Runs) -> list[Bar]:
    """Return the bars for CPU time, memory and start: against the better of the two rivals."""
    rows = (
        ("cpu_s_per_million", "CPU s per million records", 0.1, 1.0),
        ("peak_bytes", "peak memory", 1.0, 1e6),
        ("first_record_s", "seconds from command to first record", 1.0, 1.0),
    )
    bars = []
    for name, what, times, unit in rows:
        ours = _median(runs, OURS, name)
        known = [value for rival in RIVALS if (value := _median(runs, rival, name)) is not None]
        what = f"{what}, MB" if unit > 1 else what
        theirs = min(known) / unit if known else None
        ours = None if ours is None else ours / unit
        bars.append(Bar(f"{what}, against the better rival", ours, theirs, Wanted.AT_MOST, times))
    return bars


def memory_bar(runs: Runs, rates: Sequence[float]) -> Bar:
    """Return the bar for the share of what the target can take at all."""
    ours = _median(runs, OURS, "records_per_s")
    what = "records/s against the same batches from memory"
    return Bar(what, ours, median(rates), Wanted.AT_LEAST, 0.5)


def old_bars(runs: Runs, fresh: str, old: str, raised: str) -> list[Bar]:
    """Return the bars for a backlog of old records, against fresh ones."""
    rates = {name: _median(runs, name, "records_per_s") for name in (fresh, old, raised)}
    what = "records/s, {} against fresh"
    return [
        Bar(what.format(old), rates[old], rates[fresh], Wanted.AT_LEAST, 0.5),
        # "The same": within what two medians of the same thing differ by.
        Bar(what.format(raised), rates[raised], rates[fresh], Wanted.AT_LEAST, 0.9),
    ]


def heard_table(runs: HeardRuns) -> list[str]:
    """Return the table of latencies: medians of the runs."""
    lines = [
        "| stream | reader | tool | p50, ms | p99, ms | worst, ms | p99 of each run, ms |"
        " of it until the source has it, p50 / p99, ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for stream, isolation in _kinds(runs):
        for name in runs:
            some = _of(runs, name, stream, isolation)
            if some:
                p50, p99 = median(h.p50_ms for h in some), median(h.p99_ms for h in some)
                each = ", ".join(f"{h.p99_ms:.1f}" for h in some)
                late = "" if all(h.kept_up for h in some) else " (did not keep up)"
                worst = max(h.worst_ms for h in some)
                source = [median(h.source_p50_ms for h in some)]
                source += [median(h.source_p99_ms for h in some)]
                lines.append(
                    f"| {stream} | {isolation} | {name}{late} | {p50:.1f} | {p99:.1f}"
                    f" | {worst:.0f} | {each} | {source[0]:.1f} / {source[1]:.1f} |"
                )
    return lines


def heard_bars(runs: HeardRuns) -> list[Bar]:
    """Return the bars for latency: no more than plain, a third of exactly-once."""
    bars = []
    for stream, isolation in _kinds(runs):
        for rival, times in ((PLAIN, 1.0), (EXACTLY_ONCE, 1 / 3)):
            for name in ("p50_ms", "p99_ms"):
                ours, theirs = (
                    median(getattr(h, name) for h in _of(runs, who, stream, isolation))
                    for who in (OURS, rival)
                )
                what = f"{name[:3]} ms, {stream}, {isolation}, against {rival}"
                bars.append(Bar(what, ours, theirs, Wanted.AT_MOST, times))
    return bars


def bars_table(bars: Sequence[Bar]) -> list[str]:
    """Return the table of bars, with pass or FAIL."""
    lines = ["| bar | Heliograph | other | ratio | wanted | |", "|---|---|---|---|---|---|"]
    for bar in bars:
        ratio = "" if bar.ratio is None else f"{bar.ratio:.3g}x"
        lines.append(
            f"| {bar.what} | {_number(bar.ours)} | {_number(bar.theirs)} | {ratio}"
            f" | {bar.wanted} {bar.times:.3g}x | {bar.verdict} |"
        )
    return lines


def _kinds(runs: HeardRuns) -> list[tuple[str, str]]:
    every = (heard for some in runs.values() for run in some for heard in run)
    return list(dict.fromkeys((str(heard.stream), heard.isolation) for heard in every))


def _of(runs: HeardRuns, name: str, stream: str, isolation: str) -> list[Heard]:
    every = (heard for run in runs.get(name, ()) for heard in run)
    return [h for h in every if str(h.stream) == stream and h.isolation == isolation]


def _median(runs: Runs, name: str, what: str) -> float | None:
    return median(getattr(run, what) for run in runs.get(name, ()))


def _mid(some: Sequence[Drained], what: str) -> float:
    return median(getattr(run, what) for run in some) or 0.0


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
