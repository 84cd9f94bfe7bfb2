"""Every error code of Kafka 4.3, and what it means for Heliograph: one row each,
grouped by our class.

``faults`` is the only reader. A row's words say what happened and, where a person can help, what
to do. The numbers and names are those of ``org.apache.kafka.common.protocol.Errors``.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from heliograph.errors import (
    HeliographError,
    LoginRefused,
    NotAuthorized,
    NotReady,
    OffsetOutOfRange,
    OutcomeUnknown,
    RecordsRefused,
    RequestRefused,
    Superseded,
    TopicExists,
    TopicMissing,
    TopicRecreated,
)


class Fault(NamedTuple):
    """One code: Kafka's name for it, our class, and plain words."""

    name: str
    kind: type[HeliographError]
    words: str


_OURS = "Heliograph asked wrongly; please report it"
_GROUP = "the group has live members, which alone may change it; stop them first"
_SUPERSEDED = "another writer claimed the partition; this one stops and writes nothing more"
_TOKENS = "the cluster does not do this with delegation tokens"
_INSIDE = "an error that brokers tell only each other; their operators must look"
_CONTROLLER = "the address is that of a controller; bootstrap.servers must name brokers"
_TELEMETRY = "the broker does not take our metrics"
_SHARE = "the share group's state is out of step"
_STREAMS = "the Kafka Streams group's topology is out of step"

