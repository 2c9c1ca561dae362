"""The guard that keeps tests on this machine."""

import socket

import pytest

from tests.network import NetworkClosed, NetworkGuard


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_an_address_elsewhere_is_refused_and_remembered(host: str, network_guard: NetworkGuard) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock, pytest.raises(NetworkClosed):
        sock.connect((host, 80))
    assert network_guard.take() == [host]


def test_a_foreign_name_is_not_even_looked_up(network_guard: NetworkGuard) -> None:
    with pytest.raises(NetworkClosed):
        socket.create_connection(("example.test", 80))
    assert network_guard.take() == ["example.test"]


def test_a_datagram_elsewhere_is_refused(network_guard: NetworkGuard) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(NetworkClosed):
        sock.sendto(b"x", ("192.0.2.1", 53))
    assert network_guard.take() == ["192.0.2.1"]


def test_loopback_is_reached_by_address_and_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            with socket.create_connection((host, port), timeout=5) as client:
                assert client.getpeername()[1] == port
