"""Asks the node, as any client of the control socket does; the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError
from supervisor.http.figures import HttpFigures

_Answer = TypeVar("_Answer")


class NodeCalls:
    """At most ``calls_max`` at a time; one more is refused at once, so that nobody waits for those who ask too much.

    ``ask_for_health`` has one call to itself: whatever others ask, it is known whether the node is ready.
    """

    def __init__(self, run_dir: Path, calls_max: int, figures: HttpFigures) -> None:
        self._node = ControlClient.of_run_dir(run_dir)
        self._calls_max = calls_max
        self._figures = figures
        self._threads = ThreadPoolExecutor(calls_max + 1, thread_name_prefix="call")
        self._under_way = 0
        self._health: asyncio.Future[dict[str, Any]] | None = None

    async def ask(self, what: Callable[[ControlClient], _Answer]) -> _Answer:
        """``what`` of the node, by its client, in a thread.

        Raises:
            NotRunning: nobody answers.
            ControlError: the node refused, or too many ask already.
        """
        if self._under_way >= self._calls_max:
            self._figures.refuse("busy")
            raise ControlError("busy", f"{self._calls_max} requests are under way already")
        self._under_way += 1
        try:
            return await self._run(what)
        finally:
            self._under_way -= 1

    async def ask_for_health(self) -> dict[str, Any]:
        """The node's status; whoever asks while that is under way gets the same.

        Raises:
            NotRunning: nobody answers.
            ControlError: the node refused.
        """
        if self._health is None:
            self._health = asyncio.ensure_future(self._run(ControlClient.status))
            self._health.add_done_callback(lambda _: setattr(self, "_health", None))
        return await asyncio.shield(self._health)

    async def _run(self, what: Callable[[ControlClient], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, what, self._node)
