"""Planning: what ``run`` would change on a link's target, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta

from heliograph.control.reconcile import All, Reconciler
from heliograph.errors import TopicMissing
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.tables import Table
from heliograph.links.setup import Setup
from heliograph.model.acls import Pattern
from heliograph.model.blueprint import Blueprint, Change, Ours, draw, read_ours
from heliograph.model.configs import NewTopic
from heliograph.model.control import WANTED, Wanted, read
from heliograph.model.grants import Grants
from heliograph.model.mirrors import Delete, Grow
from heliograph.model.names import control_topic

_LIMIT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Step:
    """One change, for people and programs."""

    link: str
    action: str
    topic: str
    detail: str


def plan(setup: Setup) -> Blueprint:
    """Look at both ends of a link and return what is to change."""
    deadline = Deadline.after(_LIMIT)
    with closing(Reconciler(setup)) as reconciler:
        ours, wanted = _read(setup, deadline)
        seen = reconciler.see(ours, wanted, deadline, All(setup.link.sync))
    noted = draw(seen, setup.mirror_rules, ours).grants
    # What run notes at its first look, it grants at its second.
    found = draw(seen, setup.mirror_rules, replace(ours, noted=noted.noted) if noted else ours)
    return replace(found, errors=(*found.errors, *map(str, found.unfit.values())))


def steps(link: str, blueprint: Blueprint) -> Iterator[Step]:
    """Yield the changes of a blueprint in words, in the order in which they are made."""
    for change in blueprint.changes:
        action, detail = _words(change)
        yield Step(link, action, change.topic, detail)
    grants = blueprint.grants or Grants()
    for action, acls in (("grant", grants.grant), ("revoke", grants.revoke)):
        for acl in acls:
            how = "" if acl.pattern is Pattern.LITERAL else f" ({acl.pattern.value.lower()})"
            detail = f"{acl.permission} {acl.operation} to {acl.principal} from {acl.host}"
            yield Step(link, action, acl.name + how, detail)


def _words(change: Change) -> tuple[str, str]:
    if isinstance(change, NewTopic):
        factor = change.replication_factor or "the target's default"
        settings = ", ".join(f"{name}={value}" for name, value in sorted(change.configs.items()))
        return "create", f"{change.partitions} partitions, replicas: {factor}; {settings}"
    if isinstance(change, Grow):
        return "grow", f"to {change.partitions} partitions"
    if isinstance(change, Delete):
        return "delete", f"{change.source} is gone; only once it stays so"
    put = [f"set {name}={value}" for name, value in sorted(change.put.items())]
    return "alter", ", ".join([*put, *(f"unset {name}" for name in change.remove)])


def _read(setup: Setup, deadline: Deadline) -> tuple[Ours, Wanted]:
    """Return what is on record for a link; nothing before the first run."""
    try:
        with Cluster(setup.target_settings, setup.link.target) as target:
            rows = Table(target, control_topic(setup.link.name)).load(deadline)
            return read_ours(rows), read(rows, WANTED, Wanted) or Wanted()
    except TopicMissing:
        return Ours(), Wanted()
