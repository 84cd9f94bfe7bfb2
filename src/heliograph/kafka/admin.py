"""Describe and change what a cluster holds, by kafka-python's admin client.

Values in and out are ours. Every call ends before its deadline (``request.timeout.ms`` unless
given) with an answer or with one of our errors, which names the cluster.
"""

from types import MappingProxyType, TracebackType
from typing import Any, Self

from heliograph.errors import RequestRefused
from heliograph.kafka.admin_acls import Acls
from heliograph.kafka.admin_configs import ALL_BROKERS, Configs
from heliograph.kafka.admin_groups import Groups
from heliograph.kafka.admin_logs import At, Logs
from heliograph.kafka.admin_session import Session
from heliograph.kafka.admin_topics import Topics
from heliograph.kafka.admin_users import Users
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.deadline import Deadline
from heliograph.model.topics import Broker, ClusterView

__all__ = ["ALL_BROKERS", "Admin", "At"]


class Admin:
    """One cluster's administration; connects at the first call."""

    def __init__(self, settings: ClientSettings, name: str) -> None:
        self._session = Session(settings, name)
        self.topics = Topics(self._session)
        self.configs = Configs(self._session)
        self.acls = Acls(self._session)
        self.groups = Groups(self._session)
        self.logs = Logs(self._session)
        self.users = Users(self._session)

    def describe(self, deadline: Deadline | None = None) -> ClusterView:
        """Return the cluster's id, controller and brokers; no topics."""

        def ask(client: Any, _: int) -> ClusterView:
            return _view(client.describe_cluster())

        return self._session.call("describing the cluster", ask, deadline)

    def voters(self, deadline: Deadline | None = None) -> tuple[int, ...]:
        """Return the ids of the controllers whose majority keeps the cluster's metadata.

        They need not be brokers. Refused by clusters that keep it in ZooKeeper.
        """
        doing = "describing the quorum"

        def ask(client: Any, _: int) -> tuple[int, ...]:
            topics = client.describe_metadata_quorum()["topics"]
            rows = [row for topic in topics for row in topic["partitions"]]
            for row in rows:
                # kafka-python keeps the broker's words and drops its code.
                if row["error"] is not None:
                    message = f"while {doing}: {row['error']}"
                    raise RequestRefused(message, cluster=self._session.name)
            return tuple(sorted(one["replica_id"] for row in rows for one in row["current_voters"]))

        return self._session.call(doing, ask, deadline)

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _view(found: dict[str, Any]) -> ClusterView:
    brokers = {
        row["broker_id"]: Broker(row["broker_id"], row["host"], row["port"], row.get("rack"))
        for row in found["brokers"]
    }
    controller = found["controller_id"]
    return ClusterView(
        cluster_id=found["cluster_id"],
        controller=controller if controller >= 0 else None,
        brokers=MappingProxyType(brokers),
    )
