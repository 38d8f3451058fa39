"""Tier 1 by its frames: what is answered when, what a repeat or an old epoch does, sessions, durability switches, a full disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from storage.chunk import Chunk
from storage.commit_mark import Evidence
from storage.commit_time import LAZY_S
from storage.engine import Engine, Write
from storage.keys import chunk_key, lane_key
from storage.lane import Effects
from storage.memory import MemoryEngine
from storage.tier1 import TICK_S, Store
from tests.storage.building import (
    FORWARDER,
    QUEUE,
    RecordingEngine,
    append_frame,
    batch,
    bridge,
    messages,
    node,
    remote_session,
    settle_frame,
    u16,
    with_remote_session,
)
from tests.storage.commanding import command
from tests.support.settings import limits
from wire.errors import StorageDamaged
from wire.frames import (
    Committed,
    Credit,
    Frame,
    FrameType,
    HandOut,
    LaneOpen,
    LaneOpened,
    LaneReopen,
    ResetMarkers,
    SenderResumes,
    SessionOpen,
    SessionOpened,
    Settled,
)
from wire.left_sessions import LeftSession

EPOCH = 7 << 20
NEXT_LIFE = 8 << 20  # of the process that opens the lane
MANY = 1 << 40


def turn(store: Store, *frames: Frame, now_s: float = 100.0, wall_ms: int = 5000) -> Effects:
    for frame in frames:
        store.receive(frame)
    return [*store.admit(now_s, wall_ms), *store.commit(now_s, wall_ms)]


def of(effects: Effects, kind: type[FrameType]) -> list[FrameType]:
    return [frame for _, frame in effects if isinstance(frame, kind)]


def open_lane(store: Store, epoch: int = EPOCH, messages: int = 10_000) -> Effects:
    first = turn(store, LaneOpen(queue=QUEUE, epoch=epoch))
    return first + turn(store, Credit(queue=QUEUE, epoch=epoch, messages=messages, size_bytes=MANY))


def handed(effects: Effects) -> list[bytes]:
    return [payload for frame in of(effects, HandOut) for _, payload in messages(frame)]


def publishes(number: int, *payloads: bytes, qos: int = 1, epoch: int = 1) -> Frame:
    return append_frame(number, {QUEUE: (batch(payloads, qos), None)}, epoch=epoch)


def test_a_message_is_acknowledged_and_handed_out_after_its_commit(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    opened = of(open_lane(store), LaneOpened)[0]

    effects = turn(store, publishes(1, b"a", b"b"))

    assert effects[0] == ("listener", Committed(sender="listener", epoch=1, store=1, number=1, refused={}))
    assert [peer for peer, _ in effects] == ["listener", FORWARDER]
    assert messages(of(effects, HandOut)[0]) == [(opened.head, b"a"), (opened.head + 1, b"b")]


def test_one_turn_is_one_write_and_one_answer() -> None:
    engine = RecordingEngine()
    store = Store(engine, node(), 1)
    before = len(engine.writes)

    effects = turn(store, publishes(1, b"a"), publishes(2, b"b"), publishes(3, b"c"))

    assert [frame.number for frame in of(effects, Committed)] == [3]
    assert len(engine.writes) == before + 1
    assert engine.writes[-1][1], "synced"


def test_a_repeat_is_answered_again_and_enters_once(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a"), publishes(2, b"b"))

    effects = turn(store, publishes(1, b"a"))

    assert [frame.number for frame in of(effects, Committed)] == [2]
    assert handed(open_lane(store)) == [b"a", b"b"]


def test_a_gap_is_dropped_until_what_is_missing_comes(engine: Engine) -> None:
    store = Store(engine, node(), 1)

    assert turn(store, publishes(2, b"b")) == []
    turn(store, publishes(1, b"a"), publishes(2, b"b"))

    assert handed(open_lane(store)) == [b"a", b"b"]


def test_a_new_epoch_starts_at_one_and_fences_the_old(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a", epoch=1))

    effects = turn(store, publishes(1, b"b", epoch=2), publishes(2, b"late", epoch=1))

    assert of(effects, Committed) == [Committed(sender="listener", epoch=2, store=1, number=1, refused={})]
    assert handed(open_lane(store)) == [b"a", b"b"]


def test_a_store_in_memory_takes_up_the_numbers_of_a_living_sender() -> None:
    store = Store(MemoryEngine(), node(mode="in-memory"), 2)

    assert turn(store, publishes(38, b"overtook")) == []
    turn(store, SenderResumes(sender="listener", epoch=1, number=37))
    effects = turn(store, publishes(37, b"a"), publishes(38, b"b"))

    assert [frame.number for frame in of(effects, Committed)] == [38]
    assert handed(open_lane(store)) == [b"a", b"b"]


def test_a_store_whose_answers_all_leave_a_mark_knows_the_numbers_itself() -> None:
    store = Store(RecordingEngine(), node(sync="os"), 2)

    turn(store, SenderResumes(sender="listener", epoch=1, number=37))

    assert turn(store, publishes(37, b"a")) == []


@pytest.mark.parametrize("lost", [0, 1])
def test_a_sender_goes_on_whether_or_not_its_qos_0_was_lost_with_the_log(lost: int) -> None:
    """Nothing but the sender's own number tells of a commit of QoS 0 alone that damage took."""
    engine = RecordingEngine()
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a"))
    turn(store, publishes(2, b"lost", qos=0))
    store = Store(engine.rebuilt(len(engine.writes) - lost), node(), 2)

    turn(store, SenderResumes(sender="listener", epoch=1, number=3))
    effects = turn(store, publishes(2, b"late", qos=0), publishes(3, b"b"))

    assert {frame.number for frame in of(effects, Committed)} == {3}
    assert handed(open_lane(store)) == [b"a", b"b"]


