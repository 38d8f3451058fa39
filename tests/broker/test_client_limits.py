"""Limits of the listeners: who asks for too much is refused, slowed down or closed and counted, and everyone else is served."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.broker.raw import (
    BINARY,
    CONNACK_4,
    PINGREQ,
    PINGRESP,
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
from tests.support.authority import Authority, Pair, tls_keys
from tests.support.mqtt_client import Closed, MqttClient
from tests.support.mqtt_packets import CONNACK, DISCONNECT, PUBACK, string
from tests.support.node import Config, Node, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

TOPIC_NAME_INVALID, TOPIC_FILTER_INVALID = 0x90, 0x8F


def broker_config(*listeners: Config, **clients: Any) -> Config:
    """A node without bridges; its own listener is added where none are given."""
    keys: Config = {"listeners": list(listeners)} if listeners else {}
    return node_config(mode="in-memory", clients=clients, **keys)


def limited(node: Node, limit: str) -> int:
    """How many ``limit`` has refused."""
    count: int = node.status()["listener"]["limited"].get(limit, 0)
    return count


def is_served(port: int, client_id: str = "other") -> bool:
    """Whether a client gets its CONNACK and an answer."""
    with dial(port) as sock:
        sock.sendall(connect_packet(client_id) + PINGREQ)
        return read_exactly(sock, 6) == CONNACK_4 + PINGRESP


def test_a_flood_of_half_open_connections_costs_itself_only(start_node: StartNode) -> None:
    node = start_node(broker_config(half_open_max=20))
    with ExitStack() as stack:
        settled = stack.enter_context(MqttClient(node.port, "settled"))
        flood = [stack.enter_context(dial(node.port)) for _ in range(100)]
        assert is_served(node.port)
        settled.ping()
        wait_until(lambda: limited(node, "half_open_max") >= 80, 10.0, lambda: f"{node.status()['listener']}")
        assert node.status()["listener"]["half_open"] <= 20
        assert all(read_to_end(sock) == b"" for sock in flood[:80]), "the oldest gave way"
        settled.ping()


def test_a_slow_loris_is_closed_in_the_time_for_connect(start_node: StartNode, authority: Authority, server_pair: Pair) -> None:
    """From accept to CONNECT there is one deadline, however far TLS, the upgrade and CONNECT itself have come."""
    ports = {kind: free_port() for kind in ("tcp", "tls", "ws", "wss")}
    tls = {"tls": tls_keys(server_pair)}
    listeners = [
        {"bind": f"127.0.0.1:{port}", "protocol": kind, **(tls if kind in ("tls", "wss") else {})} for kind, port in ports.items()
    ]
    node = start_node(broker_config(*listeners, connect_timeout="3s"))
    context = client_context(authority.ca_file)
    begun = {"tcp": b"\x10", "tls": b"\x10", "ws": upgrade_request() + b"\x82\x8f", "wss": upgrade_request() + b"\x82"}
    with ExitStack() as stack:
        settled = stack.enter_context(MqttClient(ports["tcp"], "settled"))
        slow = [stack.enter_context(dial(port)) for port in ports.values()]
        for kind, port in ports.items():
            sock = stack.enter_context(dial(port, context if kind in ("tls", "wss") else None))
            sock.sendall(begun[kind])
            slow.append(sock)
        for sock in slow:
            read_to_end(sock)
        settled.ping()
        assert limited(node, "connect_timeout") == len(slow)


def test_a_byte_now_and_then_is_no_life_through_any_layer(start_node: StartNode, authority: Authority, server_pair: Pair) -> None:
    """A frame of a WebSocket that goes on coming is one, though nothing of it can be read before it is whole."""
    ports = {kind: free_port() for kind in ("tcp", "tls", "ws")}
    listeners = [
        {"bind": f"127.0.0.1:{port}", "protocol": kind, **({"tls": tls_keys(server_pair)} if kind == "tls" else {})}
        for kind, port in ports.items()
    ]
    start_node(broker_config(*listeners))
    packet = publish_packet("t", bytes(60_000), 1)
    with ExitStack() as stack:
        dribbling = [
            stack.enter_context(dial(ports["tcp"])),
            stack.enter_context(dial(ports["tls"], client_context(authority.ca_file))),
        ]
        for sock in dribbling:
            sock.sendall(connect_packet(f"dribbling-{sock.fileno()}", keep_alive_s=3))
            assert read_exactly(sock, 4) == CONNACK_4
        slow = stack.enter_context(WebSocket(dial(ports["ws"])))
        slow.send(frame(BINARY, connect_packet("slow", keep_alive_s=2)))
        assert slow.read_mqtt(4) == CONNACK_4
        coming, whole = iter(packet), iter(frame(BINARY, packet))

        def is_closed() -> bool:
            byte = bytes(islice(coming, 1))
            slow.send(bytes(islice(whole, 500)))
            for sock in dribbling:
                try:
                    sock.sendall(byte)
                    sock.settimeout(0.05)
                    assert not sock.recv(1)
                    dribbling.remove(sock)
                except TimeoutError:
                    pass
                except OSError:
                    dribbling.remove(sock)
            return not dribbling

        wait_until(is_closed, 60.0, "who sends a byte now and then is closed")
        slow.send(bytes(whole))
        assert slow.read_mqtt(4) == b"\x40\x02\x00\x01"


def test_a_large_packet_in_small_pieces_is_taken_whole(start_node: StartNode) -> None:
    node = start_node(broker_config(output_max_bytes="4MiB"))
    payload = bytes(range(256)) * 400
    with MqttClient(node.port, "s") as subscriber, MqttClient(node.port, "p") as publisher:
        subscriber.subscribe("t")
        for number in range(2):  # behind another packet, and before one
            packets = publish_packet("t", b"first", 1) + publish_packet("t", payload, 2) + publish_packet("t", b"last", 3)
            piece_bytes = 1 if number == 0 else 999
            for at in range(0, 2000, piece_bytes):
                publisher.send(packets[at : at + piece_bytes])
            at = -(-2000 // piece_bytes) * piece_bytes
            for start in range(at, len(packets), 50):
                publisher.send(packets[start : start + 50])
            assert [publisher.expect(PUBACK).packet_id for _ in range(3)] == [1, 2, 3]
            assert [subscriber.read().payload for _ in range(3)] == [b"first", payload, b"last"]


def test_a_listener_has_a_limit_of_its_own(start_node: StartNode) -> None:
    small, large = free_port(), free_port()
    listeners = ({"bind": f"127.0.0.1:{small}", "connections_max": 2}, {"bind": f"127.0.0.1:{large}"})
    node = start_node(broker_config(*listeners))
    with MqttClient(small, "a"), MqttClient(small, "b"):
        with dial(small) as sock:
            assert read_to_end(sock) == b""
        assert is_served(large)
        assert limited(node, "listener_connections_max") == 1
    wait_until(lambda: node.status()["listener"]["clients"] == 0, 10.0, "they are gone")
    assert is_served(small)


def test_ten_that_leave_make_room_for_ten_at_once(start_node: StartNode) -> None:
    """Again and again, while others publish: the node has not looked at those that have left when the next ones come."""
    node = start_node(node_config(clients={"connections_max": 20}))
    burst = b"".join(publish_packet("t", b"x", number + 1) for number in range(5))
    with ExitStack() as stack:
        busy = [stack.enter_context(dial(node.port)) for _ in range(10)]
        for number, sock in enumerate(busy):
            sock.sendall(connect_packet(f"busy-{number}"))
            read_exactly(sock, 4)
        guests: list[socket.socket] = []
        for times in range(40):
            for sock in busy:
                sock.sendall(burst)
            for sock in guests:
                sock.close()
            guests = [stack.enter_context(dial(node.port)) for _ in range(10)]
            for number, sock in enumerate(guests):
                sock.sendall(connect_packet(f"guest-{times}-{number}"))
            for sock in guests:
                assert read_exactly(sock, 4) == CONNACK_4
            for sock in busy:
                read_exactly(sock, 4 * 5)
    assert limited(node, "connections_max") == 0


@pytest.mark.parametrize(
    ("limit", "version"), [({"publish_messages_per_s": 100}, 4), ({"publish_bytes_per_s": "20kB"}, 5)], ids=["messages", "bytes"]
)
def test_who_publishes_too_fast_is_slowed_down_and_loses_nothing(start_node: StartNode, limit: Config, version: int) -> None:
    """One second's worth goes at once, the rest at the rate; a ping behind it is answered, and silence is not held against it."""
    node = start_node(broker_config(**limit, receive_maximum=1000))
    count = 250
    burst = b"".join(publish_packet("t", bytes(188), number + 1, version) for number in range(count))
    with MqttClient(node.port, "fast", version=version, keep_alive_s=1) as fast, MqttClient(node.port, "other") as other:
        start_s = time.monotonic()
        fast.send(burst + PINGREQ)
        assert is_served(node.port, "third")
        answers = [fast.read() for _ in range(count + 1)]
        elapsed_s = time.monotonic() - start_s
        other.ping()

    assert [answer.packet_id for answer in answers if answer.kind == PUBACK] == list(range(1, count + 1))
    assert elapsed_s >= 1.3, "250 at 100 a second, or 50 kB at 20 kB a second, less what goes at once"
    assert node.status()["listener"]["slowed"] > 0


