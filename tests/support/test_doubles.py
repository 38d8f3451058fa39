"""The doubles themselves, on a real Mosquitto: a judge that cannot see a fault is worth nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.fuzz.recordings import RECORDINGS
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import (
    CONNACK,
    CONNECT,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    USER_PROPERTY,
    PacketReader,
    Sender,
    string,
    variable,
)
from tests.support.node import ROOT
from tests.support.ports import accepts, free_port
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.recorder import Recorder
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until
from tests.wire.mqtt.malformed import MALFORMED


@pytest.mark.parametrize("sender", Sender)
@pytest.mark.parametrize(("level", "data"), [pytest.param(level, data, id=name) for name, level, data, _, _ in MALFORMED])
def test_what_breaks_a_rule_by_itself_is_judged_wrong(level: int, data: str, sender: Sender) -> None:
    reader = PacketReader(sender, level)
    reader.feed(bytes.fromhex(data))
    with pytest.raises(AssertionError):
        reader.next()


@pytest.mark.parametrize("packets", RECORDINGS)
def test_what_a_well_behaved_client_sends_is_judged_right(packets: list[bytes]) -> None:
    """And read to the end, byte by byte. No server sends its CONNECT."""
    reader, kinds = PacketReader(Sender.CLIENT), []
    for byte in b"".join(packets):
        reader.feed(bytes((byte,)))
        kinds += [packet.kind for packet in reader.all()]
    assert kinds == [packet[0] >> 4 for packet in packets]
    assert not reader.data
    from_server = PacketReader(Sender.SERVER, reader.version)
    from_server.feed(packets[0])
    with pytest.raises(AssertionError, match="a Server does not send packets of kind 1"):
        from_server.next()


@pytest.mark.process
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publisher_that_loses_its_connection_sends_again(remote: Mosquitto, qos: int) -> None:
    """Five cuts between publisher and broker: QoS 1 complete, QoS 2 exact, as Mosquitto keeps its side.

    The window is Mosquitto's own: 2.0 drops what an MQTT 3.1.1 publisher has in flight at QoS 2 beyond that.
    """
    with (
        Proxy(remote.port) as proxy,
        Subscriber(remote.port, "t") as subscriber,
        Publisher(proxy.port, "t", qos=qos, window=20) as publisher,
    ):
        for _ in range(5):
            publisher.wait_acknowledged(50)
            before = publisher.reconnects
            proxy.cut()
            wait_until(lambda: publisher.reconnects > before, 10.0, "the publisher notices")  # noqa: B023  # used at once
            proxy.restore()
        publisher.wait_acknowledged(50)
        sent = publisher.finish()
        if qos == 0:
            return
        arrivals = subscriber.wait_for("t", sent)
        assert arrivals.are_complete(), arrivals
        assert qos == 1 or arrivals.are_exact(), arrivals


@pytest.mark.process
def test_arrivals_names_each_kind_of_fault(remote: Mosquitto) -> None:
    with Subscriber(remote.port, "t") as subscriber:
        mosquitto_pub(remote.port, "t", ["0", "2", "1", "1", "x"], qos=1)
        wait_until(lambda: subscriber.count() == 5, 5.0, "five messages")
        arrivals = subscriber.arrivals("t", ["0", "1", "2", "3"])
        assert (arrivals.missing, arrivals.duplicates, arrivals.out_of_order, arrivals.unexpected) == (["3"], ["1"], ["1"], ["x"])
        assert not arrivals.are_exact()
        assert not arrivals.are_complete()


@pytest.mark.process
def test_a_stalled_proxy_passes_nothing_and_closes_nothing(remote: Mosquitto) -> None:
    with Proxy(remote.port) as proxy, MqttClient(proxy.port) as client:
        client.ping()
        proxy.stall()
        client.send(b"\xc0\x00")
        assert client.is_silent_for(0.3)
        proxy.restore()
        assert client.read().kind == 13


@pytest.mark.process
def test_the_client_speaks_mqtt_5(remote: Mosquitto) -> None:
    with MqttClient(remote.port, "a", version=5) as client:
        client.subscribe("t", qos=1)
        client.publish("t", "m", qos=0, properties=[(USER_PROPERTY, ("k", "v"))])
        packet = client.expect(PUBLISH)
        assert (packet.topic, packet.payload, packet.user_properties) == ("t", b"m", [("k", "v")])


def packet(kind: int, flags: int, body: bytes) -> bytes:
    """One MQTT packet."""
    return bytes([kind << 4 | flags]) + variable(len(body)) + body


def publish(packet_id: int, payload: bytes, *, qos: int = 2, dup: bool = False) -> bytes:
    """A PUBLISH on topic ``t`` at protocol level 4."""
    return packet(PUBLISH, dup << 3 | qos << 1, string("t") + packet_id.to_bytes(2, "big") + payload)


def answer(kind: int, packet_id: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""
    return packet(kind, 2 if kind == PUBREL else 0, packet_id.to_bytes(2, "big"))


class Wire:
    """A connection as a proxy shows it to the recorder, byte by byte."""

    def __init__(self, recorder: Recorder, number: int, *, session_present: bool) -> None:
        self._recorder, self._number = recorder, number
        recorder.opened(number)
        self.up(packet(CONNECT, 0, string("MQTT") + b"\x04\x00\x00\x3c" + string("bridge")))
        self.down(packet(CONNACK, 0, bytes((session_present, 0))))

    def up(self, *packets: bytes) -> None:
        """The packets of the bridge."""
        for byte in b"".join(packets):
            self._recorder.passed_up(self._number, bytes((byte,)))

    def down(self, *packets: bytes) -> None:
        """The answers of the remote."""
        for byte in b"".join(packets):
            self._recorder.came_down(self._number, bytes((byte,)))


def test_the_recorder_takes_a_resumed_exchange_for_what_it_is() -> None:
    """PUBLISH again with DUP before PUBREL, PUBREL again, and in the end everything once."""
    recorder = Recorder()
    first = Wire(recorder, 1, session_present=False)
    first.up(publish(1, b"0"), publish(2, b"1"))
    first.down(answer(PUBREC, 1))
    second = Wire(recorder, 2, session_present=True)
    second.up(publish(1, b"0", dup=True), publish(2, b"1", dup=True))
    second.down(answer(PUBREC, 1), answer(PUBREC, 2))
    second.up(answer(PUBREL, 1), answer(PUBREL, 2))
    assert [record.packet_id for record in recorder.unfinished()] == [1, 2]
    third = Wire(recorder, 3, session_present=True)
    third.up(answer(PUBREL, 1), answer(PUBREL, 2))
    third.down(answer(PUBCOMP, 1), answer(PUBCOMP, 2))
    assert recorder.taken("t") == ["0", "1"]
    assert (recorder.faults, recorder.duplicates(), recorder.unfinished(), recorder.session) == ([], [], [], 1)


def test_the_recorder_tells_a_session_loss_from_a_duplicate() -> None:
    """A released message goes again: a duplicate in the same session, the policy's affair in the next."""
    for session_present in (True, False):
        recorder = Recorder()
        first = Wire(recorder, 1, session_present=False)
        first.up(publish(1, b"0"))
        first.down(answer(PUBREC, 1))
        first.up(answer(PUBREL, 1))
        Wire(recorder, 2, session_present=session_present).up(publish(1, b"0", dup=session_present))
        assert [record.packet_id for record in recorder.duplicates()] == [1] * session_present
        assert [record.packet_id for record in recorder.sent_again_after_release()] == [1] * (not session_present)


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        ([publish(1, b"0"), publish(1, b"0", dup=True)], "sent twice on one connection"),
        ([publish(1, b"0"), publish(1, b"1")], "packet identifier given twice"),
        ([publish(1, b"0"), answer(PUBREL, 1)], "PUBREL without PUBREC"),
    ],
)
def test_the_recorder_names_what_no_sender_may_do(sent: list[bytes], fault: str) -> None:
    recorder = Recorder()
    Wire(recorder, 1, session_present=False).up(*sent)
    assert recorder.faults
    assert fault in recorder.faults[0]


