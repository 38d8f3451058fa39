"""Local clients' sessions in the store: their queues, subscriptions, Wills and retained messages, and what outlives a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from storage.engine.engine import Engine, Family, RocksEngine
from storage.engine.keys import retained_key
from storage.engine.memory_engine import MemoryEngine
from storage.store.local_sessions import KNOWN_BYTES
from storage.store.session_rows import Session
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, node
from tests.support.present import present
from tests.support.stores import open_store
from wire.config_settings import ListenerSettings, NodeSettings
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.frames.batch import RETAIN, Batch, from_rows
from wire.frames.frame import Effects, Frame
from wire.frames.intake import (
    Committed,
    SessionClose,
    SessionClosed,
    SessionGone,
    SessionOpen,
    SessionOpened,
    SessionsKnown,
    SessionsWanted,
)
from wire.frames.lanes import Credit, HandOut, LaneClose, LaneOpen, LaneOpened, Settle
from wire.frames.names import DISTRIBUTOR, LISTENER, RETAINED
from wire.frames.subscriptions import RetainedPiece, RetainedWanted, SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S

MANY = 1 << 20
WILL = (b"site/gone", 1, b"bye", b"", 30)


def turn(store: Store, *frames: Frame, now_s: float = 1.0, wall_ms: int = 1000) -> Effects:
    for frame in frames:
        store.receive(frame)
    return store.commit(now_s, wall_ms)


def settings(**sessions: Any) -> NodeSettings:
    return replace(node(), sessions=replace(node().sessions, **sessions))


def opening(session: str = "c", *, request: int = 1, epoch: int = 1, source: int = 1, **more: object) -> SessionOpen:
    chosen: dict[str, object] = {"clean": False, "expiry_s": 60, **more}
    return SessionOpen(sender=LISTENER, epoch=epoch, request=request, session=session, source=source, **chosen)  # type: ignore[arg-type]


def open_session(store: Store, session: str = "c", **more: object) -> SessionOpened:
    effects = turn(store, opening(session, **more))  # type: ignore[arg-type]
    (opened,) = [frame for peer, frame in effects if peer == LISTENER]
    assert isinstance(opened, SessionOpened)
    return opened


def subscribe(queue: str, topic_filter: str = "a/#", options: int = 1, *, request: int = 1, session: str = "c") -> SubscriptionsAdd:
    filters = ((topic_filter, options, 0, True),)
    return SubscriptionsAdd(epoch=1, request=request, session=session, source=1, queue=queue, filters=filters)


def wanted(topic_filter: str = "a/#", *, after: bytes = b"", only_qos0: bool = False, **limits: int) -> RetainedWanted:
    """A piece of what is retained."""
    allowed = {"messages": 100, "size_bytes": 1 << 20, **limits}
    return RetainedWanted(epoch=1, request=1, filters=((topic_filter, after, only_qos0),), **allowed)


def pieces(effects: Effects) -> list[list[tuple[bytes, int, bytes]]]:
    """The messages in each piece for the Listener."""
    return [
        [row for body in frame.bodies for row in rows_of(Batch.decode(body))]
        for _, frame in effects
        if isinstance(frame, RetainedPiece)
    ]


def retain(number: int, *rows: tuple[bytes, int, bytes]) -> Frame:
    """A batch of which every row is retained, and nothing else."""
    body = from_rows([(topic, flags | RETAIN, payload) for topic, flags, payload in rows], accepted_ms=1000)
    return append_frame(number, {RETAINED: (body, None)})


def queued(store: Store, queue: str, epoch: int = 1 << 20) -> list[tuple[bytes, int, bytes]]:
    """The hand-outs of ``queue`` to the Listener, as (topic, flags, payload)."""
    turn(store, LaneOpen(queue=queue, epoch=epoch))
    effects = turn(store, Credit(queue=queue, epoch=epoch, messages=MANY, size_bytes=MANY))
    rows: list[tuple[bytes, int, bytes]] = []
    for peer, frame in effects:
        assert peer == LISTENER
        assert isinstance(frame, HandOut)
        rows += rows_of(Batch.decode(frame.bodies[0]))
    return rows


def rows_of(body: Batch) -> list[tuple[bytes, int, bytes]]:
    payloads = body.rows_payloads()
    return [(body.topics[index], body.flags[row], payloads[row]) for row, index in enumerate(body.topic_of)]


def known(store: Store, epoch: int = 1) -> dict[str, tuple[object, ...]]:
    answers = [frame for _, frame in turn(store, SessionsWanted(epoch=epoch))]
    assert isinstance(answers[-1], SessionsKnown)
    assert answers[-1].last
    return {row[0]: row[1:] for frame in answers if isinstance(frame, SessionsKnown) for row in frame.sessions}


@pytest.mark.parametrize("bytes_each", [10, 60_000], ids=["many small ones", "few large ones"])
def test_what_is_kept_is_told_in_frames_of_some_size(bytes_each: int) -> None:
    store, will = open_store(MemoryEngine(), settings(), 1), (b"gone", 0, b"w" * bytes_each, b"", 0)
    for number in range(30 if bytes_each > 1000 else 3000):
        queue = open_session(store, f"c{number}", request=number + 1, source=number + 1, will=will).queue
        turn(store, subscribe(queue, "f" * bytes_each, session=f"c{number}", request=number + 1))
    told = [frame for _, frame in turn(store, SessionsWanted(epoch=1)) if isinstance(frame, SessionsKnown)]

    assert sum(len(frame.sessions) for frame in told) == len(list(store.sessions.rows))
    sizes = [len(msgpack.packb(frame.sessions)) for frame in told]
    assert max(sizes) <= KNOWN_BYTES + 2 * bytes_each + 1000
    assert len(sizes) <= 1 + sum(sizes) // (KNOWN_BYTES // 3), "and no smaller than they need be"
    assert [frame.last for frame in told] == [False] * (len(told) - 1) + [True]


def test_a_session_that_lasts_has_a_queue_and_one_that_does_not_has_none(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)

    lasting = open_session(store, "lasting")
    live = open_session(store, "live", expiry_s=0)

    assert lasting.queue.endswith(":lasting")
    assert live.queue == ""
    assert not live.present
    assert list(known(store)) == ["lasting"]


def test_no_queue_has_the_name_of_one_of_a_former_life_of_a_store_in_memory() -> None:
    """A message that was routed to the former one, and comes late, would be put into the new one, whatever that is subscribed
    to."""
    names = []
    for epoch in (1_790_000_000, 1_790_000_001, 1_790_000_002):
        store = open_store(MemoryEngine(), node(), epoch)
        names += [open_session(store, request=request, clean=True).queue for request in (1, 2, 3)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("end", ["clean start", "expiry 0, goodbye", "expiry 0, the Listener dies"])
def test_the_distributor_is_told_of_each_queue_that_goes(engine: Engine, end: str) -> None:
    """It would deal rows of shared subscriptions to it, and their publishers would be told that they are kept."""
    store = open_store(engine, settings(), 1)
    queue = open_session(store).queue
    if end == "clean start":
        effects = turn(store, opening(clean=True, expiry_s=0, request=2, source=2))
    else:
        open_session(store, expiry_s=0, request=2, source=2)
        goodbye = SessionClose(sender=LISTENER, epoch=1, session="c", source=2, wall_ms=1000, expiry_s=0, keep_will=False)
        effects = turn(store, goodbye if end == "expiry 0, goodbye" else SessionsWanted(epoch=2))

    assert [row for row in effects if isinstance(row[1], SessionGone)] == [(DISTRIBUTOR, SessionGone(session="c", queue=queue))]
    assert store.lanes.all.get(queue) is None


def test_what_a_dead_life_passed_on_counts_no_more_once_the_next_has_asked_what_is_kept(engine: Engine) -> None:
    """The next one does not route by it. Were it kept and acknowledged, its messages would go nowhere."""
    store = open_store(engine, settings(), 1)
    queue = open_session(store).queue
    turn(store, subscribe(queue, "kept"))
    assert known(store, epoch=2)["c"][1] == (("kept", 1, 0),)

    late = subscribe(queue, "late", request=2)
    drop = SubscriptionsDrop(epoch=1, request=3, session="c", source=1, queue=queue, filters=("kept",))
    assert turn(store, late, drop) == []
    assert known(store, epoch=2)["c"][1] == (("kept", 1, 0),)

    asked_again = turn(store, replace(late, epoch=2), replace(drop, epoch=2))
    assert asked_again == [(LISTENER, SubscriptionsKept(epoch=2, request=number, source=1)) for number in (2, 3)]
    assert known(store, epoch=2)["c"][1] == (("late", 1, 0),)


def test_subscriptions_are_there_again_when_the_session_is_resumed(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    queue = open_session(store).queue
    assert turn(store, subscribe(queue)) == [(LISTENER, SubscriptionsKept(epoch=1, request=1, source=1))]
    turn(store, subscribe(queue, "b", 2, request=2))
    turn(store, SubscriptionsDrop(epoch=1, request=3, session="c", source=1, queue=queue, filters=("a/#",)))

    store = open_store(engine, settings(), 2) if engine.durable else store
    again = open_session(store, request=2, source=2)

    assert again.present
    assert again.queue == queue
    assert again.subscriptions == (("b", 2, 0),)


def test_messages_wait_in_the_sessions_queue_for_the_client_and_leave_no_memory_behind(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    queue = open_session(store).queue
    turn(store, append_frame(1, {queue: (batch([b"x", b"y"], 1), None)}))

    assert [payload for _, _, payload in queued(store, queue)] == [b"x", b"y"]
    turn(store, LaneClose(queue=queue, epoch=1 << 20, sent_below=-1))

    assert [payload for _, _, payload in queued(store, queue, epoch=2 << 20)] == [b"x", b"y"], "nothing of it was settled"


@pytest.mark.parametrize(("sent", "counts"), [(None, 3), (0, 0), (1, 1), (3, 3), (9, 3)])
def test_what_waits_for_a_client_that_has_gone_counts_as_sent_only_as_far_as_it_may_be(
    sent: int | None, counts: int, tmp_path: Path
) -> None:
    """A message that was never sent expires as it waits [MQTT-3.3.2-5], also over a crash. sent: messages; None: that is not
    known."""
    store = open_store(RocksEngine(tmp_path / "store"), settings(), 1)
    queue = open_session(store).queue
    turn(store, LaneOpen(queue=queue, epoch=1 << 20), append_frame(1, {queue: (batch([b"x"] * 3, 1), None)}))
    effects = turn(store, Credit(queue=queue, epoch=1 << 20, messages=1, size_bytes=1 << 20))
    (handed,) = [frame for _, frame in effects if isinstance(frame, HandOut)]
    for number in range(2, 9):
        turn(store, append_frame(number, {queue: (batch([b"y"], 1), None)}))
    turn(store, LaneClose(queue=queue, epoch=1 << 20, sent_below=-1 if sent is None else handed.first_seq + sent))

    for epoch in (2, 3):  # a crash, and nobody comes for the queue; and another
        store.close()
        store = open_store(RocksEngine(tmp_path / "store"), settings(), epoch)
        turn(store, append_frame(7 + epoch, {queue: (batch([b"z"], 1), None)}))
    effects = turn(store, LaneOpen(queue=queue, epoch=9 << 20))

    (opened,) = [frame for _, frame in effects if isinstance(frame, LaneOpened)]
    assert opened.dup_below == handed.first_seq + counts
    assert [payload for _, _, payload in queued(store, queue, epoch=10 << 20)] == [*[b"x"] * 3, *[b"y"] * 7, *[b"z"] * 2]
    store.close()


def test_a_clean_start_ends_the_session_and_what_was_routed_for_it_goes_nowhere(engine: Engine) -> None:
    """store.session-goes-with-its-queue"""
    store = open_store(engine, settings(), 1)
    old = open_session(store).queue
    turn(store, subscribe(old), append_frame(1, {old: (batch([b"x"], 1), None)}))

    new = open_session(store, clean=True, request=2, source=2)
    effects = turn(store, append_frame(2, {old: (batch([b"late"], 1), None)}))

    assert not new.present
    assert new.subscriptions == ()
    assert new.queue != old
    assert [frame.number for _, frame in effects if isinstance(frame, Committed)] == [2], "the publisher is acknowledged"
    assert queued(store, new.queue) == []
    assert not turn(store, LaneOpen(queue=old, epoch=1 << 20))


def test_a_full_queue_drops_the_newest_and_refuses_nobody(engine: Engine) -> None:
    store = open_store(engine, settings(queue_max_messages=2), 1)
    queue = open_session(store).queue

    effects = turn(store, append_frame(1, {queue: (batch([b"x", b"y", b"z"], 1), None)}))

    assert [frame.number for _, frame in effects if isinstance(frame, Committed)] == [1]
    assert [payload for _, _, payload in queued(store, queue)] == [b"x", b"y"]
    assert present(store.status(1000).sessions).dropped == 1


def test_sessions_are_limited_and_a_known_one_may_always_come_back(engine: Engine) -> None:
    store = open_store(engine, settings(sessions_max=1), 1)
    assert not open_session(store, "first").refused

    assert open_session(store, "second", request=2).refused
    assert not open_session(store, "first", request=3).refused
    assert not open_session(store, "live", request=4, expiry_s=0).refused


def test_a_session_ends_when_its_time_is_up_across_a_restart(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    queue = open_session(store, expiry_s=60).queue
    turn(store, append_frame(1, {queue: (batch([b"x"], 1), None)}))
    turn(store, SessionClose(sender=LISTENER, epoch=1, session="c", source=1, wall_ms=10_000, expiry_s=60, keep_will=False))
    if engine.durable:
        store = open_store(engine, settings(), 2)

    store.tick(0.5, 69_999)
    assert list(known(store)) == ["c"]
    store.tick(1.0, 70_000)
    effects = store.commit(1.0, 70_000)

    assert effects == [(peer, SessionGone(session="c", queue=queue)) for peer in (DISTRIBUTOR, LISTENER)]
    assert known(store) == {}
    assert not list(engine.scan("meta", b"S", b"T"))
    assert not list(engine.scan("msg", b"\0", b"\xff" * 12))
    assert not open_session(store, epoch=1, request=9).present


def test_a_session_whose_time_is_up_is_not_there_for_who_comes_before_the_next_look(engine: Engine) -> None:
    store = open_store(engine, guarded(), 1)
    queue = open_session(store, user="ada").queue
    turn(store, append_frame(1, {queue: (batch([b"x"], 1), None)}))
    turn(store, SessionClose(sender=LISTENER, epoch=1, session="c", source=1, wall_ms=10_000, expiry_s=60, keep_will=False))
    store.tick(1.0, 69_999)

    effects = turn(store, opening(request=2, user="bob"), now_s=2.0, wall_ms=70_000)

    assert effects[:2] == [(peer, SessionGone(session="c", queue=queue)) for peer in (DISTRIBUTOR, LISTENER)]
    ((_, opened),) = effects[2:]
    assert isinstance(opened, SessionOpened)
    assert (opened.present, opened.refused) == (False, ""), "it was ada's"
    assert opened.queue not in ("", queue)


def test_a_shorter_life_of_sessions_holds_for_those_that_are_there(engine: Engine) -> None:
    if not engine.durable:
        pytest.skip("nothing is there after a restart")
    store = open_store(engine, settings(), 1)
    for request, session in enumerate(("away", "connected"), 1):
        open_session(store, session, request=request, expiry_s=SESSION_NEVER_EXPIRES_S)
    never = SESSION_NEVER_EXPIRES_S
    turn(store, SessionClose(sender=LISTENER, epoch=1, session="away", source=1, wall_ms=10_000, expiry_s=never, keep_will=False))

    store = open_store(engine, settings(expiry_max_s=60), 2)
    store.tick(1.0, 69_999)
    assert set(known(store)) == {"away", "connected"}
    store.tick(2.0, 70_000)

    assert set(known(store)) == {"connected"}


def test_what_a_connection_said_when_it_ended_is_answered_once_it_is_committed() -> None:
    """broker.end-told-until-committed"""
    engine = RecordingEngine()
    store = open_store(engine, settings(), 1)
    open_session(store)
    close = SessionClose(sender=LISTENER, epoch=1, session="c", source=1, wall_ms=10_000, expiry_s=60, keep_will=False)
    engine.refusing = True
    assert turn(store, close) == []
    engine.refusing = False
    assert store.commit(100.0, 0) == [(LISTENER, SessionClosed(epoch=1, source=1))]
    assert turn(store, close, now_s=101.0) == [(LISTENER, SessionClosed(epoch=1, source=1))], "asked again"
    assert known(open_store(engine.rebuilt(len(engine.writes)), settings(), 2))["c"][3] == 0


def test_a_session_that_never_expires_stays(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    open_session(store, expiry_s=SESSION_NEVER_EXPIRES_S)
    close = SessionClose(
        sender=LISTENER, epoch=1, session="c", source=1, wall_ms=0, expiry_s=SESSION_NEVER_EXPIRES_S, keep_will=False
    )
    turn(store, close)
    store.tick(1.0, 1 << 50)
    assert list(known(store)) == ["c"]


def test_a_connection_that_was_taken_over_ends_nothing(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    open_session(store, source=1)
    open_session(store, source=2, request=2)
    turn(store, SessionClose(sender=LISTENER, epoch=1, session="c", source=1, wall_ms=0, expiry_s=0, keep_will=False))
    assert list(known(store)) == ["c"]


def guarded(**sessions: Any) -> NodeSettings:
    """A node with a password file, so that it tells users apart."""
    known = settings(**sessions)
    listener = ListenerSettings(bind="127.0.0.1:1")
    return replace(known, listeners=(listener,), access=replace(known.access, password_file="passwords"))


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("other", ["bob", None])
def test_a_session_is_opened_by_its_user_alone_also_after_a_restart(engine: Engine, other: str | None, clean: bool) -> None:
    """store.session-is-its-users"""
    store = open_store(engine, guarded(), 1)
    queue = open_session(store, user="ada", will=WILL).queue
    close = SessionClose(sender=LISTENER, epoch=1, session="c", source=1, wall_ms=1000, expiry_s=60, keep_will=True)
    turn(store, close, append_frame(1, {queue: (batch([b"x"], 1), None)}))
    store = open_store(engine, guarded(), 2) if engine.durable else store

    refused = open_session(store, user=other, clean=clean, request=2, source=2)

    assert (refused.refused, refused.present, refused.queue, refused.subscriptions) == ("user", False, "", ())
    assert known(store)["c"][2:] == (WILL, 31_000, "ada", "", ""), "nothing of it has changed"
    mine = open_session(store, user="ada", request=3, source=3)
    assert (mine.present, mine.queue, mine.refused) == (True, queue, "")


def test_a_session_that_was_nobody_s_is_the_first_user_s_and_one_that_has_ended_anybody_s(engine: Engine) -> None:
    """store.session-is-its-users"""
    store = open_store(engine, guarded(), 1)
    open_session(store)
    assert open_session(store, user="ada", request=2, source=2).present
    assert open_session(store, user="bob", request=3, source=3).refused == "user"
    turn(store, SessionClose(sender=LISTENER, epoch=1, session="c", source=2, wall_ms=0, expiry_s=0, keep_will=False))
    assert not open_session(store, user="bob", request=4, source=4).refused


def test_a_node_that_tells_no_users_apart_gives_a_session_to_anybody(engine: Engine) -> None:
    """store.session-is-its-users"""
    store = open_store(engine, guarded(), 1)
    open_session(store, user="ada")
    if not engine.durable:
        return
    store = open_store(engine, settings(), 2)
    assert open_session(store, request=2, source=2).present
    assert known(store)["c"][4] is None


def test_a_row_is_read_as_it_was_written_and_one_with_other_fields_is_damage() -> None:
    row = Session("c", expiry_s=60, queue="session:1:c", user="ada", listener="h:1", owner="user ada", opening=("listener", 1, 2))
    version, *fields = msgpack.unpackb(row.encode(), use_list=False)
    assert Session.decode("c", row.encode()) == row
    for count in range(len(fields)):
        with pytest.raises(StorageDamaged):
            Session.decode("c", msgpack.packb((version, *fields[:count])))
    with pytest.raises(StorageDamaged):
        Session.decode("c", msgpack.packb((version, *fields, 0)))
    with pytest.raises(ConfigError):
        Session.decode("c", msgpack.packb((version + 1, *fields)))


def test_the_listener_by_which_a_client_came_last_is_told_with_its_session(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    open_session(store, listener="h:1")
    assert known(store)["c"][5] == "h:1"
    open_session(store, request=2, source=2, listener="h:2")
    assert known(store)["c"][5] == "h:2"
    if engine.durable:
        assert known(open_store(engine, settings(), 2))["c"][5] == "h:2"


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_the_will_of_a_client_that_died_with_its_listener_is_told_to_the_next_one(engine: Engine, expiry_s: int) -> None:
    """store.will-kept-until-published"""
    store = open_store(engine, settings(), 1)
    open_session(store, expiry_s=expiry_s, will=WILL)
    if engine.durable:
        store = open_store(engine, settings(), 2)
    turn(store, SessionsWanted(epoch=2))

    will, due_ms = known(store, 2)["c"][2:4]
    assert will == WILL
    assert isinstance(due_ms, int)
    # Sent with a batch, it is gone in the same commit.
    turn(store, replace(append_frame(1, {}, epoch=2), wills=(("c", 0),)))
    assert all(row[2] is None for row in known(store, 2).values())


def test_a_client_that_says_goodbye_takes_its_will_back(engine: Engine) -> None:
    """store.will-kept-until-published"""
    store = open_store(engine, settings(), 1)
    open_session(store, expiry_s=0, will=WILL)
    turn(store, SessionClose(sender=LISTENER, epoch=1, session="c", source=1, wall_ms=0, expiry_s=0, keep_will=False))
    assert known(store) == {}


def test_retained_messages_are_read_for_who_wants_them_and_are_replaced_and_cleared(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    turn(store, retain(1, (b"a/1", 1, b"old"), (b"a/2", 0, b"two"), (b"b", 1, b"other")))
    turn(store, retain(2, (b"a/1", 1, b"new"), (b"a/2", 1, b"")))
    if engine.durable:
        store = open_store(engine, settings(), 2)

    assert turn(store, wanted()) == [
        (
            LISTENER,
            RetainedPiece(
                epoch=1,
                request=1,
                done=1,
                after=b"",
                places=(0,),
                bodies=(from_rows([(b"a/1", 1 | RETAIN, b"new")], accepted_ms=1000).encode(),),
            ),
        )
    ]


def test_what_is_wanted_comes_in_pieces_each_behind_the_one_before(engine: Engine) -> None:
    """In the same turn as a batch a piece has what that retains; a piece has as many messages, bytes and filters as are wanted."""
    store = open_store(engine, settings(), 1)
    rows = [(b"a/%d" % number, number % 2, b"x" * 10) for number in range(9)]
    effects = turn(store, retain(1, *rows), wanted(messages=4))
    piece = next(frame for _, frame in effects if isinstance(frame, RetainedPiece))
    assert (piece.done, piece.after) == (0, b"a/3")
    assert pieces(effects) == [[(topic, qos | RETAIN, payload) for topic, qos, payload in rows[:4]]]
    assert [len(rows) for rows in pieces(turn(store, wanted(after=b"a/3", size_bytes=20)))] == [2]
    assert [len(rows) for rows in pieces(turn(store, wanted(only_qos0=True)))] == [5]
    both = RetainedWanted(epoch=1, request=2, messages=6, size_bytes=1 << 20, filters=(("a/7", b"", False), ("a/+", b"", False)))
    ((_, frame),) = turn(store, both)
    assert isinstance(frame, RetainedPiece)
    assert (frame.done, frame.after, frame.places) == (1, b"a/4", (0, 1))


def test_a_turn_reads_one_piece_and_the_next_turn_comes_at_once(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    turn(store, retain(1, (b"a/1", 1, b"x")))
    asked = [replace(wanted(), request=number) for number in (1, 2, 3)]
    assert len(pieces(turn(store, *asked))) == 1
    assert store.wakes_at_s(5.0) == 5.0
    assert len(pieces(turn(store)) + pieces(turn(store))) == 2
    assert store.wakes_at_s(5.0) > 5.0


def test_few_topics_are_looked_at_for_a_piece_whatever_matches(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.store.retained_pieces.Allowance.__init__.__defaults__", (3,), raising=False)
    store = open_store(engine, settings(), 1)
    turn(store, retain(1, *((b"a/%d/%d" % (n, n), 1, b"x") for n in range(9))))
    frames = [frame for _, frame in turn(store, wanted("a/+/9"))]
    assert isinstance(frames[0], RetainedPiece)
    assert frames[0].done in (0, 1)
    assert not frames[0].bodies


def test_retained_messages_go_into_the_queue_of_a_session_that_lasts_once(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    queue = open_session(store).queue
    turn(store, retain(1, (b"a/1", 2, b"kept"), (b"a/2", 0, b"passing")))

    first = [frame for _, frame in turn(store, subscribe(queue, options=1))]
    again = [frame for _, frame in turn(store, subscribe(queue, options=1))]

    assert [type(frame) for frame in first] == [SubscriptionsKept]
    assert [type(frame) for frame in again] == [SubscriptionsKept], "a request that is repeated has had them"
    assert queued(store, queue) == [(b"a/1", 1 | RETAIN, b"kept")]
    assert pieces(turn(store, wanted(only_qos0=True))) == [[(b"a/2", RETAIN, b"passing")]]


def owing(store: Store) -> object:
    return present(store.status(1000).sessions).retained.owing


def settle(store: Store, queue: str, number: int, first: int, stop: int) -> Effects:
    frame = Settle(
        queue=queue,
        epoch=1 << 20,
        number=number,
        settled=(("delivered", ((first, stop),)),),
        released=(),
        session=None,
        generation=0,
    )
    return turn(store, frame, now_s=100.0)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.store.retained_pieces.PIECE_MESSAGES", 2)


@pytest.mark.usefixtures("small_pieces")
def test_a_queue_has_what_is_retained_as_it_empties_and_over_the_death_of_stores(engine: Engine) -> None:
    """store.pass-goes-on"""
    store = open_store(engine, settings(queue_max_messages=1), 1)
    queue = open_session(store).queue
    turn(store, retain(1, *((b"a/%d" % n, 1, b"%d" % n) for n in range(7))))
    turn(store, subscribe(queue))
    assert store.lanes.all[queue].queue.depth == 2
    assert owing(store) == 1
    for step in range(3):
        if engine.durable:
            store = open_store(engine, settings(queue_max_messages=1), 2 + step)
        assert turn(store, now_s=100.0) == []
        assert store.lanes.all[queue].queue.depth == 2, "it waits until there is room"
        turn(store, LaneOpen(queue=queue, epoch=1 << 20))
        turn(store, Credit(queue=queue, epoch=1 << 20, messages=MANY, size_bytes=MANY))
        head = store.lanes.all[queue].queue.head
        settle(store, queue, step + 1, head, head + 2)
    assert store.lanes.all[queue].queue.depth == 1
    turn(store, now_s=100.0)
    assert owing(store) == 0
    assert [row[0] for row in queued(store, queue, 9 << 20)] == [b"a/6"]
    assert not list(engine.scan("meta", b"G", b"H"))


@pytest.mark.usefixtures("small_pieces")
def test_what_is_published_goes_behind_what_is_retained_of_its_topic(engine: Engine) -> None:
    """store.pass-goes-on: whether its turn has come or not, over the death of a store, and once."""
    store = open_store(engine, settings(), 1)
    queue = open_session(store).queue
    turn(store, retain(1, *((b"a/%d" % n, 1, b"old") for n in range(5))))
    turn(store, subscribe(queue))
    live = from_rows([(b"a/4", 1, b"live"), (b"a/0", 1, b"live"), (b"other", 1, b"live")], accepted_ms=1000)
    changed = from_rows([(b"a/4", 1 | RETAIN, b"new")], accepted_ms=1000)
    turn(store, append_frame(2, {queue: (live, None)}), append_frame(3, {queue: (changed, None), RETAINED: (changed, None)}))
    if engine.durable:
        store = open_store(engine, settings(), 2)
        store.lanes.all[queue].queue.settle("delivered", ((0, 2),))
    rows = []
    for step in range(6):
        rows += queued(store, queue, (1 + step) << 20)
        queue_of = store.lanes.all[queue].queue
        queue_of.settle("delivered", ((0, queue_of.tail),))
        turn(store, now_s=100.0 + step)
        store.tick(100.0 + step, 1000)
        turn(store, now_s=100.5 + step)
    came = [(topic, payload) for topic, _, payload in rows if topic == b"a/4"]
    assert came == [(b"a/4", b"old"), (b"a/4", b"live"), (b"a/4", b"new")]
    assert sorted(topic for topic, _, payload in rows if payload == b"old")[-3:] == [b"a/2", b"a/3", b"a/4"]
    assert not list(engine.scan("meta", b"G", b"H"))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("ends", ["unsubscribe", "session", "qos 0"])
def test_nothing_is_owed_to_what_has_ended(engine: Engine, ends: str) -> None:
    store = open_store(engine, settings(), 1)
    queue = open_session(store).queue
    turn(store, retain(1, *((b"a/%d" % n, 1, b"old") for n in range(5))))
    turn(store, subscribe(queue))
    assert owing(store) == 1
    if ends == "unsubscribe":
        turn(store, SubscriptionsDrop(epoch=1, request=2, session="c", source=1, queue=queue, filters=("a/#",)))
    elif ends == "session":
        turn(store, opening(request=2, source=2, clean=True, expiry_s=0))
    else:
        turn(store, subscribe(queue, options=0, request=2))
    assert owing(store) == 0
    assert not list(engine.scan("meta", b"G", b"H"))


class BadSector(RecordingEngine):
    """Refuses to read the retained messages of ``topics``, so often each."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[bytes, int] = {}

    def get(self, family: Family, key: bytes) -> bytes | None:
        left = self.topics.get(key[1:], 0) if family == "meta" and key == retained_key(key[1:]) else 0
        if left:
            self.topics[key[1:]] = left - 1
            raise Unavailable("input/output error")
        return super().get(family, key)


