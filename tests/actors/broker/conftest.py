"""A clients' process whose store knows a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.session_desk import Door


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """The store has the session of one client, named kept."""
    door = Door(tmp_path, "kept")
    yield door
    door.close()
