"""Lanes that the configuration has no more, as the supervisor runs them: by its frames, with lives that the test ends."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.mailbox import Mailbox
from supervisor.children import Ending
from supervisor.nursery import Nursery
from supervisor.supervisor import Supervisor
from supervisor.tree import child_specs
from tests.support.settings import bridge, node
from wire.frames import Frame, Heartbeat, ResetMarkers, Stop
from wire.names import QUEUE_STORE

FORWARDER, CONNECTION = "forwarder:cloud:1", "connection:cloud:1"
WAITING = {"queues": {"bridge:cloud:1": {"depth": 5}}}


class FakeMailbox:
    """Time stands still; keeps what is sent."""

    name = "supervisor"

    def __init__(self) -> None:
        self.sent: list[tuple[str, Frame]] = []

    def now_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def random(self) -> float:
        return 0.5

    def watch(self, fd: int, events: int, token: Any) -> None: ...

    def forget(self, fd: int) -> None: ...

    def set_timer(self, name: str, at_s: float) -> None: ...

    def cancel_timer(self, name: str) -> None: ...

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append((peer, frame))


class _Life:
    """A process that ends when the test says so."""

    _ids = count(100)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.pid = self.pidfd = next(self._ids)

    def kill(self) -> None: ...

    def reap(self) -> Ending:
        return Ending(0, None)


class Tree:
    """A supervisor of a bridge with one lane, whose children are the test."""

    def __init__(self) -> None:
        self.mailbox = FakeMailbox()
        settings = node(bridge("cloud", 1))
        epochs: Any = SimpleNamespace(next=_next_of(count(1)))
        spawner: Any = SimpleNamespace(spawn=lambda spec, epoch, paused: _Life(epoch))
        pauses: Any = SimpleNamespace(since_ms=lambda bridge: None)
        mailbox = cast(Mailbox, self.mailbox)
        self.nursery = Nursery(mailbox, settings.supervision, child_specs(settings), spawner, epochs)
        self.supervisor = Supervisor(mailbox, settings, self.nursery, list, pauses)
        for child in list(self.nursery):
            self.supervisor._spawn(child)
            self.ready(child.name)

    def beat(self, name: str, state: str, status: dict[str, Any] | None = None) -> None:
        life = self.nursery[name].life
        assert life is not None
        beat = Heartbeat(name=name, epoch=life.epoch, pid=life.pid, state=state, request=0, status=status or {})
        self.supervisor.on_frame(beat)

    def ready(self, name: str, status: dict[str, Any] | None = None) -> None:
        self.beat(name, "starting")
        self.beat(name, "ready", status)

    def ends(self, name: str) -> None:
        self.supervisor._exited(self.nursery[name])

    def sent(self, kind: type[Frame]) -> list[tuple[str, Frame]]:
        sent, self.mailbox.sent = self.mailbox.sent, []
        return [(peer, frame) for peer, frame in sent if isinstance(frame, kind)]


def _next_of(numbers: count[int]) -> Any:
    return lambda: next(numbers)


@pytest.fixture
def tree() -> Tree:
    """A former lane runs."""
    tree = Tree()
    tree.beat(QUEUE_STORE, "ready", WAITING)
    tree.ready(FORWARDER)
    tree.ready(CONNECTION)
    tree.sent(Stop)
    return tree


def test_a_store_that_is_not_open_yet_says_nothing_of_lanes(tree: Tree) -> None:
    tree.ends(QUEUE_STORE)
    tree.supervisor._restart(tree.nursery[QUEUE_STORE])

    tree.beat(QUEUE_STORE, "starting", {"queues": {}})
    assert tree.sent(Stop) == []

    tree.beat(QUEUE_STORE, "ready", {"queues": {"bridge:cloud:1": {"depth": 0}}})
    assert sorted(peer for peer, _ in tree.sent(Stop)) == [CONNECTION, FORWARDER]


def test_a_connection_that_comes_back_to_a_former_lane_has_it_opened_for_it(tree: Tree) -> None:
    """Its Forwarder may have been back before it, and have opened the lane for the one that was to stop."""
    tree.beat(QUEUE_STORE, "ready", {"queues": {}})
    tree.ends(FORWARDER)
    tree.beat(QUEUE_STORE, "ready", WAITING)
    tree.ready(FORWARDER)
    tree.ends(CONNECTION)
    tree.beat(QUEUE_STORE, "ready", WAITING)
    tree.sent(ResetMarkers)

    tree.ready(CONNECTION)

    assert tree.sent(ResetMarkers) == [(QUEUE_STORE, ResetMarkers(queue="bridge:cloud:1"))]