@pytest.mark.parametrize(("refusals", "came"), [(1, [b"one", b"two", b"three"]), (MANY, [b"two"])])
def test_a_retained_message_that_cannot_be_read_is_waited_for_once(refusals: int, came: list[bytes]) -> None:
    """Everything that comes in behind waits with the SUBSCRIBE, and must not wait for a sector that is lost for good."""
    engine = BadSector()
    store = open_store(engine, settings(), 1)
    turn(store, retain(1, (b"a/1", 1, b"one"), (b"a/2", 1, b"two"), (b"a/3", 1, b"three")))
    engine.topics = {b"a/1": refusals, b"a/3": refusals}

    before, behind = append_frame(2, {QUEUE: (batch([b"x"]), None)}), append_frame(3, {QUEUE: (batch([b"y"]), None)})
    assert turn(store, before, wanted(), behind) == []
    effects = turn(store, now_s=store.wakes_at_s(1.0))

    assert [frame.number for _, frame in effects if isinstance(frame, Committed)] == [3]
    assert sorted(payload for rows in pieces(effects) for _, _, payload in rows) == sorted(came)
    assert store.status(1000).state == "running"


def test_a_retained_message_that_can_be_read_again_comes_again() -> None:
    engine = BadSector()
    store = open_store(engine, settings(), 1)
    turn(store, retain(1, (b"a/1", 1, b"one")))
    for refusals in (2, 1, 0):
        engine.topics = {b"a/1": refusals}
        effects = turn(store, wanted())
        effects += turn(store, now_s=2.0)
        assert [len(rows) for rows in pieces(effects)] == [refusals == 0]


