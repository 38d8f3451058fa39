"""The two brokers between which the tests of remote subscriptions put a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mosquitto import Mosquitto


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Mosquitto]:
    """The remote that is subscribed to; without limits, because with them 2.0 drops and reorders."""
    with Mosquitto(tmp_path / "source", max_inflight_messages=0, max_queued_messages=0) as broker:
        yield broker


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Mosquitto]:
    """The remote that everything goes on to."""
    with Mosquitto(tmp_path / "sink", max_inflight_messages=0, max_queued_messages=0) as broker:
        yield broker
