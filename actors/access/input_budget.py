"""The input of all local clients that is not taken yet: packets in the making, and packets that wait their turn. Pure.

access.input-bounded [P5]: what is kept is at most ``bytes_max`` once those clients that ``over`` names have gone; the one that
    holds most goes first. The share of a client is given back when its input is taken, or its connection closed.
"""

from __future__ import annotations


class InputBudget:
    """Counts by the connections' numbers. Bytes that TLS and WebSocket keep of an incomplete frame are not in it."""

    __slots__ = ("_bytes_max", "_held", "held_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: dict[int, int] = {}
        self.held_bytes = 0

    def limit(self, bytes_max: int) -> None:
        """All together may hold so much from now on."""
        self._bytes_max = bytes_max

    def hold(self, number: int, size_bytes: int) -> bool:
        """Connection ``number`` holds so much now; whether all together hold too much."""
        self.held_bytes += size_bytes - self._held.pop(number, 0)
        if size_bytes:
            self._held[number] = size_bytes
        return self.held_bytes > self._bytes_max

    def over(self) -> int | None:
        """The connection that is to be closed, which then holds nothing; None where there is room."""
        if self.held_bytes <= self._bytes_max:
            return None
        return max(self._held, key=self._held.__getitem__)