@pytest.mark.parametrize(("sync", "marked"), [("full", [True, False, True]), ("os", [True, True, True])])
def test_a_commit_that_is_answered_leaves_a_mark_if_it_is_as_strong_as_is_configured(sync: str, marked: list[bool]) -> None:
    class Marking(RecordingEngine):
        def commit(self, write: Write, *, sync: bool) -> None:
            promised.append(write.promised)
            super().commit(write, sync=sync)

    promised: list[bool] = []
    store = Store(Marking(), node(sync=sync), 1)
    promised.clear()
    for number, qos in enumerate([1, 0, 2], 1):
        assert of(turn(store, publishes(number, b"a", qos=qos)), Committed)

    assert promised == marked


def test_a_store_that_answered_fast_and_died_takes_up_the_numbers_of_its_sender() -> None:
    store = Store(RecordingEngine(), node(acknowledge="fast"), 2)

    turn(store, SenderResumes(sender="listener", epoch=1, number=3))  # 1 and 2 were answered, and died with the store

    assert [frame.number for frame in of(turn(store, publishes(3, b"c")), Committed)] == [3]
    turn(store, SenderResumes(sender="listener", epoch=1, number=2))  # a late word
    assert of(turn(store, publishes(3, b"c")), Committed) == [Committed(sender="listener", epoch=1, store=2, number=3, refused={})]
    assert handed(open_lane(store)) == [b"c"]


def test_sequences_in_memory_are_never_used_twice() -> None:
    heads = []
    for epoch in (1, 2):
        store = Store(MemoryEngine(), node(mode="in-memory"), epoch)
        turn(store, publishes(1, b"a"))
        heads.append(of(open_lane(store), LaneOpened)[0].head)

    assert heads == [1 << 32, 2 << 32]


# --- lanes ---


def test_credit_bounds_what_is_handed_out(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    turn(store, *[publishes(number, b"%d" % number) for number in range(1, 8)])

    effects = open_lane(store, messages=3)
    more = turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=5, size_bytes=MANY))
    repeated = turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=5, size_bytes=MANY))

    assert handed(effects) == [b"1", b"2", b"3"]
    assert handed(more) == [b"4", b"5"]
    assert repeated == []


