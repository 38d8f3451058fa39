"""A TCP proxy between a node and its remote that can be cut, torn, stalled (connections stand, nothing passes) and delayed.

A ``Tap`` sees what passes.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from types import TracebackType
from typing import Protocol, Self

from tests.support.waiting import PATIENCE_S

_CHUNK_BYTES = 65_536
_SEGMENT_BYTES = 1_460  # of TCP on Ethernet


class Tap(Protocol):
    """Sees what passes; connections are numbered. It is called in the proxy's thread."""

    def opened(self, connection: int) -> None:
        """A connection to the target is open."""

    def passed_up(self, connection: int, data: bytes) -> None:
        """``data`` goes to the target now."""

    def came_down(self, connection: int, data: bytes) -> None:
        """``data`` came from the target and goes on now, or later, or never."""


class Proxy:
    """Listens on ``port`` and passes every connection on to ``target_port``, in a thread of its own."""

    def __init__(self, target_port: int, *, target_host: str = "127.0.0.1", tap: Tap | None = None) -> None:
        self._target = (target_host, target_port)
        self._tap = tap
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._cut = threading.Event()
        self._stalled = threading.Event()
        self._obeys_cut = threading.Event()
        self._obeys_stall = threading.Event()
        self._ending = threading.Event()
        self._delay_s = 0.0
        self._bytes_per_s = 0.0
        self._allowed = 0.0  # bytes that may pass now
        self._refilled_s = 0.0
        self.passed_bytes = 0  # both ways
        self._abandoning = threading.Event()
        self._left_bytes: int | None = None
        self._refused: tuple[int | None, bytes] = (None, b"")
        self.connects: list[int] = []  # the protocol level of each CONNECT
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._upward: dict[socket.socket, int] = {}  # sockets towards the target and the numbers of their connections
        self._abandoned: list[socket.socket] = []
        self._late: deque[tuple[float, socket.socket, bytes]] = deque()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join(PATIENCE_S)

    def aim(self, target_port: int) -> None:
        """Pass on to ``target_port`` what connects from now on."""
        self._target = (self._target[0], target_port)

    def cut(self) -> None:
        """Close every connection and refuse new ones, until ``restore``. On return they are closed."""
        self._order(self._cut, self._obeys_cut)

    def stall(self) -> None:
        """Pass nothing on, and close nothing, until ``restore``. On return nothing passes any more."""
        self._order(self._stalled, self._obeys_stall)

    def abandon(self) -> None:
        """Never pass anything on again on the connections there are, and never close them; new ones work (half-open)."""
        self._abandoning.set()

    def refuse(self, level: int | None, answer: bytes = b"") -> None:
        """Answer a CONNECT of that protocol level itself, as a broker that does not know it, and close; None: of none any more."""
        self._refused = (level, answer)

    def tear(self, left_bytes: int) -> None:
        """Pass on that many bytes more, wherever in a packet they end, then close that connection; new ones work."""
        self._left_bytes = left_bytes

    def delay(self, seconds: float) -> None:
        """Pass everything on this much later."""
        self._delay_s = seconds

    def throttle(self, bits_per_s: float) -> None:
        """Pass no more than that on from now on, both ways together and each connection in turn, as a thin link does."""
        self._bytes_per_s, self._refilled_s = bits_per_s / 8, time.monotonic()

    def restore(self) -> None:
        """Work again."""
        self._cut.clear()
        self._stalled.clear()

    def _order(self, order: threading.Event, obeys: threading.Event) -> None:
        """Give the thread an order, and wait until it obeys."""
        obeys.clear()
        order.set()
        if self._thread.is_alive():
            obeys.wait(PATIENCE_S)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._ending.is_set():
                if self._cut.is_set():
                    self._close_all(selector)
                    self._obeys_cut.set()
                if self._abandoning.is_set():
                    self._abandon_all(selector)
                self._pass_late(selector)
                if self._stalled.is_set():
                    self._obeys_stall.set()
                    self._ending.wait(0.01)
                    continue
                for key, _ in selector.select(0.01):
                    assert isinstance(key.fileobj, socket.socket)
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    else:
                        self._wait_for_turn()
                        self._pass_on(selector, key.fileobj)
            self._close_all(selector)
        for one in (self._listener, *self._abandoned):
            one.close()

    def _wait_for_turn(self) -> None:
        """Wait until the link is free for one more segment."""
        while self._bytes_per_s and self._allowed <= 0:
            now_s = time.monotonic()
            self._allowed = min(_SEGMENT_BYTES, self._allowed + (now_s - self._refilled_s) * self._bytes_per_s)
            self._refilled_s = now_s
            if self._allowed <= 0:
                self._ending.wait(-self._allowed / self._bytes_per_s)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        near, _ = self._listener.accept()
        if self._cut.is_set():
            near.close()
            return
        try:
            far = socket.create_connection(self._target, timeout=10.0)
        except OSError:
            near.close()
            return
        self.connections += 1
        self._upward[far] = self.connections
        if self._tap is not None:
            self._tap.opened(self.connections)
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(PATIENCE_S)
            self._pairs[one] = other
            selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, selector: selectors.BaseSelector, source: socket.socket) -> None:
        target = self._pairs.get(source)
        if target is None:
            return
        try:
            data = source.recv(_SEGMENT_BYTES if self._bytes_per_s else _CHUNK_BYTES)
            self._allowed -= len(data)
            self.passed_bytes += len(data)
            if target in self._upward and data[:1] == b"\x10":
                self.connects.append(data[data.index(b"MQTT") + 4])
                if self.connects[-1] == self._refused[0]:
                    source.sendall(self._refused[1])
                    data = b""
            if data and self._tap is not None and source in self._upward:
                self._tap.came_down(self._upward[source], data)
            if data and (self._delay_s or self._late):
                self._late.append((time.monotonic() + self._delay_s, target, data))
            elif data:
                self._send(target, data)
        except OSError:
            data = b""
        if not data:
            self._close(selector, source)

    def _pass_late(self, selector: selectors.BaseSelector) -> None:
        while self._late and self._late[0][0] <= time.monotonic() and not self._stalled.is_set():
            _, target, data = self._late.popleft()
            try:
                if target in self._pairs:
                    self._send(target, data)
            except OSError:
                self._close(selector, target)

    def _send(self, target: socket.socket, data: bytes) -> None:
        """Send ``data``, or what is left before the connection tears.

        Raises:
            OSError: the connection is broken, or torn now.
        """
        left_bytes = self._left_bytes
        if left_bytes is not None:
            data = data[:left_bytes]
            self._left_bytes = None if left_bytes <= len(data) else left_bytes - len(data)
        if self._tap is not None and target in self._upward:
            self._tap.passed_up(self._upward[target], data)
        target.sendall(data)
        if left_bytes is not None and self._left_bytes is None:
            raise ConnectionAbortedError("torn")

    def _close(self, selector: selectors.BaseSelector, one: socket.socket) -> None:
        other = self._pairs.pop(one)
        self._pairs.pop(other)
        for end in (one, other):
            selector.unregister(end)
            self._upward.pop(end, None)
            end.close()

    def _close_all(self, selector: selectors.BaseSelector) -> None:
        while self._pairs:
            self._close(selector, next(iter(self._pairs)))
        self._late.clear()

    def _abandon_all(self, selector: selectors.BaseSelector) -> None:
        self._abandoning.clear()
        for end in self._pairs:
            selector.unregister(end)
            self._upward.pop(end, None)
        self._abandoned += self._pairs
        self._pairs.clear()
        self._late.clear()
