"""Shared subscriptions at a remote: a real Mosquitto deals what is published to a bridge's lanes, and to whoever else is there."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.bridge.test_lane_changes import actors
from tests.bridge.test_remote_limits import QUICK as QUICK_BACKOFF
from tests.bridge.test_remote_limits import doctor
from tests.bridge.test_remote_subscriptions import passing, publish, taking
from tests.conftest import StartNode
from tests.support.arrivals import Arrivals
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_packets import PUBACK, SHARED_AVAILABLE
from tests.support.node import Config, Node, node_config
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.scripted_remote import ScriptedRemote
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

LINES = [f"m{number}" for number in range(60)]
RULE: Config = {"filters": ["in/#"], "shared": "edge", "destination": "out/{2-#}"}
QUICK: Config = {"connect_timeout": "1s"}


def from_remote(node: Node, lane: int) -> dict[str, Any]:
    """What a lane says of its subscriptions."""
    found: dict[str, Any] = node.lane("from", lane)["remote_subscriptions"]
    return found


def shared_out(node: Node, lanes: int, filters: int = 1) -> None:
    """Wait until each lane has its subscription."""
    for lane in range(lanes):
        wait_until(
            lambda lane=lane: from_remote(node, lane).get("granted") == filters,  # type: ignore[misc]  # mypy does not infer it
            20.0,
            lambda lane=lane: f"SUBACK of lane {lane}; {node.output[-3000:]}",  # type: ignore[misc]
        )


def parts(node: Node, lanes: int) -> list[int]:
    """How many messages came by each lane."""
    return [from_remote(node, lane)["received"] for lane in range(lanes)]


def assert_each_once(arrivals: Arrivals) -> None:
    """In whatever order: that holds on each lane, and a topic comes by all."""
    assert (arrivals.missing, arrivals.duplicates, arrivals.unexpected) == ([], [], []), arrivals


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_each_message_comes_by_one_lane_once_and_a_plain_rule_by_the_first(
    source: Mosquitto, sink: Mosquitto, start_node: StartNode, protocol: str
) -> None:
    """A member beside the bridge has its part, too. At MQTT 5 what was retained does not come by a shared subscription [4.8.2]."""
    publish(source.port, "in/old", ["old"], qos=1, retain=True)
    rules = (RULE, {"filters": ["plain/#"]})
    taken = taking(source.port, *rules, protocol=protocol, lanes=3)
    node = start_node(node_config(taken, passing(sink.port, protocol), rings={"window": "60s"}))
    with Subscriber(sink.port, "#") as arrived:
        wait_until(lambda: from_remote(node, 0).get("granted") == 2, 20.0, "both of the first lane")
        for lane in (1, 2):
            wait_until(lambda lane=lane: from_remote(node, lane).get("granted") == 1, 20.0, "its own")  # type: ignore[misc]
        assert sorted(event["lane"] for event in node.events("remote.subscribed") if event["bridge"] == "from") == [0, 1, 2]
        for qos in (0, 1, 2):
            publish(source.port, f"in/{qos}", LINES, qos=qos)
        publish(source.port, "plain/1", LINES, qos=1)
        for qos in (0, 1, 2):
            assert_each_once(arrived.wait_for(f"out/{qos}", LINES))
        assert arrived.wait_for("plain/1", LINES).are_exact()
        publish(source.port, "in/same", ["alike"] * 9, qos=1)
        arrived.wait_for("out/same", ["alike"] * 9)  # no ring: all lanes are one way
        shares = parts(node, 3)
        retained = 3 if protocol == "mqtt311" else 0  # Mosquitto 2.0 sends them to each member, if it is not told not to
        assert sum(shares) == 4 * len(LINES) + 9 + retained, shares
        assert min(shares[1:]) > len(LINES) / 2, shares
        assert len(arrived.payloads("out/old")) <= retained, "some came before anybody listened"
        with Subscriber(source.port, "$share/edge/in/#", client_id="beside") as beside:
            publish(source.port, "in/1", LINES, qos=1)
            wait_until(
                lambda: len(beside.payloads("in/1")) + len(arrived.payloads("out/1")) == 2 * len(LINES), 20.0, "each at one of them"
            )
            assert beside.payloads("in/1")


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_lanes_that_are_killed_lose_and_double_nothing(
    source: Mosquitto, sink: Mosquitto, start_node: StartNode, protocol: str
) -> None:
    """kill -9 of each lane in turn, and of the store, while QoS 1 and 2 flow: QoS 2 comes once, since each lane has identifiers of
    its own on record. Then lanes are taken out: their subscriptions are given up, what was dealt to them comes, and they end.
    """
    lanes = 3
    rule = {**RULE, "destination": "{#}"}
    bridge = taking(source.port, rule, protocol=protocol, lanes=lanes, remote={**QUICK, "receive_maximum": 65_000})
    node = start_node(node_config(bridge, passing(sink.port, protocol), placement="isolated"))
    with Subscriber(sink.port, "in/#") as arrived:
        shared_out(node, lanes)
        crowd = [Publisher(source.port, f"in/q{qos}", qos=qos, rate_per_s=100.0) for qos in (1, 2)]
        with crowd[0], crowd[1]:
            for lane in (0, 1, 2, None, 2, 1):
                target = arrived.count() + 30
                wait_until(lambda target=target: arrived.count() >= target, 30.0, "progress")  # type: ignore[misc]
                if lane is None:
                    node.wait_replaced("store", node.kill("store"))
                else:
                    old = node.kill("bridge", signal.SIGKILL, "from", lane)
                    wait_until(
                        lambda lane=lane, old=old: node.find_pid("bridge", "from", lane) not in (None, old),  # type: ignore[misc]
                        20.0,
                        "another life",
                    )
            node.configure(node_config({**bridge, "lanes": 1}, passing(sink.port, protocol), placement="isolated"))
            assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
            wait_until(
                lambda: {name for name in actors(node) if ":from:" in name} == {"forwarder:from:0", "connection:from:0"},
                30.0,
                lambda: f"the former lanes end\n{node.output[-3000:]}",
            )
            target = arrived.count() + 30
            wait_until(lambda: arrived.count() >= target, 30.0, "all by the first")
            sent_1, sent_2 = (publisher.finish() for publisher in crowd)
        arrivals = arrived.wait_for("in/q1", sent_1, deadline_s=30.0)
        assert (arrivals.missing, arrivals.unexpected) == ([], [])
        assert_each_once(arrived.wait_for("in/q2", sent_2, deadline_s=30.0))
    for lane in (1, 2):
        assert f"Received UNSUBSCRIBE from bridge-from-{lane}" in source.log
    assert not node.events("session.unknown")
    assert node.lane("to")["ledger_closes"] is True


@pytest.mark.parametrize("says", ["connack", "disconnect", "suback"])
def test_a_remote_without_shared_subscriptions_is_named_and_grants_the_others(start_node: StartNode, says: str) -> None:
    """Whether it says so at once, as it ends the first connection, or in its answer: plain rules are served."""
    with ScriptedRemote(5) as remote:
        node = start_node(node_config(taking(remote.port, RULE, {"filters": ["plain"]}, backoff=QUICK_BACKOFF)))
        if says == "disconnect":
            end = remote.accept()
            end.read()
            end.send(b"\xe0\x01\x9e")
            end = remote.accept()
        else:
            end = remote.accept(lacks=(SHARED_AVAILABLE,) if says == "connack" else ())
        asked = end.answer_subscribe(*((0x9E, 1) if says == "suback" else (1,)))
        assert [topic_filter for topic_filter, _ in asked.filters][-1] == "plain"
        wait_until(lambda: from_remote(node, 0)["granted"] == 1, 20.0, "the other is granted")
        assert from_remote(node, 0)["refused"] == {"$share/edge/in/#": "0x9e"}
        assert "the remote refuses the subscription $share/edge/in/# (0x9e)" in doctor(node)
        end.publish("plain", "x", qos=1, packet_id=1)
        assert end.read().kind == PUBACK
        assert node.lane("from")["link"]["state"] == "connected"


@pytest.mark.parametrize("private", [True, False])
def test_what_comes_back_by_a_shared_subscription_is_left_out_at_mqtt_311(
    source: Mosquitto, start_node: StartNode, private: bool
) -> None:
    """Mosquitto knows No Local, and a bridge, for plain subscriptions alone."""
    rule = {"filters": ["#"], "shared": "edge"}
    sends: Config = {"local_subscriptions": [{"filters": ["#"]}], "remote": {"try_private": private}}
    node = start_node(node_config(taking(source.port, rule, protocol="mqtt311", **sends)))
    with Subscriber(node.port, "#") as here:
        shared_out(node, 1)
        publish(node.port, "t", LINES, qos=1)
        publish(source.port, "u", LINES, qos=1)
        here.wait_for("u", LINES)
        wait_until(lambda: from_remote(node, 0)["echoes"] == len(LINES), 20.0, lambda: f"echoes; {from_remote(node, 0)}")
        assert here.payloads("t") == LINES


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_what_was_dealt_to_lanes_that_are_gone_at_the_next_start_comes(
    source: Mosquitto, start_node: StartNode, protocol: str
) -> None:
    """Their sessions at the remote go on while the node is away. They run until these have nothing more, and once only."""
    rule = {**RULE, "destination": "{#}"}
    bridge = taking(source.port, rule, protocol=protocol, lanes=3, remote=QUICK)
    node = start_node(node_config(bridge))
    shared_out(node, 3)
    assert node.stop() == 0
    publish(source.port, "in/1", LINES, qos=2)
    node.configure(node_config({**bridge, "lanes": 1}))
    node.spawn()
    node.wait_ready()
    with Subscriber(node.port, "in/#", version=5, client_id="late") as here:
        publish(source.port, "in/2", LINES, qos=2)
        assert_each_once(here.wait_for("in/2", LINES))
        wait_until(lambda: actors(node) == {"forwarder:from:0", "connection:from:0"}, 30.0, lambda: f"{actors(node)}")
        publish(source.port, "in/3", LINES, qos=2)
        assert here.wait_for("in/3", LINES).are_exact(), "all by one"

    def received() -> int:
        """The PUBRECs that the remote has had: the last comes after the message has come here."""
        return sum(source.log.count(f"Received PUBREC from bridge-from{lane} ") for lane in ("", "-1", "-2"))

    wait_until(lambda: received() >= 3 * len(LINES), 20.0, lambda: f"a PUBREC for each, not {received()}")
    node.restart()
    assert received() == 3 * len(LINES)
    wait_until(lambda: from_remote(node, 0).get("granted") == 1, 20.0, "the first again")
    assert actors(node) == {"forwarder:from:0", "connection:from:0"}


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_messages_that_take_long_to_come_come_to_lanes_that_stay_and_that_are_gone(
    source: Mosquitto, start_node: StartNode, protocol: str
) -> None:
    """Each takes longer than the lanes wait for a SUBACK, or for one message more before they end."""
    large = ["x" * 300_000, "y" * 300_000]
    with Proxy(source.port) as proxy:
        bridge = taking(proxy.port, {**RULE, "destination": "{#}"}, protocol=protocol, lanes=2, remote=QUICK)
        node = start_node(node_config(bridge))
        shared_out(node, 2)
        assert node.stop() == 0
        publish(source.port, "in/1", large, qos=1)
        proxy.throttle(1_500_000)
        node.configure(node_config({**bridge, "lanes": 1}))
        connects = len(proxy.connects)
        node.spawn()
        node.wait_ready()
        with Subscriber(node.port, "in/#", version=5, client_id="late") as here:
            assert_each_once(here.wait_for("in/1", large))
            wait_until(lambda: actors(node) == {"forwarder:from:0", "connection:from:0"}, 30.0, lambda: f"{actors(node)}")
            shared_out(node, 1)
            assert_each_once(here.wait_for("in/1", large))
        assert len(proxy.connects) - connects == 2, "one a lane"
