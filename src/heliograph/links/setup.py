"""A link with all that is needed to reach its two ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from heliograph.config.settings import ClusterConfig, LinkConfig
from heliograph.errors import ConfigError
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.properties import parse
from heliograph.model.blueprint import Rules
from heliograph.model.leases import Access
from heliograph.model.mirrors import SettingRules
from heliograph.model.names import reverse_name
from heliograph.model.policies import Policies, Start
from heliograph.model.selection import reverse_naming
from heliograph.model.starts import Starts


@dataclass(frozen=True, slots=True)
class Setup:
    """A link, and its two clusters: as tasks are told of them, and as this process uses them."""

    link: LinkConfig
    source: Access
    target: Access
    source_settings: ClientSettings
    target_settings: ClientSettings
    inbound: tuple[str, ...] = ()
    """The links of the same file that write to this one's source."""
    reverses: Setup | None = None
    """The link that this one is the opposite direction of."""

    @property
    def policies(self) -> Policies:
        """Return the link's choices as tasks know them."""
        link = self.link
        return Policies(
            link.on_gap,
            link.on_recreate,
            link.on_refuse,
            is_shared=link.mirrors.merge or link.origin == "local",
            origin=link.origin,
            inbound=self.inbound,
        )

    @property
    def starts(self) -> Starts:
        """Return where the link's topics begin."""
        by_topic = {pattern: in_ms(one) for pattern, one in self.link.starts.items()}
        return Starts(in_ms(self.link.start), by_topic)

    @property
    def mirror_rules(self) -> Rules:
        """Return how the link wants its mirrors."""
        link, mirrors = self.link, self.link.mirrors
        settings = SettingRules(
            mirrors.configs_exclude,
            mirrors.use_defaults_from,
            is_followed=link.sync.configs is not None,
        )
        return Rules(
            link.naming, link.source, mirrors.replication_factor, settings, self.policies.is_shared
        )


def in_ms(start: Literal["earliest", "latest"] | datetime) -> Start:
    """Return a start as it is kept: a time in epoch milliseconds."""
    return int(start.timestamp() * 1000) if isinstance(start, datetime) else start


def make_setup(
    link: LinkConfig, source: ClusterConfig, target: ClusterConfig, inbound: tuple[str, ...] = ()
) -> Setup:
    """Return a link's set-up; raise one ConfigError for all that is wrong with its clusters."""
    return Setup(
        link,
        access(source),
        access(target),
        client_settings(source),
        client_settings(target),
        inbound,
    )


def opposite(setup: Setup) -> Setup:
    """Return the opposite direction of a link. It copies what recovery tells it to, and no more.

    Settings, ACLs and deletions do not follow in that direction: the topics are the applications'.
    Hooks are the link's own: they are told which cluster is primary then. The opposite of the
    opposite is the link itself.
    """
    if setup.reverses is not None:
        return setup.reverses
    link = setup.link
    sync = replace(link.sync, configs=None, acls=None, deletes=None, group_deletes=None)
    reverse = replace(
        link,
        name=reverse_name(link.name),
        source=link.target,
        target=link.source,
        topics=(),
        exclude=(),
        naming=reverse_naming(link.naming, link.source),
        start="earliest",
        starts={},
        sync=sync,
    )
    return Setup(
        reverse,
        setup.target,
        setup.source,
        setup.target_settings,
        setup.source_settings,
        reverses=setup,
    )


def refuse_unbuilt(link: LinkConfig) -> None:
    """Raise for a setting that this version would not keep to: better not started than wrong."""
    unbuilt = {
        "delivery: at-least-once": link.delivery == "at-least-once",
        "transform": bool(link.transform),
    }
    found = [name for name, is_set in unbuilt.items() if is_set]
    if found:
        raise ConfigError(
            f"link {link.name}: {', '.join(found)} cannot be kept to by this version. Nothing was"
            " started. Remove it from the configuration"
        )


def client_settings(cluster: ClusterConfig, *, text_only: bool = False) -> ClientSettings:
    """Return how to connect to a cluster; with ``text_only``, only raise what is wrong with it."""
    literals = cluster.allow_literal_secrets
    return parse(cluster.name, cluster.properties, literals, text_only=text_only)


def access(cluster: ClusterConfig) -> Access:
    """Return how a task connects to it: the same properties, secrets still references."""
    properties = {name: str(value) for name, value in cluster.properties.items()}
    return Access(cluster.name, properties, cluster.allow_literal_secrets)
