"""Sessions, generations and answers: what the bridge does when a remote forgets, stalls or sets limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.conftest import StartNode
from tests.support.fake_remote import Cut, FakeRemote
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import (
    CONNACK,
    MESSAGE_EXPIRY,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    RECEIVE_MAXIMUM,
    Packet,
    Properties,
)
from tests.support.node import Node, bridge_config, node_config
from tests.support.scripted_remote import ScriptedRemote
from tests.support.waiting import holds_for, wait_until

PROTOCOLS = {4: "mqtt311", 5: "mqtt5"}
QUICK = {"initial": "5ms", "max": "20ms"}
CLIENT_ID = "bridge-cloud"


@contextmanager
def publisher(node: Node) -> Iterator[MqttClient]:
    with MqttClient(node.port, "publisher") as client:
        yield client


def publish(node: Node, payloads: list[str], qos: int) -> None:
    """Publish ``payloads`` in one burst and return when the node has acknowledged all."""
    with publisher(node) as client:
        client.publish_burst("t", payloads, qos)


def bridged(start_node: StartNode, *remotes: FakeRemote, level: int = 5, remote: dict[str, Any] | None = None, **keys: Any) -> Node:
    """A node with a bridge to ``remotes`` in turn."""
    addresses = {"addresses": [f"127.0.0.1:{each.port}" for each in remotes], **(remote or {})}
    return start_node(node_config(bridge_config("cloud", 0, protocol=PROTOCOLS[level], remote=addresses, backoff=QUICK, **keys)))


def dups(packets: list[Packet]) -> list[tuple[str, bool]]:
    """Payload and DUP of each PUBLISH."""
    return [(packet.payload.decode(), packet.dup) for packet in packets]


def payloads_of(packets: list[Packet]) -> list[str]:
    return [packet.payload.decode() for packet in packets]


@pytest.mark.parametrize("level", [4, 5])
def test_a_session_that_is_present_without_a_record_is_ended_first(start_node: StartNode, level: int) -> None:
    """Somebody else's: its packet identifiers mean something else. At level 4 ending it takes a connection of its own."""
    with FakeRemote() as remote:
        remote.plant_session(CLIENT_ID)
        node = bridged(start_node, remote, level=level)
        publish(node, ["0", "1"], 2)
        remote.wait_finished(2)
        assert remote.connects == ([False, True, False] if level == 4 else [False, True])
        assert dups(remote.received(PUBLISH)) == [("0", False), ("1", False)]
        assert [event["address"] for event in node.events("session.unknown")] == [f"127.0.0.1:{remote.port}"]
        remote.check()
        assert node.wait_lane("cloud", depth=0)["ledger_closes"] is True


@pytest.mark.parametrize("level", [4, 5])
def test_a_session_whose_first_connack_did_not_arrive_is_ended_first(start_node: StartNode, level: int) -> None:
    """The remote has made it, the bridge has no record of it."""
    with FakeRemote() as remote:
        remote.cut(Cut(CONNACK, at=3))
        node = bridged(start_node, remote, level=level)
        publish(node, ["0"], 1)
        remote.wait_finished(1)
        assert remote.connects == [False, False, True, False][: 4 if level == 4 else 3]
        assert dups(remote.received(PUBLISH)) == [("0", False)]
        remote.check()


@pytest.mark.parametrize(("qos", "level"), [(1, 4), (2, 5)])
def test_what_was_not_released_goes_to_a_new_session_as_new(start_node: StartNode, qos: int, level: int) -> None:
    """The remote forgets its sessions while three messages are under way: to the new one everything is new, so no DUP."""
    with FakeRemote() as remote:
        node = bridged(start_node, remote, level=level)
        node.wait_lane("cloud", state="connected")
        remote.cut(Cut(PUBLISH, skip=2, hold=True))
        remote.stalled = True
        publish(node, ["0", "1", "2"], qos)
        remote.wait_held()
        remote.forget_sessions()
        remote.stalled = False
        remote.release()
        remote.wait_established()
        wait_until(lambda: len(remote.received(PUBLISH)) == 6 and not remote.unfinished, 10.0, "all again")
        assert dups(remote.received(PUBLISH)) == [("0", False), ("1", False), ("2", False)] * 2
        assert node.wait_lane("cloud", depth=0, ledger_closes=True)["exchange"]["sessions_lost"] == 1
        remote.check()


