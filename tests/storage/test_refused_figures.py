"""What a full queue refuses is counted there, beside its ledger: once, at every QoS, and nothing that comes again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from storage.engine.engine import Engine
from storage.engine.memory_engine import MemoryEngine
from storage.queue.ledger import LaneRow, Ledger
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, bridge, node, settle_frame
from tests.support.present import present
from tests.support.settings import limits
from wire.frames.base import Frame
from wire.frames.intake import Append, SenderResumes, SourceResumed
from wire.frames.lanes import Credit, LaneOpen

OTHER = "bridge:other:0"
LANE_EPOCH = 1 << 20


def turn(store: Store, *frames: Frame) -> None:
    for frame in frames:
        store.receive(frame)
    store.commit(100.0, 5000)


def store_with(engine: Engine | None = None, **limit: Any) -> Store:
    limit = limit or {"max_messages": 1}
    return Store(engine or MemoryEngine(), node(bridge(limit=limits(**limit)), bridge("other")), 1)


def of_mqtt_5(number: int, *payloads: bytes, qos: int = 1) -> Append:
    return append_frame(number, {QUEUE: (batch(payloads, qos), None)})


def of_mqtt_311(number: int, *payloads: bytes, qos: int = 1, source: int = 1) -> Append:
    count = len(payloads)
    return append_frame(number, {QUEUE: (batch(payloads, qos), None)}, sources=[source] * count, refusable=bytes(count))


def resumed(number: int, *, held: int = 0, given_up: int = 0, source: int = 1) -> SourceResumed:
    return SourceResumed(sender="listener", epoch=1, source=source, number=number, held=held, given_up=given_up)


def figures(store: Store, queue: str = QUEUE) -> tuple[int, int]:
    """Refused for good, and held back now."""
    row = store.status(5000).queues[queue]
    assert row.ledger_closes
    return present(row.refused), present(row.held_back)


def empty(store: Store) -> None:
    """All that is queued is handed out and delivered."""
    turn(store, LaneOpen(queue=QUEUE, epoch=LANE_EPOCH))
    turn(store, Credit(queue=QUEUE, epoch=LANE_EPOCH, messages=100, size_bytes=1 << 30))
    turn(store, settle_frame(1, LANE_EPOCH, ("delivered", ((0, 1 << 60),))))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_refused_of_an_mqtt_5_publisher_is_counted_at_the_queue_beside_its_ledger(qos: int) -> None:
    store = store_with()

    turn(store, of_mqtt_5(1, b"a", b"b", b"c", qos=qos))

    assert figures(store) == (2, 0)
    assert store.status(5000).queues[QUEUE].accepted == 1
    assert figures(store, OTHER) == (0, 0)


def test_a_batch_that_comes_again_is_not_counted_again() -> None:
    store = store_with()
    turn(store, of_mqtt_5(1, b"a", b"b"))
    turn(store, of_mqtt_5(1, b"a", b"b"))

    assert figures(store) == (1, 0)


def test_it_is_counted_where_there_was_no_room_and_not_where_there_was() -> None:
    store = store_with()
    both = batch([b"a", b"b"])

    turn(store, append_frame(1, {QUEUE: (both, None), OTHER: (both, None)}))

    assert (figures(store), figures(store, OTHER)) == ((1, 0), (0, 0))


def test_each_of_two_full_queues_counts_it() -> None:
    small = limits(max_messages=1)
    store = Store(MemoryEngine(), node(bridge(limit=small), bridge("other", limit=small)), 1)
    both = batch([b"a", b"b"])

    turn(store, append_frame(1, {QUEUE: (both, None), OTHER: (both, None)}))

    assert (figures(store), figures(store, OTHER)) == ((1, 0), (1, 0))


def test_copies_of_one_message_are_one_message() -> None:
    store = store_with()

    turn(store, append_frame(1, {QUEUE: (batch([b"a", b"b", b"b"]), [0, 1, 1])}, rows=2))

    assert figures(store) == (1, 0)


def test_one_that_is_too_large_for_the_limit_is_counted_where_it_is_refused() -> None:
    store = store_with(max_bytes=50)

    turn(store, of_mqtt_5(1, b"a", b"x" * 100, b"b"))

    assert figures(store) == (1, 0)


def test_what_overflow_drops_is_in_the_ledger_and_not_refused() -> None:
    store = store_with(max_messages=1, overflow="drop-newest")

    turn(store, of_mqtt_5(1, b"a", b"b"))

    assert figures(store) == (0, 0)
    assert store.status(5000).queues[QUEUE].dropped == {"overflow": 1}


def test_a_will_that_is_refused_stays_on_record_and_is_not_counted() -> None:
    store = store_with()

    turn(store, replace(of_mqtt_5(1, b"a", b"will"), wills=(("s", 1, 0, 0),)))

    assert figures(store) == (0, 0)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_offered_again_is_held_back_and_is_not_counted_when_it_comes_in(qos: int) -> None:
    store = store_with()
    turn(store, of_mqtt_311(1, b"a", b"b", b"c", qos=qos))
    assert figures(store) == (0, 2)

    turn(store, resumed(2), of_mqtt_311(2, b"b", b"c", qos=qos))
    assert figures(store) == (0, 2), "offered again, and refused again"

    empty(store)
    turn(store, resumed(3, held=1), of_mqtt_311(3, b"b", qos=qos))
    assert figures(store) == (0, 1), "the sender has one more"


def test_nothing_is_held_back_any_more_when_the_last_of_it_is_in() -> None:
    store = store_with(max_messages=2)
    turn(store, of_mqtt_311(1, b"a", b"b", b"c"))
    empty(store)

    turn(store, resumed(2), of_mqtt_311(2, b"c"))

    assert figures(store) == (0, 0)


def test_what_comes_behind_is_held_back_where_the_first_of_its_source_was() -> None:
    """It goes to another queue, which has room: it waits all the same."""
    store = store_with()
    turn(store, of_mqtt_311(1, b"a", b"b"))

    turn(store, append_frame(2, {OTHER: (batch([b"x"]), None)}, refusable=bytes(1)))

    assert (figures(store), figures(store, OTHER)) == ((0, 2), (0, 0))


def test_qos_0_whose_publisher_has_gone_before_there_was_room_is_counted() -> None:
    store = store_with()
    turn(store, of_mqtt_311(1, b"a", b"b", b"c", qos=0))

    turn(store, resumed(2, given_up=2))

    assert figures(store) == (2, 0)


def test_a_word_that_came_too_late_to_resume_a_source_still_tells_what_was_given_up() -> None:
    store = store_with()
    turn(store, of_mqtt_311(1, b"a", b"b", qos=0))

    turn(store, resumed(1, given_up=1))

    assert figures(store) == (1, 1)


def test_the_counts_are_there_after_a_restart_of_the_store() -> None:
    engine = RecordingEngine()
    store = store_with(engine)
    turn(store, of_mqtt_5(1, b"a", b"b", qos=0), of_mqtt_311(2, b"c", b"d", qos=0))
    assert figures(store) == (1, 2)

    again = Store(engine, node(bridge(limit=limits(max_messages=1)), bridge("other")), 2)

    assert figures(again) == (1, 2)
    turn(again, resumed(3, given_up=2))
    assert figures(again) == (3, 0)


def test_what_the_former_life_of_a_sender_held_back_is_forgotten_with_it() -> None:
    store = store_with()
    turn(store, of_mqtt_311(1, b"a", b"b"))

    turn(store, append_frame(1, {OTHER: (batch([b"x"]), None)}, epoch=2))

    assert figures(store) == (0, 0)


def test_what_was_resumed_while_the_store_died_is_held_back_no_more() -> None:
    """A new store is told by the sender of which sources it still holds something; of others it holds nothing."""
    engine = RecordingEngine()
    store = store_with(engine)
    turn(store, of_mqtt_5(1, b"in"), of_mqtt_311(2, b"a"), of_mqtt_311(3, b"b", source=2))
    store = Store(engine, node(bridge(limit=limits(max_messages=1)), bridge("other")), 2)
    assert figures(store) == (0, 2)

    turn(store, SenderResumes(sender="listener", epoch=1, number=4, stalled=(2,)))
    assert figures(store) == (0, 1)


def test_the_row_of_a_queue_keeps_what_was_refused_and_it_is_no_part_of_the_sum() -> None:
    ledger = Ledger(accepted=5, delivered=3, refused=7)
    row = LaneRow(head=3, tail=5, handed=3, trimmed=3, depth=2, ledger=ledger)

    assert LaneRow.decode(row.encode(), queue=QUEUE) == row
    assert ledger.closes(2)
    assert ledger.copy() == ledger
