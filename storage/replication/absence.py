"""For how long the log cannot be used: what a member does without it depends on that."""

from __future__ import annotations

from collections.abc import Callable

from storage.replication.lease import clock_s as lease_clock_s


class Absence:
    """Of the log. Whoever waits for the log in a process is handed the same one, so no wait begins anew."""

    def __init__(self, clock: Callable[[], float] = lease_clock_s) -> None:
        self._clock = clock
        self._since_s: float | None = None

    def begins(self) -> None:
        """The log could not be used; where that is known already, nothing changes."""
        if self._since_s is None:
            self._since_s = self._clock()

    def ends(self) -> None:
        """The log was used."""
        self._since_s = None

    def outlasts(self, wait_s: float | None) -> bool:
        """Whether the log has been away for ``wait_s``; None is for ever."""
        return wait_s is not None and self._since_s is not None and self._clock() - self._since_s >= wait_s
