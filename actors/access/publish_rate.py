"""How fast one client may publish: token buckets of messages and of bytes a second. Pure: the time is an argument.

access.rate-per-second [alive, P6]: in any period of t seconds a client gets at most (1 + t) seconds' worth of messages in, and (1 +
    t) seconds' worth of bytes plus one packet: the packet that goes beyond what is left is still taken, and paid off before the
    next. Nothing is dropped: who has nothing left is not read until ``wait_s`` has passed.
"""

from __future__ import annotations

from math import inf

from wire.token_bucket import TokenBucket


class PublishRate:
    """The two limits of one client; None is unlimited."""

    __slots__ = ("_bytes", "_messages")

    def __init__(self, messages_per_s: float | None, bytes_per_s: float | None, now_s: float) -> None:
        self._messages = None if messages_per_s is None else TokenBucket(messages_per_s, now_s)
        self._bytes = None if bytes_per_s is None else TokenBucket(bytes_per_s, now_s)

    def allowance(self, now_s: float) -> tuple[float, float]:
        """(messages, bytes) that may be taken at ``now_s``: whole packets as long as both are above zero; inf is unlimited."""
        messages = inf if self._messages is None else self._messages.refill(now_s)
        size = inf if self._bytes is None else self._bytes.refill(now_s)
        return (messages // 1 if messages >= 1 else 0.0), (size if size >= 1 else 0.0)

    def take(self, messages: int, size_bytes: int) -> None:
        """Count what was taken since ``allowance``."""
        if self._messages is not None:
            self._messages.take(messages)
        if self._bytes is not None:
            self._bytes.take(size_bytes)

    def wait_s(self) -> float:
        """Seconds until it is worth going on; 0 while there is something left."""
        waits = [bucket.wait_s() for bucket in (self._messages, self._bytes) if bucket is not None]
        return max(waits, default=0.0)
