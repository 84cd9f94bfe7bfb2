"""kafka-python's message classes, behind typed functions.

Small requests and replies go through them. The two hot ones, Fetch replies and Produce requests,
have codecs of their own: kafka-python copies each record set once more.
"""

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
        return response[version].decode(frame, header=True)
    except Exception as nonsense:  # whatever a decoder may raise on bytes that are not a reply
        raise ProtocolBroken(
            f"{channel.address} sent a {response.name} that cannot be read"
            f" ({type(nonsense).__name__}: {nonsense})",
            cluster=channel.cluster,
        ) from nonsense