def test_retained_messages_have_limits(engine: Engine) -> None:
    store = open_store(engine, settings(retained_max_messages=1), 1)
    turn(store, retain(1, (b"a/1", 1, b"x"), (b"a/2", 1, b"y")))
    figures = present(store.status(1000).sessions).retained
    assert (figures.messages, figures.refused) == (1, 1)


def test_retained_messages_that_have_expired_take_no_room(engine: Engine) -> None:
    store = open_store(engine, settings(retained_max_messages=2, user_share_percent=100), 1)
    expiring = from_rows([(b"a/1", 1 | RETAIN, b"x"), (b"a/2", 1 | RETAIN, b"y")], accepted_ms=1000)
    expiring.properties = dict.fromkeys((0, 1), b"\x02\0\0\0\x05")
    later = from_rows([(b"a/3", 1 | RETAIN, b"z")], accepted_ms=6000)
    turn(store, append_frame(1, {RETAINED: (expiring, None)}))
    turn(store, append_frame(2, {RETAINED: (later, None)}))
    figures = present(store.status(6000).sessions).retained
    assert (figures.messages, figures.refused) == (1, 0)
    if engine.durable:
        assert present(open_store(engine, settings(), 2).status(6000).sessions).retained.messages == 1


def test_the_markers_of_a_session_are_answered_like_a_bridges(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    queue = open_session(store).queue
    turn(store, append_frame(1, {queue: (batch([b"x"], 2), None)}))
    ((peer, opened),) = turn(store, LaneOpen(queue=queue, epoch=1 << 20))
    assert peer == LISTENER
    assert isinstance(opened, LaneOpened)


def test_identifiers_of_a_session_that_has_ended_leave_nothing_behind(engine: Engine) -> None:
    """Its client said goodbye with a QoS 2 batch on its way."""
    store = open_store(engine, settings(), 1)
    open_session(store)
    close = SessionClose(sender=LISTENER, epoch=1, session="c", source=1, wall_ms=0, expiry_s=0, keep_will=False)
    turn(store, close, append_frame(1, {"bridge:cloud:0": (batch([b"x"], 2), None)}, received={"c": [5]}))
    store.tick(1.0, 5000)
    turn(store)

    again = open_session(store, request=2, source=2)
    assert (again.present, again.received) == (False, b"")


def test_sessions_that_come_together_share_one_commit_and_nothing_is_written_for_their_lanes(tmp_path: Path) -> None:
    """Their queues have the client's session on record from the beginning, and leave as they came if nothing was in them."""
    store, many = open_store(RocksEngine(tmp_path / "store"), settings(), 1), 500
    turn(store)
    before = store.next_commit.count
    effects = turn(store, *(opening(f"c{number}", request=number, source=number + 1) for number in range(many)))
    queues = [frame.queue for _, frame in effects if isinstance(frame, SessionOpened)]
    assert (len(set(queues)), store.next_commit.count) == (many, before + 1)

    lanes = turn(store, *(LaneOpen(queue=queue, epoch=1 << 20) for queue in queues), now_s=2.0)
    turn(store, *(Credit(queue=queue, epoch=1 << 20, messages=64, size_bytes=MANY) for queue in queues), now_s=3.0)
    turn(store, *(LaneClose(queue=queue, epoch=1 << 20, sent_below=0) for queue in queues), now_s=4.0)
    assert {frame.session for _, frame in lanes if isinstance(frame, LaneOpened)} == {"client"}
    assert store.next_commit.count == before + 1
    store.close()
