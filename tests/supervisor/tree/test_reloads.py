"""A configuration that changes while the node runs: in which order the processes hear of it, and what changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import pytest

from supervisor.control.control_socket import Request
from supervisor.tree.reloads import REPORT, TIMER
from supervisor.tree.rollout import STEP_TIMEOUT_S
from supervisor.tree.rollout import TIMER as STEP
from tests.supervisor.tree_double import Tree
from tests.support.settings import HTTP, bridge, itself, limits, node
from wire.config_settings import LogSettings, NodeSettings
from wire.errors import ConfigError
from wire.figure import of_map, to_map
from wire.frames.frame import Frame
from wire.frames.names import CLIENTS, STORE
from wire.frames.supervision import NodeEvents, Reconfigure, ReportNow, Stop
from wire.status.store import StoreReport

LANE = "bridge:cloud:0"


class Reloading(Tree):
    """A node that is asked to read its configuration again. answers: what was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[dict[str, Any]] = []
        self.supervisor._reloads._answer = lambda _, payload: self.answers.append(msgpack.unpackb(payload)["result"])
        self.goes_by(1, *(child.name for child in self.children))
        self.fake.sent.clear()

    def goes_by(self, number: int, *names: str, depth: int = 0) -> None:
        """These processes say by which settings they go; the store, what waits for the bridge as well."""
        for name in names:
            queues = {"queues": {"bridge:cloud:0": {"depth": depth, "bytes": 10 * depth}}}
            self.beat(name, "ready", of_map(StoreReport, queues) if name == STORE else None, settings=number)

    def reload(self, written: NodeSettings | ConfigError, command: str = "reload", **arguments: str) -> dict[str, Any]:
        self.asks(written, command, **arguments)
        if self.children[STORE].life is not None:
            self.beat(STORE, "ready", self.children.store_report, REPORT, self.children[STORE].settings_number)
        self.fake.sent = [(peer, frame) for peer, frame in self.fake.sent if not isinstance(frame, ReportNow)]
        return self.answers[-1]

    def asks(self, written: NodeSettings | ConfigError, command: str = "reload", **arguments: str) -> None:
        self.written = written
        self.supervisor._serve([], Request(request_id=1, command=command, arguments=arguments))

    def told(self) -> list[tuple[str, str]]:
        """The children that were told since the last time to go by other settings, or to stop."""
        sent, self.fake.sent = self.fake.sent, []
        return [(peer, type(frame).__name__) for peer, frame in sent if isinstance(frame, Reconfigure | Stop)]

    def configuration(self) -> dict[str, Any]:
        configuration: dict[str, Any] = to_map(self.supervisor._own_figures().configuration)
        return configuration

    @property
    def names(self) -> list[str]:
        return [child.name for child in self.children]


def with_bridges(*names: str, **changed: Any) -> NodeSettings:
    return node(*(bridge(name) for name in names), **changed)


def told(*names: str) -> list[tuple[str, str]]:
    return [(name, "Reconfigure") for name in names]


def stopped(*names: str) -> list[tuple[str, str]]:
    return [(name, "Stop") for name in names]


def events(sent: Iterable[tuple[str, Frame]]) -> list[tuple[str, str, str]]:
    found = [event for _, frame in sent if isinstance(frame, NodeEvents) for event in frame.events]
    return [(kind, actor, reason) for _, kind, _, _, actor, reason, _, _ in found]


def test_the_store_hears_first_then_the_clients_and_bridges_that_stay_are_told_and_live_on() -> None:
    tree = Reloading()
    answer = tree.reload(replace(tree.settings, log=LogSettings(level="debug")))
    assert (answer["applied"], answer["refused"], answer["number"]) == (True, None, 2)
    assert [change["what"] for change in answer["changes"]] == ["log.level"]
    assert (tree.told(), tree.current.published) == (told(STORE), 1)
    tree.goes_by(2, STORE)
    assert (tree.told(), tree.current.published) == (told(CLIENTS, LANE), 2), "who begins from here on begins with them"
    assert tree.configuration()["pending"] == [LANE, CLIENTS]
    tree.goes_by(2, LANE, CLIENTS)
    assert tree.told() == []
    assert tree.configuration()["pending"] == []
    assert tree.configuration()["number"] == 2


