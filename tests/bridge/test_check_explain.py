"""``bascule check --explain`` says what a real node does then: a real Mosquitto is the remote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.main import main
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

RULES = [
    {"name": "alarms", "filters": ["plant/+/alarm/#"], "destination": "alarms/{2}"},
    {
        "name": "measured",
        "filters": ["plant/#"],
        "excludes": ["plant/+/debug"],
        "destination": "site/{2-#}",
        "min_qos": 1,
        "max_qos": 1,
        "preserve_retain": False,
    },
]
ACL = [{"permission": "deny", "topics": ["plant/secret/#"], "users": ["bob"]}, {"topics": ["#"]}]


def configuration(port: int) -> dict[str, Any]:
    """Bridge ``cloud`` by rules, and ``live``, which takes all and keeps nothing on disk."""
    every = [{"name": "every", "filters": ["#"], "destination": "live/{#}"}]
    return node_config(
        bridge_config("cloud", port, lanes=2, local_subscriptions=RULES, limits={"max_messages": 7}),
        bridge_config("live", port, persist=False, local_subscriptions=every),
        access={"allow_anonymous": True, "acl": ACL},
    )


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("remote")) as broker:
        yield broker


@pytest.fixture(scope="module")
def node(remote: Mosquitto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(configuration(remote.port), tmp_path_factory.mktemp("explained")) as node:
        for bridge in ("cloud", "live"):
            node.wait_lane(bridge, state="connected")
        yield node


def explained(capsys: pytest.CaptureFixture[str], config: Path, *words: str) -> Any:
    assert main(["check", str(config), "--json", "--explain", *words]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("qos", [0, 2])
@pytest.mark.parametrize("topic", ["plant/1/temp", "plant/2/alarm/fire", "plant/3/debug", "other"])
def test_what_arrives_is_what_was_said(
    node: Node, remote: Mosquitto, topic: str, qos: int, retain: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    told = explained(capsys, node.config_path, topic, "--qos", str(qos), *(["--retain"] if retain else []))
    ways = [bridge["way"] for bridge in told["bridges"] if bridge["way"]]
    payload = f"{topic} {qos} {retain}"
    with (
        Subscriber(remote.port, "#", client_id="far") as far,
        MqttClient(node.port, client_id="near", version=5) as publisher,
    ):
        publisher.publish(topic, payload, qos=qos, packet_id=1 if qos else None, retain=retain)

        def came() -> set[tuple[str, int]]:
            return {(one.topic, one.qos) for one in far.packets if one.payload == payload.encode()}

        wait_until(lambda: came() == {(way["topic"], way["qos"]) for way in ways}, 20.0, lambda: f"{ways}: {came()}")
    with (
        Subscriber(remote.port, "#", client_id=f"later-{payload}".replace("/", "-")) as later,
        MqttClient(remote.port, client_id="beside", version=5) as beside,
    ):
        beside.publish("behind/what/was/retained", payload)
        wait_until(lambda: later.payloads("behind/what/was/retained") == [payload], 20.0, "the message behind all that is retained")
    kept = {one.topic for one in later.packets if one.payload == payload.encode()} - {"behind/what/was/retained"}
    assert kept == {way["topic"] for way in ways if way["retain"]}


def test_where_it_waits_is_where_it_is_queued(remote: Mosquitto, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The remote of these bridges is not there, so all of it waits."""
    with Node(configuration(free_port()), tmp_path) as node:
        told = explained(capsys, node.config_path, "plant/1/temp")
        way = told["bridges"][0]["way"]
        with MqttClient(node.port, client_id="near", version=5) as publisher:
            publisher.publish("plant/1/temp", "1")
        node.wait_lane("cloud", lane=way["lane"], depth=1)
        assert (way["queue"], way["raised"], way["kept"]) == (f"bridge:cloud:{way['lane']}", True, "disk")
        limits = told["bridges"][0]["limits"]
        assert (limits["max_messages"], limits["volatile_max_bytes"], limits["overflow"]) == (7, None, "drop-newest")
        assert (told["bridges"][1]["way"]["qos"], told["bridges"][1]["way"]["kept"]) == (0, "memory")


def test_text_says_why_not_and_whose_list_was_looked_at(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(node.config_path), "--explain", "plant/secret/debug"]) == 0
    text = capsys.readouterr().out
    assert "access control lists: not looked at" in text
    assert "rule measured does not: its exclude plant/+/debug matches" in text
    assert "rule alarms does not: plant/+/alarm/# has 'alarm' at level 3, the topic 'debug'" in text
    assert "leaves as live/plant/secret/debug, QoS 0" in text
    for words, may in ((["--user", "bob"], "may not"), (["--user", "eve"], "may"), (["--client-id", "bob"], "may")):
        assert main(["check", str(node.config_path), "--explain", "plant/secret/debug", *words]) == 0
        assert f"the client {may} publish it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--explain", "plant/#"], "MQTT-3.3.2-2 wildcard in a topic name; ask about one topic"),
        (["--explain", ""], "MQTT-4.7.3-1 empty topic name"),
        (["--explain", "x" * 70_000], "MQTT-4.7.3-3"),
        (["--explain", "a\udcff"], "this is not UTF-8"),
        (["--qos", "1"], "are for --explain TOPIC"),
        (["--user", "bob"], "are for --explain TOPIC"),
    ],
)
def test_what_is_no_topic_is_wrong_usage(tmp_path: Path, words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    no_matter = tmp_path / "no-matter.yaml"
    no_matter.touch()
    assert main(["check", str(no_matter), *words]) == 2
    assert why in capsys.readouterr().err
