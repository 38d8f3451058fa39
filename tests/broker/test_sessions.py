"""Sessions of local clients: they wait, go on, are taken over and end; and so do they when any process of the node dies."""

from __future__ import annotations

import time

import pytest

from tests.conftest import StartNode
from tests.support.mqtt_client import Closed, MqttClient, publish_once, take_one
from tests.support.mqtt_packets import DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SESSION_EXPIRY, WILL_DELAY, Will
from tests.support.node import Node, node_config
from tests.support.placements import one_process_alone
from tests.support.waiting import wait_until

NO_LOCAL = 0x04
MESSAGE_EXPIRY, RECEIVE_MAXIMUM = 0x02, 0x21
BOTH = pytest.mark.parametrize("version", [4, 5])


def lasting(node: Node, name: str, version: int = 4, *, expiry_s: int = 3600) -> MqttClient:
    """A client whose session outlives its connections."""
    return MqttClient(node.port, name, version=version, clean=False, session_expiry_s=expiry_s)


def reconnect(client: MqttClient) -> bool:
    """Connect as soon as the node takes it; whether the session was there."""
    present: list[bool] = []

    def connected() -> bool:
        try:
            connack = client.connect()
        except (OSError, TimeoutError):
            return False
        assert connack.reason_code == 0
        present.append(connack.session_present)
        return True

    wait_until(connected, 20.0, "the node takes a client", period_s=0.05)
    return present[0]


@BOTH
@pytest.mark.parametrize("qos", [1, 2])
def test_what_came_while_a_client_was_away_waits_for_it(start_node: StartNode, version: int, qos: int) -> None:
    node = start_node(node_config())
    client = lasting(node, "c", version)
    assert not client.connect().session_present
    client.subscribe("t/#", qos=2)
    client.close()
    publish_once(node.port, "t/a", "1", "2", "3", qos=qos)
    publish_once(node.port, "t/a", "not kept", qos=0)

    assert client.connect().session_present
    first = client.expect(PUBLISH)
    second = client.expect(PUBLISH)
    assert [(one.payload, one.qos, one.dup) for one in (first, second)] == [(b"1", qos, False), (b"2", qos, False)]
    client.expect(PUBLISH)

    client.close()  # nothing was acknowledged
    assert client.connect().session_present
    again = [client.expect(PUBLISH) for _ in range(3)]
    assert [(one.payload, one.dup) for one in again] == [(b"1", True), (b"2", True), (b"3", True)]
    assert [one.packet_id for one in again[:2]] == [first.packet_id, second.packet_id]
    client.ping()


def test_what_waits_for_a_client_expires_though_the_store_died_meanwhile(start_node: StartNode) -> None:
    """[MQTT-3.3.2-5]; but for what may have been sent before, which is seen through."""
    node = start_node(node_config())
    client = MqttClient(node.port, "c", version=5, clean=False, session_expiry_s=3600, properties=[(RECEIVE_MAXIMUM, 1)])
    client.connect()
    client.subscribe("t", qos=2)
    with MqttClient(node.port, "p", version=5) as publisher:

        def publish(payload: str, *properties: tuple[int, int]) -> None:
            publisher.expect(PUBACK, packet_id=publisher.publish("t", payload, qos=1, properties=list(properties)))

        publish("sent", (MESSAGE_EXPIRY, 1))
        assert client.expect(PUBLISH).payload == b"sent"
        publish("handed out, not sent", (MESSAGE_EXPIRY, 1))
        client.close()
        wait_until(lambda: not node.status()["store"]["sessions"]["connected"], 10.0, "the store knows that the client has gone")
        publish("too late", (MESSAGE_EXPIRY, 1))
        publish("in time", (MESSAGE_EXPIRY, 600))
        publish("for ever")
        published_s = time.time()
    node.wait_replaced("store", node.kill("store"))
    wait_until(lambda: time.time() > published_s + 2.0, 10.0, "the time is up")
    assert reconnect(client)

    found = [take_one(client) for _ in range(3)]

    assert [(one.payload, one.dup) for one in found] == [(b"sent", True), (b"in time", False), (b"for ever", False)]


