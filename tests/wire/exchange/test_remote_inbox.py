"""RemoteInbox: what a schedule of the simulation found, in small, and what waits for long."""

from __future__ import annotations

import pytest

from tests.storage.building import u16
from tests.wire.rules import bridge_of
from tests.wire.rules import rule as any_rule
from wire.config_settings import BridgeSettings
from wire.exchange.remote_inbox import RemoteInbox
from wire.frames.intake import Committed
from wire.mqtt.codec import encode
from wire.mqtt.packets import Puback, Publish, Pubrec, Pubrel
from wire.routing.form_from_remote import LocalForm


def inbox_of(*, rows_max: int) -> RemoteInbox:
    bridge = bridge_of("cloud")
    fields = {name: getattr(bridge, name) for name in bridge.__slots__}
    form = LocalForm(BridgeSettings(**fields | {"remote_subscriptions": (any_rule(1, "t"),)}))
    return RemoteInbox(form, sender="c", epoch=1, packet_max_bytes=1000, rows_max=rows_max)


def publishes(first: int, count: int, level: int = 4) -> bytes:
    packets = (Publish(topic="t", payload=b"x", qos=1, packet_id=packet_id) for packet_id in range(first, first + count))
    return b"".join(encode(packet, level) for packet in packets)


def committed(number: int) -> Committed:
    return Committed(sender="c", epoch=1, store=1, number=number)


def filled(inbox: RemoteInbox, level: int = 4) -> None:
    """Two batches are on their way, and a third is full."""
    for first in (1, 3, 5):
        buffer = publishes(first, 2, level)
        assert inbox.take(buffer, 0) == len(buffer)
        inbox.next_batch(0.0, 0)
    assert (inbox.outstanding, inbox.gathered) == (2, 2)


def test_what_waits_is_not_read_and_after_a_while_left_out_so_that_acknowledgements_behind_it_are() -> None:
    """exchange.remote-never-refused; if not, and the queue that is full waits for them, it stays full for ever."""
    inbox = inbox_of(rows_max=2)
    inbox.on_connected("s", level=4, remote_keeps=True)
    inbox.on_opened(b"")
    filled(inbox)
    buffer = publishes(7, 3) + encode(Puback(packet_id=1), 4)
    assert (inbox.take(buffer, 0), inbox.blocked, inbox.takes) == (0, True, False)
    assert not inbox.poll_stalled(2.9)
    assert not inbox.takes
    assert inbox.poll_stalled(3.0)
    assert inbox.takes

    position = inbox.take(buffer, 0)

    assert not inbox.blocked
    assert buffer[position:] == encode(Puback(packet_id=1), 4)
    assert (inbox.counts.skipped, inbox.remake) == (3, False)
    assert inbox.on_committed(committed(2), 4.0) == b"".join(encode(Puback(packet_id=number), 4) for number in range(1, 5))
    buffer = publishes(10, 1)
    assert inbox.take(buffer, 0) == len(buffer), "it would overtake what was left out"
    assert inbox.next_batch(4.0, 0) is not None
    assert inbox.on_committed(committed(3), 4.0)
    assert inbox.remake, "there is room for it, so it is to come again"


@pytest.mark.parametrize("forgotten", [False, True])
def test_nothing_is_left_out_for_a_remote_that_forgets_it_with_the_connection(forgotten: bool) -> None:
    """It would not come again on the next one."""
    inbox = inbox_of(rows_max=2)
    for again in (True, forgotten):  # what the remote says holds for one connection
        inbox.on_connected("s", level=5, remote_keeps=again)
        inbox.on_disconnected()
    inbox.on_connected("s", level=5, remote_keeps=not forgotten)
    inbox.on_opened(b"")
    filled(inbox, 5)
    inbox.poll_stalled(3.0)
    buffer = publishes(7, 1, 5)

    assert inbox.take(buffer, 0) == (0 if forgotten else len(buffer))

    assert (inbox.blocked, inbox.takes, inbox.counts.skipped) == (forgotten, not forgotten, int(not forgotten))


def test_what_comes_while_batches_of_an_earlier_connection_wait_is_left_out_pubrels_too() -> None:
    """exchange.session-asked-when-idle: nothing is taken; and acknowledgements of ours are behind it."""
    inbox = inbox_of(rows_max=2)
    inbox.on_connected("s", level=4, remote_keeps=True)
    inbox.on_opened(b"")
    filled(inbox)
    inbox.on_disconnected()
    inbox.on_connected("s", level=4, remote_keeps=True)
    buffer = (
        publishes(1, 1)
        + encode(Pubrel(packet_id=9), 4)
        + encode(Publish(topic="t", payload=b"x"), 4)
        + encode(Puback(packet_id=1), 4)
    )
    assert (inbox.take(buffer, 0), inbox.blocked) == (0, True)
    inbox.poll_stalled(3.0)
    position = inbox.take(buffer, 0)
    assert buffer[position:] == encode(Puback(packet_id=1), 4)
    assert (inbox.counts.skipped, inbox.counts.dropped) == (1, 1)
    assert inbox.on_committed(committed(2), 4.0) == b"", "these are answers to the connection before"
    assert inbox.next_batch(4.0, 0) is not None
    inbox.on_committed(committed(3), 4.0)
    assert (inbox.idle, inbox.remake) == (True, True)


def test_a_message_that_comes_once_more_is_not_answered_before_it_is_committed() -> None:
    """exchange.answers-in-order, P1: some remotes send again on one connection."""
    inbox = inbox_of(rows_max=1)
    inbox.on_connected("s", level=4, remote_keeps=True)
    inbox.on_opened(b"")
    first = encode(Publish(topic="t", payload=b"x", qos=2, packet_id=1), 4)
    for buffer in (first, first + encode(Publish(topic="t", payload=b"y", qos=2, packet_id=2), 4)):
        assert inbox.take(buffer, 0) == len(buffer)
        assert inbox.next_batch(0.0, 0) is not None
    answers = [encode(Pubrec(packet_id=packet_id), 4) for packet_id in (1, 1, 2)]
    assert inbox.on_committed(committed(1), 0.0) == answers[0]
    assert inbox.on_committed(committed(2), 0.0) == b"".join(answers[1:])
    assert inbox.counts.duplicates == 1


def test_what_is_on_record_is_not_taken_again_whatever_dup_says() -> None:
    """exchange.repeat-not-taken-again"""
    inbox = inbox_of(rows_max=9)
    inbox.on_connected("s", level=4, remote_keeps=True)
    inbox.on_opened(u16([7, 8]))
    buffer = b"".join(
        encode(Publish(topic="t", payload=b"%d" % packet_id, qos=2, packet_id=packet_id, dup=dup), 4)
        for packet_id, dup in ((9, True), (3, False), (7, False), (8, True))
    )
    assert inbox.take(buffer, 0) == len(buffer)
    assert (inbox.gathered, inbox.counts.duplicates) == (2, 2)


def test_what_is_left_out_has_its_identifier_on_record() -> None:
    """exchange.answer-after-commit: found by the simulation, where an echo came again before its PUBREL, and was taken."""
    inbox = inbox_of(rows_max=2)
    inbox.on_connected("s", level=4, remote_keeps=True)
    inbox.on_opened(b"")
    buffer = encode(Publish(topic="of no rule", payload=b"x", qos=2, packet_id=7), 4)
    inbox.take(buffer, 0)

    frame = inbox.next_batch(0.0, 0)

    assert frame is not None
    assert frame.received["s"] == u16([7])
