"""Purging and looking at a queue: what may have been sent stays, unless all of it goes and the session with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.engine.engine import Engine, RocksEngine, Write
from storage.engine.keys import chunk_key
from storage.engine.memory_engine import MemoryEngine
from storage.queue.queue import Queue
from storage.store.store import Store
from tests.storage.building import FORWARDER, QUEUE, RecordingEngine, append_frame, batch, bridge, messages, node, settle_frame
from tests.storage.commanding import command, refused
from tests.storage.queues import append, open_queue
from tests.storage.turns import EPOCH, MANY, turn
from tests.support.stores import open_store
from wire.errors import ConfigError
from wire.figure import to_map
from wire.frames.frame import Effects, Frame
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened, LaneReopen, Settled
from wire.frames.supervision import QueueAnswer, QueueCommand


def handed(effects: Effects) -> list[tuple[int, bytes]]:
    return [pair for _, frame in effects if isinstance(frame, HandOut) for pair in messages(frame)]


def publish(number: int, *payloads: bytes, qos: int = 1) -> Frame:
    return append_frame(number, {QUEUE: (batch(payloads, qos), None)})


def open_lane(store: Store, credit: int, epoch: int = EPOCH) -> Effects:
    first = turn(store, LaneOpen(queue=QUEUE, epoch=epoch))
    return first + turn(store, Credit(queue=QUEUE, epoch=epoch, messages=credit, size_bytes=MANY))


def row(store: Store) -> dict[str, object]:
    in_flight = store.lanes.of_bridges[QUEUE].queue.in_flight
    return {**to_map(store.status(5000).queues[QUEUE]), "in_flight": in_flight}


def answer(purged: int, kept: int, *, link_up_ms: int | None = None, remote: str = "") -> dict[str, object]:
    """The answer of a purge. link_up_ms: None if the link that ``kept`` were handed to stood in an earlier life of the store."""
    why = {"reason": "may_have_been_sent", "remote": remote, "link_up_ms": link_up_ms}
    kept_lanes = [{"lane": 0, "messages": kept, **why}] if kept else []
    return {"purged": purged, "kept": kept, "kept_in_flight": 0, "kept_lanes": kept_lanes, "next": None}


def waiting(store: Store) -> list[bytes]:
    page = command(store, "peek", bridge="cloud", lane=0)
    return [message["payload"] for message in page["messages"]]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_purge_takes_what_was_never_handed_out(engine: Engine, qos: int) -> None:
    store = open_store(engine, node(), 1)
    open_lane(store, 2)
    turn(store, publish(1, b"a", b"b", qos=qos))
    for number in range(2, 6):
        turn(store, publish(number, b"x" * 500, b"y", qos=qos))
    before = row(store)
    assert (before["depth"], before["in_flight"]) == (10, 2)

    assert command(store, "purge", bridge="cloud") == {**answer(8, 2, link_up_ms=5000), "kept_in_flight": 2}

    after = row(store)
    assert (after["depth"], after["in_flight"], after["dropped"], after["ledger_closes"]) == (2, 2, {"purged": 8}, True)
    assert waiting(store) == [b"a", b"b"]
    assert isinstance(after["bytes"], int)
    assert after["bytes"] < 20, "the bytes of what was purged are free"
    effects = turn(store, publish(6, b"new", qos=qos), Credit(queue=QUEUE, epoch=EPOCH, messages=100, size_bytes=MANY))
    assert [payload for _, payload in handed(effects)] == [b"new"]


def test_after_a_reset_what_was_handed_out_before_stays(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    open_lane(store, 4)
    for number in range(1, 6):
        turn(store, publish(number, b"%d a" % number, b"%d b" % number))
    open_lane(store, 0, EPOCH + 1)

    assert command(store, "purge", bridge="cloud") == answer(6, 4, link_up_ms=5000)

    assert waiting(store) == [b"1 a", b"1 b", b"2 a", b"2 b"]
    assert isinstance(size := row(store)["bytes"], int)
    assert size < 20
    effects = turn(store, publish(6, b"new"), Credit(queue=QUEUE, epoch=EPOCH + 1, messages=100, size_bytes=MANY))
    assert [payload for _, payload in handed(effects)] == [b"1 a", b"1 b", b"2 a", b"2 b", b"new"]
    assert row(store)["ledger_closes"]


@pytest.mark.parametrize("used_up", [True, False])
def test_when_its_link_is_down_a_lane_knows_what_was_never_handed_out_also_in_the_next_life(used_up: bool, tmp_path: Path) -> None:
    """The mark that is committed ahead goes back to what was handed out; what came afterwards is above it anyway."""
    store = open_store(RocksEngine(tmp_path / "store"), node(), 1)
    open_lane(store, 5)
    if used_up:
        turn(store, *(publish(number, b"%d" % number, qos=2) for number in range(1, 31)))
    else:
        turn(store, *(publish(number, b"%d" % number, qos=2) for number in range(1, 6)))
    handed_out = row(store)["in_flight"]
    turn(store, settle_frame(1, EPOCH, session="c@h:1", generation=0), Credit(queue=QUEUE, epoch=EPOCH, messages=0, size_bytes=0))
    turn(store, *(publish(number, b"%d" % number, qos=2) for number in range(31 if used_up else 6, 40)))
    store.close()
    store = open_store(RocksEngine(tmp_path / "store"), node(), 2)
    assert handed_out == 5
    assert command(store, "purge", bridge="cloud") == answer(34, 5, remote="h:1")
    store.close()


@pytest.mark.parametrize("sync", ["full", "os"])
def test_after_a_crash_all_that_may_have_been_sent_stays(sync: str, tmp_path: Path) -> None:
    """If commits may be lost with the power, the mark of what was handed out may be: then it is the next 65,000 sequences."""
    store = open_store(RocksEngine(tmp_path / "store"), node(sync=sync), 1)
    turn(store, publish(1, b"a", b"b", qos=2))
    store.close()
    store = open_store(RocksEngine(tmp_path / "store"), node(sync=sync), 2)
    kept = 0 if sync == "full" else 2
    assert command(store, "purge", bridge="cloud") == answer(2 - kept, kept)
    open_lane(store, 1)
    turn(store, publish(2, b"c", qos=2))
    store.close()
    store = open_store(RocksEngine(tmp_path / "store"), node(sync=sync), 3)
    assert command(store, "purge", bridge="cloud") == answer(0, kept + 1)
    assert command(store, "purge", bridge="cloud", in_flight=True)["purged"] == kept + 1
    store.close()
    store = open_store(RocksEngine(tmp_path / "store"), node(sync=sync), 4)
    assert row(store)["depth"] == 0
    assert row(store)["ledger_closes"]
    store.close()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_whole_purge_forgets_the_session_and_opens_the_lane_anew(engine: Engine, qos: int) -> None:
    """store.purge-begins-a-session"""
    store = open_store(engine, node(), 1)
    open_lane(store, 3)
    effects = turn(store, publish(1, b"a", b"b", b"c", qos=qos))
    turn(store, publish(2, b"d", qos=qos))
    seqs = [seq for seq, _ in handed(effects)]
    released = ((seqs[1], seqs[1] + 1),) if qos == 2 else ()
    turn(store, settle_frame(1, EPOCH, released=released, session="c@h:1", generation=4))

    store.receive(QueueCommand(request=1, verb="purge", arguments={"bridge": "cloud", "in_flight": True}))
    effects = turn(store)

    assert [frame.result for _, frame in effects if isinstance(frame, QueueAnswer)] == [answer(4, 0)]
    assert (FORWARDER, LaneReopen(queue=QUEUE)) in effects
    turn(store, settle_frame(2, EPOCH, ("delivered", ((seqs[0], seqs[0] + 1),)), session="c@h:1", generation=4))
    (opened,) = [frame for _, frame in open_lane(store, 100, EPOCH + 1) if isinstance(frame, LaneOpened)]
    assert (opened.session, opened.generation, opened.released, opened.settled) == ("", 5, (), ())
    (left,) = opened.left
    assert (left.session, left.generation, left.released) == ("c@h:1", 4, released)  # type: ignore[attr-defined]
    held = {seq for start, stop in (*left.released, *left.sent) for seq in range(start, stop)}  # type: ignore[attr-defined]
    assert set(seqs) <= held, "the remote may hold their identifiers"
    assert opened.head == opened.tail == seqs[-1] + 2
    assert [payload for _, payload in handed(turn(store, publish(3, b"new", qos=qos)))] == [b"new"]
    after = row(store)
    assert (after["depth"], after["bytes"], after["dropped"], after["ledger_closes"]) == (1, 4, {"purged": 4}, True)


def test_a_whole_purge_of_a_lane_that_is_being_opened_leaves_it_open(engine: Engine) -> None:
    """Its Forwarder waits for that opening, and reopens nothing meanwhile."""
    store = open_store(engine, node(), 1)
    open_lane(store, 3)
    turn(store, publish(1, b"a", b"b"))
    turn(store, settle_frame(1, EPOCH, session="c@h:1", generation=4))

    order = QueueCommand(request=1, verb="purge", arguments={"bridge": "cloud", "in_flight": True})
    effects = turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH + 1), order)

    (opened,) = [frame for _, frame in effects if isinstance(frame, LaneOpened)]
    assert (opened.epoch, opened.session, opened.generation, opened.head) == (EPOCH + 1, "", 5, opened.tail)
    turn(store, Credit(queue=QUEUE, epoch=EPOCH + 1, messages=10, size_bytes=MANY))
    ((seq, payload),) = handed(turn(store, publish(2, b"new")))
    assert payload == b"new"
    effects = turn(store, settle_frame(1, EPOCH + 1, ("delivered", ((seq, seq + 1),)), session="c@h:1", generation=6))
    assert (FORWARDER, Settled(queue=QUEUE, epoch=EPOCH + 1, number=1)) in effects
    after = row(store)
    assert (after["depth"], after["delivered"], after["ledger_closes"]) == (0, 1, True)


def test_what_was_purged_is_not_taken_for_damage_after_a_restart() -> None:
    """QoS 0 between what stays and what goes is lost with the process, and the bytes behind it went with the purge."""
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    effects = open_lane(store, 2)
    effects += turn(store, publish(1, b"a", qos=2))
    effects += turn(store, publish(2, b"volatile", qos=0))
    assert [seq for seq, _ in handed(effects)] == [0, 1]
    turn(store, publish(3, b"b"), settle_frame(1, EPOCH, session="c@h:1", generation=0))
    assert command(store, "purge", bridge="cloud")["purged"] == 1
    turn(store, publish(4, b"c"))

    store = open_store(engine, node(), 2)

    effects = open_lane(store, 100)
    assert [payload for _, payload in handed(effects)] == [b"a", b"c"]
    assert command(store, "list")["queues"][0]["session"] == "c@h:1", "the remote's session goes on"
    assert row(store)["dropped"] == {"purged": 1, "restart": 1}


def test_a_purge_of_a_long_queue_is_one_range_delete(tmp_path: Path) -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    open_lane(store, 0)
    for number in range(1, 200):
        turn(store, publish(number, *[b"x"] * 50))
    command(store, "purge", bridge="cloud")
    ops = [op for op in engine.writes[-1][0] if op[1] == "msg"]
    assert {op[0] for op in ops} == {"delete_range"}
    assert list(engine.scan("msg", b"", b"\xff")) == []


def test_a_damaged_queue_works_again_once_it_is_purged(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    turn(store, publish(1, b"a"))
    lane = store.lanes.all[QUEUE]
    lane.stop(ConfigError("a newer build"))
    assert [found["state"] for found in command(store, "list")["queues"]] == ["damaged"]
    command(store, "purge", bridge="cloud", in_flight=True)
    assert command(store, "list")["queues"][0]["state"] == "waiting"


def test_a_purge_goes_by_lane(engine: Engine) -> None:
    store = open_store(engine, node(bridge(lanes=2)), 1)
    turn(store, append_frame(1, {QUEUE: (batch([b"a"]), None), "bridge:cloud:1": (batch([b"b"]), None)}))
    assert command(store, "purge", bridge="cloud", lane=1)["purged"] == 1
    assert [found["depth"] for found in command(store, "list")["queues"]] == [1, 0]
    assert command(store, "purge", bridge="cloud")["purged"] == 1


def test_what_is_not_there_is_named_with_what_is() -> None:
    store = open_store(MemoryEngine(), node(bridge("a", lanes=2), bridge("b")), 1)
    assert refused(store, "list", bridge="c") == ("unknown_bridge", "there is no queue of a bridge 'c'; known: a, b")
    assert refused(store, "peek", bridge="a", lane=2) == ("unknown_lane", "bridge 'a' has no lane 2; known: 0, 1")
    assert refused(store, "purge", bridge="c")[0] == "unknown_bridge"
    assert refused(store, "peek", bridge="a", dead=True) == ("no_dead_letters", "bridge 'a' has no dead letters, and never had any")
    assert refused(store, "fly", bridge="a")[0] == "unknown_command"


def test_peek_tells_the_state_of_each_message_and_pages(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    open_lane(store, 3)
    seqs = [seq for seq, _ in handed(turn(store, publish(1, b"a", b"b", b"c", qos=2)))]
    turn(store, publish(2, b"d", b"e" * 400, qos=1))
    turn(store, settle_frame(1, EPOCH, ("delivered", ((seqs[1], seqs[1] + 1),)), released=((seqs[0], seqs[0] + 1),)))
    page = command(store, "peek", bridge="cloud", lane=0, count=3, payload_bytes=10)
    assert [(row["state"], row["payload"]) for row in page["messages"]] == [
        ("released", b"a"),
        ("handed out", b"c"),
        ("waiting", b"d"),
    ]
    page = command(store, "peek", bridge="cloud", lane=0, payload_bytes=10, **{"from": page["next"]})
    assert [(row["size"], row["payload"]) for row in page["messages"]] == [(400, b"e" * 10)]
    assert page["next"] is None
    assert row(store)["in_flight"] == 2, "nothing was touched"


def test_a_page_is_bounded_in_bytes() -> None:
    store = open_store(MemoryEngine(), node(), 1)
    for number in range(1, 21):
        turn(store, publish(number, bytes(100_000)))
    position: int | None = 0
    pages = []
    while position is not None:
        page = command(store, "peek", bridge="cloud", lane=0, **{"from": position})
        pages.append(len(page["messages"]))
        position = page["next"]
    assert sum(pages) == 20
    assert max(pages) == 3


def queue_with(*qos: int) -> tuple[RecordingEngine, Queue]:
    """A queue with a session and two batches of a message for each of ``qos``; the first is handed out."""
    recording = RecordingEngine()
    queue = open_queue(recording, cache_bytes=0)
    queue.sent.new_session(1, "a@h")
    append(recording, queue, *[batch([b"%d.%d" % (at, row) for row in range(len(qos))], qos) for at in range(2)])
    assert sum(piece.count for piece in queue.hand_out(len(qos), MANY)) == len(qos)
    return recording, queue


def test_the_queue_drops_what_was_certainly_never_sent_with_the_write() -> None:
    recording, queue = queue_with(1, 0, 2)
    size_bytes = queue.size_bytes
    write = Write()

    unsent = queue.unsent()
    assert unsent == (3, 2, 1, 0)
    assert queue.depth == 6, "asking changes nothing"
    assert queue.purge_unsent(unsent, write) == 3

    assert (queue.depth, queue.size_bytes, queue.sent.session) == (3, size_bytes // 2, "a@h")
    assert write.ops == [("delete_range", "msg", chunk_key(1, 3), chunk_key(1, 6))]
    queue.settle("delivered", ((0, 3),))
    append(recording, queue, batch([b"new"]))
    assert [messages(piece) for piece in queue.hand_out(9, MANY)] == [[(6, b"new")]]
    assert not queue.losses
    assert queue.ledger.closes(queue.depth)


def test_what_may_have_been_sent_before_a_reset_is_counted_from_the_disk_and_stays() -> None:
    _, queue = queue_with(1, 0, 2)
    queue.reset(forwarder_lives=True)

    unsent = queue.unsent()

    assert unsent[:3] == (3, 2, 1)
    assert queue.purge_unsent(unsent, Write()) == 3
    assert [len(messages(piece)) for piece in queue.hand_out(9, MANY)] == [3]


def test_the_queue_drops_everything_and_leaves_the_session() -> None:
    _, queue = queue_with(1, 0, 2)
    write = Write()

    assert queue.purge_all(write) == 6

    assert (queue.head, queue.depth, queue.in_flight, queue.size_bytes) == (6, 0, 0, 0)
    assert (queue.sent.session, queue.sent.generation, [left.session for left in queue.sent.left]) == ("", 2, ["a@h"])
    assert write.ops == [("delete_range", "msg", chunk_key(1, 0), chunk_key(1, 6))]
    assert queue.ledger.closes(0)


STEPS = ("publish", "mixed", "credit", "deliver", "purge", "purge_all", "reopen", "restart")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=16))
def test_whatever_happened_before_and_after_a_purge_the_queue_holds_what_it_counts(script: list[str]) -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    epoch, life, number, credit = EPOCH, 1, 0, 0
    in_hand: list[int] = []
    open_lane(store, 0)
    for step in script:
        effects: Effects = []
        if step in ("publish", "mixed"):
            number += 1
            payloads = [b"%d.%d" % (number, row) for row in range(4)]
            effects = turn(store, append_frame(number, {QUEUE: (batch(payloads, 1 if step == "publish" else [0, 1, 2, 0]), None)}))
        elif step == "credit":
            credit += 5
            effects = turn(store, Credit(queue=QUEUE, epoch=epoch, messages=credit, size_bytes=MANY))
        elif step == "deliver" and in_hand:
            seq = in_hand.pop(len(in_hand) // 2)
            effects = turn(store, settle_frame(1, epoch, ("delivered", ((seq, seq + 1),))))
        elif step == "purge":
            kept = command(store, "purge", bridge="cloud")["kept"]
            assert kept == row(store)["depth"] == len(waiting(store))
        elif step == "purge_all":
            command(store, "purge", bridge="cloud", in_flight=True)
            assert waiting(store) == []
            assert (row(store)["depth"], row(store)["bytes"]) == (0, 0)
        if step in ("purge_all", "reopen", "restart"):
            if step == "restart":
                life += 1
                store = open_store(engine, node(), life)  # a kill: all that was written is there
            epoch += 1
            credit = 0
            in_hand.clear()
            effects = turn(store, LaneOpen(queue=QUEUE, epoch=epoch))
        in_hand += [seq for seq, _ in handed(effects)]
        found = row(store)
        assert found["ledger_closes"]
        assert found["depth"] == len(waiting(store))
        assert isinstance(size := found["bytes"], int)
        assert size >= 0
    epoch += 1
    end = open_lane(store, 1000, epoch)
    assert len(handed(end)) == row(store)["depth"], "all that is left is handed out"
    assert isinstance(store.lanes.all[QUEUE].queue, Queue)
