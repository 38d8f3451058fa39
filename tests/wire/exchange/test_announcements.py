"""Words of a bridge about itself keep within what its remote allows (exchange.announced-in-window)."""

from __future__ import annotations

import pytest

from tests.support.mqtt_packets import PacketReader, Sender
from wire.exchange.announcements import Announcement
from wire.exchange.packet_identifiers import ANNOUNCED_ID, PACKET_IDS, SUBSCRIBE_IDS


@pytest.mark.parametrize(
    ("maximum_qos", "retain_available", "qos", "retain"), [(2, True, 1, True), (0, True, 0, True), (1, False, 1, False)]
)
@pytest.mark.parametrize("level", [4, 5])
def test_a_word_is_as_the_remote_allows(maximum_qos: int, retain_available: bool, qos: int, retain: bool, level: int) -> None:
    """exchange.announced-in-window."""
    packet = Announcement(topic="t", payload=b"1").encode(level, maximum_qos=maximum_qos, retain_available=retain_available)
    reader = PacketReader(Sender.CLIENT, level)
    reader.feed(packet)
    read = reader.next()
    assert read is not None
    assert (read.topic, read.payload, read.qos, read.retain) == ("t", b"1", qos, retain)


def test_its_packet_identifier_is_nobody_elses() -> None:
    """exchange.announced-in-window."""
    assert ANNOUNCED_ID > PACKET_IDS + SUBSCRIBE_IDS
