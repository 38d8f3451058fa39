"""Remotes by a proxy: Debian's tinyproxy and microsocks before a Mosquitto, and answers that those do not give."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.remote.remote_socket import open_remote, probe_remote
from actors.remote.remote_tcp import connect_tcp
from tests.support.authority import Authority
from tests.support.mosquitto import Mosquitto
from tests.support.ports import free_port
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S, wait_until
from wire.config_settings import ProxySettings, RemoteSettings, TlsSettings
from wire.errors import Unavailable
from wire.status.link_faults import LinkFault, fault_of

pytestmark = pytest.mark.process
SCHEMES = ("http", "socks5", "socks5h")


def remote(proxy: ProxySettings, **changed: Any) -> RemoteSettings:
    keys: dict[str, Any] = {"connect_timeout_s": PATIENCE_S, "proxy": proxy, **changed}
    return replace(bridge().remote, **keys)


def accepts(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def proxies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ProxySettings]]:
    """A proxy of each kind, which knows one user."""
    programs = [shutil.which(name, path="/usr/bin:/usr/sbin") for name in ("tinyproxy", "microsocks")]
    if None in programs:
        pytest.skip("a proxy is not installed: apt-get install tinyproxy-bin microsocks")
    folder = tmp_path_factory.mktemp("proxies")
    secret, config, web, socks = folder / "secret", folder / "tinyproxy.conf", free_port(), free_port()
    secret.write_text("sesame\n")
    config.write_text(f"Port {web}\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nBasicAuth edge sesame\n")
    running = [
        subprocess.Popen([str(programs[0]), "-d", "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
        subprocess.Popen(
            [str(programs[1]), "-i", "127.0.0.1", "-p", str(socks), "-u", "edge", "-P", "sesame"], stderr=subprocess.DEVNULL
        ),
    ]
    try:
        wait_until(lambda: accepts(web) and accepts(socks), PATIENCE_S, "both proxies listen")
        ports = {"http": web, "socks5": socks, "socks5h": socks}
        yield {
            scheme: ProxySettings(url=f"{scheme}://127.0.0.1:{port}", username="edge", password_file=str(secret))
            for scheme, port in ports.items()
        }
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def answering(speak: Callable[[socket.socket], object]) -> Iterator[ProxySettings]:
    """A proxy that lets ``speak`` answer one connection, whose request of HTTP it has read."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            sock, _ = listening.accept()
            with sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while not sock.recv(4096).endswith(b"\r\n\r\n"):
                    pass
                speak(sock)

        thread = threading.Thread(target=serve)
        thread.start()
        yield ProxySettings(url=f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_remote_is_reached_by_a_proxy_with_tls_and_websocket_on_top(
    proxies: dict[str, ProxySettings], tmp_path: Path, scheme: str
) -> None:
    authority = Authority(tmp_path / "ca")
    pair = authority.issue("server")
    tls = TlsSettings(ca_file=str(authority.ca_file))
    with (
        Mosquitto(tmp_path / "plain") as plain,
        Mosquitto(tmp_path / "secure", certificate=(pair.cert_file, pair.key_file)) as secure,
        Mosquitto(tmp_path / "web", websockets=True) as web,
        Mosquitto(tmp_path / "secure web", websockets=True, certificate=(pair.cert_file, pair.key_file)) as secure_web,
    ):
        for transport, broker in (("tcp", plain), ("tls", secure), ("ws", web), ("wss", secure_web)):
            settings, address = remote(proxies[scheme], transport=transport, tls=tls), ("localhost", broker.port)
            probe_remote(settings, address)
            open_remote(settings, "c", address, clean=True).close()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_a_proxy_does_not_let_through_is_its_fault_and_tells_no_secret(
    proxies: dict[str, ProxySettings], tmp_path: Path, scheme: str
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("barley\n")
    for proxy, port in ((replace(proxies[scheme], password_file=str(wrong)), 1883), (proxies[scheme], free_port())):
        with pytest.raises(Unavailable, match=f"^proxy: {scheme}://127") as raised:
            open_remote(remote(proxy), "c", ("127.0.0.1", port), clean=True)
        assert fault_of(raised.value) is LinkFault.PROXY
        assert not {"barley", "sesame"} & set(raised.value.message.replace(":", " ").split())


def test_who_looks_the_name_up_is_who_does_not_find_it(proxies: dict[str, ProxySettings]) -> None:
    faults = {}
    for scheme in SCHEMES:
        with pytest.raises(Unavailable) as raised:
            probe_remote(remote(proxies[scheme]), ("nowhere.invalid", 1883))
        faults[scheme] = fault_of(raised.value)
    assert faults == {"http": LinkFault.PROXY, "socks5": LinkFault.NAME, "socks5h": LinkFault.PROXY}


def test_a_proxy_that_cannot_be_reached_or_logged_in_to_is_named(tmp_path: Path) -> None:
    nobody = ProxySettings(url=f"http://127.0.0.1:{free_port()}")
    missing = replace(nobody, username="edge", password_file=str(tmp_path / "none"))
    for proxy, fault in ((nobody, LinkFault.PROXY), (missing, LinkFault.CREDENTIALS)):
        with pytest.raises(Unavailable) as raised:
            probe_remote(remote(proxy), ("127.0.0.1", 1883))
        assert fault_of(raised.value) is fault


@pytest.mark.parametrize(
    ("no_proxy", "host", "past"),
    [
        ("localhost", "localhost", True),
        ("LOCALHOST", "localhost", True),
        ("host", "localhost", False),
        ("127.0.0.0/8", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("10.0.0.0/8", "127.0.0.1", False),
        ("1", "127.0.0.1", False),
    ],
)
def test_some_remotes_are_reached_without_it(no_proxy: str, host: str, past: bool) -> None:
    nobody = ProxySettings(url=f"http://127.0.0.1:{free_port()}", no_proxy=(no_proxy,))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = (host, listening.getsockname()[1])
        if past:
            connect_tcp(address, remote(nobody, ip_version="ipv4")).close()
        else:
            with pytest.raises(Unavailable):
                connect_tcp(address, remote(nobody, ip_version="ipv4"))


def test_an_answer_may_come_in_pieces_and_nothing_behind_it_is_read() -> None:
    def speak(sock: socket.socket) -> None:
        for piece in (b"HTTP/1.1 200 ", b"Here\r\nVia: us\r", b"\n\r\nbehind"):
            sock.sendall(piece)

    with answering(speak) as proxy, connect_tcp(("broker.example", 1883), remote(proxy)) as sock:
        assert sock.recv(100) == b"behind"


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 Here\r\n", b"nonsense\r\n\r\n", b"HTTP/1.1 \xff\xff\r\n\r\n", b"x" * 20_000])
def test_what_is_no_answer_is_a_fault_of_the_proxy(said: bytes) -> None:
    with answering(lambda sock: sock.sendall(said)) as proxy, pytest.raises(Unavailable) as raised:
        connect_tcp(("broker.example", 1883), remote(proxy))
    assert fault_of(raised.value) is LinkFault.PROXY
    raised.value.message.encode()


def test_a_proxy_that_says_nothing_is_waited_for_no_longer_than_any_remote() -> None:
    ended = threading.Event()
    with answering(lambda _: ended.wait(PATIENCE_S)) as proxy:
        with pytest.raises(Unavailable) as raised:
            connect_tcp(("broker.example", 1883), remote(proxy, connect_timeout_s=0.2))
        ended.set()
    assert fault_of(raised.value) is LinkFault.PROXY