def test_who_does_not_answer_is_told_again_and_holds_up_nobody() -> None:
    """tree.reload-all-or-nothing"""
    tree = Reloading()
    tree.reload(replace(tree.settings, log=LogSettings(level="debug")))
    tree.told()
    tree.supervisor.on_timer("tick", 1.0)
    assert tree.told() == told(STORE)
    assert tree.fake.timers[STEP] == STEP_TIMEOUT_S
    tree.supervisor.on_timer(STEP, STEP_TIMEOUT_S)
    assert tree.told() == told(CLIENTS, LANE)
    tree.goes_by(2, CLIENTS, LANE)
    tree.told()
    tree.supervisor.on_timer("tick", 6.0)
    assert tree.told() == told(STORE)


def test_a_store_that_does_not_run_begins_with_them() -> None:
    tree = Reloading()
    tree.ends(STORE)
    tree.reload(replace(tree.settings, log=LogSettings(level="debug")))
    assert tree.current.published == 2
    assert tree.told() == told(CLIENTS, LANE)


def test_a_bridge_that_has_changed_begins_anew_once_the_clients_know() -> None:
    tree = Reloading()
    changed = bridge("cloud", on_session_loss="republish")
    tree.reload(replace(tree.settings, bridges=(changed, bridge("north"))))
    assert tree.names == [STORE, LANE, "bridge:north:0", CLIENTS]
    tree.goes_by(2, STORE)
    assert tree.told() == told(STORE, CLIENTS)
    assert tree.children["bridge:north:0"].life is None
    tree.goes_by(2, CLIENTS)
    assert tree.told() == stopped(LANE)
    assert tree.children["bridge:north:0"].life is not None
    before = tree.children[LANE].life
    tree.ends(LANE)
    assert tree.children[LANE].life not in (None, before), "it begins at once, and nobody counts a crash"
    assert not tree.supervisor._lives.all_ready
    for name in (LANE, "bridge:north:0"):
        tree.ready(name, 2)
    assert tree.supervisor._lives.all_ready
    assert tree.configuration()["pending"] == []
    assert tree.children["bridge:north:0"].restart_count == 0


def test_a_bridge_that_is_gone_ends_once_nothing_is_routed_to_it_and_comes_back() -> None:
    tree = Reloading()
    tree.reload(with_bridges())
    tree.goes_by(2, STORE)
    assert tree.told() == told(STORE, CLIENTS)
    assert tree.configuration()["pending"] == [LANE, CLIENTS]
    tree.goes_by(2, CLIENTS)
    assert tree.told() == stopped(LANE)
    assert tree.supervisor._status.status(tree.supervisor._own_figures()).bridges == ()
    tree.ends(LANE)
    assert tree.names == [STORE, CLIENTS]
    tree.reload(with_bridges("cloud"))
    tree.goes_by(3, STORE, CLIENTS)
    assert tree.children[LANE].life is not None


def test_a_bridge_that_comes_back_while_it_ends_begins_anew() -> None:
    tree = Reloading()
    tree.reload(with_bridges())
    tree.goes_by(2, STORE, CLIENTS)
    tree.reload(with_bridges("cloud"))
    tree.ends(LANE)
    assert tree.children[LANE].life is not None
    tree.goes_by(3, STORE, CLIENTS)
    tree.ready(LANE, 3)
    assert tree.supervisor._lives.all_ready


def test_a_lane_less_lives_until_its_queue_is_empty_and_a_lane_more_begins() -> None:
    tree = Reloading()
    tree.reload(node(bridge("cloud", 2)))
    tree.goes_by(2, STORE, CLIENTS, LANE)
    second = "bridge:cloud:1"
    tree.ready(second, 2)
    waits = {"queues": {"bridge:cloud:1": {"depth": 2, "bytes": 20}}}
    tree.beat(STORE, "ready", of_map(StoreReport, waits), settings=2)
    tree.reload(node(bridge("cloud", 1)))
    tree.beat(STORE, "ready", of_map(StoreReport, waits), settings=3)
    tree.goes_by(3, CLIENTS, LANE, second)
    assert tree.children[second].spec.former
    assert tree.children[second].wanted
    tree.goes_by(3, STORE)
    assert not tree.children[second].wanted
    tree.ends(second)
    assert tree.names == [STORE, LANE, CLIENTS]


