"""Cycles: links that would copy their own copies, found in the file alone or among live topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from heliograph.config.settings import LinkConfig
from heliograph.config.values import SAME
from heliograph.control.visits import Visit
from heliograph.model.findings import Finding
from heliograph.model.topology import Flow, Spot, examples, find_cycles, judge


def cycles_in_file(links: Sequence[LinkConfig]) -> list[tuple[str, str]]:
    """Return, with one of its links, each cycle that shows whatever topics there are."""
    flows = _flows(links, {})
    found = []
    for alike in find_cycles(flows, examples(flows)):
        if alike[0].repeats:
            finding = judge(alike)
            found.append((alike[0].links[-1], f"{finding.finding}. {finding.remedy}"))
    return found


def check_cycles(
    links: Iterable[LinkConfig], chosen: Collection[str], visits: Mapping[str, Visit]
) -> Iterator[Finding]:
    """Follow every topic that exists along all links; find the cycles of those that were chosen."""
    names = _one_name_each(visits)
    flows = _flows(links, names)
    existing = [
        Spot(names[name], topic) for name, visit in visits.items() for topic in visit.topics
    ]
    for alike in find_cycles(flows, [*examples(flows), *existing]):
        if not set(chosen).isdisjoint(alike[0].links):
            yield judge(alike)


def _one_name_each(visits: Mapping[str, Visit]) -> dict[str, str]:
    """Return the name of each cluster; of one that has several, the first."""
    first: dict[str, str] = {}
    for name, visit in visits.items():
        first.setdefault(visit.cluster_id, name)
    return {name: first[visit.cluster_id] for name, visit in visits.items()}


def _flows(links: Iterable[LinkConfig], names: Mapping[str, str]) -> list[Flow]:
    """Return where the links lead; those that are refused on their own are left out."""
    flows = (_flow(link, names) for link in links)
    return [flow for flow in flows if flow.source != flow.target or flow.naming != SAME]


def _flow(link: LinkConfig, names: Mapping[str, str]) -> Flow:
    return Flow(
        link.name,
        names.get(link.source, link.source),
        names.get(link.target, link.target),
        link.topics,
        link.exclude,
        # Mirrors are named by the name that the link knows its source by.
        link.naming.replace("{source}", link.source),
        link.origin == "local",
    )