def test_frames_of_an_old_lane_epoch_change_nothing(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a"))
    head = of(open_lane(store), LaneOpened)[0].head
    assert handed(open_lane(store, EPOCH + 1)) == [b"a"]

    turn(store, settle_frame(1, EPOCH, ("delivered", ((head, head + 1),))))
    assert open_lane(store, EPOCH) == []

    assert store.status(5000)["queues"][QUEUE]["depth"] == 1
    turn(store, settle_frame(1, EPOCH + 1, ("delivered", ((head, head + 1),))))
    assert store.status(5000)["queues"][QUEUE]["depth"] == 0


def test_a_lane_whose_process_has_ended_hands_nothing_out_until_its_next_life_opens_it(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a", b"b"))
    head = of(open_lane(store), LaneOpened)[0].head
    turn(store, settle_frame(1, EPOCH, ("delivered", ((head, head + 1),))))

    effects = turn(store, ResetMarkers(queue=QUEUE, epoch=7), publishes(2, b"c"))

    assert {peer for peer, _ in effects} == {"listener"}, "nobody is there to take it, or to be asked"
    again = open_lane(store, NEXT_LIFE)
    assert handed(again) == [b"b", b"c"]
    assert of(again, LaneOpened)[0].dup_below == head + 2


def test_a_late_word_of_a_life_that_has_ended_does_not_stop_what_a_newer_one_has_opened(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    open_lane(store)
    open_lane(store, NEXT_LIFE)

    effects = turn(store, ResetMarkers(queue=QUEUE, epoch=7), publishes(1, b"a"))
    assert handed(effects) == [b"a"]

    effects = turn(store, ResetMarkers(queue=QUEUE, epoch=8), publishes(2, b"b"))
    assert handed(effects) == [], "its own end counts"


def test_an_opening_is_not_answered_to_a_process_that_has_ended(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a"))

    assert turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH), ResetMarkers(queue=QUEUE, epoch=7)) == []
    effects = turn(store, LaneOpen(queue=QUEUE, epoch=NEXT_LIFE), ResetMarkers(queue=QUEUE, epoch=7))
    assert [frame.epoch for frame in of(effects, LaneOpened)] == [NEXT_LIFE]


@pytest.mark.parametrize(("new_epoch", "expected"), [(EPOCH + 1, [b"a"]), (NEXT_LIFE, [])])
def test_qos_0_in_flight_goes_out_again_only_to_the_same_forwarder(engine: Engine, new_epoch: int, expected: list[bytes]) -> None:
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a", qos=0))
    open_lane(store)

    assert handed(open_lane(store, new_epoch)) == expected

    figures = store.status(5000)["queues"][QUEUE]
    assert figures["dropped"] == ({} if expected else {"actor_restart": 1})
    assert figures["ledger_closes"]


def test_a_release_is_answered_after_a_synced_commit() -> None:
    engine = RecordingEngine()
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a", b"b", qos=2))
    open_lane(store)
    engine.refusing = True

    held = turn(store, settle_frame(1, EPOCH, released=((0, 1),)))
    engine.refusing = False
    effects = turn(store, now_s=200.0)

    assert held == []
    assert of(effects, Settled) == [Settled(queue=QUEUE, epoch=EPOCH, number=1)]
    assert any(sync for _, sync in engine.writes[-2:])
    reopened = Store(engine.rebuilt(len(engine.writes)), node(), 2)
    assert of(open_lane(reopened, 9 << 20), LaneOpened)[0].released == ((0, 1),)


def sent_three(engine: Engine, **chosen: Any) -> Store:
    """Three messages of QoS 1 are handed out; all of it is committed, at 100.0 s."""
    store = Store(engine, node(**chosen), 1)
    turn(store, publishes(1, b"a", b"b", b"c"))
    open_lane(store)
    store.commit(100.0, 5000, at_once=True)
    return store


def recorded(engine: RecordingEngine) -> int:
    """How many messages are settled as far as the disk knows."""
    figures = Store(engine.rebuilt(len(engine.writes)), node(), 9).status(5000)["queues"][QUEUE]
    assert figures["ledger_closes"]
    delivered: int = figures["delivered"]
    return delivered


def delivered(seq: int) -> Frame:
    return settle_frame(seq + 1, EPOCH, ("delivered", ((seq, seq + 1),)))


def test_a_plain_settlement_is_neither_answered_nor_synced_and_goes_with_the_next_commit() -> None:
    engine = RecordingEngine()
    store = sent_three(engine)
    writes = len(engine.writes)

    assert turn(store, delivered(0)) == []
    assert turn(store, delivered(1), Credit(queue=QUEUE, epoch=EPOCH, messages=20_000, size_bytes=MANY)) == []
    assert len(engine.writes) == writes
    assert store.status(5000)["queues"][QUEUE]["depth"] == 1, "there is room for others"

    turn(store, publishes(2, b"d"))
    assert len(engine.writes) == writes + 1
    assert recorded(engine) == 2


def test_a_settlement_alone_is_committed_when_it_has_waited_long_enough() -> None:
    """Others that come meanwhile do not put it off."""
    engine = RecordingEngine()
    store = sent_three(engine)
    writes = len(engine.writes)
    turn(store, delivered(0))
    due_s = 100.0 + LAZY_S
    assert store.wakes_at_s(100.0) == due_s
    assert turn(store, delivered(1), now_s=due_s - 0.01) == []
    assert (len(engine.writes), store.wakes_at_s(due_s - 0.01)) == (writes, due_s)

    assert turn(store, now_s=due_s) == []

    assert len(engine.writes) == writes + 1
    assert not engine.writes[-1][1], "it is not synced"
    assert recorded(engine) == 2
    assert store.wakes_at_s(due_s) == due_s + TICK_S, "nothing waits any more"
    turn(store, delivered(2), now_s=due_s + 0.01)
    assert store.wakes_at_s(due_s + 0.01) == pytest.approx(due_s + 0.01 + LAZY_S)


def test_credit_alone_commits_nothing_and_wakes_nobody() -> None:
    engine = RecordingEngine()
    store = sent_three(engine)
    writes = len(engine.writes)
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=20_000, size_bytes=MANY))
    assert store.wakes_at_s(100.0) == 100.0 + TICK_S
    turn(store, now_s=100.0 + LAZY_S)
    assert len(engine.writes) == writes


def test_a_settlement_alone_keeps_to_the_flush_period() -> None:
    engine = RecordingEngine()
    store = sent_three(engine, flush_period_s=0.5)
    writes = len(engine.writes)
    turn(store, delivered(0), now_s=100.1)
    assert store.wakes_at_s(100.1) == 100.5
    turn(store, now_s=100.4)
    assert len(engine.writes) == writes
    turn(store, now_s=100.5)
    assert len(engine.writes) == writes + 1
    assert recorded(engine) == 1


