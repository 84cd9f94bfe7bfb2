"""From produced on the source to readable on the mirror: a live stream through a running tool."""

import json
import select
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.race.ends import Ends
from bench.race.fill import Make
from bench.race.stage import Stage
from bench.race.tools import Leg, Running, Tool
from bench.race.verdicts import percentile
from heliograph.kafka.compress import Codec

PARTITIONS = 4
ISOLATIONS = ("read_uncommitted", "read_committed")
_READY_S, _SLACK_S = 120.0, 90.0
_ASK_S = 0.5


@dataclass(frozen=True)
class Stream:
    """A live load: records a second, and how long the producer waits to fill a batch."""

    rate: int
    linger_ms: int

    def __str__(self) -> str:
        linger = f"linger.ms={self.linger_ms}" if self.linger_ms else "without linger"
        return f"{self.rate:,} records/s {linger}"


STREAMS = (Stream(1_000, 0), Stream(20_000, 5))
"""The second with the default linger of both Kafka's and librdkafka's producers."""


@dataclass(frozen=True)
class Heard:
    """How late the records of one stream were for one reader."""

    stream: Stream
    isolation: str
    p50_ms: float
    p99_ms: float
    worst_ms: float
    records: int
    kept_up: bool
    source_p50_ms: float
    source_p99_ms: float
    """How late the source itself acknowledged the same records: part of all the above."""

    def __str__(self) -> str:
        late = "" if self.kept_up else ", DID NOT KEEP UP"
        return (
            f"{self.stream}, {self.isolation}: p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms,"
            f" worst {self.worst_ms:.0f} ms, {self.records:,} records{late}; acknowledged by the"
            f" source: p50 {self.source_p50_ms:.1f} ms, p99 {self.source_p99_ms:.1f} ms"
        )


def listen(
    stage: Stage, tool: Tool, seconds: float, warm_s: float, streams: tuple[Stream, ...] = STREAMS
) -> list[Heard]:
    """Mirror live streams, one after the other, with one run of the tool."""
    make = Make(f"live-{time.monotonic_ns()}", PARTITIONS, Codec.NONE, 1)
    leg = stage.leg(make.topic)
    stage.make(make)
    try:
        with Running(tool, leg, stage.folder) as running:
            return [
                heard
                for stream in streams
                for heard in _one(stage, running, leg, stream, seconds, warm_s)
            ]
    finally:
        stage.drop(make.topic)
        stage.wipe(leg)


def _one(
    stage: Stage, running: Running, leg: Leg, stream: Stream, seconds: float, warm_s: float
) -> list[Heard]:
    files = [stage.folder / f"{leg.alias}-{stream.rate}-{one}" for one in ISOLATIONS]
    to = [leg.source, leg.topic, str(PARTITIONS), str(stream.rate), str(stream.linger_ms)]
    with ExitStack() as stack:
        load = stack.enter_context(_child("bench.race.load", to))
        _await_mirror(running, leg)
        readers = [
            stack.enter_context(_child("bench.race.listen", _listen_to(leg, one, seconds, path)))
            for one, path in zip(ISOLATIONS, files, strict=True)
        ]
        for reader in readers:
            _line(reader, running, _READY_S)
        time.sleep(warm_s)
        begin = b"%d\n" % time.time_ns()
        for child in (load, *readers):
            assert child.stdin is not None
            child.stdin.write(begin)
        told = [_line(reader, running, seconds + _SLACK_S) for reader in readers]
        assert load.stdin is not None
        load.stdin.close()
        acked = json.loads(_line(load, running, _SLACK_S))
    rows = zip(ISOLATIONS, files, told, strict=True)
    return [_heard(stream, one, path, json.loads(line), acked) for one, path, line in rows]


def _listen_to(leg: Leg, isolation: str, seconds: float, path: Path) -> list[str]:
    return [leg.target, leg.mirror, str(PARTITIONS), isolation, str(seconds), str(path)]


def _await_mirror(running: Running, leg: Leg) -> None:
    until_s = time.monotonic() + _READY_S
    with Ends(leg.target, leg.mirror, PARTITIONS) as ends:
        while not all(ends.ask() or (0,)):
            running.check()
            if time.monotonic() > until_s:
                raise running.failure("mirrored nothing in time")
            time.sleep(0.05)


@contextmanager
def _child(module: str, arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a helper; it ends with the context, whatever happens."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        # A Ctrl-C is for us alone; we end them.
        start_new_session=True,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def _line(child: subprocess.Popen[bytes], running: Running, within_s: float) -> bytes:
    """Return the next line that a helper prints; raise if it, or the tool, ends before."""
    assert child.stdout is not None
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        running.check()
        if select.select([child.stdout], [], [], _ASK_S)[0]:
            line = child.stdout.readline()
            if not line:
                raise RuntimeError(f"a helper ended: {child.args!r}")
            return line
    raise running.failure("was too slow for a reader of its mirror")


def _heard(
    stream: Stream, isolation: str, path: Path, told: dict[str, int], acked: dict[str, int]
) -> Heard:
    latencies = array("q", path.read_bytes())
    path.unlink()
    if told["lost"] or told["repeated"] or not latencies:
        raise RuntimeError(f"{isolation}, {stream}: of {len(latencies)} records, {told}")
    ordered = sorted(latencies)
    return Heard(
        stream,
        isolation,
        p50_ms=percentile(ordered, 0.5) / 1e6,
        p99_ms=percentile(ordered, 0.99) / 1e6,
        worst_ms=ordered[-1] / 1e6,
        records=len(ordered),
        kept_up=bool(told["over"]),
        source_p50_ms=acked["p50_ns"] / 1e6,
        source_p99_ms=acked["p99_ns"] / 1e6,
    )
