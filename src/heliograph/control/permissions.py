"""Permissions: which ACLs a link lacks, found out by requests that change nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from heliograph.control.visits import Visit
from heliograph.errors import HeliographError, NotAuthorized
from heliograph.kafka.allowed import forbidden, forbidden_groups, may_claim
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.deadline import Deadline
from heliograph.links.setup import Setup
from heliograph.model.acls import CLUSTER_NAME, Operation, Pattern, Resource
from heliograph.model.configs import NewTopic
from heliograph.model.findings import Finding, Severity, missing_acl
from heliograph.model.names import check_id, claim_prefix, ledger_topic, own_prefix, own_topics
from heliograph.model.selection import is_topic_name, matches

Forbidden = dict[Operation, set[str]]

_MOST_GROUPS = 100
_COPY = "copying, matching and verifying"
_IN_STEP = "adding partitions, and keeping settings in step"


def principal(settings: ClientSettings) -> str:
    """Say who a cluster takes us for, as its ACLs would name us."""
    if settings.login is None:
        shows = settings.tls is not None and (
            settings.tls.certificate_file or settings.tls.certificate_pem
        )
        return "User:<the subject of the client certificate>" if shows else "User:ANONYMOUS"
    return f"User:{settings.login.username or '<the subject of the token>'}"


def check_source(
    setup: Setup, source: Visit, topics: Collection[str], deadline: Deadline
) -> Iterator[Finding]:
    """Try what copying from the selected topics takes."""
    denied = forbidden(source.cluster, topics, Operation.READ, deadline)
    if denied:
        yield topic_acl("error", source, {Operation.READ: denied}, "fetching, offsets and epochs")
    if setup.link.origin == "local":
        ledgers = [ledger_topic(one) for one in setup.inbound]
        denied = forbidden(source.cluster, ledgers, Operation.READ, deadline)
        if denied:
            why = "telling records that links brought from the source's own"
            yield topic_acl("error", source, {Operation.READ: denied}, why)
    if setup.link.sync.configs is not None:
        denied = forbidden(source.cluster, topics, Operation.DESCRIBE_CONFIGS, deadline)
        if denied:
            acl = {Operation.DESCRIBE_CONFIGS: denied}
            why = "giving mirrors the settings of their sources; else they get defaults"
            yield topic_acl("warning", source, acl, why)
    if setup.link.sync.acls is not None:
        try:
            source.admin.acls.matching(deadline=deadline)
        except NotAuthorized:
            yield cluster_acl("warning", source, Operation.DESCRIBE, "keeping ACLs in step")


def check_groups(
    setup: Setup, source: Visit, target: Visit, deadline: Deadline
) -> Iterator[Finding]:
    """Try what bringing groups over takes: of those that are named, of all, and of some seen.

    A listing leaves out groups that may not be described, so whether all may be is tried on a
    name that nobody has.
    """
    link = setup.link
    if link.sync.groups is None:
        return
    named = {one for one in link.groups if is_topic_name(one)}
    everything = {check_id(link.name)} if ".*" in link.groups else set[str]()
    seen = [one.group for one in source.admin.groups.listing(deadline=deadline)]
    chosen = [one for one in seen if matches(link.groups, one)]
    chosen = [one for one in chosen if not matches(link.groups_exclude, one)][:_MOST_GROUPS]
    tries = (
        (source, Operation.DESCRIBE, named | everything, "reading where groups are"),
        (target, Operation.READ, {*named, *everything, *chosen}, "setting offsets of groups"),
    )
    for visit, operation, groups, why in tries:
        denied = forbidden_groups(visit.cluster, groups, operation, deadline)
        names = ["*"] if denied & everything else sorted(denied)
        if names:
            what = f"{why}; else they are left out, or sync: {{groups: off}}"
            yield missing_acl("warning", visit.side, [operation], Resource.GROUP, names, what)


def check_claims(setup: Setup, target: Visit, deadline: Deadline) -> Iterator[Finding]:
    """Try a claim, under an id that nobody writes under."""
    if setup.link.delivery != "exactly-once":
        return
    link = setup.link.name
    refused = may_claim(target.cluster, check_id(link), deadline)
    if isinstance(refused, NotAuthorized):
        yield missing_acl(
            "error",
            target.side,
            [Operation.WRITE],
            Resource.TRANSACTIONAL_ID,
            [claim_prefix(link)],
            "claiming mirror partitions, without which nothing is written",
            pattern=Pattern.PREFIXED,
        )
    elif refused is not None:
        raise refused


def check_own_topics(setup: Setup, target: Visit, deadline: Deadline) -> Iterator[Finding]:
    """Try what keeping the link's own topics takes."""
    link, names = setup.link.name, own_topics(setup.link.name)
    denied = _denied(target, names, [Operation.READ, Operation.WRITE], deadline)
    missing = [name for name in names if name not in target.topics]
    outcomes = target.admin.topics.create_many(
        [NewTopic(name, 1) for name in missing], validate_only=True, deadline=deadline
    )
    refused = [name for name, one in outcomes.items() if isinstance(one, NotAuthorized)]
    operations = [*denied, Operation.CREATE] if refused else [*denied]
    if operations:
        yield missing_acl(
            "error",
            target.side,
            operations,
            Resource.TOPIC,
            [own_prefix(link)],
            "the link's ledger, control and state",
            pattern=Pattern.PREFIXED,
        )
    yield from _refusals(target, outcomes)


