"""Logins that wait to be verified, taken in turn from each address. Pure.

access.logins-take-turns [alive, P5]: addresses take turns: one that floods waits for itself only. At most ``waiting_max`` logins
    wait; one more makes the newest of the address that has the most give way.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class LoginQueue(Generic[Item]):
    """First in, first out within an address; addresses in turn."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._waiting: dict[str, deque[Item]] = {}  # in the order of their turns
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, address: str, item: Item) -> Item | None:
        """Let ``item`` wait; what gives way for it, which may be ``item`` itself, or None."""
        self._waiting.setdefault(address, deque()).append(item)
        self._count += 1
        if self._count <= self._waiting_max:
            return None
        most = max(self._waiting, key=lambda each: (len(self._waiting[each]), each == address))
        return self._take(most, newest=True)

    def take(self) -> Item | None:
        """The next one; its address waits for its turn again."""
        address = next(iter(self._waiting), None)
        if address is None:
            return None
        item = self._take(address)
        if address in self._waiting:
            self._waiting[address] = self._waiting.pop(address)
        return item

    def _take(self, address: str, *, newest: bool = False) -> Item:
        waiting = self._waiting[address]
        item = waiting.pop() if newest else waiting.popleft()
        if not waiting:
            del self._waiting[address]
        self._count -= 1
        return item
