"""Acknowledgements that a peer should not have sent, from a remote and from a local client: counted, and nothing stands still."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Packet,
    acknowledge_bytes,
    connack_bytes,
    packet_bytes,
)
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.scripted_remote import RemoteEnd, ScriptedRemote
from tests.support.waiting import PATIENCE_S, wait_until
from wire.exchange.quarantine import BARREN, RELEASED

QUICK = {"initial": "5ms", "max": "20ms"}
LEVELS = pytest.mark.parametrize(("protocol", "version"), [("mqtt311", 4), ("mqtt5", 5)])


def bridged(port: int, protocol: str, *, remote: Config | None = None, **keys: Any) -> Config:
    return node_config(bridge_config("cloud", port, backoff=QUICK, remote={"protocol": protocol, **(remote or {})}, **keys))


def publish(node: Node, qos: int, *payloads: str) -> None:
    with MqttClient(node.port, "publisher") as client:
        client.publish_burst("t", payloads, qos)


def take(end: RemoteEnd, count: int) -> list[Packet]:
    """The next PUBLISHes."""
    came = [end.expect(PUBLISH) for _ in range(count)]
    assert [packet.kind for packet in came] == [PUBLISH] * count
    return came


def wait_unexpected(node: Node, count: int) -> None:
    node.wait_lane_until(lambda row: row["exchange"].get("unexpected_acknowledgements") == count, f"{count} are counted")


@LEVELS
def test_an_answer_in_the_bytes_of_connack_costs_one_repeat(start_node: StartNode, protocol: str, version: int) -> None:
    """exchange.unexpected-changes-nothing. It ended each connection at MQTT 5, for ever."""
    with ScriptedRemote(version) as remote:
        node = start_node(bridged(remote.port, protocol))
        first = remote.accept()
        publish(node, 1, "1")
        (sent,) = take(first, 1)
        first.close()
        second = remote.accept_silently()
        early = acknowledge_bytes(PUBACK, sent.packet_id)
        second.send(connack_bytes(version, session_present=True) + early * 3)
        (again,) = take(second, 1)
        assert (again.packet_id, again.dup) == (sent.packet_id, True)
        second.acknowledge(PUBACK, sent.packet_id)
        second.acknowledge(PUBACK, sent.packet_id)
        publish(node, 1, "2")
        (following,) = take(second, 1)
        second.acknowledge(PUBACK, following.packet_id)
        row = node.wait_lane("cloud", depth=0, delivered=2, ledger_closes=True)
        assert (row["link"]["connections"], row["exchange"]["redelivered"]) == (2, 1)
        wait_unexpected(node, 4)


@LEVELS
def test_a_remote_that_answers_qos_2_with_puback_has_everything_once_and_doctor_says_so(
    start_node: StartNode, protocol: str, version: int
) -> None:
    """exchange.other-kind-has-message: RabbitMQ 3.10. Before, the whole window went again on each of endless connections."""
    with ScriptedRemote(version) as remote:
        node = start_node(bridged(remote.port, protocol))
        end = remote.accept()
        publish(node, 2, "1", "2", "3")
        sent = take(end, 3)
        assert [packet.qos for packet in sent] == [2, 2, 2]
        for packet in sent:
            end.acknowledge(PUBACK, packet.packet_id)
        node.wait_lane("cloud", depth=0, delivered=3)
        publish(node, 2, "4")
        (lowered,) = take(end, 1)
        assert lowered.qos == 1
        end.acknowledge(PUBACK, lowered.packet_id)
        row = node.wait_lane("cloud", depth=0, delivered=4, ledger_closes=True)
        assert row["exchange"]["acknowledged_as_qos1"] == 3
        assert (row["exchange"]["qos_lowered"], row["link"]["connections"]) == (1, 1)
        said = " ".join(node.cli("doctor", str(node.config_path), "--offline").stdout.split())
        assert "the remote has no QoS 2: it acknowledged 3 messages" in said
        assert "QoS above 1" not in said, "that is the same, said once more"


@LEVELS
def test_a_remote_that_closes_on_the_pubrel_of_what_it_has_completed_is_not_connected_to_for_ever(
    start_node: StartNode, protocol: str, version: int
) -> None:
    """exchange.closed-on-release-has-it: aedes 0.51, after its PUBCOMP was lost."""
    with ScriptedRemote(version) as remote:
        node = start_node(bridged(remote.port, protocol))
        end = remote.accept()
        publish(node, 2, "1", "2")
        sent = take(end, 2)
        for packet in sent:
            end.acknowledge(PUBREC, packet.packet_id)
        assert [end.expect(PUBREL).packet_id for _ in sent] == [packet.packet_id for packet in sent]
        end.close()
        publish(node, 1, "3")
        for _ in range(BARREN):
            end = remote.accept(session_present=True)
            assert end.expect(PUBREL).packet_id == sent[0].packet_id
            end.close()
        for packet in sent:
            for _ in range(RELEASED):
                end = remote.accept(session_present=True)
                end.expect(PINGREQ)
                assert end.is_silent_for(0.05), "nothing is beside the PUBREL, and none leaves before the PINGRESP"
                end.send(packet_bytes(PINGRESP))
                assert end.expect(PUBREL).packet_id == packet.packet_id
                end.close()
        end = remote.accept(session_present=True)
        (following,) = take(end, 1)
        assert following.payload == b"3"
        end.acknowledge(PUBACK, following.packet_id)
        row = node.wait_lane("cloud", depth=0, delivered=3, ledger_closes=True)
        assert row["exchange"]["released_unanswered"] == 2
        said = node.cli("doctor", str(node.config_path), "--offline").stdout
        assert "closes on PUBRELs of what it has completed: 2 messages" in " ".join(said.split())


@LEVELS
def test_what_is_only_ever_answered_wrongly_goes_by_policy_and_the_queue_moves(
    start_node: StartNode, protocol: str, version: int
) -> None:
    """exchange.other-kind-has-message: PUBCOMP for a PUBLISH; PUBACK for a PUBREL, whose message the remote has."""
    with ScriptedRemote(version) as remote:
        node = start_node(bridged(remote.port, protocol, remote={"stall_timeout": "1s"}))
        first = remote.accept()
        publish(node, 2, "1", "2")
        publish(node, 1, "3")
        sent = take(first, 3)
        first.acknowledge(PUBREC, sent[0].packet_id)
        first.expect(PUBREL)
        first.acknowledge(PUBACK, sent[0].packet_id)
        for packet in sent[1:]:
            first.acknowledge(PUBCOMP, packet.packet_id)
        row = node.wait_lane("cloud", delivered=1, dead_lettered=2, depth=0, deadline_s=PATIENCE_S)
        assert row["dead_letters"]["reasons"] == {"wrongly_acknowledged": 2}
        second = remote.accept(session_present=True)
        publish(node, 1, "4")
        (following,) = take(second, 1)
        assert following.payload == b"4"
        second.acknowledge(PUBACK, following.packet_id)
        node.wait_lane("cloud", delivered=2, depth=0, ledger_closes=True)


def test_answers_to_what_was_not_asked_end_no_connection(start_node: StartNode) -> None:
    """CONNACK, SUBACK and UNSUBACK are acknowledgements, too."""
    with ScriptedRemote(4) as remote:
        node = start_node(bridged(remote.port, "mqtt311"))
        end = remote.accept()
        end.send(connack_bytes(4, session_present=False) + b"\x90\x03\x00\x07\x01" + b"\xb0\x02\x00\x08")
        end.acknowledge(PUBCOMP, 9)
        publish(node, 1, "1")
        (sent,) = take(end, 1)
        end.acknowledge(PUBACK, sent.packet_id)
        node.wait_lane("cloud", delivered=1)
        wait_unexpected(node, 4)


def test_a_max_qos_that_is_lowered_while_messages_wait_holds_for_them(start_node: StartNode) -> None:
    """routing.waiting-qos-lowered: only what may have been sent goes again as it was."""
    rule: Config = {"filters": ["t"], "max_qos": 2}
    with ScriptedRemote(4) as remote:
        node = start_node(bridged(remote.port, "mqtt311", remote={"receive_maximum": 2}, local_subscriptions=[rule]))
        first = remote.accept()
        publish(node, 2, "1", "2")
        assert [packet.qos for packet in take(first, 2)] == [2, 2]
        assert node.cli("bridge", "pause", "cloud", "--config", str(node.config_path)).returncode == 0
        first.close()
        publish(node, 2, "3", "4", "5")
        node.wait_lane("cloud", depth=5)
        node.configure(bridged(remote.port, "mqtt311", remote={"receive_maximum": 2}, local_subscriptions=[rule | {"max_qos": 1}]))
        assert node.cli("reload", str(node.config_path)).returncode == 0
        assert node.cli("bridge", "resume", "cloud", "--config", str(node.config_path)).returncode == 0
        second = remote.accept(session_present=True)
        seen: list[tuple[bytes, int]] = []
        while len(seen) < 5:
            (packet,) = take(second, 1)
            seen.append((packet.payload, packet.qos))
            second.acknowledge(PUBACK, packet.packet_id)
        node.wait_lane("cloud", depth=0, ledger_closes=True)
        assert [payload for payload, _ in seen] == [b"1", b"2", b"3", b"4", b"5"]
        assert [qos for _, qos in seen][2:] == [1, 1, 1]


@pytest.mark.parametrize("version", [4, 5])
def test_a_local_client_that_acknowledges_wrongly_stays_and_has_each_message_once(start_node: StartNode, version: int) -> None:
    """exchange.other-kind-has-message, exchange.unexpected-changes-nothing"""
    node = start_node(node_config())
    with MqttClient(node.port, "wrong", version=version, clean=False, session_expiry_s=60) as client:
        client.subscribe("t", qos=2)
        publish(node, 2, "1", "2", "3")
        came = [client.expect(PUBLISH) for _ in range(3)]
        assert [packet.qos for packet in came] == [2, 2, 2]
        client.acknowledge(PUBREC, 77)
        assert client.expect(PUBREL).packet_id == 77
        for packet in came:
            for kind in (PUBCOMP, PUBACK, PUBACK):
                client.acknowledge(kind, packet.packet_id)
        client.acknowledge(PUBREC, 77)
        assert client.expect(PUBREL).packet_id == 77
        publish(node, 2, "4")
        last = client.expect(PUBLISH)
        assert (last.payload, last.qos, last.dup) == (b"4", 1, False)
        client.acknowledge(PUBACK, last.packet_id)
        client.ping()
        counted = wait_until(lambda: node.status()["listener"]["unexpected_acknowledgements"], PATIENCE_S, "they are counted")
        assert counted == 11
    with MqttClient(node.port, "wrong", version=version, clean=False, session_expiry_s=60) as client:
        assert client.connack.session_present
        assert client.is_silent_for(0.2), "nothing is left"
