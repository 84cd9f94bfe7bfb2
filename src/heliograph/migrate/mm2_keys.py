"""The keys of MirrorMaker 2 that become no setting: why they are not needed, or refused."""

import re

from heliograph.migrate.clients import OWN_REQUESTS

_POSITIONS = "it says where MirrorMaker keeps its positions; Heliograph keeps its own"
_INTERVAL = r"(enabled|interval\.seconds)"

# What a link takes, in mm2_link.
LINK_KEYS = frozenset(
    {
        "topics", "topics.exclude", "topics.blacklist",
        "groups", "groups.exclude", "groups.blacklist",
        "config.properties.exclude", "config.properties.blacklist",
        "use.defaults.from", "replication.policy.class", "replication.policy.separator",
        "replication.factor", "errors.tolerance",
        "refresh.topics.enabled", "refresh.topics.interval.seconds",
        "sync.topic.configs.enabled", "sync.topic.configs.interval.seconds",
        "sync.topic.acls.enabled", "sync.topic.acls.interval.seconds",
        "sync.group.offsets.enabled", "sync.group.offsets.interval.seconds",
    }
)  # fmt: skip

_NOT_NEEDED = {
    r"tasks\.max": "limits.tasks is auto: as many tasks as there is room for",
    r"exactly\.once\..*|transaction\.boundary\..*": "every link is exactly-once",
    rf"(refresh\.groups|emit\.checkpoints)\.{_INTERVAL}": "groups are translated from the ledger",
    rf"emit\.heartbeats\.{_INTERVAL}|heartbeats\.replication\.enabled": (
        "status tells whether a link is alive; topics of heartbeats are not copied"
    ),
    r"emit\.offset-syncs\..*|offset-syncs\..*|offset\.lag\.max": _POSITIONS,
    r"(checkpoints|heartbeats)\.topic\..*": _POSITIONS,
    r"(offsets?|status|config)\.storage\..*": _POSITIONS,
    r"replication\.policy\.internal\..*": _POSITIONS,
    r"config\.providers(\..*)?": "references are resolved without it",
    r"admin\.timeout\.ms|consumer\.poll\.timeout\.ms|offset\.flush\..*": OWN_REQUESTS,
    r"dedicated\.mode\..*|listeners|rest\..*|plugin\..*|offset\.deletion.*": "there is no Connect",
    r"(key|value|header)\.converter(\..*)?": "batches pass untouched",
    r"(topic|group|config\.property)\.filter\.class": "it is what the lists of names do",
    r"forwarding\.admin\.class": "it is what Heliograph does",
    r"errors\.(retry|log|deadletterqueue)\..*": "what can heal is tried again, and told",
    r"name|connector\.class|group\.id|(source|target)\.cluster\.alias": "Connect's own",
    r"add\.source\.alias\.to\.metrics|metrics?\..*|metric\.reporters": "status tells",
    r"(source\.|target\.)?(consumer|producer|admin)\..*|(source|target)\.cluster\..*": OWN_REQUESTS,
}
_DEFAULT_CLASSES = (
    "DefaultTopicFilter",
    "DefaultGroupFilter",
    "DefaultConfigPropertyFilter",
    "ForwardingAdmin",
    "ByteArrayConverter",
)
_REFUSED = {
    r"(topic|group|config\.property)\.filter\.class": (
        "Java classes cannot be used. Say it with topics, topics.exclude, groups and groups.exclude"
    ),
    r"forwarding\.admin\.class": "Java classes cannot be used. Remove it, or give mirrors by hand",
    r"(key|value|header)\.converter": (
        "records are copied as bytes. Use org.apache.kafka.connect.converters.ByteArrayConverter"
    ),
    r"transforms(\..*)?|predicates(\..*)?": (
        "Java classes cannot be used. Remove it: naming renames topics, and this version cannot "
        "change records"
    ),
}


def refusal(key: str, value: str) -> str | None:
    """Return why a key cannot be kept to, with the remedy; None if it can."""
    if not value or value.rpartition(".")[2] in _DEFAULT_CLASSES:
        return None
    return next((why for pattern, why in _REFUSED.items() if re.fullmatch(pattern, key)), None)


def why_not_needed(key: str, *, is_bare: bool) -> str | None:
    """Return why a key becomes no setting; None if that is not known."""
    if is_bare and re.match(r"(consumer|producer|admin)\.(?!timeout|poll)", key):
        return "MirrorMaker reads it only with a cluster before it"
    for pattern, why in _NOT_NEEDED.items():
        if re.fullmatch(pattern, key):
            return why
    return None
