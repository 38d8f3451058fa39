"""Two addresses, each of a broker of its own, and messages in both directions: a broker's session is taken up where it was left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bridge.test_failback import at
from tests.bridge.test_remote_subscriptions import publish
from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_packets import PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBSCRIBE, Packet, suback_bytes
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.scripted_remote import RemoteEnd, ScriptedRemote
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

PROTOCOLS = pytest.mark.parametrize(("protocol", "version"), [("mqtt311", 4), ("mqtt5", 5)])


def towards(*ports: int, protocol: str, **remote: Any) -> Config:
    """A node with one bridge whose addresses are ``ports``, in that order: ``out`` goes there, ``cmd/#`` comes from there."""
    addresses = [f"127.0.0.1:{port}" for port in ports]
    return node_config(
        bridge_config(
            "cloud",
            ports[0],
            protocol=protocol,
            remote={"addresses": addresses, **remote},
            local_subscriptions=[{"filters": ["out"]}],
            remote_subscriptions=[{"filters": ["cmd/#"]}],
        )
    )


def subscribed_at(node: Node, port: int) -> None:
    """Wait until the lane is connected there and has its SUBACK."""
    at(node, port)
    node.wait_lane_until(lambda row: row["remote_subscriptions"]["granted"] == 1, f"SUBACK of {port}")


def kill_both(node: Node) -> None:
    """kill -9 of the store and of the bridge."""
    store, bridge = node.kill("store"), node.kill("bridge", bridge="cloud", lane=0)
    node.wait_replaced("store", store)
    wait_until(lambda: node.find_pid("bridge", "cloud", 0) not in (None, bridge), 20.0, "a new bridge")
    node.wait_actors_ready()


@PROTOCOLS
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
def test_what_each_broker_keeps_while_the_bridge_is_at_the_other_comes_when_it_is_back(
    tmp_path: Path, start_node: StartNode, protocol: str, version: int, killed: bool
) -> None:
    """QoS 1 and 2, in order, twice at the first and once at the second; QoS 2 exactly once."""
    with (
        Mosquitto(tmp_path / "first", max_inflight_messages=0) as first,
        Mosquitto(tmp_path / "second", max_inflight_messages=0) as second,
        Proxy(first.port) as way,
    ):
        node = start_node(towards(way.port, second.port, protocol=protocol, primary_retry="1s"))
        with Subscriber(node.port, "cmd/#", version=5) as arrived:
            subscribed_at(node, way.port)
            for turn in ("once", "again"):
                way.cut()
                subscribed_at(node, second.port)
                kept = [f"{turn} {number}" for number in range(40)]
                for qos in (1, 2):
                    publish(first.port, f"cmd/first/{turn}/{qos}", kept, qos=qos, version=version)
                if killed:
                    kill_both(node)
                way.restore()
                subscribed_at(node, way.port)
                for qos in (1, 2):
                    arrived.wait_for(f"cmd/first/{turn}/{qos}", kept)
                assert arrived.arrivals(f"cmd/first/{turn}/2", kept).are_exact()
                if turn == "once":
                    publish(second.port, "cmd/second", kept, qos=2, version=version)
                else:
                    assert arrived.wait_for("cmd/second", [f"once {number}" for number in range(40)]).are_exact()
            publish(first.port, "cmd/end", ["end"], qos=2, version=version)
            assert arrived.wait_for("cmd/end", ["end"]).are_exact()
        assert not node.events("session.unknown"), "no clean start"


class Script:
    """One connection of a ``ScriptedRemote``; SUBSCRIBE is answered in passing."""

    def __init__(self, end: RemoteEnd) -> None:
        self.end = end
        self._subscribed = False

    def next_of(self, kind: int) -> Packet:
        """The next packet, which is of ``kind``."""
        if (found := self.end.read()).kind == SUBSCRIBE:
            self._granted(found)
            found = self.end.read()
        assert found.kind == kind, found
        return found

    def subscribed(self) -> None:
        """Wait for the SUBSCRIBE, if that has not come."""
        if not self._subscribed:
            self._granted(self.end.expect(SUBSCRIBE))

    def _granted(self, asked: Packet) -> None:
        self._subscribed = True
        self.end.send(suback_bytes(self.end.version, asked.packet_id, [2]))

    def finish(self, *packets: Packet) -> None:
        """Take QoS 2 messages to their end."""
        for packet in packets:
            self.end.acknowledge(PUBREC, packet.packet_id)
            assert self.next_of(PUBREL).packet_id == packet.packet_id
            self.end.acknowledge(PUBCOMP, packet.packet_id)


@PROTOCOLS
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
def test_a_broker_that_was_left_lets_go_of_its_identifiers_before_anything_is_published_there(
    start_node: StartNode, protocol: str, version: int, killed: bool
) -> None:
    """One message is finished at the second meanwhile; the other is not, and goes on at the first as a repeat."""
    with ScriptedRemote(version) as first, ScriptedRemote(version) as second:
        node = start_node(towards(first.port, second.port, protocol=protocol, primary_retry="unlimited"))
        script = Script(first.accept())
        publish(node.port, "out", ["finished", "not finished"], qos=2)
        ids = [script.next_of(PUBLISH).packet_id for _ in range(2)]
        first.close()

        script = Script(second.accept())
        finished, other = script.next_of(PUBLISH), script.next_of(PUBLISH)
        assert [(packet.payload, packet.dup) for packet in (finished, other)] == [(b"finished", False), (b"not finished", False)]
        script.finish(finished)
        node.wait_lane("cloud", depth=1)
        if killed:
            kill_both(node)
        second.close()

        with ScriptedRemote(version, first.port) as again:
            script = Script(again.accept(session_present=True))
            assert script.next_of(PUBREL).packet_id == ids[0]
            script.subscribed()
            publish(node.port, "out", ["new"], qos=2)
            assert script.end.is_silent_for(0.5), "nothing before the PUBCOMP"
            script.end.acknowledge(PUBCOMP, ids[0])
            repeat, new = script.next_of(PUBLISH), script.next_of(PUBLISH)
            assert (repeat.payload, repeat.dup, repeat.packet_id) == (b"not finished", True, ids[1])
            assert (new.payload, new.dup) == (b"new", False)
            script.finish(repeat, new)
            row = node.wait_lane("cloud", depth=0, ledger_closes=True)
            assert row["delivered"] == 3


def test_one_broker_behind_two_addresses_is_no_two_sessions(tmp_path: Path, start_node: StartNode) -> None:
    """Its one session is met at an address where it is not known, and ended there; at the other it is taken for no older one."""
    with Mosquitto(tmp_path / "broker", max_inflight_messages=0) as broker, Proxy(broker.port) as way:
        node = start_node(towards(way.port, broker.port, protocol="mqtt5", primary_retry="1s"))
        with Subscriber(node.port, "cmd/#", version=5) as arrived:
            for turn in range(3):
                subscribed_at(node, way.port)
                way.cut()
                subscribed_at(node, broker.port)
                lines = [f"{turn} {number}" for number in range(40)]
                publish(broker.port, f"cmd/{turn}", lines, qos=2)
                assert arrived.wait_for(f"cmd/{turn}", lines).are_exact()
                way.restore()
        assert len(node.events("session.unknown")) >= 5
