"""Messages in the queue of a session that ends: of a shared subscription they go to another member, and all are counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from storage.engine.engine import Engine
from storage.store.store import Store
from tests.storage.building import RecordingEngine, append_frame
from tests.storage.store.test_local_sessions import MANY, open_session, rows_of, settings, turn
from tests.storage.store.test_session_commands import away, result
from tests.support.stores import open_store
from wire.errors import Unavailable
from wire.figure import to_map
from wire.frames.batch import RETAIN, Batch, from_rows
from wire.frames.intake import SessionClose
from wire.frames.lanes import Credit, HandOut, LaneClose, LaneOpen, Settle
from wire.frames.names import LISTENER
from wire.frames.subscriptions import PIECE_MESSAGES, SubscriptionsAdd
from wire.routing.message_route import SHARE_BYTES_MAX, MessageRoute, kind_of_route, route_of_share

SHARE = "$share/g/t"
MAX_EXPIRY = bytes((0x02, 0, 0, 0, 60))


def member(store: Store, name: str, options: int = 2, *, share: str = SHARE, identifier: int = 0, **more: object) -> str:
    """A session that lasts with a shared subscription; its queue."""
    queue = open_session(store, name, **more).queue
    filters = ((share, options, identifier, True),)
    turn(store, SubscriptionsAdd(epoch=1, request=1, session=name, source=1, queue=queue, filters=filters))
    return queue


def dealt(*rows: tuple[int, bytes], accepted_ms: int = 1000, share: str = "g") -> Batch:
    """A batch of (flags, payload) as the shared subscription deals it."""
    batch = from_rows([(b"t", flags, payload) for flags, payload in rows], accepted_ms=accepted_ms)
    batch.routes, batch.route_of = [route_of_share(share, "t")], [0]
    return batch


def taken(store: Store, queue: str, epoch: int = 1 << 20) -> list[Batch]:
    """The messages of ``queue`` that are handed out, and not settled."""
    turn(store, LaneOpen(queue=queue, epoch=epoch))
    effects = turn(store, Credit(queue=queue, epoch=epoch, messages=MANY, size_bytes=MANY))
    return [Batch.decode(body) for _, frame in effects if isinstance(frame, HandOut) for body in frame.bodies]


def payloads(batches: list[Batch]) -> list[bytes]:
    return [payload for batch in batches for payload in batch.rows_payloads()]


def settle_down(store: Store) -> int:
    """Turns until nothing is left to do; how many."""
    turns = 0
    while store.wakes_at_s(1.0) <= 1.0:
        turn(store)
        turns += 1
        assert turns < 1000
    return turns


def end(store: Store, how: str, name: str = "one") -> None:
    """The session ``name`` ends."""
    if how == "operator":
        turn(store, away(name))
        result(store, "end", client_id=name)
    elif how == "clean start":
        open_session(store, name, clean=True, request=20, source=20)
    elif how == "disconnected":
        turn(store, SessionClose(sender=LISTENER, epoch=1, session=name, source=1, wall_ms=5000, expiry_s=0, keep_will=False))
    else:
        turn(store, away(name))
        store.tick(2.0, 10_000_000)
        turn(store)
    settle_down(store)


def figures(store: Store) -> dict[str, Any]:
    sessions: dict[str, Any] = to_map(store.status(0).sessions)
    return sessions


@pytest.mark.parametrize("how", ["operator", "clean start", "disconnected", "expired"])
def test_what_a_member_leaves_goes_to_another_however_its_session_ends(engine: Engine, how: str) -> None:
    """store.share-goes-to-another-member: QoS 1 always; QoS 2 unless the first client may have it."""
    store = open_store(engine, settings(), 1)
    one, two = member(store, "one"), member(store, "two", expiry_s=0xFFFF_FFFF)
    turn(store, append_frame(1, {one: (dealt((1, b"sent 1"), (2, b"sent 2")), None)}))
    assert payloads(taken(store, one)) == [b"sent 1", b"sent 2"]
    turn(store, LaneClose(queue=one, epoch=1 << 20, sent_below=store.lanes.all[one].queue.cursor))
    turn(store, append_frame(2, {one: (dealt((1, b"1"), (2, b"2")), None)}))
    own = from_rows([(b"t", 1, b"its own")])
    turn(store, append_frame(3, {one: (own, None)}))

    end(store, how)

    assert payloads(taken(store, two)) == [b"sent 1", b"1", b"2"]
    after = figures(store)
    assert after["dropped_by_reason"] == {"maybe_received": 1, "session_ended": 1}
    assert (after["dropped"], after["dealt_again"], after["depth"]) == (2, 3, 3)
    assert one not in {lane.queue.name for lane in store.lanes.all.values()}
    if engine.durable:
        store.commit(2.0, 2000, at_once=True)
        again = figures(open_store(engine, settings(), 2))
        assert (again["dropped"], again["dealt_again"]) == (2, 3), "on record"


def test_it_is_granted_as_the_other_subscription_says_and_is_as_old_as_it_was(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    one, two = member(store, "one"), member(store, "two", 1 | 0x08, identifier=7)
    batch = dealt((2 | RETAIN, b"x"), accepted_ms=77)
    batch.properties = {0: MAX_EXPIRY + b"\x0b\x05"}
    turn(store, append_frame(1, {one: (batch, None)}))

    end(store, "clean start")

    (got,) = taken(store, two)
    assert rows_of(got) == [(b"t", 1 | RETAIN, b"x")]
    assert (got.accepted_ms, got.properties) == (77, {0: MAX_EXPIRY + b"\x0b\x07"})
    end(store, "clean start", "two")
    assert figures(store)["dropped_by_reason"] == {"session_ended": 1}, "it is of the shared subscription still, which is empty"


def test_who_is_connected_takes_it_and_of_those_who_has_least(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    one, away_, busy, idle = (member(store, name) for name in ("one", "away", "busy", "idle"))
    member(store, "at QoS 0", 0)
    other = member(store, "other", share="$share/h/t")
    turn(store, away("away"))
    turn(store, append_frame(1, {busy: (dealt((1, b"0"), (1, b"0")), None)}))
    turn(store, append_frame(2, {one: (dealt(*[(1, b"%d" % number) for number in range(4)]), None)}))

    end(store, "clean start")

    assert payloads(taken(store, idle)) == [b"0", b"1", b"3"]
    assert payloads(taken(store, busy)) == [b"0", b"0", b"2"]
    assert payloads(taken(store, away_)) + payloads(taken(store, other)) == []


def test_what_finds_no_room_is_dropped_and_counted(engine: Engine) -> None:
    """store.ended-queue-counted"""
    store = open_store(engine, settings(queue_max_messages=3), 1)
    one, two = member(store, "one"), member(store, "two")
    turn(store, append_frame(1, {two: (dealt((1, b"0")), None)}))
    turn(store, append_frame(2, {one: (dealt(*[(1, b"%d" % number) for number in (1, 2, 3)]), None)}))

    end(store, "clean start")

    assert payloads(taken(store, two)) == [b"0", b"1", b"2"]
    assert figures(store)["dropped_by_reason"] == {"overflow": 1}
    end(store, "clean start", "two")
    assert figures(store)["dropped"] == 4


def test_a_long_queue_is_emptied_a_piece_a_turn_and_what_comes_meanwhile_goes_as_well(engine: Engine) -> None:
    store = open_store(engine, settings(), 1)
    one, two = member(store, "one"), member(store, "two")
    count = 10 * PIECE_MESSAGES
    for number in range(5):
        rows = [(1, b"%d" % row) for row in range(number * count // 5, (number + 1) * count // 5)]
        turn(store, append_frame(number + 1, {one: (dealt(*rows), None)}))

    turn(store, away("one"))
    result(store, "end", client_id="one")
    assert figures(store)["purged"] == count
    turn(store)
    assert 0 < figures(store)["dealt_again"] <= 2 * PIECE_MESSAGES
    turn(store, append_frame(6, {one: (dealt((1, b"late")), None)}))

    assert settle_down(store) >= 8
    assert payloads(taken(store, two)) == [*[b"%d" % row for row in range(count)], b"late"]


def test_each_is_in_one_queue_or_counted_whenever_the_node_dies() -> None:
    """store.share-goes-to-another-member, store.ended-queue-counted: a kill or a power cut at each write of the way."""
    engine = RecordingEngine()
    store = open_store(engine, settings(), 1)
    one, two = member(store, "one"), member(store, "two")
    count = 3 * PIECE_MESSAGES
    rows = [(1 + row % 2, b"%d" % row) for row in range(count)]
    turn(store, append_frame(1, {one: (dealt(*rows), None)}))
    taken(store, one)
    settled = (("delivered", ((0, 10),)),)
    acknowledged = Settle(queue=one, epoch=1 << 20, number=0, settled=settled, released=(), session=None, generation=0)
    turn(store, acknowledged)
    store.commit(1.0, 1000, at_once=True)
    before = len(engine.writes)
    end(store, "clean start")

    ends: Counter[bool] = Counter()
    for _, _, survivor in engine.survivors(before):
        recovered = open_store(survivor, settings(), 2)
        ended = recovered.sessions.rows.get("one") is None or recovered.sessions.rows.get("one").queue != one  # type: ignore[union-attr]
        ends[ended] += 1
        if not ended:
            continue
        settle_down(recovered)
        recovered.tick(2.0, 2000)
        after = figures(recovered)
        assert payloads(taken(recovered, two, 10 << 20)) == [b"%d" % row for row in range(10, count) if not row % 2]
        assert (after["dropped_by_reason"], after["dealt_again"]) == ({"maybe_received": count // 2 - 5}, count // 2 - 5)
        assert after["depth"] == count // 2 - 5
    assert ends[False]
    assert ends[True] >= 3, "a kill behind each piece"


def test_what_cannot_be_read_is_tried_again() -> None:
    engine = RecordingEngine()
    store = open_store(engine, settings(), 1)
    one, two = member(store, "one"), member(store, "two")
    turn(store, append_frame(1, {one: (dealt((1, b"x")), None)}))
    queue, read = store.lanes.all[one].queue, store.lanes.all[one].queue.read

    def cannot(*_: object, **__: object) -> Any:
        raise Unavailable("input/output error")

    queue.read = cannot  # type: ignore[method-assign]
    end(store, "clean start")
    assert figures(store)["dealt_again"] == 0

    queue.read = read  # type: ignore[method-assign]
    store.tick(20.0, 20_000)
    turn(store, now_s=20.0)
    assert payloads(taken(store, two)) == [b"x"]


def test_a_queue_without_shared_messages_goes_with_its_session_and_what_was_dropped_before_stays_counted(engine: Engine) -> None:
    """store.ended-queue-counted, store.session-goes-with-its-queue"""
    store = open_store(engine, settings(queue_max_messages=2), 1)
    queue = open_session(store, "c").queue
    turn(store, append_frame(1, {queue: (replace(dealt((1, b"x"), (1, b"y"), (2, b"z")), routes=[], route_of=[]), None)}))
    assert figures(store)["dropped"] == 1

    open_session(store, "c", clean=True, request=2, source=2)

    assert queue not in store.lanes.all
    assert figures(store)["dropped_by_reason"] == {"overflow": 1, "session_ended": 2}


def test_a_queue_has_one_row_for_all_its_shared_subscriptions_and_none_that_is_long_goes_with_each_message() -> None:
    routes = [route_of_share("g" * length, "t") for length in (1, 50, SHARE_BYTES_MAX - len("$share//t"))]
    assert len({kind_of_route(route) for route in routes}) == 1
    assert route_of_share("g" * SHARE_BYTES_MAX, "t") == b""
    assert kind_of_route(MessageRoute("a", "b", preserve_retain=True, properties=b"").encode()) != kind_of_route(routes[0])
