"""Spread: how replicas of topics stand over sites, and what is left when one is lost. Pure.

Let ``most`` be the replicas of a partition in the site that holds most of them, ``left`` all
others, and ``floor`` its ``min.insync.replicas``. Whichever site is lost,

- writes with acks=all go on if ``floor <= left``;
- no acknowledged record is lost if ``most < floor``: no site acknowledges alone.

Over two sites both cannot hold. Over three, three replicas and a floor of two do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from heliograph.model.findings import Finding, Settings, Severity, Side, quoted, some
from heliograph.model.stretch import Sites
from heliograph.model.topics import PartitionView, TopicView

FLOOR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
TOPIC_SETTINGS = (FLOOR, UNCLEAN)
# A topic that is made later, and the broker's settings for its replicas and its floor.
_TO_COME = (
    ("new topics", "default.replication.factor", FLOOR),
    ("__consumer_offsets", "offsets.topic.replication.factor", FLOOR),
    (
        "__transaction_state",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    ),
)

Problem = Literal["site-holds-all", "site-stops-writes", "site-loses-records"]
_WORDS: dict[Problem, str] = {
    "site-holds-all": "all replicas of a partition stand in one site, and are gone with it",
    "site-stops-writes": "without one of the sites fewer replicas are left than"
    f" {FLOOR} asks for, and writes with acks=all stop",
    "site-loses-records": "the replicas of one site are enough to acknowledge a record, which is"
    " lost with that site",
}


@dataclass(frozen=True, slots=True)
class Spread:
    """The replicas of a partition: how many, and how many at most in one site."""

    replicas: int
    most: int

    @property
    def left(self) -> int:
        """How many are left when that site is lost."""
        return self.replicas - self.most

    def problems(self, floor: int) -> Iterator[tuple[Problem, Severity]]:
        """Yield what is wrong with it under a floor.

        Two replicas of one site acknowledge alone only while the others are behind: a warning.

        >>> list(Spread(3, 1).problems(2)), list(Spread(4, 2).problems(2))
        ([], [('site-loses-records', 'warning')])
        """
        if self.left == 0:
            yield "site-holds-all", "error"
            return
        if self.left < floor:
            yield "site-stops-writes", "error"
        if floor <= self.most:
            yield "site-loses-records", "error" if floor == 1 else "warning"


def even(replicas: int, sites: int) -> Spread:
    """Return the best spread of so many replicas.

    >>> even(3, 3), even(5, 3)
    (Spread(replicas=3, most=1), Spread(replicas=5, most=2))
    """
    return Spread(replicas, -(-replicas // sites))


@dataclass(frozen=True, slots=True)
class Cure:
    """What to change: None is nothing. Over two sites, nothing may be the best there is."""

    replicas: int | None = None
    floor: int | None = None
    is_spread: bool = False


def cure(spread: Spread, floor: int, sites: int) -> Cure:
    """Return the least that lets a site be lost: spread evenly, another floor, other replicas.

    >>> cure(Spread(3, 1), 1, sites=3), cure(Spread(1, 1), 1, sites=3)
    (Cure(replicas=None, floor=2, is_spread=False), Cure(replicas=3, floor=2, is_spread=True))
    """
    counts = sorted(range(3, spread.replicas + 3), key=lambda count: abs(count - spread.replicas))
    good = (one for count in counts if (one := even(count, sites)).most < one.left)
    wanted = next(good, even(max(4, spread.replicas), sites))
    best = min(max(floor, wanted.most + 1), wanted.left)
    differs = wanted.replicas != spread.replicas
    return Cure(
        wanted.replicas if differs else None,
        best if best != floor else None,
        differs or spread.most > wanted.most,
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """Topics with the same problem and the same cure make one finding."""

    problem: Problem
    severity: Severity
    is_internal: bool
    cure: Cure


def placement(
    side: Side,
    seen: Mapping[str, TopicView],
    settings: Mapping[str, Settings],
    sites: Sites,
) -> Iterator[Finding]:
    """Find topics that would not outlive the loss of a site as they are placed and set.

    Partitions with a replica whose site is not known are passed over, as are topics without
    settings; with fewer than two sites there is nothing to tell apart.
    """
    count = len(set(sites.values()))
    if count < 2:
        return
    cases: dict[_Case, dict[str, str]] = defaultdict(dict)
    for name, topic in seen.items():
        floor = floor_of(settings.get(name, {}))
        for one in topic.partitions.values():
            spread = _spread(one.replicas, sites)
            if floor is None or spread is None:
                continue
            for problem, severity in spread.problems(floor):
                case = _Case(problem, severity, topic.internal, cure(spread, floor, count))
                example = f"{name}-{one.partition} has {spread.replicas}, {spread.most} in one site"
                cases[case].setdefault(name, f"{example}, and {FLOOR} {floor}")
    for case, examples in cases.items():
        yield _finding(side, case, examples)


def _spread(replicas: Iterable[int], sites: Sites) -> Spread | None:
    known = [sites.get(broker) for broker in replicas]
    if not known or None in known:
        return None
    return Spread(len(known), max(Counter(known).values()))


def floor_of(settings: Settings) -> int | None:
    """Return how many replicas must have a record before it is acknowledged, if that is known."""
    entry = settings.get(FLOOR)
    return int(entry.value) if entry is not None and entry.value else None


def _finding(side: Side, case: _Case, examples: Mapping[str, str]) -> Finding:
    names = list(examples)
    where = f"cluster {side.cluster}, {'internal topics' if case.is_internal else 'topics'}"
    finding = f"{_WORDS[case.problem]}: {some(names)} (replicas: {examples[names[0]]})"
    return Finding(case.severity, case.problem, where, finding, _remedy(side, case.cure, names))


def _remedy(side: Side, cure: Cure, names: list[str]) -> str:
    change = "" if cure.floor is None else _alter(side, names, f"{FLOOR}={cure.floor}")
    if not cure.is_spread:
        return change or "Place brokers and replicas in a third site: over two, this is the best"
    many = f"{cure.replicas} replicas" if cure.replicas else "its replicas"
    place = (
        f"Give each partition {many}, spread evenly over the sites:"
        f" kafka-reassign-partitions.sh --bootstrap-server {side.bootstrap}"
        " --reassignment-json-file moves.json --execute"
    )
    return f"{place}. Then: {change}" if change else place


def _alter(side: Side, names: list[str], setting: str) -> str:
    """Return the command that changes a setting; for several topics, with a word before it."""
    topic = quoted(names[0]) if len(names) == 1 else "TOPIC"
    command = f"kafka-configs.sh --bootstrap-server {side.bootstrap} --alter --topic {topic}"
    command += f" --add-config {setting}"
    return command if len(names) == 1 else f"For each of these topics, as TOPIC: {command}"


def unclean(side: Side, settings: Mapping[str, Settings]) -> Iterator[Finding]:
    """Find topics whose leader may be a replica that lacks acknowledged records."""
    names = [
        name
        for name, one in sorted(settings.items())
        if UNCLEAN in one and one[UNCLEAN].value == "true"
    ]
    if names:
        yield Finding(
            "error",
            "unclean-election",
            f"cluster {side.cluster}, topics",
            "when a site is lost, a replica that is behind may become leader, and acknowledged"
            f" records are dropped ({UNCLEAN}): {some(names)}",
            _alter(side, names, f"{UNCLEAN}=false"),
        )


def moment(
    side: Side,
    seen: Mapping[str, TopicView],
    settings: Mapping[str, Settings],
    sites: Sites,
    brokers: Iterable[int],
) -> Iterator[Finding]:
    """Find what is not as it should be at this moment: brokers away, replicas behind."""
    partitions = [(name, one) for name in seen for one in seen[name].partitions.values()]
    away = {broker for _, one in partitions for broker in one.replicas} - set(brokers)
    if away:
        yield Finding(
            "error",
            "broker-away",
            f"cluster {side.cluster}",
            f"brokers {some(map(str, sorted(away)))} hold replicas and are not there: their site"
            " is not known, and their partitions were not judged",
            "Start these brokers, and check again. If they are gone for good, reassign their"
            " partitions",
        )
    behind = [(name, one) for name, one in partitions if set(one.in_sync) != set(one.replicas)]
    short = [one for one in behind if _runs_short(*one, settings, sites)]
    if behind:
        names = some(dict.fromkeys(name for name, _ in short or behind))
        yield Finding(
            "error" if short else "warning",
            "out-of-sync",
            f"cluster {side.cluster}, topics",
            f"replicas are behind at this moment: {names}"
            + (". Were a site lost now, writes would stop" if short else ""),
            f"kafka-topics.sh --bootstrap-server {side.bootstrap} --describe"
            " --under-replicated-partitions",
        )


def _runs_short(
    name: str, one: PartitionView, settings: Mapping[str, Settings], sites: Sites
) -> bool:
    """Tell whether replicas in sync are too few for the loss of a site, as far as that is known."""
    floor, spread = floor_of(settings.get(name, {})), _spread(one.in_sync, sites)
    return floor is not None and spread is not None and spread.left < floor


def defaults(
    side: Side, seen: Mapping[str, TopicView], settings: Settings, sites: Sites
) -> Iterator[Finding]:
    """Find defaults by which topics that are made later would not outlive the loss of a site."""
    count = len(set(sites.values()))
    for what, factor, floor in _TO_COME:
        values = [settings[name].value for name in (factor, floor) if name in settings]
        if count < 2 or what in seen or len(values) < 2 or None in values:
            continue
        replicas, least = (int(value or 0) for value in values)
        spread = even(replicas, count)
        if not list(spread.problems(least)):
            continue
        better = cure(spread, least, count)
        yield Finding(
            "warning",
            "defaults-too-low",
            f"cluster {side.cluster}, {what}",
            f"would be made with {replicas} replicas and {FLOOR} {least}: they would not outlive"
            " the loss of a site",
            f"Set {factor}={better.replicas or replicas} and {floor}={better.floor or least} on"
            " every broker",
        )
