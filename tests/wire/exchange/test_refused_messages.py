"""A refused row leads back to its client, its packet identifier and its message."""

from __future__ import annotations

from array import array

from wire.exchange.refused_messages import refused_messages
from wire.frames.batch import REFUSABLE, from_rows, pack_column


def test_rows_of_two_clients_and_all_qos_are_told_apart() -> None:
    batch = from_rows([(b"a", 1, b"0"), (b"a", 2 | REFUSABLE, b"1"), (b"b", 1, b"2"), (b"a", 0, b"3"), (b"a", 1, b"4")])
    batch.properties = {1: b"\x01\x01"}
    sources = pack_column(array("I", [7, 8, 7, 7, 9]))
    received = {"eight": (pack_column(array("H", [600])), pack_column(array("H", [1])))}
    rows = pack_column(array("H", [1, 2, 3]))

    refused = refused_messages(batch, sources, {7: [b"\0\1", b"\0\2"], 9: [b"\0\5"]}, received, rows)

    assert [(m.source, m.packet_id, m.topic, m.qos, m.payload, m.refusable) for m in refused] == [
        (8, (600).to_bytes(2, "big"), b"a", 2, b"1", True),
        (7, b"\0\2", b"b", 1, b"2", False),
        (7, b"", b"a", 0, b"3", False),
    ]
    assert refused[0].properties == b"\x01\x01"


def test_a_will_has_no_packet_identifier_to_be_told_about() -> None:
    """It is in the batch beside the last messages of its client, at any QoS."""
    batch = from_rows([(b"a", 1, b"0"), (b"w", 1, b"will"), (b"w", 2, b"will")])
    sources = pack_column(array("I", [7, 7, 8]))
    refused = refused_messages(batch, sources, {7: [b"\0\1"]}, {}, pack_column(array("H", [0, 1, 2])), {1, 2})
    assert [(message.packet_id, message.payload) for message in refused] == [(b"\0\1", b"0")]