@BOTH
@pytest.mark.parametrize("process", [None, "clients", "store", "supervisor"])
def test_an_exchange_goes_on_where_it_was(start_node: StartNode, version: int, process: str | None) -> None:
    """Dropped behind PUBREC: PUBREL comes again, and no PUBLISH; dropped behind PUBLISH: that comes again, with DUP."""
    node = start_node(node_config())
    client = lasting(node, "c", version)
    client.connect()
    client.subscribe("t", qos=2)
    publish_once(node.port, "t", "released", "unanswered", qos=2)
    released, unanswered = client.expect(PUBLISH), client.expect(PUBLISH)
    client.acknowledge(PUBREC, released.packet_id)
    client.expect(PUBREL, packet_id=released.packet_id)

    if process == "supervisor":
        node.kill_supervisor()
        node.start()
    elif process is not None:
        node.wait_replaced(process, node.kill(process))
    client.close()
    assert reconnect(client)

    client.expect(PUBREL, packet_id=released.packet_id)
    client.acknowledge(PUBCOMP, released.packet_id)
    message = client.expect(PUBLISH, packet_id=unanswered.packet_id)
    assert (message.payload, message.dup) == (b"unanswered", True)
    client.acknowledge(PUBREC, message.packet_id)
    client.expect(PUBREL, packet_id=message.packet_id)
    client.acknowledge(PUBCOMP, message.packet_id)
    publish_once(node.port, "t", "next", qos=1)
    assert client.expect(PUBLISH).payload == b"next"


@one_process_alone
def test_a_connection_outlives_the_death_of_the_store(start_node: StartNode) -> None:
    """Nothing is sent twice on it, and nothing is lost; a SUBSCRIBE meanwhile is answered."""
    node = start_node(node_config())
    with lasting(node, "kept", 5) as kept, MqttClient(node.port, "live") as live:
        for client in (kept, live):
            client.subscribe("t", qos=2)
        publish_once(node.port, "t", "released", "unanswered", qos=2)
        open_exchanges = []
        for client in (kept, live):
            released, unanswered = client.expect(PUBLISH), client.expect(PUBLISH)
            client.acknowledge(PUBREC, released.packet_id)
            client.expect(PUBREL, packet_id=released.packet_id)
            open_exchanges.append((client, released.packet_id, unanswered.packet_id))

        pid = node.kill("store")
        for client in (kept, live):
            assert client.subscribe("u", qos=1).reason_codes == (1,)
        node.wait_replaced("store", pid)
        publish_once(node.port, "t", "next", qos=2)
        publish_once(node.port, "u", "other", qos=2)

        for client, released_id, unanswered_id in open_exchanges:
            client.acknowledge(PUBCOMP, released_id)
            client.acknowledge(PUBREC, unanswered_id)
            following = sorted(packet.kind for packet in [client.read() for _ in range(3)])
            assert following == [PUBLISH, PUBLISH, PUBREL], "two new messages, and the answer to PUBREC"
            client.acknowledge(PUBCOMP, unanswered_id)
            client.ping()


@BOTH
def test_a_second_connection_takes_the_session_over(start_node: StartNode, version: int) -> None:
    node = start_node(node_config())
    first, second = lasting(node, "c", version), lasting(node, "c", version)
    first.connect()
    first.subscribe("t", qos=1)
    publish_once(node.port, "t", "x")
    message = first.expect(PUBLISH)

    assert second.connect().session_present

    if version == 5:
        assert first.expect(DISCONNECT).reason_code == 0x8E
    with pytest.raises((Closed, ConnectionError)):
        first.read()
    again = second.expect(PUBLISH)
    assert (again.packet_id, again.dup) == (message.packet_id, True)
    second.acknowledge(PUBACK, again.packet_id)
    second.disconnect()
    assert lasting(node, "c", version).connect().session_present


def test_a_clean_start_and_an_expiry_of_zero_end_the_session(start_node: StartNode) -> None:
    node = start_node(node_config())
    client = lasting(node, "c", 5)
    client.connect()
    client.subscribe("t", qos=1)
    client.disconnect()
    publish_once(node.port, "t", "never seen")
    with MqttClient(node.port, "c", version=5, session_expiry_s=100) as clean:
        clean.ping()
    assert client.connect().session_present
    client.ping()
    client.disconnect(0, [(SESSION_EXPIRY, 0)])
    assert not client.connect().session_present


@pytest.mark.parametrize("version", [4, 5])
def test_a_session_expires_also_while_the_node_is_down(start_node: StartNode, version: int) -> None:
    node = start_node(node_config(sessions={"expiry_max": "1s"}))
    client = lasting(node, "c", version)
    assert client.connect().property(0x11) == (1 if version == 5 else None)
    client.subscribe("t", qos=1)
    client.close()
    wait_until(lambda: node.status()["store"]["sessions"]["kept"] == 0, 10.0, "the session ends")
    assert not client.connect().session_present
    client.subscribe("t", qos=1)
    node.stop()
    client.close()
    node.start()
    wait_until(lambda: node.status()["store"]["sessions"]["kept"] == 0, 10.0, "the session ends")
    assert not client.connect().session_present


def test_a_session_too_many_is_refused(start_node: StartNode) -> None:
    node = start_node(node_config(sessions={"sessions_max": 1}))
    with lasting(node, "first"):
        assert lasting(node, "second", 4).connect().reason_code == 0x03
        assert lasting(node, "second", 5).connect().reason_code == 0x97
        assert lasting(node, "first", 5).connect().reason_code == 0
        assert MqttClient(node.port, "live").connect().reason_code == 0


