"""Whether there is room for a PUBLISH before it is taken: what the Listener asks the store, and what it makes of the answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.full_queue_refusal import QueueRoom
from tests.support.settings import limits, node
from tests.wire.rules import bridge_of, rule
from wire.config_settings import BridgeSettings, SettingsNow
from wire.exchange.receiver import ReceiverHalf
from wire.frames.intake import FULL, NEAR, OPEN, Room, RoomWanted
from wire.mqtt.codec import encode
from wire.mqtt.packets import Publish
from wire.mqtt.publish_batch_parser import BatchBuilder, parse_publishes


class Desk:
    """A batch that is being built for bridges ``a``, which wants ``a/#`` and ``ab/#``, and ``b``, which wants ``ab/#``."""

    def __init__(self, **limit: Any) -> None:
        fields = [("a", rule(1, "a/#", "ab/#")), ("b", rule(1, "ab/#"))]
        bridges = [bridge_of(name, wants) for name, wants in fields]
        limited = [_limited(bridge, **limit) for bridge in bridges]
        self.asked: list[dict[str, tuple[int, int]]] = []
        self.builder = BatchBuilder(rows_max=100, bytes_max=10_000)
        host: Any = SimpleNamespace(send=self._send, epoch=7, settings=SettingsNow(node(*limited)))
        self.room = QueueRoom(host, self.builder)
        self.number = 0

    def _send(self, peer: str, frame: RoomWanted) -> None:
        assert (peer, frame.epoch) == ("queue_store", 7)
        self.asked.append(frame.wanted)

    def told(self, **queues: tuple[int, int, int]) -> None:
        self.number += 1
        named = {name.replace("node", ""): state for name, state in queues.items()}
        self.room.on_report(Room(epoch=7, store=1, number=self.number, queues=named))

    def take(self, *topics: str, level: int = 4, qos: int = 1, flow: ReceiverHalf | None = None) -> int:
        """How many of these are parsed, in whatever way."""
        flow = flow or ReceiverHalf(number=1, session="s", level=level, receive_maximum=100, topic_alias_maximum=0)
        packets = [
            encode(Publish(topic=topic, payload=b"x", qos=qos, packet_id=at if qos else 0), level)
            for at, topic in enumerate(topics, start=1)
        ]
        self.room.begin()
        position = parse_publishes(b"".join(packets), 0, level, flow, self.builder)
        return sum(1 for at in range(len(packets)) if sum(map(len, packets[: at + 1])) <= position)


def _limited(bridge: BridgeSettings, **limit: Any) -> BridgeSettings:
    fields = {name: getattr(bridge, name) for name in bridge.__slots__}
    return BridgeSettings(**fields | {"limits": limits(**limit)})


def test_nothing_of_qos_1_or_2_is_taken_before_a_store_has_spoken() -> None:
    """broker.room-before-taken"""
    desk = Desk()
    for _ in range(2):
        assert (desk.take("a/x"), desk.take("nobody", qos=2), desk.take("a/x", qos=0)) == (0, 0, 1)
        desk.told(a=(NEAR, 5, 100))
        assert (desk.take("a/x"), desk.builder.room) == (1, desk.room.verdict)
        desk.room.store_is_new()
        desk.number = 0
    desk.told()
    assert desk.builder.room is None, "nothing is looked at while all are open"
    assert not desk.room.unheeded


def test_what_is_near_its_limit_is_asked_for_once_and_taken_as_far_as_it_was_offered() -> None:
    """broker.room-before-taken"""
    desk = Desk()
    desk.told(a=(NEAR, 0, 0))
    assert (desk.take("b/x", "other"), desk.take("ab/x"), desk.room.waits_for) == (2, 0, "a")
    desk.room.ask()
    desk.room.ask()
    assert desk.asked == [{"a": (1, 5)}]
    desk.told(a=(NEAR, 2, 100))
    assert desk.take("ab/x", "a/x", "a/x") == 2
    desk.room.ask()
    assert desk.asked[1:] == [{"a": (1, 4)}]
    assert desk.room.unheeded
    assert desk.room.sealed() == (2, {})
    assert not desk.room.unheeded


def test_what_was_offered_is_for_one_batch() -> None:
    desk = Desk()
    desk.told(a=(NEAR, 2, 100))
    desk.room.sealed()
    assert desk.take("a/x") == 0


def test_bytes_are_counted_too() -> None:
    desk = Desk()
    desk.told(a=(NEAR, 9, 10))
    assert desk.take(*["a/x"] * 4) == 2


def test_a_full_queue_refuses_mqtt_5_and_has_mqtt_311_wait() -> None:
    desk = Desk()
    desk.told(a=(FULL, 0, 0))
    flow = ReceiverHalf(number=1, session="s", level=5, receive_maximum=100, topic_alias_maximum=0)
    assert desk.take("a/x", "b/x", "ab/x", level=5, flow=flow) == 3
    assert len(desk.builder) == 1
    sealed = flow.seal()
    assert sealed is not None
    assert sealed[0].encode().hex() == "4003000197" + "40020002" + "4003000397"
    assert desk.room.refused_ever == 2
    assert desk.room.sealed() == (1, {"bridge:a:0": 2})
    assert desk.take("a/x") == 0
    desk.told(a=(OPEN, 0, 0))
    assert desk.take("a/x") == 1


def test_a_repeat_at_qos_2_needs_no_room() -> None:
    """exchange.repeat-not-taken-again: it is answered as it was."""
    desk = Desk()
    desk.told(a=(FULL, 0, 0))
    flow = ReceiverHalf(number=1, session="s", level=4, receive_maximum=100, topic_alias_maximum=0)
    flow.carry([1])
    assert (desk.take("a/x", qos=2, flow=flow), flow.pubrec_ids, len(desk.builder)) == (1, [b"\0\1"], 0)


def test_a_full_node_takes_nothing_wherever_it_goes_and_counts_every_copy() -> None:
    desk = Desk()
    desk.told(node=(NEAR, 3, 100))
    assert desk.take("ab/x", "nobody", "nobody") == 2
    desk.told(node=(FULL, 0, 0))
    assert (desk.take("nobody"), desk.take("nobody", qos=0)) == (0, 1)


@pytest.mark.parametrize(("overflow", "level", "rows"), [("reject", 5, 0), ("reject", 4, 1)])
def test_nobody_waits_with_what_can_never_fit(overflow: str, level: int, rows: int) -> None:
    """An MQTT 5 client is told; of others the queue drops it."""
    desk = Desk(max_bytes=3, overflow=overflow)
    desk.told(a=(NEAR, 0, 0))
    assert (desk.take("a/x", level=level), len(desk.builder)) == (1, rows)
