"""A remote behind a buffer and a slow wire, on a clock that the test moves."""

from __future__ import annotations

from collections import deque

from actors.remote.remote_socket import Connack, Remote
from wire.exchange.remote_dialects import Dialect

RATE = 1_000  # bytes a second


class SlowRemote(Remote):
    """A remote behind a buffer and a slow wire; it answers what is whole."""

    dialect = Dialect(4)

    def __init__(self, kernel_bytes: int) -> None:
        self.connack = Connack(session_present=True)
        self.address = "far:1"
        self.closed = False
        self.arrived = b""
        self.rate = float(RATE)
        self.answers: deque[tuple[bytes, bytes]] = deque()  # what ends with the first is answered with the second
        self._kernel_bytes = kernel_bytes
        self._kernel = b""
        self._incoming = b""
        self._carried = 0.0

    def fileno(self) -> int:
        return 3

    @property
    def room(self) -> int:
        return self._kernel_bytes - len(self._kernel)

    def send(self, data: memoryview) -> int:
        taken = bytes(data[: self.room])
        self._kernel += taken
        return len(taken)

    def receive(self) -> bytes:
        data, self._incoming = self._incoming, b""
        return data

    def unsent_bytes(self) -> int:
        return len(self._kernel)

    def close(self) -> None:
        self.closed = True

    def say(self, data: bytes) -> None:
        """Have ``data`` read next."""
        self._incoming += data

    def pass_time(self, period_s: float) -> None:
        """Carry what can be carried."""
        self._carried += self.rate * period_s
        count = min(int(self._carried), len(self._kernel))
        self._carried -= int(self._carried)
        self.arrived += self._kernel[:count]
        self._kernel = self._kernel[count:]
        while self.answers and self.answers[0][0] in self.arrived:
            asked, answer = self.answers.popleft()
            self.arrived = self.arrived.partition(asked)[2]
            self._incoming += answer
