"""Generated snapshots, made once for all tests that only read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.made_snapshots.generate import Made, Wanted, generate


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A day of one node in three snapshots: all that a node may have is in there."""
    return generate(Wanted(messages=6000, snapshots=3, seed=7), tmp_path_factory.mktemp("day"))


@pytest.fixture(scope="session")
def middle(day: Made) -> Path:
    """The snapshot in the middle of the day: backlogs, messages in flight, dead letters."""
    return day.snapshots[1]
