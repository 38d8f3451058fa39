"""Chapter 6: MQTT over WebSocket."""

from __future__ import annotations

import struct

import pytest

from tests.broker.raw import BINARY, CLOSE, TEXT, WebSocket, dial, frame, read_to_end, upgrade_request
from tests.conformance.brokers import Broker
from tests.conformance.statements import clause, deviates
from tests.support import mqtt_client
from tests.support.mqtt_packets import connect_bytes, publish_bytes

CONNACK = {4: b"\x20\x02\x00\x00", 5: b"\x20"}


def _opened(broker: Broker) -> WebSocket:
    return WebSocket(dial(broker.websocket_port), "/mqtt")


def _read_packet(socket: WebSocket) -> bytes:
    """The next packet of less than 128 bytes, however it is framed."""
    data = b""
    while len(data) < 2 or len(data) < 2 + data[1]:
        opcode, payload = socket.read_frame()
        assert opcode == BINARY, "MQTT-6.0.0-1"
        data += payload
    assert len(data) == 2 + data[1]
    return data


@clause(v311="MQTT-6.0.0-1 MQTT-6.0.0-4", v5="MQTT-6.0.0-1 MQTT-6.0.0-4")
def test_the_subprotocol_is_mqtt_and_frames_are_binary(broker: Broker, version: int, topic: str) -> None:
    with _opened(broker) as socket:
        assert "sec-websocket-protocol: mqtt\r\n" in socket.head.lower()
        socket.send(frame(BINARY, connect_bytes(version, topic)))
        assert _read_packet(socket).startswith(CONNACK[version])


@deviates("mosquitto", "2.0.11 does not look at the opcode of a frame")
@clause(v311="MQTT-6.0.0-1", v5="MQTT-6.0.0-1")
def test_a_text_frame_ends_the_connection(broker: Broker, version: int, topic: str) -> None:
    with _opened(broker) as socket:
        socket.send(frame(TEXT, connect_bytes(version, topic)))
        socket.sock.settimeout(mqtt_client.PATIENCE_S)
        rest = read_to_end(socket.sock)
        assert not rest or rest[0] & 15 == CLOSE


@pytest.mark.parametrize("size", [1, 5, 1000])
@clause(v311="MQTT-6.0.0-2", v5="MQTT-6.0.0-2")
def test_packets_need_not_be_aligned_to_frames(broker: Broker, version: int, topic: str, size: int) -> None:
    """Several in one frame, one in many frames, borders anywhere."""
    whole = connect_bytes(version, topic) + publish_bytes(version, topic, b"x", 1, 1) + publish_bytes(version, topic, b"y", 1, 2)
    with _opened(broker) as socket:
        socket.send(*(frame(BINARY, whole[at : at + size]) for at in range(0, len(whole), size)))
        data = b""
        while data.count(b"\x40") < 2:
            opcode, payload = socket.read_frame()
            assert opcode == BINARY
            data += payload
        acknowledged = data[data[1] + 2 :]
        assert acknowledged[2:4] == struct.pack("!H", 1)
        assert struct.pack("!H", 2) in acknowledged[4:]


@deviates("mosquitto", "2.0.11 goes on without a subprotocol", "None")
@pytest.mark.parametrize("offered", [None, "chat"])
@clause(v311="MQTT-6.0.0-3", v5="MQTT-6.0.0-3")
def test_a_client_that_does_not_offer_mqtt_is_not_served_as_if_it_had(
    broker: Broker, version: int, topic: str, offered: str | None
) -> None:
    with dial(broker.websocket_port) as sock:
        sock.settimeout(mqtt_client.PATIENCE_S)
        sock.sendall(upgrade_request("/mqtt", offered))
        head = read_to_end(sock)
        assert b" 101 " not in head.split(b"\r\n")[0]
