"""The ``$SYS`` topics of a running node, as monitoring tools read them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.docs.pages import SYS_TOPICS, blocks
from tests.support.mosquitto import program
from tests.support.mqtt_client import MqttClient, publish, publish_once, take_one
from tests.support.mqtt_packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

RETAIN_AS_PUBLISHED, NEVER = 0x08, 0x20
KNOWN = {
    f"$SYS/broker/{name}"
    for name in (
        "version",
        "uptime",
        "clients/connected",
        "clients/total",
        "clients/disconnected",
        "messages/received",
        "messages/sent",
        "messages/stored",
        "subscriptions/count",
        "bytes/received",
        "bytes/sent",
        "load/messages/received/1min",
        "load/messages/sent/15min",
        "retained messages/count",
    )
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for all tests of this module; its bridge would take what is below ``$SYS`` and nothing else."""
    bridge = bridge_config("cloud", free_port(), local_subscriptions=[{"filters": ["$SYS/#"]}])
    config = node_config(bridge, clients={"sys_period": "200ms"})
    with Node(config, tmp_path_factory.mktemp("broker")) as node:
        yield node


def values(node: Node) -> dict[str, str]:
    """The topics that a new subscriber gets at once."""
    words = [program("mosquitto_sub"), "-p", str(node.port), "-t", "$SYS/#", "-t", "#", "-F", "%t=%p", "--retained-only", "-W", "1"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return dict(line.split("=", 1) for line in ran.stdout.splitlines())


def test_the_command_of_the_reference_shows_the_topics_of_its_table(node: Node) -> None:
    (block,) = blocks(SYS_TOPICS)
    wait_until(lambda: values(node).keys() >= KNOWN, PATIENCE_S, "all values")
    typed = block.text.replace("mosquitto_sub -p 1883", f"{program('mosquitto_sub')} -p {node.port}")
    wanted = {topic for topic in KNOWN if f"`{topic}`" in SYS_TOPICS.read_text()}
    assert len(wanted) > 10

    def missing() -> set[str]:
        """The topics that the command has not shown in the second that it has."""
        ran = subprocess.run(typed, shell=True, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return {topic for topic in wanted if not any(line.startswith(f"{topic} ") for line in ran.stdout.splitlines())}

    wait_until(lambda: not missing(), PATIENCE_S, lambda: f"{missing()} are shown, too")


def test_mosquitto_sub_reads_the_figures_of_the_node(node: Node) -> None:
    with MqttClient(node.port, "keeper", clean=False, version=4) as keeper:
        keeper.subscribe("keep/#", qos=1)
    with MqttClient(node.port, "writer") as writer:
        publish(writer, "keep/a", "1", "2", "3", qos=1)
        publish(writer, "kept", "4", qos=1, retain=True)
        got: dict[str, str] = {}

        wanted = {
            "$SYS/broker/messages/stored": "4",
            "$SYS/broker/clients/disconnected": "1",
            "$SYS/broker/retained messages/count": "1",
            "$SYS/bascule/sessions/kept": "1",
        }

        def told() -> bool:
            """The store and the Listener each tell of theirs when it is their time."""
            got.update(values(node))
            return got.keys() >= KNOWN and wanted.items() <= got.items() and int(got["$SYS/broker/publish/messages/received"]) >= 4

        wait_until(told, 20.0, lambda: f"the figures, last {got}")
    assert got["$SYS/broker/version"].startswith("bascule version ")
    assert got["$SYS/broker/uptime"].endswith(" seconds")
    assert int(got["$SYS/broker/messages/received"]) > int(got["$SYS/broker/publish/messages/received"])
    assert int(got["$SYS/broker/bytes/sent"]) > int(got["$SYS/broker/messages/sent"]) > 0
    assert got["$SYS/bascule/bridge/cloud/0/connected"] == "0"
    assert got["kept"] == "4", "other retained messages come as ever"


@pytest.mark.parametrize("version", [4, 5])
def test_a_wildcard_in_front_does_not_match_sys(node: Node, version: int) -> None:
    """[MQTT-4.7.2-1]"""
    with MqttClient(node.port, f"all-{version}", version=version) as every, MqttClient(node.port, f"sys-{version}") as witness:
        assert every.subscribe("#", "+/broker/uptime").reason_codes == (0, 0)
        witness.subscribe("$SYS/broker/uptime")
        for _ in range(3):
            assert witness.expect(PUBLISH).topic == "$SYS/broker/uptime"
        publish_once(node.port, f"end-{version}", "end")
        while (message := take_one(every)).payload != b"end":
            assert not message.topic.startswith("$SYS"), message


def test_subscription_options_hold_for_sys(node: Node) -> None:
    with MqttClient(node.port, "options", version=5) as subscriber:
        subscriber.subscribe("$SYS/broker/uptime", options=NEVER)
        live = take_one(subscriber)
        assert (live.topic, live.retain, live.qos) == ("$SYS/broker/uptime", False, 0)
    with MqttClient(node.port, "options", version=5) as subscriber:
        subscriber.subscribe("$SYS/broker/version", qos=2, options=RETAIN_AS_PUBLISHED, identifier=9)
        for _ in range(3):
            message = take_one(subscriber)
            assert (message.topic, message.retain, message.qos, message.property(11)) == ("$SYS/broker/version", True, 0, 9)


def test_values_reach_a_session_that_lasts_on_its_next_connection(node: Node) -> None:
    with MqttClient(node.port, "lasting", clean=False, version=4) as subscriber:
        subscriber.subscribe("$SYS/broker/clients/connected", qos=1)
    with MqttClient(node.port, "lasting", clean=False, version=4) as subscriber:
        assert take_one(subscriber).topic == "$SYS/broker/clients/connected"


@pytest.mark.parametrize("version", [4, 5])
def test_no_client_publishes_to_sys(node: Node, version: int) -> None:
    """routing.sys-stays-here: it is acknowledged and dropped at 3.1.1, refused with 0x87 at MQTT 5; the connection goes on."""
    code = 0x87 if version == 5 else 0
    with MqttClient(node.port, f"liar-{version}", version=version) as liar, MqttClient(node.port, f"sees-{version}") as witness:
        witness.subscribe("$SYS/lie", "end")
        for retain in (False, True):
            assert liar.expect(PUBACK, packet_id=liar.publish("$SYS/lie", "1", qos=1, retain=retain)).reason_code == code
            packet_id = liar.publish("$SYS/lie", "2", qos=2, retain=retain)
            assert liar.expect(PUBREC, packet_id=packet_id).reason_code == code
            if version == 4:
                liar.acknowledge(PUBREL, packet_id)
                liar.expect(PUBCOMP, packet_id=packet_id)
        liar.publish("$SYS/lie", "0")
        publish(liar, "end", "end", qos=1)
        assert take_one(witness).payload == b"end"
        witness.subscribe("$SYS/lie")
        witness.ping()


def test_members_of_a_shared_subscription_get_the_values_in_turn(node: Node) -> None:
    with MqttClient(node.port, "share-1", version=5) as first, MqttClient(node.port, "share-2", version=5) as second:
        for member in (first, second):
            member.subscribe("$share/g/$SYS/broker/uptime", options=RETAIN_AS_PUBLISHED)
        for member in (first, second):
            assert [take_one(member).topic for _ in range(2)] == ["$SYS/broker/uptime"] * 2


def test_a_new_process_has_values_for_whoever_subscribes(node: Node) -> None:
    node.wait_replaced("clients", node.kill("clients"))

    with MqttClient(node.port, "after", version=5) as client:
        client.subscribe("$SYS/broker/clients/connected", options=RETAIN_AS_PUBLISHED)
        assert take_one(client).topic == "$SYS/broker/clients/connected"


def test_a_bridge_gets_nothing_of_sys(node: Node) -> None:
    """routing.sys-stays-here: not even where its rule says ``$SYS/#``, and after clients have tried and values were sent."""
    with MqttClient(node.port, "before-bridge") as witness, MqttClient(node.port, "liar") as liar:
        witness.subscribe("$SYS/broker/uptime")
        publish(liar, "$SYS/broker/uptime", "lie", qos=1)
        for _ in range(3):
            assert take_one(witness).payload.endswith(b" seconds")
    lane = node.lane("cloud")
    assert (lane["accepted"], lane["dropped"]) == (0, {})


def test_without_a_period_there_is_nothing_and_still_nobody_publishes(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Node(node_config(clients={"sys_period": "0s"}), tmp_path_factory.mktemp("quiet")) as node:
        assert values(node) == {}
        with MqttClient(node.port, "liar", version=5) as liar:
            assert liar.expect(PUBACK, packet_id=liar.publish("$SYS/lie", "1", qos=1)).reason_code == 0x87
