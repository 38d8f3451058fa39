"""A queue at its limit: refused to MQTT 5 publishers with a reason code, held back from MQTT 3.1.1 ones, or dropped and counted."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, take_one
from tests.support.mqtt_packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Will
from tests.support.node import Config, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber

LIMIT = 10
SENT = 15
NUMBERS = [str(number) for number in range(SENT)]
QUOTA_EXCEEDED = 0x97


def limited(port: int, overflow: str, **limits: Any) -> Config:
    """A node with one bridge to ``port`` that keeps ``LIMIT`` messages, unless ``limits`` say otherwise."""
    wanted = {"max_messages": LIMIT, "overflow": overflow, **limits}
    return node_config(bridge_config("cloud", port, limits=wanted))


def publish_numbers(client: MqttClient, qos: int = 1) -> None:
    """All of ``NUMBERS`` in one burst, with packet identifiers from 1."""
    client.send(b"".join(client.encode_publish("t", number, qos) for number in NUMBERS))


def test_an_mqtt_5_publisher_is_refused_with_a_reason_code(remote: Mosquitto, start_node: StartNode) -> None:
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(limited(proxy.port, "reject"))
        with MqttClient(node.port, version=5) as client:
            publish_numbers(client)
            answers = [client.expect(PUBACK) for _ in NUMBERS]
            assert [answer.packet_id for answer in answers] == list(range(1, SENT + 1)), "in order [MQTT-4.6.0-2]"
            codes = [answer.reason_code for answer in answers]
            assert [code for code in codes[:LIMIT] if code >= 0x80] == []
            assert codes[LIMIT:] == [QUOTA_EXCEEDED] * (SENT - LIMIT)
            assert node.wait_lane("cloud", depth=LIMIT)["accepted"] == LIMIT
            proxy.restore()
            subscriber.wait_for("t", NUMBERS[:LIMIT])
            node.wait_lane("cloud", depth=0)
            client.publish("t", "later", qos=1, packet_id=99)
            assert client.expect(PUBACK, packet_id=99).reason_code < 0x80
        arrivals = subscriber.wait_for("t", [*NUMBERS[:LIMIT], "later"])
        assert arrivals.are_exact(), arrivals
        assert node.wait_lane("cloud", depth=0)["ledger_closes"] is True


def test_what_a_full_queue_refuses_is_counted_at_its_bridge_at_every_qos_through_a_restart(start_node: StartNode) -> None:
    """Beside the ledger, which closes without it."""
    full = bridge_config("full", free_port(), limits={"max_messages": LIMIT, "overflow": "reject"})
    node = start_node(node_config(full, bridge_config("roomy", free_port())))
    with MqttClient(node.port, version=5) as client:
        publish_numbers(client)
        for _ in NUMBERS:
            client.expect(PUBACK)
        publish_numbers(client, qos=0)
        client.publish("t", "two", qos=2, packet_id=99)
        assert client.expect(PUBREC, packet_id=99).reason_code == QUOTA_EXCEEDED
    refused = SENT - LIMIT + SENT + 1
    with MqttClient(node.port) as client:
        publish_numbers(client, qos=0)
        lane = node.wait_lane("full", refused=refused + SENT)
    assert (lane["accepted"], lane["ledger_closes"]) == (LIMIT, True)
    assert node.wait_lane("roomy", accepted=LIMIT + 2 * SENT)["refused"] == 0, "it had room"

    node.restart()

    assert node.wait_lane("full", depth=LIMIT)["refused"] == refused + SENT
    assert f"refused for want of room: full:0 {refused + SENT}" in node.cli("status", str(node.config_path)).stdout


def test_a_refused_qos_2_publish_ends_with_its_pubrec(remote: Mosquitto, start_node: StartNode) -> None:
    """PUBREC with 0x97 completes the exchange, and the identifier may be used again [MQTT-4.3.3-3]."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(limited(proxy.port, "reject", max_messages=1))
        with MqttClient(node.port, version=5) as client:
            client.publish("t", "first", qos=2, packet_id=1)
            assert client.expect(PUBREC, packet_id=1).reason_code < 0x80
            client.publish("t", "refused", qos=2, packet_id=2)
            assert client.expect(PUBREC, packet_id=2).reason_code == QUOTA_EXCEEDED
            client.acknowledge(PUBREL, 1)
            client.expect(PUBCOMP, packet_id=1)
            proxy.restore()
            subscriber.wait_for("t", ["first"])
            node.wait_lane("cloud", depth=0)
            client.publish("t", "second", qos=2, packet_id=2)
            assert client.expect(PUBREC, packet_id=2).reason_code < 0x80
            client.acknowledge(PUBREL, 2)
            client.expect(PUBCOMP, packet_id=2)
        assert subscriber.wait_for("t", ["first", "second"]).are_exact()


