"""Signals as a readable descriptor: the handler only enqueues, the loop decides."""

from __future__ import annotations

import os
import signal


class SignalPipe:
    """Turns ``numbers`` into bytes in a pipe. Use it in the main thread; ``close`` restores what was there before."""

    def __init__(self, numbers: tuple[signal.Signals, ...]) -> None:
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._previous_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._previous = {number: signal.signal(number, lambda _number, _frame: None) for number in numbers}

    def fileno(self) -> int:
        """Readable when a signal has come."""
        return self._read_fd

    def read(self) -> list[signal.Signals]:
        """The signals that came since the last call."""
        try:
            came = os.read(self._read_fd, 256)
        except BlockingIOError:
            return []
        return [signal.Signals(number) for number in came if signal.Signals(number) in self._previous]

    def close(self) -> None:
        """Stop listening."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._read_fd)
        os.close(self._write_fd)
