"""Names: of clusters and links, of mirrors, and of what Heliograph keeps on a target.

Pure functions; the only place that builds such a name.
"""

import re

from heliograph.errors import ConfigError

# No dots: they would run together in topic names and transactional ids.
_SHORT_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
REVERSE = "-reverse"
_LEDGER = re.compile(r"__heliograph\.[A-Za-z0-9_-]{1,100}\.ledger")


def short_name(name: str, what: str) -> str:
    """Return ``name`` if it may name a cluster or a link; ``what`` is for the message.

    >>> short_name("paris-dublin", "link")
    'paris-dublin'
    """
    if not _SHORT_NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name a {what}: use 1 to 100 letters, digits, '-' and '_'"
            " (no dots: they would run together in topic names)"
        )
    return name


def transactional_id(link: str, topic: str, partition: int) -> str:
    """Name the claim on one mirror partition, by its source topic and partition.

    >>> transactional_id("paris-dublin", "orders", 3)
    'heliograph.paris-dublin.orders.3'
    """
    return f"{claim_prefix(link)}{topic}.{partition}"


def ledger_topic(link: str) -> str:
    """Name the topic that holds a link's runs.

    >>> ledger_topic("paris-dublin")
    '__heliograph.paris-dublin.ledger'
    """
    return own_prefix(link) + "ledger"


def is_ledger(topic: str) -> bool:
    """Tell whether a topic is some link's ledger.

    >>> is_ledger("__heliograph.paris-dublin.ledger"), is_ledger("orders.ledger")
    (True, False)
    """
    return _LEDGER.fullmatch(topic) is not None


def control_topic(link: str) -> str:
    """Name the topic that holds what is wanted of a link and what is planned.

    >>> control_topic("paris-dublin")
    '__heliograph.paris-dublin.control'
    """
    return own_prefix(link) + "control"


def state_topic(link: str) -> str:
    """Name the topic that holds what was seen of a link.

    >>> state_topic("paris-dublin")
    '__heliograph.paris-dublin.state'
    """
    return own_prefix(link) + "state"


def own_topics(link: str) -> list[str]:
    """Return the names of all topics that Heliograph keeps for a link on its target."""
    return [ledger_topic(link), control_topic(link), state_topic(link)]


def drill_link(link: str, tag: str) -> str:
    """Name the scratch link on which a failover of a link is rehearsed.

    >>> drill_link("paris-dublin", "0a1b2c3d")
    'paris-dublin-drill-0a1b2c3d'
    """
    return short_name(f"{link}-drill-{tag}", "link for a drill")


def drill_named(link: str, name: str) -> str | None:
    """Return of which scratch link of a link something is, by its name; None if of none.

    >>> drill_named("paris", "__heliograph.paris-drill-0a1b2c3d.ledger")
    'paris-drill-0a1b2c3d'
    """
    pattern = rf"__heliograph\.({re.escape(link)}-drill-[0-9a-f]{{8}})(\..*)?"
    found = re.fullmatch(pattern, name)
    return found[1] if found else None


def scratch_naming(drill: str) -> str:
    """Return how the mirrors of a scratch link are named: so that no link ever copies them.

    >>> scratch_naming("paris-drill-0a1b2c3d")
    '__heliograph.paris-drill-0a1b2c3d.scratch.{topic}'
    """
    return own_prefix(drill) + "scratch.{topic}"


def scratch_group(drill: str) -> str:
    """Name the consumer group that moves in a drill.

    >>> scratch_group("paris-drill-0a1b2c3d")
    '__heliograph.paris-drill-0a1b2c3d'
    """
    return own_prefix(drill).removesuffix(".")


def driver_id(link: str) -> str:
    """Name the claim on a link itself; a slash is in no topic's name, so it is no partition's.

    >>> driver_id("paris-dublin")
    'heliograph.paris-dublin./driver'
    """
    return claim_prefix(link) + "/driver"


def reverse_name(link: str) -> str:
    """Name the opposite direction of a link, which recovery turns on and off.

    >>> reverse_name("paris-dublin")
    'paris-dublin-reverse'
    """
    return link + REVERSE


def recovery_claim(link: str) -> str:
    """Name the claim on a link's recovery: one command at a time.

    >>> recovery_claim("paris-dublin")
    'heliograph.paris-dublin./recovery'
    """
    return claim_prefix(link) + "/recovery"


def diverged_topic(topic: str) -> str:
    """Name the topic that takes the records of one that only its old primary has.

    >>> diverged_topic("orders")
    'orders.diverged'
    """
    return f"{topic}.diverged"


def diverged_claim(link: str, topic: str, partition: int) -> str:
    """Name the claim on where the diverged records of a partition go.

    >>> diverged_claim("paris-dublin", "orders", 3)
    'heliograph.paris-dublin./diverged.orders.3'
    """
    return f"{claim_prefix(link)}/diverged.{topic}.{partition}"


def check_id(link: str) -> str:
    """Name a claim that nothing is written under: it shows whether claims are allowed.

    >>> check_id("paris-dublin")
    'heliograph.paris-dublin./check'
    """
    return claim_prefix(link) + "/check"


def own_prefix(link: str) -> str:
    """Return how the names of all that Heliograph keeps for a link on its target begin.

    >>> own_prefix("paris-dublin")
    '__heliograph.paris-dublin.'
    """
    return f"__heliograph.{short_name(link, 'link')}."


def claim_prefix(link: str) -> str:
    """Return how the transactional ids of a link begin.

    >>> claim_prefix("paris-dublin")
    'heliograph.paris-dublin.'
    """
    return f"heliograph.{short_name(link, 'link')}."
