"""The mailbox of a simulated process: the API of ``actors/mailbox.py`` over the world's events. No thread, no socket.

Every call that touches the world outside is an *effect*: the process may be killed right before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pykka._envelope import Envelope

from actors.mailbox import HANGUP, LEFT, READ, Mailbox, PollGroup, Router
from tests.simulation.control import SimRouter
from tests.simulation.tcp import SimSocket
from tests.simulation.world import Pollable
from wire.frames import Frame, encode

if TYPE_CHECKING:
    from tests.simulation.process import Process

Watched = dict[int, tuple[Pollable, int, Any]]


class SimGroup(PollGroup):
    """A group of sockets in one simulated process."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.watched: Watched = {}
        self.heard = True
        self._wake = wake

    def fileno(self) -> int:
        return -1

    def watch(self, fd: int, events: int, token: Any) -> None:
        pollable = self._world_pollable(fd)
        self.watched[fd] = (pollable, events, token)
        pollable.watcher = self._wake
        self._wake()

    def forget(self, fd: int) -> None:
        self.watched.pop(fd, None)

    def hear(self, heard: bool) -> None:
        if heard and not self.heard:
            self._wake()
        self.heard = heard

    def left(self) -> list[Any]:
        return [token for pollable, events, token in self.watched.values() if events & READ and pollable.readiness() & LEFT]

    def unsent_bytes(self, fd: int) -> int:
        pollable = self._world_pollable(fd)
        assert isinstance(pollable, SimSocket)
        return pollable.unsent_bytes()

    def has_left(self, fd: int) -> bool:
        return bool(self._world_pollable(fd).readiness() & LEFT)

    def _world_pollable(self, fd: int) -> Pollable:
        raise NotImplementedError


class SimMailbox(Mailbox):
    """The mailbox of one life of one process."""

    def __init__(self, process: Process) -> None:
        self.name = process.name
        self._process = process
        self._world = process.world
        self._rng = process.world.chance(f"{process.name} {process.epoch}")
        self._watched: Watched = {}
        self._sim_groups: list[SimGroup] = []
        self._told: deque[Envelope[Any]] = deque()
        self.frames: deque[Frame] = deque()
        self._timers: list[tuple[float, int, str]] = []
        self._timer_ids: dict[str, int] = {}
        self._timer_count = 0

    # --- the world outside ---

    def now_s(self) -> float:
        return self._world.now_s + self._process.lag_s

    def wall_ms(self) -> int:
        return int((self._world.wall_s() + self._process.lag_s) * 1000)

    def random(self) -> float:
        return self._rng.random()

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        self._process.effect("thread")
        self._process.run_in_thread(job, self._rng)

    # --- sending ---

    def send(self, peer: str, frame: Frame) -> None:
        self.send_parts(peer, encode(frame))

    def send_parts(self, peer: str, parts: list[bytes]) -> None:
        self._process.effect("send")
        self._process.post.send(self._process, peer, parts)

    # --- sockets and timers ---

    def watch(self, fd: int, events: int, token: Hashable) -> None:
        pollable = self._world.pollable(fd)
        self._watched[fd] = (pollable, events, token)
        pollable.watcher = self._process.wake
        self._process.wake()

    def forget(self, fd: int) -> None:
        self._watched.pop(fd, None)

    def group(self) -> PollGroup:
        group = SimGroup(self._process.wake)
        group._world_pollable = self._world.pollable  # type: ignore[method-assign]
        self._sim_groups.append(group)
        return group

    def router(self, path: Path) -> Router:
        router = self._process.router = SimRouter(self._world)
        self.watch(router.fileno(), READ, "router")
        return router

    def set_timer(self, name: str, at_s: float) -> None:
        super().set_timer(name, at_s)
        self._process.wake_at(at_s)

    # --- towards the process ---

    def put(self, envelope: Envelope[Any]) -> None:
        self._told.append(envelope)
        self._process.wake()

    def empty(self) -> bool:
        return not self._told

    def close(self) -> None:
        pass

    def take_told(self) -> Any:
        """The next message from within the process; None if there is none."""
        return self._told.popleft().message if self._told else None

    def ready_sockets(self) -> list[tuple[Any, int]]:
        """What can go on right now."""
        watched = [self._watched, *(group.watched for group in self._sim_groups if group.heard)]
        return [
            (token, found)
            for sockets in watched
            for pollable, events, token in sockets.values()
            if (found := pollable.readiness() & (events | HANGUP))
        ]

    def due_timer(self) -> str | None:
        """The name of a timer that has run out, each once."""
        return self._due_timer(self.now_s())

    def next_timer_s(self) -> float | None:
        """When the next timer runs out."""
        while self._timers and self._timer_ids.get(self._timers[0][2]) != self._timers[0][1]:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def waiting(self) -> bool:
        """Whether there is something to do at once."""
        return bool(self._told or self.frames or self.ready_sockets())
