"""Options of the whole test run, and the real partners most end-to-end tests start with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node

StartNode = Callable[[Config], Node]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--soak SECONDS``: how long each open-ended test goes on; without it they stay short."""
    parser.addoption("--soak", type=float, default=None, metavar="SECONDS", help="give each open-ended test that many seconds")


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the open-ended tests may take their time."""
    return request.config.getoption("--soak") is not None


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Mosquitto]:
    """A stock Mosquitto that runs."""
    with Mosquitto(tmp_path / "remote") as broker:
        yield broker


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[StartNode]:
    """Starts nodes, each in a folder of its own; they end with the test."""
    with ExitStack() as nodes:
        count = iter(range(1000))
        yield lambda config: nodes.enter_context(Node(config, tmp_path / f"node-{next(count)}"))
