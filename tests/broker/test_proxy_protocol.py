"""Listeners behind a proxy: from whom a connection is, who may say so, and what counts by that. Raw headers, and a real haproxy."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from supervisor.control.client import ControlClient
from tests.broker.raw import BINARY, CONNACK_4, CONNECT_4, WebSocket, client_context, frame, read_to_end
from tests.broker.test_access import Arriving, config
from tests.support.authority import Authority, Pair, tls_keys
from tests.support.mosquitto import mosquitto_pub
from tests.support.node import Node
from tests.support.ports import free_port
from tests.support.proxy_headers import TCP4, binary, tls_value, version_1, version_2
from tests.support.waiting import PATIENCE_S, wait_until

PROXY, ANYBODY = "127.0.0.1", "127.9.0.1"  # where connections come from
LET_IN, WRONG, NOT_AUTHORIZED, BLOCKED = 0, 0x86, 0x87, 0x9F
FAILURES_MAX, PER_ADDRESS_MAX = 3, 3


class Broker(NamedTuple):
    """A node whose listeners have the proxy at ``PROXY``; ``named`` takes names of certificates from it."""

    node: Node
    ports: dict[str, int]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, server_pair: Pair) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("proxied")
    ports = {kind: free_port() for kind in ("tcp", "named", "tls", "ws")}
    behind: dict[str, Any] = {"proxy_protocol": {"from": [PROXY, "2001:db8::/64"]}}
    named = {"proxy_protocol": {"from": ["127.0.0.0/30"], "identity": "common-name"}}
    listeners: list[dict[str, Any]] = [
        {"bind": f"127.0.0.1:{ports['tcp']}", **behind},
        {"bind": f"127.0.0.1:{ports['named']}", **named},
        {"bind": f"127.0.0.1:{ports['tls']}", "protocol": "tls", "tls": tls_keys(server_pair), **behind},
        {"bind": f"127.0.0.1:{ports['ws']}", "protocol": "ws", **behind, "access": {"allow_anonymous": True}},
    ]
    clients = {"connections_per_address": PER_ADDRESS_MAX, "connect_timeout": "3s"}
    limits = {"failures_max": FAILURES_MAX, "period": "1m", "block": "1h"}
    with Node({**config(folder, login_limits=limits), "listeners": listeners, "clients": clients}, folder / "node") as node:
        yield Broker(node, ports)
        assert "Traceback" not in node.output


class Proxied(Arriving):
    """A client whose connection a proxy begins with ``header``."""

    def __init__(self, port: int, header: bytes, client_id: str = "c", *, user: str | None = "ada", **keys: Any) -> None:
        passwords = {"ada": "lovelace", "bob": "hope"}
        keys = {"password": passwords.get(user or ""), "source": PROXY, **keys}
        super().__init__(port, client_id, version=5, username=user, **keys)
        self._header = header

    def dial(self, deadline_s: float | None = None) -> None:
        tls, self._tls = self._tls, None
        super().dial(deadline_s)
        self.send(self._header)
        if tls is not None:
            self._tls = tls
            self.take_socket(tls.wrap_socket(self._connected(), server_hostname="localhost"))


def sessions(node: Node) -> dict[str, tuple[str, str | None]]:
    """Address and user of those that are connected, by client identifier."""
    rows = ControlClient.of_data_dir(node.data_dir).each_session()
    return {row.client_id: (str(row.address), row.user) for row in rows}


@pytest.mark.parametrize("kind", ["tcp", "tls"])
@pytest.mark.parametrize("header", [version_1, version_2])
@pytest.mark.parametrize("host", ["203.0.113.7", "2001:db8:1::7"])
def test_a_client_has_the_address_that_its_proxy_says(
    broker: Broker, authority: Authority, kind: str, header: Any, host: str
) -> None:
    """The header stands before the TLS handshake."""
    context = client_context(authority.ca_file) if kind == "tls" else None
    with Proxied(broker.ports[kind], header(host, 4001), "seen", tls=context) as arriving:
        assert arriving.connect().reason_code == LET_IN
        assert sessions(broker.node)["seen"] == (f"{host}:4001", "ada")
        arriving.publish("t", bytes(100_000), qos=1)
        arriving.read()
        arriving.disconnect()


def test_a_header_may_come_in_any_pieces_and_stands_before_a_websocket(broker: Broker) -> None:
    with socket.create_connection(("127.0.0.1", broker.ports["ws"]), PATIENCE_S, (PROXY, 0)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in version_2("203.0.113.8", values=tls_value(b"x")):
            sock.send(bytes([byte]))
        web = WebSocket(sock)
        web.send(frame(BINARY, CONNECT_4))
        assert web.read_mqtt(4) == CONNACK_4
        assert sessions(broker.node)["a"] == ("203.0.113.8:4000", None)


@pytest.mark.parametrize("header", [binary(0x20, 0), b"PROXY UNKNOWN\r\n", binary(0x21, 0x31, bytes(216))])
def test_where_the_proxy_tells_no_address_it_is_its_own(broker: Broker, header: bytes) -> None:
    with Proxied(broker.ports["tcp"], header, "own") as arriving:
        assert arriving.connect().reason_code == LET_IN
        assert sessions(broker.node)["own"][0].startswith(f"{PROXY}:")
        arriving.disconnect()


def test_nobody_but_the_proxy_says_who_he_is_and_the_proxy_has_to(broker: Broker) -> None:
    """access.header-from-proxies-only"""
    for kind in ("tcp", "named", "tls", "ws"):
        for header in (version_1("203.0.113.7"), version_2("203.0.113.7", values=tls_value(b"ada")), binary(0x20, 0)):
            with socket.create_connection(("127.0.0.1", broker.ports[kind]), PATIENCE_S, (ANYBODY, 0)) as sock:
                sock.sendall(header + CONNECT_4)
                assert CONNACK_4 not in read_to_end(sock), kind
    with Proxied(broker.ports["tcp"], b"", source=ANYBODY) as arriving:
        assert arriving.connect().reason_code == LET_IN, "an ordinary client"
    failed = broker.node.status()["listener"]["handshakes_failed"]
    wrong = [b"", version_1("203.0.113.7")[:-2] + b" \r\n", binary(0x21, TCP4, bytes(5)), binary(0x20, 0, claimed=5000)]
    for header in wrong:
        with socket.create_connection(("127.0.0.1", broker.ports["tcp"]), PATIENCE_S, (PROXY, 0)) as sock:
            sock.sendall(header + CONNECT_4)
            assert read_to_end(sock) == b""
    assert broker.node.status()["listener"]["handshakes_failed"] == failed + len(wrong)
    (told,) = [event for event in broker.node.events("client.transport_failed") if "PROXY" in event["why"]]
    assert told["address"].startswith(f"{PROXY}:")


def test_a_header_has_the_time_that_connect_has(broker: Broker) -> None:
    limited = broker.node.status()["listener"]["limited"].get("connect_timeout", 0)
    with socket.create_connection(("127.0.0.1", broker.ports["tcp"]), PATIENCE_S, (PROXY, 0)) as sock:
        sock.sendall(version_2("203.0.113.7")[:20])
        assert read_to_end(sock) == b""
    status = broker.node.status()["listener"]
    assert (status["limited"]["connect_timeout"], status["half_open"]) == (limited + 1, 0)


def test_logins_and_connections_count_by_the_address_behind_the_proxy(broker: Broker) -> None:
    guessing, honest = version_2("203.0.113.20"), version_2("203.0.113.21")

    def code(header: bytes, password: str) -> int:
        with Proxied(broker.ports["tcp"], header, password=password) as arriving:
            return arriving.connect().reason_code

    assert [code(guessing, f"guess-{number}") for number in range(FAILURES_MAX + 1)] == [WRONG] * FAILURES_MAX + [BLOCKED]
    assert code(guessing, "lovelace") == BLOCKED
    assert code(honest, "lovelace") == LET_IN
    assert broker.node.events("address.blocked")[-1]["address"] == "203.0.113.20"

    crowd = [Proxied(broker.ports["tcp"], version_1("203.0.113.30", 5000 + at), f"crowd-{at}") for at in range(PER_ADDRESS_MAX + 1)]
    try:
        assert [one.connect().reason_code for one in crowd[:-1]] == [LET_IN] * PER_ADDRESS_MAX
        crowd[-1].connect_without_waiting()
        assert crowd[-1].rest() == []
        assert code(honest, "lovelace") == LET_IN
        crowd[0].close()
        with Proxied(broker.ports["tcp"], version_1("203.0.113.30"), "crowd-again") as again:
            assert again.connect().reason_code == LET_IN, "who has left is seen off first"
    finally:
        for one in crowd:
            one.close()
    assert broker.node.status()["listener"]["limited"]["connections_per_address"] == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (tls_value(b"pump-7"), (LET_IN, "pump-7")),
        (tls_value(b"pump-7", verify=1), (NOT_AUTHORIZED, None)),
        (tls_value(b"pump-7", client=0x01), (NOT_AUTHORIZED, None)),
        (tls_value(None), (NOT_AUTHORIZED, None)),
    ],
)
def test_a_certificate_that_the_proxy_has_verified_gives_the_user(broker: Broker, values: bytes, expected: Any) -> None:
    """The listener must say so; otherwise it is a client like any other."""
    code, user = expected
    with Proxied(broker.ports["named"], version_2("203.0.113.40", values=values), "named", user=None) as arriving:
        assert arriving.connect().reason_code == code
        if user is not None:
            assert sessions(broker.node)["named"] == ("203.0.113.40:4000", user)
    with Proxied(broker.ports["tcp"], version_2("203.0.113.41", values=values), user=None) as arriving:
        assert arriving.connect().reason_code == NOT_AUTHORIZED


@pytest.mark.parametrize("name", [b"", b"two\nlines", b"\xff"])
def test_a_name_that_cannot_be_a_user_s_lets_nobody_in(broker: Broker, name: bytes) -> None:
    with Proxied(broker.ports["named"], version_2("203.0.113.42", values=tls_value(name))) as arriving:
        arriving.connect_without_waiting()
        assert arriving.rest() == []


# --- a real proxy ---

HAPROXY = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend v1
    bind 127.0.0.1:{v1}
    default_backend v1
backend v1
    server node 127.0.0.1:{tcp} send-proxy source 127.0.0.1 check inter 100
frontend v2
    bind 127.0.0.1:{v2}
    default_backend v2
backend v2
    server node 127.0.0.1:{tcp} send-proxy-v2 source 127.0.0.1 check check-send-proxy inter 100
frontend passed
    bind 127.0.0.1:{passed}
    default_backend passed
backend passed
    server node 127.0.0.1:{tls} send-proxy-v2 source 127.0.0.1
frontend ended
    bind 127.0.0.1:{ended} ssl crt {pem} ca-file {ca} verify optional
    default_backend ended
backend ended
    server node 127.0.0.1:{named} send-proxy-v2-ssl-cn source 127.0.0.1
"""


