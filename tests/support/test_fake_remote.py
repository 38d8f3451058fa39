"""The fake remote itself: each rule of its judge is broken once and seen, and a cut passes exactly the bytes it says."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from tests.support.fake_remote import Cut, FakeRemote
from tests.support.mqtt_client import Closed, MqttClient
from tests.support.mqtt_packets import CONNACK, CONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, RECEIVE_MAXIMUM, Packet
from tests.support.remote_session import ReceiverSession
from tests.support.waiting import wait_until


class Judged:
    """A session with a client that does as it is told."""

    def __init__(self, deliver_on: int = PUBLISH) -> None:
        self.delivered: list[Packet] = []
        self.complaints: list[str] = []
        self._session = ReceiverSession(deliver_on=deliver_on, deliver=self.delivered.append, complain=self.complaints.append)
        self._connections = 0
        self.connect()

    def connect(self, receive_maximum: int = 65_535) -> None:
        self._connections += 1
        self._session.connected(self._connections, receive_maximum=receive_maximum)

    def publish(self, packet_id: int, payload: str = "", *, qos: int = 2, dup: bool = False, answered: bool = True) -> None:
        flags = (8 if dup else 0) | qos << 1
        packet = Packet(kind=PUBLISH, flags=flags, packet_id=packet_id, topic="t", payload=(payload or str(packet_id)).encode())
        self._session.publish(packet)
        if answered:
            self._session.answered(PUBACK if qos == 1 else PUBREC, packet_id, 0)

    def release(self, packet_id: int, *, flags: int = 2, answered: bool = True) -> None:
        self._session.pubrel(Packet(kind=PUBREL, flags=flags, packet_id=packet_id))
        if answered:
            self._session.answered(PUBCOMP, packet_id, 0)


def fresh_dup(judged: Judged) -> None:
    judged.publish(1, dup=True)


def resent_without_dup(judged: Judged) -> None:
    judged.publish(1, answered=False)
    judged.connect()
    judged.publish(1)


def resent_under_another_identifier(judged: Judged) -> None:
    judged.publish(1, "m", answered=False)
    judged.connect()
    judged.publish(2, "m", dup=True)


def identifier_in_use(judged: Judged) -> None:
    judged.publish(1, "m")
    judged.connect()
    judged.publish(1, "other", dup=True)


def resent_on_a_live_connection(judged: Judged) -> None:
    judged.publish(1, qos=1, answered=False)
    judged.publish(1, qos=1, dup=True)


def resent_out_of_order(judged: Judged) -> None:
    judged.publish(1, qos=1, answered=False)
    judged.publish(2, qos=1, answered=False)
    judged.connect()
    judged.publish(2, qos=1, dup=True)
    judged.publish(1, qos=1, dup=True)


def new_before_resent(judged: Judged) -> None:
    judged.publish(1, qos=1, answered=False)
    judged.connect()
    judged.publish(2, qos=1)
    judged.publish(1, qos=1, dup=True)


def released_without_pubrec(judged: Judged) -> None:
    judged.publish(1, answered=False)
    judged.release(1)


def published_after_release(judged: Judged) -> None:
    judged.publish(1)
    judged.release(1)
    judged.connect()
    judged.publish(1, dup=True)


def released_twice(judged: Judged) -> None:
    judged.publish(1)
    judged.release(1)
    judged.release(1)


def released_out_of_order(judged: Judged) -> None:
    judged.publish(1)
    judged.publish(2)
    judged.release(2)
    judged.release(1)


def pubrel_with_wrong_flags(judged: Judged) -> None:
    judged.publish(1)
    judged.release(1, flags=0)


def more_than_the_receive_maximum(judged: Judged) -> None:
    judged.connect(receive_maximum=1)
    judged.publish(1)
    judged.publish(2)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (fresh_dup, "exchange.dup-on-repeats"),
        (resent_without_dup, "exchange.dup-on-repeats"),
        (resent_under_another_identifier, "exchange.resent-unchanged"),
        (identifier_in_use, "exchange.identifier-never-twice"),
        (resent_on_a_live_connection, "exchange.nothing-twice-live"),
        (resent_out_of_order, "exchange.resumed-in-order"),
        (new_before_resent, "exchange.resumed-in-order"),
        (released_without_pubrec, "exchange.release-after-record"),
        (published_after_release, "exchange.no-publish-after-pubrec"),
        (released_twice, "exchange.nothing-twice-live"),
        (released_out_of_order, "exchange.pubrels-in-pubrec-order"),
        (pubrel_with_wrong_flags, "[MQTT-3.6.1-1]"),
        (more_than_the_receive_maximum, "exchange.receive-maximum-kept"),
    ],
)
def test_the_judge_sees_each_broken_rule(wrong: Callable[[Judged], None], rule: str) -> None:
    judged = Judged()
    wrong(judged)
    assert any(complaint.startswith(rule) for complaint in judged.complaints), judged.complaints


@pytest.mark.parametrize("deliver_on", [PUBLISH, PUBREL])
def test_the_judge_has_nothing_against_an_exchange_that_is_resumed(deliver_on: int) -> None:
    judged = Judged(deliver_on)
    judged.publish(1, answered=False)
    judged.publish(2, qos=1, answered=False)
    judged.connect()
    judged.publish(1, dup=True)
    judged.publish(2, qos=1, dup=True)
    judged.publish(3)
    judged.connect()
    judged.release(1, answered=False)
    judged.release(3)
    judged.connect()
    judged.release(1)
    judged.publish(1, "another, as the identifier is free")
    judged.release(1)
    assert judged.complaints == []
    quality_2 = [packet.payload for packet in judged.delivered if packet.qos == 2]
    assert quality_2 == [b"1", b"3", b"another, as the identifier is free"]


@pytest.fixture
def remote() -> Iterator[FakeRemote]:
    with FakeRemote() as fake:
        yield fake
        fake.check()


@pytest.mark.parametrize("level", [4, 5])
def test_a_session_is_kept_and_an_answer_is_cut_at_its_byte(remote: FakeRemote, level: int) -> None:
    """The client that did not get its whole PUBREC finds its session, sends again, and the message is delivered once."""
    remote.cut(Cut(PUBREC, at=3))
    with MqttClient(remote.port, "a", version=level, clean=False, session_expiry_s=60) as client:
        client.publish("t", "m", qos=2, packet_id=7)
        with pytest.raises(Closed):
            client.read()
        assert client.connect().session_present
        client.publish("t", "m", qos=2, packet_id=7, dup=True)
        client.expect(PUBREC, packet_id=7)
        client.acknowledge(PUBREL, 7)
        client.expect(PUBCOMP, packet_id=7)
    assert len(remote.delivered) == 1
    assert [record.packet.kind for record in remote.packets if record.sent] == [CONNACK, CONNACK, PUBREC, PUBCOMP]
    remote.forget_sessions()
    client = MqttClient(remote.port, "a", version=level, clean=False, session_expiry_s=60)
    assert not client.connect().session_present
    client.close()


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_lets_exactly_its_bytes_pass(remote: FakeRemote, at: int, reset: bool) -> None:
    remote.cut(Cut(CONNACK, at=at, reset=reset))
    with socket.create_connection(("127.0.0.1", remote.port), timeout=5.0) as client:
        client.sendall(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a")
        passed = b""
        try:
            while data := client.recv(100):
                passed += data
        except ConnectionResetError:
            assert reset
        else:
            assert not reset
        assert passed == b"\x20\x02\x00\x00"[:at]
    wait_until(lambda: not remote.cuts_left, 5.0, "the cut")


def test_a_packet_that_was_not_read_whole_has_no_effect(remote: FakeRemote) -> None:
    with MqttClient(remote.port, "a", clean=False) as client:
        size = len(client.encode_publish("t", "m", 1, 1))
        for at in range(size):
            remote.cut(Cut(PUBLISH, at=at))
            client.publish("t", "m", qos=1, packet_id=1)
            with pytest.raises((Closed, ConnectionResetError)):
                client.read()
            client.connect()
        assert remote.delivered == []
        remote.cut(Cut(PUBLISH))
        client.publish("t", "m", qos=1, packet_id=1)
        with pytest.raises((Closed, ConnectionResetError)):
            client.read()
        assert len(remote.delivered) == 1


def test_it_refuses_stalls_and_answers_with_reason_codes(remote: FakeRemote) -> None:
    remote.refuse_connect = 0x88
    client = MqttClient(remote.port, "a", version=5, clean=False, session_expiry_s=60)
    assert client.connect().reason_code == 0x88
    remote.refuse_connect = 0
    remote.properties = [(RECEIVE_MAXIMUM, 5)]
    assert client.connect().property(RECEIVE_MAXIMUM) == 5
    remote.reason_code = lambda packet: 0x97 if packet.payload == b"refused" else 0x10
    client.publish("t", "refused", qos=2, packet_id=1)
    assert client.expect(PUBREC, packet_id=1).reason_code == 0x97
    client.publish("t", "taken", qos=1, packet_id=2)
    assert client.expect(PUBACK, packet_id=2).reason_code == 0x10
    remote.stalled = True
    client.publish("t", "stalled", qos=1, packet_id=3)
    assert client.is_silent_for(0.1)
    client.close()
    assert [packet.payload for packet in remote.delivered] == [b"taken", b"stalled"]
    remote.plant_session("b")
    other = MqttClient(remote.port, "b", version=5, clean=False)
    assert other.connect().session_present
    other.close()
    assert [packet.kind for packet in remote.received(CONNECT)] == [CONNECT] * 3
