"""One admin client of kafka-python: built late, bounded in time, its errors translated.

kafka-python does the work. This module adds what it lacks: a deadline for a whole call, an end to
its thread when it cannot connect, and a fresh client where an old one is stuck.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from threading import Lock, Thread
from typing import Any, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, for_code

from heliograph.errors import ClusterError, DeadlinePassed, HeliographError, LoginRefused
from heliograph.kafka import tls
from heliograph.kafka.admin_socket import CLOSING
from heliograph.kafka.client_settings import ClientSettings
from heliograph.kafka.connect import probe
from heliograph.kafka.deadline import Deadline
from heliograph.kafka.faults import error_for, from_kafka_python
from heliograph.kafka.oauth import TokenProvider

T = TypeVar("T")

_LONGEST_PAUSE_S = 1.0


class Session:
    """The connection that the parts of an ``Admin`` share. Safe to use from several threads."""

    def __init__(self, settings: ClientSettings, name: str) -> None:
        self.settings = settings
        self.name = name
        self._client: _Client | None = None
        self._lock = Lock()

    def deadline(self, given: Deadline | None) -> Deadline:
        """Return the caller's deadline, or the default one."""
        return given or Deadline.after(self.settings.request_timeout)

    def refusal(self, code: int, doing: str, detail: str | None = None) -> HeliographError:
        """Return our error for a code that a broker gave for one item of a request."""
        return error_for(code, cluster=self.name, doing=doing, detail=detail)

    def call(
        self,
        doing: str,
        action: Callable[[Any, int], T],
        deadline: Deadline | None = None,
        *,
        repeatable: bool = True,
    ) -> T:
        """Run ``action(client, timeout_ms)`` and return what it returns.

        Errors that heal are tried again until the deadline, if ``repeatable``: doing it twice
        must then be the same as doing it once. ``action`` may raise our errors as well. It is never
        begun once the deadline has passed: what the caller decided on may not hold any more.
        """
        limit = self.deadline(deadline)
        pause_s = 0.05
        while True:
            try:
                return self._once(doing, action, limit)
            except ClusterError as error:
                if error.retriable or isinstance(error, DeadlinePassed | LoginRefused):
                    # A client keeps coordinators and refused logins for its life: build another.
                    self._drop()
                if not (error.retriable and repeatable):
                    raise
                if limit.left_s <= pause_s:
                    raise DeadlinePassed(error.message, cluster=self.name) from error
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """Close the client, or let it end by itself if it takes long; a call builds another."""
        closing = self._drop()
        if closing is not None:
            closing.join(_LONGEST_PAUSE_S)

    def _drop(self) -> Thread | None:
        with self._lock:
            client, self._client = self._client, None
        if client is None:
            return None
        # Elsewhere: it waits for the client's thread, which may itself be waiting.
        closing = Thread(target=client.close, daemon=True)
        closing.start()
        return closing

    def _once(self, doing: str, action: Callable[[Any, int], T], limit: Deadline) -> T:
        """Wait for the action in another thread: kafka-python's waits have no common bound."""
        self._refuse_late(doing, limit)
        outcome: Future[T] = Future()

        def work() -> None:
            try:
                client = self._ready(limit)
                # Connecting takes its time, and so does a process that was stopped.
                self._refuse_late(doing, limit)
                outcome.set_result(action(client, _left_ms(limit)))
            except BaseException as error:
                outcome.set_exception(error)

        Thread(target=work, name=f"admin-{self.name}", daemon=True).start()
        try:
            return outcome.result(limit.left_s)
        except TimeoutError:
            raise DeadlinePassed(
                f"while {doing}: no answer in the time allowed", cluster=self.name
            ) from None
        except (KafkaError, RuntimeError) as error:
            # kafka-python raises a bare RuntimeError when it finds no controller.
            raise from_kafka_python(error, self.name, doing, self.settings.secrets) from None

    def _refuse_late(self, doing: str, limit: Deadline) -> None:
        if limit.passed:
            message = f"while {doing}: the time allowed was over before it was sent"
            raise DeadlinePassed(message, cluster=self.name)

    def _ready(self, limit: Deadline) -> "_Client":
        with self._lock:
            if self._client is not None:
                return self._client
        # A refused login shows in kafka-python as a bootstrap that takes too long. The probe
        # connects first and raises what is really wrong.
        probe(self.settings, self.name, limit)
        made = _Client(**_options(self.settings, _left_ms(limit)))
        with self._lock:
            if self._client is None:
                self._client = made
                return made
            kept = self._client
        made.close()
        return kept


class _Client(KafkaAdminClient):  # type: ignore[misc]  # kafka-python has no types
    """kafka-python's client, with four repairs."""

    def __init__(self, **options: object) -> None:
        try:
            super().__init__(**options)
        except BaseException:
            # It starts its thread first and forgets it when the bootstrap fails.
            if hasattr(self, "_client"):
                self._client.close()
            raise

    async def _describe_cluster(self) -> dict[str, Any]:
        # The original fails on brokers before 3.7, which do not tell the type of an endpoint. Every
        # broker answers this, and it names no broker that is fenced.
        metadata: dict[str, Any] = await self._get_cluster_metadata([])
        for broker in metadata["brokers"]:
            broker["broker_id"] = broker.pop("node_id")
        return metadata

    @classmethod
    def _describe_configs_process_responses(
        cls, responses: Any, config_filter: Any = "modified"
    ) -> Any:
        # The original drops the error of a resource and shows it as one without settings.
        for response in responses:
            for result in response.results:
                if result.error_code:
                    raise for_code(result.error_code)(result.error_message)
        return super()._describe_configs_process_responses(responses, config_filter)

    @staticmethod
    def _group_config_resources(config_resources: Any) -> Any:
        # The empty name stands for all brokers; the original reads every name as a number.
        named = [resource for resource in config_resources if resource.name]
        for_all = [resource for resource in config_resources if not resource.name]
        brokers, others = KafkaAdminClient._group_config_resources(named)
        return brokers, others + for_all


def _left_ms(limit: Deadline) -> int:
    return max(1, int(limit.left_s * 1000))


def _milliseconds(span: timedelta) -> int:
    return max(1, int(span.total_seconds() * 1000))


def _options(settings: ClientSettings, bootstrap_timeout_ms: int) -> dict[str, object]:
    login = settings.login
    options: dict[str, object] = {
        "bootstrap_servers": [str(endpoint) for endpoint in settings.bootstrap],
        "client_id": settings.client_id,
        "security_protocol": settings.security_protocol,
        "bootstrap_timeout_ms": bootstrap_timeout_ms,
        "request_timeout_ms": _milliseconds(settings.request_timeout),
        "metadata_max_age_ms": _milliseconds(settings.metadata_max_age),
        "connections_max_idle_ms": _milliseconds(settings.connections_max_idle),
        "send_buffer_bytes": settings.send_buffer_bytes,
        "receive_buffer_bytes": settings.receive_buffer_bytes,
        # Its default lets a broker that was down for a moment be left alone for 30 s.
        "reconnect_backoff_max_ms": 1000,
        "proxy_url": CLOSING,
    }
    if settings.tls:
        options["ssl_context"] = tls.context(settings)
        options["ssl_check_hostname"] = settings.tls.checks_host
    if login:
        options["sasl_mechanism"] = login.mechanism
    if login and login.password:
        options["sasl_plain_username"] = login.username
        options["sasl_plain_password"] = login.password.reveal()
    if login and login.token_url:
        options["sasl_oauth_token_provider"] = TokenProvider(settings)
    return options