def test_http_comes_begins_anew_and_goes_behind_all_others() -> None:
    tree = Reloading()
    tree.reload(replace(tree.settings, http=HTTP))
    assert tree.children["http"].life is None
    tree.goes_by(2, STORE, CLIENTS, LANE)
    assert tree.children["http"].life is not None
    tree.ready("http", 2)
    tree.told()
    tree.reload(replace(tree.settings, http=replace(HTTP, calls_max=3)))
    tree.goes_by(3, STORE, CLIENTS, LANE)
    assert ("http", "Stop") in tree.told()
    tree.ends("http")
    tree.ready("http", 3)
    tree.reload(tree.settings)
    tree.goes_by(4, STORE, CLIENTS, LANE)
    tree.ends("http")
    assert "http" not in tree.names


def test_other_terms_of_persistence_begin_the_store_anew() -> None:
    tree = Reloading()
    tree.reload(replace(tree.settings, persistence=replace(tree.settings.persistence, sync="full")), yes="yes")
    assert (tree.told(), tree.current.published) == (stopped(STORE), 2)
    tree.ends(STORE)
    assert tree.told() == []
    tree.ready(STORE, 2)
    assert tree.told() == told(CLIENTS, LANE)


def test_what_changes_again_meanwhile_begins_with_the_store_and_what_was_to_begin_anew_does() -> None:
    tree = Reloading()
    tree.reload(node(bridge("cloud", on_session_loss="republish")))
    tree.reload(node(bridge("cloud", on_session_loss="republish"), log=LogSettings(level="debug")))
    tree.goes_by(2, STORE)
    assert tree.told() == told(STORE, STORE)
    tree.goes_by(3, STORE, CLIENTS)
    assert tree.told() == [*told(CLIENTS), *stopped(LANE)]


def test_what_waits_is_what_the_store_says_then_and_what_it_does_not_say_may_be_anything() -> None:
    """reload.nothing-given-up-unasked"""
    tree = Reloading()
    tree.asks(with_bridges())
    assert tree.answers == []
    assert [(peer, frame.request) for peer, frame in tree.sent(ReportNow)] == [(STORE, REPORT)]
    tree.goes_by(1, STORE)
    assert tree.answers == [], "this is not what was asked"
    tree.beat(STORE, "ready", of_map(StoreReport, {"queues": {"bridge:cloud:0": {"depth": 1, "bytes": 9}}}), REPORT, 1)
    assert "(1 message)" in tree.answers[0]["changes"][0]["detail"]
    tree.asks(with_bridges())
    tree.supervisor.on_timer(TIMER, 2.0)
    tree.ends(STORE)
    tree.asks(with_bridges())
    assert [answer["changes"][0]["how"] for answer in tree.answers] == ["destructive"] * 3


@pytest.mark.parametrize("yes", ["no", "yes"])
def test_what_gives_something_up_wants_a_yes(yes: str) -> None:
    """reload.nothing-given-up-unasked"""
    tree = Reloading()
    tree.goes_by(1, STORE, depth=3)
    answer = tree.reload(with_bridges(), yes=yes)
    assert [change["how"] for change in answer["changes"]] == ["destructive"]
    assert answer["applied"] == (yes == "yes")
    assert (answer["refused"] is None) == (yes == "yes")
    assert tree.current.now.number == (2 if yes == "yes" else 1)


def test_a_configuration_that_does_not_hold_changes_nothing_and_is_an_event() -> None:
    """tree.reload-all-or-nothing"""
    tree = Reloading()
    answer = tree.reload(ConfigError("the configuration is refused", problems=["/node.yaml:3:1: limits: what"]))
    assert (answer["applied"], answer["changes"], answer["problems"]) == (False, [], ["/node.yaml:3:1: limits: what"])
    assert tree.told() == []
    tree.supervisor.on_timer("tick", 1.0)
    assert ("node.reload_refused", "operator", "/node.yaml:3:1: limits: what") in events(tree.fake.sent)


