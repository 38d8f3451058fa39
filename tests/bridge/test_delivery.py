"""Messages across a bridge, their names and their order: a real client, a real node, a stock Mosquitto 2.0 as the remote."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto, mosquitto_pub, program
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    PUBACK,
    PUBLISH,
    RESPONSE_TOPIC,
    USER_PROPERTY,
)
from tests.support.node import Config, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.recorder import Recorder
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, holds_for, wait_until

COUNT = 200
NUMBERS = [str(number) for number in range(COUNT)]


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_what_mosquitto_pub_sends_arrives_once_in_order_under_its_mapped_topic(
    remote: Mosquitto, start_node: StartNode, protocol: str
) -> None:
    """More messages than the remote's in-flight window of 20, so the window turns over many times."""
    rules = [{"filters": ["plant/#"], "destination": "site/edge/{#}"}]
    node = start_node(node_config(bridge_config("cloud", remote.port, protocol=protocol, local_subscriptions=rules)))
    version = {"mqtt311": "mqttv311", "mqtt5": "mqttv5"}[protocol]
    with Subscriber(remote.port, "site/#") as subscriber:
        for sent, qos in enumerate((0, 1, 2), start=1):
            mosquitto_pub(node.port, f"plant/line/{qos}", NUMBERS, qos=qos, protocol=version)
            arrivals = subscriber.wait_for(f"site/edge/plant/line/{qos}", NUMBERS)
            assert arrivals.are_exact(), arrivals
            assert subscriber.count() == sent * COUNT
            assert {packet.qos for packet in subscriber.packets[-COUNT:]} == {qos}
            node.wait_lane("cloud", accepted=sent * COUNT, delivered=sent * COUNT, depth=0, ledger_closes=True)


def test_payloads_of_any_length_cross_unchanged(remote: Mosquitto, start_node: StartNode) -> None:
    payloads = [bytes(number % 251 for number in range(size)) for size in (0, 1, 127, 128, 70_000)]
    node = start_node(node_config(bridge_config("cloud", remote.port)))
    with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port) as client:
        for payload in payloads:
            client.deliver("blob", payload, 1)
        wait_until(lambda: subscriber.count() == len(payloads), 10.0, "arrival of the messages")
        assert [packet.payload for packet in subscriber.packets] == payloads


def test_publishers_of_all_qualities_at_once_keep_their_order(remote: Mosquitto, start_node: StartNode) -> None:
    """Order is judged where the remote receives: with stock limits Mosquitto 2.0 reorders a mix of QoS to its own subscriber."""
    recorder = Recorder()
    with Proxy(remote.port, tap=recorder) as proxy, Subscriber(remote.port, "#") as subscriber:
        node = start_node(node_config(bridge_config("cloud", proxy.port)))
        words = {qos: [program("mosquitto_pub"), "-p", str(node.port), "-t", f"q{qos}", "-q", str(qos), "-l"] for qos in (0, 1, 2)}
        clients = {qos: subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for qos, command in words.items()}
        for client in clients.values():
            assert client.stdin is not None
            client.stdin.write("".join(f"{number}\n" for number in NUMBERS))
            client.stdin.close()
        assert [client.wait(PATIENCE_S) for client in clients.values()] == [0, 0, 0]
        for qos in clients:
            arrivals = subscriber.wait_for(f"q{qos}", NUMBERS)
            assert not arrivals.duplicates, (qos, arrivals)
            assert not arrivals.unexpected, (qos, arrivals)
        node.wait_lane("cloud", depth=0, delivered=3 * COUNT)
    assert recorder.sent_at_most_once("q0") == NUMBERS
    for topic in ("q1", "q2"):
        assert recorder.taken(topic) == NUMBERS
        assert len(recorder.records(topic)) == COUNT, "each went once"
    assert (recorder.faults, recorder.duplicates()) == ([], [])


