"""A lane that has failed again and again in a process that others share: how it leaves that, and how it comes back."""

from __future__ import annotations

from dataclasses import replace

from supervisor.tree.child_lives import QUIET, REST_S
from supervisor.tree.child_processes import Ending
from supervisor.tree.restart_limit import QUIET_S
from tests.supervisor.tree_double import FakeLife, Tree
from tests.support.settings import bridge, node
from wire.config_settings import LogSettings
from wire.frames.names import CLIENTS, STORE
from wire.frames.placement import SITE
from wire.frames.supervision import NodeEvents, Reconfigure

BAD, GOOD = "bridge:bad:0", "bridge:good:0"
BUG = 70


class Together(Tree):
    """The store, the clients and two lanes share a process; all are ready."""

    def __init__(self) -> None:
        made = node(bridge("bad"), bridge("good"))
        super().__init__(replace(made, supervision=replace(made.supervision, placement="together")))

    def fails(self, process: str, actor: str = "") -> None:
        """The ``process`` ends because ``actor`` has failed, or nobody knows why, and all that lived in it begin anew."""
        children = self.children.living_in(process)
        life = children[0].life
        assert isinstance(life, FakeLife)
        life.ending = Ending(BUG, None, actor)
        self.supervisor.on_sockets([(("exit", process), 1)])
        self.supervisor.on_timer(f"restart {process}", self.fake.time_s)
        for child in [child for child in children if child.life is None]:
            self.supervisor.on_timer(f"restart {child.name}", self.fake.time_s)
        for child in sorted(children, key=lambda child: child.life is None):
            if child.life is None:  # it failed, and begins a moment after the clients are ready
                self.supervisor.on_timer(f"restart {process}", self.fake.time_s)
            self.ready(child.name, self.current.now.number)

    def sets_apart(self) -> None:
        """The lane ``bad`` fails twice."""
        for _ in range(2):
            self.fails(SITE, "connection:bad:0")
        assert self.apart == [BAD]

    def passes(self, seconds: float) -> None:
        """Time passes, and the timer for the lanes' return comes when it is due."""
        self.fake.time_s += seconds
        if self.fake.timers.get(QUIET, self.fake.time_s + 1) <= self.fake.time_s:
            self.supervisor.on_timer(QUIET, self.fake.timers.pop(QUIET))
        self.fake.timers.pop("reload", None)

    def settle(self) -> None:
        """Everybody says to go by the settings that hold, and what was told to stop ends and begins anew."""
        number = self.current.now.number
        for name in (STORE, CLIENTS, GOOD):
            self.beat(name, "ready", settings=number)
        if self.children[BAD].ordered:
            process = self.children[BAD].process
            life = self.children[BAD].life
            assert isinstance(life, FakeLife)
            life.ending = Ending(0, None)
            self.supervisor.on_sockets([(("exit", process), 1)])
        self.ready(BAD, number)

    @property
    def apart(self) -> list[str]:
        return list(self.current.now.apart)

    @property
    def places(self) -> dict[str, str]:
        return {child.name: self.children.process_of(child.name) for child in self.children}


ALL_TOGETHER = dict.fromkeys((STORE, BAD, GOOD, CLIENTS), SITE)


def test_a_life_of_a_process_is_told_once_however_many_share_it() -> None:
    tree = Together()
    tree.fails(SITE)
    tree.supervisor._send_notes()

    told = [event for _, frame in tree.sent(NodeEvents) for event in frame.events if event[1].startswith("process.")]

    kinds = ["process.started", "process.ended", "process.started"]
    assert [(kind, actor) for _, kind, _, _, actor, *_ in told] == [(kind, SITE) for kind in kinds]


def test_a_lane_that_ended_its_process_begins_again_a_moment_after_clients_are_served() -> None:
    tree = Together()
    life = tree.children[BAD].life
    assert isinstance(life, FakeLife)
    life.ending = Ending(BUG, None, "connection:bad:0")
    tree.supervisor.on_sockets([(("exit", SITE), 1)])
    tree.supervisor.on_timer(f"restart {SITE}", tree.fake.time_s)
    assert [child.name for child in tree.children if child.life is None] == [BAD]

    tree.fake.timers.pop(f"restart {SITE}", None)
    tree.ready(STORE)
    tree.ready(GOOD)
    assert f"restart {SITE}" not in tree.fake.timers
    tree.ready(CLIENTS)
    assert tree.fake.timers[f"restart {SITE}"] == tree.fake.time_s + REST_S
    tree.supervisor.on_timer(f"restart {SITE}", tree.fake.time_s)
    assert tree.children[BAD].life is not None


def test_a_lane_that_failed_twice_lives_apart_and_a_day_of_quiet_later_with_the_others() -> None:
    tree = Together()
    assert tree.places == ALL_TOGETHER
    tree.sets_apart()
    assert tree.places == ALL_TOGETHER | {BAD: BAD}
    tree.sent(Reconfigure)

    tree.passes(QUIET_S - 1)
    assert tree.places[BAD] == BAD
    tree.passes(1)
    told = {peer for peer, _ in tree.sent(Reconfigure)}
    tree.settle()
    told |= {peer for peer, _ in tree.sent(Reconfigure)}

    assert tree.places == ALL_TOGETHER
    assert SITE in told, "those that stay know where it lives"
    assert tree.supervisor._rollout.pending() == ()
    assert QUIET not in tree.fake.timers


def test_each_failure_begins_the_day_anew_whether_or_not_it_is_known_which_actor_failed() -> None:
    tree = Together()
    tree.sets_apart()

    for actor in ("connection:bad:0", ""):
        tree.passes(QUIET_S - 1)
        tree.fails(BAD, actor)
    tree.passes(QUIET_S - 1)
    assert tree.apart == [BAD]

    tree.passes(1)
    assert tree.apart == []


def test_where_the_disk_refuses_it_is_tried_again() -> None:
    tree = Together()
    tree.sets_apart()
    tree.current.refuses = True
    tree.passes(QUIET_S)
    assert tree.apart == [BAD]

    tree.current.refuses = False
    tree.passes(QUIET_S)

    assert tree.apart == []


def test_a_reload_brings_it_back_and_the_day_that_ends_later_changes_nothing() -> None:
    tree = Together()
    tree.sets_apart()
    tree.written = replace(tree.settings, log=LogSettings(level="debug"))
    tree.supervisor._reloads.hang_up(lambda: None)
    tree.supervisor._reloads.go_on()
    assert tree.apart == []
    tree.settle()
    number = tree.current.now.number

    tree.passes(QUIET_S)

    assert tree.current.now.number == number
    assert tree.places == ALL_TOGETHER


def test_a_file_that_has_changed_meanwhile_is_still_said_to_have() -> None:
    """What brings the lanes back reads nothing."""
    tree = Together()
    tree.sets_apart()
    before = tree.supervisor._own_figures().configuration

    tree.passes(QUIET_S)

    after = tree.supervisor._own_figures().configuration
    assert (after.read_at, after.number) == (before.read_at, (before.number or 0) + 1)
