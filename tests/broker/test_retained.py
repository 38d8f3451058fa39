"""Retained messages for a SUBSCRIBE come whole, as its client takes them, and cost others nothing but their turns."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.mosquitto import program
from tests.support.mqtt_client import MqttClient, publish_once, take
from tests.support.mqtt_packets import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    PUBREC,
    SUBACK,
    UNSUBACK,
    packet_bytes,
    publish_bytes,
    subscribe_bytes,
    unsubscribe_bytes,
)
from tests.support.node import Node, node_config
from tests.support.placements import TOGETHER
from tests.support.waiting import PATIENCE_S, wait_until

MORE = 12_500  # than sessions.queue_max_messages
NEVER, ONLY_IF_NEW = 0x20, 0x10


def retain(node: Node, count: int, *, qos: int = 1, payload: str = "value") -> None:
    """Retain ``count`` messages at dev/0 and so on; all are on record then."""
    with MqttClient(node.port, "retains") as client:
        client.send(
            *(publish_bytes(4, f"dev/{n}", f"{payload} {n}".encode(), qos, 1 + n % 60_000, retain=True) for n in range(count)),
            publish_bytes(4, "done", b"", 1, 65_000),
        )
        while (packet := client.read()).packet_id != 65_000:
            if packet.kind == PUBREC:
                client.send(packet_bytes_of_pubrel(packet.packet_id))


def packet_bytes_of_pubrel(packet_id: int | None) -> bytes:
    assert packet_id is not None
    return bytes((0x62, 2)) + packet_id.to_bytes(2, "big")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with the default configuration and MORE retained topics, of QoS 1."""
    with Node(node_config(), tmp_path_factory.mktemp("retained")) as node:
        retain(node, MORE)
        yield node


def drain(client: MqttClient, topics: dict[str, bytes], count: int, *, stop: Callable[[], bool] = lambda: False) -> None:
    """Take messages, and complete each, until there are ``count`` topics."""
    while len(topics) < count and not stop():
        packet = client.read()
        if packet.kind != PUBLISH:
            continue
        assert packet.topic not in topics or packet.dup, f"{packet.topic} came twice"
        topics[packet.topic] = packet.payload
        if packet.qos:
            client.complete(packet)


@pytest.mark.parametrize(("qos", "expiry_s", "version"), [(0, 0, 4), (0, 600, 5), (1, 0, 5), (1, 600, 4), (2, 0, 4), (2, 600, 5)])
def test_all_that_is_retained_comes_once_whatever_a_queue_may_hold(full: Node, qos: int, expiry_s: int, version: int) -> None:
    """[MQTT-3.3.1-9]"""
    name = f"all-{qos}-{expiry_s}-{version}"
    with MqttClient(full.port, name, version=version, clean=not expiry_s, session_expiry_s=expiry_s) as client:
        client.subscribe("dev/#", qos=qos)
        topics: dict[str, bytes] = {}
        drain(client, topics, MORE)
        client.ping()
        assert topics == {f"dev/{n}": b"value %d" % n for n in range(MORE)}


@pytest.mark.parametrize("qos", [0, 1])
def test_mosquitto_sub_has_them_all(full: Node, qos: int) -> None:
    found = subprocess.run(
        [program("mosquitto_sub"), "-p", str(full.port), "-q", str(qos), "-t", "dev/#", "-C", str(MORE), "-W", "60", "-F", "%t"],
        capture_output=True,
        check=True,
        timeout=90,
        text=True,
    )
    assert len(set(found.stdout.split())) == MORE


