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

from bench.race.__main__ import conditions
from bench.read_again import compare
from heliograph.model.ledger import Ledger, Origin
from heliograph.model.runs import Run
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
    print("| runs in the ledger | to the target, s | back, s |\n|---|---|---|")
    slowest_s = 0.0
    for runs in RUNS:
        there_s, back_s = measure(runs)
        slowest_s = max(slowest_s, there_s, back_s)
        print(f"| {runs:,} | {there_s:.2f} | {back_s:.2f} |")
    if not asked.only_memory:
        print("\n" + "\n".join(compare()))
    return int(slowest_s > BAR_S)


def measure(runs: int) -> tuple[float, float]:
    """Translate both ways; return how long each took, in seconds."""
    ledger = ledger_of(runs)
    translator = Translator(ledger)
    wanted = [random.randrange(ledger.source_next) for _ in range(OFFSETS)]
    began_s = time.perf_counter()
    there = [translator.to_target(offset).offset for offset in wanted]
    middle_s = time.perf_counter()
    for offset in there:
        translator.to_source(offset)
    return middle_s - began_s, time.perf_counter() - middle_s


if __name__ == "__main__":
    sys.exit(main())
