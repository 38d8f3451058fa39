"""A lone message makes few calls on its way from a client's socket to its settlement: bounds that only fall."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.message_calls import ISOLATED, TOGETHER, Calls, LoneMessages

MESSAGES = 20
CALLS_MAX = {  # of functions and of built-ins, by room: together, and isolated, where a frame may come a turn later
    "actors/access": (8, 9),
    "actors/bridge": (27, 28),
    "actors/broker": (61, 62),
    "actors/process": (46, 127),
    "actors/remote": (3, 4),
    "actors/store": (4, 5),
    "actors/system": (6, 14),
    "storage": (3, 4),
    "storage/engine": (40, 41),
    "storage/queue": (60, 61),
    "storage/store": (66, 66),
    "wire": (8, 11),
    "wire/exchange": (63, 64),
    "wire/frames": (25, 43),
    "wire/mqtt": (20, 21),
    "wire/routing": (13, 14),
    "wire/status": (3, 4),
}
ALL_MAX = (452, 557)


@pytest.mark.parametrize("placement", [TOGETHER, ISOLATED])
def test_calls_a_lone_message_by_room(placement: str, tmp_path: Path) -> None:
    column = (TOGETHER, ISOLATED).index(placement)

    with LoneMessages(tmp_path, placement) as node:
        calls = node.counted(MESSAGES, Calls())

    each = {room: calls.in_room(room) / MESSAGES for room in calls.rooms()}
    assert {room: made for room, made in each.items() if made > CALLS_MAX.get(room, (0, 0))[column]} == {}
    assert sum(each.values()) <= ALL_MAX[column]
