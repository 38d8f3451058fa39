"""Rings of two and three brokers, each message once everywhere: real nodes that bridge all topics both ways, and Mosquitto 2.0."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from supervisor.config.loading import load
from supervisor.doctor.rules import examine_circles
from tests.bridge.test_remote_subscriptions import publish, subscribed
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_still, wait_until

LINES = [f"m{number}" for number in range(10)]


def both_ways(name: str, port: int, protocol: str, private: bool, owner: str) -> Config:
    """A bridge of everything, both ways."""
    remote = {"client_id": f"{owner}-{name}", "try_private": private}
    return bridge_config(name, port, protocol=protocol, remote=remote, remote_subscriptions=[{"filters": ["#"]}])


@pytest.mark.parametrize(("protocol", "private"), [("mqtt311", True), ("mqtt311", False), ("mqtt5", True)])
def test_in_a_ring_each_message_is_once_everywhere(
    tmp_path: Path, mosquitto_path: str | None, protocol: str, private: bool
) -> None:
    """One and two bridge to each other; one and two bridge to a Mosquitto. The ring of two is part of that of three.

    private: whether Mosquitto is told that bridges come; otherwise it sends echoes.

    routing.ring-copies-left-out: equal messages of one publisher are as many everywhere.
    """
    with ExitStack() as stack:
        mosquitto = stack.enter_context(
            Mosquitto(tmp_path / "mosquitto", max_inflight_messages=0, max_queued_messages=0, path=mosquitto_path)
        )
        one, two = Node({}, tmp_path / "one"), Node({}, tmp_path / "two")
        rings = {"window": "60s"}

        def to(name: str, port: int, owner: str) -> Config:
            return both_ways(name, port, protocol, private or name != "mosquitto", owner)

        one.configure(node_config(to("two", two.port, "one"), to("mosquitto", mosquitto.port, "one"), rings=rings))
        two.configure(node_config(to("one", one.port, "two"), to("mosquitto", mosquitto.port, "two"), rings=rings))
        for node in (one, two):
            stack.enter_context(node)
        for node, bridge in ((one, "two"), (one, "mosquitto"), (two, "one"), (two, "mosquitto")):
            subscribed(node, bridge)
        ports = {"one": one.port, "two": two.port, "mosquitto": mosquitto.port}
        heard = {name: stack.enter_context(Subscriber(port, "from/#")) for name, port in ports.items()}

        for qos, (name, port) in enumerate(ports.items()):
            publish(port, f"from/{name}", [*LINES, LINES[-1]], qos=qos)

        for there, subscriber in heard.items():
            for name in ports:
                wait_until(
                    lambda heard=subscriber, name=name: len(heard.payloads(f"from/{name}")) > len(LINES),  # type: ignore[misc]
                    20.0,
                    lambda there=there, name=name: f"all from {name} at {there}",  # type: ignore[misc]
                )
        wait_still(lambda: sum(each.count() for each in heard.values()), period_s=0.5)
        for there, subscriber in heard.items():
            for name in ports:
                assert subscriber.payloads(f"from/{name}") == [*LINES, LINES[-1]], f"from {name} at {there}"


@pytest.mark.parametrize("private", [True, False])
def test_what_several_lanes_have_sent_and_the_remote_sends_to_the_first_is_left_out(tmp_path: Path, private: bool) -> None:
    """A remote of MQTT 3.1.1 knows one of the lanes for the bridge at most: the others' messages come back to that."""
    with (
        Mosquitto(tmp_path / "mosquitto", max_inflight_messages=0, max_queued_messages=0) as remote,
        ExitStack() as stack,
    ):
        bridge = {**both_ways("cloud", remote.port, "mqtt311", private, "one"), "lanes": 3}
        node = stack.enter_context(Node(node_config(bridge, rings={"window": "60s"}), tmp_path / "one"))
        subscribed(node, "cloud")
        topics = [f"t/{number}" for number in range(9)]
        with Subscriber(node.port, "#") as here, Subscriber(remote.port, "#") as there:
            for topic in topics:
                publish(node.port, topic, LINES, qos=1)
            publish(remote.port, "u", LINES, qos=1)
            for topic in (*topics, "u"):
                for each in (here, there):
                    assert each.wait_for(topic, LINES).are_exact()
            wait_until(lambda: node.status()["distributor"]["copies"] >= len(LINES), 20.0, "some came back")
            wait_still(lambda: here.count() + there.count(), period_s=0.5)
            assert (here.count(), there.count()) == (10 * len(LINES), 10 * len(LINES))


