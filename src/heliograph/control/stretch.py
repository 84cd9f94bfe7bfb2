"""A look at one cluster that is stretched over sites: is it able to lose one of them?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from heliograph.control.checks import Check, Checked, bounded, visit_all
from heliograph.control.permissions import cluster_acl, topic_acl
from heliograph.control.visits import Visit
from heliograph.errors import NotAuthorized, RequestRefused
from heliograph.kafka.allowed import forbidden
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.deadline import Deadline
from heliograph.model import spread, stretch
from heliograph.model.acls import Operation
from heliograph.model.findings import Finding


def check_stretch(settings: ClientSettings) -> Checked:
    """Look at a cluster, whether links use it or not; nothing is changed."""
    name, checked = settings.cluster, Checked()
    with ExitStack() as stack:
        visit = visit_all({name: settings}, checked, stack).get(name)
        if visit is not None:
            # Brokers hide topics that a user may not Describe: the count shows what was judged.
            checked.topics[name] = len(visit.topics)
            for what, one in _checks(visit):
                checked.findings += bounded(one, f"cluster {name}", what)
    return checked


def _checks(visit: Visit) -> Iterator[tuple[str, Check]]:
    """Yield each check with its name."""
    yield "the sites", lambda _: stretch.racks(visit.side, visit.cluster.view.brokers)
    yield "the quorum", lambda by: _quorum(visit, by)
    yield "the topics", lambda by: _topics(visit, by)
    yield "the settings of brokers", lambda by: _brokers(visit, by)


def _quorum(visit: Visit, deadline: Deadline) -> Iterator[Finding]:
    try:
        voters = visit.admin.voters(deadline)
    except NotAuthorized:
        yield cluster_acl("warning", visit, Operation.DESCRIBE, "seeing where the voters stand")
    except RequestRefused as refused:
        remedy = "See by hand that no site holds half of the voters, or of ZooKeeper's servers"
        where = f"cluster {visit.side.cluster}, the quorum"
        yield Finding("warning", "quorum-not-told", where, refused.message, remedy)
    else:
        yield from stretch.quorum(visit.side, voters, _sites(visit))


def _topics(visit: Visit, deadline: Deadline) -> Iterator[Finding]:
    side, seen, sites = visit.side, visit.topics, _sites(visit)
    denied = forbidden(visit.cluster, seen, Operation.DESCRIBE_CONFIGS, deadline)
    if denied:
        acl = {Operation.DESCRIBE_CONFIGS: denied}
        yield topic_acl("warning", visit, acl, "judging topics, which these were not")
    known = seen.keys() - denied
    settings = visit.admin.configs.of_topics(known, deadline, only=spread.TOPIC_SETTINGS)
    yield from spread.placement(side, seen, settings, sites)
    yield from spread.unclean(side, settings)
    yield from spread.moment(side, seen, settings, sites, visit.cluster.view.brokers)
    yield from stretch.leaders(side, seen, sites)


def _brokers(visit: Visit, deadline: Deadline) -> Iterator[Finding]:
    try:
        settings = {
            broker: visit.admin.configs.of_broker(broker, deadline)
            for broker in visit.cluster.view.brokers
        }
    except NotAuthorized:
        why = "judging the defaults of new topics, and reads from the closest replica"
        yield cluster_acl("warning", visit, Operation.DESCRIBE_CONFIGS, why)
        return
    for one in settings.values():
        yield from spread.defaults(visit.side, visit.topics, one, _sites(visit))
    told = {broker: one.get(stretch.SELECTOR) for broker, one in settings.items()}
    selectors = {broker: entry.value or "" if entry else "" for broker, entry in told.items()}
    yield from stretch.closest(visit.side, selectors)


def _sites(visit: Visit) -> stretch.Sites:
    return stretch.sites_of(visit.cluster.view.brokers)