def test_the_recorder_sees_a_missing_dup_a_second_identifier_and_a_wrong_order() -> None:
    recorder = Recorder()
    first = Wire(recorder, 1, session_present=False)
    first.up(publish(1, b"0"), publish(2, b"1"), publish(3, b"2", qos=1))
    first.down(answer(PUBREC, 2))
    second = Wire(recorder, 2, session_present=True)
    second.up(publish(1, b"0"), publish(4, b"1"))
    second.down(answer(PUBREC, 1), answer(PUBREC, 4))
    assert "without DUP" in recorder.faults[0]
    assert {record.message[1] for record in recorder.duplicates()} == {"1"}
    assert recorder.taken("t") == ["1", "0"], "and 2 was not taken"


@pytest.mark.process
def test_no_port_is_given_to_two_processes() -> None:
    """Nor twice to one, nor one on which somebody listens."""
    asking = "from tests.support.ports import free_port\nprint(*(free_port() for _ in range(50)), flush=True)\ninput()"
    words = [sys.executable, "-c", asking]
    with ExitStack() as stack:
        others = [
            stack.enter_context(subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(2)
        ]
        given = [int(port) for other in others if other.stdout for port in other.stdout.readline().split()]
        port = free_port()
        given += [port, *(free_port() for _ in range(50))]
        assert len(given) == len(set(given)) == 151
        with socket.create_server(("127.0.0.1", port)):
            assert accepts(port)
            assert all(free_port() != port for _ in range(100))
        for other in others:
            other.communicate("\n", timeout=PATIENCE_S)
