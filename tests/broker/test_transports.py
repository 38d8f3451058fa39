"""Real clients and raw bytes over TCP, TLS, WebSocket, secure WebSocket and Unix sockets, on one node."""

from __future__ import annotations

import os
import select
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.broker.raw import (
    BINARY,
    CLOSE,
    CONNACK_4,
    CONNECT_4,
    PING,
    PINGREQ,
    PINGRESP,
    PONG,
    TEXT,
    WebSocket,
    client_context,
    connect_packet,
    dial,
    frame,
    publish_packet,
    read_exactly,
    read_to_end,
    upgrade_request,
)
from tests.conftest import StartNode
from tests.support.authority import Authority, Pair, client_words, tls_keys
from tests.support.mosquitto import mosquitto_pub
from tests.support.node import Node, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

TRANSPORTS = ("tcp", "tls", "ws", "wss", "unix")
SIZES = (0, 1, 125, 126, 65_535, 65_536, 200_000)
ORIGIN = "https://panel.example"


class Broker(NamedTuple):
    """A node with a listener of each kind; ``mutual`` wants a certificate of its clients, ``web`` an origin of its own."""

    node: Node
    ports: dict[str, int]
    unix_path: Path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority, server_pair: Pair) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("node")
    ports = {kind: free_port() for kind in ("tcp", "tls", "ws", "wss", "mutual", "web")}
    unix_path = folder / "mqtt.sock"
    secure = tls_keys(server_pair)
    mutual = tls_keys(server_pair, ca_file=str(authority.ca_file), client_certificate="required", identity="common-name")
    listeners: list[dict[str, Any]] = [
        {"bind": f"127.0.0.1:{ports['tcp']}"},
        {"bind": f"127.0.0.1:{ports['tls']}", "protocol": "tls", "tls": secure},
        {"bind": f"127.0.0.1:{ports['ws']}", "protocol": "ws"},
        {"bind": f"127.0.0.1:{ports['web']}", "protocol": "ws", "origins": [ORIGIN]},
        {"bind": f"127.0.0.1:{ports['wss']}", "protocol": "wss", "tls": {**secure, "min_version": "tls1.3"}},
        {"bind": f"127.0.0.1:{ports['mutual']}", "protocol": "tls", "tls": mutual},
        {"bind": f"unix:{unix_path}", "unix_mode": "0600"},
    ]
    clients = {"receive_maximum": 65_535, "connect_timeout": "60s"}
    with Node(node_config(mode="in-memory", listeners=listeners, clients=clients), folder) as node:
        yield Broker(node, ports, unix_path)
        assert "Traceback" not in node.output


def paho(broker: Broker, transport: str, version: int, authority: Authority) -> Client:
    kind: Any = {"ws": "websockets", "wss": "websockets", "unix": "unix"}.get(transport, "tcp")
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion(version), transport=kind)
    if transport in ("tls", "wss"):
        client.tls_set_context(client_context(authority.ca_file))
    if transport == "unix":
        client.connect(str(broker.unix_path), 1883)
    else:
        client.connect("127.0.0.1", broker.ports[transport])
    client.loop_start()
    return client


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_paho_publishes_and_receives(broker: Broker, authority: Authority, transport: str, version: int) -> None:
    topic = f"{transport}/{version}"
    sent = [os.urandom(size) for size in SIZES]
    received: list[bytes] = []
    subscribed = threading.Event()
    subscriber = paho(broker, transport, version, authority)

    def keep(_client: Client, _data: object, message: MQTTMessage) -> None:
        received.append(bytes(message.payload))

    subscriber.on_message = keep
    subscriber.on_subscribe = lambda *_: subscribed.set()
    subscriber.subscribe(topic)
    assert subscribed.wait(PATIENCE_S)
    publisher = paho(broker, transport, version, authority)
    for number, payload in enumerate(sent):
        publisher.publish(topic, payload, qos=number % 3).wait_for_publish(PATIENCE_S)
    wait_until(lambda: len(received) == len(sent), 20.0, lambda: f"{[len(payload) for payload in received]}")
    for client in (publisher, subscriber):
        client.disconnect()
        client.loop_stop()

    assert received == sent


