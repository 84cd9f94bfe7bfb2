"""Mistakes that only show when settings are seen together."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from heliograph.config.document import Finding, Place
from heliograph.config.reader import Reading, no_such
from heliograph.config.settings import TOPICS_LEFT_OUT, ClusterConfig, DashboardConfig, LinkConfig
from heliograph.config.values import SAME, is_topic_name

# What decides which mirrors a link writes.
_CHOOSING = ("source", "target", "topics", "exclude", "naming")

CheckCluster = Callable[[ClusterConfig], Sequence[str]]
CheckTopology = Callable[[Sequence[LinkConfig]], Sequence[tuple[str, str]]]
CheckDashboard = Callable[[DashboardConfig], Sequence[str]]


def check_links(links: Mapping[str, Reading], clusters: Mapping[str, Reading]) -> list[Finding]:
    """Compare links with the clusters and with each other. What was not read is passed over."""
    found: list[Finding] = []
    for link in links.values():
        found += _unknown_clusters(link, clusters)
        found += _same_cluster(link)
        found += _left_out_by_default(link)
    for one, other in combinations(links.items(), 2):
        found += _overlap(one, other)
        found += _clash(one, other)
    return found


def _unknown_clusters(link: Reading, clusters: Mapping[str, Reading]) -> Iterator[Finding]:
    for end in ("source", "target"):
        name = link.values.get(end)
        if name is not None and name not in clusters:
            yield link.places[end].wrong(no_such("cluster", name, clusters))


def _same_cluster(link: Reading) -> Iterator[Finding]:
    source, target = link.values.get("source"), link.values.get("target")
    if source is None or source != target:
        return
    where = link.places["target"]
    if "allow_same_cluster" not in link.places:
        yield where.wrong(
            "is the source too: the mirror would copy itself without end. Name another cluster, "
            "or set naming and allow_same_cluster: true"
        )
    elif link.values.get("allow_same_cluster") is False:
        yield where.wrong("is the source too, and allow_same_cluster is false")
    elif _is_known(link, "allow_same_cluster", "naming") and _naming(link) == SAME:
        yield where.wrong("is the source too, so mirrors need other names: set naming to prefix")


def _left_out_by_default(link: Reading) -> Iterator[Finding]:
    """Refuse a name that a list would leave out which its writer has never seen."""
    if "exclude" in link.places:
        return
    for topic in _literals(link):
        if _matches(TOPICS_LEFT_OUT, topic):
            yield link.places["topics"].wrong(
                f"{topic} would not be copied: exclude leaves it out unless told otherwise. Set "
                "exclude ([] leaves nothing out), or take the topic away"
            )


def _overlap(one: tuple[str, Reading], other: tuple[str, Reading]) -> Iterator[Finding]:
    (name, first), (_, second) = one, other
    ends = [
        (link.values.get("source"), link.values.get("target"), _naming(link))
        for link in (first, second)
    ]
    is_known = all(_is_known(link, *_CHOOSING) for link in (first, second))
    if ends[0] != ends[1] or None in ends[0] or not is_known:
        return
    both = [topic for topic in _literals(first, second) if _takes(first, topic)]
    both = [topic for topic in both if _takes(second, topic)]
    if both:
        yield second.places["topics"].wrong(
            f"{', '.join(both)}: the link {name} copies this too, between the same clusters. One "
            "mirror has one writer: leave it out of one of them, or give one another naming"
        )


def _clash(one: tuple[str, Reading], other: tuple[str, Reading]) -> Iterator[Finding]:
    """Find mirrors of other clusters' topics that two links write, and do not share."""
    (name, first), (_, second) = one, other
    ends = [(link.values.get("source"), link.values.get("target")) for link in (first, second)]
    is_known = all(_is_known(link, *_CHOOSING, "mirrors", "origin") for link in (first, second))
    if ends[0][1] != ends[1][1] or ends[0] == ends[1] or not is_known:
        return
    both = sorted(_mirrors(first) & _mirrors(second))
    if both and not (_shares(first) and _shares(second)):
        yield second.places["topics"].wrong(
            f"the link {name} writes to {', '.join(both)} as well, from another cluster. Give one "
            "another naming, or let both share it: mirrors: {merge: true} on each"
        )


def _mirrors(link: Reading) -> set[str]:
    """Return the mirrors of the topics that a link names."""
    template = _naming(link).replace("{source}", str(link.values.get("source")))
    return {template.replace("{topic}", one) for one in _literals(link) if _takes(link, one)}


def _shares(link: Reading) -> bool:
    mirrors = link.values.get("mirrors")
    return link.values.get("origin") == "local" or (mirrors is not None and mirrors.merge)


def _is_known(link: Reading, *keys: str) -> bool:
    """Tell whether each was read or left to its default; a wrong one says nothing."""
    return all(key in link.values or key not in link.places for key in keys)


def _naming(link: Reading) -> str:
    return str(link.values.get("naming", SAME))


def _literals(*links: Reading) -> list[str]:
    names = [topic for link in links for topic in link.values.get("topics", ())]
    return list(dict.fromkeys(filter(is_topic_name, names)))


def _takes(link: Reading, topic: str) -> bool:
    excluded = link.values.get("exclude", TOPICS_LEFT_OUT)
    return _matches(link.values.get("topics", ()), topic) and not _matches(excluded, topic)


def _matches(patterns: Sequence[str], topic: str) -> bool:
    return any(one == topic if is_topic_name(one) else re.fullmatch(one, topic) for one in patterns)


def check_together(links: Mapping[str, Reading], check: CheckTopology) -> list[Finding]:
    """Have the links looked at as a whole by whoever knows where they lead.

    What is found comes with the link whose topics it is about.
    """
    whole = [LinkConfig(name, **one.values) for name, one in links.items() if one.is_whole]
    return [links[name].places["topics"].wrong(message) for name, message in check(whole)]


def check_clusters(clusters: Mapping[str, Reading], check: CheckCluster) -> list[Finding]:
    """Have each cluster's properties checked by whoever knows them; put findings in their place.

    A finding begins with the property that it is about, where there is one.
    """
    found: list[Finding] = []
    for name, cluster in clusters.items():
        if cluster.is_whole:
            words = check(ClusterConfig(name, **cluster.values))
            found += [_placed(cluster.place, cluster.places, message) for message in words]
    return found


def check_serving(config: Reading, check: CheckDashboard) -> list[Finding]:
    """Have the dashboard checked, where there is one, by whoever knows who may reach it."""
    dashboard = config.values.get("dashboard")
    if dashboard is None:
        return []
    place = config.places["dashboard"]
    return [_placed(place, place.entries() or {}, message) for message in check(dashboard)]


def _placed(group: Place, places: Mapping[str, Place], message: str) -> Finding:
    key = message.split(" ", 1)[0].rstrip(":")
    place = places.get(key)
    if place is None:
        return group.wrong(message)
    return place.wrong(message.removeprefix(f"{key}: "))
