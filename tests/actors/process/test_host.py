"""One process and its actors: whose turn it is, what is handed over, what the supervisor is told, and how it ends."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest

from actors.process.actor import MailboxActor
from actors.process.host import ChildHost
from actors.process.mailbox import Mailbox, TimerDue, TurnEnded
from actors.process.post import Post
from tests.support.settings import node
from wire.config_settings import LogSettings, NodeSettings, dump
from wire.errors import Unavailable
from wire.frames.frame import Frame
from wire.frames.names import SUPERVISOR
from wire.frames.supervision import Command, Heartbeat, PeerUp, Reconfigure, ReportNow, Stop
from wire.status.actors import ActorFigures
from wire.status.bridges import Tier2Figures

PROCESS, FORWARDER, CONNECTION = "bridge:b:0", "forwarder:b:0", "connection:b:0"
EPOCH = 7


class FakePost:
    """Gives what a test has put in, then the end of the turn; keeps what leaves the process."""

    name = PROCESS

    def __init__(self) -> None:
        self.local: set[str] = set()
        self.handed_over: list[tuple[str, Frame]] = []
        self.told: deque[tuple[str, Any]] = deque()
        self.coming: deque[tuple[str, Any]] = deque()
        self.beats: list[Heartbeat] = []
        self.timers: dict[tuple[str, str], float] = {}

    def own(self) -> None:
        pass

    def now_s(self) -> float:
        return 5.0

    def wall_ms(self) -> int:
        return 5_000

    def traffic(self) -> tuple[int, int, int]:
        return (0, 0, 1)

    def set_timer(self, name: tuple[str, str], at_s: float) -> None:
        self.timers[name] = at_s

    def place(self, process_of: Callable[[str], str]) -> None:
        self.process_of = process_of

    def settle(self, actor: str) -> None:
        self.local.add(actor)

    def leave(self, actor: str) -> None:
        self.local.discard(actor)

    def send(self, peer: str, frame: Frame) -> None:
        if peer in self.local:
            self.handed_over.append((peer, frame))
        else:
            assert peer == SUPERVISOR
            assert isinstance(frame, Heartbeat)
            self.beats.append(frame)

    def tell(self, actor: str, message: Any) -> None:
        self.told.append((actor, message))

    def next(self) -> tuple[str, Any]:
        return (self.told or self.coming).popleft()


Act = Callable[["Noting", object], None]


class Noting(MailboxActor):
    """Notes what it is given, and does with it what the test says."""

    def __init__(self, post: FakePost, name: str, notes: list[tuple[str, object]], act: Act) -> None:
        super().__init__(Mailbox(cast(Post, post), name), node(), EPOCH)
        self._notes, self._act = notes, act

    def on_start(self) -> None:
        self._note("start")

    def on_frame(self, frame: Frame) -> None:
        assert isinstance(frame, Command)
        self._note(frame.verb)

    def on_peer_up(self, name: str, epoch: int) -> None:
        self._note((name, epoch))

    def on_reconfigured(self, before: NodeSettings) -> None:
        self._note((before.number, self.settings.number))

    def on_turn_end(self, now_s: float) -> None:
        self.ended_s = now_s
        self._note("end")

    def on_stopping(self) -> None:
        self._note("stopping")

    def status(self) -> ActorFigures:
        return Tier2Figures(messages=len(self.name), bytes=0)

    def _note(self, what: object) -> None:
        self._notes.append((self.name.partition(":")[0], what))
        self._act(self, what)


class Process:
    """A process of a Forwarder and a Connection that do what ``act`` says, or else are ready at once and stop when told."""

    def __init__(self, act: Act | None = None) -> None:
        self.post = FakePost()
        self.notes: list[tuple[str, object]] = []
        self.host = ChildHost(cast(Post, self.post), node(), EPOCH)
        act = act or obliging
        self.host.add_children([Noting(self.post, name, self.notes, act) for name in (FORWARDER, CONNECTION)])

    def begin(self) -> None:
        self.host.begin()
        self.notes.clear()
        self.post.beats.clear()

    def turn(self, *messages: tuple[str, object]) -> list[tuple[str, object]]:
        """The notes of a turn with these messages."""
        self.notes.clear()
        for to, message in messages:
            self.host.give(to, message)
        while self.post.told:
            self.host.give(*self.post.told.popleft())
        self.host.give("", TurnEnded(5.0))
        return self.notes


def obliging(actor: Noting, what: object) -> None:
    if what == "start":
        actor.ready()
    elif what == "stopping":
        actor.on_finished()


def passing(where: str, verb: str) -> Act:
    """A Forwarder that sends the Connection ``verb`` when it notes ``where``, once."""
    left = [verb]

    def act(actor: Noting, what: object) -> None:
        obliging(actor, what)
        if actor.name == FORWARDER and what == where and left:
            actor.send(CONNECTION, Command(verb=left.pop()))

    return act


# --- turns ---


def test_all_start_in_order_and_then_the_first_turn_ends() -> None:
    process = Process(lambda actor, what: None)
    process.host.begin()
    assert process.notes == [("forwarder", "start"), ("connection", "start"), ("forwarder", "end"), ("connection", "end")]


def test_whoever_had_nothing_is_not_told_of_the_end_of_the_turn() -> None:
    process = Process()
    process.begin()
    assert process.turn((CONNECTION, Command(verb="x"))) == [("connection", "x"), ("connection", "end")]
    assert process.turn() == []


def test_what_one_hands_another_belongs_to_the_same_turn() -> None:
    process = Process(passing("go", "y"))
    process.begin()
    noted = process.turn((FORWARDER, Command(verb="go")), (FORWARDER, Command(verb="z")))
    assert noted == [("forwarder", "go"), ("connection", "y"), ("forwarder", "z"), ("forwarder", "end"), ("connection", "end")]


def test_what_is_handed_over_at_the_end_of_a_turn_has_the_time_of_its_own_end() -> None:
    """It is later: what the first round of ends did has taken its time."""
    ends: list[tuple[str, float]] = []
    back = ["back"]

    def act(actor: Noting, what: object) -> None:
        obliging(actor, what)
        if what == "end":
            ends.append((actor.name, actor.ended_s))
            if actor.name == CONNECTION and back:
                actor.send(FORWARDER, Command(verb=back.pop()))

    process = Process(act)
    process.begin()
    process.host.shared = True
    ends.clear()
    back.append("again")
    process.host.give(CONNECTION, Command(verb="x"))
    process.host.give("", TurnEnded(4.0))
    assert ends == [(CONNECTION, 4.0), (FORWARDER, 5.0)]


def test_what_is_handed_over_at_the_end_of_a_turn_has_its_own_end() -> None:
    """Whoever's turn had ended is told once more; whoever's comes yet, once."""

    def act(actor: Noting, what: object) -> None:
        obliging(actor, what)
        if (actor.name, what) == (CONNECTION, "y"):
            actor.send(FORWARDER, Command(verb="back"))

    process = Process(act)
    process.begin()
    assert process.turn((CONNECTION, Command(verb="y"))) == [
        ("connection", "y"),
        ("forwarder", "back"),
        ("forwarder", "end"),
        ("connection", "end"),
    ]

    process = Process(passing("end", "late"))
    process.host.begin()
    assert process.notes[2:] == [
        ("forwarder", "end"),
        ("connection", "late"),
        ("connection", "end"),
        ("connection", (FORWARDER, EPOCH)),
        ("forwarder", (CONNECTION, EPOCH)),
        ("forwarder", "end"),
        ("connection", "end"),
    ]

    def answers_late(actor: Noting, what: object) -> None:
        obliging(actor, what)
        if (actor.name, what) == (CONNECTION, "end") and process.notes.count(("connection", "end")) == 1:
            actor.send(FORWARDER, Command(verb="late"))

    process = Process(answers_late)
    process.begin()
    assert process.turn((FORWARDER, Command(verb="a")), (CONNECTION, Command(verb="b")))[2:] == [
        ("forwarder", "end"),
        ("connection", "end"),
        ("forwarder", "late"),
        ("forwarder", "end"),
    ]


def test_what_is_for_nobody_here_is_passed_over() -> None:
    process = Process()
    process.begin()
    assert process.turn(("listener", Command(verb="x")), ("", Command(verb="x"))) == []


# --- what the process and the supervisor say to each other ---


def test_the_supervisor_is_told_at_once_that_it_starts_and_once_of_each_change() -> None:
    def act(actor: Noting, what: object) -> None:
        if what == ("start" if actor.name == FORWARDER else "go"):
            actor.ready()

    process = Process(act)
    process.host.begin()
    process.turn((CONNECTION, Command(verb="other")))
    process.turn((CONNECTION, Command(verb="go")))
    told = [(beat.state, beat.states) for beat in process.post.beats]
    assert told == [
        ("starting", {FORWARDER: "starting", CONNECTION: "starting"}),
        ("starting", {FORWARDER: "ready", CONNECTION: "starting"}),
        ("ready", {FORWARDER: "ready", CONNECTION: "ready"}),
    ]
    assert {(beat.name, beat.epoch, beat.request) for beat in process.post.beats} == {(PROCESS, EPOCH, 0)}


def test_a_heartbeat_has_the_figures_of_all_and_comes_again_each_period_and_when_asked_for() -> None:
    process = Process()
    process.begin()
    at_s = process.post.timers.pop((PROCESS, "heartbeat"))
    assert at_s == 5.0 + node().supervision.heartbeat_period_s
    assert process.turn((PROCESS, ReportNow(request=3))) == [], "no actor has anything to do with it"
    assert process.turn((PROCESS, TimerDue("heartbeat", 5.0))) == []
    assert [(beat.state, beat.request) for beat in process.post.beats] == [("ready", 3), ("ready", 0)]
    assert process.post.timers == {(PROCESS, "heartbeat"): at_s}, "an answer does not put it off"
    assert {name: told.messages for name, told in process.post.beats[0].figures.items()} == {
        FORWARDER: len(FORWARDER),
        CONNECTION: len(CONNECTION),
    }


def test_each_actor_hears_of_peers_in_other_processes_and_of_those_in_its_own_once_a_life() -> None:
    process = Process()
    process.host.begin()
    peers = [note for note in process.notes if isinstance(note[1], tuple)]
    assert peers == [("connection", (FORWARDER, EPOCH)), ("forwarder", (CONNECTION, EPOCH))]
    for epoch, heard in ((3, True), (3, False), (2, False), (4, True)):
        noted = process.turn((PROCESS, PeerUp(name="queue_store", epoch=epoch)))
        peers = [note for note in noted if isinstance(note[1], tuple)]
        assert peers == ([(kind, ("queue_store", epoch)) for kind in ("forwarder", "connection")] if heard else [])


def reconfigure(number: int, level: str = "info") -> Reconfigure:
    return Reconfigure(number=number, settings=dump(node(number=number, log=LogSettings(level=level))))


def test_newer_settings_hold_for_all_actors_at_once_and_the_supervisor_is_told_with_the_next_heartbeat() -> None:
    process = Process()
    process.begin()
    before = logging.getLogger().level
    try:
        noted = process.turn((PROCESS, reconfigure(2, "error")), (PROCESS, reconfigure(2)), (PROCESS, reconfigure(1)))
        assert logging.getLogger().level == logging.ERROR
    finally:
        logging.getLogger().setLevel(before)
    assert noted[:2] == [("forwarder", (1, 2)), ("connection", (1, 2))]
    assert noted[2:] == [("forwarder", "end"), ("connection", "end")], "what is not newer is without effect"
    assert process.post.timers == {(PROCESS, "heartbeat"): 5.0}, "it is said at once"
    process.turn((PROCESS, TimerDue("heartbeat", 5.0)), (PROCESS, reconfigure(4)))
    assert (process.post.beats[-1].settings, set(process.post.beats[-1].figures)) == (2, {FORWARDER, CONNECTION})


def test_an_actor_that_hands_another_something_by_new_settings_finds_that_it_has_them() -> None:
    def act(actor: Noting, what: object) -> None:
        obliging(actor, what)
        if (actor.name, what) == (FORWARDER, (1, 2)):
            actor.send(CONNECTION, Command(verb="by the new ones"))

    process = Process(act)
    process.begin()
    assert process.turn((PROCESS, reconfigure(2)))[:3] == [
        ("forwarder", (1, 2)),
        ("connection", (1, 2)),
        ("connection", "by the new ones"),
    ]


# --- its end ---


def test_the_last_stops_first_and_the_next_when_that_has_finished() -> None:
    def act(actor: Noting, what: object) -> None:
        if what == "start":
            actor.ready()
        elif what == "finish":
            actor.on_finished()

    process = Process(act)
    process.begin()
    assert ("forwarder", "stopping") not in process.turn((PROCESS, Stop()))
    assert process.notes[0] == ("connection", "stopping")
    assert process.turn((PROCESS, Stop())) == [], "it is stopping already"
    assert process.turn((FORWARDER, Command(verb="works on")))[0] == ("forwarder", "works on")

    told = process.turn((CONNECTION, Command(verb="finish")))
    assert told[-2:] == [("forwarder", "stopping"), ("forwarder", "end")], "and what it does then is not left lying"
    assert not process.host.ended
    assert process.turn((CONNECTION, Command(verb="late"))) == [], "it takes no more"
    process.turn((FORWARDER, Command(verb="finish")))
    assert process.host.ended
    assert {beat.state for beat in process.post.beats} == {"stopping"}


def test_a_process_that_can_stop_at_once_has_said_so_before() -> None:
    process = Process()
    process.post.coming.extend([("", TurnEnded(5.0)), (PROCESS, Stop()), ("", TurnEnded(5.0)), ("", TurnEnded(5.0))])
    assert process.host.run() is None
    assert process.post.beats[-1].state == "stopping"
    assert [who for who, what in process.notes if what == "stopping"] == ["connection", "forwarder"]


@pytest.mark.parametrize("when", ["start", "end", "x", "stopping"])
def test_an_actor_that_fails_ends_its_process_and_the_others_get_nothing_more(when: str) -> None:
    def act(actor: Noting, what: object) -> None:
        if what == when and actor.name == FORWARDER:
            raise RuntimeError(when)
        obliging(actor, what)

    process = Process(act)
    process.post.coming.extend([(FORWARDER, Command(verb="x")), (PROCESS, Stop()), *[("", TurnEnded(5.0))] * 3])
    failure = process.host.run()
    assert isinstance(failure, RuntimeError)
    assert process.notes[-1] == ("forwarder", when)


@pytest.mark.parametrize(("failure", "level"), [(Unavailable("no room"), logging.ERROR), (KeyError("ours"), logging.CRITICAL)])
def test_of_a_failure_the_log_has_one_entry_with_a_trace_if_it_is_our_own(
    failure: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    def act(actor: Noting, what: object) -> None:
        raise failure

    with caplog.at_level(logging.ERROR, "bascule"):
        assert Process(act).host.run() is failure
    (record,) = [record for record in caplog.records if record.getMessage() == "actor.failed"]
    assert (record.levelno, bool(record.exc_info)) == (level, level == logging.CRITICAL)