@pytest.mark.parametrize("on_session_loss", ["assume-delivered", "republish"])
@pytest.mark.parametrize(("level", "restarted"), [(4, False), (5, True)], ids=["same process", "after a restart of the node"])
def test_what_was_released_is_settled_or_sent_as_new_when_the_session_is_lost(
    start_node: StartNode, on_session_loss: str, level: int, restarted: bool
) -> None:
    """PUBREL has left and was not read. The remote delivers on PUBREL only, so that its loss shows."""
    with FakeRemote(deliver_on=PUBREL) as remote:
        node = bridged(start_node, remote, level=level, on_session_loss=on_session_loss)
        node.wait_lane("cloud", state="connected")
        remote.cut(Cut(PUBREL, at=0, hold=True))
        publish(node, ["0"], 2)
        remote.wait_held()
        remote.forget_sessions()
        if restarted:
            node.kill_supervisor()
        remote.release()
        if restarted:
            node.start()
        remote.wait_established()
        publish(node, ["1"], 2)
        lane = node.wait_lane("cloud", depth=0, in_flight=0, accepted=2, delivered=2, ledger_closes=True)
        assumed = on_session_loss == "assume-delivered"
        assert payloads_of(remote.delivered) == (["1"] if assumed else ["0", "1"])
        assert dups(remote.received(PUBLISH)) == [("0", False), *([] if assumed else [("0", False)]), ("1", False)]
        assert lane["exchange"]["sessions_lost"] == 1
        assert lane["exchange"]["assumed_delivered"] == assumed
        remote.check()


@pytest.mark.parametrize("level", [4, 5])
def test_another_address_of_the_list_is_another_session_and_so_is_the_way_back(start_node: StartNode, level: int) -> None:
    """Messages that the first had in hand go to the second as new; the first's old session is ended before it is used again.

    The second has nothing unfinished when it is left, so that is no loss.
    """
    with ExitStack() as stack:
        first, second = stack.enter_context(FakeRemote()), stack.enter_context(FakeRemote())
        node = bridged(start_node, first, second, level=level)
        node.wait_lane("cloud", state="connected")
        first.cut(Cut(PUBREC, at=1, hold=True))
        publish(node, ["0"], 2)
        first.wait_held()
        first.refuse_connect = 3 if level == 4 else 0x88
        first.release()
        second.wait_finished(1)
        node.wait_lane("cloud", depth=0)  # the bridge has read the end of it
        second.refuse_connect = first.refuse_connect
        second.drop()
        first.refuse_connect = 0
        wait_until(lambda: True in first.connects, 10.0, "a clean start at the first address")
        publish(node, ["1"], 2)
        first.wait_finished(2)
        assert dups(first.received(PUBLISH)) == [("0", False), ("1", False)]
        assert dups(second.received(PUBLISH)) == [("0", False)]
        assert node.wait_lane("cloud", depth=0, ledger_closes=True)["exchange"]["sessions_lost"] == 1
        first.check()
        second.check()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_remote_that_reads_and_never_acknowledges_is_connected_to_anew(start_node: StartNode, qos: int) -> None:
    """Nothing is sent twice on one connection, however long it waits; the next one resumes."""
    with FakeRemote() as remote:
        node = bridged(start_node, remote, remote={"stall_timeout": "1s"})
        node.wait_lane("cloud", state="connected")
        remote.stalled = True
        publish(node, ["0", "1"], qos)
        wait_until(lambda: len(remote.received(PUBLISH)) >= 4, 10.0, "the messages on a second connection")
        remote.stalled = False
        remote.drop()
        remote.wait_finished(2)
        assert set(payloads_of(remote.delivered)) == {"0", "1"}
        assert qos == 1 or payloads_of(remote.delivered) == ["0", "1"]
        assert len(node.events("connection.stalled")) >= 1
        remote.check()
        assert node.wait_lane("cloud", depth=0)["ledger_closes"] is True


@pytest.mark.parametrize("level", [4, 5])
def test_a_second_pubrec_of_the_remote_has_its_pubrel_on_the_same_connection(start_node: StartNode, level: int) -> None:
    with ScriptedRemote(level) as remote:
        node = start_node(node_config(bridge_config("cloud", remote.port, protocol=PROTOCOLS[level])))
        end = remote.accept()
        for payload in ("first", "second"):
            publish(node, [payload], 2)
            sent = end.read()
            assert (sent.kind, sent.payload) == (PUBLISH, payload.encode())
            for _ in range(2):
                end.acknowledge(PUBREC, sent.packet_id)
                assert ((released := end.read()).kind, released.packet_id) == (PUBREL, sent.packet_id)
            for _ in range(2):
                end.acknowledge(PUBCOMP, sent.packet_id)
        node.wait_lane("cloud", depth=0, delivered=2, ledger_closes=True)


