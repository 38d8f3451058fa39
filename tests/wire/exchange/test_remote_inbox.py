"""RemoteInbox: what a schedule of the simulation found, in small, and what is held for long."""

from __future__ import annotations

import pytest

from tests.storage.building import u16
from tests.wire.rules import bridge_of
from tests.wire.rules import rule as any_rule
from wire.exchange.refused_messages import OFFER_ROWS_MIN
from wire.exchange.remote_inbox import RemoteInbox
from wire.frames.batch import Batch
from wire.frames.codec import decode as decode_frame
from wire.frames.intake import Committed, Publishes
from wire.mqtt.codec import encode
from wire.mqtt.packets import Puback, Publish, Pubrec
from wire.mqtt.properties import Properties
from wire.mqtt.publish_properties import message_expiry_s
from wire.routing.form_from_remote import LocalForm
from wire.settings import BridgeSettings


def inbox_of(*, rows_max: int, level: int = 4) -> RemoteInbox:
    bridge = bridge_of("cloud")
    fields = {name: getattr(bridge, name) for name in bridge.__slots__}
    form = LocalForm(BridgeSettings(**fields | {"remote_subscriptions": (any_rule(1, "t"),)}))
    return RemoteInbox(form, sender="c", epoch=1, level=level, packet_max_bytes=1000, remote_keeps=True, rows_max=rows_max)


def publishes(first: int, count: int, level: int = 4) -> bytes:
    packets = (Publish(topic="t", payload=b"x", qos=1, packet_id=packet_id) for packet_id in range(first, first + count))
    return b"".join(encode(packet, level) for packet in packets)


def test_acknowledgements_behind_publishes_are_read_although_a_queue_refuses_those() -> None:
    """If not, and the queue that is full waits for them, it stays full for ever."""
    inbox = inbox_of(rows_max=2)
    inbox.connected("s")
    inbox.opened(b"")
    buffer = publishes(1, 2)
    assert inbox.take(buffer, 0) == len(buffer)
    assert inbox.next_batch(0.0, 0) is not None
    buffer = publishes(3, 5) + encode(Puback(packet_id=1), 4)
    first_two = len(publishes(3, 2))
    assert inbox.take(buffer, 0) == first_two, "no more than the batch that gathers has room for"
    assert inbox.blocked
    assert inbox.next_batch(0.0, 0) is not None
    buffer = buffer[first_two:]
    assert inbox.take(buffer, 0) == first_two
    assert inbox.blocked
    assert not inbox.takes, "two batches are on their way, and a third is full"

    inbox.committed(Committed(sender="c", epoch=1, store=1, number=1, refused={1: u16([0, 1])}), 0.0)

    assert inbox.takes
    position = inbox.take(buffer, first_two)
    assert not inbox.blocked
    assert buffer[position:] == encode(Puback(packet_id=1), 4)
    assert inbox.counts.skipped == 1


@pytest.mark.parametrize("forgotten", [False, True])
def test_nothing_is_left_out_for_a_remote_that_forgets_it_with_the_connection(forgotten: bool) -> None:
    """It would not come again on the next one."""
    inbox = inbox_of(rows_max=2, level=5)
    for again in (True, forgotten):  # what the remote says holds for one connection
        inbox.connected("s", forgotten=not again)
        inbox.disconnected()
    inbox.connected("s", forgotten=forgotten)
    inbox.opened(b"")
    buffer = publishes(1, 2, 5)
    assert inbox.take(buffer, 0) == len(buffer)
    assert inbox.next_batch(0.0, 0) is not None
    inbox.committed(Committed(sender="c", epoch=1, store=1, number=1, refused={1: u16([0, 1])}), 0.0)
    buffer = publishes(3, 2, 5)
    assert inbox.take(buffer, 0) == len(buffer)
    buffer = publishes(5, 1, 5)

    assert inbox.take(buffer, 0) == (0 if forgotten else len(buffer))

    assert (inbox.blocked, inbox.takes, inbox.counts.skipped) == (forgotten, not forgotten, int(not forgotten))