@pytest.mark.parametrize("how", ["a command", "a stop", "a tick"])
def test_a_settlement_that_waits_goes_with_whatever_commits(how: str) -> None:
    engine = RecordingEngine()
    store = sent_three(engine)
    turn(store, delivered(0))
    assert recorded(engine) == 0
    if how == "a command":
        assert [row["depth"] for row in command(store, "ls")["queues"]] == [2]
    elif how == "a stop":
        store.commit(100.0, 5000, at_once=True)
    else:
        store.tick(100.0, 5000)
        turn(store)
    assert recorded(engine) == 1


@pytest.mark.parametrize(
    "more", [{"released": ((1, 2),)}, {"session": "edge@remote", "generation": 1}, {"outcome": "dead:remote_0x99"}]
)
def test_a_settlement_for_which_somebody_waits_is_committed_in_its_turn(more: dict[str, Any]) -> None:
    engine = RecordingEngine()
    store = sent_three(engine)
    outcome, rest = more.get("outcome", "delivered"), {name: value for name, value in more.items() if name != "outcome"}
    turn(store, settle_frame(1, EPOCH, (outcome, ((0, 1),)), **rest))
    again = Store(engine.rebuilt(len(engine.writes)), node(), 2)
    assert again.status(5000)["queues"][QUEUE]["depth"] == 2


def test_a_new_generation_forgets_what_was_released(engine: Engine) -> None:
    store = Store(engine, node(replace(bridge(), on_session_loss="republish")), 1)
    turn(store, publishes(1, b"a", b"b", qos=2))
    head = of(open_lane(store), LaneOpened)[0].head
    turn(store, settle_frame(1, EPOCH, released=((head, head + 1),), session="first"))

    effects = turn(store, settle_frame(2, EPOCH, session="second", generation=1))

    assert of(effects, Settled) == [Settled(queue=QUEUE, epoch=EPOCH, number=2)]
    opened = of(open_lane(store, EPOCH + 1), LaneOpened)[0]
    assert (opened.released, opened.session, opened.generation) == ((), "second", 1)


