"""The post of a simulated process: the API of ``actors/process/post.py`` over the world's events. No thread, no socket.

Every call that touches the world outside is an *effect*: the process may be killed right before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.process.mailbox import HANGUP, LEFT, READ, PollGroup
from actors.process.post import Post, TimerName
from actors.process.request_sockets import RequestRouter
from tests.simulation.control import SimRouter
from tests.simulation.tcp import SimSocket
from tests.simulation.world import Pollable
from wire.frames.frame import Frame
from wire.frames.names import child_of

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


class ProcessPost(Post):
    """The post of one life of one process."""

    def __init__(self, process: Process) -> None:
        self.name = process.name
        self.local = set()
        self.handed_over = []
        self.process_of: Callable[[str], str] = child_of
        self._process = process
        self._world = process.world
        self._rng = process.world.chance(f"{process.name} {process.epoch}")
        self._watched: Watched = {}
        self._sim_groups: list[tuple[str, SimGroup]] = []
        self._told = deque()
        self.frames: deque[tuple[str, Frame]] = deque()
        self._due_s = {}
        self._timers = []
        self._looks_s = {}
        self._looks_again = False

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
        if peer in self.local:
            self._world.note("frame", self.name, peer, frame)
            self._process.post.seen(self.name, peer, frame)
        super().send(peer, frame)

    def send_parts(self, peer: str, parts: list[bytes]) -> None:
        self._process.effect("send")
        if (receiver := self.process_of(peer)) != self.name:
            self._process.post.send(self._process, receiver, peer, parts)

    def place(self, process_of: Callable[[str], str]) -> None:
        self.process_of = process_of

    def moves(self, name: str) -> None:
        """Frames are brought where their receiver is now."""

    def leave(self, actor: str) -> None:
        self.local.discard(actor)
        self._due_s = {name: due_s for name, due_s in self._due_s.items() if name[0] != actor}
        self._watched = {fd: watched for fd, watched in self._watched.items() if watched[2][0] != actor}

    # --- sockets and timers ---

    def poll_again(self) -> None:
        self._looks_again = True

    def looks_again(self) -> bool:
        """Whether ``look_again`` was called since this was asked."""
        again, self._looks_again = self._looks_again, False
        return again

    def watch(self, actor: str, fd: int, events: int, token: Hashable) -> None:
        pollable = self._world.pollable(fd)
        self._watched[fd] = (pollable, events, (actor, token))
        pollable.watcher = self._process.wake
        self._process.wake()

    def forget(self, fd: int) -> None:
        self._watched.pop(fd, None)

    def group(self, actor: str) -> PollGroup:
        group = SimGroup(self._process.wake)
        group._world_pollable = self._world.pollable  # type: ignore[method-assign]
        self._sim_groups.append((actor, group))
        return group

    def router(self, actor: str, path: Path) -> RequestRouter:
        router = self._process.router = SimRouter(self._world)
        self.watch(actor, router.fileno(), READ, "router")
        return router

    def set_timer(self, name: TimerName, at_s: float) -> None:
        super().set_timer(name, at_s)
        self._process.wake_at(at_s)

    # --- towards the process ---

    def tell(self, actor: str, message: Any) -> None:
        self._told.append((actor, message))
        self._process.wake()

    def close(self) -> None:
        pass

    def take_told(self) -> tuple[str, Any] | None:
        """The next message from within the process, and for whom; None if there is none."""
        return self._told.popleft() if self._told else None

    def ready_sockets(self) -> dict[str, list[tuple[Any, int]]]:
        """The sockets that can go on right now, by actor."""
        ready: dict[str, list[tuple[Any, int]]] = {}
        for pollable, events, (actor, token) in self._watched.values():
            if found := pollable.readiness() & (events | HANGUP):
                ready.setdefault(actor, []).append((token, found))
        for actor, group in self._sim_groups:
            for pollable, events, token in group.watched.values() if group.heard else ():
                if found := pollable.readiness() & (events | HANGUP):
                    ready.setdefault(actor, []).append((token, found))
        return ready

    def due_timer(self) -> TimerName | None:
        """A timer that has run out, each once."""
        return self._due_timer(self.now_s())

    def next_timer_s(self) -> float | None:
        """The time at which the next timer runs out."""
        return self._next_due_s()

    def waiting(self) -> bool:
        """Whether there is something to do at once."""
        return bool(self._told or self.frames or self.ready_sockets())
