"""Options of the whole test run, its limits, and the real partners most end-to-end tests start with.

A test that hangs fails: after ``timeout`` (pyproject.toml) pytest-timeout breaks into it and shows the stacks of its threads. That
cannot reach a test that waits outside of Python, and it ends with the first failure of a test, before its fixtures are taken down.
Behind it, therefore, ``GRACE_S`` later, the process shows its stacks and ends, and as long after the test itself has ended, if its
fixtures have not; pytest-xdist reports a crash and goes on with another process. A soak has no limits. Processes that an ended
process has started end with it (``support/keeper.py``).
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import keeper, placements
from tests.support.mosquitto import VERSION_2_1, Mosquitto
from tests.support.node import Config, Node
from tests.support.process_marker import MARKER, guard, is_marked_by_folder, without_processes
from tests.support.schedule import RECORDED, rank, together, write_durations

StartNode = Callable[[Config], Node]
GRACE_S = 60.0  # what can be broken into is, by then
SLACK_S = 15.0  # by which that may be later: to set it costs more than most tests
END_S = 120.0  # what a process may take to end when all its tests have
_IS_ONE_OF_SEVERAL = "PYTEST_XDIST_WORKER" in os.environ
_STDERR = pytest.StashKey[int]()
_ENDS = pytest.StashKey[float]()
_SAID = "said"  # the user property of a test that has a word for the end of the run
SOAK = "soak"
PLACEMENT = "placement"
_ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--soak SECONDS``: how long each open-ended test goes on; without it they stay short. ``--seed N``: its first seed.

    ``--record-durations``: how long each file took decides on the order of the next run with several processes.
    """
    parser.addoption("--soak", type=float, default=None, metavar="SECONDS", help="give each open-ended test that many seconds")
    parser.addoption("--seed", type=int, default=None, metavar="N", help="first seed of random tests; without --soak the only one")
    parser.addoption("--record-durations", action="store_true", help=f"write how long each file took to {RECORDED.name}")
    parser.addoption("--try-package", action="store_true", help="install packages on fresh machines (scripts/package --try)")
    parser.addoption("--packages", type=Path, metavar="FOLDER", help="with --try-package: those in FOLDER, and none built")
    parser.addoption(
        "--placement",
        default=placements.ALTERNATING,
        choices=(placements.ISOLATED, placements.TOGETHER, placements.ALTERNATING),
        help="the placement of nodes whose test does not say; alternating, by the tests' names, if nothing is said",
    )
    parser.addoption("--broker", default="bascule", choices=("bascule", "mosquitto"), help="whom tests/conformance looks at")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis measures no time, since a loaded machine keeps any example waiting, and draws the same each run but in a soak."""
    # Told that it runs in CI, pytest shows the whole difference of what is not equal: for 200 payloads of 5,000 bytes it looks for
    # it for hours. Without, the first difference is shown at once.
    for name in ("CI", "BUILD_NUMBER"):
        os.environ.pop(name, None)
    config.stash[_ENDS] = 0.0
    config.stash[_STDERR] = os.dup(2)  # 2 itself is captured while a test runs
    gc.disable()  # until all is imported and collected, nothing goes
    config.addinivalue_line("markers", f"{MARKER}: the test starts processes")
    config.addinivalue_line("markers", f"{PLACEMENT}(name): of the nodes of the test, whichever the run has")
    config.addinivalue_line("markers", f"{SOAK}: the test is left to runs with --soak")
    keeper.begin()
    guard()
    slow = [HealthCheck.too_slow]
    soaks = config.getoption("--soak") is not None
    many = 200 if soaks else 50
    settings.register_profile(
        "bascule", max_examples=many, deadline=None, suppress_health_check=slow, derandomize=not soaks, print_blob=True
    )
    settings.load_profile("bascule")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The summary of random tests at the end, whether they failed or not; how long all took, where that is wanted."""
    took_s: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport):
                continue
            took_s[report.nodeid] += report.duration
            if report.when == "call":
                for name, line in report.user_properties:
                    if name == _SAID:
                        terminalreporter.write_line(str(line))
    if config.getoption("--record-durations"):
        RECORDED.write_text(write_durations(took_s), encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of ``--dist loadfile``: the files in the order in which they are collected, and each group in one process."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = together
    return scheduler


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One of several processes has the slow tests first. In a soak none is broken into, and without it those for one are left out.
    Some folders mark all that is in them.
    """
    for item in items:
        if not item.path.is_relative_to(_ROOT) or is_marked_by_folder(item.path.relative_to(_ROOT).as_posix()):
            item.add_marker(MARKER)
    if config.getoption("--soak") is not None:
        for item in items:
            item.add_marker(pytest.mark.timeout(0), append=False)  # before its own
    else:
        left = [item for item in items if item.get_closest_marker(SOAK)]
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)
    if _IS_ONE_OF_SEVERAL:
        items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Ten thousand tests and their modules stay to the end: no search for garbage looks at them."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End this process if the test does not. A test that is to start no processes cannot, and neither can what is set up for it."""
    end_after(limit_s(item) + GRACE_S, item.config)
    placements.have(placement_of(item, item.nodeid))
    with nullcontext() if item.get_closest_marker(MARKER) else without_processes(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[None]:
    """What several tests share has a placement of its own, whichever test asks for it first."""
    if fixturedef.scope == "function":
        return (yield)
    before = placements.have(placement_of(request.node, f"{request.node.nodeid}::{fixturedef.argname}"))
    try:
        return (yield)
    finally:
        placements.have(before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """The same for the end of its fixtures: a failure has called off what would have ended it, and pytest-timeout too."""
    end_after(limit_s(item) + GRACE_S, item.config)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The same for what is left to do when all tests have ended."""
    end_after(END_S, session.config)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """One of several processes waits from here on until the others have ended, too."""
    if _IS_ONE_OF_SEVERAL:
        faulthandler.cancel_dump_traceback_later()


def placement_of(node: pytest.Item | pytest.Collector, name: str) -> str:
    """The placement of what ``node`` starts under ``name``."""
    marker = node.get_closest_marker(PLACEMENT)
    return placements.choose(name, node.config.getoption("--placement"), marker.args[0] if marker else None)


def limit_s(item: pytest.Item) -> float:
    """After how many seconds pytest-timeout breaks into a test."""
    own = item.get_closest_marker("timeout")
    return float(own.args[0] if own else item.config.getini("timeout"))


def end_after(period_s: float, config: pytest.Config) -> None:
    """Show the stacks of this process and end it with 1 after ``period_s``, or within ``SLACK_S`` then, unless called again."""
    now_s = time.monotonic()
    if config.getoption("--soak") is None and not period_s <= config.stash[_ENDS] - now_s <= period_s + SLACK_S:
        config.stash[_ENDS] = now_s + period_s + SLACK_S
        faulthandler.dump_traceback_later(period_s + SLACK_S, exit=True, file=config.stash[_STDERR])


class Chances:
    """The seeds of one random test, and its word in the summary of the run."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._item: pytest.Item = request.node
        self._soak_s: float | None = request.config.getoption("--soak")
        self._first: int | None = request.config.getoption("--seed")

    def seeds(self, few: Iterable[int]) -> Iterator[int]:
        """``few`` of them; in a soak as many as fit, from ``--seed`` on or anywhere; else with ``--seed`` that one."""
        if self._soak_s is None:
            yield from few if self._first is None else (self._first,)
            return
        end_s = time.monotonic() + self._soak_s
        for seed in count(int(time.time()) if self._first is None else self._first):
            if time.monotonic() >= end_s:
                return
            yield seed

    def replay(self, seed: int) -> str:
        """The command that runs the test with that seed alone."""
        return f"scripts/test {self._item.nodeid} --seed {seed}"

    def say(self, line: str) -> None:
        """Print ``line`` at the end of the whole run."""
        self._item.user_properties.append((_SAID, line))


@pytest.fixture
def chances(request: pytest.FixtureRequest) -> Chances:
    """Seeds for a random test."""
    return Chances(request)


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the open-ended tests may take their time."""
    return request.config.getoption("--soak") is not None


@pytest.fixture(autouse=True)
def _as_loud_as_before() -> Iterator[None]:
    """A test that quietens the log quietens it for itself."""
    log = logging.getLogger("bascule")
    level = log.level
    yield
    log.setLevel(level)


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


@pytest.fixture(params=["installed", VERSION_2_1])
def mosquitto_path(request: pytest.FixtureRequest) -> str | None:
    """The mosquitto that a test is to run; None is the one that is installed. It is skipped where no other is named."""
    if request.param != VERSION_2_1:
        return None
    named = os.environ.get(VERSION_2_1)
    return named or pytest.skip(f"{VERSION_2_1} names no mosquitto 2.1")
