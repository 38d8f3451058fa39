"""A node's client whose answers are a test's, for commands of the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from supervisor.control.client import ControlClient

Answer = Callable[[str, dict[str, str]], Any]


class ClientDouble(ControlClient):
    """Asks ``answer`` in place of a node."""

    def __init__(self, answer: Answer) -> None:
        super().__init__("ipc://nowhere")
        self._answer = answer

    def call(self, command: str, arguments: dict[str, str] | None = None, *, timeout_s: float | None = None) -> Any:
        return self._answer(command, arguments or {})


def have_answered(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Have the command line ask ``answer``, whatever its configuration."""
    monkeypatch.setattr("supervisor.cli.node_calls.place_of", lambda config: config)
    monkeypatch.setattr("supervisor.cli.node_calls.client_of", lambda place, starting: ClientDouble(answer))
