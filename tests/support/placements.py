"""The placement of the nodes that a test starts, unless its configuration says one.

Half of the tests of ``SUITES`` have their actors in one process, by a hash of the test's name: the same half each time, so that a
failure comes again, and a run takes no longer than with one placement. ``--placement together`` and ``isolated`` are for all tests.
"""

from __future__ import annotations

from zlib import crc32

import pytest

ISOLATED, TOGETHER, ALTERNATING = "isolated", "together", "alternating"
one_process_alone = pytest.mark.placement(ISOLATED)  # stands still or dies while the others go on: together, none goes on
SUITES = (
    "tests/bridge/",
    "tests/broker/",
    "tests/conformance/",
    "tests/faults/",
    "tests/hostile/",
    "tests/snapshots/",
    "tests/supervisor/",
)

_now = ISOLATED


def choose(name: str, wanted: str, marked: str | None) -> str:
    """The placement for the test, or what several tests share, called ``name``.

    wanted: the choice for the whole run. marked: the only placement in which the test has a meaning, if so.
    """
    if marked is not None:
        return marked
    if wanted != ALTERNATING:
        return wanted
    return TOGETHER if name.startswith(SUITES) and crc32(name.encode()) & 1 else ISOLATED


def have(placement: str) -> str:
    """Nodes that are made from now on have ``placement``; the one until now."""
    global _now
    before, _now = _now, placement
    return before


def now() -> str:
    """The placement of a node that is made now."""
    return _now
