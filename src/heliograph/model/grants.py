"""Grants: which ACLs on mirrors follow from those on their source topics. Pure.

Who may read a topic may read its mirror; nobody is given the right to change a mirror, which only
the link may write to. What is denied stays denied; but a rule that keeps everybody from writing is
not mirrored, for that is how recovery fences a source, and on a mirror it would keep the link out
and, after a switch, the applications.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from heliograph.model.acls import Acl, Operation, Pattern, Permission, Resource, is_fence

_ANY = "*"
_TOPIC = "{topic}"
_CHANGES = (
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
)


@dataclass(frozen=True, slots=True)
class Grants:
    """What to do about ACLs. ``noted`` is what may be granted, on record before it is."""

    grant: tuple[Acl, ...] = ()
    revoke: tuple[Acl, ...] = ()
    noted: frozenset[Acl] = frozenset()


def follow(wanted: Collection[Acl], there: Collection[Acl], noted: Collection[Acl]) -> Grants:
    """Return what to grant and to revoke, from what is wanted, there, and noted as ours.

    A rule is granted only once it is noted, so that one of ours is always known as such; what was
    there before us is never noted, and never revoked.
    """
    new = {acl for acl in wanted if acl not in there}
    ours = {acl for acl in noted if acl in wanted or acl in there}
    return Grants(
        tuple(sorted(acl for acl in new if acl in ours)),
        tuple(sorted(acl for acl in ours if acl in there and acl not in wanted)),
        frozenset(new | ours),
    )


def mirrored_acls(
    acls: Iterable[Acl], mirrors: Mapping[str, str], naming: str, source: str
) -> set[Acl]:
    """Return the rules that mirrors need; ``mirrors`` are names by source topic.

    >>> read = Acl(Resource.TOPIC, "orders", "User:app", Operation.ALL)
    >>> [rule] = mirrored_acls([read], {"orders": "paris.orders"}, "{source}.{topic}", "paris")
    >>> rule.name, rule.operation.value
    ('paris.orders', 'READ')
    """
    wanted = set()
    for acl in acls:
        if acl.resource is not Resource.TOPIC or is_fence(acl):
            continue
        if acl.permission is Permission.ALLOW:
            if acl.operation in _CHANGES:
                continue
            if acl.operation is Operation.ALL:
                acl = replace(acl, operation=Operation.READ)
        wanted |= set(_named(acl, mirrors, naming.replace("{source}", source)))
    return wanted


def _named(acl: Acl, mirrors: Mapping[str, str], naming: str) -> Iterator[Acl]:
    """Yield a rule as mirrors need it. One for any topic becomes one for each mirror."""
    if acl.pattern is Pattern.PREFIXED:
        covered = [mirror for topic, mirror in mirrors.items() if topic.startswith(acl.name)]
        if covered and naming.endswith(_TOPIC):
            yield replace(acl, name=naming.replace(_TOPIC, acl.name))
            return
    else:
        covered = [mirror for topic, mirror in mirrors.items() if acl.name in (topic, _ANY)]
    for mirror in covered:
        yield replace(acl, name=mirror, pattern=Pattern.LITERAL)
