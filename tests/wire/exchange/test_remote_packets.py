"""Packets of a remote broker that are not acknowledgements."""

from __future__ import annotations

import pytest

from wire.errors import PeerViolation
from wire.exchange.remote_packets import (
    SAID_MAX,
    RemotePacket,
    acknowledge,
    connack,
    is_publish,
    may_answer_connect,
    next_packet,
    read_disconnect,
)
from wire.mqtt.packets import Connack
from wire.mqtt.properties import Properties


@pytest.mark.parametrize(
    ("packet", "answer"),
    [
        (b"\x30\x04\x00\x01tx", b""),
        (b"\x32\x05\x00\x01t\x00\x09", b"\x40\x02\x00\x09"),
        (b"\x3d\x06\x00\x01t\x00\x0ax", b"\x50\x02\x00\x0a"),
        (b"\x62\x03\x00\x0a\x00", b"\x70\x02\x00\x0a"),
    ],
)
def test_a_publish_is_completed_whatever_its_qos(packet: bytes, answer: bytes) -> None:
    for end in range(len(packet)):
        assert next_packet(packet[:end], 0, bytes_max=100, publish_bytes_max=100) is None
    found = next_packet(b"\xd0\x00" + packet, 2, bytes_max=100, publish_bytes_max=100)
    assert found is not None
    assert (found.end, is_publish(found)) == (2 + len(packet), True)
    assert acknowledge(found) == answer


@pytest.mark.parametrize(
    "packet", [b"\x36\x05\x00\x01t\x00\x09", b"\x32\x03\x00\x01t", b"\x32\x05\x00\x01t\x00\x00", b"\x62\x01\x00"]
)
def test_a_malformed_publish_or_pubrel_is_a_violation(packet: bytes) -> None:
    found = next_packet(packet, 0, bytes_max=100, publish_bytes_max=100)
    assert found is not None
    with pytest.raises(PeerViolation):
        acknowledge(found)


@pytest.mark.parametrize("packet", [b"\x30\x65", b"\x30\xff\xff\xff\xff\x01"])
def test_a_length_beyond_the_limit_is_a_violation_before_the_packet_is_there(packet: bytes) -> None:
    with pytest.raises(PeerViolation):
        next_packet(packet, 0, bytes_max=100, publish_bytes_max=100)


def test_a_publish_has_a_limit_of_its_own() -> None:
    assert next_packet(b"\x30\x65", 0, bytes_max=100, publish_bytes_max=200) is None
    with pytest.raises(PeerViolation):
        next_packet(b"\x90\x65", 0, bytes_max=100, publish_bytes_max=200)


@pytest.mark.parametrize(
    ("body", "name", "said", "elsewhere"),
    [
        (b"", "normal disconnection", "", ""),
        (b"\x8e", "session taken over", "", ""),
        (b"\x8b\x00", "server shutting down", "", ""),
        (b"\x9c\x0a\x1c\x00\x07other:1", "use another server", "", "other:1"),
        (b"\x9d\x0d\x1f\x00\x03bye\x1c\x00\x04o:12", "server moved", "bye", "o:12"),
        (b"\x9d\x05\x1f\x00\x03by", "server moved", "", ""),  # malformed: the reason counts all the same
        (b"\xee\xff", "reason code 0xee", "", ""),
    ],
)
def test_a_disconnect_is_known_by_name(body: bytes, name: str, said: str, elsewhere: str) -> None:
    heard = read_disconnect(RemotePacket(0xE0, body, len(body) + 2))
    assert (heard.name, heard.reason_string, heard.server_reference) == (name, said, elsewhere)


def test_no_text_of_a_remote_makes_a_long_line_of_the_log() -> None:
    body = b"\x80" + b"\xe0\xd4\x03" + b"\x1f\xea\x5d" + b"r" * 59_997 + b"\x00"
    heard = read_disconnect(RemotePacket(0xE0, body[: 1 + 3 + 3 + 59_997], 60_004))
    assert 0 < len(heard.reason_string) <= SAID_MAX


@pytest.mark.parametrize(
    ("level", "body", "expected"),
    [
        (4, b"\x01\x00", Connack(session_present=True, reason_code=0)),
        (4, b"\x00\x03", Connack(session_present=False, reason_code=0x88)),
        (5, b"\x00\x01", Connack(session_present=False, reason_code=0x84)),  # of a broker of 3.1.1
        (5, b"\x00\x97\x00", Connack(session_present=False, reason_code=0x97)),
        (
            5,
            b"\x01\x00\x05\x27\xff\xff\xff\xff",
            Connack(session_present=True, reason_code=0, properties=Properties(maximum_packet_size=0xFFFF_FFFF)),
        ),
    ],
)
def test_a_connack_has_the_reason_codes_of_mqtt_5_at_either_level(level: int, body: bytes, expected: Connack) -> None:
    assert connack(body, level) == expected


@pytest.mark.parametrize(("level", "body"), [(4, b"\x01\x00\x00"), (4, b"\x00\x06"), (5, b"\x00\x00"), (5, b"\x00\x05"), (5, b"")])
def test_a_malformed_connack_is_a_violation(level: int, body: bytes) -> None:
    with pytest.raises(PeerViolation):
        connack(body, level)


def test_a_remote_begins_with_connack_or_with_disconnect_at_mqtt_5() -> None:
    assert [first for first in range(256) if may_answer_connect(first, 5)] == [0x20, 0xE0]
    assert [first for first in range(256) if may_answer_connect(first, 4)] == [0x20]
