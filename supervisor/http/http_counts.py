"""Counters of the HTTP interface: answers by class of status, and refusals by reason. For ``bascule status``."""

from __future__ import annotations

from collections import Counter

from wire.status.node_status import HttpFigures


class HttpCounts:
    """Written by the thread that serves, read by the one that reports; each count is one number, so neither waits for the other."""

    def __init__(self) -> None:
        self.connections = 0
        self.accepted = 0
        self.answers: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def on_accepted(self) -> None:
        """The system handed over a connection."""
        self.accepted += 1

    def on_connections(self, open_now: int) -> None:
        """So many connections are open."""
        self.connections = open_now

    def on_answered(self, status: int) -> None:
        """An answer with ``status`` was begun."""
        self.answers[f"{status // 100}xx"] += 1

    def refuse(self, why: str) -> None:
        """A request, or a connection, was refused."""
        self.refused[why] += 1

    def figures(self, *, error: str, bind: str, tls: bool) -> HttpFigures:
        """For ``status``, with what is known of the listening socket."""
        return HttpFigures(
            error=error,
            bind=bind,
            tls=tls,
            connections=self.connections,
            accepted=self.accepted,
            answers=dict(self.answers.copy()),
            refused=dict(self.refused.copy()),
        )
