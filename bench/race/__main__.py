"""Heliograph against MirrorMaker 2, side by side: same machine, same brokers, same records.

Every comparison is made inside one race, with alternating runs, by medians. Each run mirrors to
topics that nobody has used, and counts what arrived. ``make bench-race`` runs everything.
"""

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import unified_diff
from importlib.metadata import version

from bench.race import helio, sections
from bench.race.listen import settings as reader_settings
from bench.race.scenarios import Options, Race
from bench.race.sections import EXACTLY_ONCE, OURS, PLAIN, Section
from bench.race.stage import HEAP, PROPERTIES, stage
from bench.race.tools import Tool, fenced
from heliograph.kafka.compress import Codec
from heliograph.local.jars import KAFKA
from heliograph.local.java import find_java

SCENARIOS = ("lz4", "plain", "single", "old", "latency")
STAGE = (
    f"two clusters of one broker (heap {HEAP},"
    f" {', '.join(f'{key}={value}' for key, value in PROPERTIES.items())})"
)
ENTRANTS = {"heliograph": OURS, "mm2": PLAIN, "mm2-eos": EXACTLY_ONCE}


def main() -> int:
    """Parse the command line, run, print; return 1 if a bar was missed or a run failed."""
    parser = _parser()
    asked = parser.parse_args()
    if unknown := set(asked.scenario) - set(SCENARIOS):
        parser.error(f"no scenario {sorted(unknown)}; there are {', '.join(SCENARIOS)}")
    names = [ENTRANTS[name] for name in asked.only or ENTRANTS]
    if OURS in names and not helio.is_there():
        names.remove(OURS)
        _say("this checkout has no `heliograph run` yet: MirrorMaker 2 runs alone")
    tuned = dict(one.split("=", 1) for one in asked.mm2)
    options = Options(
        asked.rounds, asked.records, asked.seconds, asked.lease_seconds, tuple(names), tuned
    )
    # Whoever ends us by signal finds everything cleaned up, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    done: list[Section] = []
    with stage() as ready:
        race = Race(ready, options, _say)
        try:
            for scenario in asked.scenario or SCENARIOS:
                done.append(getattr(race, scenario)())
                _say("\n".join(_section_lines(done[-1])))
        except KeyboardInterrupt:
            _say("interrupted; what was measured before:")
            return 130
        finally:
            print("\n".join(_report(options, done, race.failures)))
    missed = any(bar.is_met is False for section in done for bar in section.bars)
    return 1 if missed or race.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.race", description=__doc__)
    parser.add_argument("scenario", nargs="*", help=f"{', '.join(SCENARIOS)}; all unless told")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each tool (3)")
    parser.add_argument(
        "--records", type=int, default=3_000_000, help="records to copy; of single ones, a third"
    )
    parser.add_argument(
        "--seconds", type=float, default=95.0, help="how long each latency is measured (95)"
    )
    parser.add_argument(
        "--lease-seconds",
        type=int,
        default=40,
        help="how long Heliograph's leases last where latency is measured (40)",
    )
    parser.add_argument(
        "--mm2",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="try another setting of MirrorMaker 2, e.g. {source}.consumer.max.poll.records=500",
    )
    parser.add_argument("--only", action="append", choices=list(ENTRANTS), help="only this tool")
    return parser


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def _report(options: Options, done: Sequence[Section], failures: Sequence[str]) -> list[str]:
    """Return the block for docs/benchmarks.md."""
    lines = ["", f"## Race, {conditions()}", ""]
    lines += [f"Medians of {options.rounds} alternating runs. Bars are ours against theirs.", ""]
    for section in done:
        lines += [*_section_lines(section), ""]
    if failures:
        lines += ["**Runs that failed**", "", *(fenced("", text) for text in failures), ""]
    return [*lines, *_settings(options)]


def _section_lines(section: Section) -> list[str]:
    lines = [f"**{section.title}**", "", *section.lines]
    return [*lines, "", *sections.bars_table(section.bars)] if section.bars else lines


def _settings(options: Options) -> list[str]:
    """Return all settings: of each tool in full once, and then what is different elsewhere."""
    lines = ["<details><summary>Settings</summary>", ""]
    shown: list[Tool] = []
    for name in options.entrants:
        for tool, what in (
            (
                options.copier(name, Codec.LZ4),
                "throughput",
            ),
            (options.live(name), "latency"),
        ):
            first = next((one for one in shown if type(one) is type(tool)), None)
            lines += [f"{name}, {what}:", "", _shown_settings(tool, first), ""]
            shown.append(tool)
    reader = reader_settings("TARGET:PORT", "read_uncommitted, read_committed")
    lines += ["MirrorMaker's compression.type is the codec of the source's batches: lz4, none.", ""]
    lines += ["Readers of the mirror, latency (librdkafka):", ""]
    lines += [fenced("properties", "\n".join(f"{k}={v}" for k, v in reader.items())), ""]
    return [*lines, "</details>"]


def _shown_settings(tool: Tool, first: Tool | None) -> str:
    text = tool.settings()
    if first is None:
        return fenced(tool.kind, text)
    changes = list(unified_diff(first.settings().splitlines(), text.splitlines(), n=0, lineterm=""))
    # Without the names of files, and without line numbers.
    told = [line for line in changes[2:] if not line.startswith("@@")]
    return fenced("diff", "\n".join(told)) if told else "The same."


def conditions(clusters: str = STAGE) -> str:
    """Say where and on what code this ran."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    said = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=False)
    java = re.search(r'version "([^"]+)"', said.stderr)
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit or 'unknown'},"
        f" {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()},"
        f" Java {java.group(1) if java else 'unknown'}, Kafka and MirrorMaker {KAFKA},"
        f" Spark {version('pyspark')}; {clusters}, all tools and load on the same machine"
    )


if __name__ == "__main__":
    sys.exit(main())
