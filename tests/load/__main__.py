"""Writes a load to a topic that exists, and a journal of what became of each record.

Ends after --seconds, or cleanly on SIGINT or SIGTERM. Prints how many writes had which outcome.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

from tests.checker.journal import Entry
from tests.load.shapes import Shape, records
from tests.load.writing import Load, Pace


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    outcomes: Counter[str] = Counter()
    # By line: what is known when the load is killed is in the file.
    with options.journal.open("a", buffering=1) as journal:
        _write(options, journal, outcomes)
    print(json.dumps({"seed": options.seed} | outcomes))
    return 0


def _write(options: argparse.Namespace, journal: TextIO, outcomes: Counter[str]) -> None:
    def enter(entry: Entry) -> None:
        journal.write(entry.to_line())
        outcomes[entry.outcome] += 1

    load = Load(_settings(options), options.topic, enter)
    shape = Shape(load.partitions(), options.seed, options.identical_ratio, options.compact_keys)
    age = timedelta(days=options.age_days)
    pace = Pace(
        records(shape), options.rate, options.seconds, age_ms=age // timedelta(milliseconds=1)
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: pace.is_over.set())
    if options.transactional:
        load.write_transactions(pace, options.abort_ratio, random.Random(options.seed))
    else:
        load.write(pace)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    settings = {
        "bootstrap.servers": options.bootstrap,
        "enable.idempotence": True,
        "linger.ms": options.linger,
        "compression.type": options.codec,
        "delivery.timeout.ms": 60_000,
    }
    if options.transactional:
        settings["transactional.id"] = f"load.{options.topic}.{options.seed}"
    return settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    add = parser.add_argument
    add("--bootstrap", required=True)
    add("--topic", required=True)
    add("--seconds", type=float, required=True)
    add("--rate", type=float, required=True, help="records a second, at most")
    add("--journal", type=Path, required=True, help="file to append to")
    add("--codec", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    add("--linger", type=float, default=5, metavar="MS", help="0: nearly a batch a record")
    add("--transactional", action="store_true")
    add("--abort-ratio", type=float, default=0.0, help="of the transactions")
    add("--age-days", type=float, default=0.0, help="how old the timestamps are")
    add("--identical-ratio", type=float, default=0.0, help="of records that are all alike")
    add("--compact-keys", type=int, default=0, metavar="N", help="only so many different keys")
    add("--seed", type=int, default=random.randrange(10**6))
    return parser


if __name__ == "__main__":
    sys.exit(main())
