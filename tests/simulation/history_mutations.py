"""Planted bugs in what is kept of settled messages."""

from __future__ import annotations

from typing import Any

from storage.engine import Write
from storage.history import QueueHistory
from storage.ledger import HistoryRow
from storage.queue import Queue


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
    def note_gone(self: Queue, gaps: Any) -> None:
        return None

    return note_gone


def _noted_as_told(original: Any) -> Any:
    def note(self: Queue, by: str, outcome: str, start: int, stop: int) -> None:
        assert self.history is not None
        self.history.note(by, outcome, ((start, stop),))

    return note


def _cuts_what_lives(original: Any) -> Any:
    def cut_history(self: Queue, write: Write, *, below: int = 0) -> Any:
        assert self.history is not None
        self.history._old_to = self.tail
        self.changed = True
        return self.history.cut(self.tail, self._committed_bytes, write, below=below)

    return cut_history


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    (
        "H1-settlement-one-commit-late",
        "a settlement goes into the commit after that of its row",
        ((QueueHistory, "write", _one_commit_late),),
    ),
    ("H1-numbers-in-memory", "the next number of a settlement is not in the row", ((QueueHistory, "row", _numbers_in_memory),)),
    ("H1-lost-qos-0-unseen", "QoS 0 that went with the memory has no settlement", ((Queue, "_note_gone", _gone_unseen),)),
    ("H1-settled-twice", "what was settled is noted again when it is told again", ((Queue, "_note", _noted_as_told),)),
    ("H3-cuts-what-lives", "the history is cut up to the tail", ((Queue, "cut_history", _cuts_what_lives),)),
)