MUCH = publish_packet("t", bytes(50_000), 1, level=5) * 60
CONNECT_5 = connect_packet("told", level=5)
REFUSED_CONNECT = b"\x10\x15\x00\x04MQTT\x05\x02\x00\x00\x04\x15\x00\x01x\x00\x04told"  # it names an authentication method


@pytest.mark.parametrize(
    ("begins", "told"),
    [(CONNECT_5 + CONNECT_5, b"\xe0\x01\x82"), (REFUSED_CONNECT, b"\x20\x03\x00\x8c\x00")],
    ids=["DISCONNECT", "CONNACK"],
)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_who_still_sends_reads_why_it_is_ended(
    broker: Broker, authority: Authority, transport: str, begins: bytes, told: bytes
) -> None:
    """It is not reset: all that it sends is taken, and behind the reason it reads the end of each layer."""
    if transport == "unix":
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(PATIENCE_S)
        sock.connect(str(broker.unix_path))
    else:
        sock = dial(broker.ports[transport], client_context(authority.ca_file) if transport in ("tls", "wss") else None)
    with closing(sock):
        if transport in ("ws", "wss"):
            web = WebSocket(sock)
            web.send(frame(BINARY, begins), *(frame(BINARY, MUCH[at : at + 60_000]) for at in range(0, len(MUCH), 60_000)))
            said = b""
            while (read := web.read_frame())[0] == BINARY:
                said += read[1]
            assert read[0] == CLOSE
        else:
            sock.sendall(begins + MUCH)
            said = b""
        while more := sock.recv(65_536):
            said += more
        assert said.endswith(told)
        if isinstance(sock, ssl.SSLSocket):
            sock.unwrap()  # raises unless the end was told by TLS, too
    wait_until(lambda: broker.node.status()["listener"]["clients"] == 0, 10.0, "it does not count")


def test_who_still_sends_as_the_node_stops_reads_that_it_does(start_node: StartNode) -> None:
    """And the node does not wait for long for one that does not close."""
    node = start_node(node_config(mode="in-memory"))
    with dial(node.port) as sock, dial(node.port) as idle:
        for one, name in ((sock, "busy"), (idle, "idle")):
            one.sendall(connect_packet(name, level=5))
            assert one.recv(100)[:1] == b"\x20"
        node.supervisor.terminate()
        while not select.select([sock], [], [], 0.001)[0]:
            sock.sendall(b"\x30\x84\x80\x01\x00\x01t" + bytes(0x4001))  # QoS 0
        assert read_exactly(sock, 3) == b"\xe0\x01\x8b"
        assert sock.recv(1) == b"", "it is not reset"
        sock.close()
        assert node.wait_ended() == 0


def test_mosquitto_pub_over_tls_with_a_certificate_of_its_own(broker: Broker, authority: Authority, client_pair: Pair) -> None:
    before = broker.node.status()["listener"]["published"]

    mosquitto_pub(broker.ports["mutual"], "t", ["a", "b"], qos=1, options=client_words(authority.ca_file, client_pair))
    mosquitto_pub(broker.ports["tls"], "t", ["c"], qos=2, options=client_words(authority.ca_file))

    wait_until(lambda: broker.node.status()["listener"]["published"] == before + 3, 10.0, "three messages")


