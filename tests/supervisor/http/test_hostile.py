"""Hostile use of the HTTP interface: refused, counted, and the node unmoved, while a publisher goes on.

Requests are made by a generator from one seed. Times are short and connections few, so that each limit is met.
"""

from __future__ import annotations

import random
import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.supervisor.http.client import CHANGING, request
from tests.supervisor.http.served import TOKENS, Served, serve
from tests.support.fake_remote import FakeRemote
from tests.support.node import bridge_config
from tests.support.publisher import Publisher
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

SEED = 20
REQUESTS = 1000
CONNECTIONS_MAX = 12
LIMITS = {
    "connections_max": CONNECTIONS_MAX,
    "calls_max": 2,
    "request_max_bytes": "1KiB",
    "request_timeout": "500ms",
    "idle_timeout": "500ms",
    "hosts": ["edge.example.com"],
}
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")

PATH_TRICKS = [
    "/assets/../../../../etc/passwd",
    "/assets/..%2f..%2f..%2fetc%2fpasswd",
    "/assets/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/assets/%252e%252e%252fetc%252fpasswd",
    "/assets/....//....//etc/passwd",
    "/assets/..\\..\\etc\\passwd",
    "/assets//etc/passwd",
    "/assets/index.html%00.css",
    "/assets/%c0%ae%c0%ae/etc/passwd",
    "/assets/index.html/../../app.py",
    "/assets/",
    "/assets",
    "//assets/index.html",
    "/../etc/passwd",
    "/%2e%2e/etc/passwd",
    "/api/v1/../../assets/../app.py",
    "/api/v1/..%2f..%2fetc",
    "/app.py",
    "http://other.example/etc/passwd",
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The publisher goes on through all tests; at the end all of it has arrived, and no process has started again."""
    with FakeRemote() as remote, serve(tmp_path_factory.mktemp("hostile"), bridge_config("cloud", remote.port), **LIMITS) as served:
        served.node.wait_lane("cloud", state="connected")
        before = {row["name"]: row["pid"] for row in served.node.status()["processes"]}
        with Publisher(served.node.port, "plant/1", qos=1, rate_per_s=200.0) as publisher:
            yield served
            publisher.wait_acknowledged(10)
            publisher.finish()
            count = publisher.acknowledged
        served.node.wait_lane("cloud", depth=0, accepted=count, delivered=count, ledger_closes=True)
        assert {row["name"]: row["pid"] for row in served.node.status()["processes"]} == before
        assert publisher.reconnects == 0
        assert "Traceback" not in served.node.output
        assert '"level": "ERROR"' not in served.node.output


class Hostile:
    """Makes requests that are none, or that nobody may make; ``random`` is all that they depend on."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._kinds = [self._noise, self._changed, self._head, self._lengths, self._chunks, self._body, self._target]

    def request(self) -> bytes:
        """One more."""
        return self._random.choice(self._kinds)()

    def _bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def _noise(self) -> bytes:
        return self._bytes(self._random.randint(1, 400)) + self._random.choice([b"", b"\r\n\r\n"])

    def _changed(self) -> bytes:
        """A request without a token in which some bytes are others, missing or more."""
        data = bytearray(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n")
        for _ in range(self._random.randint(1, 6)):
            at = self._random.randrange(len(data))
            data[at : at + self._random.randint(0, 2)] = self._bytes(self._random.randint(0, 2))
        return bytes(data)

    def _head(self) -> bytes:
        line = self._random.choice(
            [
                b"Host: a\r\nHost: b",
                b"Host : localhost",
                b"X: a\rb",
                b"X: \0",
                b"\xff\xfe: 1",
                b": nothing",
                b" folded",
                b"Host: localhost\r\nX: " + b"y" * 20_000,
                b"Host: localhost\r\n" + b"X: y\r\n" * 5_000 + b"Z: y",
                b"Host: localhost\r\nTransfer-Encoding: gzip, chunked",
                b"Host: localhost\r\nUpgrade: websocket\r\nConnection: upgrade",
            ]
        )
        return b"GET /api/v1/status HTTP/1.1\r\n" + line + b"\r\nConnection: close\r\n\r\n"

    def _lengths(self) -> bytes:
        length = self._random.choice(
            [b"-1", b"1e3", b"99999999999999999999", b"+5", b"0x10", b" ", b"5\r\nContent-Length: 6", b"5, 5", b"4096"]
        )
        more = self._random.choice([b"", b"Transfer-Encoding: chunked\r\n"])
        return self._post(b"Content-Length: " + length + b"\r\n" + more, self._bytes(20))

    def _chunks(self) -> bytes:
        size = self._random.choice([b"-1", b"zz", b"ffffffffffffffffffff", b"5;" + b"x" * 9000, b"5\n", b"", b"7d0"])
        return self._post(b"Transfer-Encoding: chunked\r\n", size + b"\r\n" + self._bytes(5) + b"\r\n0\r\n\r\n")

    def _body(self) -> bytes:
        """By who may, so that the body is read: it is no order."""
        body = self._random.choice(
            [
                b"[" * 500,
                b'{"lane": 1e999}',
                b'{"lane": 99999999999999999999999}',
                b"\xff\xfe",
                b"null",
                b"7",
                b'{"lane":"\\ud800"}',
                b"{",
            ]
        )
        token = f"Authorization: Bearer {TOKENS['admin']}\r\n".encode()
        kind = self._random.choice(
            [b"application/json", b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data"]
        )
        return self._post(token + b"Content-Type: " + kind + b"\r\nContent-Length: %d\r\n" % len(body), body)

    def _target(self) -> bytes:
        target = self._random.choice(["*", "nothing", "/" + "a" * 15_000, "/%", "/%ff%fe", "/x?" + "&" * 900, *PATH_TRICKS[:-1]])
        method = self._random.choice(["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "X" * 300])
        return f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-Bascule: 1\r\nConnection: close\r\n\r\n".encode()

    def _post(self, head: bytes, body: bytes) -> bytes:
        start = b"POST /api/v1/queues/cloud/purge HTTP/1.1\r\nHost: localhost\r\nX-Bascule: 1\r\nConnection: close\r\n"
        return start + head + b"\r\n" + body


def connect(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S)


def answer_to(served: Served, data: bytes) -> bytes:
    """All that is answered to ``data``, after which nothing more comes."""
    with connect(served) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: sock.recv(65_536), b""))
        except OSError:  # it is closed with the rest unread
            return b""


def test_a_thousand_requests_that_are_none_are_refused_and_counted(served: Served) -> None:
    hostile, found = Hostile(SEED), Counter[str]()
    before = served.figures

    for number in range(REQUESTS):
        data = hostile.request()
        answer = answer_to(served, data)
        statuses = [int(status) for status in _STATUS.findall(answer)]
        assert all(400 <= status < 500 for status in statuses), f"request {number} of seed {SEED}: {data[:300]!r}: {answer[:300]!r}"
        found["malformed"] += answer.count(b'"malformed"')
        found["refused"] += bool(statuses)

    after = served.figures
    assert found["refused"] > REQUESTS / 2
    assert after["accepted"] - before["accepted"] == REQUESTS
    assert after["refused"]["malformed"] - before["refused"].get("malformed", 0) >= found["malformed"] > 0
    assert after["answers"]["4xx"] - before["answers"].get("4xx", 0) >= found["refused"]
    assert "5xx" not in after["answers"]


@pytest.mark.parametrize("path", PATH_TRICKS)
def test_no_path_leads_to_another_file(served: Served, path: str) -> None:
    answer = answer_to(served, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"root:" not in answer
    assert b"import" not in answer


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"Host": "evil.example"}, 421, "wrong_host"),
        ({"Host": "127.0.0.1.evil.example"}, 421, "wrong_host"),
        ({"Host": ""}, 421, "wrong_host"),
        ({"Origin": "https://evil.example", **CHANGING}, 403, "cross_site"),
        ({"Origin": "null", **CHANGING}, 403, "cross_site"),
        ({"Origin": "http://127.0.0.1:1", **CHANGING}, 403, "cross_site"),
        ({"Sec-Fetch-Site": "cross-site", **CHANGING}, 403, "cross_site"),
        ({"Sec-Fetch-Site": "same-site", **CHANGING}, 403, "cross_site"),
        ({}, 403, "no_own_header"),
        ({"X-Bascule": "yes"}, 403, "no_own_header"),
    ],
)
def test_what_another_site_has_a_browser_send_is_refused(served: Served, headers: dict[str, str], status: int, kind: str) -> None:
    """Even with a token that may."""
    before = served.figures["refused"].get(kind, 0)

    answer = request(served.port, "/api/v1/bridges/cloud/pause", "POST", token=TOKENS["admin"], headers=headers)

    assert (answer.status, answer.kind) == (status, kind)
    assert "access-control-allow-origin" not in answer.headers
    assert served.figures["refused"][kind] == before + 1
    assert served.node.lane("cloud")["paused_since_ms"] is None


