"""NotRecorded: identifiers that are on record for messages of others."""

from __future__ import annotations

from array import array

from wire.exchange.identifiers_not_recorded import NotRecorded
from wire.exchange.receiver import ReceiverHalf
from wire.frames.batch import pack_column

DUP = 0x08


def ids(*packet_ids: int) -> bytes:
    return pack_column(array("H", packet_ids))


def publish(packet_id: int, flags: int = 0) -> bytes:
    return bytes((0x34 | flags, 5, 0, 1)) + b"t" + packet_id.to_bytes(2, "big")


def test_what_was_dropped_is_of_others_until_it_is_committed() -> None:
    unrecorded = NotRecorded()
    unrecorded.dropped([1, 2])
    assert list(unrecorded.on_record(ids(1, 2, 3))) == [3]
    unrecorded.committed(ids(2))
    assert list(unrecorded.on_record(ids(1, 2, 3))) == [2, 3]
    unrecorded.clear()
    assert list(unrecorded.on_record(ids(1, 2, 3))) == [1, 2, 3]


def test_what_nobody_looked_at_is_new_unless_it_came_with_dup() -> None:
    unrecorded = NotRecorded()
    unrecorded.untaken(publish(1) + publish(2, DUP) + publish(3) + b"\xff\xff", 100, None)
    assert list(unrecorded.on_record(ids(1, 2, 3))) == [2]


def test_what_is_left_out_on_an_open_session_is_no_repeat_any_more() -> None:
    unrecorded = NotRecorded()
    flow = ReceiverHalf(number=1, session="s", level=4, receive_maximum=100, topic_alias_maximum=0, dup_tells=True)
    flow.carry([1, 2])
    for packet_id in (1, 5):
        packet = publish(packet_id)
        unrecorded.left_out(packet, packet[0], 2, flow)
    assert flow.carried == {2}
    assert list(unrecorded.on_record(ids(1, 2, 5))) == [2, 5]