def test_a_settlement_of_the_forwarders_own_says_nothing_of_the_session(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a", qos=2), publishes(2, b"b", qos=0))
    head = of(open_lane(store), LaneOpened)[0].head
    turn(store, settle_frame(1, EPOCH, session="second", generation=1))
    turn(store, settle_frame(2, EPOCH, released=((head, head + 1),), generation=1))

    turn(store, settle_frame(0, EPOCH, ("delivered", ((head + 1, head + 2),))))

    opened = of(open_lane(store, EPOCH + 1), LaneOpened)[0]
    assert (opened.released, opened.session, opened.generation) == (((head, head + 1),), "second", 1)


# --- sessions ---


def session_open(store: Store, request: int, *, clean: bool, keep: bool = True, epoch: int = 1) -> SessionOpened:
    frame = SessionOpen(sender="listener", epoch=epoch, request=request, session="c", clean=clean, expiry_s=60 if keep else 0)
    return of(turn(store, frame), SessionOpened)[0]


def test_received_identifiers_are_kept_with_their_messages_until_released(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    assert not session_open(store, 1, clean=False).present
    two = batch([b"a", b"b"], 2)
    turn(store, append_frame(1, {QUEUE: (two, None)}, received={"c": ([5, 9], [0, 1])}))

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
    store = Store(engine, node(), 1)
    asked = SessionOpen(sender="listener", epoch=1, request=7, session="c", clean=False, expiry_s=60)
    store.receive(asked)
    store.commit(0.0, 1000)  # the answer does not leave

    again = Store(engine, node(), 2)

    assert not of(turn(again, asked), SessionOpened)[0].present, "MQTT-3.2.2-4: the client has no session state"
    assert session_open(again, 8, clean=False).present
    assert session_open(again, 7, clean=False, epoch=2).present, "a request of another life is another request"


def test_a_session_that_is_kept_and_has_no_identifiers_is_there_after_a_clean_start(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    session_open(store, 1, clean=True)
    turn(store, append_frame(1, {QUEUE: (batch([b"a"], 2), None)}, received={"c": ([5], [0])}))
    turn(store, append_frame(2, {}, released={"c": [5]}))

    assert session_open(Store(engine, node(), 2), 2, clean=False).present


def test_a_session_that_ends_with_its_connection_is_not_there_for_the_next(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    session_open(store, 1, clean=False)
    turn(store, append_frame(1, {QUEUE: (batch([b"a"], 2), None)}, received={"c": ([5], [0])}))
    last = session_open(store, 2, clean=False, keep=False)
    assert (last.present, last.received) == (True, u16([5]))

    again = Store(engine, node(), 2)
    assert session_open(again, 2, clean=False, keep=False) == replace(last, store=2), (
        "asked again, because a store died with the answer"
    )
    assert not session_open(again, 3, clean=False, keep=False).present
    assert not session_open(again, 4, clean=False).present


def test_a_session_of_a_listener_that_is_gone_is_not_opened(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    session_open(store, 1, clean=False, epoch=2)

    assert turn(store, SessionOpen(sender="listener", epoch=1, request=9, session="c", clean=True, expiry_s=60)) == []
    assert session_open(store, 2, clean=False, epoch=2).present


def test_each_sender_opens_its_sessions_in_lives_of_its_own(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    session_open(store, 1, clean=False, epoch=9)
    name = with_remote_session(store)
    remote = SessionOpen(sender="connection:cloud:0", epoch=3, request=4, session=name, clean=False, expiry_s=60)

    ((peer, opened),) = turn(store, remote)

    assert peer == "connection:cloud:0"
    assert isinstance(opened, SessionOpened)
    assert (opened.sender, opened.epoch, opened.request) == ("connection:cloud:0", 3, 4)
    assert turn(store, replace(remote, epoch=2)) == []


def test_what_a_lane_has_subscribed_to_in_its_session_stays_noted_until_another_is_on_record(engine: Engine) -> None:
    def noted(store: Store, epoch: int, *filters: str, number: int = 0) -> list[str]:
        _, opened = remote_session(store, epoch=epoch, number=number, filters=filters)
        return [topic_filter for topic_filter, *_ in opened.subscriptions]

    first = Store(engine, node(), 1)
    with_remote_session(first)
    assert noted(first, 3, "a", "b") == ["a", "b"]
    assert noted(Store(engine, node(), 2), 4, "c") == ["a", "b", "c"]
    later = Store(engine, node(), 3)
    assert noted(later, 5, "c") == ["a", "b", "c"]
    turn(later, LaneOpen(queue=QUEUE, epoch=9 << 20), settle_frame(1, 9 << 20, session="edge@here", generation=1))
    assert noted(later, 6, "c", number=1) == ["c"]


def test_a_lanes_new_session_goes_on_record_and_what_came_in_the_one_before_is_forgotten_in_one_commit() -> None:
    """A Connection that dies before it can ask for it leaves no identifier behind that swallows a message of the new session."""
    engine = RecordingEngine()
    store = Store(engine, node(), 1)
    name = with_remote_session(store, epoch=EPOCH)
    came: dict[str, tuple[Sequence[int], Sequence[int]]] = {name: ([5], [0])}
    turn(store, append_frame(1, {QUEUE: (batch([b"m"], 2), None)}, received=came, sender="connection:cloud:0", epoch=3))
    turn(store, settle_frame(2, EPOCH, session="edge@here"))
    assert remote_session(store, epoch=4)[1].received == u16([5]), "it is the session that is on record already"

    before = len(engine.writes)
    turn(store, settle_frame(3, EPOCH, session="edge@here", generation=1))
    assert len(engine.writes) == before + 1
    assert remote_session(Store(engine.rebuilt(before), node(), 2), epoch=5)[1].received == u16([5])
    again = Store(engine.rebuilt(before + 1), node(), 2)
    assert not [session.name for session in again.sessions]
    assert remote_session(again, epoch=5, number=1)[1].received == b""


def test_a_new_session_of_one_lane_is_nothing_to_what_came_by_another() -> None:
    store = Store(RecordingEngine(), node(), 1)
    with_remote_session(store, epoch=EPOCH)
    lanes = ("bridge:cloud:1", "bridge:cloudy:0")
    others: dict[str, tuple[Sequence[int], Sequence[int]]] = {with_remote_session(store, queue=lane): ([5], [0]) for lane in lanes}
    turn(store, append_frame(1, {QUEUE: (batch([b"m"], 2), None)}, received=others, sender="connection:cloud:1"))
    turn(store, settle_frame(2, EPOCH, session="edge@here", generation=1))
    assert [session.received for session in store.sessions] == [{5}, {5}]


def test_a_session_that_was_left_keeps_what_came_in_it_until_its_remote_has_lost_it(engine: Engine) -> None:
    """The store dies after each step."""
    places = replace(bridge(), remote=replace(bridge().remote, client_id="edge", addresses=(("here", 1), ("there", 2))))
    here, there = "edge@here:1", "edge@there:2"
    store = Store(engine, node(places), 1)
    name = with_remote_session(store, session=here, epoch=EPOCH)
    turn(store, append_frame(1, {}, received={name: ([5], [0])}, rows=1, sender="connection:cloud:0"))
    left = LeftSession(here, 0, 7, ((1, 2),), ((3, 5),))
    turn(store, settle_frame(2, EPOCH, session=there, generation=1, left=(left,)))

    store = Store(engine, node(places), 2)
    (opened,) = of(turn(store, LaneOpen(queue=QUEUE, epoch=2 << 20)), LaneOpened)
    assert (opened.session, opened.left, opened.receives) == (there, (left,), True)
    assert remote_session(store, session=here)[1].received == u16([5]), "while it is left, too"
    elsewhere = LeftSession(there, 1, 9, (), ())
    turn(store, settle_frame(1, 2 << 20, session=here, generation=0, left=(elsewhere,)))

    store = Store(engine, node(places), 3)
    (opened,) = of(turn(store, LaneOpen(queue=QUEUE, epoch=3 << 20)), LaneOpened)
    assert (opened.session, opened.generation, opened.left) == (here, 0, (elsewhere,))
    assert remote_session(store, session=here, request=2)[1].received == u16([5])
    turn(store, settle_frame(1, 3 << 20, session=here, generation=2, left=(elsewhere,)))
    assert not [session.name for session in store.sessions]


def test_what_is_late_of_a_session_that_the_remote_has_lost_leaves_nothing_on_record(engine: Engine) -> None:
    store = Store(engine, node(), 1)
    name = with_remote_session(store, epoch=EPOCH)
    turn(store, settle_frame(2, EPOCH, session="edge@here", generation=1))
    late = SessionOpen(sender="connection:cloud:0", epoch=1, request=7, session=name, clean=False, expiry_s=60)

    turn(store, append_frame(1, {}, received={name: ([5], [0])}, rows=1, sender="connection:cloud:0"))
    assert turn(store, late) == []

    assert not [session.name for session in store.sessions]


def test_a_session_at_an_address_that_is_not_configured_any_more_is_forgotten(engine: Engine) -> None:
    """Of a bridge that is not configured everything stays (P7)."""
    places = replace(bridge(), remote=replace(bridge().remote, client_id="edge", addresses=(("here", 1), ("there", 2))))
    store = Store(engine, node(places), 1)
    for queue in (QUEUE, "bridge:gone:0"):
        with_remote_session(store, session="edge@here:1", epoch=EPOCH, queue=queue)
        left = (LeftSession("edge@here:1", 0, 0, (), ()),)
        turn(store, settle_frame(2, EPOCH, session="edge@there:2", generation=1, left=left, queue=queue))

    later = Store(engine, node(replace(places, remote=replace(places.remote, addresses=(("there", 2),)))), 2)

    assert [session.name.split("\0")[1] for session in later.sessions] == ["connection:gone:0"]
    (opened,) = of(turn(later, LaneOpen(queue=QUEUE, epoch=2 << 20)), LaneOpened)
    assert (opened.session, opened.left) == ("edge@there:2", ())
    later.close()


def test_a_batch_of_a_former_listener_is_not_taken_once_a_new_one_has_opened_a_session(engine: Engine) -> None:
    """Its identifiers would come after the answer that the new Listener goes by; its publisher was not answered and sends again."""
    store = Store(engine, node(), 1)
    assert session_open(store, 1, clean=False, epoch=2).received == b""
    late = append_frame(1, {QUEUE: (batch([b"a"], 2), None)}, received={"c": ([5], [0])}, epoch=1)
    assert of(turn(store, late), Committed) == []
    assert session_open(store, 2, clean=False, epoch=2).received == b""


# --- durability switches ---


def test_fast_acknowledges_before_the_commit() -> None:
    engine = RecordingEngine()
    store = Store(engine, node(acknowledge="fast"), 1)
    before = len(engine.writes)
    store.receive(publishes(1, b"a"))

    assert [type(frame) for _, frame in store.admit(1.0, 1000)] == [Committed]
    assert len(engine.writes) == before
    assert of(store.commit(1.0, 0), Committed) == []
    assert len(engine.writes) == before + 1


def test_a_flush_period_holds_acknowledgements_and_messages_back() -> None:
    engine = RecordingEngine()
    store = Store(engine, node(flush_period_s=0.5), 1)
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
    turn(Store(engine, node(sync=sync), 1), publishes(1, b"a"))

    assert engine.writes[-1][1] is synced


@pytest.mark.parametrize("frame", [append_frame(1, {}, rows=1), publishes(1, b"a", qos=0)])
def test_what_needs_no_durability_is_acknowledged_without_a_sync(frame: Frame) -> None:
    engine = RecordingEngine()
    store = Store(engine, node(), 1)

    effects = turn(store, frame)

    assert [committed.number for committed in of(effects, Committed)] == [1]
    assert not engine.writes[-1][1]


# --- the disk ---


def test_a_full_disk_acknowledges_nothing_loses_nothing_and_ends_by_itself() -> None:
    engine = RecordingEngine()
    store = Store(engine, node(), 1)
    open_lane(store)
    engine.refusing = True

    assert turn(store, publishes(1, b"a")) == []
    assert turn(store, publishes(2, b"b"), publishes(1, b"a"), now_s=100.05) == []
    assert turn(store, now_s=101.0) == []
    assert store.status(5000)["state"] == "disk_full"
    engine.refusing = False
    effects = turn(store, now_s=110.0)

    assert [frame.number for frame in of(effects, Committed)] == [2]
    assert handed(effects) == [b"a", b"b"]
    assert store.status(5000)["state"] == "running"


def test_little_free_disk_behaves_as_full() -> None:
    engine = RecordingEngine()
    engine.free = 10
    store = Store(engine, node(limit=limits(min_free_disk_bytes=100)), 1)

    refused = of(turn(store, publishes(1, b"a")), Committed)[0].refused
    assert store.status(5000)["state"] == "disk_low"
    engine.free = 1000
    accepted = of(turn(store, publishes(2, b"a"), now_s=102.0), Committed)[0].refused

    assert (refused, accepted.get(2)) == ({1: u16([0])}, None)


def test_a_damaged_chunk_is_counted_and_the_queue_goes_on_behind_it() -> None:
    engine = RecordingEngine()
    settings = node(bridge(lanes=2))
    store = Store(engine, settings, 1)
    other = "bridge:cloud:1"
    turn(store, append_frame(1, {QUEUE: (batch([b"sound"]), None), other: (batch([b"other"]), None)}))
    turn(store, publishes(2, b"torn"))
    write = Write()
    value = bytearray(engine.get("msg", chunk_key(1, 1)) or b"")
    value[-3] ^= 1
    write.put("msg", chunk_key(1, 1), bytes(value))
    engine.commit(write, sync=True)
    store = Store(engine.rebuilt(len(engine.writes)), settings, 2)

    assert handed(open_lane(store)) == [b"sound"]
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=20_000, size_bytes=MANY))
    turn(store, LaneOpen(queue=other, epoch=EPOCH))
    assert handed(turn(store, Credit(queue=other, epoch=EPOCH, messages=9, size_bytes=MANY))) == [b"other"]
    effects = turn(store, publishes(3, b"new"))
    assert of(effects, Committed)[0].number == 3
    assert handed(effects) == [b"new"]
    status = store.status(5000)["queues"]
    assert status[QUEUE]["damaged"] == {"stopped": False, "places": 1, "messages": 1}
    assert (status[QUEUE]["dropped"], status[QUEUE]["ledger_closes"]) == ({"damaged": 1}, True)
    assert status[other]["damaged"] == {"stopped": False, "places": 0, "messages": 0}
    with pytest.raises(StorageDamaged, match="bridge:cloud:0"):
        Chunk.decode(bytes(value), queue=QUEUE, seq=1)


def test_queues_of_bridges_that_are_no_longer_configured_stay() -> None:
    engine = RecordingEngine()
    turn(Store(engine, node(bridge("old")), 1), append_frame(1, {"bridge:old:0": (batch([b"a"]), None)}))

    status = Store(engine.rebuilt(len(engine.writes)), node(bridge("new")), 2).status(5000)["queues"]

    assert status["bridge:old:0"]["depth"] == 1
    assert status["bridge:new:0"]["depth"] == 0


def test_old_messages_expire_at_the_head_and_when_handed_out(engine: Engine) -> None:
    store = Store(engine, node(bridge(limit=limits(max_age_s=2.0))), 1)
    old, young = batch([b"old"], accepted_ms=1000), batch([b"young"], accepted_ms=4000)
    turn(store, append_frame(1, {QUEUE: (old, None)}), append_frame(2, {QUEUE: (young, None)}), wall_ms=4000)
    assert store.status(4000)["queues"][QUEUE]["oldest_age_s"] == pytest.approx(3.0)

    store.tick(100.0, 4000)
    expired = store.status(4000)["queues"][QUEUE]
    turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH))
    late = turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=9, size_bytes=MANY), wall_ms=7000)

    assert (expired["expired"], expired["depth"]) == (1, 1)
    assert handed(late) == []
    assert store.status(7000)["queues"][QUEUE]["expired"] == 2


