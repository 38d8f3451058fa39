"""Messages that rules leave out or hold, by the frames of a store: accounted for, in order, never lost once acknowledged."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from zlib import crc32

import pytest

from storage.engine.engine import Engine, Write
from storage.engine.keys import HELD, HELD_END
from storage.engine.memory_engine import MemoryEngine
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, bridge, messages, node, settle_frame
from tests.storage.commanding import command
from tests.storage.turns import EPOCH, MANY, NEXT_LIFE, handed, of, open_lane, turn
from tests.support.settings import limits
from tests.support.stores import change_settings, open_store
from wire.config_settings import LIVE, LIVE_FIRST, OnlySettings, PersistenceSettings, RuleSettings, ThinningSettings
from wire.frames.batch import RAISED, UNPROMISED, Batch, from_rows
from wire.frames.intake import Append, Committed
from wire.frames.lanes import Credit, HandOut, LaneOpen
from wire.frames.names import queue_name
from wire.frames.supervision import QueueCommand
from wire.routing.message_route import MessageRoute
from wire.status.bridges import QueueFigures

CHANGED = RuleSettings(name="changed", filters=("#",), only=OnlySettings(changed=True))
ONE_PER = RuleSettings(name="one", filters=("#",), only=OnlySettings(one_per_s=10.0))
LAST = RuleSettings(name="last", filters=("#",), keep_last=True)
PLAIN = RuleSettings(name="plain", filters=("#",))


def of_rule(rule: RuleSettings, *payloads: bytes, qos: int = 1, at_ms: int = 1000, topic: bytes = b"t") -> Batch:
    batch = from_rows([(topic, qos, payload) for payload in payloads], accepted_ms=at_ms)
    batch.take_route(MessageRoute.of(rule).encode())
    return batch


def comes(number: int, rule: RuleSettings, *payloads: bytes, qos: int = 1, at_ms: int = 1000, topic: bytes = b"t") -> Append:
    thinned = () if rule is PLAIN else (QUEUE,)
    batch = of_rule(rule, *payloads, qos=qos, at_ms=at_ms, topic=topic)
    return replace(append_frame(number, {QUEUE: (batch, None)}, thinned=thinned), rules=crc32(repr(rule).encode()))


def figures(store: Store) -> QueueFigures:
    return store.status(5000).queues[QUEUE]


def counts(store: Store) -> tuple[int | None, int | None, int | None, dict[str, int]]:
    """Accepted, depth, held and dropped; the ledger closes."""
    found = figures(store)
    assert found.ledger_closes
    return found.accepted, found.depth, found.held, found.dropped


def test_what_repeats_is_acknowledged_counted_and_takes_no_room(engine: Engine) -> None:
    store = open_store(engine, node(bridge(limit=limits(max_messages=2))), 1)
    open_lane(store)
    turn(store, comes(1, CHANGED, b"1", b"1"))
    effects = turn(store, comes(2, CHANGED, b"1", b"1", b"1", b"2"))

    assert [frame.number for frame in of(effects, Committed)] == [2]
    assert handed(effects) == [b"2"]
    assert counts(store) == (6, 2, 0, {"unchanged": 4})


@pytest.mark.parametrize("outcome", ["expired", "dropped:overflow", "dead:remote_0x99"])
def test_what_the_remote_does_not_get_after_all_makes_the_same_payload_new(engine: Engine, outcome: str) -> None:
    store = open_store(engine, node(), 1)
    open_lane(store)
    head = of(turn(store, comes(1, CHANGED, b"1")), HandOut)[0].first_seq
    turn(store, settle_frame(1, EPOCH, (outcome, ((head, head + 1),))))
    assert handed(turn(store, comes(2, CHANGED, b"1"))) == [b"1"]
    turn(store, settle_frame(2, EPOCH, ("delivered", ((head + 1, head + 2),))))
    assert handed(turn(store, comes(3, CHANGED, b"1"))) == []


@pytest.mark.parametrize("between", [PLAIN, ONE_PER, replace(CHANGED, destination="other/{#}")], ids=["all", "period", "elsewhere"])
def test_a_change_of_the_rules_makes_the_same_payload_new(engine: Engine, between: RuleSettings) -> None:
    """store.last-payload-stands: another came meanwhile, or went elsewhere."""
    store = open_store(engine, node(), 1)
    open_lane(store)
    turn(store, comes(1, CHANGED, b"1"))
    turn(store, comes(2, between, b"2"))
    assert handed(turn(store, comes(3, CHANGED, b"1")))[-1:] == [b"1"]
    assert handed(turn(store, comes(4, replace(CHANGED, destination="other/{#}"), b"1"))) == [b"1"]


def test_what_is_retained_or_imported_makes_the_same_payload_new_in_each_lane_of_the_bridge(engine: Engine) -> None:
    """store.last-payload-stands: a topic may have another lane than that into which an older message of it goes."""
    urgent = queue_name("cloud", "urgent")
    store = open_store(engine, node(replace(bridge(), local_subscriptions=(replace(CHANGED, priority="urgent"), PLAIN))), 1)

    def left_out(number: int) -> dict[str, int]:
        turn(store, append_frame(number, {urgent: (of_rule(CHANGED, b"1"), None)}, thinned=(urgent,)))
        return store.status(5000).queues[urgent].dropped

    assert (left_out(1), left_out(2)) == ({}, {"unchanged": 1})
    store.sessions.queues.put(QUEUE, of_rule(PLAIN, b"older"))
    assert (left_out(3), left_out(4)) == ({"unchanged": 1}, {"unchanged": 2})
    line = (b"t", 1, b"older", b"", "plain", "{#}")
    command(store, "import", bridge="cloud", run="r", messages=[line], below=1, **{"from": 0})
    assert (left_out(5), left_out(6)) == ({"unchanged": 2}, {"unchanged": 3})


def test_what_is_lost_from_the_lane_beside_a_backlog_makes_the_same_payload_new() -> None:
    """store.last-payload-stands: it was diverted, and the queue to which it belongs knows of no loss."""
    told, live = node(replace(bridge(), backlog=LIVE_FIRST)), queue_name("cloud", LIVE)
    engine = RecordingEngine()
    turn(open_store(engine, told, 1), comes(1, PLAIN, b"backlog"))
    store = open_store(engine, told, 2)
    turn(store, LaneOpen(queue=live, epoch=EPOCH))
    turn(store, Credit(queue=live, epoch=EPOCH, messages=100, size_bytes=MANY))
    (out,) = of(turn(store, replace(comes(1, CHANGED, b"1"), epoch=2)), HandOut)
    lost = ("dead:remote_0x99", ((out.first_seq, out.first_seq + 1),))
    turn(store, settle_frame(1, EPOCH, lost, queue=live))
    assert handed(turn(store, replace(comes(2, CHANGED, b"1"), epoch=2))) == [b"1"]


def test_one_that_came_at_qos_0_and_has_no_room_stands_for_none_that_was_promised(engine: Engine) -> None:
    """queue.never-thinned: its rule raises it, and a full queue refuses it all the same."""
    store = open_store(engine, node(bridge(limit=limits(max_messages=1))), 1)
    open_lane(store)
    turn(store, comes(1, CHANGED, b"0", topic=b"u"))
    batch = of_rule(CHANGED, b"1", b"1")
    batch.change_flags(0, bytes([1 | RAISED | UNPROMISED, 1]))
    assert handed(turn(store, append_frame(2, {QUEUE: (batch, None)}, thinned=(QUEUE,)))) == [b"1"]
    assert figures(store).refused == 1


def test_what_stands_for_a_message_is_kept_as_strongly_as_that() -> None:
    """store.last-payload-stands: a listener promises less than another."""
    weak, strict = PersistenceSettings(sync="os"), PersistenceSettings()
    engine = RecordingEngine()
    store = open_store(engine, replace(node(replace(bridge(), durability=strict)), persistence=weak), 1)
    for number, promised in enumerate((weak, strict), start=1):
        batch = of_rule(CHANGED, b"1")
        turn(store, append_frame(number, {QUEUE: (batch, None)}, thinned=(QUEUE,), promised=promised))
    assert [synced for _, synced in engine.writes[-2:]] == [False, True]


def test_a_store_that_opens_knows_no_last_payload(engine: Engine) -> None:
    turn(open_store(engine, node(), 1), comes(1, CHANGED, b"1", b"1"))
    again = open_store(engine, node(), 2)
    turn(again, append_frame(1, {QUEUE: (of_rule(CHANGED, b"1"), None)}, thinned=(QUEUE,), epoch=2))
    assert figures(again).depth == 2


def test_the_last_of_a_period_enters_the_queue_when_that_ends(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    open_lane(store)
    assert not handed(turn(store, comes(1, ONE_PER, b"1", b"2", at_ms=11_000), wall_ms=11_000))
    assert not handed(turn(store, comes(2, ONE_PER, b"3", at_ms=12_000), wall_ms=12_000))
    assert counts(store) == (3, 1, 1, {"one_per": 2})
    store.tick(101.0, 19_999)
    assert not handed(turn(store, wall_ms=19_999))
    store.tick(102.0, 20_000)
    (piece,) = of(turn(store, wall_ms=20_000), HandOut)
    assert [payload for _, payload in messages(piece)] == [b"3"]
    assert Batch.decode(piece.bodies[0]).accepted_ms == 12_000, "it tells when it was accepted"
    assert counts(store) == (3, 1, 0, {"one_per": 2})


def test_while_the_link_is_down_one_message_of_a_topic_waits(engine: Engine) -> None:
    """Others wait in the queue; more of the topic takes no room, also where the queue is full."""
    store = open_store(engine, node(bridge(limit=limits(max_messages=2))), 1)
    turn(store, comes(1, PLAIN, b"p", b"q", topic=b"other"))
    for number, payload in enumerate((b"1", b"2", b"3"), start=2):
        assert of(turn(store, comes(number, LAST, payload)), Committed)
    assert counts(store) == (5, 3, 1, {"superseded": 2})
    assert handed(open_lane(store)) == [b"p", b"q"]
    store.tick(101.0, 5000)
    assert handed(turn(store)) == [b"3"]
    assert handed(turn(store, comes(5, LAST, b"4", b"5"))) == [b"4", b"5"], "the link is there"
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=0, size_bytes=0))
    turn(store, comes(6, LAST, b"6"))
    turn(store, comes(7, LAST, b"7"))
    turn(store, Credit(queue=QUEUE, epoch=EPOCH, messages=100, size_bytes=MANY))
    assert handed(turn(store, comes(8, PLAIN, b"8"))) == [b"7", b"8"], "queue.held-gives-way-in-order"


def test_a_change_of_the_rule_leaves_what_waits_and_what_is_held(engine: Engine) -> None:
    """The route that a message has says what holds for it; without the rule, it is held no longer than it would be."""
    store = open_store(engine, node(), 1)
    open_lane(store)
    turn(store, comes(1, ONE_PER, b"1", at_ms=11_000))
    change_settings(store, node())
    assert handed(turn(store, comes(2, PLAIN, b"2", at_ms=12_000))) == [b"1", b"2"]
    turn(store, comes(3, ONE_PER, b"3", at_ms=13_000))
    assert handed(turn(store, comes(4, CHANGED, b"4", at_ms=14_000))) == [b"3", b"4"]


def test_another_number_of_lanes_lets_what_is_held_go_first(engine: Engine) -> None:
    """store.former-lanes-drain-first"""
    store = open_store(engine, node(), 1)
    open_lane(store)
    turn(store, comes(1, ONE_PER, b"1", at_ms=11_000))
    change_settings(store, node(bridge(lanes=2)))
    routed = replace(comes(2, PLAIN, b"2", topic=b"u"), lanes=(("cloud", 2),))
    assert handed(turn(store, routed)) == [b"1"], "what comes by the new number waits for it"


def test_without_memory_messages_cross_and_are_counted(engine: Engine) -> None:
    small = replace(bridge(), thinning=ThinningSettings(max_topics=1))
    store = open_store(engine, node(small), 1)
    turn(store, comes(1, LAST, b"1", topic=b"a"))
    turn(store, comes(2, LAST, b"1", b"2", topic=b"b"))
    assert counts(store) == (3, 3, 1, {})
    assert figures(store).untracked == 2


def test_what_is_held_is_shown_beside_its_queue_and_its_pages_miss_nothing(engine: Engine) -> None:
    """It is looked through while it changes: what stays is told once, a newer one besides, and what has entered the queue there."""
    store = open_store(engine, node(), 1)
    topics = [b"a", b"b", b"c", b"d", b"e"]
    for number, topic in enumerate(topics, start=1):
        turn(store, comes(number, LAST, b"old", b"1", topic=topic))
    turn(store, comes(6, PLAIN, b"p", topic=b"other"))

    (row,) = command(store, "list")["queues"]
    assert (row["depth"], row["held"]) == (6, 5)
    assert [one["payload"] for one in command(store, "peek", bridge="cloud", lane=0)["messages"]] == [b"p"]
    held = partial(command, store, "peek", bridge="cloud", lane=0, held=True, count=2)
    first = held()
    assert [(one["topic"], one["payload"], one["state"]) for one in first["messages"]] == [
        (b"a", b"1", "held"),
        (b"b", b"1", "held"),
    ]
    turn(store, comes(7, LAST, b"2", topic=b"a"))
    turn(store, comes(8, PLAIN, b"2", topic=b"b"))
    second = held(**{"from": first["next"]})
    third = held(**{"from": second["next"]})
    rest = [(one["topic"], one["payload"]) for one in (*second["messages"], *third["messages"])]
    assert rest == [(b"c", b"1"), (b"d", b"1"), (b"e", b"1"), (b"a", b"2")]
    assert held(**{"from": third["next"] or third["tail"]})["messages"] == []
    assert [one["payload"] for one in command(store, "peek", bridge="cloud", lane=0)["messages"]] == [b"p", b"1", b"2"]


def test_without_a_byte_of_the_payload_there_are_no_properties(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    told = from_rows([(b"t", 1, b"secret")], accepted_ms=1000)
    told.properties[0] = b"\x09\x00\x01s"
    turn(store, append_frame(1, {QUEUE: (told, None)}))

    (whole,) = command(store, "peek", bridge="cloud", lane=0)["messages"]
    assert whole["properties"] == b"\x09\x00\x01s"
    (row,) = command(store, "peek", bridge="cloud", lane=0, payload_bytes=0)["messages"]

    assert (row["topic"], row["size"], row["payload"], row["properties"]) == (b"t", 6, b"", b"")


def test_a_purge_takes_what_is_held_too(engine: Engine) -> None:
    store = open_store(engine, node(), 1)
    turn(store, comes(1, LAST, b"1"), comes(2, PLAIN, b"p", topic=b"other"))
    turn(store, QueueCommand(request=1, verb="purge", arguments={"bridge": "cloud"}))
    assert counts(store) == (2, 0, 0, {"purged": 2})
    assert not handed(open_lane(open_store(engine, node(), 2)))


def test_in_memory_nothing_of_it_is_kept() -> None:
    engine = MemoryEngine()
    turn(open_store(engine, node(mode="in-memory"), 1), comes(1, LAST, b"1"))
    assert counts(open_store(MemoryEngine(), node(mode="in-memory"), 2)) == (0, 0, 0, {})


@pytest.mark.parametrize("rule", [ONE_PER, LAST, CHANGED], ids=lambda rule: rule.name)
def test_a_kill_or_a_power_cut_at_any_write_loses_no_last_message_and_doubles_none(rule: RuleSettings) -> None:
    """store.held-enters-once: what was acknowledged last is there, once; after a kill all that came is accounted for."""
    engine = RecordingEngine()
    store = open_store(engine, node(), 1)
    store.receive(LaneOpen(queue=QUEUE, epoch=EPOCH))
    came: list[tuple[int, int, bytes]] = []  # how many writes there were when it was acknowledged, batch, last payload
    for number in range(1, 8):
        at_ms = number * 4000
        store.tick(100.0 + number, at_ms)
        turn(store, comes(number, rule, b"%d" % (number // 2), b"%d" % (number // 2), at_ms=at_ms), wall_ms=at_ms)
        came.append((len(engine.writes), number, b"%d" % (number // 2)))
    for issued, kept, survived in engine.survivors():
        acknowledged = [entry for entry in came if entry[0] <= issued]
        again = open_store(survived, node(), 2)
        open_lane(again, NEXT_LIFE)
        found = figures(again)
        assert found.ledger_closes
        payloads = [message.payload for message in again.lanes.all[QUEUE].queue.read(0, 100)]
        assert payloads == sorted(payloads), (issued, kept)
        if acknowledged:
            _, number, last = acknowledged[-1]
            assert last in payloads, (issued, kept)
            least = 2 * number if kept == issued else 0  # counts of what was left out are not worth a sync
            assert found.accepted is not None
            assert least <= found.accepted <= 2 * len(came), (issued, kept)


def test_a_held_message_that_is_damaged_is_counted(engine: Engine) -> None:
    turn(open_store(engine, node(), 1), comes(1, LAST, b"1"))
    ((key, value),) = list(engine.scan("meta", HELD, HELD_END))
    write = Write()
    write.put("meta", key, value[:-1] + b"x")
    engine.commit(write, sync=True)
    again = open_store(engine, node(), 2)
    turn(again)
    assert counts(again) == (1, 0, 0, {"damaged": 1})
    assert not list(engine.scan("meta", HELD, HELD_END))
