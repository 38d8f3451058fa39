"""Two addresses, each of a broker of its own: the bridge goes to the second when it must, and back to the first in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartNode
from tests.support.fake_remote import FakeRemote
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.mqtt_packets import PUBLISH
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import holds_for, wait_until


def towards(*ports: int, on_session_loss: str = "assume-delivered", **remote: Any) -> Config:
    """A node with one bridge, whose addresses are ``ports``, in that order."""
    addresses = [f"127.0.0.1:{port}" for port in ports]
    return node_config(bridge_config("cloud", ports[0], remote={"addresses": addresses, **remote}, on_session_loss=on_session_loss))


def at(node: Node, port: int) -> dict[str, Any]:
    """The lane's row once it is connected there."""
    return node.wait_lane_until(lambda row: is_at(row["link"], port), f"a connection to {port}")


def is_at(link: dict[str, Any], port: int) -> bool:
    return bool(link["state"] == "connected" and link["address"] == f"127.0.0.1:{port}")


def is_probed_again(first: dict[str, Any]) -> bool:
    """Whether the first address was probed in vain, and is not being probed."""
    return bool(first.get("error")) and first["next_probe_s"] is not None


def is_gapless(payloads: list[str]) -> bool:
    """Whether they are the numbers from 0 on."""
    return payloads == [str(number) for number in range(len(payloads))]


@pytest.mark.parametrize("qos", [1, 2])
def test_the_bridge_returns_to_the_first_broker_with_nothing_lost_doubled_or_out_of_order(
    tmp_path: Path, start_node: StartNode, qos: int
) -> None:
    """Under load, twice, so that each broker has an older session of ours when it is come back to.

    While the way to the first is cut, TCP works up to the proxy: the probe succeeds, CONNECT does not, and the lane goes back.
    Messages that the first had received and not completed at the cut go to the second, for which ``republish`` is set.
    """
    with (
        Mosquitto(tmp_path / "first", max_inflight_messages=0, max_queued_messages=0) as first,
        Mosquitto(tmp_path / "second", max_inflight_messages=0, max_queued_messages=0) as second,
        Proxy(first.port) as way,
        Subscriber(first.port, "#") as at_first,
        Subscriber(second.port, "#") as at_second,
    ):
        way.cut()
        node = start_node(towards(way.port, second.port, on_session_loss="republish", primary_retry="1s"))

        def arrived() -> list[str]:
            """First what has come at the second, whose subscriber may be behind."""
            return [*at_second.payloads("t"), *at_first.payloads("t")]

        with Publisher(node.port, "t", qos=qos, rate_per_s=300.0) as publisher:
            for turn in ("clean", "after a cut"):
                at(node, second.port)
                seen = at_second.count()
                wait_until(lambda seen=seen: at_second.count() > seen + 50, 20.0, "messages at the second")  # type: ignore[misc]
                way.restore()
                at(node, way.port)
                seen = at_first.count()
                wait_until(lambda seen=seen: at_first.count() > seen + 50, 20.0, "messages at the first")  # type: ignore[misc]
                if turn == "clean":
                    wait_until(lambda: is_gapless(arrived()), 20.0, lambda: f"each once, and in order: {arrived()}")
                    exchange = node.lane("cloud")["exchange"]
                    assert (exchange["redelivered"], exchange["sessions_lost"], exchange["assumed_delivered"]) == (0, 0, 0)
                    way.cut()
            sent = publisher.finish()
        row = node.wait_lane("cloud", depth=0, ledger_closes=True)
        assert row["link"]["first_address"] == {}
        wait_until(lambda: set(sent) == {*at_first.payloads("t"), *at_second.payloads("t")}, 20.0, "every message somewhere")
        assert len(node.events("bridge.returning")) >= 2


def test_without_probes_a_restart_of_bridge_or_node_comes_back_to_the_first(tmp_path: Path, start_node: StartNode) -> None:
    with Mosquitto(tmp_path / "first") as first, Mosquitto(tmp_path / "second") as second, Proxy(first.port) as way:
        way.cut()
        node = start_node(towards(way.port, second.port, primary_retry="unlimited"))
        for restart in ("bridge", "node"):
            row = at(node, second.port)
            assert row["link"]["first_address"]["next_probe_s"] is None
            mosquitto_pub(node.port, "t", ["1", "2"], qos=2)
            node.wait_lane("cloud", depth=0, in_flight=0)
            way.restore()
            if restart == "bridge":
                assert node.cli("bridge", "restart", str(node.config_path), "cloud").returncode == 0
            else:
                assert node.stop() == 0
                node.start()
            at(node, way.port)
            way.cut()


def test_a_first_address_that_refuses_is_probed_again_and_again_and_status_says_so(start_node: StartNode) -> None:
    away = free_port()
    with FakeRemote() as second:
        node = start_node(towards(away, second.port, primary_retry="1s"))
        at(node, second.port)
        row = node.wait_lane_until(lambda row: is_probed_again(row["link"]["first_address"]), "a probe in vain")
        first = row["link"]["first_address"]
        assert (first["address"], first["returning"]) == (f"127.0.0.1:{away}", False)
        assert "refused" in first["error"].lower()
        assert first["next_probe_s"] <= 1
        assert f"uses 127.0.0.1:{second.port}; 127.0.0.1:{away} is probed again" in row["link"]["note"]
        assert len(second.connects) == 1, "a probe in vain disturbs nothing"
        second.check()


def test_a_second_broker_that_owes_acknowledgements_is_not_left_before_they_come(start_node: StartNode) -> None:
    """Neither while it stands still, nor when the connection to it is made again, nor when node and bridge are restarted."""
    with FakeRemote() as first, FakeRemote() as second:
        node = start_node(towards(free_port(), second.port, primary_retry="1s", stall_timeout="2s"))
        at(node, second.port)
        second.stalled = True
        owed = [str(number) for number in range(5)]
        mosquitto_pub(node.port, "t", owed, qos=2)
        wait_until(lambda: len(second.received(PUBLISH)) >= 5, 20.0, "a window at the second")
        assert node.stop() == 0
        node.configure(towards(first.port, second.port, primary_retry="1s", stall_timeout="2s"))
        node.start()
        at(node, second.port)
        node.wait_lane_until(lambda row: row["link"]["first_address"].get("returning"), "the first answers")
        wait_until(lambda: node.events("bridge.stays") or node.events("connection.stalled"), 20.0, "patience has run out")
        assert not first.connects
        second.stalled = False
        at(node, first.port)
        node.wait_lane("cloud", depth=0, ledger_closes=True)
        assert [packet.payload.decode() for packet in second.delivered] == owed
        mosquitto_pub(node.port, "t", ["new"], qos=2)
        node.wait_lane("cloud", depth=0, accepted=6)
        assert [packet.payload.decode() for packet in first.delivered] == ["new"]
        for remote in (first, second):
            remote.check()
        holds_for(lambda: at(node, first.port)["link"]["first_address"] == {}, 0.2, "it stays")
