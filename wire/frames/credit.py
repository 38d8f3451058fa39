"""How much a receiver lets its giver hand out: totals that run ahead of what has passed by a fixed amount in hand. Pure."""

from __future__ import annotations

_GRANT_FRACTION = 4


class CreditGiver:
    """Totals since ``clear``; a new grant is worth a frame when a quarter of what is in hand was used."""

    __slots__ = ("_bytes_in_hand", "_granted", "_messages_in_hand")

    def __init__(self, *, messages_in_hand: int, bytes_in_hand: int) -> None:
        self._messages_in_hand = messages_in_hand
        self._bytes_in_hand = bytes_in_hand
        self._granted = (0, 0)

    def clear(self) -> None:
        """Nothing was granted yet: the lane is opened anew."""
        self._granted = (0, 0)

    def grant(self, passed_messages: int, passed_bytes: int) -> tuple[int, int] | None:
        """New totals (messages, bytes), once they have grown enough."""
        messages = passed_messages + self._messages_in_hand
        size_bytes = passed_bytes + self._bytes_in_hand
        if (
            messages - self._granted[0] < self._messages_in_hand // _GRANT_FRACTION
            and size_bytes - self._granted[1] < self._bytes_in_hand // _GRANT_FRACTION
        ):
            return None
        self._granted = (messages, size_bytes)
        return self._granted
