"""How long a million offsets take to translate, and what groups read again after a failover.

    python -m bench.translate [--only-memory]

First in memory, with ledgers of one run, of thousands and of a million: the last is a mirror of a
topic in which every record is its own transaction. Then on two local clusters, against MirrorMaker
2: see ``bench.read_again``.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from bench.race.__main__ import conditions
from bench.read_again import compare
from heliograph.model.ledger import Ledger, Origin
from heliograph.model.runs import Run, Translation
from heliograph.model.topics import Partition
from heliograph.model.translation import Translator

OFFSETS = 1_000_000
RUNS = (1, 1_000, 1_000_000)
BAR_S = 5.0


def ledger_of(runs: int) -> Ledger:
    """Return a ledger of so many runs; a marker follows each on the source."""
    ledger = Ledger(Partition("orders", 0), Origin("a", "b", "c", "d"))
    length = max(OFFSETS // runs, 1)
    for number in range(runs):
        ledger.add(Run(number * (length + 1), 1 + number * length, length))
    return ledger


def main() -> int:
    """Measure both, and print a report; return 1 if the bar was missed."""
    parser = argparse.ArgumentParser(prog="bench.translate", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only-memory", action="store_true", help="leave the clusters out")
    asked = parser.parse_args()
    print(f"## Translation, {conditions('two clusters of one broker')}\n")
    print(f"**{OFFSETS:,} offsets, in memory** (bar: {BAR_S:.0f} s each way)\n")
    print("| runs in the ledger | to the target, s | of it CPU | back, s | of it CPU |")
    print("|---|---|---|---|---|")
    slowest_s = 0.0
    for runs in RUNS:
        there, back = measure(runs)
        slowest_s = max(slowest_s, there.seconds, back.seconds)
        cells = (f"{one.seconds:.2f} | {one.cpu_s:.2f}" for one in (there, back))
        print(f"| {runs:,} | {' | '.join(cells)} |")
    if not asked.only_memory:
        print("\n" + "\n".join(compare()))
    return int(slowest_s > BAR_S)


class Took(NamedTuple):
    """How long something took, and how much of that a core worked on it: others may be busy."""

    seconds: float
    cpu_s: float


def measure(runs: int) -> tuple[Took, Took]:
    """Translate both ways; return how long each took."""
    ledger = ledger_of(runs)
    translator = Translator(ledger)
    wanted = [random.randrange(ledger.source_next) for _ in range(OFFSETS)]
    there, took = timed(translator.to_target, wanted)
    return took, timed(translator.to_source, there)[1]


def timed(translate: Callable[[int], Translation], offsets: list[int]) -> tuple[list[int], Took]:
    """Translate each offset; return what came of it, and how long it took."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    found = [translate(offset).offset for offset in offsets]
    return found, Took(time.perf_counter() - began_s, time.process_time() - began_cpu_s)


if __name__ == "__main__":
    sys.exit(main())