def test_a_full_window_of_qos_1_and_2_together_suits_a_stock_remote(remote: Mosquitto, start_node: StartNode) -> None:
    """Mosquitto 2.0 counts both: a QoS 1 PUBLISH on top of 20 unreleased QoS 2 ones costs that message and the connection."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(node_config(bridge_config("cloud", proxy.port)))
        with MqttClient(node.port) as client:
            for start in range(0, 400, 40):  # 20 of QoS 2, then 20 of QoS 1, and so on
                numbers = [(number, 2 if number % 40 < 20 else 1) for number in range(start, start + 40)]
                client.send(b"".join(client.encode_publish(f"q{qos}", str(number), qos) for number, qos in numbers))
        node.wait_lane("cloud", depth=400)
        proxy.restore()
        for qos in (1, 2):
            wanted = [str(number) for number in range(400) if (2 if number % 40 < 20 else 1) == qos]
            arrivals = subscriber.wait_for(f"q{qos}", wanted)
            assert not arrivals.duplicates, arrivals
        assert node.events("bridge.disconnected") == [], "the remote had no reason to throw the bridge out"


def test_each_bridge_gets_its_own_share(tmp_path: Path, remote: Mosquitto, start_node: StartNode) -> None:
    """A topic that two bridges want goes to both; one that no bridge wants is acknowledged and goes nowhere."""
    with Mosquitto(tmp_path / "second") as second:
        node = start_node(
            node_config(
                bridge_config("one", remote.port, local_subscriptions=[{"filters": ["a/#", "both"]}]),
                bridge_config("two", second.port, local_subscriptions=[{"filters": ["b/#", "both"]}]),
            )
        )
        with Subscriber(remote.port, "#") as at_one, Subscriber(second.port, "#") as at_two:
            for topic in ("a/1", "b/1", "none/1", "both"):
                mosquitto_pub(node.port, topic, ["m"], qos=1)
            at_one.wait_for("both", ["m"])
            at_two.wait_for("both", ["m"])
            assert [packet.topic for packet in at_one.packets] == ["a/1", "both"]
            assert [packet.topic for packet in at_two.packets] == ["b/1", "both"]


def test_the_first_matching_rule_wins_and_excludes_do_not_cross(remote: Mosquitto, start_node: StartNode) -> None:
    rules = [
        {"filters": ["plant/+/alarm"], "destination": "alarms/{2}"},
        {"filters": ["plant/#"], "excludes": ["plant/+/debug"], "destination": "all/{2-#}"},
    ]
    node = start_node(node_config(bridge_config("cloud", remote.port, local_subscriptions=rules)))
    with Subscriber(remote.port, "#") as subscriber:
        for topic in ("plant/1/alarm", "plant/1/debug", "plant/1/state", "other", "plant/2/x/y"):
            mosquitto_pub(node.port, topic, ["m"], qos=1)
        subscriber.wait_for("all/2/x/y", ["m"])
        assert [packet.topic for packet in subscriber.packets] == ["alarms/1", "all/1/state", "all/2/x/y"]
    assert node.wait_lane("cloud", depth=0, delivered=3)["accepted"] == 3


def test_four_lanes_keep_the_order_of_each_topic(remote: Mosquitto, start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("cloud", remote.port, lanes=4)))
    topics = [f"t/{number}" for number in range(16)]
    with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port) as client:
        sent = [(topic, number) for number in NUMBERS[:50] for topic in topics]
        client.send(b"".join(client.encode_publish(topic, number, 1) for topic, number in sent))
        for _ in sent:
            client.expect(PUBACK)
        for topic in topics:
            arrivals = subscriber.wait_for(topic, NUMBERS[:50])
            assert arrivals.are_exact(), (topic, arrivals)
    lanes = [node.wait_lane("cloud", lane, depth=0) for lane in range(4)]
    assert sum(lane["delivered"] for lane in lanes) == len(sent)
    assert all(lane["delivered"] for lane in lanes), "16 topics spread over all 4 lanes"


def test_without_persist_everything_goes_at_qos_0_and_is_said_once(remote: Mosquitto, start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("cloud", remote.port, persist=False)))
    with Subscriber(remote.port, "#") as subscriber:
        for qos in (0, 1, 2):
            mosquitto_pub(node.port, f"q{qos}", NUMBERS, qos=qos)
            arrivals = subscriber.wait_for(f"q{qos}", NUMBERS)
            assert arrivals.are_exact(), arrivals
        assert {packet.qos for packet in subscriber.packets} == {0}
    assert [line for line in node.output.splitlines() if "AT_MOST_ONCE" in line][1:] == []
    assert "AT_MOST_ONCE" in node.output


def test_max_qos_lowers_and_never_raises(remote: Mosquitto, start_node: StartNode) -> None:
    rules = [{"filters": [f"{maximum}/#"], "max_qos": maximum} for maximum in (0, 1, 2)]
    node = start_node(node_config(bridge_config("cloud", remote.port, local_subscriptions=rules)))
    with Subscriber(remote.port, "#") as subscriber:
        for published, maximum, applied in ((2, 1, 1), (2, 0, 0), (1, 2, 1), (0, 2, 0), (1, 0, 0)):
            topic = f"{maximum}/{published}"
            mosquitto_pub(node.port, topic, ["m"], qos=published)
            subscriber.wait_for(topic, ["m"])
            assert [packet.qos for packet in subscriber.packets if packet.topic == topic] == [applied]


@pytest.mark.parametrize("min_qos", [1, 2])
def test_what_is_published_at_qos_0_is_raised_kept_over_kill_9_and_leaves_in_its_order(
    remote: Mosquitto, start_node: StartNode, min_qos: int
) -> None:
    """The remote is away; on one connection, to one topic, at QoS 0 and 1 in turn; each process dies, the last all at once."""
    recorder = Recorder()
    rules: list[Config] = [{"filters": ["t"], "min_qos": min_qos}, {"filters": ["#"]}]
    with Proxy(remote.port, tap=recorder) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(node_config(bridge_config("cloud", proxy.port, local_subscriptions=rules)))
        with Subscriber(node.port, "t") as local, MqttClient(node.port) as client:
            client.send(b"".join(client.encode_publish("t", number, int(number) % 2) for number in NUMBERS))
            client.send(client.encode_publish("other", "m", 0))
            lane = node.wait_lane("cloud", accepted=COUNT + 1)
            assert lane["raised"] == (COUNT // 2 if min_qos == 1 else COUNT)
            local.wait_for("t", NUMBERS)
            assert {(int(packet.payload) % 2, packet.qos) for packet in local.packets} == {(0, 0), (1, 1)}, "as it was published"
        for process in ("clients", "store"):
            node.wait_replaced(process, node.kill(process))
        node.kill_supervisor()
        node.start()
        lane = node.wait_lane("cloud", accepted=COUNT + 1, depth=COUNT)
        assert lane["dropped"] == {"restart": 1}, "what no rule raises was in memory"
        proxy.restore()
        subscriber.wait_for("t", NUMBERS)
        lane = node.wait_lane("cloud", delivered=COUNT, depth=0, ledger_closes=True)
        assert lane["raised"] == (COUNT // 2 if min_qos == 1 else COUNT)
        assert {packet.qos for packet in subscriber.packets} == {min_qos}
    assert recorder.taken("t") == NUMBERS
    assert recorder.faults == []


def test_what_is_raised_from_qos_0_is_refused_by_a_full_queue_and_its_publisher_goes_on(
    remote: Mosquitto, start_node: StartNode
) -> None:
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        rules: list[Config] = [{"filters": ["#"], "min_qos": 1}]
        node = start_node(node_config(bridge_config("cloud", proxy.port, local_subscriptions=rules, limits={"max_messages": 50})))
        with MqttClient(node.port, version=5) as client:
            client.send(b"".join(client.encode_publish("t", number, 0) for number in NUMBERS))
            lane = node.wait_lane("cloud", accepted=50, refused=COUNT - 50)
            client.ping()
        assert (lane["raised"], lane["dropped"]) == (50, {})
        proxy.restore()
        subscriber.wait_for("t", NUMBERS[:50])
        node.wait_lane("cloud", delivered=50, depth=0, ledger_closes=True)


def test_retain_is_preserved_or_not(remote: Mosquitto, start_node: StartNode) -> None:
    """A message that the remote keeps as retained comes to a subscriber that comes later."""
    rules = [{"filters": [f"{name}/#"], "preserve_retain": keeps} for name, keeps in (("keeps", True), ("drops", False))]
    node = start_node(node_config(bridge_config("cloud", remote.port, local_subscriptions=rules)))
    with Subscriber(remote.port, "#") as subscriber:
        for rule in ("keeps", "drops"):
            mosquitto_pub(node.port, f"{rule}/retained", ["m"], qos=1, options=["-r"])
            mosquitto_pub(node.port, f"{rule}/live", ["m"], qos=1)
            subscriber.wait_for(f"{rule}/live", ["m"])
    with Subscriber(remote.port, "#", client_id="later") as later, MqttClient(remote.port, "marker") as client:
        client.publish("marker", "end")
        later.wait_for("marker", ["end"])
        assert [packet.topic for packet in later.packets] == ["keeps/retained", "marker"]


def test_properties_of_a_publish_cross_and_the_rules_own_are_added(remote: Mosquitto, start_node: StartNode) -> None:
    rules = [{"filters": ["#"], "user_properties": {"site": "edge"}}]
    node = start_node(node_config(bridge_config("cloud", remote.port, protocol="mqtt5", local_subscriptions=rules)))
    with Subscriber(remote.port, "#", version=5) as subscriber, MqttClient(node.port, version=5) as client:
        client.deliver(
            "t",
            "m",
            1,
            properties=[
                (CONTENT_TYPE, "text/plain"),
                (RESPONSE_TOPIC, "answers"),
                (CORRELATION_DATA, b"\x00\x01"),
                (USER_PROPERTY, ("colour", "red")),
                (USER_PROPERTY, ("colour", "blue")),
            ],
        )
        subscriber.wait_for("t", ["m"])
        packet = subscriber.packets[0]
    assert packet.property(CONTENT_TYPE) == "text/plain"
    assert packet.property(RESPONSE_TOPIC) == "answers"
    assert packet.property(CORRELATION_DATA) == b"\x00\x01"
    assert packet.user_properties[:2] == [("colour", "red"), ("colour", "blue")], "the publisher's own, in order [MQTT-3.3.2-18]"
    assert ("site", "edge") in packet.user_properties


def test_message_expiry_counts_down_while_the_message_waits(remote: Mosquitto, start_node: StartNode) -> None:
    """One that expires in the queue never leaves it [MQTT-3.3.2-5]; another leaves with what is left of its time [MQTT-3.3.2-6]."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#", version=5) as subscriber:
        proxy.cut()
        node = start_node(node_config(bridge_config("cloud", proxy.port, protocol="mqtt5")))
        with MqttClient(node.port, version=5) as client:
            for payload, expiry_s in (("short", 1), ("long", 600), ("none", None)):
                client.deliver("t", payload, 1, properties=[] if expiry_s is None else [(MESSAGE_EXPIRY, expiry_s)])
        node.wait_lane_until(lambda row: (row["oldest_age_s"] or 0) >= 2.2, "an age of more than 2 s in the queue")
        proxy.restore()
        subscriber.wait_for("t", ["long", "none"])
        lane = node.wait_lane("cloud", depth=0)
        assert subscriber.payloads("t") == ["long", "none"]
        left_s = subscriber.packets[0].property(MESSAGE_EXPIRY)
        assert isinstance(left_s, int)
        assert 580 <= left_s <= 598
        assert subscriber.packets[1].property(MESSAGE_EXPIRY) is None
    assert (lane["expired"], lane["delivered"]) == (1, 2)
    assert lane["ledger_closes"] is True


