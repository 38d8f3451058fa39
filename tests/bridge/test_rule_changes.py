"""Rules that change while messages wait: what waits goes where its rule said when it was taken, and nowhere else (P7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

EACH = 20
TOPICS = ("a/1", "b/1", "c/1")
A: Config = {"filters": ["a/#"], "destination": "by-a/{#}"}
B: Config = {"filters": ["b/#"], "destination": "by-b/${bridge.name}/{2}"}
C: Config = {"filters": ["c/#"], "destination": "by-c/{#}"}
OVER_A: Config = {"filters": ["a/#"], "destination": "over-a/{#}"}
BEFORE = {"a/1": "by-a/a/1", "b/1": "by-b/cloud/1"}

# The changes of the rules A and B; where each topic goes from then on; the rules that are not in the file any more.
CHANGES: dict[str, tuple[Sequence[Config], dict[str, str], set[str]]] = {
    "inserted above": ((C, A, B), {**BEFORE, "c/1": "by-c/c/1"}, set()),
    "inserted above, with the same topics": ((OVER_A, A, B), {**BEFORE, "a/1": "over-a/a/1"}, set()),
    "swapped": ((B, A), BEFORE, set()),
    "removed": ((B,), {"b/1": "by-b/cloud/1"}, {"a"}),
    "edited": (({**A, "destination": "edited/{#}"}, B), {**BEFORE, "a/1": "edited/a/1"}, {"a"}),
    "replaced by one": (({"filters": ["#"], "destination": "all/{#}"},), {topic: f"all/{topic}" for topic in TOPICS}, {"a", "b"}),
}


def with_rules(port: int, rules: Sequence[Config], *, names: bool) -> Config:
    """A node with one bridge of these ``rules``. names: each is called by the first letter of where it takes from."""
    rules = [{"name": rule["destination"].split("/")[0], **rule} if names else rule for rule in rules]
    return node_config(bridge_config("cloud", port, local_subscriptions=rules))


def publish(node: Node, text: str) -> None:
    """So many to every topic, at QoS 1 and 2, acknowledged."""
    with MqttClient(node.port, "filler") as client:
        for topic in TOPICS:
            for qos in (1, 2):
                client.publish_burst(topic, [f"{text} {qos} {number}" for number in range(EACH)], qos=qos)


def arriving(text: str, goes: dict[str, str]) -> Counter[tuple[str, str]]:
    """The result of ``publish``: topic at the remote and payload."""
    return Counter((topic, f"{text} {qos} {number}") for topic in goes.values() for qos in (1, 2) for number in range(EACH))


@pytest.mark.parametrize("names", [False, True], ids=["unnamed", "named"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_waits_goes_where_its_rule_said_when_it_was_taken(
    remote: Mosquitto, start_node: StartNode, change: str, names: bool
) -> None:
    rules, after, gone = CHANGES[change]
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(with_rules(proxy.port, (A, B), names=names))
        publish(node, "before")
        assert node.stop() == 0
        node.configure(with_rules(proxy.port, rules, names=names))
        node.start()
        publish(node, "after")
        said = node.lane("cloud")["former_rules"]
        assert {rule["destination"] for rule in said} == {
            A["destination"] if letter == "a" else "by-b/cloud/{2}" for letter in gone
        }
        told = node.cli("status", str(node.config_path)).stdout
        assert ("former rules" in told) == bool(gone), told

        proxy.restore()
        wanted = arriving("before", BEFORE) + arriving("after", after)
        wait_until(lambda: subscriber.count() >= wanted.total(), 60.0, lambda: f"{subscriber.count()} of {wanted.total()}")
        node.wait_lane("cloud", depth=0, former_rules=[])
        assert Counter((packet.topic, packet.payload.decode()) for packet in subscriber.packets) == wanted
        assert node.lane("cloud")["ledger_closes"] is True


def test_what_waits_for_a_bridge_that_was_taken_out_goes_where_its_rule_said_once_it_is_back(
    remote: Mosquitto, start_node: StartNode
) -> None:
    """It comes back with other rules."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(with_rules(proxy.port, (A, B), names=True))
        publish(node, "before")
        assert node.stop() == 0
        node.configure(node_config())
        node.start()
        assert [row["queue"] for row in node.status()["unserved"]] == ["bridge:cloud:0"]
        assert node.stop() == 0
        node.configure(with_rules(proxy.port, (OVER_A, C), names=True))
        node.start()
        proxy.restore()
        wanted = arriving("before", BEFORE)
        wait_until(lambda: subscriber.count() >= wanted.total(), 60.0, lambda: f"{subscriber.count()} of {wanted.total()}")
        node.wait_lane("cloud", depth=0, former_rules=[])
        assert Counter((packet.topic, packet.payload.decode()) for packet in subscriber.packets) == wanted
