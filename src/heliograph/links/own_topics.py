"""The topics that Heliograph keeps on a target: made on demand, kept compacted."""

from heliograph.errors import HeliographError, LedgerUnfit, NotAuthorized, TopicExists
from heliograph.kafka.admin import Admin
from heliograph.kafka.deadline import Deadline
from heliograph.model.configs import NewTopic
from heliograph.model.names import ledger_topic, own_topics

_CONFIGS = {
    "cleanup.policy": "compact",
    # A put is one batch, taken whole or not at all; receipts of many partitions are large.
    "max.message.bytes": str(16 << 20),
    # Rows change every second: without this a log would grow for a week before it is compacted.
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}


def make_own_topics(admin: Admin, link: str, deadline: Deadline) -> None:
    """Create what is missing; restore compaction where somebody turned it off.

    A ledger that retention may delete is a ledger that will be lost.
    """
    names = own_topics(link)
    there = admin.topics.describe(names, deadline)
    ledger = ledger_topic(link)
    if there and ledger not in there:
        raise LedgerUnfit(
            f"the topic {ledger} is gone, and the link {link} has its other topics: what it copied"
            " is not known any more, so nothing was started. Restore it; or begin a new link, under"
            " another name and with other mirrors"
        )
    # The ledger's first: where there are others, it was there.
    for some in ([ledger], names) if len(there) < len(names) else ():
        _create(admin, some, deadline)
    admin.topics.await_leaders(names, deadline)
    if there:
        _restore(admin, list(there), deadline)


def _create(admin: Admin, names: list[str], deadline: Deadline) -> None:
    there = admin.topics.describe(names, deadline)
    new = [NewTopic(name, 1, None, _CONFIGS) for name in names if name not in there]
    for outcome in admin.topics.create_many(new, deadline=deadline).values():
        # Two drivers may start at the same instant: the other one was faster.
        if isinstance(outcome, HeliographError) and not isinstance(outcome, TopicExists):
            raise outcome


def _restore(admin: Admin, names: list[str], deadline: Deadline) -> None:
    try:
        found = admin.configs.of_topics(names, deadline)
    except NotAuthorized:
        return  # who may not look may not change either; copying needs neither
    for name, entries in found.items():
        policy = entries.get("cleanup.policy")
        if policy is not None and policy.value != "compact":
            admin.configs.change_topic(name, put={"cleanup.policy": "compact"}, deadline=deadline)
