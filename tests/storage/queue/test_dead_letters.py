"""Dead letters: kept by the commit that settles them, whole, counted, limited, put back; across kills, power cuts and damage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.engine.engine import Engine, RocksEngine, Write
from storage.engine.keys import chunk_key, first_seq_of
from storage.engine.memory_engine import MemoryEngine
from storage.queue.chunk import HEADER_BYTES, Message
from storage.queue.dead_letters import DeadLetter
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, bridge, messages, node, settle_frame
from tests.storage.commanding import command, dead, listed, refused
from tests.storage.turns import EPOCH, MANY, turn
from tests.support.present import present
from tests.support.settings import limits
from tests.support.stores import open_store
from wire.config_settings import DeadLetterSettings, NodeSettings, dump, load
from wire.errors import StorageDamaged
from wire.frames.batch import from_rows, route_columns
from wire.frames.frame import Effects, Frame
from wire.frames.lanes import Credit, HandOut, LaneOpen
from wire.routing.message_route import MessageRoute

WALL_MS = 5000


WAYS = MessageRoute("one", "1/{#}", True, b""), MessageRoute("two", "2/{#}", False, b"")  # of rules that are not configured


def settings_of(**dead_letter: Any) -> NodeSettings:
    return node(replace(bridge(), dead_letter=DeadLetterSettings(**dead_letter)))


def flying(store: Store, *payloads: bytes, number: int = 1, qos: int = 1, epoch: int = EPOCH) -> list[int]:
    """Append ``payloads`` and hand them out; their sequences."""
    turn(store, LaneOpen(queue=QUEUE, epoch=epoch))
    effects = turn(store, Credit(queue=QUEUE, epoch=epoch, messages=10_000, size_bytes=MANY))
    effects += turn(store, append_frame(number, {QUEUE: (batch(payloads, qos), None)}, epoch=1))
    return [seq for _, frame in effects if isinstance(frame, HandOut) for seq, _ in messages(frame)]


def die(store: Store, *seqs: int, reason: str = "0x87", number: int = 1, epoch: int = EPOCH) -> Effects:
    return turn(store, settle_frame(number, epoch, *[(f"dead:{reason}", ((seq, seq + 1),)) for seq in seqs]))


def test_a_letter_has_the_bytes_it_always_had() -> None:
    letter = DeadLetter(3, "0x87", 1000, QUEUE, "c@h:1", Message(7, b"t", b"p", 1, b"", b"w", 900))
    key = chunk_key(9, 3)
    golden = "0108c77e6c9ba430783837cd03e8ae6272696467653a636c6f75643a3007a56340683a31c40174c4017001c400c40177cd0384"
    assert letter.encode(key).hex() == golden
    assert DeadLetter.decode(key, bytes.fromhex(golden)) == letter
    with pytest.raises(StorageDamaged):
        DeadLetter.decode(chunk_key(9, 4), bytes.fromhex(golden))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_dead_message_is_kept_whole_with_reason_time_and_place(engine: Engine, qos: int) -> None:
    store = open_store(engine, node(), 1)
    first, second, third = flying(store, b"a", b"b", b"c", qos=qos)
    turn(store, settle_frame(1, EPOCH, ("delivered", ((first, first + 1),)), session="c@h:1883"))

    die(store, second, reason="0x99", number=2)

    (letter,) = dead(store)
    assert letter["payload"] == b"b"
    assert (letter["topic"], letter["qos"], letter["accepted_ms"]) == (b"t", qos, 1000)
    assert (letter["reason"], letter["at_ms"], letter["queue"], letter["queue_seq"]) == ("0x99", WALL_MS, QUEUE, second)
    assert letter["remote"] == "c@h:1883"
    row = store.status(WALL_MS).queues[QUEUE]
    assert (row.depth, row.dead_lettered, row.ledger_closes) == (1, 1, True)
    assert [row["payload"] for row in command(store, "peek", bridge="cloud", lane=0)["messages"]] == [b"c"]
    assert third not in [letter["queue_seq"]]


def test_properties_and_flags_come_through_and_back(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    of = from_rows([(b"a", 1, b"1"), (b"b", 0b101, b"2")], accepted_ms=1000)
    of.routes, of.route_of = route_columns([WAYS[0].encode(), WAYS[1].encode()])
    of.topic_properties = [b"", b"\x03\x00\x01x"]
    turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH))
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=100, size_bytes=MANY))
    effects = turn(store, append_frame(1, {QUEUE: (of, None)}))
    seqs = [seq for _, frame in effects if isinstance(frame, HandOut) for seq, _ in messages(frame)]
    die(store, *seqs)

    before = dead(store)
    assert [(row["topic"], row["properties"], row["retain"]) for row in before] == [
        (b"a", b"", False),
        (b"b", b"\x03\x00\x01x", True),
    ]
    assert command(store, "replay", bridge="cloud")["replayed"] == 2

    back = command(store, "peek", bridge="cloud", lane=0)["messages"]
    same = ("topic", "properties", "retain", "qos", "payload", "rule", "destination")
    assert [(row["rule"], row["destination"]) for row in back] == [(route.rule, route.destination) for route in WAYS]
    assert [[row[name] for name in same] for row in back] == [[row[name] for name in same] for row in before]
    assert {row["accepted_ms"] for row in back} == {WALL_MS}, "it is accepted now, so that it does not expire at once"


def test_a_repeated_settlement_keeps_one_letter(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    (seq,) = flying(store, b"a")
    die(store, seq)
    die(store, seq)
    turn(store, settle_frame(3, EPOCH - 1, ("dead:x", ((seq, seq + 1),))))
    assert len(dead(store)) == 1
    assert listed(store)["dead_letters"][0]["held"] == 1


def test_dead_letters_survive_and_stay_when_their_bridge_is_gone(tmp_path: Path) -> None:
    """P7: listed as not configured, shown, refused to a replay, removed by a purge only."""
    engine = RocksEngine(tmp_path / "store")
    seqs = flying(store := open_store(engine, node(), 1), b"a", b"b", b"c")
    die(store, *seqs[:2])
    store.close()

    store = open_store(RocksEngine(tmp_path / "store"), node(bridge("other")), 2)
    (row,) = [row for row in listed(store)["queues"] if row["bridge"] == "cloud"]
    assert (row["configured"], row["depth"]) == (False, 1)
    (row,) = listed(store)["dead_letters"]
    assert (row["configured"], row["held"], row["reasons"]) == (False, 2, {"0x87": 2})
    assert [row["payload"] for row in dead(store)] == [b"a", b"b"]
    assert refused(store, "replay", bridge="cloud")[0] == "not_configured"
    assert command(store, "purge", bridge="cloud", dead=True)["purged"] == 2
    assert dead(store) == []
    store.close()


def test_the_oldest_give_way_to_a_limit_in_messages(engine: Engine) -> None:
    """queue.dead-letters-bounded"""
    store = open_store(engine, settings_of(max_messages=3), 1)
    seqs = flying(store, *[b"%d" % number for number in range(10)])
    for number, seq in enumerate(seqs[:6]):
        die(store, seq, number=number)
    assert [row["payload"] for row in dead(store)] == [b"3", b"4", b"5"]
    die(store, *seqs[6:], number=9)  # more at a time than there may be
    assert [row["payload"] for row in dead(store)] == [b"7", b"8", b"9"]
    (row,) = listed(store)["dead_letters"]
    assert (row["held"], row["evicted"], row["reasons"]) == (3, 7, {"0x87": 3})


def test_the_oldest_give_way_to_a_limit_in_bytes_and_to_age(engine: Engine) -> None:
    """queue.dead-letters-bounded"""
    store = open_store(engine, settings_of(max_bytes=1000, max_age_s=10.0), 1)
    seqs = flying(store, *[b"%d" % number * 300 for number in range(8)])
    for number, seq in enumerate(seqs[:4]):
        die(store, seq, number=number)
    (row,) = listed(store)["dead_letters"]
    assert (row["held"], row["evicted"]) == (2, 2)
    assert 600 < row["bytes"] <= 1000
    store.tick(101.0, WALL_MS + 9_000)
    assert len(dead(store)) == 2
    store.tick(102.0, WALL_MS + 11_000)
    assert dead(store) == []
    (row,) = listed(store)["dead_letters"]
    assert (row["held"], row["evicted"], row["bytes"]) == (0, 4, 0)


def aged(store: Store, *letters: tuple[str, int], number: int = 1) -> None:
    """Letters by (reason, when they died)."""
    for place, seq in enumerate(flying(store, *[b"%d" % place for place in range(len(letters))], number=number)):
        reason, wall_ms = letters[place]
        turn(store, settle_frame(place + 1, EPOCH, (f"dead:{reason}", ((seq, seq + 1),))), wall_ms=wall_ms)


def check_letters(store: Store, engine: RecordingEngine, *payloads: bytes) -> dict[str, Any]:
    """These are there, counted and on record, and queue.dead-letters-add-up holds; their row."""
    (row,) = listed(store)["dead_letters"]
    assert [letter["payload"] for letter in dead(store)] == list(payloads)
    assert row["held"] == len(payloads) == sum(row["reasons"].values())
    again = open_store(engine.rebuilt(len(engine.writes)), node(), 2)
    assert again.status(WALL_MS).dead_letters["cloud"] == store.status(WALL_MS).dead_letters["cloud"]
    ever = row["held"] + row["evicted"] + row["purged"] + row["replayed"] + row["damaged"]
    assert ever == sum(queue.dead_lettered or 0 for queue in store.status(WALL_MS).queues.values())
    result: dict[str, Any] = row
    return result


@pytest.mark.parametrize(("newest_ms", "left"), [(5000, []), (9000, [b"2"])])
def test_letters_that_have_grown_too_old_when_one_is_put_back_leave_once(newest_ms: int, left: list[bytes]) -> None:
    """queue.dead-letters-bounded"""
    engine = RecordingEngine()
    store = open_store(engine, settings_of(max_age_s=10.0), 1)
    aged(store, ("even", 5000), ("odd", 5000), ("even", newest_ms))

    store.receive(_frame("replay", bridge="cloud", reason="odd"))
    turn(store, wall_ms=15_500)
    check_letters(store, engine, b"0", b"2")
    store.tick(101.0, 15_500)
    turn(store, wall_ms=15_500)

    row = check_letters(store, engine, *left)
    assert (row["replayed"], row["evicted"]) == (1, 2 - len(left))


def test_letters_that_have_grown_too_old_when_a_page_goes_back_to_several_lanes_leave_once() -> None:
    engine = RecordingEngine()
    chosen = node(replace(bridge(lanes=2), dead_letter=DeadLetterSettings(max_age_s=10.0)))
    store = open_store(engine, chosen, 1)
    turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH), Credit(queue=QUEUE, epoch=EPOCH, messages=100, size_bytes=MANY))
    of = from_rows([(b"%d" % (place % 3), 1, b"%d" % place) for place in range(8)], accepted_ms=1)
    turn(store, append_frame(1, {QUEUE: (of, None)}))
    for seq in range(8):
        turn(store, settle_frame(seq + 1, EPOCH, ("dead:0x87", ((seq, seq + 1),))), wall_ms=5000 if seq < 6 else 9000)

    store.receive(_frame("replay", bridge="cloud", count=4))
    turn(store, wall_ms=15_500)
    check_letters(store, engine, b"4", b"5", b"6", b"7")
    store.tick(101.0, 15_500)
    turn(store, wall_ms=15_500)

    assert check_letters(store, engine, b"6", b"7")["evicted"] == 2


def test_a_limit_that_was_lowered_meets_a_replay() -> None:
    engine = RecordingEngine()
    aged(open_store(engine, node(), 1), ("even", 5000), ("even", 5000), ("odd", 5000), ("odd", 5000), ("even", 5000))
    store = open_store(engine, settings_of(max_messages=1), 2)

    assert command(store, "replay", bridge="cloud", reason="odd")["replayed"] == 2
    check_letters(store, engine, b"0", b"1", b"4")
    store.tick(101.0, WALL_MS)
    turn(store)

    assert check_letters(store, engine, b"4")["evicted"] == 2


def test_letters_that_come_while_the_disk_refuses_what_a_replay_takes_out_push_nothing_out_twice() -> None:
    engine = RecordingEngine()
    store = open_store(engine, settings_of(max_messages=3), 1)
    seqs = flying(store, b"0", b"1", b"2", b"3", b"4", b"5")
    for number, seq in enumerate(seqs[:3]):
        die(store, seq, reason="odd" if number % 2 else "even", number=number + 1)
    engine.refusing = True
    assert refused(store, "replay", bridge="cloud", reason="odd")[0] == "unavailable"
    die(store, *seqs[3:], number=4)
    store.tick(101.0, WALL_MS)
    engine.refusing = False
    turn(store, now_s=110.0)
    check_letters(store, engine, b"0", b"2", b"3", b"4", b"5")

    store.tick(111.0, WALL_MS)
    turn(store, now_s=111.0)

    row = check_letters(store, engine, b"3", b"4", b"5")
    assert (row["replayed"], row["evicted"]) == (1, 2)


def test_replay_goes_by_reason_and_place_and_count(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    seqs = flying(store, *[b"%d" % number for number in range(8)])
    for number, seq in enumerate(seqs):
        die(store, seq, reason="odd" if number % 2 else "even", number=number)

    assert command(store, "replay", bridge="cloud", reason="odd", **{"from": 2}, count=2)["replayed"] == 2
    assert [row["payload"] for row in dead(store)] == [b"0", b"1", b"2", b"4", b"6", b"7"]
    assert [row["payload"] for row in command(store, "peek", bridge="cloud", lane=0)["messages"]] == [b"3", b"5"]
    (row,) = listed(store)["dead_letters"]
    assert (row["replayed"], row["held"], row["reasons"]) == (2, 6, {"even": 4, "odd": 2})
    assert command(store, "replay", bridge="cloud", reason="nothing")["replayed"] == 0
    assert command(store, "replay", bridge="cloud")["replayed"] == 6
    assert listed(store)["dead_letters"][0]["held"] == 0
    assert store.status(WALL_MS).queues[QUEUE].ledger_closes


def test_a_purge_goes_by_reason_page_by_page_and_leaves_the_others(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.store.dead_letter_queues.SCANNED_MESSAGES", 3)
    store = open_store(engine, node(), 1)
    for number, seq in enumerate(flying(store, *[b"%d" % number for number in range(8)])):
        die(store, seq, reason="odd" if number % 2 else "even", number=number)

    page = command(store, "purge", bridge="cloud", dead=True, reason="odd")
    assert (page["purged"], page["next"]) == (1, 3)
    rest = [command(store, "purge", bridge="cloud", dead=True, reason="odd", **{"from": start}) for start in (3, 6)]
    assert [(page["purged"], page["next"]) for page in rest] == [(2, 6), (1, None)]

    assert [row["payload"] for row in dead(store)] == [b"0", b"2", b"4", b"6"]
    (row,) = listed(store)["dead_letters"]
    assert (row["purged"], row["held"], row["reasons"]) == (4, 4, {"even": 4})
    assert command(store, "purge", bridge="cloud", dead=True, reason="nothing")["purged"] == 0
    assert command(store, "purge", bridge="cloud", dead=True)["purged"] == 4
    assert store.status(WALL_MS).queues[QUEUE].ledger_closes


def test_replayed_messages_go_out_again_in_order(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    die(store, *flying(store, b"a", b"b"))
    effects = turn(store, command_frame := _frame("replay", bridge="cloud"))
    handed = [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)]
    assert handed == [b"a", b"b"], f"handed out by the turn of {command_frame.verb}"


def test_replay_takes_the_lane_of_the_router() -> None:
    store = open_store(MemoryEngine(), node(bridge(lanes=3)), 1)
    from zlib import crc32

    topics = [b"t/%d" % number for number in range(12)]
    turn(store, LaneOpen(queue=QUEUE, epoch=EPOCH))
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=100, size_bytes=MANY))
    of = from_rows([(topic, 1, topic) for topic in topics], accepted_ms=1)
    effects = turn(store, append_frame(1, {QUEUE: (of, None)}))
    die(store, *[seq for _, frame in effects if isinstance(frame, HandOut) for seq, _ in messages(frame)])
    assert command(store, "replay", bridge="cloud")["replayed"] == 12
    for lane in range(3):
        there = [row["topic"] for row in command(store, "peek", bridge="cloud", lane=lane)["messages"]]
        assert there == [topic for topic in topics if crc32(topic) % 3 == lane]
        assert there


def test_a_full_queue_takes_what_fits_and_the_rest_stays(engine: Engine) -> None:
    store = open_store(engine, node(bridge(limit=limits(max_messages=3, overflow="drop-oldest"))), 1)
    die(store, *flying(store, b"a", b"b", b"c"))
    assert turn(store, append_frame(2, {QUEUE: (batch([b"x"]), None)}))
    page = command(store, "replay", bridge="cloud")
    assert (page["replayed"], page["full"]) == (2, True)
    assert [row["payload"] for row in dead(store)] == [b"c"]
    kind, text = refused(store, "replay", bridge="cloud")
    assert kind == "full"
    assert "no room" in text
    assert [row["payload"] for row in dead(store)] == [b"c"]
    assert store.status(WALL_MS).queues[QUEUE].dropped == {}, "a replay drops nothing"


def test_a_damaged_chunk_does_not_stop_the_settlement() -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    first, second = flying(store, b"a", b"b")
    turn(store, append_frame(2, {QUEUE: (batch([b"c"]), None)}))
    for key, value in list(engine.scan("msg", b"", b"\xff")):
        if first_seq_of(key) == first:
            write = Write()
            write.put("msg", key, value[: HEADER_BYTES + 3] + b"\xff" + value[HEADER_BYTES + 4 :])
            engine.apply(write)
    turn(store, settle_frame(1, EPOCH, ("dead:0x87", ((first, second + 2),))))
    assert [row["payload"] for row in dead(store)] == [b"c"]
    (row,) = listed(store)["dead_letters"]
    assert (row["held"], row["damaged"]) == (1, 2)
    assert store.status(WALL_MS).queues[QUEUE].ledger_closes
    assert store.status(WALL_MS).queues[QUEUE].depth == 0


def test_a_damaged_letter_is_told_and_gives_way_like_any_other() -> None:
    engine = RecordingEngine()
    store = open_store(engine, settings_of(max_messages=2), 1)
    seqs = flying(store, b"a", b"b", b"c")
    die(store, *seqs[:2])
    low = chunk_key(listed_number(store), 0)
    write = Write()
    write.put("msg", low, (engine.get("msg", low) or b"")[:-1] + b"\xff")
    engine.apply(write)
    assert [row.get("damaged", False) for row in dead(store)] == [True, False]
    page = command(store, "replay", bridge="cloud", count=1)
    assert (page["replayed"], page["damaged"]) == (1, 1)
    die(store, seqs[2], number=2)
    die(store, *flying(store, b"d", number=2, epoch=EPOCH + 1), number=4, epoch=EPOCH + 1)
    assert [row["payload"] for row in dead(store)] == [b"b", b"d"], "the damaged one and the oldest went"


def listed_number(store: Store) -> int:
    return store.housekeeping.dead_letters.queues["cloud"].number


def test_a_disk_that_refuses_is_said_so_and_nothing_dies_twice() -> None:
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    first, second = flying(store, b"a", b"b")
    die(store, first)
    engine.refusing = True
    die(store, second, number=2)
    assert [row["payload"] for row in dead(store)] == [b"a"], "of the other it is not on record"
    kind, text = refused(store, "purge", bridge="cloud", dead=True, now_s=100.02)
    assert (kind, "make room" in text) == ("unavailable", True)
    engine.refusing = False
    turn(store, now_s=110.0)
    assert [row["payload"] for row in dead(store)] == [b"a", b"b"]


def test_an_order_that_the_disk_refuses_is_carried_out_once_when_it_does_not() -> None:
    engine = RecordingEngine()
    store = open_store(engine, settings_of(max_messages=2), 1)
    die(store, *flying(store, b"a", b"b"))
    engine.refusing = True
    kind, text = refused(store, "replay", bridge="cloud")
    assert (kind, "as soon as" in text) == ("unavailable", True)
    engine.refusing = False
    turn(store, now_s=110.0)
    assert dead(store) == []
    assert len(command(store, "peek", bridge="cloud", lane=0)["messages"]) == 2
    assert open_store(engine.rebuilt(len(engine.writes)), node(), 2).status(0).queues[QUEUE].depth == 2


# --- crashes ---

STEPS = ("publish", "die", "die", "deliver", "replay", "replay_odd", "purge", "purge_odd", "tick", "later", "reopen")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=14), st.sampled_from([None, 2]))
def test_a_message_is_in_one_place_after_a_kill_or_a_power_cut_at_any_write(script: list[str], held_max: int | None) -> None:
    """queue.dead-letters-add-up and queue.dead-or-queued-never-both at every write: queue, dead letters, and the rest counted; the
    sums of both close with each other.
    """
    engine = RecordingEngine()
    chosen = settings_of(max_messages=held_max, max_age_s=10.0)
    _run(open_store(engine, chosen, 1), script)
    for _, _, survivor in engine.survivors(first=1):
        _check(open_store(survivor, chosen, 2), held_max)


def _run(store: Store, script: list[str]) -> None:
    epoch = EPOCH
    turn(store, LaneOpen(queue=QUEUE, epoch=epoch))
    in_hand: list[int] = []
    number = settles = 0
    wall_ms = WALL_MS
    for step in ["credit", *script]:
        frames: list[Frame] = []
        if step == "credit":
            frames = [Credit(queue=QUEUE, epoch=epoch, messages=MANY, size_bytes=MANY)]
        elif step == "publish":
            number += 1
            frames = [append_frame(number, {QUEUE: (batch([b"%d.%d" % (number, row) for row in range(3)], [1, 2, 1]), None)})]
        elif step in ("die", "deliver") and in_hand:
            settles += 1
            seq = in_hand.pop(settles % len(in_hand))
            outcome = "delivered" if step == "deliver" else "dead:odd" if settles % 2 else "dead:even"
            frames = [settle_frame(settles, epoch, (outcome, ((seq, seq + 1),)))]
        elif step == "replay" and "cloud" in store.housekeeping.dead_letters.queues:
            frames = [_frame("replay", bridge="cloud", count=2)]
        elif step == "replay_odd" and "cloud" in store.housekeeping.dead_letters.queues:
            frames = [_frame("replay", bridge="cloud", reason="odd")]
        elif step == "purge" and "cloud" in store.housekeeping.dead_letters.queues:
            frames = [_frame("purge", bridge="cloud", dead=True)]
        elif step == "purge_odd" and "cloud" in store.housekeeping.dead_letters.queues:
            frames = [_frame("purge", bridge="cloud", dead=True, reason="odd")]
        elif step == "tick":
            store.tick(100.0, wall_ms)
        elif step == "later":
            wall_ms += 6000
        elif step == "reopen":
            epoch += 1
            in_hand.clear()
            turn(store, LaneOpen(queue=QUEUE, epoch=epoch))
            frames = [Credit(queue=QUEUE, epoch=epoch, messages=MANY, size_bytes=MANY)]
        for _, frame in turn(store, *frames, wall_ms=wall_ms):
            if isinstance(frame, HandOut):
                in_hand.extend(seq for seq, _ in messages(frame))
    _check(store, None)


def _check(store: Store, held_max: int | None) -> None:
    figures = store.status(WALL_MS)
    row = figures.queues[QUEUE]
    assert row.ledger_closes
    waiting = command(store, "peek", bridge="cloud", lane=0)["messages"] if row.depth else []
    assert len(waiting) == row.depth, "the queue holds what it counts"
    of = figures.dead_letters.get("cloud")
    letters = dead(store) if of is not None else []
    ever = 0 if of is None else of.held + of.evicted + of.purged + of.replayed + of.damaged
    assert ever == row.dead_lettered, "queue.dead-letters-add-up"
    both = [row["payload"] for row in (*waiting, *letters)]
    assert len(set(both)) == len(both), "queue.dead-or-queued-never-both: in one place only"
    if of is not None:
        assert of.held == len(letters) == sum(of.reasons.values())
        assert held_max is None or of.held <= held_max
        ended = present(row.delivered) + of.evicted + of.purged
        assert present(row.accepted) - of.replayed == ended + len(both), (
            "queue.dead-or-queued-never-both: in no place only if it ended"
        )


def _frame(verb: str, **arguments: Any) -> Any:
    from wire.frames.supervision import QueueCommand

    return QueueCommand(request=1, verb=verb, arguments=arguments)


def test_settings_with_limits_of_dead_letters_come_through() -> None:
    wanted = settings_of(max_messages=5, max_age_s=2.0)
    assert load(dump(wanted)) == wanted