class Haproxy:
    """Debian's haproxy before ``broker``; skips the test where there is none."""

    def __init__(self, folder: Path, broker: Broker, authority: Authority, pair: Pair) -> None:
        program = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            pytest.skip("haproxy is not installed: apt-get install haproxy")
        self.ports = {kind: free_port() for kind in ("v1", "v2", "passed", "ended")}
        pem, self._config = folder / "pair.pem", folder / "haproxy.cfg"
        pem.write_text(pair.cert_file.read_text() + pair.key_file.read_text())
        self._config.write_text(HAPROXY.format(**broker.ports, **self.ports, pem=pem, ca=authority.ca_file))
        self._words = [program, "-db", "-f", str(self._config)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self._listens, PATIENCE_S, "haproxy")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process.poll() is None, "haproxy has ended"
        try:
            socket.create_connection(("127.0.0.1", self.ports["ended"]), PATIENCE_S).close()
        except ConnectionRefusedError:
            return False
        return True


def test_haproxy_says_who_its_clients_are(
    broker: Broker, authority: Authority, server_pair: Pair, client_pair: Pair, tmp_path: Path
) -> None:
    """With PROXY v1 and v2, TLS that it passes on, and TLS that it ends; its checks of health are no faults."""
    failed = broker.node.status()["listener"]["handshakes_failed"]
    plain, certified = client_context(authority.ca_file), client_context(authority.ca_file, client_pair)
    with Haproxy(tmp_path, broker, authority, server_pair) as haproxy:
        for kind, source, tls, user in (
            ("v1", "127.7.0.1", None, "ada"),
            ("v2", "127.7.0.2", None, "ada"),
            ("passed", "127.7.0.3", plain, "ada"),
            ("ended", "127.7.0.4", certified, None),
            ("ended", "127.7.0.5", plain, "bob"),
        ):
            password = {"ada": "lovelace", "bob": "hope"}.get(user or "")
            name = f"{kind}-{source}"
            with Arriving(
                haproxy.ports[kind], name, version=5, username=user, password=password, source=source, tls=tls
            ) as arriving:
                assert arriving.connect().reason_code == LET_IN, name
                host, _, port = sessions(broker.node)[name][0].rpartition(":")
                assert (host, int(port) > 0, sessions(broker.node)[name][1]) == (source, True, user or "pump-7")
                arriving.disconnect()
        mosquitto_pub(haproxy.ports["v2"], "t", ["x"] * 20, qos=1, options=["-u", "ada", "-P", "lovelace"])
    assert broker.node.status()["listener"]["handshakes_failed"] == failed
