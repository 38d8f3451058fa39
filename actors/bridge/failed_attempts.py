"""Which failed attempts to connect become events: the first of each cause, then ever fewer, each with how many it stands for. Pure.

The log of every attempt, and the wait before the next, are ``actors/bridge/remote_link.py``'s.
"""

from __future__ import annotations

CAUSE_MAX = 500  # characters of a cause, which names every address that was tried
_FIRST_PERIOD_S = 60.0  # of a cause that stays the same; twice as long after each time it was told
_PERIOD_MAX_S = 3600.0
_ANOTHER_PERIOD_S = 10.0  # at least, between two causes


class FailedAttempts:
    """The failed attempts of one link since it was up the last time.

    total: how many there were.
    """

    def __init__(self) -> None:
        self.total = 0
        self._told = 0
        self._cause = ""
        self._reported_s = float("-inf")
        self._period_s = _FIRST_PERIOD_S

    def on_failed(self, cause: str, now_s: float) -> int:
        """An attempt failed for ``cause``: for how many an event is to stand now, itself included; 0 for none yet."""
        self.total += 1
        another = cause[:CAUSE_MAX] != self._cause
        if now_s - self._reported_s < (_ANOTHER_PERIOD_S if another else self._period_s):
            return 0
        self._period_s = _FIRST_PERIOD_S if another else min(2 * self._period_s, _PERIOD_MAX_S)
        self._cause = cause[:CAUSE_MAX]
        self._reported_s = now_s
        count, self._told = self.total - self._told, self.total
        return count

    def on_connected(self) -> int:
        """An attempt succeeded: how many had failed before it. The next failure is told as a first one, but not sooner."""
        total, self.total, self._told = self.total, 0, 0
        self._cause = ""
        return total
