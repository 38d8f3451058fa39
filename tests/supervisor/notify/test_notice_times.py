"""How long a notice takes from its threshold to its receiver, on a clock of the test's: of each kind, its beginning and its end.

The node and the receivers answer after a time that is fixed here: a real node's depends on its machine, and is not judged.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.process.mailbox import Mailbox, TimerDue
from supervisor.control.client import ControlClient
from supervisor.notify.growth import CALM_S
from supervisor.notify.notices import Notice, NoticeState
from supervisor.notify.notifier import LOOK_S, Notifier
from supervisor.notify.receivers import NotTaken, Receiver
from tests.supervisor.notify.test_troubles import ACCESS, row, status
from tests.support.settings import node
from wire.config_settings import NodeItself, NoticeSettings
from wire.figure import of_map
from wire.status.answers import Event, Events
from wire.status.node_status import Status
from wire.trouble_kinds import TroubleKind

TOLD_WITHIN_S = 10.0
LOOK_TAKES_S, SEND_TAKES_S = 1.0, 0.5
WALL_MS = 1_700_000_000_000


def event(kind: str, reason: str = "", **details: Any) -> Event:
    told: Event = of_map(Event, {"number": 0, "kind": kind, "actor": "http", "reason": reason, "details": details})
    return told


# Each kind: the status while it is no trouble, the status from its threshold on, and the events that come then.
CASES: dict[TroubleKind, tuple[Status, Status, tuple[Event, ...]]] = {
    TroubleKind.LINK_DOWN: (row(), row(state="backoff", reason="refused"), ()),
    TroubleKind.QUEUE_AGE: (row(depth=1, oldest_age_s=599.0), row(depth=1, oldest_age_s=600.1), ()),
    TroubleKind.QUEUE_FULL: (row(depth=7, full=0.79), row(depth=8, full=0.8), ()),
    TroubleKind.DEAD_LETTERS: (row(), row(dead_letters={"held": 1, "reasons": {"remote_0x97": 1}}), ()),
    TroubleKind.MESSAGES_LOST: (row(dropped={}), row(dropped={"overflow": 1}), ()),
    TroubleKind.DISK: (status(), status(store={"state": "disk_full", "disk_free_bytes": 0}), ()),
    TroubleKind.CERTIFICATE: (row(link={"certificate_ends_in_s": 10**9}), row(link={"certificate_ends_in_s": 60.0}), ()),
    TroubleKind.CREDENTIAL: (row(link={"credential_ends_in_s": 10**9}), row(link={"credential_ends_in_s": 60.0}), ()),
    TroubleKind.REFUSED_CLIENTS: (
        status(),
        status(listener={"limited": {}, "access": {**ACCESS, "logins_failed": 10**6}}),
        (),
    ),
    TroubleKind.PROCESS_DOWN: (
        status(processes=[{"name": "http", "state": "ready"}]),
        status(processes=[{"name": "http", "state": "restarting"}]),
        (),
    ),
    TroubleKind.PROCESS_ENDED: (status(), status(), (event("process.ended", "signal 9"),)),
    TroubleKind.CLOCK_STEP: (status(), status(), (event("clock.jumped", by_ms=60_000),)),
    TroubleKind.TAKE_OVER: (
        status(replication={"role": "standby", "member": "a"}),
        status(replication={"role": "leader", "member": "a"}),
        (),
    ),
}
SINGLE = {TroubleKind.PROCESS_ENDED, TroubleKind.CLOCK_STEP, TroubleKind.TAKE_OVER}
GROWS = {TroubleKind.MESSAGES_LOST, TroubleKind.REFUSED_CLIENTS}


class Timeline:
    """The mailbox of one Notifier, its node and its clock: what is due happens in order, and each answer takes its time."""

    name = "notifier"
    actor: Notifier

    def __init__(self, looks: Callable[[float], tuple[Status, tuple[Event, ...]]]) -> None:
        """looks: the status at a time, and all events up to then."""
        self._looks = looks
        self.at_s = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._events: tuple[Event, ...] = ()

    # --- as a mailbox ---

    def now_s(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        return WALL_MS + round(self.at_s * 1000)

    def set_timer(self, name: str, at_s: float) -> None:
        self._at(at_s, lambda: self.actor.take(TimerDue(name, self.at_s)))

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        answered: list[Any] = []
        self.actor.send_from_thread = answered.append  # type: ignore[method-assign,assignment]
        job()
        took_s = LOOK_TAKES_S if name == "look" else SEND_TAKES_S
        self._at(self.at_s + took_s, lambda: self.actor.take(answered.pop()))

    def send(self, _peer: str, _frame: Any) -> None:
        """Topics are the supervisor's."""

    # --- as a node's control socket ---

    def status(self) -> Status:
        told, self._events = self._looks(self.at_s)
        return told

    def events(self, start: int = 0, count: int = 100) -> Events:
        numbered = [replace(one, number=number) for number, one in enumerate(self._events)][start : start + count]
        return Events(events=tuple(numbered), next=start + len(numbered), until=len(self._events))

    def all_events(self, start: int = 0) -> list[Event]:
        return list(self.events(start).events)

    # --- for the test ---

    def run(self, until_s: float) -> None:
        while self._due and self._due[0][0] <= until_s:
            self.at_s, _, do = heapq.heappop(self._due)
            do()

    def _at(self, at_s: float, do: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (at_s, self._number, do))