def test_who_shows_no_certificate_or_another_authority_s_is_not_let_in(
    broker: Broker, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger").issue("me", "/CN=pump-7")
    failed = broker.node.status()["listener"]["handshakes_failed"]
    for pair in (None, stranger):
        with dial(broker.ports["mutual"], client_context(authority.ca_file, pair)) as sock, pytest.raises(OSError):
            read_exactly(sock, 1)

    wait_until(lambda: broker.node.status()["listener"]["handshakes_failed"] == failed + 2, 10.0, "two refused handshakes")


def test_a_burst_of_many_tls_records_is_answered_to_the_last(broker: Broker, authority: Authority) -> None:
    """Bytes that TLS has decrypted and nobody polls for do not wait for the next packet."""
    count = 20_000
    burst = connect_packet("burst") + b"".join(publish_packet("t", b"x" * 100, number % 65_000 + 1) for number in range(count))
    with dial(broker.ports["tls"], client_context(authority.ca_file)) as sock:
        sock.sendall(burst)  # not from a thread: one TLS connection must not be read and written at once
        assert read_exactly(sock, 4) == CONNACK_4
        answers = read_exactly(sock, 4 * count)

    assert answers[-4:] == b"\x40\x02" + count.to_bytes(2, "big")


def test_a_handshake_that_comes_byte_by_byte_ends_well(broker: Broker, authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(authority.ca_file).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with dial(broker.ports["tls"]) as sock:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    sock.sendall(bytes((byte,)))
                incoming.write(sock.recv(65_536))
        tls.write(CONNECT_4)
        for byte in outgoing.read():
            sock.sendall(bytes((byte,)))
        answer = b""
        while not answer:
            incoming.write(sock.recv(65_536))
            try:
                answer = tls.read(100)
            except ssl.SSLWantReadError:
                continue

    assert answer == CONNACK_4


def test_tls_ends_with_close_notify(broker: Broker, authority: Authority) -> None:
    """A client can tell the end from a cut: without close_notify, recv raises."""
    with dial(broker.ports["tls"], client_context(authority.ca_file)) as sock:
        sock.sendall(CONNECT_4 + b"\xe0\x00")
        assert read_exactly(sock, 4) == CONNACK_4
        assert sock.recv(1) == b""


@pytest.mark.parametrize("garbage", [CONNECT_4, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\0"])
def test_what_is_not_tls_is_closed_and_counted(broker: Broker, authority: Authority, garbage: bytes) -> None:
    with dial(broker.ports["tls"]) as sock:
        sock.sendall(garbage)
        if garbage == b"\0":
            sock.shutdown(socket.SHUT_WR)
        assert CONNACK_4 not in read_to_end(sock)
    with dial(broker.ports["tls"], client_context(authority.ca_file)) as sock:
        sock.sendall(CONNECT_4)
        assert read_exactly(sock, 4) == CONNACK_4


# --- WebSocket ---


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST /mqtt HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 400),
        (upgrade_request("/other"), 404),
        (upgrade_request(protocol=None), 400),
        (upgrade_request(protocol="chat"), 400),
        (upgrade_request("/mqtt", "mqtt", "Origin: https://elsewhere.example"), 403),
        (upgrade_request("/mqtt", "mqtt", "Host: \xfc\xfc"), 400),
        (b"GET /mqtt HTTP/1.1\r\nX: " + b"x" * 20_000, 431),
        (b"GET /mqtt HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (CONNECT_4, 400),
    ],
)
def test_what_asks_for_no_mqtt_over_websocket_gets_a_short_answer(broker: Broker, request_bytes: bytes, status: int) -> None:
    with dial(broker.ports["web"]) as sock:
        sock.sendall(request_bytes)
        answer = read_to_end(sock)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert len(answer) < 500


def test_the_upgrade_names_the_subprotocol_mqtt_and_an_allowed_origin_comes_in(broker: Broker) -> None:
    """MQTT-6.0.0-3, MQTT-6.0.0-4."""
    with dial(broker.ports["web"]) as sock:
        sock.sendall(upgrade_request("/mqtt?token=1", "chat, mqtt", f"Origin: {ORIGIN}"))
        head = read_exactly(sock, 12)
        while b"\r\n\r\n" not in head:
            head += read_exactly(sock, 1)

    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"sec-websocket-protocol: mqtt\r\n" in head.lower()


def test_packets_begin_and_end_anywhere_in_frames(broker: Broker) -> None:
    """MQTT-6.0.0-2: several in one frame, one in several, in fragments with a PING between them, and frames with nothing."""
    ping_packet = frame(BINARY, PINGREQ)
    with WebSocket(dial(broker.ports["ws"])) as ws:
        ws.send(*(frame(BINARY, CONNECT_4[at : at + 1]) for at in range(len(CONNECT_4))))
        assert ws.read_mqtt(4) == CONNACK_4
        ws.send(frame(BINARY, b""), frame(BINARY, PINGREQ * 3), ping_packet)
        assert ws.read_mqtt(8) == PINGRESP * 4
        ws.send(frame(BINARY, PINGREQ[:1], final=False), frame(PING, b"hello"), frame(0, b"", final=False), frame(0, PINGREQ[1:]))
        assert sorted((ws.read_frame(), ws.read_frame())) == [(BINARY, PINGRESP), (PONG, b"hello")]
        large = publish_packet("t", bytes(300_000), 7)
        for at in range(0, len(whole := frame(BINARY, large)), 9_999):
            ws.send(whole[at : at + 9_999])
        assert ws.read_mqtt(4) == b"\x40\x02\x00\x07"
        ws.send(ping_packet)
        assert ws.read_mqtt(2) == PINGRESP


def test_frames_that_follow_the_request_at_once_are_read(broker: Broker) -> None:
    with dial(broker.ports["ws"]) as sock:
        sock.sendall(upgrade_request() + frame(BINARY, CONNECT_4))
        data = b""
        while not data.endswith(CONNACK_4):
            data += read_exactly(sock, 1)

    assert data.endswith(b"\r\n\r\n\x82\x04" + CONNACK_4)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (frame(TEXT, b"text"), 1003),  # [MQTT-6.0.0-1]
        (frame(TEXT, b"\xc0\x00"), 1007),
        (frame(BINARY, PINGREQ, masked=False), 1002),
        (frame(3, b""), 1002),
        (frame(0, b"x"), 1002),
        (frame(PING, b"", final=False), 1002),
        (frame(PING, bytes(126)), 1002),
        (bytes((0xC2, 0x80)) + bytes(4), 1002),
        (frame(BINARY, b"x", final=False) + frame(BINARY, b"x"), 1002),
        (frame(BINARY, bytes(10), claimed=256 * 1024 * 1024), 1009),
        (frame(BINARY, b"", claimed=2**63), 1009),
        (frame(CLOSE, b"\x03\xe8"), 1000),
    ],
    ids=[
        "text",
        "text-not-utf-8",
        "not-masked",
        "unknown-opcode",
        "nothing-to-continue",
        "ping-in-fragments",
        "long-ping",
        "reserved-bit",
        "fragment-left-open",
        "256-mb",
        "2-to-the-63",
        "close",
    ],
)
@pytest.mark.parametrize("greeted", [False, True])
def test_a_wrong_frame_ends_the_connection_with_its_code(broker: Broker, wrong: bytes, code: int, greeted: bool) -> None:
    with WebSocket(dial(broker.ports["ws"])) as ws:
        if greeted:
            ws.send(frame(BINARY, CONNECT_4))
            assert ws.read_mqtt(4) == CONNACK_4
        ws.send(wrong)
        assert ws.read_close() == code


def test_what_comes_before_a_close_frame_counts(broker: Broker) -> None:
    published = broker.node.status()["listener"]["published"]
    with WebSocket(dial(broker.ports["ws"])) as ws:
        ws.send(frame(BINARY, CONNECT_4))
        assert ws.read_mqtt(4) == CONNACK_4
        ws.send(frame(BINARY, publish_packet("t", b"last", 1)), frame(CLOSE, b"\x03\xe8"))
        wait_until(lambda: broker.node.status()["listener"]["published"] == published + 1, 10.0, "the message")
        read_to_end(ws.sock)


# --- Unix sockets ---


def test_a_unix_socket_has_its_mode_and_outlives_its_listener(broker: Broker) -> None:
    assert stat.S_IMODE(broker.unix_path.stat().st_mode) == 0o600
    broker.node.wait_replaced("clients", broker.node.kill("clients"))

    def answers() -> bool:
        try:
            with closing(socket.socket(socket.AF_UNIX)) as sock:
                sock.settimeout(PATIENCE_S)
                sock.connect(str(broker.unix_path))
                sock.sendall(CONNECT_4)
                return read_exactly(sock, 4) == CONNACK_4
        except ConnectionError:
            return False

    wait_until(answers, 20.0, "the new process behind the old path")
