"""Stretch: whether a cluster that spans sites is able to lose any one of them. Pure.

A site is what ``broker.rack`` names. Here is what holds for the cluster as a whole; what holds for
each topic is in ``spread``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from heliograph.model.findings import Finding, Side, some
from heliograph.model.topics import Broker, TopicView

Sites = Mapping[int, str]
"""The site of each broker that names one."""

SELECTOR = "replica.selector.class"
_CLOSEST = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def sites_of(brokers: Mapping[int, Broker]) -> dict[int, str]:
    """Return where each broker stands; those that do not tell are left out."""
    return {number: one.rack for number, one in sorted(brokers.items()) if one.rack}


def racks(side: Side, brokers: Mapping[int, Broker]) -> Iterator[Finding]:
    """Find brokers without a site, and too few sites."""
    sites, where = sites_of(brokers), f"cluster {side.cluster}"
    silent = sorted(brokers.keys() - sites.keys())
    if silent:
        yield Finding(
            "error",
            "rack-missing",
            where,
            f"brokers {some(map(str, silent))} do not say in which site they stand, so Kafka does"
            " not spread replicas over sites",
            "Set broker.rack to the name of its site on each of these brokers, and restart them"
            " one after the other",
        )
    known = sorted(set(sites.values()))
    if len(known) == 1 and not silent:
        yield Finding(
            "error",
            "one-site",
            where,
            f"all {len(brokers)} brokers stand in one site, {known[0]}, and are lost with it",
            "Place brokers in at least three sites, each named by broker.rack. Or mirror the"
            " topics to a cluster elsewhere",
        )
    elif len(known) == 2:
        yield Finding(
            "warning",
            "two-sites",
            where,
            f"brokers stand in two sites, {' and '.join(known)}. Of two, one always holds half of"
            " the replicas or more: either writes stop without it, or it can acknowledge alone",
            "Place brokers in a third site; a small one will do, with a replica of each partition"
            " and a voter of the quorum",
        )


def quorum(side: Side, voters: Collection[int], sites: Sites) -> Iterator[Finding]:
    """Find a site without which the controllers have no majority.

    A controller that is no broker tells no rack: only who set it up knows where it stands.
    """
    where, count = f"cluster {side.cluster}, the quorum", len(voters)
    majority = count // 2 + 1
    known = Counter(sites[voter] for voter in voters if voter in sites)
    unknown = sorted(voter for voter in voters if voter not in sites)
    site, most = max(known.items(), key=lambda one: one[1], default=("", 0))
    spread = "Spread the voters over three sites (or any odd number), none with half of them"
    if count < 3:
        yield Finding(
            "error",
            "quorum-too-small",
            where,
            f"there is no majority without any one of its voters ({count}), nor without their site",
            f"Have at least three. {spread}",
        )
    elif count - most < majority:
        yield Finding(
            "error",
            "quorum-in-one-site",
            where,
            f"site {site} holds {most} of {count} voters: without it there is no majority, so"
            " no leader is elected and nothing can be created",
            spread,
        )
    elif count - most - len(unknown) < majority:
        yield Finding(
            "warning",
            "quorum-sites-unknown",
            where,
            f"in which site voters {some(map(str, unknown))} of {count} stand is not known"
            " (controllers that are no brokers have no rack), nor whether a majority is left"
            " without it",
            f"See where they stand: no site may hold more than {count - majority} of the {count}",
        )
    if count > 2 and count % 2 == 0:
        yield Finding(
            "warning",
            "quorum-even",
            where,
            f"{count} voters outlive the loss of no more of them than {count - 1} would",
            "Have an odd number of voters: add one in another site, or take one away",
        )


def leaders(side: Side, topics: Mapping[str, TopicView], sites: Sites) -> Iterator[Finding]:
    """Find leaders that are all in one site, by choice or by accident."""
    partitions = [one for topic in topics.values() for one in topic.partitions.values()]
    led = {sites.get(one.leader) for one in partitions if one.leader is not None}
    there = set(sites.values())
    if len(there) < 2 or len(partitions) < len(there) or len(led) != 1 or None in led:
        return
    (site,) = led
    preferred = {sites.get(one.replicas[0]) for one in partitions if one.replicas}
    elect = (
        f"kafka-leader-election.sh --bootstrap-server {side.bootstrap} --election-type preferred"
        " --all-topic-partitions"
    )
    move = "If that is not meant, reassign partitions so that first replicas stand in every site"
    yield Finding(
        "note",
        "leaders-in-one-site",
        f"cluster {side.cluster}",
        f"all {len(partitions)} partitions are led from site {site}: every write goes there,"
        " and when it is lost all of them need another leader at once",
        elect if len(preferred) > 1 else move,
    )


def closest(side: Side, selectors: Mapping[int, str]) -> Iterator[Finding]:
    """Find brokers that let consumers read from leaders only, however far."""
    far = sorted(broker for broker, selector in selectors.items() if selector != _CLOSEST)
    if far:
        yield Finding(
            "note",
            "reads-cross-sites",
            f"cluster {side.cluster}",
            f"brokers {some(map(str, far))} do not let consumers read from a replica in their own"
            " site, so reads cross between sites",
            f"Set {SELECTOR}={_CLOSEST} on each broker, and client.rack on consumers",
        )