def test_who_is_slowed_down_is_held_to_the_receive_maximum_too(start_node: StartNode) -> None:
    node = start_node(broker_config(publish_messages_per_s=5, receive_maximum=3))
    with MqttClient(node.port, "fast", version=5) as fast:
        fast.send(b"".join(fast.encode_publish("t", "x", 2) for _ in range(5)))

        assert fast.expect(DISCONNECT).reason_code == 0x93
        assert limited(node, "receive_maximum") == 1


@pytest.mark.parametrize("version", [4, 5])
def test_what_may_not_be_published_counts_for_the_rate(start_node: StartNode, version: int) -> None:
    """By its whole topic, and by a topic that is the node's own; whoever has tried is slow, and not silenced for long."""
    rules = [{"topics": ["t"]}]
    node = start_node(node_config(mode="in-memory", clients={"publish_messages_per_s": 100}, access=_acl(rules)))
    count = 250
    topics = ["forbidden", "$SYS/x", "t", "forbidden/too", "forbidden/too"]
    burst = b"".join(publish_packet(topics[number % 5], b"x", number + 1, version) for number in range(count))
    with MqttClient(node.port, "fast", version=version) as fast:
        start_s = time.monotonic()
        fast.send(burst + PINGREQ)
        answers = [fast.read() for _ in range(count + 1)]
        elapsed_s = time.monotonic() - start_s

    acknowledged = [answer for answer in answers if answer.kind == PUBACK]
    assert [answer.packet_id for answer in acknowledged] == list(range(1, count + 1))
    if version == 5:
        assert [answer.reason_code == 0x87 for answer in acknowledged] == [number % 5 != 2 for number in range(count)]
    assert elapsed_s >= 1.3, "250 at 100 a second, less what goes at once"


