"""Pace of batches: the next one leaves at once if nothing is under way, a moment later where commits follow each other closely.
Pure.

Each batch costs its turns, its hops and its sync, whatever it carries. A message that comes while one is being committed shows that
more is coming: then the next one leaves no sooner than ``gather_s`` after it, and carries more. A publisher that waits for each of
its acknowledgements before it publishes again sends nothing meanwhile, so it never waits.

Each turn costs too. So publishers rest, unread, while what they send would only wait: until the next batch may go, or for a moment
while one is being committed and little comes.
"""

from __future__ import annotations

from collections.abc import Callable

from wire.frames.sending_link import OVERLAPPING_ROWS_MIN

REST_S = 0.004  # at most, while a batch is being committed
RESTING_CLIENTS_MIN = 8  # what a few send meanwhile gathers in their own sockets, and is there sooner when it is read at once
RESTING_ROWS_MAX = 16  # if more came in a turn, clients stay heard: there may soon be enough for another batch


class Pace:
    """``busy``: something came while the last batch was being committed."""

    def __init__(self, gather_s: Callable[[], float]) -> None:
        self._gather_s = gather_s
        self._sent_s = float("-inf")
        self.busy = False

    def on_sent(self, now_s: float) -> None:
        """A batch is on its way."""
        self._sent_s = now_s

    def on_committed(self, *, waiting: bool) -> None:
        """All that was on its way is committed. waiting: something came meanwhile."""
        self.busy = waiting and self._gather_s() > 0

    @property
    def due_s(self) -> float:
        """The time at which the next batch may go (monotonic)."""
        return self._sent_s + self._gather_s() if self.busy else float("-inf")

    def has_gathered(self, now_s: float, rows: int, *, full: bool) -> bool:
        """Whether a batch of ``rows`` has waited long enough, or need not wait."""
        return not self.busy or rows >= OVERLAPPING_ROWS_MIN or full or now_s >= self.due_s

    def rest_until_s(self, now_s: float, *, outstanding: bool, rows: int, publishers: int) -> float | None:
        """Until when publishers are to rest from now on (monotonic), since something waits; None: they need not.

        outstanding: a batch is being committed; otherwise something waits for the next one. rows: how much came in this turn, or
        was left from the one before; publishers: how many clients there are, if any has published in it, else 0.
        """
        if not outstanding:
            return self.due_s
        if rows < RESTING_ROWS_MAX and (self.busy or publishers >= RESTING_CLIENTS_MIN):
            return now_s + REST_S
        return None
