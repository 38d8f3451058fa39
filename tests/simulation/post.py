"""Frames between processes, with the semantics of ZeroMQ over ipc.

First in, first out per sender and receiver. A frame to a peer that is away stays with the sender and reaches the peer's next life.
Of what was on its way to a peer that dies, the first frames are lost with it; of what a sender that dies sent last, some is lost
with it, and all of it if the peer was away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tests.simulation.process import Process
from tests.simulation.world import World
from wire.frames.codec import decode
from wire.frames.frame import Frame

RECONNECT_S = 0.012


class _Pipe:
    __slots__ = ("due", "orphan", "receiver", "sender")

    def __init__(self, sender: Process, receiver: str) -> None:
        self.sender = sender
        self.receiver = receiver
        self.due: deque[tuple[float, str, list[bytes]]] = deque()
        self.orphan = False


class SimPost:
    """``receiver_of`` finds the life that listens under a name now; ``seen`` is told of each frame that is handed over.

    Senders and receivers are processes; a frame says for which actor it is.
    """

    def __init__(self, world: World, receiver_of: Callable[[str], Process | None], seen: Callable[[str, str, Frame], None]) -> None:
        self._world = world
        self._receiver_of = receiver_of
        self.seen = seen
        self._pipes: dict[tuple[int, str], _Pipe] = {}
        self._rng = world.chance("post")
        self.slow: dict[tuple[str, str], float] = {}  # (sender, receiver) -> until when frames between them are late

    def send(self, sender: Process, receiver: str, peer: str, parts: list[bytes]) -> None:
        """Take a frame for an actor or a child in the process ``receiver``, or for that itself."""
        key = (id(sender), receiver)
        pipe = self._pipes.get(key)
        if pipe is None:
            pipe = self._pipes[key] = _Pipe(sender, receiver)
        chance = self._rng.random()
        delay_s = 0.00005 + chance * 0.0002 if chance < 0.9 else chance * 0.005
        until_s = self.slow.get((sender.name, receiver), 0.0)
        if until_s > self._world.now_s:
            delay_s += self._rng.random() * (until_s - self._world.now_s)
        due_s = self._world.now_s + sender.lag_s + delay_s
        if pipe.due and pipe.due[-1][0] > due_s:
            due_s = pipe.due[-1][0]
        pipe.due.append((due_s, peer, list(parts)))
        self._world.at(due_s, self._arrive, pipe)

    def bound(self, receiver: str) -> None:
        """A new life listens under that name: what waited for it comes."""
        for pipe in list(self._pipes.values()):
            if pipe.receiver == receiver and pipe.due:
                back_s = self._world.now_s + RECONNECT_S * (0.2 + self._rng.random())
                pipe.due = deque((max(due_s, back_s), peer, parts) for due_s, peer, parts in pipe.due)
                for due_s, _, _ in pipe.due:
                    self._world.at(due_s, self._arrive, pipe)

    def died(self, process: Process) -> None:
        """Frames are lost with the process that died."""
        for key, pipe in list(self._pipes.items()):
            if pipe.sender is process:
                receiver = self._receiver_of(pipe.receiver)
                keep = int(self._rng.random() * (len(pipe.due) + 1)) if receiver is not None else 0
                while len(pipe.due) > keep:
                    pipe.due.pop()
                pipe.orphan = True
                if not pipe.due:
                    del self._pipes[key]
            elif pipe.receiver == process.name and pipe.due:
                lost = len(pipe.due) if pipe.orphan else int(self._rng.random() * (len(pipe.due) + 1))
                for _ in range(lost):
                    pipe.due.popleft()

    def _arrive(self, pipe: _Pipe) -> None:
        receiver = self._receiver_of(pipe.receiver)
        if receiver is None:
            return
        while pipe.due and pipe.due[0][0] <= self._world.now_s:
            _, peer, parts = pipe.due.popleft()
            frame = decode(parts)
            self._world.note("frame", pipe.sender.name, peer, frame)
            self.seen(pipe.sender.name, peer, frame)
            receiver.receive(peer, frame)
