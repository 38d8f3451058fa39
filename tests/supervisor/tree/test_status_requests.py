"""An asker of the status has it with figures that are fresh, or when the time for them is up."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest

from supervisor.control.control_socket import ControlError, Request
from supervisor.tree.child_table import former_spec
from supervisor.tree.status_requests import ASKERS_MAX, COLLECT_TIMEOUT_S, TIMER, OwnFigures, StatusRequests
from tests.supervisor.tree_double import Children
from wire.config_settings import NodeSettings
from wire.figure import of_map
from wire.frames.names import STORE, LaneName
from wire.frames.supervision import Heartbeat, ReportNow
from wire.status.actors import ActorFigures
from wire.status.node_status import ConfigurationFigures, ControlFigures, SnapshotsFigures
from wire.status.store import StoreReport

LANE = "bridge:cloud:0"


def beat(name: str, request: int = 0, **figures: ActorFigures) -> Heartbeat:
    """A heartbeat of the process ``name``, with the figures of its actors."""
    return Heartbeat(
        name=name, epoch=1, pid=7, state="ready", request=request, states={}, settings=1, traffic=(0, 0, 0), figures=figures
    )


def own() -> OwnFigures:
    """The part of the supervisor itself, of a node that goes on."""
    return OwnFigures(
        ready=True,
        stop_left_s=None,
        history=None,
        snapshots=of_map(SnapshotsFigures, {}),
        control=of_map(ControlFigures, {}),
        configuration=of_map(ConfigurationFigures, {}),
    )


class Desk(Children):
    """All children run."""

    def __init__(self, settings: NodeSettings | None = None) -> None:
        super().__init__(settings=settings)
        for child in self.children:
            self.children.spawn(child)
        self.requests = StatusRequests(self.mailbox, self.current, self.children)
        self.names = [child.name for child in self.children]

    def ask(self, whom: bytes) -> None:
        self.requests.ask([whom], Request(request_id=0, command="status", arguments={}))

    def heard(self, heartbeat: Heartbeat) -> bool:
        life = self.children[heartbeat.name].life
        assert life is not None
        assert self.children.on_heard(replace(heartbeat, epoch=life.epoch)) is not None
        return self.requests.on_reported(heartbeat)

    def reported(self, number: int) -> list[bool]:
        return [self.heard(beat(name, number)) for name in self.names]


def test_all_are_asked_once_and_the_last_report_completes_the_collection() -> None:
    desk = Desk()
    desk.ask(b"a")
    desk.ask(b"b")
    assert [(peer, frame.request) for peer, frame in desk.sent(ReportNow)] == [(name, 1) for name in desk.names]
    assert desk.fake.timers[TIMER] == COLLECT_TIMEOUT_S

    assert desk.reported(0) == [False, False, False], "of before it was asked"
    assert desk.reported(1) == [False, False, True]

    [(whom, payload)] = desk.requests.on_collected(own)
    assert whom == [b"a"]
    assert TIMER not in desk.fake.timers
    status = msgpack.unpackb(payload)["result"]
    assert {row["name"] for row in status["processes"]} == {"supervisor", "template", *desk.names}
    desk.requests.collect()
    assert {frame.request for _, frame in desk.sent(ReportNow)} == {2}, "who asked meanwhile has figures of his own"
    assert [whom for whom, _ in desk.requests.on_collected(own)] == [[b"b"]]


def test_nobody_waits_for_a_child_that_has_ended() -> None:
    desk = Desk()
    desk.ask(b"a")
    assert not desk.requests.on_gone(desk.names[0])
    assert not desk.heard(beat(desk.names[1], 1))

    assert desk.requests.on_gone(desk.names[2])


def test_rates_go_by_the_figures_of_the_store_and_not_by_heartbeats_without_any() -> None:
    desk = Desk()
    for now_s, delivered in ((10.0, 0), (14.0, 100)):
        desk.fake.time_s = now_s
        desk.heard(beat(STORE, queue_store=of_map(StoreReport, {"queues": {LANE: {"accepted": 200, "delivered": delivered}}})))
    desk.fake.time_s = 24.0
    desk.heard(beat(STORE))

    (row,) = desk.requests.status(own()).bridges

    assert (row.rate_in, row.rate_out) == (0.0, 25.0)


def test_too_many_who_wait_are_refused() -> None:
    desk = Desk()
    for number in range(ASKERS_MAX):
        desk.ask(b"%d" % number)

    with pytest.raises(ControlError, match="too many status requests"):
        desk.ask(b"another")


def test_the_status_has_the_lanes_in_their_order_with_the_former_ones_and_since_when_a_bridge_is_paused() -> None:
    desk = Desk()
    desk.children.add(former_spec(desk.settings, LaneName("cloud", 3)))
    desk.children.add(former_spec(desk.settings, LaneName("cloud", 2)))
    desk.pauses.pause("cloud")

    rows = desk.requests.status(own()).bridges

    assert [(row.name, row.lane, row.paused_since_ms) for row in rows] == [("cloud", lane, 1) for lane in (0, 2, 3)]


def test_a_full_queue_says_for_how_long_it_has_been_full() -> None:
    plain = Desk().settings
    bridge = plain.bridges[0]
    desk = Desk(replace(plain, bridges=(replace(bridge, limits=replace(bridge.limits, max_messages=100)),)))
    full = of_map(StoreReport, {"queues": {LANE: {"depth": 100, "bytes": 1}}})
    desk.heard(beat(STORE, queue_store=full))
    desk.fake.time_s += 5.0

    (row,) = desk.requests.status(own()).bridges

    assert row.room is not None
    assert (row.room.is_full, row.room.full_for_s) == (True, 5.0)
