"""Intake from senders: each batch is taken once, and answered after its commit, unless acknowledgements are fast."""

from __future__ import annotations

import pytest

from storage.engine.commit_mark import Evidence
from storage.engine.engine import Engine
from storage.engine.memory_engine import MemoryEngine
from tests.storage.building import (
    QUEUE,
    RecordingEngine,
    append_frame,
    batch,
    messages,
    node,
)
from tests.storage.turns import handed, of, open_lane, publishes, session_open, turn
from tests.support.stores import open_store
from wire.frames.frame import Frame
from wire.frames.intake import Committed, SenderResumes
from wire.frames.lanes import HandOut


def test_a_repeat_is_answered_again_and_enters_once(engine: Engine) -> None:
    """store.next-number-only"""
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a"), publishes(2, b"b"))

    effects = turn(store, publishes(1, b"a"))

    assert [frame.number for frame in of(effects, Committed)] == [2]
    assert handed(open_lane(store)) == [b"a", b"b"]


def test_a_gap_is_dropped_until_what_is_missing_comes(engine: Engine) -> None:
    """store.next-number-only"""
    store = open_store(engine, node(), 1)

    assert turn(store, publishes(2, b"b")) == []
    turn(store, publishes(1, b"a"), publishes(2, b"b"))

    assert handed(open_lane(store)) == [b"a", b"b"]


def test_a_new_epoch_starts_at_one_and_fences_the_old(engine: Engine) -> None:
    """store.next-number-only"""
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a", epoch=1))

    effects = turn(store, publishes(1, b"b", epoch=2), publishes(2, b"late", epoch=1))

    assert of(effects, Committed) == [Committed(sender="listener", epoch=2, store=1, number=1)]
    assert handed(open_lane(store)) == [b"a", b"b"]


def test_a_store_in_memory_takes_up_the_numbers_of_a_living_sender() -> None:
    store = open_store(MemoryEngine(), node(mode="in-memory"), 2)

    assert turn(store, publishes(38, b"overtook")) == []
    turn(store, SenderResumes(sender="listener", epoch=1, number=37))
    effects = turn(store, publishes(37, b"a"), publishes(38, b"b"))

    assert [frame.number for frame in of(effects, Committed)] == [38]
    assert handed(open_lane(store)) == [b"a", b"b"]


def test_a_store_whose_answers_all_leave_a_mark_knows_the_numbers_itself() -> None:
    store = open_store(RecordingEngine(), node(sync="os"), 2)

    turn(store, SenderResumes(sender="listener", epoch=1, number=37))

    assert turn(store, publishes(37, b"a")) == []


@pytest.mark.parametrize("lost", [0, 1])
def test_a_sender_goes_on_whether_or_not_its_qos_0_was_lost_with_the_log(lost: int) -> None:
    """Nothing but the sender's own number tells of a commit of QoS 0 alone that damage took."""
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    turn(store, publishes(1, b"a"))
    turn(store, publishes(2, b"lost", qos=0))
    store = open_store(engine.rebuilt(len(engine.writes) - lost), node(), 2)

    turn(store, SenderResumes(sender="listener", epoch=1, number=3))
    effects = turn(store, publishes(2, b"late", qos=0), publishes(3, b"b"))

    assert {frame.number for frame in of(effects, Committed)} == {3}
    assert handed(open_lane(store)) == [b"a", b"b"]


def test_a_store_that_answered_fast_and_died_takes_up_the_numbers_of_its_sender() -> None:
    store = open_store(RecordingEngine(), node(acknowledge="fast"), 2)

    turn(store, SenderResumes(sender="listener", epoch=1, number=3))  # 1 and 2 were answered, and died with the store

    assert [frame.number for frame in of(turn(store, publishes(3, b"c")), Committed)] == [3]
    turn(store, SenderResumes(sender="listener", epoch=1, number=2))  # a late word
    assert of(turn(store, publishes(3, b"c")), Committed) == [Committed(sender="listener", epoch=1, store=2, number=3)]
    assert handed(open_lane(store)) == [b"c"]


def test_a_batch_of_a_former_listener_is_not_taken_once_a_new_one_has_opened_a_session(engine: Engine) -> None:
    """broker.looked-up-after-commits: its identifiers would come after the answer that the new Listener goes by; its publisher was
    not answered and sends again.
    """
    store = open_store(engine, node(), 1)
    assert session_open(store, 1, clean=False, epoch=2).received == b""
    late = append_frame(1, {QUEUE: (batch([b"a"], 2), None)}, received={"c": [5]}, epoch=1)
    assert of(turn(store, late), Committed) == []
    assert session_open(store, 2, clean=False, epoch=2).received == b""


def test_fast_acknowledges_before_the_commit() -> None:
    engine = RecordingEngine()
    settings = node(acknowledge="fast")
    store = open_store(engine, settings, 1)
    before = len(engine.writes)
    store.receive(publishes(1, b"a", promised=settings.persistence))

    assert [type(frame) for _, frame in store.admit(1.0, 1000)] == [Committed]
    assert len(engine.writes) == before
    assert of(store.commit(1.0, 0), Committed) == []
    assert len(engine.writes) == before + 1


@pytest.mark.parametrize("frame", [append_frame(1, {}, rows=1), publishes(1, b"a", qos=0)])
def test_what_needs_no_durability_is_acknowledged_without_a_sync(frame: Frame) -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)

    effects = turn(store, frame)

    assert [committed.number for committed in of(effects, Committed)] == [1]
    assert not engine.writes[-1][1]


def test_a_sender_that_lives_is_believed_when_commits_are_missing() -> None:
    engine = RecordingEngine()
    turn(open_store(engine, node(), 1), publishes(1, b"a"))
    engine.missing = Evidence(99, True, {1: 3})
    store = open_store(engine, node(), 2)

    turn(store, SenderResumes(sender="listener", epoch=1, number=4))
    assert of(turn(store, publishes(4, b"d")), Committed)[0].number == 4
    assert [seq for frame in of(open_lane(store), HandOut) for seq, _ in messages(frame)] == [0, 3], "sequences are not used twice"
    assert store.status(5000).queues[QUEUE].dropped == {"damaged": 2}
