"""kafka-python's message classes, behind typed functions.

Small requests and replies go through them. The two hot ones, Fetch replies and Produce requests,
have codecs of their own: kafka-python copies each record set once more.
"""

from functools import cache
from typing import Any

from heliograph.errors import ProtocolBroken, RequestRefused
from heliograph.kafka.transport import Channel, Request


def version_for(channel: Channel, message: type[Any], *, most: int, least: int = 0) -> int:
    """Pick the newest version of a request that both sides speak, between the given bounds."""
    low, high = channel.versions.get(message.API_KEY, (0, -1))
    version = min(high, most, int(message.max_version))
    if version < max(low, least):
        raise RequestRefused(
            f"{channel.address} does not speak {message.name} version {least} or newer"
            " (its broker is too old for Heliograph)",
            cluster=channel.cluster,
        )
    return version


def encode(message: Any, version: int) -> Request:
    """Turn a kafka-python request into buffers; the channel adds the header."""
    body = bytes(message.encode(version=version))
    return Request(message.API_KEY, version, message.flexible_version_q(version), (body,))


def decode(response: type[Any], version: int, frame: memoryview, channel: Channel) -> Any:
    """Turn a reply into kafka-python's response object; nonsense raises ProtocolBroken."""
    try:
        answer = response[version].decode(frame, header=True)
        _refuse_nulls(answer, version)
        return answer
    except Exception as nonsense:  # whatever a decoder may raise on bytes that are not a reply
        raise ProtocolBroken(
            f"{channel.address} sent a {response.name} that cannot be read"
            f" ({type(nonsense).__name__}: {nonsense})",
            cluster=channel.cluster,
        ) from nonsense


def _refuse_nulls(part: Any, version: int) -> None:
    """Refuse null where the protocol has none: kafka-python reads damaged lengths as null."""
    kind: Any = type(part)
    for name, may_be_null, has_parts in _sized_fields(kind, version):
        value = getattr(part, name)
        if value is None and not may_be_null:
            raise ValueError(f"{name} is null")
        if has_parts:
            for inner in value or ():
                _refuse_nulls(inner, version)


@cache
def _sized_fields(kind: Any, version: int) -> list[tuple[str, bool, bool]]:
    """Return the lists and strings of a message: their names, if null is allowed, if they nest."""
    return [
        (name, field.nullable_for_version_q(version), field.is_struct_array())
        for name, field in kind.fields.items()
        if field.for_version_q(version) and not field.tagged_field_q(version)
        if field.is_array() or field.type_str in ("string", "bytes")
    ]
