import socket

from heliograph.local.ports import reserve


def test_ports_are_on_loopback_differ_and_are_free_once_released() -> None:
    held = reserve(20)
    addresses = [one.getsockname() for one in held]
    for one in held:
        one.close()
    assert {host for host, _ in addresses} == {"127.0.0.1"}
    assert len({port for _, port in addresses}) == 20
    with socket.create_server(addresses[0]) as server:
        assert server.getsockname() == addresses[0]
