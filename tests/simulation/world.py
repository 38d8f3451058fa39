"""Virtual time: the one list of events, the clocks, chance, and what can be polled. Everything else hangs on a ``World``.

The monotonic clock moves from event to event; the wall clock runs with it and may jump. Each user of chance has a generator of its
own, named, so that leaving out one event of a plan disturbs the others little.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

EPOCH_WALL_S = 1_790_000_000.0


class SimKilled(BaseException):
    """kill -9 at this very instruction. No product code may catch it."""


class Violation(BaseException):
    """A promise was broken; ``kind`` is what stays the same while a failure is shrunk."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


class Pollable:
    """Something with a descriptor: a socket, a pidfd, a signal pipe. ``watcher`` is woken when it has changed."""

    def __init__(self, world: World) -> None:
        self.fd = world.new_fd(self)
        self.watcher: Callable[[], None] | None = None

    def fileno(self) -> int:
        return self.fd

    def readiness(self) -> int:
        """Poll events that hold now."""
        raise NotImplementedError

    def changed(self) -> None:
        if self.watcher is not None:
            self.watcher()


class World:
    """The events to come, in order of time and of their making."""

    def __init__(self, seed: str, *, tracing: bool) -> None:
        self.now_s = 1_000.0
        self.wall_shift_s = EPOCH_WALL_S - 1_000.0
        self.events = 0
        self.trace: list[tuple[Any, ...]] = []
        self._tracing = tracing
        self._seed = seed
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._fds: dict[int, Pollable] = {}
        self._rngs: dict[str, Random] = {}

    def chance(self, name: str) -> Random:
        """The generator called ``name``."""
        rng = self._rngs.get(name)
        if rng is None:
            rng = self._rngs[name] = Random(f"{self._seed}/{name}")
        return rng

    def after(self, delay_s: float, do: Callable[..., None], *arguments: Any) -> None:
        """Call ``do`` in ``delay_s`` seconds."""
        self.at(self.now_s + delay_s, do, *arguments)

    def at(self, at_s: float, do: Callable[..., None], *arguments: Any) -> None:
        """Call ``do`` at ``at_s``."""
        self._count += 1
        heappush(self._heap, (at_s, self._count, do, arguments))

    def step(self) -> None:
        """Let the next event happen."""
        at_s, _, do, arguments = heappop(self._heap)
        self.now_s = at_s
        self.events += 1
        do(*arguments)

    def wall_s(self) -> float:
        """UTC in seconds, as this machine believes it to be."""
        return self.now_s + self.wall_shift_s

    def note(self, *facts: Any) -> None:
        """Add a line to the trace."""
        if self._tracing:
            self.trace.append((round(self.now_s - 1_000.0, 6), *facts))

    def new_fd(self, pollable: Pollable) -> int:
        """A descriptor number, never given twice."""
        fd = 1_000 + len(self._fds)
        self._fds[fd] = pollable
        return fd

    def pollable(self, fd: int) -> Pollable:
        """The object of the descriptor."""
        return self._fds[fd]
