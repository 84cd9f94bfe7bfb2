"""Visits: one look at a cluster, for all that is checked there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from heliograph.errors import (
    CertificateRefused,
    ConfigError,
    HeliographError,
    LoginRefused,
    NotAuthorized,
    Unreachable,
)
from heliograph.kafka.admin import Admin
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.deadline import Deadline
from heliograph.model.findings import Finding, Side
from heliograph.model.topics import TopicView

_REMEDIES: dict[type[HeliographError], str] = {
    LoginRefused: "Correct the login of cluster {name}: sasl.mechanism, sasl.username and the"
    " password that sasl.password refers to, and that this user exists there",
    CertificateRefused: "Correct the ssl settings of cluster {name}: the authority in"
    " ssl.ca.location, the host names in the brokers' certificates, our own certificate",
    NotAuthorized: "Grant what the message names to the user of cluster {name}",
    Unreachable: "Correct bootstrap.servers and security.protocol of cluster {name}; see that its"
    " brokers run and that this machine may connect to them",
    ConfigError: "Correct the settings of cluster {name}",
}
_ELSE = "See that the brokers of cluster {name} are well, and check again"


@dataclass(frozen=True, slots=True)
class Visit:
    """A cluster that answers, as one user sees it. ``topics`` are all that the user may see."""

    side: Side
    cluster: Cluster
    admin: Admin
    topics: Mapping[str, TopicView]
    cluster_id: str

    @property
    def brokers(self) -> int:
        """How many brokers it has."""
        return len(self.cluster.view.brokers)


def connect(cluster: Cluster, admin: Admin, principal: str, deadline: Deadline) -> Visit:
    """Connect, log in and look at all topics; raise why that is not possible."""
    view = cluster.look(None, deadline)
    bootstrap = str(cluster.settings.bootstrap[0])
    side = Side(cluster.name, bootstrap, principal)
    return Visit(side, cluster, admin, view.topics, str(view.cluster_id))


def newest_versions(visit: Visit, deadline: Deadline) -> dict[int, int]:
    """Return, by the key of a request, the newest version that all brokers speak."""
    newest: dict[int, int] = {}
    for broker in visit.cluster.view.brokers:
        spoken = visit.cluster.connected(broker, deadline).versions
        known = spoken if not newest else newest.keys() & spoken.keys()
        newest = {key: min(spoken[key][1], newest.get(key, spoken[key][1])) for key in known}
    return newest


def unreachable_brokers(visit: Visit, deadline: Deadline) -> Iterator[Finding]:
    """Find brokers that the cluster names and that cannot be reached from here."""
    brokers = visit.cluster.view.brokers
    for broker in brokers:
        visit.cluster.channel(broker)  # all at once
    for broker, known in brokers.items():
        try:
            visit.cluster.connected(broker, deadline)
        except HeliographError as error:
            yield Finding(
                "error",
                "broker-unreachable",
                f"cluster {visit.side.cluster}",
                f"broker {broker} calls itself {known.host}:{known.port}, and cannot be reached"
                f" there: {error.message}",
                "Correct advertised.listeners of that broker, or let this machine (and Spark's)"
                " resolve and reach that address",
            )


def refused(name: str, error: HeliographError) -> Finding:
    """Return the finding that a cluster did not let us in."""
    kind = next((one for one in _REMEDIES if isinstance(error, one)), None)
    remedy = (_REMEDIES[kind] if kind else _ELSE).format(name=name)
    return Finding("error", error.code, f"cluster {name}", error.message, remedy)


def accepted(settings: ClientSettings) -> Iterator[Finding]:
    """Find settings that are accepted and should not stay."""
    for warning in settings.warnings:
        remedy = f"Change it in the section of cluster {settings.cluster}"
        where = f"cluster {settings.cluster}"
        yield Finding("warning", "client-setting", where, warning, remedy)
