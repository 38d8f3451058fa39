"""Packets of a remote broker that are not acknowledgements."""

from __future__ import annotations

import pytest

from wire.errors import PeerViolation
from wire.remote_packets import acknowledge, is_publish, next_packet


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
        assert next_packet(packet[:end], 0, bytes_max=100) is None
    found = next_packet(b"\xd0\x00" + packet, 2, bytes_max=100)
    assert found is not None
    assert (found.end, is_publish(found)) == (2 + len(packet), True)
    assert acknowledge(found) == answer


@pytest.mark.parametrize(
    "packet", [b"\x36\x05\x00\x01t\x00\x09", b"\x32\x03\x00\x01t", b"\x32\x05\x00\x01t\x00\x00", b"\x62\x01\x00"]
)
def test_a_malformed_publish_or_pubrel_is_a_violation(packet: bytes) -> None:
    found = next_packet(packet, 0, bytes_max=100)
    assert found is not None
    with pytest.raises(PeerViolation):
        acknowledge(found)


@pytest.mark.parametrize("packet", [b"\x30\x65", b"\x30\xff\xff\xff\xff\x01"])
def test_a_length_beyond_the_limit_is_a_violation_before_the_packet_is_there(packet: bytes) -> None:
    with pytest.raises(PeerViolation):
        next_packet(packet, 0, bytes_max=100)
