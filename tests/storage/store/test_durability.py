"""What a listener or a bridge wants is kept for what concerns it, and nothing more is done for the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from storage.engine.keys import chunk_key
from storage.store.next_commit import LAZY_S
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, bridge, node, settle_frame
from tests.storage.turns import EPOCH, handed, of, open_lane, turn
from tests.support.stores import change_settings, open_store
from wire.config_settings import NodeSettings, PersistenceSettings
from wire.durability import Durabilities
from wire.frames.frame import Effects, Frame
from wire.frames.intake import Committed, CommitWanted
from wire.frames.lanes import Settled
from wire.frames.names import queue_name

STRICT = PersistenceSettings()
WEAK = PersistenceSettings(acknowledge="fast", flush_period_s=5.0, sync="os")
LITTLE: dict[str, Any] = {"acknowledge": "fast", "flush_period_s": 5.0, "sync": "os"}
SLOW = replace(STRICT, flush_period_s=5.0)
ALARMS, TELEMETRY = queue_name("alarms", 0), queue_name("telemetry", 0)


def two_bridges(telemetry: PersistenceSettings = WEAK, **store: Any) -> NodeSettings:
    """Alarms want all; what the store does is given."""
    return node(
        replace(bridge("alarms"), durability=STRICT),
        replace(bridge("telemetry"), durability=telemetry),
        **store,
    )


def sent(number: int, queue: str, *payloads: bytes, qos: int = 1, wants: PersistenceSettings | None = None) -> Frame:
    """wants: the strictest of what it concerns; as two_bridges has it if nothing is said."""
    wants = wants or (STRICT if queue == ALARMS else WEAK)
    return append_frame(number, {queue: (batch(payloads or (b"x",), qos), None)}, promised=wants)


def acknowledged(effects: Effects) -> list[int]:
    return [frame.number for frame in of(effects, Committed)]


def begun(settings: NodeSettings) -> tuple[RecordingEngine, Store]:
    """A store that has committed just now, at 100 s."""
    engine = RecordingEngine()
    store = open_store(engine, settings, 1)
    turn(store, sent(1, ALARMS))
    engine.writes.clear()
    return engine, store


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("now", [{}, LITTLE])
def test_a_batch_is_kept_as_it_was_routed_whatever_is_configured_since(strict: bool, now: dict[str, Any]) -> None:
    """The store hears first that a bridge is gone, or that the node has become less strict, and batches are on their way."""
    engine, store = begun(two_bridges(**LITTLE))
    change_settings(store, replace(node(bridge("telemetry"), **now), number=2))
    turn(store)
    engine.writes.clear()

    store.receive(sent(2, ALARMS, wants=STRICT if strict else WEAK))
    early = acknowledged(store.admit(200.0, 5000))
    late = acknowledged(store.commit(200.0, 5000))

    assert (early, late) == (([], [2]) if strict else ([2], []))
    assert [synced for _, synced in engine.writes] == [strict]


def test_a_bridge_that_is_removed_is_told_nothing_that_the_loss_of_power_takes_back() -> None:
    """It goes on until it hears of its removal. Its PUBREL leaves once the PUBREC is on record, and the bridge may come back."""
    engine = RecordingEngine()
    store = open_store(engine, node(replace(bridge(), durability=STRICT), sync="os"), 1)
    open_lane(store)
    turn(store, sent(1, QUEUE, b"a", qos=2, wants=STRICT))
    change_settings(store, replace(node(bridge("other"), sync="os"), number=2))
    turn(store)
    engine.writes.clear()

    effects = turn(store, settle_frame(1, EPOCH, released=((0, 1),)))

    assert len(of(effects, Settled)) == 1
    assert [synced for _, synced in engine.writes] == [True]


def test_a_commit_that_has_anything_strict_is_synced_and_takes_along_what_waits() -> None:
    engine, store = begun(two_bridges(replace(SLOW, sync="os")))
    slow = replace(SLOW, sync="os")

    assert acknowledged(turn(store, sent(2, TELEMETRY, wants=slow))) == []
    assert engine.writes == [], "it waits for its period"
    assert acknowledged(turn(store, sent(3, ALARMS))) == [3]

    assert [synced for _, synced in engine.writes] == [True]


def test_what_waits_for_its_period_is_committed_with_it_and_unsynced() -> None:
    engine, store = begun(two_bridges(replace(SLOW, sync="os")))
    slow = replace(SLOW, sync="os")
    turn(store, sent(2, TELEMETRY, wants=slow))

    assert store.wakes_at_s(104.5) == 105.0
    assert acknowledged(turn(store, now_s=104.9)) == []
    assert acknowledged(turn(store, now_s=105.0)) == [2]

    assert [synced for _, synced in engine.writes] == [False]


def test_who_has_something_stricter_behind_it_has_it_committed_at_once() -> None:
    _, store = begun(two_bridges(SLOW))
    turn(store, sent(2, TELEMETRY, wants=SLOW))

    assert acknowledged(turn(store, CommitWanted(epoch=1))) == [2]


def test_a_fast_answer_waits_behind_one_that_waits_for_its_commit() -> None:
    engine, store = begun(two_bridges())
    engine.refusing = True

    effects = turn(store, sent(2, ALARMS), sent(3, TELEMETRY))
    assert acknowledged(effects) == []
    engine.refusing = False

    assert acknowledged(turn(store, now_s=200.0)) == [3]


@pytest.mark.parametrize("store_is", [{}, LITTLE])
def test_no_power_cut_takes_an_acknowledged_alarm_back(store_is: dict[str, Any]) -> None:
    """Telemetry may go; each alarm that was acknowledged is there, whatever was committed between."""
    engine = RecordingEngine()
    settings = two_bridges(**store_is)
    store = open_store(engine, settings, 1)
    promised: dict[int, int] = {}  # writes that were made -> how many alarms had been acknowledged by then
    alarms = 0
    for number in range(1, 13):
        queue = ALARMS if number % 3 == 0 else TELEMETRY
        effects = turn(store, sent(number, queue), now_s=100.0 + number / 10)
        if queue == ALARMS:
            assert acknowledged(effects) == [number]
            alarms += 1
        promised[len(engine.writes)] = alarms

    for issued, _, left in engine.survivors():
        again = open_store(left, settings, 2)
        at_least = max((count for writes, count in promised.items() if writes <= issued), default=0)
        assert again.lanes.all[ALARMS].queue.depth >= at_least


@pytest.mark.parametrize(("wants", "synced"), [(replace(WEAK, flush_period_s=0.0), False), (STRICT, True)])
def test_a_lane_is_handed_out_by_the_strength_of_its_bridge(wants: PersistenceSettings, synced: bool) -> None:
    engine = RecordingEngine()
    settings = node(replace(bridge(), durability=wants), replace(bridge("alarms"), durability=STRICT), sync="os")
    store = open_store(engine, settings, 1)
    open_lane(store)
    engine.writes.clear()

    for number in range(1, 4):
        payload = b"%d" % number
        effects = turn(store, sent(number, QUEUE, payload, wants=wants))
        effects += turn(store, now_s=100.0 + LAZY_S)
        assert handed(effects) == [payload]
    effects = turn(store, settle_frame(1, EPOCH, released=((0, 1),)))

    assert {found for _, found in engine.writes} == {synced}


def test_what_was_handed_out_unsynced_counts_as_sent_after_a_loss_of_power() -> None:
    wants = replace(WEAK, flush_period_s=0.0)
    settings = node(replace(bridge(), durability=wants), replace(bridge("alarms"), durability=STRICT))
    engine = RecordingEngine()
    turn(open_store(engine, settings, 1), sent(1, QUEUE, b"a", b"b", wants=wants))

    queue = open_store(engine.rebuilt(len(engine.writes)), settings, 2).lanes.all[QUEUE].queue

    assert queue.sent.below == queue.appended.seq
    assert engine.get("msg", chunk_key(queue.number, queue.sent.below)) is None


def test_nothing_is_looked_at_where_all_are_as_the_store() -> None:
    same = PersistenceSettings()
    assert not Durabilities(node(replace(bridge(), durability=same))).differ
    assert not Durabilities(node()).differ
    assert Durabilities(two_bridges()).differ


def test_the_status_says_what_holds_where() -> None:
    store = open_store(RecordingEngine(), two_bridges(SLOW, sync="os"), 1)

    told = store.status(1000).durability

    assert told["persistence"] == "acknowledge after-commit, flush_period 0s, sync os"
    assert told["bridge alarms"] == "acknowledge after-commit, flush_period 0s, sync full"
    assert told["bridge telemetry"] == "acknowledge after-commit, flush_period 5s, sync full"


def test_a_strict_bridge_that_comes_back_has_what_its_queue_rests_on_synced_before_it_is_handed_out() -> None:
    settings = node(replace(bridge(), durability=STRICT), sync="os")
    engine = RecordingEngine()
    store = open_store(engine, node(bridge("other"), sync="os"), 1)
    store.lanes.open(QUEUE)
    engine.writes.clear()
    turn(store, sent(1, QUEUE, b"a", wants=replace(STRICT, sync="os")))
    open_lane(store)
    assert not any(synced for _, synced in engine.writes)

    change_settings(store, settings)
    effects = turn(store, sent(2, QUEUE, b"b", wants=STRICT))

    assert engine.writes[-1][1]
    assert handed(effects) == [b"b"]
