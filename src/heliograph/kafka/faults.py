"""The only map from Kafka's errors to ours.

Broker codes come from our own requests (``error_for``) and from kafka-python's admin client
(``from_kafka_python``). Whether an error heals by itself follows from its class.
"""

from collections.abc import Iterable

from kafka import errors as foreign

from heliograph.errors import (
    ClusterError,
    ConfigError,
    DeadlinePassed,
    HeliographError,
    LogTruncated,
    NotReady,
    OutcomeUnknown,
    ProtocolBroken,
    RecordsRefused,
    RequestRefused,
    Unreachable,
)
from heliograph.kafka.fault_codes import FAULTS, Fault
from heliograph.kafka.secret import Secret, redact

__all__ = ["FAULTS", "Fault", "error_for", "from_kafka_python", "is_retriable"]

_LONGEST_DETAIL = 300

# Ordered: the first class that fits decides. Broker codes are not here.
_CLIENT_ERRORS: tuple[tuple[type[Exception], type[ClusterError], str], ...] = (
    (foreign.KafkaTimeoutError, DeadlinePassed, "no answer in the time allowed"),
    (foreign.KafkaProtocolError, ProtocolBroken, "the answer is not what the protocol says"),
    (foreign.KafkaConnectionError, Unreachable, "the connection failed"),
    (foreign.NodeNotReadyError, Unreachable, "the broker cannot be reached"),
    (foreign.MetadataEmptyBrokerList, Unreachable, "no broker is known"),
    (foreign.UnknownBrokerIdError, Unreachable, "the cluster has no such broker at the moment"),
    (foreign.Cancelled, Unreachable, "the request was given up when its connection closed"),
    (foreign.StaleMetadata, NotReady, "our view of the cluster is too old"),
    (foreign.TooManyInFlightRequests, NotReady, "too many requests are under way"),
    (foreign.TransactionAbortedError, OutcomeUnknown, "the transaction was aborted"),
    (foreign.UnrecognizedBrokerVersion, RequestRefused, "the broker is too old for this"),
    (foreign.UnsupportedCodecError, RequestRefused, "a compression library is missing"),
    (foreign.RetriableError, NotReady, "the cluster is not ready"),
)


def is_retriable(code: int) -> bool:
    """Tell whether the same request may succeed later without anybody's help."""
    fault = FAULTS.get(code)
    return fault is not None and fault.kind.retriable


def error_for(code: int, *, cluster: str, doing: str, detail: str | None = None) -> HeliographError:
    """Return (not raise) our error for a broker's code.

    ``doing`` completes "while …": "creating topic orders". ``detail`` is the broker's own message,
    if it sent one; it must hold no secret.
    """
    if code == 0:
        raise ValueError("code 0 is success: there is no error to make")
    fault = FAULTS.get(code)
    if fault is None:
        fault = Fault("error", RequestRefused, "the broker is newer than Heliograph knows")
    said = f" (the broker says: {_short(detail)})" if detail else ""
    message = f"{fault.name} ({code}) while {doing}: {fault.words}{said}"
    if fault.kind is RecordsRefused:
        return RecordsRefused(message, cluster=cluster, kafka_code=code)
    if issubclass(fault.kind, ClusterError):
        return fault.kind(message, cluster=cluster)
    return fault.kind(f"cluster {cluster}: {message}")


def from_kafka_python(
    exc: Exception, cluster: str, doing: str, secrets: Iterable[Secret] = ()
) -> HeliographError:
    """Return our error for one of kafka-python's; values of ``secrets`` never get into it."""
    if isinstance(exc, HeliographError):
        return exc
    detail = redact(" ".join(str(arg) for arg in exc.args), secrets)
    code = getattr(exc, "errno", None)
    if isinstance(exc, foreign.BrokerResponseError) and isinstance(code, int) and code:
        return error_for(code, cluster=cluster, doing=doing, detail=detail or None)
    said = f" ({_short(detail)})" if detail else ""
    if isinstance(exc, foreign.LogTruncationError):
        message = f"while {doing}: records that were read are gone from the log{said}"
        return LogTruncated(message, cluster=cluster, epoch=-1, end_offset=-1)
    if isinstance(exc, foreign.KafkaConfigurationError):
        return ConfigError(f"cluster {cluster}: while {doing}: a setting is not usable{said}")
    for theirs, ours, words in _CLIENT_ERRORS:
        if isinstance(exc, theirs):
            return ours(f"while {doing}: {words}{said}", cluster=cluster)
    name = type(exc).__name__
    return RequestRefused(
        f"while {doing}: the request could not be made: {name}{said}", cluster=cluster
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[:_LONGEST_DETAIL]}…"
