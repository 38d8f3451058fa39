"""Collects fresh figures for status requests: one collection at a time, shared by all who asked before it began. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Asker = TypeVar("Asker")

ASKERS_MAX = 100


class Collection(Generic[Asker]):
    """The askers, and the children that have not reported yet. A question that comes while a collection runs is served by the next
    one."""

    def __init__(self) -> None:
        self._served: list[Asker] = []
        self._waiting: list[Asker] = []
        self._unreported: set[str] = set()
        self._running = False
        self.number = 0  # of the collection that runs, or of the last one

    def ask(self, asker: Asker) -> bool:
        """Add ``asker``; False if too many wait already."""
        if len(self._served) + len(self._waiting) >= ASKERS_MAX:
            return False
        self._waiting.append(asker)
        return True

    def begin(self, names: Iterable[str]) -> bool:
        """Begin a collection from ``names`` under the next ``number``, if somebody waits and none runs; whether it began."""
        if self._running or not self._waiting:
            return False
        self._served, self._waiting = self._waiting, []
        self._unreported = set(names)
        self._running = True
        self.number += 1
        return True

    def on_reported(self, name: str, number: int) -> None:
        """``name`` has answered collection ``number``."""
        if number == self.number:
            self._unreported.discard(name)

    def on_gone(self, name: str) -> None:
        """``name`` has ended and will not answer."""
        self._unreported.discard(name)

    @property
    def complete(self) -> bool:
        """Whether a collection runs that waits for nobody."""
        return self._running and not self._unreported

    def end(self) -> list[Asker]:
        """End the collection, complete or not: whom to answer."""
        served, self._served = self._served, []
        self._running = False
        return served
