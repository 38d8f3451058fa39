"""A lone message makes few calls on its way from a client's socket to its settlement: bounds that only fall."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.message_calls import ISOLATED, TOGETHER, Calls, LoneMessages

MESSAGES = 20
CALLS_MAX = {  # of functions and of built-ins, by room: with all actors in one process, and with a process for each part
    "actors/access": (9, 9),
    "actors/bridge": (43, 43),
    "actors/broker": (130, 130),
    "actors/process": (126, 227),
    "actors/store": (9, 9),
    "actors/system": (23, 23),
    "storage": (4, 4),
    "storage/engine": (64, 64),
    "storage/queue": (96, 96),
    "storage/store": (88, 88),
    "wire": (39, 39),
    "wire/exchange": (105, 105),
    "wire/frames": (70, 87),
    "wire/mqtt": (59, 59),
    "wire/routing": (20, 20),
    "wire/status": (7, 7),
}
ALL_MAX = (875, 991)


@pytest.mark.parametrize("placement", [TOGETHER, ISOLATED])
def test_calls_a_lone_message_by_room(placement: str, tmp_path: Path) -> None:
    column = (TOGETHER, ISOLATED).index(placement)

    with LoneMessages(tmp_path, placement) as node:
        calls = node.counted(MESSAGES, Calls())

    each = {room: calls.in_room(room) / MESSAGES for room in calls.rooms()}
    assert {room: made for room, made in each.items() if made > CALLS_MAX.get(room, (0, 0))[column]} == {}
    assert sum(each.values()) <= ALL_MAX[column]
