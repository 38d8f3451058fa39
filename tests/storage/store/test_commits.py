"""The contents and the strength of each commit."""

from __future__ import annotations

import pytest

from storage.engine.engine import Write
from storage.store.next_commit import MESSAGES
from tests.storage.building import (
    RecordingEngine,
    node,
)
from tests.storage.turns import handed, of, open_lane, publishes, turn
from tests.support.present import present
from tests.support.stores import open_store
from wire.frames.intake import Committed


def test_one_turn_is_one_write_and_one_answer() -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    before = len(engine.writes)

    effects = turn(store, publishes(1, b"a"), publishes(2, b"b"), publishes(3, b"c"))

    assert [frame.number for frame in of(effects, Committed)] == [3]
    assert len(engine.writes) == before + 1
    assert engine.writes[-1][1], "synced"


def test_each_commit_is_measured_with_the_messages_that_came_with_it() -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    before = store.status(1000)

    turn(store, publishes(1, b"a"), publishes(2, b"b", b"c"))
    turn(store, publishes(3, *[b"x"] * 7))
    figures = store.status(1000)

    assert present(figures.commits) - present(before.commits) == 2
    assert sum(present(figures.commit_seconds).counts) == figures.commits
    messages = zip(present(figures.commit_messages).counts, present(before.commit_messages).counts, strict=True)
    assert dict(zip(MESSAGES, [now - then for now, then in messages][:-1], strict=True)) == dict.fromkeys(MESSAGES, 0) | {
        5: 1,
        10: 1,
    }
    assert present(figures.commit_messages).sum - present(before.commit_messages).sum == 10
    assert present(figures.written_bytes) > present(before.written_bytes)


def test_a_commit_that_the_disk_refuses_is_measured_once_it_is_made() -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    before = store.status(1000)
    engine.refusing = True
    turn(store, publishes(1, b"a"))
    refused = store.status(1000)
    engine.refusing = False
    turn(store, publishes(2, b"b"), now_s=200.0)
    figures = store.status(1000)

    assert sum(present(refused.commit_seconds).counts) == sum(present(before.commit_seconds).counts)
    assert present(figures.commit_messages).sum - present(before.commit_messages).sum == 2


@pytest.mark.parametrize(("sync", "marked"), [("full", [True, False, True]), ("os", [True, True, True])])
def test_a_commit_that_is_answered_leaves_a_mark_if_it_is_as_strong_as_is_configured(sync: str, marked: list[bool]) -> None:
    class Marking(RecordingEngine):
        def commit(self, write: Write, *, sync: bool) -> float:
            promised.append(write.promised)
            return super().commit(write, sync=sync)

    promised: list[bool] = []
    settings = node(sync=sync)
    store = open_store(Marking(), settings, 1)
    promised.clear()
    for number, qos in enumerate([1, 0, 2], 1):
        assert of(turn(store, publishes(number, b"a", qos=qos, promised=settings.persistence)), Committed)

    assert promised == marked


def test_a_flush_period_holds_acknowledgements_and_messages_back() -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(flush_period_s=0.5), 1)
    open_lane(store)
    turn(store, publishes(1, b"a"), now_s=200.0)

    assert turn(store, publishes(2, b"b"), now_s=200.1) == []
    assert store.wakes_at_s(200.1) == pytest.approx(200.5)
    effects = turn(store, now_s=200.5)

    assert [frame.number for frame in of(effects, Committed)] == [2]
    assert handed(effects) == [b"b"]


@pytest.mark.parametrize(("sync", "synced"), [("full", True), ("os", False)])
def test_sync_full_syncs_and_sync_os_does_not(sync: str, synced: bool) -> None:
    engine = RecordingEngine()
    settings = node(sync=sync)
    turn(open_store(engine, settings, 1), publishes(1, b"a", promised=settings.persistence))

    assert engine.writes[-1][1] is synced
