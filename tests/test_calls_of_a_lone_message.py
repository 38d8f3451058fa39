"""A lone message makes few calls on its way from a client's socket to its settlement: bounds that only fall."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.message_calls import ISOLATED, TOGETHER, Calls, LoneMessages

MESSAGES = 20
CALLS_MAX = {  # of functions and of built-ins, by room: together, and isolated, where a frame may come a turn later
    "actors/access": (10, 11),
    "actors/bridge": (35, 35),
    "actors/broker": (77, 80),
    "actors/process": (63, 141),
    "actors/remote": (4, 5),
    "actors/store": (5, 6),
    "actors/system": (7, 14),
    "storage": (4, 5),
    "storage/engine": (60, 61),
    "storage/queue": (88, 91),
    "storage/store": (76, 78),
    "wire": (9, 12),
    "wire/exchange": (84, 86),
    "wire/frames": (29, 46),
    "wire/mqtt": (24, 25),
    "wire/routing": (16, 17),
    "wire/status": (7, 8),
}
ALL_MAX = (587, 690)


@pytest.mark.parametrize("placement", [TOGETHER, ISOLATED])
def test_calls_a_lone_message_by_room(placement: str, tmp_path: Path) -> None:
    column = (TOGETHER, ISOLATED).index(placement)

    with LoneMessages(tmp_path, placement) as node:
        calls = node.counted(MESSAGES, Calls())

    each = {room: calls.in_room(room) / MESSAGES for room in calls.rooms()}
    assert {room: made for room, made in each.items() if made > CALLS_MAX.get(room, (0, 0))[column]} == {}
    assert sum(each.values()) <= ALL_MAX[column]
