"""Waiting for a condition with a deadline: the only place in the tests that polls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

_Value = TypeVar("_Value")
_PERIOD_S = 0.01


def wait_until(
    condition: Callable[[], _Value], deadline_s: float, what: str | Callable[[], str], *, period_s: float = _PERIOD_S
) -> _Value:
    """The first true value of ``condition``; fails the test with ``what`` when there is none within ``deadline_s`` seconds."""
    end_s = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end_s:
            pytest.fail(f"not within {deadline_s:g} s: {what if isinstance(what, str) else what()}", pytrace=True)
        time.sleep(period_s)


def holds_for(condition: Callable[[], bool], period_s: float, what: str) -> None:
    """Fail the test with ``what`` if ``condition`` is ever false within the next ``period_s`` seconds."""
    end_s = time.monotonic() + period_s
    while time.monotonic() < end_s:
        if not condition():
            pytest.fail(what, pytrace=True)
        time.sleep(_PERIOD_S)
