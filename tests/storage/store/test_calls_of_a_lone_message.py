"""How many of our functions a lone message calls in the store, from its append to its settlement: a bound that only falls."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, node, settle_frame
from tests.storage.turns import EPOCH, open_lane, publishes, turn

ROOT = Path(__file__).resolve().parents[3]
CALLS_MAX = {"storage/store": 83, "storage/queue": 79}
MESSAGES = 20


def test_a_lone_message_takes_few_calls() -> None:
    store = Store(RecordingEngine(), node(), 1)
    open_lane(store)
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[str(Path(frame.f_code.co_filename).parent)] += 1

    def pass_through(number: int) -> None:
        turn(store, publishes(number, b"x"), now_s=100 + number)
        turn(store, settle_frame(number, EPOCH, ("delivered", ((number - 1, number),))), now_s=100.5 + number)

    pass_through(1)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for number in range(2, 2 + MESSAGES):
            pass_through(number)
    finally:
        sys.setprofile(before)

    each = {room: calls[str(ROOT / room)] / MESSAGES for room in CALLS_MAX}
    assert store.status(5000).queues[QUEUE].delivered == 1 + MESSAGES
    assert {room: made for room, made in each.items() if made > CALLS_MAX[room]} == {}