class Taking(Receiver):
    """Takes notices, with the time at which it has each; or never does."""

    def __init__(self, timeline: Timeline, *, is_dead: bool = False) -> None:
        self._timeline, self._is_dead = timeline, is_dead
        self.taken: list[tuple[float, Notice]] = []

    def send(self, notice: Notice) -> None:
        if self._is_dead:
            raise NotTaken("nobody is there")
        self.taken.append((self._timeline.at_s + SEND_TAKES_S, notice))


@pytest.mark.parametrize(
    ("kind", "for_s"), [*((kind, 0.0) for kind in TroubleKind), (TroubleKind.LINK_DOWN, 60.0), (TroubleKind.QUEUE_FULL, 60.0)]
)
@given(crosses_s=st.floats(10.0, 10.0 + 2 * LOOK_S), lasts_s=st.floats(90.0, 90.0 + LOOK_S))
@settings(max_examples=5)
def test_a_notice_is_with_its_receiver_in_time_and_once_and_so_is_the_end(
    tmp_path_factory: pytest.TempPathFactory, kind: TroubleKind, for_s: float, crosses_s: float, lasts_s: float
) -> None:
    """However the looks fall, and beside a receiver that is dead. A single event has no end."""
    calm, trouble, happens = CASES[kind]
    ends_s = crosses_s + lasts_s

    def looks(at_s: float) -> tuple[Status, tuple[Event, ...]]:
        stands = crosses_s <= at_s and (at_s < ends_s or kind in GROWS | SINGLE)
        told = trouble if stands else calm
        store = None if told.store is None else replace(told.store, store_id="a", since_ms=1)
        happened = tuple(replace(one, at_ms=WALL_MS + round(crosses_s * 1000)) for one in happens if at_s >= crosses_s)
        return replace(told, store=store), happened

    timeline = Timeline(looks)
    rule = NoticeSettings(name="r", when=(kind,), for_s=for_s)
    of_node = node(notify=(rule,), node=NodeItself(name="edge", data_dir=str(tmp_path_factory.mktemp("node"))))
    notifier = timeline.actor = Notifier(cast(Mailbox, timeline), of_node, 1)
    well, dead = Taking(timeline), Taking(timeline, is_dead=True)
    notifier._node, notifier._receivers = cast(ControlClient, timeline), {"r:webhook": well, "r:command": dead}
    notifier.on_start()
    timeline.run(ends_s + CALM_S + 30.0)

    (began_s, began), *over = well.taken
    assert 0 < began_s - (crosses_s + for_s) <= TOLD_WITHIN_S
    if kind in SINGLE:
        assert (began.state, over) == (NoticeState.HAPPENED, [])
        return
    ((over_s, end),) = over
    assert (began.state, end.state, end.id) == (NoticeState.BEGINS, NoticeState.OVER, began.id)
    assert 0 < over_s - (crosses_s + CALM_S if kind in GROWS else ends_s) <= TOLD_WITHIN_S
