"""Answers to questions about files that a node goes by: who may do what, and a bridge's file of its own.

Both are read in a process aside (``python -m supervisor.reload.file_answers``), so that no turn of the supervisor waits for a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from actors.process.actor import PolledActor
from supervisor.config.loading_aside import Loading
from supervisor.control.control_socket import Asker, ControlError, Request, encode_error, encode_result
from supervisor.reload.source import Source
from supervisor.workers import Worker, words
from wire.config_settings import NodeSettings, dump
from wire.errors import BasculeError, ConfigError
from wire.status.refusals import Refusal

COMMANDS = ("access", "bridge.show")
ASKERS_MAX = 8

_ANSWERS = "supervisor.reload.file_answers"

Answer = Callable[[Asker, bytes], None]


class FileQuestions:
    """One after the other."""

    def __init__(self, host: PolledActor, source: Source, settings: Callable[[], NodeSettings], answer: Answer) -> None:
        """settings: those that hold now. answer: answers who asked."""
        self._source = source
        self._settings = settings
        self._answer = answer
        self._worker = Worker(host, "files")
        self._asking = 0

    def ask(self, whom: Asker, request: Request) -> None:
        """Answer ``request`` to ``whom``, once the files are read.

        Raises:
            ControlError: too many wait.
        """
        if self._asking >= ASKERS_MAX:
            raise ControlError(Refusal.BUSY, "too many are waiting for files to be read", request.request_id)
        self._asking += 1
        is_about_bridge = request.command == "bridge.show"
        given = json.dumps(request.arguments["name"]).encode() if is_about_bridge else dump(self._settings())

        def read() -> bytes:
            return Loading(request.command, self._source.path, given=given, module=_ANSWERS).wait()

        self._worker.do(read, partial(self._told, whom, request), partial(self._failed, whom, request))

    def _told(self, whom: Asker, request: Request, told: bytes) -> None:
        self._asking -= 1
        self._answer(whom, encode_result(request.request_id, json.loads(told)))

    def _failed(self, whom: Asker, request: Request, error: OSError | BasculeError) -> None:
        self._asking -= 1
        kind, text = Refusal.UNAVAILABLE, words(error)
        if isinstance(error, ConfigError):
            kind, text = Refusal.UNKNOWN_BRIDGE, "; ".join(error.problems)
        self._answer(whom, encode_error(ControlError(kind, text, request.request_id)))
