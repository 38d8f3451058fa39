"""What a long report says of itself on standard error: on a terminal a line that changes, else a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType

SILENT_S = 5.0  # steps that follow each other faster are not told where no terminal is

_CLEAR = "\r\x1b[K"


class Progress:
    """Use it in ``with``: the line that changes goes at the end."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = False
        self._told_s = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._clear()

    def say(self, text: str) -> None:
        """``text``, which stays."""
        self._clear()
        print(text, file=sys.stderr, flush=True)
        self._told_s = time.monotonic()

    def step(self, text: str) -> None:
        """What is done now."""
        if self._terminal:
            print(f"{_CLEAR}{text}", end="", file=sys.stderr, flush=True)
            self._shown = True
        elif time.monotonic() - self._told_s >= SILENT_S:
            self.say(text)

    def _clear(self) -> None:
        if self._shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
            self._shown = False
