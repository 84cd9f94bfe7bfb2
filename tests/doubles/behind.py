"""A broker behind the proxy, and the way around it."""

from dataclasses import dataclass

from heliograph.kafka.cluster import Cluster
from tests.doubles.driving import connect_to
from tests.doubles.proxy import Proxy

# Short, so that a swallowed reply is given up soon; long enough for a busy machine.
_REQUEST_TIMEOUT_MS = "2000"


@dataclass(frozen=True)
class Behind:
    """``direct`` is for the outside reader, who must not meet the faults."""

    proxy: Proxy
    direct: str

    def connect(self, name: str = "behind", **properties: str) -> Cluster:
        """Return a cluster of ours that goes through the proxy."""
        settings = {"request_timeout_ms": _REQUEST_TIMEOUT_MS} | properties
        return connect_to(self.proxy.address, name, **settings)
