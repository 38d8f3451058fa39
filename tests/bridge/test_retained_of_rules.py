"""``retained`` of a rule: what was retained before the rule, or before the remote's session, comes there too
(store.rule-brings-once).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, publish
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until
from wire.frames.names import STORE

COUNT = 330  # more than one piece
RULE: dict[str, Any] = {"filters": ["plant/#", "plant/1/#", "hall/+"], "excludes": ["plant/0/#"], "retained": "send-once"}


def bridged(port: int, **rule: Any) -> Config:
    """A node with a bridge of one rule."""
    return node_config(bridge_config("cloud", port, lanes=2, local_subscriptions=[{**RULE, **rule}]))


def retain(node: Node, count: int = COUNT) -> set[str]:
    """Have the node retain something; the topics that the rule takes."""
    topics = [f"plant/{number % 3}/{number}" for number in range(count)]
    with MqttClient(node.port, "retains") as client:
        for number, topic in enumerate(topics):
            publish(client, topic, "old", qos=number % 3, retain=True)
        publish(client, "hall/3", "old", qos=1, retain=True)
        publish(client, "elsewhere", "old", qos=1, retain=True)
        client.disconnect()
    return {topic for topic in topics if not topic.startswith("plant/0/")} | {"hall/3"}


def counts(subscriber: Subscriber) -> Counter[str]:
    """How often something came, by topic."""
    return Counter(packet.topic for packet in subscriber.packets)


def wait_for(subscriber: Subscriber, wanted: set[str], times: int = 1) -> None:
    """Wait until these topics, and no others, have come so often."""
    expected = Counter(dict.fromkeys(wanted, times))
    wait_until(lambda: counts(subscriber) == expected, 30.0, lambda: f"missing {len(expected - counts(subscriber))} topics")


def total(node: Node, figure: str) -> int:
    """Of both lanes."""
    return sum(node.lane("cloud", lane)[figure] for lane in range(2))


def test_a_rule_brings_once_what_was_there_before(remote: Mosquitto, start_node: StartNode) -> None:
    """A rule comes by a reload; the node starts again; the rule becomes another one. The ledgers close, and tell what it was."""
    with Subscriber(remote.port, "plant/#", "hall/#", "elsewhere", "moved/#") as subscriber:
        node = start_node(bridged(remote.port, retained="never"))
        wanted = retain(node)
        wait_for(subscriber, wanted)  # as they are published
        node.configure(bridged(remote.port))
        assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
        wait_for(subscriber, wanted, 2)
        node.stop()
        node.start()
        with MqttClient(node.port) as client:
            publish(client, "plant/1/new", "live", qos=1)
        wait_until(lambda: counts(subscriber)["plant/1/new"] == 1, 20.0, "a live message")
        assert max(counts(subscriber).values()) == 2
        assert total(node, "from_retained") == len(wanted)
        assert all(node.lane("cloud", lane)["ledger_closes"] for lane in range(2))
        node.configure(bridged(remote.port, destination="moved/{#}"))
        assert node.cli("reload", str(node.config_path), "--wait", "--yes").returncode == 0
        wait_until(lambda: sum(topic.startswith("moved/") for topic in counts(subscriber)) == len(wanted), 30.0, "all anew")


def test_it_comes_whole_and_once_whoever_is_killed(remote: Mosquitto, start_node: StartNode) -> None:
    """store.rule-brings-once: QoS 1 and 2, by the queue's own count; the link is slow, so that there is something to interrupt."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "plant/#", "hall/#") as subscriber:
        node = start_node(node_config())
        wanted = retain(node)
        proxy.delay(0.05)
        node.configure(bridged(proxy.port, min_qos=1))
        assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
        wait_until(lambda: subscriber.count() > 0, 20.0, "the first")
        node.kill(STORE)
        wait_until(lambda: subscriber.count() > COUNT // 4, 20.0, "some")
        node.kill_supervisor()
        proxy.delay(0.0)
        node.start()
        wait_until(lambda: counts(subscriber).keys() == wanted, 30.0, lambda: f"{len(wanted - counts(subscriber).keys())} missing")
        wait_until(lambda: total(node, "depth") == 0, 20.0, "nothing left")
        assert total(node, "accepted") == total(node, "from_retained") == len(wanted)
        assert all(packet.qos for packet in subscriber.packets)


def test_a_live_message_is_not_overtaken_by_what_was_retained_before_it(remote: Mosquitto, start_node: StartNode) -> None:
    """store.pass-goes-on: the link is down, so no turn has come; the live messages wait, each behind the older value."""
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "plant/#", "hall/#") as subscriber:
        node = start_node(node_config())
        wanted = retain(node, 30)
        proxy.cut()
        node.configure(bridged(proxy.port))
        assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
        with MqttClient(node.port) as client:
            publish(client, "hall/3", "live", "newer", qos=1)
            publish(client, "plant/1/1", "newest", qos=1, retain=True)
        proxy.restore()
        wait_until(lambda: counts(subscriber).keys() == wanted, 20.0, lambda: f"{counts(subscriber)}")
        assert subscriber.wait_for("hall/3", ["old", "live", "newer"]).are_exact()
        assert subscriber.wait_for("plant/1/1", ["old", "newest"]).are_exact()


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_each_new_session_of_the_remote_gets_all_again(tmp_path: Any, start_node: StartNode, protocol: str) -> None:
    """A remote that keeps nothing starts again: it has forgotten the session, and what it had retained. A cut changes nothing."""
    with Mosquitto(tmp_path / "forgets") as forgetful, Proxy(forgetful.port) as proxy:
        node = start_node(node_config())
        wanted = retain(node, 30)
        rule = {**RULE, "retained": "at-each-session"}
        node.configure(node_config(bridge_config("cloud", proxy.port, protocol=protocol, local_subscriptions=[rule])))
        assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
        node.wait_lane_until(lambda lane: lane["from_retained"] == len(wanted) and not lane["depth"], "all")
        proxy.cut()
        node.wait_lane_until(lambda lane: lane["link"]["state"] != "connected", "the cut to be seen")
        proxy.restore()
        node.wait_lane_until(lambda lane: lane["link"]["connections"] == 2, "the link again")
        assert node.lane("cloud")["from_retained"] == len(wanted)
        forgetful.kill()
        forgetful.start()
        node.wait_lane_until(lambda lane: lane["from_retained"] == 2 * len(wanted) and not lane["depth"], "all again")
        with Subscriber(forgetful.port, "plant/#", "hall/#") as late:
            wait_for(late, wanted)
            assert all(packet.retain for packet in late.packets)


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_each_address_that_the_link_moves_to_gets_all(tmp_path: Any, start_node: StartNode, protocol: str) -> None:
    """To the second when the way to the first is cut, and back: the first had a session of ours, and has a new one then."""
    with (
        Mosquitto(tmp_path / "first") as first,
        Mosquitto(tmp_path / "second") as second,
        Proxy(first.port) as way,
        Subscriber(first.port, "plant/#", "hall/#") as at_first,
        Subscriber(second.port, "plant/#", "hall/#") as at_second,
    ):
        node = start_node(node_config())
        wanted = retain(node, 30)
        rule = {**RULE, "retained": "at-each-session"}
        remote = {"addresses": [f"127.0.0.1:{way.port}", f"127.0.0.1:{second.port}"], "primary_retry": "1s"}
        node.configure(node_config(bridge_config("cloud", way.port, protocol=protocol, remote=remote, local_subscriptions=[rule])))
        assert node.cli("reload", str(node.config_path), "--wait").returncode == 0
        wait_for(at_first, wanted)
        way.cut()
        wait_for(at_second, wanted)
        way.restore()
        wait_for(at_first, wanted, 2)
        row = node.wait_lane("cloud", state="connected", depth=0, ledger_closes=True)
        assert row["link"]["address"] == f"127.0.0.1:{way.port}"
        assert row["from_retained"] == 3 * len(wanted)
        wait_for(at_second, wanted)
