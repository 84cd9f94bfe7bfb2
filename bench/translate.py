"""How long a million offsets take to translate: ``python -m bench.translate``.

In memory, with ledgers of one run, of thousands and of a million: the last is a mirror of a topic
in which every record is its own transaction.
"""

from __future__ import annotations

import random
import time

from heliograph.model.ledger import Ledger, Origin
from heliograph.model.runs import Run
from heliograph.model.topics import Partition
from heliograph.model.translation import Translator

OFFSETS = 1_000_000
RUNS = (1, 1_000, 1_000_000)


def ledger_of(runs: int) -> Ledger:
    """Return a ledger of so many runs; a marker follows each on the source."""
    ledger = Ledger(Partition("orders", 0), Origin("a", "b", "c", "d"))
    length = max(OFFSETS // runs, 1)
    for number in range(runs):
        ledger.add(Run(number * (length + 1), 1 + number * length, length))
    return ledger


def main() -> None:
    """Translate both ways, and print how long it took."""
    for runs in RUNS:
        ledger = ledger_of(runs)
        translator = Translator(ledger)
        wanted = [random.randrange(ledger.source_next) for _ in range(OFFSETS)]
        began_s = time.perf_counter()
        there = [translator.to_target(offset).offset for offset in wanted]
        middle_s = time.perf_counter()
        for offset in there:
            translator.to_source(offset)
        ended_s = time.perf_counter()
        print(
            f"{OFFSETS:,} offsets, {runs:,} runs: to the target {middle_s - began_s:.2f} s,"
            f" back {ended_s - middle_s:.2f} s"
        )


if __name__ == "__main__":
    main()