def test_what_the_forwarder_settles_says_nothing_of_the_session(engine: Engine) -> None:
    """It knows no generation: QoS 0 that it passed on must not make the store forget what the remote has released."""
    store = Store(engine, node(), 1)
    turn(store, publishes(1, b"a", b"b", qos=2), publishes(2, b"c", qos=0))
    head = of(open_lane(store), LaneOpened)[0].head
    turn(store, settle_frame(1, EPOCH, session="edge@here", generation=3))
    turn(store, settle_frame(2, EPOCH, released=((head, head + 1),), generation=3))

    effects = turn(store, settle_frame(0, EPOCH, ("delivered", ((head + 2, head + 3),))))

    assert of(effects, Settled) == []
    (opened,) = of(open_lane(store, EPOCH + 1), LaneOpened)
    assert (opened.released, opened.generation, opened.session) == (((head, head + 1),), 3, "edge@here")


def test_a_flush_period_holds_what_tells_of_a_release_back() -> None:
    store = Store(RecordingEngine(), node(flush_period_s=0.5), 1)
    turn(store, publishes(1, b"a", qos=2), now_s=200.0)
    turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH), now_s=200.1)
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=9, size_bytes=MANY), now_s=200.1)

    early = turn(store, settle_frame(1, EPOCH, released=((0, 1),)), now_s=200.2)
    reopening = turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH + 1), now_s=200.3)
    effects = turn(store, now_s=200.7)  # a period after the commit of the mark that the hand-out needed

    assert (early, reopening) == ([], []), "a PUBREL must not leave before the release is committed"
    assert [opened.released for opened in of(effects, LaneOpened)] == [((0, 1),)]


