"""Clients that ask for too much, in every way that the protocol leaves them: what it costs is bounded, and only they pay.

Through each attack a witness publishes at QoS 1 and is delivered to. The bounds are what the attack may add to any process at its
highest since its node started, and what may be left afterwards; they follow from the limits of the configuration, which the
comments name.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.broker.attack import RESET, Target, greeted, pour
from tests.broker.bad_packets import connect, packet, text
from tests.broker.raw import PINGREQ, dial, read_to_end
from tests.conftest import Chances
from tests.support.mqtt_packets import string, variable
from tests.support.node import Config, Node, node_config
from tests.support.waiting import PATIENCE_S, wait_until

SMALL: Config = {"packet_max_bytes": "64KiB", "output_max_bytes": "128KiB"}
LONG_NAMES: Config = {"client_id_max_bytes": "65535B"}
WIDE: Config = {"topic_max_bytes": "65535B"}
KEPT_MIB = 96  # what the allocator may not have given back, and caches


class Attack(NamedTuple):
    """One way to ask for too much. peak_mib: what it may add to any process at its highest, beside ``KEPT_MIB``."""

    name: str
    run: Callable[[int, ExitStack], None]
    clients: Config
    peak_mib: int


def publish(topic: bytes, payload: bytes = b"", properties: bytes | None = None, *, qos: int = 0, packet_id: int = 0) -> bytes:
    """A PUBLISH; with ``properties``, of MQTT 5.0."""
    body = string(topic) + (packet_id.to_bytes(2, "big") if qos else b"")
    body += (b"" if properties is None else variable(len(properties)) + properties) + payload
    return bytes((0x30 | qos << 1,)) + variable(len(body)) + body


def _connect_byte_by_byte(port: int, stack: ExitStack) -> None:
    socks = [stack.enter_context(dial(port)) for _ in range(100)]
    whole = connect(5, payload=text("slow"))
    for at in range(len(whole) - 1):
        for sock in socks:
            sock.sendall(whole[at : at + 1])


def _half_open(port: int, stack: ExitStack) -> None:
    for _ in range(600):
        stack.enter_context(dial(port))


def _publish_without_end(port: int, stack: ExitStack) -> None:
    for number in range(50):
        sock = stack.enter_context(greeted(port, f"endless-{number}"))
        sock.sendall(b"\x30" + variable(60_000) + string("t") + bytes(50_000))
        for _ in range(20):
            sock.sendall(b"x")


def _packets_that_never_end(port: int, stack: ExitStack) -> None:
    """200 of 0.9 MiB each, of which 8 MiB may be kept; half of the clients have not said CONNECT."""
    started = b"\x30" + variable(1_000_000) + string("t"), b"\x10" + variable(1_000_000) + b"\0\x04MQTT\x05\x02"
    for number in range(200):
        sock = stack.enter_context(dial(port) if number % 2 else greeted(port, f"part-{number}", 5))
        pour(sock, started[number % 2] + bytes(900_000), 900_000)


def _claims(port: int, stack: ExitStack) -> None:
    for number in range(100):
        for claim in (b"\x10\xff\xff\xff\x7f", b"\x30\xff\xff\xff\x7f\x00\x01t", b"\x82\xff\xff\xff\x7f"):
            sock = dial(port) if claim[0] == 0x10 else greeted(port, f"claims-{number}")
            sock.sendall(claim)
            assert read_to_end(sock) == b""
            sock.close()


def _connects_of_almost_the_largest_size(port: int, stack: ExitStack) -> None:
    for _ in range(100):
        stack.enter_context(dial(port)).sendall(b"\x10" + variable(65_000) + b"\0\x04MQTT\x05\x02" + bytes(50_000))


def _deaf_readers(port: int, stack: ExitStack) -> None:
    """At QoS 0 and at QoS 1; what they do not read is published meanwhile."""
    for number in range(10):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stack.enter_context(sock).settimeout(PATIENCE_S)
        sock.connect(("127.0.0.1", port))
        sock.sendall(connect(4, payload=text(f"deaf-{number}")) + packet(0x82, f"0001 {text('loud/#')} {number % 2:02x}"))
    publisher = stack.enter_context(greeted(port, "loud"))
    pour(publisher, publish(b"loud/1", bytes(10_000)), 20_000_000)


def _flood(data: bytes, count: int, megabytes: float) -> Callable[[int, ExitStack], None]:
    """``count`` clients send ``data`` over and over and never read."""

    def run(port: int, stack: ExitStack) -> None:
        socks = [stack.enter_context(greeted(port, f"flood-{number}", 5 if data[0] == 5 else 4)) for number in range(count)]
        share = int(megabytes * 1_000_000 / 20)
        for _ in range(20):
            for sock in socks:
                pour(sock, data, share)

    return run


def _distinct_topics(port: int, stack: ExitStack) -> None:
    """30,000 of a few bytes, 2,000 of almost the longest, 10,000 of the deepest."""
    sock = stack.enter_context(greeted(port, "topics"))
    for number in range(30_000):
        sock.sendall(publish(b"t/%d" % number))
    for number in range(2_000):
        sock.sendall(publish(b"%07d" % number + b"x" * 60_000))
    for number in range(10_000):
        sock.sendall(publish(b"%07d" % number + b"/" * 190))


def _properties(port: int, stack: ExitStack) -> None:
    """The most user properties that are taken, each time others, and packets full of them."""
    sock = stack.enter_context(greeted(port, "properties", 5))
    for number in range(200):
        user = b"\x26" + string(b"%05d" % number) + string("v" * 20)
        sock.sendall(publish(b"t", properties=user * 900))
    for _ in range(20):
        with greeted(port, "bomb", 5) as bomb:
            bomb.sendall(publish(b"t", properties=b"\x26\0\0\0\0" * 12_000))
            assert read_to_end(bomb) == b"\xe0\x01\x97"


def _aliases(port: int, stack: ExitStack) -> None:
    """Every alias that a client may have, for topics of almost the longest kind."""
    for number in range(10):
        sock = stack.enter_context(greeted(port, f"aliases-{number}", 5))
        for alias in range(1, 65):
            sock.sendall(publish(b"%03d" % number + b"y" * 60_000, properties=b"\x23" + alias.to_bytes(2, "big")))


def _filters(port: int, stack: ExitStack) -> None:
    """As many as a client may have, deep, and more than that."""
    for number in range(5):
        sock = stack.enter_context(greeted(port, f"filters-{number}"))
        for block in range(22):
            body = "0001" + "".join(text("/".join([f"{number}.{block}.{one}", *"abcdefghi"])) + "00" for one in range(50))
            sock.sendall(packet(0x82, body))
        codes = b""
        while len(codes) < 22 * (50 + 2 + 2):
            codes += sock.recv(10_000)
        assert codes.count(b"\x80") == 100, "what is beyond the limit is refused"


def _sessions(port: int, stack: ExitStack) -> None:
    """Many that are to be kept, each from a client that never comes back."""
    for number in range(1_000):
        greeted(port, f"{number:05d}-" + "s" * 40, clean=False).close()


def _churn(port: int, stack: ExitStack) -> None:
    """Come, say something or not, go or be gone."""
    for number in range(1_500):
        with dial(port) as sock:
            if number % 4:
                sock.sendall(connect(4, payload=text(f"churn-{number % 50}")))
            if number % 4 == 2:
                sock.recv(4)
            if number % 3 == 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def _violations(port: int, stack: ExitStack) -> None:
    for _ in range(400):
        with greeted(port, "v" * 60_000) as sock:
            sock.sendall(b"\0\0")
            read_to_end(sock)


_SUBSCRIPTIONS = b"".join(
    packet(0x82, f"0001 {text(f'f/{number}')} 00") + packet(0xA2, f"0002 {text(f'f/{number}')}") for number in range(2_000)
)
_PUBRELS = b"".join(packet(0x62, f"{number:04x}") for number in range(1, 50_000))

ATTACKS = [
    Attack("connect-byte-by-byte", _connect_byte_by_byte, {}, peak_mib=8),
    Attack("half-open", _half_open, {"half_open_max": 200}, peak_mib=8),
    Attack("publish-without-end", _publish_without_end, SMALL, peak_mib=12),  # 50 clients x 50 kB
    Attack("packets-that-never-end", _packets_that_never_end, {"input_max_bytes": "8MiB"}, peak_mib=24),
    Attack("claims-of-256-mb", _claims, {}, peak_mib=8),
    Attack("large-connects", _connects_of_almost_the_largest_size, SMALL, peak_mib=16),  # 100 connections x 50 kB
    Attack("deaf-readers", _deaf_readers, SMALL, peak_mib=48),  # 10 x output_max_bytes, and batches of 2 MiB
    Attack("pings", _flood(PINGREQ * 50_000, 4, 1.5), SMALL, peak_mib=12),
    Attack("subscriptions", _flood(_SUBSCRIPTIONS, 4, 0.5), SMALL, peak_mib=16),
    Attack("pubrels", _flood(_PUBRELS, 4, 1.5), SMALL, peak_mib=48),
    Attack("distinct-topics", _distinct_topics, WIDE, peak_mib=48),
    Attack("user-properties", _properties, SMALL, peak_mib=48),
    Attack("topic-aliases", _aliases, SMALL | WIDE, peak_mib=64),  # 10 clients x 64 x 60 kB
    Attack("topic-filters", _filters, {}, peak_mib=64),  # 5,000 filters of 10 levels
    Attack("sessions", _sessions, {}, peak_mib=16),
    Attack("churn", _churn, {}, peak_mib=8),
    Attack("violations", _violations, LONG_NAMES, peak_mib=12),
]


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Config], Target]]:
    """A node for each configuration, which one attack after another is made on: nothing may add up."""
    with ExitStack() as nodes:
        started: dict[str, Target] = {}

        def target(clients: Config) -> Target:
            key = json.dumps(clients)
            if key not in started:
                node = nodes.enter_context(Node(node_config(mode="in-memory", clients=clients), tmp_path_factory.mktemp("flood")))
                started[key] = Target(node)
            return started[key]

        yield target


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_who_asks_for_too_much_pays_alone(
    targets: Callable[[Config], Target], chances: Chances, soak: bool, attack: Attack
) -> None:
    """With --soak ten times in turn, within the same bounds."""
    target = targets(attack.clients)
    node, log_bytes = target.node, len(target.node.output)
    for _ in range(10 if soak else 1):
        with target.under_attack(lambda stack: attack.run(node.port, stack)):
            wait_until(lambda: node.status()["listener"]["clients"] <= 2, 10.0, "only the witness is left")
            wait_until(target.descriptors_are_back, 10.0, lambda: f"descriptors come back: {target.costs}")
    grown = target.growth_mib()
    chances.say(f"{attack.name}: MiB (highest, left) " + ", ".join(f"{name} {mib}" for name, mib in grown.items()))
    assert max(peak for peak, _ in grown.values()) < attack.peak_mib + KEPT_MIB, grown
    assert max(kept for _, kept in grown.values()) < KEPT_MIB, grown
    assert "Traceback" not in node.output, node.output[-4000:]
    assert not [actor for actor in node.status()["actors"] if actor["restarts"]], node.output[-4000:]
    assert len(node.output) - log_bytes < 100_000, "the log is no way to fill the disk"
