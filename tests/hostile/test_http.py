"""The HTTP interface beside somebody who has no token: an honest request is answered, whatever the others do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.supervisor.http.client import request
from tests.supervisor.http.served import Served, serve
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.process

CONNECTIONS_MAX = 16
STOP = b"POST /api/v1/stop HTTP/1.1\r\nHost: localhost\r\nX-Bascule: 1\r\n"
READY = b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("http"), connections_max=CONNECTIONS_MAX) as served:
        yield served


def connect(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S)


def answer_to(served: Served, data: bytes) -> bytes:
    with connect(served) as sock, suppress(OSError):
        sock.sendall(data)
        return b"".join(iter(lambda: sock.recv(65_536), b""))
    return b""


@pytest.mark.parametrize("ahead", [1, 50], ids=["one after the other", "many in advance"])
def test_connections_that_are_never_idle_keep_nobody_out(served: Served, ahead: int) -> None:
    """As many as there may be, all busy; each is filled again as soon as it has been closed."""
    with ExitStack() as stack:
        busy: list[socket.socket] = []
        for _ in range(60):
            while len(busy) < CONNECTIONS_MAX:
                busy.append(stack.enter_context(connect(served)))
            for sock in busy[:]:
                try:
                    sock.sendall(READY * ahead)
                except OSError:
                    busy.remove(sock)

            assert request(served.port, "/health/live").status == 200

    assert served.figures["refused"]["gave_way"] > 0
    assert "connections_max" not in served.figures["refused"]


def test_one_request_is_answered_at_a_time(served: Served) -> None:
    assert answer_to(served, READY * 20).count(b"HTTP/1.1 200 ") == 1


@pytest.mark.parametrize(
    "data",
    [
        b"GET /health/live HTTP/1.1\nHost: localhost\n\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 60_000 + b"\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 10_000 + b"\r\n",
        STOP + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        STOP + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    ],
    ids=["bare LF", "folded header", "long header", "many headers", "length and coding", "coding and length"],
)
def test_what_a_proxy_may_read_otherwise_is_refused_and_closed(served: Served, data: bytes) -> None:
    before = served.figures["refused"].get("malformed", 0)

    answer = answer_to(served, data + READY)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert b"HTTP/1.1 200 " not in answer
    assert served.figures["refused"]["malformed"] == before + 1


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"Origin": "http://["}, "cross_site"),
        ({"Origin": "http://[::1"}, "cross_site"),
        ({"Origin": "http://a]b"}, "cross_site"),
        ({"Origin": "//["}, "cross_site"),
        ({"Origin": ""}, "cross_site"),
        ({"Origin": "http://\xff"}, "cross_site"),
        ({"Host": "["}, "malformed"),
        ({"Host": "[::1"}, "malformed"),
        ({"Host": "a b"}, "malformed"),
        ({"Host": "a:99999999"}, "malformed"),
        ({"Host": "a/b"}, "malformed"),
    ],
)
def test_an_origin_or_host_that_cannot_be_read_is_refused_and_no_bug(served: Served, headers: dict[str, str], kind: str) -> None:
    before = served.figures["refused"].get(kind, 0)

    answer = request(served.port, "/health/live", headers=headers)

    assert (answer.status, answer.kind) == (403, kind)
    assert served.figures["refused"][kind] == before + 1
    assert "5xx" not in served.figures["answers"]
    assert "Traceback" not in served.node.output
