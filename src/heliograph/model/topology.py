"""Topology: where links carry the records of a topic, and which ways lead back. Pure.

To a link, a mirror on its source is a topic like any other. So links that lead back to where a
topic was may copy their own copies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from heliograph.errors import ConfigError
from heliograph.model.findings import Finding, some
from heliograph.model.selection import is_topic_name, matches, mirror_name, select


class Spot(NamedTuple):
    """A topic on a cluster."""

    cluster: str
    topic: str


@dataclass(frozen=True, slots=True)
class Flow:
    """What of a link decides where records go.

    ``is_local`` says that it copies no record that a link wrote.
    """

    link: str
    source: str
    target: str
    topics: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    naming: str = "{topic}"
    is_local: bool = False

    def carry(self, spot: Spot) -> Spot | None:
        """Return where a topic's mirror stands, or None where the link does not copy it.

        >>> Flow("a-b", "a", "b", ("x",), naming="{source}.{topic}").carry(Spot("a", "x"))
        Spot(cluster='b', topic='a.x')
        """
        if spot.cluster != self.source or not select([spot.topic], self.topics, self.exclude):
            return None
        try:
            return Spot(self.target, mirror_name(self.naming, self.source, spot.topic))
        except ConfigError:
            return None  # what cannot be named is not copied

    def mirrors(self) -> str | None:
        """Return a pattern for the names of its mirrors; None where they are named like topics."""
        parts = self.naming.replace("{source}", self.source).split("{topic}")
        return ".*".join(map(re.escape, parts)) if any(parts) else None


@dataclass(frozen=True, slots=True)
class Cycle:
    """A way back to a cluster: ``flows[n]`` leads from ``spots[n]`` to ``spots[n + 1]``.

    Invariant A: the first and the last spot are on one cluster. ``repeats`` says that the last is
    the first again, or that the flow that the way began with takes it once more.
    """

    flows: tuple[Flow, ...]
    spots: tuple[Spot, ...]
    repeats: bool

    def __post_init__(self) -> None:
        assert len(self.spots) == len(self.flows) + 1, "a flow joins two spots"
        assert self.spots[0].cluster == self.spots[-1].cluster, "invariant A"

    @property
    def links(self) -> tuple[str, ...]:
        """The names of the links, in the order in which records pass them."""
        return tuple(flow.link for flow in self.flows)


def find_cycles(flows: Sequence[Flow], starts: Iterable[Spot]) -> list[list[Cycle]]:
    """Follow every start; return the ways back, those by the same links together.

    Where one of them repeats, those that do not are left out.
    """
    found: dict[frozenset[str], list[Cycle]] = {}
    for start in dict.fromkeys(starts):
        for cycle in _follow(flows, (), (start,), {start}):
            found.setdefault(frozenset(cycle.links), []).append(cycle)
    return [[one for one in alike if one.repeats] or alike for alike in found.values()]


def _follow(
    flows: Sequence[Flow], passed: tuple[Flow, ...], spots: tuple[Spot, ...], seen: set[Spot]
) -> Iterator[Cycle]:
    """Go on from the last spot, in depth. A way ends where it repeats: no link is passed twice."""
    for flow in flows:
        # What was copied here is not the source's own.
        there = None if passed and flow.is_local else flow.carry(spots[-1])
        if there is None:
            continue
        cycle = _closed((*passed, flow), (*spots, there))
        if cycle is not None:
            yield cycle
        if there not in seen and not (cycle and cycle.repeats):
            seen.add(there)
            yield from _follow(flows, (*passed, flow), (*spots, there), seen)


def _closed(passed: tuple[Flow, ...], spots: tuple[Spot, ...]) -> Cycle | None:
    """Return the way from the last spot's cluster back to it, if it was there before."""
    end = spots[-1]
    found: Cycle | None = None
    for at, (flow, spot) in enumerate(zip(passed, spots, strict=False)):
        if spot.cluster == end.cluster:
            again = not flow.is_local and flow.carry(end) is not None
            cycle = Cycle(passed[at:], spots[at:], spot == end or again)
            if cycle.repeats:
                return cycle
            # A link within one cluster comes back to it by intent.
            if any(one.source != one.target for one in cycle.flows):
                found = cycle
    return found


def examples(flows: Iterable[Flow]) -> Iterator[Spot]:
    r"""Yield a topic for each entry of a selection: itself, or a name made up for a pattern.

    What no name can be made up for is passed over.

    >>> [spot.topic for spot in examples([Flow("l", "a", "b", ("x", r"pay\..*", "(y|z)+"))])]
    ['x', 'pay.any']
    """
    for flow in flows:
        for entry in flow.topics:
            name = entry
            if not is_topic_name(entry):
                name = re.sub(r"\.[*+]", "any", entry).replace(r"\.", ".")
            if is_topic_name(name) and matches([entry], name):
                yield Spot(flow.source, name)


def judge(alike: Sequence[Cycle]) -> Finding:
    """Return the finding on cycles by the same links."""
    cycle = alike[0]
    first, last = cycle.spots[0], cycle.spots[-1]
    way = " → ".join(spot.cluster for spot in cycle.spots)
    topics = some(dict.fromkeys(one.spots[0].topic for one in alike))
    finding = f"the way is a cycle, {way}: "
    if first == last:
        finding += f"records of {topics} come back to where they came from, and are written again"
    else:
        finding += f"records of {topics} come back under other names ({last.topic})"
        finding += f", which {cycle.links[0]} copies again, and so on" if cycle.repeats else ""
    where = f"{'links' if len(cycle.links) > 1 else 'link'} {', '.join(cycle.links)}"
    if cycle.repeats:
        return Finding("error", "cycle", where, finding, _remedy(cycle))
    return Finding("warning", "mirror-returns", where, finding, _remedy(cycle))


def _remedy(cycle: Cycle) -> str:
    """Say how to leave mirrors out; by their names, where these tell."""
    befores = (cycle.flows[-1], *cycle.flows[:-1])
    patterns = {
        flow.link: pattern
        for before, flow in zip(befores, cycle.flows, strict=True)
        if (pattern := before.mirrors()) is not None
    }
    if patterns:
        told = ", ".join(f"'{pattern}' to exclude of {link}" for link, pattern in patterns.items())
        return f"Leave mirrors out: add {told}. Or set origin: local on each of these links"
    return (
        "Set origin: local on each of these links, or naming: prefix, or let them copy different"
        " topics"
    )
