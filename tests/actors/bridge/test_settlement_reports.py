"""Reports to the Forwarder on the exchange: settlements, numbered, soon but not one by one; and credit."""

from __future__ import annotations

from actors.bridge.settlement_reports import (
    BYTES_IN_HAND,
    MESSAGES_IN_HAND_MIN,
    RELEASE_DELAY_S,
    SETTLE_DELAY_S,
    SETTLE_TIMER,
)
from tests.actors.lane_parts import SESSION, LaneParts
from tests.wire.outbound_model import PUBACK, PUBCOMP, PUBREC, ack, lane_opened
from wire.frames.lanes import Credit, Settle


def settles(parts: LaneParts) -> list[Settle]:
    return [frame for frame in parts.mailbox.sent if isinstance(frame, Settle)]


def credits_of(parts: LaneParts) -> list[tuple[int, int]]:
    return [(frame.messages, frame.size_bytes) for frame in parts.mailbox.sent if isinstance(frame, Credit)]


def test_a_settled_message_waits_a_moment_for_others_and_goes_with_them() -> None:
    parts = LaneParts()
    parts.connect()
    parts.publish(b"a", b"b")
    parts.written()
    settlements, now_s = parts.exchange.settlements, parts.mailbox.clock_s

    parts.flow.on_received(ack(PUBACK, 1))
    settlements.send_soon(now_s)
    parts.mailbox.clock_s += 0.01
    parts.flow.on_received(ack(PUBACK, 2))
    settlements.send_soon(now_s + 0.01)
    assert not settles(parts)
    assert parts.mailbox.timers == {SETTLE_TIMER: now_s + SETTLE_DELAY_S}, "counted from the first"

    settlements.send()
    assert not parts.mailbox.timers, "it is told"
    [told] = settles(parts)
    assert (told.number, told.epoch, told.settled) == (1, 1, (("delivered", ((0, 2),)),))
    (one, first_ms), (other, second_ms) = told.times
    assert (one, other, second_ms - first_ms) == (1, 1, 10), "when each was delivered, and not when that was told"


def test_a_release_that_nothing_gathers_with_is_told_at_once_because_its_pubrel_waits_for_the_commit() -> None:
    parts = LaneParts()
    parts.connect()
    parts.publish(b"a", qos=2)
    parts.written()
    parts.flow.on_received(ack(PUBREC, 1))

    parts.exchange.settlements.send_soon(parts.mailbox.clock_s)

    assert [frame.released for frame in settles(parts)] == [((0, 1),)]


def released(parts: LaneParts) -> list[tuple[tuple[int, int], ...]]:
    return [frame.released for frame in settles(parts) if frame.released]


def test_what_is_released_while_a_commit_is_under_way_is_told_together_when_that_is_done() -> None:
    parts = LaneParts()
    parts.connect()
    parts.publish(b"a", b"b", b"c", qos=2)
    parts.written()
    settlements, now_s = parts.exchange.settlements, parts.mailbox.clock_s
    for packet_id in (1, 2, 3):
        parts.flow.on_received(ack(PUBREC, packet_id))
        settlements.send_soon(now_s)
    assert released(parts) == [((0, 1),)]
    assert not parts.mailbox.timers, "the answer of the store begins the turn in which they are told"

    parts.flow.exchange.record.on_committed(settles(parts)[-1].number)
    settlements.send_soon(now_s)
    assert released(parts) == [((0, 1),), ((1, 3),)]


def full_window() -> LaneParts:
    """A window of two is full, two more messages wait for room in it, and the PUBREC of the first has come."""
    parts = LaneParts(receive_maximum=2)
    parts.connect()
    parts.publish(b"a", b"b", b"c", b"d", qos=2)
    parts.written()
    parts.flow.on_received(ack(PUBREC, 1))
    parts.exchange.settlements.send_soon(parts.mailbox.clock_s)
    return parts


def test_while_the_window_is_full_releases_are_told_together_when_all_of_it_is_answered() -> None:
    parts = full_window()
    settlements, now_s = parts.exchange.settlements, parts.mailbox.clock_s
    assert not released(parts)
    assert parts.mailbox.timers == {SETTLE_TIMER: now_s + RELEASE_DELAY_S}
    parts.flow.on_received(ack(PUBREC, 2))
    settlements.send_soon(now_s + 0.001)
    assert released(parts) == [((0, 2),)]
    assert not parts.mailbox.timers

    parts.flow.exchange.record.on_committed(settles(parts)[-1].number)
    parts.written()
    parts.flow.on_received(ack(PUBCOMP, 1))
    parts.written()
    parts.flow.on_received(ack(PUBREC, 3))
    settlements.send_soon(now_s + 0.003)
    assert released(parts) == [((0, 2),)], "a PUBCOMP is owed, and room for the last message with it"
    parts.flow.on_received(ack(PUBCOMP, 2))
    settlements.send_soon(now_s + 0.003)
    assert released(parts)[1:] == [((2, 3),)], "there is room"


def test_a_remote_that_answers_for_some_of_a_full_window_is_not_waited_for() -> None:
    parts = full_window()
    settlements, now_s = parts.exchange.settlements, parts.mailbox.clock_s
    settlements.send_soon(now_s + 0.001)
    assert parts.mailbox.timers == {SETTLE_TIMER: now_s + RELEASE_DELAY_S}, "counted from the first"
    settlements.send()
    assert released(parts) == [((0, 1),)]


def test_there_is_nothing_to_tell_before_the_lane_is_open_and_each_opening_counts_anew() -> None:
    parts = LaneParts()
    settlements = parts.exchange.settlements
    settlements.open(0)
    settlements.send()
    assert not settles(parts)
    numbers = []
    for epoch in (4, 5):
        settlements.open(epoch)
        parts.flow.open(lane_opened(epoch=epoch))
        parts.connect()
        settlements.send()
        numbers += [(frame.epoch, frame.number, frame.session) for frame in settles(parts)]
        parts.mailbox.sent.clear()
        parts.exchange.on_disconnected(by_remote=False)

    assert numbers == [(4, 1, SESSION), (5, 1, SESSION)], "a session that is not on record goes there first"


def test_credit_is_granted_once_and_again_when_a_quarter_of_it_is_used() -> None:
    parts = LaneParts(receive_maximum=1000)
    parts.connect()
    settlements = parts.exchange.settlements
    in_hand = 3 * 1000
    assert in_hand > MESSAGES_IN_HAND_MIN
    settlements.grant()
    settlements.grant()
    assert credits_of(parts) == [(in_hand, BYTES_IN_HAND)]

    used = in_hand // 4
    parts.publish(*[b""] * (used - 1))
    parts.written()
    settlements.grant()
    assert len(credits_of(parts)) == 1
    parts.publish(b"")
    parts.written()
    settlements.grant()

    assert [messages for messages, _ in credits_of(parts)] == [in_hand, in_hand + used]
