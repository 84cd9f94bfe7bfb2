"""Compares mirrors with their sources, record by record, on librdkafka alone.

Exit status: 0 clean, 1 anomalies, 2 wrong usage, or nothing can be said.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from confluent_kafka import KafkaException

from tests.checker.check import Journal, Scope, Unsupported, check
from tests.checker.journal import read_journal
from tests.checker.reading import Unreadable


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        scope = Scope(
            options.source,
            options.target,
            options.link,
            dict(options.topic),
            ledger=options.ledger,
            journal=_journal(options.journal),
            gaps_ok=options.gaps_ok,
        )
        report = check(scope)
    except (Unsupported, Unreadable, KafkaException, OSError, ValueError) as error:
        print(f"not checked: {error}", file=sys.stderr)
        return 2
    print(report.as_json() if options.output == "json" else report)
    return 1 if report.anomalies else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.checker", description=__doc__)
    parser.add_argument("--source", required=True, metavar="BOOTSTRAP")
    parser.add_argument("--target", required=True, metavar="BOOTSTRAP")
    parser.add_argument("--link", required=True, help="the link whose ledger is followed")
    parser.add_argument(
        "--topic",
        required=True,
        action="append",
        type=_topic,
        metavar="TOPIC[=MIRROR]",
        help="may be repeated",
    )
    parser.add_argument("--ledger", default="", metavar="TOPIC", help="if it is not the link's own")
    parser.add_argument(
        "--journal",
        type=Path,
        help="of tests.load, which must be over; the mirror must have caught up",
    )
    parser.add_argument(
        "--gaps-ok",
        action="store_true",
        help="what a gap names may be missing, even what the source still has or acknowledged",
    )
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    return parser


def _topic(text: str) -> tuple[str, str]:
    topic, _, mirror = text.partition("=")
    if not topic:
        raise argparse.ArgumentTypeError("a topic has a name")
    return topic, mirror or topic


def _journal(path: Path | None) -> Journal | None:
    if path is None:
        return None
    with path.open() as lines:
        return read_journal(lines)


if __name__ == "__main__":
    sys.exit(main())
