"""One life of one simulated process: its actors, their post, and its turns; killed at any effect, frozen, or ended in order."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from random import Random
from typing import Protocol

from actors.process.host import Host
from actors.process.mailbox import SocketsReady, TimerDue, TurnEnded
from actors.process.post import FRAMES_PER_TURN_MAX
from tests.simulation.control import SimRouter
from tests.simulation.mailbox import ProcessPost
from tests.simulation.world import SimKilled, Violation, World
from wire.errors import Unavailable
from wire.frames.frame import Frame

TIMERS_PER_TURN_MAX = 10_000

KILLED = -9
EXIT_BUG = 70
_current: list[Process] = []


def current() -> Process:
    """The process whose code runs now."""
    return _current[-1]


class Post(Protocol):
    """The carrier of frames between processes."""

    def send(self, sender: Process, receiver: str, peer: str, parts: list[bytes]) -> None: ...
    def seen(self, sender: str, receiver: str, frame: Frame) -> None: ...


class Closable(Protocol):
    """The sockets that the kernel closes when a process ends."""

    def close(self) -> None: ...


class Process:
    """``ended`` is called once, with the exit status (negative for a signal)."""

    def __init__(
        self,
        world: World,
        post: Post,
        name: str,
        epoch: int,
        make: Callable[[ProcessPost], Host],
        *,
        ended: Callable[[Process, int], None],
        turn_ended: Callable[[Process], None],
    ) -> None:
        self.world = world
        self.post = post
        self.name = name
        self.epoch = epoch
        self.alive = True
        self.bound = False  # its mailbox takes frames
        self.frozen = False
        self.lag_s = 0.0  # how far this process's own time runs ahead while it works
        self.kill_after: int | None = None
        self.opened: list[Closable] = []
        self.host: Host | None = None
        self.router: SimRouter | None = None  # of the Supervisor
        self._make = make
        self._ended = ended
        self._turn_ended = turn_ended
        self._mailbox: ProcessPost | None = None
        self._busy_until_s = 0.0
        self._wake_s = float("inf")
        self._wake_number = 0
        self._rng = world.chance(f"turns {name}")
        self._stopping = False

    # --- life ---

    def start(self) -> None:
        """The process has loaded its code: bind the mailbox and begin."""
        if not self.alive:
            return
        if self.frozen:
            self.world.after(0.05, self.start)
            return
        self.world.note("start", self.name)
        self._mailbox = ProcessPost(self)
        self.bound = True
        self._run(self._begin)
        self._after_turn()

    def _begin(self) -> None:
        assert self._mailbox is not None
        self.host = self._make(self._mailbox)
        self.host.begin()

    def effect(self, what: str) -> None:
        """Right before something that the world can see: here a kill that was ordered takes place."""
        if self.kill_after is not None:
            if self.kill_after <= 0:
                self.world.note("killed before", self.name, what)
                raise SimKilled
            self.kill_after -= 1

    def die(self, status: int) -> None:
        """End at once; the kernel closes what was open."""
        if not self.alive:
            return
        self.world.note("dead", self.name, status)
        self.alive = self.bound = False
        for closable in self.opened:
            closable.close()
        self.opened.clear()
        self._ended(self, status)

    def freeze(self, frozen: bool) -> None:
        """SIGSTOP and SIGCONT."""
        if self.alive and frozen != self.frozen:
            self.world.note("frozen" if frozen else "thawed", self.name)
            self.frozen = frozen
            self.wake()

    def run_in_thread(self, job: Callable[[], None], rng: Random) -> None:
        """Run ``job`` a moment later; it may block, so it takes time."""
        self.world.after(0.0005 + rng.random() * 0.01, self._thread, job)

    def _thread(self, job: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.frozen:
            self.world.after(0.05, self._thread, job)
            return
        self._run(job)

    # --- turns ---

    def receive(self, peer: str, frame: Frame) -> None:
        """A frame has arrived."""
        assert self._mailbox is not None
        self._mailbox.frames.append((peer, frame))
        self.wake()

    def wake(self) -> None:
        """Something is to be done; the scheduler gives the process the processor a moment later."""
        self.wake_at(self.world.now_s + 0.00002 + self._rng.random() * 0.0002)

    def wake_at(self, at_s: float) -> None:
        at_s = max(at_s, self._busy_until_s, self.world.now_s)
        if at_s < self._wake_s:
            self._wake_s = at_s
            self._wake_number += 1
            self.world.at(at_s, self._turn, self._wake_number)

    def _turn(self, number: int) -> None:
        if number != self._wake_number or not self.alive or self.frozen or self._mailbox is None:
            if number == self._wake_number:
                self._wake_s = float("inf")
            return
        self._wake_s = float("inf")
        self._run(self._drain)
        self._after_turn()

    def _after_turn(self) -> None:
        if not self.alive or self._mailbox is None:
            return
        self._busy_until_s = self.world.now_s + self.lag_s + 0.00002
        self.lag_s = 0.0
        self._turn_ended(self)
        if self._mailbox.waiting():
            self.wake()
        timer_s = self._mailbox.next_timer_s()
        if timer_s is not None:
            self.wake_at(timer_s)

    def _drain(self) -> None:
        """The results of ``Post.next`` in one turn, in its order."""
        mailbox, host = self._mailbox, self.host
        assert mailbox is not None
        assert host is not None
        some = False
        frames = mailbox.frames
        most = FRAMES_PER_TURN_MAX
        if frames and self._rng.random() < 0.2:
            most = 1 + int(self._rng.random() * 3)
        while (told := mailbox.take_told()) is not None or (frames and most):
            some = True
            if told is None:
                most -= 1
                told = frames.popleft()
            host.give(*told)
        some |= self._give_ready()
        left = TIMERS_PER_TURN_MAX
        while (timer := mailbox.due_timer()) is not None:
            left -= 1
            if not left:
                raise Violation("turn without end", f"{self.name} sets a timer that is due at once: {timer}")
            some = True
            host.give(timer[0], TimerDue(timer[1], mailbox.now_s()))
            if mailbox.looks_again():
                self._give_ready()
        if some:
            host.give("", TurnEnded(mailbox.now_s()))
        if host.ended:
            self.die(0)

    def _give_ready(self) -> bool:
        """The input of the sockets, and what that makes the process tell itself; whether there is any."""
        mailbox, host = self._mailbox, self.host
        assert mailbox is not None
        assert host is not None
        some = False
        for actor, ready in mailbox.ready_sockets().items():
            some = True
            host.give(actor, SocketsReady(ready))
        while (told := mailbox.take_told()) is not None:
            some = True
            host.give(*told)
        return some

    def _run(self, job: Callable[[], None]) -> None:
        _current.append(self)
        try:
            job()
        except SimKilled:
            self.die(KILLED)
        except Unavailable as error:
            self.world.note("unavailable", self.name, str(error))
            self.die(error.exit_status)
        except Exception as error:  # whatever an actor raises is what the simulation looks for
            where = "".join(traceback.format_exception(error)[-3:])
            raise Violation("crash", f"{self.name} failed: {error!r}\n{where}") from error
        finally:
            _current.pop()
