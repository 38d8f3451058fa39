"""A real node whose telemetry may wait for half a minute, and whose alarms may not: by a listener of their own, or by their bridge.

All of it is one connection's or another's to the same store: what is strict is acknowledged at once, and takes along what waits.
"""

from __future__ import annotations

from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import bridge_config, node_config
from tests.support.ports import free_port

SLOW = {"flush_period": "60s", "sync": "os"}


def test_alarms_do_not_wait_for_the_flush_period_of_telemetry(start_node: StartNode) -> None:
    """No acknowledgement that is waited for here comes within its deadline by the flush period."""
    alarms_port, port = free_port(), free_port()
    config = node_config(
        bridge_config("telemetry", free_port(), local_subscriptions=[{"filters": ["t/#"]}], durability=SLOW),
        bridge_config("alarms", free_port(), local_subscriptions=[{"filters": ["a/#"]}]),
        listeners=[{"bind": f"127.0.0.1:{port}", "durability": SLOW}, {"bind": f"127.0.0.1:{alarms_port}"}],
    )
    node = start_node(config)
    told = node.status()["store"]["durability"]
    assert told["bridge telemetry"] == "acknowledge after-commit, flush_period 60s, sync os"
    assert told[f"listener 127.0.0.1:{alarms_port}"] == "acknowledge after-commit, flush_period 0s, sync full"
    assert node.cli("check", str(node.config_path)).stdout.count("warning:") == 2

    with MqttClient(port, "machine") as machine, MqttClient(alarms_port, "guard") as guard:
        machine.publish("a/first", b"1", qos=1, packet_id=1)
        machine.expect(PUBACK, 1)  # a commit has just been
        machine.publish("t/1", b"2", qos=1, packet_id=2)
        assert machine.is_silent_for(0.3)
        guard.publish("anything", b"3", qos=1, packet_id=3)
        guard.expect(PUBACK, 3)
        machine.expect(PUBACK, 2)
        machine.publish("t/1", b"4", qos=1, packet_id=4)
        assert machine.is_silent_for(0.3)
        machine.publish("a/1", b"5", qos=1, packet_id=5)  # the same client, by its topic
        machine.expect(PUBACK, 4)
        machine.expect(PUBACK, 5)
    node.wait_lane("alarms", accepted=2)
    node.wait_lane("telemetry", accepted=2)
