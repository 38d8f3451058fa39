"""RemoteInbox: what a schedule of the simulation found, in small."""

from __future__ import annotations

from tests.storage.building import u16
from tests.wire.rules import bridge_of
from tests.wire.rules import rule as any_rule
from wire.frames import Committed
from wire.incoming import LocalForm
from wire.mqtt.codec import encode
from wire.mqtt.packets import Puback, Publish
from wire.remote_inbox import RemoteInbox
from wire.settings import BridgeSettings


def inbox_of(*, rows_max: int) -> RemoteInbox:
    bridge = bridge_of("cloud")
    fields = {name: getattr(bridge, name) for name in bridge.__slots__}
    form = LocalForm(BridgeSettings(**fields | {"remote_subscriptions": (any_rule(1, "t"),)}), node="n")
    return RemoteInbox(form, sender="c", epoch=1, session="s", level=4, packet_max_bytes=1000, remote_keeps=True, rows_max=rows_max)


def publishes(first: int, count: int) -> bytes:
    packets = (Publish(topic="t", payload=b"x", qos=1, packet_id=packet_id) for packet_id in range(first, first + count))
    return b"".join(encode(packet, 4) for packet in packets)


def test_acknowledgements_behind_publishes_are_read_although_a_queue_refuses_those() -> None:
    """If not, and the queue that is full waits for them, it stays full for ever."""
    inbox = inbox_of(rows_max=2)
    inbox.connected()
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
