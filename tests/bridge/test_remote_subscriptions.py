"""Messages from a bridge's remote: a real Mosquitto publishes, real nodes take them in and pass them on to a second Mosquitto."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

LINES = [f"m{number}" for number in range(100)]


def taking(port: int, *rules: Config, protocol: str = "mqtt5", **keys: Any) -> Config:
    """The bridge ``from`` that only takes."""
    return bridge_config(
        "from", port, protocol=protocol, **({"local_subscriptions": [], "remote_subscriptions": list(rules)} | keys)
    )


def passing(port: int, protocol: str = "mqtt5", **keys: Any) -> Config:
    """The bridge ``to`` that passes on what has crossed another bridge."""
    return bridge_config("to", port, protocol=protocol, **({"loop_prevention": {"max_hops": 5}} | keys))


def figures(node: Node, bridge: str = "from") -> dict[str, Any]:
    """The status of the remote subscriptions of ``bridge``."""
    found: dict[str, Any] = node.lane(bridge)["remote_subscriptions"]
    return found


def subscribed(node: Node, bridge: str = "from") -> None:
    """Wait until every filter is granted."""
    wait_until(
        lambda: (now := figures(node, bridge)) and now["granted"] == now["filters"] > 0,
        20.0,
        lambda: f"SUBACK; {figures(node, bridge)}\n{node.output[-3000:]}",
    )


def publish(port: int, topic: str, lines: list[str], *, qos: int, version: int = 5, retain: bool = False) -> None:
    """Publish ``lines`` one after the other, each exchange completed."""
    with MqttClient(port, f"pub-{topic}-{qos}", version=version) as client:
        for line in lines:
            packet_id = client.publish(topic, line, qos=qos, retain=retain)
            if qos == 1:
                client.expect(4, packet_id=packet_id)
            elif qos == 2:
                client.expect(5, packet_id=packet_id)
                client.acknowledge(6, packet_id)
                client.expect(7, packet_id=packet_id)
        client.ping()


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_every_qos_comes_in_once_in_order_and_goes_on(
    source: Mosquitto, sink: Mosquitto, start_node: StartNode, protocol: str
) -> None:
    node = start_node(
        node_config(
            taking(source.port, {"filters": ["in/#"], "destination": "out/{2-#}"}, protocol=protocol),
            passing(sink.port, protocol),
        )
    )
    with Subscriber(sink.port, "#", version=5) as arrived:
        subscribed(node)
        for qos in (0, 1, 2):
            publish(source.port, f"in/{qos}", LINES, qos=qos)
        for qos in (0, 1, 2):
            assert arrived.wait_for(f"out/{qos}", LINES).are_exact()
        assert {packet.qos for packet in arrived.packets if packet.topic == "out/2"} == {2}
        assert {packet.qos for packet in arrived.packets if packet.topic == "out/1"} == {1}
        if protocol == "mqtt5":
            assert arrived.packets[0].user_properties == [("bascule-hops", "2")]
    seen = node.wait_lane_until(lambda row: row["remote_subscriptions"]["waiting"] == 0, "all settled", "from")[
        "remote_subscriptions"
    ]
    assert (seen["filters"], seen["received"], seen["unmatched"]) == (1, 300, 0)
    assert node.events("remote.subscribed")


def test_the_first_rule_that_has_a_topic_maps_it(source: Mosquitto, sink: Mosquitto, start_node: StartNode) -> None:
    rules: list[Config] = [
        {
            "filters": ["cmd/+/set"],
            "excludes": ["cmd/secret/set"],
            "destination": "set/{2}",
            "max_qos": 1,
            "preserve_retain": False,
            "user_properties": {"site": "edge"},
        },
        {"filters": ["cmd/#"], "destination": "${bridge.name}/{#}", "max_qos": 0},
    ]
    publish(source.port, "cmd/early/set", ["old"], qos=1, retain=True)
    with Subscriber(sink.port, "#", version=5) as arrived:
        node = start_node(node_config(taking(source.port, *rules), passing(sink.port)))
        subscribed(node)
        arrived.wait_for("set/early", ["old"])
        publish(source.port, "cmd/a/set", ["one"], qos=2, retain=True)
        publish(source.port, "cmd/a/get", ["two"], qos=2, retain=True)
        publish(source.port, "cmd/secret/set", ["three"], qos=1)
        for topic, payload in (("set/a", "one"), ("from/cmd/a/get", "two"), ("from/cmd/secret/set", "three")):
            assert arrived.wait_for(topic, [payload]).are_exact()
        came = {packet.topic: packet for packet in arrived.packets}
        assert (came["set/a"].qos, came["set/a"].retain) == (1, False)
        assert came["set/a"].user_properties == [("site", "edge"), ("bascule-hops", "2")]
        assert (came["from/cmd/a/get"].qos, came["from/cmd/a/get"].retain) == (0, True)
        node.restart()  # the session is resumed, and no retained message comes a second time
        subscribed(node)
        assert [event["session_present"] for event in node.events("bridge.connected") if event["bridge"] == "from"] == [True]
        publish(source.port, "cmd/b/set", ["four"], qos=1)
        arrived.wait_for("set/b", ["four"])
        assert arrived.payloads("set/early") == ["old"]
        assert figures(node)["received"] == 1


def test_what_a_rule_no_longer_has_is_acknowledged_dropped_and_named(source: Mosquitto, start_node: StartNode) -> None:
    """The remote has kept for the session what a filter brought that the configuration has lost meanwhile."""
    node = start_node(node_config(taking(source.port, {"filters": ["old/#", "new/#"]})))
    subscribed(node)
    assert node.stop() == 0
    publish(source.port, "old/a", ["1", "2"], qos=2)
    node.configure(node_config(taking(source.port, {"filters": ["new/#"]})))
    node.start()
    subscribed(node)
    wait_until(lambda: figures(node)["unmatched"] == 2, 10.0, lambda: f"unmatched messages; {figures(node)}")
    wait_until(lambda: source.log.count("Received PUBCOMP from bridge-from") == 2, 10.0, "the exchange is completed")
    assert [event["topics"] for event in node.events("remote.unmatched")] == [["b'old/a'"]]
    publish(source.port, "old/a", ["3"], qos=2)
    publish(source.port, "new/a", ["4"], qos=2)
    wait_until(lambda: source.log.count("Received PUBCOMP from bridge-from") == 3, 10.0, "the last exchange is completed")
    assert figures(node)["received"] == 3, "what came for the lost filter before, and nothing since"


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_the_last_filter_that_was_taken_out_is_given_up_too(source: Mosquitto, start_node: StartNode, protocol: str) -> None:
    """Messages that were kept for it are acknowledged and dropped, however large (at MQTT 5 the remote has a limit); the other way
    goes on."""
    kept = ["1"] if protocol == "mqtt5" else ["x" * 2_000_000, "1"]
    sends: Config = {"local_subscriptions": [{"filters": ["out"]}]}
    node = start_node(node_config(taking(source.port, {"filters": ["old/#"]}, protocol=protocol, **sends)))
    subscribed(node)
    assert node.stop() == 0
    publish(source.port, "old/a", kept, qos=2)
    node.configure(node_config(taking(source.port, protocol=protocol, **sends)))
    node.start()
    with Subscriber(source.port, "out") as arrived:
        publish(node.port, "out", ["went"], qos=1)
        arrived.wait_for("out", ["went"])
        wait_until(lambda: "bridge-from old/#" in source.log.partition("Received UNSUBSCRIBE from")[2], 20.0, "UNSUBSCRIBE")
        wait_until(lambda: source.log.count("Received PUBCOMP from bridge-from") == len(kept), 10.0, "exchanges are completed")
        publish(source.port, "old/a", ["2"], qos=2)
        publish(node.port, "out", ["end"], qos=1)
        arrived.wait_for("out", ["went", "end"])
    assert figures(node)["received"] == len(kept), "what came for the filter before, and nothing since"
    assert not node.events("bridge.disconnected")


@pytest.mark.parametrize(("protocol", "before", "after"), [("mqtt5", "cmd/a/#", "cmd/#"), ("mqtt311", "cmd/#", "cmd/a/#")])
def test_a_filter_that_was_made_wider_or_narrower_brings_nothing_twice(
    source: Mosquitto, start_node: StartNode, protocol: str, before: str, after: str
) -> None:
    """The session still has the filter of before, for which the remote would send once more what both match.

    It is given up once.
    """
    node = start_node(node_config(taking(source.port, {"filters": [before]}, protocol=protocol)))
    subscribed(node)
    assert node.stop() == 0
    publish(source.port, "cmd/a/away", ["away"], qos=2)
    node.configure(node_config(taking(source.port, {"filters": [after]}, protocol=protocol)))
    node.start()
    with Subscriber(node.port, "#") as arrived:
        wait_until(lambda: "bridge-from " + before in source.log.partition("Received UNSUBSCRIBE from")[2], 20.0, "UNSUBSCRIBE")
        publish(source.port, "cmd/a", LINES, qos=2)
        arrived.wait_for("cmd/a", LINES)
        wait_until(
            lambda: source.log.count("Received PUBCOMP from bridge-from") >= len(LINES) + 1, 10.0, "each exchange is completed"
        )
        assert arrived.arrivals("cmd/a", LINES).are_exact()
    assert figures(node)["received"] == len(LINES) + 1
    node.restart()
    subscribed(node)
    publish(source.port, "cmd/a", LINES[:1], qos=2)
    wait_until(lambda: figures(node)["received"] == 1, 20.0, "one more, behind what the bridge has asked for")
    assert source.log.count("Received UNSUBSCRIBE from bridge-from") == 1


@pytest.mark.parametrize(("protocol", "private"), [("mqtt311", True), ("mqtt311", False), ("mqtt5", True)])
def test_what_the_bridge_sent_does_not_go_round(source: Mosquitto, start_node: StartNode, protocol: str, private: bool) -> None:
    """Everything crosses both ways. A remote that knows a bridge does not echo; of one that does not, echoes are left out, and what
    somebody publishes there that equals one comes.
    """
    remote = {"try_private": private}
    both = taking(source.port, {"filters": ["#"]}, protocol=protocol, remote=remote, local_subscriptions=[{"filters": ["#"]}])
    node = start_node(node_config(both))
    with Subscriber(source.port, "#") as arrived, Subscriber(node.port, "#") as here:
        subscribed(node)
        publish(node.port, "t", LINES, qos=1)
        arrived.wait_for("t", LINES)
        publish(source.port, "u", LINES, qos=1)
        echoes = 0 if protocol == "mqtt5" or private else len(LINES)
        wait_until(
            lambda: figures(node)["received"] >= len(LINES) + echoes, 10.0, lambda: f"the remote's messages; {figures(node)}"
        )
        assert figures(node)["echoes"] == echoes
        publish(source.port, "t", LINES[:1], qos=1)
        publish(node.port, "end", ["end"], qos=1)
        arrived.wait_for("end", ["end"])
        here.wait_for("u", LINES)
        for each in (arrived, here):
            wait_until(lambda each=each: len(each.payloads("t")) > len(LINES), 10.0, "the equal message")  # type: ignore[misc]
            assert each.payloads("t") == [*LINES, LINES[0]]
        for each in (arrived, here):
            assert each.arrivals("u", LINES).are_exact()
        assert figures(node)["received"] in range(len(LINES) + echoes + 1, len(LINES) + echoes + 3)


def test_a_remote_that_knows_a_bridge_of_mqtt_311_keeps_retain(source: Mosquitto, sink: Mosquitto, start_node: StartNode) -> None:
    """RETAIN of a message that was not retained before the subscription is passed on only to a bridge [MQTT-3.3.1-9]."""
    node = start_node(
        node_config(
            taking(source.port, {"filters": ["#"]}, protocol="mqtt311"),
            bridge_config("to", sink.port, local_subscriptions=[{"filters": ["#"]}], loop_prevention={"max_hops": 2}),
        )
    )
    subscribed(node)
    publish(source.port, "kept", ["on"], qos=1, retain=True)
    with Subscriber(node.port, "kept") as here:
        here.wait_for("kept", ["on"])
    wait_until(lambda: node.lane("to")["delivered"] == 1, 10.0, "it went on")
    with Subscriber(sink.port, "kept") as there:
        there.wait_for("kept", ["on"])


def test_a_ring_of_two_nodes_and_two_brokers_ends_after_max_hops(source: Mosquitto, sink: Mosquitto, start_node: StartNode) -> None:
    """One node sends to the first broker and takes from the second, the other the other way round."""

    def half(out: int, back: int) -> Config:
        hops: Config = {"loop_prevention": {"max_hops": 3}}
        return node_config(
            bridge_config("to", out, protocol="mqtt5", **hops),
            taking(back, {"filters": ["#"]}, remote={"client_id": f"from-{back}"}, **hops),
        )

    one, two = start_node(half(source.port, sink.port)), start_node(half(sink.port, source.port))
    with Subscriber(source.port, "#") as first, Subscriber(sink.port, "#") as second:
        subscribed(one)
        subscribed(two)
        publish(one.port, "t", LINES, qos=2)
        first.wait_for("t", LINES)
        second.wait_for("t", LINES)
        wait_until(lambda: figures(one)["looped"] == len(LINES), 10.0, lambda: f"loops; {figures(one)}")
        assert first.arrivals("t", LINES).are_exact()
        assert second.arrivals("t", LINES).are_exact()
        assert figures(two)["looped"] == 0


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_what_was_published_while_the_bridge_was_away_comes_afterwards_once(
    source: Mosquitto, sink: Mosquitto, start_node: StartNode, protocol: str
) -> None:
    node = start_node(node_config(taking(source.port, {"filters": ["t/#"]}, protocol=protocol), passing(sink.port)))
    with Subscriber(sink.port, "#") as arrived:
        subscribed(node)
        assert node.cli("bridge", "pause", str(node.config_path), "from").returncode == 0
        node.wait_lane("from", state="paused")
        publish(source.port, "t/1", LINES, qos=1)
        assert node.cli("bridge", "resume", str(node.config_path), "from").returncode == 0
        assert arrived.wait_for("t/1", LINES).are_exact()
        assert node.stop() == 0
        publish(source.port, "t/2", LINES, qos=2)
        node.start()
        assert arrived.wait_for("t/2", LINES).are_exact()
        assert not node.events("session.unknown")


def test_with_lanes_only_the_first_subscribes(source: Mosquitto, sink: Mosquitto, start_node: StartNode) -> None:
    rules = taking(source.port, {"filters": ["t/#"]}, lanes=3, local_subscriptions=[{"filters": ["out/#"]}])
    node = start_node(node_config(rules, passing(sink.port)))
    with Subscriber(sink.port, "t/#") as arrived:
        subscribed(node)
        publish(source.port, "t/1", LINES, qos=1)
        assert arrived.wait_for("t/1", LINES).are_exact()
        assert node.lane("from", 1)["remote_subscriptions"] == {}


def test_a_message_too_large_for_the_node_stops_neither_direction(source: Mosquitto, start_node: StartNode) -> None:
    """An MQTT 3.1.1 remote cannot be told how much is too much; without an answer it would send it on every connection."""
    both = taking(source.port, {"filters": ["in/#"]}, protocol="mqtt311", local_subscriptions=[{"filters": ["out"]}])
    node = start_node(node_config(both, clients={"packet_max_bytes": "64KiB"}))
    with Subscriber(source.port, "out") as there, Subscriber(node.port, "in/#") as here:
        subscribed(node)
        for qos in (0, 1, 2):
            publish(source.port, "in/big", ["x" * 400_000], qos=qos)
            publish(source.port, "in/small", [f"small {qos}"], qos=qos)
        publish(node.port, "out", ["went"], qos=1)
        here.wait_for("in/small", ["small 0", "small 1", "small 2"])
        there.wait_for("out", ["went"])
        assert not here.payloads("in/big")
    assert (figures(node)["too_large"], figures(node)["received"]) == (3, 6)
    assert [event["topics"] for event in node.events("remote.too_large")] == [["b'in/big'"]]
    assert not node.events("bridge.disconnected")
