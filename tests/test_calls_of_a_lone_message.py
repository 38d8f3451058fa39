"""A lone message makes few calls on its way from a client's socket to its settlement: bounds that only fall."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.message_calls import ISOLATED, TOGETHER, Calls, LoneMessages

MESSAGES = 20
CALLS_MAX = {  # of functions and of built-ins, by room: with all actors in one process, and with a process for each part
    "actors/access": (10, 10),
    "actors/bridge": (34, 34),
    "actors/broker": (77, 77),
    "actors/process": (63, 136),
    "actors/remote": (4, 4),
    "actors/store": (5, 5),
    "actors/system": (7, 13),
    "storage": (4, 4),
    "storage/engine": (60, 60),
    "storage/queue": (88, 88),
    "storage/store": (76, 75),
    "wire": (9, 11),
    "wire/exchange": (83, 83),
    "wire/frames": (27, 44),
    "wire/mqtt": (24, 24),
    "wire/routing": (16, 16),
    "wire/status": (7, 7),
}
ALL_MAX = (583, 680)


@pytest.mark.parametrize("placement", [TOGETHER, ISOLATED])
def test_calls_a_lone_message_by_room(placement: str, tmp_path: Path) -> None:
    column = (TOGETHER, ISOLATED).index(placement)

    with LoneMessages(tmp_path, placement) as node:
        calls = node.counted(MESSAGES, Calls())

    each = {room: calls.in_room(room) / MESSAGES for room in calls.rooms()}
    assert {room: made for room, made in each.items() if made > CALLS_MAX.get(room, (0, 0))[column]} == {}
    assert sum(each.values()) <= ALL_MAX[column]
