"""TCP connections between a product's socket and a model: byte streams with latency, short reads and writes, cuts at any byte.

The product's end is a ``SimSocket``. The model's end is a ``Far``: it sees each byte twice, when it is *written* (which is when a
promise is made) and when it has *arrived* (which is when the other side learns of it).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from actors.process.mailbox import HANGUP, LEFT, READ, WRITE
from tests.simulation.world import Pollable, World

Effect = Callable[[str], None]


class Far:
    """The model's end of a connection."""

    def written(self, data: bytes) -> None:
        """The product has written ``data``; it may never arrive."""

    def arrived(self, count: int) -> None:
        """The next ``count`` of the written bytes have arrived."""

    def gone(self) -> None:
        """The connection is closed."""


class Link:
    """Both directions. ``cut_out``, ``cut_in``: bytes left until the connection breaks, None for never."""

    def __init__(self, world: World, rng: Random, effect: Effect, far: Far, *, window_bytes: int, latency_s: float) -> None:
        self.world = world
        self.rng = rng
        self.far = far
        self.cut_out: int | None = None
        self.cut_in: int | None = None
        self.silent = False  # half open: nothing arrives in either direction, and nobody is told
        self.broken = False
        self.near = SimSocket(self, effect)
        self._window_bytes = window_bytes
        self._latency_s = latency_s
        self._out: deque[tuple[float, int]] = deque()
        self._in: deque[tuple[float, bytes]] = deque()
        self._out_bytes = 0
        self._torn_out = self._torn_in = False  # the cut was reached: nothing behind it arrives any more
        self._far_gone = False
        self._near_closed = False

    # --- out: product to model ---

    def room(self) -> int:
        """Bytes that the socket takes now."""
        return self._window_bytes - self._out_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes written that have not arrived."""
        return self._out_bytes

    def write(self, data: bytes) -> None:
        self.far.written(data)
        if self.silent:
            self._out_bytes += len(data)
            return
        count = len(data)
        cut = False
        if self._torn_out:
            self.cut_out = 0
        if self.cut_out is not None:
            cut = self._torn_out = self.cut_out <= count
            count = min(count, self.cut_out)
            self.cut_out -= count
        while count:
            piece = 1 + int(self.rng.random() * count) if self.rng.random() < 0.15 else count
            due_s = self._due_s(self._out[-1][0] if self._out else 0.0)
            self._out.append((due_s, piece))
            self._out_bytes += piece
            self.world.at(due_s, self._arrive_out)
            count -= piece
        if cut:
            self.world.at(self._due_s(self._out[-1][0] if self._out else 0.0), self.sever)

    def _arrive_out(self) -> None:
        while self._out and self._out[0][0] <= self.world.now_s:
            _, count = self._out.popleft()
            self._out_bytes -= count
            if not self._far_gone and not self.silent:
                self.far.arrived(count)
        self.near.changed()

    # --- in: model to product ---

    def send(self, data: bytes) -> None:
        """The model sends ``data``."""
        if self.broken or self._near_closed or self.silent:
            return
        cut = False
        if self._torn_in:
            self.cut_in = 0
        if self.cut_in is not None:
            cut = self._torn_in = self.cut_in <= len(data)
            data = data[: self.cut_in]
            self.cut_in -= len(data)
        while data:
            piece = 1 + int(self.rng.random() * len(data)) if self.rng.random() < 0.15 else len(data)
            due_s = self._due_s(self._in[-1][0] if self._in else 0.0)
            self._in.append((due_s, data[:piece]))
            self.world.at(due_s, self._arrive_in)
            data = data[piece:]
        if cut:
            self.world.at(self._due_s(self._in[-1][0] if self._in else 0.0), self.sever)

    def _arrive_in(self) -> None:
        while self._in and self._in[0][0] <= self.world.now_s:
            _, data = self._in.popleft()
            if not self.silent and not self._near_closed:
                self.near.incoming += data
        self.near.changed()

    # --- the end ---

    def hang_up(self) -> None:
        """The model closes its end, after what it has sent."""
        if not self._far_gone:
            self._far_gone = True
            due_s = self._due_s(self._in[-1][0] if self._in else 0.0)
            self.world.at(due_s, self._eof)

    def _eof(self) -> None:
        if not self.silent:
            self.near.eof = True
            self.near.changed()

    def sever(self) -> None:
        """The connection breaks: what is on its way is lost, and both ends learn of it."""
        if self.broken:
            return
        self.broken = True
        self._in.clear()
        self._out.clear()
        self.near.reset = True
        self.near.changed()
        self._far_is_gone()

    def near_shut(self) -> None:
        """The product sends no more and throws away what comes: the far end hears that it has closed, and closes too."""
        self.near_closed()
        if not self.silent:
            self.world.at(self._due_s(self._out[-1][0] if self._out else 0.0), self._eof)

    def near_closed(self) -> None:
        """The product closes its end, or has died: what it wrote still arrives."""
        self._near_closed = True
        if self.silent:
            return
        self.world.at(self._due_s(self._out[-1][0] if self._out else 0.0), self._far_is_gone)

    def _far_is_gone(self) -> None:
        if not self._far_gone:
            self._far_gone = True
            self.far.gone()

    def _due_s(self, last_s: float) -> float:
        chance = self.rng.random()
        return max(last_s, self.world.now_s + self._latency_s * (0.5 + chance if chance < 0.9 else 10 * chance))


class SimSocket(Pollable):
    """The product's end: a socket that does not block."""

    def __init__(self, link: Link, effect: Effect) -> None:
        super().__init__(link.world)
        self.incoming = bytearray()
        self.eof = False
        self.reset = False
        self.closed = False
        self._link = link
        self._effect = effect

    def readiness(self) -> int:
        if self.closed:
            return 0
        if self.reset:
            return READ | WRITE | LEFT
        reads = READ if self.incoming or self.eof else 0
        return reads | (WRITE if self._link.room() > 0 else 0) | (LEFT & ~HANGUP if self.eof else 0)

    def recv(self, size: int) -> bytes:
        self._effect("recv")
        if self.reset:
            raise ConnectionResetError("reset by peer")
        if self.incoming:
            data = bytes(self.incoming[:size])
            del self.incoming[:size]
            return data
        if self.eof:
            return b""
        raise BlockingIOError

    def recv_into(self, buffer: memoryview, size: int) -> int:
        data = self.recv(size)
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: Any) -> int:
        self._effect("write")
        if self.reset or self.closed:
            raise BrokenPipeError("broken pipe")
        size = min(len(data), self._link.room())
        if size <= 0:
            raise BlockingIOError
        if size > 1 and self._link.rng.random() < 0.1:
            size = 1 + int(self._link.rng.random() * size)
        self._link.write(bytes(data[:size]))
        return size

    def unsent_bytes(self) -> int:
        """Written and not arrived, as ``TIOCOUTQ`` tells."""
        return self._link.unsent_bytes

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._link.near_closed()

    def shutdown(self, how: int) -> None:
        self._effect("shutdown")
        if self.reset or self.closed:
            raise OSError("not connected")
        self._link.near_shut()

    def setblocking(self, blocking: bool) -> None:
        assert not blocking

    def setsockopt(self, *option: int) -> None:
        pass
