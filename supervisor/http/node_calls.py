"""Asks the node, as any client of the control socket does; the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from supervisor.control.control_socket import ControlError, call
from supervisor.http.figures import HttpFigures

CALL_TIMEOUT_S = 5.0


class NodeCalls:
    """At most ``calls_max`` at a time; one more is refused at once, so that nobody waits for those who ask too much."""

    def __init__(self, run_dir: Path, calls_max: int, figures: HttpFigures) -> None:
        self._run_dir = run_dir
        self._calls_max = calls_max
        self._figures = figures
        self._threads = ThreadPoolExecutor(calls_max, thread_name_prefix="call")
        self._under_way = 0

    async def call(self, command: str, timeout_s: float = CALL_TIMEOUT_S, **arguments: str | None) -> Any:
        """Have the node carry out ``command``, and return its result; arguments that are None are left out.

        Raises:
            NotRunning: nobody answers.
            ControlError: the node refused, or too many ask already.
        """
        if self._under_way >= self._calls_max:
            self._figures.refuse("busy")
            raise ControlError("busy", f"{self._calls_max} requests are under way already")
        given = {name: value for name, value in arguments.items() if value is not None}
        self._under_way += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, partial(call, self._run_dir, command, given, timeout_s=timeout_s))
        finally:
            self._under_way -= 1