@pytest.mark.parametrize("qos", [1, 2])
def test_an_mqtt_311_publisher_waits_until_there_is_room(remote: Mosquitto, start_node: StartNode, qos: int) -> None:
    """No acknowledgement, no closed connection, no loss: what did not fit is taken as soon as the queue drains."""
    answer = PUBACK if qos == 1 else PUBREC
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(limited(proxy.port, "reject"))
        with MqttClient(node.port) as client, MqttClient(node.port, "other", version=5) as other:
            publish_numbers(client, qos)
            for packet_id in range(1, LIMIT + 1):
                client.expect(answer, packet_id=packet_id)
            assert client.is_silent_for(1.0), "no acknowledgement for what is not kept"
            other.ping()
            proxy.restore()
            for packet_id in range(LIMIT + 1, SENT + 1):
                client.expect(answer, packet_id=packet_id)
        arrivals = subscriber.wait_for("t", NUMBERS)
        assert arrivals.are_exact(), arrivals
        lane = node.wait_lane("cloud", depth=0, delivered=SENT)
        assert lane["ledger_closes"] is True


def test_a_shared_subscription_has_once_what_a_publisher_waits_with(remote: Mosquitto, start_node: StartNode) -> None:
    """Some members get their messages live, before the queue of the bridge is looked at, others through queues of their own."""
    with Proxy(remote.port) as proxy, ExitStack() as stack:
        proxy.cut()
        node = start_node(limited(proxy.port, "reject"))
        members = [stack.enter_context(MqttClient(node.port, f"m-{number}", clean=number < 4)) for number in range(7)]
        for member in members:
            member.subscribe("$share/g/t", "end", qos=1)
        publisher = stack.enter_context(MqttClient(node.port))
        publish_numbers(publisher)
        for _ in range(LIMIT):
            publisher.expect(PUBACK)
        assert publisher.is_silent_for(1.0), "it is offered again and again, each time at somebody else's turn"
        proxy.restore()
        for _ in range(LIMIT, SENT):
            publisher.expect(PUBACK)
        publisher.publish("end", "", qos=1)
        publisher.expect(PUBACK)
        came: list[str] = []
        for member in members:
            while (message := take_one(member)).topic != "end":
                came.append(message.payload.decode())
    assert sorted(came, key=int) == NUMBERS


@pytest.mark.parametrize("version", [4, 5])
def test_drop_newest_keeps_what_came_first(remote: Mosquitto, start_node: StartNode, version: int) -> None:
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(limited(proxy.port, "drop-newest"))
        with MqttClient(node.port, version=version) as client:
            publish_numbers(client)
            for packet_id in range(1, SENT + 1):
                client.expect(PUBACK, packet_id=packet_id)
        lane = node.wait_lane("cloud", depth=LIMIT)
        assert sum(lane["dropped"].values()) == SENT - LIMIT
        assert lane["ledger_closes"] is True
        proxy.restore()
        arrivals = subscriber.wait_for("t", NUMBERS[:LIMIT])
        node.wait_lane("cloud", depth=0, delivered=LIMIT)
        assert arrivals.are_exact(), arrivals