# --- Wills ---


def will(payload: str, *, delay_s: int = 0) -> Will:
    return Will(topic="will", payload=payload.encode(), qos=1, properties=[(WILL_DELAY, delay_s)] if delay_s else [])


@BOTH
def test_a_will_is_published_unless_the_client_says_goodbye(start_node: StartNode, version: int) -> None:
    node = start_node(node_config())
    with MqttClient(node.port, "w") as watcher:
        watcher.subscribe("will", qos=1)

        MqttClient(node.port, "c", version=version, will=will("dropped")).connect()
        polite = MqttClient(node.port, "c", version=version, will=will("taken back"))
        polite.connect()  # takes over
        assert watcher.expect(PUBLISH).payload == b"dropped"
        polite.disconnect()
        if version == 5:
            with_will = MqttClient(node.port, "c", version=5, will=will("kept by 0x04"))
            with_will.connect()
            with_will.disconnect(4)
            assert watcher.expect(PUBLISH).payload == b"kept by 0x04"
        breaker = MqttClient(node.port, "c", version=version, will=will("violation"))
        breaker.connect()
        breaker.send(b"\xff\xff\xff\xff\xff\xff")
        assert watcher.expect(PUBLISH).payload == b"violation"
        watcher.ping()


def test_a_will_with_a_delay_waits_and_is_cancelled_by_its_client(start_node: StartNode) -> None:
    node = start_node(node_config())
    with MqttClient(node.port, "w") as watcher:
        watcher.subscribe("will", qos=1)
        client = MqttClient(node.port, "c", version=5, clean=False, session_expiry_s=100, will=will("delayed", delay_s=3))
        client.connect()
        client.close()
        client.connect()  # in time
        client.ping()
        assert watcher.is_silent_for(4.0)
        client.close()
        message = watcher.expect(PUBLISH)
        assert message.payload == b"delayed"
        short = MqttClient(node.port, "s", version=5, session_expiry_s=1, will=will("at the session's end", delay_s=60))
        short.connect()
        short.close()
        assert watcher.expect(PUBLISH).payload == b"at the session's end"
        watcher.ping()


@pytest.mark.parametrize("process", ["clients", "supervisor", None])
def test_a_will_is_published_once_when_the_node_dies(start_node: StartNode, process: str | None) -> None:
    """And not to the session that left it, which has No Local, though its connection is forgotten by then."""
    node = start_node(node_config())
    watcher = lasting(node, "w")
    watcher.connect()
    watcher.subscribe("will", qos=1)
    client = MqttClient(node.port, "c", version=5, clean=False, session_expiry_s=3600, will=will("x"))
    client.connect()
    client.subscribe("will", qos=1, options=NO_LOCAL)
    if process == "clients":
        node.wait_replaced(process, node.kill(process))
    elif process == "supervisor":
        node.kill_supervisor()
        node.start()
    else:
        node.stop()
        node.start()
    assert reconnect(watcher)
    message = watcher.expect(PUBLISH)
    assert message.payload == b"x"
    watcher.acknowledge(PUBACK, message.packet_id)
    publish_once(node.port, "will", "end")
    assert watcher.expect(PUBLISH).payload == b"end"
    assert reconnect(client)
    assert client.expect(PUBLISH).payload == b"end"


def test_what_waits_for_a_live_client_is_limited_and_counted(start_node: StartNode) -> None:
    node = start_node(node_config(sessions={"in_flight_max": 2, "queue_max_messages": 10}))
    with MqttClient(node.port, "slow") as slow:
        slow.subscribe("t", qos=1)
        publish_once(node.port, "t", *map(str, range(30)))
        first = slow.expect(PUBLISH)
        assert first.payload == b"0"

        def dropped() -> int:
            count: int = node.status()["listener"]["dropped"].get("queue_full", 0)
            return count

        wait_until(lambda: dropped() >= 30 - 2 - 10 - 1, 10.0, lambda: f"all have come to its queue; {dropped()} did not fit")
        assert dropped() <= 30 - 10


def test_a_message_that_waited_too_long_is_not_delivered(start_node: StartNode) -> None:
    node = start_node(node_config())
    with MqttClient(node.port, "s", version=5, properties=[(0x21, 1)]) as slow, MqttClient(node.port, "p", version=5) as publisher:
        slow.subscribe("t", qos=1)
        publisher.publish("t", "first", qos=1)
        publisher.publish("t", "late", qos=1, properties=[(0x02, 1)])
        publisher.publish("t", "last", qos=1, properties=[(0x02, 1000)])
        first = slow.expect(PUBLISH)
        assert slow.is_silent_for(2.1)
        slow.acknowledge(PUBACK, first.packet_id)

        last = slow.expect(PUBLISH)

        assert last.payload == b"last"
        left_s = last.property(0x02)
        assert isinstance(left_s, int)
        assert 900 < left_s < 1000