def _acl(rules: list[Config]) -> Config:
    return {"allow_anonymous": True, "acl": rules}


def test_topics_beyond_the_limits_are_refused_where_they_appear(start_node: StartNode) -> None:
    node = start_node(broker_config(topic_levels_max=3, topic_max_bytes="20B"))
    for topic in ("a/b/c/d", "x" * 21):
        with MqttClient(node.port, version=5) as client:
            client.publish("a/b/c", b"", qos=1)
            client.expect(PUBACK)
            client.publish(topic, b"", qos=1)
            assert client.expect(DISCONNECT).reason_code == TOPIC_NAME_INVALID
        with MqttClient(node.port) as client:
            client.publish(topic, b"", qos=1)
            with pytest.raises(Closed):
                client.read()
        for version, code in ((4, 0x80), (5, TOPIC_FILTER_INVALID)):
            with MqttClient(node.port, version=version) as client:
                assert client.subscribe("a/+/#", topic).reason_codes == (0, code)
        with dial(node.port) as sock:  # a Will
            body = string("MQTT") + b"\x05\x06\0\0\0" + string("w") + b"\0" + string(topic) + string("")
            sock.sendall(bytes((0x10, len(body))) + body)
            assert sock.recv(100)[:4] == bytes((CONNACK << 4, 3, 0, TOPIC_NAME_INVALID))
    assert limited(node, "topic_limits") == 10


