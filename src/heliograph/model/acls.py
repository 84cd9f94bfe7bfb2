"""Access control lists: who may do what, as the cluster stores it."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Resource(StrEnum):
    """What an ACL protects."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    CLUSTER = "CLUSTER"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
    DELEGATION_TOKEN = "DELEGATION_TOKEN"
    USER = "USER"


class Pattern(StrEnum):
    """How an ACL's name is meant."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


class Operation(StrEnum):
    """What an ACL is about."""

    ALL = "ALL"
    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    CLUSTER_ACTION = "CLUSTER_ACTION"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"
    CREATE_TOKENS = "CREATE_TOKENS"
    DESCRIBE_TOKENS = "DESCRIBE_TOKENS"


class Permission(StrEnum):
    """Whether an ACL gives or takes; one that takes wins over all that give."""

    ALLOW = "ALLOW"
    DENY = "DENY"


# The only name that a resource of type CLUSTER has.
CLUSTER_NAME = "kafka-cluster"
EVERYBODY = "User:*"


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One rule. ``principal`` is like ``User:mirror``; ``*`` as a host means any."""

    resource: Resource
    name: str
    principal: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    pattern: Pattern = Pattern.LITERAL
    host: str = "*"


def fence_rule(topic: str) -> Acl:
    """Return the rule by which recovery keeps all writers out of a topic."""
    return Acl(Resource.TOPIC, topic, EVERYBODY, Operation.WRITE, Permission.DENY)


def is_fence(acl: Acl) -> bool:
    """Claim: a rule is such a fence, or one that somebody else put up for good.

    >>> is_fence(fence_rule("orders"))
    True
    >>> is_fence(Acl(Resource.TOPIC, "orders", "User:app", Operation.WRITE, Permission.DENY))
    False
    """
    return replace(acl, pattern=Pattern.LITERAL) == fence_rule(acl.name)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which rules are meant. None means any; so an empty filter means every rule."""

    resource: Resource | None = None
    name: str | None = None
    principal: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None
    pattern: Pattern | None = None
    host: str | None = None

    @classmethod
    def exactly(cls, acl: Acl) -> "AclFilter":
        """Return the filter that means this rule alone."""
        return cls(
            resource=acl.resource,
            name=acl.name,
            principal=acl.principal,
            operation=acl.operation,
            permission=acl.permission,
            pattern=acl.pattern,
            host=acl.host,
        )
