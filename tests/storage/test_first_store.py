"""Rows that the first version wrote are read: each row of the kept archive is found again as it was put there."""

from __future__ import annotations

from pathlib import Path

from storage.engine.engine import RocksEngine
from storage.engine.queue_numbers import QueueNumbers
from storage.store.store import Store
from tests.storage.building import QUEUE, append_frame, batch, messages
from tests.storage.first_store import LANE_EPOCH, SESSION, WALL_MS, fill, settings, unpack
from tests.support.history_audit import audit
from tests.support.present import present
from tests.support.stores import open_store
from wire.frames.frame import Frame
from wire.frames.intake import Committed, SessionOpen, SessionOpened
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened
from wire.frames.subscriptions import RetainedPiece, RetainedWanted


def turn(store: Store, *frames: Frame) -> list[Frame]:
    for frame in frames:
        store.receive(frame)
    effects = [*store.admit(300.0, WALL_MS + 2000), *store.commit(300.0, WALL_MS + 2000, at_once=True)]
    return [frame for _, frame in effects]


def judge(folder: Path) -> None:
    """Every row of ``fill`` is there."""
    engine = RocksEngine(folder)
    store = open_store(engine, settings(), 9)
    status = store.status(WALL_MS + 2000)
    lane = status.queues[QUEUE]
    assert (lane.accepted, lane.delivered, lane.dead_lettered, lane.depth) == (8, 2, 1, 5)
    assert status.queues["bridge:away:0"].depth == 8
    assert status.dead_letters["cloud"].held == 1
    assert present(lane.retained).messages == 1, "what is below the head, in the history"
    kept = audit(engine, QueueNumbers(engine).number(QUEUE))
    assert kept is not None
    assert kept.problems == []
    assert sorted(kept.settled("delivered")) == [0, 2]
    events, _ = store.housekeeping.events.read(0, 100)
    assert "messages.dead" in [event.kind for event in events]

    opening = LaneOpen(queue=QUEUE, epoch=LANE_EPOCH + (1 << 20))
    (opened,) = [frame for frame in turn(store, opening) if isinstance(frame, LaneOpened)]
    assert (opened.head, opened.settled, opened.released) == (1, ((2, 3), (4, 5)), ((1, 2),))
    assert (opened.session, opened.generation) == ("edge@there", 1)
    handed = turn(store, Credit(queue=QUEUE, epoch=opening.epoch, messages=100, size_bytes=1 << 20))
    rows = [row for frame in handed if isinstance(frame, HandOut) for row in messages(frame)]
    assert rows == [(at, b"m%d" % at) for at in (1, 3, 5, 6, 7)]

    again = append_frame(2, {QUEUE: (batch([b"again"]), None)})
    (committed,) = [frame for frame in turn(store, again) if isinstance(frame, Committed)]
    assert committed.number == 2
    assert store.status(WALL_MS).queues[QUEUE].accepted == 8, "its number was on record"

    asked = SessionOpen(sender="listener", epoch=2, request=1, session=SESSION, clean=False, expiry_s=60, source=5, user="ada")
    (session,) = [frame for frame in turn(store, asked) if isinstance(frame, SessionOpened)]
    assert (session.present, session.received, session.subscriptions) == (True, b"\3\0\4\0", (("plant/#", 1, 7),))
    wanted = RetainedWanted(epoch=2, request=2, messages=9, size_bytes=1 << 20, filters=(("plant/a", b"", False),))
    (retained,) = [frame for frame in turn(store, wanted) if isinstance(frame, RetainedPiece)]
    assert retained.bodies
    turn(store, LaneOpen(queue=session.queue, epoch=2 << 20))
    handed = turn(store, Credit(queue=session.queue, epoch=2 << 20, messages=9, size_bytes=1 << 20))
    (row,) = [row for frame in handed if isinstance(frame, HandOut) for row in messages(frame)]
    assert row[1] == b"for the session"
    store.close()


def test_the_store_of_the_first_version_is_read(tmp_path: Path) -> None:
    judge(unpack(tmp_path))


def test_what_is_written_now_reads_the_same(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    judge(tmp_path / "store")
