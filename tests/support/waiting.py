"""Waiting for a condition with a deadline: the only place in the tests that polls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

_Value = TypeVar("_Value")
_PERIOD_S = 0.01
_PERIOD_MAX_S = 0.1  # a look costs: a status the node some milliseconds, its processes a walk through /proc
_PART = 20  # of the time that has passed

# Nobody is given less: while all is well it costs nothing, and on a loaded machine a process may stand still for seconds.
PATIENCE_S = 60.0


def wait_until(
    condition: Callable[[], _Value], deadline_s: float, what: str | Callable[[], str], *, period_s: float = _PERIOD_S
) -> _Value:
    """The first true value of ``condition``; fails the test with ``what`` when there is none in time.

    In time is within ``deadline_s`` seconds, or ``PATIENCE_S`` if that is more. It is looked at each ``period_s`` seconds, and less
    often when it takes long.
    """
    began_s = time.monotonic()
    end_s = began_s + max(deadline_s, PATIENCE_S)
    while True:
        value = condition()
        if value:
            return value
        waited_s = time.monotonic() - began_s
        if began_s + waited_s >= end_s:
            pytest.fail(f"not within {waited_s:.0f} s: {what if isinstance(what, str) else what()}", pytrace=True)
        time.sleep(max(period_s, min(waited_s / _PART, _PERIOD_MAX_S)))


def wait_still(value: Callable[[], _Value], *, period_s: float = 0.5) -> _Value:
    """``value`` once it has been the same for ``period_s``; fails the test when it never is."""
    seen, since_s = value(), time.monotonic()

    def is_still() -> bool:
        nonlocal seen, since_s
        now = value()
        if now != seen:
            seen, since_s = now, time.monotonic()
        return time.monotonic() - since_s >= period_s

    wait_until(is_still, PATIENCE_S, lambda: f"{period_s:g} s without a change; it is {seen} now")
    return seen


def holds_for(condition: Callable[[], bool], period_s: float, what: str) -> None:
    """Fail the test with ``what`` if ``condition`` is ever false within the next ``period_s`` seconds."""
    end_s = time.monotonic() + period_s
    while time.monotonic() < end_s:
        if not condition():
            pytest.fail(what, pytrace=True)
        time.sleep(_PERIOD_S)
