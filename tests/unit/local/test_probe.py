import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from heliograph.local.probe import accepts, nodes_seen


@contextmanager
def answering(*parts: bytes) -> Iterator[int]:
    """A server that reads a request and sends back given bytes, part by part."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                for part in parts:
                    connection.sendall(part)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def reply(controller: int) -> bytes:
    def text(value: bytes | None) -> bytes:
        return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value

    brokers = [(1, b"127.0.0.1", None), (2, b"127.0.0.1", b"rack-b")]
    body = struct.pack(">ii", 1, len(brokers))
    for node, host, rack in brokers:
        body += struct.pack(">i", node) + text(host) + struct.pack(">i", 9092) + text(rack)
    body += struct.pack(">ii", controller, 0)
    return struct.pack(">i", len(body)) + body


def test_the_nodes_that_a_broker_knows_are_seen() -> None:
    whole = reply(controller=1)
    with answering(whole[:3], whole[3:30], whole[30:]) as port:
        assert nodes_seen("127.0.0.1", port, 5) == frozenset({1, 2})


def test_without_a_controller_nothing_serves() -> None:
    with answering(reply(controller=-1)) as port:
        assert nodes_seen("127.0.0.1", port, 5) is None


def test_nonsense_is_no_answer() -> None:
    for nonsense in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", reply(1)[:20]):
        with answering(nonsense) as port:
            assert nodes_seen("127.0.0.1", port, 5) is None


def test_a_closed_port_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert accepts("127.0.0.1", port, 5)
    assert not accepts("127.0.0.1", port, 5)
    assert nodes_seen("127.0.0.1", port, 5) is None
