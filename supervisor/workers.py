"""Work that blocks, done in threads one after the other, and what is done about it afterwards in the actor."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from actors.process.actor import PolledActor
from wire.errors import BasculeError, Unavailable

THREAD_NICE = 10  # it gives way to messages

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Then:
    """Thread -> Supervisor: work has ended; what is to be done about it."""

    do: Callable[[], None]


class Worker:
    """One thing at a time, in the order of the calls; another worker does not wait for it."""

    def __init__(self, host: PolledActor, name: str) -> None:
        self._host = host
        self._name = name
        self._waiting: deque[Callable[[], None]] = deque()
        self.busy = False

    def do(
        self, work: Callable[[], _Result], done: Callable[[_Result], None], failed: Callable[[OSError | BasculeError], None]
    ) -> None:
        """Have ``work`` done in a thread, then in the actor what follows from its result or its error."""
        self._waiting.append(partial(self._run, work, done, failed))
        self._next()

    def _next(self) -> None:
        if self._waiting and not self.busy:
            self.busy = True
            self._host.mailbox.in_thread(self._name, self._waiting.popleft())

    def _run(
        self, work: Callable[[], _Result], done: Callable[[_Result], None], failed: Callable[[OSError | BasculeError], None]
    ) -> None:
        then: Callable[[], None] = partial(failed, Unavailable("an error of our own, which standard error shows"))
        try:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), THREAD_NICE)
            then = partial(done, work())
        except (OSError, BasculeError) as error:
            then = partial(failed, error)
        finally:
            self._host.send_from_thread(Then(partial(self._on_ended, then)))

    def _on_ended(self, then: Callable[[], None]) -> None:
        self.busy = False
        then()
        self._next()


def words(error: OSError | BasculeError) -> str:
    """The fault, in words."""
    if isinstance(error, BasculeError):
        return str(error)
    return f"{error.strerror or error} ({error.filename})" if error.filename else str(error)
