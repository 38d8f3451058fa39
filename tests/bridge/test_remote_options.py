"""Options of a bridge towards its remote, as they pass on the wire: between two real nodes, and to several Mosquittos."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.bridge.test_remote_subscriptions import publish, subscribed
from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_packets import (
    ALIAS_MAXIMUM,
    CONNECT,
    CONTENT_TYPE,
    PUBLISH,
    SUBACK,
    SUBSCRIBE,
    TOPIC_ALIAS,
    USER_PROPERTY,
    Packet,
)
from tests.support.node import Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.tape import Tape
from tests.support.waiting import wait_until

LINES = [f"m{number}" for number in range(20)]


def passed(tape: Tape, kind: int, *, up: bool) -> list[Packet]:
    """The packets of ``kind`` that passed in that direction."""
    return [one.packet for one in tape.passed if one.up == up and one.packet.kind == kind]


def values(packet: Packet, identifier: int) -> list[object]:
    """The values of a property of ``packet``."""
    return [value for one, value in packet.properties if one == identifier]


def test_aliases_user_properties_retain_handling_and_the_order_at_connect(start_node: StartNode) -> None:
    """The remote is a node, which itself sends by aliases to who allows them."""
    hub = start_node(node_config())
    publish(hub.port, "down/kept", ["kept"], qos=1, retain=True)
    tape = Tape()
    with Proxy(hub.port, tap=tape) as proxy, Subscriber(hub.port, "up/#", version=5) as at_hub:
        remote = {
            "topic_aliases": 4,
            "user_properties": {"site": "edge-1"},
            "retain_handling": "always",
            "await_suback": True,
        }
        edge = start_node(
            node_config(
                bridge_config(
                    "hub",
                    proxy.port,
                    protocol="mqtt5",
                    remote=remote,
                    local_subscriptions=[{"filters": ["up/#"]}],
                    remote_subscriptions=[{"filters": ["down/#"]}],
                    loop_prevention={"hop_property": "hmq-bridge-hop-count"},
                )
            )
        )
        with Subscriber(edge.port, "down/#") as at_edge:
            subscribed(edge, "hub")
            topic = "up/a/topic/that/is/long"
            publish(edge.port, topic, LINES, qos=1)
            at_hub.wait_for(topic, LINES)
            publish(hub.port, "down/a/topic/that/is/long", LINES, qos=2)
            at_edge.wait_for("down/a/topic/that/is/long", LINES)
            for _ in range(2):
                proxy.cut()
                edge.wait_lane_until(lambda row: row["state"] != "connected", "the link is cut", bridge="hub")
                proxy.restore()
                edge.wait_lane_until(lambda row: row["state"] == "connected", "a new connection", bridge="hub")
            wait_until(lambda: at_edge.payloads("down/kept").count("kept") >= 3, 20.0, lambda: str(at_edge.payloads("down/kept")))

            assert at_hub.arrivals(topic, LINES).are_exact()
            assert at_edge.arrivals("down/a/topic/that/is/long", LINES).are_exact()
        connect = passed(tape, CONNECT, up=True)[0]
        assert values(connect, ALIAS_MAXIMUM) == [4]
        assert values(connect, USER_PROPERTY) == [("site", "edge-1")]
        assert {options >> 4 & 3 for packet in passed(tape, SUBSCRIBE, up=True) for _, options in packet.filters} == {0}
        for up in (True, False):
            aliased = [
                packet for packet in passed(tape, PUBLISH, up=up) if values(packet, TOPIC_ALIAS) and packet.payload != b"kept"
            ]
            assert [packet.topic == "" for packet in aliased[:3]] == [False, True, True], f"towards the hub: {up}"
        kinds = [one.packet.kind for one in tape.passed if one.connection == tape.passed[0].connection]
        assert kinds.index(SUBACK) < kinds.index(PUBLISH)
        assert {value for packet in at_hub.packets for value in values(packet, USER_PROPERTY)} == {("hmq-bridge-hop-count", "1")}


def test_what_hivemq_edge_has_counted_goes_no_further(start_node: StartNode) -> None:
    """The user property of its bridges is read, whichever is written."""
    hub = start_node(node_config())
    into = bridge_config(
        "hub", hub.port, protocol="mqtt5", remote={"client_id": "a"}, loop_prevention={"hop_property": "hmq-bridge-hop-count"}
    )
    first = start_node(node_config(into))
    out = bridge_config(
        "from",
        hub.port,
        protocol="mqtt5",
        remote={"client_id": "b"},
        local_subscriptions=[],
        remote_subscriptions=[{"filters": ["#"]}],
    )
    second = start_node(node_config(out))
    subscribed(second, "from")
    publish(first.port, "t", LINES, qos=1)
    wait_until(lambda: second.lane("from")["remote_subscriptions"]["looped"] == len(LINES), 20.0, lambda: str(second.lane("from")))


def is_connected_at(node: Node, place: str) -> bool:
    """Whether the link stands, at that address."""
    link = node.lane("cloud")["link"]
    return bool(link["address"] == place and link["state"] == "connected")


def test_round_robin_goes_on_to_the_next_address_and_does_not_go_back(tmp_path: Path, start_node: StartNode) -> None:
    with ExitStack() as stack:
        remotes = [stack.enter_context(Mosquitto(tmp_path / str(number))) for number in range(3)]
        places = [f"127.0.0.1:{remote.port}" for remote in remotes]
        keys = {"addresses": places, "round_robin": True}
        node = start_node(node_config(bridge_config("cloud", remotes[0].port, remote=keys)))
        for number in (0, 1, 2, 0):
            wait_until(
                lambda number=number: is_connected_at(node, places[number]),  # type: ignore[misc]
                20.0,
                lambda number=number: f"at {number}; {node.lane('cloud')['link']}",  # type: ignore[misc]
            )
            assert not node.lane("cloud")["link"]["first_address"]
            remotes[number].kill()
            remotes[number].start()


def test_a_will_of_qos_2_with_its_properties_waits_for_its_delay(source: Mosquitto, start_node: StartNode) -> None:
    """Whoever is back before that is not told to be gone."""
    properties = {"user_properties": {"site": "edge-1"}, "content_type": "text/plain", "expiry": "1h"}
    remote = {
        "will": {"topic": "state/edge", "payload": "gone", "qos": 2, "retain": False, "delay": "5s", **properties},
        "birth": {"topic": "state/edge", "payload": "there", "retain": False, **properties},
    }
    with Proxy(source.port) as proxy, Subscriber(source.port, "state/#", version=5) as heard:
        node = start_node(node_config(bridge_config("cloud", proxy.port, protocol="auto", remote=remote)))
        heard.wait_for("state/edge", ["there"])
        proxy.cut()
        node.wait_lane_until(lambda row: row["state"] != "connected", "the link is cut")
        proxy.restore()
        wait_until(lambda: heard.payloads("state/edge") == ["there", "there"], 20.0, lambda: str(heard.payloads("state/edge")))
        proxy.cut()
        wait_until(lambda: heard.payloads("state/edge")[2:] == ["gone"], 20.0, lambda: str(heard.payloads("state/edge")))
        node.kill_supervisor()
        birth, will = (next(one for one in heard.packets if one.payload == payload) for payload in (b"there", b"gone"))
        assert (birth.qos, will.qos) == (1, 2)
        for packet in (birth, will):
            assert values(packet, USER_PROPERTY) == [("site", "edge-1")]
            assert values(packet, CONTENT_TYPE) == ["text/plain"]


def test_birth_at_each_connect_and_will_when_it_ends(source: Mosquitto, start_node: StartNode) -> None:
    """The Will is published where the link breaks, and where the bridge leaves."""
    remote = {
        "will": {"topic": "state/edge", "payload": "gone"},
        "birth": {"topic": "state/edge", "payload": "there", "retain": False},
    }
    with Proxy(source.port) as proxy, Subscriber(source.port, "state/#") as heard:
        node = start_node(node_config(bridge_config("cloud", proxy.port, protocol="mqtt5", remote=remote)))
        wait_until(lambda: heard.payloads("state/edge") == ["there"], 20.0, lambda: str(heard.payloads("state/edge")))
        proxy.cut()
        wait_until(lambda: heard.payloads("state/edge") == ["there", "gone"], 20.0, lambda: str(heard.payloads("state/edge")))
        proxy.restore()
        wait_until(lambda: heard.payloads("state/edge")[2:] == ["there"], 20.0, lambda: str(heard.payloads("state/edge")))
        node.stop()
        wait_until(lambda: heard.payloads("state/edge")[3:] == ["gone"], 20.0, lambda: str(heard.payloads("state/edge")))
        with Subscriber(source.port, "state/#", client_id="later") as later:
            later.wait_for("state/edge", ["gone"])