def offered(parts: list[bytes] | None) -> list[tuple[bytes, int | None]]:
    """Payload and message expiry interval of each message in a ``Publishes``."""
    assert parts is not None
    frame = decode_frame(parts)
    assert isinstance(frame, Publishes)
    batch = Batch.decode(frame.bodies[0])
    payloads = batch.rows_payloads()
    return [(payloads[row], message_expiry_s(batch.properties.get(row, b""))) for row in range(len(batch))]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_held_goes_on_ageing_and_is_answered_when_it_has_expired(qos: int) -> None:
    """However short the offers are apart."""
    inbox = inbox_of(rows_max=100, level=5)
    inbox.connected("s")
    inbox.opened(b"")
    came = [(b"short", 2), (b"long", 100), (b"ever", None)]
    packets = (
        Publish(topic="t", payload=payload, qos=qos, packet_id=at, properties=Properties(message_expiry_interval=interval_s))
        for at, (payload, interval_s) in enumerate(came, start=1)
    )
    buffer = b"".join(encode(packet, 5) for packet in packets)
    assert inbox.take(buffer, 0) == len(buffer)
    assert offered(inbox.next_batch(0.0, 10_000)) == came

    answers = inbox.committed(Committed(sender="c", epoch=1, store=1, number=1, refused={1: u16([0, 1, 2])}), 0.0)
    for number in range(2, 8):  # 10.3 s, 10.6 s, ... 11.8 s
        left_s = 2 - (number - 1) * 300 // 1000
        assert offered(inbox.offer_again(0.0, 10_000 + (number - 1) * 300)) == [(b"short", left_s), (b"long", 98 + left_s), came[2]]
        answers += inbox.committed(Committed(sender="c", epoch=1, store=1, number=number, refused={number: u16([0, 1, 2])}), 0.0)
    assert not answers
    assert offered(inbox.offer_again(0.0, 12_000)) == [(b"long", 98), came[2]]

    answers = inbox.committed(Committed(sender="c", epoch=1, store=1, number=8, refused={8: u16([0, 1])}), 0.0)

    kind = Puback if qos == 1 else Pubrec
    assert answers == encode(kind(packet_id=1), 5)
    assert (inbox.counts.expired, inbox.waiting) == (1, 2)
    assert offered(inbox.offer_again(0.0, 13_000)) == [(b"long", 97), came[2]]
    answers = inbox.committed(Committed(sender="c", epoch=1, store=1, number=9, refused={}), 0.0)
    assert answers == encode(kind(packet_id=2), 5) + encode(kind(packet_id=3), 5)


def qos2(packet_id: int, *, topic: str = "t", dup: bool = False) -> bytes:
    return encode(Publish(topic=topic, payload=b"%d" % packet_id, qos=2, packet_id=packet_id, dup=dup), 4)


def pubrecs(*packet_ids: int) -> bytes:
    return b"".join(encode(Pubrec(packet_id=packet_id), 4) for packet_id in packet_ids)


def committed(number: int, *refused: int) -> Committed:
    return Committed(sender="c", epoch=1, store=1, number=number, refused={number: u16(refused)} if refused else {})


@pytest.mark.parametrize("apart", [False, True])
def test_the_answers_to_what_the_store_never_sees_wait_behind_what_it_refuses(apart: bool) -> None:
    """exchange.answers-in-order: a repeat, and a message that no rule has; also in the batch behind."""
    inbox = inbox_of(rows_max=2 if apart else 10)
    inbox.connected("s")
    inbox.opened(u16([3]))
    first = qos2(1) + qos2(2)
    behind = qos2(3, dup=True) + qos2(4, topic="other") + qos2(5, topic="other")
    buffer = first + behind
    if apart:
        assert inbox.take(first, 0) == len(first)
        assert inbox.next_batch(0.0, 0) is not None
        buffer = behind
    assert inbox.take(buffer, 0) == len(buffer)
    assert inbox.next_batch(0.0, 0) is not None

    assert inbox.committed(committed(1, 1), 0.0) == pubrecs(1)
    if apart:
        assert inbox.committed(committed(2), 0.0) == b""
    number = 3 if apart else 2
    for refused in ((0,), ()):
        assert offered(inbox.offer_again(0.0, 0)) == [(b"2", None)]
        assert inbox.committed(committed(number, *refused), 0.0) == (b"" if refused else pubrecs(2, 3, 4, 5))
        number += 1


