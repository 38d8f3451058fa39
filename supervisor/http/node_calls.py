"""Asks the node, as any client of the control socket does; the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError
from supervisor.http.http_counts import HttpCounts
from wire.status.node_status import Status
from wire.status.refusals import Refusal

_CALLER: ContextVar[str] = ContextVar("_CALLER", default="")
WAITING_MAX = 16  # of one caller
STATUS_PERIOD_S = 0.2  # to tell its status costs the node some 10 ms of its supervisor's time

_Answer = TypeVar("_Answer")


class NodeCalls:
    """At most ``calls_max`` at a time; one more is refused at once, so that nobody waits for those who ask too much.

    Of each caller the node has one call under way, as of each key (tree.one-question-each); the next ones wait for that.

    The status is asked for one call after the other, and not more often than once in ``STATUS_PERIOD_S``: all who wait for the next
    one share it. So what is told is never older than the question, and nobody keeps the node from its messages by asking for it.
    """

    def __init__(self, run_dir: Path, calls_max: int, figures: HttpCounts) -> None:
        self._node = ControlClient.of_run_dir(run_dir)
        self._calls_max = calls_max
        self._figures = figures
        self._threads = ThreadPoolExecutor(calls_max + 1, thread_name_prefix="call")
        self._under_way = 0
        self._turns: dict[str, asyncio.Lock] = {}  # of the callers that have a call under way
        self._waiting: Counter[str] = Counter()  # by caller, with the one that is under way
        self._status: asyncio.Task[Status] | None = None  # the last one that was begun
        self._next_status: asyncio.Task[Status] | None = None  # the one that waits for its time
        self._status_due_s = 0.0

    def speak_for(self, caller: str) -> None:
        """Questions of the present task are asked for the caller of that name."""
        _CALLER.set(caller)

    async def ask(self, what: Callable[[ControlClient], _Answer]) -> _Answer:
        """``what`` of the node, by its client, in a thread.

        Raises:
            NotRunning: nobody answers.
            ControlError: the node refused, or too many ask already.
        """
        caller = _CALLER.get()
        if self._waiting[caller] >= WAITING_MAX:
            self._figures.refuse("busy")
            raise ControlError(Refusal.BUSY, f"{WAITING_MAX} requests of this caller are waiting already")
        self._waiting[caller] += 1
        try:
            async with self._turns.setdefault(caller, asyncio.Lock()):
                return await self._ask_now(what)
        finally:
            self._waiting[caller] -= 1
            if not self._waiting[caller]:
                del self._waiting[caller], self._turns[caller]

    async def _ask_now(self, what: Callable[[ControlClient], _Answer]) -> _Answer:
        if self._under_way >= self._calls_max:
            self._figures.refuse("busy")
            raise ControlError(Refusal.BUSY, f"{self._calls_max} requests are under way already")
        self._under_way += 1
        try:
            return await self._run(what)
        finally:
            self._under_way -= 1

    async def status(self) -> Status:
        """The node's status, which belongs to all who share it.

        Raises:
            NotRunning: nobody answers.
            ControlError: the node refused.
        """
        if self._next_status is None:
            self._next_status = asyncio.create_task(self._ask_for_status(self._status))
        return await asyncio.shield(self._next_status)

    async def _ask_for_status(self, before: asyncio.Task[Status] | None) -> Status:
        if before is not None:
            await asyncio.wait([before])
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._status_due_s - loop.time())
        self._status, self._next_status = self._next_status, None
        self._status_due_s = loop.time() + STATUS_PERIOD_S
        return await self._run(ControlClient.status)

    async def _run(self, what: Callable[[ControlClient], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, what, self._node)