def test_a_reader_that_never_reads_costs_its_own_messages_only(
    start_node: StartNode, authority: Authority, server_pair: Pair
) -> None:
    port, plain = free_port(), free_port()
    secure = {"bind": f"127.0.0.1:{port}", "protocol": "tls", "tls": tls_keys(server_pair)}
    listeners = (secure, {"bind": f"127.0.0.1:{plain}"})
    node = start_node(broker_config(*listeners, packet_max_bytes="64KiB", output_max_bytes="128KiB"))
    subscribe = b"\x82\x06\x00\x01\x00\x01#\x00"
    with dial(port, client_context(authority.ca_file)) as deaf, MqttClient(plain, "p") as publisher:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(connect_packet("deaf") + subscribe)
        assert read_exactly(deaf, 9) == CONNACK_4 + b"\x90\x03\x00\x01\x00"

        def dropped() -> bool:
            publisher.publish("t", bytes(60_000), qos=1)
            publisher.expect(PUBACK)
            return bool(node.status()["listener"]["output_dropped"])

        wait_until(dropped, 20.0, "QoS 0 is dropped for who does not read")
        deaf.settimeout(PATIENCE_S)
        assert deaf.recv(10), "and it may go on"


# --- certificates ---


def served_serial(port: int, ca_file: Path) -> str:
    """The serial number of the certificate that new connections get."""
    with dial(port, client_context(ca_file)) as sock:
        certificate = sock.getpeercert()  # type: ignore[attr-defined]
        return str(certificate["serialNumber"])


def test_a_renewed_certificate_is_for_new_connections_and_ends_no_session(start_node: StartNode, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    pair = authority.issue("server")
    port = free_port()
    node = start_node(broker_config({"bind": f"127.0.0.1:{port}", "protocol": "tls", "tls": tls_keys(pair)}))

    def listener() -> dict[str, Any]:
        figures: dict[str, Any] = node.status()["listener"]
        return figures

    with dial(port, client_context(authority.ca_file)) as session:
        session.sendall(connect_packet("session"))
        assert read_exactly(session, 4) == CONNACK_4
        first = served_serial(port, authority.ca_file)
        authority.issue("server")
        wait_until(lambda: listener()["certificates_reloaded"] == 1, 10.0, lambda: f"{listener()}\n{node.output[-2000:]}")
        second = served_serial(port, authority.ca_file)
        assert second != first

        pair.key_file.write_text("no key\n")
        wait_until(lambda: listener()["certificates_refused"] == 1, 10.0, lambda: f"{listener()}")
        assert served_serial(port, authority.ca_file) == second, "what was there before is still used"
        [refused] = node.events("certificates.refused")
        assert refused["key"] == "key_file"

        authority.issue("server")
        wait_until(lambda: listener()["certificates_reloaded"] == 2, 10.0, lambda: f"{listener()}")
        assert served_serial(port, authority.ca_file) not in (first, second)
        session.sendall(PINGREQ)
        assert read_exactly(session, 2) == PINGRESP


def test_input_that_is_not_complete_has_a_limit_for_all_and_who_has_most_of_it_goes(start_node: StartNode) -> None:
    node = start_node(broker_config(input_max_bytes="3MiB", packet_max_bytes="2MiB"))
    with (
        MqttClient(node.port, "large", version=5) as large,
        MqttClient(node.port, "small", version=5) as small,
        MqttClient(node.port, "last", version=5) as last,
    ):
        for client, size in ((large, 1_900_000), (small, 900_000)):
            client.send(client.encode_publish("t", "x" * 2_000_000, 1)[:size])
        wait_until(lambda: node.status()["listener"]["input_bytes"] == 2_800_000, 20.0, "both are in the making")
        rest = last.encode_publish("t", "y" * 1_000_000, 1)
        last.send(rest[:900_000])

        assert large.expect(DISCONNECT).reason_code == 0x97
        with pytest.raises(Closed):
            large.read()
        last.send(rest[900_000:])
        assert last.expect(PUBACK).reason_code < 0x80
        small.send(small.encode_publish("t", "x" * 2_000_000, 1)[900_000:])
        assert small.expect(PUBACK).reason_code < 0x80
    assert limited(node, "input_max_bytes") == 1
    wait_until(lambda: node.status()["listener"]["input_bytes"] == 0, 20.0, "all is given back")
