"""A token bucket: how much may go at once, and how much each second. Pure: the time is an argument."""

from __future__ import annotations

RESUME_S = 0.05  # who waits gets at least so much of a second's worth at once: fewer, larger turns


class TokenBucket:
    """Fills with ``rate`` tokens a second up to ``burst_s`` seconds, at least 1. It may go below zero, and is paid off."""

    __slots__ = ("_burst_s", "_filled_s", "_rate", "_tokens")

    def __init__(self, rate: float, now_s: float, burst_s: float = 1.0) -> None:
        self._rate = rate
        self._burst_s = burst_s
        self._tokens = max(1.0, rate * burst_s)
        self._filled_s = now_s

    def change(self, rate: float) -> None:
        """Fill with ``rate`` from the last ``refill`` on; no more stays in it than it holds then."""
        self._rate = rate
        self._tokens = min(self._tokens, max(1.0, rate * self._burst_s))

    def refill(self, now_s: float) -> float:
        """The tokens that are there at ``now_s``."""
        if now_s > self._filled_s:
            self._tokens = min(max(1.0, self._rate * self._burst_s), self._tokens + (now_s - self._filled_s) * self._rate)
            self._filled_s = now_s
        return self._tokens

    def take(self, tokens: float) -> None:
        """Use ``tokens``, as of the last ``refill``."""
        self._tokens -= tokens

    @property
    def tokens(self) -> float:
        """Those that are left of the last ``refill``."""
        return self._tokens

    def wait_s(self) -> float:
        """Seconds from the last ``refill`` until it is worth going on; 0 if it is now."""
        if self._tokens >= 1.0:
            return 0.0
        return (max(1.0, self._rate * min(RESUME_S, self._burst_s)) - self._tokens) / self._rate