def test_a_chunk_that_is_gone_is_noticed_by_the_bytes_before_the_next() -> None:
    engine = RecordingEngine()
    store = Store(engine, node(), 1)
    for number, payload in enumerate([b"a", b"b", b"c", b"d"], 1):
        turn(store, publishes(number, payload))
    write = Write()
    write.delete("msg", chunk_key(1, 1))
    write.delete("msg", chunk_key(1, 2))
    engine.commit(write, sync=True)
    store = Store(engine.rebuilt(len(engine.writes)), node(), 2)

    assert handed(open_lane(store)) == [b"a", b"d"]
    turn(store, settle_frame(1, EPOCH, ("delivered", ((0, 1), (3, 4)))))
    figures = store.status(5000)["queues"][QUEUE]
    assert (figures["dropped"], figures["depth"], figures["ledger_closes"]) == ({"damaged": 2}, 0, True)


def test_a_first_chunk_that_is_gone_is_counted_when_the_queue_has_run_empty() -> None:
    """Nothing stands before it that could tell; the depth does."""
    engine = RecordingEngine()
    store = Store(engine, node(), 1)
    for number, payload in enumerate([b"a", b"b"], 1):
        turn(store, publishes(number, payload))
    write = Write()
    write.delete("msg", chunk_key(1, 0))
    engine.commit(write, sync=True)
    store = Store(engine.rebuilt(len(engine.writes)), node(), 2)

    assert handed(open_lane(store)) == [b"b"]
    turn(store, settle_frame(1, EPOCH, ("delivered", ((1, 2),))))
    turn(store, now_s=100.0 + LAZY_S)
    figures = store.status(5000)["queues"][QUEUE]
    assert (figures["dropped"], figures["depth"], figures["ledger_closes"]) == ({"damaged": 1}, 0, True)