@pytest.mark.parametrize("qos", [1, 2])
def test_no_matching_subscribers_is_success(start_node: StartNode, qos: int) -> None:
    """Reason code 0x10 in PUBACK and PUBREC [MQTT 5.0 sections 3.4.2.1 and 3.5.2.1]."""
    with FakeRemote() as remote:
        remote.reason_code = lambda _packet: 0x10
        node = bridged(start_node, remote)
        publish(node, ["0", "1", "2"], qos)
        remote.wait_finished(3)
        lane = node.wait_lane("cloud", depth=0, delivered=3, ledger_closes=True)
        assert lane["dropped"] == {}
        assert len(remote.received(PUBLISH)) == 3
        remote.check()


@pytest.mark.parametrize("qos", [1, 2])
def test_the_receive_maximum_of_each_connack_is_kept(start_node: StartNode, qos: int) -> None:
    """At most three are unanswered; after a cut the same come first, under a smaller maximum. QoS 2 leaves one slot free
    (exchange.qos2-maximum-kept).
    """
    full, fewer = (3, 2) if qos == 1 else (2, 1)
    numbers = [str(number) for number in range(8)]
    with FakeRemote(properties=[(RECEIVE_MAXIMUM, 3)]) as remote:
        node = bridged(start_node, remote)
        node.wait_lane("cloud", state="connected")
        remote.stalled = True
        publish(node, numbers, qos)
        wait_until(lambda: len(remote.received(PUBLISH)) == full, 10.0, "as many as the receive maximum")
        holds_for(lambda: len(remote.received(PUBLISH)) == full, 0.2, "one more without an answer to any")
        remote.properties = [(RECEIVE_MAXIMUM, 2)]
        remote.drop()
        wait_until(lambda: len(remote.received(PUBLISH)) == full + fewer, 10.0, "as many as the new receive maximum")
        holds_for(lambda: len(remote.received(PUBLISH)) == full + fewer, 0.2, "one more without an answer to any")
        assert dups(remote.received(PUBLISH)[full:]) == [(number, True) for number in numbers[:fewer]]
        remote.stalled = False
        remote.drop()
        remote.wait_finished(len(numbers))
        assert list(dict.fromkeys(payloads_of(remote.delivered))) == numbers
        remote.check()
        assert node.wait_lane("cloud", depth=0)["ledger_closes"] is True


def test_a_refused_connect_is_tried_again(start_node: StartNode) -> None:
    with FakeRemote() as remote:
        remote.refuse_connect = 0x97
        node = bridged(start_node, remote)
        publish(node, ["0"], 1)
        node.wait_lane_until(lambda row: "0x97" in row["link"]["error"], "the reason code in the status")
        remote.refuse_connect = 0
        remote.wait_finished(1)
        remote.check()


def test_what_waits_for_the_receive_maximum_counts_down_and_expires(start_node: StartNode) -> None:
    """[MQTT-3.3.2-5] [MQTT-3.3.2-6] hold to the moment in which a message leaves."""
    with FakeRemote(properties=[(RECEIVE_MAXIMUM, 1)]) as remote:
        node = bridged(start_node, remote)
        node.wait_lane("cloud", state="connected")
        remote.cut(Cut(PUBACK, at=0, hold=True))
        publish(node, ["first"], 1)
        remote.wait_held()
        with MqttClient(node.port, "aging", version=5) as client:
            for packet_id, (payload, expiry_s) in enumerate((("short", 1), ("long", 600), ("none", None)), start=1):
                properties: Properties = [] if expiry_s is None else [(MESSAGE_EXPIRY, expiry_s)]
                client.publish("t", payload, qos=1, packet_id=packet_id, properties=properties)
                client.expect(PUBACK, packet_id=packet_id)
        accepted_s = time.time()
        wait_until(lambda: time.time() > accepted_s + 1.0, 10.0, "the end of a second")
        remote.release()
        lane = node.wait_lane("cloud", depth=0, delivered=3, expired=1, ledger_closes=True)
        assert lane["exchange"]["expired"] == 1
        first = [("first", False), ("first", True)]  # what is held ends with its connection
        assert dups(remote.received(PUBLISH)) == [*first, ("long", False), ("none", False)]
        *_, long, none = remote.received(PUBLISH)
        left_s = long.property(MESSAGE_EXPIRY)
        assert isinstance(left_s, int)
        assert 500 <= left_s <= 599
        assert none.property(MESSAGE_EXPIRY) is None
        remote.check()