def check_mirrors(
    setup: Setup, target: Visit, mirrors: Sequence[NewTopic], deadline: Deadline
) -> Iterator[Finding]:
    """Try what writing to the mirrors takes, and creating those that are missing."""
    names = [mirror.topic for mirror in mirrors]
    denied = _denied(target, names, [Operation.WRITE, Operation.READ], deadline)
    missing = [mirror for mirror in mirrors if mirror.topic not in target.topics]
    outcomes = target.admin.topics.create_many(
        missing, validate_only=True, known_only=True, deadline=deadline
    )
    refused = {name for name, one in outcomes.items() if isinstance(one, NotAuthorized)}
    if refused:
        denied[Operation.CREATE] = refused
    for acl in _alike(denied):
        yield topic_acl("error", target, acl, _COPY)
    yield from _refusals(target, outcomes)
    wanted = [Operation.ALTER]
    if setup.link.sync.configs is not None:
        wanted += [Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS]
    for acl in _alike(_denied(target, names, wanted, deadline)):
        yield topic_acl("warning", target, acl, _IN_STEP)


def topic_acl(severity: Severity, visit: Visit, denied: Forbidden, why: str) -> Finding:
    """Return the finding that operations are denied on topics, the same ones for each."""
    names = sorted(set().union(*denied.values()))
    return missing_acl(severity, visit.side, list(denied), Resource.TOPIC, names, why)


def cluster_acl(severity: Severity, visit: Visit, operation: Operation, why: str) -> Finding:
    """Return the finding that an operation on the cluster itself is denied."""
    names = [CLUSTER_NAME]
    return missing_acl(severity, visit.side, [operation], Resource.CLUSTER, names, why)


def _denied(
    visit: Visit, names: Sequence[str], operations: Sequence[Operation], deadline: Deadline
) -> Forbidden:
    found = {one: forbidden(visit.cluster, names, one, deadline) for one in operations}
    return {operation: denied for operation, denied in found.items() if denied}


def _alike(denied: Forbidden) -> Iterator[Forbidden]:
    """Group operations that are denied on the same topics: one ACL grants them together."""
    for names in dict.fromkeys(frozenset(some) for some in denied.values()):
        yield {one: some for one, some in denied.items() if some == names}


def _refusals(target: Visit, outcomes: Mapping[str, object]) -> Iterator[Finding]:
    for name, outcome in outcomes.items():
        if isinstance(outcome, HeliographError) and not isinstance(outcome, NotAuthorized):
            yield Finding(
                "error",
                "topic-refused",
                f"cluster {target.side.cluster}",
                f"topic {name} cannot be created: {outcome.message}",
                "Change what the broker complains of, or create the topic yourself",
            )