@pytest.mark.parametrize("moved", [itself(node(), data_dir="/elsewhere"), itself(node(), name="other")])
def test_what_cannot_change_while_the_node_runs_keeps_all_else_from_changing(moved: NodeSettings) -> None:
    """tree.reload-all-or-nothing"""
    tree = Reloading()
    answer = tree.reload(replace(moved, bridges=tree.settings.bridges, log=LogSettings(level="debug")), yes="yes")
    assert not answer["applied"]
    assert "restart the node" in answer["refused"]
    assert (tree.told(), tree.current.now) == ([], tree.settings)


def test_a_disk_that_refuses_keeps_all_from_changing() -> None:
    """tree.reload-all-or-nothing"""
    tree = Reloading()
    tree.current.refuses = True
    answer = tree.reload(replace(tree.settings, log=LogSettings(level="debug")))
    assert "No space left on device" in answer["refused"]
    assert (tree.told(), tree.current.now) == ([], tree.settings)


def test_a_bridge_that_a_command_changes_is_read_from_the_disk_and_put_back_where_it_does_not_come_to_hold(tmp_path: Path) -> None:
    """tree.reload-all-or-nothing"""
    tree, path, read = Reloading(), tmp_path / "cloud.yaml", []
    path.write_text("before")

    def read_with(name: str, content: str | None) -> tuple[Path, NodeSettings]:
        read.append((name, content))
        return path, debug

    tree.supervisor._reloads._source = replace(tree.supervisor._reloads._source, read_with=read_with)
    tree.current.refuses = True
    debug = replace(tree.settings, log=LogSettings(level="debug"))
    refused = put(tree, debug)
    assert ("No space left" in refused["refused"], path.read_text()) == (True, "before")
    tree.current.refuses = False
    path.chmod(0o640)
    applied = put(tree, debug)
    assert (applied["applied"], path.read_text(), path.stat().st_mode & 0o777) == (True, "after", 0o640)
    assert read == [("cloud", "after")] * 2


def put(tree: Reloading, settings: NodeSettings) -> dict[str, Any]:
    """The answer to a new file of the bridge: what the node goes by is read once more, as it is on the disk then."""
    tree.asks(settings, "bridge.put", name="cloud", text="after")
    for _ in range(2):
        tree.beat(STORE, "ready", tree.children.store_report, REPORT, tree.children[STORE].settings_number)
    return tree.answers[-1]


def test_who_hangs_up_again_and_again_has_the_file_read_once_more_at_most() -> None:
    tree = Reloading()
    jobs: list[Callable[[], None]] = []
    tree.fake.in_thread = lambda name, job: jobs.append(job)  # type: ignore[method-assign]
    done: list[int] = []
    for number in range(9):
        tree.supervisor._reloads.hang_up(partial(done.append, number))
    while jobs:
        jobs.pop()()
        tree.beat(STORE, "ready", StoreReport(), REPORT, 1)
        if len(done) == 1:
            tree.supervisor._reloads.hang_up(partial(done.append, 9))
    assert done == [0, 9]


def test_a_plan_changes_nothing() -> None:
    tree = Reloading()
    answer = tree.reload(with_bridges("cloud", "north"), "reload.plan")
    assert [change["what"] for change in answer["changes"]] == ["bridge north: added"]
    assert (answer["applied"], answer["refused"], tree.told()) == (False, None, [])


def test_a_file_that_says_the_same_changes_nothing_and_counts_as_read() -> None:
    tree = Reloading()
    answer = tree.reload(replace(tree.settings, files=(("/node.yaml", "other"),)))
    assert (answer["applied"], answer["changes"], tree.told()) == (True, [], [])
    assert tree.current.now.files == (("/node.yaml", "other"),)


def test_times_of_supervision_hold_from_then_on() -> None:
    tree = Reloading()
    other = replace(tree.settings.supervision, stop_timeout_s=1.0, restarts_max=1, heartbeat_period_s=3.0)
    tree.reload(replace(tree.settings, supervision=other))
    assert tree.children[LANE].spec.stop_timeout_s == 1.0
    tree.supervisor.on_timer("tick", 10.0)
    assert tree.fake.timers["tick"] == 13.0


def test_limits_of_a_bridge_leave_its_processes_alone() -> None:
    tree = Reloading()
    tree.reload(node(bridge("cloud", limits=limits(max_messages=5))))
    tree.goes_by(2, STORE, CLIENTS)
    assert tree.told() == told(STORE, CLIENTS, LANE)
