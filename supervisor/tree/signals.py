"""Signals as a readable descriptor, from the first moment of a start to the last of the end: the handler only enqueues.

The command line blocks them before it imports anything, and the kernel keeps them for the program that it becomes. So they are
lost at no moment, also as PID 1, which no signal ends by itself.
"""

from __future__ import annotations

import os
import signal
from types import TracebackType
from typing import Self

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stopped(Exception):
    """A signal has ended the start."""


def block() -> None:
    """Have the kernel keep what comes, for this program and for what it becomes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def has_ended_the_start() -> bool:
    """Whether SIGTERM or SIGINT is kept."""
    return bool(signal.sigpending() - {signal.SIGHUP})


def unblock() -> None:
    """Take what has come, and what comes."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


class SignalPipe:
    """Turns ``SIGNALS``, those that were kept first, into bytes in a pipe, while the context lasts. Made in the main thread."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._previous_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._previous = {number: signal.signal(number, lambda _number, _frame: None) for number in SIGNALS}
        unblock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._read_fd)
        os.close(self._write_fd)

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

    def check(self) -> None:
        """Go on with a start, if nobody wants it to end; SIGHUP waits for ``read``.

        Raises:
            Stopped: SIGTERM or SIGINT has come.
        """
        came = self.read()
        if set(came) - {signal.SIGHUP}:
            raise Stopped
        os.write(self._write_fd, bytes(came[:1]))