_BY_KIND: Mapping[type[HeliographError], Mapping[int, tuple[str, str]]] = {
    LoginRefused: {
        33: ("UNSUPPORTED_SASL_MECHANISM", "the broker does not offer this sasl.mechanism"),
        34: (
            "ILLEGAL_SASL_STATE",
            "the broker did not expect a login here; check that security.protocol fits the "
            "listener",
        ),
        58: (
            "SASL_AUTHENTICATION_FAILED",
            "the user, the password or the token was not accepted; check sasl.username and its "
            "secret",
        ),
        62: (
            "DELEGATION_TOKEN_NOT_FOUND",
            "the broker does not know this delegation token; get a new one",
        ),
        66: ("DELEGATION_TOKEN_EXPIRED", "the delegation token has expired; get a new one"),
    },
    NotAuthorized: {
        29: (
            "TOPIC_AUTHORIZATION_FAILED",
            "the user lacks an ACL on the topic; grant Read to copy from it, Write and Read to "
            "mirror into it, Create, Alter, DescribeConfigs and AlterConfigs to keep it in step",
        ),
        30: (
            "GROUP_AUTHORIZATION_FAILED",
            "the user lacks an ACL on the group; grant Describe on the source, Read on the target",
        ),
        31: (
            "CLUSTER_AUTHORIZATION_FAILED",
            "the user lacks an ACL on the cluster; grant Describe to read ACLs, DescribeConfigs "
            "to read broker settings, Alter to change ACLs, AlterConfigs to change broker "
            "settings, Create to create topics",
        ),
        53: (
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "the user lacks an ACL on the transactional id; grant Write on the prefix "
            "heliograph.<link>.",
        ),
        65: (
            "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
            "the user lacks an ACL on the delegation token",
        ),
    },
    TopicMissing: {
        3: (
            "UNKNOWN_TOPIC_OR_PARTITION",
            "no such topic or partition, or the user may not see it; check the name and the "
            "Describe ACL",
        ),
    },
    TopicRecreated: {
        100: ("UNKNOWN_TOPIC_ID", "the topic was deleted, perhaps made anew under the same name"),
        103: ("INCONSISTENT_TOPIC_ID", "the topic was made anew under the same name"),
    },
    OffsetOutOfRange: {
        1: (
            "OFFSET_OUT_OF_RANGE",
            "the log does not hold this offset: retention passed it, or it was never written",
        ),
    },
    NotReady: {
        5: ("LEADER_NOT_AVAILABLE", "the partition has no leader at the moment"),
        6: ("NOT_LEADER_OR_FOLLOWER", "the partition has moved to another broker"),
        7: ("REQUEST_TIMED_OUT", "the broker did not finish in time; are all replicas in step?"),
        8: ("BROKER_NOT_AVAILABLE", "the broker is not available"),
        9: ("REPLICA_NOT_AVAILABLE", "the replica is not available"),
        11: ("STALE_CONTROLLER_EPOCH", "the controller has moved"),
        13: ("NETWORK_EXCEPTION", "the broker lost a connection of its own"),
        14: ("COORDINATOR_LOAD_IN_PROGRESS", "the coordinator is loading"),
        15: ("COORDINATOR_NOT_AVAILABLE", "there is no coordinator yet"),
        16: ("NOT_COORDINATOR", "the coordinator has moved"),
        19: ("NOT_ENOUGH_REPLICAS", "fewer replicas are in step than min.insync.replicas asks for"),
        20: (
            "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
            "written, but by fewer replicas than min.insync.replicas asks for",
        ),
        27: ("REBALANCE_IN_PROGRESS", "the group is rebalancing"),
        41: ("NOT_CONTROLLER", "the controller has moved"),
        51: ("CONCURRENT_TRANSACTIONS", "the previous transaction of this id is still ending"),
        56: (
            "KAFKA_STORAGE_ERROR",
            "the broker's disk failed; the partition moves if it has another replica",
        ),
        60: ("REASSIGNMENT_IN_PROGRESS", "the partition is being moved to other brokers"),
        70: ("FETCH_SESSION_ID_NOT_FOUND", "the broker dropped the fetch session"),
        71: ("INVALID_FETCH_SESSION_EPOCH", "the fetch session is out of step"),
        72: (
            "LISTENER_NOT_FOUND",
            "the leader has no listener like the one we use; check its listeners if it lasts",
        ),
        74: ("FENCED_LEADER_EPOCH", "the partition has a newer leader than we know"),
        75: ("UNKNOWN_LEADER_EPOCH", "the broker does not know the partition's newest leader yet"),
        77: ("STALE_BROKER_EPOCH", "the broker is registering anew"),
        78: ("OFFSET_NOT_AVAILABLE", "the new leader does not know yet how far the log is safe"),
        80: ("PREFERRED_LEADER_NOT_AVAILABLE", "the preferred leader is not available"),
        83: (
            "ELIGIBLE_LEADERS_NOT_AVAILABLE",
            "no replica can become the leader; start the brokers that hold it",
        ),
        88: ("UNSTABLE_OFFSET_COMMIT", "a transaction with these commits is still open"),
        89: ("THROTTLING_QUOTA_EXCEEDED", "the user's quota is used up for now"),
        106: ("FETCH_SESSION_TOPIC_ID_ERROR", "the fetch session is out of step with a topic's id"),
        108: ("NEW_LEADER_ELECTED", "the partition has just changed its leader"),
        122: ("SHARE_SESSION_NOT_FOUND", _SHARE),
        123: ("INVALID_SHARE_SESSION_EPOCH", _SHARE),
        129: (
            "REBOOTSTRAP_REQUIRED",
            "our view of the cluster is too old; it is read anew from bootstrap.servers",
        ),
        133: ("SHARE_SESSION_LIMIT_REACHED", _SHARE),
    },
    RecordsRefused: {
        2: ("CORRUPT_MESSAGE", "the broker found a wrong checksum or size in the batch"),
        10: (
            "MESSAGE_TOO_LARGE",
            "the batch is larger than max.message.bytes of the topic allows; raise it there",
        ),
        18: (
            "RECORD_LIST_TOO_LARGE",
            "the batch is larger than segment.bytes of the topic; raise it there",
        ),
        32: (
            "INVALID_TIMESTAMP",
            "a timestamp is outside what the topic takes; see message.timestamp.before.max.ms "
            "and message.timestamp.after.max.ms",
        ),
        43: (
            "UNSUPPORTED_FOR_MESSAGE_FORMAT",
            "the topic's old message format cannot hold this; see message.format.version",
        ),
        76: ("UNSUPPORTED_COMPRESSION_TYPE", "the broker does not know the batch's compression"),
        87: (
            "INVALID_RECORD",
            "a record breaks a rule of the topic, such as a null key on a compacted topic",
        ),
    },
    OutcomeUnknown: {
        45: (
            "OUT_OF_ORDER_SEQUENCE_NUMBER",
            "the log does not continue where we believed; a claim and a match will tell",
        ),
        46: (
            "DUPLICATE_SEQUENCE_NUMBER",
            "the batch was written before, but its offset is forgotten; a match will tell",
        ),
        59: (
            "UNKNOWN_PRODUCER_ID",
            "the broker has forgotten this producer; a claim and a match will tell",
        ),
        120: ("TRANSACTION_ABORTABLE", "the transaction must be aborted; a claim does that"),
    },
    TopicExists: {
        36: ("TOPIC_ALREADY_EXISTS", "there is a topic of this name already"),
    },
    Superseded: {
        47: ("INVALID_PRODUCER_EPOCH", _SUPERSEDED),
        90: ("PRODUCER_FENCED", _SUPERSEDED),
    },
    RequestRefused: {
        -1: (
            "UNKNOWN_SERVER_ERROR",
            "the broker failed in a way it did not foresee; its log says why",
        ),
        4: ("INVALID_FETCH_SIZE", _OURS),
        12: (
            "OFFSET_METADATA_TOO_LARGE",
            "the committed metadata is longer than offset.metadata.max.bytes of the broker",
        ),
        17: (
            "INVALID_TOPIC_EXCEPTION",
            "the topic's name is not valid, or the topic is internal to the cluster",
        ),
        21: ("INVALID_REQUIRED_ACKS", _OURS),
        22: ("ILLEGAL_GENERATION", _GROUP),
        23: ("INCONSISTENT_GROUP_PROTOCOL", "the members of the group do not fit together"),
        24: ("INVALID_GROUP_ID", "the group's name is not valid"),
        25: ("UNKNOWN_MEMBER_ID", _GROUP),
        26: ("INVALID_SESSION_TIMEOUT", "the session timeout is outside what the broker allows"),
        28: ("INVALID_COMMIT_OFFSET_SIZE", "the commit is too large for the broker"),
        35: ("UNSUPPORTED_VERSION", "the broker is too old or too new for this request"),
        37: ("INVALID_PARTITIONS", "the number of partitions is not possible; it can only grow"),
        38: (
            "INVALID_REPLICATION_FACTOR",
            "the replication factor is below 1 or above the number of live brokers",
        ),
        39: ("INVALID_REPLICA_ASSIGNMENT", "the replicas named for a partition are not possible"),
        40: ("INVALID_CONFIG", "a setting's name or value is not accepted"),
        42: ("INVALID_REQUEST", "the broker finds the request malformed, or contradictory"),
        44: ("POLICY_VIOLATION", "a policy of the cluster's operators forbids it; ask them"),
        48: ("INVALID_TXN_STATE", "the transaction is not in a state for this; claim anew"),
        49: (
            "INVALID_PRODUCER_ID_MAPPING",
            "the transactional id now has another producer id; claim anew",
        ),
        50: (
            "INVALID_TRANSACTION_TIMEOUT",
            "the timeout is above transaction.max.timeout.ms of the broker; raise it there",
        ),
        52: ("TRANSACTION_COORDINATOR_FENCED", "the marker names a coordinator of the past"),
        54: (
            "SECURITY_DISABLED",
            "the cluster has no authorizer, so it has no ACLs; turn ACL sync off",
        ),
        55: (
            "OPERATION_NOT_ATTEMPTED",
            "the broker did not try, because another part of the request failed",
        ),
        57: ("LOG_DIR_NOT_FOUND", "the broker has no such log directory"),
        61: ("DELEGATION_TOKEN_AUTH_DISABLED", _TOKENS),
        63: ("DELEGATION_TOKEN_OWNER_MISMATCH", _TOKENS),
        64: ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", _TOKENS),
        67: ("INVALID_PRINCIPAL_TYPE", "the cluster does not know this type of principal"),
        68: ("NON_EMPTY_GROUP", "the group has live members; stop them first"),
        69: ("GROUP_ID_NOT_FOUND", "there is no such group"),
        73: (
            "TOPIC_DELETION_DISABLED",
            "the cluster forbids deleting topics (delete.topic.enable)",
        ),
        79: ("MEMBER_ID_REQUIRED", _GROUP),
        81: ("GROUP_MAX_SIZE_REACHED", "the group is full"),
        82: ("FENCED_INSTANCE_ID", _GROUP),
        84: ("ELECTION_NOT_NEEDED", "the partition has that leader already"),
        85: ("NO_REASSIGNMENT_IN_PROGRESS", "the partition is not being moved"),
        86: (
            "GROUP_SUBSCRIBED_TO_TOPIC",
            "the group reads the topic at the moment; stop its members first",
        ),
        91: ("RESOURCE_NOT_FOUND", "there is no such thing on the cluster"),
        92: ("DUPLICATE_RESOURCE", "the request names the same thing twice"),
        93: ("UNACCEPTABLE_CREDENTIAL", "the credential does not meet the cluster's rules"),
        94: ("INCONSISTENT_VOTER_SET", _INSIDE),
        95: ("INVALID_UPDATE_VERSION", "the feature cannot have this version"),
        96: (
            "FEATURE_UPDATE_FAILED",
            "the feature could not be changed; the controller's log says why",
        ),
        97: (
            "PRINCIPAL_DESERIALIZATION_FAILURE",
            "the brokers disagree on how users are named; their operators must look",
        ),
        98: ("SNAPSHOT_NOT_FOUND", _INSIDE),
        99: ("POSITION_OUT_OF_RANGE", _INSIDE),
        101: ("DUPLICATE_BROKER_REGISTRATION", _INSIDE),
        102: ("BROKER_ID_NOT_REGISTERED", "the cluster has no broker of this number"),
        104: ("INCONSISTENT_CLUSTER_ID", "this is another cluster than expected"),
        105: ("TRANSACTIONAL_ID_NOT_FOUND", "the cluster does not know this transactional id"),
        107: ("INELIGIBLE_REPLICA", _INSIDE),
        109: ("OFFSET_MOVED_TO_TIERED_STORAGE", _INSIDE),
        110: ("FENCED_MEMBER_EPOCH", _GROUP),
        111: ("UNRELEASED_INSTANCE_ID", _GROUP),
        112: ("UNSUPPORTED_ASSIGNOR", "the group does not know this assignor"),
        113: ("STALE_MEMBER_EPOCH", _GROUP),
        114: ("MISMATCHED_ENDPOINT_TYPE", _CONTROLLER),
        115: ("UNSUPPORTED_ENDPOINT_TYPE", _CONTROLLER),
        116: ("UNKNOWN_CONTROLLER_ID", "the cluster has no controller of this number"),
        117: ("UNKNOWN_SUBSCRIPTION_ID", _TELEMETRY),
        118: ("TELEMETRY_TOO_LARGE", _TELEMETRY),
        119: ("INVALID_REGISTRATION", _INSIDE),
        121: ("INVALID_RECORD_STATE", _SHARE),
        124: ("FENCED_STATE_EPOCH", _SHARE),
        125: ("INVALID_VOTER_KEY", _INSIDE),
        126: ("DUPLICATE_VOTER", _INSIDE),
        127: ("VOTER_NOT_FOUND", _INSIDE),
        128: (
            "INVALID_REGULAR_EXPRESSION",
            "the broker does not accept the regular expression (RE2 syntax)",
        ),
        130: ("STREAMS_INVALID_TOPOLOGY", _STREAMS),
        131: ("STREAMS_INVALID_TOPOLOGY_EPOCH", _STREAMS),
        132: ("STREAMS_TOPOLOGY_FENCED", _STREAMS),
    },
}

FAULTS: Mapping[int, Fault] = MappingProxyType(
    {
        code: Fault(name, kind, words)
        for kind, rows in _BY_KIND.items()
        for code, (name, words) in rows.items()
    }
)