def test_a_session_that_lasts_has_the_rest_when_its_client_comes_back(full: Node) -> None:
    """store.pass-goes-on: also when it comes back again and again, and stores and Listeners die meanwhile."""
    topics: dict[str, bytes] = {}
    with MqttClient(full.port, "leaves", version=5, clean=False, session_expiry_s=600) as client:
        client.subscribe("dev/#", qos=2)
        drain(client, topics, MORE // 8)
    for process in ("", "store", "", "clients"):
        seen = len(topics)
        if process:
            full.wait_replaced(process, full.kill(process))
        with MqttClient(full.port, "leaves", version=5, clean=False, session_expiry_s=600) as client:
            drain(client, topics, seen + MORE // 8)
    with MqttClient(full.port, "leaves", version=5, clean=False, session_expiry_s=600) as client:
        drain(client, topics, MORE)
        client.ping()
    assert len(topics) == MORE
    wait_until(lambda: full.status()["store"]["sessions"]["retained"]["owing"] == 0, PATIENCE_S, "nothing is owed")


@pytest.mark.parametrize("expiry_s", [0, 600], ids=["live", "kept"])
def test_a_store_that_dies_in_the_middle_costs_a_connected_client_nothing(full: Node, expiry_s: int) -> None:
    if full.placement == TOGETHER:
        pytest.skip("its connections end with it")
    with MqttClient(full.port, f"stays-{expiry_s}", version=5, clean=not expiry_s, session_expiry_s=expiry_s) as client:
        client.subscribe("dev/#", qos=1)
        topics: dict[str, bytes] = {}
        for part in (1, 2, 3):
            drain(client, topics, part * MORE // 4)
            full.kill("store")
        drain(client, topics, MORE)
        assert len(topics) == MORE


def test_a_client_that_reads_nothing_and_asks_again_and_again_harms_nobody(tmp_path: Path) -> None:
    """broker.retained-as-taken: 2.2 kB of SUBSCRIBEs end nothing, keep nobody waiting, and fill no memory."""
    with Node(node_config(), tmp_path) as node, MqttClient(node.port, "honest") as honest:
        retain(node, MORE)
        pids, before = node.pids(), node.rss_bytes()
        with MqttClient(node.port, "attacks") as attacker, MqttClient(node.port, "attacks-kept", clean=False) as kept:
            for client in (attacker, kept):
                client.send(*(subscribe_bytes(4, 1 + at, [("dev/+", 1)]) for at in range(200)))
            for number in range(300):
                honest.deliver("honest", b"%d" % number, 1)
            figures = node.status()
            after = node.rss_bytes()
            assert node.pids() == pids
            queues = figures["store"]["sessions"]
            assert queues["retained"]["owing"] == 1
            grown = {name: after[name] - before[name] for name in before}
            assert max(grown.values()) < 64 << 20, grown
            attacker.send(packet_bytes(PINGREQ))
            kinds: list[int] = []
            while not kinds or kinds[-1] != PINGRESP:
                kinds.append(attacker.read().kind)
            assert kinds.count(SUBACK) == 200
            assert kinds.count(PUBLISH) < 1000


def test_who_subscribes_again_and_again_and_reads_gets_all(tmp_path: Path) -> None:
    """A repeat starts again, and what comes is the newest."""
    with Node(node_config(), tmp_path) as node, MqttClient(node.port, "repeats") as client:
        retain(node, 2000)
        for number in range(20):
            client.send(subscribe_bytes(4, number + 1, [("dev/#", 1)]))
        topics: dict[str, bytes] = {}
        while len(topics) < 2000:
            packet = client.read()
            if packet.kind == PUBLISH:  # of the first ones, while the others are answered
                topics[packet.topic] = packet.payload
                client.acknowledge(PUBACK, packet.packet_id)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("expiry_s", [0, 600], ids=["live", "kept"])
def test_the_newest_wins_while_a_pass_is_under_way(tmp_path: Path, qos: int, expiry_s: int) -> None:
    """Of a topic that is published meanwhile the newest comes last, with RETAIN or without; what is deleted comes no more."""
    with (
        Node(node_config(), tmp_path) as node,
        MqttClient(node.port, "s", version=5, clean=not expiry_s, session_expiry_s=expiry_s) as client,
        MqttClient(node.port, "p") as publisher,
    ):
        retain(node, 2500, payload="old", qos=qos)
        client.subscribe("dev/#", qos=qos)
        changed = [f"dev/{n}" for n in range(0, 2500, 50)]
        last = {}
        for at, topic in enumerate(changed):
            for text in ("first", "second", ""):
                publisher.deliver(topic, text.encode(), qos, retain=at % 2 == 0)
            last[topic] = b""
        publisher.deliver("dev/~", b"end", qos)
        came: dict[str, list[bytes]] = {}
        while len(came) < 2501 or any(len(came[topic]) < 3 for topic in changed):
            packet = client.read()
            came.setdefault(packet.topic, []).append(packet.payload)
            if packet.qos:
                client.complete(packet)
        client.ping()
        for topic, payloads in came.items():
            if topic in last:
                live = [payload for payload in payloads if not payload.startswith(b"old")]
                assert live == [b"first", b"second", b""], (topic, payloads)
                assert payloads[-3:] == live, "nothing old behind what is new"
            elif topic != "dev/~":
                assert payloads == [b"old " + topic[4:].encode()]


@pytest.mark.parametrize("expiry_s", [0, 600], ids=["live", "kept"])
def test_retain_handling_holds_for_a_pass(full: Node, expiry_s: int) -> None:
    """[MQTT-3.3.1-10, -11]: who subscribed before, or wants none, gets none; a pass that is under way goes on."""
    name = f"handling-{expiry_s}"
    with MqttClient(full.port, name, version=5, clean=not expiry_s, session_expiry_s=expiry_s) as client:
        client.subscribe("dev/17", qos=1, options=NEVER)
        client.subscribe("dev/17", qos=1, options=ONLY_IF_NEW)
        client.send(subscribe_bytes(5, 1, [("dev/#", 1)]), subscribe_bytes(5, 2, [("dev/#", 1 | NEVER)]))
        topics: dict[str, bytes] = {}
        drain(client, topics, MORE)


def test_what_is_unsubscribed_comes_no_more(full: Node) -> None:
    """[MQTT-3.10.4-2]"""
    with MqttClient(full.port, "unsubscribes") as client:
        client.send(subscribe_bytes(4, 1, [("dev/#", 0)]), unsubscribe_bytes(4, 2, ["dev/#"]))
        while client.read().kind != UNSUBACK:
            pass
        client.ping()
        publish_once(full.port, "dev/0", "value 0", retain=True)
        client.ping()
        assert client.drain() == []


def test_thousands_of_filters_in_one_request(full: Node) -> None:
    """A filter a topic, as a program does that knows its devices."""
    with MqttClient(full.port, "devices", version=5) as client:
        for start in range(0, 900, 300):
            client.send(subscribe_bytes(5, 1 + start, [(f"dev/{n}", 1) for n in range(start, start + 300)]))
        topics: dict[str, bytes] = {}
        drain(client, topics, 900)


@pytest.mark.parametrize("keys", [{"queue_max_messages": 1}, {"queue_max_messages": 3, "overflow": "drop-oldest"}])
def test_the_smallest_queue_is_no_limit(tmp_path: Path, keys: dict[str, object]) -> None:
    with (
        Node(node_config(sessions=keys), tmp_path) as node,
        MqttClient(node.port, "live") as live,
        MqttClient(node.port, "kept", clean=False) as kept,
    ):
        retain(node, 600)
        for client in (live, kept):
            client.subscribe("dev/#", qos=1)
        for client in (live, kept):
            topics: dict[str, bytes] = {}
            drain(client, topics, 600)


def test_large_ones_flow_within_a_small_output(tmp_path: Path) -> None:
    """Of 1 MiB each, to a client for which 2 MiB may wait."""
    with Node(node_config(clients={"output_max_bytes": "2MiB"}), tmp_path) as node, MqttClient(node.port, "large") as client:
        with MqttClient(node.port, "p") as publisher:
            for n in range(20):
                publisher.deliver(f"dev/{n}", b"x" * 1_000_000, 1, retain=True)
        client.subscribe("dev/#", qos=0)
        assert {message.topic for message in take(client, 20)} == {f"dev/{n}" for n in range(20)}
        client.ping()
