"""Messages that were the only ones unheard of when their connection to the remote ended.

A remote that closes on a message and a link that breaks under it look alike. After ``FIRST`` such ends others may have left before
it (exchange.given-up-only-when-proven).
"""

from __future__ import annotations

from collections import Counter

from wire.exchange.quarantine import FIRST


class LoneMessages:
    """Of each lane, what its connection carries; and at how many ends a message was alone."""

    def __init__(self) -> None:
        self._carried: dict[str, tuple[object, set[bytes]]] = {}
        self._ends: Counter[bytes] = Counter()

    def written(self, client_id: str, connection: object, payload: bytes) -> None:
        """A message that has not arrived yet is written. Another ``connection`` than before: the former one has ended."""
        former, unheard = self._carried.get(client_id, (connection, set()))
        if former is not connection:
            if len(unheard) == 1:
                self._ends.update(unheard)
            unheard = set()
        self._carried[client_id] = connection, unheard | {payload}

    def heard(self, client_id: str, payload: bytes) -> None:
        """The remote takes it, or refuses it by a reason code."""
        _, unheard = self._carried.get(client_id, (None, set()))
        unheard.discard(payload)

    def may_be_passed(self, payload: bytes) -> bool:
        """Whether others may have left before it."""
        return self._ends[payload] >= FIRST