def test_mosquitto_sub_sees_local_traffic_live(start_node: StartNode) -> None:
    """Also without any bridge: a node is a broker that a person can look into."""
    node = start_node(node_config())
    words = [program("mosquitto_sub"), "-p", str(node.port), "-t", "plant/+/state", "-F", "%t %p", "-C", "3", "-W", "60", "-d"]
    terminal, its_end = os.openpty()  # on a pipe it would keep its lines until it ends
    watcher = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=its_end, stderr=its_end)
    os.close(its_end)
    seen: list[str] = []
    try:
        with open(terminal, encoding="utf-8") as lines:
            while "received SUBACK" not in lines.readline():
                pass  # its end, at the latest after a minute, is an OSError here
            for topic in ("plant/1/state", "plant/1/debug", "plant/2/state", "plant/3/state"):
                mosquitto_pub(node.port, topic, ["m"], qos=1)
            while len(seen) < 3:
                seen += [line.strip() for line in [lines.readline()] if line.startswith("plant/")]
        assert watcher.wait(PATIENCE_S) == 0
    finally:
        watcher.kill()
        watcher.wait(PATIENCE_S)
    assert seen == ["plant/1/state m", "plant/2/state m", "plant/3/state m"]


def test_a_publish_that_no_bridge_wants_stays_here(remote: Mosquitto, start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("cloud", remote.port, local_subscriptions=[{"filters": ["plant/#"]}])))
    with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port, "local") as local:
        local.subscribe("#")
        mosquitto_pub(node.port, "office/1", ["m"], qos=1)
        assert local.expect(PUBLISH).topic == "office/1"
        holds_for(lambda: subscriber.count() == 0, 0.3, "nothing crosses that no rule wants")


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_user_and_password_open_a_remote_that_wants_them(tmp_path: Path, start_node: StartNode, protocol: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n")
    with Mosquitto(tmp_path / "remote", users={"edge": "correct horse", "reader": "r"}) as remote:
        credentials = {"username": "edge", "password_file": str(secret)}
        node = start_node(node_config(bridge_config("cloud", remote.port, protocol=protocol, remote=credentials)))
        mosquitto_pub(node.port, "t", ["m"], qos=1)
        node.wait_lane("cloud", delivered=1, depth=0)
    assert "correct horse" not in node.output


def test_a_remote_over_websocket(tmp_path: Path, start_node: StartNode) -> None:
    with Mosquitto(tmp_path / "remote", websockets=True) as remote:
        node = start_node(node_config(bridge_config("cloud", remote.port, remote={"transport": "ws"})))
        mosquitto_pub(node.port, "t", NUMBERS, qos=1)
        assert node.wait_lane("cloud", delivered=COUNT, depth=0)["ledger_closes"] is True
