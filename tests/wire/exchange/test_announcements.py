"""Words of a bridge about itself keep within what its remote allows (exchange.announced-in-window)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.mqtt_packets import PacketReader, Sender
from wire.exchange.announcements import Announcement
from wire.exchange.packet_identifiers import CONNECTED_ID, LEAVING_ID, PACKET_IDS, SUBSCRIBE_IDS


@pytest.mark.parametrize(
    ("allowed", "qos", "retain"),
    [({}, 1, True), ({"receive_maximum": 1}, 0, True), ({"maximum_qos": 0}, 0, True), ({"retain_available": False}, 1, False)],
)
@pytest.mark.parametrize("level", [4, 5])
def test_a_word_is_as_the_remote_allows(allowed: dict[str, Any], qos: int, retain: bool, level: int) -> None:
    """exchange.announced-in-window."""
    limits: dict[str, Any] = {"receive_maximum": 20, "maximum_qos": 2, "retain_available": True, **allowed}
    packet = Announcement(topic="t", payload=b"1").encode(CONNECTED_ID, level, **limits)
    reader = PacketReader(Sender.CLIENT, level)
    reader.feed(packet)
    read = reader.next()
    assert read is not None
    assert (read.topic, read.payload, read.qos, read.retain) == ("t", b"1", qos, retain)


def test_their_packet_identifiers_are_nobody_elses() -> None:
    """exchange.announced-in-window."""
    assert min(LEAVING_ID, CONNECTED_ID) > PACKET_IDS + SUBSCRIBE_IDS
