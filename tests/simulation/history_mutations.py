"""Planted bugs in what is kept of settled messages."""

from __future__ import annotations

from typing import Any

from storage.engine.engine import Write
from storage.queue.history import QueueHistory
from storage.queue.ledger import HistoryRow
from storage.queue.settled_ranges import Settled


def _one_commit_late(original: Any) -> Any:
    def write(self: QueueHistory, *arguments: Any) -> None:
        noted, self._notes = self._notes, getattr(self, "_late", {})
        self._late = noted  # type: ignore[attr-defined]
        original(self, *arguments)

    return write


def _numbers_in_memory(original: Any) -> Any:
    def row(self: QueueHistory) -> HistoryRow:
        found: HistoryRow = original(self)
        return found._replace(next=found.first)

    return row


def _gone_unseen(original: Any) -> Any:
    def leave_empty(self: Settled, *span: Any) -> None:
        history, self._history = self._history, None
        original(self, *span)
        self._history = history

    return leave_empty


def _noted_as_told(original: Any) -> Any:
    def leave(self: Settled, by: str, outcome: str, start: int, stop: int) -> Any:
        history, self._history = self._history, None
        gaps = original(self, by, outcome, start, stop)
        self._history = history
        if history is not None:
            history.note(by, outcome, ((start, stop),))
        return gaps

    return leave


def _cuts_what_lives(original: Any) -> Any:
    def cut(self: QueueHistory, live_from: int, live_bytes: int, write: Write, *, below: int = 0) -> Any:
        self._old_to = live_from + 20
        return original(self, live_from + 20, live_bytes, write, below=below)

    return cut


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    (
        "queue.history-without-gap/one-commit-late",
        "a settlement goes into the commit after that of its row",
        ((QueueHistory, "write", _one_commit_late),),
    ),
    (
        "queue.history-without-gap/numbers-in-memory",
        "the next number of a settlement is not in the row",
        ((QueueHistory, "row", _numbers_in_memory),),
    ),
    (
        "queue.history-without-gap/lost-qos0-unseen",
        "QoS 0 that went with the memory has no settlement",
        ((Settled, "leave_empty", _gone_unseen),),
    ),
    (
        "queue.history-without-gap/noted-again",
        "what was settled is noted again when it is told again",
        ((Settled, "leave", _noted_as_told),),
    ),
    (
        "queue.history-leaves-live-alone/cut-to-the-tail",
        "the history is cut into what lives",
        ((QueueHistory, "cut", _cuts_what_lives),),
    ),
)
