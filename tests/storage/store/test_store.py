"""A store by its frames: what is acknowledged and handed out, and how sessions are opened in it."""

from __future__ import annotations

from dataclasses import replace

from storage.engine.engine import Engine
from storage.engine.memory_engine import MemoryEngine
from tests.storage.building import (
    FORWARDER,
    QUEUE,
    append_frame,
    batch,
    messages,
    node,
    u16,
    with_remote_session,
)
from tests.storage.turns import of, open_lane, publishes, session_open, turn
from tests.support.stores import open_store
from wire.frames.intake import Committed, SessionOpen, SessionOpened
from wire.frames.lanes import HandOut, LaneOpened


def test_a_message_is_acknowledged_and_handed_out_after_its_commit(engine: Engine) -> None:
    """store.answer-after-commit"""
    store = open_store(engine, node(), 1)
    opened = of(open_lane(store), LaneOpened)[0]

    effects = turn(store, publishes(1, b"a", b"b"))

    assert effects[0] == ("listener", Committed(sender="listener", epoch=1, store=1, number=1))
    assert [peer for peer, _ in effects] == ["listener", FORWARDER]
    assert messages(of(effects, HandOut)[0]) == [(opened.head, b"a"), (opened.head + 1, b"b")]


def test_sequences_in_memory_are_never_used_twice() -> None:
    heads = []
    for epoch in (1, 2):
        store = open_store(MemoryEngine(), node(mode="in-memory"), epoch)
        turn(store, publishes(1, b"a"))
        heads.append(of(open_lane(store), LaneOpened)[0].head)

    assert heads == [1 << 32, 2 << 32]


def test_received_identifiers_are_kept_with_their_messages_until_released(engine: Engine) -> None:
    """store.identifier-with-its-message"""
    store = open_store(engine, node(), 1)
    assert not session_open(store, 1, clean=False).present
    two = batch([b"a", b"b"], 2)
    turn(store, append_frame(1, {QUEUE: (two, None)}, received={"c": [5, 9]}))

    again = session_open(store, 2, clean=False)
    assert (again.present, again.received) == (True, u16([5, 9]))
    turn(store, append_frame(2, {}, released={"c": [5]}))
    assert session_open(store, 3, clean=False).received == u16([9])
    clean = session_open(store, 4, clean=True)
    assert (clean.present, clean.received) == (False, b"")
    assert clean.queue != again.queue, "a new session has a queue of its own"
    assert not session_open(store, 5, clean=True, keep=False).present
    assert not session_open(store, 6, clean=False).present


def test_a_session_is_not_there_for_the_opening_that_began_it_even_if_a_store_died_with_the_answer(engine: Engine) -> None:
    """store.repeated-opening-same-answer"""
    store = open_store(engine, node(), 1)
    asked = SessionOpen(sender="listener", epoch=1, request=7, session="c", clean=False, expiry_s=60)
    store.receive(asked)
    store.commit(0.0, 1000)  # the answer does not leave

    again = open_store(engine, node(), 2)

    assert not of(turn(again, asked), SessionOpened)[0].present, "MQTT-3.2.2-4: the client has no session state"
    assert session_open(again, 8, clean=False).present
    assert session_open(again, 7, clean=False, epoch=2).present, "a request of another life is another request"


def test_a_session_that_is_kept_and_has_no_identifiers_is_there_after_a_clean_start(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    session_open(store, 1, clean=True)
    turn(store, append_frame(1, {QUEUE: (batch([b"a"], 2), None)}, received={"c": [5]}))
    turn(store, append_frame(2, {}, released={"c": [5]}))

    assert session_open(open_store(engine, node(), 2), 2, clean=False).present


def test_a_session_that_ends_with_its_connection_is_not_there_for_the_next(engine: Engine) -> None:
    """store.repeated-opening-same-answer"""
    store = open_store(engine, node(), 1)
    session_open(store, 1, clean=False)
    turn(store, append_frame(1, {QUEUE: (batch([b"a"], 2), None)}, received={"c": [5]}))
    last = session_open(store, 2, clean=False, keep=False)
    assert (last.present, last.received) == (True, u16([5]))

    again = open_store(engine, node(), 2)
    assert session_open(again, 2, clean=False, keep=False) == replace(last, store=2), (
        "asked again, because a store died with the answer"
    )
    assert not session_open(again, 3, clean=False, keep=False).present
    assert not session_open(again, 4, clean=False).present


def test_a_session_of_a_listener_that_is_gone_is_not_opened(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    session_open(store, 1, clean=False, epoch=2)

    assert turn(store, SessionOpen(sender="listener", epoch=1, request=9, session="c", clean=True, expiry_s=60)) == []
    assert session_open(store, 2, clean=False, epoch=2).present


def test_each_sender_opens_its_sessions_in_lives_of_its_own(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    session_open(store, 1, clean=False, epoch=9)
    name = with_remote_session(store)
    remote = SessionOpen(sender="connection:cloud:0", epoch=3, request=4, session=name, clean=False, expiry_s=60)

    ((peer, opened),) = turn(store, remote)

    assert peer == "connection:cloud:0"
    assert isinstance(opened, SessionOpened)
    assert (opened.sender, opened.epoch, opened.request) == ("connection:cloud:0", 3, 4)
    assert turn(store, replace(remote, epoch=2)) == []