def test_our_own_page_may_ask_and_is_not_run_elsewhere(served: Served) -> None:
    own = {"Host": "edge.example.com", "Origin": "https://edge.example.com", "Sec-Fetch-Site": "same-origin"}
    answer = request(served.port, "/api/v1/status", token=TOKENS["view"], headers=own)
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"

    page = request(served.port, "/", headers={"Sec-Fetch-Site": "cross-site"})
    assert page.status == 200, "a link of another site leads to the page"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("chunked", [False, True], ids=["said", "not said"])
def test_a_body_that_is_too_large_is_refused(served: Served, chunked: bool) -> None:
    body = b"x" * 2000
    length = b"Transfer-Encoding: chunked\r\n\r\n7d0\r\n" if chunked else b"Content-Length: 2000\r\n\r\n"
    head = b"POST /api/v1/queues/cloud/purge HTTP/1.1\r\nHost: localhost\r\nX-Bascule: 1\r\nContent-Type: application/json\r\n"
    token = f"Authorization: Bearer {TOKENS['admin']}\r\nConnection: close\r\n".encode()

    answer = answer_to(served, head + token + length + body + (b"\r\n0\r\n\r\n" if chunked else b""))

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"error"' in answer


def test_slow_and_idle_connections_are_closed_and_keep_nobody_out(served: Served) -> None:
    before = served.figures["refused"]
    starts = [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"POST /api/v1/stop HTTP/1.1\r\nHost: localhost\r\n"]
    starts.append(b"POST /api/v1/stop HTTP/1.1\r\nHost: localhost\r\nX-Bascule: 1\r\nContent-Length: 100\r\n\r\n{")
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(served)) for _ in range(3 * CONNECTIONS_MAX)]
        for number, sock in enumerate(slow):
            _send(sock, starts[number % len(starts)])

        assert request(served.port, "/health/live").status == 200, "a new one gets in"

        def closed() -> bool:
            for sock in slow[:]:
                _send(sock, b"y")  # a little at a time is no request either
                if _is_closed(sock):
                    slow.remove(sock)
            return not slow

        wait_until(closed, PATIENCE_S, lambda: f"{len(slow)} are still open", period_s=0.05)

    after = served.figures["refused"]
    assert after["gave_way"] > before.get("gave_way", 0)
    assert after["slow_request"] > before.get("slow_request", 0)


