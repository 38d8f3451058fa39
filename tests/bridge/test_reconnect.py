"""The remote goes and comes: order over Tier 2 and Tier 1, the series of delays, half-open links, memory while messages wait."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

MEGABYTE = 1_000_000


def publish_numbers(port: int, topic: str, numbers: range, *, size_bytes: int = 0, window: int = 1000) -> None:
    """Publish each number at QoS 1, padded to ``size_bytes``, and return when all are acknowledged."""
    with MqttClient(port, "filler") as client:
        waiting = 0
        for start in range(numbers.start, numbers.stop, window // 2):
            burst = range(start, min(start + window // 2, numbers.stop))
            client.send(b"".join(client.encode_publish(topic, str(number).ljust(size_bytes), 1) for number in burst))
            waiting += len(burst)
            while waiting > window // 2:
                client.expect(PUBACK)
                waiting -= 1
        for _ in range(waiting):
            client.expect(PUBACK)


@pytest.mark.parametrize("qos", [1, 2])
def test_tier_2_goes_out_first_and_order_holds(tmp_path: Path, start_node: StartNode, qos: int) -> None:
    """The link stands and carries nothing: some messages are in hand, some wait in Tier 2, the others in Tier 1."""
    count = 3000  # in hand are 2,048 at least
    with (
        Mosquitto(tmp_path / "remote", max_inflight_messages=0, max_queued_messages=0) as remote,
        Proxy(remote.port) as proxy,
        Subscriber(remote.port, "#") as subscriber,
    ):
        tight = {"receive_maximum": 100}
        node = start_node(node_config(bridge_config("cloud", proxy.port, tier2={"max_messages": 50}, remote=tight)))
        node.wait_lane("cloud", state="connected")
        proxy.stall()
        numbers = [str(number) for number in range(count)]
        mosquitto_pub(node.port, "t", numbers[:2500], qos=qos)
        row = node.wait_lane_until(lambda row: row["depth"] == 2500 and row["tier2"]["messages"] > 0, "messages in both tiers")
        assert row["tier2"]["messages"] < 2500 - 2048, "its limit and at most one chunk"
        proxy.restore()
        mosquitto_pub(node.port, "t", numbers[2500:], qos=qos)
        arrivals = subscriber.wait_for("t", numbers)
        assert arrivals.are_exact(), arrivals
        node.wait_lane_until(lambda row: row["depth"] == row["tier2"]["messages"] == 0, "nothing in either tier")


def test_a_link_that_flaps_loses_nothing(remote: Mosquitto, start_node: StartNode) -> None:
    """Ten cuts under load: QoS 2 each once, in order."""
    numbers = [str(number) for number in range(500)]
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        node = start_node(node_config(bridge_config("cloud", proxy.port)))
        for cut in range(10):
            mosquitto_pub(node.port, "t", numbers[cut * 50 : cut * 50 + 50], qos=2)
            wait_until(lambda: subscriber.count() > cut * 50, 10.0, "some of the new messages")  # noqa: B023  # used at once
            proxy.cut()
            node.wait_lane_until(lambda row: row["state"] != "connected", "the bridge notices the cut")
            proxy.restore()
        arrivals = subscriber.wait_for("t", numbers)
        assert arrivals.are_exact(), arrivals
        assert node.wait_lane("cloud", depth=0)["ledger_closes"] is True


def test_a_half_open_link_is_noticed_and_made_again(remote: Mosquitto, start_node: StartNode) -> None:
    """Nothing closes the connection; the missing acknowledgements do, after ``stall_timeout``."""
    numbers = [str(number) for number in range(100)]
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        node = start_node(node_config(bridge_config("cloud", proxy.port, remote={"stall_timeout": "1s"})))
        node.wait_lane("cloud", state="connected")
        proxy.stall()
        mosquitto_pub(node.port, "t", numbers, qos=1)
        node.wait_lane_until(lambda row: row["state"] != "connected", "the stalled exchange is noticed")
        proxy.restore()
        arrivals = subscriber.wait_for("t", numbers)
        assert arrivals.are_complete(), arrivals


def test_the_delays_between_attempts_grow_by_the_factor(tmp_path: Path, start_node: StartNode) -> None:
    """Each attempt that fails says how long it will wait: 100, 200, 400, 800 ms, then 800, each and up to 25 % more."""
    remote = Mosquitto(tmp_path / "remote")  # never started
    backoff = {"initial": "100ms", "max": "800ms", "factor": 2, "jitter": 0.25, "stable": "1s"}
    node = start_node(node_config(bridge_config("cloud", remote.port, backoff=backoff)))
    wait_until(lambda: len(delays_s(node.output)) >= 6, 15.0, lambda: f"six attempts\n{node.output[-3000:]}")
    for delay_s, nominal_s in zip(delays_s(node.output), (0.1, 0.2, 0.4, 0.8, 0.8, 0.8), strict=False):
        assert nominal_s - 0.001 <= delay_s <= 1.25 * nominal_s + 0.001


def delays_s(output: str) -> list[float]:
    """The delays that the node's log says it waits before the next attempts."""
    found = []
    for line in output.splitlines():
        if line.startswith("{") and line.endswith("}"):
            event = json.loads(line)
            if str(event.get("event", "")).startswith("bridge.") and "delay_s" in event:
                found.append(float(event["delay_s"]))
    return found


def test_memory_stays_bounded_while_the_remote_is_away(
    tmp_path: Path, start_node: StartNode, soak: bool, record_property: Callable[[str, object], None]
) -> None:
    """The store grows by less than 150 MB over 1,000,000 messages (``--soak``); here over 100,000."""
    count = 1_000_000 if soak else 100_000
    remote = Mosquitto(tmp_path / "remote")  # away all the time
    node = start_node(node_config(bridge_config("cloud", remote.port)))
    publish_numbers(node.port, "t", range(1000), size_bytes=256)
    before = node.rss_bytes()
    publish_numbers(node.port, "t", range(1000, count), size_bytes=256)
    grown = {name: (now - before[name]) / MEGABYTE for name, now in node.rss_bytes().items()}
    record_property("grown_mb", grown)
    assert node.wait_lane("cloud", depth=count)["ledger_closes"] is True
    store = node.hosts()["queue_store"]
    assert grown[store] < 150
    assert all(megabytes < 60 for name, megabytes in grown.items() if name != store), grown
