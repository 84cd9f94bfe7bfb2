"""ACLs: list, create, delete."""

from collections.abc import Collection
from enum import Enum
from typing import Any

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from heliograph.kafka.admin_session import Session
from heliograph.kafka.deadline import Deadline
from heliograph.model.acls import Acl, AclFilter, Operation, Pattern, Permission, Resource


class Acls:
    """The access rules of one cluster."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def matching(
        self, which: AclFilter | None = None, deadline: Deadline | None = None
    ) -> list[Acl]:
        """Return the rules that a filter means, sorted; all by default."""
        wanted = _filter(which or AclFilter())

        def ask(client: Any, _: int) -> list[Acl]:
            found, _error = client.describe_acls(wanted)
            return sorted(map(_ours, found))

        return self._session.call("listing ACLs", ask, deadline)

    def create(self, acls: Collection[Acl], deadline: Deadline | None = None) -> None:
        """Create rules; one that exists already is not an error."""
        if not acls:
            return

        def ask(client: Any, _: int) -> None:
            answer = client.create_acls([_theirs(acl) for acl in acls])
            for error in answer["failed"]:
                raise error()

        self._session.call("creating ACLs", ask, deadline)

    def delete(self, acls: Collection[Acl], deadline: Deadline | None = None) -> list[Acl]:
        """Delete exactly these rules and return those that were there."""
        if not acls:
            return []

        def ask(client: Any, _timeout_ms: int) -> list[Acl]:
            filters = [_filter(AclFilter.exactly(acl)) for acl in acls]
            gone: list[Acl] = []
            for _, matched, error in client.delete_acls(filters):
                if error.errno:
                    raise error()
                gone += map(_ours, matched)
            return sorted(gone)

        return self._session.call("deleting ACLs", ask, deadline, repeatable=False)


def _ours(acl: Any) -> Acl:
    return Acl(
        resource=Resource[acl.resource_pattern.resource_type.name],
        name=acl.resource_pattern.resource_name,
        principal=acl.principal,
        operation=Operation[acl.operation.name],
        permission=Permission[acl.permission_type.name],
        pattern=Pattern[acl.resource_pattern.pattern_type.name],
        host=acl.host,
    )


def _theirs(acl: Acl) -> Any:
    return ACL(
        acl.principal,
        acl.host,
        ACLOperation[acl.operation.name],
        ACLPermissionType[acl.permission.name],
        ResourcePattern(
            ResourceType[acl.resource.name], acl.name, ACLResourcePatternType[acl.pattern.name]
        ),
    )


def _filter(which: AclFilter) -> Any:
    return ACLFilter(
        which.principal,
        which.host,
        ACLOperation[_name(which.operation)],
        ACLPermissionType[_name(which.permission)],
        ResourcePatternFilter(
            ResourceType[_name(which.resource)],
            which.name,
            ACLResourcePatternType[_name(which.pattern)],
        ),
    )


def _name(value: Enum | None) -> str:
    return "ANY" if value is None else value.name
