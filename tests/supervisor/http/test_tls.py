"""The HTTP interface over TLS: its certificate is read again, and who does not finish a handshake keeps nobody out."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.supervisor.http.served import TOKENS, Served, serve
from tests.support.authority import Authority
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

CONNECTIONS_MAX = 4


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"), "ca")
    made.issue("server", "/CN=localhost")
    return made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Served]:
    tls = {"cert_file": str(authority.folder / "server.pem"), "key_file": str(authority.folder / "server.key")}
    keys = {"tls": tls, "connections_max": CONNECTIONS_MAX, "request_timeout": "1s"}
    with serve(tmp_path_factory.mktemp("tls"), **keys) as served:
        yield served


def ask(served: Served, authority: Authority) -> tuple[bytes, int]:
    """The answer to a question for the status, and the serial number of the certificate that was shown."""
    context = ssl.create_default_context(cafile=str(authority.folder / "ca.pem"))
    context.check_hostname = False
    head = f"GET /api/v1/caller HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKENS['view']}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) as plain, context.wrap_socket(plain) as sock:
        certificate = sock.getpeercert()
        assert certificate is not None
        sock.sendall(head.encode())
        answer = b"".join(iter(lambda: sock.recv(65_536), b""))
    return answer, int(str(certificate["serialNumber"]), 16)


def test_it_answers_and_takes_up_a_new_certificate(served: Served, authority: Authority) -> None:
    answer, serial = ask(served, authority)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert served.figures["tls"] is True

    authority.issue("server", "/CN=localhost")

    wait_until(lambda: ask(served, authority)[1] != serial, PATIENCE_S, "the new certificate is shown", period_s=0.2)


def test_who_speaks_no_tls_is_closed_and_counted(served: Served) -> None:
    before = served.figures["refused"].get("handshake", 0)

    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP" not in b"".join(iter(lambda: sock.recv(65_536), b""))

    wait_until(lambda: served.figures["refused"].get("handshake", 0) > before, PATIENCE_S, "it is counted", period_s=0.05)


def test_who_does_not_finish_a_handshake_keeps_nobody_out(served: Served, authority: Authority) -> None:
    with ExitStack() as stack:
        slow = [socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) for _ in range(3 * CONNECTIONS_MAX)]
        for sock in slow:
            stack.enter_context(sock)

        assert ask(served, authority)[0].startswith(b"HTTP/1.1 200 OK")

        assert [sock.recv(1) for sock in slow] == [b""] * len(slow), "all are closed in the end"
    assert served.figures["refused"]["gave_way"] >= CONNECTIONS_MAX
