"""A supervisor whose mailbox and whose children's lives are a test's."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any, cast

from actors.mailbox import Mailbox
from supervisor.children import Ending
from supervisor.nursery import Nursery
from supervisor.supervisor import Supervisor
from supervisor.tree import child_specs
from tests.support.settings import bridge, node
from wire.frames import Frame, FrameType, Heartbeat
from wire.names import actors_of


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
    """A supervisor of a bridge with one lane, whose processes are the test; all of them are ready."""

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

    def beat(self, name: str, state: str, status: dict[str, Any] | None = None, **states: str) -> None:
        """A heartbeat of process ``name``; ``status`` is its first actor's, ``states`` (by kind) are those unlike its own."""
        life = self.nursery[name].life
        assert life is not None
        actors = actors_of(name)
        self.supervisor.on_frame(
            Heartbeat(
                name=name,
                epoch=life.epoch,
                pid=life.pid,
                state=state,
                request=0,
                states={actor: states.get(actor.partition(":")[0], state) for actor in actors},
                status={actors[0]: status or {}},
            )
        )

    def ready(self, name: str, status: dict[str, Any] | None = None) -> None:
        """Its first word, and that it works."""
        self.beat(name, "starting")
        self.beat(name, "ready", status)

    def ends(self, name: str) -> None:
        """Its life ends, in good order."""
        self.supervisor._exited(self.nursery[name])

    def begins(self, name: str) -> None:
        """Its next life is there, and has not said anything."""
        self.supervisor._restart(self.nursery[name])

    def sent(self, kind: type[FrameType]) -> list[tuple[str, FrameType]]:
        """The frames of this kind since the last time; the others are forgotten."""
        sent, self.mailbox.sent = self.mailbox.sent, []
        return [(peer, frame) for peer, frame in sent if isinstance(frame, kind)]


def _next_of(numbers: count[int]) -> Any:
    return lambda: next(numbers)
