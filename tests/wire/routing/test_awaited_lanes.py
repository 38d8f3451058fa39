"""What is enough for a Connection that waits until something is to be sent."""

from __future__ import annotations

import pytest

from wire.frames.lanes import LaneAwaited, LaneWaits
from wire.routing.awaited_lanes import AwaitedLanes

QUEUE, PEER = "bridge:cloud:0", "connection:cloud:0"


def told(awaited: AwaitedLanes, messages: int, size_bytes: int, now_s: float, epoch: int = 7) -> bool:
    """Whether the Connection is told, of what waits now."""
    effects = awaited.look(lambda queue: (epoch, messages, size_bytes), now_s)
    assert effects in ([], [(PEER, LaneWaits(queue=QUEUE, epoch=epoch))])
    return bool(effects)


def asked(messages: int = 1 << 62, size_bytes: int = 0, age_ms: int = -1) -> AwaitedLanes:
    awaited = AwaitedLanes()
    awaited.add(LaneAwaited(queue=QUEUE, epoch=7, messages=messages, size_bytes=size_bytes, age_ms=age_ms), PEER)
    return awaited


@pytest.mark.parametrize(
    ("enough", "less", "more"), [({"messages": 3}, (2, 900), (3, 0)), ({"size_bytes": 1000}, (900, 999), (1, 1000))]
)
def test_so_many_messages_or_bytes_are_told_once(enough: dict[str, int], less: tuple[int, int], more: tuple[int, int]) -> None:
    awaited = asked(**enough)
    assert not told(awaited, 0, 0, 1.0)
    assert not told(awaited, *less, 1_000_000.0)
    assert told(awaited, *more, 1_000_001.0)
    assert not told(awaited, *more, 1_000_002.0), "once for each time that it is asked"


def test_one_message_is_enough_when_it_has_waited_long_also_where_it_is_asked_again() -> None:
    awaited = asked(age_ms=60_000)
    assert not told(awaited, 0, 0, 0.0)
    assert not told(awaited, 1, 1, 100.0)
    assert not told(awaited, 0, 0, 150.0), "it has expired"
    assert not told(awaited, 1, 1, 200.0)
    awaited.add(LaneAwaited(queue=QUEUE, epoch=7, messages=9, size_bytes=0, age_ms=60_000), PEER)
    assert not told(awaited, 1, 1, 259.0)
    assert told(awaited, 1, 1, 260.0)


def test_a_lane_that_was_opened_anew_is_told_of_once_it_asks_again() -> None:
    awaited = asked(messages=1)
    assert not told(awaited, 5, 5, 1.0, epoch=8)
    assert not told(awaited, 5, 5, 2.0, epoch=7)