def test_the_remote_session_is_forgotten_when_what_may_have_been_sent_is_damaged() -> None:
    """The identifier of an unreleased QoS 2 message would stay in use at the remote: the lane is opened anew, without a session."""
    engine = RecordingEngine()
    store = Store(engine, node(), 1)
    open_lane(store)
    turn(store, publishes(1, b"sent", qos=2))
    turn(store, settle_frame(1, EPOCH, session="edge@remote", generation=1))
    write = Write()
    write.put("msg", chunk_key(1, 0), b"torn")
    engine.commit(write, sync=True)
    store = Store(engine.rebuilt(len(engine.writes)), node(), 2)

    effects = open_lane(store)
    assert of(effects, LaneOpened)[0].session == "edge@remote"
    wakes_s = store.wakes_at_s(100.0)
    store.tick(wakes_s, 5000)
    effects += turn(store, now_s=wakes_s)
    assert of(effects, LaneReopen)
    assert wakes_s <= 100.0 + TICK_S
    assert of(turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH + 1), now_s=wakes_s), LaneOpened)[0].session == ""


def test_a_row_that_cannot_be_read_stops_its_queue_only() -> None:
    engine = RecordingEngine()
    settings = node(bridge("cloud"), bridge("other"))
    other = "bridge:other:0"
    turn(Store(engine, settings, 1), publishes(1, b"a"))
    write = Write()
    write.put("meta", lane_key(1), b"torn")
    engine.commit(write, sync=True)
    store = Store(engine, settings, 2)

    assert open_lane(store) == [], "where it stands is not known"
    refused = of(turn(store, publishes(1, b"b", epoch=2)), Committed)[0].refused
    accepted = of(turn(store, append_frame(2, {other: (batch([b"c"]), None)}, epoch=2)), Committed)[0].refused

    assert refused == {1: u16([0])}
    assert 2 not in accepted
    status = store.status(5000)["queues"]
    assert (status[QUEUE]["damaged"]["stopped"], status[other]["damaged"]["stopped"]) == (True, False)
    assert engine.get("meta", lane_key(1)) == b"torn", "the row stays for the operator"


def test_a_sender_that_lives_is_believed_when_commits_are_missing() -> None:
    engine = RecordingEngine()
    turn(Store(engine, node(), 1), publishes(1, b"a"))
    engine.missing = Evidence(99, True, {1: 3})
    store = Store(engine, node(), 2)

    turn(store, SenderResumes(sender="listener", epoch=1, number=4))
    assert of(turn(store, publishes(4, b"d")), Committed)[0].number == 4
    assert [seq for frame in of(open_lane(store), HandOut) for seq, _ in messages(frame)] == [0, 3], "sequences are not used twice"
    assert store.status(5000)["queues"][QUEUE]["dropped"] == {"damaged": 2}
