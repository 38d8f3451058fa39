"""The sockets towards a remote, on loopback: what they are bound to, and what the system was told of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from actors.remote.remote_socket import probe_remote
from actors.remote.remote_tcp import connect_tcp
from tests.support.ports import free_port
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S
from wire.config_settings import RemoteSettings, TcpKeepAliveSettings
from wire.errors import Unavailable
from wire.status.link_faults import LinkFault, fault_of


def remote(**changed: Any) -> RemoteSettings:
    settings: RemoteSettings = replace(bridge().remote, **({"connect_timeout_s": PATIENCE_S} | changed))
    return settings


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_it_connects_from_the_address_that_is_given(server: socket.socket) -> None:
    with connect_tcp(server.getsockname(), remote(bind_address="127.0.0.9")):
        far, (host, _) = server.accept()
        far.close()
        assert host == "127.0.0.9"


def test_it_connects_by_the_interface_that_is_given(server: socket.socket) -> None:
    with connect_tcp(server.getsockname(), remote(bind_interface="lo")) as sock:
        name = sock.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
        assert name.rstrip(b"\0") == b"lo"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"bind_address": "192.0.2.1"}, "192.0.2.1 cannot be connected from"),
        ({"bind_interface": "none0"}, "none0 cannot be connected from"),
    ],
)
def test_what_cannot_be_connected_from_is_named(server: socket.socket, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(Unavailable, match=said):
        probe_remote(remote(**keys), server.getsockname())


def test_a_name_is_looked_up_for_the_wanted_kind_of_address_only(server: socket.socket) -> None:
    port = server.getsockname()[1]
    with connect_tcp(("localhost", port), remote(ip_version="ipv4")) as sock:
        assert sock.family == socket.AF_INET
    with pytest.raises(Unavailable) as raised:
        probe_remote(remote(ip_version="ipv6"), ("127.0.0.1", port))
    assert fault_of(raised.value) is LinkFault.NAME
    with pytest.raises(Unavailable):
        probe_remote(remote(bind_address="::1"), ("127.0.0.1", port))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_system_is_told_the_class_the_timeout_and_the_probes(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening:
        settings = remote(dscp=46, tcp_user_timeout_s=12.5, tcp_keep_alive=TcpKeepAliveSettings(idle_s=7, interval_s=3, count=2))
        with connect_tcp((host, listening.getsockname()[1]), settings) as sock:
            told = [
                sock.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            ]
            assert told == [12_500, 7, 3, 2]
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if family == socket.AF_INET6:
                assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS) == 46 << 2
            else:
                assert sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 46 << 2


def test_without_keys_the_system_is_told_of_the_probes_alone(server: socket.socket) -> None:
    with connect_tcp(server.getsockname(), remote(tcp_keep_alive=TcpKeepAliveSettings(idle_s=0))) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
        assert sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 0


def test_the_error_is_that_of_the_last_address_that_was_tried() -> None:
    with pytest.raises(Unavailable) as raised:
        probe_remote(remote(), ("127.0.0.1", free_port()))
    assert fault_of(raised.value) is LinkFault.NOBODY_LISTENS