def test_who_does_not_read_what_he_asked_for_is_closed(served: Served) -> None:
    before = served.figures["refused"].get("slow_reader", 0)
    socks: list[socket.socket] = []

    def asks_on_until_it_is_closed() -> bool:
        if not socks:
            socks.append(socket.socket())
            socks[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            socks[0].settimeout(PATIENCE_S)
            socks[0].connect(("127.0.0.1", served.port))
        try:
            socks[0].sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        except OSError:  # one request came before the answer to another, or all the answers fitted
            socks.pop().close()
        return bool(served.figures["refused"].get("slow_reader", 0) > before)

    wait_until(asks_on_until_it_is_closed, PATIENCE_S, "it is closed", period_s=0.02)
    for sock in socks:
        sock.close()


def test_a_connection_that_rests_is_closed(served: Served) -> None:
    with connect(served) as sock:
        sock.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: sock.recv(65_536), b""))

    assert answer.count(b"HTTP/1.1 200 OK") == 1


def test_a_flood_of_questions_is_answered_one_after_the_other(served: Served) -> None:
    """tree.one-question-each. It does not make the node unready, and who asks with another token is not told that it is busy."""
    question = f"GET /api/v1/queues HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKENS['view']}\r\n\r\n".encode()
    with ExitStack() as stack:
        socks = [stack.enter_context(connect(served)) for _ in range(CONNECTIONS_MAX - 4)]
        for sock in socks:
            sock.sendall(question)
        assert [request(served.port, "/health/ready", method).status for method in ("GET", "HEAD")] == [200, 200]
        assert request(served.port, "/api/v1/queues", token=TOKENS["operate"]).status == 200
        found = Counter[bytes]()
        for sock in socks:
            with suppress(ConnectionResetError):  # connections of the test before counted still, and one had to give way
                found.update(_STATUS.findall(sock.recv(65_536)))
    assert set(found) == {b"200"}
    assert "busy" not in served.figures["refused"]


def _send(sock: socket.socket, data: bytes) -> None:
    try:
        sock.sendall(data)
    except OSError:  # closed already
        pass


def _is_closed(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return sock.recv(65_536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        sock.settimeout(PATIENCE_S)
