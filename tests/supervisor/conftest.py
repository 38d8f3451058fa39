"""A supervisor in a process of its own, over children that do no work; it leaves nothing behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from supervisor.control.client import call
from supervisor.launch import environment
from supervisor.terminal import typed_commands
from tests.supervisor.settings import node_settings
from tests.support import preloaded
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S, wait_until
from wire.config_settings import NodeSettings, dump


@pytest.fixture(autouse=True)
def no_node_was_given() -> None:
    """Sentences name their commands with CONFIG: what a test before gave is not known here."""
    typed_commands.about("CONFIG")


ROOT = Path(__file__).resolve().parents[2]


class TestNode:
    """One run of the supervisor; ``options`` go to the children, after their names."""

    __test__ = False

    def __init__(self, folder: Path, settings: NodeSettings, *options: str) -> None:
        self.run_dir = Path(settings.run_dir)
        self.data_dir = Path(settings.node.data_dir)
        settings_path = folder / "settings.msgpack"
        settings_path.write_bytes(dump(settings))
        self.log_path = folder / f"log-{len(list(folder.glob('log-*')))}"
        with self.log_path.open("wb") as log:
            words, said = [str(settings_path), *options, "end"], log.fileno()
            self.process = preloaded.start("tests.supervisor.run", words, cwd=ROOT, environment=environment(), out=said, err=said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()  # the children die with it
        self.process.wait(PATIENCE_S)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every log event so far; half-written and foreign lines are left out."""
        lines = self.log_path.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def named(self, event: str, child: str | None = None) -> list[dict[str, Any]]:
        """The events of that name (of that child)."""
        return [line for line in self.events if line["event"] == event and child in (None, line.get("child"))]

    def wait_for(self, event: str, child: str | None = None, count: int = 1) -> dict[str, Any]:
        """Wait for the event number ``count`` of that name."""
        found = wait_until(
            lambda: self.named(event, child)[count - 1 : count],
            20.0,
            lambda: f"{event} {child}\n{self.log_path.read_text()[-3000:]}",
        )
        return found[0]

    def wait_ready(self) -> Self:
        """Wait until the node is ready."""
        self.wait_for("node.ready")
        return self

    def status(self) -> dict[str, Any]:
        """The answers of the control socket."""
        status: dict[str, Any] = call(self.run_dir, "status")
        return status

    def actor(self, name: str) -> dict[str, Any]:
        """One row of ``actors``."""
        return self._row("actors", name)

    def process_row(self, name: str) -> dict[str, Any]:
        """One row of ``processes``."""
        return self._row("processes", name)

    def pids(self) -> dict[str, int]:
        """The children's processes by their names."""
        return {row["name"]: row["pid"] for row in self.status()["processes"] if row["actors"]}

    def wait_process(self, name: str, **wanted: object) -> dict[str, Any]:
        """Wait until the row of process ``name`` has the ``wanted`` values."""
        self.wait_for("child.started")  # the control socket is there before the first child
        found: dict[str, Any] = {}

        def reached() -> bool:
            found.update(self.process_row(name))
            return wanted.items() <= found.items()

        wait_until(reached, 20.0, lambda: f"{wanted} in {found}\n{self.log_path.read_text()[-3000:]}")
        return found

    def _row(self, table: str, name: str) -> dict[str, Any]:
        row: dict[str, Any] = next(row for row in self.status()[table] if row["name"] == name)
        return row

    def heard(self, name: str) -> list[list[Any]]:
        """The notes of actor ``name``."""
        path = self.run_dir / f"{name}.heard"
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def wait_end(self) -> int:
        """Wait for the supervisor to end; its exit status."""
        return self.process.wait(PATIENCE_S)


StartSupervisor = Callable[..., TestNode]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartSupervisor]:
    """Starts a supervisor: ``start(option, ..., restarts_max=3)``; it ends with the test."""
    with ExitStack() as stack:

        def start_one(*options: str, lanes: int = 1, **supervision: Any) -> TestNode:
            settings = node_settings(tmp_path, bridge("cloud", lanes), **supervision)
            return stack.enter_context(TestNode(tmp_path, settings, *options))

        yield start_one


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
