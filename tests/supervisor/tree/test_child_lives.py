"""Consequences of each end of a child, by lives that the test ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.tree.child_lives import EXIT_ESCALATED, GOODBYE_S, Lives
from supervisor.tree.child_processes import Ending
from supervisor.tree.child_table import former_spec
from supervisor.tree.event_notes import Notes
from supervisor.tree.running_children import Child
from tests.supervisor.tree_double import Children, FakeLife
from tests.support.settings import HTTP, itself
from wire.config_settings import HttpSettings
from wire.frames.names import CLIENTS, QUEUE_STORE, STORE, LaneName
from wire.frames.names import HTTP as HTTP_PROCESS
from wire.frames.supervision import ResetMarkers, Stop
from wire.status.states import ChildState
from wire.status.store import StoreReport

LANE = "bridge:cloud:0"
BUG, DAMAGED, UNAVAILABLE, MISCONFIGURED = 70, 65, 75, 78


class LivesOf(Children):
    """All children run and are ready. ends: the exit statuses with which the node was to end."""

    def __init__(self, http: HttpSettings | None = None, *, has_folder: bool = True) -> None:
        super().__init__(http)
        self.notes = Notes(self.mailbox.wall_ms)
        self.ends: list[int] = []
        self.lives = Lives(self.mailbox, self.current, self.children, self.notes, self.ends.append, lambda: has_folder)
        for child in self.children:
            self.lives.spawn(child)
            child.says(ChildState.READY)
        self.fake.sent.clear()

    def child(self, name: str) -> Child:
        return self.children[name]

    def end(self, name: str, status: int = 0, signal: str | None = None) -> bool:
        """The life of ``name`` ends; whether the node has stopped with it."""
        child = self.child(name)
        assert isinstance(child.life, FakeLife)
        child.life.ending = Ending(status, signal)
        ended = self.lives.reap(child.process)
        assert ended is not None
        return self.lives.follow(*ended)

    def told(self) -> list[tuple[Any, ...]]:
        """The events since the last time."""
        frame = self.notes.take()
        return [] if frame is None else list(frame.events)

    def stopped(self) -> list[str]:
        """The children that were told to stop since the last time."""
        return [peer for peer, _ in self.sent(Stop)]


@pytest.mark.parametrize(("new_store", "status"), [("allow", 65), ("refuse", 75)])
def test_a_node_whose_data_folder_is_gone_ends_and_only_one_that_begins_nothing_is_to_be_started_again(
    new_store: str, status: int
) -> None:
    assert LivesOf().lives.check_folder()
    node = LivesOf(has_folder=False)
    node.current.now = itself(node.current.now, new_store=new_store)

    assert not node.lives.check_folder()
    assert node.ends == [status]


def test_a_child_that_crashes_waits_for_its_next_life_and_one_that_was_to_begin_anew_does_not() -> None:
    node = LivesOf()
    life = node.child(CLIENTS).life
    node.end(CLIENTS, BUG)
    assert (node.child(CLIENTS).state, node.child(CLIENTS).life) == ("restarting", None)
    assert f"restart {CLIENTS}" in node.fake.timers

    node.lives.restart(node.child(CLIENTS))
    assert (node.child(CLIENTS).state, node.child(CLIENTS).restart_count) == ("starting", 1)
    assert node.child(CLIENTS).life is not life

    node.lives.restart_on_order([node.child(STORE)])
    assert node.stopped() == [STORE]
    node.end(STORE)
    assert (node.child(STORE).state, node.child(STORE).restart_count) == ("starting", 0)
    assert f"restart {STORE}" not in node.fake.timers


def test_what_was_ordered_is_neither_counted_nor_a_cause_whether_it_ran_or_waited() -> None:
    node = LivesOf()
    for _ in range(4):
        node.lives.restart_on_order([node.child(LANE)])
        node.end(LANE)
    node.end(LANE, BUG)
    node.lives.restart_on_order([node.child(LANE)])

    assert (node.child(LANE).state, node.child(LANE).restart_count) == ("starting", 0)
    assert [event[5] for event in node.told() if event[1] == "process.ended"] == ["ordered"] * 4 + ["failed"]


def test_who_waits_for_its_next_life_begins_it_at_once_on_order() -> None:
    node = LivesOf()
    node.end(LANE, BUG)

    node.lives.restart_on_order([node.child(LANE)])

    assert node.child(LANE).life is not None
    assert f"restart {LANE}" not in node.fake.timers


def test_the_end_of_a_lane_resets_its_markers_and_is_noted_with_its_reason() -> None:
    node = LivesOf()
    life = node.child(LANE).life
    assert life is not None
    node.end(LANE, -9, "SIGKILL")
    assert node.sent(ResetMarkers) == [(QUEUE_STORE, ResetMarkers(queue=LANE, epoch=life.epoch))]

    node.end(CLIENTS, BUG)
    assert node.sent(ResetMarkers) == []
    assert [(event[1], event[2], event[4], event[5]) for event in node.told()] == [
        ("process.ended", "cloud", LANE, "SIGKILL"),
        ("process.ended", "", CLIENTS, "failed"),
    ]


def test_a_life_that_its_tracer_has_not_let_go_has_not_ended() -> None:
    node = LivesOf()
    child = node.child(LANE)
    assert isinstance(child.life, FakeLife)
    child.life.ending = None

    assert node.lives.reap(child.process) is None

    assert node.sent(ResetMarkers) == []
    assert child.life is not None


def test_what_the_system_would_not_start_is_tried_again() -> None:
    node = LivesOf()
    node.end(LANE, BUG)
    node.spawner.refuses = True

    node.lives.restart(node.child(LANE))

    assert (node.child(LANE).state, node.child(LANE).life) == ("restarting", None)
    assert node.child(LANE).last_cause.startswith("it could not be started")
    assert f"restart {LANE}" in node.fake.timers


def test_a_lane_of_a_paused_bridge_begins_so() -> None:
    node = LivesOf()
    node.pauses.pause("cloud")
    for name in (LANE, CLIENTS):
        node.end(name, BUG)
        node.lives.restart(node.child(name))

    assert node.spawner.paused == [LANE]


@pytest.mark.parametrize(("name", "ends"), [(LANE, []), (STORE, [MISCONFIGURED]), (CLIENTS, [MISCONFIGURED])])
def test_a_misconfigured_lane_leaves_the_others_at_work_and_any_other_ends_the_node(name: str, ends: list[int]) -> None:
    node = LivesOf()

    node.end(name, MISCONFIGURED)

    assert node.child(name).state == "misconfigured"
    assert node.ends == ends
    assert node.stopped() == []
    others = [child.life for child in node.children.living() if child.name != name]
    assert all(isinstance(life, FakeLife) and life.killed == (name == STORE) for life in others)


def test_a_damaged_store_stays_down_and_ends_intake_only() -> None:
    node = LivesOf()

    node.end(STORE, DAMAGED)

    assert (node.child(STORE).state, node.ends) == ("damaged", [])
    assert node.stopped() == [CLIENTS]
    node.end(CLIENTS)
    assert (node.child(CLIENTS).state, node.child(CLIENTS).life) == ("stopped", None)
    assert node.child(LANE).state == "ready"


def test_a_child_that_crashes_too_often_ends_the_node_and_one_that_lacks_something_never_does() -> None:
    node = LivesOf()
    restarts_max = node.child(LANE).spec.restarts_max
    for count, (name, status) in enumerate([(LANE, UNAVAILABLE), (CLIENTS, BUG)] * (restarts_max + 1)):
        assert node.ends == [], count
        node.end(name, status)
        if not node.ends:
            node.lives.restart(node.child(name))

    assert node.ends == [EXIT_ESCALATED]
    assert node.child(CLIENTS).state == "stopped"


def test_the_node_does_without_http() -> None:
    """It is ready without it, and what would end the node for another child has it rest, or stay down."""
    node = LivesOf(HTTP)
    spec = node.child(HTTP_PROCESS).spec
    for _ in range(spec.restarts_max + 1):
        node.end(HTTP_PROCESS, BUG)
        assert node.lives.all_ready
        due_s = node.fake.timers[f"restart {HTTP_PROCESS}"]
        node.lives.restart(node.child(HTTP_PROCESS))
    assert node.ends == []
    assert due_s == spec.restart_period_s, "it rests"

    node.end(HTTP_PROCESS, MISCONFIGURED)
    assert (node.child(HTTP_PROCESS).state, node.ends, node.stopped()) == ("misconfigured", [], [])
    assert node.lives.all_ready


def test_a_former_lane_is_nobodys_wish_and_the_node_is_ready_without_it() -> None:
    node = LivesOf()
    node.lives.spawn(node.children.add(former_spec(node.settings, LaneName("cloud", 2))))
    assert node.lives.all_ready

    node.end(LANE, BUG)
    assert not node.lives.all_ready


def test_how_long_the_node_takes_to_stop_gets_less_with_each_order_that_has_stopped() -> None:
    node = LivesOf(HTTP)
    timeout_s = node.child(STORE).spec.stop_timeout_s
    assert node.lives.stop_left_s(0.0) is None
    node.lives.stop_all()
    left_s = [node.lives.stop_left_s(0.0), node.lives.stop_left_s(timeout_s / 2)]
    for name in (CLIENTS, LANE, STORE, HTTP_PROCESS):
        node.end(name)
        left_s.append(node.lives.stop_left_s(0.0))

    assert left_s == [4 * timeout_s, 3.5 * timeout_s, 3 * timeout_s, 2 * timeout_s, timeout_s, timeout_s]


def test_all_is_stopped_in_reverse_start_order_each_order_waiting_for_the_one_before() -> None:
    node = LivesOf()
    assert node.lives.all_ready

    assert not node.lives.stop_all()
    assert not node.lives.all_ready
    stopped = []
    for name in (CLIENTS, LANE, STORE):
        stopped.append(node.stopped())
        last = node.end(name)
        assert node.child(name).state == "stopped"

    assert stopped == [[CLIENTS], [LANE], [STORE]]
    assert last, "nobody is left"


@pytest.mark.parametrize("acknowledge", ["after-commit", "fast"])
@pytest.mark.parametrize("trouble", ["refused", "dead", "dies meanwhile"])
def test_nobody_waits_long_for_a_store_that_commits_nothing(trouble: str, acknowledge: str) -> None:
    """But while the store lives for what was acknowledged before its commit."""
    node = LivesOf()
    now = node.current.now
    node.current.now = replace(now, persistence=replace(now.persistence, acknowledge=acknowledge))
    if trouble == "refused":
        node.child(STORE).reports = {QUEUE_STORE: StoreReport(error="its folder is gone")}
    elif trouble == "dead":
        node.end(STORE, BUG)
    node.lives.stop_all()
    if trouble == "dies meanwhile":
        node.end(STORE, BUG)

    waits = trouble == "refused" and acknowledge == "fast"
    timeout_s = node.child(CLIENTS).spec.stop_timeout_s
    assert node.fake.timers[f"kill {CLIENTS}"] == (timeout_s if waits else GOODBYE_S)
    assert node.lives.stop_left_s(0.0) == (3 * timeout_s if waits else 2 * GOODBYE_S + timeout_s * (trouble == "refused"))


def test_a_node_whose_children_all_wait_to_be_restarted_stops_at_once() -> None:
    node = LivesOf()
    for name in (CLIENTS, LANE, STORE):
        node.end(name, BUG)

    assert node.lives.stop_all()
    assert not node.fake.timers
