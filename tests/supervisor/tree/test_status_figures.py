"""The status from heartbeats that may lack anything."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from supervisor.terminal.queue_room import fullness
from supervisor.tree.status_figures import FullQueues, Rates, full_s, lane_row, room_of, store_part, unserved_rows
from tests.support.settings import node
from wire.config_settings import LimitSettings
from wire.figure import of_map, to_map
from wire.status.actors import ActorFigures
from wire.status.bridges import BridgeLane, ConnectionFigures, QueueFigures
from wire.status.node_status import ActorRow
from wire.status.store import StoreReport

QUEUE = "bridge:a:0"


def row(*, state: str = "ready", store: dict[str, Any] | None = None, connection: dict[str, Any] | None = None) -> BridgeLane:
    reports: dict[str, ActorFigures] = {}
    if store is not None:
        reports["queue_store"] = of_map(StoreReport, store)
    if connection is not None:
        reports["connection:a:0"] = of_map(ConnectionFigures, connection)
    return lane_row(
        "a",
        0,
        actors={"connection:a:0": of_map(ActorRow, {"state": state, "last_cause": "it ended" if state != "ready" else ""})},
        reports=reports,
        rates=Rates(),
        room=None,
        full_s=None,
        paused_since_ms=None,
        down_s=None,
    )


def queue(**figures: int) -> QueueFigures:
    return of_map(QueueFigures, figures)


def test_figures_that_nobody_reported_are_none() -> None:
    empty = row()
    assert (empty.depth, empty.accepted, empty.ledger_closes, empty.dropped) == (None, None, None, {})
    told = to_map(empty)
    assert (told["link"], told["exchange"], told["dead_letters"], told["retained"]) == ({}, {}, {}, {})
    assert (told["end_to_end_seconds"], told["depth"]) == (None, None)


def test_a_lane_has_the_figures_of_its_queue_and_in_flight_of_its_link() -> None:
    full = row(store={"queues": {QUEUE: {"accepted": 4, "depth": 4}}}, connection={"link": {"in_flight": 3}})
    assert (full.accepted, full.depth, full.oldest_age_s, full.in_flight) == (4, 4, None, 3)


def test_the_state_is_the_links_while_the_connection_works_and_the_childs_otherwise() -> None:
    connection = {"link": {"state": "backoff", "reason": "tcp: refused"}}
    assert (row(connection=connection).state, row(connection=connection).reason) == ("backoff", "tcp: refused")
    restarts = row(state="restarting", connection=connection)
    assert (restarts.state, restarts.reason) == ("restarting", "it ended")
    assert row().state == "starting"


def test_a_lane_shows_what_its_exchange_counts() -> None:
    exchange = row(connection={"exchange": {"retried": 2, "assumed_delivered": 1}}).exchange
    assert exchange is not None
    assert (exchange.retried, exchange.assumed_delivered, exchange.published) == (2, 1, 0)


def test_the_store_has_its_own_figures_and_not_those_of_queues() -> None:
    told = to_map(store_part(of_map(StoreReport, {"commits": 1, "queues": {QUEUE: {"depth": 1}}})))
    assert told["commits"] == 1
    assert told.keys().isdisjoint({"queues", "dead_letters", "replication"})


def test_a_queue_whose_lane_is_not_configured_is_told_of_while_something_waits() -> None:
    rows = unserved_rows([("a", 0)], {QUEUE: queue(depth=1), "bridge:b:0": queue(depth=2, bytes=9), "bridge:c:0": queue(depth=0)})
    assert [(one.queue, one.depth, one.bytes) for one in rows] == [("bridge:b:0", 2, 9)]


def test_a_bridge_is_as_full_as_its_lanes_are_together_and_nobody_knows_before_all_are_known() -> None:
    limits = of_limits(max_messages=100, max_bytes=1000)
    room = room_of("a", [queue(depth=10, bytes=10), queue(depth=20, bytes=490)], limits)
    assert room is not None
    assert (room.name, room.limit, room.used, room.most) == ("a", "max_bytes", 500, 1000)
    assert "raise limits.max_bytes" in room.cure
    assert room_of("a", [queue(depth=10, bytes=10), None], limits) is None
    assert room_of("a", [queue(depth=10, bytes=10)], of_limits(max_messages=None, max_bytes=None)) is None


@pytest.mark.parametrize("overflow", get_args(get_type_hints(LimitSettings, include_extras=True)["overflow"])[1].values)
def test_what_happens_once_a_queue_is_full_is_said_of_every_policy(overflow: str) -> None:
    room = room_of("a", [queue(depth=93, bytes=1)], of_limits(max_messages=100, overflow=overflow))

    assert room is not None
    assert fullness(room).startswith("93 % full, 93 of 100 messages; once it is full, ")
    assert ("nothing acknowledged is lost" in fullness(room)) == (overflow == "reject")
    assert "dropped and counted" in fullness(room)


def of_limits(**keys: Any) -> Any:
    from dataclasses import replace

    return replace(node().limits, **keys)


def test_a_queue_is_full_since_it_was_first_seen_so_until_a_good_part_of_it_is_free() -> None:
    at = {depth: room_of("a", [queue(depth=depth, bytes=0)], of_limits(max_messages=100)) for depth in (79, 85, 99, 100)}
    full = FullQueues()
    for now_s, depth in enumerate((85, 99, 85, 100)):
        full.note({"a": at[depth]}, float(now_s))
    full.note({"a": None}, 4.0)

    assert full.lasts_s("a", 5.0) == 4.0
    assert full.lasts_s("b", 5.0) is None
    full.note({"a": at[79]}, 5.0)
    assert full.lasts_s("a", 6.0) is None
    full.note({"a": at[100]}, 6.0)
    full.note({}, 7.0)
    full.note({"a": at[85]}, 8.0)
    assert full.lasts_s("a", 9.0) is None, "a queue that is gone is forgotten"


def test_it_is_full_when_what_is_left_has_come_at_these_rates() -> None:
    half, empty = (room_of("a", [queue(depth=depth, bytes=0)], of_limits(max_messages=100)) for depth in (50, 0))
    assert full_s(50, [Rates(10.0, 5.0)], half) == 10.0
    assert full_s(50, [Rates(5.0, 10.0)], half) is None
    assert full_s(50, [Rates(10.0, 5.0), Rates()], half) is None
    assert full_s(50, [Rates(0.1, 0.0), Rates(0.2, 0.3)], half) is None, "what is left of the sum is no growth"
    huge = room_of("a", [queue(depth=10**6, bytes=0)], of_limits(max_messages=10**9))
    assert full_s(10**6, [Rates(0.1, 0.0)], huge) is None, "in three hundred years"
    assert full_s(0, [Rates(10.0, 5.0)], empty) is None
    assert full_s(0, [Rates(10.0, 5.0)], None) is None
