"""A supervisor, or parts of it, whose mailbox and whose children's lives are a test's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from errno import ENOMEM, ENOSPC
from itertools import count
from pathlib import Path
from typing import Any, cast

from actors.process.mailbox import READ, Mailbox
from supervisor.reload.source import Source
from supervisor.tree.child_processes import ChildProcesses, Ending
from supervisor.tree.child_table import ChildSpec, child_specs
from supervisor.tree.current_settings import CurrentSettings
from supervisor.tree.pauses import Pauses
from supervisor.tree.running_children import RunningChildren
from supervisor.tree.signals import SignalPipe
from supervisor.tree.supervisor import Supervisor
from tests.support.settings import bridge, node
from wire.config_settings import HttpSettings, NodeSettings
from wire.errors import BasculeError
from wire.frames.frame import Frame, FrameType
from wire.frames.names import actors_of
from wire.frames.supervision import Heartbeat
from wire.status.actors import ActorFigures


class FakeMailbox:
    """Time stands still until it is moved on; keeps what is sent and what is timed."""

    name = "supervisor"

    def __init__(self) -> None:
        self.time_s = 0.0
        self.sent: list[tuple[str, Frame]] = []
        self.timers: dict[str, float] = {}

    def now_s(self) -> float:
        return self.time_s

    def wall_ms(self) -> int:
        return int(self.time_s * 1000)

    def random(self) -> float:
        return 0.5

    def traffic(self) -> tuple[int, int, int]:
        return (0, 0, 0)

    def watch(self, fd: int, events: int, token: Any) -> None: ...

    def forget(self, fd: int) -> None: ...

    def moves(self, name: str) -> None: ...

    def set_timer(self, name: str, at_s: float) -> None:
        self.timers[name] = at_s

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        job()

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append((peer, frame))


class FakeLife:
    """A process that ends when the test says so, as ``ending`` says."""

    _ids = count(100)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.pid = self.pidfd = next(self._ids)
        self.ending: Ending | None = Ending(0, None)
        self.killed = False

    def kill(self) -> None:
        self.killed = True

    def reap(self) -> Ending | None:
        return self.ending


class FakeSpawner:
    """Starts lives, unless the system would not. paused: the children that were to begin so; shared: processes of several."""

    template_pid = 1

    def __init__(self) -> None:
        self.refuses = False
        self.paused: list[str] = []
        self.shared: list[str] = []

    def spawn(self, spec: ChildSpec, epoch: int, *, paused: bool) -> FakeLife:
        if self.refuses:
            raise OSError(ENOMEM, "no memory")
        if paused:
            self.paused.append(spec.name)
        return FakeLife(epoch)

    def spawn_shared(self, process: str, epoch: int) -> FakeLife:
        if self.refuses:
            raise OSError(ENOMEM, "no memory")
        self.shared.append(process)
        return FakeLife(epoch)

    def tend(self, *, needed: bool) -> None: ...


class Children:
    """The parts around the children of a node whose bridge ``cloud`` has one lane, or of ``settings``; none of them runs.

    http: of the node.
    """

    def __init__(self, http: HttpSettings | None = None, settings: NodeSettings | None = None) -> None:
        self.fake = FakeMailbox()
        self.mailbox = cast(Mailbox, self.fake)
        self.settings = settings or node(bridge("cloud", 1), http=http)
        self.current = Held(self.settings)
        self.spawner = FakeSpawner()
        self.pauses = FakePauses()
        spawner = cast(ChildProcesses, self.spawner)
        self.children = RunningChildren(self.mailbox, self.current, child_specs, spawner, count(1).__next__, self.pauses)

    def sent(self, kind: type[FrameType]) -> list[tuple[str, FrameType]]:
        """The frames of this kind since the last time; the others are forgotten."""
        sent, self.fake.sent = self.fake.sent, []
        return [(peer, frame) for peer, frame in sent if isinstance(frame, kind)]


class Held(CurrentSettings):
    """Settings without a disk, which may refuse. published: the number of those that children begin with."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(settings)
        self.refuses = False
        self.published = settings.number

    def change(self, settings: NodeSettings) -> None:
        if self.refuses:
            raise OSError(ENOSPC, "No space left on device")
        self.now = replace(settings, number=self.now.number + 1)

    def write(self) -> None:
        if self.refuses:
            raise OSError(ENOSPC, "No space left on device")

    def publish(self) -> None:
        self.published = self.now.number


class FakePauses(Pauses):
    """Pauses without a disk, which may refuse."""

    def __init__(self) -> None:
        self.refuses = False
        self._since_ms = {}

    def pause(self, bridge: str) -> None:
        if self.refuses:
            raise OSError(ENOSPC, "No space left on device")
        self._since_ms[bridge] = 1

    def resume(self, bridge: str) -> None:
        if self.refuses:
            raise OSError(ENOSPC, "No space left on device")
        self._since_ms.pop(bridge, None)


NO_SIGNALS = cast(SignalPipe, None)  # it never starts, so nobody looks


class AtOnce(Supervisor):
    """Work of threads is done at once."""

    def send_from_thread(self, message: Any) -> bool:
        self.on_thread_message(message)
        return True


class Tree(Children):
    """A supervisor of such a node, whose processes are the test; all of them are ready."""

    def __init__(self, settings: NodeSettings | None = None) -> None:
        super().__init__(settings=settings)
        self.written: NodeSettings | BasculeError = self.settings  # what the configuration says, or what is wrong with it
        source = Source(Path("/node.yaml"), self._read)
        self.supervisor = AtOnce(self.mailbox, NO_SIGNALS, self.current, self.children, source)
        for child in list(self.children):
            self.begins(child.name)
            self.ready(child.name)

    def _read(self) -> NodeSettings:
        if isinstance(self.written, BasculeError):
            raise self.written
        return self.written

    def beat(
        self, name: str, state: str, told: ActorFigures | None = None, request: int = 0, settings: int = 0, **states: str
    ) -> None:
        """A heartbeat of process ``name``; ``told``: its first actor's figures, ``states`` (by kind): those unlike its own."""
        child = self.children[name]
        assert child.life is not None
        actors = actors_of(name)
        self.supervisor.on_frame(
            Heartbeat(
                name=name,
                epoch=child.epoch,
                pid=child.life.pid,
                state=state,
                request=request,
                states={actor: states.get(actor.partition(":")[0], state) for actor in actors},
                settings=settings,
                traffic=(0, 0, 0),
                figures={} if told is None else {actors[0]: told},
            )
        )

    def ready(self, name: str, settings: int = 0) -> None:
        """Its first word, and that it works."""
        self.beat(name, "starting")
        self.beat(name, "ready", settings=settings)

    def ends(self, name: str) -> None:
        """Its life ends, in good order."""
        self.supervisor.on_sockets([(("exit", name), READ)])

    def begins(self, name: str) -> None:
        """Its next life is there, and has not said anything."""
        self.supervisor._lives.restart(self.children[name])