@pytest.mark.parametrize("link", ["never stood", "stood"])
def test_drop_oldest_keeps_what_came_last(remote: Mosquitto, start_node: StartNode, link: str) -> None:
    """Nothing is handed to a lane whose remote is away, though Tier 2 would have room for it. Through a restart of the node too."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        if link == "never stood":
            proxy.cut()
        node = start_node(limited(proxy.port, "drop-oldest"))
        if link == "stood":
            node.wait_lane("cloud", state="connected")
            proxy.cut()
            node.wait_lane("cloud", state="backoff")
        with MqttClient(node.port) as client:
            publish_numbers(client)
            for packet_id in range(1, SENT + 1):
                client.expect(PUBACK, packet_id=packet_id)
        lane = node.wait_lane("cloud", depth=LIMIT)
        assert sum(lane["dropped"].values()) == SENT - LIMIT
        assert lane["ledger_closes"] is True
        node.restart()
        with MqttClient(node.port) as client:
            client.publish("t", "last", qos=1)
            client.expect(PUBACK)
        proxy.restore()
        arrivals = subscriber.wait_for("t", [*NUMBERS[SENT - LIMIT + 1 :], "last"])
        assert arrivals.are_exact(), arrivals
        node.wait_lane("cloud", depth=0, delivered=LIMIT, ledger_closes=True)


def test_bytes_are_limited_too(remote: Mosquitto, start_node: StartNode) -> None:
    with Proxy(remote.port) as proxy:
        proxy.cut()
        config = limited(proxy.port, "reject", max_messages="unlimited", max_bytes="10KiB")
        node = start_node(config | {"clients": {"packet_max_bytes": "4KiB"}})
        with MqttClient(node.port, version=5) as client:
            codes = []
            for packet_id in range(1, 21):
                client.publish("t", b"x" * 1000, qos=1, packet_id=packet_id)
                codes.append(client.expect(PUBACK, packet_id=packet_id).reason_code)
        taken = sum(code < 0x80 for code in codes)
        assert 8 <= taken <= 10, codes
        assert set(codes[taken:]) == {QUOTA_EXCEEDED}
        assert node.wait_lane("cloud", depth=taken)["bytes"] <= 10 * 1024


def test_a_publish_for_two_bridges_is_refused_whole(remote: Mosquitto, start_node: StartNode) -> None:
    """One queue is full: nothing of that PUBLISH is enqueued anywhere."""
    with Proxy(remote.port) as proxy:
        proxy.cut()
        node = start_node(
            node_config(
                bridge_config("narrow", proxy.port, limits={"max_messages": 1}),
                bridge_config("wide", proxy.port, remote={"client_id": "wide"}),
            )
        )
        with MqttClient(node.port, version=5) as client:
            codes = []
            for packet_id in (1, 2, 3):
                client.publish("t", "m", qos=1, packet_id=packet_id)
                codes.append(client.expect(PUBACK, packet_id=packet_id).reason_code)
        assert codes[0] < 0x80
        assert codes[1:] == [QUOTA_EXCEEDED] * 2
        assert node.wait_lane("narrow", depth=1)["accepted"] == 1
        assert node.wait_lane("wide", depth=1)["accepted"] == 1


def test_what_waited_longer_than_max_age_is_dropped_and_counted(remote: Mosquitto, start_node: StartNode) -> None:
    """Also while the remote is away, and through a restart of the node."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        node = start_node(limited(proxy.port, "reject", max_messages="unlimited", max_age="2s"))
        node.wait_lane("cloud", state="connected")
        proxy.cut()
        node.wait_lane("cloud", state="backoff")
        with MqttClient(node.port) as client:
            for payload in ("old 1", "old 2"):
                client.publish("t", payload, qos=1)
                client.expect(PUBACK)
        node.wait_lane("cloud", expired=2, depth=0)
        with MqttClient(node.port) as client:
            client.publish("t", "old 3", qos=2)
            client.expect(PUBREC)
        assert node.stop() == 0
        node.start()
        node.wait_lane("cloud", expired=3, depth=0, ledger_closes=True)
        proxy.restore()
        node.wait_lane("cloud", state="connected")
        with MqttClient(node.port) as client:
            client.publish("t", "new", qos=1)
            client.expect(PUBACK)
        assert subscriber.wait_for("t", ["new"]).are_exact()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_will_comes_into_a_full_queue(remote: Mosquitto, start_node: StartNode, qos: int) -> None:
    """store.will-kept-until-published: it was taken with its client. That may be back by then, and the node killed."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(limited(proxy.port, "reject", max_messages=1))
        will = Will(topic="gone", payload=b"bye", qos=qos)
        with MqttClient(node.port, "local", version=5) as local:
            local.subscribe("gone")
            with MqttClient(node.port, "mortal", version=5, will=will) as client:
                for number, code in (("0", 0), ("1", QUOTA_EXCEEDED)):
                    packet_id = client.publish("t", number, qos=1)
                    assert client.expect(PUBACK, packet_id=packet_id).reason_code == code
                client.publish("t", "2", qos=1)
            node.wait_lane("cloud", depth=2)
            assert local.expect(PUBLISH).payload == b"bye"
            with MqttClient(node.port, "mortal", version=5) as client:
                client.ping()
                client.disconnect()
            local.ping()
        node.kill_supervisor()
        node.start()
        proxy.restore()
        subscriber.wait_for("t", ["0"])
        subscriber.wait_for("gone", ["bye"])
        assert subscriber.wait_for("gone", ["bye"]).are_exact()