@pytest.mark.parametrize(
    ("protocol", "max_hops", "rings", "verdicts"),
    [("mqtt311", 1, "0s", ["warn"]), ("mqtt311", 1, "60s", []), ("mqtt311", 2, "60s", ["fail"]), ("mqtt5", 2, "0s", [])],
)
def test_what_one_bridge_brings_of_what_another_sends_comes_as_often_as_doctor_says(
    tmp_path: Path, protocol: str, max_hops: int, rings: str, verdicts: list[str]
) -> None:
    """Both to one Mosquitto, which takes them for two clients. warn: once more; fail: without end; neither: once."""
    with (
        Mosquitto(tmp_path / "mosquitto", max_inflight_messages=0, max_queued_messages=0) as remote,
        ExitStack() as stack,
    ):
        brings = bridge_config("brings", remote.port, protocol=protocol, remote_subscriptions=[{"filters": ["#"]}])
        del brings["local_subscriptions"]
        sends = bridge_config("sends", remote.port, protocol=protocol, loop_prevention={"max_hops": max_hops})
        node = stack.enter_context(Node(node_config(brings, sends, rings={"window": rings}), tmp_path / "one"))
        subscribed(node, "brings")
        found = list(examine_circles(load(node.config_path)))
        assert [finding.verdict for finding in found] == verdicts
        assert all("where bridge sends sends #" in finding.found for finding in found)
        with Subscriber(node.port, "t") as here, Subscriber(remote.port, "t") as there:
            publish(node.port, "t", ["here"], qos=1)
            times = 2 if "warn" in verdicts else 1
            wait_until(lambda: here.count() >= times and there.count() > 0, 20.0, lambda: f"{here.count()}, {there.count()}")
            publish(remote.port, "t", ["there"], qos=1)
            wait_until(lambda: "there" in here.payloads("t"), 20.0, "what the remote has")
            if "fail" in verdicts:
                wait_until(lambda: here.count() > 20, 20.0, lambda: f"{here.count()} rounds")
            else:
                wait_still(lambda: here.count() + there.count(), period_s=0.5)
                assert Counter(here.payloads("t")) == {"here": times, "there": 1}


def test_by_mqtt_5_a_mosquitto_that_dials_into_a_ring_makes_one_copy_more_at_most(
    tmp_path: Path, mosquitto_path: str | None
) -> None:
    """It bridges to both nodes, which bridge to each other; what comes back to it and leaves it again has crossed a bridge."""
    with ExitStack() as stack:
        one, two = Node({}, tmp_path / "one"), Node({}, tmp_path / "two")
        one.configure(node_config(both_ways("two", two.port, "mqtt5", True, "one"), rings={"window": "60s"}))
        two.configure(node_config(rings={"window": "60s"}))
        lines = []
        for node in (one, two):
            stack.enter_context(node)
            lines += [
                f"connection to-{node.port}",
                f"address 127.0.0.1:{node.port}",
                "topic # both 2",
                "bridge_protocol_version mqttv50",
            ]
        subscribed(one, "two")
        front = stack.enter_context(Mosquitto(tmp_path / "mosquitto", lines=lines, path=mosquitto_path))
        # At two there is the bridge of one besides.
        for node, bridges in ((one, 1), (two, 2)):
            wait_until(
                lambda node=node, bridges=bridges: node.status()["distributor"]["subscriptions"] >= bridges,  # type: ignore[misc]
                20.0,
                lambda node=node: node.output[-2000:],  # type: ignore[misc]
            )
        ports = {"one": one.port, "two": two.port, "mosquitto": front.port}
        heard = {name: stack.enter_context(Subscriber(port, "from/#")) for name, port in ports.items()}

        for name, port in ports.items():
            publish(port, f"from/{name}", LINES, qos=1)

        for subscriber in heard.values():
            for name in ports:
                subscriber.wait_for(f"from/{name}", LINES)
        wait_still(lambda: sum(each.count() for each in heard.values()), period_s=1.0)
        for there, subscriber in heard.items():
            for name in ports:
                times = Counter(subscriber.payloads(f"from/{name}"))
                assert set(times) == set(LINES), f"from {name} at {there}"
                assert max(times.values()) <= 2, f"from {name} at {there}"