def test_a_message_that_is_held_and_comes_once_more_is_not_answered_before_it_is_committed() -> None:
    """exchange.answers-in-order, P1: some remotes send again on one connection."""
    inbox = inbox_of(rows_max=1)
    inbox.connected("s")
    inbox.opened(b"")
    for buffer in (qos2(1), qos2(1, dup=True) + qos2(2)):
        assert inbox.take(buffer, 0) == len(buffer)
        assert inbox.next_batch(0.0, 0) is not None
    assert inbox.committed(committed(1, 0), 0.0) == b""
    assert inbox.committed(committed(2, 0), 0.0) == b""
    assert inbox.offer_again(0.0, 0) is not None
    assert inbox.committed(committed(3), 0.0) == pubrecs(1, 1, 2)


def test_what_was_dropped_before_the_store_had_it_is_taken_when_it_comes_again_and_what_is_on_record_is_not() -> None:
    """exchange.repeat-not-taken-again: whatever DUP says, on the same connection or a later one."""
    record = u16([7, 8])
    inbox = inbox_of(rows_max=2)

    def take(*packets: tuple[int, bool]) -> None:
        buffer = b"".join(
            encode(Publish(topic="t", payload=b"%d" % packet_id, qos=2, packet_id=packet_id, dup=dup), 4)
            for packet_id, dup in packets
        )
        assert inbox.take(buffer, 0) == len(buffer)

    inbox.connected("s")
    inbox.opened(record)
    take((9, False), (3, False))
    assert inbox.next_batch(0.0, 0) is not None
    inbox.committed(Committed(sender="c", epoch=1, store=1, number=1, refused={1: u16([0, 1])}), 0.0)
    take((7, False), (8, True), (4, False), (5, False), (6, False))
    assert (inbox.waiting, inbox.counts.skipped, inbox.counts.duplicates) == (4, 1, 2)
    inbox.disconnected()

    inbox.connected("s")
    inbox.opened(record)
    take((9, True), (3, False))
    assert offered(inbox.next_batch(0.0, 0)) == [(b"9", None), (b"3", None)]
    take((7, False), (8, True))
    assert inbox.counts.duplicates == 4


def test_what_is_held_is_told_each_time_something_is_offered_and_qos_0_that_is_given_up_when_the_connection_ends() -> None:
    inbox = inbox_of(rows_max=100)
    inbox.connected("s")
    inbox.opened(b"")
    count = OFFER_ROWS_MIN + 4
    buffer = b"".join(encode(Publish(topic="t", payload=b"x", qos=0), 4) for _ in range(count)) + publishes(1, 1)
    assert inbox.take(buffer, 0) == len(buffer)
    assert inbox.next_batch(0.0, 0) is not None
    rows = u16(range(count + 1))
    inbox.committed(Committed(sender="c", epoch=1, store=1, number=1, refused={1: rows}), 0.0)

    assert inbox.offer_again(0.0, 0) is not None
    assert inbox.resumes() == [(1, 5, 0)]
    inbox.committed(Committed(sender="c", epoch=1, store=1, number=2, refused={2: u16([OFFER_ROWS_MIN - 1])}), 0.0)
    assert inbox.offer_again(0.0, 0) is not None
    assert inbox.resumes() == [(1, 0, 0)]
    inbox.disconnected()
    inbox.committed(Committed(sender="c", epoch=1, store=1, number=3, refused={3: u16(range(6))}), 0.0)

    assert inbox.resumes() == [(1, 0, 5)], "the one at QoS 1 comes again"
    assert inbox.counts.dropped == 5
    assert inbox.resumes() == []
