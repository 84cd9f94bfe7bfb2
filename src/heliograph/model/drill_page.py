"""The report of a drill as a page of Markdown, made from what JSON shows of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from heliograph.model.drills import against, span

_TOPIC_HEADS = (
    "topic", "partitions", "arrived_records", "missing_records", "rpo_seconds", "rto_seconds",
)  # fmt: skip
_GROUP_HEADS = ("topic", "partition", "source_offset", "target_offset", "compared", "exact", "why")


def drill_page(found: Mapping[str, Any]) -> str:
    """Return the page of ``Drilled.as_dict``."""
    source, target = found["source"], found["target"]
    facts = [
        ("verdict", f"**{found['verdict']}**"),
        ("begun, ended", f"{found['begun_at']}, {found['ended_at']}"),
        ("by", found["by"]),
        ("source", f"{source['cluster']} (id {source['cluster_id']}, {source['brokers']} brokers)"),
        ("target", f"{target['cluster']} (id {target['cluster_id']}, {target['brokers']} brokers)"),
        ("versions", ", ".join(f"{name} {one}" for name, one in found["versions"].items())),
        ("scratch link", f"{found['drill']} ({_left(found['left_behind'])})"),
        (
            "sample",
            f"{found['arrived_records']} records of {found['partitions']} partitions; the link"
            f" has {found['partitions_of_link']}",
        ),
        (
            "RPO",
            f"{span(found['rpo_seconds'])}, {found['missing_records']} records"
            f" ({_against(found, 'rpo')})",
        ),
        ("RTO", f"{span(found['rto_seconds'])} ({_against(found, 'rto')})"),
        ("of that, the failover", f"{found['failover_seconds']} s: {', '.join(found['steps'])}"),
        ("hooks", "run" if found["hooks"] else "not run"),
    ]
    return "\n".join(
        [
            f"# Failover drill of {found['link']}",
            "",
            _table(("", ""), facts),
            _listed("Findings", found["findings"], "None."),
            f"## Topics\n\n{_table(_TOPIC_HEADS, _rows(found['topics'], _TOPIC_HEADS))}",
            f"## Moves of the consumer group\n\n{_groups(found)}",
            f"## What a real failover would find now\n\n{_foreseen(found['real_failover_now'])}",
            _listed("Notes", found["notes"], "None."),
            _listed("What this drill cannot show", found["cannot_show"], "Nothing."),
        ]
    )


def _groups(found: Mapping[str, Any]) -> str:
    rows = found["groups"]
    exact = sum(one["exact"] and one["compared"] for one in rows)
    empty = sum(one["exact"] and not one["compared"] for one in rows)
    words = f"{exact} of {len(rows)} offsets were compared, record by record, and are exact."
    words += f" {empty} had nothing to read behind them." if empty else ""
    return f"{words}\n\n{_table(_GROUP_HEADS, _rows(rows, _GROUP_HEADS))}"


def _foreseen(found: Mapping[str, Any]) -> str:
    facts = [
        ("records not arrived", _known(found["missing_records"])),
        ("partitions of which that is not known", _known(found["unknown_partitions"])),
        ("seconds not arrived", _known(found["rpo_seconds"])),
        ("RPO kept", _known(found.get("rpo_ok"))),
        ("source last heard from, seconds ago", _known(found["heard_seconds"])),
        ("offsets of groups that would be set", _known(found["group_offsets"])),
    ]
    return _table(("", ""), facts)


def _left(left: Sequence[str]) -> str:
    return f"left behind: {', '.join(left)}" if left else "removed, nothing is left of it"


def _against(found: Mapping[str, Any], name: str) -> str:
    return against(found[f"{name}_objective_seconds"], found[f"{name}_ok"])


def _listed(title: str, lines: Sequence[str], none: str) -> str:
    listed = "".join(f"- {_cell(one)}\n" for one in lines) or f"{none}\n"
    return f"## {title}\n\n{listed}"


def _rows(rows: Iterable[Mapping[str, Any]], heads: Sequence[str]) -> list[list[str]]:
    return [[_known(one[head]) for head in heads] for one in rows]


def _known(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines: list[Sequence[str]] = [heads, ["---"] * len(heads)]
    lines += [[_cell(str(one)) for one in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    # A bar would end the cell, a bracket begin a tag, a line the row.
    return re.sub(r"([|<])", r"\\\1", text.replace("\n", " "))
