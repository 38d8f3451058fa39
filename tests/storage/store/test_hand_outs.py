"""Departures from the head of the queues."""

from __future__ import annotations

import pytest

from storage.engine.engine import Engine
from tests.storage.building import (
    QUEUE,
    append_frame,
    batch,
    bridge,
    node,
)
from tests.storage.turns import EPOCH, MANY, handed, turn
from tests.support.settings import limits
from tests.support.stores import open_store
from wire.frames.lanes import Credit, LaneOpen


def test_old_messages_expire_at_the_head_and_when_handed_out(engine: Engine) -> None:
    store = open_store(engine, node(bridge(limit=limits(max_age_s=2.0))), 1)
    old, young = batch([b"old"], accepted_ms=1000), batch([b"young"], accepted_ms=4000)
    turn(store, append_frame(1, {QUEUE: (old, None)}), append_frame(2, {QUEUE: (young, None)}), wall_ms=4000)
    assert store.status(4000).queues[QUEUE].oldest_age_s == pytest.approx(3.0)

    store.tick(100.0, 4000)
    expired = store.status(4000).queues[QUEUE]
    turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH))
    late = turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=9, size_bytes=MANY), wall_ms=7000)

    assert (expired.expired, expired.depth) == (1, 1)
    assert handed(late) == []
    assert store.status(7000).queues[QUEUE].expired == 2
