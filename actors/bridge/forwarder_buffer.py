"""Tier 2: what a Forwarder was handed and its Connection cannot take yet, bounded, in order. Pure.

Hand-outs leave in the order in which they came (exchange.publish-in-order).

bridge.credit-within-limits [P5]: credit towards the store never exceeds what was passed on plus the limits, so Tier 2 holds at most
    its limits and one chunk. Credit is withdrawn whole, by totals of nothing, and given again by the next grant, so far as there is
    room.
"""

from __future__ import annotations

from collections import deque

from wire.frames.lanes import HandOut

_GRANT_FRACTION = 4


class ForwarderBuffer:
    """The memory of one lane between the store and the remote, and the credit on both of its sides. Totals count from ``clear``."""

    def __init__(self, *, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self.clear()

    def clear(self) -> None:
        """Forget everything: the lane is opened anew, and the store hands out from the head again."""
        self._held: deque[HandOut] = deque()
        self.messages = 0
        self.size_bytes = 0
        self._passed_messages = 0
        self._passed_bytes = 0
        self._reached_messages = 0
        self._reached_bytes = 0
        self._granted = (0, 0)
        self._credit = (0, 0)

    def hold(self, handout: HandOut) -> None:
        """Take what the store handed out."""
        self._held.append(handout)
        self.messages += handout.count
        self.size_bytes += handout.size_bytes

    def credit(self, messages: int, size_bytes: int) -> None:
        """The Connection takes up to these totals."""
        self._credit = (messages, size_bytes)

    def take(self) -> HandOut | None:
        """The next hand-out to pass on, if there is one and the Connection's credit is not used up."""
        if not self._held or self._reached_messages >= self._credit[0] or self._reached_bytes >= self._credit[1]:
            return None
        handout = self._held.popleft()
        self.messages -= handout.count
        self.size_bytes -= handout.size_bytes
        self._passed_messages += handout.count
        self._passed_bytes += handout.size_bytes
        self._reached_messages += handout.count
        self._reached_bytes += handout.size_bytes
        return handout

    def kept_back(self, messages: int, size_bytes: int) -> None:
        """So much of what was taken never reaches the Connection, so it uses none of its credit."""
        self._reached_messages -= messages
        self._reached_bytes -= size_bytes

    def grant(self) -> tuple[int, int] | None:
        """New totals for the store's credit, once they have grown enough to be worth a frame."""
        messages = self._passed_messages + self._messages_max
        size_bytes = self._passed_bytes + self._bytes_max
        if (
            messages - self._granted[0] < self._messages_max // _GRANT_FRACTION
            and size_bytes - self._granted[1] < self._bytes_max // _GRANT_FRACTION
        ):
            return None
        self._granted = (messages, size_bytes)
        return self._granted

    def withdraw(self) -> tuple[int, int] | None:
        """Totals of nothing, for the store to stop at what it has handed out; None if nothing was granted."""
        if self._granted == (0, 0):
            return None
        self._granted = (0, 0)
        return self._granted
